"""Categorical columns of sparse tables: levels, models and predictions are those of the dense form of the same data."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.growth import growth
from hornbeam.data import stored_bins as bundling
from hornbeam.testing.checks import PLAIN_RULES, assert_same_operations, engine_on, usable_devices
from hornbeam.testing.contexts import random_contexts
from hornbeam.trees.bagging import Draw
from hornbeam.trees.splitting import CategoricalRules

sparse = pytest.importorskip("scipy.sparse")

QUIET = {"verbosity": -1}
LOOSE = {"min_data_in_leaf": 5, "num_leaves": 12, "min_data_per_group": 5, "cat_smooth": 1.0, **QUIET}
CATEGORICAL = [2, 5, 7, 9]
RULES = replace(
    PLAIN_RULES, min_data_in_leaf=5, min_sum_hessian_in_leaf=1e-3, categorical=CategoricalRules(4, 32, 1.0, 2.0, 5)
)


@pytest.fixture
def stored(monkeypatch):
    """Keep small tables in bundles and entries too."""
    monkeypatch.setattr(bundling, "PLAIN_CELLS", 0)


def mixed_table(n_rows=900, seed=0, one_hot=0):
    """Return columns of scattered numbers with four of levels among them, one-hot columns, and a target.

    Level 0 is the most frequent, a rare and an absent one: each column has another share of it.
    """
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, 14)) < 0.15, rng.normal(size=(n_rows, 14)), 0.0)
    X[:, 2] = np.where(rng.random(n_rows) < 0.9, 0, rng.integers(0, 12, n_rows))
    X[:, 5] = rng.integers(0, 40, n_rows)
    X[:, 7] = np.where(rng.random(n_rows) < 0.5, 0, rng.integers(1, 4, n_rows))
    X[:, 9] = np.where(rng.random(n_rows) < 0.5, 3, rng.integers(1, 9, n_rows))
    X[rng.random(n_rows) < 0.05, 2] = np.nan
    X[rng.random(n_rows) < 0.05, 5] = -1
    if one_hot:
        own = np.zeros((n_rows, one_hot))
        level = (one_hot * rng.random(n_rows) ** 2).astype(int)
        own[np.arange(n_rows), level] = 1.0 + level % 3
        X = np.hstack([X, own])
    y = X[:, 0] + 2 * np.isin(X[:, 2], [3, 4, 7]) + np.isin(X[:, 5], [0, 3, 9, 22]) + (X[:, 7] == 2)
    y = y + 0.5 * (X[:, -1] > 0) + 0.1 * rng.normal(size=n_rows)
    return X, y


MODELS = {
    "plain": {},
    "one against the rest, weights": {"max_cat_to_onehot": 50, "objective": "poisson"},
    "zeros are missing": {"zero_as_missing": True, "sparse_threshold": 0.01, "enable_bundle": False},
    "nothing is missing": {"use_missing": False, "is_enable_sparse": False},
    "target encoding": {"target_encoding_levels": 5, "zero_as_missing": True},
    "bag": {"bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction": 0.5},
    "smooth paths": {"path_smooth": 2.0, "feature_fraction_bynode": 0.6, "feature_fraction": 0.8},
    "random thresholds": {"extra_trees": True},
}


@pytest.mark.sampled
@pytest.mark.parametrize("choice", MODELS)
def test_models_are_those_of_the_dense_form(choice, device, stored):
    X, y = mixed_table(300, one_hot=20 if choice != "plain" else 0)
    other, target = mixed_table(60, seed=1, one_hot=X.shape[1] - 14)
    other[:5, 2], other[5:9, 9] = 99, 0  # levels that training has not seen
    params = {"max_cat_to_onehot": 4, **LOOSE, **MODELS[choice]}

    def made(form, where):
        data = hb.Dataset(form(X), label=np.abs(y), categorical_features=CATEGORICAL)
        valid = hb.Dataset(form(other), label=np.abs(target), reference=data)
        booster = hb.train({**params, "device": where}, data, 2, {"valid": valid})
        rows = form(other)
        leaves = booster.predict(rows, pred_leaf=True, device=where)
        return booster, data, (booster.eval_history, booster.predict(rows, device=where).tolist(), leaves.tolist())

    dense, _, expected = made(np.asarray, "cpu")
    found, data, got = made(sparse.csr_matrix, device)
    assert (data.binned.stored is not None) == (device != "reference")  # which bins by the definition
    assert found.fingerprint() == dense.fingerprint()
    assert got == expected
    assert any(codes is not None for tree in found.trees for codes in tree.left_codes or []) or "target" in choice
    if device == "cpu":
        assert found.to_bytes() == dense.to_bytes()


FORMS = {
    "csr_array": sparse.csr_array,
    "csc_matrix": sparse.csc_matrix,
    "coo_array": sparse.coo_array,
    "float32": lambda X: sparse.csr_matrix(X.astype(np.float32)),
    "int64 indices": lambda X: with_int64_indices(sparse.csr_matrix(X)),
    "explicit zeros": lambda X: with_explicit_zeros(X),
}


def with_int64_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_explicit_zeros(X):
    rows, columns = np.nonzero((X != 0) | (np.arange(X.size).reshape(X.shape) % 3 == 0))
    return sparse.csr_matrix((X[rows, columns], (rows, columns)), shape=X.shape)


OF_FORMS = {**LOOSE, "categorical_feature": CATEGORICAL}


@cache
def dense_model():
    X, y = mixed_table()
    X = X.astype(np.float32).astype(np.float64)
    return X, y, hb.train(OF_FORMS, hb.Dataset(X, label=y), 3)


@pytest.mark.parametrize("form", FORMS)
def test_any_sparse_form_holds_the_same_levels(form, stored):
    X, y, dense = dense_model()
    found = hb.train(OF_FORMS, hb.Dataset(FORMS[form](X), label=y), 3)
    assert found.fingerprint() == dense.fingerprint()
    assert (found.predict(FORMS[form](X)) == dense.predict(X)).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, bool])
def test_any_integer_type(dtype):
    X, y = mixed_table()
    X = np.abs(np.nan_to_num(np.ceil(X))).astype(dtype)
    models = [
        hb.train(LOOSE, hb.Dataset(table, label=y, categorical_features=CATEGORICAL), 3)
        for table in (X, sparse.csr_matrix(X))
    ]
    assert models[0].to_bytes() == models[1].to_bytes()


def test_an_absent_entry_is_level_0_and_nan_and_negative_levels_are_missing():
    level = np.array([0.0, 1.0, 2.0, np.nan, -3.0] * 60)
    y = np.array([5.0, 1.0, 2.0, 9.0, 9.0] * 60)
    table = sparse.csr_matrix(level[:, None])
    assert table.nnz == 240
    params = {**LOOSE, "min_data_in_leaf": 1, "learning_rate": 1.0, "lambda_l2": 0.0, "cat_l2": 0.0}
    data = hb.Dataset(table, label=y, categorical_features=[0])
    booster = hb.train(params, data, 1)
    assert booster.levels[0].values == (0, 1, 2)
    rows = sparse.csr_matrix(np.array([[0.0], [1.0], [2.0], [np.nan], [-7.0], [55.0]]))
    assert np.round(booster.predict(rows), 6).tolist() == [5.0, 1.0, 2.0, 9.0, 9.0, 9.0]  # unseen levels are missing


def test_absent_entries_of_a_column_whose_level_0_is_unseen_are_missing():
    rng = np.random.default_rng(0)
    level, y = rng.integers(1, 5, 400).astype(float), rng.normal(size=400)
    booster = hb.train(LOOSE, hb.Dataset(level[:, None], label=y, categorical_features=[0]), 4)
    empty, dense = sparse.csr_matrix((7, 1)), np.zeros((7, 1))
    assert (booster.predict(empty) == booster.predict(dense)).all()
    assert booster.predict(empty)[0] == booster.predict(np.array([[np.nan]]))[0]


def test_many_levels(device, stored):
    rng = np.random.default_rng(0)
    X, y = mixed_table(600, one_hot=3)
    X[:, 2] = np.where(rng.random(len(X)) < 0.9, rng.integers(0, 500, len(X)), 0)
    params = {**LOOSE, "min_data_in_bin": 1, "target_encoding_levels": -1, "device": device}
    y = y + (X[:, 2] % 5 == 1)
    models = [
        hb.train(params, hb.Dataset(table, label=y, categorical_features=[2]), 2) for table in (X, sparse.csr_matrix(X))
    ]
    assert len(models[0].levels[2]) > 250
    assert models[0].fingerprint() == models[1].fingerprint()
    if device == "reference":
        return
    encoded = [
        hb.train({**params, "target_encoding_levels": 100}, hb.Dataset(table, label=y, categorical_features=[2]), 2)
        for table in (X, sparse.csr_matrix(X))
    ]
    assert not encoded[1].levels[2].is_coded
    assert encoded[0].fingerprint() == encoded[1].fingerprint()
    assert (encoded[0].predict(X) == encoded[1].predict(sparse.csr_matrix(X))).all()


@pytest.mark.parametrize(
    ("value", "column"),
    [(np.inf, 2), (-np.inf, 5), (1e300, 7), (2.0**63, 9)],
)
def test_bad_levels_are_refused_as_in_the_dense_form(value, column):
    X, y = mixed_table(300)
    X[[120, 200], column] = value
    messages = []
    for table in (X, sparse.csr_matrix(X)):
        with pytest.raises(hb.DataError) as caught:
            hb.train(LOOSE, hb.Dataset(table, label=y, categorical_features=CATEGORICAL), 1)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert str(column) in messages[0]


def test_numbers_that_are_no_integers_are_cut_as_in_the_dense_form():
    X, y = mixed_table(300)
    X[[120, 200], 2] = 1.5
    tables = X, sparse.csr_matrix(X)
    models = [hb.train(LOOSE, hb.Dataset(table, label=y, categorical_features=CATEGORICAL), 2) for table in tables]
    assert models[0].fingerprint() == models[1].fingerprint()
    assert models[1].levels[2].is_cut
    assert np.array_equal(models[0].predict(tables[0]), models[1].predict(tables[1]))


@pytest.mark.parametrize(("value", "column"), [(1.5, 2), (np.inf, 2), (-np.inf, 5)])
def test_no_integers_are_unseen_levels_to_a_model_as_in_the_dense_form(value, column):
    X, y = mixed_table(300)
    booster = hb.train(LOOSE, hb.Dataset(X, label=y, categorical_features=CATEGORICAL), 2)
    unseen, odd = X.copy(), X.copy()
    unseen[[120, 200], column], odd[[120, 200], column] = 987_654.0, value
    expected = booster.predict(unseen)
    assert np.array_equal(booster.predict(odd), expected)
    assert np.array_equal(booster.predict(sparse.csr_matrix(odd)), expected)


def test_levels_of_strings_are_told_apart_from_integers():
    frame = pd.DataFrame({"a": ["x", "y", "z"] * 40, "b": np.arange(120) % 7 * 1.0})
    booster = hb.train(LOOSE, hb.Dataset(frame, label=np.arange(120) % 3), 2)
    with pytest.raises(hb.DataError, match="holds integers, but its levels in training are strings"):
        booster.predict(sparse.csr_matrix(np.ones((4, 2))))


# --- whatever reads a table -------------------------------------------------------------------------------------------


def test_validation_continued_training_refit_and_mixed_forms(stored):
    X, y = mixed_table()

    def trained(*forms):
        data = hb.Dataset(forms[0](X[:600]), label=y[:600], categorical_features=CATEGORICAL)
        valid = hb.Dataset(forms[1](X[600:]), label=y[600:], reference=data)
        first = hb.train(LOOSE, hb.Dataset(forms[0](X[200:]), label=y[200:], categorical_features=CATEGORICAL), 3)
        more = hb.train(LOOSE, data, 3, {"valid": valid}, init_model=first)
        refitted = more.refit(forms[1](X[600:]), y[600:])
        return more.fingerprint(), more.eval_history, refitted.fingerprint()

    expected = trained(np.asarray, np.asarray)
    assert trained(sparse.csr_matrix, sparse.csc_array) == expected
    assert trained(np.asarray, sparse.csr_array) == expected
    assert trained(sparse.csr_array, np.asarray) == expected


def test_training_on_keeps_target_encodings(stored):
    X, y = mixed_table()
    params = {**LOOSE, "target_encoding_levels": 5}

    def trained(form):
        first = hb.train(params, hb.Dataset(form(X[:600]), label=y[:600], categorical_features=CATEGORICAL), 2)
        data = hb.Dataset(form(X), label=y, categorical_features=CATEGORICAL)
        return hb.train(params, data, 2, init_model=first).fingerprint()

    assert trained(sparse.csr_matrix) == trained(np.asarray)


def test_cross_validation_and_estimators():
    X, y = mixed_table()
    params = {**LOOSE, "categorical_feature": CATEGORICAL}
    found = [hb.cv(params, hb.Dataset(form(X), label=y), 3, nfold=3) for form in (np.asarray, sparse.csr_matrix)]
    assert found[0] == found[1]
    models = [
        hb.HornbeamRegressor(categorical_features=CATEGORICAL, n_estimators=3, **LOOSE).fit(
            form(X), y, eval_set=[(form(X), y)]
        )
        for form in (np.asarray, sparse.csc_array)
    ]
    assert models[0].booster_.fingerprint() == models[1].booster_.fingerprint()
    assert (models[0].predict(X) == models[1].predict(sparse.csr_matrix(X))).all()


def test_frames_of_sparse_columns():
    X, y = mixed_table()
    names = [f"c{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names).astype(pd.SparseDtype(np.float64, 0.0))
    named = [names[i] for i in CATEGORICAL]
    found = hb.train(LOOSE, hb.Dataset(frame, label=y, categorical_features=named), 3)
    expected = hb.train(LOOSE, hb.Dataset(pd.DataFrame(X, columns=names), label=y, categorical_features=named), 3)
    assert found.fingerprint() == expected.fingerprint()
    assert (found.predict(frame) == expected.predict(X)).all()
    whole = pd.DataFrame({"a": pd.arrays.SparseArray(np.arange(60) % 4), "b": pd.arrays.SparseArray(np.arange(60) % 5)})
    assert hb.Dataset(whole, categorical_features=["a"]).construct().categorical_features == [0]


@pytest.mark.parametrize(
    "columns",
    [
        {"a": pd.arrays.SparseArray([1.0, 0.0, 2.0], fill_value=0.0), "b": [1, 2, 3]},
        {"a": pd.arrays.SparseArray([1.0, np.nan, 2.0])},
        {"a": pd.arrays.SparseArray([3, 3, 1], fill_value=3), "b": pd.arrays.SparseArray([True, False, True])},
        {"a": pd.arrays.SparseArray(["x", "x", "y"], fill_value="x")},
    ],
)
def test_sparse_columns_that_are_not_alike_are_read_as_dense_ones(columns):
    frame, y = pd.DataFrame(columns).iloc[[0, 1, 2] * 9].reset_index(drop=True), np.arange(27.0)
    dense = pd.DataFrame({name: np.asarray(frame[name]) for name in frame})
    found, expected = (hb.train(LOOSE, hb.Dataset(one, y, categorical_features=["a"]), 3) for one in (frame, dense))
    assert found.fingerprint() == expected.fingerprint()
    assert (found.predict(frame) == expected.predict(dense)).all()


def test_the_table_is_never_spelled_out(stored):
    rng = np.random.default_rng(0)
    n_rows, n_features = 10_000, 600
    rows, columns = rng.integers(0, n_rows, 45_000), rng.integers(0, n_features, 45_000)
    table = sparse.csr_matrix((rng.integers(1, 9, 45_000), (rows, columns)), shape=(n_rows, n_features))
    y = np.asarray(table[:, :40].sum(axis=1)).ravel().astype(float)

    def train_and_predict():
        data = hb.Dataset(table, label=y, categorical_features=list(range(0, n_features, 2)))
        hb.train({**LOOSE, "num_leaves": 4, "num_threads": 2}, data, 1).predict(table)
        return data

    train_and_predict()  # what is compiled and kept takes memory too
    tracemalloc.start()
    data = train_and_predict()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data.categorical_features) == 300
    assert most < 0.9 * n_rows * n_features  # not even with a byte a value


# --- operations -------------------------------------------------------------------------------------------------------


CHOICES = {
    "bundles and entries": ({}, {}),
    "entries": ({"sparse_threshold": 0.01, "enable_bundle": False}, {"high_precision": True}),
    "columns": ({"is_enable_sparse": False}, {"draw": Draw(key=7, limit=2**63)}),
}


@pytest.mark.sampled
@pytest.mark.parametrize("where", [device for device in usable_devices() if device != "reference"])
@pytest.mark.parametrize("choice", CHOICES)
def test_operations(choice, where, stored, fine_work):
    options, how = CHOICES[choice]
    X, y = mixed_table(300, one_hot=30)
    data = hb.Dataset(sparse.csr_matrix(X), categorical_features=CATEGORICAL, **options).construct()
    valid = hb.Dataset(sparse.csr_matrix(mixed_table(60, 1, 30)[0]), reference=data)
    assert data.binned.stored is not None
    plain = hb.Dataset(X, categorical_features=CATEGORICAL, **options).construct()
    assert (data.binned.bins == plain.binned.bins).all()
    assert (data.mapper.has_missing == plain.mapper.has_missing).all()
    hessian = np.random.default_rng(0).random((1, len(y))) + 0.01
    for weights in (hessian, np.ones_like(hessian)):
        engine = engine_on(where, data.binned, 2)
        assert_same_operations(data.binned, y[None], weights, engine, rules=RULES, valid=valid.binned, **how)


@pytest.mark.parametrize("thin", [1e9, 0], ids=["never thin", "always thin"])
def test_trees_grown_whole_in_rounds_and_in_steps_are_the_same(thin, stored, tune, monkeypatch):
    X, y = mixed_table(one_hot=30)
    params = {**LOOSE, "feature_fraction": 0.8, "max_cat_to_onehot": 4, "device": "cpu"}
    expected = hb.train(params, hb.Dataset(X, label=y, categorical_features=CATEGORICAL), 3).fingerprint()
    tune(bins_per_thin_entry=thin, thread_ns=1)
    calls = {"grow": 0, "expand": 0}

    def count(name):
        plain = getattr(growth.Growth, name)

        def counted(*args):
            done = plain(*args)
            calls[name] += done is not None
            return done

        monkeypatch.setattr(growth.Growth, name, counted)

    count("grow")
    count("expand")

    def trained(num_threads):
        data = hb.Dataset(sparse.csr_matrix(X), label=y, categorical_features=CATEGORICAL)
        return hb.train({**params, "num_threads": num_threads}, data, 3).fingerprint()

    assert trained(1) == expected
    assert calls == {"grow": 3, "expand": 0}
    tune(most_leaves=0, sparse_steps_ns=1e12)
    assert trained(3) == expected
    assert calls["grow"] == 3 and calls["expand"] > 0
    in_rounds = calls["expand"]
    tune(sparse_steps_ns=0)
    assert trained(3) == expected
    assert calls["expand"] < 2 * in_rounds


SHARED = {
    "plain": {},
    "columns": {"is_enable_sparse": False},
    "some features": {"feature_fraction": 0.6, "max_cat_to_onehot": 4},
    "few rows": {"min_data_in_leaf": 20, "objective": "poisson"},
    "wide records": {"precision": "high"},
    "shallow": {"max_depth": 3},
    "some rows": {"bagging_fraction": 0.5, "bagging_freq": 1},
}


@pytest.mark.sampled
@pytest.mark.parametrize("categorical", [[*CATEGORICAL, 13], []], ids=["levels", "numbers"])
@pytest.mark.parametrize("choice", SHARED)
def test_a_team_of_any_size_grows_the_trees_of_one_thread(choice, categorical, stored, sparse_teams, tune):
    tune(packed_rows=64)  # nodes are summed in several goes
    X, y = mixed_table(one_hot=30)
    X[:, 11], X[:, 13] = X[:, 0], X[:, 2]  # equal gains, of two threads
    params = {**LOOSE, **SHARED[choice], "device": "cpu"}
    expected = hb.train(params, hb.Dataset(X, label=abs(y), categorical_features=categorical), 3).fingerprint()
    for size in (1, 2, 3, 5):
        sizes = sparse_teams(size)
        data = hb.Dataset(sparse.csr_matrix(X), label=abs(y), categorical_features=categorical)
        assert hb.train({**params, "num_threads": size}, data, 3).fingerprint() == expected
        assert sizes == [size] * 3


@pytest.mark.sampled
@pytest.mark.parametrize("where", [device for device in usable_devices() if device != "reference"])
@pytest.mark.parametrize(("path_smooth", "extra_trees"), [(5.0, False), (0.0, True)])
def test_operations_with_a_context(path_smooth, extra_trees, where, stored):
    X, y = mixed_table(one_hot=60)
    binned = hb.Dataset(sparse.csr_matrix(X), categorical_features=CATEGORICAL).construct().binned
    rules = replace(RULES, path_smooth=path_smooth, extra_trees=extra_trees)
    assert_same_operations(
        binned,
        y[None],
        np.random.default_rng(0).random((1, len(y))) + 0.01,
        engine_on(where, binned, 2),
        rules=rules,
        make_context=random_contexts(0, binned.n_used, rules),
    )


def test_categorical_features_share_no_column_on_a_gpu_and_others_do(stored):
    pytest.importorskip("hornbeam.backends.gpu.runtime.opencl")
    from hornbeam.backends.gpu.data.bundles import ALONE, bundles_of

    X, _ = mixed_table(one_hot=60)
    binned = hb.Dataset(sparse.csr_matrix(X), categorical_features=CATEGORICAL).construct().binned
    found = bundles_of(binned)
    assert found is not None
    assert (found.members[binned.n_numeric :, 3] == ALONE).all()
    assert (found.members[: binned.n_numeric, 3] != ALONE).any()
