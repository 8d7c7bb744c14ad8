"""The best splits of some nodes, from their slots: the single operation `find_splits`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.contexts import Contexts, node_in_context, scan_in_context
from hornbeam.backends.cpu.growth.splits.levels import Categories, search_categories
from hornbeam.backends.cpu.growth.splits.pairs import scratch_of, search_pairs
from hornbeam.backends.cpu.growth.splits.rules import Rules, plain_node
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.host.kernels import borrowed, inner_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.core.dtypes import SPLIT
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, no_splits


class Batch(NamedTuple):
    """Nodes whose splits are looked for.

    begin, end         int64 (n_nodes,)
    depth              int32 (n_nodes,)
    gradient, hessian  int64 (n_nodes,)                   fixed-point sums
    slots              int32 (n_nodes,)
    histograms         int64 (n_slots, n_total_bins, 2)
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int32]
    gradient: NDArray[np.int64]
    hessian: NDArray[np.int64]
    slots: NDArray[np.int32]
    histograms: NDArray[np.int64]


@inner_kernel
def _find(t, rows, batch, cuts, start, stop, features, contexts, rules, scratch, categories, found):
    """See find_kernel; a function of its own, to which contexts and categories may be None."""
    n_parts, n_numeric = len(cuts) - 1, np.int64(len(features.has_missing))
    for pair in range(start, stop):
        i, part = np.int64(pair // n_parts), pair % n_parts
        f0, f1, split, histogram = cuts[part], cuts[part + 1], found[i, part], batch.histograms[batch.slots[i]]
        begin, end, depth, g, h = batch.begin[i], batch.end[i], batch.depth[i], batch.gradient[i], batch.hessian[i]
        if contexts is None:
            node = plain_node(begin, end, depth, g, h, rules)
            search_pairs(t, rows, histogram, f0, f1, features, node, rules, scratch, categories, i, split)
        else:
            node = node_in_context(contexts, i, begin, end, depth, g, h)
            last, own, counts = min(f1, n_numeric), scratch_of(scratch, t), contexts.counts[t]
            scan_in_context(rows, histogram, f0, last, features, contexts, i, node, rules, own, counts, split)
            if categories is not None:
                search_categories(
                    t, rows, histogram[categories.first_bin :], np.int64(0), max(f1 - n_numeric, 0), contexts.mask[i],
                    node, rules, categories, categories.first_set + i, split,
                )  # fmt: skip


@kernel
def find_kernel(t, rows, batch, cuts, start, stop, features, contexts, rules, scratch, categories, found):
    """Find the best split of the (node, part) pairs start:stop; part p has the features cuts[p]:cuts[p + 1].

    t           thread whose scratch memory is used
    contexts    see contexts.Contexts; None: nodes have none
    scratch     see pairs.Scratch, of all threads
    categories  see levels.Categories; None: no feature is categorical
    found       SPLIT (n_nodes, n_parts)   out
    """
    _find(
        t, borrowed(rows), borrowed(batch), cuts, start, stop, borrowed(features), borrowed(contexts), rules,
        borrowed(scratch), borrowed(categories), found,
    )  # fmt: skip


def find_splits(
    rows: Any,
    space: Space,
    nodes: tuple[Segments, NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]],
    rules: Rules,
    categories: Categories | None,
    context: NodeContext | None,
    mask: NDArray[np.uint32],
) -> NDArray[np.void]:
    """See engine.Engine.find_splits.

    rows   of the tree, see operations.py
    nodes  rows, gradients, hessians and slots of the nodes, and all histograms
    mask   features that the tree may use; empty: all
    """
    segments, gradient, hessian, slots, histograms = nodes
    batch = Batch(segments.begin, segments.end, segments.depth, gradient, hessian, slots, histograms)
    n_nodes, tuning = len(slots), space.tuning
    if n_nodes == 0 or len(space.numbers) == 0:
        return no_splits(n_nodes)
    per_thread = tuning.searched_bins_per_thread if context is None else tuning.context_bins_per_thread
    n_bins, n_threads = int(space.offsets[space.n_numeric]), space.n_threads
    work = n_nodes * (n_bins / per_thread + (space.n_bins - n_bins) / tuning.level_bins_per_thread)
    n_threads = max(1, min(n_threads, int(work)))
    n_parts = max(1, min(-(-2 * n_threads // n_nodes), space.n_numeric)) if n_threads > 1 else 1
    # categorical features are searched together, after the numbers: a node has one set
    cuts = np.searchsorted(space.features.offsets, np.arange(n_parts + 1) * n_bins // n_parts).astype(np.int64)
    cuts[-1] = len(space.numbers)
    contexts = None
    if context is not None:
        contexts = Contexts.of(context, space.numbers, mask, n_threads, space.n_bins if rules.path_smooth > 0.0 else 0)
    found, n_pairs = np.empty((n_nodes, n_parts), SPLIT), n_nodes * n_parts
    run_threads(
        lambda t: find_kernel(
            t, rows, batch, cuts, n_pairs * t // n_threads, n_pairs * (t + 1) // n_threads, space.features, contexts,
            rules, space.scratch, categories, found,
        ),
        n_threads,
    )  # fmt: skip
    best = np.argmax(found["gain"], axis=1) if n_parts > 1 else np.zeros(n_nodes, np.intp)
    return found[np.arange(n_nodes), best]  # of equals the first part's: that of the lower feature
