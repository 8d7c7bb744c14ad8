"""Categorical columns of sparse tables: what a column does not hold is its level 0.

A column is coded by its entries alone, and all rows without one share a code, so nothing here is as long as the table
has rows. The exception are target encodings of training rows (target_encoding.py), which differ from row to row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.levels import CodedColumn


@dataclass(frozen=True, eq=False)
class SparseColumn(CodedColumn):
    """A column of a sparse table as places in a list of its distinct values.

    codes   int32 (n_entries + 1,), -1: missing; the last one is that of the rows without an entry
    rows    int64 (n_entries,)      row of each entry
    n_rows  of the table
    """

    rows: NDArray[np.int64]
    n_rows: int

    def counts(self) -> NDArray[np.int64]:
        """Return how many rows have each value, int64 (n_values,)."""
        counts = CodedColumn(self.values, self.codes[:-1]).counts()
        counts[self.codes[-1]] += self.n_rows - len(self.rows)
        return counts

    def row_codes(self) -> NDArray[np.int32]:
        """Return the code of every row, int32 (n_rows,)."""
        codes = np.full(self.n_rows, self.codes[-1])
        codes[self.rows] = self.codes[:-1]
        return codes


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """What the categorical columns of a sparse table are read as: codes or numbers, NaN: missing.

    places  int64 (n,)    ascending: entries of these columns, as places in SparseTable.values
    values  float64 (n,)  what they are read as
    absent  what rows without an entry are read as, by column
    whole   float64 (n_rows,), by column, of columns that have a value of its own in every row; their entries do not
            count
    """

    places: NDArray[np.int64]
    values: NDArray[np.float64]
    absent: Mapping[int, float]
    whole: Mapping[int, NDArray[np.float64]]

    @classmethod
    def of_columns(
        cls,
        entries: Mapping[int, NDArray[np.int64]],
        read: Mapping[int, NDArray[np.float64]],
        whole: Mapping[int, NDArray[np.float64]],
    ) -> SparseCodes:
        """Put the columns together.

        entries  places of each column's entries
        read     float64 (n_entries + 1,), by column: what they are read as, and last what the other rows are
        whole    as in the attribute
        """
        columns = list(read)
        places = np.concatenate([np.empty(0, np.int64), *(entries[column] for column in columns)])
        values = np.concatenate([np.empty(0), *(read[column][:-1] for column in columns)])
        order = np.argsort(places)
        return cls(places[order], values[order], {column: float(read[column][-1]) for column in columns}, whole)

    @property
    def columns(self) -> list[int]:
        """The columns that are read so."""
        return [*self.absent, *self.whole]

    def between(self, begin: int, end: int) -> slice:
        """Return which of `places` lie in begin:end."""
        first, last = np.searchsorted(self.places, [begin, end])
        return slice(int(first), int(last))
