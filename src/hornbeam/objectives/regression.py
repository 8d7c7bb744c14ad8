"""Squared errors: of the score, which is the prediction or its signed square root, and of logarithms."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.objectives.base import FloatArray, Objective, require_domain, require_labels
from hornbeam.objectives.label_sums import LabelSums, weighted_mean
from hornbeam.objectives.pointwise import PointwiseObjective
from hornbeam.params.params import Params

LEAST_OF_LOG, MOST_OF_LOG = -1.0 + 1e-6, 1e150
"""What scores of squared_log_error count as at least (as XGBoost), and at most."""


class RegressionObjective(Objective):
    """Loss (score - label)**2 / 2 a row."""

    name: ClassVar[str] = "regression"
    default_metric: ClassVar[str] = "l2"

    def __init__(self, boost_from_average: bool = True, reg_sqrt: bool = False) -> None:
        super().__init__(1, boost_from_average)
        self.reg_sqrt = reg_sqrt
        if reg_sqrt:
            self.link = "square"

    @property
    def formula(self) -> tuple[int, float, float]:
        """Formula 12."""
        return 12, 0.0, 0.0

    @classmethod
    def from_params(cls, params: Params) -> RegressionObjective:
        """Take reg_sqrt."""
        return cls(params.boost_from_average, params.reg_sqrt)

    def check_labels(self, label: FloatArray | None) -> None:
        """Any finite label will do."""
        require_labels(label, self.name)

    @property
    def prepares(self) -> bool:
        """Whether labels become roots."""
        return self.reg_sqrt

    def prepare(self, label: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Return sign(label) * sqrt(|label|) with reg_sqrt; IEEE 754 rounds roots alike on every machine."""
        return (np.copysign(np.sqrt(np.abs(label)), label), weight) if self.reg_sqrt else (label, weight)

    def init_scores(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the (weighted) mean label, of the roots with reg_sqrt."""
        if not self.boost_from_average:
            return np.zeros(1)
        return np.array([weighted_mean(self.prepare(label, weight)[0], weight)])

    def scores_of_sums(self, sums: LabelSums) -> FloatArray | None:
        """Return the mean label; there is no sum of roots."""
        if not self.boost_from_average:
            return np.zeros(1)
        return None if self.reg_sqrt else np.array([sums.mean()])

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """g = score - label, h = 1; with weights g = (score - label) * w, h = w."""
        gradient = scores - label
        if weight is None:
            return gradient, np.ones_like(scores)
        return gradient * weight, np.broadcast_to(weight, scores.shape).astype(np.float64)

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the raw scores themselves, or raw * |raw| with reg_sqrt."""
        return np.asarray(raw * np.abs(raw)) if self.reg_sqrt else raw

    def to_dict(self) -> dict[str, str | int | float]:
        """Return the name, and reg_sqrt where it is set."""
        return {"name": self.name, "reg_sqrt": True} if self.reg_sqrt else {"name": self.name}


class SquaredLogErrorObjective(PointwiseObjective):
    """Loss (log(1 + score) - log(1 + label))**2 / 2: errors by factors, for labels of all sizes.

    It bends downwards where the score is more than e times too high; the hessian is that of the logarithm then, as if
    it were straight (Gauss and Newton), and the second derivative where the score is too low.
    """

    name: ClassVar[str] = "squared_log_error"
    default_metric: ClassVar[str] = "rmsle"
    labels: ClassVar[str] = "nonnegative"
    code: ClassVar[int] = 15
    starts_at_mean: ClassVar[bool] = False

    def __init__(self, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)

    @classmethod
    def from_params(cls, params: Params) -> SquaredLogErrorObjective:
        """Take boost_from_average."""
        return cls(params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a, b: the least score, and the largest."""
        return LEAST_OF_LOG, MOST_OF_LOG

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must not be negative."""
        require_domain(label, self.name, "< 0", "leave such rows out, or use objective='regression'")

    def best_constant(self, label: FloatArray, weight: FloatArray | None) -> float:
        """Return exp(mean of log(1 + label)) - 1, with the weights."""
        mean = weighted_mean(numerics.log(1.0 + label), weight)
        return float(numerics.exp(np.array([mean]))[0]) - 1.0

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """q = 1 + score, clipped to a...b; t = log(q) - log(1 + label); g = t / q; h = (1 - min(t, 0)) / (q * q)."""
        q = 1.0 + np.minimum(np.maximum(score, LEAST_OF_LOG), MOST_OF_LOG)
        t = numerics.log(q) - numerics.log(1.0 + label)
        return t / q, (1.0 - np.minimum(t, 0.0)) / (q * q)
