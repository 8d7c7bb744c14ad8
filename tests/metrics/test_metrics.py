"""Metrics: equal to scikit-learn's within rounding, and to themselves bit for bit whatever order and threads."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from sklearn import metrics as sk

from hornbeam.backends.cpu.losses.arithmetic import CompiledArithmetic
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.metrics import ALIASES, METRICS, get_metric, get_metrics
from hornbeam.metrics.base import MeanLoss
from hornbeam.metrics.ranked_lists import QueryMetric
from hornbeam.objectives import (
    OBJECTIVES,
    BinaryObjective,
    CrossEntropyLambdaObjective,
    CrossEntropyObjective,
    CustomObjective,
    FocalObjective,
    GammaObjective,
    MulticlassObjective,
    PoissonObjective,
    RegressionObjective,
    SquaredLogErrorObjective,
    TweedieObjective,
    get_objective,
)
from hornbeam.params.params import Params

REGRESSION, BINARY, MULTICLASS = RegressionObjective(), BinaryObjective(1.5), MulticlassObjective(4)
ALPHA, RHO = 0.9, 1.5  # the defaults
OBJECTIVE = {
    "l1": REGRESSION,
    "l2": REGRESSION,
    "rmse": REGRESSION,
    "r2": REGRESSION,
    "binary_logloss": BINARY,
    "binary_error": BINARY,
    "auc": BINARY,
    "average_precision": BINARY,
    "multi_logloss": MULTICLASS,
    "multi_error": MULTICLASS,
    "auc_mu": MULTICLASS,
    "huber": REGRESSION,
    "fair": REGRESSION,
    "rmsle": SquaredLogErrorObjective(),
    "pseudohuber": REGRESSION,
    "quantile": REGRESSION,
    "expectile": REGRESSION,
    "mape": REGRESSION,
    "logcosh": REGRESSION,
    "poisson": PoissonObjective(),
    "gamma": GammaObjective(),
    "gamma_deviance": GammaObjective(),
    "tweedie": TweedieObjective(),
    "tweedie_deviance": TweedieObjective(),
    "cross_entropy": CrossEntropyObjective(),
    "kullback_leibler": CrossEntropyObjective(),
    "cross_entropy_lambda": CrossEntropyLambdaObjective(),
    "focal": FocalObjective(),
}

SURVIVAL = ("aft-nloglik", "interval-regression-accuracy", "cox-nloglik", "concordance")
OF_ROWS = [name for name, kind in METRICS.items() if not issubclass(kind, QueryMetric) and name not in SURVIVAL]
"""Metrics that need no queries; test_ranking_metrics.py and test_survival_metrics.py have the others."""


def row_losses(name, y, p):
    """Losses of rows as LightGBM has them (and focal, expectile and logcosh as their papers have)."""
    d = np.abs(p - y)
    return {
        "huber": lambda: special.huber(ALPHA, d),
        "fair": lambda: d - np.log1p(d),
        "pseudohuber": lambda: special.pseudo_huber(1.0, d),
        "expectile": lambda: np.where(p >= y, 1.0 - ALPHA, ALPHA) * d**2,
        "mape": lambda: d / np.maximum(1.0, np.abs(y)),
        "logcosh": lambda: np.logaddexp(d, -d) - np.log(2.0),
        "poisson": lambda: p - y * np.log(p),
        "gamma": lambda: y / p + np.log(p),
        "tweedie": lambda: -y * p ** (1.0 - RHO) / (1.0 - RHO) + p ** (2.0 - RHO) / (2.0 - RHO),
        "cross_entropy": lambda: -special.xlogy(y, p) - special.xlogy(1.0 - y, 1.0 - p),
        "kullback_leibler": lambda: special.rel_entr(y, p) + special.rel_entr(1.0 - y, 1.0 - p),
        "focal": lambda: np.where(y > 0, -0.25 * (1.0 - p) ** 2 * np.log(p), -0.75 * p**2 * np.log1p(-p)),
    }[name]()


BY_ROW = (
    "huber", "fair", "pseudohuber", "expectile", "mape", "logcosh", "poisson", "gamma", "tweedie", "focal",
    "cross_entropy", "kullback_leibler",
)  # fmt: skip


def scikit_learn(name, label, raw, weight):
    """The same figure from scikit-learn."""
    p = OBJECTIVE[name].transform(raw)
    if name == "auc_mu":
        found = []
        for i in range(4):
            for j in range(i + 1, 4):
                rows = (label == i) | (label == j)
                w = None if weight is None else weight[rows]
                found.append(sk.roc_auc_score(label[rows] == i, (raw[i] - raw[j])[rows], sample_weight=w))
        return np.mean(found)
    if name == "quantile":
        return sk.mean_pinball_loss(label, p[0], alpha=ALPHA, sample_weight=weight)
    if name == "gamma_deviance":
        return sk.mean_gamma_deviance(label, p[0], sample_weight=weight)
    if name == "tweedie_deviance":
        return sk.mean_tweedie_deviance(label, p[0], power=RHO, sample_weight=weight)
    if name in BY_ROW:
        return np.average(row_losses(name, label, p[0]), weights=weight)
    if name == "l1":
        return sk.mean_absolute_error(label, p[0], sample_weight=weight)
    if name == "l2":
        return sk.mean_squared_error(label, p[0], sample_weight=weight)
    if name == "rmse":
        return math.sqrt(sk.mean_squared_error(label, p[0], sample_weight=weight))
    if name == "cross_entropy_lambda":  # the mean of the rows, whose weights are exponents
        z = 1.0 - (1.0 - special.expit(raw[0])) ** (1.0 if weight is None else weight)
        return np.mean(-special.xlogy(label, z) - special.xlogy(1.0 - label, 1.0 - z))
    if name == "rmsle":
        errors = np.log1p(np.maximum(p[0], 1e-6 - 1.0)) - np.log1p(label)
        return math.sqrt(np.average(errors**2, weights=weight))
    if name == "r2":
        return sk.r2_score(label, p[0], sample_weight=weight)
    if name == "binary_logloss":
        return sk.log_loss(label, p[0], sample_weight=weight, labels=[0, 1])
    if name == "binary_error":
        return 1.0 - sk.accuracy_score(label, p[0] > 0.5, sample_weight=weight)
    if name == "auc":
        return sk.roc_auc_score(label, raw[0], sample_weight=weight)
    if name == "average_precision":
        return sk.average_precision_score(label, raw[0], sample_weight=weight)
    if name == "multi_logloss":
        return sk.log_loss(label, p.T, sample_weight=weight, labels=range(4))
    return 1.0 - sk.accuracy_score(label, raw.argmax(axis=0), sample_weight=weight)


def make_rows(name, n_rows, seed=0, ties=False):
    objective = OBJECTIVE[name]
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(objective.n_outputs, n_rows))
    if objective is REGRESSION:
        label = raw[0] + rng.normal(size=n_rows)
    elif objective.labels in ("positive", "nonnegative"):
        label = rng.gamma(2.0, np.exp(raw[0]) / 2.0) + 1e-3
        if objective.labels == "nonnegative":
            label = np.floor(label)
    elif objective.labels == "unit":
        label = np.clip(rng.random(n_rows) * 1.2 - 0.1, 0.0, 1.0)
    elif objective.labels == "binary":
        label = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-raw[0]))).astype(np.float64)
        if ties:
            raw = np.round(raw, 1)
    else:
        label = rng.integers(0, 4, n_rows).astype(np.float64)
    return label, raw, rng.exponential(size=n_rows) + 0.01


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", OF_ROWS)
def test_value_is_scikit_learns(name, weighted, ties):
    label, raw, weight = make_rows(name, 5000, ties=ties)
    weight = weight if weighted else None
    value = get_metric(name)(label, raw, weight, OBJECTIVE[name])
    assert type(value) is float
    assert value == pytest.approx(scikit_learn(name, label, raw, weight), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", OF_ROWS)
def test_value_is_the_same_for_any_row_order_and_thread_count(name, weighted):
    label, raw, weight = make_rows(name, 40_001, ties=True)
    weight = weight if weighted else None
    metric, objective = get_metric(name), OBJECTIVE[name]
    value = metric(label, raw, weight, objective)
    assert all(metric(label, raw, weight, objective, CompiledArithmetic(n)) == value for n in (1, 2, 3, 8))
    order = np.random.default_rng(1).permutation(len(label))
    shuffled = np.ascontiguousarray(raw[:, order])
    assert (
        metric(label[order], shuffled, None if weight is None else weight[order], objective, CompiledArithmetic(2))
        == value
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", [name for name in OF_ROWS if issubclass(METRICS[name], MeanLoss)])
def test_mean_losses_equal_their_numpy_definition(name, weighted):
    for n_rows in (1, 2, 7, 50_003):
        label, raw, weight = make_rows(name, n_rows, seed=n_rows)
        raw = raw * 40.0  # some probabilities are clipped
        weight = weight if weighted else None
        metric = get_metric(name)
        assert metric(label, raw, weight, OBJECTIVE[name], CompiledArithmetic(2)) == metric(
            label, raw, weight, OBJECTIVE[name]
        )


@pytest.mark.parametrize("name", OF_ROWS)
def test_unit_weights_change_nothing(name):
    label, raw, _ = make_rows(name, 3000, ties=True)
    metric = get_metric(name)
    plain = metric(label, raw, None, OBJECTIVE[name])
    assert metric(label, raw, np.ones(3000), OBJECTIVE[name]) == pytest.approx(plain, rel=1e-14)


@pytest.mark.parametrize("name", [name for name in OF_ROWS if name != "cross_entropy_lambda"])  # exponents there
def test_whole_weights_are_repeated_rows(name):
    label, raw, _ = make_rows(name, 500, ties=True)
    times = np.random.default_rng(2).integers(0, 4, 500)
    repeated = np.ascontiguousarray(np.repeat(raw, times, axis=1))
    metric = get_metric(name)
    expected = metric(np.repeat(label, times), repeated, None, OBJECTIVE[name])
    assert metric(label, raw, times.astype(np.float64), OBJECTIVE[name]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", OF_ROWS)
def test_inputs_are_not_changed(name):
    label, raw, weight = make_rows(name, 100)
    before = label.copy(), raw.copy(), weight.copy()
    get_metric(name)(label, raw, weight, OBJECTIVE[name])
    get_metric(name)(label, raw, None, OBJECTIVE[name])
    assert all((a == b).all() for a, b in zip(before, (label, raw, weight), strict=True))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(1, 1000)), min_size=1, max_size=40),
)
def test_auc_counts_pairs(rows):
    scores, positive, weights = (np.array(column) for column in zip(*rows, strict=True))
    label, raw, weight = positive.astype(np.float64), scores[None].astype(np.float64), weights.astype(np.float64)
    auc = get_metric("auc")
    for w in (np.ones(len(rows)), weight):
        wins = total = 0.0
        for i in np.flatnonzero(positive):
            for j in np.flatnonzero(~positive):
                total += w[i] * w[j]
                wins += w[i] * w[j] * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
        expected = wins / total if total else 1.0
        assert auc(label, raw, w, BINARY) == pytest.approx(expected, abs=1e-14)
    assert auc(label, raw, None, BINARY) == auc(label, raw, np.ones(len(rows)), BINARY)


def test_auc_is_mirrored_by_negated_scores():
    label, raw, weight = make_rows("auc", 2000, ties=True)
    auc = get_metric("auc")
    assert auc(label, raw, None, BINARY) + auc(label, -raw, None, BINARY) == pytest.approx(1.0, abs=1e-15)
    assert auc(label, raw, weight, BINARY) + auc(label, -raw, weight, BINARY) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", ["auc", "average_precision"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_ranking_of_a_single_class_is_one(name, value):
    label, raw = np.full(5, value), np.arange(5.0)[None]
    assert get_metric(name)(label, raw, None, BINARY) == 1.0
    assert get_metric(name)(label, raw, np.ones(5), BINARY) == 1.0


def test_negative_zero_ties_with_zero():
    label = np.array([0.0, 1.0])
    for raw in ([[0.0, -0.0]], [[-0.0, 0.0]]):
        for weight in (None, np.ones(2)):
            assert get_metric("auc")(label, np.array(raw), weight, BINARY) == 0.5
            assert get_metric("average_precision")(label, np.array(raw), weight, BINARY) == 0.5


def test_r2_of_constant_labels():
    label = np.full(4, 0.1)
    r2 = get_metric("r2")
    assert r2(label, label[None].copy(), None, REGRESSION) == 1.0
    assert r2(label, np.zeros((1, 4)), None, REGRESSION) == 0.0
    assert r2(label, np.zeros((1, 4)), np.array([1.0, 2.0, 0.3, 0.0]), REGRESSION) == 0.0


def test_log_losses_are_finite_for_certain_and_wrong_predictions():
    raw = np.array([[1e6, -1e6]])
    value = get_metric("binary_logloss")(np.array([0.0, 1.0]), raw, None, BINARY)
    assert value == pytest.approx(-math.log(1e-15))
    raw = np.array([[1e6, 0.0], [0.0, 1e6], [0.0, 0.0], [0.0, 0.0]])
    value = get_metric("multi_logloss")(np.array([1.0, 0.0]), raw, None, MULTICLASS)
    assert value == pytest.approx(-math.log(1e-15))


@pytest.mark.parametrize("value", [-1.0, 4.0, np.nan])
@pytest.mark.parametrize("name", ["multi_logloss", "multi_error"])
def test_labels_that_are_no_class_are_an_error(name, value):
    """Also with a custom objective, which accepts any label."""
    with pytest.raises(DataError, match="labels 0 to 3"):
        get_metric(name)(np.array([0.0, value]), np.zeros((4, 2)), None, CustomObjective(None, 4))


def test_ties_count_as_errors_in_multi_error():
    assert get_metric("multi_error")(np.array([0.0, 1.0]), np.zeros((4, 2)), None, MULTICLASS) == 1.0


@pytest.mark.parametrize("name", ["l1", "l2", "rmse", "binary_logloss", "auc", "average_precision", "multi_logloss"])
def test_nan_scores_give_nan(name):
    label, raw, weight = make_rows(name, 10)
    raw[:, 3] = np.nan
    metric = get_metric(name)
    assert math.isnan(metric(label, raw, None, OBJECTIVE[name]))
    assert math.isnan(metric(label, raw, weight, OBJECTIVE[name]))
    if isinstance(metric, MeanLoss):
        with np.errstate(invalid="ignore"):  # exp turns a NaN exponent into an integer on its way to NaN
            assert math.isnan(metric(label, raw, weight, OBJECTIVE[name], CompiledArithmetic(1)))


def test_predictions_not_raw_scores_are_judged():
    """A numeric metric of a classifier is about its probabilities (as LightGBM)."""
    label, raw, _ = make_rows("auc", 100)
    expected = np.mean((BINARY.transform(raw)[0] - label) ** 2)
    assert get_metric("l2")(label, raw, None, BINARY) == pytest.approx(expected, rel=1e-14)


def test_direction_is_known():
    assert {name for name in OF_ROWS if METRICS[name].higher_is_better} == {
        "r2",
        "auc",
        "average_precision",
        "auc_mu",
    }


def test_constants_come_from_the_parameters():
    label, raw, _ = make_rows("tweedie", 500)
    params = Params.from_dict({"objective": "tweedie", "tweedie_variance_power": 1.2, "metric": "tweedie_deviance"})
    (metric,) = get_metrics(params, get_objective(params))
    expected = sk.mean_tweedie_deviance(label, np.exp(raw[0]), power=1.2)
    assert metric(label, raw, None, get_objective(params)) == pytest.approx(expected, rel=1e-12)
    params = Params.from_dict({"metric": "quantile", "alpha": 0.2})
    (metric,) = get_metrics(params, REGRESSION)
    assert metric(label, raw, None, REGRESSION) == pytest.approx(sk.mean_pinball_loss(label, raw[0], alpha=0.2))


def test_tweedie_of_power_one_is_poisson():
    label, raw, weight = make_rows("poisson", 500)
    params = Params.from_dict({"objective": "tweedie", "tweedie_variance_power": 1.0})
    tweedie, deviance = get_metric("tweedie", params), get_metric("tweedie_deviance", params)
    objective = get_objective(params)
    assert tweedie(label, raw, weight, objective) == get_metric("poisson")(label, raw, weight, objective)
    expected = sk.mean_poisson_deviance(label, np.exp(raw[0]), sample_weight=weight)
    assert deviance(label, raw, weight, objective) == pytest.approx(expected, rel=1e-12)
    for metric in (tweedie, deviance):
        assert metric(label, raw, weight, objective) == metric(label, raw, weight, objective, CompiledArithmetic(2))


def test_auc_mu_leaves_out_absent_classes():
    label, raw, weight = make_rows("auc_mu", 300)
    rows = label < 2
    auc_mu, auc = get_metric("auc_mu"), get_metric("auc")
    expected = auc(1.0 - label[rows], (raw[0] - raw[1])[None, rows], None, BINARY)
    assert auc_mu(label[rows], np.ascontiguousarray(raw[:, rows]), None, MULTICLASS) == expected
    assert auc_mu(label, raw, weight * rows, MULTICLASS) == pytest.approx(
        auc_mu(label[rows], np.ascontiguousarray(raw[:, rows]), weight[rows], MULTICLASS), rel=1e-12
    )
    assert auc_mu(np.zeros(3), raw[:, :3].copy(), None, MULTICLASS) == 1.0


def test_every_objective_has_its_metric():
    for name, kind in OBJECTIVES.items():
        assert kind.default_metric in METRICS, name
        assert METRICS[kind.default_metric].for_classes == (kind.labels == "classes")


def test_aliases_lead_to_metrics():
    assert not set(ALIASES) & set(METRICS)
    assert set(ALIASES.values()) <= set(METRICS)
    assert get_metric("mlogloss").name == "multi_logloss"


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({}, ["l2"]),
        ({"objective": "binary"}, ["binary_logloss"]),
        ({"objective": "multiclass", "num_class": 3}, ["multi_logloss"]),
        ({"objective": lambda s, d: (s, s)}, []),
        ({"metric": "none"}, []),
        ({"metric": "mae"}, ["l1"]),
        ({"objective": "binary", "metric": ["auc", "logloss", "auc", "binary"]}, ["auc", "binary_logloss"]),
        ({"objective": "binary", "metric": "auc,error"}, ["auc", "binary_error"]),
    ],
)
def test_get_metrics_follows_the_parameters(params, names):
    params = Params.from_dict(params)
    assert [metric.name for metric in get_metrics(params, get_objective(params))] == names


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"metric": "binary_loglos"}, "did you mean 'binary_logloss'"),
        ({"metric": ["l2", "none"]}, "leave one"),
        ({"metric": "multi_logloss"}, "use one of l1, l2"),
        ({"objective": "multiclass", "num_class": 3, "metric": "l2"}, "use one of multi_logloss, multi_error"),
    ],
)
def test_metrics_that_cannot_be_meant_are_errors(params, message):
    params = Params.from_dict(params)
    with pytest.raises(ParameterError, match=message):
        get_metrics(params, get_objective(params))


def test_custom_objective_is_judged_by_raw_scores():
    label, raw, _ = make_rows("l2", 100)
    assert get_metric("l2")(label, raw, None, CustomObjective()) == get_metric("l2")(label, raw, None, REGRESSION)


def test_importing_objectives_and_metrics_does_not_import_numba():
    code = "import sys, hornbeam.objectives, hornbeam.metrics; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("name", "instead"), [("accuracy", "binary_error"), ("f1", "feval=")])
def test_metrics_that_are_not_here_name_what_to_do_instead(name, instead):
    with pytest.raises(ParameterError, match=instead):
        get_metric(name)
