"""A whole tree in one kernel, for data so small that handing over a round costs as much as the round.

One thread splits the best node, then the best of what there is, until the tree is full: exactly the growth that
frontier.one_at_a_time replays, with nothing expanded in vain. Histograms are running sums of 32 bits, see
prefix_split.py, which also says when a tree's sums are small enough.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.histogram import HistogramBuilder, add_counters
from hornbeam.backends.cpu.partition import as_words, move_rows
from hornbeam.backends.cpu.prefix_split import (
    LARGEST_GRADIENT_SUM,
    LARGEST_HESSIAN_SUM,
    accumulate,
    choose_split,
    score_features,
)
from hornbeam.backends.cpu.quantize import Rounded
from hornbeam.backends.cpu.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.split import NO_COUNTS, SplitFinder
from hornbeam.dtypes import NODE
from hornbeam.frontier import GrowthLimits
from hornbeam.splitting import SplitRules

MOST_LEAVES = 1024
"""The best node is found by looking at all of them."""

ROUNDS_COST = 2_500_000
"""Nanoseconds that rounds cost a tree besides the work that threads share."""

ROUNDS_WORK = 1.4
"""How much more there is to do in rounds, in sums of 64 bits, on the average of 20 to 100 features."""

ROW, UPDATE, BIN = 4, 1, 5
"""Rough cost of moving a row, of a histogram update, and of a bin of a node, in nanoseconds."""


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sum_rows(  # type: ignore[no-untyped-def]
    bins, records, begin, end, gather, blocks, offsets, places, counters, gradient, hessian
):
    """Sum the rows of one node into running sums.

    counters           int64 (>= bins of a block,)             scratch
    gradient, hessian  int32, uint32 (n_total_bins,)           out
    """
    for block in range(len(blocks) - 1):
        f0, f1 = blocks[block], blocks[block + 1]
        base = np.int64(offsets[f0])
        counters[: np.int64(offsets[f1]) - base] = 0
        add_counters(bins, records, begin, end, gather, f0, f1, places, counters)
        for f in range(f0, f1):
            first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
            accumulate(counters[first - base : last - base], gradient[first:last], hessian[first:last])


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def best_open(nodes, n_nodes, depthwise):  # type: ignore[no-untyped-def]
    """Return the node to split next, or -1: see frontier.one_at_a_time. Nodes are numbered as they are made."""
    best = -1
    for node in range(n_nodes):
        this = nodes[node]
        if this.left >= 0 or this.split.gain == -np.inf:
            continue
        if (
            best < 0
            or (depthwise and this.depth < nodes[best].depth)
            or ((not depthwise or this.depth == nodes[best].depth) and this.split.gain > nodes[best].split.gain)
        ):
            best = node
    return best


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def tree_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, words, words_even, words_odd, n_value_bins, blocks, offsets, places,
    has_missing, no_counts, units, rules, bounds, n_leaves, max_depth, depthwise, gradients, hessians, free, counters,
    counts, scores, bits, upper, upper_bits, nodes,
):  # fmt: skip
    """Grow a tree from its root, nodes[0], whose rows, sums and depth are given; returns the number of nodes.

    gradients, hessians  int32, uint32 (n_slots, n_total_bins)  scratch  running sums of the nodes
    free                 int64 (n_slots,)                       scratch  slots that are not in use, the last one first
    counters             int64 (>= bins of a block,)            scratch
    counts               int64 (most bins of a feature,)        scratch
    scores, bits         float32 (2, n_total_bins), its memory  scratch
    upper, upper_bits    float32 (n_used,), its memory          scratch
    nodes                NODE (2 * n_leaves - 1,)               in out
    """
    min_data = rules[4]
    no_g, no_h = gradients[0, :0], hessians[0, :0]
    n_free = len(free) - 1
    for slot in range(n_free):
        free[slot] = n_free - slot
    root = nodes[0]
    root.split.gain = -np.inf
    root.left = -1
    root_bins = bins_at(bins, bins_even, bins_odd, gather, root.depth)
    root_records = records_at(even, odd, root.depth)
    if root.end - root.begin < 2 * min_data or root.hessian <= 1 or root.depth >= max_depth or len(has_missing) == 0:
        return 1
    root.slot = 0
    sum_rows(
        root_bins, root_records, root.begin, root.end, gather, blocks, offsets, places, counters, gradients[0],
        hessians[0],
    )  # fmt: skip
    score_features(
        gradients[0], hessians[0], no_g, no_h, root.gradient, root.hessian, offsets, has_missing, units, rules, bounds,
        scores, bits, upper_bits,
    )  # fmt: skip
    choose_split(
        root_bins, root_records, gather, gradients[0], hessians[0], root.gradient, root.hessian, root.begin, root.end,
        offsets, has_missing, units, rules, bounds, scores, upper, counts, no_counts, root.split,
    )  # fmt: skip
    n_nodes = 1
    for n_splits in range(1, n_leaves):
        number = best_open(nodes, n_nodes, depthwise)
        if number < 0:
            break
        node, left, right = nodes[number], nodes[n_nodes], nodes[n_nodes + 1]
        split, depth = node.split, np.int64(node.depth)
        out_records = records_at(even, odd, depth + 1)
        rows_left = move_rows(
            bins_at(bins, bins_even, bins_odd, gather, depth), records_at(even, odd, depth),
            bins_at(words, words_even, words_odd, gather, depth), out_records,
            bins_at(words, words_even, words_odd, gather, depth + 1), gather, split.feature, split.bin,
            split.missing_left, n_value_bins[split.feature], node.begin, node.end, node.begin, node.end - 1, -1,
        )  # fmt: skip
        node.left = n_nodes
        n_nodes += 2
        for child in (left, right):
            child.depth, child.parent, child.left, child.slot = depth + 1, number, -1, -1
            child.split.gain = -np.inf
        left.begin, left.end = node.begin, node.begin + rows_left
        right.begin, right.end = left.end, node.end
        left.gradient, left.hessian = split.left_gradient, split.left_hessian
        right.gradient, right.hessian = node.gradient - split.left_gradient, node.hessian - split.left_hessian
        left_small = left.end - left.begin <= right.end - right.begin
        small, large = (left, right) if left_small else (right, left)
        may_grow = depth + 1 < max_depth and n_splits < n_leaves - 1
        small_wanted = may_grow and small.end - small.begin >= 2 * min_data and small.hessian > 1
        large_wanted = may_grow and large.end - large.begin >= 2 * min_data and large.hessian > 1
        kept = np.int64(node.slot)
        if not (small_wanted or large_wanted):
            free[n_free] = kept
            n_free += 1
            continue
        n_free -= 1
        spare = free[n_free]
        children = bins_at(bins, bins_even, bins_odd, gather, depth + 1)
        small_g, small_h = gradients[spare], hessians[spare]
        sum_rows(
            children, out_records, small.begin, small.end, gather, blocks, offsets, places, counters, small_g, small_h
        )
        if small_wanted:
            small.slot = spare
            score_features(
                small_g, small_h, no_g, no_h, small.gradient, small.hessian, offsets, has_missing, units, rules,
                bounds, scores, bits, upper_bits,
            )  # fmt: skip
            choose_split(
                children, out_records, gather, small_g, small_h, small.gradient, small.hessian, small.begin, small.end,
                offsets, has_missing, units, rules, bounds, scores, upper, counts, no_counts, small.split,
            )  # fmt: skip
        if large_wanted:
            large.slot = kept
            score_features(
                gradients[kept], hessians[kept], small_g, small_h, large.gradient, large.hessian, offsets, has_missing,
                units, rules, bounds, scores, bits, upper_bits,
            )  # fmt: skip
            choose_split(
                children, out_records, gather, gradients[kept], hessians[kept], large.gradient, large.hessian,
                large.begin, large.end, offsets, has_missing, units, rules, bounds, scores, upper, counts, no_counts,
                large.split,
            )  # fmt: skip
        if small.split.gain == -np.inf:
            free[n_free] = spare
            n_free += 1
        if large.split.gain == -np.inf:
            free[n_free] = kept
            n_free += 1
    return n_nodes


class WholeTree:
    """Grows whole trees for one training run; keeps the scratch memory."""

    def __init__(self, builder: HistogramBuilder, finder: SplitFinder, n_value_bins: NDArray[np.int64]) -> None:
        self.builder = builder
        self.finder = finder
        self.n_value_bins = n_value_bins
        n_used, n_bins = len(n_value_bins), builder.n_bins
        self.gradients = np.empty((0, n_bins), np.int32)
        self.hessians = np.empty((0, n_bins), np.uint32)
        scores, upper = np.empty((2, n_bins), np.float32), np.empty(n_used, np.float32)
        self.scratch = (
            builder.counters[0], np.empty(finder.most_bins, np.int64), scores, scores.view(np.int32), upper,
            upper.view(np.int32),
        )  # fmt: skip

    def can_grow(self, rounded: Rounded, limits: GrowthLimits, n_slots: int) -> bool:
        """Say whether a tree is small enough, in its sums, in the pool's memory, and to be better on one thread."""
        n_rows, n_used = rounded.root.n_rows, len(self.n_value_bins)
        if (
            rounded.quantization.wide
            or rounded.sum_of_magnitudes > LARGEST_GRADIENT_SUM
            or rounded.root.hessian > LARGEST_HESSIAN_SUM
            or n_used == 0
            or limits.n_leaves > min(MOST_LEAVES, 2 * n_slots)  # slots of half the size
        ):
            return False
        work = n_rows * (5 * ROW + 2 * n_used * UPDATE) + 2 * limits.n_leaves * self.builder.n_bins * BIN
        return work < ROUNDS_COST + work * ROUNDS_WORK / self.builder.n_threads

    def grow(
        self, store: RowStore, rounded: Rounded, root_depth: int, rules: SplitRules, limits: GrowthLimits
    ) -> NDArray[np.void]:
        """Grow a tree on the rounded gradients in `store`; returns its nodes, NODE (n_nodes,)."""
        n_leaves = limits.n_leaves
        if len(self.gradients) < n_leaves:
            self.gradients = np.empty((n_leaves, self.builder.n_bins), np.int32)
            self.hessians = np.empty((n_leaves, self.builder.n_bins), np.uint32)
            self.free = np.empty(n_leaves, np.int64)
        nodes = np.zeros(2 * n_leaves - 1, NODE)
        root, sums = nodes[0], rounded.root
        root["end"], root["gradient"], root["hessian"] = sums.n_rows, sums.gradient, sums.hessian
        root["depth"], root["parent"] = root_depth, -1
        arrays = store.arrays()
        builder, finder = self.builder, self.finder
        n_nodes = tree_kernel(
            *arrays, *(as_words(array) for array in arrays[:3]), self.n_value_bins, builder.blocks, builder.offsets,
            builder.places, finder.has_missing, NO_COUNTS, *finder.numbers(rounded.quantization, rules), n_leaves,
            limits.max_depth + root_depth, limits.depthwise, self.gradients, self.hessians, self.free, *self.scratch,
            nodes,
        )  # fmt: skip
        return nodes[:n_nodes]
