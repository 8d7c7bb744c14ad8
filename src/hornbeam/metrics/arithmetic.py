"""What metrics are computed with: NumPy, the definition, or compiled kernels that give the same bits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import exact_sum
from hornbeam.data.queries import discounts
from hornbeam.objectives.base import Objective

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class RowLoss(Protocol):
    """A loss of each row: `base.MeanLoss`, as far as the arithmetic looks at it."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """Name of the metric."""

        @property
        def constants(self) -> tuple[float, float] | None:
            """The constants a and b of the loss; None: it has none."""

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Return the loss of each row, float64 (n_rows,)."""


class ListValue(Protocol):
    """The value of a ranked list: `ranked_lists.QueryMetric`, as far as the arithmetic looks at it."""

    at: tuple[int, ...]
    gains: FloatArray

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """Name of the metric."""

    def of_query(self, label: FloatArray, at: int, table: FloatArray) -> float:
        """Return the value of one query at one rank."""


class Arithmetic(Protocol):
    """The operations whose time counts."""

    def transform(self, objective: Objective, raw_scores: FloatArray) -> FloatArray:
        """Return `objective.transform`, float64 (n_outputs, n_rows)."""

    def mean_loss(self, loss: RowLoss, label: FloatArray, predictions: FloatArray, weight: FloatArray | None) -> float:
        """Return sum(loss * weight) / sum(weight), in exact sums; NaN where a loss is NaN or infinite.

        label        float64 (n_rows,)            in   or (n_targets, n_rows): see MeanLoss.targets
        predictions  float64 (n_outputs, n_rows)  in   C order
        weight       float64 (n_rows,)            in   or None
        """

    def sort_apart(self, scores: FloatArray, first: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the rows where `first` is true, and those of the others, each sorted."""

    def ranks_among(self, values: FloatArray, others: FloatArray) -> tuple[IntArray, IntArray]:
        """Count, for each value, how many of the others are below it, and how many are not above it.

        values  float64 (n,)  in   ascending
        others  float64 (m,)  in   ascending
        """

    def list_values(self, metric: ListValue, label: FloatArray, scores: FloatArray, boundaries: IntArray) -> FloatArray:
        """Return the metric of every query at every rank, float64 (n_ranks, n_queries).

        label, scores  float64 (n_rows,)       in
        boundaries     int64 (n_queries + 1,)  in
        """


class NumpyArithmetic:
    """The definition."""

    def transform(self, objective: Objective, raw_scores: FloatArray) -> FloatArray:
        """Call the objective."""
        return objective.transform(raw_scores)

    def mean_loss(self, loss: RowLoss, label: FloatArray, predictions: FloatArray, weight: FloatArray | None) -> float:
        """Weigh the loss of each row, and add up."""
        losses = loss.losses(label, predictions)
        if weight is not None:
            losses = losses * weight
        if not np.isfinite(losses).all():
            return float("nan")
        return exact_sum(losses) / (len(losses) if weight is None else exact_sum(weight))

    def sort_apart(self, scores: FloatArray, first: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Sort twice."""
        return np.sort(scores[first]), np.sort(scores[~first])

    def ranks_among(self, values: FloatArray, others: FloatArray) -> tuple[IntArray, IntArray]:
        """Search from the left and from the right."""
        return np.searchsorted(others, values, "left"), np.searchsorted(others, values, "right")

    def list_values(self, metric: ListValue, label: FloatArray, scores: FloatArray, boundaries: IntArray) -> FloatArray:
        """Rank the documents of one query after the other."""
        values = np.empty((len(metric.at), len(boundaries) - 1))
        table = discounts(int(np.diff(boundaries).max()))
        for query, (start, stop) in enumerate(pairwise(boundaries.tolist())):
            order = np.argsort(-scores[start:stop], kind="stable")
            ranked = label[start:stop][order]
            for i, at in enumerate(metric.at):
                values[i, query] = metric.of_query(ranked, at or len(ranked), table)
        return values


NUMPY = NumpyArithmetic()
