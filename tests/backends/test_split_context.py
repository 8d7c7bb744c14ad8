"""Nodes with a context: every engine finds the split that the reference finds, bit for bit, whatever the rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.testing.checks import PLAIN_RULES, assert_same_operations, binned_data, engine_on
from hornbeam.testing.contexts import random_contexts
from hornbeam.testing.data import make_binned

RULES = replace(PLAIN_RULES, min_data_in_leaf=20, min_sum_hessian_in_leaf=1e-3)
EVERYTHING = {"path_smooth": 30.0, "monotone": True, "extra_trees": True, "lambda_l1": 0.3, "max_delta_step": 0.6}

CASES = {
    "mask": {},
    "no counts": {"min_data_in_leaf": 1},
    "monotone": {"monotone": True},
    "monotone, l1, l2": {"monotone": True, "lambda_l1": 1.0, "lambda_l2": 2.0},
    "path_smooth": {"path_smooth": 10.0},
    "path_smooth, huge": {"path_smooth": 1e6, "min_data_in_leaf": 2},
    "extra_trees": {"extra_trees": True},
    "max_delta_step": {"max_delta_step": 0.2},
    "min_gain": {"min_gain_to_split": 2.0},
    "everything": EVERYTHING,
}


def check(device, sample, rules, seed=0, num_threads=0, share=0.7, factors=True, **options):
    binned = binned_data(sample)
    engine = engine_on(device, binned, num_threads)
    context = random_contexts(seed, binned.n_used, rules, share=share, factors=factors)
    assert_same_operations(
        binned, sample.gradient[None], sample.hessian[None], engine, rules=rules, make_context=context, **options
    )


@pytest.mark.sampled
@pytest.mark.parametrize("constant_hessian", [False, True], ids=["hessians", "constant hessian"])
@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_splits_in_context_equal_the_reference_under_any_rule(device, changes, constant_hessian):
    sample = make_binned(1200, 6, 31, 0.2, seed=3, constant_hessian=constant_hessian)
    check(device, sample, replace(RULES, **changes))


@pytest.mark.sampled
@pytest.mark.parametrize("n_bins", [2, 15, 255, 1000])
@pytest.mark.parametrize("high_precision", [False, True], ids=["auto", "high"])
def test_splits_in_context_equal_the_reference_for_any_number_of_bins(device, n_bins, high_precision):
    sample = make_binned(1000, 5, n_bins, 0.15, seed=n_bins)
    check(device, sample, replace(RULES, **EVERYTHING, min_data_in_leaf=5), high_precision=high_precision)


@pytest.mark.sampled
@pytest.mark.parametrize("n_features", [1, 31, 32, 33, 70])
def test_splits_in_context_equal_the_reference_for_any_number_of_features(device, n_features):
    sample = make_binned(400, n_features, 20, 0.1, seed=n_features)
    check(device, sample, replace(RULES, monotone=True), n_levels=2)


@pytest.mark.sampled
@pytest.mark.parametrize("n_bins", [31, 300])
@pytest.mark.parametrize("changes", [{}, {"max_delta_step": 0.2, "lambda_l1": 0.3}], ids=["plain", "clipped"])
def test_splits_by_the_features_of_a_mask_equal_the_reference(device, n_bins, changes):
    """Contexts that only leave features out: a GPU searches them as it searches plain nodes."""
    sample = make_binned(900, 6, n_bins, 0.2, seed=n_bins)
    check(device, sample, replace(RULES, **changes), share=0.4, factors=False)


@pytest.mark.usefixtures("few_bins")
def test_splits_in_context_equal_the_reference_where_histograms_have_64_bins(device):
    check(device, make_binned(500, 5, 40, 0.2, seed=2), replace(RULES, monotone=True, path_smooth=1.0), n_levels=2)


def test_node_without_an_allowed_feature_has_no_split(device):
    sample = make_binned(300, 4, 15, 0.1, seed=1)
    check(device, sample, RULES, share=-1.0)


@given(
    n_rows=st.integers(2, 250),
    n_features=st.integers(1, 36),
    n_bins=st.sampled_from([2, 3, 16, 255]),
    missing_fraction=st.sampled_from([0.0, 0.1, 0.7]),
    changes=st.fixed_dictionaries(
        {},
        optional={
            "min_data_in_leaf": st.sampled_from([2, 5]),
            "lambda_l1": st.just(0.4),
            "lambda_l2": st.just(1.5),
            "max_delta_step": st.just(0.3),
            "min_gain_to_split": st.just(0.3),
            "path_smooth": st.sampled_from([0.5, 20.0]),
            "monotone": st.booleans(),
            "extra_trees": st.booleans(),
        },
    ),
    constant_hessian=st.booleans(),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=12)
def test_splits_in_context_equal_the_reference_on_random_data(
    device, n_rows, n_features, n_bins, missing_fraction, changes, constant_hessian, seed
):
    sample = make_binned(n_rows, n_features, n_bins, missing_fraction, seed, constant_hessian)
    check(device, sample, replace(RULES, **changes), seed, num_threads=2, n_levels=2)


@pytest.mark.sampled
@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("ordered", [False, True], ids=["gather", "ordered"])
@pytest.mark.parametrize("name", ["mask", "path_smooth", "everything"])
def test_threads_and_row_stores_leave_no_trace(tune, n_threads, ordered, name):
    tune(ordered_smallest_bytes=0 if ordered else 1 << 40, context_bins_per_thread=1)
    sample = make_binned(700, 6, 63, 0.25, seed=n_threads)
    check("cpu", sample, replace(RULES, **CASES[name]), num_threads=n_threads)


@pytest.mark.sampled
@pytest.mark.parametrize("what", ["zero gradients", "zero hessians", "some zero weights", "denormals", "huge"])
def test_splits_in_context_equal_the_reference_for_extreme_gradients(device, what):
    sample = make_binned(600, 4, 15, 0.2, seed=5)
    g, h = sample.gradient, sample.hessian
    present = np.random.default_rng(1).random(len(g)) < 0.4
    g, h = {
        "zero gradients": (0.0 * g, h),
        "zero hessians": (g, 0.0 * h),
        "some zero weights": (g * present, h * present),
        "denormals": (g * 1e-310, h * 1e-310),
        "huge": (g * 1e140, h * 1e140),
    }[what]
    rules = replace(RULES, min_sum_hessian_in_leaf=0.0, monotone=True, path_smooth=3.0)
    check(device, sample._replace(gradient=g, hessian=h), rules)
