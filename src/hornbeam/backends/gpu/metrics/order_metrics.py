"""auc and average_precision on a GPU: the scores are sorted there; see kernels/losses/order_metrics.cl."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.sort import EACH
from hornbeam.backends.gpu.metrics.scored_sets import REPORT, DeviceSets, ScoredSet, sum_of
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.workspace.sort import DeviceSort
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.data.columns import DeviceColumn
from hornbeam.metrics.base import is_positive
from hornbeam.metrics.class_order import AreaUnderCurve, AveragePrecision
from hornbeam.objectives.base import FloatArray


@dataclass(frozen=True, slots=True)
class Classes:
    """What the labels and weights of a data set say.

    n_positive, n_negative  rows, or weights in fixed point
    scale                   of the weights
    """

    n_positive: int
    n_negative: int
    scale: float

    @classmethod
    def of(cls, positive: NDArray[np.bool_], weight: FloatArray | None) -> Classes:
        """Count the rows, or add up their weights as metrics.ranking.weight_by_score does."""
        if weight is None:
            n_positive = int(np.count_nonzero(positive))
            return cls(n_positive, len(positive) - n_positive, 1.0)
        scale = 2.0 ** exact_exponent(float(weight.max()), len(weight))
        fixed = np.rint(weight * scale).astype(np.int64)
        return cls(int(fixed[positive].sum()), int(fixed[~positive].sum()), scale)


class DeviceOrder:
    """Metrics of the order of scores, on one device."""

    def __init__(self, sets: DeviceSets) -> None:
        self._sets, self._workspace, self._runtime = sets, sets.workspace, sets.workspace.runtime
        self._sort = DeviceSort(sets.workspace)

    def evaluate(self, metric: AreaUnderCurve | AveragePrecision, held: ScoredSet, scores: Buffer) -> float:
        """Return the metric.

        scores  float64 (n_outputs, n_rows), of which the first output counts
        """
        classes = held.once("positive and negative", lambda: self._classes(held))
        weight = None if held.dataset.given("weight") is None else self._sets.weight(held)[0]
        of_area = isinstance(metric, AreaUnderCurve)
        return self.evaluate_rows(of_area, held.n_rows, classes, scores, self._sets.label(held), weight)

    def _classes(self, held: ScoredSet) -> Classes:
        """Count the rows, on the device if the labels are there."""
        label, weight = (held.column(name, self._workspace) for name in ("label", "weight"))
        sums = held.sums(self._workspace)
        if sums is None or not isinstance(label, DeviceColumn):
            return Classes.of(is_positive(held.label), held.dataset.weight)
        if not isinstance(weight, DeviceColumn):
            return Classes(label.facts.n_positive, held.n_rows - label.facts.n_positive, 1.0)
        scale = 2.0 ** exact_exponent(weight.facts.largest, held.n_rows)
        return Classes(*sums.fixed_weights(scale), scale)

    def evaluate_rows(
        self, of_area: bool, n: int, classes: Classes, scores: Buffer, label: Buffer, weight: Buffer | None
    ) -> float:
        """Return the area under the curve, or the average precision, of n rows, all of it on the device.

        scores, label  float64 (n,)
        weight         float64 (n,), or None
        """
        own, runtime, weighted = self._workspace, self._runtime, weight is not None
        report = own.room("sum report", REPORT.itemsize)
        runtime.zero(report, REPORT.itemsize)
        variant = own.variant("order_metrics.cl", wide=weighted, each=EACH)
        keys, payload = self._sort.room(n)
        make_keys = runtime.kernel("score_keys_kernel", variant)
        own.launch_over(n, make_keys, scores, label, u32(n), keys, payload, report)
        self._sort.sort(n)
        adding = runtime.kernel("tile_sums_kernel", variant)
        n_tiles = -(-n // (EACH * adding.threads))
        size = 8 if weighted else 4
        tile_sums = own.room("tile sums", 2 * size * n_tiles)
        positive = own.room("positive before", size * (n + 1))
        negative = own.room("negative before", size * (n + 1) if weighted else 8)
        weights = label if weight is None else weight  # not read without
        given = payload, label, weights, np.float64(classes.scale), u32(n), u32(n_tiles), tile_sums
        groups = min(n_tiles, own.groups)
        runtime.launch(adding, groups, *given)
        runtime.launch(runtime.kernel("scan_tiles_kernel", variant), 2, u32(n_tiles), tile_sums)
        runtime.launch(runtime.kernel("sums_kernel", variant), groups, *given, positive, negative)
        find = runtime.kernel("order_values_kernel", variant)
        groups = own.groups_over(n, find)
        values, partial = own.room("losses", 8 * n), own.room("largest losses", 8 * groups)
        runtime.launch(find, groups, keys, payload, u32(n), u32(of_area), positive, negative, values, partial, report)
        counts_pairs = of_area and not weighted
        if not counts_pairs:
            total = runtime.kernel("exact_sum_kernel", own.variant("metrics.cl"))
            own.launch_over(n, total, values, u64(n), partial, u32(groups), report)
        seen = self._sets.read_report(report)
        if seen["not_numbers"] > 0:
            return math.nan
        if classes.n_positive == 0 or classes.n_negative == 0:
            return 1.0
        if counts_pairs:
            return int(seen["sum"].view(np.uint64)) / (2 * classes.n_positive * classes.n_negative)
        if of_area:
            return sum_of(seen) / (float(classes.n_positive) * float(classes.n_negative))
        return sum_of(seen) / (float(classes.n_positive) if weighted else classes.n_positive)
