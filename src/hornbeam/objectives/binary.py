"""Logistic loss of two classes, labelled 0 and 1, and of labels between them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.core.errors import DataError
from hornbeam.objectives.base import FloatArray, Objective, first_wrong_label, require_domain, require_labels
from hornbeam.objectives.label_sums import LabelSums
from hornbeam.params.params import Params

RARE_SHARE = 0.05
"""A class, or an event, of which fewer rows than this share are an example is rare: 20 rows, which are enough for a
leaf, hold less than one example."""

SMALLEST_SHARE = 1e-15
"""The share of a class is kept this far from 0 and 1, so that a single class has a finite initial score (LightGBM)."""


def values_for_rare(share: float) -> dict[str, float]:
    """Return Objective.open_values for the share of rows that are examples of the rarest class, or event.

    Chosen on the problems of benchmarks/imbalanced.py among sums of hessians of 0.3 to 5 and penalties of 0 to 5.
    """
    return {"min_sum_hessian_in_leaf": 1.0, "lambda_l2": 2.0} if share < RARE_SHARE else {}


class BinaryObjective(Objective):
    """Loss -log(p) for label 1 and -log(1 - p) for label 0, where p = 1 / (1 + exp(-sigmoid * score))."""

    name: ClassVar[str] = "binary"
    default_metric: ClassVar[str] = "binary_logloss"
    link: str = "sigmoid"
    labels: ClassVar[str] = "binary"

    def __init__(
        self,
        sigmoid: float = 1.0,
        boost_from_average: bool = True,
        scale_pos_weight: float = 1.0,
        is_unbalance: bool = False,
        predicts_scores: bool = False,
    ) -> None:
        super().__init__(1, boost_from_average)
        if predicts_scores:
            self.predicts_scores = True
        self.sigmoid = float(sigmoid)
        self.scale_pos_weight = scale_pos_weight
        self.is_unbalance = is_unbalance

    @property
    def formula(self) -> tuple[int, float, float]:
        """Formula 13, with the sigmoid parameter and its square."""
        return 13, self.sigmoid, self.sigmoid * self.sigmoid

    @classmethod
    def from_params(cls, params: Params) -> BinaryObjective:
        """Take sigmoid, the weights of classes, and what is predicted."""
        weights = params.scale_pos_weight, params.is_unbalance
        return cls(params.sigmoid, params.boost_from_average, *weights, params.predict_scores)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be 0 or 1."""
        label = require_labels(label, self.name)
        found = first_wrong_label(label, (label != 0.0) & (label != 1.0))
        if found is not None:
            raise DataError(
                f"objective {self.name!r} takes labels 0 and 1, but {found}; recode the classes to 0 and 1, "
                "or use objective='multiclass' for more than two classes"
            )

    @property
    def prepares(self) -> bool:
        """Whether classes have weights."""
        return self.scale_pos_weight != 1.0 or self.is_unbalance

    def prepare(self, label: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Multiply the weights by those of the classes: scale_pos_weight, is_unbalance."""
        factors = class_factors(int(np.count_nonzero(label)), len(label), self.scale_pos_weight, self.is_unbalance)
        if factors == (1.0, 1.0):
            return label, weight
        weights = np.where(label > 0.0, factors[1], factors[0])
        return label, weights if weight is None else weights * weight

    def scores_of_sums(self, sums: LabelSums) -> FloatArray:
        """Return log(p / (1 - p)) / sigmoid, where p is the (weighted) share of label 1.

        Weights of classes have no part in it (as LightGBM).
        """
        return self.score_of_mean(sums.mean()) if self.boost_from_average else np.zeros(1)

    def score_of_mean(self, share: float) -> FloatArray:
        """Return the score of a share of label 1, float64 (1,)."""
        share = min(max(share, SMALLEST_SHARE), 1.0 - SMALLEST_SHARE)
        return numerics.log(np.array([share / (1.0 - share)])) / self.sigmoid

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Damp the steps where one of the classes is rare."""
        share = sums.mean()
        return values_for_rare(min(share, 1.0 - share))

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Order of operations, with s the sigmoid parameter.

        p = 1 / (1 + exp(-(s * score))); g = s * (p - label); h = ((s * s) * p) * (1 - p);
        with weights g = g * w, h = h * w.
        """
        p = self.transform(scores)
        gradient = self.sigmoid * (p - label)
        hessian = ((self.sigmoid * self.sigmoid) * p) * (1.0 - p)
        if weight is None:
            return gradient, hessian
        return gradient * weight, hessian * weight

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the probability of label 1: 1 / (1 + exp(-(sigmoid * raw)))."""
        return numerics.sigmoid(self.sigmoid * raw)

    def to_dict(self) -> dict[str, str | int | float]:
        """Return name and sigmoid, and whether scores are predicted."""
        state: dict[str, str | int | float] = {"name": self.name, "sigmoid": self.sigmoid}
        return {**state, "predicts_scores": True} if self.predicts_scores else state


class CrossEntropyObjective(BinaryObjective):
    """Loss -(y * log(p) + (1 - y) * log(1 - p)) of labels y from 0 to 1, where p = 1 / (1 + exp(-score))."""

    name: ClassVar[str] = "cross_entropy"
    default_metric: ClassVar[str] = "cross_entropy"
    labels: ClassVar[str] = "unit"

    def __init__(self, boost_from_average: bool = True) -> None:
        super().__init__(1.0, boost_from_average)

    @classmethod
    def from_params(cls, params: Params) -> CrossEntropyObjective:
        """Take boost_from_average."""
        return cls(params.boost_from_average)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be probabilities."""
        require_domain(label, self.name, "outside [0, 1]", "rescale the labels, or use objective='regression'")

    def to_dict(self) -> dict[str, str | int | float]:
        """Return the name."""
        return {"name": self.name}


def class_factors(n_positive: int, n_rows: int, scale_pos_weight: float, is_unbalance: bool) -> tuple[float, float]:
    """Return the factors on the weights of negative and of positive rows.

    `is_unbalance` raises the rarer class to the number of rows of the other one (as LightGBM: rows, not weights).
    """
    n_negative = n_rows - n_positive
    if not is_unbalance or n_positive == 0 or n_negative == 0:
        return 1.0, scale_pos_weight
    if n_positive > n_negative:
        return n_positive / n_negative, 1.0
    return 1.0, n_negative / n_positive
