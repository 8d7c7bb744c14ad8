"""Tables of pyarrow that hold numbers alone, as files of numbers are read.

frame.py reads any table through narwhals, whose import, with pyarrow's functions that it takes, is a fifth of the time
in which a command trains on a small file. What is read here has the same values.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.levels import CodedColumn, code_series
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.sources.series_values import arrow_values, holds_numbers


def is_arrow_table(data: Any) -> bool:
    """Say whether data are a pyarrow Table whose columns have different names."""
    pyarrow = sys.modules.get("pyarrow")
    is_table = pyarrow is not None and isinstance(data, pyarrow.Table)
    return is_table and len(set(data.column_names)) == len(data.column_names)


class ArrowReader(TableReader):
    """Reads the columns of a pyarrow Table of numbers and booleans; nulls are NaN."""

    has_types: ClassVar[bool] = True

    def __init__(self, table: Any, name: str) -> None:
        self._columns = table.columns
        is_narrow = bool(self._columns) and all(str(column.type) == "float" for column in self._columns)
        dtype = np.dtype(np.float32 if is_narrow else np.float64)
        super().__init__((table.num_rows, table.num_columns), dtype, name, list(table.column_names), [])

    @classmethod
    def open(cls, data: Any, name: str) -> ArrowReader | None:
        """Read a table of numbers alone."""
        return cls(data, name) if is_arrow_table(data) and all(map(holds_numbers, data.columns)) else None

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        for position, column in enumerate(self._columns):
            if position not in self._codes:
                out[:, position] = arrow_values(column.slice(start, stop - start))

    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        out = np.empty((self.n_rows if rows is None else len(rows), last - first), self.block_dtype, order="F")
        for position, column in enumerate(self._columns[first:last]):
            values = arrow_values(column)
            out[:, position] = values if rows is None else values[rows]
        return out

    def _code_column(self, position: int) -> CodedColumn:
        import narwhals

        series = narwhals.from_native(self._columns[position], series_only=True)
        return code_series(series, self.column_name(position), self.others_in(position))

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows: an array where all columns are floats, else a reader, where integers keep their digits."""
        types = sys.modules["pyarrow"].types
        if not self._codes and all(types.is_floating(column.type) for column in self._columns):
            return super().take(rows)
        part = copy.copy(self)
        part.n_rows, part.levels, part._codes, part._fitted = len(rows), None, {}, {}
        part._coded = {place: replace(coded, codes=coded.codes[rows]) for place, coded in self._coded.items()}
        part._columns = [column.take(rows) for column in self._columns]
        return part
