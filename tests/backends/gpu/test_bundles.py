"""Exclusive features share columns on a GPU: operations and models are those of the plain bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.demand import Demand
from hornbeam.backends.gpu.data import bundles
from hornbeam.backends.gpu.data.bundles import ALONE, bundles_of
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.growth.memory import estimate, fit_memory
from hornbeam.backends.gpu.workspace import bin_upload
from hornbeam.core.errors import DeviceError
from hornbeam.data import stored_bins as bundling
from hornbeam.testing.checks import PLAIN_RULES, assert_same_model, assert_same_operations, usable_devices
from hornbeam.testing.contexts import random_contexts
from hornbeam.trees.bagging import Draw

opencl = pytest.importorskip("hornbeam.backends.gpu.runtime.opencl")
sparse = pytest.importorskip("scipy.sparse")

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")

QUIET = {"verbosity": -1}
RULES = replace(PLAIN_RULES, min_data_in_leaf=5, min_sum_hessian_in_leaf=1e-3)


@pytest.fixture(autouse=True)
def small_tables_are_stored_too(monkeypatch):
    monkeypatch.setattr(bundling, "PLAIN_CELLS", 0)


def exclusive_table(n_rows=900, levels=40, n_variables=3, seed=0, missing=0.0, negative=True):
    """Return counts of one in `levels` things for each variable, some numbers, and a target."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n_rows, n_variables * levels + 3))
    for variable in range(n_variables):
        place = variable * levels + (levels * rng.random(n_rows) ** 2).astype(int)
        X[np.arange(n_rows), place] = rng.geometric(0.5, n_rows) * (rng.choice([-1, 1], n_rows) if negative else 1)
    X[:, -3:] = rng.normal(size=(n_rows, 3))
    X = X[:, rng.permutation(X.shape[1])]
    X[(X != 0) & (rng.random(X.shape) < missing)] = np.nan
    y = np.nan_to_num(X) @ rng.normal(size=X.shape[1]) + 0.1 * rng.normal(size=n_rows)
    return X, y


def binned_of(X, **options):
    return hb.Dataset(sparse.csr_matrix(X), **{"min_data_in_bin": 1, **options}).construct()


def engine_of(binned, demand=None, min_data_in_leaf=5):
    return GpuEngine(opencl.open_device(0), binned, min_data_in_leaf, demand or Demand())


def test_exclusive_features_share_columns_and_others_do_not():
    X, _ = exclusive_table()
    binned = binned_of(X).binned
    assert len(binned.stored.entries) > 0  # the host has some of them as entries
    found = bundles_of(binned)
    assert len(found.sizes) < 20
    assert 3 <= int((found.members[:, 3] == ALONE).sum()) <= 6
    assert bundles_of(binned) is found


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_codes_stand_for_the_plain_bins(missing, zero_as_missing, monkeypatch):
    monkeypatch.setattr(bin_upload, "BLOCK_BYTES", 7_000)  # several blocks
    X, _ = exclusive_table(missing=missing)
    binned = binned_of(X, zero_as_missing=zero_as_missing).binned
    engine = engine_of(binned)
    layout, found = engine._layout, bundles_of(binned)
    assert layout.is_bundled
    engine._bins.make_columns()
    columns = np.empty((layout.n_columns, layout.n_rows), np.uint8)
    assert columns.nbytes == layout.column_bytes
    engine._runtime.download(engine.workspace.buffer("columns"), columns)
    engine.close()
    for feature, (column, first, n_codes, default) in enumerate(found.members.tolist()):
        place = columns[column].astype(np.int64) - first
        stored = (place >= 0) & (place < n_codes)
        bins = np.where(stored, place + (place >= default), default)
        assert (bins == binned.bins[:, feature]).all()


@pytest.mark.parametrize("whole", [True, False], ids=["by all rows", "by a sample"])
def test_a_conflict_that_the_sample_does_not_show_parts_the_features(whole, monkeypatch):
    monkeypatch.setattr(bundling, "BUNDLED_ROWS", 40)
    monkeypatch.setattr(bundles, "WHOLE_ENTRIES", 10_000 if whole else 100)
    monkeypatch.setattr(bundles, "BLOCK_ROWS", 70)
    rng = np.random.default_rng(0)
    level = rng.integers(0, 100, 3000)
    X = np.eye(100)[level]
    X[np.arange(100), (level[:100] + 1) % 10] = 1.0  # some of ten meet others, in few rows
    binned = binned_of(X, sparse_threshold=0.01).binned
    found = bundles_of(binned)
    assert 1 < len(found.sizes) < 12
    shared = found.members[:, 3] != ALONE
    assert shared.sum() > 90
    for column in np.unique(found.members[shared, 0]):
        members = np.flatnonzero((found.members[:, 0] == column) & shared)
        assert ((X[:, binned.used[members]] != 0).sum(axis=1) <= 1).all()


