"""auc_mu on a GPU: the area under the curve of every pair of classes, one pair after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.sort import EACH
from hornbeam.backends.gpu.metrics.order_metrics import Classes, DeviceOrder
from hornbeam.backends.gpu.metrics.scored_sets import REPORT, DeviceSets, ScoredSet
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64
from hornbeam.metrics.base import check_classes


@dataclass(frozen=True, slots=True)
class RowsByClass:
    """The rows of a data set, one class after the other.

    rows     uint32 (n_rows,)
    starts   of the classes in it, and last its end: int64 (n_classes + 1,)
    pairs    of classes that are there: first, second, and what their rows say
    """

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    pairs: tuple[tuple[int, int, Classes], ...]

    @classmethod
    def of(cls, held: ScoredSet) -> RowsByClass:
        """Sort the rows by class."""
        check_classes(held.label, held.n_outputs)
        label, weight = held.label, held.dataset.weight
        rows_of = [np.flatnonzero(label == k) for k in range(held.n_outputs)]
        there = [k for k, rows in enumerate(rows_of) if len(rows) and (weight is None or weight[rows].any())]
        pairs = []
        for first, second in ((i, j) for i in there for j in there if i < j):
            rows = np.concatenate([rows_of[first], rows_of[second]])
            of_first = np.arange(len(rows)) < len(rows_of[first])
            pairs.append((first, second, Classes.of(of_first, None if weight is None else weight[rows])))
        starts = np.cumsum([0, *map(len, rows_of)])
        return cls(np.concatenate(rows_of).astype(np.uint32), starts, tuple(pairs))


class DevicePairs:
    """The metric of pairs of classes, on one device."""

    def __init__(self, sets: DeviceSets, order: DeviceOrder) -> None:
        self._sets, self._order, self._workspace = sets, order, sets.workspace

    def evaluate(self, held: ScoredSet, scores: Buffer) -> float:
        """Return auc_mu, see metrics/auc_mu.py; scores are float64 (n_outputs, n_rows)."""
        own, runtime = self._workspace, self._workspace.runtime
        by_class = held.once("rows by class", lambda: RowsByClass.of(held))
        variant = own.variant("order_metrics.cl", each=EACH)
        report = own.room("sum report", REPORT.itemsize)
        runtime.zero(report, REPORT.itemsize)
        n_scores = held.n_rows * held.n_outputs
        own.launch_over(n_scores, runtime.kernel("not_numbers_kernel", variant), scores, u64(n_scores), report)
        if self._sets.read_report(report)["not_numbers"] > 0:
            return math.nan
        rows = own.upload_once(f"rows by class of set {held.valid}", by_class.rows)
        weight, weighted = self._sets.weight(held)
        total, kernel = 0.0, runtime.kernel("margins_kernel", variant)
        for first, second, classes in by_class.pairs:  # in this order: a sum of floats
            n_first, n_second = (int(by_class.starts[k + 1] - by_class.starts[k]) for k in (first, second))
            n = n_first + n_second
            margin, label = own.room("margins", 8 * n), own.room("labels of a pair", 8 * n)
            pair_weight = own.room("weights of a pair", 8 * n if weighted else 8)
            own.launch_over(
                n, kernel, scores, weight, weighted, rows, u32(held.n_rows), u32(first), u32(second),
                u32(by_class.starts[first]), u32(n_first), u32(by_class.starts[second]), u32(n), margin, label,
                pair_weight,
            )  # fmt: skip
            total += self._order.evaluate_rows(True, n, classes, margin, label, pair_weight if weighted else None)
        return total / len(by_class.pairs) if by_class.pairs else 1.0
