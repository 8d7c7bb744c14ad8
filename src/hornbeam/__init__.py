"""Hornbeam: gradient boosted decision trees, the same model on every device.

>>> import hornbeam as hb
>>> train = hb.Dataset(X, label=y)                                       # doctest: +SKIP
>>> booster = hb.train({"objective": "binary"}, train, 100)              # doctest: +SKIP
>>> booster.predict(X)                                                   # doctest: +SKIP

Importing touches no device and compiles nothing; a name brings in its module when it is first asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hornbeam import core, training  # empty packages: what is in them is imported when it is asked for

if TYPE_CHECKING:
    from hornbeam.backends.cpu.host.warming import warmup
    from hornbeam.backends.devices import build_info, devices
    from hornbeam.core.config import config_context, get_config, set_config
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
    from hornbeam.core.log import register_logger
    from hornbeam.data.sources.sequences import Sequence
    from hornbeam.data.streams.stream import Stream
    from hornbeam.dataset.dataset import Dataset
    from hornbeam.dataset.dmatrix import DataIter, DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix
    from hornbeam.model.booster import Booster, load
    from hornbeam.model.cv_booster import CVBooster
    from hornbeam.model.merging import merge
    from hornbeam.objectives.device_functions import on_device
    from hornbeam.params.params import Params
    from hornbeam.sklearn import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
    from hornbeam.training import peer_callbacks as callback
    from hornbeam.training.callbacks import (
        EarlyStopException,
        early_stopping,
        log_evaluation,
        record_evaluation,
        reset_parameter,
    )
    from hornbeam.training.cross_validation import cv
    from hornbeam.training.progress import progress
    from hornbeam.training.training import train
    from hornbeam.trees.tree import Tree
    from hornbeam.views.plots import (
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
        to_graphviz,
    )

__version__ = "0.2.0"

__all__ = [
    "Booster",
    "CVBooster",
    "CollectiveError",
    "ConversionError",
    "DMatrix",
    "DataError",
    "DataIter",
    "Dataset",
    "DeviceError",
    "DeviceInfo",
    "EarlyStopException",
    "ExtMemQuantileDMatrix",
    "HornbeamClassifier",
    "HornbeamError",
    "HornbeamRanker",
    "HornbeamRegressor",
    "ModelFormatError",
    "ParameterError",
    "Params",
    "QuantileDMatrix",
    "Sequence",
    "Stream",
    "Tree",
    "__version__",
    "build_info",
    "callback",
    "config_context",
    "create_tree_digraph",
    "create_tree_svg",
    "cv",
    "devices",
    "early_stopping",
    "get_config",
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
    "register_logger",
    "reset_parameter",
    "set_config",
    "to_graphviz",
    "train",
    "warmup",
]


_NAMES = {
    "backends.cpu.host.warming": ("warmup",),
    "backends.devices": ("build_info", "devices"),
    "core.config": ("config_context", "get_config", "set_config"),
    "core.device_info": ("DeviceInfo",),
    "core.errors": (
        "CollectiveError", "ConversionError", "DataError", "DeviceError", "HornbeamError", "ModelFormatError",
        "ParameterError",
    ),
    "core.log": ("register_logger",),
    "data.sources.sequences": ("Sequence",),
    "data.streams.stream": ("Stream",),
    "dataset.dataset": ("Dataset",),
    "dataset.dmatrix": ("DMatrix", "DataIter", "ExtMemQuantileDMatrix", "QuantileDMatrix"),
    "model.booster": ("Booster", "load"),
    "model.cv_booster": ("CVBooster",),
    "model.merging": ("merge",),
    "objectives.device_functions": ("on_device",),
    "params.params": ("Params",),
    "sklearn": ("HornbeamClassifier", "HornbeamRanker", "HornbeamRegressor"),
    "training.callbacks": (
        "EarlyStopException", "early_stopping", "log_evaluation", "record_evaluation", "reset_parameter",
    ),
    "training.cross_validation": ("cv",),
    "training.progress": ("progress",),
    "training.training": ("train",),
    "trees.tree": ("Tree",),
    "views.plots": (
        "create_tree_digraph", "create_tree_svg", "plot_beeswarm", "plot_calibration", "plot_confusion",
        "plot_importance", "plot_metric", "plot_partial_dependence", "plot_precision_recall", "plot_residuals",
        "plot_roc", "plot_split_value_histogram", "plot_tree", "plot_waterfall", "to_graphviz",
    ),
}  # fmt: skip
"""Public names by the module that has them: the imports above, for when the program runs."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

