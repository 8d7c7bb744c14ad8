"""Metrics of class probabilities: binary_logloss, binary_error, multi_logloss, multi_error."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam import numerics
from hornbeam.metrics.base import MeanLoss, is_positive
from hornbeam.objectives.base import FloatArray

SMALLEST_PROBABILITY = 1e-15
"""The probability of the true class is raised to this, so that a loss is finite (as LightGBM)."""


def log_losses(q: FloatArray) -> FloatArray:
    """Return -log(q), where q is clipped to 1e-15 <= q <= 1; NaN stays NaN, so that it cannot pass for a good score.

    q  float64 (n_rows,)  in   probability of the true class
    """
    clipped = np.minimum(np.maximum(q, SMALLEST_PROBABILITY), 1.0)
    return np.where(q == q, -numerics.log(clipped), q)


class BinaryLogLoss(MeanLoss):
    """Mean of -log(probability of the true class)."""

    name: ClassVar[str] = "binary_logloss"

    @staticmethod
    def losses(label: FloatArray, predictions: FloatArray) -> FloatArray:
        """-log(q), where q = p if label > 0 else 1 - p, clipped to 1e-15 <= q <= 1."""
        q = np.where(is_positive(label), predictions[0], 1.0 - predictions[0])
        return log_losses(q)


class BinaryError(MeanLoss):
    """Share of rows on the wrong side of 0.5; a prediction of exactly 0.5 counts as the negative class."""

    name: ClassVar[str] = "binary_error"

    @staticmethod
    def losses(label: FloatArray, predictions: FloatArray) -> FloatArray:
        """1 where (p > 0.5) differs from (label > 0), else 0."""
        return np.asarray((predictions[0] > 0.5) != is_positive(label), np.float64)


class MultiLogLoss(MeanLoss):
    """Mean of -log(probability of the true class)."""

    name: ClassVar[str] = "multi_logloss"
    for_classes: ClassVar[bool] = True

    @staticmethod
    def losses(label: FloatArray, predictions: FloatArray) -> FloatArray:
        """-log(q), where q = p[label], clipped to 1e-15 <= q <= 1."""
        q = predictions[label.astype(np.int64), np.arange(len(label))]
        return log_losses(q)


class MultiError(MeanLoss):
    """Share of rows whose true class has not the highest raw score alone; a tie counts as an error (as LightGBM)."""

    name: ClassVar[str] = "multi_error"
    for_classes: ClassVar[bool] = True
    uses_raw_scores: ClassVar[bool] = True

    @staticmethod
    def losses(label: FloatArray, predictions: FloatArray) -> FloatArray:
        """0 where the score of the true class is above all others, else 1."""
        own = predictions[label.astype(np.int64), np.arange(len(label))]
        return np.asarray((predictions >= own).sum(axis=0) > 1, np.float64)
