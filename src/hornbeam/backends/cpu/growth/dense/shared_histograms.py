"""Histograms of a tree that all outputs share.

The rounded gradients of all outputs are kept by row; the records of the rows bring their numbers alone. Output after
output, the rows of a node get records with what is kept of them, in the buffer of the other parity, where no row of a
node lies any more that is not divided; and these are summed as those of any tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.histograms import DenseHistograms, add_up_kernel, sum_narrow
from hornbeam.backends.cpu.growth.dense.partition import DenseRows, bins_at
from hornbeam.backends.cpu.growth.rows.pieces import cut
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, RowStore, gradient_of, hessian_of
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.trees.records import Segments

COUNTED = np.uint32(1 << 16)
"""A row of the histogram that counts: no gradient, and a hessian of 1."""


class Kept(NamedTuple):
    """Rounded gradients and hessians by row, and by histogram.

    narrow  uint32 (n_rows, n)  hessian (16 bits) | gradient (16)
    wide    uint64 (n_rows, n)  hessian (32) | gradient (32), where an output needs so many; or empty
    """

    narrow: NDArray[np.uint32]
    wide: NDArray[np.uint64]


@kernel
def keep_kernel(records, wide, start, stop, kept, column):
    """Keep what the records start:stop say of one output.

    wide    uint64 (n_rows,), or empty: records are narrow
    kept    Kept
    column  the histogram
    """
    is_wide = len(wide) > 0
    for place in range(np.uint64(start), np.uint64(stop)):
        row = records[place] & ROW_MASK
        if is_wide:
            kept.wide[row, column] = wide[place]
        else:
            kept.narrow[row, column] = np.uint32(records[place] >> np.uint64(32))


@inner_kernel
def take_records(records, kept, begin, end, number, out):
    """Write records of the rows begin:end with what is kept of them for one histogram, at the same places."""
    column = np.uint64(number)
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place] & ROW_MASK
        out[place] = row | np.uint64(kept[row, column]) << np.uint64(32)


@inner_kernel
def add_wide_rows(bins, records, kept, begin, end, by_row, offsets, number, out):
    """Add the rows begin:end to one histogram, gradient and hessian in counters of their own."""
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place] & ROW_MASK
        index, pair = row if by_row else place, kept[row, number]
        gradient, hessian = gradient_of(pair), hessian_of(pair)
        for f in range(np.uint64(len(offsets) - 1)):
            entry = np.uint64(offsets[f]) + bins[index, f]
            out[entry, 0] += gradient
            out[entry, 1] += hessian


@kernel
def sum_shared(part, rows, kept, pieces, target, layout, counters, histograms, partials):
    """Sum one thread's pieces, each histogram into a slot (target >= 0) or into partial histogram ~target.

    target      int64 (n_pieces, n_histograms)        in
    counters    int64 (>= layout.most_counters,)      scratch
    histograms  int64 (n_slots, n_total_bins, 2)      out
    partials    int64 (n_partials, n_total_bins, 2)   out
    """
    narrow, wide = kept.narrow, kept.wide
    for piece in range(pieces.bounds[part], pieces.bounds[part + 1]):
        begin, end, depth = pieces.begin[piece], pieces.end[piece], pieces.depth[piece]
        records, taken = (rows.even, rows.odd) if depth % 2 == 0 else (rows.odd, rows.even)
        for k in range(target.shape[1]):
            to = target[piece, k]
            out = histograms[to] if to >= 0 else partials[~to]
            if len(wide) > 0:
                out[:, :] = 0
                add_wide_rows(bins_at(rows, depth), records, wide, begin, end, rows.by_row, layout.offsets, k, out)
            else:
                take_records(records, narrow, begin, end, k, taken)
                sum_narrow(bins_at(rows, depth), taken, begin, end, rows.by_row, layout, counters, out)


class SharedHistograms:
    """What sums the histograms of trees that all outputs share, into the slots of other trees."""

    def __init__(self, n_rows: int, n_outputs: int, n_threads: int, tuning: Tuning) -> None:
        self.n_outputs, self.n_threads, self.tuning = n_outputs, n_threads, tuning
        self.kept = Kept(np.zeros((n_rows, n_outputs + 1), np.uint32), np.empty((0, n_outputs + 1), np.uint64))
        self._wide: list[int] = []
        self._partials = np.empty((0, 0, 2), np.int64)

    def begin(self) -> None:
        """Forget the gradients of the tree before."""
        self._wide = []

    def keep(self, store: RowStore, n_rows: int, output: int) -> None:
        """Keep the rounded gradients of an output, which are in the records of the root."""
        if len(store.wide_even):
            self._wide.append(output)
            if len(self.kept.wide) == 0:
                self.kept = self.kept._replace(wide=np.empty(self.kept.narrow.shape, np.uint64))
        run_ranges(
            lambda start, stop: keep_kernel(store.even, store.wide_even, start, stop, self.kept, output),
            n_rows, self.n_threads, smallest=self.tuning.rounded_rows_per_thread,
        )  # fmt: skip

    def finish(self, counts: bool) -> None:
        """Bring all outputs to one width; counts: there is a histogram that counts rows."""
        kept, n_outputs = self.kept, self.n_outputs
        kept.narrow[:, n_outputs:] = 0
        if counts:
            kept.narrow[:, n_outputs] = COUNTED
        if not self._wide:
            self.kept = kept._replace(wide=kept.wide[:0])
            return
        for column in set(range(n_outputs + 1)).difference(self._wide):
            pairs = kept.narrow[:, column]
            gradient = (pairs & np.uint32(0xFFFF)).astype(np.uint16).view(np.int16).astype(np.int32).view(np.uint32)
            kept.wide[:, column] = gradient | (pairs >> np.uint32(16)).astype(np.uint64) << np.uint64(32)

    def build(self, to: DenseHistograms, rows: DenseRows, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum each node's rows into its slots, int32 (n_nodes, n_histograms)."""
        n_features, n_histograms = max(1, len(to.layout.places)), slots.shape[1]
        smallest = self.tuning.updates_per_thread // (n_features * n_histograms) + 1
        pieces = cut(nodes, self.n_threads, smallest, self.tuning)
        shared = np.diff(pieces.first) > 1
        target, is_partial = slots.astype(np.int64)[pieces.node], shared[pieces.node]
        n_partials = int(np.count_nonzero(is_partial)) * n_histograms
        target[is_partial] = ~np.arange(n_partials).reshape(-1, n_histograms)
        if len(self._partials) < n_partials or self._partials.shape[1] != to.n_bins:
            self._partials = np.empty((n_partials, to.n_bins, 2), np.int64)
        run_threads(
            lambda part: sum_shared(
                part, rows, self.kept, pieces, target, to.layout, to.counters[part], to.histograms, self._partials
            ),
            len(pieces.bounds) - 1,
        )  # fmt: skip
        for node in np.flatnonzero(shared):
            of_node = slice(pieces.first[node], pieces.first[node + 1])
            for k in range(n_histograms):
                parts, out = self._partials[~target[of_node, k]], to.histograms[slots[node, k]]
                run_ranges(
                    lambda start, stop, parts=parts, out=out: add_up_kernel(  # type: ignore[misc]
                        parts, 0, len(parts), out[:0], out, start, stop
                    ),
                    to.n_bins, self.n_threads, smallest=self.tuning.merged_bins_per_thread,
                )  # fmt: skip
