"""The operations `sum` and `search` of whole trees on dense data, which keep running sums (running_sums.py).

Each thread sums all rows of a node for its features, or, where a node has so many rows for its bins, some of them, for
the features of a group of threads (sum_shared), which takes one meeting more. Rounds keep pairs (histograms.py): slots
that single operations know, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from hornbeam.backends.cpu.growth.operations import node_of
from hornbeam.backends.cpu.growth.rows.counters import PACKED_ROWS, PAIRS, add_counters
from hornbeam.backends.cpu.growth.splits.contexts import counts_all_features, search_feature
from hornbeam.backends.cpu.growth.splits.rules import clear_split, is_allowed, rules_in
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run
from hornbeam.backends.cpu.host.team import meet


class Shares(NamedTuple):
    """Which features are whose, in a team and in its groups of 1, 2, 4, ... threads.

    cuts          int64 (n_threads + 1,)          the features cuts[t]:cuts[t + 1] are those of thread t
    blocks        int64 (n,)                      features whose counters are in use together: those of group g of 2**n
    first_blocks  int64 (n_levels, n_threads + 1)     threads are blocks[first_blocks[n, g] : first_blocks[n, g + 1]];
                                                      at the last level one group has all threads
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
            add_counters(bins, records, start, stop, by_row, blocks[i], blocks[i + 1], places, counters, PAIRS)
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


@inner_kernel
def _sum(call, crew, rows, shares, offsets, planes):
    """See sum_in_tree; returns False if a thread has failed."""
    begin, end, depth, by_row, t = call.begin, call.end, call.depth, rows.by_row, call.part
    gradient, hessian = planes.gradient[call.spare], planes.hessian[call.spare]
    bins, records, n_rows = bins_at(rows, depth), rows.even if depth % 2 == 0 else rows.odd, end - begin
    if len(shares.shared) > 0 and not call.alone:
        group_level = sharing_level(n_rows, crew.size, len(gradient), shares.look_cost)
        if group_level > 0:
            return sum_shared(
                t, crew, group_level, bins, records, by_row, begin, end, offsets, shares, gradient, hessian
            )
    level, group = (len(shares.places) - 1, np.int64(0)) if call.alone else (0, t)
    blocks, places, counters = shares.blocks, shares.places[level], shares.counters[t]
    is_long = gradient.itemsize == 8 and n_rows > PACKED_ROWS  # else the packed counters hold them all
    for block in range(shares.first_blocks[level, group], shares.first_blocks[level, group + 1] - 1):
        f0, f1 = blocks[block], blocks[block + 1]
        base, stop = offsets[f0], offsets[f1]
        own_g, own_h, own = gradient[base:stop], hessian[base:stop], counters[: stop - base]
        if is_long:
            own_g[:] = 0
            own_h[:] = 0
        for start in range(begin, end, PACKED_ROWS if is_long else max(1, n_rows)):
            own[:] = 0
            last_row = min(start + PACKED_ROWS, end) if is_long else end
            add_counters(bins, records, start, last_row, by_row, f0, f1, places, own, PAIRS)
            if is_long:
                add_plain(own, own_g, own_h)
        for f in range(f0, f1):
            first, last = offsets[f] - base, offsets[f + 1] - base
            if is_long:
                run_up(own_g[first:last], own_h[first:last])
            else:
                accumulate(own[first:last], own_g[first:last], own_h[first:last])
    return True


@kernel
def sum_in_tree(t, room, calls, crew, rows, shares, offsets, planes):
    """Sum the smaller child of a node: the operation `sum`. The larger one is subtracted from when it is searched.

    offsets  int64 (n_used + 1,)  in       bins of each feature
    planes   of all slots         in out
    """
    if introduced(t, room, (calls, crew, rows, shares, offsets, planes)):
        return
    call = calls[t]
    call.failed = not _sum(
        call, crew, rows, shares, offsets, planes
    )  # fmt: skip


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


@inner_kernel
def planes_of(planes, slot):
    """Return the running sums of a slot; none, where it is -1."""
    if slot < 0:
        return Planes(planes.gradient[0, :0], planes.hessian[0, :0])
    return Planes(planes.gradient[slot], planes.hessian[slot])


@inner_kernel
def scores_of(t, scores):
    """Return the memory of one thread."""
    return Scores(scores.scores[t], scores.bits[t], scores.upper[t], scores.upper_bits[t])


