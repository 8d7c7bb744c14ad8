"""Accelerated failure time: the logarithm of a time is score + scale * (a random number), and times may be censored.

A row says that its time lies between two bounds: equal ones are an observed time, an upper bound of infinity is a row
that was still alive at the lower one (right-censored), a lower bound of 0 one that failed before the upper one. With

    z = (log(bound) - score) / scale,   f and F density and distribution function of the random number

the loss is -log(F(z of the upper) - F(z of the lower)), and -log(f(z) / (scale * time)) for an observed time. Its
derivatives are those of XGBoost's survival:aft, which clips them in the same way. They are written so that nothing
cancels or underflows far out in the tails, where F(upper) - F(lower) by itself would be 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.data.columns import Facts
from hornbeam.data.fields import Fields
from hornbeam.objectives.base import FloatArray, Objective, require_domain
from hornbeam.objectives.label_sums import LabelSums, weighted_mean
from hornbeam.params.params import Params

DISTRIBUTIONS = {"normal": 0, "logistic": 1, "extreme": 2}
"""Number of a distribution in kernels, by name."""

FARTHEST = 1e4
"""z counts as at most this in magnitude: further out the derivatives do not change, or are clipped."""

NO_BOUND = 1e30
"""Stands for the logarithm of infinity, and its negative for that of 0."""

NARROW = 2.0**-16
"""z of the bounds closer than this: the density in their middle counts, which is more exact than the difference."""

LARGEST_GRADIENT = 15.0
SMALLEST_HESSIAN, LARGEST_HESSIAN = 1e-16, 15.0
"""Derivatives are clipped to these (XGBoost)."""

ROOT_TAU = 2.5066282746310002
"""The square root of 2 pi."""


class AftObjective(Objective):
    """The loss above; predictions are times, exp(score).

    `bind` makes the objective that is trained on a data set; only that one has `bounds`.
    """

    name: ClassVar[str] = "survival:aft"
    default_metric: ClassVar[str] = "aft-nloglik"
    link: str = "exp"
    labels: ClassVar[str] = "positive"

    def __init__(self, distribution: str = "normal", scale: float = 1.0, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.distribution = distribution
        self.scale = float(scale)
        self.bounds: FloatArray | None = None

    @classmethod
    def from_params(cls, params: Params) -> AftObjective:
        """Take the distribution and its scale."""
        return cls(params.aft_loss_distribution, params.aft_loss_distribution_scale, params.boost_from_average)

    @property
    def constants(self) -> tuple[int, float]:
        """Number of the distribution, and 1 / scale."""
        return DISTRIBUTIONS[self.distribution], 1.0 / self.scale

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be positive: observed times."""
        require_domain(
            label, self.name, "<= 0", "times are positive; censored ones are given by label_lower_bound and "
            "label_upper_bound of Dataset",
        )  # fmt: skip

    def check_data(self, dataset: Fields) -> None:
        """Bounds have been checked by the Dataset; without them labels are observed times."""
        if dataset.bounds is None:
            super().check_data(dataset)

    def accepts(self, facts: Facts) -> bool:
        """Say no: bounds are prepared on the host."""
        return False

    def bind(self, dataset: Fields) -> AftObjective:
        """Return this objective with the bounds of a data set."""
        bound = copy.copy(self)
        bound.bounds = log_bounds(dataset)
        return bound

    @property
    def prepares(self) -> bool:
        """Whether labels become logarithms of bounds."""
        return True

    def prepare(self, label: FloatArray | None, weight: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Return the logarithms of the bounds, float64 (2, n_rows), in the place of the labels."""
        assert self.bounds is not None, "bind(dataset) comes first"
        return self.bounds, weight

    def init_scores(self, label: FloatArray | None, weight: FloatArray | None) -> FloatArray:
        """Return the (weighted) mean of the logarithms: of the middle of an interval, else of the bound there is."""
        assert self.bounds is not None, "bind(dataset) comes first"
        if not self.boost_from_average:
            return np.zeros(1)
        low, high = self.bounds
        low, high = np.where(low == -NO_BOUND, high, low), np.where(high == NO_BOUND, low, high)
        known = 0.5 * (low + high)
        return np.array([weighted_mean(np.where(np.abs(known) < NO_BOUND, known, 0.0), weight)])

    def scores_of_sums(self, sums: LabelSums) -> FloatArray | None:
        """Return nothing: the bounds themselves are needed."""
        return None

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Order of operations, with i = 1 / scale and r, c from `SLOPES`.

        z = (log bound - score) * i, clipped to +-1e4; g = r * i, clipped to +-15; h = c * (i * i), clipped to
        1e-16 ... 15; with weights g = g * w, h = h * w.

        label  float64 (2, n_rows)  in  as `prepare` returns it
        """
        inverse = 1.0 / self.scale
        low, high = (times_apart(bound, scores[0], inverse) for bound in label)
        slope, bend = SLOPES[self.distribution](low, high)
        with np.errstate(over="ignore"):  # infinity is clipped too
            gradient, hessian = slope * inverse, bend * (inverse * inverse)
        gradient = np.minimum(np.maximum(gradient, -LARGEST_GRADIENT), LARGEST_GRADIENT)
        hessian = np.minimum(np.maximum(hessian, SMALLEST_HESSIAN), LARGEST_HESSIAN)
        if weight is not None:
            gradient, hessian = gradient * weight, hessian * weight
        return gradient[None], hessian[None]

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the predicted times, exp(raw)."""
        return numerics.exp(raw)


def log_bounds(dataset: Fields) -> FloatArray:
    """Return the logarithms of the bounds of times, float64 (2, n_rows); of the labels twice where there are none."""

    def find() -> FloatArray:
        bounds = dataset.bounds
        if bounds is None:
            label = dataset.label
            assert label is not None  # check_data has been called
            log_label = numerics.log(label)
            return np.stack([log_label, log_label])
        found = numerics.log(np.minimum(bounds, np.finfo(np.float64).max))
        found[0, bounds[0] == 0.0] = -NO_BOUND
        found[1, np.isinf(bounds[1])] = NO_BOUND
        return found

    return dataset.derived("log bounds", find)


def times_apart(bound: FloatArray, score: FloatArray, inverse: float) -> FloatArray:
    """Return z of one bound: (log bound - score) * inverse, clipped; all float64 (n_rows,)."""
    return np.minimum(np.maximum((bound - score) * inverse, -FARTHEST), FARTHEST)


def normal_slopes(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return r = (f(high) - f(low)) / D, D = F(high) - F(low), and c = (high * f(high) - low * f(low)) / D + r * r.

    The interval is mirrored (a, b = -high, -low, and -r) where it lies more to the left, so that b >= |a|. Narrow ones
    have r = -(a + b) / 2 and c = 1. Else everything is divided by f(a): with R the Mills ratio and
    e = exp(-((b - a) * (b + a)) / 2), D is R(a) - e * R(b), or ((sqrt(2 pi) * exp(a * a / 2)) - R(-a)) - e * R(b)
    where a < 0.
    """
    mirrored = low + high < 0.0
    a, b = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    e = numerics.exp(-0.5 * ((b - a) * (b + a)))
    near, far = numerics.mills_ratio(np.abs(a)), e * numerics.mills_ratio(b)
    middle = (ROOT_TAU * numerics.exp(0.5 * (a * a)) - near) - far
    is_narrow = b - a < NARROW
    difference = np.where(is_narrow, 1.0, np.where(a < 0.0, middle, near - far))
    r = np.where(is_narrow, -0.5 * (a + b), (e - 1.0) / difference)
    c = np.where(is_narrow, 1.0, (b * e - a) / difference + r * r)
    return np.where(mirrored, -r, r), c


def logistic_slopes(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same of F(z) = 1 / (1 + exp(-z)): r = (1 - F(high)) - F(low), c = the sum of F * (1 - F) of both."""
    below, above = numerics.sigmoid(low), numerics.sigmoid(-high)
    return above - below, below * (1.0 - below) + above * (1.0 - above)


def extreme_slopes(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same of F(z) = 1 - exp(-exp(z)): with w = exp(low), d = exp(high) - w and B = d / (exp(d) - 1),
    r = B - w and c = w + B * ((B + d) - 1).
    """  # noqa: D205
    w = numerics.exp(low)
    d = numerics.exp(high) - w
    ratio = numerics.bernoulli_ratio(d)
    return ratio - w, w + ratio * ((ratio + d) - 1.0)


Slopes = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
SLOPES: dict[str, Slopes] = {"normal": normal_slopes, "logistic": logistic_slopes, "extreme": extreme_slopes}
"""First and second derivative of the loss by -z, of both bounds at once, by distribution."""


def normal_parts(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return f(low), and F(high) - F(low) as in `normal_slopes`: f(a) * (R(a) - e * R(b)), or 1 less the two tails."""
    mirrored = low + high < 0.0
    a, b = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    e = numerics.exp(-0.5 * ((b - a) * (b + a)))
    near, far = numerics.mills_ratio(np.abs(a)), e * numerics.mills_ratio(b)
    density = numerics.exp(-0.5 * (a * a)) / ROOT_TAU
    between = np.where(a < 0.0, (1.0 - density * near) - density * far, density * (near - far))
    return numerics.exp(-0.5 * (low * low)) / ROOT_TAU, between


def logistic_parts(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return f(low) = F * (1 - F), and F(high) - F(low), by the upper tails where low > 0."""
    below, above = numerics.sigmoid(low), numerics.sigmoid(-low)
    between = np.where(low > 0.0, above - numerics.sigmoid(-high), numerics.sigmoid(high) - below)
    return below * above, between


def extreme_parts(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return f(low) = w * exp(-w), and F(high) - F(low) = exp(-w) * (1 - exp(-(exp(high) - w)))."""
    w = numerics.exp(low)
    survival = numerics.exp(-w)
    return w * survival, survival * (1.0 - numerics.exp(-(numerics.exp(high) - w)))


PARTS: dict[str, Slopes] = {"normal": normal_parts, "logistic": logistic_parts, "extreme": extreme_parts}
"""Density at the lower bound, and probability between the bounds, by distribution."""

SMALLEST_LIKELIHOOD = 1e-12
"""Likelihoods below count as this (XGBoost)."""


def likelihood_losses(distribution: str, scale: float, bounds: FloatArray, score: FloatArray) -> NDArray[np.float64]:
    """Return the loss of each row, float64 (n_rows,).

    bounds  float64 (2, n_rows)  in  logarithms
    score   float64 (n_rows,)    in

    Order of operations: z as in `AftObjective.gradients`; for an observed time q = (f * i) / exp(log bound), else
    q = F(high) - F(low); -log(max(q, 1e-12)). NaN where the score is.
    """
    inverse = 1.0 / scale
    low, high = (times_apart(bound, score, inverse) for bound in bounds)
    density, between = PARTS[distribution](low, high)
    observed = (density * inverse) / numerics.exp(bounds[0])
    likelihood = np.where(bounds[0] == bounds[1], observed, between)
    losses = -numerics.log(np.maximum(likelihood, SMALLEST_LIKELIHOOD))
    return np.where(score == score, losses, score)
