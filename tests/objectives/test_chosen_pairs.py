"""Sampled pairs and unbiased ranking (XGBoost): by their definition, pair by pair, and beside XGBoost."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.metrics import get_metric
from hornbeam.objectives import LambdarankObjective, chosen_pairs, get_objective
from hornbeam.params.params import Params
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.workers import train_on_workers

RANKED = ("lambdarank", "pairwise", "rank_map")
rng = np.random.default_rng(0)
SIZES = np.array([1, 9, 4, 30, 2, 17, 5, 6, 3])
N = int(SIZES.sum())
LABEL = rng.integers(0, 4, N).astype(np.float64)
SCORES = np.round(rng.normal(size=N), 1)  # some are equal


def bound(name, **params):
    label = np.minimum(LABEL, 1.0) if name == "rank_map" else LABEL
    data = hb.Dataset(np.zeros((N, 1)), label, group=SIZES)
    return get_objective(Params.from_dict({"objective": name, **params})).bind(data), label


def delta_of(name, label, order, a, b, truncation):
    """Return what swapping two documents of a ranked list does to the metric, from the metric itself."""
    if name == "pairwise":
        return 1.0
    swapped = order.copy()
    swapped[a], swapped[b] = order[b], order[a]
    if name == "rank_map":

        def metric(some):
            hits = label[some] > 0
            return np.sum((np.cumsum(hits) / np.arange(1, len(some) + 1))[hits]) / hits.sum()
    else:
        best = np.sort(label)[::-1][:truncation]
        ideal = np.sum((2.0**best - 1.0) / np.log2(np.arange(2, len(best) + 2)))

        def metric(some):
            return np.sum((2.0 ** label[some] - 1.0) / np.log2(np.arange(2, len(some) + 2))) / ideal

    return abs(metric(order) - metric(swapped))


def gradients_by_pairs(name, label, scores, pairs_of, params, biases=None):
    """Add up all pairs, one after the other, in floats; returns gradient, hessian and costs of places."""
    sigmoid, norm = params.get("sigmoid", 1.0), params.get("lambdarank_norm", True)
    gradient, hessian, start = np.zeros(N), np.zeros(N), 0
    costs = np.zeros((2, 0 if biases is None else len(biases[0])))
    for size in SIZES:
        y, s = label[start : start + size], scores[start : start + size]
        order = np.argsort(-s, kind="stable")
        g, h, total = np.zeros(size), np.zeros(size), 0.0
        for a, b in pairs_of(start, order, y):
            a, b = min(a, b), max(a, b)
            if y[order[a]] == y[order[b]]:
                continue
            high, low = (order[a], order[b]) if y[order[a]] > y[order[b]] else (order[b], order[a])
            truncation = size if params.get("lambdarank_sampled_pairs") else params["lambdarank_truncation_level"]
            w = sigmoid * delta_of(name, y, order, a, b, truncation)
            if norm and s[order[0]] != s[order[-1]]:
                w /= 0.01 + abs(s[high] - s[low])
            r = 1.0 / (1.0 + math.exp(sigmoid * (s[high] - s[low])))
            divisor = 1.0
            if biases is not None and max(high, low) < len(biases[0]):
                cost = w * math.log(1.0 / r)
                costs[0, high] += cost / biases[1][low]
                costs[1, low] += cost / biases[0][high]
                divisor = biases[0][high] * biases[1][low]
            g[high] -= w * r / divisor
            g[low] += w * r / divisor
            h[[high, low]] += sigmoid * w * r * (1.0 - r) / divisor
            total += 2.0 * w * r / divisor
        factor = 1.0
        if norm and params.get("lambdarank_sampled_pairs"):
            factor = 1.0 / params["lambdarank_sampled_pairs"]
        elif norm and total > 0.0:
            factor = math.log2(1.0 + total) / total
        gradient[start : start + size], hessian[start : start + size] = g * factor, h * factor
        start += size
    return gradient, hessian, costs


@pytest.mark.parametrize("params", [{}, {"sigmoid": 2.0, "lambdarank_norm": False}])
@pytest.mark.parametrize("name", RANKED)
def test_unbiased_gradients_are_those_of_the_definition(name, params, monkeypatch):
    given = {"lambdarank_unbiased": True, "lambdarank_bias_norm": 0.5, "lambdarank_truncation_level": 5, **params}
    objective, label = bound(name, **given)
    biases = np.ones((2, 5))

    def first_pairs(start, order, y):
        return [(a, b) for a in range(min(5, len(order))) for b in range(a + 1, len(order))]

    scores = SCORES
    for at_once in (1 << 20, 100):  # two iterations, the second with other biases and a query at a time
        monkeypatch.setattr(chosen_pairs, "PAIRS_AT_ONCE", at_once)
        g, h, costs = gradients_by_pairs(name, label, scores, first_pairs, given, biases)
        found = objective.pairs.gradients(scores, objective.key)
        assert np.allclose(found[0], g, rtol=1e-9, atol=1e-12)
        assert np.allclose(found[1], h, rtol=1e-9, atol=1e-12)
        biases = (costs / costs[:, :1]) ** (1.0 / 1.5)
        assert np.allclose([objective.pairs.biases.clicked, objective.pairs.biases.passed], biases, rtol=1e-9)
        scores = scores[::-1].copy()


@pytest.mark.parametrize("name", RANKED)
def test_sampled_pairs_have_the_gradients_of_the_definition(name):
    given = {"lambdarank_sampled_pairs": 3}
    objective, label = bound(name, **given)
    ranked = objective.pairs._rank(SCORES)
    (pairs,) = objective.pairs._pairs(ranked, objective.key)
    starts = np.cumsum(SIZES) - SIZES

    def drawn(start, order, y):
        mine = pairs.query == int(np.flatnonzero(starts == start)[0])
        return zip((pairs.a[mine] - start).tolist(), (pairs.b[mine] - start).tolist(), strict=True)

    g, h, _ = gradients_by_pairs(name, label, SCORES, drawn, given)
    found = objective.pairs.gradients(SCORES, objective.key)
    assert np.allclose(found[0], g, rtol=1e-9, atol=1e-12)
    assert np.allclose(found[1], h, rtol=1e-9, atol=1e-12)


def test_every_document_draws_its_pairs_among_other_labels_alike():
    objective, _ = bound("lambdarank", lambdarank_sampled_pairs=2000)
    ranked = objective.pairs._rank(SCORES)
    (pairs,) = objective.pairs._pairs(ranked, 77)
    levels = ranked.level
    assert (levels[pairs.a] != levels[pairs.b]).all()
    start = int(SIZES[0])
    mine = slice(start, start + int(SIZES[1]))
    level = levels[mine]
    expected = np.zeros((9, 9))  # draws of either document for the pair
    for a in range(9):
        others = np.flatnonzero(level != level[a])
        expected[np.minimum(a, others), np.maximum(a, others)] += 2000.0 / len(others)
    counts = np.zeros((9, 9))
    of_query = pairs.query == 1
    np.add.at(counts, (pairs.a[of_query] - start, pairs.b[of_query] - start), 1.0)
    assert (np.abs(counts - expected) < 6.0 * np.sqrt(expected + 1.0)).all()
    assert counts.sum() == 2000 * 9


def test_unbiased_without_biases_is_lambdarank():
    plain, label = bound("lambdarank", lambdarank_truncation_level=7)
    objective, _ = bound("lambdarank", lambdarank_truncation_level=7, lambdarank_unbiased=True)
    g, h = plain.gradients(SCORES[None], label, None)
    found = objective.pairs.gradients(SCORES, objective.key)
    assert np.allclose(found[0], g[0], rtol=1e-9, atol=1e-10)
    assert np.allclose(found[1], h[0], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in CASES if "sampled" in name or "unbiased" in name])
def test_workers_end_with_the_model_of_one_process(name):
    for model in train_on_workers(CASES[name], 3, device="cpu"):
        assert model.fingerprint() == expected_fingerprints()[name]


N_QUERIES, SIZE = 300, 10
SHARED = {"max_bin": 63, "learning_rate": 0.1, "min_child_weight": 0.001, "verbosity": 0}


def make_clicks(seed):
    """Return features, true relevance and clicks; rows of a query are in the order in which they were shown."""
    rows = np.random.default_rng(seed)
    x = rows.normal(size=(N_QUERIES, SIZE, 5))
    order = np.argsort(-(x[..., 4] + 0.5 * rows.normal(size=x.shape[:2])), axis=1)
    x = np.take_along_axis(x, order[..., None], axis=1).reshape(-1, 5)
    relevant = (x[:, 0] + x[:, 1] * x[:, 2] > 0.7).astype(np.float64)
    place = np.tile(np.arange(SIZE), N_QUERIES)
    return x, relevant, relevant * (rows.random(len(x)) < 1.0 / (1.0 + place))


def ndcg_of(predict):
    """Return the NDCG of true relevance on other queries."""
    x, relevant, _ = make_clicks(99)
    data = hb.Dataset(x, relevant, group=[SIZE] * N_QUERIES)
    return get_metric("ndcg@5").evaluate(data, np.asarray(predict(x), np.float64)[None], LambdarankObjective())[0][1]


@pytest.mark.parametrize(
    "chosen",
    [
        {"lambdarank_unbiased": True, "lambdarank_num_pair_per_sample": 10},
        {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 4},
        {"lambdarank_pair_method": "mean"},
        {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 4, "lambdarank_unbiased": True},
    ],
)
def test_rankings_are_as_good_as_xgboosts(chosen):
    """A script for XGBoost runs as it is; means of two trainings and two objectives are compared."""
    xgboost = pytest.importorskip("xgboost")
    ours, theirs = [], []
    for objective in ("rank:ndcg", "rank:pairwise"):
        for seed in range(2):
            x, _, clicked = make_clicks(seed)
            params = {**SHARED, **chosen, "objective": objective, "max_leaves": 7, "grow_policy": "lossguide"}
            qid = np.repeat(np.arange(N_QUERIES), SIZE)
            booster = hb.train(params, hb.DMatrix(x, clicked, qid=qid), 10)
            peer = xgboost.train(params, xgboost.DMatrix(x, clicked, qid=qid), 10)
            ours.append(ndcg_of(booster.predict))
            theirs.append(ndcg_of(lambda rows, peer=peer: peer.predict(xgboost.DMatrix(rows))))
    assert np.mean(ours) > np.mean(theirs) - 0.005, (np.mean(ours), np.mean(theirs))


def test_biases_fall_with_the_place_and_rankings_get_better():
    plain, unbiased = [], []
    for seed in range(4):
        x, _, clicked = make_clicks(seed)
        data = hb.Dataset(x, clicked, group=[SIZE] * N_QUERIES)
        params = {"objective": "lambdarank", "num_leaves": 7, "verbosity": -1, "lambdarank_truncation_level": 10}
        plain.append(ndcg_of(hb.train(params, data, 30).predict))
        unbiased.append(ndcg_of(hb.train({**params, "lambdarank_unbiased": True}, data, 30).predict))
    assert np.mean(unbiased) > np.mean(plain)


@pytest.mark.parametrize(
    ("params", "data", "words"),
    [
        ({"lambdarank_pair_method": "median"}, {}, "'topk' or 'mean'"),
        ({"lambdarank_sampled_pairs": -1}, {}, "lambdarank_sampled_pairs"),
        ({"lambdarank_bias_norm": -1.0}, {}, "lambdarank_bias_norm"),
        ({"lambdarank_score_normalization": False}, {}, "lambdarank_norm=False"),
        ({"lambdarank_unbiased": True, "boosting": "dart"}, {}, "boosting='dart' with lambdarank_unbiased"),
        ({"lambdarank_unbiased": True}, {"position": np.zeros(N)}, "leave position= out"),
        ({"lambdarank_pair_method": "mean"}, {"position": np.zeros(N)}, "leave position= out"),
    ],
)
def test_what_contradicts_itself_is_refused(params, data, words):
    given = {"objective": "lambdarank", "verbosity": -1, **params}
    with pytest.raises(hb.ParameterError, match=words):
        hb.train(given, hb.Dataset(SCORES[:, None], LABEL, group=SIZES, **data), 1)


def test_biases_do_not_go_on_from_a_model_and_sampled_pairs_do():
    data = hb.Dataset(SCORES[:, None], LABEL, group=SIZES)
    params = {"objective": "lambdarank", "verbosity": -1, "min_data_in_leaf": 3}
    start = hb.train(params, data, 1)
    with pytest.raises(hb.ParameterError, match="lambdarank_unbiased cannot go on"):
        hb.train({**params, "lambdarank_unbiased": True}, data, 1, init_model=start)
    sampled = {**params, "lambdarank_sampled_pairs": 2}
    half = hb.train(sampled, data, 2)
    assert hb.train(sampled, data, 2, init_model=half).fingerprint() == hb.train(sampled, data, 4).fingerprint()
