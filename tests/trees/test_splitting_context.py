"""The best split of a node with a context: against brute force over rows, and what each part of the context does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.core.fixed_point import Quantization, round_gradients
from hornbeam.testing.checks import PLAIN_RULES
from hornbeam.testing.data import make_binned
from hornbeam.trees.splitting import (
    FeatureRules,
    NodeContext,
    best_split,
    node_output,
    node_score,
    pack_mask,
    random_threshold,
)

UNITS = Quantization(1.0, 1.0, False, 0, 1 << 20)


def histograms(bins, n_value_bins, g, h):
    """Sum rows per bin; returns histogram, counts, offsets."""
    offsets = np.concatenate([[0], np.cumsum(np.asarray(n_value_bins, np.int64) + 1)])
    histogram, counts = np.zeros((offsets[-1], 2), np.int64), np.zeros(offsets[-1], np.int64)
    for feature in range(len(n_value_bins)):
        np.add.at(histogram, offsets[feature] + bins[:, feature], np.stack([g, h], axis=1))
        np.add.at(counts, offsets[feature] + bins[:, feature], 1)
    return histogram, counts, offsets


def context_of(n_used, *, lower=-np.inf, upper=np.inf, output=0.0, score=0.0, factor=1.0, key=7, **features):
    """Return the context of one node; by default it changes nothing."""
    rules = FeatureRules(
        np.array(features.get("sign", [0] * n_used), np.int8),
        np.array(features.get("contribution", [1.0] * n_used), np.float64),
    )
    allowed = np.array(features.get("allowed", [True] * n_used))
    one = [np.array([value], np.float64) for value in (lower, upper, output, score, factor)]
    return NodeContext(*one, np.array([key], np.uint64), pack_mask(allowed[None]), rules)


def expected_gains(sample, g, h, how, rules, context):
    """Try every split on the rows themselves, by the formulas as LightGBM's documentation states them."""
    g, h = g * how.gradient_unit, h * how.hessian_unit
    parent_output, lower, upper = context.parent_output[0], context.lower[0], context.upper[0]

    def output(side):
        value = -np.sign(g[side].sum()) * max(abs(g[side].sum()) - rules.lambda_l1, 0.0)
        value /= h[side].sum() + rules.lambda_l2
        if rules.max_delta_step > 0.0:
            value = np.clip(value, -rules.max_delta_step, rules.max_delta_step)
        if rules.path_smooth > 0.0:
            weight = side.sum() / rules.path_smooth
            value = value * weight / (weight + 1.0) + parent_output / (weight + 1.0)
        return np.clip(value, lower, upper) if rules.monotone else value

    def score(side):
        o = output(side)
        return -(
            2.0 * g[side].sum() * o + (h[side].sum() + rules.lambda_l2) * o * o + 2.0 * rules.lambda_l1 * abs(o)
        )  # the loss with its penalties

    gains = {}
    for feature, n_values in enumerate(sample.n_value_bins):
        if not context.allows(0, feature):
            continue
        codes, missing = sample.bins[:, feature], bool(sample.has_missing[feature])
        sign = context.features.sign[feature]
        factor = context.features.contribution[feature] * (context.monotone_factor[0] if sign else 1.0)
        bins = range(n_values)
        if rules.extra_trees:
            bins = [random_threshold(context.key[0], feature, n_values, missing)]
        for bin_ in bins:
            for missing_left in (True, False) if missing else (True,):
                left = np.where(codes == n_values, missing_left and missing, codes <= bin_)
                if min(left.sum(), (~left).sum()) < rules.min_data_in_leaf:
                    continue
                if sign * (output(~left) - output(left)) < 0:
                    continue
                gain = score(left) + score(~left) - context.score[0]
                if gain > max(rules.min_gain_to_split, 1e-9):
                    gain = rules.min_gain_to_split + (gain - rules.min_gain_to_split) * factor
                    if gain > rules.min_gain_to_split:
                        gains[feature, bin_, missing_left] = gain
    return gains


