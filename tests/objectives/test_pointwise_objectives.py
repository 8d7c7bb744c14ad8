"""Objectives of single rows: derivatives, starting points, leaf values, labels and weights, for all of the table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

import hornbeam as hb
from hornbeam.core import numerics
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.objectives import (
    OBJECTIVES,
    BinaryObjective,
    ExpectileObjective,
    FocalObjective,
    LogCoshObjective,
    OneVsAllObjective,
    PointwiseObjective,
    RegressionObjective,
    get_objective,
)
from hornbeam.objectives.percentiles import fixed_weights, percentile, weighted_percentile
from hornbeam.params.objective_names import RENEWED, SPELLINGS
from hornbeam.params.params import Params
from hornbeam.testing.labels import labels_for, params_for

QUIET = {"verbosity": -1}
POINTWISE = [name for name, kind in OBJECTIVES.items() if issubclass(kind, PointwiseObjective)]
ROUGH = ("regression_l1", "mape", "quantile", "huber")
"""Losses with kinks, whose hessian is 1, or the weight of the row."""


def loss(objective, s, y):
    """The loss itself, from the papers and LightGBM's documentation."""
    d = s - y
    a = getattr(objective, "alpha", 0.0)
    if objective.name == "focal":
        p = np.where(y > 0, 1.0 / (1.0 + np.exp(-s)), 1.0 / (1.0 + np.exp(s)))
        w = np.where(y > 0, objective.focal_alpha, 1.0 - objective.focal_alpha)
        return -w * (1.0 - p) ** objective.focal_gamma * np.log(p)
    rho = getattr(objective, "variance_power", 1.5)
    return {
        "regression_l1": lambda: np.abs(d),
        "mape": lambda: np.abs(d) / np.maximum(1.0, np.abs(y)),
        "quantile": lambda: np.where(d < 0, -a * d, (1.0 - a) * d),
        "huber": lambda: np.where(np.abs(d) <= a, d * d / 2.0, a * (np.abs(d) - a / 2.0)),
        "fair": lambda: np.abs(d) - np.log1p(np.abs(d)),
        "squared_log_error": lambda: (np.log1p(s) - np.log1p(y)) ** 2 / 2.0,
        "pseudohuber": lambda: np.sqrt(1.0 + d * d) - 1.0,
        "logcosh": lambda: np.logaddexp(d, -d),
        "expectile": lambda: np.where(d >= 0, 1.0 - a, a) * d * d / 2.0,
        "hinge": lambda: np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * s),
        "cross_entropy_lambda": lambda: np.logaddexp(0.0, s) - y * s,
        "poisson": lambda: np.exp(s) - y * s,
        "gamma": lambda: y * np.exp(-s) + s,
        "tweedie": lambda: -y * np.exp((1.0 - rho) * s) / (1.0 - rho) + np.exp((2.0 - rho) * s) / (2.0 - rho),
    }[objective.name]()


@pytest.fixture(params=[*POINTWISE, "focal, gamma 0.7", "logcosh, Newton"])
def case(request):
    objective = get_objective(Params.from_dict(params_for(request.param.partition(",")[0])))
    if request.param not in OBJECTIVES:
        objective = FocalObjective(0.7, 0.6) if objective.name == "focal" else LogCoshObjective(newton=True)
    rng = np.random.default_rng(0)
    label = labels_for(objective.name, rng.normal(size=400) * 3.0)
    scores = rng.normal(size=400) * 2.0
    if objective.name == "squared_log_error":  # curved upwards around the labels alone
        scores = (1.0 + label) * np.exp(0.2 * scores) - 1.0
    return objective, scores, label, rng.exponential(size=400)


def test_gradient_is_the_slope_of_the_loss(case):
    objective, scores, label, _ = case
    gradient, hessian = (part[0] for part in objective.gradients(scores[None], label, None))
    step = 1e-5
    away = np.abs(np.abs(scores - label) - getattr(objective, "alpha", 0.0)) > 1e-3  # from the kinks
    away &= np.abs(scores - label) > 1e-3
    if objective.name == "hinge":
        away &= np.abs(np.abs(scores) - 1.0) > 1e-3
    slope = (loss(objective, scores + step, label) - loss(objective, scores - step, label)) / (2.0 * step)
    assert np.allclose(gradient[away], slope[away], rtol=1e-6, atol=1e-6)
    assert (hessian > 0.0).all() or objective.name == "hinge"


