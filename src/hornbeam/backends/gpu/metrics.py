"""Metrics on a GPU: scores stay on the device, and a few bytes come back; see kernels/metrics.cl.

Labels, weights and what depends on them alone go to the device once a data set. A metric without a kernel is left to
the host (`evaluate` returns None).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hornbeam.backends.gpu.runtime import Buffer, Kernel, u32, u64
from hornbeam.backends.gpu.workspace import Workspace
from hornbeam.backends.protocol import ForestMean
from hornbeam.metrics.base import MeanLoss, Metric, check_classes
from hornbeam.metrics.regression import RSquared
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.quantize import exact_exponent, exact_sum

if TYPE_CHECKING:
    from hornbeam.dataset import Dataset

T = TypeVar("T")

LOSSES = {
    "l1": 1,
    "l2": 2,
    "rmse": 2,
    "mape": 3,
    "quantile": 4,
    "expectile": 5,
    "huber": 6,
    "fair": 7,
    "logcosh": 8,
    "poisson": 9,
    "gamma": 10,
    "gamma_deviance": 11,
    "tweedie": 12,
    "tweedie_deviance": 13,
    "binary_logloss": 14,
    "binary_error": 15,
    "cross_entropy": 16,
    "kullback_leibler": 17,
    "focal": 18,
    "multi_logloss": 20,
    "multi_error": 21,
}
"""METRIC of kernels/metrics.cl by the name of a mean loss; those of several outputs begin at 20."""

LINKS = {"identity": 0, "sigmoid": 1, "exp": 2, "square": 3, "softmax": 4}
"""LINK of kernels/metrics.cl by the objective's link."""

REPORT = np.dtype([("largest", np.uint64), ("sum", np.int64), ("count", np.uint64)])
"""metrics.cl's report_t."""

NOT_FINITE = 0x7FF0000000000000
"""Bits of infinity; those of NaN are above them."""


@dataclass(slots=True)
class ScoredSet:
    """A data set whose scores are on the device.

    scores  float64 (n_outputs, n_rows)
    valid   number of the validation set, -1: the training set
    known   what depends on labels, weights and queries alone, by name; found once
    """

    dataset: Dataset
    valid: int
    scores: Buffer
    n_outputs: int
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.dataset.n_rows)

    @property
    def label(self) -> FloatArray:
        """The labels."""
        assert self.dataset.label is not None
        return self.dataset.label

    def once(self, name: str, find: Callable[[], T]) -> T:
        """Return what `find` returned when it was first called under this name."""
        if name not in self.known:
            self.known[name] = find()
        found: T = self.known[name]
        return found


def sum_of(report: np.void) -> float:
    """Return the sum that a device reports: what `quantize.exact_sum` returns; NaN if a value is not finite.

    report  REPORT ()  in
    """
    if int(report["largest"]) >= NOT_FINITE:
        return math.nan
    exponent = exact_exponent(float(report["largest"].view(np.float64)), int(report["count"]))
    return float(int(report["sum"])) * 2.0**-exponent


