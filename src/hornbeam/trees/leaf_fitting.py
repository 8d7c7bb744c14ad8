"""How linear leaves are fitted: a ridge regression in every leaf, on the numbers of its path.

A leaf with the features x takes the coefficients b and the constant c that minimise the second-order loss of its rows

    sum of  g (c + b x) + h / 2 (c + b x)^2     +  linear_lambda / 2  |b|^2

so they solve (X' H X + linear_lambda I) b = -X' g; X has a column of ones, which has no penalty. Rows of which one of
the numbers is no use (linear_leaves.py) take no part. The least and the greatest value of the leaf's rows, those that
took no part too, are the bounds of its function.

The sums of X' H X and X' g have no order, for they are of integers. That takes two passes over the rows:

    measure   of each leaf the rows that take part, the largest |g| and h, and the ends of each of its features
    add_up    z = (x - middle of the ends) * power of two, so that |z| < 1;  h z z' and g z, each scaled by a power of
              two from the largest h or |g| of the leaf and rounded, add up below 2**62

Middle and scale come from the leaf's rows, so that an offset of all rows (years, times) costs no digits. A small
elimination of our own (`solve`) then has the solution; all of it is + - * / of float64 in a fixed order, so that every
device, any number of threads and any number of workers end with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import EXACT_BITS, Gather
from hornbeam.trees.linear_leaves import LARGEST, LinearLeaves, unbounded
from hornbeam.trees.records import BinnedTree

TERM_BITS = 51
"""Most bits of a term: adding 1.5 * 2**52 rounds it then, which is how kernels do it."""

SMALLEST_PIVOT = 2.0**-30
"""Share of its sum of squares that a feature must keep beside the ones before it; else its coefficient is 0."""

MOST_EXPONENT = 400
"""Largest exponent of the scale of a feature: what is smaller than 2**-400 counts as nothing."""


class FittedRows(NamedTuple):
    """The rows that leaves are fitted to; n_rows are those of this process.

    chosen             uint32 (n,): rows that the tree was grown on; None: all
    gradient, hessian  float64 (n,): theirs
    leaf               uint16 (n_rows,)
    values             float32 or float64 (n_rows, n_features), C order
    """

    chosen: NDArray[np.uint32] | None
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    leaf: NDArray[np.uint16]
    values: NDArray[Any]


class LeafColumns(NamedTuple):
    """Features of the leaves: leaf i has columns[start[i]:start[i + 1]], ascending.

    start    int64 (n_leaves + 1,)
    columns  int32 (n,)
    """

    start: NDArray[np.int64]
    columns: NDArray[np.int32]


class Ranges(NamedTuple):
    """What `measure` finds; of a leaf without rows the ends are inf and -inf.

    n_rows     int64 (n_leaves,): rows that take part
    largest    float64 (n_leaves, 2): the largest |gradient| and hessian among them
    low, high  float64 (n,): the ends of each entry of LeafColumns
    """

    n_rows: NDArray[np.int64]
    largest: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def empty(cls, columns: LeafColumns, *parts: int) -> Ranges:
        """Return those of no rows; with a number of parts, so many of them side by side."""
        n_leaves, n = len(columns.start) - 1, len(columns.columns)
        return cls(
            np.zeros((*parts, n_leaves), np.int64),
            np.zeros((*parts, n_leaves, 2)),
            np.full((*parts, n), np.inf),
            np.full((*parts, n), -np.inf),
        )

    def together(self) -> Ranges:
        """Return one of several that lie side by side."""
        return Ranges(self.n_rows.sum(axis=0), self.largest.max(axis=0), self.low.min(axis=0), self.high.max(axis=0))

    def gathered(self, gather: Gather) -> Ranges:
        """Return those of all workers."""
        n, n_leaves = len(self.low), len(self.n_rows)
        every = gather(np.concatenate([self.n_rows.astype(np.float64), self.largest.ravel(), -self.low, self.high]))
        count, most = every[:, :n_leaves].sum(axis=0), every[:, n_leaves:].max(axis=0)
        largest, minus_low, high = np.split(most, [2 * n_leaves, 2 * n_leaves + n])
        return Ranges(count.astype(np.int64), largest.reshape(n_leaves, 2), -minus_low, high)


class Scales(NamedTuple):
    """How terms are made; see the module.

    is_fitted       bool (n_leaves,): the leaf has rows enough
    middle, factor  float64 (n,): of each entry of LeafColumns; the factor is 0 where all rows have one number
    scale           float64 (n_leaves, 2): powers of two for gradients and hessians
    first_term      int64 (n_leaves + 1,): where the sums of a leaf begin
    """

    is_fitted: NDArray[np.bool_]
    middle: NDArray[np.float64]
    factor: NDArray[np.float64]
    scale: NDArray[np.float64]
    first_term: NDArray[np.int64]

    @classmethod
    def of(cls, ranges: Ranges, columns: LeafColumns) -> Scales:
        """Choose the scales of all leaves.

        Of n rows whose terms are below 2**bits with bits = min(51, 62 - bits of n), the sum is below 2**62.
        """
        n_columns = np.diff(columns.start)
        is_fitted = (n_columns > 0) & (ranges.n_rows > n_columns) & (ranges.largest[:, 1] > 0.0)
        of_fitted = np.repeat(is_fitted, n_columns)
        low, high = np.where(of_fitted, ranges.low, 0.0), np.where(of_fitted, ranges.high, 0.0)
        middle = 0.5 * low + 0.5 * high
        reach = np.maximum(high - middle, middle - low)
        factor = np.ldexp(1.0, -np.maximum(np.frexp(reach)[1], -MOST_EXPONENT))
        bits = np.minimum(TERM_BITS, EXACT_BITS - np.frexp(ranges.n_rows.astype(np.float64))[1])
        exponent = np.minimum(bits[:, None] - np.frexp(ranges.largest)[1], 1000)
        scale = np.where(ranges.largest > 0.0, np.ldexp(1.0, exponent), 1.0)
        n_terms = np.where(is_fitted, terms_of(n_columns), 0)
        first_term = np.concatenate([[0], np.cumsum(n_terms)]).astype(np.int64)
        return cls(is_fitted, middle, np.where(reach > 0.0, factor, 0.0), scale, first_term)


class Solution(NamedTuple):
    """Coefficients in the numbers of the table; a leaf that is not `is_linear` has none.

    is_linear  bool (n_leaves,)
    coeff      float64 (n,): of each entry of LeafColumns
    const      float64 (n_leaves,)
    """

    is_linear: NDArray[np.bool_]
    coeff: NDArray[np.float64]
    const: NDArray[np.float64]

    @classmethod
    def empty(cls, columns: LeafColumns) -> Solution:
        """Return that of leaves without coefficients."""
        n_leaves = len(columns.start) - 1
        return cls(np.zeros(n_leaves, np.bool_), np.zeros(len(columns.columns)), np.zeros(n_leaves))


def terms_of(n_columns: Any) -> Any:
    """Return the number of sums of a leaf: the lower half of a matrix row by row, the ones first, and a vector."""
    return (n_columns + 1) * (n_columns + 2) // 2 + n_columns + 1


class FittedValues(NamedTuple):
    """What functions are for the rows that they were fitted to; of a leaf without rows the ends are inf and -inf.

    values     float64 (n,): of the chosen rows
    low, high  float64 (n_leaves,): the ends of each leaf's
    """

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def gathered(self, gather: Gather) -> FittedValues:
        """Return them with the ends of all workers."""
        minus_low, high = np.split(gather(np.concatenate([-self.low, self.high])).max(axis=0), 2)
        return self._replace(low=-minus_low, high=high)


class LeafRows(Protocol):
    """The rows of a tree's leaves, of this process, as an arithmetic holds them."""

    def measure(self) -> Ranges:
        """Find the ranges."""

    def add_up(self, scales: Scales) -> NDArray[np.int64]:
        """Return the sums, int64 (first_term[-1],), in the order of `terms_of`."""

    def evaluate(self, linear: LinearLeaves, leaf_value: NDArray[np.float64]) -> FittedValues:
        """Return the values of functions without bounds."""


