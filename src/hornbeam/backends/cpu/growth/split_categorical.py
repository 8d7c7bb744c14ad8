"""Splits of categorical features on the CPU: twin of categorical.best_level_set.

The gain of a candidate is that of split_general.py. Rows are counted, one feature of one node at a time, for path
smoothing, and where the bounds of a row's hessian (quantize.py) leave open whether a side has min_data_in_leaf of them
and a candidate would win if it had. Of many levels only those are put in order that may go left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.growth.split import leaf_score
from hornbeam.backends.cpu.growth.split_general import candidate_gain, count_rows, random_threshold
from hornbeam.backends.cpu.growth.stored_partition import count_bins
from hornbeam.backends.cpu.host.team import inner_kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, pack_mask

BINS_PER_THREAD = 2_000
"""A second thread is worth waking for this many bins."""

FEW_LEVELS = 48
"""Levels that are sorted by inserting one after the other."""

COUNTED, BY_HESSIAN, BY_BOUNDS = 0, 1, 2
"""Where the numbers of rows come from, see scan_levels."""

NO_CONTRIBUTION = np.empty(0)


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def comes_before(key_a, level_a, key_b, level_b, side):  # type: ignore[no-untyped-def]
    """Say whether level a is taken before level b: from the low end (side 0) or from the high end."""
    if key_a == key_b:
        return (level_a < level_b) ^ (side != 0)
    return (key_a < key_b) ^ (side != 0)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sink(keys, levels, at, size, side):  # type: ignore[no-untyped-def]
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sort_levels(histogram, n_rows, total_h, units, smooth, largest, scratch):  # type: ignore[no-untyped-def]
    """Find the levels with enough rows that may go left, in order, from both ends; return how many from each.

    Twin of categorical.sorted_levels. With L levels that have enough rows, (L + 1) / 2 may go left, at most `largest`.

    histogram  int64 (n_levels + 1, 2)  in
    scratch    see level_scratch; `estimated` and `ends` are filled
    """
    _, keys, estimated, levels, ends = scratch
    share = np.float64(n_rows) / np.float64(total_h)
    n = 0
    for b in range(len(histogram) - 1):
        h = histogram[b, 1]
        if h <= 0:
            continue
        rows = np.floor(np.float64(h) * share + 0.5)
        if rows >= smooth:
            estimated[b], levels[n] = rows, b
            keys[n] = (histogram[b, 0] * units[0]) / (h * units[1] + smooth)
            n += 1
    most = min((n + 1) // 2, largest)
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_levels(  # type: ignore[no-untyped-def]
    histogram, how_counted, total_g, total_h, n_rows, parent, units, rules, many, bounds, node, factor, only, most,
    scratch,
):  # fmt: skip
    """Find the best set of one feature of one node.

    histogram    int64 (n_levels + 1, 2)   in  the missing bin last
    how_counted  COUNTED: by `counts` of the scratch memory; BY_HESSIAN: hessians are 1 each; BY_BOUNDS: the bounds
                 decide where they can
    rules        see split_general.candidate_gain
    many         (max_cat_to_onehot, max_cat_threshold, cat_l2, min_data_per_group)
    bounds       (smallest, largest) fixed-point hessian of a row
    only         number of the one candidate to try, or -1: all
    most         candidates from each end, or number of levels where they are few
    scratch      see level_scratch; in: `ends` and `estimated` where levels are many

    Returns gain, size and end of the set (-1: the one level `size`), its sums, and the best gain of the candidates that
    are allowed or not as the rows' counts will tell.
    """
    counts, _, estimated, _, ends = scratch
    min_data, min_hessian, min_group = rules[4], rules[5], many[3]
    enough, too_few = (min_data - 1) * bounds[1], min_data * bounds[0]
    zero = np.int64(0)
    best, best_size, best_end, best_g, best_h, best_open = -np.inf, zero, np.int64(-1), zero, zero, -np.inf
    few = len(histogram) - 1 <= many[0]
    own_rules = rules[0], rules[1] + many[2], rules[2], rules[3], rules[4], rules[5], rules[6], rules[7]
    if few:
        own_rules = rules
    for end in range(1 if few else 2):
        g, h, rows = zero, zero, zero
        in_group, so_far, is_open = 0.0, 0.0, False
        for i in range(most):
            if few:
                b, g, h, rows, is_open = i, zero, zero, zero, False
            else:
                b = ends[end, i]
            g += histogram[b, 0]
            h += histogram[b, 1]
            if how_counted == COUNTED:
                rows += counts[b]
            if not few:  # sides only grow and shrink: what ends the candidates here ends them for good
                in_group += estimated[b]
                so_far += estimated[b]
                if n_rows - so_far < min_group or (total_h - h) * units[1] < min_hessian:
                    break
                if h * units[1] < min_hessian or (in_group < min_group and not is_open):
                    continue
            left_rows, right_rows = rows, n_rows - rows
            if how_counted == BY_HESSIAN:
                left_rows, right_rows = h, total_h - h
            elif how_counted == BY_BOUNDS:
                if h < too_few or total_h - h < too_few:
                    continue
                left_rows = right_rows = np.int64(min_data)
                is_open |= h <= enough or total_h - h <= enough
            if left_rows < min_data or right_rows < min_data:
                continue
            in_group = 0.0
            if only >= 0 and i != only:
                continue
            gain = candidate_gain(
                g, h, total_g - g, total_h - h, left_rows, right_rows, parent, units, own_rules, node, 0, factor
            )
            if is_open:  # nor is it known how many rows are in the groups after this one
                best_open = max(best_open, gain)
            elif gain > best:
                best, best_g, best_h = gain, g, h
                best_size, best_end = (np.int64(b), np.int64(-1)) if few else (np.int64(i + 1), np.int64(end))
    return best, best_size, best_end, best_g, best_h, best_open


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def search_levels(  # type: ignore[no-untyped-def]
    source, records, gather, histogram, total_g, total_h, begin, end, f, parent, units, rules, many, smooth, bounds,
    node, factor, is_random, bits, scratch, set_number, sets, split, stored=None,
):  # fmt: skip
    """Replace the split of one node where one of one categorical feature is better.

    source, records  bins and records of the node's depth
    histogram        int64 (n_levels + 1, 2)   in
    f                position of the feature in the bins
    is_random, bits  key and feature of the one candidate that is tried, see split_general.random_threshold
    scratch          see level_scratch
    sets             uint32 (n_sets, n_words)  out  entry set_number
    split            SPLIT ()                  in, out
    stored           of stored bins (bundling.py), which are not in `source`: the arguments of
                     stored_partition.count_bins but for the records; or None
    the rest as in scan_levels
    """
    how_counted = BY_BOUNDS
    if bounds[0] == 1 and bounds[1] == 1:
        how_counted = BY_HESSIAN
    elif rules[6] > 0.0:
        how_counted = COUNTED
    n_rows, most = end - begin, len(histogram) - 1
    if most > many[0]:
        most = sort_levels(histogram, n_rows, total_h, units, smooth, many[1], scratch)
    only = random_threshold(bits[0], bits[1], most, True) if is_random else np.int64(-1)
    while True:
        if how_counted == COUNTED:
            if stored is not None:
                codes, place_of, storage, starts, rows = stored
                count_bins(codes, records, place_of, storage, starts, rows, f, begin, end, scratch[0])
            else:
                count_rows(source, records, gather, begin, end, f, scratch[0])
        gain, size, which, g, h, open_gain = scan_levels(
            histogram, how_counted, total_g, total_h, n_rows, parent, units, rules, many, bounds, node, factor, only,
            most, scratch,
        )  # fmt: skip
        if open_gain <= split.gain or open_gain < gain:
            break
        how_counted = COUNTED
    if gain > split.gain:
        own = sets[set_number]
        own[:] = 0
        if which < 0:
            own[size >> 5] |= np.uint32(1) << np.uint32(size & 31)
        else:
            for place in range(size):
                b = scratch[4][which, place]
                own[b >> 5] |= np.uint32(1) << np.uint32(b & 31)
        split.gain, split.feature, split.bin, split.missing_left = gain, f, set_number, False
        split.left_gradient, split.left_hessian = g, h


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def improve_node(  # type: ignore[no-untyped-def]
    source, records, gather, histogram, total_g, total_h, begin, end, around, key, mask, own, scratch, set_number,
    split, stored=None,
):  # fmt: skip
    """Replace the split of one node where one of a categorical feature is better.

    histogram  int64 (bins of the categorical features, 2)  in
    around     (lower, upper, parent_output, score) of the node, and its key; see splitting.NodeContext
    mask       uint32 (n_words,)                            in   features that may be used; empty: all
    own        see CategoricalFinder.own
    scratch    see level_scratch
    set_number, split and stored as in search_levels
    """
    _, offsets, numbers, n_numeric, units, rules, many, smooth, bounds, contribution, extra_trees, sets = own
    node = around[0], around[1], around[2]
    for i in range(len(offsets) - 1):
        number, factor = np.int64(numbers[i]), 1.0
        if len(mask) > 0:
            if (mask[number // 32] >> np.uint32(number % 32)) & np.uint32(1) == 0:
                continue
            if len(contribution) > 0:
                factor = contribution[number]
        search_levels(
            source, records, gather, histogram[offsets[i] : offsets[i + 1]], total_g, total_h, begin, end,
            n_numeric + i, around[3], units, rules, many, smooth, bounds, node, factor, extra_trees, (key, number),
            scratch, set_number, sets, split, stored,
        )  # fmt: skip


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def around_node(total_g, total_h, own):  # type: ignore[no-untyped-def]
    """Return `around` of a node without a context, see improve_node."""
    units, rules = own[4], own[5]
    score = leaf_score(total_g * units[0], total_h * units[1], rules[0], rules[1], rules[2])
    return -np.inf, np.inf, 0.0, score


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def categorical_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, histograms, slots, gradient, hessian, begin, end, depth, own, scratch,
    nodes, keys, masks, start, stop, first_set, best, stored=None,
):  # fmt: skip
    """Replace the splits of the nodes start:stop where one of a categorical feature is better.

    own, scratch  see improve_node
    nodes      float64 (n_nodes, 4)       in   lower, upper, parent_output, score; empty: there is no context
    keys       uint64 (n_nodes,)          in
    masks      uint32 (n_nodes, n_words)  in   features that may be used; without a context (1, n_words), or empty: all
    first_set  number of the set of the first node
    best       SPLIT (n_nodes,)           in, out
    stored     see search_levels
    """
    has_context = len(nodes) > 0
    for i in range(start, stop):
        source, records = bins_at(bins, bins_even, bins_odd, gather, depth[i]), records_at(even, odd, depth[i])
        around, key, mask = around_node(gradient[i], hessian[i], own), np.uint64(0), own[-1][0, :0]
        if has_context:
            around, key, mask = (nodes[i, 0], nodes[i, 1], nodes[i, 2], nodes[i, 3]), keys[i], masks[i]
        elif len(masks) > 0:
            mask = masks[0]
        improve_node(
            source, records, gather, histograms[slots[i], own[0] :], gradient[i], hessian[i], begin[i], end[i],
            around, key, mask, own, scratch, first_set + i, best[i], stored,
        )  # fmt: skip


def level_scratch(most_bins: int) -> tuple[NDArray[Any], ...]:
    """Return the scratch memory of one thread for features of up to so many bins.

    counts      int64   (most_bins,)    rows
    keys        float64 (most_bins,)    what levels are sorted by
    estimated   float64 (most_bins,)    rows of every level with enough of them, estimated
    levels      int64   (most_bins,)    those levels
    ends        int64   (2, most_bins)  in the order in which they are taken, from the low and from the high end
    """
    keys, estimated = np.empty((2, most_bins))
    return np.empty(most_bins, np.int64), keys, estimated, np.empty(most_bins, np.int64), np.empty((2, most_bins), int)


@inner_kernel  # type: ignore[untyped-decorator]
def own_features(own, first, last):  # type: ignore[no-untyped-def]
    """Return what improve_node takes as `own`, of the categorical features first:last alone, counted from the first."""
    return own[0], own[1][first : last + 1], own[2][first:last], np.int64(own[3]) + first, *own[4:]


@inner_kernel  # type: ignore[untyped-decorator]
def scratch_of(of_all, t):  # type: ignore[no-untyped-def]
    """Return the scratch memory of thread t; of_all as in Round."""
    counts, keys, estimated, levels, ends = of_all
    return counts[t], keys[t], estimated[t], levels[t], ends[t]


class Round(NamedTuple):
    """What a kernel needs that searches many nodes.

    own        see CategoricalFinder.own
    scratch    of each thread, see level_scratch
    of_all     the same of all threads: each array has a leading axis for them
    first_set  number of the set of the first node
    """

    own: tuple[Any, ...]
    scratch: list[tuple[NDArray[Any], ...]]
    of_all: tuple[NDArray[Any], ...]
    first_set: int


class CategoricalFinder:
    """Finds splits of categorical features for one training run, and keeps their sets.

    sets     uint32 (n_sets, n_words): see protocol.Engine.left_sets
    scratch  see level_scratch; one a thread
    """

    def __init__(self, n_words: int, most_bins: int, n_threads: int) -> None:
        self.n_threads = n_threads
        self.sets = np.zeros((64, n_words), np.uint32)
        self.n_sets = 0
        self._most_bins = most_bins
        self._of_all = tuple(np.stack([array] * n_threads) for array in level_scratch(most_bins))
        self.scratch = list(zip(*self._of_all, strict=True))

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

    def own(
        self,
        offsets: NDArray[np.int64],
        n_numeric: int,
        numbers: NDArray[np.int32],
        quantization: Quantization,
        rules: SplitRules,
        contribution: NDArray[np.float64] = NO_CONTRIBUTION,
        extra_trees: bool = False,
    ) -> tuple[Any, ...]:
        """Return what improve_node takes as `own`; offsets, n_numeric, numbers as in columns.Columns.

        first_bin                    of the categorical features
        offsets, numbers, n_numeric  of each its first bin, from there on, and its name; number of other features
        units, rules                 see split_general.candidate_gain
        many, smooth, bounds         see scan_levels; cat_smooth
        contribution, extra_trees    by name, see splitting.FeatureRules; whether one candidate alone is tried
        sets                         of the tree
        """
        own, first = rules.categorical, int(offsets[n_numeric])
        return (
            first,
            offsets[n_numeric:] - first,
            numbers[n_numeric:],
            n_numeric,
            (quantization.gradient_unit, quantization.hessian_unit),
            (
                rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, rules.min_gain_to_split,
                float(rules.min_data_in_leaf), rules.min_sum_hessian_in_leaf, rules.path_smooth, rules.monotone,
            ),
            (own.max_cat_to_onehot, own.max_cat_threshold, own.cat_l2, float(own.min_data_per_group)),
            own.cat_smooth,
            (float(quantization.hessian_min), float(quantization.hessian_max)),
            contribution,
            extra_trees,
            self.sets,
        )  # fmt: skip

    def for_round(
        self,
        n_nodes: int,
        offsets: NDArray[np.int64],
        n_numeric: int,
        numbers: NDArray[np.int32],
        quantization: Quantization,
        rules: SplitRules,
    ) -> Round:
        """Make room for the sets of some nodes; the rest as in `own`."""
        first = self.reserve(n_nodes)
        return Round(self.own(offsets, n_numeric, numbers, quantization, rules), self.scratch, self._of_all, first)

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
        stored: tuple[Any, ...] | None = None,
        chosen: NDArray[np.bool_] | None = None,
    ) -> None:
        """Replace splits where one of a categorical feature is better.

        offsets, n_numeric, numbers  see columns.Columns; numbers are its features
        best    SPLIT (n_nodes,)  in, out  the best splits of numbers
        stored  see search_levels
        chosen  bool (n_used,)    in       features that may be used; None: all that the context allows
        the rest as in protocol.Engine.find_splits
        """
        n_nodes = len(slots)
        if n_nodes == 0 or n_numeric == len(numbers):
            return
        first = self.reserve(n_nodes)
        around, keys, mask, contribution = np.empty((0, 4)), np.empty(0, np.uint64), self.sets[:0], NO_CONTRIBUTION
        if chosen is not None:
            mask = pack_mask(chosen[None])
        if context is not None:
            around = np.stack([context.lower, context.upper, context.parent_output, context.score], axis=1)
            keys, contribution = context.key, context.features.contribution
            mask = context.mask if chosen is None else context.mask & mask
        is_random = context is not None and rules.extra_trees
        own = self.own(offsets, n_numeric, numbers, quantization, rules, contribution, is_random)
        run_ranges(
            lambda start, stop: categorical_kernel(
                *store.arrays(), histograms, slots, gradient, hessian, nodes.begin, nodes.end, nodes.depth, own,
                level_scratch(self._most_bins), around, keys, mask, start, stop, first, best, stored,
            ),
            n_nodes, self.n_threads, smallest=BINS_PER_THREAD // max(1, int(offsets[-1] - offsets[n_numeric])) + 1,
        )  # fmt: skip
