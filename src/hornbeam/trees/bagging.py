"""Which rows a tree sees: the definition that every backend follows.

Bagging draws every row (or every query) by chance: it is in the bag when its random number of this draw is below the
fraction. The size of a bag therefore varies a little, as in LightGBM, but whether a row is in it depends on nothing but
seed, draw and row number: not on the other rows, nor on how they are dealt to threads, chunks or devices.

GOSS keeps the `n_top` rows whose gradient and hessian weigh most, equals by row number, and draws the others by chance;
the gradients and hessians of those that are drawn are multiplied by `factor`, so that sums keep their expectation.

A bag in which no row came to lie is replaced by all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import ROW
from hornbeam.core.fixed_point import Gather, alone
from hornbeam.core.random_choices import random_bits

ROOT_DEPTH = 2
"""Depth at which a bag's root lies in engines whose rows of depth 0 are all rows in their order: it has the parity of
0, so it uses the same buffers, but its rows are read from the row list."""


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Bagging: every row or query by chance.

    key             sampling.random_key
    limit           sampling.chance_limit of a row
    positive_limit  the same for rows with a label above 0; None: `limit`
    label           float64 (n_rows,)  where positive_limit is given
    query           uint32 (n_rows,)   number of each row's query, to draw whole queries; None: rows
    """

    key: int
    limit: int
    positive_limit: int | None = None
    label: NDArray[np.float64] | None = None
    query: NDArray[np.uint32] | None = None


@dataclass(frozen=True, slots=True)
class Goss:
    """The weightiest rows, and others by chance.

    key     sampling.random_key
    n_top   rows that are kept in any case, 1 or more
    limit   sampling.chance_limit of the others
    factor  on gradients and hessians of the others
    """

    key: int
    n_top: int
    limit: int
    factor: float


@dataclass(frozen=True, slots=True, eq=False)
class Bag:
    """The rows of the trees to come.

        rows   [ as they are )[ multiplied by factor )[ outside of the bag )
               0         n_plain               n_in_bag               n_rows

    rows  uint32 (n_rows,)  ascending in each part (a device may have another order: it cannot be seen)
    """

    rows: NDArray[np.uint32]
    n_plain: int
    n_in_bag: int
    factor: float = 1.0

    @classmethod
    def from_parts(cls, part: NDArray[np.uint8], factor: float = 1.0, gather: Gather = alone) -> Bag | None:
        """Make a bag from the part of each row, 0, 1 or 2; None, all rows, if nothing would be in it.

        gather  what brings together the figures of the workers that the rows are spread over
        """
        rows = np.argsort(part, kind="stable").astype(ROW)
        sizes = np.bincount(part, minlength=3)
        is_empty = gather(sizes)[:, :2].sum() == 0
        return None if is_empty else cls(rows, int(sizes[0]), int(sizes[0] + sizes[1]), factor)

    @property
    def inside(self) -> NDArray[np.uint32]:
        """The rows in the bag."""
        return self.rows[: self.n_in_bag]

    @property
    def outside(self) -> NDArray[np.uint32]:
        """The rows that are not."""
        return self.rows[self.n_in_bag :]

    def take(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of the rows in the bag, multiplied where they have to be, float64 (n_in_bag,)."""
        taken = values[self.inside]
        taken[self.n_plain :] *= self.factor
        return taken


def draw_bag(draw: Draw, n_rows: int, gather: Gather = alone) -> Bag | None:
    """Draw the rows of a bag; None: all rows.

    gather  what brings together the figures of the workers that the rows are spread over: `query` numbers them then
    """
    drawn = np.arange(n_rows) if draw.query is None else draw.query
    limit = np.full(n_rows, draw.limit, np.uint64)
    if draw.positive_limit is not None:
        assert draw.label is not None
        limit[draw.label > 0.0] = draw.positive_limit
    inside = (random_bits(draw.key, drawn) >> np.uint64(11)) < limit
    return Bag.from_parts(np.where(inside, 0, 2).astype(np.uint8), gather=gather)


def goss_bag(goss: Goss, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> Bag | None:
    """Choose the rows of GOSS.

    gradient, hessian  float64 (n_outputs, n_rows)  in
    """
    n_rows = gradient.shape[1]
    importance = row_importance(gradient, hessian)
    top = np.argsort(-importance, kind="stable")[: goss.n_top]
    part = np.where(draw_others(goss, np.arange(n_rows)), 1, 2).astype(np.uint8)
    part[top] = 0
    return Bag.from_parts(part, goss.factor)


def draw_others(goss: Goss, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which of some rows, by their numbers, GOSS draws unless they are top rows."""
    drawn: NDArray[np.bool_] = (random_bits(goss.key, rows) >> np.uint64(11)) < np.uint64(goss.limit)
    return drawn


def row_importance(gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of |gradient * hessian| over the outputs, in their order, float64 (n_rows,)."""
    importance: NDArray[np.float64] = np.abs(gradient[0] * hessian[0])
    for g, h in zip(gradient[1:], hessian[1:], strict=True):
        importance = importance + np.abs(g * h)
    return importance


def last_of_top(importance: NDArray[np.float64], n_top: int) -> tuple[float, int]:
    """Return the smallest importance among the top rows, and the last of these that has it.

    A row is a top row if its importance is greater, or equal and its number not greater.
    """
    least = float(np.partition(importance, len(importance) - n_top)[len(importance) - n_top])
    n_above = int(np.count_nonzero(importance > least))
    return least, int(np.flatnonzero(importance == least)[n_top - n_above - 1])


def rows_in_bag(
    bag: Bag | None, scores: Floats, label: Floats, weight: Floats | None, leaf: NDArray[Any]
) -> tuple[Floats, Floats, Floats | None, NDArray[Any]]:
    """Return the arguments, each with an entry a row, as the rows of a bag have them: a leaf's value is theirs alone.

    Rows that GOSS drew weigh `factor` times as much.
    """
    if bag is None:
        return scores, label, weight, leaf
    rows = bag.inside
    if weight is not None:
        weight = bag.take(weight)
    elif bag.n_plain < bag.n_in_bag:
        weight = bag.take(np.ones(len(label)))
    return scores[rows], label[rows], weight, leaf[rows]
