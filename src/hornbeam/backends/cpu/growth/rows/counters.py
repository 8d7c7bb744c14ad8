"""Packed counters: one 64-bit addition for a (row, feature).

Narrow gradients are added packed, gradient in the upper and hessian in the lower half of one counter. The packed sum
is g * 2**32 + h as an integer, so it splits exactly as long as 0 <= h < 2**32 and |g| < 2**31: at most `PACKED_ROWS`
rows are added before the counters are unpacked. Where rows are counted too (workers), a counter has three fields,

    gradient, 27 bits, signed | hessian, 26 bits | rows, 11 bits

and takes `COUNTED_ROWS` rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, gradient_in, hessian_in
from hornbeam.backends.cpu.host.atomics import fetch_ahead
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel
from hornbeam.core.fixed_point import NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT

ROWS_AHEAD = 16
"""Rows that are fetched before their turn comes, where rows lie anywhere: memory answers meanwhile."""

PACKED_ROWS = 65_536
assert PACKED_ROWS * NARROW_HESSIAN_LIMIT < 2**32
assert PACKED_ROWS * NARROW_GRADIENT_LIMIT < 2**31

COUNTED_ROWS = 1024
assert COUNTED_ROWS < 2**11
assert COUNTED_ROWS * NARROW_HESSIAN_LIMIT < 2**26
assert COUNTED_ROWS * NARROW_GRADIENT_LIMIT < 2**26


class Fields(NamedTuple):
    """The fields of a counter.

    gradient, hessian  their lowest bits
    one                1: the bits below count rows; 0: there are none
    """

    gradient: int
    hessian: int
    one: int


PAIRS, TRIPLES = Fields(32, 0, 0), Fields(37, 11, 1)


def blocks_of(starts: NDArray[np.int64], first: int, last: int, largest: int) -> NDArray[np.int64]:
    """Cut the columns first:last into blocks of at most `largest` counters, or one column: bounds of the blocks.

    starts  int64 (n + 1,)  in   first counter of each column
    """
    blocks = [first]
    for column in range(first + 1, last):
        if starts[column + 1] - starts[blocks[-1]] > largest:
            blocks.append(column)
    return np.array([*blocks, last] if last > first else [first], np.int64)


@inlined
def word_of(record, fields):
    """Return what a narrow record adds to a counter."""
    return (gradient_in(record) << fields.gradient) + (hessian_in(record) << fields.hessian) + fields.one


@inner_kernel
def add_counters(bins, records, begin, end, by_row, f0, f1, places, counters, fields):
    """Add the rows begin:end to packed counters, for the columns f0:f1.

    bins      uint8 or uint16 (n_rows, stride)  in       of the rows at these places; by_row: of the rows of these
                                                         numbers
    records   uint64 (n_rows,)                  in       narrow
    places    uint32 (n_columns,)               in       first counter of each column
    counters  int64 (n,)                        in out
    """
    first, last = np.uint64(f0), np.uint64(f1)  # unsigned: a signed index is checked for being negative at every use
    fours = begin + (end - begin) // 4 * 4
    for place in range(begin, fours, 4):  # four rows at a time, so that their additions overlap
        p0, p1, p2, p3 = np.uint64(place), np.uint64(place + 1), np.uint64(place + 2), np.uint64(place + 3)
        r0, r1, r2, r3 = records[p0], records[p1], records[p2], records[p3]
        v0, v1, v2, v3 = word_of(r0, fields), word_of(r1, fields), word_of(r2, fields), word_of(r3, fields)
        if by_row:
            p0, p1, p2, p3 = r0 & ROW_MASK, r1 & ROW_MASK, r2 & ROW_MASK, r3 & ROW_MASK
            if place + ROWS_AHEAD + 4 <= end:
                for i in range(np.uint64(place + ROWS_AHEAD), np.uint64(place + ROWS_AHEAD + 4)):
                    fetch_ahead(bins, records[i] & ROW_MASK)
        for f in range(first, last):
            counter = places[f]
            counters[counter + bins[p0, f]] += v0
            counters[counter + bins[p1, f]] += v1
            counters[counter + bins[p2, f]] += v2
            counters[counter + bins[p3, f]] += v3
    for place in range(fours, end):
        p0 = np.uint64(place)
        r0 = records[p0]
        v0 = word_of(r0, fields)
        if by_row:
            p0 = r0 & ROW_MASK
        for f in range(first, last):
            counters[places[f] + bins[p0, f]] += v0
