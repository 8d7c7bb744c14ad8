"""Slices of models, models put together, and models with leaf values from new data."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.objectives.ranking import RankingObjective
from hornbeam.testing.golden_case import golden_score, golden_table

BASE = {"device": "cpu", "num_threads": 1, "verbosity": -1, "num_leaves": 6, "min_data_in_leaf": 5}
X = golden_table(300, 4, missing=True)
X[:, 1] = np.floor(X[:, 1] / 4.0)  # of few values, so that it can be a category too
SCORE = golden_score(X)


def label_of(params):
    if params.get("objective") in ("multiclass", "lambdarank"):
        return np.digitize(SCORE, [-1.0, 1.0]).astype(float)
    return (SCORE > 1.0).astype(float) if params.get("objective") == "binary" else SCORE


def trained(params, n_rounds=7, group=None):
    return hb.train({**BASE, **params}, hb.Dataset(X, label=label_of(params), group=group), n_rounds)


MODELS = {
    "regression": {},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "rf": {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
}


@pytest.mark.parametrize("name", MODELS)
def test_slices_predict_what_their_iterations_do(name):
    booster = trained(MODELS[name])
    booster.best_iteration = 3
    for k in (1, 4, 7):
        part = booster[:k]
        assert (part.n_iterations, part.best_iteration) == (k, 0)
        assert np.array_equal(part.predict(X), booster.predict(X, num_iteration=k))
    assert np.array_equal(booster[2:5].predict(X), booster.predict(X, iteration_range=(2, 5)))
    assert [one.fingerprint() for one in booster] == [booster[i].fingerprint() for i in range(7)]
    assert booster[-1].fingerprint() == booster[6:].fingerprint()
    assert booster[::2].n_iterations == 4 and booster[5:2].n_iterations == 0
    booster.best_iteration = 0
    assert hb.merge([booster[:3], booster[3:]]).fingerprint() == booster.fingerprint()
    assert hb.merge(list(booster)).fingerprint() == booster.fingerprint()
    assert hb.Booster.from_bytes(booster[5:2].to_bytes()).num_trees() == 0


def test_slices_have_trees_of_their_own():
    booster = trained({})
    before = booster.fingerprint()
    part = booster[:4]
    part.replace_trees({0: part.trees[1]})
    assert booster.fingerprint() == before and part.fingerprint() != booster[:4].fingerprint()


def test_places_that_are_none_are_refused():
    booster = trained({}, 2)
    with pytest.raises(IndexError, match="has 2 iterations"):
        booster[2]
    with pytest.raises(hb.ParameterError, match="pass a number or a range"):
        booster["a"]


def test_models_of_the_same_start_add_up():
    params = {"boost_from_average": False}
    first, second = trained(params, 3), trained({**params, "seed": 5, "extra_trees": True}, 2)
    both = hb.merge([first, second])
    assert np.allclose(both.predict(X), first.predict(X) + second.predict(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"objective": "binary"}, "objective"),
        ({"boost_from_average": False}, "init_scores"),
        (MODELS["rf"], "kind"),
        ({"zero_as_missing": True}, "zero_as_missing"),
    ],
)
def test_models_that_do_not_go_together_are_refused(params, what):
    with pytest.raises(hb.ParameterError, match=rf"models\[0\] and models\[1\] differ in their {what}"):
        hb.merge([trained({}, 1), trained(params, 1)])


def test_merge_needs_models():
    with pytest.raises(hb.ParameterError, match="no models"):
        hb.merge([])
    with pytest.raises(hb.ParameterError, match=r"models\[0\] is a str"):
        hb.merge(["model.json"])
    other = hb.train(BASE, hb.Dataset(X, label=SCORE, feature_names=list("abcd")), 1)
    with pytest.raises(hb.ParameterError, match="feature names"):
        hb.merge([trained({}, 1), other])


REFITTED = {
    "regression": {},
    "binary": {"objective": "binary", "lambda_l1": 0.5, "max_delta_step": 0.4},
    "multiclass": MODELS["multiclass"],
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "mape": {"objective": "mape"},
    "lambdarank": {"objective": "lambdarank"},
    "categories": {"categorical_feature": [1], "min_data_per_group": 5},
}


@pytest.mark.parametrize("name", REFITTED)
def test_refit_with_the_training_data_gives_the_model_again(name):
    params = REFITTED[name]
    group = [30] * 10 if name == "lambdarank" else None
    booster = trained(params, 5, group)
    label = label_of(params)
    assert booster.refit(X, label, group=group, decay_rate=0.0).fingerprint() == booster.fingerprint()
    assert booster.refit(X, label[::-1], group=group, decay_rate=1.0).fingerprint() == booster.fingerprint()
    assert booster.refit(X, label[::-1], group=group).fingerprint() != booster.fingerprint()


def test_refit_takes_query_ids():
    label = np.arange(len(X)) % 3
    sizes = [7, len(X) - 7]
    booster = hb.train({"objective": "lambdarank", "verbosity": -1}, hb.Dataset(X, label=label, group=sizes), 2)
    by_ids = booster.refit(X, label[::-1], qid=np.repeat(["b", "a"], sizes))
    assert by_ids.fingerprint() == booster.refit(X, label[::-1], group=sizes).fingerprint() != booster.fingerprint()


def test_refit_does_not_depend_on_the_order_of_rows():
    booster = trained({"objective": "binary"})
    label, order = label_of({"objective": "binary"})[::-1], np.random.default_rng(0).permutation(len(X))
    weight = np.arange(1.0, len(X) + 1.0)
    found = booster.refit(X, label, weight=weight, decay_rate=0.3)
    assert (
        booster.refit(X[order], label[order], weight=weight[order], decay_rate=0.3).fingerprint() == found.fingerprint()
    )
    for old, new in zip(booster.trees, found.trees, strict=True):
        assert np.array_equal(old.feature, new.feature) and np.array_equal(old.threshold, new.threshold)


def test_refit_keeps_leaves_that_no_row_reaches():
    booster = trained({})
    rows = X[:1]
    leaves = booster.predict(rows, pred_leaf=True)[0]
    found = booster.refit(rows, [1000.0], decay_rate=0.5)
    moved = found.init_scores - booster.init_scores
    assert moved > 400.0
    for number, (tree, old, leaf) in enumerate(zip(found.trees, booster.trees, leaves, strict=True)):
        others = np.arange(tree.n_leaves) != leaf
        kept = old.leaf_value[others] - (moved if number == 0 else 0.0)  # with the start they are as before
        assert np.array_equal(tree.leaf_value[others], kept)
    elsewhere = ~(booster.predict(X, pred_leaf=True) == leaves).any(axis=1)
    assert elsewhere.any()
    assert np.allclose(found.predict(X[elsewhere]), booster.predict(X[elsewhere]))
    assert 400.0 < found.predict(rows)[0] < 1000.0


def test_refit_of_a_forest_and_with_an_objective_function():
    forest = trained(MODELS["rf"])
    assert np.mean((forest.refit(X, SCORE + 5.0, decay_rate=0.0).predict(X) - SCORE - 5.0) ** 2) < 20.0

    def squared(scores, dataset):
        return scores - dataset.label, np.ones_like(scores)

    booster = hb.train({**BASE, "objective": squared}, hb.Dataset(X, label=SCORE), 4)
    assert booster.refit(X, SCORE, decay_rate=0.0, objective=squared).fingerprint() == booster.fingerprint()
    with pytest.raises(hb.ParameterError, match="objective=function"):
        booster.refit(X, SCORE)


@pytest.mark.parametrize("from_average", [False, True])
def test_refit_is_near_lightgbm(from_average):
    lgb = pytest.importorskip("lightgbm")
    start = {"boost_from_average": from_average}
    params = {"num_leaves": 6, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1, **start}
    theirs = lgb.train(params, lgb.Dataset(X, label=SCORE), 8)
    ours = trained(start, 8)
    new = SCORE * 2.0 + (10.0 if from_average else 1.0)
    for decay in (0.0, 0.5, 0.9):
        found = ours.refit(X, new, decay_rate=decay).predict(X)
        expected = theirs.refit(X, new, decay_rate=decay).predict(X)
        if from_average:  # its first tree, which holds the start, is fitted without shrinkage
            assert np.abs(np.mean(found) - np.mean(expected)) < 0.05 * np.std(expected)
        else:
            assert np.mean(np.abs(found - expected)) < 0.05 * np.std(expected)


def test_bad_arguments_of_refit_are_refused():
    booster = trained({"objective": "binary"}, 2)
    label = label_of({"objective": "binary"})
    for decay in (-0.1, 1.5, float("nan"), "0.5", True):
        with pytest.raises(hb.ParameterError, match="decay_rate"):
            booster.refit(X, label, decay_rate=decay)
    with pytest.raises(hb.DataError, match="label"):
        booster.refit(X, label + 1.0)
    with pytest.raises(hb.DataError, match="label has 3 values"):
        booster.refit(X, label[:3])
    with pytest.raises(hb.DataError, match="features"):
        booster.refit(X[:, :2], label)


def test_refit_of_rankings_takes_the_gradients_of_the_engine(monkeypatch):
    params, group = {"objective": "lambdarank"}, [30] * 10
    booster = trained(params, 3, group)

    def definition(*_):
        raise AssertionError("queries one after another in Python take a hundred times as long as training")

    monkeypatch.setattr(RankingObjective, "gradients", definition)
    assert booster.refit(X, label_of(params), group=group, decay_rate=0.0).fingerprint() == booster.fingerprint()


def test_refit_weighs_down_leaves_below_sets_of_levels_as_training_does():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(600, 2))
    table[:, 1] = np.floor(20.0 * rng.random(600) ** 1.5)
    label = np.where(table[:, 1] % 3 == 0, 2.0, -1.0) + 0.1 * rng.normal(size=600)
    params = {**BASE, "num_leaves": 3, "min_data_per_group": 5, "cat_smooth": 1.0}
    booster = hb.train(params, hb.Dataset(table, label=label, categorical_features=[1]), 2)
    tree = booster.trees[0]
    below = [tree.left[split] < 0 or tree.right[split] < 0 for split in np.flatnonzero(tree.feature == 1)]
    assert any(below)  # a leaf that cat_l2 was added for
    assert booster.refit(table, label, decay_rate=0.0).fingerprint() == booster.fingerprint()
