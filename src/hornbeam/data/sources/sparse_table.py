"""Sparse tables: SciPy's matrices and arrays, read without making them dense.

`SparseTable` is the CSR form of whatever was given. SciPy itself is never imported: the object brings its methods.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.levels import Others, code_numbers
from hornbeam.data.sources.sparse_levels import SparseCodes, SparseColumn

_REAL_KINDS = "fiub"


def is_sparse(data: Any) -> bool:
    """Say whether data is a sparse matrix or array, of SciPy or of a library that speaks its language."""
    return hasattr(data, "tocsr") and hasattr(data, "shape")


class SparseTable:
    """A table of n_rows x n_features numbers of which most are zero, row by row.

    Parameters
    ----------
    data
        Sparse matrix or array of real numbers in any of SciPy's formats. CSR without duplicates and with sorted rows is
        not copied.
    name
        What error messages call the table.

    Attributes
    ----------
    matrix
        The table in CSR form: sorted rows, no duplicates (SciPy adds them up).
    indptr
        int64 (n_rows + 1,): the values of row i are indptr[i] to indptr[i + 1].
    indices
        int32 or int64 (n_values,): their columns, ascending in a row.
    values
        (n_values,) of any real dtype. Zeros may be among them.
    codes
        What categorical columns are read as, None: as they are.
    """

    codes: SparseCodes | None = None

    def __init__(self, data: Any, name: str) -> None:
        if len(data.shape) != 2:
            raise DataError(f"{name} must have 2 dimensions (rows, features), not shape {data.shape}")
        dtype = np.dtype(data.dtype)
        if dtype.kind not in _REAL_KINDS:
            raise DataError(
                f"{name} has dtype {dtype}; floats, integers and booleans are supported: convert with astype(float)"
            )
        try:
            if data.format in ("csr", "csc"):
                data.check_format(full_check=True)
            matrix = data.tocsr()
            if not matrix.has_canonical_format:
                matrix = matrix.copy()
                matrix.sum_duplicates()
        except (ValueError, AttributeError, IndexError) as error:
            raise DataError(
                f"{name} is no sound sparse matrix ({type(data).__name__}: {error}); rebuild it, for example from "
                "(values, (rows, columns))"
            ) from None
        if not isinstance(matrix.data, np.ndarray):
            raise DataError(
                f"{name} is a sparse matrix that is not in host memory ({type(data).__module__}.{type(data).__name__});"
                " pass its copy there, .get()"
            )
        self.matrix = matrix
        self.n_rows, self.n_features = (int(size) for size in matrix.shape)
        self.indptr: NDArray[np.int64] = matrix.indptr.astype(np.int64)
        self.indices: NDArray[Any] = np.ascontiguousarray(matrix.indices)
        self.values: NDArray[Any] = np.ascontiguousarray(matrix.data)
        self._entries: dict[int, NDArray[np.int64]] = {}

    @classmethod
    def from_parts(
        cls, indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[Any], n_features: int
    ) -> SparseTable:
        """Make a table for coding alone: it has no `matrix`. Arguments as in the attributes."""
        table = cls.__new__(cls)
        table.matrix = None
        table.n_rows, table.n_features = len(indptr) - 1, n_features
        table.indptr, table.indices, table.values = indptr, indices, values
        table._entries = {}
        return table

    def with_codes(self, codes: SparseCodes | None) -> SparseTable:
        """Return the same table, with categorical columns that are read as codes."""
        table = copy.copy(self)
        table.codes = codes
        return table

    def list_entries(self, columns: Iterable[int]) -> dict[int, NDArray[np.int64]]:
        """Return the places of some columns' entries in `values`, each int64 (n,), ascending: one pass for all."""
        wanted = np.zeros(self.n_features, np.bool_)
        wanted[[column for column in columns if column not in self._entries]] = True
        if wanted.any():
            places = np.flatnonzero(wanted[self.indices])
            owner = self.indices[places]
            places = places[np.argsort(owner, kind="stable")]
            ends = np.cumsum(np.bincount(owner, minlength=self.n_features))
            for column in np.flatnonzero(wanted).tolist():
                self._entries[column] = places[ends[column - 1] if column > 0 else 0 : ends[column]]
        return {column: self._entries[column] for column in columns}

    def coded(self, column: int, name: str, others: Others = "refused") -> SparseColumn:
        """Return a column as places in its distinct values: integers or booleans; as `code_numbers` does."""
        places = self.list_entries([column])[column]
        found = code_numbers(np.append(self.values[places], self.values.dtype.type(0)), name, others)
        return SparseColumn(found.values, found.codes, self._rows(places), self.n_rows, is_cut=found.is_cut)

    def _rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of entries."""
        return np.searchsorted(self.indptr, places, side="right") - 1

    def part(self, first: int, last: int, dtype: np.dtype[Any]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return columns and values of the rows first to last in the types that kernels are compiled for."""
        begin, end = self.indptr[first], self.indptr[last]
        columns = np.require(self.indices[begin:end], np.int32, ["C", "A", "W"])
        if self.codes is None:
            return columns, np.require(self.values[begin:end], dtype, ["C", "A", "W"])
        values = self.values[begin:end].astype(dtype)
        some = self.codes.between(begin, end)
        values[self.codes.places[some] - begin] = self.codes.values[some]
        return columns, values

    def coded_column(self, column: int) -> NDArray[np.float64]:
        """Return what a column is read as that has codes, float64 (n_rows,)."""
        assert self.codes is not None
        if column in self.codes.whole:
            return self.codes.whole[column]
        values = np.full(self.n_rows, self.codes.absent[column])
        places = self.list_entries([column])[column]
        values[self._rows(places)] = self.codes.values[np.searchsorted(self.codes.places, places)]
        return values

    def fill(self, start: int, stop: int, out: NDArray[Any], position: NDArray[np.int64] | None = None) -> None:
        """Write rows start to stop, zeros included; categorical columns as they are, see `write_codes`.

        out        float32 or float64 (stop - start, n_columns)   out
        position   int64 (n_features,)                            in    column of `out`, -1: left out; None: as they are
        """
        out[...] = 0.0
        first, last = self.indptr[start], self.indptr[stop]
        rows = np.repeat(np.arange(stop - start), np.diff(self.indptr[start : stop + 1]))
        columns, values = self.indices[first:last], self.values[first:last]
        if position is not None:
            columns = position[columns]
            kept = columns >= 0
            rows, columns, values = rows[kept], columns[kept], values[kept]
        out[rows, columns] = values

    def write_codes(self, start: int, stop: int, out: NDArray[Any], position: NDArray[np.int64] | None = None) -> None:
        """Write the categorical columns of rows that are filled in; arguments as in `fill`."""
        codes = self.codes
        if codes is None:
            return
        to = np.arange(self.n_features) if position is None else position
        for column, absent in codes.absent.items():
            if to[column] >= 0:
                out[:, to[column]] = absent
        for column, values in codes.whole.items():
            if to[column] >= 0:
                out[:, to[column]] = values[start:stop]
        some = codes.between(self.indptr[start], self.indptr[stop])
        places, values = codes.places[some], codes.values[some]
        columns = to[self.indices[places]]
        kept = columns >= 0
        out[self._rows(places[kept]) - start, columns[kept]] = values[kept]

    def by_column(self, rows: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the values of some rows (None: of all) column by column: first value of each column, and the values.

        starts  int64 (n_features + 1,)
        """
        chosen = (self.matrix if rows is None else self.matrix[rows]).tocsc()
        return chosen.indptr.astype(np.int64), chosen.data

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows, as a matrix of the kind that was given."""
        return self.matrix[rows]


def sparse_frame(data: Any, name: str) -> tuple[Any, list[str]] | None:
    """Return matrix and column names of a pandas frame of sparse columns; None for anything else."""
    if not _sparse_columns(data):
        return None
    return data.sparse.to_coo(), [str(column) for column in data.columns]


def as_dense(data: Any) -> Any | None:
    """Return a pandas frame without sparse columns if only some of its columns are sparse, or not for zeros' sake.

    None: it is no such frame.
    """
    sparse = _sparse_columns(data)
    if len(sparse) == len(data.columns if sparse else ()) and all(data.dtypes.iloc[i].fill_value == 0 for i in sparse):
        return None
    kinds = [dtype.subtype if place in sparse else dtype for place, dtype in enumerate(data.dtypes)]
    dense = [data.iloc[:, place].astype(kind) for place, kind in enumerate(kinds)]
    return sys.modules["pandas"].concat(dense, axis=1)


def _sparse_columns(data: Any) -> set[int]:
    """Return the positions of the sparse columns of a pandas frame; none for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(data, pandas.DataFrame):
        return set()
    return {place for place, dtype in enumerate(data.dtypes) if isinstance(dtype, pandas.SparseDtype)}
