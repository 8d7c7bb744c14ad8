"""Hornbeam on a Dask cluster: the model of one machine, bit for bit, whatever the partitions and the workers.

import hornbeam.dask as hbd

train_set = hbd.Dataset(client, X, label=y)
booster = hbd.train(client, {"objective": "binary"}, train_set)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hornbeam.distributed.dask.dataset import DaskDataset as Dataset
from hornbeam.distributed.dask.training import train as train_on_dask
from hornbeam.distributed.dask.xgboost import DaskDMatrix, DaskQuantileDMatrix, takes_dmatrices
from hornbeam.distributed.dask.xgboost import predict_dmatrix as predict
from hornbeam.model.booster import Booster

if TYPE_CHECKING:
    from hornbeam.distributed.dask.estimators import (
        DaskHornbeamClassifier,
        DaskHornbeamRanker,
        DaskHornbeamRegressor,
        DaskXGBClassifier,
        DaskXGBRanker,
        DaskXGBRegressor,
        DaskXGBRFClassifier,
        DaskXGBRFRegressor,
    )

__all__ = [
    "Booster",
    "DaskDMatrix",
    "DaskHornbeamClassifier",
    "DaskHornbeamRanker",
    "DaskHornbeamRegressor",
    "DaskQuantileDMatrix",
    "DaskXGBClassifier",
    "DaskXGBRFClassifier",
    "DaskXGBRFRegressor",
    "DaskXGBRanker",
    "DaskXGBRegressor",
    "Dataset",
    "inplace_predict",
    "predict",
    "train",
]

train = takes_dmatrices(train_on_dask)

inplace_predict = predict
"""XGBoost's name."""

_NAMES = {f"DaskLGBM{kind}": f"DaskHornbeam{kind}" for kind in ("Classifier", "Ranker", "Regressor")}
"""What LightGBM calls the estimators."""


def __getattr__(name: str) -> Any:
    """Import the estimators, and with them scikit-learn, when one is asked for."""
    name = _NAMES.get(name, name)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("hornbeam.distributed.dask.estimators"), name)
