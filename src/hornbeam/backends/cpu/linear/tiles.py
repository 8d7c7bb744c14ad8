"""Rows of leaves in tiles, and what linear leaves are fitted from: twins of leaf_fitting.NumpyRows.

The table is read once a tree, row by row, and the numbers that the leaf of a row looks at are kept side by side with
those of other rows of the leaf. What follows goes through them leaf by leaf, in vectors:

    tile of a leaf with features a, b    places | gradients | hessians | a a a a ... a | b b b b ... b
    tiles of a part of the rows          leaf 0, leaf 0, leaf 0, leaf 1, leaf 2, leaf 2, ...

A tile has columns of LANES numbers, and a row a lane in all of them: what a row writes lies close together, since a
place of its own for each column would be a page of memory more. Lanes behind the last row of a leaf have the numbers of
the first row of their tile, without gradient and hessian: they change neither ends nor sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, inner_kernel, joined_kernel, kernel
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


BESIDE = 3
"""Columns of a tile in front of its numbers: place, gradient, hessian."""

MORE, FRONT = np.uint64(BESIDE), np.uint64(BESIDE * LANES)


class Tiles(NamedTuple):
    """Where rows lie; part p of the rows has the places n * p // n_parts and on.

    first     int64 (n_parts, n_leaves): where the first tile of a leaf begins
    cells     float64 (n,): all tiles
    other     uint32 (n_rows,): places of rows in no tile, those of each part from its first place on
    n_others  int64 (n_parts,)
    """

    first: NDArray[np.int64]
    cells: NDArray[np.float64]
    other: NDArray[np.uint32]
    n_others: NDArray[np.int64]

    @classmethod
    def empty(cls, counts: NDArray[np.int64], columns: LeafColumns, n_rows: int, room: Room) -> Tiles:
        """Divide up the memory; counts: int64 (n_parts, n_leaves), rows of each leaf."""
        sizes = np.diff(columns.start)
        n_cells = np.where(sizes > 0, -(-counts // LANES) * LANES * (sizes + BESIDE), 0)
        ends = np.cumsum(n_cells)
        first = (ends - n_cells.ravel()).reshape(counts.shape)
        cells, other = room("cells", int(ends[-1]), np.float64), room("other", n_rows, np.uint32)
        return cls(first, cells, other, np.zeros(len(counts), np.int64))


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


@allocating_kernel
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
    cells, others, n_others = tiles.cells, tiles.other, tiles.n_others
    n, n_parts, n_leaves = len(gradient), len(counts), counts.shape[1]
    lanes = np.empty(2 * LANES)
    for part in range(t, n_parts, crew.size):
        count, firsts, other = counts[part], tiles.first[part], np.uint64(n * part // n_parts)
        for place in range(n * part // n_parts, n * (part + 1) // n_parts):
            row = _row_at(place, chosen)
            own = np.uint64(leaf[row])
            first, filled = np.uint64(start[own]), np.uint64(count[own])
            size, lane = np.uint64(start[own + ONE]) - first, filled % WIDTH
            at, is_used = np.uint64(firsts[own]) + (filled - lane) * (size + MORE) + lane, size > 0
            for k in range(size):
                x = np.float64(values[row, np.uint64(column[first + k])])
                is_used &= abs(x) <= LARGEST
                cells[at + FRONT + k * WIDTH] = x
            if is_used:
                cells[at] = place
                cells[at + WIDTH], cells[at + WIDTH + WIDTH] = gradient[np.uint64(place)], hessian[np.uint64(place)]
                count[own] += 1
            else:
                others[other] = place
                other += ONE
        n_others[part] = np.int64(other) - n * part // n_parts
        for leaf_number in range(n_leaves):
            own = np.uint64(leaf_number)
            first, n_rows, at = np.uint64(start[own]), np.uint64(count[own]), np.uint64(firsts[own])
            if n_rows == 0:
                continue
            size, n_tiles = np.uint64(start[own + ONE]) - first, (n_rows + WIDTH - ONE) // WIDTH
            step = (size + MORE) * WIDTH
            last = at + (n_tiles - ONE) * step
            for lane in range(n_rows - (n_tiles - ONE) * WIDTH, WIDTH):
                cells[last + WIDTH + lane] = cells[last + WIDTH + WIDTH + lane] = 0.0
                for k in range(size):
                    cells[last + FRONT + k * WIDTH + lane] = cells[last + FRONT + k * WIDTH]
            low, high = _ends(cells, at + WIDTH, step, n_tiles, lanes)
            ranges.largest[part, own, 0] = max(-low, high)
            ranges.largest[part, own, 1] = _ends(cells, at + WIDTH + WIDTH, step, n_tiles, lanes)[1]
            for k in range(size):
                low, high = _ends(cells, at + FRONT + k * WIDTH, step, n_tiles, lanes)
                ranges.low[part, first + k], ranges.high[part, first + k] = low, high


@inner_kernel
def _ends(cells, at, step, n_tiles, lanes):
    """Return the least and the greatest of the cells at + tile * step + lane: those of a column.

    lanes  float64 (2 * LANES,)  scratch: vectors of ends
    """
    n_lanes = np.uint64(len(lanes)) // np.uint64(2)  # not LANES: a loop of known length is not turned into vectors
    for lane in range(n_lanes):
        lanes[lane] = lanes[n_lanes + lane] = cells[at + lane]
    for tile in range(ONE, n_tiles):
        begin = at + tile * step
        for lane in range(n_lanes):
            x = cells[begin + lane]
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


@allocating_kernel
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
    cells, (n_parts, n_leaves) = tiles.cells, counts.shape
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
            first, term, at = np.uint64(start[own]), np.uint64(first_term[own]), np.uint64(tiles.first[part, own])
            size, n_tiles = np.uint64(start[own + ONE]) - first, (np.uint64(counts[part, own]) + WIDTH - ONE) // WIDTH
            g_scale, h_scale = scale[own, 0], scale[own, 1]
            for _ in range(n_tiles):
                for lane in range(n_lanes):
                    g[lane] = cells[at + n_lanes + lane] * g_scale
                    h[lane] = cells[at + n_lanes + n_lanes + lane] * h_scale
                at += FRONT
                for k in range(size):
                    own_middle, own_factor, to = middle[first + k], factor[first + k], (k + ONE) * n_lanes
                    for lane in range(n_lanes):
                        z[to + lane] = (cells[at + lane] - own_middle) * own_factor
                    at += n_lanes
                _add_lanes(z, size + ONE, g, h, out, term, hz)
            for one in range(term, np.uint64(first_term[own + ONE])):
                out[one] -= np.int64(n_tiles * WIDTH) * ROUNDER_BITS


@allocating_kernel
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
    chosen, leaves, values, cells = rows.chosen, rows.leaf, rows.values, tiles.cells
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
            first, at = np.uint64(columns_start[own]), np.uint64(tiles.first[part, own])
            size = np.uint64(columns_start[own + ONE]) - first
            for lane in range(n_lanes):
                lanes[lane], lanes[n_lanes + lane] = np.inf, -np.inf
            while left > 0:
                for lane in range(n_lanes):
                    made[lane] = const[own]
                k = np.uint64(0)
                for entry in range(np.uint64(start[own]), np.uint64(start[own + ONE])):
                    while column[first + k] != feature[entry]:
                        k += ONE
                    factor, begin = coeff[entry], at + FRONT + k * n_lanes
                    for lane in range(n_lanes):
                        made[lane] = made[lane] + factor * cells[begin + lane]
                for lane in range(n_lanes):
                    one = made[lane]
                    lanes[lane] = one if one < lanes[lane] else lanes[lane]
                    lanes[n_lanes + lane] = one if one > lanes[n_lanes + lane] else lanes[n_lanes + lane]
                n_rows = min(left, n_lanes)
                for lane in range(n_rows):
                    out[np.uint64(np.int64(cells[at + lane]))] = made[lane]
                at, left = at + (size + MORE) * n_lanes, left - n_rows
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
        self._tiles = Tiles.empty(counts, columns, len(rows.gradient), room)
        self._ranges = Ranges.empty(columns, n_parts)
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
