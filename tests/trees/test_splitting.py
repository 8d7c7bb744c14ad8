"""The best split: against brute force over rows, and the rules that a split must honour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.core.fixed_point import Quantization, round_gradients
from hornbeam.params.params import Params
from hornbeam.testing.checks import PLAIN_RULES
from hornbeam.testing.data import make_binned
from hornbeam.trees.splitting import SplitRules, best_split, leaf_output, leaf_score, soft_threshold

UNITS = Quantization(1.0, 1.0, False, 0, 1 << 20)


def histograms(bins, n_value_bins, g, h):
    """Sum rows per bin, one row at a time; returns histogram, counts, offsets."""
    offsets = np.concatenate([[0], np.cumsum(np.asarray(n_value_bins, np.int64) + 1)])
    histogram, counts = np.zeros((offsets[-1], 2), np.int64), np.zeros(offsets[-1], np.int64)
    for row in range(len(bins)):
        for feature in range(len(n_value_bins)):
            entry = offsets[feature] + bins[row, feature]
            histogram[entry] += g[row], h[row]
            counts[entry] += 1
    return histogram, counts, offsets


def output_of(g: float, h: float, rules: SplitRules) -> float:
    shrunk = np.sign(g) * max(abs(g) - rules.lambda_l1, 0.0)
    output = -shrunk / (h + rules.lambda_l2)
    return float(np.clip(output, -rules.max_delta_step, rules.max_delta_step)) if rules.max_delta_step > 0 else output


def objective_of(g: float, h: float, rules: SplitRules) -> float:
    """Twice the loss reduction of a leaf: -(2 g o + (h + l2) o^2 + 2 l1 |o|), from the definition of the penalties."""
    o = output_of(g, h, rules)
    return -(2.0 * g * o + (h + rules.lambda_l2) * o * o + 2.0 * rules.lambda_l1 * abs(o))


def brute_force(bins, n_value_bins, has_missing, g, h, how: Quantization, rules: SplitRules):
    """Try every split on the rows themselves, in floats; returns {(feature, bin, missing_left): gain}."""
    g, h = g * how.gradient_unit, h * how.hessian_unit
    parent = objective_of(g.sum(), h.sum(), rules)
    gains = {}
    for feature, n_values in enumerate(n_value_bins):
        codes = bins[:, feature]
        for bin_ in range(n_values):
            for missing_left in (True, False) if has_missing[feature] else (True,):
                left = np.where(codes == n_values, missing_left and has_missing[feature], codes <= bin_)
                if min(left.sum(), (~left).sum()) < rules.min_data_in_leaf:
                    continue
                sides = [(g[side].sum(), h[side].sum()) for side in (left, ~left)]
                if min(weight for _, weight in sides) < max(rules.min_sum_hessian_in_leaf, 1e-300):
                    continue
                gain = sum(objective_of(*side, rules) for side in sides) - parent
                if gain > rules.min_gain_to_split:
                    gains[feature, bin_, missing_left] = gain
    return gains


RULES = {
    "plain": PLAIN_RULES,
    "min_data": replace(PLAIN_RULES, min_data_in_leaf=25),
    "min_hessian": replace(PLAIN_RULES, min_sum_hessian_in_leaf=4.0),
    "l1": replace(PLAIN_RULES, lambda_l1=4.0),
    "l2": replace(PLAIN_RULES, lambda_l2=5.0),
    "max_delta_step": replace(PLAIN_RULES, max_delta_step=0.5),
    "min_gain": replace(PLAIN_RULES, min_gain_to_split=300.0),
    "all": SplitRules(1.0, 2.0, 1.5, 0.1, 5, 1.0),
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("missing_fraction", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_best_split_equals_brute_force_over_rows(rules, missing_fraction, seed):
    sample = make_binned(150, 4, 9, missing_fraction, seed)
    g, h, how = round_gradients(sample.gradient, sample.hessian)
    histogram, counts, offsets = histograms(sample.bins, sample.n_value_bins, g, h)
    found = best_split(histogram, counts, offsets, sample.has_missing, how, rules)
    gains = brute_force(sample.bins, sample.n_value_bins, sample.has_missing, g, h, how, rules)
    if not gains:
        assert found["gain"] == -np.inf
        return
    best = max(gains.values())
    assert found["gain"] == pytest.approx(best, rel=1e-9)
    key = int(found["feature"]), int(found["bin"]), bool(found["missing_left"])
    assert gains[key] == pytest.approx(best, rel=1e-9)
    codes, n_values = sample.bins[:, key[0]], sample.n_value_bins[key[0]]
    left = np.where(codes == n_values, key[2], codes <= key[1])
    assert (found["left_gradient"], found["left_hessian"]) == (g[left].sum(), h[left].sum())


def split_of(rows, n_value_bins, has_missing, rules=PLAIN_RULES):
    """rows: (codes..., gradient, hessian) of each row, all integers."""
    table = np.array(rows, np.int64)
    histogram, counts, offsets = histograms(table[:, :-2], n_value_bins, table[:, -2], table[:, -1])
    return best_split(histogram, counts, offsets, np.array(has_missing), UNITS, rules)


@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 3, st.integers(-2, 2), st.integers(0, 2)), min_size=2, max_size=12),
    st.integers(1, 3),
)
def test_ties_go_to_the_lower_feature_then_the_lower_bin_then_missing_left(rows, min_data):
    """Integers this small make all float operations of equal splits equal, so the first maximum is the rule."""
    rules = replace(PLAIN_RULES, min_data_in_leaf=min_data)
    table = np.array(rows, np.int64)
    g, h = table[:, -2], table[:, -1]
    parent = leaf_score(np.float64(g.sum()), np.float64(h.sum()), rules)
    best, expected = -np.inf, None
    for feature in range(3):
        codes = table[:, feature]
        has_missing = (codes == 3).any()
        for bin_ in range(3):
            for missing_left in (True, False) if has_missing else (True,):
                left = np.where(codes == 3, missing_left, codes <= bin_)
                sums = [(np.float64(g[side].sum()), np.float64(h[side].sum())) for side in (left, ~left)]
                if min(left.sum(), (~left).sum()) < min_data or min(weight for _, weight in sums) <= 0.0:
                    continue
                score = leaf_score(*sums[0], rules) + leaf_score(*sums[1], rules)
                gain = score - parent
                if gain > 0.0 and gain > score * 2.0**-40 and gain > best:
                    best, expected = gain, (feature, bin_, missing_left)
    found = split_of(rows, [3, 3, 3], [(table[:, f] == 3).any() for f in range(3)], rules)
    assert found["gain"] == best
    if expected is not None:
        assert (int(found["feature"]), int(found["bin"]), bool(found["missing_left"])) == expected


def test_equal_features_tie_to_the_first():
    found = split_of([(0, 0, 1, 1), (1, 1, -1, 1)], [2, 2], [False, False])
    assert (found["feature"], found["bin"]) == (0, 0)


def test_empty_bins_tie_to_the_lowest():
    found = split_of([(0, 1, 1), (4, -1, 1)], [5], [False])
    assert found["bin"] == 0


def test_missing_goes_left_where_that_gains():
    found = split_of([(0, 4, 1), (1, -4, 1), (2, 4, 1)], [2], [True])
    assert (found["bin"], found["missing_left"]) == (0, True)
    found = split_of([(0, 4, 1), (1, -4, 1), (2, -4, 1)], [2], [True])
    assert (found["bin"], found["missing_left"]) == (0, False)


def test_missing_alone_can_be_split_off():
    found = split_of([(0, 4, 1), (1, 4, 1), (2, -4, 1)], [2], [True])
    assert found["gain"] > 0
    assert (found["left_gradient"], found["left_hessian"], found["missing_left"]) in [(8, 2, False), (-4, 1, True)]


def test_feature_without_missing_values_reports_missing_left():
    assert split_of([(0, 1, 1), (1, -1, 1)], [2], [False])["missing_left"]


def test_node_of_one_row_or_of_equal_rows_has_no_split():
    assert split_of([(0, 1, 1)], [2], [False])["gain"] == -np.inf
    assert split_of([(0, 1, 1), (0, -1, 1)], [2], [False])["gain"] == -np.inf
    assert split_of([(0, 1, 1), (1, 1, 1)], [2], [False])["gain"] == -np.inf


def test_children_without_hessian_are_not_made():
    assert split_of([(0, 1, 0), (1, -1, 1)], [2], [False])["gain"] == -np.inf


def test_min_data_counts_rows_and_not_hessians():
    rows = [(0, 3, 9), (1, -3, 9), (1, -3, 9)]
    assert split_of(rows, [2], [False], replace(PLAIN_RULES, min_data_in_leaf=1))["gain"] > 0
    assert split_of(rows, [2], [False], replace(PLAIN_RULES, min_data_in_leaf=2))["gain"] == -np.inf


def test_min_gain_is_exclusive_and_min_hessian_inclusive():
    rows = [(0, 1, 1), (1, -1, 1)]  # gain 2, hessian 1 on each side
    assert split_of(rows, [2], [False])["gain"] == 2.0
    assert split_of(rows, [2], [False], replace(PLAIN_RULES, min_gain_to_split=2.0))["gain"] == -np.inf
    assert split_of(rows, [2], [False], replace(PLAIN_RULES, min_gain_to_split=1.999))["gain"] == 2.0
    assert split_of(rows, [2], [False], replace(PLAIN_RULES, min_sum_hessian_in_leaf=1.0))["gain"] == 2.0
    assert split_of(rows, [2], [False], replace(PLAIN_RULES, min_sum_hessian_in_leaf=1.001))["gain"] == -np.inf


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e6), st.floats(0.0, 10.0), st.floats(0.0, 10.0), st.floats(0.0, 2.0))
def test_output_is_within_max_delta_step_and_of_the_right_sign(g, h, l1, l2, step):
    rules = replace(PLAIN_RULES, lambda_l1=l1, lambda_l2=l2, max_delta_step=step)
    output = float(leaf_output(np.array([g]), np.array([h]), rules)[0])
    assert np.isfinite(output) or h + l2 < 1e-290
    assert output * g <= 0.0
    assert not np.signbit(output) or output < 0.0  # never -0.0
    if step > 0.0:
        assert abs(output) <= step
    if abs(g) <= l1:
        assert output == 0.0


@given(st.floats(-100.0, 100.0), st.floats(0.01, 100.0), st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(0.01, 2.0))
def test_score_of_an_output_that_is_not_clipped_does_not_depend_on_the_clip(g, h, l1, l2, step):
    rules = replace(PLAIN_RULES, lambda_l1=l1, lambda_l2=l2)
    clipped = replace(rules, max_delta_step=step)
    g, h = np.array([g]), np.array([h])
    free, bounded = leaf_score(g, h, rules)[0], leaf_score(g, h, clipped)[0]
    assert bounded <= free * (1.0 + 1e-12) + 1e-12
    if abs(leaf_output(g, h, rules)[0]) < step:
        assert bounded == pytest.approx(free, rel=1e-9, abs=1e-12)


def test_outputs_and_scores_without_hessian_are_zero():
    for rules in (PLAIN_RULES, replace(PLAIN_RULES, max_delta_step=1.0)):
        assert leaf_output(np.array([3.0]), np.array([0.0]), rules).tolist() == [0.0]
        assert leaf_score(np.array([3.0]), np.array([0.0]), rules).tolist() == [0.0]


def test_soft_threshold_shrinks_towards_zero():
    assert soft_threshold(np.array([-3.0, -1.0, 0.0, 1.0, 3.0]), 1.0).tolist() == [-2.0, 0.0, 0.0, 0.0, 2.0]


def test_rules_come_from_the_parameters():
    params = Params.from_dict({"reg_alpha": 1, "reg_lambda": 2, "gamma": 3, "min_child_weight": 4, "max_delta_step": 5})
    assert SplitRules.from_params(params) == SplitRules(1.0, 2.0, 5.0, 3.0, 20, 4.0)
    assert SplitRules.from_params(Params.from_dict({"min_data_in_leaf": 0})).min_data_in_leaf == 1
