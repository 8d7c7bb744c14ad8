"""Prediction with categorical splits: every device against the reference, with ==."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.prediction import categories as predict_categories
from hornbeam.backends.prediction import predict_leaf, predict_raw
from hornbeam.core.errors import DataError
from hornbeam.testing.trees import random_tree, with_categorical_splits
from hornbeam.trees.forest import Forest

N_LEVELS = {0: 3, 2: 64, 3: 70_000}


def make_rows(rng, n_rows):
    rows = np.round(rng.standard_normal((n_rows, 5)) * 4) / 4
    for feature, n_levels in N_LEVELS.items():
        rows[:, feature] = rng.integers(0, n_levels + 2, n_rows)
    odd = rng.random(rows.shape) < 0.1
    rows[odd] = rng.choice([np.nan, -1.0, 0.5, np.inf, -np.inf, 1e300, -0.0], int(odd.sum()))
    return rows


@given(
    seed=st.integers(0, 2**32),
    n_rows=st.integers(1, 100),
    n_leaves=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    n_outputs=st.integers(1, 3),
)
@settings(max_examples=25)
def test_every_device_equals_the_reference(device, seed, n_rows, n_leaves, n_outputs):
    rng = np.random.default_rng(seed)
    trees = [with_categorical_splits(rng, random_tree(rng, n, 5), N_LEVELS) for n in n_leaves for _ in range(n_outputs)]
    forest, rows = Forest(trees, n_outputs), make_rows(rng, n_rows)
    for n_threads in (1, 3):
        expected = predict_raw(forest, rows, device="reference")
        assert (predict_raw(forest, rows, n_threads=n_threads, device=device) == expected).all()
        leaves = predict_leaf(forest, rows, device="reference")
        assert (predict_leaf(forest, rows, n_threads=n_threads, device=device) == leaves).all()


def test_only_members_of_the_set_go_left(device):
    rng = np.random.default_rng(0)
    tree = with_categorical_splits(rng, random_tree(rng, 2, 1), {0: 40})
    (codes,) = tree.left_codes
    values = np.append(np.arange(50.0), [np.nan, -1.0, 0.5, 1e10])
    leaves = predict_leaf(Forest([tree]), values[:, None], device=device)[:, 0]
    left = int(~tree.left[0])
    assert np.flatnonzero(leaves == left).tolist() == codes.tolist()


def test_more_sets_than_a_column_has_numbers():
    rng = np.random.default_rng(0)
    sets = [np.sort(rng.choice(200, 5, replace=False)).astype(np.int32) for _ in range(50)] + [None]
    feature = np.append(np.repeat([4, 2], 25), 0)
    column, number, column_feature, packed = predict_categories.pack_sets(feature, sets, 1, most_sets=10)
    assert number.max() < 10
    assert column_feature[column[:50] - 1].tolist() == feature[:50].tolist()
    for split in range(50):
        c = int(column[split])
        table = packed.table[packed.table_start[c] : packed.table_start[c + 1]]
        start, words = int(packed.set_start[c]), int(packed.set_words[c])
        bits = packed.bits[start + int(number[split]) * words :][:words]
        inside = [code for code in range(len(table)) if int(bits[table[code] // 64]) >> (int(table[code]) % 64) & 1]
        assert inside == sets[split].tolist()


def test_more_levels_than_ranks_are_refused(monkeypatch):
    monkeypatch.setattr(predict_categories, "MOST_CODES", 3)
    rng = np.random.default_rng(1)
    tree = with_categorical_splits(rng, random_tree(rng, 20, 1), {0: 40})
    with pytest.raises(DataError, match="reference"):
        predict_raw(Forest([tree]), np.zeros((3, 1)))


ONLY_CATEGORIES = """
import numpy as np
from hornbeam.backends.prediction import predict_leaf, predict_raw
from hornbeam.trees.forest import Forest
from hornbeam.testing.trees import random_tree, with_categorical_splits

rng = np.random.default_rng(0)
levels = {0: 500, 1: 3}
forest = Forest([with_categorical_splits(rng, random_tree(rng, 9, 2), levels) for _ in range(3)])
assert all(codes is not None for tree in forest.trees for codes in tree.left_codes)
rows = np.column_stack([rng.integers(0, n_levels + 2, 50) for n_levels in levels.values()]).astype(float)
assert (predict_raw(forest, rows) == predict_raw(forest, rows, device="reference")).all()
assert (predict_leaf(forest, rows) == predict_leaf(forest, rows, device="reference")).all()
"""


def test_leaves_stay_within_the_sets_where_every_column_is_categorical(tmp_path):
    """Leaves have no column: the one that stands in their word is the first, which has sets here."""
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", ONLY_CATEGORIES], env=checked, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
