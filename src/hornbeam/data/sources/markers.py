"""Numbers that mark missing values, as XGBoost's users name them (`missing=-999`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.data.sources.frame import as_frame


def without_marker(table: Any, marker: float | None) -> Any:
    """Return a copy of a table with NaN in the place of a number; the table itself where that is NaN or None.

    Of a frame the columns of numbers are looked at, of a sparse table the values that it stores.
    """
    if marker is None or np.isnan(marker):
        return table
    array = None
    if isinstance(table, (list, tuple, np.ndarray)):
        with suppress(ValueError):  # a list of several tables
            array = np.asarray(table)
    if array is not None and array.dtype.kind in "fiu":
        return np.where(array == marker, np.nan, array)
    frame = as_frame(table)
    if frame is not None:
        import narwhals

        numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
        return frame.with_columns(
            *(narwhals.when(narwhals.col(name) != marker).then(narwhals.col(name)) for name in numbers)
        ).to_native()
    if hasattr(table, "tocsr") and marker == 0:
        raise DataError("missing=0 of a sparse table: set zero_as_missing=True, what it does not store is zero too")
    if hasattr(table, "tocsr"):
        sparse = table.tocsr().astype(np.float64)  # a copy, also where these are its types
        sparse.data[sparse.data == marker] = np.nan
        return sparse
    raise DataError(f"missing={marker}: replace the marker by NaN in a {type(table).__name__} yourself")