class LeafArithmetic(Protocol):
    """What linear leaves are computed with: NumPy, the definition, or compiled kernels with the same bits."""

    def rows_of(self, rows: FittedRows, columns: LeafColumns) -> LeafRows:
        """Take the rows of a tree, those before are done with."""

    def solve(
        self, sums: NDArray[np.int64], count: NDArray[np.int64], columns: LeafColumns, scales: Scales, ridge: float
    ) -> Solution:
        """Solve the equations of every fitted leaf; count: its rows, ridge: linear_lambda."""

    def outputs(
        self,
        linear: LinearLeaves,
        leaf_value: NDArray[np.float64],
        leaf: NDArray[np.uint16],
        values: NDArray[Any],
    ) -> NDArray[np.float64]:
        """Return LinearLeaves.outputs."""


class NumpyRows(NamedTuple):
    """Rows in the definition: see LeafRows."""

    rows: FittedRows
    columns: LeafColumns

    def measure(self) -> Ranges:
        """Look at the rows of one leaf after the other."""
        rows, columns = self
        ranges = Ranges.empty(columns)
        for leaf, (first, last) in enumerate(pairwise(columns.start.tolist())):
            table, gradient, hessian = _rows_of_leaf(rows, columns.columns[first:last], leaf)
            if len(table) and last > first:
                ranges.n_rows[leaf] = len(table)
                ranges.largest[leaf] = np.abs(gradient).max(), hessian.max()
                ranges.low[first:last], ranges.high[first:last] = table.min(axis=0), table.max(axis=0)
        return ranges

    def add_up(self, scales: Scales) -> NDArray[np.int64]:
        """Sum over the rows of one leaf after the other, one term after the other."""
        rows, columns = self
        sums = np.zeros(scales.first_term[-1], np.int64)
        for leaf, (first, last) in enumerate(pairwise(columns.start.tolist())):
            if not scales.is_fitted[leaf]:
                continue
            table, gradient, hessian = _rows_of_leaf(rows, columns.columns[first:last], leaf)
            z = [np.ones(len(table)), *((table - scales.middle[first:last]) * scales.factor[first:last]).T]
            g, h = gradient * scales.scale[leaf, 0], hessian * scales.scale[leaf, 1]
            terms = [(h * z[i]) * z[j] for i in range(len(z)) for j in range(i + 1)] + [g * one for one in z]
            sums[scales.first_term[leaf] : scales.first_term[leaf + 1]] = [
                np.rint(term).astype(np.int64).sum() for term in terms
            ]
        return sums

    def evaluate(self, linear: LinearLeaves, leaf_value: NDArray[np.float64]) -> FittedValues:
        """Compute all values, then look at one leaf after the other."""
        rows = self.rows
        chosen = slice(None) if rows.chosen is None else rows.chosen
        leaf = rows.leaf[chosen]
        values = linear.outputs(leaf_value, leaf, rows.values[chosen])
        of_leaf = [values[leaf == number] for number in range(len(leaf_value))]
        low = np.array([own.min(initial=np.inf) for own in of_leaf])
        return FittedValues(values, low, np.array([own.max(initial=-np.inf) for own in of_leaf]))