@inner_kernel
def _search(t, call, offsets, has_missing, planes, scores, level_sums, marks, rules, counting):
    """See search_in_tree."""
    f0, f1, n_numeric = call.first, call.last, np.int64(len(has_missing))
    own, sibling, node = planes_of(planes, call.slot), planes_of(planes, call.less), node_of(call)
    first, last = min(f0, n_numeric), min(f1, n_numeric)
    score_features(own, sibling, first, last, offsets, call, marks, node, rules, scores)
    if len(marks.masks) > 0:
        mask = marks.masks[call.context]
        for f in range(first, last):
            if not is_allowed(mask, np.int64(marks.numbers[f])):
                scores.upper[f] = 0.0
    choose_split(t, call, counting, own, first, last, offsets, has_missing, marks, node, rules, scores)
    if f1 > n_numeric:
        take_apart(own, sibling, offsets, max(f0, n_numeric), f1, offsets[n_numeric], level_sums)


@inner_kernel
def search_levels_of(t, call, levels):
    """Run the operation `levels` on the sums that take_apart has written."""
    if len(levels) > 0:
        slot, call.slot = call.slot, t
        run(levels, t)
        call.slot = slot


@kernel
def search_in_tree(t, room, calls, offsets, has_missing, planes, scores, level_sums, marks, rules, counting, levels):
    """Search a node: the operation `search` on running sums.

    has_missing  bool (n_numeric,)     in
    planes       of all slots          in out   the smaller sibling is subtracted here
    level_sums   int64 (n_threads, bins of the categorical features, 2)   out   sums of the node, for `levels`
    marks        of features, whose factors are at most 1; its masks say which a node may use; no masks: all
    rules        RULES (1,)            in
    levels       the operation; empty: no feature is categorical
    """
    if introduced(
        t, room, (calls, offsets, has_missing, planes, scores, level_sums, marks, rules, counting, levels)
    ):  # fmt: skip
        return
    call = calls[t]
    _search(
        t, call, offsets, has_missing, planes, scores_of(t, scores),
        level_sums[t],
        marks, rules_in(rules[0]), counting,
    )  # fmt: skip
    search_levels_of(t, call, levels)


@inner_kernel
def subtract_planes(own, less, first, last):
    """Subtract the bins first:last of some running sums from others."""
    for place in range(first, last):
        own.gradient[place] -= less.gradient[place]
        own.hessian[place] -= less.hessian[place]


@inner_kernel
def _search_in_context(t, call, offsets, has_missing, planes, scores, level_sums, marks, rules, counting):
    """See search_tree_in_context."""
    f0, f1, n_numeric, mask = call.first, call.last, np.int64(len(has_missing)), marks.masks[call.context]
    own, sibling = planes_of(planes, call.slot), planes_of(planes, call.less)
    first, last = min(f0, n_numeric), min(f1, n_numeric)
    if len(sibling.gradient) > 0:
        subtract_planes(own, sibling, offsets[first], offsets[last])
    clear_split(call.split)
    counted = counts_all_features(t, call, counting, rules)
    for f in range(first, last):
        if is_allowed(mask, np.int64(marks.numbers[f])):
            begin, end = np.int64(offsets[f]), np.int64(offsets[f + 1])
            search_feature(
                t, call, counting, counted, f, (begin, end), has_missing[f], own.gradient[begin : end - 1],
                own.hessian[begin : end - 1], scores.scores[0, begin : end - 1], marks, rules,
            )  # fmt: skip
    if f1 > n_numeric:
        take_apart(own, sibling, offsets, max(f0, n_numeric), f1, offsets[n_numeric], level_sums)


@kernel
def search_tree_in_context(
    t, room, calls, offsets, has_missing, planes, scores, level_sums, marks, rules, counting, levels
):
    """Search a node with a context: the operation `search` on running sums; arguments as in search_in_tree."""
    if introduced(
        t, room, (calls, offsets, has_missing, planes, scores, level_sums, marks, rules, counting, levels)
    ):  # fmt: skip
        return
    call = calls[t]
    _search_in_context(
        t, call, offsets, has_missing, planes, scores_of(t, scores),
        level_sums[t],
        marks, rules_in(rules[0]), counting,
    )  # fmt: skip
    search_levels_of(t, call, levels)
