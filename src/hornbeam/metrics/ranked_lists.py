"""Metrics of ranked lists: ndcg, map, mrr, pre, each at some ranks; the mean over the queries.

The documents of a query are ranked by falling raw score, equal scores in row order (as LightGBM). A query without a
relevant document counts as 1, for no order of it could be better, or as 0 where the name ends in a minus: ndcg@5-
(as XGBoost); to `pre` it always counts as 0. Queries are weighted by the mean weight of their rows. A document is
relevant to `map`, `mrr` and `pre` where its label is above 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.fixed_point import exact_sum
from hornbeam.data.fields import Fields
from hornbeam.data.queries import DEFAULT_LABEL_GAIN, IntArray, check_relevance, query_of_row, query_weights
from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import Metric
from hornbeam.objectives.base import FloatArray, Objective

WHOLE_LIST = 0
"""Stands for no last rank, where a metric looks at the whole list."""


class QueryMetric(Metric):
    """A metric of ranked lists, at several ranks at once.

    Parameters
    ----------
    at
        Ranks at which lists are cut; 0: not at all.
    label_gain
        Gain by label; None: 2**label - 1.
    minus
        Whether a query without a relevant document counts as 0; the name ends in a minus then.
    """

    higher_is_better: ClassVar[bool] = True
    default_at: ClassVar[tuple[int, ...] | None] = None
    """Ranks where none are named; None: the parameter `eval_at`."""

    def __init__(
        self,
        at: tuple[int, ...] = (1, 2, 3, 4, 5),
        label_gain: tuple[float, ...] | None = None,
        minus: bool = False,
    ) -> None:
        self.at = tuple(sorted(set(at), key=lambda rank: rank or math.inf))
        self.gains = np.array(label_gain or DEFAULT_LABEL_GAIN, np.float64)
        self.minus = minus
        if minus:  # kernels go by the name, and do not have this
            self.name = f"{type(self).name}-"  # type: ignore[misc]

    @property
    def names(self) -> list[str]:
        """Names of the values: ndcg@1, ndcg@2, ..."""
        base, minus = type(self).name, "-" if self.minus else ""
        return [f"{base}@{at}{minus}" if at != WHOLE_LIST else f"{base}{minus}" for at in self.at]

    def at_more(self, at: tuple[int, ...]) -> QueryMetric:
        """Return the same metric at these ranks, too."""
        return type(self)((*self.at, *at), tuple(self.gains.tolist()), self.minus)

    def check(self, dataset: Fields, where: str) -> None:
        """Raise DataError unless the data set has queries, and labels that have gains."""
        super().check(dataset, where)
        if dataset.query_boundaries is None:
            raise DataError(
                f"metric {self.name!r} needs to know which rows of {where} belong to one query; pass group= (sizes) or "
                "qid= (one id a row) to Dataset"
            )
        assert dataset.label is not None
        check_relevance(dataset.label, len(self.gains), f"metric {self.name!r}")

    def evaluate(
        self, dataset: Fields, raw_scores: FloatArray, objective: Objective, arithmetic: Arithmetic = NUMPY
    ) -> list[tuple[str, float]]:
        """Return name and value at every rank."""
        assert dataset.query_boundaries is not None and dataset.label is not None
        values = self.at_ranks(dataset.label, raw_scores[0], dataset.weight, dataset.query_boundaries, arithmetic)
        return list(zip(self.names, values, strict=True))

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Not available: lists need their queries, so call `evaluate` or `at_ranks`."""
        raise TypeError(f"metric {self.name!r} needs query boundaries: call evaluate(dataset, ...)")

    def at_ranks(
        self,
        label: FloatArray,
        scores: FloatArray,
        weight: FloatArray | None,
        boundaries: IntArray,
        arithmetic: Arithmetic = NUMPY,
    ) -> list[float]:
        """Return the metric at every rank of `at`.

        label       float64 (n_rows,)        in   whole numbers that have a gain
        scores      float64 (n_rows,)        in
        weight      float64 (n_rows,)        in   or None
        boundaries  int64 (n_queries + 1,)   in
        """
        if np.isnan(scores).any():
            return [float("nan")] * len(self.at)
        return self._means(self._values(label, scores, boundaries, arithmetic), boundaries, weight)

    def _values(
        self, label: FloatArray, scores: FloatArray, boundaries: IntArray, arithmetic: Arithmetic
    ) -> FloatArray:
        """Return the metric of every query at every rank, float64 (n_ranks, n_queries)."""
        if not self.minus:
            return arithmetic.list_values(self, label, scores, boundaries)
        plain = type(self)(self.at, tuple(self.gains.tolist()))
        n_relevant = np.bincount(query_of_row(boundaries), self.relevant(label), len(boundaries) - 1)
        return np.where(n_relevant > 0, plain._values(label, scores, boundaries, arithmetic), 0.0)

    def relevant(self, label: FloatArray) -> NDArray[np.bool_]:
        """Say which documents are relevant, bool (n_rows,)."""
        return label > 0.0

    @staticmethod
    def _means(values: FloatArray, boundaries: IntArray, weight: FloatArray | None) -> list[float]:
        """Return the weighted mean over the queries, in exact sums.

        values  float64 (n_ranks, n_queries)  in
        """
        weights = query_weights(boundaries, weight)
        if weights is None:
            return [exact_sum(row) / len(row) for row in values]
        return [exact_sum(row * weights) / exact_sum(weights) for row in values]

    @abstractmethod
    def of_query(self, label: FloatArray, at: int, table: FloatArray) -> float:
        """Return the metric of one query at one rank.

        label  float64 (n,)  in   in the order of the ranks
        table  float64 (>= n,)  in   discount by rank
        """


