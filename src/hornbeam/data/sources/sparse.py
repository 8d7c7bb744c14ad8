"""Reader of sparse tables: SciPy's matrices and arrays, and pandas frames of sparse columns. Zeros are filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.levels import CodedColumn
from hornbeam.data.sources.reader import TableReader, write_codes
from hornbeam.data.sources.sparse_levels import SparseCodes
from hornbeam.data.sources.sparse_table import SparseTable, is_sparse, sparse_frame


class SparseReader(TableReader):
    """Reads a table that holds what is not zero (`sparse`); consumers that can, look at that and not at blocks."""

    sparse: SparseTable

    def __init__(self, table: SparseTable, name: str, names: list[str] | None) -> None:
        super().__init__((table.n_rows, table.n_features), table.values.dtype, name, names)
        self.sparse = table

    @classmethod
    def open(cls, data: Any, name: str) -> SparseReader | None:
        """Read a sparse matrix, array or frame."""
        table, names = sparse_frame(data, name) or (data, None)
        return cls(SparseTable(table, name), name, names) if is_sparse(table) else None

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        self.sparse.fill(start, stop, out)

    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        raise AssertionError("a sparse table is sampled by column: SparseTable.by_column")

    def _code_column(self, position: int) -> CodedColumn:
        return self.sparse.coded(position, self.column_name(position), self.others_in(position))

    def _take_codes(self, codes: dict[int, NDArray[Any]], fitted: dict[int, NDArray[np.float64]]) -> None:
        if not codes and not fitted:
            self.sparse = self.sparse.with_codes(None)
            return
        values = {position: np.empty(len(own)) for position, own in codes.items()}
        for position, own in codes.items():
            write_codes(own, values[position])
        self.sparse = self.sparse.with_codes(
            SparseCodes.of_columns(self.sparse.list_entries(codes), values, fitted)
        )  # fmt: skip

    def prepare_coding(self, positions: Sequence[int]) -> None:
        """Find the entries of all columns at once."""
        self.sparse.list_entries(positions)

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows, as a matrix of the kind that was given."""
        return self.sparse.take(rows)

    def _fill(self, start: int, stop: int, out: NDArray[Any]) -> None:
        super()._fill(start, stop, out)
        self.sparse.write_codes(start, stop, out)
