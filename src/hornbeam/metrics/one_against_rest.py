"""Metrics of two classes for several: the mean over the classes, each against all others, weighted by its rows."""

from __future__ import annotations

import numpy as np

from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import Metric, check_classes
from hornbeam.metrics.class_order import OrderOfClasses
from hornbeam.objectives.base import FloatArray, Objective


class OneAgainstRest(Metric):
    """`auc` or `average_precision` of several classes, as XGBoost has them.

    A class counts with its share of the rows, or of their weight. Scores are the predicted probabilities of the class.
    Classes without rows, or without other rows, are left out; 1.0 where none is left.

    metric  the one of two classes
    """

    def __init__(self, metric: OrderOfClasses) -> None:
        self._metric = metric
        self.name = metric.name  # type: ignore[misc]
        self.higher_is_better = metric.higher_is_better  # type: ignore[misc]
        self.for_classes = True  # type: ignore[misc]

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
        chances = arithmetic.transform(objective, raw_scores)
        total, of_all = 0.0, 0.0
        for k in range(len(raw_scores)):  # in this order: a sum of floats
            is_one = label == k
            share = float(is_one.sum() if weight is None else weight[is_one].sum())
            others = float((~is_one).sum() if weight is None else weight[~is_one].sum())
            if share == 0.0 or others == 0.0:
                continue
            value = self._metric(
                is_one.astype(np.float64), np.ascontiguousarray(chances[k : k + 1]), weight, objective, arithmetic
            )
            total, of_all = total + share * value, of_all + share
        return total / of_all if of_all > 0.0 else 1.0
