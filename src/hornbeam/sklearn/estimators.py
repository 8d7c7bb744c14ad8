"""Estimators for scikit-learn: `HornbeamClassifier` and `HornbeamRegressor`; ranker.py has `HornbeamRanker`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.fixed_point import exact_sum
from hornbeam.core.log import warn
from hornbeam.core.numerics import sigmoid
from hornbeam.data.device_arrays import as_cupy, device_of, host_array, in_library_of
from hornbeam.metrics import fit_to_outputs
from hornbeam.model.booster import Booster
from hornbeam.objectives import MulticlassObjective, objective_from_dict
from hornbeam.params.params import BY_NAME, Params, canonical_names
from hornbeam.params.peer_arguments import PREDICT, takes_peer_arguments
from hornbeam.sklearn import held_out
from hornbeam.sklearn.arguments import in_order
from hornbeam.sklearn.base import FloatArray, HornbeamModel
from hornbeam.sklearn.device_targets import classes_of, divided_by_sum, find_classes, places_among, probabilities
from hornbeam.sklearn.staged import StagedClassifier, StagedRegressor
from hornbeam.sklearn.target_columns import check_indicators, has_columns, labels_that_hold

__all__ = ["HornbeamClassifier", "HornbeamModel", "HornbeamRegressor"]


class HornbeamRegressor(StagedRegressor, RegressorMixin, HornbeamModel):
    """Gradient boosted trees for regression; parameters and attributes are those of `HornbeamModel`.

    Examples
    --------
    >>> model = hb.HornbeamRegressor(n_estimators=10).fit(X, y)
    >>> model.predict(X).shape
    (2000,)
    """

    _takes_columns = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R2 of the predictions; arrays may be on a CUDA device."""
        return float(r2_score(*_in_host_memory(y, self.predict(X)), sample_weight=_in_host_memory(sample_weight)[0]))


