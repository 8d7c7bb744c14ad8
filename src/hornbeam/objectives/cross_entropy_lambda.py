"""Cross entropy of labels from 0 to 1 whose weights are exponents, or counts of trials (LightGBM).

A row of weight w holds if one of w trials does, each with the probability p = 1 / (1 + exp(-score)):

    z = 1 - (1 - p)**w = 1 - exp(-w * l),   l = log(1 + exp(score)), the prediction

The loss is -(y * log(z) + (1 - y) * log(1 - z)). It is written so that nothing cancels or overflows for scores far from
0; they count as at most 300 in magnitude where there are weights.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.core.errors import DataError
from hornbeam.data.columns import DeviceColumn, host_of
from hornbeam.data.fields import Fields
from hornbeam.objectives.base import FloatArray, first_wrong_label, require_domain
from hornbeam.objectives.binary import SMALLEST_SHARE
from hornbeam.objectives.log_link import bounded
from hornbeam.objectives.pointwise import PointwiseObjective
from hornbeam.params.params import Params


class CrossEntropyLambdaObjective(PointwiseObjective):
    """The loss above; without weights the gradients are those of cross_entropy."""

    name: ClassVar[str] = "cross_entropy_lambda"
    default_metric: ClassVar[str] = "cross_entropy_lambda"
    link: str = "softplus"
    labels: ClassVar[str] = "unit"
    code: ClassVar[int] = 17

    def __init__(self, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)

    @classmethod
    def from_params(cls, params: Params) -> CrossEntropyLambdaObjective:
        """Take boost_from_average."""
        return cls(params.boost_from_average)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be probabilities."""
        require_domain(label, self.name, "outside [0, 1]", "rescale the labels, or use objective='regression'")

    def check_weights(self, dataset: Fields) -> None:
        """Weights must be positive."""
        require_weights(dataset, f"objective {self.name!r}")

    def constant_of_mean(self, mean: float) -> float:
        """Return the score whose prediction is the (weighted) mean label, log(exp(mean) - 1) (as LightGBM)."""
        return float(numerics.softplus_inverse(np.array([max(mean, SMALLEST_SHARE)]))[0])

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """p = 1 / (1 + exp(-score)); g = p - label; h = p * (1 - p)."""
        p = numerics.sigmoid(score)
        return p - label, p * (1.0 - p)

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return `derivatives`; with weights the following, in the order of operations.

        s = the score, clipped to +-300; p = 1 / (1 + exp(-s)); m = 1 / (1 + exp(s)); l = softplus(s);
        x = w * l; q = exp(-x); d = 1 - q; r = x / (1 - exp(-x)): 1 where d is 0, x where it is 1, else -log(q) / d;
        t = (p / l) * r; a = w * p; g = a - y * t; h = max(0, a * m + y * (t * (t * q - m))).
        """
        if weight is None:
            return super().gradients(scores, label, None)
        score = bounded(scores[0])
        p, m, prediction = numerics.sigmoid(score), numerics.sigmoid(-score), numerics.softplus(score)
        x = weight * prediction
        q = numerics.exp(-x)
        d = 1.0 - q
        ratio = np.where(d == 0.0, 1.0, np.where(d == 1.0, x, -numerics.log(q) / np.where(d == 0.0, 1.0, d)))
        t = (p / prediction) * ratio
        a = weight * p
        hessian = a * m + label * (t * (t * q - m))
        return (a - label * t)[None], np.where(hessian > 0.0, hessian, 0.0)[None]

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return log(1 + exp(raw))."""
        return numerics.softplus(raw)


def require_weights(dataset: Fields, what: str) -> None:
    """Raise DataError if a row of a data set has no weight; messages begin with `what`."""
    weight = dataset.given("weight")
    if weight is None or (isinstance(weight, DeviceColumn) and weight.facts.smallest > 0.0):
        return
    on_host = host_of(weight)
    assert on_host is not None
    found = first_wrong_label(on_host, on_host <= 0.0)
    if found is not None:
        raise DataError(f"{what} takes positive weights, but {found.replace('label', 'weight')}; leave such rows out")
