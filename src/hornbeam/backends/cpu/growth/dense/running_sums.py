"""Best splits from running sums: twin of splitting.best_split.

Where the |gradients| of a tree add up to less than 2**31 and its hessians to less than 2**32 (tuning.py), so do those
of every node and of every side of a split. A node's histogram is then kept as the running sums of each feature in two
planes of 32 bits, which is what a split search reads, eight bytes a bin:

    gradient  int32  (n_total_bins,)    bins of a feature up to this one, the missing bin last: there it is the total
    hessian   uint32 (n_total_bins,)

Where they are larger, up to 2**37, the planes are of 64 bits, int64 and uint64: wherever it says int32 and uint32
below.

Running sums subtract like histograms do. First every candidate is scored in float32, four or more at a time (no product
leaves the range of float32, and `SCORED` of splits/candidates.py bounds the error); only features that may have the
best candidate are looked at again, best first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import count_bins
from hornbeam.backends.cpu.growth.splits.candidates import (
    ANYTHING,
    SCORED,
    Feature,
    best_candidate,
    largest_score,
    take_candidate,
)
from hornbeam.backends.cpu.growth.splits.contexts import sides_of, sign_and_factor
from hornbeam.backends.cpu.growth.splits.rules import clear_split
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel

BY_SCORE = 16
"""Features of a node that are looked at in the order of their highest scores; each costs a look at all scores."""

SHIFT = 1.5 * 2.0**52
SHIFTED = int(np.float64(SHIFT).view(np.int64))
"""A number to which float64 adds integers exactly, and the same as the integer of its bits; see to_float."""


class Planes(NamedTuple):
    """Running sums: gradient int32, hessian uint32, (n_total_bins,); with a leading axis: those of all slots."""

    gradient: NDArray[Any]
    hessian: NDArray[Any]


class Scores(NamedTuple):
    """Scores of the candidates of a node; with a leading axis: those of all threads.

    scores      float32 (2, n_total_bins)   with the missing rows left; right, if there are any
    bits        int32 (2, n_total_bins)     memory of `scores`
    upper       float32 (n_numeric,)        the largest score of each feature
    upper_bits  int32 (n_numeric,)          memory of `upper`
    """

    scores: NDArray[np.float32]
    bits: NDArray[np.int32]
    upper: NDArray[np.float32]
    upper_bits: NDArray[np.int32]

    @classmethod
    def make(cls, n_threads: int, n_bins: int, n_numeric: int) -> Scores:
        """Make the memory of some threads; each writes to the part of the features that it searches."""
        scores, upper = np.empty((n_threads, 2, n_bins), np.float32), np.empty((n_threads, n_numeric), np.float32)
        return cls(scores, scores.view(np.int32), upper, upper.view(np.int32))


class OutputBounds(NamedTuple):
    """Bounds of the outputs of a node's children, float32, in fixed-point units; where they are not set there are none.

    unit  of these, for bounds of single splits
    """

    lower: float
    upper: float
    are_set: bool
    unit: float


@inner_kernel
def accumulate(counters, gradient, hessian):
    """Turn the packed counters of one feature into running sums.

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


@inner_kernel
def add_plain(counters, gradient, hessian):
    """Add packed counters to plain sums."""
    for b in range(len(gradient)):
        gradient[b] += gradient.dtype.type(counters[b] >> 32)
        hessian[b] += hessian.dtype.type(counters[b] & 0xFFFFFFFF)


@inner_kernel
def run_up(gradient, hessian):
    """Turn the sums of one feature's bins into running sums."""
    for b in range(1, len(gradient)):
        gradient[b] += gradient[b - 1]
        hessian[b] += hessian[b - 1]


@inlined
def to_float(value, width):
    """Return a sum of so many bytes in float32.

    Few processors convert several integers of 64 bits at a time. Sums are less than 2**37, and all can add them to
    1.5 * 2**52, whose lowest bit is 1.
    """
    if width == 8:
        return np.float32(np.int64(np.int64(value) + SHIFTED).view(np.float64) - SHIFT)
    return np.float32(value)


@inlined
def score_of(left_g, left_h, right_g, right_h, few, extra, width):
    """Return gl^2 / (hl + extra) + gr^2 / (hr + extra) in float32; 0 where a side has less than `few`, float32.

    Where that is next to `few` it may be scored all the same: best_candidate looks at the sums themselves.
    """
    left, right = to_float(left_g, width), to_float(right_g, width)
    hl, hr = to_float(left_h, width), to_float(right_h, width)
    wl, wr = hl + extra, hr + extra
    value = ((left * left) * wr + (right * right) * wl) / (wl * wr)
    return value if (hl >= few) & (hr >= few) else np.float32(0.0)


