"""Checks of metrics on a device: every metric, on scores of every awkward kind, has the bits that the host has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import METRICS, Metric, get_metric
from hornbeam.metrics.ranked_lists import QueryMetric
from hornbeam.metrics.survival import BoundedLoss
from hornbeam.objectives import RANKING, Objective, get_objective
from hornbeam.params.params import Params
from hornbeam.testing.checks import assert_same_bits, binned_data, engine_on
from hornbeam.testing.data import make_binned
from hornbeam.testing.labels import labels_for, params_for
from hornbeam.trees.engine import Engine
from hornbeam.trees.forest import average_scores
from hornbeam.trees.records import ForestMean

FloatArray = NDArray[np.float64]

KINDS = ("spread", "tied", "constant", "huge", "not a number")
"""Kinds of scores, see `awkward_scores`."""

SQUARED = ("l1", "l2", "rmse", "r2", "mape")
AMOUNTS = ("poisson", "gamma", "gamma_deviance", "tweedie", "tweedie_deviance")
OF_TWO = ("binary_logloss", "binary_error", "auc", "average_precision")


def objectives_of(metric: str) -> list[dict[str, Any]]:
    """Return parameters of the objectives that a metric is checked with: every link function that it may meet."""
    if METRICS[metric].for_classes:
        return [params_for("multiclass"), params_for("multiclassova")]
    if issubclass(METRICS[metric], QueryMetric):
        return [{"objective": "lambdarank"}]
    if issubclass(METRICS[metric], BoundedLoss):
        aft = params_for("survival:aft")
        others = ({"aft_loss_distribution": name} for name in ("logistic", "extreme"))
        return [aft, *({**aft, **given, "aft_loss_distribution_scale": 0.7} for given in others)]
    if metric in ("cox-nloglik", "concordance"):
        return [params_for("survival:cox")]
    if metric in AMOUNTS:
        return [params_for("gamma"), {**params_for("tweedie"), "tweedie_variance_power": 1.0}, params_for("tweedie")]
    if metric in OF_TWO:
        return [{**params_for("binary"), "sigmoid": 0.7}, params_for("hinge")]
    if metric.startswith("cross_entropy") or metric == "kullback_leibler":
        return [params_for("cross_entropy"), params_for("cross_entropy_lambda")]
    if metric == "focal":
        return [params_for("focal"), {**params_for("focal"), "focal_gamma": 0.5, "focal_alpha": 0.6}]
    plain = params_for("regression")
    if metric in SQUARED:
        return [plain, {**plain, "reg_sqrt": True}, params_for("poisson")]
    if metric == "fair":
        return [plain, {**params_for("fair"), "fair_c": 2.5}]
    if metric == "pseudohuber":
        return [plain, {**params_for("pseudohuber"), "huber_slope": 2.5}]
    return [plain, {**params_for(metric), "alpha": 0.7}] if metric in ("huber", "quantile", "expectile") else [plain]


def awkward_scores(rng: np.random.Generator, kind: str, n_outputs: int, n_rows: int) -> FloatArray:
    """Return raw scores, float64 (n_outputs, n_rows), of one of the KINDS."""
    scores: FloatArray = rng.normal(size=(n_outputs, n_rows)) * rng.choice([0.01, 1.0, 10.0], n_rows)
    if kind == "tied":
        return np.round(scores, 0) + 0.0 * rng.choice([-1.0, 1.0], n_rows)  # zeros of either sign
    if kind == "constant":
        return np.full((n_outputs, n_rows), 0.25)
    if kind == "huge":
        some = rng.random((n_outputs, n_rows)) < 0.3
        scores[some] = rng.choice([-1e300, 1e300, -np.inf, np.inf, 750.0, -750.0, 5e-324, 0.0, -0.0], some.sum())
    if kind == "not a number":
        scores[rng.random((n_outputs, n_rows)) < 0.01] = np.nan
    return scores


def metric_cases(names: tuple[str, ...] | None = None) -> Iterator[tuple[str, Metric, Objective]]:
    """Yield name, metric and objective of every case; names: which metrics, None: all."""
    for name in METRICS if names is None else names:
        for given in objectives_of(name):
            params = Params.from_dict({**given, "metric": name})
            yield f"{name} of {given}", get_metric(name, params), get_objective(params)


def make_labelled(rng: np.random.Generator, objective: Objective, n_rows: int, weighted: bool) -> Dataset:
    """Return a data set without features worth the name, with labels in the domain of an objective."""
    signal = rng.normal(size=n_rows) * 3.0 + 1.0
    relevance = np.floor(rng.random(n_rows) ** 3 * 5.0)
    known = objective.name not in RANKING
    label = labels_for(objective.name, signal, objective.n_outputs) if known else relevance
    weight = rng.choice([0.0, 0.3, 1.0, 7.0], n_rows) if weighted else None
    if weight is not None:
        weight[0] = 0.5
    group = None if known else group_sizes(rng, n_rows)
    made = Dataset(np.zeros((n_rows, 1)), label=label, weight=weight, group=group)
    if objective.name == "survival:aft":
        kind = rng.integers(0, 4, n_rows)
        made.set_field("label_lower_bound", np.where(kind == 1, 0.0, label))
        made.set_field("label_upper_bound", np.where(kind == 2, np.inf, np.where(kind == 3, label * 2.0, label)))
    return made


def group_sizes(rng: np.random.Generator, n_rows: int) -> NDArray[np.int64]:
    """Return sizes of queries: many short ones, and a third of the rows in one."""
    rest, sizes = n_rows - n_rows // 3, [n_rows // 3] if n_rows >= 3 else []
    while rest > 0:
        sizes.append(min(rest, int(rng.choice([1, 2, 3, 20, 70, 300]))))
        rest -= sizes[-1]
    return np.array(sizes, np.int64)


def assert_same_metrics(
    device: str,
    n_rows: int,
    *,
    kinds: tuple[str, ...] = KINDS,
    names: tuple[str, ...] | None = None,
    seed: int = 0,
) -> list[str]:
    """Compare metrics on a device with those on the host, bit for bit; NaN must meet NaN.

    Training and validation scores, with and without weights, and those of a random forest. Returns the names of the
    metrics that the device left to the host.
    """
    rng = np.random.default_rng(seed)
    binned, others = binned_data(make_binned(n_rows, 2, 5)), binned_data(make_binned(n_rows + 1, 2, 5))
    engine = engine_on(device, binned)
    left: list[str] = []
    for what, metric, objective in metric_cases(names):
        valid = engine.add_valid(others, np.zeros((objective.n_outputs, n_rows + 1)))
        for weighted in (False, True):
            sets = [(-1, make_labelled(rng, objective, n_rows, weighted))]
            sets.append((valid, make_labelled(rng, objective, n_rows + 1, weighted)))
            for kind in kinds:
                if kind == "not a number" and isinstance(metric, QueryMetric):
                    continue  # no order
                for number, dataset in sets:
                    scores = awkward_scores(rng, kind, objective.n_outputs, dataset.n_rows)
                    engine.set_scores(scores, number)
                    case = f"{what}, {kind}, {'weighted, ' if weighted else ''}set {number}"
                    found = _compare(engine, metric, objective, dataset, number, scores, None, case)
                    if not found and metric.name not in left:
                        left.append(metric.name)
                forest = ForestMean(rng.normal(size=objective.n_outputs), 3)
                _compare(engine, metric, objective, dataset, number, scores, forest, f"{case}, forest")
    engine.close()
    return left


def _compare(
    engine: Engine,
    metric: Metric,
    objective: Objective,
    dataset: Dataset,
    valid: int,
    scores: FloatArray,
    forest: ForestMean | None,
    case: str,
) -> bool:
    """Compare one value, or one list of them; returns whether the engine computed it."""
    found = engine.evaluate(metric, objective, dataset, valid, forest)
    if found is None:
        return False
    if forest is not None:
        scores = scores.copy()
        average_scores(scores, forest.init_scores, forest.n_iterations)
    with np.errstate(all="ignore"):
        expected = metric.evaluate(dataset, scores, objective)
    assert [name for name, _ in found] == [name for name, _ in expected], case
    values, others = (np.array([value for _, value in pairs]) for pairs in (found, expected))
    values[np.isnan(values)] = others[np.isnan(others)] = np.nan  # NaNs of one kind
    assert_same_bits(values, others, case)
    return True
