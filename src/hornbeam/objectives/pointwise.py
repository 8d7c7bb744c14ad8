"""What the losses of one score and one label share, so that each is one formula on every backend."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from hornbeam.objectives.base import FloatArray, Objective, require_labels
from hornbeam.objectives.label_sums import LabelSums, weighted_mean


class PointwiseObjective(Objective):
    """A loss of one score and one label with two constants: `derivatives` is all that differs.

    Backends keep one kernel a formula: cpu/losses/pointwise.py by name, gpu/kernels/losses/losses.h by `code`.

    Attributes
    ----------
    code
        Value of OBJECTIVE in kernels/losses/losses.h; every objective has its own.
    starts_at_mean
        Whether `best_constant` depends on the mean label alone.
    """

    code: ClassVar[int]
    starts_at_mean: ClassVar[bool] = True

    @property
    def constants(self) -> tuple[float, float]:
        """The constants `a` and `b` of the formula."""
        return 0.0, 0.0

    @property
    def formula(self) -> tuple[int, float, float]:
        """The code and the constants."""
        return (self.code, *self.constants)

    @abstractmethod
    def derivatives(self, score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and hessian of each row, before weights; all float64 (n_rows,)."""

    def check_labels(self, label: FloatArray | None) -> None:
        """Any finite label will do."""
        require_labels(label, self.name)

    def init_scores(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the score of `best_constant`, or zero."""
        return np.array([self.best_constant(label, weight) if self.boost_from_average else 0.0])

    def scores_of_sums(self, sums: LabelSums) -> FloatArray | None:
        """Return the score of the mean label, where it is that, or zero."""
        if not self.boost_from_average:
            return np.zeros(1)
        return np.array([self.constant_of_mean(sums.mean())]) if self.starts_at_mean else None

    def best_constant(self, label: FloatArray, weight: FloatArray | None) -> float:
        """Return the raw score to start from: that of the (weighted) mean label."""
        return self.constant_of_mean(weighted_mean(label, weight))

    def constant_of_mean(self, mean: float) -> float:
        """Return the raw score of a mean label: the mean itself."""
        return mean

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return `derivatives`; with weights g = g * w, h = h * w."""
        gradient, hessian = self.derivatives(scores[0], label)
        if weight is not None:
            gradient, hessian = gradient * weight, hessian * weight
        return gradient[None], hessian[None]

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the raw scores themselves."""
        return raw