def test_data_that_do_not_bundle_stay_plain():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((2000, 30)) < 0.15, rng.normal(size=(2000, 30)), 0.0)
    binned = binned_of(X).binned
    assert binned.stored is not None
    assert bundles_of(binned) is None


@pytest.mark.parametrize(
    ("options", "table", "high_precision", "min_data"),
    [
        ({}, {}, False, 5),
        ({}, {"missing": 0.1}, False, 5),
        ({"zero_as_missing": True}, {"missing": 0.1}, False, 5),
        ({"use_missing": False}, {"missing": 0.1}, False, 1),
        ({}, {"negative": False}, True, 5),
        ({"is_enable_sparse": False}, {"levels": 90, "n_variables": 5}, False, 1),
        ({"max_bin": 3}, {"levels": 5, "n_variables": 20, "negative": False}, False, 5),
    ],
)
def test_operations(options, table, high_precision, min_data):
    X, y = exclusive_table(500, **table)
    train = binned_of(X, **options)
    valid = hb.Dataset(
        sparse.csr_matrix(exclusive_table(300, seed=1, **{**table, "missing": 0.05})[0]), reference=train
    )
    assert bundles_of(train.binned) is not None
    rng = np.random.default_rng(0)
    assert_same_operations(
        train.binned,
        y[None],
        rng.random((1, len(y))) + 0.01,
        engine_of(train.binned, min_data_in_leaf=min_data),
        rules=replace(RULES, min_data_in_leaf=min_data),
        high_precision=high_precision,
        valid=valid.binned,
    )


def test_operations_on_some_rows_and_without_columns(monkeypatch):
    monkeypatch.setattr(bin_upload.PlacedBins, "make_columns", lambda self: None)
    X, y = exclusive_table()
    binned = binned_of(X).binned
    assert_same_operations(
        binned, y[None], np.ones((1, len(y))), engine_of(binned), rules=RULES, draw=Draw(key=7, limit=2**63)
    )


@pytest.mark.usefixtures("few_bins")
def test_equal_gains_are_won_by_the_lower_feature_whatever_its_column():
    rng = np.random.default_rng(0)
    n_rows, n_levels = 400, 25
    level = rng.integers(0, n_levels, n_rows)
    other = (level + rng.integers(1, n_levels, n_rows)) % n_levels
    X = np.zeros((n_rows, 3 * n_levels))
    for first, own in ((0, level), (n_levels, other), (2 * n_levels, level)):  # the last is a copy of the first
        X[np.arange(n_rows), first + own] = 1.0
    y = rng.normal(size=n_levels)[level]
    shuffled = rng.permutation(X.shape[1])
    assert_same_model(
        {"num_leaves": 31, "min_data_in_leaf": 1, "objective": "regression"},
        lambda: hb.Dataset(sparse.csr_matrix(X[:, shuffled]), label=y),
        usable_devices(),
        3,
        thread_counts=(1,),
    )


MODELS = {
    "plain": {},
    "bag": {"bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction": 0.7},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "few histograms": {"histogram_pool_size": 0.2},
    "random thresholds": {"extra_trees": True, "feature_fraction_bynode": 0.6},
    "smooth paths": {"path_smooth": 2.0, "max_delta_step": 0.5},
    "regularised": {"lambda_l1": 0.5, "max_delta_step": 0.3, "min_gain_to_split": 0.1},
    "level by level": {"grow_policy": "depthwise", "max_depth": 4},
}


