"""Refitting where leaves depend on other nodes: path smoothing and monotone constraints hold in the refitted model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.model.refit_outputs import TreeShape, keep_order

QUIET = {"verbosity": -1, "min_data_in_leaf": 5, "num_leaves": 14, "device": "cpu"}
SIGNS = [1, -1, 0, 0]
KINDS = {
    "path_smooth": {"path_smooth": 3.0},
    "basic": {"monotone_constraints": SIGNS},
    "basic, path_smooth": {"monotone_constraints": SIGNS, "path_smooth": 4.0, "max_delta_step": 0.7},
    "basic, binary": {"monotone_constraints": SIGNS, "objective": "binary", "monotone_penalty": 0.5},
    "intermediate": {"monotone_constraints": SIGNS, "monotone_constraints_method": "intermediate"},
    "intermediate, path_smooth, poisson": {
        "monotone_constraints": {"Column_1": -1},
        "monotone_constraints_method": "intermediate",
        "objective": "poisson",
        "path_smooth": 2.0,
    },
    "categories, path_smooth": {"categorical_feature": [3], "path_smooth": 3.0, "min_data_per_group": 5},
    "categories": {"categorical_feature": [3], "cat_l2": 7.0, "cat_smooth": 1.0, "min_data_per_group": 5},
    "categories, basic": {
        "categorical_feature": [3],
        "cat_smooth": 1.0,
        "min_data_per_group": 5,
        "monotone_constraints": SIGNS,
    },
    "categories, intermediate": {
        "categorical_feature": [3],
        "cat_smooth": 1.0,
        "min_data_per_group": 5,
        "monotone_constraints": SIGNS,
        "monotone_constraints_method": "intermediate",
    },
}
MONOTONE = [name for name, params in KINDS.items() if "monotone_constraints" in params]


def table(n_rows=500, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 3] = rng.integers(0, 12, n_rows)
    y = X[:, 0] - 0.7 * X[:, 1] + np.sin(3 * X[:, 2]) + 4 * np.isin(X[:, 3], [1, 5, 6]) + 0.4 * rng.normal(size=n_rows)
    if missing:
        X[rng.random(n_rows) < 0.1, 0] = np.nan
    return X, y


def label_for(params, y):
    if params.get("objective") == "binary":
        return (y > 0).astype(float)
    return np.abs(y) if params.get("objective") == "poisson" else y


def trained(name, n_rounds=5, device="cpu"):
    X, y = table()
    params = KINDS[name]
    return hb.train({**QUIET, **params, "device": device}, hb.Dataset(X, label=label_for(params, y)), n_rounds)


def assert_monotone(booster, signs, seed=1):
    """Move the constrained features alone, each over a grid, and look at the raw scores."""
    rows, _ = table(60, seed)
    for feature, sign in enumerate(signs):
        if sign == 0:
            continue
        grid = np.linspace(-4.0, 4.0, 61)
        moved = np.repeat(rows, len(grid), axis=0)
        moved[:, feature] = np.tile(grid, len(rows))
        scores = booster.predict(moved, raw_score=True).reshape(len(rows), -1)
        assert (np.diff(scores, axis=1) * sign >= 0.0).all()
        assert (np.diff(scores, axis=1) != 0.0).any()


@pytest.mark.parametrize("name", KINDS)
def test_the_training_data_give_the_model_again(name):
    booster = trained(name)
    X, y = table()
    label = label_for(KINDS[name], y)
    assert booster.refit(X, label, decay_rate=0.0).fingerprint() == booster.fingerprint()
    assert booster.refit(X, label[::-1], decay_rate=1.0).fingerprint() == booster.fingerprint()
    assert booster.refit(X, label[::-1], decay_rate=0.0).fingerprint() != booster.fingerprint()


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("name", MONOTONE)
@pytest.mark.parametrize("n_rows", [500, 40])  # of few rows, many leaves have none
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_constraints_hold_whatever_the_new_data_say(name, n_rows, decay):
    booster = trained(name, 3)
    signs = [0, -1, 0, 0] if "poisson" in name else SIGNS
    assert_monotone(booster, signs)
    X, y = table(n_rows, seed=2)
    for target in (-y, y):
        found = booster.refit(X, label_for(KINDS[name], target), decay_rate=decay)
        assert found.fingerprint() != booster.fingerprint()
        for tree in found.trees:
            if tree.n_leaves > 1:
                sign = np.array(signs, np.int8)
                order = TreeShape(tree, sign).order()
                low, high = np.nonzero(order)
                assert (tree.leaf_value[low] <= tree.leaf_value[high]).all()
    assert_monotone(booster.refit(X, label_for(KINDS[name], y), decay_rate=decay), signs)


def test_new_data_that_agree_with_the_constraints_are_followed():
    booster = trained("basic", 30)
    X, y = table(1000, seed=3)
    before = np.mean((booster.predict(X) - 3.0 * y) ** 2)
    assert np.mean((booster.refit(X, 3.0 * y, decay_rate=0.0).predict(X) - 3.0 * y) ** 2) < 0.5 * before


def test_leaves_without_rows_stay_where_the_order_lets_them():
    X = np.repeat(np.arange(4.0), 20)[:, None]
    params = {**QUIET, "monotone_constraints": [1], "num_leaves": 4, "learning_rate": 1.0, "min_data_in_leaf": 20}
    booster = hb.train(params, hb.Dataset(X, label=np.repeat([0.0, 1.0, 2.0, 3.0], 20)), 1)
    assert booster.predict(X[::20]).tolist() == [0.0, 1.0, 2.0, 3.0]
    found = booster.refit(X[40:60], np.full(20, 2.25), decay_rate=0.0)
    assert found.predict(X[::20]).tolist() == [0.0, 1.0, 2.25, 3.0]
    found = booster.refit(X[40:60], np.full(20, 10.0), decay_rate=0.0)
    assert found.predict(X[::20]).tolist() == [0.0, 1.0, 10.0, 10.0]
    found = booster.refit(X[[0, 79]], [5.0, 4.0], decay_rate=0.0)
    assert found.predict(X[::20]).tolist() == [4.5, 4.5, 4.5, 4.5]


@pytest.mark.parametrize("kind", ["plain", "basic", "intermediate", "l1"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_without_weight_are_as_if_left_out(kind, seed):
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(2, 300, 2))
    params = {**QUIET, "num_leaves": 6}
    if kind in ("basic", "intermediate"):
        params |= {"monotone_constraints": [1, 0], "monotone_constraints_method": kind}
    elif kind == "l1":
        params["objective"] = "l1"
    booster = hb.train(params, hb.Dataset(X, label=X[:, 0] + rng.normal(size=300)), 3)
    label, there = rng.normal(size=300) - new[:, 0], new[:, 0] > 0.3
    found = booster.refit(new, label, decay_rate=0.2, weight=there.astype(float))
    expected = booster.refit(new[there], label[there], decay_rate=0.2)
    assert np.allclose(found.predict(new), expected.predict(new), rtol=1e-9, atol=1e-12)


def test_strong_smoothing_leaves_the_output_of_the_root():
    booster = hb.train({**QUIET, "path_smooth": 1e9}, hb.Dataset(table()[0], label=table()[1]), 1)
    X, y = table(300, seed=4)
    found = booster.refit(X, y + 10.0, decay_rate=0.0, init_score=np.zeros(len(X)))  # the start stays
    mean = float(np.mean(y + 10.0 - booster.init_scores[0]))
    reached = np.unique(booster.predict(X, pred_leaf=True))
    assert len(reached) > 3
    assert np.allclose(found.trees[0].leaf_value[reached], 0.1 * mean, rtol=1e-3)


@pytest.mark.parametrize("name", ["basic, path_smooth", "intermediate"])
def test_models_of_all_devices_are_refitted_alike(name, device):
    X, y = table(200, seed=5)
    order = np.random.default_rng(0).permutation(len(X))
    booster = trained(name, 2, device)
    found = {booster.refit(*rows, decay_rate=0.3).fingerprint() for rows in ((X, y), (X[order], y[order]))}
    assert found == {trained(name, 2).refit(X, y, decay_rate=0.3).fingerprint()}


@given(st.data())
def test_order_is_kept_and_what_keeps_it_is_not_changed(data):
    n = data.draw(st.integers(1, 7))
    numbers = st.integers(-4, 4).map(float)
    values = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    reached = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    order = np.triu(np.array(data.draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))).reshape(n, n), 1)
    found = keep_order(values, reached, order)
    low, high = np.nonzero(order)
    assert (found[low] <= found[high]).all()
    assert keep_order(found, reached, order).tolist() == found.tolist()
    if (values[low] <= values[high]).all():
        assert found.tolist() == values.tolist()


def test_a_base_score_stays_where_a_model_starts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = hb.train({"base_score": 0.25, "verbosity": -1}, hb.Dataset(X, label=X[:, 0]), 3)
    assert model.init_scores.tolist() == [0.25]
    assert model.refit(X, X[:, 0] + 5.0, decay_rate=0.5).init_scores.tolist() == [0.25]
