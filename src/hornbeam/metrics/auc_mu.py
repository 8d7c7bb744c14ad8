"""auc_mu: how well the scores of several classes tell each pair of them apart."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from hornbeam.core.errors import ParameterError
from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import Metric, check_classes
from hornbeam.metrics.class_order import AreaUnderCurve
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.params.params import Params


class AucMu(Metric):
    """Mean, over the pairs of classes, of the area under the curve of score[i] - score[j] on the rows of the two.

    Kleiman and Page 2019. Pairs with an absent class are left out; 1.0 where no pair is left.

    Parameters
    ----------
    weights
        n_classes * n_classes costs of misclassification A, row after row, the diagonal 0; None: all are 1, and kernels
        do it. With them the score of a pair is (v[i] - v[j]) * sum(v * score), where v = A[i] - A[j], as in LightGBM.
    """

    name: ClassVar[str] = "auc_mu"
    higher_is_better: ClassVar[bool] = True
    for_classes: ClassVar[bool] = True

    def __init__(self, weights: tuple[float, ...] | None = None) -> None:
        self.weights: FloatArray | None = None
        if weights is not None:
            size = math.isqrt(len(weights))
            self.weights = np.array(weights, np.float64).reshape(size, size)
            np.fill_diagonal(self.weights, 0.0)
            if not (self.weights[~np.eye(size, dtype=bool)] != 0.0).all():
                raise ParameterError("auc_mu_weights has zeros beside the diagonal; every cost must be another number")

    @classmethod
    def from_params(cls, params: Params) -> AucMu:
        """Take auc_mu_weights."""
        given = params.auc_mu_weights
        if given is not None and len(given) != params.num_class**2:
            raise ParameterError(
                f"auc_mu_weights has {len(given)} numbers and num_class={params.num_class}; give num_class squared"
            )
        return cls(given)

    def _margin(self, scores: FloatArray, i: int, j: int) -> FloatArray:
        """Return by how much rows are rather of class i than of class j, float64 (n_rows,), from their scores."""
        if self.weights is None:
            return np.asarray(scores[i] - scores[j])
        v = self.weights[i] - self.weights[j]
        total = np.zeros(scores.shape[1])
        for k in range(len(v)):  # in this order: a sum of floats
            total += v[k] * scores[k]
        return np.asarray((v[i] - v[j]) * total)

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Evaluate the metric; arguments as in `Metric.__call__`."""
        check_classes(label, len(raw_scores))
        if np.isnan(raw_scores).any():
            return float("nan")
        rows_of = [np.flatnonzero(label == k) for k in range(len(raw_scores))]
        held = [k for k, rows in enumerate(rows_of) if len(rows) and (weight is None or weight[rows].any())]
        pairs = [(i, j) for i in held for j in held if i < j]
        area, total = AreaUnderCurve(), 0.0
        for i, j in pairs:  # in this order: a sum of floats
            rows = np.concatenate([rows_of[i], rows_of[j]])
            margin = self._margin(raw_scores[:, rows], i, j)[None]
            of_first = (label[rows] == i).astype(np.float64)
            total += area(of_first, margin, None if weight is None else weight[rows], objective, arithmetic)
        return total / len(pairs) if pairs else 1.0