class NumpyLeaves:
    """The definition."""

    def rows_of(self, rows: FittedRows, columns: LeafColumns) -> NumpyRows:
        """Keep the rows as they are."""
        return NumpyRows(rows, columns)

    def solve(
        self, sums: NDArray[np.int64], count: NDArray[np.int64], columns: LeafColumns, scales: Scales, ridge: float
    ) -> Solution:
        """Eliminate in plain Python."""
        solution = Solution.empty(columns)
        for leaf in np.flatnonzero(scales.is_fitted).tolist():
            own = slice(columns.start[leaf], columns.start[leaf + 1])
            factor, middle = scales.factor[own].tolist(), scales.middle[own].tolist()
            g_scale, h_scale = scales.scale[leaf].tolist()
            size = len(factor) + 1
            terms = [float(one) for one in sums[scales.first_term[leaf] : scales.first_term[leaf + 1]].tolist()]
            matrix = [terms[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2] for i in range(size)]
            for i in range(1, size):
                matrix[i][i] += (ridge * (factor[i - 1] * factor[i - 1])) * h_scale
            found = eliminate(matrix, terms[-size:], float(count[leaf]))
            solved = [-((one / g_scale) * h_scale) for one in found]
            const = solved[0]
            for i in range(1, size):
                solved[i] = solved[i] * factor[i - 1]
                const = const - solved[i] * middle[i - 1]
            solved[0] = const
            if np.isfinite(solved).all() and any(solved[1:]):
                solution.is_linear[leaf], solution.const[leaf], solution.coeff[own] = True, const, solved[1:]
        return solution

    def outputs(
        self,
        linear: LinearLeaves,
        leaf_value: NDArray[np.float64],
        leaf: NDArray[np.uint16],
        values: NDArray[Any],
    ) -> NDArray[np.float64]:
        """Return the values of rows by the definition."""
        return linear.outputs(leaf_value, leaf, values)


