"""Explanations: every device against the reference, with ==."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.explanation import background as cpu_background
from hornbeam.backends.cpu.explanation import contributions as cpu
from hornbeam.backends.explanation import Trees, contributions
from hornbeam.backends.gpu.explanation import chunks
from hornbeam.core.errors import DeviceError
from hornbeam.testing.explanation_checks import assert_same_explanations
from hornbeam.testing.trees import random_tree, with_categorical_splits
from hornbeam.trees.forest import ArrayReader, Forest
from hornbeam.trees.tree import Tree


def make_rows(rng: np.random.Generator, n_rows: int, n_features: int) -> np.ndarray:
    """Rows whose values often equal a threshold of `random_tree` or are missing; feature 0 has codes of 50 levels."""
    rows = np.round(rng.standard_normal((n_rows, n_features)) * 4) / 4
    rows[:, 0] = rng.integers(0, 52, n_rows)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def make_forest(seed: int, sizes: tuple[int, ...], n_features: int, n_outputs: int = 1) -> Forest:
    rng = np.random.default_rng(seed)
    trees = [
        with_categorical_splits(rng, random_tree(rng, n, n_features), {0: 50}) for n in sizes for _ in range(n_outputs)
    ]
    return Forest(trees, n_outputs)


def comb(n_splits: int, n_features: int) -> Tree:
    """A tree in which every split but the last has a leaf: as deep as a tree can be."""
    rng = np.random.default_rng(3)
    tree = random_tree(rng, n_splits + 1, n_features)
    right = np.arange(1, n_splits + 1, dtype=np.int32)
    right[-1] = ~n_splits
    left = ~np.arange(n_splits, dtype=np.int32)
    feature = (np.arange(n_splits) % n_features).astype(np.int32)
    return Tree(**{**vars(tree), "left": left, "right": right, "feature": feature})


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n_rows=st.integers(1, 70),
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=3),
    n_outputs=st.integers(1, 2),
)
def test_cpu_equals_reference(seed: int, n_rows: int, sizes: list[int], n_outputs: int) -> None:
    forest = make_forest(seed, tuple(sizes), 5, n_outputs)
    assert_same_explanations(forest, make_rows(np.random.default_rng(seed), n_rows, 5), "cpu", "reference")


def test_gpu_equals_cpu(gpu: str) -> None:
    for n_outputs, dtype in ((1, np.float64), (3, np.float32)):
        rows = make_rows(np.random.default_rng(1), 300, 9).astype(dtype)
        assert_same_explanations(make_forest(5, (40, 1, 2, 70), 9, n_outputs), rows, gpu)


def test_gpu_in_small_pieces_equals_cpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCK_ROWS", 64)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1 << 16)
    assert_same_explanations(make_forest(6, (30, 1, 20, 40), 9), make_rows(np.random.default_rng(2), 150, 9), gpu)


def test_gpu_whose_threads_keep_numbers_in_global_memory_equals_cpu(gpu: str) -> None:
    """A comb of 700 splits is deeper than local memory has room for."""
    rows = make_rows(np.random.default_rng(4), 40, 30)
    assert_same_explanations(Forest([comb(700, 30)]), rows, gpu)


def test_result_is_the_same_for_any_threads_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    forest, rows = make_forest(7, (30, 50), 6), make_rows(np.random.default_rng(5), 130, 6)
    assert_same_explanations(forest, rows, "cpu", "reference", n_threads=3)
    monkeypatch.setattr(cpu, "ROWS", 16)
    monkeypatch.setattr(cpu_background, "ROWS", 8)
    monkeypatch.setattr(cpu_background, "BACKGROUND_ROWS", 3)
    assert_same_explanations(forest, rows, "cpu", "reference", n_threads=2)


def test_deep_trees_add_up(device: str) -> None:
    """Contributions of a tree 400 splits deep over 200 features add up to the score to rounding."""
    tree = comb(400, 200)
    rows = np.round(np.random.default_rng(6).standard_normal((20, 200)) * 4) / 4
    trees = Trees(Forest([tree]), 0, 1, device=device)
    values = contributions(trees, ArrayReader(rows), range(20))[:, 0]
    expected = np.full(20, np.nan)
    for row in range(20):
        node = 0
        while node >= 0:
            goes_left = tree.goes_left(node, rows[row, tree.feature[node]][None])[0]
            node = int(tree.left[node] if goes_left else tree.right[node])
        expected[row] = tree.leaf_value[~node]
    mean = float(tree.leaf_value[-1])
    for split in range(399, -1, -1):
        left, below = float(tree.leaf_count[split]), float(tree.leaf_count[split + 1 :].sum())
        mean = (left * float(tree.leaf_value[split]) + below * mean) / (left + below)
    np.testing.assert_allclose(values.sum(axis=1) + mean, expected, rtol=0, atol=1e-12)


def test_rows_in_the_middle_are_explained_alone(device: str) -> None:
    forest, rows = make_forest(8, (12,), 4), make_rows(np.random.default_rng(7), 50, 4)
    trees = Trees(forest, 0, 1, device=device)
    whole = contributions(trees, ArrayReader(rows), range(50))
    assert (contributions(trees, ArrayReader(rows), range(17, 33)) == whole[17:33]).all()


def test_forest_of_lone_leaves_has_no_contributions(device: str) -> None:
    trees = Trees(make_forest(0, (1, 1), 3), 0, 2, device=device)
    assert (contributions(trees, ArrayReader(np.zeros((4, 3))), range(4)) == 0.0).all()


def test_unknown_device_is_refused() -> None:
    with pytest.raises(DeviceError, match="abacus"):
        contributions(Trees(make_forest(0, (2,), 3), 0, 1, device="abacus"), ArrayReader(np.zeros((1, 3))), range(1))
