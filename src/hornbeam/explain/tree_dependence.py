"""Partial dependence by the branches of trees: what scikit-learn calls the method "recursion".

The raw score where some features have given values, and the others go both ways at every split, by the shares of the
training rows that went there. No table is needed, and a tree is walked once for all values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.explain.covers import known_cover
from hornbeam.model.booster import Booster
from hornbeam.trees.tree import Tree

FloatArray = NDArray[np.float64]


def tree_dependence(booster: Booster, values: NDArray[np.generic], features: Sequence[int]) -> FloatArray:
    """Return the partial dependence of raw scores, without what they start from, float64 (n_outputs, n_points).

    values    (n_points, len(features)), as tables have them    in
    features  positions of the features                         in
    """
    table = np.full((len(values), booster.n_features), np.nan, object if values.dtype == object else np.float64)
    table[:, list(features)] = values
    block = booster.checked_table(table).read(0, len(table))
    begin, n_iterations = booster.chosen_iterations(0, None)
    end = booster.n_iterations if n_iterations is None or n_iterations < 0 else begin + n_iterations
    trees = booster.trees[begin * booster.trees_per_iteration : end * booster.trees_per_iteration]
    cover = known_cover(trees, "auto")
    sums = np.zeros((booster.n_outputs, len(block)))
    for number, tree in enumerate(trees):
        sums[number % booster.n_outputs] += _of_tree(tree, block, frozenset(features), cover)
    return sums / (max(1, end - begin) if booster.averages_trees else 1)


def _of_tree(tree: Tree, block: FloatArray, features: frozenset[int], cover: str) -> FloatArray:
    """Return the value of a tree for every row, float64 (n_rows,), where the features alone are looked at."""
    of_splits, of_leaves = (
        (tree.split_count, tree.leaf_count) if cover == "count" else (tree.split_weight, tree.leaf_weight)
    )
    shares = np.zeros((tree.n_splits, len(block)))  # of each row, how much of it comes to a split
    if not tree.n_splits:
        return np.full(len(block), tree.leaf_value[0])
    shares[0] = 1.0
    values = np.zeros(len(block))
    for split in range(tree.n_splits):  # children have higher numbers than their parent
        children = int(tree.left[split]), int(tree.right[split])
        if tree.feature[split] in features:
            to_left = tree.goes_left(split, block[:, tree.feature[split]]).astype(np.float64)
        else:
            left, right = (float(of_splits[child] if child >= 0 else of_leaves[~child]) for child in children)
            to_left = np.full(len(block), left / (left + right))
        for child, share in zip(children, (to_left, 1.0 - to_left), strict=True):
            if child >= 0:
                shares[child] = shares[split] * share
            else:
                values += shares[split] * share * tree.leaf_value[~child]
    return values
