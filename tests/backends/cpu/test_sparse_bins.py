"""Bundles and entries stand for the same bins as plain columns, and every operation on them gives the same result."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.backends.cpu.binning import sparse as sparse_binning
from hornbeam.backends.cpu.growth import growth
from hornbeam.core.dtypes import EXPANSION
from hornbeam.data import stored_bins as bundling
from hornbeam.testing.checks import (
    PLAIN_RULES,
    assert_same_model,
    assert_same_operations,
    engine_on,
    histogram_of,
    usable_devices,
)
from hornbeam.testing.contexts import random_contexts
from hornbeam.trees.bagging import Draw
from hornbeam.trees.records import Segments
from hornbeam.trees.steps import expand_in_steps

sparse = pytest.importorskip("scipy.sparse")

QUIET = {"verbosity": -1}
CHOICES = {
    "bundles and entries": {},
    "no bundles": {"enable_bundle": False},
    "bundles alone": {"is_enable_sparse": False},
    "nearly all sparse": {"sparse_threshold": 0.01},
    "hardly any sparse": {"sparse_threshold": 0.999},
}
DENSE = {"bundled": {}, "plain": {"enable_bundle": False}}
RULES = replace(PLAIN_RULES, min_data_in_leaf=20, min_sum_hessian_in_leaf=1e-3)


@pytest.fixture(autouse=True)
def small_tables_are_stored_too(monkeypatch):
    monkeypatch.setattr(bundling, "PLAIN_CELLS", 0)


def mixed_table(n_rows=900, seed=0, missing=0.0):
    """Return sparse, one-hot and dense columns in turn, and a target."""
    rng = np.random.default_rng(seed)
    scattered = np.where(rng.random((n_rows, 9)) < 0.06, rng.normal(size=(n_rows, 9)), 0.0)
    one_hot = np.zeros((n_rows, 21))
    for variable in range(3):
        level = (7 * rng.random(n_rows) ** 2).astype(int)
        one_hot[np.arange(n_rows), 7 * variable + level] = 1.0 + level % 3 * rng.integers(1, 4, n_rows)
    X = np.hstack([scattered, one_hot, rng.normal(size=(n_rows, 3))])
    X = X[:, rng.permutation(X.shape[1])]
    X[rng.random(X.shape) < missing] = np.nan
    y = np.nan_to_num(X) @ rng.normal(size=X.shape[1]) + 0.1 * rng.normal(size=n_rows)
    return X, y


def stored_data(X, y=None, **options):
    return hb.Dataset(sparse.csr_matrix(X), label=y, **options).construct()


def places(binned):
    """Return how many features are in columns of their own, in bundles, and in entries."""
    stored = binned.stored
    own = (stored.column >= 0) & (stored.first_code == 0)
    return int(own.sum()), int((stored.first_code > 0).sum()), int((stored.column < 0).sum())


# --- what is stored ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("missing", [0.0, 0.002, 0.05])
@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_storage_stands_for_the_plain_bins(choice, missing, zero_as_missing, fine_work):
    X, _ = mixed_table(missing=missing)
    options = {**CHOICES[choice], "zero_as_missing": zero_as_missing}
    plain, found = hb.Dataset(X, **options).construct().binned, stored_data(X, **options).binned
    assert (found.bins == plain.bins).all()
    assert (found.mapper.has_missing == plain.mapper.has_missing).all()
    assert (found.block(100, 300) == plain.bins[100:300]).all()


@given(st.data())
def test_random_tables(data):
    n_rows, n_features = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 8))
    values = st.sampled_from([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, -1.0, np.nan])
    X = np.array(data.draw(st.lists(values, min_size=n_rows * n_features, max_size=n_rows * n_features)))
    X = X.reshape(n_rows, n_features)
    options = {
        "min_data_in_bin": 1,
        "sparse_threshold": data.draw(st.sampled_from([0.1, 0.5, 0.8, 1.0])),
        "enable_bundle": data.draw(st.booleans()),
        "zero_as_missing": data.draw(st.booleans()),
        "use_missing": data.draw(st.booleans()),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundling, "PLAIN_CELLS", 0)
        patch.setattr(bundling, "BUNDLED_ROWS", data.draw(st.sampled_from([3, 1000])))
        found = stored_data(X, **options).binned
    assert (found.bins == hb.Dataset(X, **options).construct().binned.bins).all()


def test_features_go_where_the_rules_say():
    X, _ = mixed_table()
    assert places(stored_data(X).binned) == (3, 21, 9)
    assert places(stored_data(X, enable_bundle=False).binned)[1] == 0
    assert places(stored_data(X, is_enable_sparse=False).binned)[2] == 0
    assert stored_data(X, is_enable_sparse=False, enable_bundle=False).binned.stored is None


def test_exclusive_features_share_a_column():
    rng = np.random.default_rng(0)
    X = np.eye(12)[rng.integers(0, 12, 500)]
    stored = stored_data(X).binned.stored
    assert stored.n_columns == 1
    assert len(stored.entries) == 0
    assert sorted(stored.first_code.tolist()) == list(range(1, 13))


def test_a_conflict_that_the_sample_does_not_show_is_found(monkeypatch):
    monkeypatch.setattr(bundling, "BUNDLED_ROWS", 40)
    rng = np.random.default_rng(0)
    X = np.eye(6)[rng.integers(0, 6, 2000)]
    sampled = set(sparse_binning.sample_rows(2000, 40).tolist())
    outside = next(row for row in range(2000) if row not in sampled and X[row, 1] == 1.0)
    X[outside, 4] = 1.0
    found = stored_data(X).binned
    assert places(found) == (0, 5, 1)
    assert (found.bins == hb.Dataset(X).construct().binned.bins).all()


def test_sparse_threshold_is_the_share_of_zeros():
    X = np.zeros((100, 2))
    X[:20, 0] = np.arange(1, 21)  # exactly 80% zeros: sparse
    X[79:, 1] = np.arange(1, 22)
    X[0, 1] = 1.0  # they meet, so they are no bundle
    assert stored_data(X, min_data_in_bin=1).binned.stored.column.tolist() == [-1, 0]


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, pd.DataFrame], ids=["rows", "columns", "frame"])
def test_dense_tables_of_mostly_zeros_are_stored_too(form):
    rng = np.random.default_rng(0)
    X = np.hstack([np.eye(20)[rng.integers(0, 20, 800)], np.where(rng.random((800, 3)) < 0.05, 2.5, 0.0)])
    X[rng.random(X.shape) < 0.003] = np.nan
    y = np.nan_to_num(X) @ rng.normal(size=X.shape[1])
    data = {name: hb.Dataset(form(X), label=y, **options) for name, options in DENSE.items()}
    cpu = {**QUIET, "device": "cpu", "min_data_in_leaf": 5}
    models = {name: hb.train(cpu, data[name], 3) for name in DENSE}
    assert data["bundled"].binned.stored is not None
    assert data["plain"].binned.stored is None
    assert (data["bundled"].binned.bins == data["plain"].binned.bins).all()
    assert models["bundled"].fingerprint() == models["plain"].fingerprint()
    zeros = hb.Dataset(form(X), label=y, zero_as_missing=True)
    hb.train(cpu, zeros, 1)
    assert zeros.binned.stored is None
    dense = hb.Dataset(form(np.where(rng.random(X.shape) < 0.2, 1.0, X)), label=y)
    hb.train(cpu, dense, 1)
    assert dense.binned.stored is None


def test_small_tables_are_plain(monkeypatch):
    monkeypatch.setattr(bundling, "PLAIN_CELLS", 1 << 21)
    assert stored_data(mixed_table()[0]).binned.stored is None


def test_storage_survives_pickling():
    import pickle

    found = stored_data(mixed_table()[0]).binned
    copy = pickle.loads(pickle.dumps(found))
    assert copy.stored is not None
    assert (copy.bins == found.bins).all()


# --- every operation --------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("thin", [1e9, 4, 0], ids=["never thin", "some thin", "always thin"])
@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize(
    ("choice", "high_precision"), [(choice, False) for choice in CHOICES] + [("bundles and entries", True)]
)
def test_operations(choice, high_precision, thin, num_threads, fine_work, tune):
    tune(bins_per_thin_entry=thin)
    X, y = mixed_table(500, missing=0.01 if thin == 4 else 0.0)
    train = stored_data(X, **CHOICES[choice])
    valid = hb.Dataset(sparse.csr_matrix(mixed_table(200, seed=1, missing=0.02)[0]), reference=train)
    rng = np.random.default_rng(0)
    assert_same_operations(
        train.binned,
        y[None],
        rng.random((1, len(y))) + 0.01,
        engine_on("cpu", train.binned, num_threads),
        rules=RULES,
        high_precision=high_precision,
        valid=valid.binned,
    )


@pytest.mark.parametrize("thin", [1e9, 4, 0], ids=["never thin", "some thin", "always thin"])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_round_in_one_go_is_a_round_in_steps(thin, num_threads, tune):
    tune(bins_per_thin_entry=thin, thread_ns=1, sparse_steps_ns=1e12)
    X, y = mixed_table(missing=0.01)
    binned = stored_data(X).binned
    engines = [engine_on("cpu", binned, num_threads) for _ in range(2)]
    for engine in engines:
        engine.set_gradients(y[None], np.random.default_rng(0).random((1, len(y))) + 0.01)
        engine.quantize(0, False)
        root = engine.begin_tree(32)
        segments = Segments(np.zeros(1, np.int64), np.array([root.n_rows]), np.array([root.depth], np.int32))
        engine.build_histograms(segments, np.zeros(1, np.int32))
    sums = np.array([root.gradient]), np.array([root.hessian])
    (split,) = engines[0].find_splits(segments, np.zeros(1, np.int32), *sums, RULES).tolist()
    batch, n_slots = [expansion(0, root.n_rows, root.gradient, root.hessian, split, root.depth, 0, 1)], 2
    for _ in range(4):
        nodes = np.array(batch, EXPANSION)
        found, n_expected = engines[0].expand(nodes, RULES, 100), expand_in_steps(engines[1], nodes, RULES, 100)
        assert (found[0] == n_expected[0]).all()
        batch = []
        for node, n_left, splits, expected in zip(nodes, found[0].tolist(), found[1], n_expected[1], strict=True):
            halves = (node["begin"], node["begin"] + n_left), (node["begin"] + n_left, node["end"])
            smaller = int(n_left > halves[1][1] - halves[1][0])
            for side in range(2):
                assert splits[side]["gain"] == expected[side]["gain"]
                if expected[side]["gain"] == -np.inf:
                    continue
                assert splits[side] == expected[side]
                g, h = int(node["left_gradient"]), int(node["left_hessian"])
                g, h = (int(node["gradient"]) - g, int(node["hessian"]) - h) if side else (g, h)
                slot = int(node["spare_slot" if side == smaller else "slot"])
                batch.append(expansion(*halves[side], g, h, expected[side].tolist(), node["depth"] + 1, slot, n_slots))
                n_slots += 1
    assert len(batch) > 3
    slot = batch[0][9]
    for engine in engines:  # steps after rounds in one go, which may have left the slot bare
        small = Segments(*(np.array([place]) for place in (batch[0][0], batch[0][0] + 5)), np.array([5], np.int32))
        engine.build_histograms(small, np.array([n_slots], np.int32))
        engine.subtract(np.array([slot], np.int32), np.array([n_slots], np.int32))
    # which five rows stand first is the engine's business: with them added again, the node's histogram is complete
    whole = [histogram_of(engine, slot) + histogram_of(engine, n_slots) for engine in engines]
    assert (whole[0] == whole[1]).all()


def expansion(begin, end, gradient, hessian, split, depth, slot, spare_slot):
    """Return a row of EXPANSION for a node and its best split."""
    _, left_gradient, left_hessian, feature, bin_, missing_left = split
    return (
        begin,
        end,
        gradient,
        hessian,
        left_gradient,
        left_hessian,
        depth,
        feature,
        bin_,
        slot,
        spare_slot,
        missing_left,
    )


def test_operations_on_some_rows(fine_work):
    X, y = mixed_table()
    binned = stored_data(X).binned
    assert_same_operations(
        binned, y[None], np.ones((1, len(y))), engine_on("cpu", binned, 2), draw=Draw(key=7, limit=2**63)
    )


@pytest.mark.parametrize("path_smooth", [0.0, 5.0])
def test_operations_with_a_context(path_smooth, fine_work):
    X, y = mixed_table()
    binned = stored_data(X).binned
    rules = replace(RULES, path_smooth=path_smooth)
    assert_same_operations(
        binned,
        y[None],
        np.random.default_rng(0).random((1, len(y))) + 0.01,
        engine_on("cpu", binned, 2),
        rules=rules,
        make_context=random_contexts(0, binned.n_used, rules),
    )


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["regression", "binary"])
def test_every_device_and_every_storage_give_the_model_of_the_dense_form(objective):
    X, y = mixed_table(missing=0.003)
    y = (y > 0).astype(float) if objective == "binary" else y
    params = {"objective": objective, "num_leaves": 15, "min_data_in_leaf": 10}
    expected = hb.train({**params, **QUIET}, hb.Dataset(X, label=y), 3).fingerprint()
    S = sparse.csr_matrix(X)
    for choice in ("bundles and entries", "bundles alone"):
        found = assert_same_model(
            {**params, **CHOICES[choice]},
            lambda: hb.Dataset(S, label=y),
            usable_devices(),
            3,
            thread_counts=(1, 3),
            valid_sets=lambda: {"valid": hb.Dataset(S[:200], label=y[:200])},
        )
        assert found.fingerprint() == expected
    for choice in ("no bundles", "nearly all sparse", "hardly any sparse"):
        found = hb.train({**params, **QUIET, **CHOICES[choice]}, hb.Dataset(S, label=y), 3)
        assert found.fingerprint() == expected


@pytest.fixture(scope="module")
def of_reference():
    """The model of the dense form on `reference`, which is slow: made once of all cases that ask for it."""
    made = {}

    def get(X, y, **params):
        if str(params) not in made:
            made[str(params)] = hb.train({**QUIET, **params, "device": "reference"}, hb.Dataset(X, label=y), 3)
        return made[str(params)].fingerprint()

    return get


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("thin", [1e9, 4, 0], ids=["never thin", "some thin", "always thin"])
@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize(
    "params",
    [{"min_data_in_leaf": 20}, {"min_data_in_leaf": 1, "precision": "high"}, {"feature_fraction_bynode": 0.6}],
    ids=str,
)
def test_trees_of_thin_nodes(params, num_threads, thin, fine_work, tune, of_reference):
    X, y = mixed_table(missing=0.003)
    params = {"objective": "binary", "num_leaves": 31, **params, **QUIET}
    expected = of_reference(X, y > 0, **params)
    tune(bins_per_thin_entry=thin, team_cpus=num_threads)
    found = hb.train({**params, "num_threads": num_threads}, hb.Dataset(sparse.csr_matrix(X), label=y > 0), 3)
    assert found.fingerprint() == expected


@pytest.mark.parametrize("most", [0, 600])
def test_nodes_of_more_rows_than_floats_hold(most, tune, of_reference):
    X, y = mixed_table(missing=0.003)
    expected = of_reference(X, y)
    tune(exact_rows=most)
    found = hb.train({**QUIET, "device": "cpu"}, hb.Dataset(sparse.csr_matrix(X), label=y), 3)
    assert found.fingerprint() == expected


@pytest.mark.parametrize(
    "params",
    [
        {"histogram_pool_size": 0.02},
        {"precision": "high"},
        {"max_bin": 400, "min_data_in_bin": 1},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"bagging_fraction": 0.5, "bagging_freq": 1},
        {"grow_policy": "depthwise", "max_depth": 4},
        {"lambda_l1": 0.5},
        {"feature_fraction": 0.4},
        {"feature_fraction_bynode": 0.4, "feature_fraction": 0.7, "path_smooth": 3.0},
        {"extra_trees": True, "monotone_constraints": [1] * 11 + [0] * 22},
    ],
    ids=str,
)
def test_parameters(params):
    X, y = mixed_table(missing=0.003)
    params = {**QUIET, **params, "device": "cpu"}
    dense = hb.train(params, hb.Dataset(X, label=y), 5)
    assert hb.train(params, hb.Dataset(sparse.csr_matrix(X), label=y), 5).fingerprint() == dense.fingerprint()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"grow_policy": "depthwise", "max_depth": 4},
        {"num_leaves": 200, "min_data_in_leaf": 2},
        {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.5},
    ],
    ids=str,
)
def test_a_tree_grown_whole_is_a_tree_grown_in_rounds(params, monkeypatch, tune):
    X, y = mixed_table(missing=0.003)
    grown = []
    grow = growth.Growth.grow
    monkeypatch.setattr(growth.Growth, "grow", lambda *given: grown.append(1) or grow(*given))
    prints = []
    for whole in (True, False):
        tune(most_leaves=1024 if whole else 0)
        data = hb.Dataset(sparse.csr_matrix(X), label=y)
        prints.append(hb.train({**QUIET, **params, "device": "cpu", "num_threads": 1}, data, 4).fingerprint())
        assert len(grown) == 4
    assert prints[0] == prints[1]


# --- teams ------------------------------------------------------------------------------------------------------------


TEAMS = {
    "plain": {},
    "few rows": {"min_data_in_leaf": 1, "num_leaves": 200, "objective": "poisson"},
    "shallow": {"grow_policy": "depthwise", "max_depth": 4},
    "some rows": {"bagging_fraction": 0.5, "bagging_freq": 1},
    "some features": {"feature_fraction": 0.4},
    "wide records": {"precision": "high"},
    "no bundles": {"enable_bundle": False},
    "no entries": {"is_enable_sparse": False},
    "all entries": {"enable_bundle": False},
}


@pytest.mark.parametrize("choice", TEAMS)
def test_a_team_of_any_size_grows_the_trees_of_one_thread(choice, sparse_teams, tune):
    tune(packed_rows=64)  # nodes are summed in several goes
    X, y = mixed_table(missing=0.003)
    if choice == "all entries":
        X = X[:, (X == 0.0).mean(axis=0) > 0.8]
    params = {**QUIET, "num_leaves": 15, "min_data_in_leaf": 5, **TEAMS[choice], "device": "cpu"}
    expected = hb.train(params, hb.Dataset(X, label=abs(y)), 2).fingerprint()
    for size in (1, 2, 3, 5):
        sizes = sparse_teams(size)
        data = hb.Dataset(sparse.csr_matrix(X), label=abs(y))
        assert hb.train({**params, "num_threads": size}, data, 2).fingerprint() == expected
        assert sizes == [size] * 2


# --- memory -----------------------------------------------------------------------------------------------------------

WIDE = """
import resource, sys
import numpy as np, scipy.sparse
import hornbeam as hb

