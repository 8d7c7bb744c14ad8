"""Linear leaves: leaves whose value is a linear function of the numbers on their path.

    value of a row = const + coeff[0] * x[feature[0]] + coeff[1] * x[feature[1]] + ...

added in this order in float64, and kept between two bounds: the least and the greatest value that the leaf has for the
rows that the tree was grown on. These rows do not change, and a row far outside of them gets a value that one of them
has. A row of which one of these numbers is no use (missing, infinite, beyond 1e38) gets the constant value that the
leaf has as well, as in every other tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e38
"""Largest magnitude of a number that takes part: products with it, and with a gradient, are finite."""


@dataclass(frozen=True, eq=False)
class LinearLeaves:
    """The linear functions of a tree's leaves.

    Attributes
    ----------
    start
        int64 (n_leaves + 1,): leaf i has the entries start[i]:start[i + 1] of the following two; none: it is constant.
    feature
        int32 (n,): columns of the input data, ascending in each leaf.
    coeff
        float64 (n,): their factors, with the learning rate applied.
    const
        float64 (n_leaves,): what is added to them; of a constant leaf its value.
    low, high
        float64 (n_leaves,): bounds of the values; -inf and inf in all leaves: there are none, as in LightGBM.
    """

    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    coeff: NDArray[np.float64]
    const: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of_leaves(
        cls,
        features: list[list[int]],
        coeff: list[list[float]],
        const: NDArray[np.float64],
        bounds: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    ) -> LinearLeaves:
        """Make them of lists, one entry a leaf; bounds: low and high, None: there are none."""
        start = np.zeros(len(const) + 1, np.int64)
        np.cumsum([len(own) for own in features], out=start[1:])
        return cls(
            start,
            np.array([one for own in features for one in own], np.int32),
            np.array([one for own in coeff for one in own], np.float64),
            const,
            *(unbounded(len(const)) if bounds is None else bounds),
        )

    @property
    def is_bounded(self) -> bool:
        """Whether values have bounds."""
        return bool(np.isfinite(self.low).any())

    def lists(self) -> tuple[list[list[int]], list[list[float]]]:
        """Return features and coefficients, a list a leaf."""
        feature, coeff, bounds = self.feature.tolist(), self.coeff.tolist(), list(pairwise(self.start.tolist()))
        return [feature[first:last] for first, last in bounds], [coeff[first:last] for first, last in bounds]

    def with_columns(self, columns: NDArray[np.integer]) -> LinearLeaves:
        """Return the same functions of a table that has some columns alone, ascending."""
        return replace(self, feature=np.searchsorted(columns, self.feature).astype(np.int32))

    def of_columns(self, columns: NDArray[np.integer]) -> LinearLeaves:
        """Return functions of such a table as those of the whole one: the inverse of `with_columns`."""
        return replace(self, feature=columns[self.feature].astype(np.int32))

    def plus(self, amount: float) -> LinearLeaves:
        """Return the functions plus an amount."""
        return replace(self, const=self.const + amount, low=self.low + amount, high=self.high + amount)

    def of_some(self, leaves: NDArray[np.int64]) -> LinearLeaves:
        """Return those of some leaves, in their order."""
        features, coeff = self.lists()
        chosen = leaves.tolist()
        bounds = self.low[leaves], self.high[leaves]
        return self.of_leaves([features[i] for i in chosen], [coeff[i] for i in chosen], self.const[leaves], bounds)

    def formula(self, leaf: int, names: Sequence[str], number: Callable[[float], str] = repr) -> str | None:
        """Return the function of a leaf as text, `number` writes its numbers; None: it is constant."""
        own = slice(self.start[leaf], self.start[leaf + 1])
        pairs = zip(self.coeff[own].tolist(), self.feature[own].tolist(), strict=True)
        words = [f"{number(coeff)} * {names[feature]}" for coeff, feature in pairs]
        if not words:
            return None
        bounds = f" in [{number(float(self.low[leaf]))}, {number(float(self.high[leaf]))}]" if self.is_bounded else ""
        return " + ".join([number(float(self.const[leaf])), *words]) + bounds

    def outputs(
        self, leaf_value: NDArray[np.float64], leaf: NDArray[np.integer], values: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """Return the value of every row, float64 (n_rows,): the definition.

        leaf_value  float64 (n_leaves,)             in  for rows of which a number is no use
        leaf        integers (n_rows,)              in
        values      float (n_rows, n_features)      in
        """
        out: NDArray[np.float64] = leaf_value[leaf]
        for number, (first, last) in enumerate(pairwise(self.start.tolist())):
            if first == last:
                continue
            rows = np.flatnonzero(leaf == number)
            table = values[np.ix_(rows, self.feature[first:last])].astype(np.float64)
            is_used = (np.abs(table) <= LARGEST).all(axis=1)
            made = np.full(int(is_used.sum()), self.const[number])
            for coeff, column in zip(self.coeff[first:last], table[is_used].T, strict=True):
                made = made + coeff * column
            low, high = self.low[number], self.high[number]
            made = np.where(made < low, low, made)
            out[rows[is_used]] = np.where(made > high, high, made)
        return out


def ends_of(linear: LinearLeaves | None, leaf_value: NDArray[np.float64]) -> tuple[float, float]:
    """Return the least and the greatest value that a row can get in a tree: of functions with bounds, or of constants.

    leaf_value  float64 (n_leaves,)  in  of constant leaves, and of rows of which a number is no use
    """
    every = leaf_value if linear is None else np.concatenate([leaf_value, linear.low, linear.high])
    return float(every.min()), float(every.max())


def unbounded(n_leaves: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of leaves that have none."""
    return np.full(n_leaves, -np.inf), np.full(n_leaves, np.inf)