@inner_kernel
def score(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, out):
    """Score every candidate of one feature.

    gradient, hessian  int32, uint32 (n,)   in   running sums
    more_g, more_h     int32, uint32        what goes left besides: the missing bin, or 0
    total_g, total_h   int32, uint32        sums of the node
    out                float32 (n,)         out
    """
    for b in range(len(gradient)):
        left_g, left_h = gradient.dtype.type(gradient[b] + more_g), hessian.dtype.type(hessian[b] + more_h)
        right_g, right_h = gradient.dtype.type(total_g - left_g), hessian.dtype.type(total_h - left_h)
        out[b] = score_of(left_g, left_h, right_g, right_h, few, extra, gradient.itemsize)


@inner_kernel
def subtract_score(gradient, hessian, less_g, less_h, total_g, total_h, few, extra, out):
    """Subtract the running sums of the other child from those of the parent, and score what is left; see score.

    gradient, hessian  int32, uint32 (n,)   in out   of the parent; then of this child
    less_g, less_h     int32, uint32 (n,)   in       of the other child
    """
    for b in range(len(gradient)):
        left_g, left_h = gradient.dtype.type(gradient[b] - less_g[b]), hessian.dtype.type(hessian[b] - less_h[b])
        gradient[b], hessian[b] = left_g, left_h
        right_g, right_h = gradient.dtype.type(total_g - left_g), hessian.dtype.type(total_h - left_h)
        out[b] = score_of(left_g, left_h, right_g, right_h, few, extra, gradient.itemsize)


@inlined
def side_between(g, weight, bounds):
    """Return -(2 g w + h w^2) in float32, for the output w between some bounds that scores most, or a little more.

    The two terms may nearly cancel out, so it is not the sum that bounds the rounding, but the terms.
    """
    output = -g / weight
    output = bounds.lower if output < bounds.lower else output
    output = bounds.upper if output > bounds.upper else output
    linear, square = -(g + g) * output, weight * output * output
    return (linear - square) + np.float32(1.0 - SCORED) * (abs(linear) + square)


@inner_kernel
def score_between(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, bounds, out):
    """Score every candidate of one feature of a node whose children's outputs are bounded: see score."""
    for b in range(len(gradient)):
        left_g, left_h = gradient.dtype.type(gradient[b] + more_g), hessian.dtype.type(hessian[b] + more_h)
        right_g, right_h = gradient.dtype.type(total_g - left_g), hessian.dtype.type(total_h - left_h)
        width = gradient.itemsize
        hl, hr = to_float(left_h, width), to_float(right_h, width)
        value = side_between(to_float(left_g, width), hl + extra, bounds)
        value += side_between(to_float(right_g, width), hr + extra, bounds)
        out[b] = value if (hl >= few) & (hr >= few) & (value > np.float32(0.0)) else np.float32(0.0)


@inner_kernel
def score_beside(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, bounds, sides, out):
    """Score every candidate of one feature whose sides have bounds of their own: see score and SideBounds."""
    left_lower, left_upper = sides.left_lower, sides.left_upper
    right_lower, right_upper = sides.right_lower, sides.right_upper
    for b in range(len(left_lower)):
        left_g, left_h = gradient.dtype.type(gradient[b] + more_g), hessian.dtype.type(hessian[b] + more_h)
        right_g, right_h = gradient.dtype.type(total_g - left_g), hessian.dtype.type(total_h - left_h)
        width, unit = gradient.itemsize, bounds.unit
        hl, hr = to_float(left_h, width), to_float(right_h, width)
        left = OutputBounds(np.float32(left_lower[b] * unit), np.float32(left_upper[b] * unit), True, unit)
        right = OutputBounds(np.float32(right_lower[b] * unit), np.float32(right_upper[b] * unit), True, unit)
        value = side_between(to_float(left_g, width), hl + extra, left)
        value += side_between(to_float(right_g, width), hr + extra, right)
        out[b] = value if (hl >= few) & (hr >= few) & (value > np.float32(0.0)) else np.float32(0.0)


@inner_kernel
def score_within(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, bounds, sides, out):
    """Score every candidate of one feature: see score."""
    if len(sides.left_lower) > 0:
        score_beside(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, bounds, sides, out)
    elif bounds.are_set:
        score_between(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, bounds, out)
    else:
        score(gradient, hessian, more_g, more_h, total_g, total_h, few, extra, out)


@inner_kernel
def bounds_of(node, rules):
    """Return the bounds of the outputs of a node's children."""
    unit = rules.hessian_unit / rules.gradient_unit
    are_set = rules.monotone and (node.lower > -np.inf or node.upper < np.inf)
    return OutputBounds(np.float32(node.lower * unit), np.float32(node.upper * unit), are_set, unit)


