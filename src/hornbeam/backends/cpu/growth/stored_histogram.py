"""Histograms of stored bins (bundling.py) on the CPU.

A node of many rows is added up in scratch counters, which a thread has to itself: one for every histogram place, for
features of entries, and behind them one for every code of every column. Then the counters of all threads are unpacked
into the slot feature by feature, and the default bin gets what is left of the total:

    counters   | places of all features | codes of the columns |      one array a thread
                    ^ entries                 ^ codes                 narrow gradients are packed, see histogram.py

The total is that of the rows added, so nothing has to be known about the node.

A *thin* node has far fewer entries than there are bins. Its rows are added to the slot at once, and subtracted from its
parent's histogram in the same way, entry by entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.histogram import PACKED_ROWS, HistogramBuilder, add_counters, packed
from hornbeam.backends.cpu.growth.rows import RowStore
from hornbeam.backends.cpu.growth.stored_rows import (
    COLUMN,
    DEFAULT,
    FIRST_CODE,
    N_CODES,
    NOWHERE,
    OFFSET,
    described,
    places_of_codes,
)
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.data.stored_bins import StoredBins
from hornbeam.trees.records import Segments

COUNTER_BYTES = 1 << 29
"""Memory for the counters of all threads; with many bins fewer threads have some."""

SHARED_ROWS = 16_384
"""Larger nodes are summed by all threads together, smaller ones by one thread each."""

BINS_PER_THREAD = 1 << 15

ROWS_TOUCHED, CODES_TOUCHED = np.uint64(32), 128
"""Rows whose entries, or codes, are brought into the cache at a time."""

CODES_AT_ONCE = 16_384
"""Counters of columns in use at a time: 128 KB. Most rows have the default code of a bundle, so that few of them are
in the first-level cache all the same."""

NO_HISTOGRAM = np.empty((0, 2), np.int64)

THIN = 4
"""A node is thin with fewer than one entry for this many bins."""


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def touch_entries(records, begin, end, indptr, entries):  # type: ignore[no-untyped-def]
    """Read a word of the entries of some rows, which brings them into the cache side by side; returns a useless sum.

    Rows of a node lie scattered, and to wait for one after the other takes longer than to add them: 2,000 rows of 20
    entries are summed in 250 microseconds instead of 600 (Neoverse-N1).
    """
    useless, last = np.uint32(0), np.uint64(len(entries) - 1)
    if len(entries) > 0:
        for place in range(begin, end):
            first = np.uint64(indptr[records[place, 0] & np.uint64(0xFFFFFFFF)])
            useless += entries[min(first, last)] + entries[min(first + np.uint64(16), last)]
    return useless


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def touch_codes(codes, records, begin, end, column):  # type: ignore[no-untyped-def]
    """Bring the codes of some rows into the cache; see touch_entries."""
    useless = np.uint32(0)
    for place in range(begin, end):
        useless += np.uint32(codes[records[place, 0] & np.uint64(0xFFFFFFFF), column])
    return useless


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_entries(records, begin, end, indptr, entries, counters, nothing):  # type: ignore[no-untyped-def]
    """Add the rows begin:end to the counters of their entries; narrow records. Returns the packed total of the rows."""
    mask, one = np.uint64(0xFFFFFFFF), np.uint64(1)
    total = np.int64(0)
    start, last = np.uint64(begin), np.uint64(end)
    if len(entries) == 0:  # all features are in columns: nothing is to be looked up
        for place in range(start, last):
            total += packed(records[place, 0])
        return total
    while start < last:
        stop = min(start + ROWS_TOUCHED, last)
        nothing[0] = touch_entries(records, start, stop, indptr, entries)
        for place in range(start, stop):
            record = records[place, 0]
            value = packed(record)
            total += value
            row = record & mask
            for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
                counters[entries[i]] += value
        start = stop
    return total


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_wide(codes, records, begin, end, f0, f1, places, indptr, entries, counters):  # type: ignore[no-untyped-def]
    """Add the rows begin:end to gradients counters[0] and hessians counters[1], for the columns f0:f1 and all entries.

    Returns the totals of the rows.
    """
    mask, one = np.uint64(0xFFFFFFFF), np.uint64(1)
    total_g, total_h = np.int64(0), np.int64(0)
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place, 0] & mask
        both = np.int64(records[place, 1])
        gradient = np.int64(np.int32(both & 0xFFFFFFFF))
        hessian = both >> 32
        total_g += gradient
        total_h += hessian
        for c in range(np.uint64(f0), np.uint64(f1)):
            counter = np.uint64(places[c]) + codes[row, c]
            counters[0, counter] += gradient
            counters[1, counter] += hessian
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
            counters[0, entries[i]] += gradient
            counters[1, entries[i]] += hessian
    return total_g, total_h


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_rows(codes, records, begin, end, blocks, places, indptr, entries, counters, total, nothing):  # type: ignore[no-untyped-def]
    """Add at most PACKED_ROWS rows to the counters of one thread.

    blocks    int64 (n_blocks + 1,)   in       columns whose counters fit in the cache together
    counters  int64 (1 or 2, n)       in, out  packed, or gradients and hessians
    total     int64 (2,)              out      gradient and hessian of the rows
    nothing   uint32 (1,)             out      see touch_entries
    """
    if records.shape[1] == 2:
        total[0], total[1] = add_wide(
            codes, records, begin, end, blocks[0], blocks[-1], places, indptr, entries, counters
        )
        return
    for block in range(len(blocks) - 1):
        f0, f1 = blocks[block], blocks[block + 1]
        for start in range(begin, end, CODES_TOUCHED):
            stop = min(start + CODES_TOUCHED, end)
            nothing[0] = touch_codes(codes, records, np.uint64(start), np.uint64(stop), np.uint64(f0))
            add_counters(codes, records, start, stop, True, f0, f1, places, counters[0])
    both = add_entries(records, begin, end, indptr, entries, counters[0], nothing)
    total[0], total[1] = both >> 32, both & 0xFFFFFFFF


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def merge_kernel(counters, start, stop, merged):  # type: ignore[no-untyped-def]
    """Sum the counters start:stop of all threads, and clear them.

    counters  int64 (n_threads, 1 or 2, n)   in, out
    merged    int64 (2, n)                   out   gradients and hessians
    """
    for place in range(np.uint64(start), np.uint64(stop)):
        gradient, hessian = np.int64(0), np.int64(0)
        for t in range(len(counters)):
            both = counters[t, 0, place]
            if counters.shape[1] == 2:
                gradient += both
                hessian += counters[t, 1, place]
                counters[t, 1, place] = 0
            else:
                gradient += both >> 32
                hessian += both & 0xFFFFFFFF
            counters[t, 0, place] = 0
        merged[0, place], merged[1, place] = gradient, hessian


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def unpack_kernel(counters, total_g, total_h, storage, places, features, is_first, out, larger):  # type: ignore[no-untyped-def]
    """Move the counters of some features to a slot, and subtract them from the histogram `larger`.

    counters          int64 (1 or 2, n)        in, out   those of entries are cleared
    total_g, total_h  of the rows that were added
    features          int64 (n,)               in
    is_first          the slot holds nothing yet
    out               int64 (n_total_bins, 2)  out
    larger            the same, or empty       in, out
    """
    where = storage[0]
    is_wide, subtracts = len(counters) == 2, len(larger) > 0
    for f in features:
        first, d, source = where[f, OFFSET], where[f, DEFAULT], where[f, OFFSET]
        n, is_coded, is_bundled = where[f + 1, OFFSET] - first, where[f, COLUMN] >= 0, where[f, FIRST_CODE] > 0
        if is_coded:
            source = np.int64(places[where[f, COLUMN]]) + where[f, FIRST_CODE]
        if is_bundled:
            if is_first:
                out[first + d, 0], out[first + d, 1] = 0, 0
                out[first + n - 1, 0], out[first + n - 1, 1] = 0, 0  # may have no code
            n = d
        sum_g, sum_h, at = np.int64(0), np.int64(0), first
        for part in range(2):
            if part == 1:  # the codes of a bundle pass the default bin by
                if not is_bundled:
                    break
                source, at, n = source + d, first + d + 1, where[f, N_CODES] - d
            for i in range(np.uint64(n)):
                place, to = np.uint64(source) + i, np.uint64(at) + i
                gradient = counters[0, place]
                if is_wide:
                    hessian = counters[1, place]
                else:
                    gradient, hessian = gradient >> 32, gradient & 0xFFFFFFFF
                if not is_coded:
                    counters[0, place] = 0
                    if is_wide:
                        counters[1, place] = 0
                sum_g += gradient
                sum_h += hessian
                if is_first:
                    out[to, 0], out[to, 1] = gradient, hessian
                else:
                    out[to, 0] += gradient
                    out[to, 1] += hessian
                if subtracts:
                    larger[to, 0] -= gradient
                    larger[to, 1] -= hessian
        if is_coded and not is_bundled:
            continue
        rest = np.uint64(first + d)
        out[rest, 0] += total_g - sum_g
        out[rest, 1] += total_h - sum_h
        if subtracts:
            larger[rest, 0] -= total_g - sum_g
            larger[rest, 1] -= total_h - sum_h


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sum_node(  # type: ignore[no-untyped-def]
    codes, records, storage, blocks, places, features, begin, end, counters, totals, nothing, out, larger
):
    """Sum the rows begin:end into a slot, and subtract them from the histogram `larger`, unless that is empty.

    blocks    see add_rows; not all columns where other threads sum the others
    features  int64 (n,)             in        those in the columns, and in entries
    counters  int64 (1, 1 or 2, n)   scratch, all zero before and after
    totals    int64 (1, 2)           scratch
    """
    indptr, entries = storage[1], storage[2]
    start, is_first, first, last = begin, True, np.int64(0), np.int64(0)
    if len(blocks) > 1:
        first, last = np.int64(places[blocks[0]]), np.int64(counters.shape[2])
        if blocks[-1] < len(places):
            last = np.int64(places[blocks[-1]])
    while is_first or start < end:
        stop = min(start + PACKED_ROWS, end)
        add_rows(codes, records, start, stop, blocks, places, indptr, entries, counters[0], totals[0], nothing)
        unpack_kernel(counters[0], totals[0, 0], totals[0, 1], storage, places, features, is_first, out, larger)
        counters[0, :, first:last] = 0
        start, is_first = stop, False


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_thin(codes, records, storage, code_starts, place_of, feature_of, begin, end, sign, sums, nothing, out):  # type: ignore[no-untyped-def]
    """Add the rows begin:end to a histogram, or subtract them.

    place_of    uint32 (n codes of all columns,)  in   place in the histogram, or NOWHERE
    feature_of  uint32 (n_total_bins,)            in   feature of a place
    sign        1 or -1
    sums        int64 (n_used, 2)                 scratch, all zero before and after
    out         int64 (n_total_bins, 2)           in, out
    """
    where, indptr, entries, _ = storage
    mask, one = np.uint64(0xFFFFFFFF), np.uint64(1)
    is_wide = records.shape[1] == 2
    n_columns = np.uint64(len(code_starts) - 1)
    total_g, total_h = np.int64(0), np.int64(0)
    for at in range(np.uint64(begin), np.uint64(end)):
        if (at - np.uint64(begin)) % ROWS_TOUCHED == np.uint64(0):
            nothing[0] = touch_entries(records, at, min(at + ROWS_TOUCHED, np.uint64(end)), indptr, entries)
        record = records[at, 0]
        row = record & mask
        if is_wide:
            both = np.int64(records[at, 1])
            gradient, hessian = sign * np.int64(np.int32(both & 0xFFFFFFFF)), sign * (both >> 32)
        else:
            both = packed(record)
            gradient, hessian = sign * (both >> 32), sign * (both & 0xFFFFFFFF)
        total_g += gradient
        total_h += hessian
        for c in range(n_columns):
            place = place_of[np.uint64(code_starts[c]) + codes[row, c]]
            if place != NOWHERE:
                out[place, 0] += gradient
                out[place, 1] += hessian
                f = feature_of[place]
                sums[f, 0] += gradient
                sums[f, 1] += hessian
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
            place = entries[i]
            out[place, 0] += gradient
            out[place, 1] += hessian
            f = feature_of[place]
            sums[f, 0] += gradient
            sums[f, 1] += hessian
    for f in range(len(where) - 1):
        if where[f, COLUMN] < 0 or where[f, FIRST_CODE] > 0:
            place = np.uint32(where[f, OFFSET] + where[f, DEFAULT])
            out[place, 0] += total_g - sums[f, 0]
            out[place, 1] += total_h - sums[f, 1]
        sums[f, 0], sums[f, 1] = 0, 0


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def nodes_kernel(  # type: ignore[no-untyped-def]
    codes, records, storage, code_starts, place_of, feature_of, blocks, places, features, begin, end, slots, thin,
    chosen, counters, totals, sums, nothing, histograms,
):  # fmt: skip
    """Sum some nodes, each from its rows to its slot.

    thin      bool (n_nodes,)        in
    chosen    int64 (n,)             in       nodes
    counters  int64 (1, 1 or 2, n)   scratch, all zero before and after
    totals    int64 (1, 2)           scratch
    """
    for node in chosen:
        out = histograms[slots[node]]
        if thin[node]:
            out[:, :] = 0
            add_thin(
                codes, records, storage, code_starts, place_of, feature_of, begin[node], end[node], np.int64(1), sums,
                nothing, out,
            )  # fmt: skip
            continue
        sum_node(
            codes, records, storage, blocks, places, features, begin[node], end[node], counters, totals, nothing, out,
            out[:0],
        )  # fmt: skip


class StoredHistograms(HistogramBuilder):
    """Slots and counters of one training run on stored bins."""

    def __init__(self, stored: StoredBins, n_threads: int) -> None:
        super().__init__(stored.offsets, n_threads)
        self.storage = described(stored, with_columns=True)
        self.stored = stored
        starts = stored.code_starts
        self.code_places = (starts[:-1] + self.n_bins).astype(np.uint32)
        self.features = np.arange(len(stored.column))
        self.column_blocks = self.blocks_of(0, stored.n_columns)
        self.feature_of = np.repeat(np.arange(len(stored.column), dtype=np.uint32), np.diff(stored.offsets))
        self.place_of = places_of_codes(stored)
        self.n_counters = self.n_bins + int(starts[-1])
        self.n_summing = max(1, min(n_threads, COUNTER_BYTES // (8 * self.n_counters)))
        self.entries_a_row = stored.n_columns + len(stored.entries) / max(1, stored.n_rows)
        self.most_thin = self.n_bins / max(THIN * self.entries_a_row, 1e-9)
        self.thread_counters = np.zeros((0, 1, 0), np.int64)
        self.totals = np.zeros((self.n_summing, 2), np.int64)
        self.sums = np.zeros((n_threads, len(stored.column), 2), np.int64)
        self.nothing = np.zeros(1, np.uint32)
        self.thin_nodes: dict[int, tuple[int, int]] = {}
        self.rows: RowStore | None = None

    def blocks_of(self, first: int, last: int) -> NDArray[np.int64]:
        """Cut the columns first:last into blocks whose counters are in use together."""
        starts, blocks = self.stored.code_starts, [first]
        for column in range(first + 1, last):
            if starts[column + 1] - starts[blocks[-1]] > CODES_AT_ONCE:
                blocks.append(column)
        return np.array([*blocks, last] if last > first else [first], np.int64)

    def make_counters(self, store: RowStore) -> None:
        """Have counters for the width of the records."""
        shape = (self.n_summing, store.even.shape[1], self.n_counters)
        if self.thread_counters.shape != shape:
            self.thread_counters = np.zeros(shape, np.int64)

    def build(self, store: RowStore, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum each node's rows into its slot; see protocol.Engine.build_histograms."""
        self.make_counters(store)
        n_rows = nodes.end - nodes.begin
        thin = n_rows < self.most_thin
        self.rows = store
        for node, slot in enumerate(slots.tolist()):
            self.thin_nodes.pop(slot, None)
            if thin[node]:
                self.thin_nodes[slot] = int(nodes.begin[node]), int(nodes.end[node])
        together = ((n_rows > SHARED_ROWS) | (len(slots) == 1)) & ~thin
        if self.n_summing == 1:
            together[:] = False
        for node in np.flatnonzero(together).tolist():
            self._build_together(store, nodes, node, int(slots[node]))
        alone = np.flatnonzero(~together)
        if len(alone) == 1 and not thin[alone[0]]:  # the root, where there is no more than a thread
            node = int(alone[0])
            sum_node(
                self.stored.codes, store.even, self.storage, self.column_blocks, self.code_places, self.features,
                nodes.begin[node], nodes.end[node], self.thread_counters[:1], self.totals[:1], self.nothing,
                self.histograms[slots[node]], NO_HISTOGRAM,
            )  # fmt: skip
        elif len(alone):
            self._build_alone(store, nodes, slots, alone, thin)

    def _build_together(self, store: RowStore, nodes: Segments, node: int, slot: int) -> None:
        """Sum one node with all threads: each adds some rows, then some counters of all, then unpacks some features."""
        begin, end, start = int(nodes.begin[node]), int(nodes.end[node]), int(nodes.begin[node])
        while start == begin or start < end:
            stop = min(start + self.n_summing * PACKED_ROWS, end)
            self._add_together(store, start, stop, start == begin, self.histograms[slot])
            start = stop
            if begin == end:
                return

    def _add_together(self, store: RowStore, start: int, stop: int, is_first: bool, out: NDArray[np.int64]) -> None:
        """Add the rows start:stop to a histogram, which holds nothing yet if they are the first."""
        counters, merged = self.thread_counters, np.empty((2, self.n_counters), np.int64)
        n_features = len(self.storage[0]) - 1
        self.totals[:] = 0

        def add(thread: int) -> None:
            cuts = [start + (stop - start) * part // self.n_summing for part in (thread, thread + 1)]
            add_rows(
                self.stored.codes, store.even, *cuts, self.column_blocks, self.code_places, self.stored.indptr,
                self.stored.entries, counters[thread], self.totals[thread], self.nothing,
            )  # fmt: skip

        run_threads(add, self.n_summing)
        total_g, total_h = self.totals.sum(axis=0)
        run_ranges(
            lambda first, last: merge_kernel(counters, first, last, merged), self.n_counters, self.n_threads,
            smallest=BINS_PER_THREAD,
        )  # fmt: skip
        run_ranges(
            lambda f0, f1: unpack_kernel(
                merged, total_g, total_h, self.storage, self.code_places, self.features[f0:f1], is_first, out,
                NO_HISTOGRAM,
            ),
            n_features, self.n_threads, smallest=BINS_PER_THREAD * n_features // max(1, self.n_bins) + 1,
        )  # fmt: skip

    def _build_alone(
        self,
        store: RowStore,
        nodes: Segments,
        slots: NDArray[np.int32],
        alone: NDArray[Any],
        thin: NDArray[np.bool_],
    ) -> None:
        """Deal small nodes to the threads, the largest first, each to the thread with the least work so far."""
        work = (nodes.end - nodes.begin)[alone] * (2.0 * self.entries_a_row + 8.0)
        work += np.where(thin[alone], 0.5, 4.0) * self.n_bins
        n_threads = max(1, min(self.n_summing, len(alone), int(work.sum() / 60_000)))
        hands: list[list[int]] = [[] for _ in range(n_threads)]
        load = [0.0] * n_threads
        for i in np.argsort(-work, kind="stable").tolist():
            least = load.index(min(load))
            hands[least].append(int(alone[i]))
            load[least] += float(work[i])
        run_threads(
            lambda t: nodes_kernel(
                self.stored.codes, store.even, self.storage, self.stored.code_starts, self.place_of, self.feature_of,
                self.column_blocks, self.code_places, self.features, nodes.begin, nodes.end, slots, thin,
                np.array(hands[t], np.int64), self.thread_counters[t : t + 1], self.totals[t : t + 1], self.sums[t],
                self.nothing, self.histograms,
            ),
            n_threads,
        )  # fmt: skip

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """See protocol.Engine.subtract; thin children are subtracted row by row."""
        thin = np.array([slot in self.thin_nodes for slot in children.tolist()], np.bool_)
        if not thin.all():
            super().subtract(parents[~thin], children[~thin])
        pairs = [(int(parents[i]), int(children[i])) for i in np.flatnonzero(thin)]
        if not pairs:
            return
        store = self.rows
        assert store is not None
        n_parts = max(1, min(self.n_threads, len(pairs)))

        def take(part: int) -> None:
            for parent, child in pairs[part::n_parts]:
                add_thin(
                    self.stored.codes, store.even, self.storage, self.stored.code_starts, self.place_of,
                    self.feature_of, *self.thin_nodes[child], -1, self.sums[part], self.nothing,
                    self.histograms[parent],
                )  # fmt: skip

        run_threads(take, n_parts)
