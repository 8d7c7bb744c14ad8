"""Figures of merit with intervals: the bootstrap, over rows or over queries.

A resample is a number for each row (or query): the times it was drawn. Every figure is a function of these numbers, so
what is slow (sorting, losses of rows) is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.queries import query_weights
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import Metric, get_metric
from hornbeam.metrics.arithmetic import NUMPY
from hornbeam.metrics.base import MeanLoss
from hornbeam.metrics.class_order import AreaUnderCurve, AveragePrecision
from hornbeam.metrics.ranked_lists import QueryMetric
from hornbeam.metrics.regression import RSquared
from hornbeam.params.params import Params
from hornbeam.views.plots.models import Judged, task_of

FloatArray = NDArray[np.float64]
Measure = Callable[[FloatArray], float]

RESAMPLED_ROWS = 2e7
"""Rows that all resamples have together at most, so that large data take seconds; but at least FEWEST resamples."""
FEWEST = 20


@dataclass(frozen=True)
class Figure:
    """A metric and its interval of 95%; NaN where there is none."""

    name: str
    value: float
    low: float
    high: float
    higher_is_better: bool


def chosen_metrics(judged: Judged, dataset: Dataset, names: Sequence[str] | None) -> list[Metric]:
    """Return the metrics of a report: those named, or those that suit the objective and the labels."""
    params = _params_of(judged)
    if names is not None:
        if isinstance(names, str):
            names = [names]
        made = [get_metric(name, params) for name in names]
        for metric in made:
            if metric.for_classes != (judged.booster.n_outputs > 1):
                raise ParameterError(f"metrics has {metric.name!r}, which does not fit the outputs of this model")
            metric.check(dataset, "the data of the report")
        return made
    default = judged.booster.objective.default_metric
    by_task = {
        "binary": ("auc", "average_precision", default, "binary_error"),
        "multiclass": ("multi_logloss", "multi_error"),
        "ranking": ("ndcg@1", "ndcg@5", "ndcg@10", "map@10", "mrr"),
        "regression": (default, "rmse", "l1", "r2"),
    }
    wanted = dict.fromkeys(name for name in by_task[task_of(judged.booster)] if name not in ("none", "custom"))
    whole = bool(np.isin(judged.label, (0.0, 1.0)).all())
    kept = []
    for name in wanted:
        if task_of(judged.booster) == "binary" and not whole and name != default:
            continue  # fractions of classes have no order
        metric = get_metric(name, params)
        try:
            metric.check(dataset, "the data of the report")
        except DataError:
            continue
        kept.append(metric)
    return kept


def _params_of(judged: Judged) -> Params:
    params = dict(judged.booster.kept_params)
    if params.get("objective") == "custom":
        params.pop("objective")
        params.pop("num_class", None)
    return Params.from_dict(params)


def figures(judged: Judged, metrics: Sequence[Metric], n_resamples: int, seed: int = 0) -> list[Figure]:
    """Evaluate metrics and their intervals; n_resamples 0: without intervals."""
    names, values, measures, higher = [], [], [], []
    for metric in metrics:
        for name, value, measure in _measures(judged, metric):
            names.append(name)
            values.append(value)
            measures.append(measure)
            higher.append(metric.higher_is_better)
    by_query = judged.boundaries is not None and any(isinstance(metric, QueryMetric) for metric in metrics)
    n_units = len(judged.boundaries) - 1 if by_query and judged.boundaries is not None else judged.n_rows
    n_times = int(np.clip(RESAMPLED_ROWS / max(n_units, 1), min(FEWEST, n_resamples), n_resamples))
    rng, found = np.random.default_rng(seed), np.full((n_times, len(measures)), np.nan)
    for time in range(n_times):
        drawn = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units).astype(np.float64)
        for place, measure in enumerate(measures):
            found[time, place] = np.nan if measure is None else measure(drawn)
    ends = np.full((2, len(measures)), np.nan)
    for place in range(len(measures)):
        fine = found[np.isfinite(found[:, place]), place]
        if len(fine) >= max(FEWEST // 2, 1):
            ends[:, place] = np.quantile(fine, (0.025, 0.975))
    return [
        Figure(name, value, float(ends[0, place]), float(ends[1, place]), higher[place])
        for place, (name, value) in enumerate(zip(names, values, strict=True))
    ]


def _measures(judged: Judged, metric: Metric) -> list[tuple[str, float, Measure | None]]:
    """Return name, value and function of resamples of every figure of a metric."""
    if isinstance(metric, QueryMetric):
        if judged.boundaries is None:
            return []
        lists = NUMPY.list_values(metric, judged.label, judged.raw[0], judged.boundaries)
        weight = query_weights(judged.boundaries, judged.weight)
        each = np.ones(lists.shape[1]) if weight is None else weight
        values = metric.at_ranks(judged.label, judged.raw[0], judged.weight, judged.boundaries)
        return [
            (name, value, _mean_of(row, each)) for name, value, row in zip(metric.names, values, lists, strict=True)
        ]
    value = metric(judged.label, judged.raw, judged.weight, judged.booster.objective)
    return [(metric.name, value, _measure(judged, metric))]


def _measure(judged: Judged, metric: Metric) -> Measure | None:
    if isinstance(metric, MeanLoss):
        mean = _mean_of(row_losses(judged, metric), np.ones(judged.n_rows) if metric.weight_in_loss else judged.weights)
        return lambda drawn: metric.finish(mean(drawn))
    if isinstance(metric, (AreaUnderCurve, AveragePrecision)):
        return _order_measure(judged, isinstance(metric, AreaUnderCurve))
    if isinstance(metric, RSquared):
        return _r_squared(judged)
    return None


def row_losses(judged: Judged, metric: MeanLoss) -> FloatArray:
    """Return the loss of every row, float64 (n_rows,)."""
    label, _ = metric.with_weights(judged.label, judged.weight)
    return metric.losses(label, judged.raw if metric.uses_raw_scores else judged.predictions)


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the sum of the products, by one thread: those of BLAS wait for each other longer than this takes.

    a, b  float64 (n,)  in
    """
    return float(np.einsum("i,i->", a, b))


