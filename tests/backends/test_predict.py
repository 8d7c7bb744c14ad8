"""Prediction: the CPU kernels against the reference, with ==."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.prediction import packed_forest
from hornbeam.backends.cpu.prediction.walk import packed
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.backends.prediction import predict_leaf, predict_raw
from hornbeam.core.errors import DataError, DeviceError
from hornbeam.data.sources.opening import open_table
from hornbeam.testing.trees import random_tree
from hornbeam.trees.forest import ArrayReader, Forest

SPECIAL = np.array([-np.inf, -1.0, -0.0, 0.0, 0.25, 5e-324, 1.0, 1.7e308, np.inf, np.nan])


def make_rows(rng: np.random.Generator, n_rows: int, n_features: int) -> np.ndarray:
    """Rows whose values often equal a threshold of `random_tree`, are missing, or are extreme."""
    rows = np.round(rng.standard_normal((n_rows, n_features)) * 4) / 4
    odd = rng.random(rows.shape) < 0.2
    rows[odd] = rng.choice(SPECIAL, int(odd.sum()))
    return rows


def assert_same(forest: Forest, rows: np.ndarray, **arguments: int) -> None:
    init = np.linspace(0.1, 0.9, forest.n_outputs)
    for n_threads in (1, 3):
        fast = predict_raw(forest, rows, init, n_threads=n_threads, **arguments)
        slow = predict_raw(forest, rows, init, device="reference", **arguments)
        assert fast.shape == (forest.n_outputs, len(rows))
        assert (fast == slow).all()
        fast_leaves = predict_leaf(forest, rows, n_threads=n_threads, **arguments)
        assert (fast_leaves == predict_leaf(forest, rows, device="reference", **arguments)).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n_rows=st.integers(1, 100),
    n_features=st.integers(1, 6),
    n_leaves=st.lists(st.integers(1, 40), max_size=4),
    n_outputs=st.integers(1, 3),
)
def test_cpu_equals_reference(seed: int, n_rows: int, n_features: int, n_leaves: list[int], n_outputs: int) -> None:
    rng = np.random.default_rng(seed)
    thresholds = np.append(np.arange(-8, 9) / 4, [-np.inf, np.inf, -0.0, 5e-324])
    trees = [random_tree(rng, n, n_features, thresholds) for n in n_leaves for _ in range(n_outputs)]
    assert_same(Forest(trees, n_outputs), make_rows(rng, n_rows, n_features))


def test_leaf_follows_the_path_of_every_row() -> None:
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 30, 4)
    rows = make_rows(rng, 200, 4)
    leaves = predict_leaf(Forest([tree]), rows)[:, 0]
    for row, leaf in zip(rows, leaves, strict=True):
        node = 0
        while node >= 0:
            value = row[tree.feature[node]]
            left = tree.missing_left[node] if np.isnan(value) else value <= tree.threshold[node]
            node = int(tree.left[node] if left else tree.right[node])
        assert ~node == leaf


def test_scores_are_added_in_tree_order() -> None:
    rng = np.random.default_rng(1)
    forest = Forest([random_tree(rng, 5, 2) for _ in range(12)], 2)
    rows = make_rows(rng, 50, 2)
    leaves = predict_leaf(forest, rows)
    expected = np.array([[0.1], [-1e9]]) + np.zeros((2, 50))
    for i, tree in enumerate(forest.trees):
        expected[i % 2] += tree.leaf_value[leaves[:, i]]
    assert (predict_raw(forest, rows, [0.1, -1e9]) == expected).all()


@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 4095, 4096, 4097, 20_001])
def test_rows_of_every_block_are_predicted(n_rows: int, tune: Callable[..., None]) -> None:
    tune(read_cells=5000)
    rng = np.random.default_rng(n_rows)
    forest = Forest([random_tree(rng, 20, 3) for _ in range(5)])
    assert_same(forest, make_rows(rng, n_rows, 3))


@pytest.mark.parametrize("n_trees", [1, 7, 8, 9, 30])
def test_few_rows_walk_through_several_trees_at_once_to_the_same_bits(n_trees: int) -> None:
    rng = np.random.default_rng(n_trees)
    forest = Forest([random_tree(rng, int(rng.integers(1, 40)), 3) for _ in range(n_trees * 2)], 2)
    rows = make_rows(rng, 40, 3)
    together = predict_raw(forest, rows, [0.1, -1e9])
    for size in (1, 2, 3):
        alone = [predict_raw(forest, rows[i : i + size], [0.1, -1e9]) for i in range(0, 36, size)]
        assert (np.concatenate(alone, axis=1) == together[:, :36]).all()


def test_frames_are_read_through_the_table_reader() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(9)
    rows = make_rows(rng, 300, 3)
    forest = Forest([random_tree(rng, 20, 3) for _ in range(3)])
    frame = pandas.DataFrame(rows, columns=["a", "b", "c"])
    assert (predict_raw(forest, open_table(frame), n_threads=2) == predict_raw(forest, rows)).all()


def test_lone_leaves_and_an_empty_forest() -> None:
    rng = np.random.default_rng(2)
    rows = make_rows(rng, 20, 2)
    assert_same(Forest([random_tree(rng, 1, 2) for _ in range(3)]), rows)
    assert_same(Forest([], 2), rows)
    assert (predict_raw(Forest([]), rows, [0.5]) == 0.5).all()
    assert predict_leaf(Forest([]), rows).shape == (20, 0)


def test_no_rows() -> None:
    forest = Forest([random_tree(np.random.default_rng(0), 4, 2)])
    assert predict_raw(forest, np.empty((0, 2)), n_threads=2).shape == (1, 0)
    assert predict_leaf(forest, np.empty((0, 2)), n_threads=2).shape == (0, 1)


def test_a_chain_as_deep_as_it_is_long() -> None:
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 3000, 1, np.arange(3000.0))
    tree.left[:] = ~np.arange(2999)
    tree.right[:-1] = np.arange(1, 2999)
    tree.right[-1] = ~2999
    tree.threshold[:] = np.arange(2999.0)
    rows = rng.integers(0, 3000, 100).astype(np.float64)[:, None]
    assert (predict_leaf(Forest([tree]), rows)[:, 0] == rows[:, 0]).all()


def test_the_largest_tree() -> None:
    rng = np.random.default_rng(4)
    tree = random_tree(rng, 65_535, 3, rng.standard_normal(100_000))
    assert_same(Forest([tree]), rng.standard_normal((500, 3)))


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_a_feature_with_more_thresholds_than_codes(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = packed_forest._columns
    monkeypatch.setattr(packed_forest, "_columns", lambda *splits: columns(*splits, ranks))
    rng = np.random.default_rng(ranks)
    forest = Forest([random_tree(rng, 30, 3) for _ in range(6)])
    assert packed(forest).n_columns > 6
    assert_same(forest, make_rows(rng, 300, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint64, np.bool_])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_any_dtype_and_order(dtype: type, order: str) -> None:
    rng = np.random.default_rng(5)
    rows = (rng.standard_normal((101, 4)) * 2).clip(0, 100).astype(dtype)
    if order == "strided":
        wide = np.zeros((202, 8), dtype)
        wide[::2, ::2] = rows
        given_rows = wide[::2, ::2]
    else:
        given_rows = np.asarray(rows, order=order)  # type: ignore[call-overload]
    forest = Forest([random_tree(rng, 12, 4) for _ in range(4)])
    assert (predict_raw(forest, given_rows) == predict_raw(forest, rows.astype(np.float64))).all()


@pytest.mark.parametrize(
    ("start", "count", "trees"),
    [(0, None, (0, 10)), (0, 0, (0, 10)), (0, -1, (0, 10)), (1, 2, (2, 6)), (4, 9, (8, 10)), (7, 1, (10, 10))],
)
def test_iterations_are_chosen(start: int, count: int | None, trees: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    forest = Forest([random_tree(rng, 6, 2) for _ in range(10)], 2)
    rows = make_rows(rng, 30, 2)
    assert forest.tree_range(start, count) == trees
    part = Forest(forest.trees[trees[0] : trees[1]], 2)
    assert (predict_raw(forest, rows, None, start, count) == predict_raw(part, rows)).all()
    assert (predict_leaf(forest, rows, start, count) == predict_leaf(part, rows)).all()


class RecordingReader(ArrayReader):
    """Remembers the largest block it was asked for."""

    largest = 0

    def read(self, start: int, stop: int) -> np.ndarray:
        self.largest = max(self.largest, stop - start)
        return super().read(start, stop)


def test_input_is_read_in_blocks() -> None:
    rng = np.random.default_rng(7)
    reader = RecordingReader(rng.standard_normal((2000, 1000)).astype(np.float32))
    predict_raw(Forest([random_tree(rng, 2, 1000)]), reader)
    assert reader.largest * 1000 <= Tuning().read_cells < reader.n_rows * reader.n_features


def test_an_error_of_the_reader_comes_through() -> None:
    class Broken(ArrayReader):
        def read(self, start: int, stop: int) -> np.ndarray:
            raise DataError("no")

    rng = np.random.default_rng(8)
    with pytest.raises(DataError, match="no"):
        predict_raw(Forest([random_tree(rng, 4, 2)]), Broken(np.zeros((1000, 2))), n_threads=2)


def test_wrong_arguments_are_named() -> None:
    forest = Forest([random_tree(np.random.default_rng(0), 50, 3)])
    with pytest.raises(DataError, match="2 columns"):
        predict_raw(forest, np.zeros((4, 2)))
    with pytest.raises(DataError, match="two dimensions"):
        predict_leaf(forest, np.zeros(3))
    with pytest.raises(DeviceError, match="abacus"):
        predict_raw(forest, np.zeros((4, 3)), device="abacus")
    with pytest.raises(DeviceError, match="abacus"):
        predict_leaf(forest, np.zeros((4, 3)), device="abacus")
    with pytest.raises(ValueError, match="init_scores"):
        predict_raw(forest, np.zeros((4, 3)), [0.0, 1.0])
    with pytest.raises(ValueError, match="one tree per output"):
        Forest(forest.trees, 2)
