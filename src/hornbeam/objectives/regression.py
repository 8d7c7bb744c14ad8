"""Squared error: the raw score is the prediction."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.objectives.base import FloatArray, Objective, require_labels
from hornbeam.quantize import exact_sum


class RegressionObjective(Objective):
    """Loss (score - label)**2 / 2 a row."""

    name: ClassVar[str] = "regression"
    default_metric: ClassVar[str] = "l2"

    def __init__(self, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)

    def check_labels(self, label: FloatArray | None) -> None:
        """Any finite label will do."""
        require_labels(label, self.name)

    def init_scores(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the (weighted) mean label."""
        if not self.boost_from_average:
            return np.zeros(1)
        return np.array([weighted_mean(label, weight)])

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """g = score - label, h = 1; with weights g = (score - label) * w, h = w."""
        gradient = scores - label
        if weight is None:
            return gradient, np.ones_like(scores)
        return gradient * weight, np.broadcast_to(weight, scores.shape).astype(np.float64)

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the raw scores themselves."""
        return raw


def weighted_mean(values: FloatArray, weight: FloatArray | None) -> float:
    """Return sum(values * weight) / sum(weight) in exact sums, whatever the order of the rows.

    values  float64 (n_rows,)  in
    weight  float64 (n_rows,)  in  or None: all ones
    """
    if weight is None:
        return exact_sum(values) / len(values)
    return exact_sum(values * weight) / exact_sum(weight)
