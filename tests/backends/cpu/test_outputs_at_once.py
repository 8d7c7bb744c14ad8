"""Trees of all outputs in one call: models are those of one tree at a time, and what it cannot do it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.backends.cpu.growth.rows.rounding import power_of_two, scale_exponent_
from hornbeam.backends.cpu.growth.splits.rules import RULES, Rules, set_units
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.team import team
from hornbeam.backends.cpu.tuning import tuned
from hornbeam.backends.reference.engine import ReferenceEngine
from hornbeam.core.fixed_point import Quantization, scale_exponent
from hornbeam.testing.checks import PLAIN_RULES, binned_data
from hornbeam.testing.data import make_binned
from hornbeam.trees.bagging import Draw
from hornbeam.trees.frontier import NO_LIMIT, GrowthLimits
from hornbeam.trees.grower import TreeGrower

LIMITS = GrowthLimits(7, NO_LIMIT, False)
N_SLOTS = 20
EAGER_TEAMS = {"waking_ns": 1.0, "thread_work_ns": 1.0, "team_cpus": 3}

parameters = st.fixed_dictionaries(
    {"objective": st.sampled_from(["regression", "binary", "multiclass", "multiclassova", "poisson", "l1"])},
    optional={
        "num_leaves": st.integers(2, 20),
        "min_data_in_leaf": st.integers(2, 30),
        "min_sum_hessian_in_leaf": st.floats(0.0, 5.0),
        "lambda_l1": st.floats(0.0, 1.0),
        "lambda_l2": st.floats(0.0, 10.0),
        "min_gain_to_split": st.floats(0.0, 0.5),
        "max_delta_step": st.floats(0.1, 1.0),
        "max_depth": st.integers(1, 4),
        "grow_policy": st.just("depthwise"),
        "learning_rate": st.floats(0.01, 1.0),
        "feature_fraction": st.floats(0.3, 1.0),
        "feature_fraction_bynode": st.floats(0.3, 1.0),
        "path_smooth": st.just(0.0) | st.floats(1e-30, 1.0),
        "extra_trees": st.booleans(),
        "precision": st.just("high"),
        "num_parallel_tree": st.just(2),
        "boosting": st.just("dart"),
        "max_bin": st.integers(2, 300),
        "num_threads": st.integers(1, 3),
        "seed": st.integers(0, 3),
    },
)


def make_data(n_rows: int, n_features: int, n_classes: int, seed: int, heavy: bool):
    """Return features with missing values, a label, and weights, of which a few are huge where `heavy` is true."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    score = np.nan_to_num(X[:, 0]) + rng.normal(size=n_rows)
    weight = np.where(rng.random(n_rows) < 0.02, 1e5 if heavy else 1.0, rng.random(n_rows) + 0.1)
    if n_classes:
        return X, (np.argsort(np.argsort(score)) * n_classes // n_rows).astype(np.float64), weight
    return X, np.exp(score / 2), weight


class Watching:
    """A callback that sees every iteration, with its evaluations and the model so far."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def __call__(self, env) -> None:
        self.seen.append((env.iteration, tuple(env.evaluation_result_list), env.model.fingerprint()))


@given(
    params=parameters, n_rows=st.integers(2, 150), n_features=st.integers(1, 4), seed=st.integers(0, 5),
    has_weight=st.booleans(), heavy=st.booleans(), bagging=st.booleans(), has_valid=st.booleans(),
    has_schedule=st.booleans(), is_watched=st.booleans(),
)  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_model_is_that_of_one_tree_at_a_time(
    params, n_rows, n_features, seed, has_weight, heavy, bagging, has_valid, has_schedule, is_watched
):
    n_classes = {"binary": 2, "multiclass": 3, "multiclassova": 3}.get(params["objective"], 0)
    X, y, weight = make_data(n_rows, n_features, n_classes, seed, heavy)
    params = {"verbosity": -1, "device": "cpu", "min_data_in_leaf": 5, **params}
    if n_classes > 2:
        params["num_class"] = n_classes
    if bagging:
        params |= {"bagging_fraction": 0.7, "bagging_freq": 2}
    if params.get("boosting") == "dart" or params["objective"] == "l1":  # no trees side by side
        params.pop("num_parallel_tree", None)

    def train(**tuning):
        watching = Watching()
        callbacks = [watching] if is_watched else []
        if has_schedule:
            callbacks.append(hb.reset_parameter(learning_rate=lambda i: 0.3 / (1 + i), lambda_l2=[0.0] * 3 + [1.0] * 5))
        data = hb.Dataset(X, y, weight=weight if has_weight else None)
        valid = {"valid": hb.Dataset(X[::2], y[::2], reference=data)} if has_valid else {}
        if has_valid and "boosting" not in params:
            callbacks.append(hb.early_stopping(2, verbose=False))
        with tuned(**tuning):
            model = hb.train(params, data, 8, valid_sets=valid, callbacks=callbacks)
        return model.fingerprint(), model.eval_history, model.best_iteration, watching.seen

    expected = train(rows_at_once=0, rows_at_once_by_team=0)
    assert train() == expected
    assert train(**EAGER_TEAMS) == expected


def test_a_common_training_goes_that_way(monkeypatch):
    X, y, _ = make_data(200, 3, 3, 0, heavy=False)

    def never(*_):
        raise AssertionError("a tree is grown by itself")

    monkeypatch.setattr(CpuEngine, "quantize", never)
    for params in ({"objective": "multiclass", "num_class": 3}, {"objective": "poisson"}, {}):
        model = hb.train({"device": "cpu", "verbosity": -1, **params}, hb.Dataset(X, y), 4)
        assert all(tree.n_splits for tree in model.trees)


def test_functions_of_the_users_own_give_the_model_of_the_built_in_objective():
    X, y, _ = make_data(120, 3, 0, 1, heavy=False)
    given = {"device": "cpu", "verbosity": -1, "boost_from_average": False}

    def squared_error(predictions, data):
        gradient = predictions - y
        hessian = np.broadcast_to(1.0, len(y))  # not to be written to
        return gradient, hessian

    own = hb.train({**given, "objective": squared_error}, hb.Dataset(X, y), 6)
    built_in = hb.train(given, hb.Dataset(X, y), 6)
    np.testing.assert_array_equal(own.predict(X), built_in.predict(X))


def engines_with(gradient, hessian, n_threads=1):
    """Return an engine and its definition with these gradients, and their bins."""
    sample = make_binned(gradient.shape[1], 4, 30, 0)
    binned = binned_data(sample)
    engines = CpuEngine(binned, n_threads), ReferenceEngine(binned)
    for engine in engines:
        engine.set_scores(np.zeros(gradient.shape))
        engine.set_gradients(gradient, hessian)
    return *engines, binned


def test_outputs_that_need_more_bits_are_left_alone_and_the_others_are_not():
    rng = np.random.default_rng(0)
    gradient, hessian = rng.normal(size=(4, 1000)), rng.random((4, 1000)) + 0.5
    gradient[0, 0] = 1e9  # heavy tails: 31 bits
    gradient[2] = np.inf
    hessian[3] = 0.0  # no root that could be split
    engine, reference, binned = engines_with(gradient, hessian)
    grown = engine.grow_outputs(PLAIN_RULES, LIMITS, N_SLOTS, 0.1)
    assert [tree is None for tree in grown] == [True, False, True, True]
    assert not engine.scores()[[0, 2, 3]].any()
    expected = TreeGrower(reference, binned, PLAIN_RULES, LIMITS, N_SLOTS).grow(reference.quantize(1, False), 0.1)
    reference.add_leaf_values(1, expected.value_for_engine)
    np.testing.assert_array_equal(engine.scores()[1], reference.scores()[1])
    np.testing.assert_array_equal(grown[1].leaf_value, expected.leaf_value)
    assert (grown[1].gradient_unit, grown[1].hessian_unit) == expected.units


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("n_rows", [2, 7, 1000])
def test_a_team_grows_the_tree_of_one_output(n_rows, depthwise):
    rng = np.random.default_rng(n_rows)
    gradient, limits = rng.normal(size=(1, n_rows)), GrowthLimits(12, NO_LIMIT, depthwise)
    for factor in (1.0, np.inf, np.nan):  # the last ones in the rows of the last thread
        gradient[0, -1] = factor
        with tuned(**EAGER_TEAMS):
            engine, reference, binned = engines_with(gradient, np.ones((1, n_rows)), 3)
            (tree,) = engine.grow_outputs(PLAIN_RULES, limits, 24, 0.1)
        assert (tree is None) == (not np.isfinite(factor) or n_rows < 2 * PLAIN_RULES.min_data_in_leaf)
        if tree is not None:
            how = reference.quantize(0, False)
            expected = TreeGrower(reference, binned, PLAIN_RULES, limits, 24).grow(how, 0.1)
            reference.add_leaf_values(0, expected.value_for_engine)
            np.testing.assert_array_equal(engine.scores(), reference.scores())
            np.testing.assert_array_equal(tree.leaf_value, expected.leaf_value)


def test_a_tree_is_left_to_the_host_while_there_is_another_team():
    rng = np.random.default_rng(0)
    with tuned(**EAGER_TEAMS):
        engine, _, _ = engines_with(rng.normal(size=(1, 300)), np.ones((1, 300)), 3)
        with team(2):
            assert len(engine.grow_outputs(PLAIN_RULES, LIMITS, N_SLOTS, 0.1)) == 0
        assert not engine.scores().any()
        assert len(engine.grow_outputs(PLAIN_RULES, LIMITS, N_SLOTS, 0.1)) == 1


@pytest.mark.parametrize("why", ["a bag", "chosen features", "many rows", "many nodes"])
def test_nothing_is_grown_where_a_tree_must_be_grown_by_itself(why):
    rng = np.random.default_rng(0)
    gradient, hessian = rng.normal(size=(2, 300)), np.ones((2, 300))
    limits = {
        "many rows": {"rows_at_once": 299, "rows_at_once_by_team": 299},
        "many nodes": {"nodes_at_once_bytes": 1000},
    }.get(why, {})
    with tuned(**limits):
        engine, _, _ = engines_with(gradient, hessian)
        if why == "a bag":
            engine.choose_rows(Draw(1, 1 << 63))
        if why == "chosen features":
            engine.choose_features(np.array([0, 2], np.int32))
        assert len(engine.grow_outputs(PLAIN_RULES, LIMITS, N_SLOTS, 0.1)) == 0
        if why == "a bag":
            engine.choose_rows(None)
        engine.choose_features(None)
        assert len(engine.grow_outputs(PLAIN_RULES, LIMITS, N_SLOTS, 0.1)) == (0 if limits else 2)


@kernel
def exponent_kernel(value, bits):
    return scale_exponent_(value, bits), power_of_two(scale_exponent_(value, bits))


@kernel
def units_kernel(rules, gradient_unit, hessian_unit, least, most):
    set_units(rules[0], gradient_unit, hessian_unit, least, most)


@given(value=st.floats(0.0, allow_infinity=False), bits=st.integers(15, 52))
@settings(deadline=None)
def test_scales_are_those_of_the_definition(value, bits):
    exponent = scale_exponent(value, bits)
    assert exponent_kernel(value, bits) == (exponent, 2.0**exponent)


@given(
    exponents=st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)), least=st.integers(0, 3),
    most=st.integers(3, 65_535), lambda_l1=st.sampled_from([0.0, 0.5]), lambda_l2=st.floats(0.0, 1e300),
    min_data=st.integers(0, 10_000), max_delta_step=st.sampled_from([0.0, 1.0]), is_constant=st.booleans(),
)  # fmt: skip
@settings(deadline=None)
def test_rules_of_a_tree_are_those_of_the_definition(
    exponents, least, most, lambda_l1, lambda_l2, min_data, max_delta_step, is_constant
):
    rules = replace(
        PLAIN_RULES, lambda_l1=lambda_l1, lambda_l2=lambda_l2, min_data_in_leaf=min_data, max_delta_step=max_delta_step
    )
    least, most = (1, 1) if is_constant else (least, most)
    unit_g, unit_h = 2.0 ** exponents[0], 2.0 ** exponents[1]
    expected, found = np.zeros(1, RULES), np.zeros(1, RULES)
    expected[0] = Rules.of(rules, Quantization(unit_g, unit_h, False, least, most))
    found[0] = Rules.of(rules, Quantization(1.0, 1.0, False, 0, 0))
    units_kernel(found, unit_g, unit_h, least, most)
    assert found == expected