@inner_kernel
def score_features(planes, less, f0, f1, offsets, call, marks, node, rules, scores):
    """Score the candidates of the features f0:f1 of one node, that of a CALL.

    planes  Planes   in out   of the parent where `less` is not empty
    less    Planes   in       of the other child, to be subtracted on the way; or empty
    scores  Scores   out
    """
    gradient, hessian, less_g, less_h = planes.gradient, planes.hessian, less.gradient, less.hessian
    values, bits, upper = scores.scores, scores.bits, scores.upper_bits
    g, h = gradient.dtype.type(node.gradient), hessian.dtype.type(node.hessian)
    extra, few = np.float32(rules.extra), np.float32(rules.few)
    zero_g, zero_h, subtracts = gradient.dtype.type(0), hessian.dtype.type(0), len(less_g) > 0
    bounds = bounds_of(node, rules)
    for f in range(f0, f1):
        sides = sides_of(call, marks, f)
        first, last = offsets[f], offsets[f + 1]
        own_g, own_h, own = gradient[first:last], hessian[first:last], values[0, first:last]
        if subtracts:
            subtract_score(own_g, own_h, less_g[first:last], less_h[first:last], g, h, few, extra, own)
        n_values = last - first - 1
        if not rules.by_scores:
            values[0, first:last] = np.float32(1.0)
            values[1, first:last] = np.float32(1.0)
            upper[f] = bits[0, first]
            continue
        missing_g = gradient.dtype.type(g - own_g[n_values - 1])
        missing_h = hessian.dtype.type(h - own_h[n_values - 1])
        if missing_g == 0 and missing_h == 0:
            own[n_values] = np.float32(0.0)  # the missing bin has nothing on its right
            if bounds.are_set or not subtracts or len(sides.left_lower) > 0:
                score_within(own_g, own_h, zero_g, zero_h, g, h, few, extra, bounds, sides, own)
            upper[f] = largest_score(bits[0, first:last])
        else:
            own_g, own_h = own_g[:n_values], own_h[:n_values]
            score_within(own_g, own_h, missing_g, missing_h, g, h, few, extra, bounds, sides, own[:n_values])
            score_within(own_g, own_h, zero_g, zero_h, g, h, few, extra, bounds, sides, values[1, first : last - 1])
            upper[f] = max(largest_score(bits[0, first : last - 1]), largest_score(bits[1, first : last - 1]))


@inner_kernel
def choose_split(t, call, counting, planes, f0, f1, offsets, has_missing, marks, node, rules, scores):
    """Find the best split of a node among the features f0:f1, whose candidates are scored.

    The few candidates of a feature that come near its highest score are looked at first, and all others only if these
    leave room.

    call    of thread t, see operations.py; its split is the answer
    marks   of the features; no masks: nodes have no contexts
    scores  Scores  in, upper is overwritten
    """
    split, no_counts = call.split, counting.counts[t, :0]
    values, upper, all_g, all_h = scores.scores, scores.upper, planes.gradient, planes.hessian
    clear_split(split)
    n_looked, next_ = 0, f0
    while next_ < f1:
        f = next_
        if n_looked < BY_SCORE:
            for other in range(f0 + 1, f1):
                if upper[other] > upper[f]:
                    f = other
        else:  # many come near the best, as those of few rows do: all of them, in their order
            next_ += 1
        highest, known = np.float64(upper[f]), max(split.gain, rules.min_gain)
        lowest = (known + node.score) * rules.scale * SCORED if rules.by_scores else ANYTHING
        if highest < max(ANYTHING, lowest):
            if n_looked < BY_SCORE:
                return  # nor has any other feature
            continue
        n_looked += 1
        upper[f] = 0.0
        first, last = offsets[f], offsets[f + 1]
        gradient, hessian = all_g[first : last - 1], all_h[first : last - 1]
        left, right = values[0, first : last - 1], values[1, first : last - 1]
        sign, factor = sign_and_factor(call, marks, f) if len(marks.masks) > 0 else (np.int64(0), 1.0)
        feature, counted = Feature(has_missing[f], sign, factor, rules.by_scores), no_counts
        sides = sides_of(call, marks, f)
        bar = near = max(ANYTHING, lowest)
        if rules.by_scores:
            near = max(bar, highest * SCORED * SCORED)
        while True:
            best = best_candidate(gradient, hessian, left, right, near, counted, feature, node, sides, rules)
            reached = max(known, best.gain)
            if best.open_gain >= reached:  # never where rows are counted
                counted = count_bins(t, call, counting, f, last - first)
                continue
            bar = max(bar, (reached + node.score) * rules.scale * SCORED) if rules.by_scores else near
            if bar >= near:
                break
            near = bar
        take_candidate(best, f, split)
