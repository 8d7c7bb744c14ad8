"""Rows of leaves in tiles, and what linear leaves are fitted from: twins of leaf_fitting.NumpyRows.

The table is read once a tree, row by row, and the numbers that the leaf of a row looks at are kept side by side with
those of other rows of the leaf. What follows goes through them leaf by leaf, in vectors:

    tile of a leaf with features a, b    a a a a ... a | b b b b ... b      LANES numbers each, a row has one lane
    tiles of a part of the rows          leaf 0, leaf 0, leaf 0, leaf 1, leaf 2, leaf 2, ...

Lanes behind the last row of a leaf hold the numbers of the first row of their tile, without gradient and hessian: they
change neither ends nor sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inner_kernel, joined_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts
from hornbeam.backends.cpu.linear.functions import ONE, Functions, value_of
from hornbeam.backends.cpu.losses.numerics import bits_from_float
from hornbeam.backends.cpu.losses.ranking import ROUNDER, ROUNDER_BITS
from hornbeam.trees.leaf_fitting import FittedRows, FittedValues, LeafColumns, Ranges, Scales
from hornbeam.trees.linear_leaves import LARGEST, LinearLeaves

LANES = 32
"""Rows of a tile, whose terms are added side by side: eight or sixteen vectors."""

WIDTH = np.uint64(LANES)

Room = Callable[[str, int, Any], NDArray[Any]]
"""Gives an array of some name, length and type, which is one's own until the name is asked for again."""