def test_hessian_is_the_curvature_or_bounds_it(case):
    objective, scores, label, _ = case
    _, hessian = (part[0] for part in objective.gradients(scores[None], label, None))
    step = 1e-4
    curvature = loss(objective, scores + step, label) - 2.0 * loss(objective, scores, label)
    curvature = (curvature + loss(objective, scores - step, label)) / step**2
    if objective.name in ROUGH:
        assert (hessian == (1.0 if objective.name != "mape" else 1.0 / np.maximum(1.0, np.abs(label)))).all()
    elif objective.name == "hinge":
        assert (hessian == ((2.0 * label - 1.0) * scores < 1.0)).all() and 0 < hessian.sum() < len(label)
    elif objective.name == "poisson":
        assert np.allclose(hessian, curvature * math.exp(0.7), rtol=1e-5, atol=1e-5)
    elif objective.name in ("logcosh", "focal", "fair", "pseudohuber", "squared_log_error"):
        assert (hessian >= curvature - (1e-6 if objective.name != "squared_log_error" else 1e-5)).all()
        if objective.name == "pseudohuber":
            near = np.abs(scores - label) < 0.9
            assert near.any() and np.allclose(hessian[near], curvature[near], atol=1e-6)
        if objective.name == "fair":
            size = np.abs(scores - label)
            near, parabola = size < 0.9, 1.0 / (size + 1.0)
            assert near.any() and np.allclose(hessian[near & (size > 1e-3)], curvature[near & (size > 1e-3)], atol=1e-6)
            assert not near.all() and np.allclose(hessian[size > 1.0], 0.5 * parabola[size > 1.0])
        if objective.name == "squared_log_error":
            low = scores < label - 1e-3
            assert low.any() and np.allclose(hessian[low], curvature[low], rtol=1e-4, atol=1e-5)
        if objective.name == "focal":
            p = np.where(label > 0, 1.0 / (1.0 + np.exp(-scores)), 1.0 / (1.0 + np.exp(scores)))
            known = p > 1.0 / (1.0 + objective.focal_gamma)
            assert known.any() and np.allclose(hessian[known], curvature[known], atol=1e-6)
    else:
        away = np.abs(scores - label) > 1e-3
        assert np.allclose(hessian[away], curvature[away], rtol=1e-4, atol=1e-5)


def test_weights_multiply_gradient_and_hessian(case):
    objective, scores, label, weight = case
    if objective.name == "cross_entropy_lambda":
        return  # exponents: test_cross_entropy_lambda.py
    plain = objective.gradients(scores[None], label, None)
    weighted = objective.gradients(scores[None], label, weight)
    assert all((w == p * weight).all() for w, p in zip(weighted, plain, strict=True))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_starts_do_not_depend_on_row_order_and_are_zero_if_asked(name):
    rng = np.random.default_rng(1)
    label, weight = labels_for(name, rng.normal(size=333) * 3.0), rng.exponential(size=333)
    objective = get_objective(Params.from_dict(params_for(name)))
    order = rng.permutation(333)
    for w in (None, weight):
        found = objective.init_scores(label, w)
        assert (found == objective.init_scores(label[order], None if w is None else w[order])).all()
        assert np.isfinite(found).all() and found.shape == (objective.n_outputs,)
    params = Params.from_dict({**params_for(name), "boost_from_average": False})
    assert not get_objective(params).init_scores(label, None).any()


STARTS_ELSEWHERE = ("fair", "huber", "pseudohuber", "logcosh", "focal", "hinge", "cross_entropy_lambda")


@pytest.mark.parametrize("name", [name for name in POINTWISE if name not in STARTS_ELSEWHERE])
def test_start_is_the_best_constant(name):
    """Of fair, huber and pseudohuber it is the mean (LightGBM), of logcosh the median, of focal that of binary.

    Of hinge it is the class of most rows (XGBoost), of cross_entropy_lambda what predicts the mean (LightGBM).
    """
    rng = np.random.default_rng(2)
    objective = get_objective(Params.from_dict(params_for(name)))
    label, weight = labels_for(name, rng.normal(size=500) * 3.0), rng.exponential(size=500)
    for w in (np.ones(500), weight):
        start = objective.init_scores(label, w)[0]

        def total(s, w=w):
            return float((loss(objective, np.full(500, s), label) * w).sum())

        best = optimize.minimize_scalar(total, bounds=(-10.0, 20.0), method="bounded", options={"xatol": 1e-9})
        assert total(start) <= best.fun * (1.0 + 1e-9) + 1e-9


