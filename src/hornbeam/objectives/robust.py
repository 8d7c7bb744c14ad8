"""Regression losses other than the squared error: medians, quantiles, expectiles, and losses that outliers cannot rule.

d is score - label throughout.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.core.fixed_point import exact_sum
from hornbeam.data.fields import Fields
from hornbeam.objectives.base import FloatArray, require_labels
from hornbeam.objectives.label_sums import weighted_mean
from hornbeam.objectives.percentiles import weighted_percentile
from hornbeam.objectives.pointwise import PointwiseObjective
from hornbeam.params.params import Params

MOST_EXPECTILE_STEPS = 100
"""Steps towards an expectile; each changes the rows below it, and a handful suffices."""

FAR_AWAY = 1e100
"""Slopes that residuals of pseudohuber count as at most: their squares are finite."""

SMALLEST_CURVATURE = 1.0 / 64.0
"""Of `logcosh`: that of a row 64 away, which those beyond have too."""


def _sign_of(d: FloatArray, size: FloatArray | float) -> FloatArray:
    """Return size where d > 0, -size where d < 0, else 0."""
    return np.where(d > 0.0, size, np.where(d < 0.0, -size, 0.0))


class AbsoluteErrorObjective(PointwiseObjective):
    """Loss |d|. Leaf values are medians of residuals."""

    name: ClassVar[str] = "regression_l1"
    default_metric: ClassVar[str] = "l1"
    code: ClassVar[int] = 1
    starts_at_mean: ClassVar[bool] = False

    def __init__(self, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)

    @classmethod
    def from_params(cls, params: Params) -> AbsoluteErrorObjective:
        """Take boost_from_average."""
        return cls(params.boost_from_average)

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """g = sign(d), which is 0 for d = 0; h = 1."""
        return _sign_of(score - label, 1.0), np.ones_like(score)

    def best_constant(self, label: FloatArray, weight: FloatArray | None) -> float:
        """Return the (weighted) median label."""
        return weighted_percentile(label, self.renewal_weights(label, weight), 0.5)

    @property
    def renewal_percentile(self) -> float:
        """The median."""
        return 0.5


class PercentageErrorObjective(AbsoluteErrorObjective):
    """Loss |d| / max(1, |label|). Leaf values are medians of residuals, weighted by 1 / max(1, |label|).

    That is the absolute error of rows with these weights, which the search for splits sees in gradient and hessian, as
    any weights; times a `scale` with which they are 1 on average over the rows of a training, so that
    min_sum_hessian_in_leaf and lambda_l2 mean what they mean for regression_l1. (LightGBM's hessian is 1.)
    """

    name: ClassVar[str] = "mape"
    default_metric: ClassVar[str] = "mape"
    code: ClassVar[int] = 2
    renewal_weights_by_label: ClassVar[bool] = True

    def __init__(self, boost_from_average: bool = True, scale: float = 1.0) -> None:
        super().__init__(boost_from_average)
        self.scale = scale

    def bind(self, dataset: Fields) -> PercentageErrorObjective:
        """Return this objective with the scale of a data set."""
        label, weight = require_labels(dataset.label, self.name), dataset.weight
        own = 1.0 / np.maximum(np.abs(label), 1.0)
        total, of_own = (float(len(own)), own) if weight is None else (exact_sum(weight), own * weight)
        found = exact_sum(of_own)
        return PercentageErrorObjective(self.boost_from_average, total / found if found > 0.0 else 1.0)

    @property
    def constants(self) -> tuple[float, float]:
        """a = scale."""
        return self.scale, 0.0

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """h = a / max(1, |label|); g = sign(d) * h."""
        hessian = self.scale / np.maximum(np.abs(label), 1.0)
        return _sign_of(score - label, hessian), hessian

    def renewal_weights(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return (1 / max(1, |label|)) * weight."""
        own = 1.0 / np.maximum(np.abs(label), 1.0)
        return np.asarray(own if weight is None else own * weight)


class QuantileObjective(AbsoluteErrorObjective):
    """Pinball loss: alpha * -d where the score is too low, else (1 - alpha) * d. Leaf values are quantiles."""

    name: ClassVar[str] = "quantile"
    default_metric: ClassVar[str] = "quantile"
    code: ClassVar[int] = 3

    def __init__(self, alpha: float = 0.9, boost_from_average: bool = True) -> None:
        super().__init__(boost_from_average)
        self.alpha = alpha

    @classmethod
    def from_params(cls, params: Params) -> QuantileObjective:
        """Take alpha."""
        return cls(params.level, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = -alpha, b = 1 - alpha."""
        return -self.alpha, 1.0 - self.alpha

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """g = b where d >= 0, else a; h = 1."""
        a, b = self.constants
        return np.where(score - label >= 0.0, b, a), np.ones_like(score)

    def best_constant(self, label: FloatArray, weight: FloatArray | None) -> float:
        """Return the (weighted) quantile of the labels."""
        return weighted_percentile(label, weight, self.alpha)

    @property
    def renewal_percentile(self) -> float:
        """alpha."""
        return self.alpha


class HuberObjective(PointwiseObjective):
    """Loss d**2 / 2 up to |d| = alpha, and alpha * (|d| - alpha / 2) beyond."""

    name: ClassVar[str] = "huber"
    default_metric: ClassVar[str] = "huber"
    code: ClassVar[int] = 4

    def __init__(self, alpha: float = 0.9, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.alpha = alpha

    @classmethod
    def from_params(cls, params: Params) -> HuberObjective:
        """Take alpha."""
        return cls(params.level, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = alpha."""
        return self.alpha, 0.0

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """g = d, clipped to +-alpha; h = 1 (as LightGBM: the curvature of the quadratic part)."""
        d = score - label
        return np.where(d > self.alpha, self.alpha, np.where(d < -self.alpha, -self.alpha, d)), np.ones_like(score)


class FairObjective(PointwiseObjective):
    """Loss c**2 * (|d| / c - log(1 + |d| / c)), whose slope grows to c, and whose curvature r**2 vanishes far away.

    There Newton steps would have no measure. The narrowest parabola that touches the loss at d and lies nowhere below
    it has the curvature r = c / (|d| + c), and the hessian is at least half of it: no learning rate up to 1 raises the
    loss.
    """

    name: ClassVar[str] = "fair"
    default_metric: ClassVar[str] = "fair"
    code: ClassVar[int] = 5

    def __init__(self, fair_c: float = 1.0, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.fair_c = fair_c

    @classmethod
    def from_params(cls, params: Params) -> FairObjective:
        """Take fair_c."""
        return cls(params.fair_c, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = c."""
        return self.fair_c, 0.0

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """r = a / (|d| + a); g = r * d; h = r * max(r, 0.5)."""
        d = score - label
        r = self.fair_c / (np.abs(d) + self.fair_c)
        return r * d, r * np.maximum(r, 0.5)


class PseudoHuberObjective(PointwiseObjective):
    """Loss c**2 * (sqrt(1 + (d / c)**2) - 1), with the slope c: squares for small d, absolute values for large d.

    The second derivative vanishes for rows far away, and Newton steps would have no measure. So the hessian is at least
    half of 1 / sqrt(1 + (d / c)**2), the curvature of the narrowest parabola that touches the loss at d and lies
    nowhere below it: no learning rate up to 1 raises the loss.
    """

    name: ClassVar[str] = "pseudohuber"
    default_metric: ClassVar[str] = "pseudohuber"
    code: ClassVar[int] = 14

    def __init__(self, huber_slope: float = 1.0, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.huber_slope = huber_slope

    @classmethod
    def from_params(cls, params: Params) -> PseudoHuberObjective:
        """Take huber_slope."""
        return cls(params.huber_slope, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = c."""
        return self.huber_slope, 0.0

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """t = d / a, clipped to +-1e100; s = 1 + t * t; r = sqrt(s); g = a * (t / r); h = max(1 / (s * r), 0.5 / r)."""
        with np.errstate(over="ignore"):
            t = np.minimum(np.maximum((score - label) / self.huber_slope, -FAR_AWAY), FAR_AWAY)
        s = 1.0 + t * t
        r = np.sqrt(s)
        return self.huber_slope * (t / r), np.maximum(1.0 / (s * r), 0.5 / r)


class LogCoshObjective(PointwiseObjective):
    """Loss log(cosh(d)): the squared error for small d, the absolute error for large d.

    The second derivative 1 - tanh(d)**2 vanishes for rows far away, and Newton steps would have no measure. So leaf
    values are the minima of the loss of their rows (logcosh_leaves.py). The narrowest parabola that touches the loss at
    d and lies nowhere below it has the curvature tanh(d) / d, and that is the hessian: the gain of a split is what it
    takes off the loss at least. SMALLEST_CURVATURE keeps hessians from vanishing beside lambda_l2 and
    min_sum_hessian_in_leaf, whatever the unit of the labels.

    Monotone constraints need Newton steps. The hessian is then the second derivative, but at least half of that
    curvature, so that no learning rate up to 1 raises the loss. (With the whole of it steps are safe too, but short.)
    """

    name: ClassVar[str] = "logcosh"
    default_metric: ClassVar[str] = "logcosh"
    code: ClassVar[int] = 6
    starts_at_mean: ClassVar[bool] = False
    renews_to_logcosh: ClassVar[bool] = True

    def __init__(self, boost_from_average: bool = True, newton: bool = False) -> None:
        super().__init__(1, boost_from_average)
        self.newton = newton

    @classmethod
    def from_params(cls, params: Params) -> LogCoshObjective:
        """Take boost_from_average; leaves of constrained trees are Newton steps."""
        return cls(params.boost_from_average, params.monotone_constraints is not None)

    @property
    def constants(self) -> tuple[float, float]:
        """a = 1 for Newton steps, else 0."""
        return float(self.newton), 0.0

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """r = tanh(d) / d, see numerics.tanh_ratio; g = d * r; h = max(r, 1/64), or max(1 - g * g, r / 2) if a > 0."""
        d = score - label
        ratio = numerics.tanh_ratio(d)
        gradient = d * ratio
        if not self.newton:
            return gradient, np.maximum(ratio, SMALLEST_CURVATURE)
        return gradient, np.maximum(1.0 - gradient * gradient, 0.5 * ratio)

    @property
    def renewal_percentile(self) -> float | None:
        """The median, to start from."""
        return None if self.newton else 0.5

    def best_constant(self, label: FloatArray, weight: FloatArray | None) -> float:
        """Return the (weighted) median label, which outliers cannot move."""
        return weighted_percentile(label, weight, 0.5)


class ExpectileObjective(PointwiseObjective):
    """Loss alpha * d**2 / 2 where the score is too low, (1 - alpha) * d**2 / 2 where it is not."""

    name: ClassVar[str] = "expectile"
    default_metric: ClassVar[str] = "expectile"
    code: ClassVar[int] = 7
    starts_at_mean: ClassVar[bool] = False

    def __init__(self, alpha: float = 0.9, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.alpha = alpha

    @classmethod
    def from_params(cls, params: Params) -> ExpectileObjective:
        """Take alpha."""
        return cls(params.level, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = alpha, b = 1 - alpha."""
        return self.alpha, 1.0 - self.alpha

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """h = b where d >= 0, else a; g = h * d."""
        a, b = self.constants
        d = score - label
        hessian = np.where(d >= 0.0, b, a)
        return hessian * d, hessian

    def best_constant(self, label: FloatArray, weight: FloatArray | None) -> float:
        """Return the (weighted) expectile of the labels: a mean, with rows below it weighing b and the others a."""
        a, b = self.constants
        w = np.ones_like(label) if weight is None else weight
        found = weighted_mean(label, weight)
        for _ in range(MOST_EXPECTILE_STEPS):
            sided = w * np.where(found - label >= 0.0, b, a)
            following = exact_sum(label * sided) / exact_sum(sided)
            if following == found:
                break
            found = following
        return found
