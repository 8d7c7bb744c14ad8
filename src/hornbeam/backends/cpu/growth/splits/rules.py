"""The rules of a split as kernels take them, and the gain of one candidate: twins of trees/splitting.py."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, get_type_hints

import numpy as np

from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel
from hornbeam.backends.cpu.losses.random_choices import random_bits
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.splitting import ROUNDING_NOISE, SplitRules

LARGEST_EXTRA = 2.0**50
"""Limit of lambda_l2 in fixed-point units for scores of 32 bits, so that no product leaves the range of float32."""

NO_COSTS = np.empty((0, 0))
"""Splits cost nothing: see cost_of."""

CERTAIN = 1 << 62
"""No sum of hessians is as large: see core/fixed_point.py."""


class Rules(NamedTuple):
    """The parameters that a split must honour, and the units of one tree's fixed-point sums.

    lambda_l1 ... monotone  see SplitRules
    scores_outputs          see SplitRules
    extra_trees             one random candidate a node and feature, in contexts
    gradient_unit, hessian_unit, rows_are_hessians   see Quantization; every row has a fixed-point hessian of 1
    tells_empty             every row has a hessian, so that a bin without one is empty
    few, many               a side with a hessian below `few` has certainly too few rows, one above `many` enough
    scale, extra            a score times `scale`, and lambda_l2, in fixed-point units
    by_products, by_scores  products bound the gains of candidates, and so do scores of 32 bits (candidates.py)
    """

    lambda_l1: float
    lambda_l2: float
    max_delta_step: float
    min_gain: float
    min_data: int
    min_hessian: float
    path_smooth: float
    monotone: bool
    scores_outputs: bool
    extra_trees: bool
    gradient_unit: float
    hessian_unit: float
    rows_are_hessians: bool
    tells_empty: bool
    few: int
    many: int
    scale: float
    extra: float
    by_products: bool
    by_scores: bool

    @classmethod
    def of(cls, rules: SplitRules, quantization: Quantization, in_context: bool = False) -> Rules:
        """Put the rules of a training and the rounding of a tree into numbers; in_context: nodes have contexts."""
        if not in_context and (rules.outputs_in_context or rules.extra_trees):
            rules = replace(rules, path_smooth=0.0, monotone=False, extra_trees=False)
        unit_g, unit_h = np.float64(quantization.gradient_unit), np.float64(quantization.hessian_unit)
        least, most = quantization.hessian_min, quantization.hessian_max
        with np.errstate(all="ignore"):
            scale, extra = float(unit_h / (unit_g * unit_g)), float(rules.lambda_l2 / unit_h)
        is_plain = rules.lambda_l1 == 0.0 and not (rules.max_delta_step > 0.0 or rules.path_smooth > 0.0)
        is_plain &= 1e-200 < scale < 1e200
        return cls(
            rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, rules.min_gain_to_split, rules.min_data_in_leaf,
            rules.min_sum_hessian_in_leaf, rules.path_smooth, rules.monotone, rules.scores_outputs, rules.extra_trees,
            float(unit_g), float(unit_h), least == most == 1, least > 0,
            min(max(1, rules.min_data_in_leaf * least), CERTAIN), min((rules.min_data_in_leaf - 1) * most, CERTAIN),
            scale, extra, is_plain and extra < 1e100, is_plain and extra < LARGEST_EXTRA,
        )  # fmt: skip


RULES = np.dtype([(name, np.dtype(kind)) for name, kind in get_type_hints(Rules).items()], align=True)
"""Rules in memory."""


@inner_kernel
def rules_in(record):
    """Read rules from a record of RULES."""
    return Rules(
        record.lambda_l1, record.lambda_l2, record.max_delta_step, record.min_gain, record.min_data, record.min_hessian,
        record.path_smooth, record.monotone, record.scores_outputs, record.extra_trees, record.gradient_unit,
        record.hessian_unit, record.rows_are_hessians, record.tells_empty, record.few, record.many, record.scale,
        record.extra, record.by_products, record.by_scores,
    )  # fmt: skip


@inner_kernel
def set_units(rules, gradient_unit, hessian_unit, least, most):
    """Enter the rounding of a tree into rules: twin of Rules.of, which has entered those of the training.

    rules        RULES ()  in out
    least, most  bounds of a row's hessian: see Quantization
    """
    scale, extra = hessian_unit / (gradient_unit * gradient_unit), rules.lambda_l2 / hessian_unit
    plain = rules.lambda_l1 == 0.0 and not rules.scores_outputs and 1e-200 < scale < 1e200
    rules.gradient_unit, rules.hessian_unit, rules.scale, rules.extra = gradient_unit, hessian_unit, scale, extra
    rules.rows_are_hessians, rules.tells_empty = least == 1 and most == 1, least > 0
    rules.few = min(max(1, rules.min_data * least), CERTAIN)
    rules.many = min((rules.min_data - 1) * most, CERTAIN)
    rules.by_products, rules.by_scores = plain and extra < 1e100, plain and extra < LARGEST_EXTRA


@inlined
def can_split(n_rows, hessian, depth, max_depth, rules):
    """Twin of splitting.can_split."""
    return depth < max_depth and n_rows >= 2 * rules.min_data and hessian > 1


@inlined
def shrink(gradient, lambda_l1):
    """Twin of splitting.soft_threshold."""
    if gradient > lambda_l1:
        return gradient - lambda_l1
    if gradient < -lambda_l1:
        return gradient + lambda_l1
    return 0.0


@inlined
def leaf_score(gradient, hessian, lambda_l1, lambda_l2, max_delta_step):
    """Twin of splitting.leaf_score."""
    weight = hessian + lambda_l2
    if weight <= 0.0:
        return 0.0
    shrunk = gradient if lambda_l1 == 0.0 else shrink(gradient, lambda_l1)
    if max_delta_step > 0.0:
        output = min(max(-shrunk / weight, -max_delta_step), max_delta_step)
        return -(2.0 * shrunk * output + weight * output * output)
    return shrunk * shrunk / weight


@inlined
def score_of_output(gradient, hessian, output, lambda_l1, lambda_l2):
    """Twin of splitting.given_score."""
    weight = hessian + lambda_l2
    if not weight > 0.0:
        return 0.0
    return -(2.0 * shrink(gradient, lambda_l1) * output + weight * output * output)


@inner_kernel
def enter_node(call, begin, end, depth, gradient, hessian, rules):
    """Enter a node without a context into a CALL (operations.py)."""
    g, h = gradient * rules.gradient_unit, hessian * rules.hessian_unit
    call.begin, call.end, call.depth, call.gradient, call.hessian = begin, end, depth, gradient, hessian
    call.score = leaf_score(g, h, rules.lambda_l1, rules.lambda_l2, rules.max_delta_step)
    call.lower, call.upper, call.output, call.factor, call.key, call.context, call.side_bounds = (
        -np.inf, np.inf, 0.0, 1.0, np.uint64(0), 0, 0,
    )  # fmt: skip


@inlined
def newton_step(gradient, hessian, rules, more_l2):
    """Twin of splitting.leaf_output, but for the sign of a zero."""
    weight = hessian + (rules.lambda_l2 + more_l2)
    output = -shrink(gradient, rules.lambda_l1) / weight if weight > 0.0 else 0.0
    if rules.max_delta_step > 0.0:
        output = min(max(output, -rules.max_delta_step), rules.max_delta_step)
    return output


@inner_kernel
def side_output(gradient, hessian, n_rows, node, rules, more_l2):
    """Twin of splitting.node_output."""
    output = newton_step(gradient, hessian, rules, more_l2)
    if rules.path_smooth > 0.0:
        share = np.float64(n_rows) / rules.path_smooth
        output = output * share / (share + 1.0) + node.output / (share + 1.0)
    if rules.monotone:
        output = output if output > node.lower else node.lower
        output = output if output < node.upper else node.upper
    return output


@inner_kernel
def candidate_gain(left_g, left_h, left_rows, right_rows, node, rules, sign, factor, more_l2):
    """Return the gain of one candidate, -inf if it is not allowed: twin of splitting.candidate_gains.

    left_g, left_h  fixed-point sums of the left side
    sign, factor    of the feature in this node
    more_l2         added to lambda_l2
    """
    return gain_between(left_g, left_h, left_rows, right_rows, node, node, node, rules, sign, factor, more_l2)


@inner_kernel
def gain_between(left_g, left_h, left_rows, right_rows, node, left, right, rules, sign, factor, more_l2):
    """Return the same where each side has bounds of its own; left, right: the node with these."""
    right_g, right_h = node.gradient - left_g, node.hessian - left_h
    if left_rows < rules.min_data or right_rows < rules.min_data or left_h <= 0 or right_h <= 0:
        return -np.inf
    left_weight, right_weight = left_h * rules.hessian_unit, right_h * rules.hessian_unit
    if not (left_weight >= rules.min_hessian and right_weight >= rules.min_hessian):
        return -np.inf
    left_sum, right_sum = left_g * rules.gradient_unit, right_g * rules.gradient_unit
    l1, l2 = rules.lambda_l1, rules.lambda_l2 + more_l2
    if rules.scores_outputs:
        left_output = side_output(left_sum, left_weight, left_rows, left, rules, more_l2)
        right_output = side_output(right_sum, right_weight, right_rows, right, rules, more_l2)
        if (sign > 0 and not left_output <= right_output) or (sign < 0 and not left_output >= right_output):
            return -np.inf
        score = score_of_output(left_sum, left_weight, left_output, l1, l2)
        score += score_of_output(right_sum, right_weight, right_output, l1, l2)
    else:
        score = leaf_score(left_sum, left_weight, l1, l2, 0.0) + leaf_score(right_sum, right_weight, l1, l2, 0.0)
    gain = score - node.score
    if not (gain > rules.min_gain and gain > score * ROUNDING_NOISE):
        return -np.inf
    if factor != 1.0:
        gain = rules.min_gain + (gain - rules.min_gain) * factor
        if not gain > rules.min_gain:
            return -np.inf
    return gain


@inner_kernel
def random_threshold(key, feature, n_values, has_missing):
    """Twin of splitting.random_threshold."""
    n_choices = np.uint64(max(1, n_values if has_missing else n_values - 1))
    bits = random_bits(key, np.uint64(feature))
    return np.int64(((bits >> np.uint64(32)) * n_choices) >> np.uint64(32))


@inner_kernel
def is_allowed(mask, number):
    """Say whether a mask (NodeContext.mask, one node's) has a feature."""
    return (mask[number // 32] >> np.uint32(number % 32)) & np.uint32(1) != 0


@inner_kernel
def cost_of(costs, context, number):
    """Return what a split by a feature costs in a context: float64 (n_contexts, n_used), no columns where all is free.

    See NodeContext.bar.
    """
    return costs[context, number] if costs.shape[1] > 0 else 0.0


@inlined
def is_better(split, other):
    """Say whether a SPLIT is taken rather than another one: of equal gains that of the first feature."""
    return split.gain > other.gain or (split.gain == other.gain and split.feature < other.feature)


@inlined
def clear_split(split):
    """Write that there is no split."""
    split.gain, split.feature, split.bin, split.missing_left = -np.inf, -1, -1, False
    split.left_gradient, split.left_hessian = 0, 0


@inlined
def copy_split(split, to):
    """Write one SPLIT to another."""
    to.gain, to.feature, to.bin, to.missing_left = split.gain, split.feature, split.bin, split.missing_left
    to.left_gradient, to.left_hessian = split.left_gradient, split.left_hessian
