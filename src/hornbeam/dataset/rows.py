"""Some rows of a data set: their numbers, and the queries that they make up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.queries import query_of_row


def row_numbers(rows: Any, n_rows: int, name: str = "folds") -> NDArray[np.intp]:
    """Return row numbers, given as numbers or as a mask."""
    array = np.asarray(rows)
    if array.dtype == bool and array.shape == (n_rows,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) == 0 or array.min() < 0 or array.max() >= n_rows:
        raise DataError(f"{name} must hold row numbers from 0 to {n_rows - 1}, at least one on each side")
    return array.astype(np.intp)


def whole_queries(boundaries: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the sizes of the queries that some rows make up, or raise DataError if they cut a query in two."""
    query = query_of_row(boundaries)[rows]
    starts = np.flatnonzero(np.append(True, query[1:] != query[:-1]))
    sizes = np.diff(np.append(starts, len(rows)))
    wrong = sizes != np.diff(boundaries)[query[starts]]
    if wrong.any():
        raise DataError(
            f"folds cut query {int(query[starts[int(np.argmax(wrong))]])} in two, or take its rows apart; rows of one "
            "query go to one side, in their order: use a splitter such as sklearn.model_selection.GroupKFold"
        )
    return sizes
