"""Random trees for tests of prediction, model files and explanations, made without training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hornbeam.trees.tree import Tree


def random_tree(rng: np.random.Generator, n_leaves: int, n_features: int, thresholds: Any = None) -> Tree:
    """Grow a tree by splitting random leaves, numbered as one-split-at-a-time growth numbers them.

    Thresholds are drawn from `thresholds`; if None, they are small multiples of 1/4, so that rows of such values often
    meet a threshold exactly.
    """
    n_splits = n_leaves - 1
    choices = np.arange(-8, 9) / 4 if thresholds is None else np.asarray(thresholds, np.float64)
    children = np.zeros((n_splits, 2), np.int32)
    parent_of_leaf: list[tuple[int, int] | None] = [None]
    for split in range(n_splits):
        leaf = int(rng.integers(split + 1))
        place = parent_of_leaf[leaf]
        if place is not None:
            children[place] = split
        children[split] = ~leaf, ~(split + 1)
        parent_of_leaf[leaf] = split, 0
        parent_of_leaf.append((split, 1))
    return Tree(
        feature=rng.integers(n_features, size=n_splits, dtype=np.int32),
        threshold=rng.choice(choices, n_splits),
        missing_left=rng.random(n_splits) < 0.5,
        left=np.ascontiguousarray(children[:, 0]),
        right=np.ascontiguousarray(children[:, 1]),
        gain=rng.random(n_splits),
        split_value=rng.standard_normal(n_splits),
        split_weight=rng.random(n_splits),
        split_count=rng.integers(1, 1000, n_splits),
        leaf_value=rng.standard_normal(n_leaves),
        leaf_weight=rng.random(n_leaves),
        leaf_count=rng.integers(1, 1000, n_leaves),
        shrinkage=0.1,
    )


def with_categorical_splits(rng: np.random.Generator, tree: Tree, n_levels: Mapping[int, int]) -> Tree:
    """Return the tree with random sets of codes at the splits of some features.

    n_levels  number of codes of each categorical feature, by its number
    """
    threshold, missing_left = tree.threshold.copy(), tree.missing_left.copy()
    sets: list[Any] = []
    for split, feature in enumerate(tree.feature.tolist()):
        if feature not in n_levels:
            sets.append(None)
            continue
        size = int(rng.integers(1, min(n_levels[feature], 40) + 1))
        sets.append(np.sort(rng.choice(n_levels[feature], size, replace=False)).astype(np.int32))
        threshold[split], missing_left[split] = 0.0, False
    left_codes = tuple(sets) if any(own is not None for own in sets) else None
    return replace(tree, threshold=threshold, missing_left=missing_left, left_codes=left_codes)
