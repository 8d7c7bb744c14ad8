"""Predictions of Dask collections: lazy, partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.distributed.dask.packages import require_dask
from hornbeam.model.booster import Booster

PredictPart = Callable[[Any], NDArray[Any]]
"""Table -> an array with an entry a row."""


def predict(client: Any, model: Booster, data: Any, **options: Any) -> Any:
    """Predict the rows of a Dask array or dataframe.

    Parameters
    ----------
    client
        `distributed.Client` of the cluster, which gets one copy of the model a worker; None: the model is part of the
        graph.
    model
        Booster.
    data
        Dask array or dataframe of features.
    options
        Keywords of `Booster.predict`: `raw_score`, `num_iteration`, `pred_leaf`, `pred_contrib`, ...

    Returns
    -------
    dask.array.Array
        With the partitions of `data`: (n_rows,), or (n_rows, k). Nothing is computed yet.
    """
    return predict_parts(client, ModelPart(model, options), model.n_features, data)


class ModelPart:
    """Predicts the rows of one partition by a model."""

    def __init__(self, model: Booster, options: dict[str, Any]) -> None:
        self.model, self.options = model, options

    def __call__(self, part: Any) -> NDArray[Any]:
        """Return the predictions of a table."""
        return np.asarray(self.model.predict(part, **self.options))


def predict_parts(client: Any, function: PredictPart, n_features: int, data: Any) -> Any:
    """Return a lazy array of what a function says of the rows of each partition."""
    require_dask()
    from dask import delayed
    from dask.array import concatenate, from_delayed

    if not hasattr(data, "to_delayed"):
        raise DataError(f"data is a {type(data).__name__}; pass a Dask array or dataframe, or use Booster.predict")
    n_columns = data.shape[1] if data.ndim == 2 else None
    if n_columns != n_features:
        raise DataError(f"data has shape {data.shape}, and the model {n_features} features; pass as many columns")
    one = function(_row_like(data))  # kind and shape of the results
    shared = delayed(function if client is None else client.scatter(function, broadcast=True, hash=False))
    if hasattr(data, "rechunk"):
        data = data.rechunk({1: -1})
        shape = {"drop_axis": 1} if one.ndim == 1 else {"new_axis": list(range(2, one.ndim))}
        chunks = (data.chunks[0], *((size,) for size in one.shape[1:]))
        return data.map_blocks(
            of_part, function=shared, nothing=one[:0], chunks=chunks, dtype=one.dtype, meta=one[:0], **shape
        )  # fmt: skip
    parts = [delayed(of_part)(part, shared, one[:0]) for part in data.to_delayed()]
    return concatenate([from_delayed(part, (np.nan, *one.shape[1:]), one.dtype) for part in parts])


def _row_like(data: Any) -> Any:
    """Return a row of the types that a Dask array or dataframe has."""
    if hasattr(data, "rechunk"):
        return np.zeros((1, data.shape[1]))
    from dask.dataframe.utils import meta_nonempty

    return meta_nonempty(data._meta).iloc[:1]


def of_part(part: Any, function: PredictPart, nothing: NDArray[Any]) -> NDArray[Any]:
    """Return the results of one partition, which may be empty."""
    return nothing if part.shape[0] == 0 else function(part)
