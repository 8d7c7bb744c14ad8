"""Leaves that bound each other: boxes against every point of a small space."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hornbeam.trees.contexts.leaf_boxes import LeafBoxes

MISSING = -1


def random_tree(rng, n_bins, n_leaves, categorical=()):
    """Split random leaves; returns the boxes, and for every point (one code or MISSING a feature) its leaf."""
    n_features = len(n_bins)
    sign = rng.integers(-1, 2, n_features).astype(np.int8)
    sign[list(categorical)] = 0
    boxes = LeafBoxes(sign, np.array(n_bins, np.int32))
    points = list(itertools.product(*([*range(n), MISSING] for n in n_bins)))
    leaf_of = dict.fromkeys(points, 0)
    outputs, next_node = [0.0], 1
    touched = None
    while len(boxes.leaves) < n_leaves:
        leaf = int(rng.choice(boxes.leaves))
        feature = int(rng.integers(n_features))
        bin_, missing_left = int(rng.integers(n_bins[feature])), bool(rng.random() < 0.5)
        own = [point for point in points if leaf_of[point] == leaf]
        levels = set(np.flatnonzero(rng.random(n_bins[feature]) < 0.5).tolist()) if feature in categorical else None
        if levels is not None:
            left = [p for p in own if p[feature] in levels]
        else:
            left = [p for p in own if (missing_left if p[feature] == MISSING else p[feature] <= bin_)]
        if not left or len(left) == len(own):
            continue
        before = {other: ordered_with(boxes, points, leaf_of, sign, other) for other in boxes.leaves if other != leaf}
        left_set = None if levels is None else sum(1 << level for level in levels)
        touched = boxes.split(leaf, next_node, feature, bin_, missing_left, left_set)
        expected = {other for other, pairs in before.items() if leaf in pairs[0] | pairs[1]}
        assert set(touched) == expected
        for point in own:
            leaf_of[point] = next_node if point in set(left) else next_node + 1
        next_node += 2
        outputs += rng.normal(size=2).tolist()
    return boxes, points, leaf_of, sign, outputs


def ordered_with(boxes, points, leaf_of, sign, leaf):
    """Return the leaves below and above a leaf, by moving every one of its points along every constrained feature."""
    below, above = set(), set()
    values = [{point[feature] for point in points} - {MISSING} for feature in range(len(sign))]
    for point in points:
        if leaf_of[point] != leaf:
            continue
        for feature in np.flatnonzero(sign):
            if point[feature] == MISSING:
                continue
            for value in values[feature]:
                other = (*point[:feature], value, *point[feature + 1 :])
                if leaf_of[other] == leaf:
                    continue
                rises = (value > point[feature]) == (sign[feature] > 0)
                (above if rises else below).add(leaf_of[other])
    return below, above


@pytest.mark.parametrize("categorical", [(), (1,), (1, 2)], ids=["numbers", "a category", "two categories"])
@pytest.mark.parametrize("seed", range(15))
def test_bounds_equal_those_of_every_point_in_the_space(seed, categorical):
    rng = np.random.default_rng(seed)
    n_bins = [4, 3, 3] if categorical else [4, 3, 3][: 2 + seed % 2]
    boxes, points, leaf_of, sign, outputs = random_tree(rng, n_bins, 7, categorical)
    for leaf in boxes.leaves:
        below, above = ordered_with(boxes, points, leaf_of, sign, leaf)
        lower = max((outputs[other] for other in below), default=-math.inf)
        upper = min((outputs[other] for other in above), default=math.inf)
        assert boxes.bounds(leaf, outputs) == (lower, upper)


def test_leaf_of_missing_values_alone_is_in_no_order():
    boxes = LeafBoxes(np.array([1], np.int8), np.array([5], np.int32))
    assert boxes.split(0, 1, 0, 4, False) == []  # all values left, missing right
    assert boxes.bounds(1, [0.0, 3.0, 1.0]) == (-math.inf, math.inf)
    assert boxes.bounds(2, [0.0, 3.0, 1.0]) == (-math.inf, math.inf)
