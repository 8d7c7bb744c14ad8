"""Bagging and GOSS: the same model on every device, and what the parameters promise."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.checks import assert_same_model, usable_devices
from hornbeam.testing.golden_case import GoldenCase, pseudo_huber

FAST = [name for name in usable_devices() if name != "reference"]
"""Models of `reference` are those of the others, which other tests show; here it would take most of the time."""

QUIET = {"verbosity": -1, "num_leaves": 15}
BAGGING = {"bagging_fraction": 0.5, "bagging_freq": 1}
GOSS = {"data_sample_strategy": "goss", "learning_rate": 0.5, "top_rate": 0.15, "other_rate": 0.2}
BINARY = {"objective": "binary"}
MULTICLASS = {"objective": "multiclass", "num_class": 3}

SAMPLINGS = {
    "bagging": BAGGING,
    "bagging, every third round": {"bagging_fraction": 0.8, "bagging_freq": 3, "bagging_seed": 11},
    "bagging by class": {**BINARY, "pos_bagging_fraction": 0.9, "neg_bagging_fraction": 0.3, "bagging_freq": 1},
    "bagging, binary": {**BINARY, **BAGGING},
    "bagging, multiclass": {**MULTICLASS, **BAGGING},
    "bagging, depthwise": {**BAGGING, "grow_policy": "depthwise", "max_depth": 3},
    "bagging, max_depth": {**BAGGING, "max_depth": 3},
    "bagging, small pool": {**BAGGING, "histogram_pool_size": 0.01},
    "goss": GOSS,
    "goss, binary": {**BINARY, **GOSS},
    "goss, multiclass": {**MULTICLASS, **GOSS},
}


@pytest.mark.sampled
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("what", SAMPLINGS)
def test_sampled_model_is_identical_on_every_device(what, weighted, tune):
    tune(drawn_rows_per_thread=100)
    case = GoldenCase(SAMPLINGS[what], n_rows=900, missing=True, weighted=weighted)
    other = GoldenCase(SAMPLINGS[what], n_rows=300, missing=True)
    assert_same_model(
        {**QUIET, **case.params}, case.dataset, usable_devices(), 5, thread_counts=(1, 3),
        valid_sets=lambda: {"valid": other.dataset()},
    )  # fmt: skip


@pytest.mark.parametrize("sampling", [BAGGING, GOSS], ids=["bagging", "goss"])
def test_sampled_model_of_an_objective_function_is_identical_on_every_device(sampling):
    case = GoldenCase(sampling, n_rows=800)
    assert_same_model(
        {**QUIET, **sampling, "objective": pseudo_huber}, case.dataset, usable_devices(), 4, thread_counts=(1, 2)
    )


OTHER_FEATURES = {
    "features by tree": {"feature_fraction": 0.6},
    "features by node": {"feature_fraction_bynode": 0.6},
    "extra trees": {"extra_trees": True},
    "monotone": {"monotone_constraints": [1, 0, -1, 0, 0, 0]},
    "path smoothing": {"path_smooth": 2.0},
    "l1": {"objective": "regression_l1"},
    "quantile": {"objective": "quantile", "alpha": 0.7},
    "lambdarank, by query": {"objective": "lambdarank", "bagging_by_query": True},
}
CHOICES = {
    "bagging": BAGGING,
    "goss": GOSS,
    "dart": {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
    "rf": {**BAGGING, "boosting": "rf"},
}


@pytest.mark.sampled
@pytest.mark.parametrize("other", OTHER_FEATURES)
@pytest.mark.parametrize("what", CHOICES)
def test_choices_go_with_other_features_on_every_device(what, other):
    params = {**QUIET, **CHOICES[what], **OTHER_FEATURES[other]}
    if what not in ("bagging", "rf"):
        params.pop("bagging_by_query", None)
    base = GoldenCase({}, n_rows=600, missing=True).dataset()
    ranking = params.get("objective") == "lambdarank"
    label = np.clip(np.floor(base.label / 4.0), 0.0, 4.0) if ranking else base.label

    def make():
        return hb.Dataset(base.data, label=label, group=[20] * 30 if ranking else None)

    booster = assert_same_model(params, make, usable_devices(), 4, thread_counts=(1, 3))
    train_set = make()
    _, scores = scores_of_training(params, train_set, 4)
    assert booster.predict(train_set.data).tobytes() == scores.tobytes()


def scores_of_training(params, train_set, n_rounds=5):
    """Train, and return the Booster and the raw scores that training itself accumulated."""
    seen = []

    def metric(predictions, dataset):
        seen.append(np.array(predictions))
        return "none", 0.0, True

    booster = hb.train({**params, "metric": "none"}, train_set, n_rounds, {"training": train_set}, feval=metric)
    return booster, seen[-1]


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("what", ["bagging", "goss", "bagging, multiclass"])
def test_scores_of_training_are_those_of_prediction(device, what):
    """Rows outside of the bag too meet the leaf that prediction finds."""
    params = {**QUIET, **SAMPLINGS[what], "device": device}
    case = GoldenCase(params, n_rows=700, missing=True)
    train_set = case.dataset()
    booster, scores = scores_of_training(params, train_set)
    assert booster.predict(train_set.data).tobytes() == scores.tobytes()


def trees_of(booster):
    return [
        (t.feature.tolist(), t.threshold.tolist(), t.leaf_value.tolist(), t.leaf_count.tolist()) for t in booster.trees
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("sampling", [{"bagging_fraction": 1.0, "bagging_freq": 1}, {"bagging_fraction": 0.3}], ids=str)
def test_bagging_that_is_off_changes_nothing(device, sampling):
    case = GoldenCase({}, n_rows=500)
    plain = hb.train({**QUIET, "device": device}, case.dataset(), 4)
    assert trees_of(hb.train({**QUIET, **sampling, "device": device}, case.dataset(), 4)) == trees_of(plain)


def test_a_bag_of_nearly_all_rows_that_holds_all_gives_the_plain_trees(device):
    """The path through the bag itself must not be seen: a fraction next to 1 draws every row of a small table."""
    case = GoldenCase({}, n_rows=500, missing=True)
    plain = hb.train({**QUIET, "device": device}, case.dataset(), 4)
    bagged = hb.train(
        {**QUIET, "device": device, "bagging_fraction": 1.0 - 2.0**-50, "bagging_freq": 1}, case.dataset(), 4
    )
    assert trees_of(bagged) == trees_of(plain)


def test_root_counts_rows_of_the_bag(device):
    params = {**QUIET, **BAGGING, "device": device}
    booster = hb.train(params, GoldenCase({}, n_rows=2000).dataset(), 6)
    sizes = [int(tree.leaf_count.sum()) for tree in booster.trees]
    assert len(set(sizes)) > 1
    assert all(abs(size - 1000) < 5 * np.sqrt(500) for size in sizes)


def test_bag_is_kept_for_bagging_freq_rounds():
    params = {**QUIET, "bagging_fraction": 0.5, "bagging_freq": 3}
    sizes = [int(t.leaf_count.sum()) for t in hb.train(params, GoldenCase({}, n_rows=2000).dataset(), 7).trees]
    assert sizes[0] == sizes[1] == sizes[2] != sizes[3] == sizes[4] == sizes[5] != sizes[6]


def test_goss_uses_all_rows_at_first_and_then_the_shares():
    params = {**QUIET, "data_sample_strategy": "goss", "learning_rate": 0.34, "top_rate": 0.25, "other_rate": 0.1}
    booster = hb.train(params, GoldenCase({}, n_rows=2000).dataset(), 5)
    sizes = [int(tree.leaf_count.sum()) for tree in booster.trees]
    assert sizes[:2] == [2000, 2000]
    assert all(abs(size - 700) < 5 * np.sqrt(200) for size in sizes[2:])
    weights = [float(tree.leaf_weight.sum()) for tree in booster.trees]  # amplified hessians stand for all rows
    assert all(abs(weight - 2000) < 7.5 * 5 * np.sqrt(200) for weight in weights)


@pytest.mark.parametrize("name", ["seed", "bagging_seed"])
@pytest.mark.parametrize("sampling", [BAGGING, GOSS], ids=["bagging", "goss"])
def test_either_seed_changes_the_choice(name, sampling):
    case = GoldenCase({}, n_rows=600)
    first, second = (hb.train({**QUIET, **sampling, name: seed}, case.dataset(), 4) for seed in (1, 2))
    assert trees_of(first) != trees_of(second)


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("what", ["bagging", "bagging, every third round", "goss"])
def test_four_and_four_sampled_rounds_equal_eight(device, what):
    params = {**QUIET, **SAMPLINGS[what], "device": device}
    case = GoldenCase({}, n_rows=600)
    half = hb.train(params, case.dataset(), 4)
    rest = hb.train(params, case.dataset(), 4, init_model=half)
    assert rest.fingerprint() == hb.train(params, case.dataset(), 8).fingerprint()


def test_cross_validation_draws_rows_too():
    case = GoldenCase({}, n_rows=600)
    plain, bagged = (hb.cv({**QUIET, **more}, case.dataset(), 4, nfold=2) for more in ({}, BAGGING))
    assert plain["valid l2-mean"] != bagged["valid l2-mean"]
