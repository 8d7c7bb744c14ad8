"""Metrics of numeric predictions: l1, l2, rmse, r2, and the losses of the other regression objectives."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import MeanLoss, Metric
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.objectives.label_sums import weighted_mean
from hornbeam.objectives.regression import LEAST_OF_LOG
from hornbeam.params.params import Params


class MeanAbsoluteError(MeanLoss):
    """Mean of |prediction - label|."""

    name: ClassVar[str] = "l1"

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """|prediction - label|."""
        return np.asarray(np.abs(predictions[0] - label))


class MeanSquaredError(MeanLoss):
    """Mean of (prediction - label)**2."""

    name: ClassVar[str] = "l2"

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """d * d, where d = prediction - label."""
        difference: FloatArray = predictions[0] - label
        return difference * difference


class RootMeanSquaredError(MeanSquaredError):
    """Square root of l2."""

    name: ClassVar[str] = "rmse"

    def finish(self, mean: float) -> float:
        """Take the root, which IEEE 754 rounds correctly on every machine."""
        return math.sqrt(mean)


class RootMeanSquaredLogError(MeanLoss):
    """Square root of the mean of (log(1 + prediction) - log(1 + label))**2; predictions are at least LEAST_OF_LOG."""

    name: ClassVar[str] = "rmsle"
    labels: ClassVar[str] = "nonnegative"

    @property
    def constants(self) -> tuple[float, float]:
        """a: the least prediction."""
        return LEAST_OF_LOG, 0.0

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """p = max(prediction, LEAST_OF_LOG); t = log(1 + p) - log(1 + label); t * t."""
        p = np.maximum(predictions[0], LEAST_OF_LOG)
        t = numerics.log(1.0 + p) - numerics.log(1.0 + label)
        return np.asarray(t * t)

    def finish(self, mean: float) -> float:
        """Take the root."""
        return math.sqrt(mean)


class RSquared(Metric):
    """Coefficient of determination: 1 - l2 / (l2 of the mean label as prediction).

    Where all labels are equal: 1.0 if the predictions are perfect, else 0.0 (as scikit-learn).
    """

    name: ClassVar[str] = "r2"
    higher_is_better: ClassVar[bool] = True
    error: ClassVar[MeanSquaredError] = MeanSquaredError()

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Evaluate the metric; arguments as in `Metric.__call__`."""
        error = self.error(label, raw_scores, weight, objective, arithmetic)
        return self.compare(error, self.variance(label, weight))

    @staticmethod
    def variance(label: FloatArray, weight: FloatArray | None) -> float:
        """Return l2 of the mean label as prediction."""
        difference = label - weighted_mean(label, weight)
        if label.min() == label.max():  # the mean is rounded, so the sum may miss this
            return 0.0
        return weighted_mean(difference * difference, weight)

    @staticmethod
    def compare(error: float, variance: float) -> float:
        """Return the metric from l2 and the variance of the labels."""
        if variance == 0.0:
            return 1.0 if error == 0.0 else 0.0
        return 1.0 - error / variance


class MeanAbsolutePercentageError(MeanLoss):
    """Mean of |label - prediction| / max(1, |label|)."""

    name: ClassVar[str] = "mape"
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """|label - prediction| / max(1, |label|)."""
        return np.asarray(np.abs(label - predictions[0]) / np.maximum(np.abs(label), 1.0))


class LevelLoss(MeanLoss):
    """A loss with one constant, the parameter alpha."""

    def __init__(self, alpha: float = 0.9) -> None:
        self.alpha = alpha

    @classmethod
    def from_params(cls, params: Params) -> LevelLoss:
        """Take alpha; of a list the first, where `QuantileLosses` takes its place."""
        return cls(params.level)

    @property
    def constants(self) -> tuple[float, float]:
        """a = alpha, b = 1 - alpha."""
        return self.alpha, 1.0 - self.alpha


