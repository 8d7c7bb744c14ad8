"""Trees whose leaves bound each other (`intermediate`): one model on the reference, which follows the rule in Python,
and on the CPU, whose driver grows them whole.
"""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.trees import grower, growth_in_turn
from hornbeam.trees.frontier import NEVER
from hornbeam.trees.growth_in_turn import evaluate_again

QUIET = {"verbosity": -1, "monotone_constraints_method": "intermediate"}


def large(seed):
    return pytest.param(seed, marks=pytest.mark.large)


def random_problem(seed, sparse=False):
    """Return parameters, and what a Dataset is made of: numbers, categories, missing values, weights."""
    rng = np.random.default_rng(seed)
    n_rows, n_features = int(rng.integers(100, 500)), int(rng.integers(2, 8))
    X = rng.normal(size=(n_rows, n_features))
    coarse = rng.random(n_features) < 0.4
    X[:, coarse] = np.floor(2.0 * X[:, coarse])
    sign = rng.integers(-1, 2, n_features)
    sign[0] = rng.choice([-1, 1])
    categories = [feature for feature in range(1, n_features) if rng.random() < 0.35]
    for feature in categories:
        X[:, feature] = rng.integers(0, rng.choice([3, 9, 32, 70]), n_rows)
        sign[feature] = 0
    y = X @ rng.normal(size=n_features) + np.sin(2.0 * X[:, 0]) + X[:, 0] * X[:, -1] + rng.normal(size=n_rows)
    if rng.random() < 0.5:
        X[rng.random(X.shape) < 0.15] = np.nan
    if sparse:
        rest = np.where(rng.random((n_rows, 25)) < 0.05, rng.normal(size=(n_rows, 25)), 0.0)
        X, y = np.hstack([X, rest]), y + rest.sum(axis=1)
        sign = np.concatenate([sign, rng.integers(-1, 2, 25)])
    weight = rng.random(n_rows) + 0.1 if rng.random() < 0.4 else None
    params = {
        **QUIET,
        "monotone_constraints": sign.tolist(),
        "min_data_in_leaf": int(rng.choice([2, 3, 10])),
        "num_leaves": int(rng.choice([2, 4, 15, 40])),
        "min_data_per_group": 5,
        "cat_smooth": 1.0,
    }
    last = X.shape[1]
    groups = [list(range(0, last, 2)), list(range(1, last, 2)), [0, last - 1]]
    options = [
        {"max_depth": 4}, {"feature_fraction_bynode": 0.6}, {"feature_fraction": 0.7}, {"path_smooth": 2.0},
        {"extra_trees": True}, {"grow_policy": "depthwise"}, {"use_missing": False}, {"monotone_penalty": 0.8},
        {"lambda_l1": 0.5}, {"lambda_l2": 3.0}, {"max_delta_step": 0.3}, {"interaction_constraints": groups},
        {"feature_contri": rng.choice([1.0, 0.5, 1.5], last).tolist()}, {"bagging_fraction": 0.7, "bagging_freq": 1},
        {"max_bin": 7}, {"feature_fraction_bylevel": 0.7}, {"min_gain_to_split": 1.0},
    ]  # fmt: skip
    for option in options:
        if rng.random() < 0.2:
            params |= option
    if sparse:
        X = pytest.importorskip("scipy.sparse").csr_matrix(np.nan_to_num(X))
    return params, {"data": X, "label": y, "weight": weight, "categorical_features": categories}


def fingerprint(params, table, **more):
    return hb.train({**params, **more}, hb.Dataset(**table), 3).fingerprint()


def assert_same_on_the_cpu(params, table, **more):
    reference = fingerprint(params, table, device="reference", **more)
    for threads in (1, 3):
        assert fingerprint(params, table, device="cpu", num_threads=threads, **more) == reference


@pytest.mark.parametrize("seed", [*range(8), *map(large, range(8, 24))])
def test_model_is_that_of_the_reference(seed):
    assert_same_on_the_cpu(*random_problem(seed))


@pytest.mark.parametrize("seed", [100, 101, *map(large, range(102, 106))])
def test_model_of_sparse_data_is_that_of_the_reference(seed):
    assert_same_on_the_cpu(*random_problem(seed, sparse=True))


@pytest.mark.parametrize("tree_method", ["approx", "exact"])
@pytest.mark.parametrize("seed", [200, *map(large, range(201, 203))])
def test_model_of_ranks_is_that_of_the_reference(seed, tree_method):
    assert_same_on_the_cpu(*random_problem(seed), tree_method=tree_method)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_cpu_grows_them_whole_and_the_reference_in_turn(monkeypatch, sparse):
    def refuse(*_):
        raise AssertionError("grown from Python")

    monkeypatch.setattr(grower, "grow_in_turn", refuse)
    params, table = random_problem(7, sparse)
    fingerprint(params, table, device="cpu")
    with pytest.raises(AssertionError, match="from Python"):
        fingerprint(params, table, device="reference")


def test_leaf_without_a_split_gets_one_when_its_bounds_move(monkeypatch):
    """So the histogram of a leaf must be kept when nothing is found in it."""
    opened = []

    def watch(search, leaves):
        closed = [leaf for leaf in leaves if search.nodes.gain[leaf] == NEVER]
        evaluate_again(search, leaves)
        opened.extend(leaf for leaf in closed if search.nodes.gain[leaf] > NEVER)

    monkeypatch.setattr(growth_in_turn, "evaluate_again", watch)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = np.sin(3.0 * X[:, 0]) - X[:, 0] + 2.0 * X[:, 0] * X[:, 1] + 2.0 * np.sin(3.0 * X[:, 2]) * (X[:, 3] > 0.0)
    params = {**QUIET, "monotone_constraints": [1, 0, -1, 1], "num_leaves": 63}
    assert_same_on_the_cpu(params, {"data": X, "label": y + 0.3 * rng.normal(size=1500)})
    assert opened
