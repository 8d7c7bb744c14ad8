"""Metrics of predicted means of counts and amounts: poisson, gamma, tweedie, and deviances of the last two.

m is the prediction, raised to 1e-10 where it is smaller (as LightGBM), so that a loss is finite.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.metrics.base import MeanLoss
from hornbeam.objectives.base import FloatArray
from hornbeam.params.params import Params

SMALLEST_MEAN = 1e-10


class PoissonLoss(MeanLoss):
    """Mean negative log-likelihood of Poisson counts, without the part that depends on the labels alone."""

    name: ClassVar[str] = "poisson"
    labels: ClassVar[str] = "nonnegative"
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """M - label * log(m)."""
        m = np.maximum(predictions[0], SMALLEST_MEAN)
        return np.asarray(m - label * numerics.log(m))


class GammaLoss(MeanLoss):
    """Mean negative log-likelihood of gamma-distributed amounts with shape 1, which is exponential."""

    name: ClassVar[str] = "gamma"
    labels: ClassVar[str] = "positive"
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Label / m + log(m)."""
        m = np.maximum(predictions[0], SMALLEST_MEAN)
        return np.asarray(label / m + numerics.log(m))


class GammaDeviance(MeanLoss):
    """Mean gamma deviance (as XGBoost and scikit-learn; LightGBM's gamma_deviance is the sum)."""

    name: ClassVar[str] = "gamma_deviance"
    labels: ClassVar[str] = "positive"
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """t = label / m; 2 * (t - log(t) - 1)."""
        t = label / np.maximum(predictions[0], SMALLEST_MEAN)
        return np.asarray(2.0 * ((t - numerics.log(t)) - 1.0))


class TweedieLoss(MeanLoss):
    """Mean negative log-likelihood of a Tweedie distribution, without the part that depends on the labels alone.

    With variance power 1 it is `poisson`.
    """

    name: ClassVar[str] = "tweedie"
    labels: ClassVar[str] = "nonnegative"

    def __init__(self, variance_power: float = 1.5) -> None:
        self.variance_power = variance_power

    @classmethod
    def at(cls, variance_power: float) -> TweedieLoss:
        """Return the metric of another power than the objective's, which is in its name."""
        found = cls(variance_power)
        found.name = f"{cls.name}@{variance_power}".removesuffix(".0")  # type: ignore[misc]
        found.has_kernel = False
        return found

    @classmethod
    def from_params(cls, params: Params) -> TweedieLoss:
        """Take tweedie_variance_power."""
        return cls(params.tweedie_variance_power)

    @property
    def constants(self) -> tuple[float, float]:
        """a = 1 - rho, b = 2 - rho."""
        return 1.0 - self.variance_power, 2.0 - self.variance_power

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """l = log(m); exp(b * l) / b - (label * exp(a * l)) / a; for a = 0: m - label * l."""
        a, b = self.constants
        m = np.maximum(predictions[0], SMALLEST_MEAN)
        log_m = numerics.log(m)
        if a == 0.0:
            return np.asarray(m - label * log_m)
        loss = numerics.exp(b * log_m) / b - (label * numerics.exp(a * log_m)) / a
        return np.where(m == m, loss, m)  # log(NaN) is a number, and which one depends on the machine


class TweedieDeviance(TweedieLoss):
    """Mean Tweedie deviance (as scikit-learn)."""

    name: ClassVar[str] = "tweedie_deviance"

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """2 * (y**b / (a * b) - y * m**a / a + m**b / b); for a = 0: 2 * ((y * log(y / m) - y) + m).

        Powers are exp(b * log(y)), and 0 where y = 0.
        """
        a, b = self.constants
        m = np.maximum(predictions[0], SMALLEST_MEAN)
        if a == 0.0:
            return np.asarray(2.0 * ((label * numerics.log(label / m) - label) + m))
        log_m = numerics.log(m)
        power = np.where(label > 0.0, numerics.exp(b * numerics.log(label)), 0.0)
        fitted = numerics.exp(b * log_m) / b - (label * numerics.exp(a * log_m)) / a
        return np.where(m == m, 2.0 * (power / (a * b) + fitted), m)