@pytest.mark.parametrize("choice", MODELS)
def test_models_are_those_of_the_dense_form(choice):
    X, y = exclusive_table(missing=0.02)
    valid = exclusive_table(300, seed=1, missing=0.1)
    params = {"objective": "binary", "num_leaves": 15, "min_data_in_leaf": 3, **QUIET, **MODELS[choice]}
    labels = [(target > 0).astype(float) for target in (y, valid[1])]

    def train(form, device):
        data = hb.Dataset(form(X), label=labels[0])
        scored = {"valid": hb.Dataset(form(valid[0]), label=labels[1], reference=data)}
        booster = hb.train({**params, "device": device}, data, 4, scored)
        return booster.fingerprint(), booster.eval_history

    assert train(sparse.csr_matrix, "opencl") == train(np.asarray, "cpu")


def test_dense_tables_of_mostly_zeros_are_bundled_too():
    X, y = exclusive_table(levels=30)
    data = hb.Dataset(X, label=y)
    params = {"num_leaves": 7, "min_data_in_leaf": 3, "min_data_in_bin": 1, **QUIET}
    found = hb.train({**params, "device": "opencl"}, data, 2)
    assert bundles_of(data.binned) is not None
    plain = hb.train({**params, "device": "cpu", "enable_bundle": False}, hb.Dataset(X, label=y), 2)
    assert found.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize("changes", [{}, {"path_smooth": 5.0}, {"monotone": True}, {"extra_trees": True}], ids=str)
def test_operations_with_a_context(changes):
    X, y = exclusive_table(missing=0.05)
    binned = binned_of(X).binned
    rules = replace(RULES, **changes)
    assert_same_operations(
        binned,
        y[None],
        np.random.default_rng(0).random((1, len(y))) + 0.01,
        engine_of(binned),
        rules=rules,
        make_context=random_contexts(0, binned.n_used, rules),
    )


def test_bundles_take_less_memory_and_the_estimate_knows():
    X, y = exclusive_table(20_000, 60, 6)
    data = hb.Dataset(sparse.csr_matrix(X), label=y, max_bin=63).construct()
    found = bundles_of(data.binned)
    needed = [
        sum(estimate(Layout.of(data.binned, which), Demand(n_leaves=15, given_bytes=8 * len(y)), 2).values())
        for which in (None, found)
    ]
    assert needed[1] < needed[0] - 20_000 * 200
    params = {"num_leaves": 15, "min_data_in_leaf": 1, "max_bin": 63, "device": "opencl", **QUIET}
    limited = hb.train({**params, "device_memory_limit": needed[1] / 2**20 + 0.2}, data, 2)
    assert limited.fingerprint() == hb.train({**params, "device": "cpu"}, data, 2).fingerprint()


@pytest.mark.parametrize("min_data", [1, 5])
def test_operations_in_small_tiles(min_data, monkeypatch):
    monkeypatch.setattr(Layout, "of", classmethod(lambda cls, *given, of=Layout.of: small_tiles(of(*given))))
    X, y = exclusive_table(levels=25, n_variables=7, missing=0.05)
    train = binned_of(X)
    engine = engine_of(train.binned, min_data_in_leaf=min_data)
    assert engine._layout.tile_words == 3
    hessian = np.random.default_rng(0).random((1, len(y))) + 0.01
    rules = replace(RULES, min_data_in_leaf=min_data)
    assert_same_operations(train.binned, y[None], hessian, engine, rules=rules, valid=train.binned)


def small_tiles(layout):
    return layout.in_small_tiles() or layout


def test_tiles_are_smaller_where_only_that_fits():
    X, y = exclusive_table(4000, levels=25, n_variables=3)
    data = hb.Dataset(sparse.csr_matrix(X), label=y, min_data_in_bin=1).construct()
    demand = Demand(n_leaves=15, given_bytes=8 * len(y))
    usual = Layout.of(data.binned, bundles_of(data.binned))
    facts = opencl.open_device(0).facts
    needed, least = (sum(estimate(each, demand).values()) for each in (usual, usual.in_small_tiles()))
    assert (usual.tile_words, needed - least >= 4 * 4000) == (4, True)
    assert fit_memory(usual, demand, 3, facts, needed) == usual
    assert fit_memory(usual, demand, 3, facts, least) == usual.in_small_tiles()
    with pytest.raises(DeviceError, match="fewer features"):
        fit_memory(usual, demand, 3, facts, least - 1)


def test_wide_bins_are_not_bundled():
    X, _ = exclusive_table(2000)
    binned = binned_of(X, max_bin=600).binned
    assert binned.stored is not None
    assert bundles_of(binned) is None
    assert bundles.MOST_CODES == 256
