"""DART and random forests: the same model on every device, and predictions that are the scores of training."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.checks import assert_same_model, usable_devices
from hornbeam.testing.golden_case import GoldenCase, pseudo_huber

FAST = [name for name in usable_devices() if name != "reference"]
"""Models of `reference` are those of the others, which other tests show; here it would take most of the time."""

QUIET = {"verbosity": -1, "num_leaves": 9}
DART = {"boosting": "dart", "drop_rate": 0.4, "skip_drop": 0.2}
RF = {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}
MULTICLASS = {"objective": "multiclass", "num_class": 3}

MODES = {
    "dart": DART,
    "dart, binary": {**DART, "objective": "binary"},
    "dart, multiclass": {**DART, **MULTICLASS},
    "dart, uniform": {**DART, "uniform_drop": True, "max_drop": 2},
    "dart, as in XGBoost": {**DART, "xgboost_dart_mode": True},
    "dart, forest, one_drop": {
        **DART,
        "drop_rate": 0.0,
        "xgboost_dart_mode": True,
        "xgboost_dart_forest": True,
        "one_drop": True,
    },
    "dart, bagging": {**DART, "bagging_fraction": 0.6, "bagging_freq": 2},
    "dart, goss": {**DART, "data_sample_strategy": "goss", "learning_rate": 0.5},
    "rf": RF,
    "rf, binary": {**RF, "objective": "binary"},
    "rf, multiclass": {**RF, **MULTICLASS},
    "rf, goss": {"boosting": "rf", "data_sample_strategy": "goss"},
}


@pytest.mark.sampled
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("what", MODES)
def test_model_is_identical_on_every_device(what, weighted):
    case = GoldenCase(MODES[what], n_rows=700, missing=True, weighted=weighted)
    other = GoldenCase(MODES[what], n_rows=200, missing=True)
    assert_same_model(
        {**QUIET, **case.params}, case.dataset, usable_devices(), 7, thread_counts=(1, 3),
        valid_sets=lambda: {"valid": other.dataset()},
    )  # fmt: skip


@pytest.mark.parametrize("mode", [DART, RF], ids=["dart", "rf"])
def test_model_of_an_objective_function_is_identical_on_every_device(mode):
    case = GoldenCase(mode, n_rows=600)
    assert_same_model({**QUIET, **mode, "objective": pseudo_huber}, case.dataset, usable_devices(), 6)


def trained_with_scores(params, make, n_rounds, init_model=None):
    """Train; returns the Booster, the training data, and the last predictions that training made by set."""
    seen = {}
    train_set, valid = make(0), make(1)

    def metric(predictions, dataset):
        seen["training" if dataset is train_set else "valid"] = np.array(predictions)
        return "none", 0.0, True

    sets = {"training": train_set, "valid": valid}
    booster = hb.train(
        {**params, "metric": "none"}, train_set, n_rounds, sets, feval=metric, init_model=init_model
    )  # fmt: skip
    return booster, {"training": train_set.data, "valid": valid.data}, seen


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("what", MODES)
def test_scores_of_training_are_those_of_prediction_to_the_last_bit(device, what, tmp_path):
    params = {**QUIET, **MODES[what], "device": device}
    make = lambda which: GoldenCase(params, n_rows=(600, 250)[which], missing=True).dataset()  # noqa: E731
    booster, data, seen = trained_with_scores(params, make, 9)
    booster.save(tmp_path / "model.json")
    loaded = hb.load(tmp_path / "model.json")
    for name, table in data.items():
        assert booster.predict(table).tobytes() == seen[name].tobytes()
        assert loaded.predict(table).tobytes() == seen[name].tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("what", MODES)
def test_four_and_four_rounds_equal_eight(device, what):
    params = {**QUIET, **MODES[what], "device": device}
    make = lambda which: GoldenCase(params, n_rows=(500, 200)[which], missing=True).dataset()  # noqa: E731
    half, _, _ = trained_with_scores(params, make, 4)
    rest, data, seen = trained_with_scores(params, make, 4, init_model=half)
    assert rest.fingerprint() == trained_with_scores(params, make, 8)[0].fingerprint()
    for name, table in data.items():
        assert rest.predict(table).tobytes() == seen[name].tobytes()


def test_four_and_four_rounds_equal_eight_with_init_score(device):
    case = GoldenCase({}, n_rows=500)
    start = np.sin(np.arange(500))
    params = {**QUIET, **DART, "device": device}

    def make():
        whole = case.dataset()
        return hb.Dataset(whole.data, label=whole.label, init_score=start)

    half = hb.train(params, make(), 4)
    assert hb.train(params, make(), 4, init_model=half).fingerprint() == hb.train(params, make(), 8).fingerprint()


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie", "regression"])
@pytest.mark.parametrize("labels", [[1, 2, 3, 4, 6, 8], [1, 1, 2, 4], [1, 3, 8], [0.1, 0.4, 0.4, 0.6, 1], [0.1]])
def test_dart_goes_on_where_the_largest_gradient_is_next_to_a_power_of_two(objective, labels):
    y = np.resize(np.array(labels, np.float64), 300 - 300 % len(labels))
    X = np.random.default_rng(0).normal(size=(len(y), 3))
    X[:, 0] += y
    params = {**QUIET, "boosting": "dart", "drop_rate": 0.5, "objective": objective, "device": "cpu"}
    half = hb.train(params, hb.Dataset(X, label=y), 4)
    on = hb.train(params, hb.Dataset(X, label=y), 4, init_model=half)
    assert on.fingerprint() == hb.train(params, hb.Dataset(X, label=y), 8).fingerprint()


@pytest.mark.parametrize("device_", usable_devices())
@pytest.mark.parametrize("objective", [{}, MULTICLASS], ids=["regression", "multiclass"])
def test_forest_predicts_the_mean_of_any_slice(device_, objective):
    params = {**QUIET, **RF, **objective}
    case = GoldenCase(params, n_rows=400, missing=True)
    X = case.dataset().data
    booster = hb.train(params, case.dataset(), 6)
    one = np.stack([
        booster.predict(X, raw_score=True, start_iteration=i, num_iteration=1) for i in range(6)
    ])  # fmt: skip
    for start, number in ((0, None), (0, 3), (2, 2), (4, 10)):
        found = booster.predict(X, raw_score=True, start_iteration=start, num_iteration=number, device=device_)
        last = 6 if number is None else min(start + number, 6)
        assert np.allclose(found, one[start:last].mean(axis=0), rtol=1e-12, atol=1e-12)
    nothing = booster.predict(X, raw_score=True, start_iteration=6, device=device_)
    assert np.array_equal(nothing, np.broadcast_to(booster.init_scores, nothing.T.shape[::-1] if objective else 400))


def test_dart_weights_are_those_of_lightgbm():
    """After an iteration that dropped k trees these weigh k / (k + 1) of before and the new one 1 / (k + 1)."""
    case = GoldenCase({}, n_rows=400)
    shrinkages = []

    def note(env):
        shrinkages.append([tree.shrinkage for tree in env.model.trees])

    hb.train({**QUIET, **DART, "learning_rate": 0.2}, case.dataset(), 12, callbacks=[note])
    n_drops = 0
    for before, after in pairwise(shrinkages):
        dropped = [i for i, weight in enumerate(before) if after[i] != weight]
        k = len(dropped)
        n_drops += k
        assert after[-1] == pytest.approx(0.2 / (k + 1))
        assert all(after[i] == pytest.approx(before[i] * k / (k + 1)) for i in dropped)
    assert n_drops > 5


def test_dart_without_drops_is_boosting_to_rounding():
    case = GoldenCase({}, n_rows=400)
    dart = hb.train({**QUIET, "boosting": "dart", "drop_rate": 0.0}, case.dataset(), 5)
    plain = hb.train(QUIET, case.dataset(), 5)
    assert np.allclose(dart.predict(case.dataset().data), plain.predict(case.dataset().data), rtol=1e-9)


def test_iterations_that_find_no_split_leave_the_model_as_it_is(device):
    case = GoldenCase(DART, n_rows=300)
    params = {**QUIET, **DART, "drop_rate": 0.9, "skip_drop": 0.0, "device": device}
    first = hb.train(params, case.dataset(), 4)
    then = hb.train({**params, "min_gain_to_split": 1e9}, case.dataset(), 3, init_model=first)
    X = case.dataset().data
    assert then.n_iterations == 7
    assert (then.predict(X) == first.predict(X)).all()


def test_drop_seed_changes_what_is_dropped():
    case = GoldenCase({}, n_rows=300)
    first, second = (hb.train({**QUIET, **DART, "drop_seed": seed}, case.dataset(), 8) for seed in (1, 2))
    assert [tree.shrinkage for tree in first.trees] != [tree.shrinkage for tree in second.trees]


@pytest.mark.parametrize("mode", [DART, RF], ids=["dart", "rf"])
def test_cross_validation_trains_the_same_models(mode):
    case = GoldenCase({}, n_rows=300)
    rows = np.arange(300)
    folds = [(rows[:200], rows[200:])]
    found = hb.cv({**QUIET, **mode}, case.dataset(), 6, folds=folds, return_cvbooster=True)
    X, y = case.dataset().data, case.dataset().label
    alone = hb.train(
        {**QUIET, **mode}, hb.Dataset(X[:200], label=y[:200]), 6, {"valid": hb.Dataset(X[200:], label=y[200:])}
    )
    assert found["cvbooster"].boosters[0].fingerprint() == alone.fingerprint()
    assert found["valid l2-mean"] == alone.eval_history["valid"]["l2"]
