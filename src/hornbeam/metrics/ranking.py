"""Metrics of the order in which scores put two classes: auc, average_precision.

Both look at raw scores, group equal scores, and take a row as positive where label > 0. Counts and fixed-point weight
sums are integers, so neither the order of the rows nor the sorting algorithm can be seen in the result.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.metrics.base import Metric, is_positive
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.quantize import exact_exponent, exact_sum


class AreaUnderCurve(Metric):
    """Area under the ROC curve: the probability that a positive row scores above a negative one, ties counting half.

    1.0 where there is only one class (as LightGBM), for then no pair is in the wrong order.
    """

    name: ClassVar[str] = "auc"
    higher_is_better: ClassVar[bool] = True

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        n_threads: int = 1,
    ) -> float:
        """Evaluate the metric; arguments as in `Metric.__call__`."""
        if np.isnan(raw_scores[0]).any():
            return float("nan")
        if weight is None:
            return self._unweighted(label, raw_scores[0], n_threads)
        positive, negative = weight_by_score(label, raw_scores[0], weight)
        n_positive, n_negative = positive.sum(), negative.sum()
        if n_positive == 0 or n_negative == 0:
            return 1.0
        # weight of the negative pairs of a group: those below, and half of those with the same score
        below = (np.cumsum(negative) - negative).astype(np.float64) + 0.5 * negative.astype(np.float64)
        return exact_sum(positive.astype(np.float64) * below) / (float(n_positive) * float(n_negative))

    @staticmethod
    def _unweighted(label: FloatArray, scores: FloatArray, n_threads: int) -> float:
        from hornbeam.backends.cpu.losses import ranks_among_kernel

        positive, negative = sorted_by_class(label, scores, n_threads)
        n_positive, n_negative = len(positive), len(negative)
        if n_positive == 0 or n_negative == 0:
            return 1.0
        below, not_above = ranks_among_kernel(positive, negative)
        # at most 2 * 2**31 * 2**31 pairs: unsigned 64 bits hold them
        pairs = int((below + not_above).sum(dtype=np.uint64))
        return pairs / (2 * n_positive * n_negative)


class AveragePrecision(Metric):
    """Mean, over the positive rows, of the precision among all rows that score at least as high (as scikit-learn).

    1.0 where there is only one class (as LightGBM).
    """

    name: ClassVar[str] = "average_precision"
    higher_is_better: ClassVar[bool] = True

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        n_threads: int = 1,
    ) -> float:
        """Evaluate the metric; arguments as in `Metric.__call__`."""
        if np.isnan(raw_scores[0]).any():
            return float("nan")
        if weight is None:
            return self._unweighted(label, raw_scores[0], n_threads)
        positive, negative = weight_by_score(label, raw_scores[0], weight)
        n_positive, n_negative = positive.sum(), negative.sum()
        if n_positive == 0 or n_negative == 0:
            return 1.0
        true_above = (n_positive - np.cumsum(positive) + positive).astype(np.float64)
        false_above = (n_negative - np.cumsum(negative) + negative).astype(np.float64)
        held = positive > 0
        precision = true_above[held] / (true_above[held] + false_above[held])
        return exact_sum(positive[held].astype(np.float64) * precision) / float(n_positive)

    @staticmethod
    def _unweighted(label: FloatArray, scores: FloatArray, n_threads: int) -> float:
        from hornbeam.backends.cpu.losses import ranks_among_kernel

        positive, negative = sorted_by_class(label, scores, n_threads)
        n_positive, n_negative = len(positive), len(negative)
        if n_positive == 0 or n_negative == 0:
            return 1.0
        true_above = (n_positive - ranks_among_kernel(positive, positive)[0]).astype(np.float64)
        false_above = (n_negative - ranks_among_kernel(positive, negative)[0]).astype(np.float64)
        return exact_sum(true_above / (true_above + false_above)) / n_positive


def sorted_by_class(label: FloatArray, scores: FloatArray, n_threads: int) -> tuple[FloatArray, FloatArray]:
    """Return the scores of the positive and of the negative rows, each sorted.

    label, scores  float64 (n_rows,)  in

    Two sorts of values are several times faster than one argsort, and run side by side.
    """
    from hornbeam.backends.cpu.threads import run_ranges

    positive = is_positive(label)
    parts = [scores[positive], scores[~positive]]

    def sort(start: int, stop: int) -> None:
        for part in parts[start:stop]:
            part.sort()

    run_ranges(sort, 2, n_threads)
    return parts[0], parts[1]


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
