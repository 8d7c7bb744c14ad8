"""`HistGradientBoostingClassifier` and `Regressor`: the estimators by scikit-learn's names.

They are classes of their own, because names of classes are seen, as those of LightGBM's are. And they have ways of
scikit-learn's: where there are more than 10,000 rows, and nothing else is said, some are held out and end the training;
hessians of counts and classes are those of the loss, which LightGBM multiplies; partial dependence goes by the branches
of trees, which scikit-learn's functions ask only those for that are registered with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.explain.tree_dependence import tree_dependence
from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor

__all__ = ["HistGradientBoostingClassifier", "HistGradientBoostingRegressor"]

DEFAULTS: Mapping[str, Any] = MappingProxyType({"early_stopping": "auto"})
"""Parameters that have another default than those of our estimators."""


HESSIANS = {"poisson": ("poisson_max_delta_step", 1e-12), "multiclass": ("multiclass_hessian_factor", 1.0)}
"""The parameter of an objective that makes its hessians those of the loss: exp(1e-12) is 1 but for 12 digits."""


class _OfScikitLearn(HornbeamModel):
    """What scikit-learn does with a loss, and what it asks of trees."""

    def _with_objective(self, values: dict[str, Any]) -> dict[str, Any]:
        """Complete parameters as the target asks for, with scikit-learn's hessians."""
        made = super()._with_objective(values)
        if made["objective"] in HESSIANS:
            made.setdefault(*HESSIANS[made["objective"]])
        return made

    def _compute_partial_dependence_recursion(
        self, grid: NDArray[Any], target_features: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return what `sklearn.inspection.partial_dependence` asks for, (n_outputs, n_points): raw scores."""
        return tree_dependence(self.booster_, np.asarray(grid), np.asarray(target_features).tolist())


class HistGradientBoostingClassifier(_OfScikitLearn, HornbeamClassifier):
    """`HornbeamClassifier` by scikit-learn's name, with its early stopping and hessians."""

    _other_params = DEFAULTS


class HistGradientBoostingRegressor(_OfScikitLearn, HornbeamRegressor):
    """`HornbeamRegressor` by scikit-learn's name, with its early stopping and hessians."""

    _other_params = DEFAULTS


def _register() -> None:
    """Tell scikit-learn's functions that these classes are as its own are."""
    try:
        from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    except ImportError:  # where a version has it elsewhere, its functions take brute force
        return
    for kind in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
        BaseHistGradientBoosting.register(kind)


_register()
