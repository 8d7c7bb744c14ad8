"""Hinge loss of two classes: a margin between them, and classes as predictions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.objectives.base import FloatArray
from hornbeam.objectives.binary import BinaryObjective
from hornbeam.objectives.pointwise import PointwiseObjective
from hornbeam.params.params import Params


class HingeObjective(PointwiseObjective):
    """Loss max(0, 1 - y * score), where y is -1 for label 0 and 1 for label 1 (XGBoost's binary:hinge).

    Rows beyond the margin have gradient and hessian 0; XGBoost's hessian is the smallest float there.
    """

    name: ClassVar[str] = "hinge"
    default_metric: ClassVar[str] = "binary_error"
    link: str = "step"
    labels: ClassVar[str] = "binary"
    code: ClassVar[int] = 16

    def __init__(self, boost_from_average: bool = True) -> None:
        super().__init__(1, boost_from_average)

    @classmethod
    def from_params(cls, params: Params) -> HingeObjective:
        """Take boost_from_average."""
        return cls(params.boost_from_average)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be 0 or 1."""
        BinaryObjective.check_labels(self, label)  # type: ignore[arg-type]  # uses the name alone

    def constant_of_mean(self, mean: float) -> float:
        """Return the class of most rows, 0 or 1 (as XGBoost, whose start is a prediction and a score at once)."""
        return 1.0 if mean > 0.5 else 0.0

    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """y = 2 * label - 1; where y * score < 1: g = -y, h = 1; else both are 0."""
        y = 2.0 * label - 1.0
        is_near = y * score < 1.0
        return np.where(is_near, -y, 0.0), np.where(is_near, 1.0, 0.0)

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the class: 1 where the score is above 0, else 0."""
        return np.where(raw > 0.0, 1.0, 0.0)
