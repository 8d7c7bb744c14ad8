"""Metrics of labels of several columns: the mean over all of their numbers (as XGBoost)."""

from __future__ import annotations

import numpy as np

from hornbeam.core.errors import ParameterError
from hornbeam.data.fields import Fields
from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import MeanLoss, Metric
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.objectives.targets import TargetsObjective


class TargetsMetric(Metric):
    """A mean loss over all rows and columns; the weight of a row is that of each of its numbers.

    Parameters
    ----------
    metric
        The metric of one column.
    """

    def __init__(self, metric: Metric) -> None:
        if not isinstance(metric, MeanLoss) or metric.for_classes or type(metric).targets is not MeanLoss.targets:
            raise ParameterError(
                f"metric={metric.name!r} has no meaning for labels of several columns; means of losses do: l2, rmse, "
                "l1, binary_logloss, binary_error and the like"
            )
        self.metric = metric
        self.name = metric.name  # type: ignore[misc]  # those of the class in other metrics
        self.labels = metric.labels  # type: ignore[misc]
        self.higher_is_better = metric.higher_is_better  # type: ignore[misc]

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Return the mean over all numbers; label is float64 (n_rows, n_outputs)."""
        return self._of_numbers(by_number(label), raw_scores, weight, objective, arithmetic)

    def evaluate(
        self, dataset: Fields, raw_scores: FloatArray, objective: Objective, arithmetic: Arithmetic = NUMPY
    ) -> list[tuple[str, float]]:
        """Return name and value; arguments as in `Metric.evaluate`."""
        label = dataset.label
        assert label is not None
        numbers = dataset.derived("labels by number", lambda: by_number(label))
        return [(self.name, self._of_numbers(numbers, raw_scores, dataset.weight, objective, arithmetic))]

    def _of_numbers(
        self,
        numbers: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic,
    ) -> float:
        of_one = objective.parts[0] if isinstance(objective, TargetsObjective) else objective
        weights = None if weight is None else np.tile(weight, len(raw_scores))
        return self.metric(numbers, np.ascontiguousarray(raw_scores).reshape(1, -1), weights, of_one, arithmetic)


def by_number(label: FloatArray) -> FloatArray:
    """Return labels (n_rows, n_columns) one column after the other, float64 (n_columns * n_rows,)."""
    return np.ascontiguousarray(label.T).reshape(-1)
