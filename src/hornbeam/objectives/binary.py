"""Logistic loss of two classes, labelled 0 and 1."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam import numerics
from hornbeam.errors import DataError
from hornbeam.objectives.base import FloatArray, Objective, first_wrong_label, require_labels
from hornbeam.objectives.regression import weighted_mean

SMALLEST_SHARE = 1e-15
"""The share of a class is kept this far from 0 and 1, so that a single class has a finite initial score (LightGBM)."""


class BinaryObjective(Objective):
    """Loss -log(p) for label 1 and -log(1 - p) for label 0, where p = 1 / (1 + exp(-sigmoid * score))."""

    name: ClassVar[str] = "binary"
    default_metric: ClassVar[str] = "binary_logloss"

    def __init__(self, sigmoid: float = 1.0, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.sigmoid = float(sigmoid)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be 0 or 1."""
        label = require_labels(label, self.name)
        found = first_wrong_label(label, (label != 0.0) & (label != 1.0))
        if found is not None:
            raise DataError(
                f"objective 'binary' takes labels 0 and 1, but {found}; recode the classes to 0 and 1, "
                "or use objective='multiclass' for more than two classes"
            )

    def init_scores(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return log(p / (1 - p)) / sigmoid, where p is the (weighted) share of label 1."""
        if not self.boost_from_average:
            return np.zeros(1)
        share = weighted_mean(label, weight)
        share = min(max(share, SMALLEST_SHARE), 1.0 - SMALLEST_SHARE)
        return numerics.log(np.array([share / (1.0 - share)])) / self.sigmoid

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
        """Return name and sigmoid."""
        return {"name": self.name, "sigmoid": self.sigmoid}
