"""`HistGradientBoostingClassifier` and `Regressor`: the estimators by scikit-learn's names.

They are classes of their own, because names of classes are seen, as those of LightGBM's are, and because scikit-learn
holds rows out and stops by them, early, where there are more than 10,000 and nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor

__all__ = ["HistGradientBoostingClassifier", "HistGradientBoostingRegressor"]

DEFAULTS: Mapping[str, Any] = MappingProxyType({"early_stopping": "auto"})
"""Parameters that have another default than those of our estimators."""


class HistGradientBoostingClassifier(HornbeamClassifier):
    """`HornbeamClassifier` by scikit-learn's name; it stops early as scikit-learn does."""

    _other_params = DEFAULTS


class HistGradientBoostingRegressor(HornbeamRegressor):
    """`HornbeamRegressor` by scikit-learn's name; it stops early as scikit-learn does."""

    _other_params = DEFAULTS
