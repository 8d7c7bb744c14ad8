"""Shapley values against their definition: sums over all coalitions, for small trees of every kind."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from hornbeam.backends.explanation import Trees, background_contributions, contributions, interactions
from hornbeam.testing.trees import random_tree, with_categorical_splits
from hornbeam.trees.forest import ArrayReader, Forest

N_FEATURES = 5


def coalitions(players):
    return [frozenset(chosen) for size in range(len(players) + 1) for chosen in combinations(players, size)]


def path_dependent(tree, row, known, cover, node=0):
    """Mean value of the leaf that a row ends in, some features being known."""
    if node < 0 or tree.n_splits == 0:
        return float(tree.leaf_value[~node if node < 0 else 0])

    def size(child):
        if child < 0:
            return float((tree.leaf_count if cover == "count" else tree.leaf_weight)[~child])
        return size(tree.left[child]) + size(tree.right[child])

    left, right = tree.left[node], tree.right[node]
    if tree.feature[node] in known:
        goes_left = tree.goes_left(node, row[tree.feature[node]][None])[0]
        return path_dependent(tree, row, known, cover, left if goes_left else right)
    values = [path_dependent(tree, row, known, cover, child) for child in (left, right)]
    sizes = [size(child) for child in (left, right)]
    return (sizes[0] * values[0] + sizes[1] * values[1]) / (sizes[0] + sizes[1])


def leaf_value(tree, row):
    return path_dependent(tree, row, range(N_FEATURES), "count")


def shapley(worth):
    """Shapley values of a game: a dict of all coalitions."""
    n = N_FEATURES
    return np.array([
        sum(
            factorial(len(s)) * factorial(n - len(s) - 1) / factorial(n) * (worth[s | {i}] - worth[s])
            for s in coalitions([j for j in range(n) if j != i])
        )
        for i in range(n)
    ])  # fmt: skip


def shapley_interactions(worth):
    """Shapley interaction indices, zeros where i == j."""
    n = N_FEATURES
    found = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        found[i, j] = found[j, i] = sum(
            factorial(len(s)) * factorial(n - len(s) - 2) / factorial(n - 1)
            * (worth[s | {i, j}] - worth[s | {i}] - worth[s | {j}] + worth[s])
            for s in coalitions([k for k in range(n) if k not in (i, j)])
        )  # fmt: skip
    return found


@pytest.fixture(scope="module", params=[0, 1, 2])
def tree(request):
    rng = np.random.default_rng(request.param)
    made = random_tree(rng, (2, 9, 24)[request.param], N_FEATURES)
    return with_categorical_splits(rng, made, {4: 6})


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(9)
    made = np.round(rng.standard_normal((6, N_FEATURES)) * 4) / 4
    made[:, 4] = rng.integers(0, 7, 6)
    made[rng.random(made.shape) < 0.15] = np.nan
    return made


@pytest.mark.parametrize("cover", ["count", "weight"])
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_path_dependent_values_are_shapley_values(tree, rows, cover, device):
    trees = Trees(Forest([tree]), 0, 1, cover, device=device)
    values = contributions(trees, ArrayReader(rows), range(len(rows)))[:, 0]
    for row, found in zip(rows, values, strict=True):
        worth = {s: path_dependent(tree, row, s, cover) for s in coalitions(range(N_FEATURES))}
        np.testing.assert_allclose(found, shapley(worth), rtol=0, atol=1e-13)


def test_interactions_are_shapley_interactions(tree, rows):
    _, pairs = interactions(Trees(Forest([tree]), 0, 1), ArrayReader(rows), range(len(rows)))
    for row, found in zip(rows, pairs[:, 0], strict=True):
        worth = {s: path_dependent(tree, row, s, "count") for s in coalitions(range(N_FEATURES))}
        np.testing.assert_allclose(found + found.T, shapley_interactions(worth), rtol=0, atol=1e-13)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_values_against_background_rows_are_shapley_values(tree, rows, device):
    background = rows[::-1][:4]
    trees = Trees(Forest([tree]), 0, 1, device=device)
    values = background_contributions(trees, ArrayReader(rows), range(len(rows)), ArrayReader(background))[:, 0]
    for row, found in zip(rows, values, strict=True):
        worth = {
            s: sum(leaf_value(tree, np.where([i in s for i in range(N_FEATURES)], row, other)) for other in background)
            for s in coalitions(range(N_FEATURES))
        }
        np.testing.assert_allclose(found, shapley(worth), rtol=0, atol=1e-12)
