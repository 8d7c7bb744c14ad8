"""Training ends by itself where nothing is left to learn, and only there: an unlucky draw is no end."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.checks import assert_same_model, usable_devices

COMMON = {"verbosity": -1, "num_leaves": 4, "min_gain_to_split": 5.0, "device": "cpu", "num_threads": 1}
RANDOM = {
    "feature_fraction": {"feature_fraction": 0.3, "seed": 2},
    "feature_fraction_bynode": {"feature_fraction_bynode": 0.3, "seed": 1},
    "feature_fraction_bylevel": {"feature_fraction_bylevel": 0.3},
    "extra_trees": {"extra_trees": True},
    "bagging": {"bagging_freq": 1, "bagging_fraction": 0.5, "seed": 1},
    "dart": {"boosting": "dart", "learning_rate": 1.0, "drop_rate": 0.5, "skip_drop": 0.5},
    "dart, feature_fraction": {"boosting": "dart", "feature_fraction": 0.3, "seed": 2},
    "rf": {"boosting": "rf", "feature_fraction": 0.3, "seed": 2},
    "rank_xendcg": {"objective": "rank_xendcg", "min_gain_to_split": 7.9, "learning_rate": 0.001},
}


def one_good_feature(mode: str) -> hb.Dataset:
    """Data whose first feature says all, and the others nothing that `min_gain_to_split` lets pass."""
    rng = np.random.default_rng(0)
    if mode == "extra_trees":  # most thresholds say nothing
        values = np.sort(rng.normal(size=(120, 1)), axis=0)
        return hb.Dataset(values, label=2.0 * (values[:, 0] > 1.2))
    table = rng.integers(0, 2, size=(120, 12)).astype(float)
    table[:, 0] = np.arange(120) % 3 == 0
    return hb.Dataset(table, label=2.0 * table[:, 0], group=[12] * 10 if mode == "rank_xendcg" else None)


def test_schedule_may_begin_with_iterations_that_split_nothing():
    def schedule():
        return [hb.reset_parameter(min_gain_to_split=lambda iteration: 1e9 if iteration < 2 else 0.0)]

    data, params = one_good_feature("plain"), {**COMMON, "learning_rate": 0.5}
    booster = hb.train(params, data, 5, callbacks=schedule())
    assert [tree.n_leaves > 1 for tree in booster.trees] == [False, False, True, True, True]
    folds = hb.cv(params, data, 5, nfold=2, callbacks=schedule(), return_cvbooster=True)["cvbooster"]
    assert [fold.n_iterations for fold in folds.boosters] == [5, 5]
    same = hb.train(params, data, 5, callbacks=[hb.reset_parameter(learning_rate=lambda iteration: 0.5)])
    assert same.fingerprint() == hb.train(params, data, 5).fingerprint()


@pytest.mark.parametrize("mode", RANDOM)
def test_unlucky_draw_does_not_end_training(mode):
    booster = hb.train({**COMMON, **RANDOM[mode]}, one_good_feature(mode), 12)
    lone = [tree.n_leaves == 1 for tree in booster.trees]
    assert len(lone) == 12
    assert not all(lone[lone.index(True) :])  # one is followed by a tree that learned something


@pytest.mark.parametrize("mode", RANDOM)
def test_model_with_unlucky_draws_is_identical_on_every_device(mode):
    params = {**COMMON, **RANDOM[mode]}
    assert_same_model(params, lambda: one_good_feature(mode), usable_devices(), 6)


def test_goss_goes_on_after_an_iteration_without_a_split():
    params = {**COMMON, "data_sample_strategy": "goss", "learning_rate": 1.0}
    booster = hb.train(params, one_good_feature("goss"), 4)
    assert [tree.n_leaves for tree in booster.trees] == [2, 1, 1, 1]


def test_rare_columns_do_not_empty_a_model_with_feature_sampling():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(2000, 65))
    table[:, 5:] = 0.0
    for column in range(5, 65):
        table[rng.choice(2000, 12, replace=False), column] = 1.0
    label = (table[:, :5].sum(axis=1) + rng.normal(size=2000) > 0).astype(float)
    params = {"objective": "binary", "feature_fraction": 0.1, "verbosity": -1}
    booster = hb.train(params, hb.Dataset(table, label=label), 60)
    assert booster.n_iterations == 60
    assert np.mean((booster.predict(table) > 0.5) == label) > 0.8


@pytest.mark.parametrize("rounds_of_patience", [0, 50])
def test_folds_end_where_training_does(rounds_of_patience):
    table = np.repeat([[0.0], [1.0]], 60, axis=0)
    label = table[:, 0] * 4.0
    rows = np.arange(120)
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    params = {"learning_rate": 1.0, "verbosity": -1, "early_stopping_round": rounds_of_patience}
    found = hb.cv(params, hb.Dataset(table, label=label), 30, folds, return_cvbooster=True)
    assert [booster.num_trees() for booster in found["cvbooster"].boosters] == [1, 1, 1]
    assert found["valid l2-mean"] == [0.0]
    assert found["cvbooster"].best_iteration == (1 if rounds_of_patience else 0)


def test_fold_that_ends_waits_for_the_others():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, size=(90, 1)).astype(float)
    label = table[:, 0] + rng.normal(size=90)
    label[:45] = table[:45, 0]  # one step of this fold's training fits all its rows
    rows = np.arange(90)
    folds = [(rows[:45], rows[45:]), (rows[45:], rows[:45])]
    params = {"learning_rate": 1.0, "verbosity": -1}
    found = hb.cv(params, hb.Dataset(table, label=label), 30, folds, return_cvbooster=True)
    for booster, (train_rows, _) in zip(found["cvbooster"].boosters, folds, strict=True):
        alone = hb.train(params, hb.Dataset(table[train_rows], label=label[train_rows]), 30)
        assert booster.fingerprint() == alone.fingerprint()
    longest = max(booster.num_trees() for booster in found["cvbooster"].boosters)
    assert len(found["valid l2-mean"]) == longest


def test_folds_without_any_split_show_the_constant_once():
    data = hb.Dataset(np.arange(150.0)[:, None], label=np.arange(150.0))
    found = hb.cv({"min_data_in_leaf": 150, "verbosity": -1}, data, 8, nfold=3, return_cvbooster=True)
    assert [booster.num_trees() for booster in found["cvbooster"].boosters] == [0, 0, 0]
    assert len(found["valid l2-mean"]) == 1
