"""Sparse tables: the same bins, models and predictions as from the dense form of the same data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.data.bin_bounds import find_upper_bounds
from hornbeam.testing.golden import CASES, expected_fingerprints

sparse = pytest.importorskip("scipy.sparse")

QUIET = {"verbosity": -1}


def sparse_data(n_rows=600, n_features=12, density=0.1, missing=False, integers=False, seed=0):
    """Return a dense table of mostly zeros and a target."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < density, rng.normal(size=(n_rows, n_features)), 0.0)
    if integers:
        X = np.ceil(3 * X)
    if missing:
        X[rng.random(X.shape) < 0.02] = np.nan
    clean = np.nan_to_num(X, nan=1.0)
    y = 3.0 * clean[:, 0] + clean[:, 1] ** 2 - 2.0 * (clean[:, 2] > 0) + 0.1 * rng.normal(size=n_rows)
    return X, y


FORMS = {
    "csr_matrix": sparse.csr_matrix,
    "csc_matrix": sparse.csc_matrix,
    "csr_array": sparse.csr_array,
    "csc_array": sparse.csc_array,
    "coo_array": sparse.coo_array,
    "lil_matrix": sparse.lil_matrix,
    "float32": lambda X: sparse.csr_matrix(X.astype(np.float32)),
    "int64 indices": lambda X: with_int64_indices(sparse.csr_matrix(X)),
}


def with_int64_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("params", [{}, {"use_missing": False}, {"zero_as_missing": True}, {"max_bin": 15}], ids=str)
def test_model_and_predictions_are_those_of_the_dense_form(form, params):
    X, y = sparse_data(missing=True)
    if form == "float32":
        X = X.astype(np.float32)
    S = FORMS[form](X)
    dense = hb.train({**QUIET, **params}, hb.Dataset(X, label=y), 5)
    found = hb.train({**QUIET, **params}, hb.Dataset(S, label=y), 5)
    assert found.fingerprint() == dense.fingerprint()
    for options in ({}, {"pred_leaf": True}, {"raw_score": True}):
        assert (found.predict(S, **options) == dense.predict(X, **options)).all()


def test_bins_are_found_from_the_sampled_rows_of_either_form_alike():
    X, y = sparse_data(n_rows=3000, missing=True)
    options = {"bin_construct_sample_cnt": 500, "max_bin": 31}
    dense, found = (hb.Dataset(table, label=y, **options).construct().binned for table in (X, sparse.csr_array(X)))
    for a, b in zip(dense.mapper.upper_bounds, found.mapper.upper_bounds, strict=True):
        assert a.tolist() == b.tolist()
    assert (dense.mapper.has_missing == found.mapper.has_missing).all()
    assert (dense.bins == found.bins).all()


@given(
    st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, -0.0, 0.25, 1.0, 3.0, np.nan]), max_size=40),
    st.integers(0, 30),
    st.integers(2, 6),
    st.integers(1, 5),
)
def test_zeros_that_are_counted_are_as_good_as_zeros_that_are_there(values, n_zeros, max_bin, min_data):
    explicit = find_upper_bounds(np.array([*values, *[0.0] * n_zeros]), max_bin, min_data)
    assert find_upper_bounds(np.array(values, np.float64), max_bin, min_data, n_zeros).tolist() == explicit.tolist()


@given(
    st.lists(
        st.sampled_from([-np.inf, -2.0, -1.0, -0.0, 0.0, 1e-300, 0.25, 1.0, 3.0, 4.0, np.inf, np.nan]), max_size=60
    ),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 40),
    st.integers(2, 12),
    st.integers(1, 6),
)
def test_bounds_are_the_same_bits_as_those_of_the_definition(values, dtype, n_zeros, max_bin, min_data):
    from hornbeam.backends.cpu.binning import bounds

    given = np.array(values, dtype), max_bin, min_data, n_zeros
    assert bounds.find_upper_bounds(*given).tobytes() == find_upper_bounds(*given).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint16, bool])
