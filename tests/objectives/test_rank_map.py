"""rank_map: pairs weigh what swapping them does to the average precision."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.losses.gradients import compute_gradients
from hornbeam.metrics import get_metric
from hornbeam.objectives import MapObjective

SIZES = (1, 40, 7, 300, 2, 90)


@pytest.fixture(scope="module")
def queries():
    rng = np.random.default_rng(0)
    label = (rng.random(sum(SIZES)) < 0.3).astype(np.float64)
    return hb.Dataset(rng.normal(size=(sum(SIZES), 4)), label, group=SIZES)


def average_precision(label):
    """Return the average precision of labels in rank order."""
    places = np.flatnonzero(label) + 1.0
    return np.mean(np.arange(1, len(places) + 1) / places)


def test_weight_of_a_pair_is_the_change_of_the_average_precision(queries):
    label = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    above, below = MapObjective().rank_values(label.astype(np.int32))
    for i, j in combinations(range(8), 2):
        if label[i] != label[j]:
            swapped = label.copy()
            swapped[[i, j]] = label[[j, i]]
            change = abs(average_precision(swapped) - average_precision(label))
            assert (above[i] - below[j]) / label.sum() == pytest.approx(change, abs=1e-14)


def test_gradients_are_sums_over_pairs(queries):
    """Without norm: sigmoid * weight * (probability of the wrong order), by a loop over all pairs of a query."""
    score = np.random.default_rng(1).normal(size=sum(SIZES))
    gradient = MapObjective(1.5, 10**6, norm=False).bind(queries).gradients(score[None], queries.label, None)[0][0]
    start = SIZES[0]
    rows = np.arange(start, start + SIZES[1])
    order = rows[np.argsort(-score[rows])]
    above, below = MapObjective().rank_values(queries.label[order].astype(np.int32))
    expected = np.zeros(len(score))
    for i, j in combinations(range(len(order)), 2):
        one, other = order[i], order[j]
        if queries.label[one] != queries.label[other]:
            high, low = (one, other) if queries.label[one] > queries.label[other] else (other, one)
            weight = (above[i] - below[j]) / queries.label[rows].sum()
            lambda_ = 1.5 * weight / (1.0 + np.exp(1.5 * (score[high] - score[low])))
            expected[high] -= lambda_
            expected[low] += lambda_
    assert np.allclose(gradient[rows], expected[rows], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", [False, True])
def test_cpu_kernels_have_the_bits_of_the_definition(queries, norm):
    rng = np.random.default_rng(2)
    objective = MapObjective(0.7, 20, norm).bind(queries)
    scores = np.round(rng.normal(size=(1, sum(SIZES))), 1)
    expected = objective.gradients(scores, queries.label, None)
    found = np.empty_like(scores), np.empty_like(scores)
    compute_gradients(objective, scores, queries.label, None, *found, 2)
    assert (found[0] == expected[0]).all() and (found[1] == expected[1]).all()


def test_labels_are_zero_and_one():
    data = hb.Dataset(np.zeros((4, 1)), [0.0, 2.0, 1.0, 0.0], group=[4])
    with pytest.raises(hb.DataError, match=r"takes labels 0 and 1, but label\[1\] is 2.0"):
        hb.train({"objective": "rank:map", "verbosity": -1}, data, 1)


def test_lists_are_as_good_as_xgboosts():
    xgb = pytest.importorskip("xgboost")
    parts = []
    for seed in (3, 4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(4000, 5))
        chance = 1.0 / (1.0 + np.exp(1.5 - X[:, 0] - X[:, 1] * X[:, 2]))
        parts.append((X, (rng.random(4000) < chance).astype(np.float64), np.full(200, 20)))
    shared = {"objective": "rank:map", "learning_rate": 0.1, "max_depth": 4, "max_bin": 63, "nthread": 1}
    (X, y, group), (X_valid, y_valid, _) = parts
    theirs = xgb.train(
        {**shared, "verbosity": 0, "lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 20},
        xgb.DMatrix(X, y, group=group), 40,
    ).predict(xgb.DMatrix(X_valid))  # fmt: skip
    further = {"grow_policy": "depthwise", "num_leaves": 16, "lambda_l2": 1.0, "min_data_in_leaf": 1, "verbosity": -1}
    ours = hb.train({**shared, **further, "min_child_weight": 1.0}, hb.Dataset(X, y, group=group), 40).predict(X_valid)
    valid, metric = hb.Dataset(X_valid, y_valid, group=group), get_metric("map@20")
    found = [metric.evaluate(valid, np.asarray(p, np.float64)[None], MapObjective())[0][1] for p in (ours, theirs)]
    assert found[0] >= found[1] * 0.997