class DeviceMetrics:
    """The metrics of one training on its device.

    Parameters
    ----------
    workspace
        The engine's.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.runtime = workspace, workspace.runtime
        self._sets: dict[int, ScoredSet] = {}

    def evaluate(
        self,
        metric: Metric,
        objective: Objective,
        dataset: Dataset,
        valid: int,
        scores: tuple[Buffer, int],
        forest: ForestMean | None,
    ) -> list[tuple[str, float]] | None:
        """Return names and values as `Metric.evaluate` does, or None: there is no kernel; see protocol.Engine.evaluate.

        scores  the buffer, and the number of outputs
        """
        held = self._sets.get(valid)
        if held is None or held.dataset is not dataset:
            held = self._sets[valid] = ScoredSet(dataset, valid, *scores)
        held.scores, held.n_outputs = scores
        if isinstance(metric, RSquared):
            return [(metric.name, self._r_squared(metric, objective, held, forest))]
        if isinstance(metric, MeanLoss) and metric.name in LOSSES and objective.link in LINKS:
            return [(metric.name, metric.finish(self._mean_loss(metric, objective, held, forest)))]
        return None

    # --- what all metrics share -------------------------------------------------------------------------------------

    def label(self, held: ScoredSet) -> Buffer:
        """Return the labels on the device."""
        return self._column("label", held.valid, held.label)

    def weight(self, held: ScoredSet) -> tuple[Buffer, np.uint32]:
        """Return the weights on the device, and whether there are any."""
        given = held.dataset.weight
        return self._column("weight", held.valid, given), u32(given is not None)

    def _column(self, name: str, valid: int, array: FloatArray | None) -> Buffer:
        """Upload an array once; labels and weights of the training set may be there already, for the gradients."""
        if array is not None and self.workspace.uploaded(name) is array:
            return self.workspace.buffer(name)
        return self.workspace.upload_once(f"{name} of set {valid}", array)

    def raw_scores(self, held: ScoredSet, forest: ForestMean | None) -> Buffer:
        """Return the raw scores: those of the engine, or the mean of the trees of a forest."""
        if forest is None:
            return held.scores
        n = held.n_rows * held.n_outputs
        out = self.workspace.room("forest scores", 8 * n)
        init = self.workspace.upload("forest start", np.ascontiguousarray(forest.init_scores, np.float64))
        n_trees = np.float64(forest.n_iterations)
        kernel = self.kernel("average_kernel", "metrics.cl")
        self.workspace.launch_over(n, kernel, held.scores, init, n_trees, u32(held.n_rows), u32(held.n_outputs), out)
        return out

    def kernel(self, name: str, source: str, **options: Any) -> Kernel:
        """Return a kernel."""
        return self.runtime.kernel(name, self.workspace.variant(source, **options))

    def read_report(self, report: Buffer) -> np.void:
        """Bring a REPORT to the host."""
        found = np.empty(1, REPORT)
        self.runtime.download(report, found)
        seen: np.void = found[0]
        return seen

    # --- means of losses --------------------------------------------------------------------------------------------

    def _mean_loss(self, metric: MeanLoss, objective: Objective, held: ScoredSet, forest: ForestMean | None) -> float:
        """Return sum(loss * weight) / sum(weight), as backends.cpu.losses.mean_loss."""
        if metric.for_classes:
            held.once("classes", lambda: check_classes(held.label, held.n_outputs))
        own, n_rows, link = self.workspace, held.n_rows, 0 if metric.uses_raw_scores else LINKS[objective.link]
        losses, report = own.room("losses", 8 * n_rows), own.room("sum report", REPORT.itemsize)
        kernel = self.kernel("loss_kernel", "metrics.cl", metric=LOSSES[metric.name], link=link)
        groups = own.groups_over(n_rows, kernel)
        partial = own.room("largest losses", 8 * groups)
        constants = metric.constants or (0.0, 0.0)
        self.runtime.launch(
            kernel, groups, self.raw_scores(held, forest), self.label(held), *self.weight(held), u32(n_rows),
            u32(held.n_outputs), np.float64(getattr(objective, "sigmoid", 1.0)), *map(np.float64, constants), losses,
            partial, report,
        )  # fmt: skip
        adding = self.kernel("exact_sum_kernel", "metrics.cl")
        self.workspace.launch_over(n_rows, adding, losses, u64(n_rows), partial, u32(groups), report)
        total = sum_of(self.read_report(report))
        return total / (n_rows if held.dataset.weight is None else self.total_weight(held))

    @staticmethod
    def total_weight(held: ScoredSet) -> float:
        """Return the sum of the weights."""
        weight = held.dataset.weight
        assert weight is not None
        return held.once("total weight", lambda: exact_sum(weight))

    def _r_squared(self, metric: RSquared, objective: Objective, held: ScoredSet, forest: ForestMean | None) -> float:
        error = self._mean_loss(metric.error, objective, held, forest)
        variance = held.once("variance", lambda: metric.variance(held.label, held.dataset.weight))
        return metric.compare(error, variance)
