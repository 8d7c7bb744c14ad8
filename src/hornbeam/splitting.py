"""What a split is worth, and which one is best: the definitions that every backend follows.

With G and H the sums of gradients and hessians of a node (Zhang et al. 2017, equation 4; LightGBM's regularisation):

    T(G)      = sign(G) max(|G| - lambda_l1, 0)
    output    = -T(G) / (H + lambda_l2), clipped to +-max_delta_step when that is positive
    score     = T(G)^2 / (H + lambda_l2), or -(2 T(G) o + (H + lambda_l2) o^2) for a clipped output o
    gain      = (score(left) + score(right)) - score(parent)

Every operation is float64, in this order, never contracted. Ties: higher gain, then lower feature, then lower bin,
then missing-left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hornbeam.dtypes import SPLIT
from hornbeam.quantize import Quantization

if TYPE_CHECKING:
    from hornbeam.params import Params

ROUNDING_NOISE = 2.0**-40
"""A gain below this share of the children's score is rounding noise, not a gain."""


@dataclass(frozen=True, slots=True)
class SplitRules:
    """The parameters that a split must honour."""

    lambda_l1: float
    lambda_l2: float
    max_delta_step: float
    min_gain_to_split: float
    min_data_in_leaf: int
    min_sum_hessian_in_leaf: float

    @classmethod
    def from_params(cls, params: Params) -> SplitRules:
        """Take the rules from the training parameters; a leaf has at least one row."""
        return cls(
            lambda_l1=params.lambda_l1,
            lambda_l2=params.lambda_l2,
            max_delta_step=params.max_delta_step,
            min_gain_to_split=params.min_gain_to_split,
            min_data_in_leaf=max(1, params.min_data_in_leaf),
            min_sum_hessian_in_leaf=params.min_sum_hessian_in_leaf,
        )


def can_split(n_rows: int, hessian: int, depth: int, rules: SplitRules, max_depth: int) -> bool:
    """Say whether a node could have two children at all; hessian is its fixed-point sum."""
    return n_rows >= 2 * rules.min_data_in_leaf and hessian > 1 and depth < max_depth


def soft_threshold(gradient: NDArray[np.float64], lambda_l1: float) -> NDArray[np.float64]:
    """Return sign(G) max(|G| - lambda_l1, 0)."""
    return np.where(
        gradient > lambda_l1, gradient - lambda_l1, np.where(gradient < -lambda_l1, gradient + lambda_l1, 0.0)
    )


def leaf_output(gradient: NDArray[np.float64], hessian: NDArray[np.float64], rules: SplitRules) -> NDArray[np.float64]:
    """Return the output of nodes with these sums, before shrinkage; 0 where H + lambda_l2 is 0.

    gradient, hessian  float64 (n,)  in
    """
    gradient = np.asarray(gradient, np.float64)
    weight = np.asarray(hessian, np.float64) + rules.lambda_l2
    safe = np.where(weight > 0.0, weight, 1.0)
    with np.errstate(over="ignore"):  # a weight next to nothing
        output = np.where(weight > 0.0, -soft_threshold(gradient, rules.lambda_l1) / safe, 0.0)
    if rules.max_delta_step > 0.0:
        output = np.minimum(np.maximum(output, -rules.max_delta_step), rules.max_delta_step)
    return output + 0.0  # no negative zero


def leaf_score(gradient: NDArray[np.float64], hessian: NDArray[np.float64], rules: SplitRules) -> NDArray[np.float64]:
    """Return the part of the loss that leaves with these sums remove (twice the reduction).

    gradient, hessian  float64 (n,)  in
    """
    shrunk = soft_threshold(np.asarray(gradient, np.float64), rules.lambda_l1)
    weight = np.asarray(hessian, np.float64) + rules.lambda_l2
    safe = np.where(weight > 0.0, weight, 1.0)
    if rules.max_delta_step > 0.0:
        output = leaf_output(gradient, hessian, rules)
        return np.where(weight > 0.0, -(2.0 * shrunk * output + weight * output * output), 0.0)
    with np.errstate(over="ignore"):
        return np.where(weight > 0.0, shrunk * shrunk / safe, 0.0)


def best_split(
    histogram: NDArray[np.int64],
    counts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
    quantization: Quantization,
    rules: SplitRules,
) -> NDArray[np.void]:
    """Find the best split of one node, naively.

    histogram    int64 (n_total_bins, 2)   in  fixed-point sums of gradients and hessians
    counts       int64 (n_total_bins,)     in  rows
    offsets      int64 (n_used + 1,)       in  the bins of feature f are offsets[f]:offsets[f + 1], the missing bin last
    has_missing  bool  (n_used,)           in
    Returns one record of dtypes.SPLIT.
    """
    best = np.zeros((), SPLIT)
    best["gain"], best["feature"], best["bin"] = -np.inf, -1, -1
    units = np.array([quantization.gradient_unit, quantization.hessian_unit])
    for feature in range(len(has_missing)):
        own = slice(offsets[feature], offsets[feature + 1])
        sums, rows = histogram[own], counts[own]
        total, n_rows = sums.sum(axis=0), rows.sum()
        parent = leaf_score(total[:1] * units[0], total[1:] * units[1], rules)[0]
        left = np.cumsum(sums[:-1], axis=0)
        left_rows = np.cumsum(rows[:-1])
        if has_missing[feature]:  # (bin, missing left), (bin, missing right), in the order in which ties are broken
            left = np.stack([left + sums[-1], left], axis=1)
            left_rows = np.stack([left_rows + rows[-1], left_rows], axis=1)
        else:
            left, left_rows = left[:, None], left_rows[:, None]
        right, right_rows = total - left, n_rows - left_rows
        scores = leaf_score(left[..., 0] * units[0], left[..., 1] * units[1], rules) + leaf_score(
            right[..., 0] * units[0], right[..., 1] * units[1], rules
        )
        gain = scores - parent
        allowed = (gain > rules.min_gain_to_split) & (gain > scores * ROUNDING_NOISE)
        for sums_of_side, rows_of_side in ((left, left_rows), (right, right_rows)):
            allowed &= rows_of_side >= rules.min_data_in_leaf
            allowed &= sums_of_side[..., 1] > 0
            allowed &= sums_of_side[..., 1] * units[1] >= rules.min_sum_hessian_in_leaf
        gain = np.where(allowed, gain, -np.inf)
        winner = int(np.argmax(gain))  # the first of equals
        if gain.flat[winner] > best["gain"]:
            threshold, side = divmod(winner, gain.shape[1])
            best["gain"], best["feature"], best["bin"] = gain.flat[winner], feature, threshold
            best["missing_left"] = side == 0
            best["left_gradient"], best["left_hessian"] = left[threshold, side]
    return best
