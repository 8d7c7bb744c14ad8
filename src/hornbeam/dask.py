"""Hornbeam on a Dask cluster: the model of one machine, bit for bit, whatever the partitions and the workers.

import hornbeam.dask as hbd

train_set = hbd.Dataset(client, X, label=y)
booster = hbd.train(client, {"objective": "binary"}, train_set)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hornbeam.distributed.dask.dataset import DaskDataset as Dataset
from hornbeam.distributed.dask.prediction import predict
from hornbeam.distributed.dask.training import train

if TYPE_CHECKING:
    from hornbeam.distributed.dask.estimators import DaskHornbeamClassifier, DaskHornbeamRanker, DaskHornbeamRegressor

__all__ = ["Dataset", "DaskHornbeamClassifier", "DaskHornbeamRanker", "DaskHornbeamRegressor", "predict", "train"]


_NAMES = {f"DaskLGBM{kind}": f"DaskHornbeam{kind}" for kind in ("Classifier", "Ranker", "Regressor")}
"""What LightGBM calls the estimators."""

_INSTEAD = {f"DaskXGB{kind}": f"DaskHornbeam{kind}" for kind in ("Classifier", "Ranker", "Regressor")}
_INSTEAD |= dict.fromkeys(("DaskDMatrix", "DaskQuantileDMatrix"), "Dataset")
"""What XGBoost has, with other defaults, and what to use instead."""


def __getattr__(name: str) -> Any:
    """Import the estimators, and with them scikit-learn, when one is asked for."""
    name = _NAMES.get(name, name)
    if name not in __all__:
        hint = f"; use {_INSTEAD[name]}, whose defaults are LightGBM's" if name in _INSTEAD else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return getattr(import_module("hornbeam.distributed.dask.estimators"), name)
