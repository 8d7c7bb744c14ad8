"""Data makers: NumPy alone, every number from an explicit generator, so that a seed names a data set.

The distribution (weights, thresholds) of a maker is fixed and the seed draws the rows, so two seeds give a training
and a test set of one problem. Scores are computed in float64, column by column, without BLAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import BIN_LARGE, BIN_SMALL
from hornbeam.core.numerics import sigmoid

N_INFORMATIVE = 6
"""The makers' signals look at the first 6 features in a non-linear way; they need at least that many."""


def _check_sizes(n_rows: int, n_features: int, smallest: int = N_INFORMATIVE) -> None:
    if n_rows < 1 or n_features < smallest:
        raise ValueError(
            f"n_rows={n_rows}, n_features={n_features}: needs at least 1 row and {smallest} features; ask for more"
        )


def _signal(X: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return a score with interactions, steps, waves and a linear part over all features.

    X  float32 (n_rows, n_features)  in
    """
    x = [X[:, feature].astype(np.float64) for feature in range(N_INFORMATIVE)]
    score: NDArray[np.float64] = x[0] * x[1] + np.sin(2.0 * x[2]) + np.abs(x[3]) - 0.8 + x[4] * (x[5] > 0.0)
    n_features = X.shape[1]
    weights = 1.5 * np.random.default_rng(1).normal(size=n_features) / np.sqrt(n_features)
    for feature in range(n_features):
        score += weights[feature] * X[:, feature].astype(np.float64)
    return score


def make_higgs_like(
    n_rows: int, n_features: int = 28, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Make a noisy binary problem of the shape of the Higgs data.

    Returns
    -------
    X
        float32 (n_rows, n_features), standard normal.
    y
        float32 (n_rows,), 0 or 1.
    """
    _check_sizes(n_rows, n_features)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    y = rng.random(n_rows) < sigmoid(_signal(X))
    return X, y.astype(np.float32)


def make_regression_heavy_tailed(
    n_rows: int, seed: int = 0, n_features: int = 10
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_]]:
    """Make a regression problem whose few huge targets must not drown the rest.

    The noise is lognormal with sigma 2, and one target in 10,000 (at least one) is multiplied by 1,000.

    Returns
    -------
    X
        float32 (n_rows, n_features), standard normal.
    y
        float64 (n_rows,).
    clean_mask
        bool (n_rows,), False where the target was multiplied.
    """
    _check_sizes(n_rows, n_features)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    y = 10.0 * _signal(X) + rng.lognormal(sigma=2.0, size=n_rows)
    clean_mask = np.ones(n_rows, np.bool_)
    clean_mask[rng.choice(n_rows, size=max(1, n_rows // 10_000), replace=False)] = False
    y[~clean_mask] *= 1_000.0
    return X, y, clean_mask


def make_multiclass(
    n_rows: int, n_classes: int = 5, n_features: int = 10, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Make a multiclass problem: noisy class scores, the largest wins. Every class occurs when rows allow it.

    Returns
    -------
    X
        float32 (n_rows, n_features), standard normal.
    y
        int64 (n_rows,), 0 to n_classes - 1.
    """
    _check_sizes(n_rows, n_features)
    if n_classes < 2:
        raise ValueError(f"n_classes={n_classes}: needs at least 2 classes")
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    weights = np.random.default_rng(2).normal(size=(n_classes, n_features))
    scores = 0.5 * rng.gumbel(size=(n_classes, n_rows))  # argmax of gumbel-noised scores draws from their softmax
    for k in range(n_classes):
        scores[k] += np.abs(X[:, k % n_features].astype(np.float64)) + np.sin(X[:, (k + 1) % n_features] * (1.0 + k))
        for feature in range(n_features):
            scores[k] += weights[k, feature] * X[:, feature].astype(np.float64)
    y = np.argmax(scores, axis=0)
    y[: min(n_classes, n_rows)] = np.arange(min(n_classes, n_rows))
    return X, y.astype(np.int64)


def make_targets(
    n_rows: int = 400,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Make four features, and of one function of two of them a number, its sign (0 or 1) and three classes."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n_rows, 4))
    number = X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=n_rows)
    return X, number, (number > 0).astype(float), np.clip(np.floor(number + 1.5), 0, 2).astype(np.int64)


def make_with_missing(
    n_rows: int, n_features: int = 10, missing_fraction: float = 0.3, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Make a binary problem with NaN, where missing itself tells something: large values go missing more often.

    The last feature has no missing value, and the one before it is nearly all missing.

    Returns
    -------
    X
        float32 (n_rows, n_features).
    y
        float32 (n_rows,), 0 or 1.
    """
    if not 0.0 <= missing_fraction <= 1.0:
        raise ValueError(f"missing_fraction={missing_fraction}: must be in [0, 1]")
    X, y = make_higgs_like(n_rows, n_features, seed)
    rng = np.random.default_rng([seed, 1])  # a stream of its own, so that X and y are those of make_higgs_like
    for feature in range(n_features - 1):
        chance = np.where(X[:, feature] > 0.5, 1.5, 0.75) * missing_fraction if feature < n_features - 2 else 0.99
        X[rng.random(n_rows) < chance, feature] = np.nan
    return X, y


def make_ranking(
    n_queries: int, n_features: int = 10, mean_size: float = 20.0, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]:
    """Make queries whose documents have labels 0 to 4, few of them high, by a noisy score and an offset of the query.

    Returns
    -------
    X
        float32 (n_rows, n_features), standard normal; the last feature tells nothing but the query.
    y
        float64 (n_rows,), 0 to 4.
    sizes
        int64 (n_queries,), 1 or more documents each.
    """
    if n_queries < 1 or mean_size < 1.0:
        raise ValueError(f"n_queries={n_queries}, mean_size={mean_size}: must be 1 or more")
    rng = np.random.default_rng(seed)
    sizes = 1 + rng.poisson(mean_size - 1.0, n_queries)
    n_rows = int(sizes.sum())
    _check_sizes(n_rows, n_features, N_INFORMATIVE + 1)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    offset = np.repeat(rng.standard_normal(n_queries, dtype=np.float32), sizes)
    X[:, -1] = offset
    score = _signal(X) + offset + rng.normal(size=n_rows)
    y = np.searchsorted([0.0, 1.5, 3.0, 4.5], score).astype(np.float64)
    return X, y, sizes.astype(np.int64)


def make_categorical(
    n_rows: int, n_numbers: int = 10, n_levels: Sequence[int] = (3, 12, 50, 300), seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float64], tuple[int, ...]]:
    """Make a binary problem of numbers and categories, each level with an effect of its own, low levels frequent.

    Returns
    -------
    X
        float32 (n_rows, n_numbers + len(n_levels)), the numbers standard normal, the categories codes from 0 up.
    y
        float64 (n_rows,), 0 or 1.
    positions
        Columns that are categorical.
    """
    _check_sizes(n_rows, n_numbers, 1)
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(3)
    X = np.empty((n_rows, n_numbers + len(n_levels)), np.float32)
    score = np.zeros(n_rows)
    for feature in range(n_numbers):
        X[:, feature] = rng.standard_normal(n_rows, dtype=np.float32)
        if feature % 3 == 0:
            score += 0.3 * np.sin(2.0 * X[:, feature].astype(np.float64))
    for number, levels in enumerate(n_levels):
        level = (levels * rng.random(n_rows) ** 2).astype(np.int32)
        score += 0.4 * effects.normal(size=levels)[level]
        X[:, n_numbers + number] = level
    y = rng.random(n_rows) < sigmoid(score)
    return X, y.astype(np.float64), tuple(range(n_numbers, X.shape[1]))


class BinnedSample(NamedTuple):
    """Data made directly in binned space, so that a grower's fault is not blamed on binning.

    bins          uint8 or uint16 (n_rows, n_features)   C order; the code n_value_bins[f] stands for missing
    n_value_bins  int32   (n_features,)
    has_missing   bool    (n_features,)                  whether the feature has a row with the missing code
    gradient      float64 (n_rows,)
    hessian       float64 (n_rows,)                      positive
    """

    bins: NDArray[np.uint8] | NDArray[np.uint16]
    n_value_bins: NDArray[np.int32]
    has_missing: NDArray[np.bool_]
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]


def make_binned(
    n_rows: int,
    n_features: int = 8,
    n_bins: int = 255,
    missing_fraction: float = 0.0,
    seed: int = 0,
    constant_hessian: bool = False,
) -> BinnedSample:
    """Make bins, gradients and hessians with structure to find: gradients follow steps in the first features.

    Features alternate between all `n_bins` value bins and fewer, between even and skewed bins, and (when
    `missing_fraction` is positive) between missing values and none.
    """
    _check_sizes(n_rows, n_features, smallest=1)
    if not 2 <= n_bins <= 65_535:
        raise ValueError(f"n_bins={n_bins}: must be 2 to 65535")
    rng = np.random.default_rng(seed)
    n_value_bins = np.array([n_bins if f % 3 else max(2, n_bins // (1 + f)) for f in range(n_features)], np.int32)
    dtype = BIN_SMALL if int(n_value_bins.max()) + 1 <= 256 else BIN_LARGE
    bins = np.empty((n_rows, n_features), dtype)
    gradient = rng.normal(size=n_rows)
    for feature in range(n_features):
        uniform = rng.random(n_rows)
        skewed = uniform * uniform * uniform if feature % 2 else uniform
        codes = (skewed * n_value_bins[feature]).astype(np.int64)
        if missing_fraction > 0.0 and feature % 2 == 0:
            codes[rng.random(n_rows) < missing_fraction] = n_value_bins[feature]
        bins[:, feature] = codes
        if feature < 4:
            gradient += (codes > n_value_bins[feature] // (2 + feature)) * (1.0 - 0.4 * feature)
    hessian = np.ones(n_rows) if constant_hessian else rng.uniform(0.01, 0.25, size=n_rows)
    has_missing = np.array([bool((bins[:, f] == n_value_bins[f]).any()) for f in range(n_features)], np.bool_)
    return BinnedSample(bins, n_value_bins, has_missing, gradient, hessian)
