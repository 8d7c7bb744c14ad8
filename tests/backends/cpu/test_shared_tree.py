"""Trees that all outputs share, grown whole: each is that of the reference's rounds, whatever it is summed in."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.backends.cpu.growth.dense.shared_tree import Lanes, lanes_of
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.fixed_point import Quantization
from hornbeam.core.random_choices import chance_limit
from hornbeam.testing.checks import REFERENCE, binned_data, engine_on
from hornbeam.testing.data import BinnedSample
from hornbeam.trees.bagging import Draw
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.output_grower import OutputGrower
from hornbeam.trees.output_splits import OutputsRoot
from hornbeam.trees.splitting import SplitRules

RULES = SplitRules(0.0, 1.0, 0.0, 0.0, min_data_in_leaf=5, min_sum_hessian_in_leaf=0.5)
LIMITS = GrowthLimits(8, 99, False)
LARGE_SUMS = {"most_narrow_gradients": -1}  # running sums of 64 bits


def make_sample(n_rows, sizes, n_outputs, constant=(), seed=0):
    """Return binned data, and gradients and hessians; those of some outputs are constant."""
    rng = np.random.default_rng(seed)
    sizes = np.array(sizes, np.int32)
    bins = np.column_stack([rng.integers(0, n + 1, n_rows) for n in sizes]).astype(np.uint16)
    binned = binned_data(BinnedSample(bins, sizes, (bins == sizes).any(axis=0), np.empty(0), np.empty(0)))
    gradient, hessian = rng.normal(size=(n_outputs, n_rows)), 0.1 + rng.random((n_outputs, n_rows))
    gradient += np.sin(bins[:, :1].T / sizes[0] * (2.0 + np.arange(n_outputs))[:, None])
    hessian[list(constant)] = 2.0
    return binned, gradient, hessian


def grow(engine, sample, limits, high_precision=False, draw=None, features=None, n_slots=16):
    """Grow a tree, and say whether the engine grew it whole."""
    binned, gradient, hessian = sample
    engine.set_scores(np.zeros(gradient.shape))
    engine.set_gradients(gradient.copy(), hessian.copy())
    engine.choose_rows(draw)
    engine.choose_features(features)
    calls, grow_shared = [], engine.grow_shared
    engine.grow_shared = lambda *arguments: calls.append(grow_shared(*arguments)) or calls[-1]
    grown = OutputGrower(engine, binned, RULES, limits, n_slots).grow(high_precision)
    return grown, engine.row_leaves().copy(), calls[-1] is not None


def assert_is_that_of_the_reference(sample, limits, n_threads=1, tuning=None, chosen=slice(None), **options):
    tuned = Tuning(thread_work_ns=1, waking_ns=1, team_cpus=n_threads, **(tuning or {}))
    expected, leaves, _ = grow(engine_on(REFERENCE, sample[0]), sample, limits, **options)
    found, found_leaves, is_whole = grow(CpuEngine(sample[0], n_threads, tuned), sample, limits, **options)
    assert is_whole
    order, expected_order = found.numbering()[0], expected.numbering()[0]
    assert len(order) == len(expected_order) > 1
    assert (found_leaves[chosen] == leaves[chosen]).all()
    own, other = found.nodes[order], expected.nodes[expected_order]
    for field in ("gain", "feature", "bin", "missing_left"):
        assert (own["split"][field] == other["split"][field]).all(), field
    assert (found.sums()[order] == expected.sums()[expected_order]).all()


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("tuning", [{}, LARGE_SUMS, {"lanes_at_once": 64}], ids=str)
@pytest.mark.parametrize(
    ("n_outputs", "constant"),
    [(2, (0, 1)), (3, ()), (3, (0, 1, 2)), (4, (2,)), (7, range(7)), (9, ()), (17, range(17))],
    ids=str,
)
@pytest.mark.parametrize("sizes", [(20, 3, 7, 2), (700, 5, 260)], ids=str)
@pytest.mark.parametrize("limits", [LIMITS, GrowthLimits(12, 4, True)], ids=str)
def test_tree_is_that_of_the_reference(sizes, n_outputs, constant, limits, tuning, n_threads):
    sample = make_sample(900, sizes, n_outputs, constant)
    assert_is_that_of_the_reference(sample, limits, n_threads, tuning)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_more_rows_than_counters_take_at_once(n_threads):
    sample = make_sample(150_000, (30, 9), 2)
    assert_is_that_of_the_reference(sample, GrowthLimits(4, 99, False), n_threads, LARGE_SUMS)


def test_tree_of_some_rows_and_features():
    sample, draw = make_sample(900, (20, 3, 7, 2), 3), Draw(7, chance_limit(0.6))
    engine = engine_on(REFERENCE, sample[0])
    options = {"draw": draw, "features": np.array([0, 2], np.int32)}
    grow(engine, sample, LIMITS, **options)
    engine.choose_output(0)
    rows = engine.chosen_rows().rows
    assert 0 < len(rows) < 900
    assert_is_that_of_the_reference(sample, LIMITS, chosen=rows, **options)


@pytest.mark.parametrize(
    ("tuning", "high_precision"),
    [({}, True), ({"most_leaves": 7}, False), ({"most_wide_sums": 9}, False), ({"most_cells": 9}, False)],
    ids=str,
)
def test_tree_is_left_to_the_rounds(tuning, high_precision):
    sample = make_sample(900, (20, 3), 3)
    assert not grow(CpuEngine(sample[0], 1, Tuning(**tuning)), sample, LIMITS, high_precision)[2]


def test_tree_is_left_to_the_rounds_where_the_pool_is_too_small():
    sample = make_sample(900, (20, 3), 3)
    assert not grow(CpuEngine(sample[0], 1), sample, LIMITS, n_slots=3)[2]


def test_hessians_of_one_are_one_lane():
    ones, others = Quantization(1.0, 1.0, False, 1, 1), Quantization(1.0, 1.0, False, 0, 9)
    root = OutputsRoot(9, np.zeros((3, 2), np.int64), (ones, others, ones), 0)
    assert lanes_of(root) == ([0, 1, 2, 0, 1], [3, 4, 3])
    counted = OutputsRoot(9, np.zeros((2, 2), np.int64), (others, others), 2)
    assert lanes_of(counted) == ([0, 1, 0, 1, 2], [2, 3, 4])


@pytest.mark.parametrize(("n_lanes", "widths"), [(4, [4]), (7, [8]), (9, [16]), (20, [16, 4]), (32, [16, 16])])
def test_lanes_are_added_in_groups(n_lanes, widths):
    assert Lanes.make(5, 2, n_lanes).widths.tolist() == widths