class Tiles(NamedTuple):
    """Where rows lie; part p of the rows has the places n * p // n_parts and on.

    first_number  int64 (n_parts, n_leaves): where the numbers of a leaf's first tile begin
    first_slot    int64 (n_parts, n_leaves): where the lanes of a leaf's first tile begin in the next three
    place         uint32 (n_slots,): places of the rows
    gradient, hessian  float64 (n_slots,)
    numbers       float32 or float64 (n,): as in the table
    other         uint32 (n_rows,): places of rows in no tile, those of each part from its first place on
    n_others      int64 (n_parts,)
    """

    first_number: NDArray[np.int64]
    first_slot: NDArray[np.int64]
    place: NDArray[np.uint32]
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    numbers: NDArray[Any]
    other: NDArray[np.uint32]
    n_others: NDArray[np.int64]

    @classmethod
    def empty(cls, counts: NDArray[np.int64], rows: FittedRows, columns: LeafColumns, room: Room) -> Tiles:
        """Divide up the memory; counts: int64 (n_parts, n_leaves), rows of each leaf."""
        sizes = np.diff(columns.start)
        n_slots = np.where(sizes > 0, -(-counts // LANES) * LANES, 0)
        n_numbers = n_slots * sizes
        total = int(n_slots.sum())
        return cls(
            (np.cumsum(n_numbers) - n_numbers.ravel()).reshape(counts.shape),
            (np.cumsum(n_slots) - n_slots.ravel()).reshape(counts.shape),
            room("place", total, np.uint32),
            room("gradient", total, np.float64),
            room("hessian", total, np.float64),
            room("numbers", int(n_numbers.sum()), rows.values.dtype),
            room("other", len(rows.gradient), np.uint32),
            np.zeros(len(counts), np.int64),
        )


@joined_kernel
def _row_at(place, chosen):
    """Return the number of a row that the tree was grown on; `chosen` None is known to the compiler."""
    if chosen is None:
        return np.uint64(place)
    return np.uint64(chosen[np.uint64(place)])


@kernel
def count_kernel(t, crew, rows, counts):
    """Count the rows of each leaf in some parts of the rows (team.run_parts).

    rows    FittedRows                 in
    counts  int64 (n_parts, n_leaves)  in, out
    """
    call_helpers(t, crew, (rows, counts))
    chosen, leaf = rows.chosen, rows.leaf
    n, n_parts = len(rows.gradient), len(counts)
    for part in range(t, n_parts, crew.size):
        count = counts[part]
        for place in range(n * part // n_parts, n * (part + 1) // n_parts):
            count[np.uint64(leaf[_row_at(place, chosen)])] += 1


@kernel
def fill_kernel(t, crew, rows, columns, tiles, ranges):
    """Fill the tiles of some parts of the rows, and find their ranges (team.run_parts).

    rows     FittedRows   in
    columns  LeafColumns  in
    tiles    Tiles        in, out
    ranges   Ranges       in, out; with an axis of parts in front
    """
    call_helpers(t, crew, (rows, columns, tiles, ranges))
    chosen, gradient, hessian, leaf, values = rows.chosen, rows.gradient, rows.hessian, rows.leaf, rows.values
    start, column, counts = columns.start, columns.columns, ranges.n_rows
    places, kept_gradient, kept_hessian, numbers = tiles.place, tiles.gradient, tiles.hessian, tiles.numbers
    others, n_others = tiles.other, tiles.n_others
    n, n_parts, n_leaves = len(gradient), len(counts), counts.shape[1]
    lanes = np.empty(2 * LANES)
    for part in range(t, n_parts, crew.size):
        count, first_number, first_slot = counts[part], tiles.first_number[part], tiles.first_slot[part]
        other = np.uint64(n * part // n_parts)
        for place in range(n * part // n_parts, n * (part + 1) // n_parts):
            row = _row_at(place, chosen)
            own = np.uint64(leaf[row])
            first, filled = np.uint64(start[own]), np.uint64(count[own])
            size, lane = np.uint64(start[own + ONE]) - first, filled % WIDTH
            at, is_used = np.uint64(first_number[own]) + (filled - lane) * size + lane, size > 0
            for k in range(size):
                x = values[row, np.uint64(column[first + k])]
                is_used &= abs(np.float64(x)) <= LARGEST
                numbers[at + k * WIDTH] = x
            if is_used:
                slot = np.uint64(first_slot[own]) + filled
                places[slot] = place
                kept_gradient[slot], kept_hessian[slot] = gradient[np.uint64(place)], hessian[np.uint64(place)]
                count[own] += 1
            else:
                others[other] = place
                other += ONE
        n_others[part] = np.int64(other) - n * part // n_parts
        for leaf_number in range(n_leaves):
            own = np.uint64(leaf_number)
            first, n_rows = np.uint64(start[own]), np.uint64(count[own])
            size = np.uint64(start[own + ONE]) - first
            at, slot = np.uint64(first_number[own]), np.uint64(first_slot[own])
            if n_rows == 0:
                continue
            n_slots = (n_rows + WIDTH - ONE) // WIDTH * WIDTH
            last = at + (n_slots - WIDTH) * size
            for lane in range(n_rows % WIDTH, WIDTH if n_slots > n_rows else np.uint64(0)):
                kept_gradient[slot + n_slots - WIDTH + lane] = kept_hessian[slot + n_slots - WIDTH + lane] = 0.0
                for k in range(size):
                    numbers[last + k * WIDTH + lane] = numbers[last + k * WIDTH]
            for k in range(size):
                low, high = _ends(numbers, at + k * WIDTH, size * WIDTH, n_slots // WIDTH, lanes)
                ranges.low[part, first + k], ranges.high[part, first + k] = low, high
            low, high = _ends(kept_gradient, slot, WIDTH, n_slots // WIDTH, lanes)
            ranges.largest[part, own, 0] = max(-low, high)
            ranges.largest[part, own, 1] = _ends(kept_hessian, slot, WIDTH, n_slots // WIDTH, lanes)[1]


@inner_kernel
def _ends(numbers, at, step, n_tiles, lanes):
    """Return the least and the greatest of the numbers at + i * step + lane.

    lanes  float64 (2 * LANES,)  scratch: vectors of ends
    """
    n_lanes = np.uint64(len(lanes)) // np.uint64(2)  # not LANES: a loop of known length is not turned into vectors
    for lane in range(n_lanes):
        lanes[lane] = lanes[n_lanes + lane] = numbers[at + lane]
    for tile in range(ONE, n_tiles):
        begin = at + tile * step
        for lane in range(n_lanes):
            x = np.float64(numbers[begin + lane])
            lanes[lane] = x if x < lanes[lane] else lanes[lane]
            lanes[n_lanes + lane] = x if x > lanes[n_lanes + lane] else lanes[n_lanes + lane]
    low, high = lanes[0], lanes[n_lanes]
    for lane in range(n_lanes):
        low, high = min(low, lanes[lane]), max(high, lanes[n_lanes + lane])
    return low, high


@joined_kernel
def _add_lanes(z, size, g, h, out, term, hz):
    """Add the terms of a tile; what ROUNDER adds to their bits is taken off at the end.

    z     float64 (n * LANES,)  in       the ones first
    g, h  float64 (LANES,)      in       scaled gradients and hessians
    out   int64 (n_terms,)      in, out  those of this leaf from `term` on
    hz    float64 (LANES,)      scratch
    """
    n_lanes = np.uint64(len(hz))  # not LANES: a loop of known length is unrolled, and not turned into vectors
    for i in range(size):
        at = i * n_lanes
        for lane in range(n_lanes):
            hz[lane] = h[lane] * z[at + lane]
        for j in range(i + ONE):
            at, total = j * n_lanes, np.int64(0)
            for lane in range(n_lanes):
                total += bits_from_float(hz[lane] * z[at + lane] + ROUNDER)
            out[term + j] += total
        term += i + ONE
    for i in range(size):
        at, total = i * n_lanes, np.int64(0)
        for lane in range(n_lanes):
            total += bits_from_float(g[lane] * z[at + lane] + ROUNDER)
        out[term + i] += total


@kernel
def add_up_kernel(t, crew, columns, counts, tiles, scales, sums):
    """Add up the terms of some parts of the rows (team.run_parts).

    columns  LeafColumns                in
    counts   int64 (n_parts, n_leaves)  in  rows in tiles
    tiles    Tiles                      in
    scales   Scales                     in
    sums     int64 (n_parts, n_terms)   in, out

    A term is rounded by adding ROUNDER, whose bits are taken off at the end. Sums of int64 wrap around on the way, and
    are right in the end.
    """
    call_helpers(t, crew, (columns, counts, tiles, scales, sums))
    start, is_fitted, first_term = columns.start, scales.is_fitted, scales.first_term
    middle, factor, scale = scales.middle, scales.factor, scales.scale
    gradient, hessian, numbers = tiles.gradient, tiles.hessian, tiles.numbers
    n_parts, n_leaves = counts.shape
    most = 0
    for leaf in range(n_leaves):
        most = max(most, start[leaf + 1] - start[leaf])
    z, g, h, hz = np.ones((most + 1) * LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    n_lanes = np.uint64(len(hz))
    for part in range(t, n_parts, crew.size):
        out = sums[part]
        for leaf in range(n_leaves):
            if not is_fitted[leaf]:
                continue
            own = np.uint64(leaf)
            first, term = np.uint64(start[own]), np.uint64(first_term[own])
            size, n_tiles = np.uint64(start[own + ONE]) - first, (np.uint64(counts[part, own]) + WIDTH - ONE) // WIDTH
            at, slot = np.uint64(tiles.first_number[part, own]), np.uint64(tiles.first_slot[part, own])
            g_scale, h_scale = scale[own, 0], scale[own, 1]
            for _ in range(n_tiles):
                for k in range(size):
                    own_middle, own_factor, to = middle[first + k], factor[first + k], (k + ONE) * n_lanes
                    for lane in range(n_lanes):
                        z[to + lane] = (np.float64(numbers[at + lane]) - own_middle) * own_factor
                    at += n_lanes
                for lane in range(n_lanes):
                    g[lane] = gradient[slot + lane] * g_scale
                    h[lane] = hessian[slot + lane] * h_scale
                slot += n_lanes
                _add_lanes(z, size + ONE, g, h, out, term, hz)
            for one in range(term, np.uint64(first_term[own + ONE])):
                out[one] -= np.int64(n_tiles * WIDTH) * ROUNDER_BITS


@kernel
def evaluate_kernel(t, crew, rows, columns, counts, tiles, functions, out, ends):
    """Compute the values of some parts of the rows (team.run_parts).

    rows       FittedRows                            in
    columns    LeafColumns                           in
    counts     int64 (n_parts, n_leaves)             in       rows in tiles
    tiles      Tiles                                 in
    functions  Functions                             in       without bounds; each has some of the leaf's columns
    out        float64 (n_chosen,)                   out      values of the rows
    ends       float64 (2, n_parts, n_leaves)        in, out  the least and the greatest of each leaf
    """
    call_helpers(t, crew, (rows, columns, counts, tiles, functions, out, ends))
    chosen, leaves, values, places, numbers = rows.chosen, rows.leaf, rows.values, tiles.place, tiles.numbers
    columns_start, column = columns.start, columns.columns
    start, feature, coeff, const, value, low, high = functions
    n, (n_parts, n_leaves) = len(out), counts.shape
    made, lanes = np.empty(LANES), np.empty(2 * LANES)
    n_lanes = np.uint64(len(made))
    for part in range(t, n_parts, crew.size):
        lows, highs = ends[0, part], ends[1, part]
        for leaf in range(n_leaves):
            own, left = np.uint64(leaf), np.uint64(counts[part, leaf])
            if left == 0:
                continue
            first = np.uint64(columns_start[own])
            size = np.uint64(columns_start[own + ONE]) - first
            at, slot = np.uint64(tiles.first_number[part, own]), np.uint64(tiles.first_slot[part, own])
            for lane in range(n_lanes):
                lanes[lane], lanes[n_lanes + lane] = np.inf, -np.inf
            while left > 0:
                for lane in range(n_lanes):
                    made[lane] = const[own]
                k = np.uint64(0)
                for entry in range(np.uint64(start[own]), np.uint64(start[own + ONE])):
                    while column[first + k] != feature[entry]:
                        k += ONE
                    factor, begin = coeff[entry], at + k * n_lanes
                    for lane in range(n_lanes):
                        made[lane] = made[lane] + factor * np.float64(numbers[begin + lane])
                for lane in range(n_lanes):
                    one = made[lane]
                    lanes[lane] = one if one < lanes[lane] else lanes[lane]
                    lanes[n_lanes + lane] = one if one > lanes[n_lanes + lane] else lanes[n_lanes + lane]
                n_rows = min(left, n_lanes)
                for lane in range(n_rows):
                    out[np.uint64(places[slot + lane])] = made[lane]
                at, slot, left = at + size * n_lanes, slot + n_lanes, left - n_rows
            for lane in range(n_lanes):
                lows[own], highs[own] = min(lows[own], lanes[lane]), max(highs[own], lanes[n_lanes + lane])
        begin = np.uint64(n * part // n_parts)
        for i in range(begin, begin + np.uint64(tiles.n_others[part])):
            place = np.uint64(tiles.other[i])
            row = _row_at(place, chosen)
            own = np.uint64(leaves[row])
            one = value_of(start, feature, coeff, const, value, low, high, own, values, row)
            out[place], lows[own], highs[own] = one, min(lows[own], one), max(highs[own], one)


class TiledRows:
    """The rows of a tree in tiles: see leaf_fitting.LeafRows."""

    def __init__(self, rows: FittedRows, columns: LeafColumns, n_parts: int, room: Room) -> None:
        self._rows, self._columns, self._n_parts = rows, columns, n_parts
        counts = np.zeros((n_parts, len(columns.start) - 1), np.int64)
        run_parts(count_kernel, n_parts, rows, counts)
        self._tiles, self._ranges = Tiles.empty(counts, rows, columns, room), Ranges.empty(columns, n_parts)
        run_parts(fill_kernel, n_parts, rows, columns, self._tiles, self._ranges)

    def measure(self) -> Ranges:
        """Put the ranges of all parts together."""
        return self._ranges.together()

    def add_up(self, scales: Scales) -> NDArray[np.int64]:
        """Add up all parts, and these."""
        sums = np.zeros((self._n_parts, scales.first_term[-1]), np.int64)
        run_parts(add_up_kernel, self._n_parts, self._columns, self._ranges.n_rows, self._tiles, scales, sums)
        return sums[0] if self._n_parts == 1 else sums.sum(axis=0)

    def evaluate(self, linear: LinearLeaves, leaf_value: NDArray[np.float64]) -> FittedValues:
        """Compute the values of all parts."""
        out, ends = np.empty(len(self._rows.gradient)), np.empty((2, *self._ranges.n_rows.shape))
        ends[0], ends[1] = np.inf, -np.inf
        functions = Functions.of(linear, leaf_value)
        run_parts(
            evaluate_kernel, self._n_parts,
            self._rows, self._columns, self._ranges.n_rows, self._tiles, functions, out, ends,
        )  # fmt: skip
        return FittedValues(out, ends[0].min(axis=0), ends[1].max(axis=0))
