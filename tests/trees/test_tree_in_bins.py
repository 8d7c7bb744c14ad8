"""Finished trees in the bins of data: the same leaf for every row, or none at all."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.prediction import predict_leaf
from hornbeam.training import boosting
from hornbeam.trees.forest import Forest
from hornbeam.trees.tree_in_bins import in_bins

PARAMS = {"objective": "binary", "num_leaves": 7, "min_data_in_leaf": 5, "verbosity": -1, "device": "reference"}


def make_data(seed: int = 0, n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = 1.0  # is not used
    return X, (np.nan_to_num(X[:, 0]) + 0.3 * rng.normal(size=n_rows) > 0).astype(float)


def test_bins_lead_to_the_leaves_that_values_lead_to():
    X, y = make_data()
    data = hb.Dataset(X, label=y)
    booster = hb.train(PARAMS, data, 5)
    bins, n_value_bins = data.binned.bins, data.binned.n_value_bins
    for tree in booster.trees:
        binned = in_bins(tree, data.binned)
        for row, leaf in enumerate(predict_leaf(Forest([tree]), X, device="reference")[:, 0]):
            node = 0
            while node >= 0:
                place = binned.feature[node]
                code = bins[row, place]
                is_missing = code == n_value_bins[place]
                left = binned.missing_left[node] if is_missing else code <= binned.bin[node]
                node = int(binned.left[node] if left else binned.right[node])
            assert ~node == leaf


def test_thresholds_that_are_no_bounds_have_no_bins():
    X, y = make_data()
    booster = hb.train(PARAMS, hb.Dataset(X, label=y), 2)
    other = hb.Dataset(X + 0.01, label=y).construct()
    assert all(in_bins(tree, other.binned) is None for tree in booster.trees)


def test_a_feature_that_is_not_used_has_no_bins():
    X, y = make_data()
    X[:, 3] = X[:, 0]
    booster = hb.train(PARAMS, hb.Dataset(X[:, ::-1], label=y), 2)
    constant = X[:, ::-1].copy()
    constant[:, 0] = 1.0
    tree = next(tree for tree in booster.trees if 0 in tree.feature)
    assert in_bins(tree, hb.Dataset(constant, label=y).construct().binned) is None


@pytest.mark.parametrize("extra", [{}, {"zero_as_missing": True}, {"use_missing": False}])
def test_dart_goes_on_the_same_with_bins_and_without(monkeypatch, extra):
    X, y = make_data()
    params = {**PARAMS, "boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0, **extra}
    data = hb.Dataset(X, label=y, params=extra)
    whole = hb.train(params, data, 12).fingerprint()
    begun = hb.train(params, data, 6)
    asked = []
    monkeypatch.setattr(boosting.Dart, "_add_tree", lambda *arguments: asked.append(arguments))
    assert hb.train(params, data, 6, init_model=begun).fingerprint() == whole
    assert not asked  # every tree of the first half has bins
    monkeypatch.undo()
    monkeypatch.setattr(boosting, "in_bins", lambda tree, binned: None)
    assert hb.train(params, data, 6, init_model=begun).fingerprint() == whole
