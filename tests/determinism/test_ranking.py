"""Ranking keeps the contract: one model and one evaluation history on every device and for any thread count."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.checks import assert_same_model, usable_devices
from hornbeam.testing.data import make_ranking

COMBINATIONS = {
    "lambdarank": {"objective": "lambdarank"},
    "lambdarank, plain": {"objective": "lambdarank", "lambdarank_norm": False, "lambdarank_truncation_level": 2},
    "lambdarank, gains": {"objective": "rank:ndcg", "label_gain": [0, 1, 1, 2, 50], "sigmoid": 0.5},
    "pairwise": {"objective": "rank:pairwise"},
    "rank_xendcg": {"objective": "xendcg", "seed": 9, "objective_seed": 1},
}


def make_dataset(weighted=False):
    X, y, sizes = make_ranking(40, seed=1)
    sizes = np.append(sizes, 1)
    X, y = np.append(X, X[:1], axis=0), np.append(y, 1.0)
    weight = np.random.default_rng(0).random(len(y)) + 0.1 if weighted else None
    return hb.Dataset(X, y, group=sizes, weight=weight)


@pytest.fixture
def many_threads(tune):
    """Let threads share even little work."""
    tune(ranking_pairs_per_thread=1)


@pytest.mark.sampled
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("params", COMBINATIONS.values(), ids=COMBINATIONS.keys())
@pytest.mark.usefixtures("many_threads")
def test_model_is_identical_on_every_device_and_for_any_thread_count(params, weighted):
    booster = assert_same_model(params, lambda: make_dataset(weighted), usable_devices(), 4)
    assert sum(tree.n_splits for tree in booster.trees) > 0


def test_evaluation_history_is_identical_on_every_device():
    found = []
    X, y, sizes = make_ranking(15, seed=2)
    for device in usable_devices():
        train = make_dataset()
        valid = hb.Dataset(X, y, group=sizes, reference=train)
        params = {"objective": "lambdarank", "metric": "ndcg,map,mrr", "device": device, "verbosity": -1}
        found.append(hb.train(params, train, 4, {"valid": valid, "training": train}).eval_history)
    assert all(history == found[0] for history in found)


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_training_on_gives_the_same_model_as_training_in_one_go(objective, tmp_path):
    params = {"objective": objective, "verbosity": -1}
    whole = hb.train(params, make_dataset(), 6)
    first = hb.train(params, make_dataset(), 3)
    first.save(tmp_path / "model.json")
    again = hb.load(tmp_path / "model.json")
    assert again.fingerprint() == first.fingerprint()
    assert hb.train(params, make_dataset(), 3, init_model=again).fingerprint() == whole.fingerprint()


def test_saved_parameters_of_ranking_come_back(tmp_path):
    params = {"objective": "lambdarank", "label_gain": [0, 1, 2, 5, 9], "lambdarank_truncation_level": 7}
    booster = hb.train({**params, "verbosity": -1}, make_dataset(), 2)
    booster.save(tmp_path / "model.json")
    again = hb.load(tmp_path / "model.json")
    assert list(again.params["label_gain"]) == [0.0, 1.0, 2.0, 5.0, 9.0]
    assert again.objective.name == "lambdarank"
    X = make_ranking(5, seed=3)[0]
    assert (again.predict(X) == booster.predict(X, raw_score=True)).all()


def test_seeds_change_the_random_objective_only():
    def trained(**params):
        return hb.train({"verbosity": -1, **params}, make_dataset(), 2).trees[-1].leaf_value.tolist()

    assert trained(objective="rank_xendcg") != trained(objective="rank_xendcg", seed=1)
    assert trained(objective="rank_xendcg") != trained(objective="rank_xendcg", objective_seed=1)
    assert trained(objective="lambdarank") == trained(objective="lambdarank", seed=1, objective_seed=1)
