"""Metrics of the order in which scores put two classes: auc, average_precision.

Both look at raw scores, group equal scores, and take a row as positive where label > 0. Counts and fixed-point weight
sums are integers, so neither the order of the rows nor the sorting algorithm can be seen in the result.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import exact_exponent, exact_sum
from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import Metric, is_positive
from hornbeam.objectives.base import FloatArray, Objective


class OrderOfClasses(Metric):
    """A metric of the order of two classes: NaN where a score is, 1.0 where there is only one class (as LightGBM)."""

    higher_is_better: ClassVar[bool] = True

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Evaluate the metric; arguments as in `Metric.__call__`."""
        if np.isnan(raw_scores[0]).any():
            return float("nan")
        if weight is None:
            of_rows = arithmetic.sort_apart(raw_scores[0], is_positive(label))
            return self.of_scores(*of_rows, arithmetic) if min(map(len, of_rows)) > 0 else 1.0
        by_score = weight_by_score(label, raw_scores[0], weight)
        return self.of_weights(*by_score) if all(part.any() for part in by_score) else 1.0

    @abstractmethod
    def of_scores(self, positive: FloatArray, negative: FloatArray, arithmetic: Arithmetic) -> float:
        """Return the metric from the sorted scores of positive and negative rows."""

    @abstractmethod
    def of_weights(self, positive: NDArray[np.int64], negative: NDArray[np.int64]) -> float:
        """Return the metric from the positive and negative weight at each distinct score, see weight_by_score."""


class AreaUnderCurve(OrderOfClasses):
    """Area under the ROC curve: the probability that a positive row scores above a negative one, ties counting half."""

    name: ClassVar[str] = "auc"

    def of_scores(self, positive: FloatArray, negative: FloatArray, arithmetic: Arithmetic) -> float:
        """Count pairs."""
        below, not_above = arithmetic.ranks_among(positive, negative)
        # at most 2 * 2**31 * 2**31 pairs: unsigned 64 bits hold them
        pairs = int((below + not_above).sum(dtype=np.uint64))
        return pairs / (2 * len(positive) * len(negative))

    def of_weights(self, positive: NDArray[np.int64], negative: NDArray[np.int64]) -> float:
        """Sum the weight of pairs."""
        # weight of the negative pairs of a group: those below, and half of those with the same score
        below = (np.cumsum(negative) - negative).astype(np.float64) + 0.5 * negative.astype(np.float64)
        return exact_sum(positive.astype(np.float64) * below) / (float(positive.sum()) * float(negative.sum()))


class AveragePrecision(OrderOfClasses):
    """Mean, over the positive rows, of the precision among all rows that score at least as high (as scikit-learn)."""

    name: ClassVar[str] = "average_precision"

    def of_scores(self, positive: FloatArray, negative: FloatArray, arithmetic: Arithmetic) -> float:
        """Count the rows that score at least as high."""
        true_above = (len(positive) - arithmetic.ranks_among(positive, positive)[0]).astype(np.float64)
        false_above = (len(negative) - arithmetic.ranks_among(positive, negative)[0]).astype(np.float64)
        return exact_sum(true_above / (true_above + false_above)) / len(positive)

    def of_weights(self, positive: NDArray[np.int64], negative: NDArray[np.int64]) -> float:
        """Sum the weight of the rows that score at least as high."""
        n_positive = positive.sum()
        true_above = (n_positive - np.cumsum(positive) + positive).astype(np.float64)
        false_above = (negative.sum() - np.cumsum(negative) + negative).astype(np.float64)
        held = positive > 0
        precision = true_above[held] / (true_above[held] + false_above[held])
        return exact_sum(positive[held].astype(np.float64) * precision) / float(n_positive)


def weight_by_score(
    label: FloatArray, scores: FloatArray, weight: FloatArray
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positive and the negative weight at each distinct score, in ascending order of scores.

    label, scores, weight  float64 (n_rows,)  in

    Weights are rounded to fixed point whose total stays below 2**62; the scale cancels out of both metrics.
    """
    exponent = exact_exponent(float(weight.max()), len(weight))
    fixed = np.rint(weight * 2.0**exponent).astype(np.int64)
    order = np.argsort(scores)
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    positive = is_positive(label)
    return (
        np.add.reduceat(np.where(positive, fixed, 0)[order], starts),
        np.add.reduceat(np.where(positive, 0, fixed)[order], starts),
    )
