"""Metrics of times that may be censored: aft-nloglik, interval-regression-accuracy, cox-nloglik, concordance."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.errors import DataError
from hornbeam.core.fixed_point import exact_sum
from hornbeam.data.fields import Fields
from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.metrics.base import MeanLoss, Metric
from hornbeam.objectives.aft import DISTRIBUTIONS, likelihood_losses, log_bounds
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.objectives.cox import RiskSets, risk_sets
from hornbeam.params.params import Params


class BoundedLoss(MeanLoss):
    """A mean loss of scores and bounds of times; labels are observed times where a data set has no bounds."""

    uses_raw_scores: ClassVar[bool] = True
    labels: ClassVar[str] = "positive"

    def check(self, dataset: Fields, where: str) -> None:
        """Raise DataError unless a data set has bounds, or labels that are times."""
        if dataset.bounds is None:
            super().check(dataset, where)

    def targets(self, dataset: Fields) -> FloatArray:
        """Return the logarithms of the bounds, float64 (2, n_rows)."""
        return log_bounds(dataset)


class AftLikelihood(BoundedLoss):
    """Mean negative log-likelihood of survival:aft (XGBoost)."""

    name: ClassVar[str] = "aft-nloglik"

    def __init__(self, distribution: str = "normal", scale: float = 1.0) -> None:
        self.distribution, self.scale = distribution, scale

    @classmethod
    def from_params(cls, params: Params) -> AftLikelihood:
        """Take the distribution and its scale."""
        return cls(params.aft_loss_distribution, params.aft_loss_distribution_scale)

    @property
    def constants(self) -> tuple[float, float]:
        """Number of the distribution, and 1 / scale."""
        return float(DISTRIBUTIONS[self.distribution]), 1.0 / self.scale

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Return the losses of `aft.likelihood_losses`; label is float64 (2, n_rows)."""
        return likelihood_losses(self.distribution, self.scale, label, predictions[0])


class IntervalAccuracy(BoundedLoss):
    """Share of rows whose predicted time, exp(score), lies between the bounds (XGBoost)."""

    name: ClassVar[str] = "interval-regression-accuracy"
    higher_is_better: ClassVar[bool] = True
    constants: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """1 where the score lies between the logarithms of the bounds, which are in it, else 0; NaN where it is."""
        score = predictions[0]
        within = np.where((label[0] <= score) & (score <= label[1]), 1.0, 0.0)
        return np.where(score == score, within, score)