def _rows_of_leaf(
    rows: FittedRows, columns: NDArray[np.int32], leaf: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return numbers, gradients and hessians of the rows of a leaf that take part."""
    chosen = np.arange(len(rows.leaf)) if rows.chosen is None else rows.chosen
    places = np.flatnonzero(rows.leaf[chosen] == leaf)
    table = rows.values[np.ix_(chosen[places], columns)].astype(np.float64)
    is_used = (np.abs(table) <= LARGEST).all(axis=1)
    places = places[is_used]
    return table[is_used], rows.gradient[places], rows.hessian[places]


def eliminate(matrix: list[list[float]], vector: list[float], noise: float) -> list[float]:
    """Solve a symmetric system; both arguments are overwritten.

    matrix  lower half, row by row
    noise   what the diagonal may be off by; an unknown whose pivot does not stand out of it is 0
    """
    size = len(vector)
    smallest = [SMALLEST_PIVOT * matrix[i][i] + noise for i in range(size)]
    is_used = [False] * size
    for p in range(size):
        pivot = matrix[p][p]
        is_used[p] = pivot > smallest[p]
        if not is_used[p]:
            continue
        for i in range(p + 1, size):
            share = matrix[i][p] / pivot
            for j in range(p + 1, i + 1):
                matrix[i][j] = matrix[i][j] - share * matrix[j][p]
            vector[i] = vector[i] - share * vector[p]
    found = [0.0] * size
    for p in range(size - 1, -1, -1):
        if is_used[p]:
            rest = vector[p]
            for i in range(p + 1, size):
                rest = rest - matrix[i][p] * found[i]
            found[p] = rest / matrix[p][p]
    return found


def columns_of_leaves(tree: BinnedTree, used: NDArray[np.integer], is_number: NDArray[np.bool_]) -> LeafColumns:
    """Return the numbers on the path to every leaf.

    used       integers (n_used,)     in  column of every feature that splits name
    is_number  bool (n_features,)     in  whether a column holds numbers, not levels
    """
    columns = used[tree.feature].tolist()
    paths: list[Sequence[int]] = [()] * len(columns)  # of splits, ascending columns
    of_leaf: list[Sequence[int]] = [()] * len(tree.leaf_value)
    children = zip(tree.left.tolist(), tree.right.tolist(), strict=True)
    for split, (column, pair) in enumerate(zip(columns, children, strict=True)):
        path = paths[split]
        if is_number[column] and column not in path:
            path = sorted((*path, column))
        for child in pair:
            if child >= 0:
                paths[child] = path
            else:
                of_leaf[~child] = path
    start = np.concatenate([[0], np.cumsum([len(path) for path in of_leaf])]).astype(np.int64)
    return LeafColumns(start, np.array([column for path in of_leaf for column in path], np.int32))


class FittedLeaves(NamedTuple):
    """The functions of a tree's leaves, and their values for the rows that they were fitted to, float64 (n,)."""

    linear: LinearLeaves
    values: NDArray[np.float64]


def fit_leaves(
    rows: FittedRows,
    columns: LeafColumns,
    arithmetic: LeafArithmetic,
    gather: Gather,
    ridge: float,
    learning_rate: float,
    leaf_value: NDArray[np.float64],
) -> FittedLeaves | None:
    """Fit the leaves of a tree; None where all stay constant.

    gather         what brings together the figures of workers
    ridge          linear_lambda
    learning_rate  factor on the functions
    leaf_value     float64 (n_leaves,)  in  what constant leaves have
    """
    own = arithmetic.rows_of(rows, columns)
    ranges = own.measure().gathered(gather)
    scales = Scales.of(ranges, columns)
    if not scales.is_fitted.any():
        return None
    sums = gather(own.add_up(scales)).sum(axis=0)
    is_linear, coeff, const = arithmetic.solve(sums, ranges.n_rows, columns, scales, ridge)
    if not is_linear.any():
        return None
    kept = np.flatnonzero(coeff)
    start, feature = np.searchsorted(kept, columns.start).astype(np.int64), columns.columns[kept]
    const = np.where(is_linear, const * learning_rate, leaf_value)
    free = LinearLeaves(start, feature, coeff[kept] * learning_rate, const, *unbounded(len(const)))
    values, low, high = own.evaluate(free, leaf_value).gathered(gather)
    low, high = (np.where(is_linear, end, const) + 0.0 for end in (low, high))  # not -0.0, which is as low as 0.0
    return FittedLeaves(replace(free, low=low, high=high), values)
