"""Frames of pandas, polars and pyarrow, through narwhals: numbers, booleans, dates and times, strings and categories.

Nulls are NaN; dates and times are seconds (moments.py).
"""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.levels import CodedColumn, code_series
from hornbeam.data.sources.dense import DenseReader
from hornbeam.data.sources.moments import column_seconds, holds_moments
from hornbeam.data.sources.reader import REAL_KINDS, TableReader, not_numbers
from hornbeam.data.sources.series_values import series_values

if TYPE_CHECKING:
    import narwhals as nw

FEW_ROWS = 1024
"""Rows of a frame up to which columns take longer to be looked at, one by one, than all of them to be copied."""


class FrameReader(TableReader):
    """Reads the columns of a frame; strings and categories need levels (`with_levels`) to be read."""

    has_types: ClassVar[bool] = True

    def __init__(self, frame: nw.DataFrame[Any], name: str) -> None:
        names, self._columns, levels, dtype = _frame_columns(frame, name)
        super().__init__((len(frame), len(self._columns)), dtype, name, names, levels)

    @classmethod
    def open(cls, data: Any, name: str) -> FrameReader | None:
        """Read a pandas, polars or pyarrow table."""
        frame = as_frame(data)
        return None if frame is None else cls(frame, name)

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        for position, column in enumerate(self._columns):
            if position not in self._codes:
                out[:, position] = _column_values(column[start:stop])

    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        out = np.empty((self.n_rows if rows is None else len(rows), last - first), self.block_dtype, order="F")
        for position, column in enumerate(self._columns[first:last]):
            values = _column_values(column)
            out[:, position] = values if rows is None else values[rows]
        return out

    def _code_column(self, position: int) -> CodedColumn:
        return code_series(self._columns[position], self.column_name(position), self.others_in(position))

    def _column_type(self, position: int) -> str:
        return str(self._columns[position].dtype)

    def holds_categories(self, position: int) -> bool:
        """Say whether the type of a column is that of categories, not of strings or numbers."""
        import narwhals

        return self._columns[position].dtype in (narwhals.Categorical, narwhals.Enum)

    def holds_order(self, position: int) -> bool:
        """Say whether the categories of a column are in an order: those of pandas may be."""
        return bool(getattr(getattr(self._columns[position].to_native(), "dtype", None), "ordered", False))

    def _is_all_null(self, position: int) -> bool:
        return is_all_null(self._columns[position])

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows: an array where all columns are floats, else a reader, for as floats levels lose names."""
        if not self._codes and all(column.dtype.is_float() for column in self._columns):
            return super().take(rows)
        part = copy.copy(self)
        part.n_rows, part.levels, part._codes, part._fitted = len(rows), None, {}, {}
        part._coded = {place: replace(coded, codes=coded.codes[rows]) for place, coded in self._coded.items()}
        numbers = rows.tolist()
        part._columns = [column[numbers] for column in self._columns]
        return part


def few_numbers(data: Any) -> DenseReader | None:
    """Return a reader of a pandas frame of few rows and of NumPy's numbers, copied at once; None for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(data) is not pandas.DataFrame or len(data) > FEW_ROWS or not data.columns.is_unique:
        return None
    dtypes = set(data.dtypes)
    if not all(isinstance(dtype, np.dtype) and dtype.kind in REAL_KINDS for dtype in dtypes):
        return None
    whole = np.float32 if dtypes == {np.dtype(np.float32)} else np.float64
    return DenseReader(data.to_numpy(whole), names=[str(name) for name in data.columns])


def as_frame(data: Any) -> nw.DataFrame[Any] | None:
    """Return a narwhals view of a pandas, polars or pyarrow table; None for anything else."""
    kind = type(data)  # the class is asked, since polars' LazyFrame computes `columns`
    if issubclass(kind, (np.ndarray, list, tuple)) or not (
        hasattr(kind, "columns") or hasattr(kind, "__narwhals_dataframe__")
    ):
        return None
    import narwhals

    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(data, pyarrow.RecordBatch):
        data = pyarrow.Table.from_batches([data])
    try:
        frame = narwhals.from_native(data, pass_through=True)
    except ValueError as error:  # found by narwhals itself
        named = getattr(data, "column_names", None) or getattr(data, "columns", [])  # pyarrow, and the others
        names = [str(name) for name in named]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is None:
            raise DataError(f"data cannot be read as a table ({error})") from None
        raise DataError(f"data has two columns called {twice!r}; rename columns so that names are unique") from None
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    return frame if isinstance(frame, narwhals.DataFrame) else None


def _frame_columns(
    frame: nw.DataFrame[Any], name: str
) -> tuple[list[str], list[nw.Series[Any]], list[int], np.dtype[Any]]:
    """Return names, columns, positions of strings and categories, and the dtype; columns of other kinds raise."""
    import narwhals

    columns = [frame[:, position] for position in range(frame.shape[1])]
    columns = [  # what holds nothing has no type of its own in polars and Arrow
        column.cast(narwhals.Float64) if column.dtype == narwhals.Unknown and is_all_null(column) else column
        for column in columns
    ]
    names = [str(column_name) for column_name in frame.columns]
    level_kinds = (narwhals.String, narwhals.Categorical, narwhals.Enum)
    with_levels = [position for position, column in enumerate(columns) if column.dtype in level_kinds]
    no_floats = (narwhals.Decimal, narwhals.Int128, narwhals.UInt128)  # numbers that NumPy has not
    wrong = [
        f"{names[position]!r} ({column.dtype})"
        for position, column in enumerate(columns)
        if position not in with_levels
        and (not (column.dtype.is_numeric() or column.dtype == narwhals.Boolean) or column.dtype in no_floats)
        and not holds_moments(column)
    ]
    if wrong:
        raise not_numbers(wrong, name)
    all_narrow = bool(columns) and all(column.dtype == narwhals.Float32 for column in columns)
    return names, columns, with_levels, np.dtype(np.float32 if all_narrow else np.float64)


def is_all_null(column: nw.Series[Any]) -> bool:
    """Say whether a column holds nothing: whatever its type, all its values are missing."""
    return column.null_count() == len(column)


def _column_values(column: nw.Series[Any]) -> NDArray[Any]:
    """Return a column, or a slice of one, as numbers; nulls as NaN."""
    import narwhals

    if not (column.dtype.is_numeric() or column.dtype == narwhals.Boolean):
        if holds_moments(column):
            return column_seconds(column)
        return np.full(len(column), np.nan)  # strings and categories, all of them null
    if column.null_count() > 0 and not column.dtype.is_float():
        column = column.cast(narwhals.Float64)
    return series_values(column)
