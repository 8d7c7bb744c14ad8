"""Every objective of the table gives the same model and the same evaluations, bit for bit, whatever trains it."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.objectives import OBJECTIVES
from hornbeam.testing.checks import assert_same_model, usable_devices
from hornbeam.testing.data import make_with_missing
from hornbeam.testing.labels import labels_for, params_for

QUIET = {"verbosity": -1}
FURTHER = {
    "reg_sqrt": {"reg_sqrt": True},
    "scale_pos_weight": {"objective": "binary", "scale_pos_weight": 4.0},
    "is_unbalance": {"objective": "binary", "is_unbalance": True},
    "ova, is_unbalance": {"objective": "multiclassova", "num_class": 3, "is_unbalance": True},
    "quantile 0.2, max_delta_step": {"objective": "quantile", "alpha": 0.2, "max_delta_step": 0.5},
    "huber 2": {"objective": "huber", "alpha": 2.0},
    "not from average": {"objective": "poisson", "boost_from_average": False},
    "l1, wide": {"objective": "mape", "precision": "high"},
    "l1, bagging": {"objective": "regression_l1", "bagging_fraction": 0.5, "bagging_freq": 1},
    "quantile, goss": {"objective": "quantile", "data_sample_strategy": "goss", "learning_rate": 1.0},
    "l1, dart": {"objective": "regression_l1", "boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
    "quantile, forest": {"objective": "quantile", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    "logcosh, goss": {"objective": "logcosh", "data_sample_strategy": "goss", "learning_rate": 1.0},
    "logcosh, constrained": {"objective": "logcosh", "monotone_constraints": [1, 0, 0, 0, 0, 0, 0, 0]},
    "poisson, forest": {"objective": "poisson", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    "focal 1": {"objective": "focal", "focal_gamma": 1.0, "focal_alpha": 0.7},
}
CASES = {**{name: params_for(name) for name in OBJECTIVES}, **FURTHER}


def rows(params, n_rows=300, weighted=False, seed=0):
    X, _ = make_with_missing(n_rows, 8, seed=seed)
    rng = np.random.default_rng(seed)
    signal = np.where(np.isnan(X[:, 0]), 2.0, X[:, 0]) * 3.0 + X[:, 7] ** 2 + rng.normal(size=n_rows)
    least = 0.25 if params.get("objective") == "cross_entropy_lambda" else 0.0
    weight = rng.choice([least, 0.5, 1.0, 3.7], n_rows) if weighted else None
    return X, labels_for(params.get("objective", "regression"), signal), weight


def maker(params, **options):
    def make():
        X, y, weight = rows(params, **options)
        return hb.Dataset(X, label=y, weight=weight)

    return make


@pytest.mark.sampled
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("params", CASES.values(), ids=CASES.keys())
def test_model_and_evaluations_are_identical_on_every_device(params, weighted, tune):
    tune(renewed_rows_per_thread=1)
    booster = assert_same_model(
        params,
        maker(params, weighted=weighted),
        usable_devices(),
        3,
        thread_counts=(1, 3),
        valid_sets=lambda: {"valid": maker(params, n_rows=200, weighted=weighted, seed=1)()},
    )
    assert sum(tree.n_splits for tree in booster.trees) > 0
    (history,) = booster.eval_history["valid"].values()
    is_hinge = booster.objective.name == "hinge"  # whose first steps are alike, until rows pass the margin
    assert history[-1] < history[0] or len(params) > 2 or is_hinge  # plain cases learn


@pytest.mark.parametrize("name", OBJECTIVES)
def test_permuted_rows_give_the_same_model(name):
    params = {**QUIET, **params_for(name)}
    for weighted in (False, True):
        X, y, weight = rows(params, weighted=weighted)
        expected = hb.train(params, hb.Dataset(X, label=y, weight=weight), 3).fingerprint()
        order = np.random.default_rng(5).permutation(len(y))
        permuted = hb.Dataset(X[order], label=y[order], weight=None if weight is None else weight[order])
        assert hb.train(params, permuted, 3).fingerprint() == expected


@pytest.mark.parametrize("params", CASES.values(), ids=CASES.keys())
def test_two_and_two_rounds_equal_four_and_files_keep_the_model(params, tmp_path):
    params = {**QUIET, **params}
    make = maker(params, weighted=True)
    half = hb.train(params, make(), 2)
    half.save(tmp_path / "half.json")
    loaded = hb.load(tmp_path / "half.json")
    assert loaded.fingerprint() == half.fingerprint()
    X, *_ = rows(params)
    assert loaded.predict(X).tobytes() == half.predict(X).tobytes()
    whole = hb.train(params, make(), 4)
    assert hb.train(params, make(), 2, init_model=loaded).fingerprint() == whole.fingerprint()


WEIGHED = [name for name, kind in OBJECTIVES.items() if kind.labels != "classes" and name != "cross_entropy_lambda"]
"""Objectives whose weights multiply; those of the last are exponents."""


@pytest.mark.parametrize("name", WEIGHED)
def test_duplicated_rows_equal_doubled_weights(name):
    params = {**QUIET, **params_for(name), "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_leaves": 8}
    X, y, _ = rows(params, n_rows=250)
    twice = hb.train(params, hb.Dataset(np.repeat(X, 2, axis=0), label=np.repeat(y, 2)), 4)
    heavy = hb.train(params, hb.Dataset(X, label=y, weight=np.full(250, 2.0)), 4)
    assert np.allclose(twice.predict(X), heavy.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_rows", [5, 40])
def test_model_of_few_rows_where_many_features_are_as_good_as_the_best(n_rows):
    rng = np.random.default_rng(n_rows)
    X, y = rng.integers(0, 6, (n_rows, 120)).astype(float), rng.normal(size=n_rows)
    params = {"verbosity": -1, "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_leaves": 8}
    assert_same_model(params, lambda: hb.Dataset(X, label=y), usable_devices(), 1, thread_counts=(1, 2))
