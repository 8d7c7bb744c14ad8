"""Targets of several columns: several numbers a row, or labels of which any number may hold in a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from hornbeam.core.errors import DataError
from hornbeam.data.device_arrays import host_array


def has_columns(y: Any) -> bool:
    """Say whether a target has two columns or more."""
    if isinstance(y, (list, tuple)):
        return bool(y) and all(isinstance(row, (list, tuple, np.ndarray)) and len(row) > 1 for row in y)
    shape: tuple[int, ...] = getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] > 1


def read_columns(y: Any) -> NDArray[Any]:
    """Return a target of several columns in host memory, finite numbers (n_rows, n_columns)."""
    array: NDArray[Any] = check_array(host_array(y, "y"), dtype="numeric", input_name="y")
    return array


def check_indicators(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return what says which labels hold in each row, 0 and 1, as float64; DataError for anything else."""
    wrong = (y != 0) & (y != 1)
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise DataError(
            f"y[{row}, {column}] is {y[row, column]}; a target of several columns says by 0 and 1 which labels hold: "
            "one column of classes goes as (n_rows,), and each of several columns of classes to a classifier of its own"
        )
    return np.asarray(y, np.float64)


def labels_that_hold(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the labels that are more likely than not, 0 and 1, int64 (n_rows, n_labels)."""
    return (probabilities > 0.5).astype(np.int64)
