"""Histograms on the CPU: one 64-bit addition per (row, feature).

Narrow gradients are added packed, gradient in the upper and hessian in the lower half of one counter. The packed sum
is g * 2**32 + h as an integer, so it splits exactly as long as 0 <= h < 2**32 and |g| < 2**31: at most `PACKED_ROWS`
rows are added before the counters are unpacked into the 64-bit pairs of the slot.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.pieces import cut
from hornbeam.backends.cpu.growth.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.core.fixed_point import NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT
from hornbeam.trees.records import Segments

PACKED_ROWS = 65_536
assert PACKED_ROWS * NARROW_HESSIAN_LIMIT < 2**32
assert PACKED_ROWS * NARROW_GRADIENT_LIMIT < 2**31

COUNTERS_AT_ONCE = 8192
"""Packed counters in use at a time: 64 KB, the first-level cache of most cores. Wider data takes several passes."""

UPDATES_PER_THREAD = 60_000
"""A second thread is worth waking for this many (row, feature) updates, about 60 microseconds."""


def feature_blocks(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cut the features into blocks of at most COUNTERS_AT_ONCE bins (a larger feature is a block of its own)."""
    blocks = [0]
    for feature in range(1, len(offsets) - 1):
        if offsets[feature + 1] - offsets[blocks[-1]] > COUNTERS_AT_ONCE:
            blocks.append(feature)
    return np.array([*blocks, len(offsets) - 1], np.int64)


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def packed(record):  # type: ignore[no-untyped-def]
    """Return gradient * 2**32 + hessian of a narrow record."""
    upper = np.int64(record) >> 32  # hessian << 16 | gradient, with the hessian's top bit for a sign
    return (np.int64(np.int16(upper & 0xFFFF)) << 32) + ((upper >> 16) & 0xFFFF)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_counters(bins, records, begin, end, gather, f0, f1, places, counters):  # type: ignore[no-untyped-def]
    """Add the rows begin:end to packed counters, for the features f0:f1.

    places    uint32 (n_used,)               in      first counter of each feature
    counters  int64 (>= bins of the block,)  in out
    """
    mask = np.uint64(0xFFFFFFFF)
    first, last = np.uint64(f0), np.uint64(f1)  # unsigned: a signed index is checked for being negative at every use
    fours = begin + (end - begin) // 4 * 4
    for place in range(begin, fours, 4):  # four rows at a time, so that their additions overlap
        p0, p1, p2, p3 = np.uint64(place), np.uint64(place + 1), np.uint64(place + 2), np.uint64(place + 3)
        r0, r1, r2, r3 = records[p0, 0], records[p1, 0], records[p2, 0], records[p3, 0]
        v0, v1, v2, v3 = packed(r0), packed(r1), packed(r2), packed(r3)
        if gather:
            p0, p1, p2, p3 = r0 & mask, r1 & mask, r2 & mask, r3 & mask
        for f in range(first, last):
            counter = places[f]
            counters[counter + bins[p0, f]] += v0
            counters[counter + bins[p1, f]] += v1
            counters[counter + bins[p2, f]] += v2
            counters[counter + bins[p3, f]] += v3
    for place in range(fours, end):
        p0 = np.uint64(place)
        r0 = records[p0, 0]
        v0 = packed(r0)
        if gather:
            p0 = r0 & mask
        for f in range(first, last):
            counters[places[f] + bins[p0, f]] += v0


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_packed(bins, records, begin, end, gather, f0, f1, offsets, places, counters, out):  # type: ignore[no-untyped-def]
    """Add the rows of one piece for the features f0:f1.

    offsets   uint64 (n_used + 1,)  in
    places    uint32 (n_used,)      in   first counter of each feature
    counters  int64 (>= bins of the block,)  scratch
    out       int64 (n_total_bins, 2)  out
    """
    base, size = np.int64(offsets[f0]), np.int64(offsets[f1] - offsets[f0])
    for start in range(begin, end, PACKED_ROWS):
        counters[:size] = 0
        add_counters(bins, records, start, min(start + PACKED_ROWS, end), gather, f0, f1, places, counters)
        slot = out[base : base + size]
        if start == begin:
            for i in range(size):
                slot[i, 0], slot[i, 1] = counters[i] >> 32, counters[i] & 0xFFFFFFFF
        else:
            for i in range(size):
                slot[i, 0] += counters[i] >> 32
                slot[i, 1] += counters[i] & 0xFFFFFFFF


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_wide(bins, records, begin, end, gather, f0, f1, offsets, out):  # type: ignore[no-untyped-def]
    """Add the rows of one piece for the features f0:f1, gradient and hessian in counters of their own."""
    mask = np.uint64(0xFFFFFFFF)
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place, 0] & mask if gather else place
        both = np.int64(records[place, 1])
        gradient = np.int64(np.int32(both & 0xFFFFFFFF))
        hessian = both >> 32
        for f in range(np.uint64(f0), np.uint64(f1)):
            entry = offsets[f] + bins[row, f]
            out[entry, 0] += gradient
            out[entry, 1] += hessian


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def histogram_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, blocks, offsets, places, begin, end, depth, target, start, stop,
    counters, histograms, partials,
):  # fmt: skip
    """Sum the pieces start:stop, each into a slot (target >= 0) or into partial histogram ~target.

    blocks      int64 (n_blocks + 1,)                 in   see feature_blocks
    target      int64 (n_pieces,)                     in
    histograms  int64 (n_slots, n_total_bins, 2)      out
    partials    int64 (n_partials, n_total_bins, 2)   out
    """
    wide = even.shape[1] == 2
    for piece in range(start, stop):
        source = bins_at(bins, bins_even, bins_odd, gather, depth[piece])
        records = records_at(even, odd, depth[piece])
        out = histograms[target[piece]] if target[piece] >= 0 else partials[~target[piece]]
        for block in range(len(blocks) - 1):
            f0, f1 = blocks[block], blocks[block + 1]
            if wide or begin[piece] == end[piece]:
                out[offsets[f0] : offsets[f1]] = 0
            if wide:
                add_wide(source, records, begin[piece], end[piece], gather, f0, f1, offsets, out)
            else:
                add_packed(source, records, begin[piece], end[piece], gather, f0, f1, offsets, places, counters, out)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_up_kernel(partials, first, last, out, start, stop):  # type: ignore[no-untyped-def]
    """Write the sum of the partial histograms first:last into the bins start:stop of out."""
    for i in range(start, stop):
        gradient, hessian = partials[first, i, 0], partials[first, i, 1]
        for partial in range(first + 1, last):
            gradient += partials[partial, i, 0]
            hessian += partials[partial, i, 1]
        out[i, 0], out[i, 1] = gradient, hessian


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def subtract_kernel(histograms, parents, children, start, stop):  # type: ignore[no-untyped-def]
    """Replace each parent's histogram by parent - child, in the bins start:stop."""
    for pair in range(len(parents)):
        parent, child = histograms[parents[pair]], histograms[children[pair]]
        for i in range(start, stop):
            parent[i, 0] -= child[i, 0]
            parent[i, 1] -= child[i, 1]