def test_expectile_start_solves_its_equation():
    rng = np.random.default_rng(3)
    label, weight = rng.normal(size=1000), rng.exponential(size=1000)
    for alpha in (0.01, 0.5, 0.99):
        start = ExpectileObjective(alpha).init_scores(label, weight)
        gradient, _ = ExpectileObjective(alpha).gradients(np.full((1, 1000), start[0]), label, weight)
        assert abs(gradient.sum()) < 1e-9
    assert ExpectileObjective(0.5).init_scores(label, None)[0] == pytest.approx(label.mean(), abs=1e-12)


def test_tanh_ratio_is_numpys():
    x = np.concatenate(
        [np.linspace(-30, 30, 20_001), 10.0 ** np.linspace(-300, 1, 500), [0.125, -0.125, 1e300, -1e300]]
    )
    x = x[x != 0.0]
    assert np.max(np.abs(numerics.tanh_ratio(x) / (np.tanh(x) / x) - 1.0)) < 1e-14
    assert numerics.tanh_ratio(np.zeros(1))[0] == 1.0


# --- percentiles ------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_percentile_is_numpys_averaged_inverted_cdf(values, alpha):
    array = np.array(values, np.float64)
    expected = np.quantile(array, alpha, method="averaged_inverted_cdf")
    near = abs(alpha * len(values) - round(alpha * len(values))) < 1e-9  # NumPy rounds its position
    assert near or percentile(array, None, alpha) == expected
    assert percentile(array, None, 0.5) == np.median(array)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_whole_weights_are_repeated_values(rows, alpha):
    values, times = np.array(rows, np.float64).T
    repeated = np.repeat(values, times.astype(int))
    found = percentile(values, fixed_weights(times), alpha)
    assert found == percentile(repeated, None, alpha)
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    assert found == percentile(values[order], fixed_weights(times[order]), alpha)