def test_any_real_dtype(dtype):
    X, y = sparse_data(integers=True)
    X = np.abs(X).astype(dtype)
    models = [hb.train(QUIET, hb.Dataset(table, label=y), 3) for table in (X, sparse.csr_matrix(X))]
    assert models[0].fingerprint() == models[1].fingerprint()


def test_duplicates_are_added_and_unsorted_rows_are_sorted_and_nothing_is_changed():
    values = np.array([2.0, 1.0, 5.0, 4.0, -3.0, 0.0])
    indices = np.array([3, 1, 3, 0, 2, 1])
    indptr = np.array([0, 3, 3, 6])
    S = sparse.csr_matrix((values, indices, indptr), shape=(3, 4))
    table = hb.Dataset(S, label=[0, 1, 2]).reader
    assert table.read(0, 3).tolist() == [[0, 1, 0, 7], [0, 0, 0, 0], [4, 0, -3, 0]]
    assert S.data is values or S.data.tolist() == [2, 1, 5, 4, -3, 0]
    assert S.indices.tolist() == [3, 1, 3, 0, 2, 1]


def test_validation_sets_and_continued_training():
    X, y = sparse_data(n_rows=900, missing=True)

    def trained(form):
        train_set = hb.Dataset(form(X[:600]), label=y[:600])
        valid = hb.Dataset(form(X[600:]), label=y[600:], reference=train_set)
        first = hb.train(QUIET, train_set, 3)
        more = hb.train(QUIET, train_set, 4, {"valid": valid}, init_model=first)
        return more.fingerprint(), more.eval_history

    assert trained(sparse.csr_matrix) == trained(np.asarray) == trained(sparse.csc_array)


def test_forms_may_be_mixed():
    X, y = sparse_data(n_rows=900)
    train_set = hb.Dataset(X[:600], label=y[:600])
    valid = hb.Dataset(sparse.csr_array(X[600:]), label=y[600:], reference=train_set)
    same = hb.Dataset(X[600:], label=y[600:], reference=train_set)
    history = hb.train(QUIET, train_set, 3, {"a": valid, "b": same}).eval_history
    assert history["a"] == history["b"]


def test_cross_validation():
    X, y = sparse_data()
    dense, found = (hb.cv(QUIET, hb.Dataset(table, label=y), 3, nfold=3) for table in (X, sparse.csr_matrix(X)))
    assert dense == found


def test_frames_of_sparse_columns():
    X, y = sparse_data(n_features=4)
    frame = pd.DataFrame(X, columns=list("abcd")).astype(pd.SparseDtype(np.float64, 0.0))
    model = hb.train(QUIET, hb.Dataset(frame, label=y), 3)
    assert model.feature_names == ["a", "b", "c", "d"]
    assert (model.predict(frame) == model.predict(X)).all()
    mixed = frame.assign(d=X[:, 3])
    assert hb.train(QUIET, hb.Dataset(mixed, label=y), 3).fingerprint() == model.fingerprint()
    assert (model.predict(mixed) == model.predict(X)).all()


def test_columns_that_the_trees_do_not_look_at_are_not_read():
    X, y = sparse_data(n_rows=300, n_features=2000, density=0.02)
    model = hb.train({**QUIET, "num_leaves": 4, "min_data_in_leaf": 5}, hb.Dataset(sparse.csr_matrix(X), label=y), 2)
    assert len(model.forest.columns) <= 6
    assert model.forest.narrow.n_features_used <= 6
    assert (model.predict(sparse.csr_matrix(X)) == model.predict(X)).all()
    constant = hb.train(QUIET, hb.Dataset(sparse.csr_matrix(X), label=np.ones(300)), 2)
    assert (constant.predict(sparse.csr_matrix(X)) == 1.0).all()


