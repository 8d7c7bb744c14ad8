"""Linear leaves, fitted by kernels: twins of leaf_fitting.NumpyLeaves.

Both passes go through the rows in their order, whatever leaf they are in: the numbers of a row lie side by side, and
what is added up for all leaves stays in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inner_kernel, joined_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, largest_team, run_parts
from hornbeam.backends.cpu.losses.numerics import bits_from_float
from hornbeam.backends.cpu.losses.ranking import ROUNDER, ROUNDER_BITS
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.trees.leaf_fitting import SMALLEST_PIVOT, FittedRows, LeafColumns, Ranges, Scales, Solution
from hornbeam.trees.linear_leaves import LARGEST, LinearLeaves

ONE = np.uint64(1)
"""Loops over rows count in uint64: a signed index would cost a test for negative numbers at every access."""

LANES = 16
"""Rows of a leaf whose terms are added side by side: four or eight vectors."""

WIDTH = np.uint64(LANES)


@joined_kernel
def _row_at(place, chosen):
    """Return the number of a row that the tree was grown on; `chosen` None is known to the compiler."""
    if chosen is None:
        return np.uint64(place)
    return np.uint64(chosen[np.uint64(place)])


@kernel
def measure_kernel(t, crew, rows, columns, ranges):
    """Find the ranges of some parts of the rows (team.run_parts).

    rows     FittedRows   in
    columns  LeafColumns  in
    ranges   Ranges       in, out; with an axis of parts in front
    """
    call_helpers(t, crew, (rows, columns, ranges))
    chosen, gradient, hessian, leaf, values = rows.chosen, rows.gradient, rows.hessian, rows.leaf, rows.values
    start, column = columns.start, columns.columns
    counts, largest, lows, highs = ranges.n_rows, ranges.largest, ranges.low, ranges.high
    n, n_parts = len(gradient), len(counts)
    numbers = np.empty(len(column) + 1)
    for part in range(t, n_parts, crew.size):
        count, most, low, high = counts[part], largest[part], lows[part], highs[part]
        for place in range(n * part // n_parts, n * (part + 1) // n_parts):
            row = _row_at(place, chosen)
            own = np.uint64(leaf[row])
            first = np.uint64(start[own])
            size = np.uint64(start[own + ONE]) - first
            is_used = size > 0
            for k in range(size):
                x = np.float64(values[row, np.uint64(column[first + k])])
                is_used &= abs(x) <= LARGEST
                numbers[k] = x
            if not is_used:
                continue
            count[own] += 1
            most[own, 0] = max(most[own, 0], abs(gradient[np.uint64(place)]))
            most[own, 1] = max(most[own, 1], hessian[np.uint64(place)])
            for k in range(size):
                x = numbers[k]
                low[first + k] = min(low[first + k], x)
                high[first + k] = max(high[first + k], x)


@joined_kernel
def _add_lanes(z, first, size, g, h, own, out, term, hz):
    """Add the terms of LANES rows of the leaf `own`; what ROUNDER adds to their bits is taken off at the end.

    z      float64 (n * LANES,)         in       numbers of the rows, those of this leaf from `first` on, the ones first
    g, h   float64 (n_leaves * LANES,)  in       scaled gradients and hessians
    out    int64 (n_terms,)             in, out  those of this leaf from `term` on
    hz     float64 (LANES,)             scratch

    Arrays are flat: a row of one would be counted as in use each time.
    """
    n_lanes = np.uint64(len(hz))  # not LANES: a loop of known length is unrolled, and not turned into vectors
    rows = own * n_lanes
    for i in range(size):
        at = (first + i) * n_lanes
        for lane in range(n_lanes):
            hz[lane] = h[rows + lane] * z[at + lane]
        for j in range(i + ONE):
            at, total = (first + j) * n_lanes, np.int64(0)
            for lane in range(n_lanes):
                total += bits_from_float(hz[lane] * z[at + lane] + ROUNDER)
            out[term + j] += total
        term += i + ONE
    for i in range(size):
        at, total = (first + i) * n_lanes, np.int64(0)
        for lane in range(n_lanes):
            total += bits_from_float(g[rows + lane] * z[at + lane] + ROUNDER)
        out[term + i] += total


@kernel
def add_up_kernel(t, crew, rows, columns, scales, sums):
    """Add up the terms of some parts of the rows (team.run_parts).

    rows     FittedRows                in
    columns  LeafColumns               in
    scales   Scales                    in
    sums     int64 (n_parts, n_terms)  in, out

    A leaf collects LANES rows, whose terms are added side by side. A term is rounded by adding ROUNDER, whose bits are
    taken off at the end. Sums of int64 wrap around on the way, and are right in the end.
    """
    call_helpers(t, crew, (rows, columns, scales, sums))
    chosen, gradient, hessian, leaf, values = rows.chosen, rows.gradient, rows.hessian, rows.leaf, rows.values
    start, column, is_fitted, first_term = columns.start, columns.columns, scales.is_fitted, scales.first_term
    middle, factor, scale = scales.middle, scales.factor, scales.scale
    n, n_parts, n_leaves = len(gradient), len(sums), len(is_fitted)
    z, hz = np.ones((len(column) + n_leaves) * LANES), np.empty(LANES)
    g, h = np.zeros(n_leaves * LANES), np.zeros(n_leaves * LANES)
    n_waiting, n_added = np.zeros(n_leaves, np.uint64), np.zeros(n_leaves, np.int64)
    for part in range(t, n_parts, crew.size):
        out = sums[part]
        n_added[:] = 0
        for place in range(n * part // n_parts, n * (part + 1) // n_parts):
            row = _row_at(place, chosen)
            own = np.uint64(leaf[row])
            if not is_fitted[own]:
                continue
            first, lane, is_used = np.uint64(start[own]), n_waiting[own], True
            size = np.uint64(start[own + ONE]) - first + ONE
            ones = first + own  # the row of ones in front of the leaf's numbers
            for k in range(ONE, size):
                entry = first + k - ONE
                x = np.float64(values[row, np.uint64(column[entry])])
                is_used &= abs(x) <= LARGEST
                z[(ones + k) * WIDTH + lane] = (x - middle[entry]) * factor[entry]
            if not is_used:
                continue
            g[own * WIDTH + lane] = gradient[np.uint64(place)] * scale[own, 0]
            h[own * WIDTH + lane] = hessian[np.uint64(place)] * scale[own, 1]
            n_waiting[own] = lane + ONE
            if lane + ONE == WIDTH:
                _add_lanes(z, ones, size, g, h, own, out, np.uint64(first_term[own]), hz)
                n_waiting[own] = 0
                n_added[own] += LANES
        for leaf_number in range(n_leaves):
            own = np.uint64(leaf_number)
            if n_waiting[own] > 0:
                first, size = np.uint64(start[own]), np.uint64(start[own + ONE] - start[own]) + ONE
                for lane in range(n_waiting[own], WIDTH):
                    g[own * WIDTH + lane] = h[own * WIDTH + lane] = 0.0
                    for k in range(size):
                        z[(first + own + k) * WIDTH + lane] = 1.0  # whatever is finite
                _add_lanes(z, first + own, size, g, h, own, out, np.uint64(first_term[own]), hz)
                n_waiting[own] = 0
                n_added[own] += LANES
            for term in range(first_term[own], first_term[own + ONE]):
                out[term] -= n_added[own] * ROUNDER_BITS


@inner_kernel
def _eliminate(matrix, vector, noise, smallest, found):
    """Solve a symmetric system: twin of leaf_fitting.eliminate.

    matrix    float64 (size, size)  in, out  lower half
    vector    float64 (size,)       in, out
    smallest  float64 (size,)       scratch
    found     float64 (size,)       out
    """
    size = len(vector)
    for i in range(size):
        smallest[i] = SMALLEST_PIVOT * matrix[i, i] + noise
    for p in range(size):
        pivot = matrix[p, p]
        if not pivot > smallest[p]:
            smallest[p] = np.inf
            continue
        for i in range(p + 1, size):
            share = matrix[i, p] / pivot
            for j in range(p + 1, i + 1):
                matrix[i, j] = matrix[i, j] - share * matrix[j, p]
            vector[i] = vector[i] - share * vector[p]
    for p in range(size - 1, -1, -1):
        found[p] = 0.0
        if smallest[p] < np.inf:
            rest = vector[p]
            for i in range(p + 1, size):
                rest = rest - matrix[i, p] * found[i]
            found[p] = rest / matrix[p, p]


@kernel
def solve_kernel(sums, count, columns, scales, ridge, solution):
    """Solve the equations of every fitted leaf: twin of NumpyLeaves.solve.

    sums      int64 (n_terms,)   in
    count     int64 (n_leaves,)  in
    columns   LeafColumns        in
    scales    Scales             in
    solution  Solution           in, out
    """
    start, is_fitted, first_term = columns.start, scales.is_fitted, scales.first_term
    middle, factor, scale = scales.middle, scales.factor, scales.scale
    is_linear, coeff, consts = solution.is_linear, solution.coeff, solution.const
    for leaf in range(len(is_fitted)):
        if not is_fitted[leaf]:
            continue
        first, size, term = start[leaf], start[leaf + 1] - start[leaf] + 1, first_term[leaf]
        g_scale, h_scale = scale[leaf, 0], scale[leaf, 1]
        matrix, vector = np.empty((size, size)), np.empty(size)
        for i in range(size):
            for j in range(i + 1):
                matrix[i, j] = np.float64(sums[term + j])
            term += i + 1
            if i > 0:
                own = factor[first + i - 1]
                matrix[i, i] += (ridge * (own * own)) * h_scale
        for i in range(size):
            vector[i] = np.float64(sums[term + i])
        found = np.empty(size)
        _eliminate(matrix, vector, np.float64(count[leaf]), np.empty(size), found)
        const = -((found[0] / g_scale) * h_scale)
        is_finite, is_any = True, False
        for i in range(1, size):
            own = -((found[i] / g_scale) * h_scale) * factor[first + i - 1]
            const = const - own * middle[first + i - 1]
            is_finite &= np.isfinite(own)
            is_any |= own != 0.0
            found[i] = own
        if is_finite and np.isfinite(const) and is_any:
            is_linear[leaf], consts[leaf] = True, const
            for i in range(1, size):
                coeff[first + i - 1] = found[i]


@kernel
def outputs_kernel(t, crew, start, feature, coeff, const, leaf_value, leaf, values, out):
    """Compute the values of one thread's rows: twin of LinearLeaves.outputs; see team.py."""
    call_helpers(t, crew, (start, feature, coeff, const, leaf_value, leaf, values, out))
    n_rows, n_threads = len(leaf), crew.size
    for row in range(np.uint64(n_rows * t // n_threads), np.uint64(n_rows * (t + 1) // n_threads)):
        own = np.uint64(leaf[row])
        value, is_used = const[own], True
        for k in range(np.uint64(start[own]), np.uint64(start[own + ONE])):
            x = np.float64(values[row, np.uint64(feature[k])])
            is_used &= abs(x) <= LARGEST
            value = value + coeff[k] * x
        out[row] = value if is_used else leaf_value[own]


class CompiledLeaves:
    """Linear leaves by kernels; see leaf_fitting.LeafArithmetic."""

    def __init__(self, n_threads: int) -> None:
        tuning = in_use()
        self._n_threads, self._rows_per_thread = largest_team(n_threads, tuning), tuning.fitted_rows_per_thread

    def _parts(self, n_rows: int) -> int:
        return max(1, min(self._n_threads, n_rows // self._rows_per_thread))

    def measure(self, rows: FittedRows, columns: LeafColumns) -> Ranges:
        """Find the ranges of all parts, and put them together."""
        n_parts = self._parts(len(rows.gradient))
        ranges = Ranges.empty(columns, n_parts)
        run_parts(measure_kernel, n_parts, rows, columns, ranges)
        return ranges.together()

    def add_up(self, rows: FittedRows, columns: LeafColumns, scales: Scales) -> NDArray[np.int64]:
        """Add up all parts, and these."""
        n_parts = self._parts(len(rows.gradient))
        sums = np.zeros((n_parts, scales.first_term[-1]), np.int64)
        run_parts(add_up_kernel, n_parts, rows, columns, scales, sums)
        return sums[0] if n_parts == 1 else sums.sum(axis=0)

    def solve(
        self, sums: NDArray[np.int64], count: NDArray[np.int64], columns: LeafColumns, scales: Scales, ridge: float
    ) -> Solution:
        """Solve on one thread."""
        solution = Solution.empty(columns)
        solve_kernel(sums, count, columns, scales, ridge, solution)
        return solution

    def outputs(
        self,
        linear: LinearLeaves,
        leaf_value: NDArray[np.float64],
        leaf: NDArray[np.uint16],
        values: NDArray[Any],
    ) -> NDArray[np.float64]:
        """Compute the values of all rows."""
        out = np.empty(len(leaf))
        given = linear.start, linear.feature, linear.coeff, linear.const, leaf_value, leaf, values, out
        run_parts(outputs_kernel, self._parts(len(leaf)), *given)
        return out