class HornbeamClassifier(StagedClassifier, ClassifierMixin, HornbeamModel):
    """Gradient boosted trees for classification; parameters and attributes are those of `HornbeamModel`.

    Labels may be numbers, strings or booleans. Trained on a single class, the model predicts that class. A target of
    several columns of 0 and 1 says which labels hold in each row: predictions have its shape, `classes_` are 0 and 1.

    Examples
    --------
    >>> model = hb.HornbeamClassifier(n_estimators=10).fit(X, y)
    >>> model.predict_proba(X).shape
    (2000, 2)
    """

    classes_: NDArray[Any]
    n_classes_: int
    _takes_columns = True
    _beside_functions = "binary_logloss"
    _links_functions = False
    """Whether scores of an objective function become probabilities."""

    @takes_peer_arguments(PREDICT)
    def predict(self, X: Any, *places: Any, **choices: Any) -> NDArray[Any]:
        """Predict the class of every row; keywords (`raw_score`, `pred_contrib`, ...) are those of `Booster.predict`.

        With an objective function, whose scores have no known link to the classes, raw scores are returned;
        `XGBClassifier` takes the logistic function for one of two classes, and softmax for one of several.
        """
        choices = in_order(places, choices)
        result = self.predict_proba(X, **choices)
        is_custom = self.booster_.objective.name == "custom"
        if _asks_for_no_classes(choices) or (is_custom and not self._links_functions):
            return result
        if self._has_labels:
            return labels_that_hold(host_array(result))
        if device_of(result, "result") is not None:
            on_device = classes_of(as_cupy(result, "result"), self.classes_)
            return on_device if isinstance(on_device, np.ndarray) else in_library_of(X, on_device)
        labels: NDArray[Any] = self.classes_[np.argmax(result, axis=1)]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted; arrays may be on a CUDA device."""
        given = _in_host_memory(y, self.predict(X))
        return float(accuracy_score(*given, sample_weight=_in_host_memory(sample_weight)[0]))

    @takes_peer_arguments(PREDICT)
    def predict_proba(self, X: Any, *places: Any, **choices: Any) -> NDArray[Any]:
        """Predict the probability of every class: float64 (n_rows, n_classes), in the order of `classes_`.

        With "multiclassova", where each class has a probability of its own, they are divided by their sum (as
        scikit-learn's OneVsRestClassifier); `booster_.predict` returns them as they are. Of a target of several
        columns: the probability that each label holds, float64 (n_rows, n_labels).
        """
        choices = in_order(places, choices)
        result = super().predict(X, **choices)
        if _asks_for_no_classes(choices):
            return result
        if self.booster_.objective.name == "custom" and self._links_functions:
            result = linked(host_array(result))
        elif self.booster_.objective.name == "custom":
            warn("an objective function has no classes and probabilities: returning raw scores", self.verbosity)
            return result
        if self._has_labels:
            return result
        divide = self.booster_.objective.name == "multiclassova"
        if device_of(result, "result") is not None:
            made = probabilities(as_cupy(result, "result"), self.n_classes_, divide)
            return in_library_of(X, made)  # type: ignore[no-any-return]
        return self._probabilities(result)

    def _probabilities(self, result: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, (n_rows, n_classes), from what the Booster predicts."""
        if self._has_labels:
            return result
        if self.n_classes_ == 1:
            return np.ones((len(result), 1))
        if self.booster_.objective.name == "multiclassova":
            return np.asarray(divided_by_sum(result))
        return result if result.ndim == 2 else np.column_stack((1.0 - result, result))

    @property
    def _predicting(self) -> Booster:
        """The model, with probabilities where its own predictions are classes, or scores (multi:softmax)."""
        booster = self._fitted
        ways = ("predicts_classes", "predicts_scores")
        if not any(getattr(booster.objective, way) for way in ways):
            return booster
        kept = {name: value for name, value in booster.objective.to_dict().items() if name not in ways}
        return booster.with_objective(objective_from_dict(kept))

    @property
    def _has_labels(self) -> bool:
        """Whether the target has several columns, each a label that holds or not."""
        return self.booster_.objective.n_targets > 1

    def _with_objective(self, values: dict[str, Any]) -> dict[str, Any]:
        n_classes = self.n_classes_
        objective = values.get("objective", "binary" if n_classes <= 2 else "multiclass")
        if objective == "binary" and n_classes > 2:  # log loss is that of several classes there, as in LightGBM
            objective = "multiclass"
        of_classes = ("multiclass", "multiclassova")
        several = objective in of_classes or (callable(objective) and n_classes > 2)
        num_class = max(n_classes, 2) if several else 1
        allowed = ("binary", "cross_entropy", "focal", "hinge", *of_classes) if n_classes <= 2 else of_classes
        if not callable(objective) and objective not in allowed:
            raise ParameterError(
                f"objective={objective!r}: must be {' or '.join(allowed)} for {n_classes} classes, or a function; "
                "None chooses by the number of classes"
            )
        for way in ("predict_classes", "predict_scores"):
            if values.get(way):
                raise ParameterError(f"{way}=True: predict of a classifier returns classes anyway; leave it out")
        if values.get("num_class", num_class) != num_class:
            raise ParameterError(
                f"num_class={values['num_class']}: y has {n_classes} classes, which makes it {num_class}; leave it out"
            )
        return {**super()._with_objective({**values, "objective": objective}), "num_class": num_class}

    def _with_metrics(self, params: Params, names: list[str]) -> Params:
        params = super()._with_metrics(params, names)
        if params.metric is None:
            return params
        given = [params.metric] if isinstance(params.metric, str) else params.metric
        return params.replace(metric=[fit_to_outputs(name, params.num_class) for name in given])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _learn_target(self, y: Any) -> Any:
        if has_columns(y):
            self.classes_, self.n_classes_ = np.array([0, 1]), 2
            return check_indicators(y)
        if device_of(y, "y") is not None:
            self.classes_, places = find_classes(y)
            self.n_classes_ = len(self.classes_)
            return places
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        return codes.astype(np.float64)

    def _code_target(self, y: Any) -> Any:
        if has_columns(y):
            return check_indicators(y)
        if device_of(y, "y") is not None:
            return places_among(y, self.classes_)
        encoder = LabelEncoder()
        encoder.classes_ = self.classes_
        try:
            return np.asarray(encoder.transform(y), np.float64)
        except (ValueError, TypeError) as error:
            raise DataError(f"there are classes that fit has not seen ({error}); leave these rows out") from None

    def _row_weights(
        self, label: FloatArray, weight: FloatArray | None, class_weight: dict[Any, float] | str | None
    ) -> FloatArray | None:
        if class_weight is None:
            return weight
        if label.ndim == 2:
            raise ParameterError(
                f"class_weight={class_weight!r}: a target of several columns has labels that hold or not, no classes; "
                "weigh them by scale_pos_weight"
            )
        given = held_out.without_fit_parameters(self._other_params)
        others = canonical_names({name: value for name, value in given.items() if name in BY_NAME})
        for name in ("scale_pos_weight", "is_unbalance"):
            if others.get(name, BY_NAME[name].default) != BY_NAME[name].default:
                raise ParameterError(
                    f"class_weight={self.class_weight!r} and {name}={others[name]!r} both weigh the classes; give one "
                    "of them"
                )
        codes = label.astype(np.int64)
        if isinstance(class_weight, str) and class_weight == "balanced":
            of_rows = np.ones(len(codes)) if weight is None else weight
            totals = np.array([exact_sum(of_rows[codes == k]) for k in range(self.n_classes_)])
            n_present = len(np.unique(codes))
            by_class = exact_sum(of_rows) / (n_present * np.where(totals > 0.0, totals, np.inf))
        else:
            by_class = self._weights_by_class(class_weight)
        rows: FloatArray = np.asarray(by_class, np.float64)[codes]
        return rows if weight is None else rows * weight

    def _weights_by_class(self, class_weight: Any) -> FloatArray:
        """Return the weight of each class, float64 (n_classes,), from a dict of some of them."""
        if not isinstance(class_weight, Mapping):
            raise ParameterError(f"class_weight={class_weight!r}: must be a dict of classes and weights, or 'balanced'")
        weights = {key.item() if isinstance(key, np.generic) else key: value for key, value in class_weight.items()}
        classes = self.classes_.tolist()
        unknown = [key for key in weights if key not in classes]
        if unknown:
            raise ParameterError(f"class_weight has {unknown[0]!r}, which is no class of y; classes are {classes[:10]}")
        return np.array([float(weights.get(label, 1.0)) for label in classes])


_OF_THE_BOOSTER = ("raw_score", "pred_leaf", "pred_contrib", "pred_contribs", "pred_interactions")
"""Keywords of `predict` that ask for something besides predictions."""


def linked(scores: FloatArray) -> FloatArray:
    """Return the probabilities of raw scores, (n_rows,) of label 1 or (n_rows, n_classes), as XGBoost's links do."""
    if scores.ndim == 1:
        return sigmoid(scores)
    return MulticlassObjective(scores.shape[1]).transform(np.ascontiguousarray(scores.T)).T


def _asks_for_no_classes(choices: Mapping[str, Any]) -> bool:
    """Say whether keywords of `predict` ask for something that is returned as the Booster returns it."""
    return any(choices.get(name) for name in _OF_THE_BOOSTER)


def _in_host_memory(*given: Any) -> list[Any]:
    """Return the same, with copies of what is on a CUDA device."""
    return [host_array(one) if device_of(one) is not None else one for one in given]
