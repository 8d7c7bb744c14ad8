"""The first reading of a stream: everything that must be known before bins can be written.

rows     their number; labels, weights, queries and initial scores
sample   the rows that bins are found from: those that `bin_bounds.sample_rows` would choose were the number of rows
         known, which is the number of smallest hashes, so they are kept as rows come
levels   values of categorical columns, and their numbers of rows
missing  which columns have NaN, and which have numbers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.hashing import hash_rows
from hornbeam.data.levels import CodedColumn, CountedColumn
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.streams.bin_file import checksum


class Sample:
    """Some rows of a stream, those of the smallest hashes.

    rows    int64 (n,), ascending once `close` was called
    values  float32 or float64 (n, n_features); of categorical columns places among the values of `LevelCounts`, or -1
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._limit = np.uint64(2**64 - 1)
        self._rows: list[NDArray[np.int64]] = []
        self._hashes: list[NDArray[np.uint64]] = []
        self._values: list[NDArray[Any]] = []
        self.rows = np.empty(0, np.int64)
        self.values: NDArray[Any] = np.empty((0, 0))

    def choose(self, first: int, n_rows: int) -> NDArray[np.int64]:
        """Return which of the next rows may be in the sample, as places among them."""
        if self.count == 0:
            return np.empty(0, np.int64)
        self._next = hash_rows(np.arange(first, first + n_rows, dtype=np.uint64))
        return np.flatnonzero(self._next <= self._limit)

    def add(self, first: int, chosen: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Take the values of the rows that were chosen."""
        if len(chosen) == 0:
            return
        self._rows.append(chosen + first)
        self._hashes.append(self._next[chosen])
        self._values.append(values)
        if sum(map(len, self._rows)) > 2 * self.count + 1024:
            self._keep_smallest()

    def _keep_smallest(self) -> None:
        rows, hashes = np.concatenate(self._rows), np.concatenate(self._hashes)
        values = np.concatenate(self._values)
        if len(rows) > self.count:
            kept = np.sort(np.argpartition(hashes, self.count - 1)[: self.count])
            rows, hashes, values = rows[kept], hashes[kept], values[kept]
            self._limit = hashes.max()
        self._rows, self._hashes, self._values = [rows], [hashes], [values]

    def close(self) -> None:
        """Put the rows together; there are no more."""
        if self._rows:
            self._keep_smallest()
            self.rows, self.values = self._rows[0], self._values[0]
        self._rows, self._hashes, self._values = [], [], []

    def smaller(self, count: int) -> Sample:
        """Return the sample of fewer rows."""
        part = Sample(count)
        kept = np.arange(len(self.rows))
        if len(kept) > count:
            hashes = hash_rows(self.rows.astype(np.uint64))
            kept = np.sort(np.argpartition(hashes, count - 1)[:count])
        part.rows, part.values = self.rows[kept], self.values[kept]
        return part


class LevelCounts:
    """The values of a categorical column so far, and their numbers of rows."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._place_of: dict[Any, int] = {}
        self._counts: list[int] = []
        self._kind: type | None = None
        self._is_cut = False

    def add(self, column: CodedColumn) -> None:
        """Count the rows of a batch."""
        self._is_cut |= column.is_cut
        for value, n_rows in zip(column.values, column.counts().tolist(), strict=True):
            if n_rows == 0:
                continue
            if self._kind is not None and self._kind is not type(value):
                raise DataError(
                    f"categorical feature {self._name!r} has levels of several kinds in its batches "
                    f"({self._kind.__name__} and {type(value).__name__}); make all levels one kind, such as strings"
                )
            self._kind = type(value)
            place = self._place_of.setdefault(value, len(self._counts))
            if place == len(self._counts):
                self._counts.append(0)
            self._counts[place] += n_rows

    def places(self, column: CodedColumn) -> NDArray[np.int32]:
        """Return the place of every row's value among those counted, -1: missing; int32 (n_rows,)."""
        table = np.full(len(column.values) + 2, -1, np.int32)
        for place, value in enumerate(column.values):
            table[place] = self._place_of.get(value, -1)
        return table[column.codes]

    @property
    def values(self) -> list[Any]:
        """The values, in the order in which they came."""
        return list(self._place_of)

    def counted(self) -> CountedColumn:
        """Return the column as far as its numbers of rows."""
        return CountedColumn(self.values, np.array(self._counts, np.int64), self._is_cut)


class Identity:
    """What tells whether a reading gives the rows of another: their number, labels, and first feature."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._label = self._feature = 0

    def add(self, reader: TableReader, label: Any) -> None:
        """Take the rows of a batch."""
        self.n_rows += reader.n_rows
        self._feature = _checksum(reader.sample(None, 0, 1)[:, 0], self._feature)
        if label is not None:
            self._label = _checksum(label, self._label)

    def check(self, other: Identity) -> None:
        """Raise DataError unless another reading gave the same rows."""
        if (self.n_rows, self._label, self._feature) != (other.n_rows, other._label, other._feature):
            what = f"{other.n_rows} rows after {self.n_rows}" if self.n_rows != other.n_rows else "other values"
            raise DataError(
                f"the stream gave {what} when it was read again; a source must give the same rows in the same order "
                "whenever it is read: a function must begin anew, and must not shuffle"
            )


def _checksum(values: Any, before: int) -> int:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "fiub":
        return before
    return checksum(np.asarray(numbers, np.float64), before)


class FirstReading:
    """Takes a stream batch by batch.

    Parameters
    ----------
    count
        Rows of the sample.
    categorical
        Positions of the columns whose levels are counted.
    names
        What messages call columns, by position.
    """

    def __init__(self, count: int, categorical: Sequence[int], names: Mapping[int, str]) -> None:
        self.sample = Sample(count)
        self.levels = {position: LevelCounts(names[position]) for position in categorical}
        self.identity = Identity()
        self.block_dtype: np.dtype[Any] = np.dtype(np.float32)
        self.has_nan = self.has_value = np.empty(0, np.bool_)
        self._fields: dict[str, list[Any]] = {}

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self.identity.n_rows

    def add(self, reader: TableReader, fields: Mapping[str, Any]) -> None:
        """Take a batch, and what belongs to its rows."""
        first, n_rows = self.n_rows, reader.n_rows
        reader.other_numbers = "cut"
        block = reader.block(0, n_rows)
        self.block_dtype = np.result_type(self.block_dtype, block.dtype)
        self._look_for_missing(block)
        chosen = self.sample.choose(first, n_rows)
        values = block[chosen] if not self.levels else block[chosen].astype(np.float64)
        for position, counts in self.levels.items():
            column = reader.coded(position)
            counts.add(column)
            values[:, position] = counts.places(column)[chosen]
        self.sample.add(first, chosen, values)
        self.identity.add(reader, fields.get("label"))
        for name, given in fields.items():
            if given is not None:
                self._fields.setdefault(name, []).append(np.array(given))

    def _look_for_missing(self, block: NDArray[Any]) -> None:
        if len(self.has_nan) == 0:
            self.has_nan, self.has_value = np.zeros((2, block.shape[1]), np.bool_)
        with np.errstate(all="ignore"):
            doubtful = np.flatnonzero(~np.isfinite(block.sum(axis=0)))  # a sum of numbers is one, or has overflowed
        self.has_value[np.setdiff1d(np.arange(block.shape[1]), doubtful)] = True
        nan = np.isnan(block[:, doubtful])
        self.has_nan[doubtful] |= nan.any(axis=0)
        self.has_value[doubtful] |= ~nan.all(axis=0)

    def close(self) -> dict[str, NDArray[Any]]:
        """End the reading, and return the fields that were there, by name."""
        self.sample.close()
        fields = {}
        for name in list(self._fields):
            parts = self._fields.pop(name)
            fields[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return fields