_PEERS = {f"{peer}{kind}" for peer in ("LGBM", "XGB") for kind in ("Classifier", "Ranker", "Regressor")}
_PEERS |= {"LGBMModel", "XGBModel", "XGBRFClassifier", "XGBRFRegressor"}
_PEERS |= {"HistGradientBoostingClassifier", "HistGradientBoostingRegressor"}
"""What LightGBM, XGBoost and scikit-learn call the estimators, so that their scripts run unchanged."""

_PEERS_CLASSES = {
    "EvalResult": "training.evaluations", "LightGBMError": "core.errors", "XGBoostError": "core.errors",
}  # fmt: skip
"""Other classes of the peers, by the module that has them."""

_PEERS_ON_DASK = {f"DaskLGBM{kind}" for kind in ("Classifier", "Ranker", "Regressor")}
"""LightGBM's names of those of `hornbeam.dask`, which it has here."""

_MODULES = ("basic", "compat", "config", "engine", "plotting")
"""Modules of the peers, from which their scripts import: they have every name that is here."""

_RENAMED = {"callback": "training.peer_callbacks"}
"""Such modules that have the names of a module of ours."""

_LENT = {
    "core": ("Booster", "DMatrix", "DataIter", "ExtMemQuantileDMatrix", "QuantileDMatrix", "XGBoostError"),
    "training": ("cv", "train"),
}
"""XGBoost's modules that are packages here, and the public names that its scripts import from them."""


class _PeerModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name.endswith("_INSTALLED"):  # what LightGBM's scripts ask its `compat`
            return find_spec(name.removesuffix("_INSTALLED").lower()) is not None
        if name == "LGBMNotFittedError":
            return import_module("sklearn.exceptions").NotFittedError
        return getattr(sys.modules[__name__], name)


class _RenamedModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_RENAMED[self.__name__.rpartition('.')[2]]}"), name)

    def __dir__(self) -> list[str]:
        return list(self.__all__)


class _LendingPackage(ModuleType):
    """A package of ours that lends public names: it does not know them, which stand above it."""

    def __getattr__(self, name: str) -> Any:
        if name not in _LENT[self.__name__.rpartition(".")[2]]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(sys.modules[__name__], name)


sys.modules.update((f"{__name__}.{name}", _PeerModule(f"{__name__}.{name}")) for name in _MODULES)
sys.modules.update((f"{__name__}.{name}", _RenamedModule(f"{__name__}.{name}")) for name in _RENAMED)
core.__class__ = training.__class__ = _LendingPackage


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, or find what other libraries call it."""
    if name in _PEERS_CLASSES:
        return getattr(import_module(f"hornbeam.{_PEERS_CLASSES[name]}"), name)
    if name in _MODULES or name in _RENAMED:
        return sys.modules[f"{__name__}.{name}"]
    if name in _PEERS_ON_DASK:
        return getattr(import_module("hornbeam.dask"), name)
    if name not in _HOMES and name not in _PEERS:
        from hornbeam.params.peer_arguments import MODULE_ATTRIBUTES

        hint = f"; use {MODULE_ATTRIBUTES[name]}" if name in MODULE_ATTRIBUTES else ""
        raise AttributeError(f"module 'hornbeam' has no attribute {name!r}{hint}")
    home = _HOMES.get(name, "sklearn")
    try:
        module = import_module(f"hornbeam.{home}")
    except ImportError as error:
        if home != "sklearn":
            raise
        raise ImportError(f"{name} needs scikit-learn: pip install 'hornbeam[sklearn]' ({error})") from error
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