def _mean_of(values: FloatArray, weights: FloatArray) -> Measure:
    weighted = values * weights

    def measure(drawn: FloatArray) -> float:
        return dot(drawn, weighted) / max(dot(drawn, weights), 1e-300)

    return measure


def _order_measure(judged: Judged, is_auc: bool) -> Measure:
    score = judged.raw[0]
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(score[order][1:] != score[order][:-1], True))
    positive = (judged.label > 0.0)[order] * judged.weights[order]
    negative = (judged.label <= 0.0)[order] * judged.weights[order]

    def measure(drawn: FloatArray) -> float:
        ranked = drawn[order]
        tp, fp = np.cumsum(ranked * positive)[last], np.cumsum(ranked * negative)[last]
        if tp[-1] <= 0 or (is_auc and fp[-1] <= 0):
            return float("nan")
        gained = np.diff(tp, prepend=0.0)
        if is_auc:  # pairs in the wrong order, ties by half
            return dot(gained, fp[-1] - fp + np.diff(fp, prepend=0.0) / 2.0) / float(tp[-1] * fp[-1])
        return dot(gained, tp / np.maximum(tp + fp, 1e-300)) / float(tp[-1])

    return measure


def _r_squared(judged: Judged) -> Measure:
    label, each = judged.label - judged.label.mean(), judged.weights
    errors = each * (judged.label - judged.predictions[0]) ** 2
    first, second = each * label, each * label**2

    def measure(drawn: FloatArray) -> float:
        spread = dot(drawn, second) - dot(drawn, first) ** 2 / max(dot(drawn, each), 1e-300)
        return 1.0 - dot(drawn, errors) / spread if spread > 0 else float("nan")

    return measure


def some_rows(judged: Judged, chosen: NDArray[np.bool_]) -> Judged:
    """Return the rows of a slice; of queries those whose first row is in it.

    chosen  bool (n_rows,)  in
    """
    boundaries = judged.boundaries
    if boundaries is not None:
        kept = chosen[boundaries[:-1]]
        sizes = np.diff(boundaries)
        chosen = np.repeat(kept, sizes)
        boundaries = np.append(0, np.cumsum(sizes[kept])).astype(np.int64)
    return replace(
        judged,
        label=judged.label[chosen],
        raw=np.ascontiguousarray(judged.raw[:, chosen]),
        predictions=np.ascontiguousarray(judged.predictions[:, chosen]),
        weight=None if judged.weight is None else judged.weight[chosen],
        boundaries=boundaries,
    )
