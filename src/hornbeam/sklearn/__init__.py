"""Estimators for scikit-learn: `HornbeamClassifier`, `HornbeamRegressor` and `HornbeamRanker`."""

from __future__ import annotations

from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor
from hornbeam.sklearn.ranker import HornbeamRanker

__all__ = ["HornbeamClassifier", "HornbeamModel", "HornbeamRanker", "HornbeamRegressor"]
