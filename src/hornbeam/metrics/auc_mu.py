"""auc_mu: how well the scores of several classes tell each pair of them apart."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import Metric, check_classes
from hornbeam.metrics.class_order import AreaUnderCurve
from hornbeam.objectives.base import FloatArray, Objective


class AucMu(Metric):
    """Mean, over the pairs of classes, of the area under the curve of score[i] - score[j] on the rows of the two.

    Kleiman and Page 2019, with equal costs (LightGBM's default). Pairs with an absent class are left out; 1.0 where no
    pair is left.
    """

    name: ClassVar[str] = "auc_mu"
    higher_is_better: ClassVar[bool] = True
    for_classes: ClassVar[bool] = True

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
            margin = (raw_scores[i, rows] - raw_scores[j, rows])[None]
            of_first = (label[rows] == i).astype(np.float64)
            total += area(of_first, margin, None if weight is None else weight[rows], objective, arithmetic)
        return total / len(pairs) if pairs else 1.0
