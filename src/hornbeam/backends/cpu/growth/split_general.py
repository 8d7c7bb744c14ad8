"""Best splits of nodes with a context on the CPU: twin of splitting.best_split with a NodeContext.

Plain where split.py is quick: every candidate of every allowed feature gets its gain by the one formula of
`splitting.candidate_gains`. Rows are counted, one feature at a time, where they matter: always for path smoothing, else
where the bounds of a row's hessian leave `min_data_in_leaf` open for a candidate that would win.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.growth.split import leaf_score
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.losses.random_choices import random_bits
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import ROUNDING_NOISE, NodeContext, SplitRules, no_splits

BINS_PER_THREAD = 5_000
"""A second thread is worth waking for this many histogram bins, about 60 microseconds."""

NOT_COUNTED = np.empty((0, 0), np.int64)


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def shrink(gradient, lambda_l1):  # type: ignore[no-untyped-def]
    """Twin of splitting.soft_threshold."""
    if gradient > lambda_l1:
        return gradient - lambda_l1
    if gradient < -lambda_l1:
        return gradient + lambda_l1
    return 0.0


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def side_output(gradient, hessian, rows, node, rules):  # type: ignore[no-untyped-def]
    """Twin of splitting.node_output."""
    lambda_l1, lambda_l2, max_delta_step = rules[0], rules[1], rules[2]
    path_smooth, monotone = rules[6], rules[7]
    lower, upper, parent_output = node
    weight = hessian + lambda_l2
    output = -shrink(gradient, lambda_l1) / weight if weight > 0.0 else 0.0
    if max_delta_step > 0.0:
        output = min(max(output, -max_delta_step), max_delta_step)
    if path_smooth > 0.0:
        share = np.float64(rows) / path_smooth
        output = output * share / (share + 1.0) + parent_output / (share + 1.0)
    if monotone:
        output = output if output > lower else lower
        output = output if output < upper else upper
    return output


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def given_score(gradient, hessian, output, rules):  # type: ignore[no-untyped-def]
    """Twin of splitting.given_score."""
    weight = hessian + rules[1]
    if not weight > 0.0:
        return 0.0
    return -(2.0 * shrink(gradient, rules[0]) * output + weight * output * output)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def candidate_gain(left_g, left_h, right_g, right_h, left_rows, right_rows, parent, units, rules, node, sign, factor):  # type: ignore[no-untyped-def]
    """Return the gain of one candidate, -inf if it is not allowed: twin of splitting.candidate_gains.

    left_g, ... right_h  fixed-point sums
    parent               score of the node
    units                (gradient unit, hessian unit)
    rules                (lambda_l1, lambda_l2, max_delta_step, min_gain, min_data, min_hessian, path_smooth, monotone)
    node                 (lower, upper, parent_output)
    sign, factor         of the feature in this node
    """
    lambda_l1, lambda_l2, max_delta_step, min_gain, min_data, min_hessian, path_smooth, monotone = rules
    if left_rows < min_data or right_rows < min_data or left_h <= 0 or right_h <= 0:
        return -np.inf
    left_weight, right_weight = left_h * units[1], right_h * units[1]
    if not (left_weight >= min_hessian and right_weight >= min_hessian):
        return -np.inf
    left_sum, right_sum = left_g * units[0], right_g * units[0]
    if max_delta_step > 0.0 or path_smooth > 0.0 or monotone:
        left_output = side_output(left_sum, left_weight, left_rows, node, rules)
        right_output = side_output(right_sum, right_weight, right_rows, node, rules)
        if sign > 0 and not left_output <= right_output:
            return -np.inf
        if sign < 0 and not left_output >= right_output:
            return -np.inf
        score = given_score(left_sum, left_weight, left_output, rules) + given_score(
            right_sum, right_weight, right_output, rules
        )
    else:
        score = leaf_score(left_sum, left_weight, lambda_l1, lambda_l2, 0.0) + leaf_score(
            right_sum, right_weight, lambda_l1, lambda_l2, 0.0
        )
    gain = score - parent
    if not (gain > min_gain and gain > score * ROUNDING_NOISE):
        return -np.inf
    if factor != 1.0:
        gain = min_gain + (gain - min_gain) * factor
        if not gain > min_gain:
            return -np.inf
    return gain


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def random_threshold(key, feature, n_values, has_missing):  # type: ignore[no-untyped-def]
    """Twin of splitting.random_threshold."""
    n_choices = np.uint64(max(1, n_values if has_missing else n_values - 1))
    bits = random_bits(key, np.uint64(feature))
    return np.int64(((bits >> np.uint64(32)) * n_choices) >> np.uint64(32))


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_numeric(  # type: ignore[no-untyped-def]
    histogram, counts, how_counted, has_missing, total_g, total_h, n_rows, parent, units, rules, bounds, node, sign,
    factor, only,
):  # fmt: skip
    """Scan the bins of one feature of one node.

    histogram    int64 (n_values + 1, 2)   in  the missing bin last
    counts       int64 (n_values + 1,)     in  rows, where they were counted
    how_counted  0: by `counts`; 1: hessians are 1 each and count rows; 2: not, the bounds decide where they can
    bounds       (smallest, largest) fixed-point hessian of a row
    only         the one bin to try, or -1: all
    the rest     see candidate_gain

    Returns the best candidate (gain, bin, missing_left, left_g, left_h) whose rows are known to be enough, and the best
    gain among those whose rows would have to be counted.
    """
    n_values = len(histogram) - 1
    min_data = rules[4]
    best, best_bin, best_left, best_g, best_h, best_open = -np.inf, -1, False, np.int64(0), np.int64(0), -np.inf
    missing_g, missing_h = histogram[n_values, 0], histogram[n_values, 1]
    # where every row has a hessian, a bin without is empty: its candidate is that of the bin before, which wins the tie
    tells_empty = bounds[0] > 0
    n_sides = 2 if has_missing and not (tells_empty and missing_h == 0) else 1
    g, h, rows = np.int64(0), np.int64(0), np.int64(0)
    for b in range(n_values):
        g += histogram[b, 0]
        h += histogram[b, 1]
        if how_counted == 0:
            rows += counts[b]
        if b != only if only >= 0 else tells_empty and b > 0 and histogram[b, 1] == 0:
            continue
        for side in range(n_sides):
            # side 0: the missing rows go left; where there are none, the missing bin is empty
            left_g, left_h = (g, h) if side else (g + missing_g, h + missing_h)
            right_g, right_h = total_g - left_g, total_h - left_h
            certain = True
            if how_counted == 0:
                left_rows = rows if side else rows + counts[n_values]
                right_rows = n_rows - left_rows
            elif how_counted == 1:
                left_rows, right_rows = left_h, right_h
            else:  # rows that are known to be enough, or not to be, or to be counted
                if left_h < min_data * bounds[0] or right_h < min_data * bounds[0]:
                    continue
                certain = left_h > (min_data - 1) * bounds[1] and right_h > (min_data - 1) * bounds[1]
                left_rows, right_rows = np.int64(min_data), np.int64(min_data)
            gain = candidate_gain(
                left_g, left_h, right_g, right_h, left_rows, right_rows, parent, units, rules, node, sign, factor
            )
            if not certain:
                best_open = max(best_open, gain)
            elif gain > best:
                best, best_bin, best_left, best_g, best_h = gain, b, side == 0, left_g, left_h
    return best, best_bin, best_left, best_g, best_h, best_open


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def count_rows(bins, records, gather, begin, end, feature, counts):  # type: ignore[no-untyped-def]
    """Count the rows of each bin of a feature.

    counts  int64 (>= bins of the feature,)  out
    """
    counts[:] = 0
    for place in range(np.uint64(begin), np.uint64(end)):
        index = records[place, 0] & np.uint64(0xFFFFFFFF) if gather else place
        counts[np.uint64(bins[index, np.uint64(feature)])] += 1


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def general_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, histograms, slots, gradient, hessian, begin, end, depth, offsets,
    has_missing, numbers, units, rules, extra_trees, bounds, nodes, keys, mask, signs, contribution, counted, start,
    stop, best, found,
):  # fmt: skip
    """Find the best split of the (node, feature) pairs start:stop.

    numbers       int32 (n_used,)            in   what each feature is called in mask, signs and contribution
    nodes         float64 (n_nodes, 5)       in   lower, upper, parent_output, score, monotone_factor
    keys          uint64 (n_nodes,)          in
    mask          uint32 (n_nodes, n_words)  in
    signs         int8, contribution float64  in
    counted       int64 (n_nodes, n_total_bins)  in   rows of every bin, or (0, 0): counted here where they matter
    best          float64 (n_nodes, n_used)  out  gains; lower ones of a range may be missing
    found         SPLIT (n_nodes, n_used)    out
    """
    n_used = len(has_missing)
    most_bins = 1
    for f in range(n_used):
        most_bins = max(most_bins, offsets[f + 1] - offsets[f])
    counts = np.empty(most_bins, np.int64)
    path_smooth = rules[6]
    known = -np.inf
    for pair in range(start, stop):
        i, f = pair // n_used, pair % n_used
        best[i, f] = -np.inf
        number = numbers[f]
        if f == 0 or pair == start:
            known = -np.inf  # best gain of the node among the features seen: lower ones need not be counted
        if (mask[i, number // 32] >> np.uint32(number % 32)) & np.uint32(1) == 0:
            continue
        node = nodes[i, 0], nodes[i, 1], nodes[i, 2]
        sign, factor = signs[number], contribution[number]
        if sign != 0:
            factor = factor * nodes[i, 4]
        first, last = offsets[f], offsets[f + 1]
        n_values = last - first - 1
        only = random_threshold(keys[i], number, n_values, has_missing[f]) if extra_trees else -1
        how_counted = 2
        if bounds[0] == 1 and bounds[1] == 1:
            how_counted = 1
        elif path_smooth > 0.0 or len(counted) > 0:
            how_counted = 0
        source, records = bins_at(bins, bins_even, bins_odd, gather, depth[i]), records_at(even, odd, depth[i])
        if how_counted == 0 and len(counted) > 0:
            counts[: last - first] = counted[i, first:last]
        elif how_counted == 0:
            count_rows(source, records, gather, begin[i], end[i], f, counts)
        histogram = histograms[slots[i], first:last]
        n_rows = end[i] - begin[i]
        result = scan_numeric(
            histogram, counts, how_counted, has_missing[f], gradient[i], hessian[i], n_rows, nodes[i, 3], units, rules,
            bounds, node, sign, factor, only,
        )  # fmt: skip
        if result[5] > known and result[5] >= result[0]:
            count_rows(source, records, gather, begin[i], end[i], f, counts)
            result = scan_numeric(
                histogram, counts, 0, has_missing[f], gradient[i], hessian[i], n_rows, nodes[i, 3], units, rules,
                bounds, node, sign, factor, only,
            )  # fmt: skip
        known = max(known, result[0])
        best[i, f] = result[0]
        split = found[i, f]
        split.gain, split.feature, split.bin, split.missing_left = result[0], f, result[1], result[2]
        split.left_gradient, split.left_hessian = result[3], result[4]


def find_general(
    store: RowStore,
    histograms: NDArray[np.int64],
    nodes: Segments,
    slots: NDArray[np.int32],
    gradient: NDArray[np.int64],
    hessian: NDArray[np.int64],
    offsets: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
    numbers: NDArray[np.int32],
    quantization: Quantization,
    rules: SplitRules,
    context: NodeContext,
    n_threads: int,
    counted: NDArray[np.int64] = NOT_COUNTED,
) -> NDArray[np.void]:
    """See protocol.Engine.find_splits; offsets, has_missing, numbers and counted as in general_kernel."""
    n_nodes, n_used = len(slots), len(has_missing)
    none = no_splits(n_nodes)
    if n_used == 0 or n_nodes == 0:
        return none
    gains = np.empty((n_nodes, n_used))
    found = np.zeros((n_nodes, n_used), SPLIT)
    as_numbers = (
        rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, rules.min_gain_to_split, float(rules.min_data_in_leaf),
        rules.min_sum_hessian_in_leaf, rules.path_smooth, rules.monotone,
    )  # fmt: skip
    units = quantization.gradient_unit, quantization.hessian_unit
    bounds = float(quantization.hessian_min), float(quantization.hessian_max)
    in_context = np.stack(
        [context.lower, context.upper, context.parent_output, context.score, context.monotone_factor], axis=1
    )
    features = context.features
    bins_per_feature = max(1, int(offsets[-1]) // n_used)
    run_ranges(
        lambda start, stop: general_kernel(
            *store.arrays(), histograms, slots, gradient, hessian, nodes.begin, nodes.end, nodes.depth, offsets,
            has_missing, numbers, units, as_numbers, rules.extra_trees, bounds, in_context, context.key, context.mask,
            features.sign, features.contribution, counted, start, stop, gains, found,
        ),
        n_nodes * n_used, n_threads, smallest=BINS_PER_THREAD // bins_per_feature + 1,
    )  # fmt: skip
    winner = np.argmax(gains, axis=1)  # the lowest feature among equals
    index = np.arange(n_nodes)
    return np.where(gains[index, winner] > -np.inf, found[index, winner], none)
