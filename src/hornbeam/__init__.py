"""Hornbeam: gradient boosted decision trees, the same model on every device.

>>> import hornbeam as hb
>>> train = hb.Dataset(X, label=y)                                       # doctest: +SKIP
>>> booster = hb.train({"objective": "binary"}, train, 100)              # doctest: +SKIP
>>> booster.predict(X)                                                   # doctest: +SKIP

Importing touches no device and compiles nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hornbeam.backends.devices import devices
from hornbeam.core.device_info import DeviceInfo
from hornbeam.core.errors import (
    CollectiveError,
    ConversionError,
    DataError,
    DeviceError,
    HornbeamError,
    ModelFormatError,
    ParameterError,
)
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster, load
from hornbeam.model.cv_booster import CVBooster
from hornbeam.model.merging import merge
from hornbeam.model.rooms import room
from hornbeam.objectives.device_functions import on_device
from hornbeam.params.params import Params
from hornbeam.params.peer_arguments import MODULE_ATTRIBUTES
from hornbeam.training.callbacks import (
    EarlyStopException,
    early_stopping,
    log_evaluation,
    record_evaluation,
    reset_parameter,
)
from hornbeam.training.cross_validation import cv
from hornbeam.training.progress import progress
from hornbeam.training.train import train
from hornbeam.trees.tree import Tree

if TYPE_CHECKING:
    from hornbeam.backends.cpu.host.warming import warmup
    from hornbeam.plotting import (
        create_tree_digraph,
        create_tree_svg,
        plot_beeswarm,
        plot_calibration,
        plot_confusion,
        plot_importance,
        plot_metric,
        plot_partial_dependence,
        plot_precision_recall,
        plot_residuals,
        plot_roc,
        plot_split_value_histogram,
        plot_tree,
        plot_waterfall,
    )
    from hornbeam.sklearn import HornbeamClassifier, HornbeamRanker, HornbeamRegressor

__version__ = "0.2.0"

__all__ = [
    "Booster",
    "CVBooster",
    "CollectiveError",
    "ConversionError",
    "DataError",
    "Dataset",
    "DeviceError",
    "DeviceInfo",
    "EarlyStopException",
    "HornbeamClassifier",
    "HornbeamError",
    "HornbeamRanker",
    "HornbeamRegressor",
    "ModelFormatError",
    "ParameterError",
    "Params",
    "Tree",
    "__version__",
    "create_tree_digraph",
    "create_tree_svg",
    "cv",
    "devices",
    "early_stopping",
    "load",
    "log_evaluation",
    "merge",
    "on_device",
    "plot_beeswarm",
    "plot_calibration",
    "plot_confusion",
    "plot_importance",
    "plot_metric",
    "plot_partial_dependence",
    "plot_precision_recall",
    "plot_residuals",
    "plot_roc",
    "plot_split_value_histogram",
    "plot_tree",
    "plot_waterfall",
    "progress",
    "record_evaluation",
    "reset_parameter",
    "train",
    "warmup",
]


def __getattr__(name: str) -> Any:
    """Import when it is first asked for what is optional or slow to import: estimators, plots, what compiles."""
    if name == "warmup":
        from hornbeam.backends.cpu.host.warming import warmup

        return warmup
    if name in ("HornbeamClassifier", "HornbeamRanker", "HornbeamRegressor"):
        try:
            from hornbeam import sklearn as estimators
        except ImportError as error:
            raise ImportError(f"{name} needs scikit-learn: pip install 'hornbeam[sklearn]' ({error})") from error
        return getattr(estimators, name)
    if name in __all__:
        return getattr(room("plotting"), name)
    hint = f"; use {MODULE_ATTRIBUTES[name]}" if name in MODULE_ATTRIBUTES else ""
    raise AttributeError(f"module 'hornbeam' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
