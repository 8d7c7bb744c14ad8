"""Proportional hazards: Cox's partial likelihood with Breslow's rule for equal times.

The label of a row is a time. A positive one is the time of an event, a negative one (or 0) the time |label| at which
the row was last seen without one (right-censored, as in XGBoost). With risks e = weight * exp(score), D(t) the sum of
the risks of all rows whose time is at least t, and the events i, the loss is

    sum over i of weight[i] * (log D(time[i]) - score[i])

Sums over rows in the order of their times are running sums with an order of their own (core/running_sums.py), so that
every device finds the same bits. Rows of equal time share their sums, in whatever order they lie. Weights count as
repeated rows do. (XGBoost leaves the weights of others out of D, and its sums of rows of equal time depend on their
order; without weights and equal times both are the same.)
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.errors import DataError
from hornbeam.core.running_sums import running_sums
from hornbeam.data.columns import Facts
from hornbeam.data.fields import Fields
from hornbeam.objectives.base import FloatArray, Objective, require_labels
from hornbeam.objectives.label_sums import LabelSums
from hornbeam.params.params import Params

LOWEST_EXPONENT = -200.0
"""Scores this far below the highest count as equally low: squares of risks stay normal numbers."""

SMALLEST_SUM = 1e-300
"""Stands for the sum of risks that all have weight 0."""


@dataclass(frozen=True, slots=True, eq=False)
class RiskSets:
    """Rows in the order of their times; what stays the same during a training.

    order      uint32 (n_rows,)   rows by falling time, equal times in row order
    sharing    uint32 (n_rows,)   by place in this order: the last place of the same time
    following  uint32 (n_rows,)   by place: the last place of the same time in the reverse of this order
    event      uint8 (n_rows,)    by place: 1 for an event
    """

    order: NDArray[np.uint32]
    sharing: NDArray[np.uint32]
    following: NDArray[np.uint32]
    event: NDArray[np.uint8]

    @classmethod
    def of(cls, label: FloatArray) -> RiskSets:
        """Sort the rows.

        label  float64 (n_rows,)  in
        """
        order = np.argsort(-np.abs(label), kind="stable")
        time = np.abs(label)[order]
        return cls(
            order.astype(np.uint32),
            _last_of_equals(time),
            _last_of_equals(time[::-1])[::-1].copy(),
            (label[order] > 0.0).astype(np.uint8),
        )

    def with_equals_by(self, values: FloatArray) -> RiskSets:
        """Return the same with rows of equal times in the order of other numbers, float64 (n_rows,)."""
        if np.array_equal(self.sharing, np.arange(len(self.order))):
            return self
        by_value = np.lexsort((self.event, values[self.order], self.sharing))
        return RiskSets(self.order[by_value], self.sharing, self.following, self.event[by_value])

    def risks(self, scores: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return risk and sum of the risk set of each place, each float64 (n_rows,), by the highest risk.

        scores  float64 (n_rows,)  in
        weight  float64 (n_rows,)  in  or None

        Order of operations: m = the highest score; e = exp(max(score - m, -200)); with weights e = e * w;
        D = max(running sum of e at the last place of the same time, 1e-300).
        """
        risk = numerics.exp(np.maximum(scores[self.order] - scores.max(), LOWEST_EXPONENT))
        if weight is not None:
            risk = risk * weight[self.order]
        return risk, np.maximum(running_sums(risk)[self.sharing], SMALLEST_SUM)

    def until(self, terms: FloatArray) -> FloatArray:
        """Return the sum of the terms of all places whose time is at most that of each place, float64 (n_rows,)."""
        return running_sums(terms[::-1])[self.following]


def _last_of_equals(ordered: FloatArray) -> NDArray[np.uint32]:
    """Return the last place of the equal ones of each number, uint32 (n,); equal numbers lie together."""
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    return np.repeat(ends, np.diff(ends, prepend=-1)).astype(np.uint32)


class CoxObjective(Objective):
    """The loss above; predictions are risks, exp(score), relative to score 0.

    `bind` makes the objective that is trained on a data set; only that one has `risk_sets` and gradients.
    """

    name: ClassVar[str] = "survival:cox"
    default_metric: ClassVar[str] = "cox-nloglik"
    link: str = "exp"

    def __init__(self) -> None:
        super().__init__(1, boost_from_average=False)
        self.risk_sets: RiskSets | None = None

    @classmethod
    def from_params(cls, params: Params) -> CoxObjective:
        """Take nothing."""
        return cls()

    def check_labels(self, label: FloatArray | None) -> None:
        """Any finite labels will do, if one of them is an event."""
        label = require_labels(label, self.name)
        if not (label > 0.0).any():
            raise DataError(
                f"objective {self.name!r} takes the time of an event as a positive label and a censored time as a "
                "negative one, but no label is positive; without events there is nothing to learn"
            )

    def accepts(self, facts: Facts) -> bool:
        """Say no: rows are sorted on the host, which needs the labels anyway."""
        return False

    def bind(self, dataset: Fields) -> CoxObjective:
        """Return this objective with the risk sets of a data set."""
        bound = copy.copy(self)
        bound.risk_sets = risk_sets(dataset)
        return bound

    def scores_of_sums(self, sums: LabelSums) -> FloatArray:
        """Return zero: only differences of scores matter."""
        return np.zeros(1)

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Order of operations, with e, D and sums as in `RiskSets`.

        q = w / D for an event (w = 1 without weights), else 0; p = q / D, else 0; r and s = sums of q and p until the
        time of the row; t = e * r; g = t - w for an event, else t; h = max(t - (e * e) * s, 0).
        """
        sets = self.risk_sets
        assert sets is not None, "bind(dataset) comes first"
        risk, total = sets.risks(scores[0], weight)
        held = sets.event > 0
        of_event = np.where(held, 1.0 if weight is None else weight[sets.order], 0.0)
        share = of_event / total
        first = risk * sets.until(share)
        second = (risk * risk) * sets.until(share / total)
        gradient, hessian = np.empty_like(scores), np.empty_like(scores)
        gradient[0, sets.order] = first - of_event
        hessian[0, sets.order] = np.maximum(first - second, 0.0)
        return gradient, hessian

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the relative risks, exp(raw)."""
        return numerics.exp(raw)


def risk_sets(dataset: Fields) -> RiskSets:
    """Return the risk sets of a data set, which has labels."""

    def find() -> RiskSets:
        label = dataset.label
        assert label is not None
        return RiskSets.of(label)

    return dataset.derived("risk sets", find)
