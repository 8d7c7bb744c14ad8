"""What the plots take: Boosters and estimators, features by name or position, data with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.device_arrays import host_array
from hornbeam.data.fields import Fields
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster

FloatArray = NDArray[np.float64]

RANKING = ("lambdarank", "rank_xendcg")
ONE_CLASS = ("binary", "focal", "cross_entropy", "hinge")
SEVERAL_CLASSES = ("multiclass", "multiclassova")


def booster_of(model: Any) -> Booster:
    """Return the Booster of a Booster or of an estimator that was fitted."""
    if isinstance(model, Booster):
        return model
    made = getattr(model, "booster_", None)
    if isinstance(made, Booster):
        return made
    if hasattr(model, "fit"):
        raise ParameterError(f"{type(model).__name__} is not fitted yet; call fit first")
    raise ParameterError(f"model is a {type(model).__name__}; pass a Booster or a fitted estimator of Hornbeam")


def feature_position(booster: Booster, feature: Any) -> int:
    """Return the position of a feature that is named or numbered."""
    if isinstance(feature, str):
        if feature not in booster.feature_names:
            shown = ", ".join(map(repr, booster.feature_names[:5]))
            raise ParameterError(f"feature {feature!r} is none of the model's; features are {shown}, ...")
        return booster.feature_names.index(feature)
    if isinstance(feature, (int, np.integer)) and not isinstance(feature, bool):
        if not 0 <= feature < booster.n_features:
            raise ParameterError(f"feature {feature}: features are numbered 0 to {booster.n_features - 1}")
        return int(feature)
    raise ParameterError(f"feature {feature!r}: pass the name or the position of a feature")


def task_of(booster: Booster) -> str:
    """Return "binary", "multiclass", "ranking" or "regression": what kind of predictions a model makes."""
    name = booster.objective.name
    if name in ONE_CLASS:
        return "binary"
    if booster.n_outputs > 1:
        return "multiclass"
    return "ranking" if name in RANKING or name.startswith("rank") else "regression"


@dataclass(frozen=True)
class Judged:
    """Predictions beside the labels.

    label        float64 (n_rows,)            classes are numbers from 0 on
    raw          float64 (n_outputs, n_rows)  raw scores
    predictions  float64 (n_outputs, n_rows)  probabilities or means
    weight       float64 (n_rows,), or None
    boundaries   int64 (n_queries + 1,), or None
    class_names  one text a class; empty where there are no classes
    """

    booster: Booster
    label: FloatArray
    raw: FloatArray
    predictions: FloatArray
    weight: FloatArray | None
    boundaries: NDArray[np.int64] | None
    class_names: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.label)

    @property
    def weights(self) -> FloatArray:
        """The weights, ones where there are none."""
        return np.ones(self.n_rows) if self.weight is None else self.weight

    @property
    def probabilities(self) -> FloatArray:
        """Probability of every class, float64 (n_classes, n_rows)."""
        if len(self.predictions) > 1:
            return self.predictions
        return np.stack([1.0 - self.predictions[0], self.predictions[0]])


def dataset_of(data: Any, label: Any = None, weight: Any = None, *, name: str = "data") -> Dataset:
    """Return data with its labels as a Dataset, which checks them.

    data  a Dataset, which has its labels; a pair (table, labels); or a table
    """
    if isinstance(data, Fields):
        if label is not None or weight is not None:
            raise DataError(f"{name} is a Dataset, which has labels and weights of its own; leave label and weight out")
        assert isinstance(data, Dataset)
        return data
    if isinstance(data, tuple):
        if len(data) != 2 or label is not None:
            raise DataError(f"{name} is a tuple of {len(data)}; pass a Dataset, a pair (table, labels), or a table")
        data, label = data
    return Dataset(data, label=label, weight=weight)


def judge(
    model: Any, data: Any, label: Any = None, weight: Any = None, *, class_names: Sequence[Any] | None = None
) -> Judged:
    """Predict for data whose labels are known.

    data         Dataset, pair (table, labels), or table
    label        (n_rows,), with a table; those of a classifier are its classes
    class_names  one a class; None: those of the classifier, else numbers
    """
    booster, classes = booster_of(model), getattr(model, "classes_", None)
    if booster.objective.n_targets > 1:
        raise ParameterError(
            f"the model has labels of {booster.objective.n_targets} columns, and this is drawn of one; explanations, "
            "trees and importances are drawn of any model"
        )
    if classes is not None and not isinstance(data, Fields):
        if isinstance(data, tuple) and len(data) == 2 and label is None:
            data, label = data
        label = _places_in(label, classes)
    dataset = dataset_of(data, label, weight)
    if dataset.label is None:
        raise DataError("data has no labels to judge predictions by; pass label=, or a Dataset that has them")
    booster.objective.check_labels(dataset.label)
    raw = np.atleast_2d(host_array(booster.predict(dataset.data, raw_score=True)).T)
    if dataset.init_score is not None:
        raw = raw + dataset.init_score
    raw = np.ascontiguousarray(raw, np.float64)
    names = _names_of_classes(booster, classes if class_names is None else class_names)
    predictions = booster.objective.transform(raw)
    return Judged(booster, dataset.label, raw, predictions, dataset.weight, dataset.query_boundaries, names)


def _places_in(label: Any, classes: NDArray[Any]) -> Any:
    """Return labels of a classifier as places among its classes."""
    if label is None:
        return None
    label = host_array(label).ravel()
    places = np.searchsorted(classes, label)
    places[places == len(classes)] = 0
    wrong = classes[places] != label
    if wrong.any():
        raise DataError(f"label {label[int(np.argmax(wrong))]!r} is none of the classes that the model was trained on")
    return places


def _names_of_classes(booster: Booster, names: Sequence[Any] | NDArray[Any] | None) -> tuple[str, ...]:
    task = task_of(booster)
    n_classes = {"binary": 2, "multiclass": booster.n_outputs}.get(task, 0)
    if names is None or n_classes == 0:
        return tuple(map(str, range(n_classes)))
    if isinstance(names, str) or len(names) != n_classes:
        raise ParameterError(f"class_names={names!r}: pass {n_classes} names, one a class")
    return tuple(map(str, names))
