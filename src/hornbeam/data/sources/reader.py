"""What a reader of tables is: n_rows x n_features numbers, read block by block, whatever holds them.

Each kind of table has a reader of its own (dense.py, frame.py, objects.py, sparse.py, device.py); opening.py finds the
one that suits. What is no table yet, a file or a stream, is read into one first (loading.py). A new source of data is a
new class or loader there, and no branch anywhere else. Nobody copies a whole table to floats: a consumer asks for a
block of rows at a time.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.levels import CodedColumn, Levels, Others
from hornbeam.data.sources.sparse_table import SparseTable

REAL_KINDS = "fiub"
"""NumPy dtype kinds that are numbers on the real line: float, int, unsigned, bool."""

ZERO = float(np.float32(1e-35))
"""Magnitudes up to this are zero where zeros are missing values: LightGBM's constant, which is a float32 there."""

SelfReader = TypeVar("SelfReader", bound="TableReader")


class TableReader(ABC):
    """A table of n_rows x n_features numbers that is read block by block.

    Parameters
    ----------
    shape
        Rows and columns, at least one of each.
    dtype
        What the numbers are stored as; float32 is read as such, everything else as float64.
    name
        What error messages call the table.
    names
        Column names, or None.

    Attributes
    ----------
    block_dtype
        dtype of what `block` returns: float32 where the table holds float32, else float64.
    zero_as_missing
        Whether zeros are read as NaN; False at first.
    other_numbers
        What becomes of numbers that are no integers where a column is read as levels; "refused" at first.
    level_columns
        Positions of the columns that are categorical by their type: strings and categories.
    levels
        Levels of every column that is read as codes of levels, else None; None: there is no such column.
    """

    has_types: ClassVar[bool] = False
    """Whether columns have types of their own, which tell categorical ones: those of frames do."""
    device: str | None = None
    """"cuda:0", ...: the device that an array lies on; None: host memory."""
    device_array: Any = None
    """That array as CuPy's; None in host memory."""
    sparse: SparseTable | None = None
    """The table as it is stored where most of it is zero; None: it is dense."""

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, name: str, names: list[str] | None = None, levels: Sequence[int] = ()
    ) -> None:
        self.n_rows, self.n_features = (int(size) for size in shape)
        self.names = names
        self.zero_as_missing = False
        self.other_numbers: Others = "refused"
        self._cut_columns: set[int] = set()
        self._said: set[str] = set()
        self.level_columns: list[int] = list(levels)
        self.levels: list[Levels | None] | None = None
        self.block_dtype: np.dtype[Any] = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        self._table_name = name
        self._coded: dict[int, CodedColumn] = {}
        self._codes: dict[int, NDArray[Any]] = {}  # what Levels.encode returns
        self._fitted: dict[int, tuple[Levels, NDArray[np.float64]]] = {}
        if self.n_rows == 0 or self.n_features == 0:
            raise DataError(
                f"{name} is empty: {self.n_rows} rows and {self.n_features} columns; at least one of each is needed"
            )

    # --- what a kind of table has to say ------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def open(cls, data: Any, name: str) -> TableReader | None:
        """Return a reader of this kind; None: the data are of another kind. DataError: of this, but unsound."""

    @abstractmethod
    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write the numbers of the rows start to stop, missing ones as NaN; columns with codes may be left out.

        out  `block_dtype` or float64 (stop - start, n_features)  out
        """

    @abstractmethod
    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        """Return columns first to last of some rows, None: of all, as numbers of any real dtype; it may be a view."""

    @abstractmethod
    def _code_column(self, position: int) -> CodedColumn:
        """Return a column as places in its distinct values."""

    def _view(self, start: int, stop: int) -> NDArray[Any] | None:
        """Return rows as a view that is `block_dtype`, C order, aligned and writeable; None: there is none."""
        return None

    def _column_type(self, position: int) -> str:
        """Return what messages call the type of a column of strings or categories."""
        return "strings"

    def holds_categories(self, position: int) -> bool:
        """Say whether the type of a column is that of categories, not of strings or numbers."""
        return False

    def holds_order(self, position: int) -> bool:
        """Say whether the categories of a column are in an order: those of pandas may be."""
        return False

    def _is_all_null(self, position: int) -> bool:
        """Say whether a column of strings or categories holds nothing, so that it may be read as missing numbers."""
        return False

    # --- what holds for all of them -----------------------------------------------------------------------------------

    def column_name(self, position: int) -> str:
        """Return how messages call a column."""
        return str(position) if self.names is None else self.names[position]

    def coded(self, position: int) -> CodedColumn:
        """Return a column as places in its distinct values: strings, categories, integers or booleans."""
        if position not in self._coded:
            self._coded[position] = self._code_column(position)
        return self._coded[position]

    def others_in(self, position: int) -> Others:
        """Return what becomes of numbers in a column of levels that are no integers."""
        if position not in self._cut_columns:
            return self.other_numbers
        return "cut or missing" if self.other_numbers == "missing" else "cut"

    def says_first(self, text: str) -> bool:
        """Say whether nothing was said of this table, or of rows of it, by that name before."""
        is_first = text not in self._said
        self._said.add(text)  # copies of a reader share the set
        return is_first

    @property
    def n_levels(self) -> dict[int, int]:
        """Number of levels of every column that is read as codes, by position."""
        pairs = enumerate(self.levels or [])
        return {position: len(own) for position, own in pairs if own is not None and own.is_coded}

    def with_levels(
        self: SelfReader,
        levels: Sequence[Levels | None] | None,
        fitted: Mapping[int, NDArray[np.float64]] | None = None,
    ) -> SelfReader:
        """Return a reader of the same table that reads some columns as the codes of levels, missing ones as NaN.

        levels  one entry a column, None: read the numbers as they are; None: all columns so
        fitted  values of the rows, float64 (n_rows,), of columns whose target encoding was made from these very rows
                (target_encoding.py), by position; kept, and read again wherever levels have this encoding
        """
        reader = copy.copy(self)
        reader.levels, reader._codes = None, {}  # an earlier reader's codes are not those of these levels
        named: list[Levels | None] = [None] * self.n_features if levels is None else list(levels)
        wrong = [p for p in self.level_columns if named[p] is None and not self._is_all_null(p)]
        if wrong:
            shown = [f"{self.column_name(position)!r} ({self._column_type(position)})" for position in wrong]
            raise not_numbers(shown, self._table_name)
        if fitted is not None:
            pairs = ((place, named[place]) for place in fitted)
            reader._fitted = {place: (own, fitted[place]) for place, own in pairs if own is not None}
        chosen = {position: own for position, own in enumerate(named) if own is not None}
        self._cut_columns.update(position for position, own in chosen.items() if own.is_cut)
        self.prepare_coding(list(chosen))
        whole = {position: reader._fitted_values(position, own) for position, own in chosen.items()}
        fitted_now = {position: values for position, values in whole.items() if values is not None}
        codes = {
            position: own.encode(self.coded(position), self.column_name(position))
            for position, own in chosen.items()
            if position not in fitted_now
        }
        if chosen:
            reader.levels, reader.block_dtype = named, np.dtype(np.float64)
        reader._take_codes(codes, fitted_now)
        return reader

    def _take_codes(self, codes: dict[int, NDArray[Any]], fitted: dict[int, NDArray[np.float64]]) -> None:
        """Keep what columns are read as: codes of levels, and values of target encodings, by position."""
        self._codes = codes | fitted

    def prepare_coding(self, positions: Sequence[int]) -> None:  # noqa: B027  (most kinds need not prepare)
        """Say which columns will be coded: a table may find their entries all at once."""

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
        if not self.zero_as_missing and not self._codes:
            view = self._view(start, stop)
            if view is not None:
                return view
        out = np.empty((stop - start, self.n_features), self.block_dtype)
        self._fill(start, stop, out)
        return out

    def sample(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        """Return columns first to last of some rows (None: of all), (len(rows), last - first), to be converted yet.

        An array keeps its dtype, so that a sample of small integers stays small. A view where that is possible: do not
        write to it. From a device only the sample is copied. Zeros are zeros here, even where they count as missing.
        """
        coded = [position for position in range(first, last) if position in self._codes]
        if not coded:
            return self._sample_values(rows, first, last)
        mixed = np.empty((self.n_rows if rows is None else len(rows), last - first), self.block_dtype, order="F")
        numbers = [position for position in range(first, last) if position not in self._codes]
        for position in numbers:
            mixed[:, position - first] = self._sample_values(rows, position, position + 1)[:, 0]
        for position in coded:
            codes = self._codes[position]
            write_codes(codes if rows is None else codes[rows], mixed[:, position - first])
        return mixed

    def pieces(self) -> Iterable[tuple[slice, TableReader]]:
        """Return tables that hold all rows together, in order, and which rows they are: this one."""
        return [(slice(0, self.n_rows), self)]

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows, as a table that is read alike."""
        return self._sample_values(rows, 0, self.n_features)

    def device_blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield (first row, block on the device) for a table on a device."""
        raise NotImplementedError

    def to_device(self, result: NDArray[Any]) -> Any:
        """Return a copy of an array on the device of the table."""
        raise NotImplementedError

    def _fill(self, start: int, stop: int, out: NDArray[Any]) -> None:
        self._fill_values(start, stop, out)
        if self.zero_as_missing:
            zeros_to_nan(out)
        for position, codes in self._codes.items():
            write_codes(codes[start:stop], out[:, position])


def write_codes(codes: NDArray[Any], out: NDArray[Any]) -> None:
    """Write codes as floats, -1 as NaN; numbers as they are.

    codes  int32 or float64 (n,)  in
    out    float (n,)             out
    """
    out[...] = codes
    if codes.dtype == np.int32:
        out[codes < 0] = np.nan


def zeros_to_nan(values: NDArray[Any]) -> None:
    """Replace zeros by NaN, in place."""
    values[np.abs(values) <= ZERO] = np.nan


def check_array(array: Any, name: str) -> Any:
    """Return an array, NumPy's or CuPy's, if it has two dimensions of real numbers; else say what is wrong."""
    if array.ndim != 2 and array.size == 0:
        raise DataError(f"{name} is empty (shape {array.shape}); at least one row and one column are needed")
    if array.ndim != 2:
        remedy = "use reshape(-1, 1) for a single feature" if array.ndim == 1 else "pass rows x features"
        raise DataError(f"{name} must have 2 dimensions (rows, features), not shape {array.shape}; {remedy}")
    if array.dtype.kind not in REAL_KINDS and array.size > 0:
        raise DataError(
            f"{name} has dtype {array.dtype}; floats, integers and booleans are supported: convert with "
            "astype(float), code strings and categories as numbers, and write missing values as NaN"
        )
    return array


def not_numbers(columns: list[str], name: str) -> DataError:
    """Make the error for columns that are neither numbers nor categorical features."""
    shown = ", ".join(columns[:5]) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    return DataError(
        f"{name} has columns that are not numbers: {shown}; floats, integers of up to 64 bits, booleans, dates "
        "and times, and strings and categories as categorical features, are supported: name these in "
        "categorical_features, drop them, or cast or code them as such numbers (categories: X[name].cat.codes, dates "
        "as objects: pandas.to_datetime)"
    )