class HistogramBuilder:
    """Slots, scratch counters and partial histograms of one training run."""

    def __init__(self, offsets: NDArray[np.int64], n_threads: int) -> None:
        self.offsets = offsets.astype(np.uint64)
        self.blocks = feature_blocks(offsets)
        first_of_block = np.repeat(offsets[self.blocks[:-1]], np.diff(self.blocks))
        self.places = (offsets[:-1] - first_of_block).astype(np.uint32)
        self.n_threads = n_threads
        self.n_bins = int(offsets[-1])
        largest = int(np.diff(offsets[self.blocks]).max(initial=1))
        self.counters = np.empty((n_threads, largest), np.int64)
        self.partials = np.empty((0, self.n_bins, 2), np.int64)
        self.histograms = np.empty((0, self.n_bins, 2), np.int64)

    def set_slots(self, n_slots: int) -> None:
        """Make room for n_slots histograms; memory is only touched as slots are used."""
        if len(self.histograms) < n_slots:
            self.histograms = np.empty((n_slots, self.n_bins, 2), np.int64)

    def build(self, store: RowStore, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum each node's rows into its slot; see protocol.Engine.build_histograms."""
        n_features = max(1, len(self.offsets) - 1)
        pieces = cut(nodes, self.n_threads, UPDATES_PER_THREAD // n_features + 1)
        shared = np.diff(pieces.first) > 1
        target = slots.astype(np.int64)[pieces.node]
        partial = shared[pieces.node]
        n_partials = int(np.count_nonzero(partial))
        target[partial] = ~np.arange(n_partials)
        if len(self.partials) < n_partials:
            self.partials = np.empty((n_partials, self.n_bins, 2), np.int64)

        def work(thread: int) -> None:
            histogram_kernel(
                *store.arrays(), self.blocks, self.offsets, self.places, pieces.begin, pieces.end, pieces.depth,
                target, pieces.bounds[thread], pieces.bounds[thread + 1], self.counters[thread], self.histograms,
                self.partials,
            )  # fmt: skip

        run_threads(work, len(pieces.bounds) - 1)
        for node in np.flatnonzero(shared):
            first, last = ~target[pieces.first[node]], ~target[pieces.first[node + 1] - 1] + 1
            out = self.histograms[slots[node]]
            run_ranges(
                lambda start, stop, first=first, last=last, out=out: add_up_kernel(  # type: ignore[misc]
                    self.partials, first, last, out, start, stop
                ),
                self.n_bins, self.n_threads, smallest=1 << 14,
            )  # fmt: skip

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """See protocol.Engine.subtract."""
        n_pairs = max(1, len(parents))
        run_ranges(
            lambda start, stop: subtract_kernel(self.histograms, parents, children, start, stop),
            self.n_bins, self.n_threads, smallest=(1 << 15) // n_pairs + 1,
        )  # fmt: skip
