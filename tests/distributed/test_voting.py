"""Workers that vote on features: an approximation, but the model of one process where all features are chosen."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import HornbeamError
from hornbeam.core.fixed_point import Quantization
from hornbeam.distributed import Part, PartDataset, run_workers, train
from hornbeam.distributed.search import SectionSearch
from hornbeam.distributed.voting import CANDIDATES_AT_ONCE, own_gains
from hornbeam.testing.workers import expected_of_short, short_case, train_on_workers
from hornbeam.trees.categorical_splits import best_level_set
from hornbeam.trees.splitting import SplitRules, best_split

ALL_CHOSEN = [
    ("regression", 2, "reference"),
    ("bagging", 3, "cpu"),
    ("binary, categories, weights", 3, "reference"),
    ("binary, categories, weights", 2, "cpu"),
    ("binary, features by level and node", 2, "cpu"),
    ("regression, monotone, intermediate, categories", 2, "cpu"),
    ("multiclass, forced splits, dart, categories", 2, "reference"),
    ("regression, extra trees", 3, "cpu"),
    ("lambdarank, bagging by query", 3, "cpu"),
    ("goss", 2, "cpu"),
]


@pytest.mark.parametrize(("name", "n_workers", "device"), ALL_CHOSEN)
def test_model_is_that_of_one_process_where_all_features_are_chosen(name, n_workers, device):
    voting = {"tree_learner": "voting_parallel", "topk": 500}
    models = train_on_workers(short_case(name), n_workers, device=device, num_threads=1, **voting)
    assert [model.fingerprint() for model in models] == [expected_of_short(name)] * n_workers


def on_workers(tables, labels, n_rounds=1, **params):
    """Train on a worker for each table; returns the models and the bytes that the first worker sent."""

    def work(collective):
        rank = collective.rank
        data = PartDataset(collective, [Part.make(rank, tables[rank], label=labels[rank])])
        model = train({"verbosity": -1, "device": "cpu", "num_threads": 1, **params}, data, n_rounds)
        return model, collective.traffic.bytes_sent

    models, sent = zip(*run_workers(len(tables), work), strict=True)
    return models, sent[0]


def test_only_features_of_most_votes_are_split():
    """Feature 7 is best among all rows and second on every worker; 4 has two votes, 1 has one."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(600, 10)) for _ in range(3)]
    labels = [0.8 * table[:, 7] + table[:, best] for table, best in zip(tables, (4, 4, 1), strict=True)]
    stump = {"objective": "regression", "num_leaves": 2}
    (exact, *_), _ = on_workers(tables, labels, **stump)
    assert exact.trees[0].feature.tolist() == [7]
    models, _ = on_workers(tables, labels, tree_learner="voting", top_k=1, **stump)
    assert models[0].trees[0].feature.tolist() == [4]
    assert len({model.fingerprint() for model in models}) == 1
    both, _ = on_workers(tables, labels, tree_learner="voting", top_k=2, **stump)
    assert both[0].fingerprint() == exact.fingerprint()


def test_wide_tables_send_less_and_learn_as_much():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(3_500, 80))
    score = table[:, 3] * table[:, 8] + np.sin(2 * table[:, 20]) + table[:, 70]
    label = (score + rng.normal(size=3_500) > 0).astype(float)
    train_rows, test_rows = slice(0, 2_000), slice(2_000, None)
    tables, labels = np.split(table[train_rows], 4), np.split(label[train_rows], 4)
    losses, sent = {}, {}
    for learner in ("data", "voting"):
        params = {"objective": "binary", "tree_learner": learner, "top_k": 5, "num_leaves": 15, "max_bin": 31}
        (model, *_), sent[learner] = on_workers(tables, labels, 6, **params)
        chance = model.predict(table[test_rows])
        losses[learner] = -np.mean(np.log(np.where(label[test_rows] > 0, chance, 1.0 - chance)))
    assert sent["voting"] < 0.5 * sent["data"]
    assert losses["voting"] < 1.03 * losses["data"] < 0.66


@pytest.mark.parametrize("at_once", [1, 40, CANDIDATES_AT_ONCE])
def test_votes_follow_the_gains_of_the_definition(monkeypatch, at_once):
    monkeypatch.setattr("hornbeam.distributed.voting.CANDIDATES_AT_ONCE", at_once)
    rng = np.random.default_rng(2)
    table = rng.normal(size=(500, 6))
    table[:, :4][rng.random((500, 4)) < 0.1] = np.nan
    table[:, 5] = rng.integers(0, 9, 500)
    how = {"max_bin": 15, "verbosity": -1, "min_data_per_group": 10}
    binned = hb.Dataset(table, label=np.zeros(500), categorical_feature=[5], params=how).construct().binned
    assert binned.n_numeric == 5
    assert not binned.has_missing.all()
    search = SectionSearch(binned, 0, binned.n_used, compiled=False, n_threads=1)
    search.set_slots(2)
    search.rows[:], search.pairs[:] = 0, 0
    gradient = rng.integers(-40, 40, 500) + (30 * (binned.bins[:, 1] > 7)).astype(np.int64)
    for slot, some in enumerate((np.arange(500), np.arange(90))):
        for feature in range(binned.n_used):
            bins = search.bins_of(feature).start + binned.bins[some, feature].astype(np.int64)
            np.add.at(search.rows[slot], bins, 1)
            np.add.at(search.pairs[slot], bins, np.column_stack([gradient[some], np.full(len(some), 3)]))
    how, rules = Quantization(0.01, 0.1, False, 3, 3), SplitRules(0.3, 2.0, 0.0, 0.0, 40, 1.0)
    features = np.arange(binned.n_used, dtype=np.int32)
    found = own_gains(search, np.arange(2, dtype=np.int32), features, binned.has_missing, how, rules)
    offsets = binned.offsets.astype(np.int64)
    for slot in range(2):
        for feature in features:
            own = search.bins_of(int(feature))
            if feature < binned.n_numeric:
                given = search.pairs[slot], search.rows[slot], offsets, binned.has_missing, how, rules
                expected = float(best_split(*given, features=features[feature : feature + 1])["gain"])
            else:
                expected = best_level_set(search.pairs[slot, own], search.rows[slot, own], how, rules).gain
            assert found[slot, feature] == expected
    assert (found > 0.0).any(axis=1).all()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"tree_learner": "voting", "multi_strategy": "multi_output_tree"}, "leave out one of them"),
        ({"tree_learner": "voting", "top_k": 0}, "top_k=0"),
        ({"tree_learner": "votes"}, "tree_learner='votes'"),
    ],
)
def test_what_cannot_be_is_refused(params, words):
    rng = np.random.default_rng(3)
    tables, labels = [rng.normal(size=(50, 2))] * 2, [rng.integers(0, 3, 50)] * 2
    with pytest.raises(HornbeamError, match=words):
        on_workers(tables, labels, objective="multiclass", num_class=3, **params)


def test_one_process_has_nothing_to_vote_on():
    rng = np.random.default_rng(4)
    table, label = rng.normal(size=(300, 4)), rng.normal(size=300)
    plain, voting = (
        hb.train({"verbosity": -1, **params}, hb.Dataset(table, label), 3)
        for params in ({}, {"tree_learner": "voting", "top_k": 1})
    )
    assert plain.fingerprint() == voting.fingerprint()
