"""Thresholds in float32, and zeros that are missing values: each translation against its definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.convert.float32 import from_float32, to_float32
from hornbeam.convert.zeros import spell_out_zeros
from hornbeam.data.sources.reader import ZERO
from hornbeam.testing.trees import random_tree

float32s = st.floats(width=32, allow_nan=False)
float64s = st.floats(allow_nan=False)


def neighbours(value: float) -> np.ndarray:
    """Return float64 values about a number and its float32 neighbours, and the middles between them."""
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(value)
        three = np.array([np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))], float)
        middles = three[:-1] / 2 + three[1:] / 2
        points = np.concatenate([[value], three, middles[np.isfinite(middles)]])
        around = [np.nextafter(points, -np.inf), points, np.nextafter(points, np.inf)]
    return np.concatenate([*around, [0.0, -0.0, np.inf, -np.inf, 1.0, -1.0]])


@given(float32s.filter(lambda t: t != -np.inf))
def test_float64_values_go_where_their_float32_go(threshold):
    x = neighbours(threshold)
    with np.errstate(over="ignore", under="ignore"):
        theirs = x.astype(np.float32) < np.float32(threshold)
    ours = x <= from_float32(np.array([threshold], np.float32))[0]
    assert np.array_equal(ours, theirs)


@given(float64s.filter(lambda t: t != np.inf))
def test_float32_values_go_where_they_went(threshold):
    with np.errstate(over="ignore", under="ignore"):
        x = neighbours(threshold).astype(np.float32)
    theirs = x < to_float32(np.array([threshold]))[0]
    assert np.array_equal(x.astype(np.float64) <= threshold, theirs)


@given(float32s.filter(lambda t: t != -np.inf))
def test_in_and_out_again_is_the_same_threshold(threshold):
    t = np.array([threshold], np.float32)
    assert to_float32(from_float32(t))[0] == t[0]


def test_zeros_that_are_missing_are_spelled_out():
    rng = np.random.default_rng(0)
    choices = [0.0, -0.0, ZERO, -ZERO, 1.0, -1.0, 2.0, -2.0, np.nextafter(ZERO, 1), np.nextafter(-ZERO, -1), np.inf]
    values = np.array([*choices[:-1], 1.5, -1.5, 3.0, -3.0, 1e-40, np.inf, -np.inf, np.nan])
    for _ in range(30):
        tree = random_tree(rng, 12, 2, choices)
        reads_zeros = rng.random(tree.n_splits) < 0.7
        made = spell_out_zeros(tree, reads_zeros, raise_error)
        for row in rng.choice(values, (200, 2)):
            node = other = 0
            while node >= 0:
                x = row[tree.feature[node]]
                read = np.nan if reads_zeros[node] and abs(x) <= ZERO else x
                node = int((tree.left if tree.goes_left(node, np.array([read]))[0] else tree.right)[node])
            while other >= 0:
                x = row[made.feature[other]]
                other = int((made.left if made.goes_left(other, np.array([x]))[0] else made.right)[other])
            assert tree.leaf_value[~node] == made.leaf_value[~other]


def raise_error(problem: str) -> None:
    raise AssertionError(problem)
