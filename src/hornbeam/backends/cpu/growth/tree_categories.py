"""Categorical features in the whole-tree kernel (tree_kernel.py): its running sums, and its branchless partition.

The kernel keeps running sums of every feature, see prefix_split.py. Those of categorical features are taken apart again
into the sums of the levels, a node at a time, and searched by split_categorical.py, which is compiled once for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.partition import bin_goes_left, bin_in_set
from hornbeam.backends.cpu.growth.split_categorical import Round, around_node, improve_node, own_features, scratch_of
from hornbeam.backends.cpu.host.team import inner_kernel


def tree_categories(whole: Round, cuts: NDArray[np.int64], n_nodes: int, most_bins: int) -> tuple[Any, ...]:
    """Return what tree_kernel takes as `categories`, for threads that have the features cuts[t]:cuts[t + 1].

    own        see split_categorical.CategoricalFinder.own
    scratch    of all threads, see split_categorical.level_scratch
    cuts       int64 (n_threads + 1,)                        of the categorical features, counted from the first of them
    first_set  of the first thread: the root has the first set, the other nodes those after it
    n_nodes    and as many sets has each thread
    levels     int64 (bins of the categorical features, 2)   sums of the node that is searched
    goes_left  uint8 (n_threads, most_bins)                  which bins of the feature that is split go left
    """
    n_numeric = whole.own[3]
    levels = np.empty((int(whole.own[1][-1]), 2), np.int64)
    goes_left = np.empty((len(cuts) - 1, most_bins), np.uint8)
    own_cuts = np.maximum(cuts - n_numeric, 0)
    return whole.own, whole.of_all, own_cuts, whole.first_set, n_nodes, levels, goes_left


@inner_kernel  # type: ignore[untyped-decorator]
def own_categories(t, categories):  # type: ignore[no-untyped-def]
    """Return what the kernels here take as `categories`: those of one thread, and the number of other features."""
    own, scratch, cuts, first_set, n_nodes, levels, goes_left = categories
    part, memory = own_features(own, cuts[t], cuts[t + 1]), scratch_of(scratch, t)
    return part, memory, first_set + t * n_nodes, levels, goes_left[t], np.int64(own[3])


@inner_kernel  # type: ignore[untyped-decorator]
def improve_in_tree(  # type: ignore[no-untyped-def]
    bins, records, gather, gradient, hessian, less_g, less_h, node, number, categories
):
    """Replace the split of one node where one of a categorical feature is better.

    bins, records      of the node's depth
    gradient, hessian  int32, uint32 (n_total_bins,)  in out   running sums; of the parent where less_g is not empty
    less_g, less_h     the same, or empty             in       of the other child, to be subtracted on the way
    node, number       NODE (), its split in out; its number
    """
    own, scratch, first_set, levels, _, _ = categories
    first, offsets = np.int64(own[0]), own[1]
    subtract = len(less_g) > 0
    for i in range(len(offsets) - 1):
        g_before, h_before = gradient.dtype.type(0), hessian.dtype.type(0)
        for level in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            place = np.uint64(first) + level
            g, h = gradient[place], hessian[place]
            if subtract:
                g, h = gradient.dtype.type(g - less_g[place]), hessian.dtype.type(h - less_h[place])
                gradient[place], hessian[place] = g, h
            levels[level, 0] = gradient.dtype.type(g - g_before)
            levels[level, 1] = np.int64(hessian.dtype.type(h - h_before))
            g_before, h_before = g, h
    improve_node(
        bins, records, gather, levels, node.gradient, node.hessian, node.begin, node.end,
        around_node(node.gradient, node.hessian, own), np.uint64(0), own[-1][0, :0], own, scratch, first_set + number,
        node.split,
    )  # fmt: skip


@inner_kernel  # type: ignore[untyped-decorator]
def left_bins(split, n_value_bins, categories):  # type: ignore[no-untyped-def]
    """Return which bins of a split's feature go left, uint8 (n_value_bins + 1,), the missing bin last."""
    own, _, _, _, goes_left, n_numeric = categories
    is_set = np.int64(split.feature) >= n_numeric
    left_set = own[-1][split.bin if is_set else 0]
    for code in range(n_value_bins + 1):
        if is_set:
            goes_left[code] = bin_in_set(code, left_set)
        else:
            goes_left[code] = bin_goes_left(code, np.int64(split.bin), split.missing_left, n_value_bins)
    return goes_left