class NormalizedGain(QueryMetric):
    """NDCG: sum of gain * discount over the first ranks, divided by the same of the best order."""

    name: ClassVar[str] = "ndcg"

    def relevant(self, label: FloatArray) -> NDArray[np.bool_]:
        """Say which documents have a gain."""
        return self.gains[label.astype(np.int64)] > 0.0

    def of_query(self, label: FloatArray, at: int, table: FloatArray) -> float:
        """Add up in rank order; the best order is that of falling labels."""

        def gain_of(ranked: FloatArray) -> float:
            total = 0.0
            for rank in range(min(at, len(ranked))):
                total = total + float(self.gains[int(ranked[rank])]) * float(table[rank])
            return total

        best = gain_of(np.sort(label)[::-1])
        return gain_of(label) / best if best > 0.0 else 1.0


class MeanAveragePrecision(QueryMetric):
    """MAP: mean of the precision at each relevant document of the first ranks, over as many as could be there."""

    name: ClassVar[str] = "map"

    def of_query(self, label: FloatArray, at: int, table: FloatArray) -> float:
        """Add up the precisions in rank order."""
        at = min(at, len(label))
        n_relevant = int((label > 0.0).sum())
        n_found, total = 0, 0.0
        for rank in range(at):
            if label[rank] > 0.0:
                n_found += 1
                total = total + n_found / (rank + 1.0)
        return total / min(n_relevant, at) if n_relevant > 0 else 1.0


class ReciprocalRank(QueryMetric):
    """MRR: 1 / place of the first relevant document, counted from 1; 0 where it lies behind the last rank."""

    name: ClassVar[str] = "mrr"
    default_at: ClassVar[tuple[int, ...] | None] = (WHOLE_LIST,)

    def of_query(self, label: FloatArray, at: int, table: FloatArray) -> float:
        """Find the first relevant document."""
        found = np.flatnonzero(label > 0.0)
        if len(found) == 0:
            return 1.0
        return 1.0 / (float(found[0]) + 1.0) if found[0] < at else 0.0


class Precision(QueryMetric):
    """Precision: share of relevant documents among the first ranks, or in a list that is shorter, as XGBoost's `pre`.

    There is no kernel: NumPy counts, for every device.
    """

    name: ClassVar[str] = "pre"

    def check(self, dataset: Fields, where: str) -> None:
        """Raise DataError unless the data set has queries, and labels 0 and 1."""
        super().check(dataset, where)
        assert dataset.label is not None
        if ((dataset.label != 0.0) & (dataset.label != 1.0)).any():
            raise DataError(f"metric {self.name!r} takes labels 0 and 1, and {where} has others; use 'ndcg' or 'map'")

    def of_query(self, label: FloatArray, at: int, table: FloatArray) -> float:
        """Count the relevant documents."""
        at = min(at, len(label))
        return int((label[:at] > 0.0).sum()) / at

    def _values(
        self, label: FloatArray, scores: FloatArray, boundaries: IntArray, arithmetic: Arithmetic
    ) -> FloatArray:
        """Sort all queries at once, and count in running sums."""
        order = np.lexsort((-scores, query_of_row(boundaries)))  # equal scores stay in row order
        counts = np.concatenate(([0], np.cumsum(label[order] > 0.0)))
        starts, sizes = boundaries[:-1], np.diff(boundaries)
        lengths = [np.minimum(at or int(sizes.max()), sizes) for at in self.at]
        return np.stack([(counts[starts + length] - counts[starts]) / length for length in lengths])
