"""The candidates of one feature of one node: the one loop that looks at them, whatever histogram they come from.

Rows are not counted in histograms: a hessian sum already bounds the number of rows behind it (core/fixed_point.py),
which decides `min_data_in_leaf` for nearly every candidate. A candidate is *certain* or *open*; where an open one would
win, the rows of that one feature are counted and the loop runs again. The result is exact either way.

Divisions are slow, and only the best candidate's gain is needed, so most candidates are passed by. First by a score
that somebody has written for each of them (those below `bar` cannot win), then by products with the best so far:

    gl^2 / hl + gr^2 / hr > bar    <=>    gl^2 hr + gr^2 hl > bar hl hr

Only those that might win (within `MARGIN`, far above the rounding of these products, and within `SCORED`, far above
that of the scores) get their gain computed, by the one formula of splitting.py. So what passes candidates by cannot be
seen in the result. Between the bounds of a monotone node, or of a side, the gain is smaller, if anything: no output w
of a side scores more than its best one, -(2 g w + h w^2) <= g^2 / h. So is a gain times a factor of at most 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import between
from hornbeam.backends.cpu.growth.splits.rules import gain_between
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel

MARGIN = 1.0 - 1e-9

SCORED = 1.0 - 1e-5
"""A score in float32 is a sum of positive terms, each of fewer than 16 roundings of 2**-24: wrong by 1e-6 at most."""

ANYTHING = 1e-30
"""Less than any score of a candidate, more than the 0 of what is none."""

NO_COUNTS = np.empty(0, np.int64)


class Best(NamedTuple):
    """The best certain candidate of a feature, and the best gain among the open ones; a gain of -inf: none."""

    gain: float
    bin: int
    missing_left: bool
    gradient: int
    hessian: int
    open_gain: float


class Feature(NamedTuple):
    """What the loop must know of a feature in a node.

    has_missing   rows of the training set have its missing bin
    sign, factor  see splitting.NodeContext
    is_ranked     scores are in the order of gains, so that the bar may rise with the best gain
    """

    has_missing: bool
    sign: int
    factor: float
    is_ranked: bool


class BinBounds(NamedTuple):
    """Bounds of the outputs of both sides of a split, by its bin: float64 (n_values,), the rows of SideBounds."""

    left_lower: NDArray[np.float64]
    left_upper: NDArray[np.float64]
    right_lower: NDArray[np.float64]
    right_upper: NDArray[np.float64]


@inner_kernel
def best_candidate(gradient, hessian, scores, scores_right, bar, counts, feature, node, sides, rules):
    """Find the best of the candidates that score at least `bar`, of one feature of one node.

    Of equals it is that of the lower bin, then the one with the missing rows on the left.

    gradient, hessian  integers (n_values,)    in   running sums of the bins, the missing one left out
    scores             floats (n_values,)      in   with the missing rows on the left
    scores_right       floats (n_values,)      in   and on the right, if they have sums
    counts             int64 (n_values + 1,)   in   rows of each bin, the missing one last; empty: the bounds decide
    sides              BinBounds               in   None or empty: both sides have the bounds of the node
    """
    n_values, exact, min_data, n_rows = len(gradient), len(counts) > 0, rules.min_data, node.end - node.begin
    more_g = node.gradient - np.int64(gradient[n_values - 1])  # what goes left besides: the missing rows, then nothing
    more_h = node.hessian - np.int64(hessian[n_values - 1])
    more_rows = counts[n_values] if exact else np.int64(0)
    has_sums = more_g != 0 or more_h != 0
    n_sides = 2 if feature.has_missing and (has_sums or more_rows != 0) else 1
    few, many = rules.few, np.int64(0) if exact else rules.many
    by_products = rules.by_products and feature.factor <= 1.0
    scale, extra, parent = rules.scale, rules.extra, node.score
    best, best_bin, best_side, best_g, best_h = -np.inf, np.int64(-1), 0, np.int64(0), np.int64(0)
    best_open, bar_open, product_bar, product_bar_open = -np.inf, bar, -np.inf, -np.inf
    for side in range(n_sides):
        if side == 1:
            more_g, more_h, more_rows = np.int64(0), np.int64(0), np.int64(0)
            if has_sums:
                scores = scores_right
        rows = more_rows
        for b in range(n_values):
            if exact:
                rows += counts[b]
            if scores[b] < bar:
                continue
            g, h = np.int64(gradient[b]) + more_g, np.int64(hessian[b]) + more_h
            right_g, right_h = node.gradient - g, node.hessian - h
            if h < few or right_h < few:
                continue
            certain = h > many and right_h > many
            if not certain and scores[b] < bar_open:
                continue
            if by_products:
                left, right = np.float64(g), np.float64(right_g)
                wl, wr = np.float64(h) + extra, np.float64(right_h) + extra
                if left * left * wr + right * right * wl < (product_bar if certain else product_bar_open) * (wl * wr):
                    continue
            left_rows, right_rows = min_data, min_data  # enough, or to be counted
            if exact:
                left_rows, right_rows = rows, n_rows - rows
            elif rules.rows_are_hessians:
                left_rows, right_rows = h, right_h
            left_node, right_node = node, node
            if sides is not None and len(sides.left_lower) > 0:
                left_node = between(node, sides.left_lower[b], sides.left_upper[b])
                right_node = between(node, sides.right_lower[b], sides.right_upper[b])
            gain = gain_between(
                g, h, left_rows, right_rows, node, left_node, right_node, rules, feature.sign, feature.factor, 0.0
            )  # fmt: skip
            is_tie = certain and gain == best and gain > -np.inf and b < best_bin
            if gain > (best if certain else best_open) or is_tie:
                reached = (gain + parent) * scale if by_products else -np.inf
                product_bar_open = max(product_bar_open, reached * MARGIN)
                if feature.is_ranked:
                    bar_open = max(bar_open, reached * SCORED)
                if certain:
                    best, best_bin, best_side, best_g, best_h = gain, np.int64(b), side, g, h
                    product_bar = reached * MARGIN
                    if feature.is_ranked:
                        bar = max(bar, reached * SCORED)
                else:
                    best_open = gain
    return Best(best, best_bin, best_side == 0 and best_bin >= 0, best_g, best_h, best_open)


@inner_kernel
def largest_score(bits):
    """Return the largest of some scores as its bits: those of floats >= 0 are ordered alike, and integers vectorise.

    bits  int32 (n,)  in  the scores' memory
    """
    largest = np.int32(0)
    for b in range(len(bits)):
        largest = bits[b] if bits[b] > largest else largest
    return largest


@inlined
def take_candidate(best, feature, split):
    """Write the best candidate of a feature as a split, if it is better; of equals the one of the lower feature.

    A feature that is looked at again, with its rows counted, may have its best candidate in a lower bin.
    """
    if best.gain > split.gain or (best.bin >= 0 and best.gain == split.gain and feature <= split.feature):
        split.gain, split.feature, split.bin, split.missing_left = best.gain, feature, best.bin, best.missing_left
        split.left_gradient, split.left_hessian = best.gradient, best.hessian
