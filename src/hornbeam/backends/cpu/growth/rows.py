"""Where the rows of a node are: the memory of the growing tree, and how kernels read it.

Every row has a *record* that travels with it from node to node; nodes of even depth keep theirs in one buffer, nodes
of odd depth in another, and partition moves them from the one to the other:

    narrow   record[0] =  row (32 bits) | gradient (16) | hessian (16)
    wide     record[0] =  row           record[1] = gradient (32) | hessian (32)

so the histogram reads gradients in sequence. Bins are row-major. On narrow data they travel too (`ordered`), because
fetching 28 bytes from a random row costs more than copying 28 bytes in sequence at every level; on wide data, and on
data that fits in the cache anyway, they stay in place and are fetched by row number.

    depth 0        bins of the data set, untouched
    depth 1, 3...  bins_odd          depth 2, 4...  bins_even
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

ORDERED_BYTES_PER_ROW = 512
"""Rows up to this long travel with their records. On a Neoverse-N1 (benchmarks/histogram.py) moving still wins by 4% at
500 bytes, and by far at 28."""

ORDERED_SMALLEST = 2 << 20
"""Bins of fewer bytes stay in the cache and are fetched by row number."""

ROW_MASK = np.uint64(0xFFFFFFFF)


class RowStore:
    """Records and bins of the growing tree.

    bins                 uint8 or uint16 (n_rows, stride)     of the data set
    bins_even, bins_odd  the same; empty when bins stay in place
    even, odd            uint64 (n_rows, 1 or 2)              records
    gather               bins are fetched by row number
    """

    def __init__(self, bins: NDArray[Any], in_place: bool = False) -> None:
        self.bins = bins
        n_rows = len(bins)
        self.gather = in_place or bins.strides[0] > ORDERED_BYTES_PER_ROW or bins.nbytes < ORDERED_SMALLEST
        self.bins_even = np.empty((0 if self.gather else n_rows, bins.shape[1]), bins.dtype)
        self.bins_odd = np.empty_like(self.bins_even)
        self.even = np.empty((n_rows, 1), np.uint64)
        self.odd = np.empty((n_rows, 1), np.uint64)

    def set_width(self, wide: bool) -> None:
        """Make room for one or two words a record."""
        n_words = 2 if wide else 1
        if self.even.shape[1] != n_words:
            self.even = np.empty((len(self.bins), n_words), np.uint64)
            self.odd = np.empty((len(self.bins), n_words), np.uint64)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return what kernels take as `bins, bins_even, bins_odd, even, odd, gather`."""
        return self.bins, self.bins_even, self.bins_odd, self.even, self.odd, self.gather  # type: ignore[return-value]


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def bins_at(bins, bins_even, bins_odd, gather, depth):  # type: ignore[no-untyped-def]
    """Return the bins of the nodes at this depth."""
    if gather or depth == 0:
        return bins
    if depth % 2 == 0:
        return bins_even
    return bins_odd


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def records_at(even, odd, depth):  # type: ignore[no-untyped-def]
    """Return the records of the nodes at this depth."""
    if depth % 2 == 0:
        return even
    return odd
