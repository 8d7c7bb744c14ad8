"""Metrics of numeric predictions: l1, l2, rmse, r2."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from hornbeam.metrics.base import MeanLoss, Metric
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.objectives.regression import weighted_mean


class MeanAbsoluteError(MeanLoss):
    """Mean of |prediction - label|."""

    name: ClassVar[str] = "l1"

    @staticmethod
    def losses(label: FloatArray, predictions: FloatArray) -> FloatArray:
        """|prediction - label|."""
        return np.asarray(np.abs(predictions[0] - label))


class MeanSquaredError(MeanLoss):
    """Mean of (prediction - label)**2."""

    name: ClassVar[str] = "l2"

    @staticmethod
    def losses(label: FloatArray, predictions: FloatArray) -> FloatArray:
        """d * d, where d = prediction - label."""
        difference: FloatArray = predictions[0] - label
        return difference * difference


class RootMeanSquaredError(MeanSquaredError):
    """Square root of l2."""

    name: ClassVar[str] = "rmse"

    def finish(self, mean: float) -> float:
        """Take the root, which IEEE 754 rounds correctly on every machine."""
        return math.sqrt(mean)


class RSquared(Metric):
    """Coefficient of determination: 1 - l2 / (l2 of the mean label as prediction).

    Where all labels are equal: 1.0 if the predictions are perfect, else 0.0 (as scikit-learn).
    """

    name: ClassVar[str] = "r2"
    higher_is_better: ClassVar[bool] = True

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        n_threads: int = 1,
    ) -> float:
        """Evaluate the metric; arguments as in `Metric.__call__`."""
        error = MeanSquaredError()(label, raw_scores, weight, objective, n_threads)
        difference = label - weighted_mean(label, weight)
        variance = weighted_mean(difference * difference, weight)
        if variance == 0.0 or label.min() == label.max():  # the mean is rounded, so the variance may miss the latter
            return 1.0 if error == 0.0 else 0.0
        return 1.0 - error / variance
