"""The best splits of some nodes, from their slots: the single operation `find_splits` of an engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.contexts import Contexts, enter_context
from hornbeam.backends.cpu.growth.splits.rules import copy_split, enter_node
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import run
from hornbeam.backends.cpu.host.team import call_helpers, run_parts
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.core.dtypes import SPLIT
from hornbeam.trees.splitting import no_splits


class Batch(NamedTuple):
    """Nodes whose splits are looked for.

    begin, end         int64 (n_nodes,)
    depth              int32 (n_nodes,)
    gradient, hessian  int64 (n_nodes,)   fixed-point sums
    slots              int32 (n_nodes,)
    contexts           of the nodes; none: they have none
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int32]
    gradient: NDArray[np.int64]
    hessian: NDArray[np.int64]
    slots: NDArray[np.int32]
    contexts: Contexts


@inner_kernel
def find_pairs(t, calls, batch, cuts, start, stop, rules, search, found):
    """See find_kernel."""
    call, n_parts = calls[t], len(cuts) - 1
    for pair in range(start, stop):
        i, part = pair // n_parts, pair % n_parts
        enter_node(
            call, batch.begin[i], batch.end[i], batch.depth[i], batch.gradient[i], batch.hessian[i], rules[0]
        )  # fmt: skip
        if len(batch.contexts.score) > 0:
            enter_context(call, batch.contexts, i)
        call.part, call.first, call.last, call.set_number = 0, cuts[part], cuts[part + 1], i
        call.slot, call.less = batch.slots[i], -1
        run(search, t)
        copy_split(call.split, found[i, part])


@kernel
def find_kernel(t, calls, batch, cuts, start, stop, rules, search, found):
    """Find the best split of the (node, part) pairs start:stop; part p has the features cuts[p]:cuts[p + 1].

    t       thread whose call is used
    calls   CALL (n_threads,)          see operations.py
    rules   RULES (1,)                 in
    search  the operation
    found   SPLIT (n_nodes, n_parts)   out
    """
    find_pairs(t, calls, batch, cuts, start, stop, rules, search, found)


@kernel
def find_in_team(t, crew, calls, batch, cuts, rules, search, found):
    """Find the best splits, each thread of a team those of some pairs (host/team.py); else as find_kernel."""
    call_helpers(t, crew, (calls, batch, cuts, rules, search, found))
    n_pairs, size = found.size, crew.size
    find_pairs(
        t, calls, batch, cuts, n_pairs * t // size, n_pairs * (t + 1) // size, rules, search, found
    )  # fmt: skip


def find_splits(
    space: Space,
    calls: NDArray[np.void],
    batch: Batch,
    rules: NDArray[np.void],
    search: NDArray[np.int64],
    in_team: bool = False,
) -> NDArray[np.void]:
    """See engine.Engine.find_splits; arguments as in find_kernel.

    in_team  whether a team of the space's threads shares the work: that is quicker where it comes again and again
    """
    n_nodes, tuning = len(batch.slots), space.tuning
    if n_nodes == 0 or len(space.numbers) == 0:
        return no_splits(n_nodes)
    in_context = len(batch.contexts.score) > 0
    per_thread = tuning.searched_bins_in_team if in_team else tuning.searched_bins_per_thread
    per_thread = min(per_thread, tuning.context_bins_per_thread) if in_context else per_thread
    n_bins, n_threads = int(space.offsets[space.n_numeric]), space.n_threads
    work = n_nodes * (n_bins / per_thread + (space.n_bins - n_bins) / tuning.level_bins_per_thread)
    n_threads = max(1, min(n_threads, int(work)))
    n_parts = max(1, min(-(-2 * n_threads // n_nodes), space.n_numeric)) if n_threads > 1 else 1
    # categorical features are searched together, after the numbers: a node has one set
    cuts = np.searchsorted(space.features.offsets, np.arange(n_parts + 1) * n_bins // n_parts).astype(np.int64)
    cuts[-1] = len(space.numbers)
    found, n_pairs = np.empty((n_nodes, n_parts), SPLIT), n_nodes * n_parts
    if in_team:
        run_parts(find_in_team, n_threads, calls, batch, cuts, rules, search, found)
    else:
        ends = [n_pairs * t // n_threads for t in range(n_threads + 1)]
        run_threads(
            lambda t: find_kernel(t, calls, batch, cuts, ends[t], ends[t + 1], rules, search, found), n_threads
        )  # fmt: skip
    best = np.argmax(found["gain"], axis=1) if n_parts > 1 else np.zeros(n_nodes, np.intp)
    return found[np.arange(n_nodes), best]  # of equals the first part's: that of the lower feature
