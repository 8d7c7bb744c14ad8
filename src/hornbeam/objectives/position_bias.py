"""Unbiased ranking: how much a click owes to the position at which a document was shown (LightGBM's `position`).

Every position has a bias, which is added to the scores of its documents before the gradients are computed. After that
the biases take a Newton step of their own: for each position, with sums over its documents,

    first  = -(sum of gradients) - bias * regularization * (number of documents)
    second = -(sum of hessians) - regularization * (number of documents)
    bias   = bias + learning_rate * first / (|second| + 0.001)

Sums are exact (core/fixed_point.py), so neither the order of the rows nor the device can be seen. The model predicts
without biases: they belong to the data. A training computes these gradients on the host, whatever its device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import exact_exponent

FloatArray = NDArray[np.float64]

LEAST_CURVATURE = 0.001
"""Added to the second derivative that a step is divided by (LightGBM)."""


class PositionBias:
    """The biases of the positions of a training.

    Parameters
    ----------
    position
        float64 (n_rows,), whole numbers.
    regularization, learning_rate
        As above.

    Attributes
    ----------
    bias
        float64 (n_positions,), in the order of the positions; changed by `step`.
    """

    def __init__(self, position: FloatArray, regularization: float, learning_rate: float) -> None:
        self.positions, self._code, self._count = np.unique(position, return_inverse=True, return_counts=True)
        self.regularization, self.learning_rate = regularization, learning_rate
        self.bias = np.zeros(len(self.positions))

    def adjusted(self, scores: FloatArray) -> FloatArray:
        """Return scores with the biases of their positions; both float64 (1, n_rows)."""
        return np.asarray(scores + self.bias[self._code])

    def step(self, gradient: FloatArray, hessian: FloatArray) -> None:
        """Move the biases.

        gradient, hessian  float64 (n_rows,)  in  at the adjusted scores, with weights
        """
        penalty = self.regularization * self._count.astype(np.float64)
        first = -self._sums(gradient) - self.bias * penalty
        second = -self._sums(hessian) - penalty
        self.bias = self.bias + (self.learning_rate * first) / (np.abs(second) + LEAST_CURVATURE)

    def _sums(self, values: FloatArray) -> FloatArray:
        """Return the exact sum of each position's values, float64 (n_positions,)."""
        exponent = exact_exponent(float(np.max(np.abs(values))), len(values))
        total = np.zeros(len(self.bias), np.int64)
        np.add.at(total, self._code, np.rint(values * 2.0**exponent).astype(np.int64))
        return np.asarray(total.astype(np.float64) * 2.0**-exponent)
