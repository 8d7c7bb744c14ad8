"""A whole round on stored bins in one kernel, or a whole tree: as expand.py and whole_tree.py for plain ones.

A node is cheap where most of its rows stay where they are, so that handing it over costs as much as the node. So one
thread grows a tree here, best node first, with nothing expanded in vain; several do so in stored_tree.py.

A child with far fewer entries than there are bins (*thin*, see stored_histogram.py) gets no histogram at all: its sums
are made in scratch memory, scanned there and wiped out again entry by entry. Its slot is *bare* then. When such a node
is split, both children are thin, and their sums come from their rows; whoever needs the histogram after all has it
made (`StoredExpander.fill`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.split import NO_COUNTS
from hornbeam.backends.cpu.growth.split_categorical import Round
from hornbeam.backends.cpu.growth.stored_histogram import StoredHistograms, add_thin, sum_node
from hornbeam.backends.cpu.growth.stored_partition import StoredPartition, StoredRows, divide, divide_by_set
from hornbeam.backends.cpu.growth.stored_rows import COLUMN, DEFAULT, FIRST_CODE, NOWHERE, OFFSET
from hornbeam.backends.cpu.growth.stored_split import StoredSplits, search_child
from hornbeam.backends.cpu.growth.tree_kernel import best_open
from hornbeam.backends.cpu.growth.whole_tree import MOST_LEAVES
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.core.dtypes import EXPANSION, NODE, SPLIT
from hornbeam.trees.frontier import GrowthLimits

NANOSECONDS_PER_THREAD = 60_000
"""A second thread is worth waking for this much work."""

STEPS_COST = 60_000_000
"""A node must be more work than this by the number of threads, in nanoseconds, to be cut: then its round is done in
steps. With two threads steps take longer than one thread alone takes for nodes of up to 20 milliseconds."""

ADDED_AGAIN = 0.15
"""Share of the rows that are in the smaller child, at each of n levels of a tree of 2**n leaves."""

Categories = tuple[Round, NDArray[np.uint32]]
"""Of a round or tree with categorical features: what it needs to search them, and the mask of those that may be used
(see split_categorical.improve_node)."""

NO_TREE = np.empty(0, NODE), False, np.empty(0, np.int64), np.empty(0, np.bool_)

LISTED, ROW, ENTRY, BIN = 5, 40, 6, 5
"""Rough cost of a row in a list, of a row and of an entry summed, and of a bin (unpack, subtract, scan), in ns."""


def small_rows(n_leaves: int, n_rows: int) -> float:
    """Estimate the rows of the smaller child of a node, on average."""
    return n_rows * math.log2(n_leaves) * ADDED_AGAIN / n_leaves


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def wipe_thin(codes, records, storage, code_starts, place_of, begin, end, out):  # type: ignore[no-untyped-def]
    """Set the histogram of the rows begin:end to zero again; see add_thin."""
    where, indptr, entries, _ = storage
    n_columns = np.uint64(len(code_starts) - 1)
    for at in range(np.uint64(begin), np.uint64(end)):
        row = records[at, 0] & np.uint64(0xFFFFFFFF)
        for c in range(n_columns):
            place = place_of[np.uint64(code_starts[c]) + codes[row, c]]
            if place != NOWHERE:
                out[place, 0], out[place, 1] = 0, 0
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            out[entries[i], 0], out[entries[i], 1] = 0, 0
    for f in range(len(where) - 1):
        if where[f, COLUMN] < 0 or where[f, FIRST_CODE] > 0:
            place = np.uint32(where[f, OFFSET] + where[f, DEFAULT])
            out[place, 0], out[place, 1] = 0, 0


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fill_expansion(node, spare_slot, out):  # type: ignore[no-untyped-def]
    """Write the expansion of a NODE with its best split, as grower.NodeTable.expansion does."""
    split = node.split
    out.begin, out.end, out.gradient, out.hessian = node.begin, node.end, node.gradient, node.hessian
    out.left_gradient, out.left_hessian = split.left_gradient, split.left_hessian
    out.feature, out.bin, out.missing_left = split.feature, split.bin, split.missing_left
    out.depth, out.slot, out.spare_slot = node.depth, node.slot, spare_slot


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def enter_children(nodes, number, n_nodes, n_left, spare_slot, found, made_bare, is_bare, free, n_free):  # type: ignore[no-untyped-def]
    """Enter the children of a node as nodes n_nodes and n_nodes + 1; returns the number of free slots.

    found      SPLIT (2,)  in
    made_bare  bool (2,)   in
    the rest as in expand_kernel
    """
    node = nodes[number]
    n_free -= 1
    left_small = n_left <= node.end - node.begin - n_left
    for side in range(2):
        child = nodes[n_nodes + side]
        child.begin = node.begin + (n_left if side else 0)
        child.end = node.end if side else node.begin + n_left
        child.gradient, child.hessian = node.split.left_gradient, node.split.left_hessian
        if side:
            child.gradient, child.hessian = node.gradient - child.gradient, node.hessian - child.hessian
        child.split = found[side]
        child.priority = min(node.priority, found[side].gain)
        child.depth, child.parent, child.left = node.depth + 1, number, -1
        child.slot = spare_slot if left_small == (side == 0) else node.slot
        is_bare[child.slot] = made_bare[side]
        if found[side].gain == -np.inf:
            free[n_free] = child.slot
            n_free += 1
            child.slot = -1
    node.left = n_nodes
    return n_free


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def expand_kernel(  # type: ignore[no-untyped-def]
    codes, records, place_of_row, spare, storage, code_starts, place_of, feature_of, blocks, places, features, starts,
    rows, n_value_bins, default, chosen, offsets, has_missing, no_counts, batch, start, stop, bare, most_thin,
    histograms, units, rules, bounds, max_depth, counters, totals, sums, nothing, empty, scratch, open_features,
    open_gains, n_left, found, made_bare, nodes, depthwise, free, is_bare, categories=None,
):  # fmt: skip
    """Expand the nodes start:stop of the batch (see protocol.Engine.expand), or grow a tree of stop + 1 leaves.

    batch      EXPANSION (n_nodes,)      in
    bare       bool (n_nodes,)           in    the slot of the node holds nothing
    most_thin  a node of fewer rows is thin
    counters, totals, sums, nothing      scratch of this thread, see stored_histogram.py
    empty      int64 (n_total_bins, 2)   scratch, all zero before and after
    scratch, open_features, open_gains   scratch, see stored_split.py
    n_left     int64 (n_nodes,)          out
    found      SPLIT (n_nodes, 2)        out
    made_bare  bool (n_nodes, 2)         out   the child's slot is left bare
    nodes      NODE (2 * stop + 1,)      in out   the root, and all nodes; empty: the batch is expanded. A tree has a
                                         batch of one, which is filled here
    free       int64 (n_slots,)          in    slots that are not in use, the last one first, and room for one more:
                                         when nothing can be split any more, no slot is in use
    is_bare    bool (n_slots,)           in out
    categories see stored_split.search_child

    Returns the number of nodes of the tree.
    """
    growing, n_nodes, n_free, number = len(nodes) > 0, 1, len(free) - 1, np.int64(0)
    min_data, first_feature, n_used = rules[4], np.int64(0), np.int64(len(has_missing))
    add, take = np.int64(1), np.int64(-1)  # not literals: each would be compiled for
    for step in range(start, stop):
        node = step
        if growing:
            node, number = 0, np.int64(best_open(nodes, n_nodes, depthwise))
            if number < 0:
                break
            fill_expansion(nodes[number], free[n_free - 1], batch[0])
            bare[0] = is_bare[nodes[number].slot]
        this = batch[node]
        begin, end, depth = this.begin, this.end, np.int64(this.depth)
        f = np.int64(this.feature)
        is_set, first_number = False, np.int64(n_nodes if growing else 2 * node)
        if categories is not None:
            is_set = f >= categories[0][3]
            if is_set:
                rows_left = divide_by_set(
                    codes, records, place_of_row, spare, storage, starts, rows, f, categories[0][-1][this.bin], begin,
                    end,
                )  # fmt: skip
        if not is_set:
            rows_left = divide(
                codes, records, place_of_row, spare, storage, starts, rows, f, this.bin, this.missing_left,
                n_value_bins[f], begin, end,
            )  # fmt: skip
        n_left[node] = rows_left
        middle = begin + rows_left
        left_small = rows_left <= end - middle
        shallow = depth + 1 < max_depth and not (growing and step == stop - 1)
        left_wanted = shallow and rows_left >= 2 * min_data and this.left_hessian > 1
        right_wanted = shallow and end - middle >= 2 * min_data and this.hessian - this.left_hessian > 1
        for k in range(2):  # the smaller child first: it is subtracted from the larger one
            is_small = k == 0
            side = np.int64(is_small != left_small)
            child_begin, child_end = (middle, end) if side else (begin, middle)
            n_rows = child_end - child_begin
            g, h = this.left_gradient, this.left_hessian
            if side:
                g, h = this.gradient - g, this.hessian - h
            wanted = right_wanted if side else left_wanted
            found[node, side].gain = -np.inf
            made_bare[node, side] = False
            # the larger child comes by subtraction, if it is wanted and its parent has a histogram
            subtracts = is_small and not bare[node] and (left_wanted if side else right_wanted)
            if not wanted and not subtracts:
                continue
            thin = n_rows < most_thin
            larger = histograms[this.slot] if subtracts else histograms[this.slot, :0]
            if is_small and not thin:
                sum_node(
                    codes, records, storage, blocks, places, features, child_begin, child_end, counters, totals,
                    nothing, histograms[this.spare_slot], larger,
                )  # fmt: skip
            elif is_small and subtracts:
                add_thin(
                    codes, records, storage, code_starts, place_of, feature_of, child_begin, child_end, take, sums,
                    nothing, larger,
                )  # fmt: skip
            if not wanted:
                continue
            in_scratch = bare[node] or (is_small and thin)
            made_bare[node, side] = in_scratch
            if in_scratch:
                add_thin(
                    codes, records, storage, code_starts, place_of, feature_of, child_begin, child_end, add, sums,
                    nothing, empty,
                )  # fmt: skip
                histogram = empty
            else:
                histogram = histograms[this.spare_slot if is_small else this.slot]
            search_child(
                codes, records, place_of_row, storage, starts, rows, histogram, g, h, child_begin, child_end, default,
                chosen, offsets, has_missing, no_counts, units, rules, bounds, first_feature, n_used, scratch,
                open_features, open_gains, first_number + side, found[node, side : side + 1], categories,
            )  # fmt: skip
            if in_scratch:
                wipe_thin(codes, records, storage, code_starts, place_of, child_begin, child_end, empty)
        if growing:
            n_free = enter_children(
                nodes, number, n_nodes, n_left[0], this.spare_slot, found[0], made_bare[0], is_bare, free, n_free
            )
            n_nodes += 2
    return n_nodes


class StoredExpander:
    """Expands rounds on stored bins for one training run.

    bare  the rows (begin, end) of the nodes whose slots hold nothing, by slot
    """

    def __init__(self, partition: StoredPartition, builder: StoredHistograms, splits: StoredSplits) -> None:
        self.partition = partition
        self.builder = builder
        self.splits = splits
        self.bare: dict[int, tuple[int, int]] = {}
        n_used, n_threads = len(splits.has_missing), builder.n_summing
        self.empty = [np.zeros((0, 2), np.int64)] * n_threads
        self.opened = [(np.empty(n_used, np.int32), np.empty(n_used)) for _ in range(n_threads)]

    def deal(self, batch: NDArray[np.void], sets: tuple[NDArray[np.uint32], int] | None = None) -> list[int] | None:
        """Deal the nodes to threads: n + 1 bounds for n threads, or None if one is so large that it should be cut.

        sets  as in partition.move_rows
        """
        n_threads = self.builder.n_summing
        if self.builder.n_threads == 1:
            return [0, len(batch)]
        splits = batch[["feature", "bin", "missing_left", "begin", "end"]].tolist()
        left_sets = [None if sets is None or split[0] < sets[1] else sets[0][split[1]] for split in splits]
        work = [self._work(split, left_set) for split, left_set in zip(splits, left_sets, strict=True)]
        total = sum(work)
        n_threads = max(1, min(n_threads, total // NANOSECONDS_PER_THREAD, len(work)))
        if max(work) > max(STEPS_COST, 1.3 * total) / self.builder.n_threads:
            return None
        bounds, done = [0], 0
        for node, cost in enumerate(work):
            if done + cost / 2 > total * len(bounds) / n_threads and len(bounds) < n_threads:
                bounds.append(node)
            done += cost
        return [*bounds, len(work)]

    def _work(self, split: tuple[int, int, bool, int, int], left_set: NDArray[np.uint32] | None) -> int:
        """Estimate the work of one node, in nanoseconds; split: feature, bin, missing_left, begin, end."""
        feature, bin_, missing_left, begin, end = split
        n_value_bins = int(self.partition.n_value_bins[feature])
        asked = self.partition.work(feature, bin_, missing_left, n_value_bins, end - begin, left_set)[0]
        summed = min(asked, (end - begin) // 2)
        bins = self.builder.n_bins if end - begin >= self.builder.most_thin else 0
        return int(asked * LISTED + summed * (ROW + ENTRY * self.builder.entries_a_row) + bins * BIN)

    def fill(self, store: StoredRows, slots: NDArray[np.int32]) -> None:
        """Make the histograms of those slots that are bare."""
        builder = self.builder
        for slot in slots.tolist():
            if slot in self.bare:
                begin, end = self.bare.pop(slot)
                builder.histograms[slot] = 0
                add_thin(
                    builder.stored.codes, store.even, builder.storage, builder.stored.code_starts, builder.place_of,
                    builder.feature_of, begin, end, 1, builder.sums[0], builder.nothing, builder.histograms[slot],
                )  # fmt: skip

    def forget(self, slots: NDArray[np.int32]) -> None:
        """Note that slots are written in full."""
        for slot in slots.tolist():
            self.bare.pop(slot, None)

    def expand(
        self,
        store: StoredRows,
        batch: NDArray[np.void],
        bounds: list[int],
        how: tuple[tuple[float, ...], ...],
        max_depth: int,
        categories: Categories | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Expand the batch on the threads that `deal` chose; how is what SplitFinder.numbers returns."""
        n_left = np.empty(len(batch), np.int64)
        found, made_bare = np.zeros((len(batch), 2), SPLIT), np.empty((len(batch), 2), np.bool_)
        bare = np.array([slot in self.bare for slot in batch["slot"].tolist()], np.bool_)
        self._run(store, batch, bounds, bare, how, max_depth, (n_left, found, made_bare), NO_TREE, categories)
        self.forget(batch["slot"])
        self.forget(batch["spare_slot"])
        for node, side in zip(*(index.tolist() for index in np.nonzero(made_bare)), strict=True):
            begin, end = int(batch["begin"][node]), int(batch["end"][node])
            middle = begin + int(n_left[node])
            is_small = (side == 0) == (n_left[node] <= end - middle)
            slot = int(batch["spare_slot" if is_small else "slot"][node])
            self.bare[slot] = (middle, end) if side else (begin, middle)
        return n_left, found

    @staticmethod
    def can_grow(limits: GrowthLimits, n_slots: int) -> bool:
        """Say whether a tree can be grown whole: there are slots for it."""
        return 2 <= limits.n_leaves <= min(MOST_LEAVES, n_slots)

    def grow(
        self,
        store: StoredRows,
        root: NDArray[np.void],
        how: tuple[tuple[float, ...], ...],
        limits: GrowthLimits,
        categories: Categories | None = None,
    ) -> NDArray[np.void]:
        """Grow a tree on one thread from its root, NODE (1,), whose histogram is in slot 0; returns all nodes.

        how  as in expand
        """
        n_leaves = limits.n_leaves
        nodes = np.zeros(2 * n_leaves - 1, NODE)
        nodes[0] = root[0]
        batch, bare = np.zeros(1, EXPANSION), np.zeros(1, np.bool_)
        out = np.empty(1, np.int64), np.empty((1, 2), SPLIT), np.empty((1, 2), np.bool_)
        tree = nodes, limits.depthwise, np.arange(n_leaves - 1, -1, -1), np.zeros(n_leaves, np.bool_)
        n_nodes = self._run(store, batch, [0, n_leaves - 1], bare, how, limits.max_depth, out, tree, categories)
        return nodes[:n_nodes]

    def _run(
        self,
        store: StoredRows,
        batch: NDArray[np.void],
        bounds: list[int],
        bare: NDArray[np.bool_],
        how: tuple[tuple[float, ...], ...],
        max_depth: int,
        out: tuple[NDArray[Any], ...],
        tree: tuple[Any, ...],
        categories: Categories | None,
    ) -> int:
        """Run the kernel on a thread for each part of the batch; out, tree and categories are its last arguments.

        Returns the number of nodes of the tree.
        """
        partition, builder, splits = self.partition, self.builder, self.splits
        builder.make_counters(store)
        n_threads = len(bounds) - 1
        for t in range(n_threads):
            if len(self.empty[t]) == 0:
                self.empty[t] = np.zeros((builder.n_bins, 2), np.int64)

        of_thread: list[Any] = [None] * n_threads
        if categories is not None:
            whole, mask = categories
            of_thread = [(whole.own, scratch, mask, whole.first_set) for scratch in whole.scratch]

        n_nodes = [0] * n_threads

        def work(t: int) -> None:
            n_nodes[t] = expand_kernel(
                builder.stored.codes, store.even, store.place_of, store.spare, builder.storage,
                builder.stored.code_starts, builder.place_of, builder.feature_of, builder.column_blocks,
                builder.code_places, builder.features, *partition.lists, partition.n_value_bins, splits.default,
                splits.chosen, splits.offsets, splits.has_missing, NO_COUNTS, batch, bounds[t], bounds[t + 1], bare,
                builder.most_thin, builder.histograms, *how, max_depth, builder.thread_counters[t : t + 1],
                builder.totals[t : t + 1], builder.sums[t], builder.nothing, self.empty[t], splits.scratch[t],
                *self.opened[t], *out, *tree, of_thread[t],
            )  # fmt: skip

        run_threads(work, n_threads)
        return n_nodes[0]
