"""Best splits from running sums: twin of splitting.best_split.

Where the |gradients| of a tree add up to less than 2**31 and its hessians to less than 2**32 (`LARGEST_GRADIENT_SUM`,
`LARGEST_HESSIAN_SUM`), so do those of every node and of every side of a split. A node's histogram is then kept as the
running sums of each feature in two planes of 32 bits, which is what a split search reads, eight bytes a bin:

    gradient  int32  (n_total_bins,)    bins of a feature up to this one, the missing bin last: there it is the total
    hessian   uint32 (n_total_bins,)

Where they are larger the planes are of 64 bits, int64 and uint64: wherever it says int32 and uint32 below.

Running sums subtract like histograms do. First every candidate is scored in float32, four or more at a time (`SCORED`
bounds the error); only candidates that may be the best get their gain computed, by the one formula of splitting.py, and
only features that may have it are looked at again, best first. So the float32 scores cannot be seen in the result.
Rows are counted where the bounds on a row's hessian leave `min_data_in_leaf` open, as in split.py.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hornbeam.backends.cpu.growth.split import MARGIN, leaf_score
from hornbeam.trees.splitting import ROUNDING_NOISE

LARGEST_GRADIENT_SUM = 2**31 - 1
LARGEST_HESSIAN_SUM = 2**32 - 1

SCORED = 1.0 - 1e-5
"""A score in float32 is a sum of positive terms, each of fewer than 16 roundings of 2**-24: wrong by 1e-6 at most."""

LARGEST_WIDE_SUM = 2**37
"""The same for planes of 64 bits, gradients and hessians, so that no product leaves the range of float32."""

LARGEST_EXTRA = 2.0**50
"""Limit of lambda_l2 in fixed-point units, so that no product leaves the range of float32."""

BY_SCORE = 16
"""Features of a node that are looked at in the order of their highest scores; each costs a look at all scores."""

ANYTHING = 1e-30
"""Less than any score of a candidate, more than the 0 of what is none."""


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def can_score(units, rules):  # type: ignore[no-untyped-def]
    """Say whether float32 scores tell the best: no L1 penalty, no clipping, and nothing out of range."""
    scale = units[1] / (units[0] * units[0])
    return rules[0] == 0.0 and rules[2] <= 0.0 and 1e-200 < scale < 1e200 and rules[1] < LARGEST_EXTRA * units[1]


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def fewest(rules, bounds):  # type: ignore[no-untyped-def]
    """Return the fixed-point hessian below which a side certainly has too few rows; at least 1."""
    return min(max(np.int64(1), np.int64(rules[4] * bounds[0])), np.int64(LARGEST_WIDE_SUM))


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def accumulate(counters, gradient, hessian):  # type: ignore[no-untyped-def]
    """Turn the packed counters of one feature (histogram.py) into running sums.

    counters           int64 (n_bins,)          in, overwritten
    gradient, hessian  int32, uint32 (n_bins,)  out
    """
    total = np.int64(0)
    for b in range(len(counters)):
        total += counters[b]
        counters[b] = total
    for b in range(len(counters)):  # apart from the loop above, so that it vectorises
        gradient[b] = gradient.dtype.type(counters[b] >> 32)
        hessian[b] = hessian.dtype.type(counters[b] & 0xFFFFFFFF)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def score(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, out):  # type: ignore[no-untyped-def]
    """Score every candidate of one feature in float32: gl^2 / (hl + extra) + gr^2 / (hr + extra).

    gradient, hessian  int32, uint32 (n,)   in   running sums
    more_g, more_h     int32, uint32        what goes left besides: the missing bin, or 0
    total_g, total_h   int32, uint32        sums of the node
    few                uint32               see fewest; what has less on a side scores 0
    out                float32 (n,)         out
    """
    for b in range(len(gradient)):
        left_g, left_h = gradient.dtype.type(gradient[b] + more_g), hessian.dtype.type(hessian[b] + more_h)
        right_g, right_h = gradient.dtype.type(total_g - left_g), hessian.dtype.type(total_h - left_h)
        left, right = np.float32(left_g), np.float32(right_g)
        wl, wr = np.float32(left_h) + extra, np.float32(right_h) + extra
        value = ((left * left) * wr + (right * right) * wl) / (wl * wr)
        out[b] = value if (left_h >= few) & (right_h >= few) else np.float32(0.0)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def subtract_score(gradient, hessian, less_g, less_h, total_g, total_h, few, extra, out):  # type: ignore[no-untyped-def]
    """Subtract the running sums of the other child from those of the parent, and score what is left; see score.

    gradient, hessian  int32, uint32 (n,)   in out   of the parent; then of this child
    less_g, less_h     int32, uint32 (n,)   in       of the other child
    """
    for b in range(len(gradient)):
        left_g, left_h = gradient.dtype.type(gradient[b] - less_g[b]), hessian.dtype.type(hessian[b] - less_h[b])
        gradient[b], hessian[b] = left_g, left_h
        right_g, right_h = gradient.dtype.type(total_g - left_g), hessian.dtype.type(total_h - left_h)
        left, right = np.float32(left_g), np.float32(right_g)
        wl, wr = np.float32(left_h) + extra, np.float32(right_h) + extra
        value = ((left * left) * wr + (right * right) * wl) / (wl * wr)
        out[b] = value if (left_h >= few) & (right_h >= few) else np.float32(0.0)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def largest_score(bits):  # type: ignore[no-untyped-def]
    """Return the largest of some scores as its bits: those of floats >= 0 are ordered alike, and integers vectorise.

    bits  int32 (n,)  in  the scores' memory
    """
    largest = np.int32(0)
    for b in range(len(bits)):
        largest = bits[b] if bits[b] > largest else largest
    return largest


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def score_features(  # type: ignore[no-untyped-def]
    gradient, hessian, less_g, less_h, total_g, total_h, offsets, has_missing, units, rules, bounds, scores, bits,
    upper,
):  # fmt: skip
    """Score the candidates of all features of one node.

    gradient, hessian  int32, uint32 (n_total_bins,)  in out   running sums; of the parent where less_g is not empty
    less_g, less_h     the same, or empty             in       of the other child, to be subtracted on the way
    scores             float32 (2, n_total_bins)      out      with the missing rows left; right, if there are any
    bits               int32 (2, n_total_bins)                 memory of `scores`
    upper              int32 (n_used,)                out      bits of the largest score of each feature
    """
    g, h = gradient.dtype.type(total_g), hessian.dtype.type(total_h)
    most = np.int64(LARGEST_HESSIAN_SUM if hessian.itemsize == 4 else LARGEST_WIDE_SUM)
    extra, few = np.float32(rules[1] / units[1]), hessian.dtype.type(min(fewest(rules, bounds), most))
    scorable = can_score(units, rules)
    subtract = len(less_g) > 0
    zero_g, zero_h = gradient.dtype.type(0), hessian.dtype.type(0)
    for f in range(len(has_missing)):
        first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
        own_g, own_h, own = gradient[first:last], hessian[first:last], scores[0, first:last]
        if subtract:
            subtract_score(own_g, own_h, less_g[first:last], less_h[first:last], g, h, few, extra, own)
        n_values = last - first - 1
        if not scorable:
            scores[0, first:last] = np.float32(1.0)
            scores[1, first:last] = np.float32(1.0)
            upper[f] = bits[0, first]
            continue
        missing_g = gradient.dtype.type(g - own_g[n_values - 1])
        missing_h = hessian.dtype.type(h - own_h[n_values - 1])
        if missing_g == 0 and missing_h == 0:
            if not subtract:  # the missing bin has nothing on its right and scores 0
                score(own_g, own_h, zero_g, zero_h, g, h, few, extra, own)
            upper[f] = largest_score(bits[0, first:last])
        else:
            own_g, own_h = own_g[:n_values], own_h[:n_values]
            score(own_g, own_h, missing_g, missing_h, g, h, few, extra, own[:n_values])
            score(own_g, own_h, zero_g, zero_h, g, h, few, extra, scores[1, first : last - 1])
            upper[f] = max(largest_score(bits[0, first : last - 1]), largest_score(bits[1, first : last - 1]))


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def evaluate_side(  # type: ignore[no-untyped-def]
    gradient, hessian, more_g, more_h, more_rows, scores, counts, total_g, total_h, n_rows, parent, bar, units, rules,
    bounds,
):  # fmt: skip
    """Compute the gains of the candidates of one feature that score at least `bar`, and keep the best.

    gradient, hessian  int32, uint32 (n_values,)  in  running sums
    more_g, more_h, more_rows                     what goes left besides: the missing rows, or 0
    scores             float32 (n_values,)        in  see score
    counts             int64 (n_values,)          in  rows, or empty: decide by the bounds
    parent                                        score of the node
    units, rules, bounds                          see split.scan_feature

    Returns the best certain candidate (gain, bin, left_g, left_h) and the best gain among those whose row counts the
    bounds leave open (-inf with counts).
    """
    g_unit, h_unit = units
    lambda_l1, lambda_l2, max_delta_step, min_gain, min_data, min_hessian = rules
    exact = len(counts) > 0
    few = fewest(rules, bounds)
    many = np.int64(0) if exact else np.int64((min_data - 1) * bounds[1])
    scorable = can_score(units, rules)
    scale, extra = h_unit / (g_unit * g_unit), lambda_l2 / h_unit
    best, best_bin, best_g, best_h, best_open = -np.inf, -1, np.int64(0), np.int64(0), -np.inf
    rows = more_rows
    bar_open = bar
    product_bar = product_bar_open = -np.inf
    for b in range(len(gradient)):
        if exact:
            rows += counts[b]
        if scores[b] < bar:
            continue
        g, h = np.int64(gradient[b]) + more_g, np.int64(hessian[b]) + more_h
        right_g, right_h = total_g - g, total_h - h
        if h < few or right_h < few:
            continue
        certain = h > many and right_h > many
        if not certain and scores[b] < bar_open:
            continue
        if scorable:  # where the gain is next to nothing beside the score, float32 does not tell the best; see split.py
            left, right = np.float64(g), np.float64(right_g)
            wl, wr = np.float64(h) + extra, np.float64(right_h) + extra
            if left * left * wr + right * right * wl < (product_bar if certain else product_bar_open) * (wl * wr):
                continue
        if exact and (rows < min_data or n_rows - rows < min_data):
            continue
        left_weight, right_weight = h * h_unit, right_h * h_unit
        if left_weight < min_hessian or right_weight < min_hessian:
            continue
        value = leaf_score(g * g_unit, left_weight, lambda_l1, lambda_l2, max_delta_step) + leaf_score(
            right_g * g_unit, right_weight, lambda_l1, lambda_l2, max_delta_step
        )
        gain = value - parent
        if gain > min_gain and gain > value * ROUNDING_NOISE:
            reached = (gain + parent) * scale if scorable else -np.inf
            if certain:
                if gain > best:
                    best, best_bin, best_g, best_h = gain, b, g, h
                    product_bar = reached * MARGIN
                    product_bar_open = max(product_bar_open, product_bar)
                    bar = max(bar, reached * SCORED)
                    bar_open = max(bar_open, bar)
            elif gain > best_open:
                best_open = gain
                product_bar_open = max(product_bar_open, reached * MARGIN)
                bar_open = max(bar_open, reached * SCORED)
    return best, best_bin, best_g, best_h, best_open


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def evaluate_feature(  # type: ignore[no-untyped-def]
    gradient, hessian, scores, more_scores, counts, has_missing, total_g, total_h, n_rows, parent, bar, units, rules,
    bounds,
):  # fmt: skip
    """Find the best candidate of one feature among those that score at least `bar`.

    gradient, hessian  int32, uint32 (n_values + 1,)  in  running sums
    scores             float32 (n_values,)            in  with the missing rows on the left
    more_scores        float32 (n_values,)            in  and on the right, if they have sums
    counts             int64 (n_values + 1,)          in  rows, or empty: decide by the bounds

    Returns (gain, bin, missing_left, left_g, left_h) of the best certain candidate and the best gain left open.
    """
    n_values = len(gradient) - 1
    own_g, own_h = gradient[:n_values], hessian[:n_values]
    missing_g, missing_h = total_g - own_g[n_values - 1], total_h - own_h[n_values - 1]
    missing_rows = counts[n_values] if len(counts) > 0 else np.int64(0)
    zero = np.int64(0)
    value_rows = counts[:n_values]
    best, bin_, left_g, left_h, left_open = evaluate_side(
        own_g, own_h, missing_g, missing_h, missing_rows, scores, value_rows, total_g, total_h, n_rows, parent, bar,
        units, rules, bounds,
    )  # fmt: skip
    missing_left = True
    has_sums = missing_g != 0 or missing_h != 0
    if has_missing and (has_sums or missing_rows != 0):
        best2, bin2, left_g2, left_h2, left_open2 = evaluate_side(
            own_g, own_h, zero, zero, zero, more_scores if has_sums else scores, value_rows, total_g, total_h, n_rows,
            parent, bar, units, rules, bounds,
        )  # fmt: skip
        if best2 > best or (best2 == best and bin2 < bin_):
            best, bin_, left_g, left_h, missing_left = best2, bin2, left_g2, left_h2, False
        left_open = max(left_open, left_open2)
    return best, bin_, missing_left and bin_ >= 0, left_g, left_h, left_open


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def search_feature(  # type: ignore[no-untyped-def]
    gradient, hessian, scores, more_scores, counts, has_missing, total_g, total_h, n_rows, parent, known, highest,
    units, rules, bounds,
):  # fmt: skip
    """Find the best candidate of one feature that gains `known` or more; arguments and result as in evaluate_feature.

    The few candidates that come near the highest score are looked at first, and all others only if these leave room.
    """
    scale, scorable = units[1] / (units[0] * units[0]), can_score(units, rules)
    bar = max(ANYTHING, (known + parent) * scale * SCORED) if scorable else ANYTHING
    near = max(bar, highest * SCORED * SCORED) if scorable else bar
    result = evaluate_feature(
        gradient, hessian, scores, more_scores, counts, has_missing, total_g, total_h, n_rows, parent, near, units,
        rules, bounds,
    )  # fmt: skip
    if near == bar or result[5] >= max(known, result[0]):
        return result
    reached = max(bar, (max(known, result[0]) + parent) * scale * SCORED)
    if reached >= near:
        return result
    return evaluate_feature(
        gradient, hessian, scores, more_scores, counts, has_missing, total_g, total_h, n_rows, parent, reached, units,
        rules, bounds,
    )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def choose_split(  # type: ignore[no-untyped-def]
    columns, records, gradient, hessian, total_g, total_h, begin, end, offsets, has_missing, units, rules, bounds,
    scores, upper, counts, no_counts, split,
):  # fmt: skip
    """Find the best split of a node whose candidates are scored.

    columns            uint8 or uint16 (n_used, n_rows)  in       bins, for counting
    records            uint64 (n_rows,)                  in       the node's are at begin:end; see rows.py
    gradient, hessian  int32, uint32 (n_total_bins,)     in       running sums
    scores             float32 (2, n_total_bins)         in       see score_features
    upper              float32 (n_used,)                 in, overwritten
    counts, no_counts  int64 (most bins of a feature,)   scratch, and an empty array
    split              SPLIT ()                          out
    """
    mask = np.uint64(0xFFFFFFFF)
    n_rows = end - begin
    parent = leaf_score(total_g * units[0], total_h * units[1], rules[0], rules[1], rules[2])
    scale, scorable = units[1] / (units[0] * units[0]), can_score(units, rules)
    split.gain, split.feature, split.bin, split.missing_left = -np.inf, -1, -1, False
    split.left_gradient, split.left_hessian = 0, 0
    n_looked, next_ = 0, 0
    while next_ < len(upper):
        f = next_
        if n_looked < BY_SCORE:
            for other in range(1, len(upper)):
                if upper[other] > upper[f]:
                    f = other
        else:  # many come near the best, as those of few rows do: all of them, in their order
            next_ += 1
        highest, known = np.float64(upper[f]), max(split.gain, rules[3])
        if highest < ANYTHING or (scorable and highest < (known + parent) * scale * SCORED):
            if n_looked < BY_SCORE:
                return  # nor has any other feature
            continue
        n_looked += 1
        upper[f] = 0.0
        first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
        own_g, own_h = gradient[first:last], hessian[first:last]
        left, right = scores[0, first : last - 1], scores[1, first : last - 1]
        result = search_feature(
            own_g, own_h, left, right, no_counts, has_missing[f], total_g, total_h, n_rows, parent, known, highest,
            units, rules, bounds,
        )  # fmt: skip
        if result[5] > -np.inf and result[5] >= max(known, result[0]):
            counts[: last - first] = 0
            column = columns[f]
            for place in range(np.uint64(begin), np.uint64(end)):
                counts[np.uint64(column[records[place] & mask])] += 1
            result = search_feature(
                own_g, own_h, left, right, counts[: last - first], has_missing[f], total_g, total_h, n_rows, parent,
                known, highest, units, rules, bounds,
            )  # fmt: skip
        if result[0] > split.gain or (result[0] == split.gain and result[0] > -np.inf and f < split.feature):
            split.gain, split.feature, split.bin, split.missing_left = result[0], f, result[1], result[2]
            split.left_gradient, split.left_hessian = result[3], result[4]
