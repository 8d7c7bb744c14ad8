"""Where the rows of a node are: the memory of the growing tree, and how kernels read it.

Every row has a *record* that travels with it from node to node; nodes of even depth keep theirs in one buffer, nodes
of odd depth in another, and partition moves them from the one to the other:

    narrow   record =  row (32 bits) | gradient (16) | hessian (16)
    wide     record =  row           , and beside it, in `wide`,  gradient (32) | hessian (32)

so the histogram reads gradients in sequence. Bins are row-major. On narrow data they travel too, because fetching 28
bytes from a random row costs more than copying 28 bytes in sequence at every level; on wide data, on data that fits in
the cache anyway, and while a tree of few leaves is grown whole (Tuning.travelling_levels), they stay in place and are
fetched by row number.

    depth 0        bins of the data set, untouched
    depth 1, 3...  bins_odd          depth 2, 4...  bins_even
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inlined
from hornbeam.backends.cpu.tuning import Tuning

ROW_MASK = np.uint64(0xFFFFFFFF)
"""The row number of a record."""


class RowStore:
    """The memory of one training's trees.

    bins                 uint8 or uint16 (n_rows, stride)   of the data set
    bins_even, bins_odd  the same; empty where bins stay in place
    even, odd            uint64 (n_rows,)                   records
    wide_even, wide_odd  uint64 (n_rows,)                   gradients of wide records; empty where these are narrow
    by_row               bins stay in place, and are fetched by row number
    """

    def __init__(self, bins: NDArray[Any], by_row: bool) -> None:
        n_rows, n_moved = len(bins), 0 if by_row else len(bins)
        self.bins = bins
        self.by_row = by_row
        self.bins_even = np.empty((n_moved, bins.shape[1]), bins.dtype)
        self.bins_odd = np.empty_like(self.bins_even)
        self.even, self.odd = np.empty(n_rows, np.uint64), np.empty(n_rows, np.uint64)
        self.wide_even = self.wide_odd = np.empty(0, np.uint64)

    @classmethod
    def fitting(cls, bins: NDArray[Any], tuning: Tuning, stay: bool = False) -> RowStore:
        """Let bins travel or stay, whichever is quicker; those of a file stay, for memory may not hold them twice."""
        if stay:
            return cls(bins, True)
        travels = bins.strides[0] <= tuning.ordered_bytes_per_row and bins.nbytes >= tuning.ordered_smallest_bytes
        return cls(bins, not travels)

    def set_width(self, wide: bool) -> None:
        """Make room for narrow or wide records."""
        n_rows = len(self.bins) if wide else 0
        if len(self.wide_even) != n_rows:
            self.wide_even, self.wide_odd = np.empty(n_rows, np.uint64), np.empty(n_rows, np.uint64)


@inlined
def gradient_in(record):
    """Return the gradient of a narrow record."""
    return np.int64(np.int16((np.int64(record) >> 32) & 0xFFFF))


@inlined
def hessian_in(record):
    """Return the hessian of a narrow record."""
    return (np.int64(record) >> 48) & 0xFFFF


@inlined
def packed(record):
    """Return gradient * 2**32 + hessian of a narrow record."""
    return (gradient_in(record) << 32) + hessian_in(record)


@inlined
def gradient_of(wide):
    """Return the gradient of a wide record."""
    return np.int64(np.int32(np.int64(wide) & 0xFFFFFFFF))


@inlined
def hessian_of(wide):
    """Return the hessian of a wide record."""
    return np.int64(wide) >> 32