class CoxLikelihood(Metric):
    """Negative partial log-likelihood of survival:cox by the events, or by their weights (XGBoost)."""

    name: ClassVar[str] = "cox-nloglik"

    def check(self, dataset: Fields, where: str) -> None:
        """Raise DataError unless there are labels, and an event among them."""
        super().check(dataset, where)
        assert dataset.label is not None
        if not (dataset.label > 0.0).any():
            raise DataError(
                f"metric {self.name!r} is a mean over events, and {where} has none: no label is positive; name another "
                "metric, or evaluate on rows with events"
            )

    def evaluate(
        self, dataset: Fields, raw_scores: FloatArray, objective: Objective, arithmetic: Arithmetic = NUMPY
    ) -> list[tuple[str, float]]:
        """Return name and value."""
        return [(self.name, self.of_sets(risk_sets(dataset), raw_scores[0], dataset.weight))]

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Evaluate the metric; arguments as in `Metric.__call__`."""
        return self.of_sets(RiskSets.of(label), raw_scores[0], weight)

    @staticmethod
    def of_sets(sets: RiskSets, scores: FloatArray, weight: FloatArray | None) -> float:
        """Return the sum over events of w * (log D - (score - highest score)) by that of w.

        NaN where a score is NaN or infinite.

        scores  float64 (n_rows,)  in
        weight  float64 (n_rows,)  in  or None
        """
        if not np.isfinite(scores).all():
            return float("nan")
        sets = sets.with_equals_by(scores)  # so that the order of the rows cannot be seen
        _, total = sets.risks(scores, weight)
        held = sets.event > 0
        rows = sets.order[held]
        losses = numerics.log(total[held]) - (scores[rows] - scores.max())
        if weight is None:
            return exact_sum(losses) / len(losses)
        total_weight = exact_sum(weight[rows])
        return exact_sum(losses * weight[rows]) / total_weight if total_weight > 0.0 else float("nan")


class Concordance(Metric):
    """Harrell's concordance index: the share of comparable pairs of rows that predictions put in the right order.

    Two rows can be compared where one has an event and the other lives longer: its time, or the lower bound of its
    time, is above that of the event, or equal and censored. Equal predictions count half. 0.5 where no two rows can be
    compared. Weights do not count; a data set that has them is refused.
    """

    name: ClassVar[str] = "concordance"
    higher_is_better: ClassVar[bool] = True

    def check(self, dataset: Fields, where: str) -> None:
        """Raise DataError where there are neither labels nor bounds, or where there are weights."""
        if dataset.bounds is None:
            super().check(dataset, where)
        if dataset.given("weight") is not None:
            raise DataError(
                f"metric {self.name!r} counts pairs of rows, and {where} has weights; name another metric, or evaluate "
                "on a Dataset without weights"
            )

    def evaluate(
        self, dataset: Fields, raw_scores: FloatArray, objective: Objective, arithmetic: Arithmetic = NUMPY
    ) -> list[tuple[str, float]]:
        """Return name and value: scores of survival:cox are risks, those of all others times."""
        if dataset.bounds is None:
            assert dataset.label is not None
            time, event = np.abs(dataset.label), dataset.label > 0.0
        else:
            low, high = log_bounds(dataset)
            time, event = low, low == high
        sign = -1.0 if objective.name == "survival:cox" else 1.0
        return [(self.name, self.of_times(time, event, sign * raw_scores[0]))]

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Evaluate the metric on labels that are negative where censored; arguments as in `Metric.__call__`."""
        sign = -1.0 if objective.name == "survival:cox" else 1.0
        return self.of_times(np.abs(label), label > 0.0, sign * raw_scores[0])

    @staticmethod
    def of_times(time: FloatArray, event: NDArray[np.bool_], predicted: FloatArray) -> float:
        """Return the metric of predicted times; NaN where one is.

        time, predicted  float64 (n_rows,)  in
        event            bool (n_rows,)     in

        Events come before what is censored at the same time: with k = 2 * (rank of the time) + (1 if censored), a pair
        of an event i and a row j can be compared where k[i] < k[j].
        """
        if np.isnan(predicted).any():
            return float("nan")
        key = 2 * np.unique(time, return_inverse=True)[1].reshape(-1) + ~event
        rank = np.unique(predicted, return_inverse=True)[1].reshape(-1)
        later = len(key) - np.searchsorted(np.sort(key), key[event], side="right")
        n_pairs = int(later.sum())
        if n_pairs == 0:
            return 0.5
        wrong = count_inversions(key, rank, event)
        right = count_inversions(key, rank.max() - rank, event)
        return (n_pairs + right - wrong) / (2 * n_pairs)


def count_inversions(key: NDArray[np.int64], rank: NDArray[np.int64], first: NDArray[np.bool_]) -> int:
    """Count the pairs with key[i] < key[j] and rank[i] > rank[j] whose i is one of `first`.

    key, rank  int64 (n,)  in  0 or more
    first      bool (n,)   in

    Rows stand in the order of key, then rank. Bit by bit of rank, from the highest, rows with equal higher bits stand
    together in that order; a pair is counted at the first bit that differs, as a 1 before a 0.
    """
    order = np.lexsort((rank, key))
    rank, first = rank[order], first[order].astype(np.int64)
    total = 0
    group = np.zeros(len(rank), np.int64)
    for bit in reversed(range(int(rank.max(initial=0)).bit_length())):
        one = rank >> bit & 1
        before = np.cumsum(one * first) - one * first  # ones of `first` before each place, in all groups
        starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        of_group = before - np.repeat(before[starts], np.diff(np.append(starts, len(rank))))
        total += int((of_group * (1 - one)).sum())
        stable = np.lexsort((one, group))
        rank, first, group = rank[stable], first[stable], (2 * group + one)[stable]
    return total
