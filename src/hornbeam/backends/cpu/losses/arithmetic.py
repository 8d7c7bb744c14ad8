"""Arithmetic of metrics with compiled kernels and threads: the bits of `metrics.arithmetic.NumpyArithmetic`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.losses.evaluation import mean_loss, ranks_among_kernel
from hornbeam.backends.cpu.losses.gradients import transform_scores
from hornbeam.backends.cpu.losses.ranked_lists import query_values
from hornbeam.metrics.arithmetic import FloatArray, IntArray, ListValue, RowLoss
from hornbeam.objectives.base import Objective


class CompiledArithmetic:
    """Kernels on a number of threads, which cannot be seen in the result."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    def transform(self, objective: Objective, raw_scores: FloatArray) -> FloatArray:
        """Return the predictions of raw scores."""
        return transform_scores(objective, raw_scores, self.n_threads)

    def mean_loss(self, loss: RowLoss, label: FloatArray, predictions: FloatArray, weight: FloatArray | None) -> float:
        """Return the weighted mean of a loss."""
        return mean_loss(loss.name, label, predictions, weight, self.n_threads, loss.constants)

    def sort_apart(self, scores: FloatArray, first: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Sort twice, side by side: several times faster than one argsort."""
        parts = [scores[first], scores[~first]]

        def sort(start: int, stop: int) -> None:
            for part in parts[start:stop]:
                part.sort()

        run_ranges(sort, 2, self.n_threads)
        return parts[0], parts[1]

    def ranks_among(self, values: FloatArray, others: FloatArray) -> tuple[IntArray, IntArray]:
        """Merge."""
        below, not_above = ranks_among_kernel(values, others)
        return below, not_above

    def list_values(self, metric: ListValue, label: FloatArray, scores: FloatArray, boundaries: IntArray) -> FloatArray:
        """Return the metric of every query at every rank."""
        return query_values(metric.name, scores, label, boundaries, metric.at, metric.gains, self.n_threads)
