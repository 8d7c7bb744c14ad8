"""Estimators for scikit-learn: `HornbeamClassifier`, `HornbeamRegressor`, `HornbeamRanker`, and by names of peers."""

from __future__ import annotations

from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor
from hornbeam.sklearn.histogram_estimators import HistGradientBoostingClassifier, HistGradientBoostingRegressor
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
