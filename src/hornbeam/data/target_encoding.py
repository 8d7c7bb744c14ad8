"""Target encoding: a categorical feature of very many levels becomes a number, the mean label of its levels.

Sets of thousands of levels, chosen by their gradients, fit the noise of the few rows that each level has. So a feature
of more levels than `target_encoding_levels` is read as numbers, and is a feature of numbers from there on:

    value of a level = (sum of its labels + smooth * prior) / (number of its rows + smooth)

    smooth   `target_encoding_smooth`
    prior    the mean label of all rows

Weights count as in "sum of weight * label" and "sum of weights". What is missing is a level like the others. Levels of
a single row and levels that training did not see have the prior.

A row's own label must not be in its value, or trees learn to read it there. Rows are dealt into FOLDS folds by a hash
of their number (of their query's, where there are queries), and in training the value of a row comes from the rows of
the *other* folds:

    fold                    0      0      1      2      4
    level                   a      b      a      a      b
    label                   1      0      0      1      1
    sum, rows of the rest   1, 2   1, 1   2, 2   1, 2   0, 1       prediction: a = 2 of 3, b = 1 of 2

Sums are integers, so they do not depend on the order of rows, and everything here is before the bins: the same on every
device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import exact_exponent
from hornbeam.core.random_choices import Purpose, random_bits, random_key
from hornbeam.data.levels import MISSING, NEGATIVE, CodedColumn, Levels, levels_by_rows
from hornbeam.data.queries import query_of_row

FOLDS = 5
"""So a value is made of four fifths of the rows."""

FEWEST_ROWS = 2
"""A level of fewer rows is not kept: no row could ever learn its value from another. So a column of names, each in one
row, has no levels."""

MOST_NAMED = 5
"""Features that are named where there is something to say of all of them."""

_CHUNK = 1 << 20
"""Rows dealt at a time."""


@dataclass(frozen=True, eq=False)
class EncodedLevels(Levels):
    """The levels of a feature that is read as numbers.

    Attributes
    ----------
    numbers
        float64 (n_levels,): the value of each level, from all training rows.
    missing
        The value of what is missing.
    other
        The value of every other level: the prior.
    """

    numbers: NDArray[np.float64]
    missing: float
    other: float

    @property
    def is_coded(self) -> bool:
        """Whether the feature is read as codes: it is not."""
        return False

    def encode(self, column: CodedColumn, name: str) -> NDArray[Any]:
        """Return the value of every row, float64 (n_rows,)."""
        by_place = np.append(self.numbers, self.other)[self.codes_of_values(column, name)]  # -1 is the other levels'
        by_place[[MISSING, NEGATIVE]] = self.missing
        found: NDArray[np.float64] = by_place[column.codes]
        return found

    def agrees(self, other: Levels) -> bool:
        """Say whether every level has the same value in both."""
        return (
            isinstance(other, EncodedLevels)
            and self.values == other.values
            and self.numbers.tobytes() == other.numbers.tobytes()
            and (self.missing, self.other) == (other.missing, other.other)
        )


def deal_folds(n_rows: int, boundaries: NDArray[np.int64] | None) -> NDArray[np.int8]:
    """Return the fold of every row, int8 (n_rows,); rows of one query have one fold.

    boundaries  int64 (n_queries + 1,)  in  see Dataset.query_boundaries; or None
    """
    key = random_key(0, Purpose.TARGET_FOLDS, 0)
    if boundaries is not None:
        n_queries = len(boundaries) - 1
        return deal_folds(n_queries, None)[query_of_row(boundaries)]
    fold = np.empty(n_rows, np.int8)
    for start in range(0, n_rows, _CHUNK):
        stop = min(start + _CHUNK, n_rows)
        fold[start:stop] = random_bits(key, np.arange(start, stop)) % np.uint64(FOLDS)
    return fold


@dataclass(frozen=True, eq=False)
class FoldSums:
    """Labels and weights of every level in every fold, as exact sums.

    sums     int64 (n_values + 1, FOLDS)  labels, times weights; the last row is that of missing values
    weights  int64 (n_values + 1, FOLDS)  weights, or rows
    units    of both
    """

    sums: NDArray[np.int64]
    weights: NDArray[np.int64]
    units: tuple[float, float]

    @classmethod
    def of_rows(
        cls,
        cell: NDArray[np.int64],
        n_values: int,
        label: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        rows: slice = slice(None),
    ) -> FoldSums:
        """Add up some rows.

        cell    int64 (n,)         in  from `fold_cells`
        label   float64 (n_rows,)  in  of all rows
        weight  float64 (n_rows,)  in  of all rows, or None
        rows    which of them the cells are of
        """
        shape = n_values + 1, FOLDS
        n_cells = shape[0] * shape[1]
        if weight is None:
            weights, weight_unit = np.bincount(cell, minlength=n_cells).astype(np.int64), 1.0
            sums, unit = _exact_sums(label, rows, cell, n_cells)
        else:
            weights, weight_unit = _exact_sums(weight, rows, cell, n_cells)
            sums, unit = _exact_sums(weight * label, rows, cell, n_cells)
        return cls(sums.reshape(shape), weights.reshape(shape), (unit, weight_unit))


def fold_cells(column: CodedColumn, fold: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the cell of FoldSums, flat, that each row is in, int64 (n_rows,)."""
    codes = column.row_codes()
    return np.where(codes < 0, len(column.values), codes).astype(np.int64) * FOLDS + fold