# --- zero_as_missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, pd.DataFrame], ids=["array", "sparse", "frame"])
def test_zero_as_missing_reads_zeros_as_nan(form, device):
    X, y = sparse_data(missing=True)
    X[5, 0], X[6, 0] = 1e-36, -0.0
    gaps = np.where(np.abs(np.nan_to_num(X)) <= 1e-35, np.nan, X)
    zeros = hb.train({**QUIET, "zero_as_missing": True, "device": device}, hb.Dataset(form(X), label=y), 4)
    missing = hb.train(QUIET, hb.Dataset(gaps, label=y), 4)
    assert zeros.params["zero_as_missing"] is True
    assert (zeros.predict(form(X)) == missing.predict(gaps)).all()
    loaded = hb.Booster.from_bytes(zeros.to_bytes())
    assert (loaded.predict(form(X), device=device) == missing.predict(gaps)).all()


def test_zero_as_missing_means_nothing_without_missing_values():
    X, y = sparse_data()
    params = {**QUIET, "use_missing": False}
    models = [hb.train({**params, "zero_as_missing": zero}, hb.Dataset(X, label=y), 3) for zero in (False, True)]
    assert (models[0].predict(X) == models[1].predict(X)).all()


def test_zero_as_missing_must_stay_the_same_when_training_goes_on():
    X, y = sparse_data()
    start = hb.train(QUIET, hb.Dataset(X, label=y), 2)
    with pytest.raises(hb.ParameterError, match="zero_as_missing=False"):
        hb.train({**QUIET, "zero_as_missing": True}, hb.Dataset(X, label=y), 2, init_model=start)


# --- every device -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["regression", "binary"])
def test_every_device_grows_the_same_model(objective, device):
    X, y = sparse_data(missing=True)
    y = (y > 0).astype(float) if objective == "binary" else y
    S = sparse.csr_matrix(X)
    params = {"objective": objective, "num_leaves": 15}
    found = hb.train({**params, **QUIET, "device": device}, hb.Dataset(S, label=y), 4)
    assert found.fingerprint() == hb.train({**params, **QUIET}, hb.Dataset(X, label=y), 4).fingerprint()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.zeros > 0.0])
def test_golden_models_come_from_sparse_tables_too(name, device):
    case = CASES[name]
    params = {**case.params, **QUIET, "device": device}
    found = hb.train(params, case.dataset(sparse.csc_array), case.n_rounds)
    assert found.fingerprint() == expected_fingerprints()[name]


# --- bad input --------------------------------------------------------------------------------------------------------


def broken(indices, indptr):
    S = sparse.csr_matrix(np.eye(3))
    S.indices, S.indptr = np.array(indices), np.array(indptr)
    return S


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sparse.csr_matrix((0, 3)), "0 rows and 3 columns"),
        (sparse.csc_matrix((3, 0)), "3 rows and 0 columns"),
        (sparse.csr_matrix(np.eye(3) * 1j), "complex128"),
        (sparse.coo_array(np.ones(3)), "2 dimensions"),
        (broken([0, 1, 7], [0, 1, 2, 3]), "no sound sparse matrix"),
        (broken([0, 1, -1], [0, 1, 2, 3]), "no sound sparse matrix"),
        (broken([0, 1, 2], [0, 2, 1, 3]), "no sound sparse matrix"),
        (broken([0, 1], [0, 1, 2, 3]), "no sound sparse matrix"),
    ],
)
def test_unsound_matrices_are_refused(data, message):
    with pytest.raises(hb.DataError, match=message):
        hb.Dataset(data, label=np.zeros(max(1, data.shape[0])))


def test_predicting_for_other_columns_is_refused():
    X, y = sparse_data()
    model = hb.train(QUIET, hb.Dataset(sparse.csr_matrix(X), label=y), 2)
    with pytest.raises(hb.DataError, match="11 features"):
        model.predict(sparse.csr_matrix(X[:, :11]))
