"""Splits of categorical features on the CPU: twin of categorical.best_level_set.

The gain of a candidate is that of split_general.py. Rows are counted, one feature of one node at a time, only where the
bounds of a row's hessian leave open whether a side has min_data_in_leaf of them (quantize.py), or for path smoothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.split import leaf_score
from hornbeam.backends.cpu.split_general import candidate_gain, count_rows, random_threshold
from hornbeam.backends.cpu.threads import run_ranges
from hornbeam.backends.protocol import Segments
from hornbeam.quantize import Quantization
from hornbeam.splitting import NodeContext, SplitRules

BINS_PER_THREAD = 2_000
"""A second thread is worth waking for this many bins."""

FEW_LEVELS = 48
"""Levels that are sorted by inserting one after the other."""

COUNTED, BY_HESSIAN, BY_BOUNDS = 0, 1, 2
"""Where the numbers of rows come from, see scan_levels."""


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def rows_of(hessian, counted, how_counted, min_data, bounds):  # type: ignore[no-untyped-def]
    """Return a number of rows that compares with min_data as the true one; -1: that is not known."""
    if how_counted == COUNTED:
        return counted
    if how_counted == BY_HESSIAN:
        return hessian
    if hessian > (min_data - 1) * bounds[1]:
        return np.int64(min_data)
    if hessian < min_data * bounds[0]:
        return np.int64(0)
    return np.int64(-1)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sort_levels(histogram, n_levels, n_rows, total_h, units, smooth, keys, estimated, levels):  # type: ignore[no-untyped-def]
    """Return the levels with enough rows, sorted: twin of categorical.sorted_levels.

    keys       float64 (>= n_levels,)  scratch
    estimated  float64 (>= n_levels,)  out      rows of every level, estimated
    levels     int64   (>= n_levels,)  scratch  where few levels are sorted, and returned
    """
    share = np.float64(n_rows) / np.float64(total_h)
    n_usable = 0
    for b in range(n_levels):
        h = histogram[b, 1]
        estimated[b] = np.floor(np.float64(h) * share + 0.5)
        if h > 0 and estimated[b] >= smooth:
            levels[n_usable] = b
            keys[n_usable] = (histogram[b, 0] * units[0]) / (h * units[1] + smooth)
            n_usable += 1
    if n_usable > FEW_LEVELS:
        return levels[:n_usable][np.argsort(keys[:n_usable], kind="mergesort")]  # stable: equals by bin
    for i in range(1, n_usable):
        key, level, place = keys[i], levels[i], i
        while place > 0 and keys[place - 1] > key:
            keys[place], levels[place] = keys[place - 1], levels[place - 1]
            place -= 1
        keys[place], levels[place] = key, level
    return levels[:n_usable]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_levels(  # type: ignore[no-untyped-def]
    histogram, counts, how_counted, total_g, total_h, n_rows, parent, units, rules, many, bounds, node, factor, key,
    feature, extra_trees, order, estimated,
):  # fmt: skip
    """Find the best set of one feature of one node.

    histogram    int64 (n_levels + 1, 2)   in  the missing bin last
    counts       int64 (n_levels + 1,)     in  rows, where they were counted
    how_counted  COUNTED: by `counts`; BY_HESSIAN: hessians are 1 each; BY_BOUNDS: the bounds decide where they can
    rules        see split_general.candidate_gain
    many         (max_cat_to_onehot, max_cat_threshold, cat_l2, min_data_per_group)
    bounds       (smallest, largest) fixed-point hessian of a row
    order        int64 (n,)  in  levels in order, see sort_levels; empty for few levels
    estimated    float64     in  rows of every level, estimated

    Returns gain, size and direction of the set (0: the one level `size`), its sums, and whether rows must be counted
    first, which makes the rest worthless.
    """
    n_levels = len(histogram) - 1
    min_data, min_hessian = rules[4], rules[5]
    zero = np.int64(0)
    best, best_size, best_direction, best_g, best_h = -np.inf, zero, zero, zero, zero
    if n_levels <= many[0]:
        only = random_threshold(key, feature, n_levels, True) if extra_trees else -1
        for b in range(n_levels):
            if only >= 0 and b != only:
                continue
            g, h = histogram[b, 0], histogram[b, 1]
            if h <= 0 or total_h - h <= 0:
                continue
            left_rows = rows_of(h, counts[b], how_counted, min_data, bounds)
            right_rows = rows_of(total_h - h, n_rows - counts[b], how_counted, min_data, bounds)
            if left_rows < 0 or right_rows < 0:
                return best, best_size, best_direction, best_g, best_h, True
            gain = candidate_gain(
                g, h, total_g - g, total_h - h, left_rows, right_rows, parent, units, rules, node, 0, factor
            )
            if gain > best:
                best, best_size, best_g, best_h = gain, np.int64(b), g, h
        return best, best_size, best_direction, best_g, best_h, False
    n_usable = len(order)
    most = (n_usable + 1) // 2
    if most > many[1]:
        most = many[1]
    only = random_threshold(key, feature, most, True) if extra_trees else -1
    many_rules = rules[0], rules[1] + many[2], rules[2], rules[3], rules[4], rules[5], rules[6], rules[7]
    for side in range(2):
        g, h, rows = zero, zero, zero
        in_group = so_far = 0.0
        for i in range(most):
            b = order[i] if side == 0 else order[n_usable - 1 - i]
            g += histogram[b, 0]
            h += histogram[b, 1]
            rows += counts[b]
            in_group += estimated[b]
            so_far += estimated[b]
            left_rows = rows_of(h, rows, how_counted, min_data, bounds)
            right_rows = rows_of(total_h - h, n_rows - rows, how_counted, min_data, bounds)
            if left_rows < 0 or right_rows < 0:
                return best, best_size, best_direction, best_g, best_h, True
            if left_rows < min_data or h * units[1] < min_hessian:
                continue
            if right_rows < min_data or (total_h - h) * units[1] < min_hessian:
                break
            if n_rows - so_far < many[3]:
                break
            if in_group < many[3]:
                continue
            in_group = 0.0
            if only >= 0 and i != only:
                continue
            gain = candidate_gain(
                g, h, total_g - g, total_h - h, left_rows, right_rows, parent, units, many_rules, node, 0, factor
            )
            if gain > best:
                best, best_size, best_direction, best_g, best_h = gain, np.int64(i + 1), np.int64(1 - 2 * side), g, h
    return best, best_size, best_direction, best_g, best_h, False


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def search_levels(  # type: ignore[no-untyped-def]
    source, records, gather, histogram, total_g, total_h, begin, end, f, number, parent, units, rules, many, smooth,
    bounds, extra_trees, node, key, factor, scratch, set_number, sets, split,
):  # fmt: skip
    """Replace the split of one node where one of one categorical feature is better.

    source, records  bins and records of the node's depth
    histogram        int64 (n_levels + 1, 2)   in
    f, number        position of the feature in the bins, and what it is called outside
    scratch          counts int64, keys float64, estimated float64, levels int64, each (>= n_levels + 1,)
    sets             uint32 (n_sets, n_words)  out  entry set_number
    split            SPLIT ()                  in, out
    the rest as in scan_levels
    """
    counts, keys, estimated, levels = scratch
    usual = BY_BOUNDS
    if bounds[0] == 1 and bounds[1] == 1:
        usual = BY_HESSIAN
    elif rules[6] > 0.0:
        usual = COUNTED
    n_levels, n_rows = len(histogram) - 1, end - begin
    order = levels[:0]
    if n_levels > many[0]:
        order = sort_levels(histogram, n_levels, n_rows, total_h, units, smooth, keys, estimated, levels)
    if usual == COUNTED:
        count_rows(source, records, gather, begin, end, f, counts)
    gain, size, direction, g, h, is_open = scan_levels(
        histogram, counts, usual, total_g, total_h, n_rows, parent, units, rules, many, bounds, node, factor, key,
        number, extra_trees, order, estimated,
    )  # fmt: skip
    if is_open:
        count_rows(source, records, gather, begin, end, f, counts)
        gain, size, direction, g, h, is_open = scan_levels(
            histogram, counts, COUNTED, total_g, total_h, n_rows, parent, units, rules, many, bounds, node, factor,
            key, number, extra_trees, order, estimated,
        )  # fmt: skip
    if gain > split.gain:
        own = sets[set_number]
        own[:] = 0
        if direction == 0:
            own[size >> 5] |= np.uint32(1) << np.uint32(size & 31)
        for place in range(size if direction != 0 else 0):
            b = order[place] if direction > 0 else order[len(order) - 1 - place]
            own[b >> 5] |= np.uint32(1) << np.uint32(b & 31)
        split.gain, split.feature, split.bin, split.missing_left = gain, f, set_number, False
        split.left_gradient, split.left_hessian = g, h


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def level_scratch(offsets, n_numeric):  # type: ignore[no-untyped-def]
    """Return the scratch memory of search_levels."""
    most_bins = np.int64(1)
    for f in range(n_numeric, len(offsets) - 1):
        most_bins = max(most_bins, np.int64(offsets[f + 1]) - np.int64(offsets[f]))
    return np.zeros(most_bins, np.int64), np.empty(most_bins), np.empty(most_bins), np.empty(most_bins, np.int64)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def improve_child(  # type: ignore[no-untyped-def]
    source, records, gather, histogram, total_g, total_h, begin, end, offsets, own, set_number, split
):
    """Replace the split of a node without a context where one of a categorical feature is better.

    histogram  int64 (n_total_bins, 2)  in
    own        (n_numeric, units, rules, many, smooth, bounds, first set, sets), see CategoricalFinder.for_round
    """
    n_numeric, units, rules, many, smooth, bounds, first_set, sets = own
    scratch = level_scratch(offsets, n_numeric)
    parent = leaf_score(total_g * units[0], total_h * units[1], rules[0], rules[1], rules[2])
    for f in range(n_numeric, len(offsets) - 1):
        search_levels(
            source, records, gather, histogram[np.int64(offsets[f]) : np.int64(offsets[f + 1])], total_g, total_h,
            begin, end, f, f, parent, units, rules, many, smooth, bounds, False, (-np.inf, np.inf, 0.0), np.uint64(0),
            1.0, scratch, first_set + set_number, sets, split,
        )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def categorical_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, histograms, slots, gradient, hessian, begin, end, depth, offsets,
    n_numeric, numbers, units, rules, many, smooth, bounds, extra_trees, nodes, keys, mask, contribution, start, stop,
    first_set, sets, best,
):  # fmt: skip
    """Replace the splits of the nodes start:stop where one of a categorical feature is better.

    numbers       int32 (n_used,)            in   what each feature is called in mask and contribution
    nodes         float64 (n_nodes, 4)       in   lower, upper, parent_output, score; empty: there is no context
    keys          uint64 (n_nodes,)          in
    mask          uint32 (n_nodes, n_words)  in   features that may be used
    contribution  float64 (n_used,)          in
    sets          uint32 (n_sets, n_words)   out  bits of the bins that go left, from first_set on one a node
    best          SPLIT (n_nodes,)           in, out
    """
    scratch = level_scratch(offsets, n_numeric)
    has_context = len(nodes) > 0
    for i in range(start, stop):
        total_g, total_h = gradient[i], hessian[i]
        source, records = bins_at(bins, bins_even, bins_odd, gather, depth[i]), records_at(even, odd, depth[i])
        parent = leaf_score(total_g * units[0], total_h * units[1], rules[0], rules[1], rules[2])
        node, key = (-np.inf, np.inf, 0.0), np.uint64(0)
        if has_context:
            parent, node, key = nodes[i, 3], (nodes[i, 0], nodes[i, 1], nodes[i, 2]), keys[i]
        for f in range(n_numeric, len(offsets) - 1):
            number, factor = np.int64(numbers[f]), 1.0
            if has_context:
                if (mask[i, number // 32] >> np.uint32(number % 32)) & np.uint32(1) == 0:
                    continue
                factor = contribution[number]
            search_levels(
                source, records, gather, histograms[slots[i], offsets[f] : offsets[f + 1]], total_g, total_h, begin[i],
                end[i], f, number, parent, units, rules, many, smooth, bounds, extra_trees, node, key, factor, scratch,
                first_set + i, sets, best[i],
            )  # fmt: skip


class CategoricalFinder:
    """Finds splits of categorical features for one training run, and keeps their sets.

    sets  uint32 (n_sets, n_words): see protocol.Engine.left_sets
    """

    def __init__(self, n_words: int, n_threads: int) -> None:
        self.n_threads = n_threads
        self.sets = np.zeros((64, n_words), np.uint32)
        self.n_sets = 0

    def begin_tree(self) -> None:
        """Forget the sets."""
        self.n_sets = 0

    def reserve(self, n_nodes: int) -> int:
        """Make room for the sets of some nodes and return the number of the first."""
        first, self.n_sets = self.n_sets, self.n_sets + n_nodes
        if self.n_sets > len(self.sets):
            more = np.zeros((max(2 * len(self.sets), self.n_sets), self.sets.shape[1]), np.uint32)
            more[:first] = self.sets[:first]
            self.sets = more
        return first

    def for_round(self, n_nodes: int, n_numeric: int, quantization: Quantization, rules: SplitRules) -> tuple[Any, ...]:
        """Return what improve_child takes, with room for the sets of some nodes."""
        first = self.reserve(n_nodes)
        return n_numeric, *categorical_numbers(quantization, rules), first, self.sets

    def improve(
        self,
        store: RowStore,
        histograms: NDArray[np.int64],
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        offsets: NDArray[np.int64],
        n_numeric: int,
        numbers: NDArray[np.int32],
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        best: NDArray[np.void],
    ) -> None:
        """Replace splits where one of a categorical feature is better.

        offsets, n_numeric, numbers  see columns.Columns; numbers are its features
        best  SPLIT (n_nodes,)  in, out  the best splits of numbers
        the rest as in protocol.Engine.find_splits
        """
        n_nodes = len(slots)
        if n_nodes == 0 or n_numeric == len(numbers):
            return
        first = self.reserve(n_nodes)
        around = np.empty((0, 4))
        keys, mask, contribution = np.empty(0, np.uint64), np.empty((0, 1), np.uint32), np.empty(0)
        if context is not None:
            around = np.stack([context.lower, context.upper, context.parent_output, context.score], axis=1)
            keys, mask, contribution = context.key, context.mask, context.features.contribution
        how = categorical_numbers(quantization, rules)
        bins_per_node = max(1, int(offsets[-1] - offsets[n_numeric]))
        run_ranges(
            lambda start, stop: categorical_kernel(
                *store.arrays(), histograms, slots, gradient, hessian, nodes.begin, nodes.end, nodes.depth, offsets,
                n_numeric, numbers, *how, context is not None and rules.extra_trees, around, keys, mask, contribution,
                start, stop, first, self.sets, best,
            ),
            n_nodes, self.n_threads, smallest=BINS_PER_THREAD // bins_per_node + 1,
        )  # fmt: skip


def categorical_numbers(quantization: Quantization, rules: SplitRules) -> tuple[object, ...]:
    """Return `units, rules, many, smooth, bounds` as categorical_kernel takes them."""
    own = rules.categorical
    return (
        (quantization.gradient_unit, quantization.hessian_unit),
        (
            rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, rules.min_gain_to_split,
            float(rules.min_data_in_leaf), rules.min_sum_hessian_in_leaf, rules.path_smooth, rules.monotone,
        ),
        (own.max_cat_to_onehot, own.max_cat_threshold, own.cat_l2, float(own.min_data_per_group)),
        own.cat_smooth,
        (float(quantization.hessian_min), float(quantization.hessian_max)),
    )  # fmt: skip
