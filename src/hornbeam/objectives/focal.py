"""Focal loss of two classes: rows that are classified well already count little."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.objectives.base import FloatArray
from hornbeam.objectives.binary import BinaryObjective
from hornbeam.objectives.pointwise import PointwiseObjective
from hornbeam.params.params import Params


class FocalObjective(PointwiseObjective):
    """Loss -w * (1 - p)**gamma * log(p), where p is the probability of the true class (Lin et al. 2017).

    w is alpha for label 1 and 1 - alpha for label 0. With gamma = 0 and alpha = 0.5 it is half the logistic loss.

    The second derivative is negative for rows that are classified badly. Its only negative part is left out, so the
    hessian is an upper bound, and the second derivative itself where p >= 1 / (1 + gamma).
    """

    name: ClassVar[str] = "focal"
    default_metric: ClassVar[str] = "focal"
    link: str = "sigmoid"
    labels: ClassVar[str] = "binary"
    code: ClassVar[int] = 11
    sigmoid: ClassVar[float] = 1.0

    def __init__(self, focal_gamma: float = 2.0, focal_alpha: float = 0.25, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)
        self.focal_gamma = focal_gamma
        self.focal_alpha = focal_alpha

    @classmethod
    def from_params(cls, params: Params) -> FocalObjective:
        """Take focal_gamma and focal_alpha."""
        return cls(params.focal_gamma, params.focal_alpha, params.boost_from_average)

    @property
    def constants(self) -> tuple[float, float]:
        """a = gamma, b = alpha."""
        return self.focal_gamma, self.focal_alpha

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be 0 or 1."""
        BinaryObjective.check_labels(self, label)  # type: ignore[arg-type]  # uses the name alone

    def constant_of_mean(self, mean: float) -> float:
        """Return the log-odds of the (weighted) share of label 1, as `binary`."""
        return float(BinaryObjective().score_of_mean(mean)[0])

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Order of operations, with z = score for label 1 and -score for label 0.

        p = sigmoid(z); m = sigmoid(-z); l = log(p); f = w * exp(a * log(m));
        g = f * (a * (p * l) - m), with the sign turned for label 0;
        h = (f * p) * ((2 * a + 1) * m + max(0, (a * l) * (m - a * p))).
        """
        a, b = self.constants
        positive = label > 0.0
        z = np.where(positive, score, -score)
        p, m = numerics.sigmoid(z), numerics.sigmoid(-z)
        log_p = numerics.log(p)
        factor = np.where(positive, b, 1.0 - b) * numerics.exp(a * numerics.log(m))
        gradient = factor * (a * (p * log_p) - m)
        bend = (a * log_p) * (m - a * p)
        hessian = (factor * p) * ((2.0 * a + 1.0) * m + np.where(bend > 0.0, bend, 0.0))
        return np.where(positive, gradient, -gradient), hessian

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the probability of label 1: 1 / (1 + exp(-raw))."""
        return numerics.sigmoid(raw)
