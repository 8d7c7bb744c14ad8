"""Metrics on a GPU: scores stay on the device, and a few bytes come back; see kernels/losses/metrics.cl.

A metric without a kernel is left to the host (`evaluate` returns None). Labels and weights go to the device once a data
set. Besides, the largest set that a metric is evaluated on takes

    means of losses            8 bytes a row
    auc, average_precision     37 bytes a row, 49 with weights
    aft-nloglik, interval-regression-accuracy   a set's bounds, 16 bytes a row
    ndcg, map, mrr             8 bytes a rank and query; a set's labels once more, 4 bytes a row
    any of a random forest     8 bytes a row and output more
"""

from __future__ import annotations

import numpy as np

from hornbeam.backends.gpu.metrics.order_metrics import DeviceOrder
from hornbeam.backends.gpu.metrics.pair_metrics import DevicePairs
from hornbeam.backends.gpu.metrics.query_metrics import CODES, DeviceLists
from hornbeam.backends.gpu.metrics.scored_sets import REPORT, DeviceSets, ScoredSet, sum_of
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.fixed_point import exact_sum
from hornbeam.data.columns import DeviceColumn
from hornbeam.data.fields import Fields
from hornbeam.metrics.auc_mu import AucMu
from hornbeam.metrics.base import MeanLoss, Metric, check_classes
from hornbeam.metrics.class_order import AreaUnderCurve, AveragePrecision
from hornbeam.metrics.ranked_lists import QueryMetric
from hornbeam.metrics.regression import RSquared
from hornbeam.objectives.base import Objective
from hornbeam.trees.records import ForestMean

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
    "pseudohuber": 19,
    "rmsle": 20,
    "cross_entropy_lambda": 21,
    "multi_logloss": 25,
    "multi_error": 26,
    "aft-nloglik": 30,
    "interval-regression-accuracy": 31,
}
"""METRIC of kernels/losses/metrics.cl by the name of a mean loss; those of several outputs begin at 25, of two
targets at 30."""

LINKS = {"identity": 0, "sigmoid": 1, "exp": 2, "square": 3, "softmax": 4, "softplus": 5, "step": 6}
"""`link` of kernels/losses/metrics.cl by the objective's link."""


class DeviceMetrics:
    """The metrics of one training on its device.

    Parameters
    ----------
    workspace
        The engine's.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._runtime, self._sets = workspace, workspace.runtime, DeviceSets(workspace)
        self._order, self._lists = DeviceOrder(self._sets), DeviceLists(self._sets)
        self._pairs = DevicePairs(self._sets, self._order)

    def close(self) -> None:
        """Forget the data sets."""
        self._sets.close()

    def evaluate(
        self,
        metric: Metric,
        objective: Objective,
        dataset: Fields,
        valid: int,
        scores: tuple[Buffer, int],
        forest: ForestMean | None,
    ) -> list[tuple[str, float]] | None:
        """Return names and values as `Metric.evaluate` does, or None: there is no kernel; see engine.Engine.evaluate.

        scores  the buffer, and the number of outputs
        """
        of_losses = isinstance(metric, RSquared) or (isinstance(metric, MeanLoss) and metric.name in LOSSES)
        of_scores = isinstance(metric, (AreaUnderCurve, AveragePrecision, QueryMetric, AucMu))
        if isinstance(metric, AucMu) and metric.weights is not None:
            return None
        if isinstance(metric, QueryMetric) and metric.name not in CODES:
            return None
        if not of_scores and not (of_losses and objective.link in LINKS):
            return None
        held = self._sets.find(dataset, valid, *scores)
        raw = self._sets.raw_scores(held, forest)
        if isinstance(metric, QueryMetric):
            return self._lists.evaluate(metric, held, raw)
        if isinstance(metric, AucMu):
            return [(metric.name, self._pairs.evaluate(held, raw))]
        if isinstance(metric, (AreaUnderCurve, AveragePrecision)):
            return [(metric.name, self._order.evaluate(metric, held, raw))]
        if isinstance(metric, RSquared):
            error = self._mean_loss(metric.error, objective, held, raw)
            variance = held.once("variance", lambda: metric.variance(held.label, held.dataset.weight))
            return [(metric.name, metric.compare(error, variance))]
        assert isinstance(metric, MeanLoss)
        return [(metric.name, metric.finish(self._mean_loss(metric, objective, held, raw)))]

    def _mean_loss(self, metric: MeanLoss, objective: Objective, held: ScoredSet, scores: Buffer) -> float:
        """Return sum(loss * weight) / sum(weight), as backends.cpu.losses.mean_loss."""
        if metric.for_classes:
            held.once("classes", lambda: self._check_classes(held))
        own, n_rows, link = self._workspace, held.n_rows, 0 if metric.uses_raw_scores else LINKS[objective.link]
        losses, report = own.room("losses", 8 * n_rows), own.room("sum report", REPORT.itemsize)
        kernel = self._runtime.kernel("loss_kernel", own.variant("metrics.cl", metric=LOSSES[metric.name]))
        groups = own.groups_over(n_rows, kernel)
        partial = own.room("largest losses", 8 * groups)
        constants = metric.constants or (0.0, 0.0)
        self._runtime.launch(
            kernel, groups, scores, self._sets.targets(held, metric), *self._sets.weight(held), u32(n_rows),
            u32(held.n_outputs), u32(link), np.float64(getattr(objective, "sigmoid", 1.0)),
            *map(np.float64, constants), losses, partial, report,
        )  # fmt: skip
        adding = self._runtime.kernel("exact_sum_kernel", own.variant("metrics.cl"))
        own.launch_over(n_rows, adding, losses, u64(n_rows), partial, u32(groups), report)
        total = sum_of(self._sets.read_report(report))
        if metric.weight_in_loss:
            return total / n_rows
        return total / held.once("total weight", lambda: self._total_weight(held))

    def _total_weight(self, held: ScoredSet) -> float:
        """Return the sum of the weights, or the number of rows."""
        sums, given = held.sums(self._workspace), held.dataset.given("weight")
        if given is None or sums is not None:
            return held.n_rows if sums is None else sums.total_weight()
        weight = held.dataset.weight
        assert weight is not None
        return exact_sum(weight)

    def _check_classes(self, held: ScoredSet) -> None:
        """Check that labels are classes, on the device if they are there."""
        label = held.column("label", self._workspace)
        if not (
            isinstance(label, DeviceColumn) and label.facts.smallest >= 0.0 and label.facts.largest < held.n_outputs
        ):
            check_classes(held.label, held.n_outputs)
