"""Partial dependence by the branches of trees, beside a walk that takes one value at a time."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.explain.tree_dependence import tree_dependence

RNG = np.random.default_rng(1)
X = RNG.normal(size=(400, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
X[:, 3] = RNG.integers(0, 5, 400)
Y = np.nan_to_num(X[:, 0]) + (X[:, 3] == 2) * np.nan_to_num(X[:, 1])
KINDS = {
    "gbdt": {"objective": "regression"},
    "rf": {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    "classes": {"objective": "multiclass", "num_class": 3},
    "shared": {"objective": "multiclass", "num_class": 3, "multi_strategy": "multi_output_tree"},
    "stump": {"objective": "regression", "min_data_in_leaf": 1_000},
}


def walk(tree, node, values):
    """Return the value of a tree where the features of a dict have values, and others go both ways."""
    if node < 0:
        return tree.leaf_value[~node]
    children = int(tree.left[node]), int(tree.right[node])
    feature = int(tree.feature[node])
    if feature in values:
        to_left = bool(tree.goes_left(node, np.array([values[feature]]))[0])
        return walk(tree, children[0 if to_left else 1], values)
    counts = [tree.split_count[child] if child >= 0 else tree.leaf_count[~child] for child in children]
    return sum(n * walk(tree, child, values) for n, child in zip(counts, children, strict=True)) / sum(counts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("features", [(0,), (3, 1), ()])
def test_values_are_those_of_a_walk(kind, features):
    y = np.digitize(Y, [-0.5, 0.5]) if "num_class" in KINDS[kind] else Y
    params = {"num_leaves": 7, "verbosity": -1, "min_data_in_leaf": 5, **KINDS[kind]}
    booster = hb.train(params, hb.Dataset(X, y, categorical_features=[] if kind == "shared" else [3]), 6)
    grid = X[:20, list(features)]
    found = tree_dependence(booster, grid, features)
    expected = np.zeros((booster.n_outputs, len(grid)))
    block = booster.checked_table(X[:20]).read(0, 20)  # codes of levels
    for number, tree in enumerate(booster.trees):
        for point in range(len(grid)):
            values = {feature: block[point, feature] for feature in features}
            expected[number % booster.n_outputs, point] += walk(tree, 0 if tree.n_splits else -1, values)
    np.testing.assert_allclose(found, expected / (6 if kind == "rf" else 1), rtol=1e-12, atol=1e-15)


def test_the_best_iterations_alone_count():
    data = hb.Dataset(X, Y)
    booster = hb.train({"verbosity": -1, "num_leaves": 7}, data, 6)
    few = hb.train({"verbosity": -1, "num_leaves": 7}, data, 2)
    booster.n_best, booster.stops_at_best = 2, True
    np.testing.assert_array_equal(tree_dependence(booster, X[:9, :1], [0]), tree_dependence(few, X[:9, :1], [0]))
