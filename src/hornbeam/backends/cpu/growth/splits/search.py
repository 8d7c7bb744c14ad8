"""The best splits of some nodes, from their slots: the single operation `find_splits` of an engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.contexts import Contexts, enter_context
from hornbeam.backends.cpu.growth.splits.rules import copy_split, enter_node
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.host.kernels import borrowed, kernel
from hornbeam.backends.cpu.host.operations import run
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


@kernel
def find_kernel(t, calls, batch, cuts, start, stop, rules, search, found):
    """Find the best split of the (node, part) pairs start:stop; part p has the features cuts[p]:cuts[p + 1].

    t       thread whose call is used
    calls   CALL (n_threads,)          see operations.py
    rules   RULES (1,)                 in
    search  the operation
    found   SPLIT (n_nodes, n_parts)   out
    """
    call, batch, n_parts = calls[t], borrowed(batch), len(cuts) - 1
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


def find_splits(
    space: Space, calls: NDArray[np.void], batch: Batch, rules: NDArray[np.void], search: NDArray[np.int64]
) -> NDArray[np.void]:
    """See engine.Engine.find_splits; arguments as in find_kernel."""
    n_nodes, tuning = len(batch.slots), space.tuning
    if n_nodes == 0 or len(space.numbers) == 0:
        return no_splits(n_nodes)
    in_context = len(batch.contexts.score) > 0
    per_thread = tuning.context_bins_per_thread if in_context else tuning.searched_bins_per_thread
    n_bins, n_threads = int(space.offsets[space.n_numeric]), space.n_threads
    work = n_nodes * (n_bins / per_thread + (space.n_bins - n_bins) / tuning.level_bins_per_thread)
    n_threads = max(1, min(n_threads, int(work)))
    n_parts = max(1, min(-(-2 * n_threads // n_nodes), space.n_numeric)) if n_threads > 1 else 1
    # categorical features are searched together, after the numbers: a node has one set
    cuts = np.searchsorted(space.features.offsets, np.arange(n_parts + 1) * n_bins // n_parts).astype(np.int64)
    cuts[-1] = len(space.numbers)
    found, n_pairs = np.empty((n_nodes, n_parts), SPLIT), n_nodes * n_parts
    run_threads(
        lambda t: find_kernel(
            t, calls, batch, cuts, n_pairs * t // n_threads, n_pairs * (t + 1) // n_threads, rules, search, found
        ),
        n_threads,
    )  # fmt: skip
    best = np.argmax(found["gain"], axis=1) if n_parts > 1 else np.zeros(n_nodes, np.intp)
    return found[np.arange(n_nodes), best]  # of equals the first part's: that of the lower feature
