"""Counts, amounts and their mixture: losses whose raw score is the logarithm of the predicted mean.

In gradients, scores count as at most 300 in magnitude, so that they are finite with any label and weight.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.core.errors import DataError
from hornbeam.objectives.base import FloatArray, require_domain
from hornbeam.objectives.binary import values_for_rare
from hornbeam.objectives.label_sums import LabelSums
from hornbeam.objectives.pointwise import PointwiseObjective
from hornbeam.params.params import Params

LARGEST_SCORE = 300.0


def bounded(score: FloatArray) -> FloatArray:
    """Return scores clipped to +-300; float64 (n_rows,)."""
    return np.minimum(np.maximum(score, -LARGEST_SCORE), LARGEST_SCORE)


class PoissonObjective(PointwiseObjective):
    """Loss exp(score) - label * score: counts with the predicted mean as variance."""

    name: ClassVar[str] = "poisson"
    default_metric: ClassVar[str] = "poisson"
    link: str = "exp"
    labels: ClassVar[str] = "nonnegative"
    code: ClassVar[int] = 8

    def __init__(self, max_delta_step: float = 0.7, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.max_delta_step = max_delta_step

    @classmethod
    def from_params(cls, params: Params) -> PoissonObjective:
        """Take poisson_max_delta_step."""
        return cls(params.poisson_max_delta_step, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = exp(poisson_max_delta_step)."""
        return float(numerics.exp(np.array([self.max_delta_step]))[0]), 0.0

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must not be negative."""
        require_domain(label, self.name, "< 0", "leave such rows out, or use objective='regression'")

    def constant_of_mean(self, mean: float) -> float:
        """Return the logarithm of the (weighted) mean label."""
        if mean <= 0.0:
            raise DataError(
                f"objective {self.name!r} starts from log(mean of the labels), but every label (that has a weight) is "
                "0; pass labels of which some are positive, or boost_from_average=False"
            )
        return float(numerics.log(np.array([mean]))[0])

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Damp the steps where events are rare."""
        return values_for_rare(sums.mean())

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """e = exp(score); g = e - label; h = e * a, an upper bound that keeps steps small (as LightGBM)."""
        e = numerics.exp(bounded(score))
        return e - label, e * self.constants[0]

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the predicted mean exp(raw)."""
        return numerics.exp(raw)


class GammaObjective(PoissonObjective):
    """Loss label * exp(-score) + score: positive amounts whose deviation grows with the mean."""

    name: ClassVar[str] = "gamma"
    default_metric: ClassVar[str] = "gamma"
    labels: ClassVar[str] = "positive"
    code: ClassVar[int] = 9

    def __init__(self, boost_from_average: bool = True) -> None:
        super().__init__(0.0, boost_from_average)

    @classmethod
    def from_params(cls, params: Params) -> GammaObjective:
        """Take boost_from_average."""
        return cls(params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """None."""
        return 0.0, 0.0

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be positive."""
        require_domain(label, self.name, "<= 0", "leave such rows out, or use objective='tweedie', which takes zeros")

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Limit the steps: that of a leaf whose labels are a share s of the predictions is (s - 1) / s, not log(s)."""
        return {"max_delta_step": 2.0}

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """h = label * exp(-score); g = 1 - h."""
        hessian = label * numerics.exp(-bounded(score))
        return 1.0 - hessian, hessian


class TweedieObjective(PoissonObjective):
    """Loss -label * exp(a * score) / a + exp(b * score) / b: amounts that may be exactly zero.

    a = 1 - rho and b = 2 - rho, where the variance is the mean to the power rho; rho = 1 is Poisson, 2 would be gamma.
    """

    name: ClassVar[str] = "tweedie"
    default_metric: ClassVar[str] = "tweedie"
    code: ClassVar[int] = 10

    def __init__(self, variance_power: float = 1.5, boost_from_average: bool = True) -> None:
        super().__init__(0.0, boost_from_average)
        self.variance_power = variance_power

    @classmethod
    def from_params(cls, params: Params) -> TweedieObjective:
        """Take tweedie_variance_power."""
        return cls(params.tweedie_variance_power, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = 1 - rho, b = 2 - rho."""
        return 1.0 - self.variance_power, 2.0 - self.variance_power

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Leave all parameters alone: hessians have the unit of the labels."""
        return {}

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """t = label * exp(a * score); e = exp(b * score); g = e - t; h = b * e - a * t."""
        a, b = self.constants
        score = bounded(score)
        t = label * numerics.exp(a * score)
        e = numerics.exp(b * score)
        return e - t, b * e - a * t
