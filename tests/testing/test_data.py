"""The shipped data makers: what they promise, and that a seed names a data set."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.testing.data import (
    make_binned,
    make_categorical,
    make_higgs_like,
    make_multiclass,
    make_regression_heavy_tailed,
    make_with_missing,
)

MAKERS = [make_higgs_like, make_regression_heavy_tailed, make_multiclass, make_with_missing, make_binned]


@pytest.mark.parametrize("maker", MAKERS)
def test_seed_names_the_data(maker):
    first, again, other = maker(500, seed=3), maker(500, seed=3), maker(500, seed=4)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0], equal_nan=True)


@pytest.mark.parametrize("maker", MAKERS)
def test_makers_leave_the_global_generator_alone(maker):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    maker(100)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("sizes", [{"n_rows": 0}, {"n_rows": 10, "n_features": 0}])
def test_impossible_sizes_raise(maker, sizes):
    with pytest.raises(ValueError, match="at least"):
        maker(**sizes)


def test_higgs_like_is_balanced_float32():
    X, y = make_higgs_like(5_000)
    assert (X.shape, X.dtype, y.dtype) == ((5_000, 28), np.float32, np.float32)
    assert set(np.unique(y)) == {0.0, 1.0}
    assert 0.4 < y.mean() < 0.6


def test_heavy_tails_are_one_row_in_ten_thousand():
    X, y, clean_mask = make_regression_heavy_tailed(30_000)
    assert (X.shape, y.dtype, np.count_nonzero(~clean_mask)) == ((30_000, 10), np.float64, 3)
    assert np.abs(y[~clean_mask]).max() > 100 * np.abs(y[clean_mask]).mean()
    assert np.count_nonzero(~make_regression_heavy_tailed(10)[2]) == 1


def test_categories_are_codes_below_their_number_of_levels():
    X, y, positions = make_categorical(3_000, 2, (3, 40), seed=1)
    assert (X.shape, X.dtype, positions) == ((3_000, 4), np.float32, (2, 3))
    assert set(np.unique(X[:, 2])) == {0.0, 1.0, 2.0}
    assert X[:, 3].max() < 40 and np.array_equal(X[:, 3], np.floor(X[:, 3]))
    assert set(np.unique(y)) == {0.0, 1.0}
    assert np.array_equal(X, make_categorical(3_000, 2, (3, 40), seed=1)[0])


@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_every_class_occurs(n_classes):
    _, y = make_multiclass(2_000, n_classes)
    assert y.dtype == np.int64
    assert np.array_equal(np.unique(y), np.arange(n_classes))


def test_missing_values_are_where_promised():
    X, y = make_with_missing(5_000, missing_fraction=0.3)
    share = np.isnan(X).mean(axis=0)
    assert share[-1] == 0.0
    assert share[-2] > 0.95
    assert np.all(np.abs(share[:-2] - 0.3) < 0.05)
    complete, same_y = make_higgs_like(5_000, 10)
    assert np.array_equal(X[~np.isnan(X)], complete[~np.isnan(X)])
    assert np.array_equal(y, same_y)


@pytest.mark.parametrize(("n_bins", "dtype"), [(2, np.uint8), (255, np.uint8), (256, np.uint16), (65_535, np.uint16)])
@pytest.mark.parametrize("missing_fraction", [0.0, 0.2])
def test_binned_codes_stay_in_their_feature(n_bins, dtype, missing_fraction):
    sample = make_binned(3_000, 7, n_bins, missing_fraction)
    assert (sample.bins.dtype, sample.bins.shape) == (dtype, (3_000, 7))
    assert sample.bins.flags.c_contiguous
    assert np.all(sample.bins <= sample.n_value_bins)
    assert np.array_equal(sample.has_missing, (sample.bins == sample.n_value_bins).any(axis=0))
    assert sample.has_missing.any() == (missing_fraction > 0)
    assert sample.hessian.min() > 0
    assert np.all(make_binned(10, constant_hessian=True).hessian == 1.0)
