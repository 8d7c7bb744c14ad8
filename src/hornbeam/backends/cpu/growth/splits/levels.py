"""Splits of categorical features: twin of categorical_splits.best_level_set.

The gain of a candidate is that of rules.py. Rows are counted, one feature of one node at a time, for path smoothing,
and where the bounds of a row's hessian (core/fixed_point.py) leave open whether a side has min_data_in_leaf of them and
a candidate would win if it had. Of many levels only those are put in order that may go left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import count_bins, node_at_cost
from hornbeam.backends.cpu.growth.splits.rules import candidate_gain, cost_of, is_allowed, random_threshold, rules_in
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced

FEW_LEVELS = 48
"""Levels that are sorted by inserting one after the other."""

BY_HESSIANS, BY_BOUNDS, COUNTED = range(3)
"""Where the numbers of rows come from: hessians are 1 each; the bounds decide where they can; rows are counted."""


class LevelRules(NamedTuple):
    """The rules of trees/splitting.CategoricalRules."""

    max_one_hot: int
    max_threshold: int
    l2: float
    min_group: float
    smooth: float


class LevelScratch(NamedTuple):
    """What one thread needs to search categorical features; with a leading axis: all threads.

    keys       float64 (most_bins,)    what levels are sorted by
    estimated  float64 (most_bins,)    rows of every level with enough of them, estimated
    levels     int64   (most_bins,)    those levels
    ends       int64   (2, most_bins)  in the order in which they are taken, from the low and from the high end
    """

    keys: NDArray[np.float64]
    estimated: NDArray[np.float64]
    levels: NDArray[np.int64]
    ends: NDArray[np.int64]


class Categories(NamedTuple):
    """The categorical features that a tree may use; they come after all others.

    first_bin      of the first of them
    first_feature  its position: the number of other features
    offsets        int64 (n + 1,)              bins of each, from first_bin on
    numbers        int32 (n,)                  their names in masks and contributions
    rules          see LevelRules
    mask           uint32 (n, n_words)         features that may be used, by context: NodeContext.mask; no words: all
    contribution   float64 (n_used,)           factors by name, see splitting.FeatureRules; empty: 1 each
    costs          float64 (n, n_used)         by context, see contexts.Marks
    sets           uint32 (n_sets, n_words)    bins that go left at the splits of the tree, bits as in tree.code_bits
    first_set      of this search: a call writes the set of its set_number from here on
    scratch        see LevelScratch, with a leading axis for the threads
    """

    first_bin: int
    first_feature: int
    offsets: NDArray[np.int64]
    numbers: NDArray[np.int32]
    rules: LevelRules
    mask: NDArray[np.uint32]
    contribution: NDArray[np.float64]
    costs: NDArray[np.float64]
    sets: NDArray[np.uint32]
    first_set: int
    scratch: LevelScratch


@inlined
def comes_before(key_a, level_a, key_b, level_b, side):
    """Say whether level a is taken before level b: from the low end (side 0) or from the high end."""
    if key_a == key_b:
        return (level_a < level_b) ^ (side != 0)
    return (key_a < key_b) ^ (side != 0)


@inner_kernel
def sink(keys, levels, at, size, side):
    """Let an entry of a heap sink to its place; the first entry is the one that is taken next."""
    key, level = keys[at], levels[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and comes_before(keys[child + 1], levels[child + 1], keys[child], levels[child], side):
            child += 1
        if not comes_before(keys[child], levels[child], key, level, side):
            break
        keys[at], levels[at] = keys[child], levels[child]
        at = child
    keys[at], levels[at] = key, level


@inner_kernel
def sort_levels(histogram, node, rules, level_rules, scratch):
    """Find the levels with enough rows that may go left, in order, from both ends; return how many from each.

    Twin of categorical_splits.sorted_levels. With L levels that have enough rows, (L + 1) / 2 may go left, at most
    max_threshold.

    histogram  int64 (n_levels + 1, 2)  in
    scratch    `estimated` and `ends` are filled
    """
    keys, estimated, levels, ends = scratch.keys, scratch.estimated, scratch.levels, scratch.ends
    share = np.float64(node.end - node.begin) / np.float64(node.hessian)
    n, smooth = 0, level_rules.smooth
    for b in range(len(histogram) - 1):
        h = histogram[b, 1]
        if h <= 0:
            continue
        n_rows = np.floor(np.float64(h) * share + 0.5)
        if n_rows >= smooth:
            estimated[b], levels[n] = n_rows, b
            keys[n] = (histogram[b, 0] * rules.gradient_unit) / (h * rules.hessian_unit + smooth)
            n += 1
    most = min((n + 1) // 2, level_rules.max_threshold)
    if n <= FEW_LEVELS:
        for i in range(1, n):
            key, level, place = keys[i], levels[i], i
            while place > 0 and keys[place - 1] > key:
                keys[place], levels[place] = keys[place - 1], levels[place - 1]
                place -= 1
            keys[place], levels[place] = key, level
        for i in range(most):
            ends[0, i], ends[1, i] = levels[i], levels[n - 1 - i]
        return most
    for side in range(2):
        size = n
        for step in range(n // 2 + most):
            at = n // 2 - 1 - step
            if at < 0:  # the heap is made: its first is taken, and stays behind its end
                at, size = 0, size - 1
                key, level = keys[0], levels[0]
                ends[side, step - n // 2] = level
                keys[0], levels[0], keys[size], levels[size] = keys[size], levels[size], key, level
            sink(keys, levels, at, size, side)
    return most


@inner_kernel
def scan_levels(histogram, counts, counted, only, most, factor, node, rules, level_rules, scratch):
    """Find the best set of one feature of one node.

    histogram  int64 (n_levels + 1, 2)   in   the missing bin last
    counts     int64 (n_levels + 1,)     in   rows
    counted    BY_HESSIANS, BY_BOUNDS or COUNTED: by `counts`
    only       number of the one candidate to try; -1: all
    most       candidates from each end, or number of levels where they are few
    scratch    in: `ends` and `estimated` where levels are many

    Returns gain, size and end of the set (-1: the one level `size`), its sums, and the best gain of the candidates that
    are allowed or not as the rows' counts will tell.
    """
    estimated, ends = scratch.estimated, scratch.ends
    n_rows, min_group, zero = node.end - node.begin, level_rules.min_group, np.int64(0)
    best, best_size, best_end, best_g, best_h, best_open = -np.inf, zero, np.int64(-1), zero, zero, -np.inf
    few_levels = len(histogram) - 1 <= level_rules.max_one_hot
    more_l2 = 0.0 if few_levels else level_rules.l2
    for end in range(1 if few_levels else 2):
        g, h, rows = zero, zero, zero
        in_group, so_far, is_open = 0.0, 0.0, False
        for i in range(most):
            if few_levels:
                b, g, h, rows, is_open = np.int64(i), zero, zero, zero, False
            else:
                b = ends[end, i]
            g += histogram[b, 0]
            h += histogram[b, 1]
            if counted == COUNTED:
                rows += counts[b]
            right_h = node.hessian - h
            if not few_levels:  # sides only grow and shrink: what ends the candidates here ends them for good
                in_group += estimated[b]
                so_far += estimated[b]
                if n_rows - so_far < min_group or right_h * rules.hessian_unit < rules.min_hessian:
                    break
                if h * rules.hessian_unit < rules.min_hessian or (in_group < min_group and not is_open):
                    continue
            left_rows, right_rows = rows, n_rows - rows
            if counted == BY_HESSIANS:
                left_rows, right_rows = h, right_h
            elif counted == BY_BOUNDS:
                if h < rules.few or right_h < rules.few:
                    continue
                left_rows = right_rows = np.int64(rules.min_data)
                is_open |= h <= rules.many or right_h <= rules.many
            if left_rows < rules.min_data or right_rows < rules.min_data:
                continue
            in_group = 0.0
            if only >= 0 and i != only:
                continue
            gain = candidate_gain(g, h, left_rows, right_rows, node, rules, np.int64(0), factor, more_l2)
            if is_open:  # nor is it known how many rows are in the groups after this one
                best_open = max(best_open, gain)
            elif gain > best:
                best, best_g, best_h = gain, g, h
                best_size, best_end = (b, np.int64(-1)) if few_levels else (np.int64(i + 1), np.int64(end))
    return best, best_size, best_end, best_g, best_h, best_open


@inner_kernel
def search_feature(t, call, counting, histogram, f, number, factor, node, rules, categories, scratch):
    """Replace the split of a call where one of one categorical feature is better; then its set is written.

    histogram  int64 (n_levels + 1, 2)   in
    f, number  position of the feature in the bins, and its name
    factor     see candidate_gain
    scratch    of this thread
    """
    split, counts = call.split, counting.counts[t, : len(histogram)]
    level_rules, most = categories.rules, np.int64(len(histogram) - 1)
    counted = BY_BOUNDS
    if rules.rows_are_hessians:
        counted = BY_HESSIANS
    elif rules.path_smooth > 0.0:
        counted = COUNTED
    if most > level_rules.max_one_hot:
        most = np.int64(sort_levels(histogram, node, rules, level_rules, scratch))
    only = random_threshold(node.key, number, most, True) if rules.extra_trees else np.int64(-1)
    while True:
        if counted == COUNTED:
            counts = count_bins(t, call, counting, f, len(histogram))
        gain, size, end, g, h, open_gain = scan_levels(
            histogram, counts, counted, only, most, factor, node, rules, level_rules, scratch
        )
        if open_gain <= split.gain or open_gain < gain:
            break
        counted = COUNTED
    if gain > split.gain:
        set_number = categories.first_set + call.set_number
        left_set = categories.sets[set_number]
        left_set[:] = 0
        for place in range(1 if end < 0 else size):
            b = size if end < 0 else scratch.ends[end, place]
            left_set[b >> 5] |= np.uint32(1) << np.uint32(b & 31)
        split.gain, split.feature, split.bin, split.missing_left = gain, f, set_number, False
        split.left_gradient, split.left_hessian = g, h


@inner_kernel
def scratch_of(scratch, t):
    """Return the scratch memory of thread t."""
    return LevelScratch(scratch.keys[t], scratch.estimated[t], scratch.levels[t], scratch.ends[t])


@inner_kernel
def _search(t, call, counting, histogram, mask, rules, categories):
    """See search_levels."""
    offsets, numbers, contribution = categories.offsets, categories.numbers, categories.contribution
    scratch, costs, before = scratch_of(categories.scratch, t), categories.costs, categories.first_feature
    for i in range(max(call.first - before, 0), max(call.last - before, 0)):
        number, factor = np.int64(numbers[i]), 1.0
        if len(mask) > 0 and not is_allowed(mask, number):
            continue
        if len(contribution) > 0:
            factor = contribution[number]
        node = node_at_cost(call, cost_of(costs, call.context, number))
        search_feature(
            t, call, counting, histogram[offsets[i] : offsets[i + 1]], before + i, number, factor, node, rules,
            categories, scratch,
        )  # fmt: skip


@kernel
def search_levels(t, room, calls, histograms, thin, rules, categories, counting):
    """Replace the split of a call where one of its categorical features has a better one: the operation `levels`.

    histograms, thin  see pairs.search_pairs; of the bins categories.first_bin... those of categories are read
    rules             RULES (1,)  in
    """
    if introduced(t, room, (calls, histograms, thin, rules, categories, counting)):
        return
    call = calls[t]
    histogram = histograms[call.slot] if call.slot >= 0 else thin[t]
    _search(
        t, call, counting, histogram[categories.first_bin :], categories.mask[call.context],
        rules_in(rules[0]), categories,
    )  # fmt: skip
