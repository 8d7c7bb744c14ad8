"""Metrics of censored times: XGBoost's values of the same predictions, and brute force."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.losses.arithmetic import CompiledArithmetic
from hornbeam.metrics import get_metric
from hornbeam.metrics.survival import Concordance, count_inversions
from hornbeam.objectives import AftObjective, CoxObjective

N = 700


@pytest.fixture(scope="module")
def rows():
    """Return scores, weights, bounds, and labels of which some times are equal and some censored."""
    rng = np.random.default_rng(0)
    time = np.exp(rng.normal(size=N))
    kind = rng.integers(0, 4, N)
    lower = np.where(kind == 1, 0.0, time)
    upper = np.where(kind == 0, time, np.where(kind == 2, np.inf, time * 1.5))
    label = np.round(time, 1) + 0.1
    label = np.where(rng.random(N) < 0.3, -label, label)
    return np.round(0.5 * np.log(time) + rng.normal(size=N), 2), rng.random(N) + 0.5, lower, upper, label


def evaluate(metric, data, scores, objective):
    [(name, value)] = metric.evaluate(data, scores[None], objective)
    assert name == metric.name
    [(_, compiled)] = metric.evaluate(data, scores[None], objective, CompiledArithmetic(2))
    assert np.array_equal(compiled, value, equal_nan=True)
    return value


def xgboost_value(params, fields, scores, weight):
    """Return what XGBoost evaluates on a model whose scores are given."""
    xgb = pytest.importorskip("xgboost")
    data = xgb.DMatrix(np.zeros((N, 1)), base_margin=scores, weight=weight, **fields)
    found = {}
    params = {**params, "learning_rate": 1e-30, "verbosity": 0, "nthread": 1}
    xgb.train(params, data, 1, evals=[(data, "data")], evals_result=found, verbose_eval=False)
    return found["data"][params["eval_metric"]][-1]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
@pytest.mark.parametrize("name", ["aft-nloglik", "interval-regression-accuracy"])
def test_values_of_bounded_times_are_xgboosts(rows, name, distribution, weighted):
    scores, weight, lower, upper, _ = rows
    fields = {"label_lower_bound": lower, "label_upper_bound": upper}
    params = {"objective": "survival:aft", "aft_loss_distribution": distribution, "aft_loss_distribution_scale": 0.8}
    data = hb.Dataset(np.zeros((N, 1)), weight=weight if weighted else None, **fields)
    value = evaluate(get_metric(name, hb.Params.from_dict({**params, "metric": name})), data, scores, AftObjective())
    expected = xgboost_value({**params, "eval_metric": name}, fields, scores, weight if weighted else None)
    assert value == pytest.approx(expected, rel=2e-5)


def test_cox_likelihood_is_xgboosts(rows):
    scores, _, _, _, label = rows
    value = evaluate(get_metric("cox-nloglik"), hb.Dataset(np.zeros((N, 1)), label), scores, CoxObjective())
    expected = xgboost_value(
        {"objective": "survival:cox", "eval_metric": "cox-nloglik"}, {"label": label}, scores, None
    )
    assert value == pytest.approx(expected, rel=1e-5)


def test_weights_of_cox_likelihood_are_repeated_rows(rows):
    scores, _, _, _, label = rows
    times = np.random.default_rng(3).integers(1, 4, N)
    metric, objective = get_metric("cox-nloglik"), CoxObjective()
    weighted = metric(label, scores[None], times.astype(np.float64), objective)
    repeated = metric(np.repeat(label, times), np.repeat(scores, times)[None], None, objective)
    assert weighted == pytest.approx(repeated, rel=1e-12)


@pytest.mark.parametrize("name", ["cox-nloglik", "concordance"])
def test_order_of_rows_cannot_be_seen(rows, name):
    scores, _, _, _, label = rows
    order = np.random.default_rng(1).permutation(N)
    values = [get_metric(name)(label[one], scores[None, one], None, CoxObjective()) for one in (slice(None), order)]
    assert values[0] == values[1]


def brute_concordance(time, event, predicted):
    """Return the share of pairs in the right order by a loop over all."""
    earlier = event[:, None] & ((time[:, None] < time) | ((time[:, None] == time) & ~event))
    right = (predicted[:, None] < predicted) + 0.5 * (predicted[:, None] == predicted)
    return (earlier * right).sum() / earlier.sum()


def test_concordance_counts_pairs(rows):
    scores, _, lower, upper, label = rows
    data = hb.Dataset(np.zeros((N, 1)), label)
    found = evaluate(Concordance(), data, scores, CoxObjective())
    assert found == pytest.approx(brute_concordance(np.abs(label), label > 0.0, -scores), rel=1e-14)
    bounded = hb.Dataset(np.zeros((N, 1)), label_lower_bound=lower, label_upper_bound=upper)
    found = evaluate(Concordance(), bounded, scores, AftObjective())
    assert found == pytest.approx(brute_concordance(lower, lower == upper, scores), rel=1e-14)


def test_concordance_of_a_perfect_order_is_one_and_of_none_a_half():
    time = np.array([1.0, 2.0, 3.0])
    metric = Concordance()
    assert metric.of_times(time, np.ones(3, bool), time) == 1.0
    assert metric.of_times(time, np.ones(3, bool), -time) == 0.0
    assert metric.of_times(time, np.zeros(3, bool), time) == 0.5
    assert np.isnan(metric.of_times(time, np.ones(3, bool), np.array([1.0, np.nan, 2.0])))


@pytest.mark.parametrize("n", [1, 2, 50, 300])
def test_inversions_are_counted(n):
    rng = np.random.default_rng(n)
    key, rank, first = rng.integers(0, 20, n), rng.integers(0, 9, n), rng.random(n) < 0.6
    expected = ((key[:, None] < key) & (rank[:, None] > rank) & first[:, None]).sum()
    assert count_inversions(key, rank, first) == expected


def test_scores_that_are_no_numbers_give_nan(rows):
    scores, _, lower, upper, label = rows
    scores = np.where(np.arange(N) == 5, np.nan, scores)
    data = hb.Dataset(np.zeros((N, 1)), label, label_lower_bound=lower, label_upper_bound=upper)
    for name in ("aft-nloglik", "interval-regression-accuracy", "cox-nloglik", "concordance"):
        assert np.isnan(evaluate(get_metric(name), data, scores, CoxObjective()))


def test_metrics_say_what_they_cannot_judge():
    X, y = np.zeros((40, 1)), np.arange(1.0, 41.0)
    train_set, params = hb.Dataset(X, y), {"verbosity": -1, "device": "reference"}
    valid = {"weights": hb.Dataset(X, y, weight=y), "no times": hb.Dataset(X, -y)}
    for metric, name, message in (
        ("concordance", "weights", "has weights"),
        ("cox-nloglik", "no times", "has none: no label is positive"),
        ("aft-nloglik", "no times", "takes no label <= 0"),
    ):
        with pytest.raises(hb.DataError, match=message):
            hb.train({**params, "metric": metric}, train_set, 1, valid_sets={name: valid[name]})
