"""Predictions of data beyond memory: batch by batch, as a Stream reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.data.fields import Fields
from hornbeam.data.streams.stream import Stream

P = ParamSpec("P")
R = TypeVar("R")


def takes_streams(function: Callable[P, R]) -> Callable[P, R]:
    """Make `predict` take a Stream, or a Dataset of one; the predictions of all rows are in memory."""

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        booster, *places = arguments
        data = places.pop(0) if places else keywords.pop("data", None)
        stream = data.data if isinstance(data, Fields) else data
        if not isinstance(stream, Stream):
            return function(booster, data, *places, **keywords)  # type: ignore[arg-type]
        adds_margins = getattr(data, "is_xgboosts", False) and keywords.get("base_margin") is None
        names = stream.column_names()
        roles = set(stream.columns.values())
        parts: list[Any] = []
        for table, fields in stream.batches(None if names is None else [name for name in names if name not in roles]):
            own = {"base_margin": fields["init_score"]} if adds_margins and "init_score" in fields else {}
            parts.append(function(booster, table, *places, **{**keywords, **own}))  # type: ignore[arg-type]
        if not parts:
            raise DataError("the Stream has no rows")
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts)  # type: ignore[return-value]
        raise DataError("predictions of a Stream that are no arrays: predict batch by batch")

    return call
