"""Histograms of dense data, as pairs of 64 bits: those of rounds and of single operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.partition import DenseRows, bins_at
from hornbeam.backends.cpu.growth.rows.counters import PACKED_ROWS, PAIRS, add_counters, blocks_of
from hornbeam.backends.cpu.growth.rows.pieces import cut
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, gradient_of, hessian_of
from hornbeam.backends.cpu.growth.slots import Slots, subtract_pairs
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.trees.records import Segments


class Layout(NamedTuple):
    """Where the bins of the features are.

    offsets  int64 (n_used + 1,)     first histogram entry of each feature
    blocks   int64 (n_blocks + 1,)   features whose counters are in use together
    places   uint32 (n_used,)        first counter of each feature in its block
    """

    offsets: NDArray[np.int64]
    blocks: NDArray[np.int64]
    places: NDArray[np.uint32]

    @classmethod
    def of(cls, offsets: NDArray[np.int64], first: int, last: int, largest: int) -> Layout:
        """Lay out the features first:last; `places` are theirs alone."""
        blocks = blocks_of(offsets, first, last, largest)
        starts = np.repeat(offsets[blocks[:-1]], np.diff(blocks))
        return cls(offsets, blocks, (offsets[first:last] - starts).astype(np.uint32))

    @property
    def most_counters(self) -> int:
        """Counters of the largest block."""
        return int(np.diff(self.offsets[self.blocks]).max(initial=1))


@inner_kernel
def add_wide(bins, records, wide, begin, end, by_row, f0, f1, offsets, out):
    """Add rows of wide records for the features f0:f1, gradient and hessian in counters of their own."""
    for place in range(np.uint64(begin), np.uint64(end)):
        row, both = records[place] & ROW_MASK if by_row else place, wide[place]
        gradient, hessian = gradient_of(both), hessian_of(both)
        for f in range(np.uint64(f0), np.uint64(f1)):
            entry = np.uint64(offsets[f]) + bins[row, f]
            out[entry, 0] += gradient
            out[entry, 1] += hessian


@inner_kernel
def sum_narrow(bins, records, begin, end, by_row, layout, counters, out):
    """Sum the rows begin:end of narrow records.

    counters  int64 (>= layout.most_counters,)  scratch
    out       int64 (n_total_bins, 2)           out
    """
    offsets, blocks = layout.offsets, layout.blocks
    for block in range(len(blocks) - 1):
        f0, f1 = blocks[block], blocks[block + 1]
        slot = out[offsets[f0] : offsets[f1]]
        if begin == end:
            slot[:, :] = 0
        for start in range(begin, end, PACKED_ROWS):
            stop, packed_counters = min(start + PACKED_ROWS, end), counters[: len(slot)]
            packed_counters[:] = 0
            add_counters(bins, records, start, stop, by_row, f0, f1, layout.places, packed_counters, PAIRS)
            if start == begin:
                for i in range(len(slot)):
                    slot[i, 0], slot[i, 1] = packed_counters[i] >> 32, packed_counters[i] & 0xFFFFFFFF
            else:
                for i in range(len(slot)):
                    slot[i, 0] += packed_counters[i] >> 32
                    slot[i, 1] += packed_counters[i] & 0xFFFFFFFF


@inner_kernel
def sum_pairs(rows, depth, begin, end, layout, counters, out):
    """Sum the rows begin:end of a node: see sum_narrow."""
    bins, by_row = bins_at(rows, depth), rows.by_row
    records, wide = (rows.even, rows.wide_even) if depth % 2 == 0 else (rows.odd, rows.wide_odd)
    if len(wide) == 0:
        sum_narrow(bins, records, begin, end, by_row, layout, counters, out)
        return
    for block in range(len(layout.blocks) - 1):
        f0, f1 = layout.blocks[block], layout.blocks[block + 1]
        out[layout.offsets[f0] : layout.offsets[f1], :] = 0
        add_wide(bins, records, wide, begin, end, by_row, f0, f1, layout.offsets, out)


@kernel
def sum_in_round(t, room, calls, rows, layout, counters, histograms):
    """Sum the smaller child of a node: the operation `sum` of rounds.

    counters    int64 (n_threads, n)               scratch
    histograms  int64 (n_slots, n_total_bins, 2)   in out
    """
    if introduced(t, room, (calls, rows, layout, counters, histograms)):
        return
    call = calls[t]
    sum_pairs(
        rows, call.depth, call.begin, call.end, layout, counters[t], histograms[call.spare]
    )  # fmt: skip
    if call.wants_larger:
        subtract_pairs(histograms[call.kept], histograms[call.spare], 0, histograms.shape[1])
    call.failed = False


@kernel
def build_kernel(part, rows, pieces, target, layout, counters, histograms, partials):
    """Sum one thread's pieces, each into a slot (target >= 0) or into partial histogram ~target.

    target      int64 (n_pieces,)                     in
    histograms  int64 (n_slots, n_total_bins, 2)      out
    partials    int64 (n_partials, n_total_bins, 2)   out
    """
    for piece in range(pieces.bounds[part], pieces.bounds[part + 1]):
        out = histograms[target[piece]] if target[piece] >= 0 else partials[~target[piece]]
        sum_pairs(rows, pieces.depth[piece], pieces.begin[piece], pieces.end[piece], layout, counters, out)


@kernel
def add_up_kernel(partials, first, last, whole, out, start, stop):
    """Write the sum of the partial histograms first:last into the bins start:stop of out.

    whole  int64 (n_total_bins, 2)  in   what is written is the rest of it; empty: the sum
    """
    is_rest = len(whole) > 0
    for i in range(start, stop):
        gradient, hessian = partials[first, i, 0], partials[first, i, 1]
        for partial in range(first + 1, last):
            gradient += partials[partial, i, 0]
            hessian += partials[partial, i, 1]
        out[i, 0] = whole[i, 0] - gradient if is_rest else gradient
        out[i, 1] = whole[i, 1] - hessian if is_rest else hessian


class DenseHistograms(Slots):
    """Slots, scratch counters and partial histograms of one training run."""

    def __init__(self, offsets: NDArray[np.int64], n_threads: int, tuning: Tuning) -> None:
        super().__init__(int(offsets[-1]), n_threads, tuning)
        self.layout = Layout.of(offsets, 0, len(offsets) - 1, tuning.counters_at_once)
        self.counters = np.empty((n_threads, self.layout.most_counters), np.int64)
        self.partials = np.empty((0, self.n_bins, 2), np.int64)

    def build(self, rows: DenseRows, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum each node's rows into its slot; see engine.Engine.build_histograms."""
        n_features = max(1, len(self.layout.places))
        pieces = cut(nodes, self.n_threads, self.tuning.updates_per_thread // n_features + 1, self.tuning)
        shared = np.diff(pieces.first) > 1
        target = slots.astype(np.int64)[pieces.node]
        partial = shared[pieces.node]
        n_partials = int(np.count_nonzero(partial))
        target[partial] = ~np.arange(n_partials)
        partials = self.room_for_partials(n_partials)
        run_threads(
            lambda part: build_kernel(
                part, rows, pieces, target, self.layout, self.counters[part], self.histograms, partials
            ),
            len(pieces.bounds) - 1,
        )
        for node in np.flatnonzero(shared):
            first, last = ~target[pieces.first[node]], ~target[pieces.first[node + 1] - 1] + 1
            self.put_together(int(first), int(last), int(slots[node]))

    def room_for_partials(self, n_partials: int) -> NDArray[np.int64]:
        """Return room for so many partial histograms."""
        if len(self.partials) < n_partials:
            self.partials = np.empty((n_partials, self.n_bins, 2), np.int64)
        return self.partials

    def put_together(self, first: int, last: int, slot: int, parent: int | None = None) -> None:
        """Write the sum of the partial histograms first:last into a slot, or what a parent's has besides."""
        out = self.histograms[slot]
        less = out[:0] if parent is None else self.histograms[parent]
        run_ranges(
            lambda start, stop: add_up_kernel(self.partials, first, last, less, out, start, stop),
            self.n_bins, self.n_threads, smallest=self.tuning.merged_bins_per_thread,
        )  # fmt: skip
