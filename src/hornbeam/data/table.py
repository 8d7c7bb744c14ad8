"""Reading tables: whatever holds the features, block by block, as floats.

`TableReader` knows NumPy arrays (any real dtype, any order and strides), lists of lists and, through narwhals, pandas,
polars and pyarrow tables. It never copies a whole table to floats: a consumer asks for a block of rows at a time. The
exception are arrays of objects (object_table.py), whose columns of strings are read as levels.
Arrays on a CUDA device (device_arrays.py) can be read where they are, or copied to the host, again block by block.
Sparse matrices (sparse_table.py) have their zeros filled in, block by block too.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.cuda_errors import cupy_errors
from hornbeam.data.device_arrays import as_cupy, device_of, to_host
from hornbeam.data.levels import CodedColumn, Levels, code_numbers, code_series
from hornbeam.data.sources.objects import code_objects, holds_objects, read_objects
from hornbeam.data.sources.sparse import SparseTable, is_sparse, sparse_frame
from hornbeam.data.sources.sparse_levels import SparseCodes

if TYPE_CHECKING:
    import narwhals as nw

_REAL_KINDS = "fiub"
"""NumPy dtype kinds that are numbers on the real line: float, int, unsigned, bool."""

ZERO = 1e-35
"""Magnitudes up to this are zero where zeros are missing values, as in LightGBM."""

DEVICE_BLOCK_CELLS = 1 << 26
"""Values that are converted to float64 on a device at a time: 512 MB."""


class TableReader:
    """A table of n_rows x n_features numbers that is read block by block.

    Parameters
    ----------
    data
        2-D NumPy array of floats, integers or booleans, or of objects: numbers, and strings in columns that are given
        levels; list of lists of numbers; pandas, polars or pyarrow table with
        numeric and boolean columns, whose nulls are read as NaN, and columns of strings and categories, which need
        levels (`with_levels`) to be read; array on a CUDA device; sparse matrix or array of SciPy, or pandas table of
        sparse columns. It is not copied, but for sparse matrices in another form than CSR.
    name
        What error messages call the table.

    Attributes
    ----------
    n_rows, n_features
        Shape of the table, both at least 1.
    names
        Column names of a frame, else None.
    block_dtype
        dtype of what `block` returns: float32 where the table holds float32, else float64.
    device
        "cuda:0", ...: the device that an array lies on; None: host memory.
    device_array
        That array as CuPy's; None in host memory.
    sparse
        The table as a SparseTable, or None.
    zero_as_missing
        Whether zeros are read as NaN; False at first.
    level_columns
        Positions of the columns that are categorical by their type: strings and categories.
    has_types
        Whether columns have types of their own, which tell categorical ones: those of frames do.
    levels
        Levels of every column that is read as codes of levels, else None; None: there is no such column.
    """

    def __init__(self, data: Any, name: str = "data") -> None:
        self._array: NDArray[Any] | None = None
        self._objects: NDArray[Any] | None = None
        self.sparse: SparseTable | None = None
        self.zero_as_missing = False
        self.device = device_of(data, name)
        self.device_array: Any = None
        self._columns: list[nw.Series[Any]] = []
        self.names: list[str] | None = None
        self.level_columns: list[int] = []
        self.levels: list[Levels | None] | None = None
        self._table_name = name
        self._coded: dict[int, CodedColumn] = {}
        self._codes: dict[int, NDArray[Any]] = {}  # what Levels.encode returns
        self._fitted: dict[int, tuple[Levels, NDArray[np.float64]]] = {}
        table, names = sparse_frame(data, name) or (data, None)
        frame = None if self.device is not None or is_sparse(table) else _as_frame(data)
        if is_sparse(table):
            self.sparse, self.names = SparseTable(table, name), names
            self.n_rows, self.n_features = self.sparse.n_rows, self.sparse.n_features
            dtypes = {self.sparse.values.dtype}
        elif self.device is not None:
            self.device_array = _check_array(as_cupy(data, name), name)
            self.n_rows, self.n_features = self.device_array.shape
            dtypes = {np.dtype(self.device_array.dtype)}
        elif holds_objects(data):
            self._objects = data
            self._array, self.level_columns = read_objects(data, name)
            self.n_rows, self.n_features = self._array.shape
            dtypes = {self._array.dtype}
        elif frame is None:
            self._array = _as_array(data, name)
            self.n_rows, self.n_features = self._array.shape
            dtypes = {self._array.dtype}
        else:
            self.names, self._columns, self.level_columns, dtypes = _frame_columns(frame, name)
            self.n_rows, self.n_features = len(frame), len(self._columns)
        if self.n_rows == 0 or self.n_features == 0:
            raise DataError(
                f"{name} is empty: {self.n_rows} rows and {self.n_features} columns; at least one of each is needed"
            )
        self.has_types = bool(self._columns)
        self.block_dtype: np.dtype[Any] = np.dtype(np.float32 if dtypes == {np.dtype(np.float32)} else np.float64)

    @classmethod
    def of_numbers(cls, data: Any) -> TableReader:
        """Return a reader of a table for a model of numbers alone, which small frames are read for at once."""
        plain = _plain_numbers(data)
        if plain is None:
            return cls(data)
        reader = cls(plain[0])
        reader.names = plain[1]
        return reader

    def column_name(self, position: int) -> str:
        """Return how messages call a column."""
        return str(position) if self.names is None else self.names[position]

    def coded(self, position: int) -> CodedColumn:
        """Return a column as places in its distinct values: strings, categories, integers or booleans."""
        if position not in self._coded:
            name = self.column_name(position)
            if self.sparse is not None:
                self._coded[position] = self.sparse.coded(position, name)
            elif self._objects is not None:
                self._coded[position] = code_objects(self._objects[:, position], name)
            elif self._columns:
                self._coded[position] = code_series(self._columns[position], name)
            else:
                self._coded[position] = code_numbers(self.sample(None, position, position + 1)[:, 0], name)
        return self._coded[position]

    @property
    def n_levels(self) -> dict[int, int]:
        """Number of levels of every column that is read as codes, by position."""
        pairs = enumerate(self.levels or [])
        return {position: len(own) for position, own in pairs if own is not None and own.is_coded}

    def with_levels(
        self,
        levels: Sequence[Levels | None] | None,
        fitted: Mapping[int, NDArray[np.float64]] | None = None,
    ) -> TableReader:
        """Return a reader of the same table that reads some columns as the codes of levels, missing ones as NaN.

        levels  one entry a column, None: read the numbers as they are; None: all columns so
        fitted  values of the rows, float64 (n_rows,), of columns whose target encoding was made from these very rows
                (target_encoding.py), by position; kept, and read again wherever levels have this encoding
        """
        reader = copy.copy(self)
        reader.levels, reader._codes = None, {}  # an earlier reader's codes are not those of these levels
        given: list[Levels | None] = [None] * self.n_features if levels is None else list(levels)
        wrong = [position for position in self.level_columns if given[position] is None]
        wrong = [position for position in wrong if not (self._columns and is_all_null(self._columns[position]))]
        if wrong:
            raise not_numbers(
                [
                    f"{self.column_name(position)!r} ({self._columns[position].dtype if self._columns else 'strings'})"
                    for position in wrong
                ],
                self._table_name,
            )
        if fitted is not None:
            pairs = ((place, given[place]) for place in fitted)
            reader._fitted = {place: (own, fitted[place]) for place, own in pairs if own is not None}
        chosen = {position: own for position, own in enumerate(given) if own is not None}
        self.prepare_coding(list(chosen))
        whole = {position: reader._fitted_values(position, own) for position, own in chosen.items()}
        fitted_now = {position: values for position, values in whole.items() if values is not None}
        codes = {
            position: own.encode(self.coded(position), self.column_name(position))
            for position, own in chosen.items()
            if position not in fitted_now
        }
        if chosen:
            reader.levels, reader.block_dtype = given, np.dtype(np.float64)
        if self.sparse is None:
            reader._codes = codes | fitted_now
        else:
            entries = self.sparse.list_entries(codes)
            read = {position: _code_values(own) for position, own in codes.items()}
            reader.sparse = self.sparse.with_codes(
                SparseCodes.of_columns(entries, read, fitted_now) if chosen else None
            )
        return reader

    def prepare_coding(self, positions: Sequence[int]) -> None:
        """Say which columns will be coded: the entries of a sparse table are found for all of them at once."""
        if self.sparse is not None:
            self.sparse.list_entries(positions)

    def _fitted_values(self, position: int, levels: Levels) -> NDArray[np.float64] | None:
        """Return the values of a column whose target encoding was made from these very rows; None: it was not."""
        own, values = self._fitted.get(position, (None, np.empty(0)))
        return values if own is not None and levels.agrees(own) else None

    def read(self, start: int, stop: int, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return rows start to stop as float64 (stop - start, n_features), C order; in `out` where it is given."""
        if out is None:
            out = np.empty((stop - start, self.n_features), np.float64)
        self._fill(start, stop, out)
        return out

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop as `block_dtype` (stop - start, n_features), C order, aligned and writeable.

        It may be a view of the table: do not write to it.
        """
        is_view = not self.zero_as_missing and not self._codes
        if self._array is not None and self._array.dtype == self.block_dtype and is_view:
            view = self._array[start:stop]
            if view.flags.carray:  # else compiled kernels would need another specialisation
                return view
        out = np.empty((stop - start, self.n_features), self.block_dtype)
        self._fill(start, stop, out)
        return out

    def device_blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield (first row, CuPy block of `block_dtype`) for a table on a device: one view where the dtype is right.

        Other dtypes are converted on the device, a block of rows at a time, and codes of levels are brought there.
        """
        array = self.device_array
        if array.dtype == self.block_dtype and not self.zero_as_missing and not self._codes:
            yield 0, array
            return
        import cupy

        step = max(1, DEVICE_BLOCK_CELLS // self.n_features)
        for start in range(0, self.n_rows, step):
            with cupy_errors(f"cuda:{array.device.id}", "converting values to floats"), array.device:
                block = array[start : start + step].astype(self.block_dtype)
                if self.zero_as_missing:
                    block[abs(block) <= ZERO] = np.nan
                for position, codes in self._codes.items():
                    column = np.empty(len(block), self.block_dtype)
                    _write_codes(codes[start : start + step], column)
                    block[:, position] = _on_device(column)
                cupy.cuda.get_current_stream().synchronize()
            yield start, block

    def sample(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        """Return columns first to last of some rows (None: of all), (len(rows), last - first), to be converted yet.

        An array keeps its dtype, so that a sample of small integers stays small. A view where that is possible: do not
        write to it. From a device only the sample is copied. Zeros are zeros here, even where they count as missing.
        """
        assert self.sparse is None  # it is sampled by column
        if any(first <= position < last for position in self._codes):
            values = self._without_levels().sample(rows, first, last) if not self._columns else None
            mixed = np.empty((self.n_rows if rows is None else len(rows), last - first), self.block_dtype, order="F")
            for position in range(first, last):
                if position in self._codes:
                    codes = self._codes[position]
                    _write_codes(codes if rows is None else codes[rows], mixed[:, position - first])
                elif values is not None:
                    mixed[:, position - first] = values[:, position - first]
                else:
                    numbers = _column_values(self._columns[position])
                    mixed[:, position - first] = numbers if rows is None else numbers[rows]
            return mixed
        if self.device_array is not None:
            with self.device_array.device:
                chosen = self.device_array[:, first:last]
                return to_host(chosen if rows is None else chosen[_on_device(rows)])
        if self._array is not None:
            part = self._array[:, first:last]
            return part if rows is None else part[rows]
        out = np.empty((self.n_rows if rows is None else len(rows), last - first), self.block_dtype, order="F")
        for position, column in enumerate(self._columns[first:last]):
            values = _column_values(column)
            out[:, position] = values if rows is None else values[rows]
        return out

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows, as a table that a TableReader reads alike."""
        if self.sparse is not None:
            return self.sparse.take(rows)
        if self._objects is not None:
            return self._objects[rows]
        all_floats = all(column.dtype.is_float() for column in self._columns)
        if self._columns and (self._codes or not all_floats):  # as floats, levels could have other names
            return self._take_columns(rows)
        return self._without_levels().sample(rows, 0, self.n_features)

    def _take_columns(self, rows: NDArray[Any]) -> TableReader:
        """Return a reader of some rows of a frame, which are copied."""
        part = copy.copy(self)
        part.n_rows, part.levels, part._codes, part._fitted = len(rows), None, {}, {}
        part._coded = {place: CodedColumn(coded.values, coded.codes[rows]) for place, coded in self._coded.items()}
        numbers = rows.tolist()
        part._columns = [column[numbers] for column in self._columns]
        return part

    def to_device(self, result: NDArray[Any]) -> Any:
        """Return a copy of an array on the device of the table, as CuPy's."""
        with self.device_array.device:
            return _on_device(result)

    def _fill(self, start: int, stop: int, out: NDArray[Any]) -> None:
        self._fill_values(start, stop, out)
        if self.zero_as_missing:
            zeros_to_nan(out)
        for position, codes in self._codes.items():
            _write_codes(codes[start:stop], out[:, position])
        if self.sparse is not None:
            self.sparse.write_codes(start, stop, out)

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        if self.sparse is not None:
            self.sparse.fill(start, stop, out)
            return
        if self.device_array is not None:
            with self.device_array.device:
                out[...] = to_host(self.device_array[start:stop])
        elif self._array is not None:
            out[...] = self._array[start:stop]
        for position, column in enumerate(self._columns):
            if position not in self._codes:
                out[:, position] = _column_values(column[start:stop])

    def _without_levels(self) -> TableReader:
        plain = copy.copy(self)
        plain.levels, plain._codes = None, {}
        return plain


def _write_codes(codes: NDArray[Any], out: NDArray[Any]) -> None:
    """Write codes as floats, -1 as NaN; numbers as they are.

    codes  int32 or float64 (n,)  in
    out    float (n,)             out
    """
    out[...] = codes
    if codes.dtype == np.int32:
        out[codes < 0] = np.nan


def _code_values(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Return codes as `_write_codes` writes them, float64 (n,)."""
    out = np.empty(len(codes))
    _write_codes(codes, out)
    return out


def zeros_to_nan(values: NDArray[Any]) -> None:
    """Replace zeros by NaN, in place."""
    values[np.abs(values) <= ZERO] = np.nan


def _on_device(array: NDArray[Any]) -> Any:
    """Return a copy of an array on the current CUDA device."""
    import cupy

    return cupy.asarray(array)


def _as_array(data: Any, name: str) -> NDArray[Any]:
    """Return data as a 2-D array of real numbers, or say why that cannot be."""
    if isinstance(data, np.ma.MaskedArray):
        raise DataError(f"{name} is a masked array, whose mask would be lost; pass .filled(numpy.nan)")
    if data is None or isinstance(data, (str, bytes, dict, set)):
        given = "None" if data is None else f"a {type(data).__name__}"
        raise DataError(
            f"{name} is {given}; pass a 2-D array or a frame of numbers (files: read them with pandas first)"
        )
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise DataError(f"{name} cannot be read as a table ({error}); all rows must have the same length") from None
    checked: NDArray[Any] = _check_array(array, name)
    return checked


def _check_array(array: Any, name: str) -> Any:
    """Return an array, NumPy's or CuPy's, if it has two dimensions of real numbers; else say what is wrong."""
    if array.ndim != 2 and array.size == 0:
        raise DataError(f"{name} is empty (shape {array.shape}); at least one row and one column are needed")
    if array.ndim != 2:
        remedy = "use reshape(-1, 1) for a single feature" if array.ndim == 1 else "pass rows x features"
        raise DataError(f"{name} must have 2 dimensions (rows, features), not shape {array.shape}; {remedy}")
    if array.dtype.kind not in _REAL_KINDS and array.size > 0:
        raise DataError(
            f"{name} has dtype {array.dtype}; floats, integers and booleans are supported: convert with "
            "astype(float), code strings and categories as numbers, and write missing values as NaN"
        )
    return array


def _as_frame(data: Any) -> nw.DataFrame[Any] | None:
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
    except ValueError as error:  # duplicated column names, found by narwhals itself
        raise DataError(f"data cannot be read as a table: {error}; rename columns so that names are unique") from None
    if isinstance(frame, narwhals.LazyFrame):
        raise DataError("data is a lazy frame; pass the result of .collect()")
    return frame if isinstance(frame, narwhals.DataFrame) else None


FEW_ROWS = 1024
"""Rows of a frame up to which columns take longer to be looked at, one by one, than all of them to be copied."""


def _plain_numbers(data: Any) -> tuple[NDArray[Any], list[str]] | None:
    """Return a pandas frame of few rows and of NumPy's numbers as an array, and its names; None for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(data) is not pandas.DataFrame or len(data) > FEW_ROWS or not data.columns.is_unique:
        return None
    dtypes = set(data.dtypes)
    if not all(isinstance(dtype, np.dtype) and dtype.kind in _REAL_KINDS for dtype in dtypes):
        return None
    whole = np.float32 if dtypes == {np.dtype(np.float32)} else np.float64
    return data.to_numpy(whole), [str(name) for name in data.columns]


def _frame_columns(
    frame: nw.DataFrame[Any], name: str
) -> tuple[list[str], list[nw.Series[Any]], list[int], set[np.dtype[Any]]]:
    """Return names, columns, positions of strings and categories, and dtypes; columns of other kinds raise."""
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
    ]
    if wrong:
        raise not_numbers(wrong, name)
    dtypes = {np.dtype(np.float32 if column.dtype == narwhals.Float32 else np.float64) for column in columns}
    return names, columns, with_levels, dtypes


MADE_UP_NAMES = ("{}", "Column_{}", "column_{}")
"""Names that columns without names are given by pandas, here, and by polars."""


def same_columns(names: Sequence[str], others: Sequence[str]) -> bool:
    """Say whether two tables may have the same columns: the same names, or names that one of them was not given.

    names, others  of the same length
    """
    made_up = [[form.format(place) for place in range(len(names))] for form in MADE_UP_NAMES]
    return list(names) == list(others) or any(list(own) in made_up for own in (names, others))


def is_all_null(column: nw.Series[Any]) -> bool:
    """Say whether a column holds nothing: whatever its type, all its values are missing."""
    return column.null_count() == len(column)


def not_numbers(columns: list[str], name: str) -> DataError:
    """Make the error for columns that are neither numbers nor categorical features."""
    shown = ", ".join(columns[:5]) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    return DataError(
        f"{name} has columns that are not numbers: {shown}; floats, integers of up to 64 bits and booleans, and "
        "strings and categories as categorical features, are supported: name these in categorical_features, drop them, "
        "or cast or code them as such numbers"
    )


def _column_values(column: nw.Series[Any]) -> NDArray[Any]:
    """Return a column, or a slice of one, as numbers; nulls as NaN."""
    import narwhals

    if not (column.dtype.is_numeric() or column.dtype == narwhals.Boolean):  # strings and categories, all of them null
        return np.full(len(column), np.nan)
    if column.null_count() > 0 and not column.dtype.is_float():
        column = column.cast(narwhals.Float64)
    return column.to_numpy()
