"""Estimators for scikit-learn: `HornbeamClassifier`, `HornbeamRegressor`, `HornbeamRanker`, and by names of peers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor
from hornbeam.sklearn.lightgbm_estimators import LGBMClassifier, LGBMRanker, LGBMRegressor
from hornbeam.sklearn.ranker import HornbeamRanker
from hornbeam.sklearn.xgboost_estimators import (
    XGBClassifier,
    XGBoostModel,
    XGBRanker,
    XGBRegressor,
    XGBRFClassifier,
    XGBRFRegressor,
)

if TYPE_CHECKING:
    from hornbeam.sklearn.histogram_estimators import HistGradientBoostingClassifier, HistGradientBoostingRegressor

__all__ = [
    "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor",
    "HornbeamClassifier",
    "HornbeamModel",
    "HornbeamRanker",
    "HornbeamRegressor",
    "LGBMClassifier",
    "LGBMModel",
    "LGBMRanker",
    "LGBMRegressor",
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
]

LGBMModel, XGBModel = HornbeamModel, XGBoostModel
"""What LightGBM and XGBoost call the class of all of their estimators."""


def __getattr__(name: str) -> Any:
    """Import the estimators of scikit-learn's names, and with them its own, when one is asked for."""
    if name in ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"):
        return getattr(import_module("hornbeam.sklearn.histogram_estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
