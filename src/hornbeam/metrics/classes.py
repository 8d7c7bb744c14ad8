"""Metrics of class probabilities: log losses, errors, cross_entropy, kullback_leibler and focal."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.data.fields import Fields
from hornbeam.metrics.base import MeanLoss, is_positive
from hornbeam.objectives.base import FloatArray
from hornbeam.objectives.cross_entropy_lambda import require_weights
from hornbeam.params.params import Params

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

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """-log(q), where q = p if label > 0 else 1 - p, clipped to 1e-15 <= q <= 1."""
        q = np.where(is_positive(label), predictions[0], 1.0 - predictions[0])
        return log_losses(q)


class BinaryError(MeanLoss):
    """Share of rows on the wrong side of a threshold; a prediction of exactly that counts as the negative class.

    Kernels are those of 0.5; for others NumPy runs.
    """

    name: ClassVar[str] = "binary_error"

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold
        self.has_kernel = threshold == 0.5
        if not self.has_kernel:
            self.name = f"binary_error@{threshold}".removesuffix(".0")  # type: ignore[misc]

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """1 where (p > threshold) differs from (label > 0), else 0."""
        return np.asarray((predictions[0] > self.threshold) != is_positive(label), np.float64)


class CrossEntropy(MeanLoss):
    """Mean of -(y * log(p) + (1 - y) * log(1 - p)), for labels y from 0 to 1."""

    name: ClassVar[str] = "cross_entropy"
    labels: ClassVar[str] = "unit"
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Y * -log(p) + (1 - y) * -log(1 - p), probabilities clipped to 1e-15."""
        p = predictions[0]
        return np.asarray(label * log_losses(p) + (1.0 - label) * log_losses(1.0 - p))


class KullbackLeibler(CrossEntropy):
    """Mean Kullback-Leibler divergence of the prediction from the label: cross_entropy less the labels' entropy."""

    name: ClassVar[str] = "kullback_leibler"

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Cross entropy - (y * -log(y) + (1 - y) * -log(1 - y)); a label of 0 or 1 has no entropy."""
        return super().losses(label, predictions) - super().losses(label, label[None])


class CrossEntropyLambda(MeanLoss):
    """Mean of -(y * log(z) + (1 - y) * log(1 - z)), where z = 1 - exp(-w * log(1 + exp(score))) and w is the weight.

    Weights must be positive, and do not multiply (LightGBM).
    """

    name: ClassVar[str] = "cross_entropy_lambda"
    labels: ClassVar[str] = "unit"
    uses_raw_scores: ClassVar[bool] = True
    weight_in_loss: ClassVar[bool] = True
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def check(self, dataset: Fields, where: str) -> None:
        """Raise DataError unless labels lie from 0 to 1, and weights above 0."""
        super().check(dataset, where)
        require_weights(dataset, f"metric {self.name!r} on {where}")

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Y * -log(1 - q) + (1 - y) * -log(q), q = exp(-(w * softplus(score))), clipped; label is (y, w)."""
        y, weight = label
        q = numerics.exp(-(weight * numerics.softplus(predictions[0])))
        return np.asarray(y * log_losses(1.0 - q) + (1.0 - y) * log_losses(q))


class FocalLoss(MeanLoss):
    """Mean of -w * (1 - q)**gamma * log(q), where q is the probability of the true class, see objectives/focal.py."""

    name: ClassVar[str] = "focal"

    def __init__(self, focal_gamma: float = 2.0, focal_alpha: float = 0.25) -> None:
        self.focal_gamma = focal_gamma
        self.focal_alpha = focal_alpha

    @classmethod
    def from_params(cls, params: Params) -> FocalLoss:
        """Take focal_gamma and focal_alpha."""
        return cls(params.focal_gamma, params.focal_alpha)

    @property
    def constants(self) -> tuple[float, float]:
        """a = gamma, b = alpha."""
        return self.focal_gamma, self.focal_alpha

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """(w * exp(a * log(1 - q))) * -log(q), q clipped to 1e-15 in the last factor."""
        a, b = self.constants
        positive = is_positive(label)
        q = np.where(positive, predictions[0], 1.0 - predictions[0])
        weight = np.where(positive, b, 1.0 - b)
        return np.asarray((weight * numerics.exp(a * numerics.log(1.0 - q))) * log_losses(q))


class MultiLogLoss(MeanLoss):
    """Mean of -log(probability of the true class)."""

    name: ClassVar[str] = "multi_logloss"
    for_classes: ClassVar[bool] = True

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """-log(q), where q = p[label], clipped to 1e-15 <= q <= 1."""
        q = predictions[label.astype(np.int64), np.arange(len(label))]
        return log_losses(q)


class MultiError(MeanLoss):
    """Share of rows whose true class is not among the `top_k` highest raw scores; ties count against it (as LightGBM).

    Kernels are those of `top_k` = 1; for others NumPy runs.
    """

    name: ClassVar[str] = "multi_error"
    for_classes: ClassVar[bool] = True
    uses_raw_scores: ClassVar[bool] = True

    def __init__(self, top_k: int = 1) -> None:
        self.top_k = top_k
        self.has_kernel = top_k == 1
        if not self.has_kernel:
            self.name = f"multi_error@{top_k}"  # type: ignore[misc]

    @classmethod
    def from_params(cls, params: Params) -> MultiError:
        """Take multi_error_top_k."""
        return cls(params.multi_error_top_k)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """0 where less than `top_k` scores besides that of the true class are as high as it, else 1."""
        own = predictions[label.astype(np.int64), np.arange(len(label))]
        return np.asarray((predictions >= own).sum(axis=0) > self.top_k, np.float64)
