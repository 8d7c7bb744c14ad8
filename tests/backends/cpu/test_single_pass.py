"""Rounds in one pass over the bins: the trees of rounds in steps, whichever side of a split is summed."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.growth.dense import single_pass
from hornbeam.backends.cpu.growth.dense.single_pass import LEFT, RIGHT, SinglePass

STAY = {"ordered_bytes_per_row": 0, "most_cells": 0, "rows_at_once": 0, "rows_at_once_by_team": 0}
FINE = {"dense_steps_ns": 0, "smallest_piece": 50, "divided_rows_per_thread": 20, "rows_in_cache": 30, "thread_ns": 1}

KINDS = {
    "leaf by leaf": {"num_leaves": 31},
    "by depth": {"grow_policy": "depthwise", "max_depth": 5, "num_leaves": 32},
    "to a depth": {"num_leaves": 20, "max_depth": 4},
    "bag": {"num_leaves": 15, "bagging_fraction": 0.5, "bagging_freq": 1},
    "some features": {"num_leaves": 15, "feature_fraction": 0.5},
    "bins of two bytes": {"num_leaves": 15, "max_bin": 1000, "min_data_in_bin": 1},
    "high precision": {"num_leaves": 15, "precision": "high"},
    "multiclass": {"num_leaves": 8, "objective": "multiclass", "num_class": 3},
}

IN_STEPS = ("bins of two bytes", "high precision")
"""What is not done in one pass."""


def table(n_rows: int, n_features: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, -1] = rng.integers(0, 12, n_rows)
    return X, np.nan_to_num(X[:, 0] * X[:, 1]) + X[:, -1] % 3


@pytest.fixture
def passes(monkeypatch) -> list[int]:
    """How many nodes were divided by passes, so that a test shows something."""
    counts: list[int] = []
    partition = SinglePass.partition

    def counted(self, nodes, splits):
        counts.append(len(splits))
        return partition(self, nodes, splits)

    monkeypatch.setattr(SinglePass, "partition", counted)
    return counts


def fingerprint(params, X, y, device="cpu", n_rounds=3) -> str:
    label = (y.astype(int) % 3) if "num_class" in params else y
    params = {"objective": "regression", "verbosity": -1, "min_data_in_leaf": 5, "device": device, **params}
    data = hb.Dataset(X, label=label, categorical_feature=[X.shape[1] - 1])
    return hb.train(params, data, n_rounds).fingerprint()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_model_is_that_of_the_reference(kind, n_threads, tune, passes):
    X, y = table(700)
    expected = fingerprint(KINDS[kind], X, y, "reference")
    tune(**STAY, **FINE)
    assert fingerprint({**KINDS[kind], "num_threads": n_threads}, X, y) == expected
    assert bool(passes) == (n_threads > 1 and kind not in IN_STEPS)  # a thread by itself takes whole nodes


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_the_side_that_is_summed_cannot_be_seen(side, tune, passes, monkeypatch):
    """The larger side may be summed: the smaller one is what the parent has besides."""
    X, y = table(600)
    expected = fingerprint({"num_leaves": 31}, X, y, "reference")

    def choose(rows, nodes, *others):
        nodes.summed[:] = side

    monkeypatch.setattr(single_pass, "choose_sides", choose)
    tune(**STAY, **FINE)
    assert fingerprint({"num_leaves": 31, "num_threads": 2}, X, y) == expected
    assert sum(passes) > 5


def test_the_smaller_side_is_summed(tune, monkeypatch):
    X, y = table(3000, 3)
    y = np.where(X[:, 0] > 1.0, 5.0, 0.0)  # the root's split leaves a sixth of the rows on its right
    chosen = []
    partition = SinglePass.partition

    def seen(self, nodes, splits):
        n_left = partition(self, nodes, splits)
        chosen.append((int(self._summed[0]), int(n_left[0]), int(nodes.end[0] - nodes.begin[0])))
        return n_left

    monkeypatch.setattr(SinglePass, "partition", seen)
    tune(**STAY, **FINE)
    fingerprint({"num_leaves": 4, "num_threads": 2}, X, y, n_rounds=1)
    side, n_left, n_rows = chosen[0]
    assert (side == RIGHT) == (2 * n_left > n_rows) and min(n_left, n_rows - n_left) < n_rows / 4


def test_counters_are_emptied_before_they_are_full(tune, monkeypatch):
    """A piece has over 100,000 rows of the side that is summed in one bin, more than a packed counter takes."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (600_000, 2)) * 1.0
    train_set = hb.Dataset(X, label=X[:, 0] + 0.5 * X[:, 1] * X[:, 0], weight=rng.uniform(0.5, 1.0, len(X)))
    params = {"objective": "regression", "num_leaves": 4, "verbosity": -1, "device": "cpu"}
    expected = hb.train({**params, "num_threads": 1}, train_set, 1)
    tune(**STAY, dense_steps_ns=0, thread_ns=1, pieces_per_thread=1)
    partition, sums = SinglePass.partition, []

    def summed(self, nodes, splits):
        n_left = partition(self, nodes, splits)
        left, whole = int(splits["left_hessian"][0]), self._growth.rounded.root.hessian
        of_side = left if self._summed[0] == LEFT else whole - left
        sums.append((self._columns.slots.partials[: self._first[1], :, 1].sum(), 2 * of_side))  # of both features
        return n_left

    monkeypatch.setattr(SinglePass, "partition", summed)
    assert hb.train({**params, "num_threads": 2}, train_set, 1).fingerprint() == expected.fingerprint()
    assert sums[0][0] == sums[0][1] > 2 * 2**32


@pytest.mark.parametrize(("n_threads", "most_sums"), [(1, 0), (2, 0), (2, 1 << 37)])
def test_large_data_in_memory_are_read_in_passes_by_several_threads(n_threads, most_sums, tune, passes):
    X, y = table(700)
    expected = fingerprint({"num_leaves": 31}, X, y, "reference")
    tune(most_wide_sums=most_sums, passing_threads=2, ordered_smallest_bytes=0, most_cells=0, rows_at_once=0,
         rows_at_once_by_team=0, **FINE)  # fmt: skip
    assert fingerprint({"num_leaves": 31, "num_threads": n_threads}, X, y) == expected
    assert bool(passes) == (n_threads == 2 and most_sums == 0)


def test_bins_of_a_file_are_read_in_passes(tune, passes, tmp_path):
    X, y = table(2000)
    params = {"objective": "regression", "num_leaves": 31, "verbosity": -1, "num_threads": 2, "device": "cpu"}
    expected = hb.train(params, hb.Dataset(X, label=y), 3).fingerprint()
    tune(most_mapped_cells=0, rows_at_once=0, rows_at_once_by_team=0, **FINE)
    streamed = hb.Dataset(hb.Stream(lambda: iter([{"data": X, "label": y}])), cache=tmp_path)
    assert hb.train(params, streamed, 3).fingerprint() == expected
    assert passes
