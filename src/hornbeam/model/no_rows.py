"""Predictions for a table without rows: no numbers, in the shape that those of other tables have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hornbeam.data.device_arrays import device_of
from hornbeam.data.sources.arrow import is_arrow_table

P = ParamSpec("P")
R = TypeVar("R")


def takes_no_rows(function: Callable[P, R]) -> Callable[P, R]:
    """Make `predict` take a table in host memory that has columns and no rows: what a filter may leave.

    The columns must be those of the model, as for any table.
    """

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        booster, *places = arguments
        data: Any = places.pop(0) if places else keywords.get("data")
        shape: Any = getattr(data, "shape", ())
        is_bare = len(shape) == 2 and isinstance(shape[0], int) and shape[0] == 0 < shape[1]  # Dask does not know rows
        if not is_bare or device_of(data, "data") is not None:
            return function(*arguments, **keywords)
        validate = bool(keywords.get("validate_features", True))
        others = {name: value for name, value in keywords.items() if name not in ("data", "base_margin")}
        result: Any = function(booster, _one_row(booster, data, validate), *places, **others)  # type: ignore[arg-type]
        return [one[:0] for one in result] if isinstance(result, list) else result[:0]  # type: ignore[return-value]

    return call


def _one_row(booster: Any, data: Any, validate: bool) -> Any:
    """Return a row of missing values, of the same kind where it is sparse; DataError unless columns are the model's."""
    names = data.column_names if is_arrow_table(data) else getattr(data, "columns", None)
    named = None if names is None else [str(name) for name in names]
    booster.check_columns(data.shape[1], named, "data", validate)
    row = np.full((1, booster.n_features), np.nan)
    return type(data)(row) if hasattr(data, "toarray") else row
