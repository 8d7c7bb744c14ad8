"""Splits of categorical features: which sets of levels go left. The definition that every backend follows.

The bins of a categorical feature are its levels (levels.py), the missing bin holds rare, unseen and missing ones, and
always goes right.

*Few levels* (at most max_cat_to_onehot): each level against all the rest.

*More levels*: those with enough rows in the node are sorted by gradient / (hessian + cat_smooth), and the candidates
are the first 1, 2, ... of them, then the last 1, 2, ... (for squared errors the best set is always among these). At
most max_cat_threshold levels go left, and at most half of all; from one candidate to the next there are
min_data_per_group rows at least, and as many stay right; cat_l2 is added to lambda_l2, in the gain and in the outputs
of both children.

Rows are counted exactly for min_data_in_leaf. For "enough rows" (cat_smooth) and for min_data_per_group they are
estimated, as in LightGBM: a level of hessian h in a node of n rows and hessian H has floor(h (n / H) + 1/2) rows.

Every operation is float64, in this order. Ties: higher gain, then lower bin (few levels); the first of the candidates
in the order above (more levels); then lower feature. Features of numbers come before categorical ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.splitting import NodeContext, SplitRules, candidate_gains, leaf_score, random_threshold


@dataclass(frozen=True, slots=True)
class LevelSet:
    """The best split of one node by one categorical feature; gain -inf: there is none.

    bins  int64 (n,): the bins that go left
    """

    gain: float
    bins: NDArray[np.int64]
    left_gradient: int = 0
    left_hessian: int = 0


NO_SET = LevelSet(-np.inf, np.empty(0, np.int64))


def sorted_levels(
    sums: NDArray[np.int64], n_rows: int, total_hessian: int, units: NDArray[np.float64], smooth: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the levels with enough rows, sorted, and their estimated numbers of rows.

    sums     int64 (n_levels, 2)   in
    returns  int64 (n,), float64 (n,)
    """
    if total_hessian <= 0:
        return np.empty(0, np.int64), np.empty(0)
    share = float(n_rows) / float(total_hessian)
    rows = np.floor(sums[:, 1].astype(np.float64) * share + 0.5)
    usable = np.flatnonzero((sums[:, 1] > 0) & (rows >= smooth))
    key = (sums[usable, 0] * units[0]) / (sums[usable, 1] * units[1] + smooth)
    order = usable[np.argsort(key, kind="stable")]  # equals by bin
    return order, rows[order]


def candidate_sizes(
    left: NDArray[np.int64],
    left_rows: NDArray[np.int64],
    estimated: NDArray[np.float64],
    total_hessian: int,
    n_rows: int,
    hessian_unit: float,
    rules: SplitRules,
) -> NDArray[np.bool_]:
    """Say how many levels may go left: entry i is about the first i + 1, in the order in which they are taken.

    left       int64 (n, 2)     in   sums of the first i + 1 levels
    left_rows  int64 (n,)       in   their rows, counted
    estimated  float64 (n,)     in   rows of each level, estimated
    """
    allowed = np.zeros(len(left), np.bool_)
    min_group = rules.categorical.min_data_per_group
    in_group = so_far = 0.0
    for i in range(len(left)):
        in_group += estimated[i]
        so_far += estimated[i]
        if left_rows[i] < rules.min_data_in_leaf or left[i, 1] * hessian_unit < rules.min_sum_hessian_in_leaf:
            continue
        right_weight = (total_hessian - left[i, 1]) * hessian_unit
        if n_rows - left_rows[i] < rules.min_data_in_leaf or right_weight < rules.min_sum_hessian_in_leaf:
            break
        if n_rows - so_far < min_group:
            break
        if in_group < min_group:
            continue
        in_group = 0.0
        allowed[i] = True
    return allowed


def best_level_set(
    sums: NDArray[np.int64],
    rows: NDArray[np.int64],
    quantization: Quantization,
    rules: SplitRules,
    context: NodeContext | None = None,
    node: int = 0,
    feature: int = 0,
) -> LevelSet:
    """Find the best split of one node by one categorical feature, naively.

    sums   int64 (n_levels + 1, 2)  in  fixed-point sums of each bin, the missing bin last
    rows   int64 (n_levels + 1,)    in  counted
    the rest as in splitting.candidate_gains
    """
    n_levels, categorical = len(sums) - 1, rules.categorical
    total, n_rows = sums.sum(axis=0), int(rows.sum())
    units = np.array([quantization.gradient_unit, quantization.hessian_unit])
    if context is not None:
        parent = context.bar(node, feature)
    else:
        parent = float(leaf_score(total[:1] * units[0], total[1:] * units[1], rules)[0])
    random = context is not None and rules.extra_trees

    def gains(left: NDArray[np.int64], left_rows: NDArray[np.int64], own_rules: SplitRules) -> NDArray[np.float64]:
        return candidate_gains(
            left, total - left, left_rows, n_rows - left_rows, parent, units, own_rules, context, node, feature
        )

    if n_levels <= categorical.max_cat_to_onehot:
        gain = gains(sums[:-1], rows[:-1], rules)
        if random:
            assert context is not None
            chosen = random_threshold(context.key[node], feature, n_levels, True)
            gain[np.arange(n_levels) != chosen] = -np.inf
        winner = int(np.argmax(gain))
        if gain[winner] == -np.inf:
            return NO_SET
        return LevelSet(float(gain[winner]), np.array([winner]), int(sums[winner, 0]), int(sums[winner, 1]))

    order, estimated = sorted_levels(sums[:-1], n_rows, int(total[1]), units, categorical.cat_smooth)
    most = min(categorical.max_cat_threshold, (len(order) + 1) // 2)
    if most == 0:
        return NO_SET
    many_rules = replace(rules, lambda_l2=rules.lambda_l2 + categorical.cat_l2)
    best = NO_SET
    for direction in (1, -1):
        taken = order[::direction][:most]
        left, left_rows = np.cumsum(sums[taken], axis=0), np.cumsum(rows[taken])
        allowed = candidate_sizes(
            left, left_rows, estimated[::direction][:most], int(total[1]), n_rows, float(units[1]), rules
        )
        if random:
            assert context is not None
            allowed &= np.arange(most) == random_threshold(context.key[node], feature, most, True)
        gain = np.where(allowed, gains(left, left_rows, many_rules), -np.inf)
        winner = int(np.argmax(gain))
        if gain[winner] > best.gain:
            best = LevelSet(
                float(gain[winner]), np.sort(taken[: winner + 1]), int(left[winner, 0]), int(left[winner, 1])
            )
    return best


def l2_of_children(
    features: NDArray[np.int32], n_value_bins: NDArray[np.int32], n_numeric: int, rules: SplitRules
) -> NDArray[np.float64]:
    """Return what is added to lambda_l2 in the outputs of the children of splits, float64 (n,).

    features      int32 (n,)       in  of the splits
    n_value_bins  int32 (n_used,)  in
    """
    many = (features >= n_numeric) & (n_value_bins[features] > rules.categorical.max_cat_to_onehot)
    return np.where(many, rules.categorical.cat_l2, 0.0)


def set_record(found: LevelSet, feature: int, number: int) -> NDArray[np.void]:
    """Return a split of a categorical feature as dtypes.SPLIT ().

    number  of its set among those that an engine keeps for the growing tree: it takes the place of the bin
    """
    split = np.zeros((), SPLIT)
    split["gain"], split["feature"], split["bin"] = found.gain, feature, number
    split["left_gradient"], split["left_hessian"] = found.left_gradient, found.left_hessian
    return split
