"""Splits of categorical features: every engine against the reference with ==, the reference against plain search."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.gpu.growth import categorical as gpu_categorical
from hornbeam.core.fixed_point import Quantization
from hornbeam.testing.checks import PLAIN_RULES, assert_same_operations, binned_data, engine_on
from hornbeam.testing.contexts import random_contexts
from hornbeam.testing.data import BinnedSample, make_binned
from hornbeam.trees.bagging import Draw
from hornbeam.trees.categorical_splits import best_level_set, sorted_levels
from hornbeam.trees.splitting import CategoricalRules, leaf_score

LOOSE = CategoricalRules(max_cat_to_onehot=4, max_cat_threshold=32, cat_smooth=1.0, cat_l2=1.0, min_data_per_group=5)
RULES = replace(PLAIN_RULES, min_data_in_leaf=10, min_sum_hessian_in_leaf=1e-3, categorical=LOOSE)


def sample_of(n_rows, n_levels, seed=0, constant_hessian=False, missing=0.1) -> BinnedSample:
    """Two features of numbers, then categorical ones; each level has a gradient of its own."""
    plain = make_binned(n_rows, 2 + len(n_levels), 15, 0.1, seed, constant_hessian)
    rng = np.random.default_rng(seed)
    bins = plain.bins.astype(np.uint8 if max(n_levels) < 256 else np.uint16)
    n_value_bins, gradient = plain.n_value_bins.copy(), plain.gradient.copy()
    for place, n in enumerate(n_levels):
        codes = (rng.random(n_rows) ** 2 * n).astype(np.int64)
        gradient += rng.normal(size=n)[codes]
        codes[rng.random(n_rows) < missing] = n
        bins[:, 2 + place], n_value_bins[2 + place] = codes, n
    has_missing = np.array([(bins[:, f] == n_value_bins[f]).any() for f in range(len(n_value_bins))])
    return BinnedSample(bins, n_value_bins, has_missing, gradient, plain.hessian)


def check(device, sample, n_categorical, *, num_threads=0, **options) -> None:
    binned = binned_data(sample, n_categorical)
    engine = engine_on(device, binned, num_threads)
    assert_same_operations(binned, sample.gradient[None], sample.hessian[None], engine, valid=binned, **options)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("n_levels", "constant_hessian"),
    [
        *((n_levels, False) for n_levels in [(1,), (3, 4), (5, 40), (300, 2, 20), (1500,)]),
        *((n_levels, True) for n_levels in [(5, 40), (300, 2, 20)]),  # kernels of their own, for any number of levels
    ],
    ids=str,
)
def test_operations_equal_the_reference(device, n_levels, constant_hessian):
    sample = sample_of(1500, n_levels, len(n_levels), constant_hessian)
    check(device, sample, len(n_levels), rules=RULES)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "changes",
    [
        {"min_data_in_leaf": 1},
        {"min_data_in_leaf": 120},
        {"min_sum_hessian_in_leaf": 8.0},
        {"lambda_l1": 2.0, "lambda_l2": 3.0},
        {"max_delta_step": 0.3},
        {"min_gain_to_split": 3.0},
        {"categorical": CategoricalRules()},
        {"categorical": replace(LOOSE, max_cat_to_onehot=100)},
        {"categorical": replace(LOOSE, max_cat_to_onehot=1, max_cat_threshold=3)},
        {"categorical": replace(LOOSE, max_cat_threshold=500, min_data_per_group=1, cat_smooth=0.0)},
        {"categorical": replace(LOOSE, cat_l2=0.0, cat_smooth=30.0)},
        {"categorical": replace(LOOSE, min_data_per_group=10_000)},
    ],
    ids=str,
)
def test_operations_equal_the_reference_under_any_rule(device, changes):
    check(device, sample_of(1200, (60, 3), 5), 2, rules=replace(RULES, **changes))


@pytest.mark.parametrize("high_precision", [False, True], ids=["auto", "high"])
def test_operations_equal_the_reference_in_any_precision_and_on_a_bag(device, high_precision):
    sample = sample_of(1200, (50, 7), 9)
    check(device, sample, 2, rules=RULES, high_precision=high_precision)
    check(device, sample, 2, rules=RULES, draw=Draw(key=7, limit=int(0.6 * 2**53)))


@pytest.mark.usefixtures("few_bins")
def test_only_categorical_features(device):
    sample = sample_of(900, (30, 6, 3), 2)
    only = sample._replace(bins=np.ascontiguousarray(sample.bins[:, 2:]), n_value_bins=sample.n_value_bins[2:])
    check(device, only._replace(has_missing=sample.has_missing[2:]), 3, rules=RULES)


def test_levels_that_are_sorted_in_global_memory(device, monkeypatch):
    monkeypatch.setattr(gpu_categorical, "LARGEST_LOCAL_SORT", 4)
    monkeypatch.setattr(gpu_categorical, "SCRATCH_BYTES", 2000)
    check(device, sample_of(800, (40, 20), 3), 2, rules=RULES)


def test_more_sets_than_there_was_room_for(device, monkeypatch):
    monkeypatch.setattr(gpu_categorical, "FIRST_SETS", 2)
    check(device, sample_of(800, (40, 20), 3), 2, rules=RULES)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_threads_leave_no_trace(tune, n_threads):
    tune(level_bins_per_thread=1, searched_bins_per_thread=1)
    check("cpu", sample_of(900, (60, 3), 1), 2, rules=RULES, num_threads=n_threads)


@pytest.mark.sampled
@pytest.mark.parametrize("what", ["zero gradients", "zero hessians", "some zero weights", "heavy tail"])
def test_extreme_gradients(device, what):
    sample = sample_of(700, (20, 3), 4)
    g, h = sample.gradient, sample.hessian
    present = np.random.default_rng(1).random(len(g)) < 0.4
    g, h = {
        "zero gradients": (0.0 * g, h),
        "zero hessians": (g, 0.0 * h),
        "some zero weights": (g * present, h * present),
        "heavy tail": (np.where(present, g, g * 1e6), h),
    }[what]
    rules = replace(RULES, min_sum_hessian_in_leaf=0.0, categorical=replace(LOOSE, cat_smooth=0.0))
    check(device, sample._replace(gradient=g, hessian=h), 2, rules=rules)


@given(data=st.data())
@settings(max_examples=15)
def test_operations_equal_the_reference_when_everything_ties(device, data):
    n_rows, n_levels = data.draw(st.integers(2, 30)), data.draw(st.integers(2, 7))
    codes = st.lists(st.integers(0, n_levels), min_size=2 * n_rows, max_size=2 * n_rows)
    bins = np.array(data.draw(codes), np.uint8).reshape(n_rows, 2)
    gradient = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n_rows, max_size=n_rows)), np.float64)
    hessian = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=n_rows, max_size=n_rows)))
    sample = BinnedSample(
        bins, np.full(2, n_levels, np.int32), (bins == n_levels).any(axis=0), gradient, hessian
    )  # fmt: skip
    loose = CategoricalRules(data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5)), 0.0, 0.0, 1)
    rules = replace(PLAIN_RULES, min_data_in_leaf=data.draw(st.integers(1, 3)), categorical=loose)
    check(device, sample, data.draw(st.integers(1, 2)), rules=rules, n_levels=3)


# --- with a context -------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    "changes",
    [{}, {"path_smooth": 5.0}, {"monotone": True}, {"extra_trees": True}, {"path_smooth": 2.0, "monotone": True}],
    ids=str,
)
def test_operations_equal_the_reference_in_context(device, changes):
    rules = replace(RULES, **changes)
    context = random_contexts(3, 5, rules, share=0.8, signs=False)
    check(device, sample_of(900, (40, 3, 9), 6), 3, rules=rules, make_context=context)


# --- the definition -------------------------------------------------------------------------------------------------

UNITS = Quantization(2.0**-10, 2.0**-10, False, 1, 1000)


def level_sums(rng, n_levels):
    rows = rng.integers(0, 60, n_levels + 1)
    gradient = rng.integers(-3000, 3000, n_levels + 1) * np.sign(rows)
    return np.stack([gradient, rows * 300], axis=1).astype(np.int64), rows.astype(np.int64)


def gain_of(sums, inside, rules):
    left, total = sums[list(inside)].sum(axis=0), sums.sum(axis=0)
    parts = np.array([left, total - left, total]) * 2.0**-10
    scores = leaf_score(parts[:, 0], parts[:, 1], rules)
    return scores[0] + scores[1] - scores[2]


@pytest.mark.parametrize("seed", range(20))
def test_one_against_the_rest_finds_the_best_level(seed):
    rng = np.random.default_rng(seed)
    sums, rows = level_sums(rng, 4)
    found = best_level_set(sums, rows, UNITS, RULES)
    total = rows.sum()
    allowed = [b for b in range(4) if min(rows[b], total - rows[b]) >= RULES.min_data_in_leaf]
    gains = {b: gain_of(sums, [b], RULES) for b in allowed}
    best = max(gains, key=lambda b: (gains[b], -b), default=None)
    if best is None or gains[best] <= 0:
        assert found.gain == -np.inf
    else:
        assert found.bins.tolist() == [best]
        assert found.gain == pytest.approx(gains[best])
        assert (found.left_gradient, found.left_hessian) == tuple(sums[best])


@pytest.mark.parametrize("seed", range(10))
def test_sorted_levels_find_the_best_of_all_sets(seed):
    """Without smoothing and penalties the best set of at most half of the levels is a run of the sorted ones."""
    rng = np.random.default_rng(seed)
    sums, rows = level_sums(rng, 7)
    rows[:] = np.maximum(rows, 1)
    rows[7] = sums[7, 0] = 0
    sums[:, 1] = rows * 300
    loose = CategoricalRules(1, 100, 0.0, 0.0, 1)
    rules = replace(PLAIN_RULES, min_data_in_leaf=1, categorical=loose)
    found = best_level_set(sums, rows, UNITS, rules)
    every = [inside for size in range(1, 5) for inside in combinations(range(7), size)]
    best = max(gain_of(sums, inside, rules) for inside in every)
    assert found.gain == pytest.approx(best)
    assert gain_of(sums, found.bins, rules) == pytest.approx(best)


def test_levels_are_sorted_by_smoothed_gradient_and_bin():
    sums = np.array([[100, 3000], [-50, 3000], [100, 3000], [5, 0], [7, 10]], np.int64)
    order, estimated = sorted_levels(sums, 90, 9010, np.array([1.0, 1.0]), 10.0)
    assert order.tolist() == [1, 0, 2]
    assert estimated.tolist() == [30.0, 30.0, 30.0]


def test_groups_and_thresholds_are_honoured():
    rng = np.random.default_rng(0)
    sums, rows = level_sums(rng, 30)
    rows[:], sums[:, 1] = 10, 3000
    strict = replace(RULES, categorical=CategoricalRules(4, 3, 1.0, 0.0, 1))
    assert len(best_level_set(sums, rows, UNITS, strict).bins) <= 3
    groups = replace(RULES, categorical=CategoricalRules(4, 100, 1.0, 0.0, 40))
    assert len(best_level_set(sums, rows, UNITS, groups).bins) in (4, 8, 12)
    none = replace(RULES, categorical=CategoricalRules(4, 100, 11.0, 0.0, 1))
    assert best_level_set(sums, rows, UNITS, none).gain == -np.inf
