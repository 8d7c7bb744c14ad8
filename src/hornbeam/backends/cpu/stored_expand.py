"""A whole round on stored bins in one kernel, as expand.py for plain ones.

A child with far fewer entries than there are bins (*thin*, see stored_histogram.py) gets no histogram at all: its sums
are made in scratch memory, scanned there and wiped out again entry by entry. Its slot is *bare* then. When such a node
is split, both children are thin, and their sums come from their rows; whoever needs the histogram after all has it
made (`StoredExpander.fill`).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.split import NO_COUNTS
from hornbeam.backends.cpu.stored_histogram import StoredHistograms, add_thin, sum_node
from hornbeam.backends.cpu.stored_partition import StoredPartition, StoredRows, divide
from hornbeam.backends.cpu.stored_rows import NOWHERE
from hornbeam.backends.cpu.stored_split import StoredSplits, scan_stored, settle
from hornbeam.backends.cpu.threads import run_threads
from hornbeam.dtypes import SPLIT

NANOSECONDS_PER_THREAD = 60_000
"""A second thread is worth waking for this much work."""

STEPS_COST = 600_000
"""A node must be more work than this, in nanoseconds, to be cut: then its round is done in steps."""

LISTED, ROW, ENTRY, BIN = 5, 40, 6, 5
"""Rough cost of a row in a list, of a row and of an entry summed, and of a bin (unpack, subtract, scan), in ns."""


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def wipe_thin(codes, records, storage, code_starts, place_of, begin, end, out):  # type: ignore[no-untyped-def]
    """Set the histogram of the rows begin:end to zero again; see add_thin."""
    default, column, first_code, _, offsets, indptr, entries = storage
    n_columns = np.uint64(len(code_starts) - 1)
    for at in range(np.uint64(begin), np.uint64(end)):
        row = records[at, 0] & np.uint64(0xFFFFFFFF)
        for c in range(n_columns):
            place = place_of[np.uint64(code_starts[c]) + codes[row, c]]
            if place != NOWHERE:
                out[place, 0], out[place, 1] = 0, 0
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            out[entries[i], 0], out[entries[i], 1] = 0, 0
    for f in range(len(default)):
        if column[f] < 0 or first_code[f] > 0:
            place = np.uint32(offsets[f] + default[f])
            out[place, 0], out[place, 1] = 0, 0


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def expand_kernel(  # type: ignore[no-untyped-def]
    codes, records, place_of_row, spare, storage, code_starts, place_of, feature_of, blocks, places, starts, rows,
    n_value_bins, default, chosen, offsets, has_missing, no_counts, batch, start, stop, bare, most_thin, histograms,
    units, rules, bounds, max_depth, counters, totals, sums, nothing, empty, scratch, open_features, open_gains, n_left,
    found, made_bare,
):  # fmt: skip
    """Expand the nodes start:stop of the batch; see protocol.Engine.expand.

    batch      EXPANSION (n_nodes,)      in
    bare       bool (n_nodes,)           in    the slot of the node holds nothing
    most_thin  a node of fewer rows is thin
    counters, totals, sums, nothing      scratch of this thread, see stored_histogram.py
    empty      int64 (n_total_bins, 2)   scratch, all zero before and after
    scratch, open_features, open_gains   scratch, see stored_split.py
    n_left     int64 (n_nodes,)          out
    found      SPLIT (n_nodes, 2)        out
    made_bare  bool (n_nodes, 2)         out   the child's slot is left bare
    """
    min_data = rules[4]
    zero, add, take = np.int64(0), np.int64(1), np.int64(-1)  # not literals: each would be compiled for
    n_used, n_places = len(has_missing), len(feature_of)
    for node in range(start, stop):
        this = batch[node]
        begin, end, depth = this.begin, this.end, np.int64(this.depth)
        f = np.int64(this.feature)
        rows_left = divide(
            codes, records, place_of_row, spare, storage, starts, rows, f, this.bin, this.missing_left,
            n_value_bins[f], begin, end,
        )  # fmt: skip
        n_left[node] = rows_left
        middle = begin + rows_left
        left_small = rows_left <= end - middle
        shallow = depth + 1 < max_depth
        for k in range(2):  # the smaller child first: it is subtracted from the larger one
            is_small = k == 0
            side = np.int64(is_small != left_small)
            child_begin, child_end = (middle, end) if side else (begin, middle)
            n_rows = child_end - child_begin
            g, h = this.left_gradient, this.left_hessian
            if side:
                g, h = this.gradient - g, this.hessian - h
            wanted = shallow and n_rows >= 2 * min_data and h > 1
            found[node, side].gain = -np.inf
            made_bare[node, side] = False
            large_rows = end - begin - n_rows
            large_h = this.hessian - h
            # the larger child comes by subtraction, if it is wanted and its parent has a histogram
            subtracts = is_small and not bare[node] and shallow and large_rows >= 2 * min_data and large_h > 1
            if not wanted and not subtracts:
                continue
            thin = n_rows < most_thin
            larger = histograms[this.slot] if subtracts else histograms[this.slot, :0]
            if is_small and not thin:
                sum_node(
                    codes, records, storage, blocks, places, n_places, child_begin, child_end, counters, totals,
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
            n_open = scan_stored(
                histogram, g, h, n_rows, default, chosen, offsets, has_missing, no_counts, units, rules, bounds, zero,
                n_used, scratch, found[node, side : side + 1], open_features, open_gains,
            )  # fmt: skip
            settle(
                codes, records, place_of_row, storage, starts, rows, histogram, g, h, child_begin, child_end, offsets,
                has_missing, units, rules, bounds, scratch, open_features, open_gains, n_open,
                found[node, side : side + 1],
            )  # fmt: skip
            if in_scratch:
                wipe_thin(codes, records, storage, code_starts, place_of, child_begin, child_end, empty)


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

    def deal(self, batch: NDArray[np.void]) -> list[int] | None:
        """Deal the nodes to threads: n + 1 bounds for n threads, or None if one is so large that it should be cut."""
        n_threads = self.builder.n_summing
        if self.builder.n_threads == 1:
            return [0, len(batch)]
        work = [self._work(*node) for node in batch[["feature", "bin", "missing_left", "begin", "end"]].tolist()]
        total = sum(work)
        n_threads = max(1, min(n_threads, total // NANOSECONDS_PER_THREAD, len(work)))
        if max(work) > max(STEPS_COST, 1.3 * total / self.builder.n_threads):
            return None
        bounds, done = [0], 0
        for node, cost in enumerate(work):
            if done + cost / 2 > total * len(bounds) / n_threads and len(bounds) < n_threads:
                bounds.append(node)
            done += cost
        return [*bounds, len(work)]

    def _work(self, feature: int, bin_: int, missing_left: bool, begin: int, end: int) -> int:
        """Estimate the work of one node, in nanoseconds."""
        n_value_bins = int(self.partition.n_value_bins[feature])
        asked = self.partition.work(feature, bin_, missing_left, n_value_bins, end - begin)[0]
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
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Expand the batch on the threads that `deal` chose; how is what SplitFinder.numbers returns."""
        partition, builder, splits = self.partition, self.builder, self.splits
        builder.make_counters(store)
        n_left = np.empty(len(batch), np.int64)
        found, made_bare = np.zeros((len(batch), 2), SPLIT), np.empty((len(batch), 2), np.bool_)
        bare = np.array([slot in self.bare for slot in batch["slot"].tolist()], np.bool_)
        n_threads = len(bounds) - 1
        for t in range(n_threads):
            if len(self.empty[t]) == 0:
                self.empty[t] = np.zeros((builder.n_bins, 2), np.int64)
        run_threads(
            lambda t: expand_kernel(
                builder.stored.codes, store.even, store.place_of, store.spare, builder.storage,
                builder.stored.code_starts, builder.place_of, builder.feature_of, builder.column_blocks,
                builder.code_places, *partition.lists, partition.n_value_bins, splits.default, splits.chosen,
                splits.offsets, splits.has_missing, NO_COUNTS, batch, bounds[t], bounds[t + 1], bare, builder.most_thin,
                builder.histograms, *how, max_depth, builder.thread_counters[t : t + 1], builder.totals[t : t + 1],
                builder.sums[t], builder.nothing, self.empty[t], splits.scratch[t], *self.opened[t], n_left, found,
                made_bare,
            ),
            n_threads,
        )  # fmt: skip
        self.forget(batch["slot"])
        self.forget(batch["spare_slot"])
        for node, side in zip(*(index.tolist() for index in np.nonzero(made_bare)), strict=True):
            begin, end = int(batch["begin"][node]), int(batch["end"][node])
            middle = begin + int(n_left[node])
            is_small = (side == 0) == (n_left[node] <= end - middle)
            slot = int(batch["spare_slot" if is_small else "slot"][node])
            self.bare[slot] = (middle, end) if side else (begin, middle)
        return n_left, found
