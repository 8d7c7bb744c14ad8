"""A Series of pandas or polars where a model expects a table: a column of a model of one feature, else a row.

LightGBM's `predict` takes one for a row, XGBoost's `inplace_predict` and `DMatrix` take it for a column. What one of
them can predict at all is predicted here as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.core.errors import DataError


def is_series(data: Any) -> bool:
    """Say whether data are a Series of pandas or polars."""
    kind = type(data)
    return kind.__name__ == "Series" and hasattr(kind, "to_frame")


def as_column(series: Any, name: str | None = None) -> Any:
    """Return a Series as a table of one column, called `name` where the Series has no name."""
    return series.to_frame(name) if name is not None and series.name in (None, "") else series.to_frame()


def as_table(series: Any, feature_names: Sequence[str], what: str) -> Any:
    """Return a Series as a table that a model of these features can predict for; DataError, which calls it `what`."""
    if len(feature_names) == 1:
        return as_column(series, feature_names[0])
    if len(series) != len(feature_names):
        raise DataError(
            f"{what} is a Series of {len(series)} values, and the model has {len(feature_names)} features; pass a "
            "table: df.iloc[[0]] for one row of df, df[names] for some of its columns"
        )
    if not hasattr(series, "index"):  # polars
        return series.to_frame().transpose(column_names=list(feature_names))
    frame = series.to_frame().T.infer_objects()
    if type(series.index).__name__ == "RangeIndex":  # values without names
        frame.columns = list(feature_names)
    return frame
