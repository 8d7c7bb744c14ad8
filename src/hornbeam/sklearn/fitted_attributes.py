"""What a fitted estimator tells of its model, by the names that scikit-learn's and LightGBM's users know."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from hornbeam.core.errors import ParameterError
from hornbeam.data.column_names import are_made_up
from hornbeam.model.booster import Booster, load
from hornbeam.params.params import BY_NAME
from hornbeam.sklearn.named_parameters import without_other_names
from hornbeam.training.xgboost_arguments import evaluation_of

CLASSIFYING = ("binary", "cross_entropy", "focal", "hinge", "multiclass", "multiclassova")
"""Objectives whose predictions are probabilities of classes, which may be 0 and 1."""


class FittedAttributes:
    """Attributes that end in an underscore; `fit` sets `booster_`, the others are read from it."""

    booster_: Booster
    importance_type: str | None
    _other_params: Mapping[str, Any]
    predict: Callable[..., Any]
    get_params: Callable[..., dict[str, Any]]

    @property
    def _fitted(self) -> Booster:
        check_is_fitted(self, "booster_")
        return self.booster_

    @property
    def _predicting(self) -> Booster:
        """The model as this estimator asks it for predictions."""
        return self._fitted

    @property
    def best_iteration_(self) -> int:
        """Number of iterations that early stopping found best; 0 if it did not run."""
        return self._fitted.n_best

    @property
    def best_score_(self) -> dict[str, dict[str, float]]:
        """best_score_[set][metric] at the best iteration, without early stopping at the last one."""
        scores: dict[str, dict[str, float]] = self._fitted.best_score
        return scores

    @property
    def evals_result_(self) -> dict[str, dict[str, list[float]]]:
        """evals_result_[set][metric]: one value an iteration."""
        return self._fitted.eval_history

    @property
    def n_iter_(self) -> int:
        """Number of iterations trained."""
        return self._fitted.n_iterations

    @property
    def n_estimators_(self) -> int:
        """Number of iterations that `predict` uses: the best one of early stopping, or all."""
        return self._fitted.n_best or self._fitted.n_iterations

    @property
    def feature_name_(self) -> list[str]:
        """Names of the features, made up where the data had none."""
        return self._fitted.feature_name()

    @property
    def n_features_(self) -> int:
        """Number of features."""
        return self._fitted.n_features

    @property
    def objective_(self) -> str | Callable[..., Any]:
        """Name of the objective, or the function that it is."""
        name, given = self._fitted.objective.name, vars(self).get("objective")
        return given if callable(given) and name == "custom" else name

    @property
    def feature_importances_(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """Number of splits, sum of gains or of covers (`importance_type`) of every feature; not normalised."""
        return self._fitted.feature_importance(self.importance_type or "split")

    @property
    def fitted_(self) -> bool:
        """Whether `fit` has been called, as LightGBM's estimators tell."""
        return hasattr(self, "booster_")

    @property
    def n_trees_per_iteration_(self) -> int:
        """Trees of an iteration, as scikit-learn's estimators tell."""
        return self._fitted.trees_per_iteration

    @property
    def is_categorical_(self) -> NDArray[np.bool_] | None:
        """Which features are categorical, bool (n_features,); None: none is."""
        levels = self._fitted.levels
        return None if levels is None else np.array([one is not None for one in levels])

    def apply(self, X: Any, iteration_range: tuple[int, int] | None = None) -> NDArray[np.int32]:
        """Return the leaf of every row in every tree, int32 (n_rows, n_trees), as XGBoost's estimators do."""
        return self.predict(X, pred_leaf=True, iteration_range=iteration_range)  # type: ignore[no-any-return]

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the parameters that `train` takes, of those that `get_params` returns."""
        given = {name: value for name, value in self.get_params().items() if name in BY_NAME and value is not None}
        others = {name: value for name, value in given.items() if name in self._other_params}
        return {**without_other_names(given, others), **others}

    def get_booster(self) -> Booster:
        """Return the trained model, as XGBoost's estimators do."""
        return self._fitted

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Return the evaluations by XGBoost's names of sets and metrics: `["validation_0"]["logloss"]`; l2 is rmse."""
        made = {}
        for place, (name, metrics) in enumerate(self._fitted.eval_history.items()):
            of_set = f"validation_{place}" if name in (f"valid_{place}", "training") else name
            made[of_set] = {
                evaluation_of(metric, 0.0)[0]: [evaluation_of(metric, value)[1] for value in values]
                for metric, values in metrics.items()
            }
        return made

    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Write the model to a file, as XGBoost's estimators do; `load_model` reads it.

        The file has no names of classes: those of a classifier must be 0, 1, ...
        """
        classes = getattr(self, "classes_", None)
        if classes is not None and classes.tolist() != list(range(len(classes))):
            raise ParameterError(
                f"save_model: classes are {classes[:5].tolist()}, and a model file numbers them 0, 1, ...; pickle the "
                "estimator, or number the classes"
            )
        self._fitted.save_model(fname)

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Become the fitted estimator of a model file, or its bytes, of any format that is read; classes 0, 1, ..."""
        booster = load(fname)
        if is_classifier(self):
            if booster.objective.name not in CLASSIFYING:
                raise ParameterError(
                    f"load_model: {booster.objective.name!r} is no objective of a classifier; use HornbeamRegressor"
                )
            self.n_classes_ = max(booster.n_outputs, 2)
            self.classes_: NDArray[np.int64] = np.arange(self.n_classes_)
        booster.stops_at_best = True
        self.booster_, self.n_features_in_ = booster, booster.n_features
        if not are_made_up(booster.feature_names):
            names = booster.column_names or booster.feature_names
            self.feature_names_in_: NDArray[np.object_] = np.array(names, object)

    def get_num_boosting_rounds(self) -> int:
        """Return the number of iterations trained."""
        return self._fitted.n_iterations

    @property
    def best_iteration(self) -> int:
        """Number of the best iteration as XGBoost counts, from 0: one less than `best_iteration_`."""
        if self._fitted.n_best == 0:
            raise AttributeError("best_iteration is there after early stopping alone")
        return self._fitted.n_best - 1

    @property
    def best_score(self) -> float:
        """The last metric on the last set at the best iteration, as XGBoost's estimators have it."""
        scores = self._fitted.best_score
        if self._fitted.n_best == 0 or not scores:
            raise AttributeError("best_score is there after early stopping alone")
        if isinstance(scores, float):  # XGBoost's own estimators have it already
            return scores
        return evaluation_of(*list(list(scores.values())[-1].items())[-1])[1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "booster_")