def encode_training(
    column: CodedColumn,
    label: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    fold: NDArray[np.int8],
    smooth: float,
) -> tuple[EncodedLevels, NDArray[np.float64]]:
    """Return the levels of a feature with their values, and the values of the training rows, float64 (n_rows,).

    label   float64 (n_rows,)  in
    weight  float64 (n_rows,)  in  or None
    fold    int8 (n_rows,)     in  see deal_folds
    """
    cell = fold_cells(column, fold)
    levels, others = encode_levels(column, FoldSums.of_rows(cell, len(column.values), label, weight), smooth)
    return levels, others.reshape(-1)[cell]


def encode_levels(column: CodedColumn, cells: FoldSums, smooth: float) -> tuple[EncodedLevels, NDArray[np.float64]]:
    """Return the levels of a feature with their values, and those of training rows by cell.

    column  its values and their numbers of rows
    Returns levels, and float64 (n_values + 1, FOLDS): the value of a row of this level and this fold.
    """
    sums, weights, (unit, weight_unit) = cells.sums, cells.weights, cells.units
    prior = (float(sums.sum()) * unit) / (float(weights.sum()) * weight_unit)

    def smoothed(sums: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.float64]:
        above = sums.astype(np.float64) * unit + smooth * prior
        below = weights.astype(np.float64) * weight_unit + smooth
        found: NDArray[np.float64] = np.divide(above, below, out=np.full(above.shape, prior), where=weights > 0)
        return found

    of_level = sums.sum(axis=1), weights.sum(axis=1)
    others = smoothed(of_level[0][:, None] - sums, of_level[1][:, None] - weights)
    numbers = smoothed(*of_level)
    order, sizes = levels_by_rows(column)
    kept = order[: int(np.count_nonzero(sizes >= FEWEST_ROWS))]
    levels = EncodedLevels(
        values=tuple(column.values[i] for i in kept),
        numbers=numbers[np.array(kept, np.int64)],
        missing=float(numbers[-1]),
        other=prior,
        is_cut=column.is_cut,
    )
    return levels, others


def _exact_sums(
    values: NDArray[np.float64], rows: slice, place: NDArray[np.int64], n_places: int
) -> tuple[NDArray[np.int64], float]:
    """Return the sum of each place's values in fixed point, int64 (n_places,), and the unit.

    values  float64 (n_rows,)  in  of all rows: they set the unit
    rows    those that are added up
    place   int64 (n,)         in  theirs
    """
    exponent = exact_exponent(float(np.max(np.abs(values))), len(values))
    sums = np.zeros(n_places, np.int64)
    np.add.at(sums, place, np.rint(values[rows] * 2.0**exponent).astype(np.int64))
    return sums, 2.0**-exponent


def describe_encoding(levels: Sequence[Levels | None] | None, names: Sequence[str], limit: int) -> str | None:
    """Return one line that names the features that were encoded, and their levels; None where there are none.

    levels  of each feature, as a Dataset has them
    limit   `target_encoding_levels`
    """
    encoded = [(names[i], own) for i, own in enumerate(levels or []) if isinstance(own, EncodedLevels)]
    if not encoded:
        return None
    shown = ", ".join(
        f"{name!r} ({len(own):,} levels in {FEWEST_ROWS} rows or more)"
        if len(own)
        else f"{name!r} (no level in {FEWEST_ROWS} rows: it tells nothing; drop it, or parse it)"
        for name, own in encoded[:MOST_NAMED]
    )
    more = f" and {len(encoded) - MOST_NAMED} more" if len(encoded) > MOST_NAMED else ""
    return (
        f"target encoding: {shown}{more} became mean labels, having more than target_encoding_levels={limit} levels; "
        "LightGBM would split them by sets of levels, and so does target_encoding_levels=-1"
    )
