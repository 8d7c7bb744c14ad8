"""A whole tree in one kernel, for data so small that handing over a round costs as much as the round.

One thread splits the best node, then the best of what there is, until the tree is full: exactly the growth that
frontier.one_at_a_time replays, with nothing expanded in vain. Histograms are running sums of 32 bits, see
prefix_split.py, which also says when a tree's sums are small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.histogram import HistogramBuilder, add_counters
from hornbeam.backends.cpu.partition import as_words, bin_goes_left
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
from hornbeam.backends.cpu.split_categorical import Round
from hornbeam.backends.cpu.threads import run_threads
from hornbeam.backends.cpu.tree_categories import improve_in_tree, left_bins, tree_categories
from hornbeam.dtypes import NODE
from hornbeam.frontier import GrowthLimits
from hornbeam.quantize import Quantization
from hornbeam.splitting import SplitRules

MOST_CELLS = 1 << 26
"""Rows times features: a copy of the bins in columns must not cost much memory."""

MOST_LEAVES = 1024
"""The best node is found by looking at all of them."""

ROUNDS_COST = 500_000
"""Nanoseconds that rounds cost a tree of 2**n leaves, n times, besides the work that threads share."""

ROUNDS_WORK = 1.4
"""How much more there is to do in rounds, in sums of 64 bits, on the average of 20 to 100 features."""

ROW, UPDATE, BIN = 2, 1, 2
"""Rough cost of moving a row, of a histogram update, and of a bin of a node, in nanoseconds."""

ADDED_AGAIN = 0.3
"""Share of the rows that are in the smaller child, at each of n levels of a tree of 2**n leaves."""


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
def divide(  # type: ignore[no-untyped-def]
    column, records, out_records, gather, words, out_words, bin_, missing_left, n_value_bins, begin, end, table=None
):
    """Move the rows begin:end of one node to the next depth and return how many went left: partition without a branch.

    A record is written to both places where it may belong, of which one will be written again: that of the next row.

    column                uint8 or uint16 (n_rows,)            in       bins of the feature that is split
    records, out_records  uint64 (n_rows,)                     in, out
    words, out_words      uint64 (n_rows, stride in words)     the bins, where they travel with the records
    table                 uint8 (n_value_bins + 1,)            in       which bins go left, in place of `bin_` and so on
    """
    mask, one = np.uint64(0xFFFFFFFF), np.uint64(1)
    left, right = np.uint64(begin), np.uint64(end) - one
    b, v = np.int64(bin_), np.int64(n_value_bins)
    for place in range(np.uint64(begin), np.uint64(end)):
        record = records[place]
        if table is None:
            goes_left = np.uint64(bin_goes_left(np.int64(column[record & mask]), b, missing_left, v))
        else:
            goes_left = np.uint64(table[np.uint64(column[record & mask])])
        out_records[left] = record
        out_records[right] = record
        if not gather:
            to = left if goes_left else right
            for w in range(words.shape[1]):
                out_words[to, w] = words[place, w]
        left += goes_left
        right -= one - goes_left
    return np.int64(left) - begin


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
    bins, bins_even, bins_odd, even, odd, gather, words, words_even, words_odd, columns, line_even, line_odd,
    n_value_bins, blocks, offsets, places, has_missing, no_counts, units, rules, bounds, n_leaves, max_depth, depthwise,
    gradients, hessians, free, counters, counts, scores, bits, upper, upper_bits, nodes, categories=None,
):  # fmt: skip
    """Grow a tree from its root, nodes[0], which can_split (splitting.py); returns the number of nodes.

    columns              uint8 or uint16 (n_used, n_rows)       in       the bins once more: one feature's in a row
    line_even, line_odd  uint64 (n_rows,)                       in out   memory of the records `even` and `odd`
    gradients, hessians  int32, uint32 (n_slots, n_total_bins)  scratch  running sums of the nodes
    free                 int64 (n_slots,)                       scratch  slots that are not in use, the last one first
    counters             int64 (>= bins of a block,)            scratch
    counts               int64 (most bins of a feature,)        scratch
    scores, bits         float32 (2, n_total_bins), its memory  scratch
    upper, upper_bits    float32 (n_numeric,), its memory       scratch
    nodes                NODE (2 * n_leaves - 1,)               in out
    categories           see tree_categories.py; None: no feature is categorical. has_missing is that of the others
    """
    min_data = rules[4]
    no_g, no_h = gradients[0, :0], hessians[0, :0]
    n_free = len(free) - 1
    for slot in range(n_free):
        free[slot] = n_free - slot
    root = nodes[0]
    root_bins = bins_at(bins, bins_even, bins_odd, gather, root.depth)
    root_records = records_at(even, odd, root.depth)
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
        columns, records_at(line_even, line_odd, root.depth), gradients[0], hessians[0], root.gradient, root.hessian,
        root.begin, root.end, offsets, has_missing, units, rules, bounds, scores, upper, counts, no_counts, root.split,
    )  # fmt: skip
    if categories is not None:
        improve_in_tree(
            root_bins, root_records, gather, gradients[0], hessians[0], no_g, no_h, root, np.int64(0), categories
        )
    table = None
    n_nodes = 1
    for n_splits in range(1, n_leaves):
        number = best_open(nodes, n_nodes, depthwise)
        if number < 0:
            break
        node, left, right = nodes[number], nodes[n_nodes], nodes[n_nodes + 1]
        split, depth = node.split, np.int64(node.depth)
        out_records = records_at(even, odd, depth + 1)
        out_line = records_at(line_even, line_odd, depth + 1)
        if categories is not None:
            table = left_bins(split, n_value_bins[split.feature], categories)
        rows_left = divide(
            columns[split.feature], records_at(line_even, line_odd, depth), out_line, gather,
            bins_at(words, words_even, words_odd, gather, depth),
            bins_at(words, words_even, words_odd, gather, depth + 1), split.bin, split.missing_left,
            n_value_bins[split.feature], node.begin, node.end, table,
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
                columns, out_line, small_g, small_h, small.gradient, small.hessian, small.begin, small.end,
                offsets, has_missing, units, rules, bounds, scores, upper, counts, no_counts, small.split,
            )  # fmt: skip
            if categories is not None:
                improve_in_tree(
                    children, out_records, gather, small_g, small_h, no_g, no_h, small,
                    np.int64(node.left) + (0 if left_small else 1), categories,
                )  # fmt: skip
        if large_wanted:
            large.slot = kept
            score_features(
                gradients[kept], hessians[kept], small_g, small_h, large.gradient, large.hessian, offsets, has_missing,
                units, rules, bounds, scores, bits, upper_bits,
            )  # fmt: skip
            choose_split(
                columns, out_line, gradients[kept], hessians[kept], large.gradient, large.hessian,
                large.begin, large.end, offsets, has_missing, units, rules, bounds, scores, upper, counts, no_counts,
                large.split,
            )  # fmt: skip
            if categories is not None:
                improve_in_tree(
                    children, out_records, gather, gradients[kept], hessians[kept], small_g, small_h, large,
                    np.int64(node.left) + (1 if left_small else 0), categories,
                )  # fmt: skip
        if small.split.gain == -np.inf:
            free[n_free] = spare
            n_free += 1
        if large.split.gain == -np.inf:
            free[n_free] = kept
            n_free += 1
    return n_nodes


class TreeRoom:
    """Memory of the whole trees of one training run, used by tree after tree, whatever features they may use.

    bins  uint8 or uint16 (n_rows, stride)  in  of the data set
    """

    def __init__(self, bins: NDArray[Any], n_used: int) -> None:
        self._bins = bins[:, :n_used]
        self._columns: NDArray[Any] | None = None
        self._slots = np.empty(0, np.int32)
        self._more_slots = np.empty(0, np.uint32)

    def slots(self, n_slots: int, n_bins: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """Return room for running sums, int32 and uint32 (n_slots, n_bins)."""
        size = n_slots * n_bins
        if len(self._slots) < size:
            self._slots, self._more_slots = np.empty(size, np.int32), np.empty(size, np.uint32)
        return self._slots[:size].reshape(n_slots, n_bins), self._more_slots[:size].reshape(n_slots, n_bins)

    def columns(self, features: NDArray[np.int32]) -> NDArray[Any]:
        """Return the bins of some used features, each in a row: uint8 or uint16 (n_features, n_rows)."""
        if self._columns is None:
            self._columns = np.ascontiguousarray(self._bins.T)
        return self._columns if len(features) == len(self._columns) else self._columns[features]


class WholeTree:
    """Grows whole trees that may use some features; keeps the scratch memory.

    features  int32 (n,)  position of each feature among all used ones
    """

    def __init__(
        self,
        builder: HistogramBuilder,
        finder: SplitFinder,
        n_value_bins: NDArray[np.int64],
        features: NDArray[np.int32],
        room: TreeRoom,
    ) -> None:
        self.builder = builder
        self.features = features
        self.room = room
        self.finder = finder
        self.n_value_bins = n_value_bins
        self.columns: NDArray[Any] | None = None
        scores, upper = np.empty((2, builder.n_bins), np.float32), np.empty(len(finder.has_missing), np.float32)
        self.scratch = (
            builder.counters[0], np.empty(finder.most_bins, np.int64), scores, scores.view(np.int32), upper,
            upper.view(np.int32),
        )  # fmt: skip

    def can_grow(self, store: RowStore, rounded: Rounded, limits: GrowthLimits, n_slots: int) -> bool:
        """Say whether a tree is small enough, in its sums, in the pool's memory, and to be better on one thread."""
        n_rows, n_used = rounded.root.n_rows, len(self.n_value_bins)
        if (
            rounded.quantization.wide
            or rounded.sum_of_magnitudes > LARGEST_GRADIENT_SUM
            or rounded.root.hessian > LARGEST_HESSIAN_SUM
            or n_used == 0
            or store.bins.size > MOST_CELLS
            or limits.n_leaves > min(MOST_LEAVES, 2 * n_slots)  # slots of half the size
        ):
            return False
        levels = math.log2(limits.n_leaves)
        work = n_rows * (levels * ROW + (1 + levels * ADDED_AGAIN) * n_used * UPDATE)
        work += 2 * limits.n_leaves * self.builder.n_bins * BIN
        return work < levels * ROUNDS_COST + work * ROUNDS_WORK / self.builder.n_threads

    def grow(
        self,
        store: RowStore,
        root: NDArray[np.void],
        quantization: Quantization,
        rules: SplitRules,
        limits: GrowthLimits,
        meanwhile: Callable[[], None] | None,
        categories: Round | None = None,
    ) -> NDArray[np.void]:
        """Grow a tree on the rounded gradients in `store`; see protocol.Engine.grow_ahead and tree_kernel."""
        n_leaves = limits.n_leaves
        if self.columns is None:
            self.columns = self.room.columns(self.features)
        nodes = np.zeros(2 * n_leaves - 1, NODE)
        nodes[0] = root[0]
        arrays = store.arrays()
        builder, finder = self.builder, self.finder
        own = None
        if categories is not None:
            own = tree_categories(categories, int(self.n_value_bins.max()) + 1)
        arguments = (
            *arrays, *(as_words(array) for array in arrays[:3]), self.columns, store.even.reshape(-1),
            store.odd.reshape(-1), self.n_value_bins, builder.blocks, builder.offsets, builder.places,
            finder.has_missing, NO_COUNTS, *finder.numbers(quantization, rules), n_leaves, limits.max_depth,
            limits.depthwise, *self.room.slots(n_leaves, builder.n_bins), np.empty(n_leaves, np.int64),
            *self.scratch, nodes, own,
        )  # fmt: skip
        if meanwhile is None or builder.n_threads == 1:
            return nodes[: tree_kernel(*arguments)]
        n_nodes = 0

        def work(thread: int) -> None:
            nonlocal n_nodes
            if thread == 0:  # the kernel on this thread: it lets go of the interpreter, and the other one can start
                n_nodes = tree_kernel(*arguments)
            else:
                meanwhile()

        run_threads(work, 2)
        return nodes[:n_nodes]