def test_percentile_has_one_zero():
    assert math.copysign(1.0, weighted_percentile(np.array([-0.0, -0.0]), None, 0.5)) == 1.0
    assert math.copysign(1.0, weighted_percentile(np.array([-0.0]), np.ones(1), 0.5)) == 1.0


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", RENEWED)
def test_leaves_are_percentiles_of_their_rows(name, weighted):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] * 3.0 + rng.normal(size=300)
    weight = rng.exponential(size=300) if weighted else None
    params = {**QUIET, "objective": name, "learning_rate": 0.5, "num_leaves": 5}
    booster = hb.train(params, hb.Dataset(X, label=y, weight=weight), 2)
    objective = get_objective(Params.from_dict({"objective": name}))
    assert objective.renewal_percentile == (0.9 if name == "quantile" else 0.5)
    before = booster.predict(X, num_iteration=1)
    leaves = booster.predict(X, pred_leaf=True)[:, 1]
    weights = objective.renewal_weights(y, weight)
    for leaf, value in enumerate(booster.trees[1].leaf_value):
        rows = leaves == leaf
        w = None if weights is None else weights[rows]
        expected = weighted_percentile(y[rows] - before[rows], w, objective.renewal_percentile) * 0.5
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_renewed_objectives_are_those_of_the_parameters():
    renewed = {name for name in OBJECTIVES if get_objective(Params.from_dict(params_for(name))).renewal_percentile}
    assert renewed == {*RENEWED, "logcosh"}  # which has Newton steps too, and takes constraints
    constrained = Params.from_dict({"objective": "logcosh", "monotone_constraints": [1, 0]})
    assert get_objective(constrained).renewal_percentile is None
    with pytest.raises(ParameterError, match=r"monotone_constraints.*huber"):
        Params.from_dict({"objective": "l1", "monotone_constraints": [1, 0]})


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_mape_is_the_absolute_error_of_weighted_rows(unit):
    """The same model, with weights that are 1 on average, whatever the unit; rows without weight change nothing."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(400, 3))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=400)) * unit
    of_label = 1.0 / np.maximum(1.0, np.abs(y))
    for weight in (np.ones(400), rng.choice([0.0, 0.5, 3.0], 400)):
        relative = of_label * (weight.sum() / (of_label * weight).sum())
        mape = hb.train({**QUIET, "objective": "mape"}, hb.Dataset(X, y, weight=weight), 5)
        l1 = hb.train({**QUIET, "objective": "l1"}, hb.Dataset(X, y, weight=weight * relative), 5)
        assert np.allclose(mape.predict(X), l1.predict(X), rtol=1e-9)
        assert len(np.unique(mape.predict(X))) > 5


def test_max_delta_step_bounds_renewed_leaves():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    params = {**QUIET, "objective": "l1", "max_delta_step": 0.25, "learning_rate": 1.0}
    booster = hb.train(params, hb.Dataset(X, label=X[:, 0] * 10.0), 1)
    assert np.abs(booster.trees[0].leaf_value).max() == 0.25


# --- weights of classes -----------------------------------------------------------------------------------------------


def test_is_unbalance_weighs_the_rarer_class_up():
    label = np.array([0.0, 0.0, 0.0, 1.0])
    assert BinaryObjective(is_unbalance=True).prepare(label, None)[1].tolist() == [1.0, 1.0, 1.0, 3.0]
    assert BinaryObjective(is_unbalance=True).prepare(1.0 - label, None)[1].tolist() == [1.0, 1.0, 1.0, 3.0]
    weights = BinaryObjective(scale_pos_weight=5.0).prepare(label, np.array([1.0, 2.0, 3.0, 4.0]))[1]
    assert weights.tolist() == [1.0, 2.0, 3.0, 20.0]
    assert BinaryObjective().prepare(label, None)[1] is None
    assert BinaryObjective(is_unbalance=True).prepare(np.ones(4), None)[1] is None
    classes = np.array([0.0, 1.0, 1.0, 2.0])
    weights = OneVsAllObjective(3, is_unbalance=True).prepare(classes, None)[1]
    assert weights.tolist() == [[3.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0]]


def test_scale_pos_weight_equals_weights_of_rows():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 1.0).astype(float)
    params = {**QUIET, "objective": "binary", "boost_from_average": False}
    scaled = hb.train({**params, "scale_pos_weight": 3.0}, hb.Dataset(X, label=y), 3)
    weighed = hb.train(params, hb.Dataset(X, label=y, weight=np.where(y > 0, 3.0, 1.0)), 3)
    assert scaled.predict(X).tobytes() == weighed.predict(X).tobytes()


def test_reg_sqrt_fits_the_root():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] * 4.0
    booster = hb.train({**QUIET, "reg_sqrt": True}, hb.Dataset(X, label=y), 5)
    root = hb.train(QUIET, hb.Dataset(X, label=np.sign(y) * np.sqrt(np.abs(y))), 5)
    assert (booster.predict(X, raw_score=True) == root.predict(X)).all()
    assert (booster.predict(X) == root.predict(X) * np.abs(root.predict(X))).all()
    assert RegressionObjective(reg_sqrt=True).to_dict() == {"name": "regression", "reg_sqrt": True}


# --- parameters and labels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "labels", "found"),
    [
        ("poisson", [1.0, -1.0, 0.0], "label\\[1\\] is -1.0"),
        ("tweedie", [1.0, -1e-9, 0.0], "label\\[1\\] is -1e-09"),
        ("gamma", [1.0, 0.0, 2.0], "label\\[1\\] is 0.0"),
        ("cross_entropy", [0.0, 1.5, 2.0], "label\\[1\\] is 1.5"),
        ("cross_entropy", [0.0, 1.0, -0.1], "label\\[2\\] is -0.1"),
        ("focal", [0.0, 0.5, 1.0], "label\\[1\\] is 0.5"),
        ("hinge", [0.0, 1.0, -1.0], "label\\[2\\] is -1.0"),
        ("cross_entropy_lambda", [0.0, 1.5, 1.0], "label\\[1\\] is 1.5"),
        ("multiclassova", [0.0, 3.0, 1.0], "label\\[1\\] is 3.0"),
    ],
)
def test_labels_outside_the_domain_are_refused(objective, labels, found):
    X = np.random.default_rng(0).normal(size=(3, 2))
    params = {**QUIET, **params_for(objective)}
    with pytest.raises(DataError, match=f"objective '{objective}'.*{found}; .*"):
        hb.train(params, hb.Dataset(X, label=labels), 1)
    good = labels_for(objective, np.array([0.5, 3.0, 7.0]))
    with pytest.raises(DataError, match=found):
        hb.train(params, hb.Dataset(X, label=good), 1, {"valid": hb.Dataset(X, label=labels)})


@pytest.mark.parametrize("name", OBJECTIVES)
def test_missing_labels_are_an_error(name):
    with pytest.raises(DataError, match="label="):
        get_objective(Params.from_dict(params_for(name))).check_labels(None)


@pytest.mark.parametrize("name", ["poisson", "tweedie"])
def test_labels_that_are_all_zero_have_no_start(name):
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(DataError, match="boost_from_average=False"):
        hb.train({**QUIET, "objective": name}, hb.Dataset(X, label=np.zeros(50)), 1)
    hb.train({**QUIET, "objective": name, "boost_from_average": False}, hb.Dataset(X, label=np.zeros(50)), 1)


def test_every_name_of_the_peers_is_known():
    peers = {
        "mae": "regression_l1", "l1": "regression_l1", "mean_absolute_error": "regression_l1",
        "reg:absoluteerror": "regression_l1", "absolute_error": "regression_l1", "count:poisson": "poisson",
        "reg:gamma": "gamma", "reg:tweedie": "tweedie", "reg:quantileerror": "quantile", "xentropy": "cross_entropy",
        "reg:logistic": "cross_entropy", "ovr": "multiclassova", "ova": "multiclassova",
        "multiclass_ova": "multiclassova", "mean_absolute_percentage_error": "mape", "binary:hinge": "hinge",
        "xentlambda": "cross_entropy_lambda",
    }  # fmt: skip
    for spelling, name in peers.items():
        params = {"num_class": 3} if name == "multiclassova" else {}
        assert Params.from_dict({"objective": spelling, **params}).objective == name
    assert set(OBJECTIVES) <= set(SPELLINGS.values())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0.5}, "lambda_l1.*reg_alpha"),
        ({"alpha": 0.9}, "lambda_l1"),
        ({"alpha": 0.5, "objective": "binary"}, "'binary' does not use it"),
        ({"alpha": 1.0, "objective": "quantile"}, "below 1"),
        ({"alpha": 1.5, "objective": "expectile"}, "below 1"),
        ({"alpha": 0.0, "objective": "huber"}, "> 0"),
        ({"is_unbalance": True, "scale_pos_weight": 2.0, "objective": "binary"}, "give one of them"),
        ({"tweedie_variance_power": 2.0, "objective": "tweedie"}, ">= 1.0 and < 2.0"),
        ({"focal_alpha": 1.0, "objective": "focal"}, "> 0.0 and < 1.0"),
        ({"objective": "multiclassova"}, "2 or more"),
        ({"objective": "poisson", "num_class": 3}, "one output"),
    ],
)
def test_parameters_that_cannot_be_meant_are_errors(params, message):
    with pytest.raises(ParameterError, match=message):
        Params.from_dict(params)


def test_alpha_may_be_meant_for_a_metric_and_is_not_saved_then():
    params = Params.from_dict({"metric": ["l2", "quantile"], "alpha": 0.2})
    assert "alpha" not in params.model_dict()
    assert Params.from_dict({"objective": "quantile", "alpha": 0.2}).model_dict()["alpha"] == 0.2
    assert Params.from_dict(Params().to_dict()) == Params()


def test_parameters_without_effect_are_named(caplog):
    X = np.random.default_rng(0).normal(size=(50, 2))
    with caplog.at_level("WARNING", logger="hornbeam"):
        hb.train({"fair_c": 2.0, "verbosity": 0}, hb.Dataset(X, label=X[:, 0]), 1)
    assert "fair_c has no effect" in caplog.text


@pytest.mark.parametrize("objective", ["fair", "pseudohuber", "logcosh"])
@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_losses_that_flatten_far_away_fall_whatever_the_unit_of_the_labels(objective, unit):
    X = np.random.default_rng(0).normal(size=(400, 4))
    label = unit * (X[:, 0] + X[:, 1] ** 2)
    history: dict = {}
    data, record = hb.Dataset(X, label=label), hb.record_evaluation(history)
    hb.train({**QUIET, "objective": objective, "metric": "l1"}, data, 60, [data], callbacks=[record])
    (values,) = (metrics["l1"] for metrics in history.values())
    assert all(after <= before * 1.001 for before, after in itertools.pairwise(values))
    assert values[-1] < 0.5 * values[0]
