"""Which bins go left at a split: the one rule, as a table for the rows of a node, and for rows that go down a tree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel


@inlined
def bin_goes_left(code, bin_, missing_left, n_value_bins):
    """Twin of tree.goes_left in bins; the missing bin is code n_value_bins, above every split bin."""
    return (code <= bin_) | (missing_left & (code == n_value_bins))


@inner_kernel
def bin_in_set(code, left_set):
    """Say whether a bin is in a set; the missing bin, past the last, may lie past its last word too.

    left_set  uint32 (n_words,)  in   bits, see tree.code_bits
    """
    word = np.uint64(code >> 5)
    return word < np.uint64(len(left_set)) and (left_set[word] >> np.uint32(code & 31)) & np.uint32(1) != 0


class Sides(NamedTuple):
    """What says which bins go left, besides a split.

    n_value_bins  int64 (n_used,)
    n_numeric     features from here on are categorical: the bin of their splits is the number of a set
    sets          uint32 (n_sets, n_words)   bins that go left, bits as in tree.code_bits
    """

    n_value_bins: NDArray[np.int64]
    n_numeric: int
    sets: NDArray[np.uint32]


NO_SETS = np.empty((0, 0), np.uint32)


@inner_kernel
def left_bins(split, sides, table):
    """Write which bins of a split's feature go left, the missing bin last; returns how many bins there are.

    split  SPLIT ()             in
    table  uint8 (most bins,)   out
    """
    bin_, missing_left, last = np.int64(split.bin), split.missing_left, sides.n_value_bins[split.feature]
    goes_left = table[: last + 1]
    if split.feature < sides.n_numeric:
        for code in range(last + 1):
            goes_left[code] = bin_goes_left(code, bin_, missing_left, last)
    else:
        left_set = sides.sets[bin_]
        for code in range(last + 1):
            goes_left[code] = bin_in_set(code, left_set)
    return last + 1