RULES = {
    "mask alone": PLAIN_RULES,
    "min_data": replace(PLAIN_RULES, min_data_in_leaf=25),
    "path_smooth": replace(PLAIN_RULES, path_smooth=20.0),
    "monotone": replace(PLAIN_RULES, monotone=True),
    "extra_trees": replace(PLAIN_RULES, extra_trees=True),
    "min_gain": replace(PLAIN_RULES, min_gain_to_split=3.0),
    "all": replace(
        PLAIN_RULES, monotone=True, path_smooth=5.0, max_delta_step=1.0, lambda_l2=2.0, min_gain_to_split=0.1
    ),
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("missing_fraction", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_best_split_in_context_equals_brute_force_over_rows(rules, missing_fraction, seed):
    rng = np.random.default_rng(seed)
    sample = make_binned(150, 5, 9, missing_fraction, seed)
    g, h, how = round_gradients(sample.gradient, sample.hessian)
    sums = np.array([g.sum() * how.gradient_unit]), np.array([h.sum() * how.hessian_unit])
    own = node_output(*sums, np.array([150]), 0.1, -0.4, 0.5, rules)
    context = context_of(
        5,
        lower=-0.4,
        upper=0.5,
        output=own[0],
        score=node_score(*sums, np.array([150]), own, rules)[0],
        factor=0.7,
        key=int(rng.integers(2**63)),
        sign=rng.integers(-1, 2, 5) if rules.monotone else [0] * 5,
        contribution=rng.choice([0.5, 1.0, 2.0], 5),
        allowed=[True, *(rng.random(4) < 0.7)],
    )
    histogram, counts, offsets = histograms(sample.bins, sample.n_value_bins, g, h)
    found = best_split(histogram, counts, offsets, sample.has_missing, how, rules, context)
    gains = expected_gains(sample, g, h, how, rules, context)
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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("step", [0.0, 0.3])
def test_context_that_changes_nothing_changes_no_bit(seed, step):
    rules = replace(PLAIN_RULES, lambda_l1=0.2, lambda_l2=0.7, min_data_in_leaf=5, max_delta_step=step)
    sample = make_binned(200, 6, 15, 0.2, seed)
    g, h, how = round_gradients(sample.gradient, sample.hessian)
    histogram, counts, offsets = histograms(sample.bins, sample.n_value_bins, g, h)
    sums = np.array([g.sum() * how.gradient_unit]), np.array([h.sum() * how.hessian_unit])
    context = context_of(6, score=node_score(*sums, np.array([200]), np.zeros(1), rules)[0])
    plain = best_split(histogram, counts, offsets, sample.has_missing, how, rules)
    assert best_split(histogram, counts, offsets, sample.has_missing, how, rules, context) == plain


def split_of(rows, rules, context):
    """rows: (codes..., gradient, hessian) of each row, all integers; two bins a feature and none missing."""
    table = np.array(rows, np.int64)
    n_used = table.shape[1] - 2
    histogram, counts, offsets = histograms(table[:, :-2], [2] * n_used, table[:, -2], table[:, -1])
    return best_split(histogram, counts, offsets, np.zeros(n_used, bool), UNITS, rules, context)


TWO_ALIKE = [(0, 0, 1, 1), (1, 1, -1, 1)]  # outputs -1 and 1: they rise with both features
MONOTONE = replace(PLAIN_RULES, monotone=True)


def test_mask_leaves_features_out():
    assert split_of(TWO_ALIKE, PLAIN_RULES, context_of(2))["feature"] == 0
    assert split_of(TWO_ALIKE, PLAIN_RULES, context_of(2, allowed=[False, True]))["feature"] == 1
    assert split_of(TWO_ALIKE, PLAIN_RULES, context_of(2, allowed=[False, False]))["gain"] == -np.inf


def test_sign_forbids_the_wrong_direction_but_not_equal_outputs():
    assert split_of(TWO_ALIKE, MONOTONE, context_of(2, sign=[1, 0]))["feature"] == 0
    assert split_of(TWO_ALIKE, MONOTONE, context_of(2, sign=[-1, 0]))["feature"] == 1
    assert split_of(TWO_ALIKE, MONOTONE, context_of(2, sign=[-1, -1]))["gain"] == -np.inf
    clipped = context_of(2, sign=[-1, -1], lower=0.25, upper=0.25, score=-10.0)
    assert split_of(TWO_ALIKE, MONOTONE, clipped)["feature"] == 0  # both sides are held at 0.25


def test_bounds_lower_the_gain():
    free = split_of(TWO_ALIKE, MONOTONE, context_of(2))["gain"]
    held = split_of(TWO_ALIKE, MONOTONE, context_of(2, lower=-0.5, upper=0.5))["gain"]
    assert (free, held) == (2.0, 1.5)


def test_contribution_multiplies_the_gain_and_zero_forbids():
    assert split_of(TWO_ALIKE, PLAIN_RULES, context_of(2, contribution=[0.5, 0.75]))["feature"] == 1
    assert split_of(TWO_ALIKE, PLAIN_RULES, context_of(2, contribution=[0.5, 0.75]))["gain"] == 1.5
    assert split_of(TWO_ALIKE, PLAIN_RULES, context_of(2, contribution=[0.0, 0.0]))["gain"] == -np.inf


def test_monotone_factor_touches_features_with_a_sign_alone():
    found = split_of(TWO_ALIKE, MONOTONE, context_of(2, sign=[1, 0], factor=0.5))
    assert (found["feature"], found["gain"]) == (1, 2.0)
    assert split_of(TWO_ALIKE, MONOTONE, context_of(2, sign=[1, 1], factor=0.5))["gain"] == 1.0


def test_smoothing_pulls_outputs_to_the_parent():
    rules = replace(PLAIN_RULES, path_smooth=10.0)
    sums, parent = (np.array([-8.0]), np.array([4.0])), 0.5  # output 2 by itself
    outputs = [node_output(*sums, np.array([rows]), parent, -np.inf, np.inf, rules)[0] for rows in (1, 10, 1000)]
    assert outputs == sorted(outputs)
    assert outputs[1] == pytest.approx(1.25)  # ten rows count as much as the parent
    assert parent < outputs[0] < 0.7
    assert 1.9 < outputs[2] < 2.0


@given(st.integers(0, 2**64 - 1), st.integers(0, 5000), st.integers(1, 300), st.booleans())
def test_random_threshold_is_a_bin_that_can_split(key, feature, n_values, has_missing):
    bin_ = random_threshold(np.uint64(key), feature, n_values, has_missing)
    assert 0 <= bin_ <= max(0, n_values - 1 - (not has_missing))


def test_random_thresholds_reach_every_bin():
    seen = {random_threshold(np.uint64(key), 3, 10, False) for key in range(300)}
    assert seen == set(range(9))
    assert {random_threshold(np.uint64(key), 3, 10, True) for key in range(300)} == set(range(10))


@pytest.mark.parametrize("n_used", [1, 31, 32, 33, 100])
def test_mask_words_hold_every_feature(n_used):
    allowed = np.random.default_rng(n_used).random((3, n_used)) < 0.5
    words = pack_mask(allowed)
    assert words.shape == (3, -(-n_used // 32))
    context = replace(context_of(n_used), mask=words)
    for node in range(3):
        assert [context.allows(node, feature) for feature in range(n_used)] == allowed[node].tolist()