def make(n_rows, n_columns, per_row=80):
    rng = np.random.default_rng(0)
    width = n_columns // per_row
    indices = (rng.integers(0, width, (n_rows, per_row)) + np.arange(per_row) * width).astype(np.int32)
    values = rng.geometric(0.5, n_rows * per_row).astype(np.float32)
    return scipy.sparse.csr_matrix((values, indices.reshape(-1), np.arange(n_rows + 1) * per_row), (n_rows, n_columns))

def train(X):
    y = np.asarray(X[:, :40].sum(axis=1)).ravel()
    model = hb.train({"device": "cpu", "verbosity": -1}, hb.Dataset(X, label=y), 2)
    return model.predict(X)

unit = 1 if sys.platform == "darwin" else 1024
train(make(3000, 800))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
train(make(20_000, 8_000))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before) / 2**20)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no getrusage")
def test_wide_tables_take_memory_by_their_values():
    """20,000 x 8,000 with 1.6 million values: 12 MB as CSR, 153 MB as plain bins, 1.2 GB as floats."""
    done = subprocess.run([sys.executable, "-c", WIDE], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 130.0


def test_there_is_room_for_every_slot_of_a_tree_that_ends_early(monkeypatch):
    seen = []
    make = growth.tree_table

    def watched(root, limits, n_threads, sides):
        seen.append(make(root, limits, n_threads, sides)[0])
        return seen[-1], make(root, limits, n_threads, sides)[1]

    monkeypatch.setattr(growth, "tree_table", watched)
    X = np.zeros((60, 4))
    X[:8, 1] = 1.0
    params = {**QUIET, "num_leaves": 5, "num_threads": 1, "min_data_in_leaf": 5, "device": "cpu"}
    hb.train(params, hb.Dataset(sparse.csr_matrix(X), label=X[:, 1]), 1)
    (table,) = seen
    assert table.free.shape == (1, 5)
    assert table.n_grown[0] == 3  # one split; then both children give their slots back
    assert sorted(table.free[0].tolist()) == [0, 1, 2, 3, 4]
