"""Linear leaves, fitted by kernels: twins of leaf_fitting.NumpyLeaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, inner_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, largest_team, run_parts
from hornbeam.backends.cpu.linear.functions import Functions, value_of
from hornbeam.backends.cpu.linear.tiles import TiledRows
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.trees.leaf_fitting import SMALLEST_PIVOT, FittedRows, LeafColumns, Scales, Solution
from hornbeam.trees.linear_leaves import LinearLeaves


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


@allocating_kernel
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
def outputs_kernel(t, crew, functions, leaf, values, out):
    """Compute the values of one thread's rows: twin of LinearLeaves.outputs; see team.py."""
    call_helpers(t, crew, (functions, leaf, values, out))
    start, feature, coeff, const, value, low, high = functions
    n_rows, n_threads = len(leaf), crew.size
    for row in range(np.uint64(n_rows * t // n_threads), np.uint64(n_rows * (t + 1) // n_threads)):
        own = np.uint64(leaf[row])
        out[row] = value_of(start, feature, coeff, const, value, low, high, own, values, row)


class CompiledLeaves:
    """Linear leaves by kernels; see leaf_fitting.LeafArithmetic."""

    def __init__(self, n_threads: int) -> None:
        tuning = in_use()
        self._n_threads, self._rows_per_thread = largest_team(n_threads, tuning), tuning.fitted_rows_per_thread
        self._arrays: dict[str, NDArray[Any]] = {}

    def _parts(self, n_rows: int) -> int:
        return max(1, min(self._n_threads, n_rows // self._rows_per_thread))

    def _room(self, name: str, length: int, dtype: Any) -> NDArray[Any]:
        """Return memory that trees use one after the other: fresh memory would cost more than what is done with it."""
        kept = self._arrays.get(name)
        if kept is None or len(kept) < length or kept.dtype != dtype:
            kept = self._arrays[name] = np.empty(length + length // 8, dtype)
        return kept[:length]

    def rows_of(self, rows: FittedRows, columns: LeafColumns) -> TiledRows:
        """Put the rows into tiles."""
        return TiledRows(rows, columns, self._parts(len(rows.gradient)), self._room)

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
        functions = Functions.of(linear, leaf_value)
        run_parts(outputs_kernel, self._parts(len(leaf)), functions, leaf, values, out)
        return out