class QuantileLoss(LevelLoss):
    """Mean of the pinball loss: alpha * (label - prediction) where that is positive, else (alpha - 1) times it."""

    name: ClassVar[str] = "quantile"

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """-b * d where d = label - prediction < 0, else a * d."""
        a, b = self.constants
        d = label - predictions[0]
        return np.asarray(np.where(d < 0.0, -b * d, a * d))


class QuantileLosses(Metric):
    """The mean of `QuantileLoss` over the outputs of a list of quantiles."""

    name: ClassVar[str] = "quantile"
    for_classes: ClassVar[bool] = True

    def __init__(self, alphas: tuple[float, ...]) -> None:
        self.alphas = alphas

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Add up the losses in the order of the outputs; arguments as in `Metric.__call__`."""
        total = 0.0
        for output, alpha in enumerate(self.alphas):
            scores = raw_scores[output : output + 1]
            total = total + arithmetic.mean_loss(QuantileLoss(alpha), label, scores, weight)
        return total / len(self.alphas)


class ExpectileLoss(LevelLoss):
    """Mean of the asymmetric square: alpha * d**2 where the prediction is too low, (1 - alpha) * d**2 elsewhere."""

    name: ClassVar[str] = "expectile"

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """(b where d = prediction - label >= 0, else a) * (d * d)."""
        a, b = self.constants
        d = predictions[0] - label
        return np.asarray(np.where(d >= 0.0, b, a) * (d * d))


class HuberLoss(LevelLoss):
    """Mean of d**2 / 2 up to |d| = alpha, and of alpha * (|d| - alpha / 2) beyond."""

    name: ClassVar[str] = "huber"

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """t = |prediction - label|; 0.5 * (t * t) where t <= a, else a * (t - 0.5 * a)."""
        t = np.abs(predictions[0] - label)
        return np.asarray(np.where(t <= self.alpha, 0.5 * (t * t), self.alpha * (t - 0.5 * self.alpha)))


class FairLoss(MeanLoss):
    """Mean of c * |d| - c**2 * log(1 + |d| / c)."""

    name: ClassVar[str] = "fair"

    def __init__(self, fair_c: float = 1.0) -> None:
        self.fair_c = fair_c

    @classmethod
    def from_params(cls, params: Params) -> FairLoss:
        """Take fair_c."""
        return cls(params.fair_c)

    @property
    def constants(self) -> tuple[float, float]:
        """a = c, b = c * c."""
        return self.fair_c, self.fair_c * self.fair_c

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """t = |prediction - label|; a * t - b * log(1 + t / a)."""
        a, b = self.constants
        t = np.abs(predictions[0] - label)
        return np.asarray(a * t - b * numerics.log(1.0 + t / a))


class PseudoHuberLoss(MeanLoss):
    """Mean of c**2 * (sqrt(1 + (d / c)**2) - 1), with the slope c."""

    name: ClassVar[str] = "pseudohuber"

    def __init__(self, huber_slope: float = 1.0) -> None:
        self.huber_slope = huber_slope

    @classmethod
    def from_params(cls, params: Params) -> PseudoHuberLoss:
        """Take huber_slope."""
        return cls(params.huber_slope)

    @property
    def constants(self) -> tuple[float, float]:
        """a = c, b = c * c."""
        return self.huber_slope, self.huber_slope * self.huber_slope

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """t = (prediction - label) / a; b * (sqrt(1 + t * t) - 1)."""
        a, b = self.constants
        t = (predictions[0] - label) / a
        return np.asarray(b * (np.sqrt(1.0 + t * t) - 1.0))


class LogCoshLoss(MeanLoss):
    """Mean of log(cosh(prediction - label))."""

    name: ClassVar[str] = "logcosh"
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """t = |prediction - label|; t + log(0.5 * (1 + exp(-(t + t))))."""
        t = np.abs(predictions[0] - label)
        return np.asarray(t + numerics.log(0.5 * (1.0 + numerics.exp(-(t + t)))))
