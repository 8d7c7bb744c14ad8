"""Estimators for scikit-learn: `HornbeamClassifier`, `HornbeamRegressor`, `HornbeamRanker`, and by names of peers."""

from __future__ import annotations

from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor
from hornbeam.sklearn.ranker import HornbeamRanker
from hornbeam.sklearn.xgboost_estimators import (
    XGBClassifier,
    XGBRanker,
    XGBRegressor,
    XGBRFClassifier,
    XGBRFRegressor,
)

__all__ = [
    "HornbeamClassifier",
    "HornbeamModel",
    "HornbeamRanker",
    "HornbeamRegressor",
    "LGBMClassifier",
    "LGBMRanker",
    "LGBMRegressor",
    "XGBClassifier",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
]

LGBMClassifier, LGBMRegressor, LGBMRanker = HornbeamClassifier, HornbeamRegressor, HornbeamRanker
"""LightGBM's names, whose defaults are Hornbeam's."""
