"""What the driver (trees/driver.py) does with the nodes of dense data.

Whole trees keep running sums (running_sums.py). Each thread sums all rows of a node for its features, or, where a node
has so many rows for its bins, some of them, for the features of a group of threads (sum_shared), which takes one
meeting more. Rounds keep pairs (histograms.py): slots that single operations know, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.histograms import Layout, sum_pairs
from hornbeam.backends.cpu.growth.dense.partition import bins_at
from hornbeam.backends.cpu.growth.dense.running_sums import (
    Planes,
    Scores,
    accumulate,
    add_plain,
    choose_split,
    run_up,
    score_features,
)
from hornbeam.backends.cpu.growth.operations import search_child, sum_smaller
from hornbeam.backends.cpu.growth.rows.counters import PACKED_ROWS, add_counters
from hornbeam.backends.cpu.growth.slots import subtract_pairs
from hornbeam.backends.cpu.growth.splits.levels import search_categories
from hornbeam.backends.cpu.growth.splits.pairs import Features, Scratch, search_pairs
from hornbeam.backends.cpu.growth.splits.rules import plain_node
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernels_by_kind
from hornbeam.backends.cpu.host.team import meet


class Shares(NamedTuple):
    """Which features are whose, in a team and in its groups of 1, 2, 4, ... threads.

    cuts          int64 (n_threads + 1,)          the features cuts[t]:cuts[t + 1] are those of thread t
    blocks        int64 (n,)                      features whose counters are in use together: those of group g of 2**n
    first_blocks  int64 (n_levels, n_threads + 1)     threads are blocks[first_blocks[n, g] : first_blocks[n, g + 1]]
    places        uint32 (n_levels, n_used)       first counter of each feature in its block
    counters      int64 (n_threads, n)            scratch  of one block
    shared        int64 (n_threads, n_total_bins) scratch  see sum_shared; empty: threads never share rows
    look_cost     see tuning.py
    """

    cuts: NDArray[np.int64]
    blocks: NDArray[np.int64]
    first_blocks: NDArray[np.int64]
    places: NDArray[np.uint32]
    counters: NDArray[np.int64]
    shared: NDArray[np.int64]
    look_cost: float


class DenseSums(NamedTuple):
    """Running sums of a tree on dense data.

    offsets      int64 (n_used + 1,)            bins of each feature
    has_missing  bool (n_numeric,)
    planes       of all slots
    counts       int64 (n_threads, most bins)   scratch
    levels       int64 (bins of the categorical features, 2)   scratch  sums of the node that is searched
    """

    shares: Shares
    offsets: NDArray[np.int64]
    has_missing: NDArray[np.bool_]
    planes: Planes
    scores: Scores
    counts: NDArray[np.int64]
    levels: NDArray[np.int64]


class DensePairs(NamedTuple):
    """Histograms of one thread's nodes of a round on dense data.

    counters    int64 (n,)                        scratch
    histograms  int64 (n_slots, n_total_bins, 2)
    """

    layout: Layout
    counters: NDArray[np.int64]
    histograms: NDArray[np.int64]
    features: Features
    scratch: Scratch


@inner_kernel
def sharing_level(n_rows, n_threads, n_bins, look_cost):
    """Return n where 2**n threads should share the rows of a node; 0: each has all rows of its features.

    To look at a row takes as long as to add a few features of it; but what threads have added must be put together.
    """
    best, level = min(np.sqrt(look_cost * n_rows * n_threads / n_bins), np.float64(n_threads)), 0
    while 2 << level <= best:
        level += 1
    return level


@inner_kernel
def sum_shared(t, crew, group_level, bins, records, by_row, begin, end, offsets, shares, gradient, hessian):
    """Sum the rows of a node in groups of 2**group_level threads: each adds some rows, for the features of its group.

    gradient, hessian  int32, uint32 (n_total_bins,)   out   running sums of the thread's features

    Returns False if the team gives up.
    """
    cuts, blocks, first_blocks, shared = shares.cuts, shares.blocks, shares.first_blocks, shares.shared
    n_threads, most, number = crew.size, 1 << group_level, t >> group_level
    group, places = number << group_level, shares.places[group_level]
    size = min(most, n_threads - group)
    n_rows, fewest = end - begin, min(most, n_threads - ((n_threads - 1) >> group_level << group_level))
    first, last = begin + n_rows * (t - group) // size, begin + n_rows * (t - group + 1) // size
    n_passes = max(1, -(-(n_rows // fewest + 1) // PACKED_ROWS))  # for all groups alike
    base, after = offsets[cuts[t]], offsets[cuts[t + 1]]
    own_g, own_h = gradient[base:after], hessian[base:after]
    for turn in range(n_passes):
        start, stop = first + (last - first) * turn // n_passes, first + (last - first) * (turn + 1) // n_passes
        for i in range(first_blocks[group_level, number], first_blocks[group_level, number + 1] - 1):
            counters = shared[t, offsets[blocks[i]] : offsets[blocks[i + 1]]]
            counters[:] = 0
            add_counters(bins, records, start, stop, by_row, blocks[i], blocks[i + 1], places, counters)
        if not meet(crew):
            return False
        if turn == 0:
            own_g[:] = 0
            own_h[:] = 0
        for other in range(group, group + size):
            add_plain(shared[other, base:after], own_g, own_h)
        if turn < n_passes - 1 and not meet(crew):
            return False
    for f in range(cuts[t], cuts[t + 1]):
        run_up(gradient[offsets[f] : offsets[f + 1]], hessian[offsets[f] : offsets[f + 1]])
    return True


def sum_smaller_in_tree(t, crew, rows, sums, small, spare, kept, wanted, moving):
    """See operations.sum_smaller; the larger child is subtracted from when it is searched."""
    shares, offsets, begin, end, by_row = sums.shares, sums.offsets, small.begin, small.end, rows.by_row
    gradient, hessian = sums.planes.gradient[spare], sums.planes.hessian[spare]
    bins, records, n_rows = bins_at(rows, small.depth), rows.even if small.depth % 2 == 0 else rows.odd, end - begin
    if len(shares.shared) > 0:
        group_level = sharing_level(n_rows, crew.size, len(gradient), shares.look_cost)
        if group_level > 0:
            return sum_shared(
                t, crew, group_level, bins, records, by_row, begin, end, offsets, shares, gradient, hessian
            )
    blocks, places, counters = shares.blocks, shares.places[0], shares.counters[t]
    is_long = gradient.itemsize == 8 and n_rows > PACKED_ROWS  # else the packed counters hold them all
    for block in range(shares.first_blocks[0, t], shares.first_blocks[0, t + 1] - 1):
        f0, f1 = blocks[block], blocks[block + 1]
        base, stop = offsets[f0], offsets[f1]
        own_g, own_h, own = gradient[base:stop], hessian[base:stop], counters[: stop - base]
        if is_long:
            own_g[:] = 0
            own_h[:] = 0
        for start in range(begin, end, PACKED_ROWS if is_long else max(1, n_rows)):
            own[:] = 0
            last_row = min(start + PACKED_ROWS, end) if is_long else end
            add_counters(bins, records, start, last_row, by_row, f0, f1, places, own)
            if is_long:
                add_plain(own, own_g, own_h)
        for f in range(f0, f1):
            first, last = offsets[f] - base, offsets[f + 1] - base
            if is_long:
                run_up(own_g[first:last], own_h[first:last])
            else:
                accumulate(own[first:last], own_g[first:last], own_h[first:last])
    return True


@inner_kernel
def take_apart(planes, less, offsets, f0, f1, first_bin, levels):
    """Turn the running sums of the features f0:f1 into sums of their levels; planes and less as in score_features.

    levels  int64 (bins of the categorical features, 2)  out
    """
    gradient, hessian, less_g, less_h = planes.gradient, planes.hessian, less.gradient, less.hessian
    subtracts = len(less_g) > 0
    for f in range(f0, f1):
        g_before, h_before = gradient.dtype.type(0), hessian.dtype.type(0)
        for place in range(np.uint64(offsets[f]), np.uint64(offsets[f + 1])):
            g, h = gradient[place], hessian[place]
            if subtracts:
                g, h = gradient.dtype.type(g - less_g[place]), hessian.dtype.type(h - less_h[place])
                gradient[place], hessian[place] = g, h
            level = place - np.uint64(first_bin)
            levels[level, 0] = gradient.dtype.type(g - g_before)
            levels[level, 1] = np.int64(hessian.dtype.type(h - h_before))
            g_before, h_before = g, h


def search_child_in_tree(t, rows, sums, categories, child, slot, less, set_number, rules, split):
    """See operations.search_child."""
    offsets, has_missing, all_g, all_h = sums.offsets, sums.has_missing, sums.planes.gradient, sums.planes.hessian
    f0, f1, n_numeric = sums.shares.cuts[t], sums.shares.cuts[t + 1], np.int64(len(has_missing))
    planes, sibling = Planes(all_g[slot], all_h[slot]), Planes(all_g[0, :0], all_h[0, :0])
    if less >= 0:
        sibling = Planes(all_g[less], all_h[less])
    node = plain_node(child.begin, child.end, child.depth, child.gradient, child.hessian, rules)
    first, last = min(f0, n_numeric), min(f1, n_numeric)
    score_features(planes, sibling, first, last, offsets, node, rules, sums.scores)
    choose_split(rows, planes, first, last, offsets, has_missing, node, rules, sums.scores, sums.counts[t], split)
    if categories is not None:
        first, last, levels = max(f0, n_numeric), max(f1, n_numeric), sums.levels
        take_apart(planes, sibling, offsets, first, last, categories.first_bin, levels)
        search_categories(
            t, rows, levels, first - n_numeric, last - n_numeric, categories.mask, node, rules, categories,
            categories.first_set + set_number, split,
        )  # fmt: skip


def sum_smaller_in_round(t, crew, rows, sums, small, spare, kept, wanted, moving):
    """See operations.sum_smaller."""
    histograms = sums.histograms
    sum_pairs(rows, np.int64(small.depth), small.begin, small.end, sums.layout, sums.counters, histograms[spare])
    if wanted[1]:
        subtract_pairs(histograms[kept], histograms[spare], 0, histograms.shape[1])
    return True


def search_child_in_round(t, rows, sums, categories, child, slot, less, set_number, rules, split):
    """See operations.search_child."""
    node = plain_node(child.begin, child.end, child.depth, child.gradient, child.hessian, rules)
    search_pairs(
        t, rows, sums.histograms[slot], np.int64(0), np.int64(len(sums.layout.places)), sums.features, node, rules,
        sums.scratch, categories, set_number, split,
    )  # fmt: skip


kernels_by_kind(sum_smaller, "sums", {DenseSums: sum_smaller_in_tree, DensePairs: sum_smaller_in_round})
kernels_by_kind(search_child, "sums", {DenseSums: search_child_in_tree, DensePairs: search_child_in_round})
