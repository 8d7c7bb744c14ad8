"""The best split of a node among the features of numbers of one worker: twin of splitting.best_split.

For nodes without a context, and rules without a limit of outputs: what depends on these is left to the definition.
"""

from __future__ import annotations

import numpy as np

from hornbeam.backends.cpu.growth.splits.rules import leaf_score
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.trees.splitting import ROUNDING_NOISE


@kernel
def best_splits_kernel(sums, offsets, has_missing, features, units, limits, gain, place, side, left):
    """Find the best split of each node.

    sums         int64 (n_nodes, n_bins, 3)   in   gradients, hessians, rows of the section
    offsets      int64 (n_used + 1,)          in   first bin of each feature, counted from the section's first one
    has_missing  bool (n_used,)               in
    features     int32 (n,)                   in   those to search, ascending
    units        float64 (2,)                 in   of gradients and hessians
    limits       float64 (5,)                 in   lambda_l1, lambda_l2, min_gain_to_split, min_sum_hessian_in_leaf,
                                                   min_data_in_leaf
    gain         float64 (n_nodes,)           out  -inf: there is no split
    place        int32 (n_nodes, 2)           out  feature and bin
    side         bool (n_nodes,)              out  whether missing values go left
    left         int64 (n_nodes, 3)           out  gradients, hessians, rows that go left
    """
    l1, l2, least_gain, least_hessian, least_rows = limits[0], limits[1], limits[2], limits[3], int(limits[4])
    for node in range(len(sums)):
        gain[node] = -np.inf
        own = sums[node]
        for feature in features:
            first, last = offsets[feature], offsets[feature + 1]
            total_g, total_h, n_rows = 0, 0, 0
            for entry in range(first, last):
                total_g += own[entry, 0]
                total_h += own[entry, 1]
                n_rows += own[entry, 2]
            parent = leaf_score(total_g * units[0], total_h * units[1], l1, l2, 0.0)
            sum_g, sum_h, sum_rows = 0, 0, 0
            for entry in range(first, last - 1):
                if own[entry, 2] == 0 and entry > first and not has_missing[feature]:
                    continue  # the same as the bin before, which comes first
                sum_g += own[entry, 0]
                sum_h += own[entry, 1]
                sum_rows += own[entry, 2]
                for choice in range(2):  # missing values left, then right
                    missing_left = choice == 0 and has_missing[feature]
                    if choice == 0 and not missing_left:
                        continue
                    g, h, rows = sum_g, sum_h, sum_rows
                    if missing_left:
                        g += own[last - 1, 0]
                        h += own[last - 1, 1]
                        rows += own[last - 1, 2]
                    right_h = total_h - h
                    if rows < least_rows or n_rows - rows < least_rows or h <= 0 or right_h <= 0:
                        continue
                    left_weight, right_weight = h * units[1], right_h * units[1]
                    if left_weight < least_hessian or right_weight < least_hessian:
                        continue
                    of_left = leaf_score(g * units[0], left_weight, l1, l2, 0.0)
                    of_right = leaf_score((total_g - g) * units[0], right_weight, l1, l2, 0.0)
                    scores = of_left + of_right
                    found = scores - parent
                    if found > least_gain and found > scores * ROUNDING_NOISE and found > gain[node]:
                        gain[node] = found
                        place[node, 0], place[node, 1] = feature, entry - first
                        side[node] = missing_left or not has_missing[feature]
                        left[node, 0], left[node, 1], left[node, 2] = g, h, rows
