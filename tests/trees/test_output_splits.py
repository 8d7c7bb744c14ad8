"""Splits that all outputs share: the definition against brute force, and what it promises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.output_splits import OutputsRoot, best_output_split, find_counter
from hornbeam.trees.splitting import SplitRules, best_split


def make_rules(**changes):
    plain = {"lambda_l1": 0.0, "lambda_l2": 1.0, "max_delta_step": 0.0, "min_gain_to_split": 0.0}
    return SplitRules(**{**plain, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0, **changes})


def score(gradient, hessian, rules):
    """What a leaf removes of the loss, in plain numbers."""
    shrunk = math.copysign(max(abs(gradient) - rules.lambda_l1, 0.0), gradient)
    weight = max(hessian, rules.min_sum_hessian_in_leaf) + rules.lambda_l2
    if weight <= 0.0:
        return 0.0
    output = -shrunk / weight
    if rules.max_delta_step > 0.0:
        output = min(max(output, -rules.max_delta_step), rules.max_delta_step)
    return -(2.0 * shrunk * output + weight * output * output)


def brute_force(bins, n_values, g, h, units, rules):
    """Return the best gain of all ways to divide rows by a threshold, and all ways that have it, nearly."""
    ways = []
    for f, most in enumerate(n_values):
        for b, missing_left in itertools.product(range(most), (True, False)):
            left = [c <= b if c < most else missing_left for c in bins[:, f]]
            sides = [[i for i, is_left in enumerate(left) if is_left == side] for side in (True, False)]
            if min(map(len, sides)) < rules.min_data_in_leaf:
                continue
            total = 0.0
            weights = [0.0, 0.0]
            for k, (unit_g, unit_h) in enumerate(units):
                parts = [
                    (sum(int(g[k, i]) for i in rows) * unit_g, sum(int(h[k, i]) for i in rows) * unit_h)
                    for rows in sides
                ]
                whole = [sum(pair) for pair in zip(*parts, strict=True)]
                total += score(*parts[0], rules) + score(*parts[1], rules) - score(*whole, rules)
                weights = [max(weights[side], parts[side][1]) for side in (0, 1)]
            if min(weights) >= rules.min_sum_hessian_in_leaf and min(weights) > 0.0:
                ways.append((total, f, b, missing_left))
    best = max((way[0] for way in ways), default=-math.inf)
    return best, [way[1:] for way in ways if way[0] > best - 1e-9 * max(1.0, abs(best))]


@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3, 5]), st.sampled_from(["plain", "l1", "step", "least"]))
def test_best_split_is_that_of_brute_force(seed, n_outputs, kind):
    rng = np.random.default_rng(seed)
    n_rows, n_values = int(rng.integers(4, 25)), [int(n) for n in rng.integers(1, 6, 3)]
    bins = np.column_stack([rng.integers(0, n + 1, n_rows) for n in n_values])
    g, h = rng.integers(-50, 50, (n_outputs, n_rows)), rng.integers(0, 9, (n_outputs, n_rows))
    units = [(2.0 ** int(rng.integers(-8, 3)), 2.0 ** int(rng.integers(-4, 3))) for _ in range(n_outputs)]
    rules = {
        "plain": make_rules(min_data_in_leaf=2), "l1": make_rules(lambda_l1=3.0),
        "step": make_rules(max_delta_step=0.1),
        "least": make_rules(min_sum_hessian_in_leaf=6.0, lambda_l2=0.0),
    }[kind]  # fmt: skip
    offsets = np.concatenate([[0], np.cumsum([n + 1 for n in n_values])])
    histograms = np.zeros((n_outputs, offsets[-1], 2), np.int64)
    counts = np.zeros(offsets[-1], np.int64)
    for f in range(3):
        np.add.at(counts, offsets[f] + bins[:, f], 1)
        for k in range(n_outputs):
            np.add.at(histograms[k, :, 0], offsets[f] + bins[:, f], g[k])
            np.add.at(histograms[k, :, 1], offsets[f] + bins[:, f], h[k])
    how = [Quantization(*pair, False, 0, 9) for pair in units]
    found, left = best_output_split(
        histograms, counts, offsets, np.ones(3, bool), how, rules, np.arange(3, dtype=np.int32)
    )
    best, ways = brute_force(bins, n_values, g, h, units, rules)
    if found["gain"] == -np.inf:
        assert best <= 1e-9 * max(1.0, float(np.abs(g).sum()))
        return
    assert found["gain"] == pytest.approx(best, rel=1e-9)
    way = int(found["feature"]), int(found["bin"]), bool(found["missing_left"])
    assert way in ways
    codes, most = bins[:, way[0]], n_values[way[0]]
    is_left = np.where(codes < most, codes <= way[1], way[2])
    assert left.tolist() == [[int(g[k, is_left].sum()), int(h[k, is_left].sum())] for k in range(n_outputs)]


@given(st.integers(0, 10_000))
def test_one_output_is_an_ordinary_tree(seed):
    rng = np.random.default_rng(seed)
    histogram = np.stack([rng.integers(-90, 90, 12), rng.integers(1, 30, 12)], axis=1)[None]
    counts, offsets = rng.integers(1, 5, 12), np.array([0, 5, 12])
    histogram[0, 5:] = rng.permutation(histogram[0, 5:])
    total = histogram[0, :5].sum(axis=0) - histogram[0, 5:].sum(axis=0)  # both features have the same rows
    histogram[0, 11] += total
    counts[11] += counts[:5].sum() - counts[5:].sum()
    how = Quantization(0.25, 0.5, False, 1, 30)
    rules = make_rules(min_data_in_leaf=2, min_sum_hessian_in_leaf=3.0)
    missing, features = np.array([True, False]), np.arange(2, dtype=np.int32)
    if histogram[0, 11, 1] <= 0 or counts[11] < 0:
        return
    found, left = best_output_split(histogram, counts, offsets, missing, [how], rules, features)
    expected = best_split(histogram[0], counts, offsets, missing, how, rules)
    for name in ("gain", "feature", "bin", "missing_left"):
        assert found[name] == expected[name]
    assert left.tolist() == [[expected["left_gradient"], expected["left_hessian"]]] or found["gain"] == -np.inf


def test_an_output_without_hessians_neither_forbids_nor_promises_a_split():
    offsets, features = np.array([0, 3]), np.zeros(1, np.int32)
    counts = np.array([10, 10, 0])
    informed = np.array([[-40, 20], [40, 20], [0, 0]])
    empty = np.array([[-3, 0], [3, 0], [0, 0]])
    how = [Quantization(1.0, 1.0, False, 0, 2)] * 2
    rules = make_rules(min_sum_hessian_in_leaf=5.0, lambda_l2=0.0)
    args = counts, offsets, np.zeros(1, bool)
    found, _ = best_output_split(np.stack([informed, empty]), *args, how, rules, features)
    assert found["gain"] == 2 * 40**2 / 20 + 2 * 3**2 / 5  # as if it had the least that a leaf may have
    alone, _ = best_output_split(np.stack([empty, empty]), *args, how, rules, features)
    assert alone["gain"] == -np.inf  # no side is heavy enough for any


def test_rows_are_counted_by_hessians_where_these_tell():
    ones, others, zeros = (Quantization(1.0, 1.0, False, low, high) for low, high in ((1, 1), (2, 9), (0, 9)))
    assert find_counter([others, ones], 20) == 1
    assert find_counter([others, zeros], 20) == 2
    assert find_counter([zeros, others], 1) == 1
    assert find_counter([zeros, zeros], 1) == 2
    assert OutputsRoot(5, np.zeros((2, 2), np.int64), (others, zeros), 2).n_histograms == 3
    assert OutputsRoot(5, np.zeros((2, 2), np.int64), (others, ones), 1).n_histograms == 2
