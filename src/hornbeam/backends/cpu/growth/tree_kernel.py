"""The kernel that grows a whole tree (whole_tree.py), by a team of threads of any size.

Each thread moves some rows of the node that is split, sums and searches some features of its children, and keeps the
list of nodes for itself, which is the same for all. They meet (team.py) three times a split, and once more where a
node has so many rows for its bins that threads share the rows, too (sum_shared):

    count own rows that go left | move own rows | sum and search own features | take the best of all
                                ^               ^                             ^
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hornbeam.backends.cpu.growth.histogram import PACKED_ROWS, add_counters
from hornbeam.backends.cpu.growth.partition import bin_goes_left
from hornbeam.backends.cpu.growth.prefix_split import accumulate, choose_split, score_features
from hornbeam.backends.cpu.growth.rows import bins_at, records_at
from hornbeam.backends.cpu.growth.split import is_better
from hornbeam.backends.cpu.growth.tree_categories import improve_in_tree, left_bins, own_categories
from hornbeam.backends.cpu.host.team import call_helpers, inner_kernel, meet


@inner_kernel  # type: ignore[untyped-decorator]
def add_plain(counters, gradient, hessian):  # type: ignore[no-untyped-def]
    """Add packed counters to sums of 64 bits."""
    for b in range(len(gradient)):
        gradient[b] += gradient.dtype.type(counters[b] >> 32)
        hessian[b] += hessian.dtype.type(counters[b] & 0xFFFFFFFF)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def run_up(gradient, hessian):  # type: ignore[no-untyped-def]
    """Turn the sums of one feature's bins into running sums."""
    for b in range(1, len(gradient)):
        gradient[b] += gradient[b - 1]
        hessian[b] += hessian[b - 1]


@inner_kernel  # type: ignore[untyped-decorator]
def sum_rows(  # type: ignore[no-untyped-def]
    bins, records, begin, end, gather, blocks, offsets, places, counters, gradient, hessian
):
    """Sum the rows of one node into running sums.

    counters           int64 (>= bins of a block,)             scratch
    gradient, hessian  int32, uint32 (n_total_bins,)           out
    """
    for block in range(len(blocks) - 1):
        f0, f1 = blocks[block], blocks[block + 1]
        base, stop = np.int64(offsets[f0]), np.int64(offsets[f1])
        many = gradient.itemsize == 8 and end - begin > PACKED_ROWS  # else the packed counters hold them all
        if many:
            gradient[base:stop] = 0
            hessian[base:stop] = 0
        for start in range(begin, end, PACKED_ROWS if many else max(1, end - begin)):
            counters[: stop - base] = 0
            last_row = min(start + PACKED_ROWS, end) if many else end
            add_counters(bins, records, start, last_row, gather, f0, f1, places, counters)
            if many:
                add_plain(counters, gradient[base:stop], hessian[base:stop])
        for f in range(f0, f1):
            first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
            if many:
                run_up(gradient[first:last], hessian[first:last])
            else:
                accumulate(counters[first - base : last - base], gradient[first:last], hessian[first:last])


@inner_kernel  # type: ignore[untyped-decorator]
def sharing_level(n_rows, n_threads, n_bins, look_cost):  # type: ignore[no-untyped-def]
    """Return n where 2**n threads should share the rows of a node; 0: each has all rows of its features.

    To look at a row takes as long as to add a few features of it; but what threads have added must be put together.
    """
    best, level = min(np.sqrt(look_cost * n_rows * n_threads / n_bins), np.float64(n_threads)), 0
    while 2 << level <= best:
        level += 1
    return level


@inner_kernel  # type: ignore[untyped-decorator]
def sum_shared(  # type: ignore[no-untyped-def]
    t, crew, level, bins, records, begin, end, gather, cuts, blocks_of, first_blocks, offsets, places, shared,
    gradient, hessian,
):  # fmt: skip
    """Do what sum_rows does in groups of 2**level threads: each adds some rows, for the features of its group.

    cuts, blocks_of, first_blocks, places  as in tree_kernel
    shared  int64 (n_threads, n_total_bins)  scratch   packed counters of all threads

    Returns False if the team gives up.
    """
    n_threads, most, number = crew[0], 1 << level, t >> level
    group = number << level
    size = min(most, n_threads - group)
    n_rows, fewest = end - begin, min(most, n_threads - ((n_threads - 1) >> level << level))
    first, last = begin + n_rows * (t - group) // size, begin + n_rows * (t - group + 1) // size
    n_passes = max(1, -(-(n_rows // fewest + 1) // PACKED_ROWS))  # for all groups alike
    f0, f1 = cuts[t], cuts[t + 1]
    base, after = np.int64(offsets[f0]), np.int64(offsets[f1])
    for turn in range(n_passes):
        start, stop = first + (last - first) * turn // n_passes, first + (last - first) * (turn + 1) // n_passes
        for i in range(first_blocks[level, number], first_blocks[level, number + 1] - 1):
            b0, b1 = blocks_of[i], blocks_of[i + 1]
            counters = shared[t, np.int64(offsets[b0]) : np.int64(offsets[b1])]
            counters[:] = 0
            add_counters(bins, records, start, stop, gather, b0, b1, places[level], counters)
        if not meet(crew):
            return False
        if turn == 0:
            gradient[base:after] = 0
            hessian[base:after] = 0
        for other in range(group, group + size):
            add_plain(shared[other, base:after], gradient[base:after], hessian[base:after])
        if turn < n_passes - 1 and not meet(crew):
            return False
    for f in range(f0, f1):
        run_up(
            gradient[np.int64(offsets[f]) : np.int64(offsets[f + 1])],
            hessian[np.int64(offsets[f]) : np.int64(offsets[f + 1])],
        )
    return True


@inner_kernel  # type: ignore[untyped-decorator]
def sum_node(  # type: ignore[no-untyped-def]
    t, crew, look_cost, bins, records, begin, end, gather, cuts, blocks_of, first_blocks, offsets, places, counters,
    shared, gradient, hessian,
):  # fmt: skip
    """Sum the rows of one node into running sums of this thread's features; False if the team gives up."""
    if len(shared) > 0:
        level = sharing_level(end - begin, crew[0], len(gradient), look_cost)
        if level > 0:
            return sum_shared(
                t, crew, level, bins, records, begin, end, gather, cuts, blocks_of, first_blocks, offsets, places,
                shared, gradient, hessian,
            )  # fmt: skip
    blocks = blocks_of[first_blocks[0, t] : first_blocks[0, t + 1]]
    sum_rows(bins, records, begin, end, gather, blocks, offsets, places[0], counters, gradient, hessian)
    return True


@inner_kernel  # type: ignore[untyped-decorator]
def count_left(column, records, bin_, missing_left, n_value_bins, begin, end, table=None):  # type: ignore[no-untyped-def]
    """Count the rows begin:end that `divide` moves to the left."""
    mask, b, v, n_left = np.uint64(0xFFFFFFFF), np.int64(bin_), np.int64(n_value_bins), np.int64(0)
    for place in range(np.uint64(begin), np.uint64(end)):
        code = column[records[place] & mask]
        if table is None:
            n_left += np.int64(bin_goes_left(np.int64(code), b, missing_left, v))
        else:
            n_left += np.int64(table[np.uint64(code)])
    return n_left


@inner_kernel  # type: ignore[untyped-decorator]
def divide(  # type: ignore[no-untyped-def]
    column, records, out_records, gather, words, out_words, bin_, missing_left, n_value_bins, begin, end, left, right,
    table=None,
):  # fmt: skip
    """Move the rows begin:end of one node to the next depth: to places from `left` upwards, or from `right` downwards.

    column                uint8 or uint16 (n_rows,)            in       bins of the feature that is split
    records, out_records  uint64 (n_rows,)                     in, out
    words, out_words      uint64 (n_rows, stride in words)     the bins, where they travel with the records
    table                 uint8 (n_value_bins + 1,)            in       which bins go left, in place of `bin_` and so on

    Returns the place after the last one that went left.
    """
    mask, one = np.uint64(0xFFFFFFFF), np.uint64(1)
    left, right = np.uint64(left), np.uint64(right)
    b, v = np.int64(bin_), np.int64(n_value_bins)
    for place in range(np.uint64(begin), np.uint64(end)):
        record = records[place]
        if table is None:
            goes_left = np.uint64(bin_goes_left(np.int64(column[record & mask]), b, missing_left, v))
        else:
            goes_left = np.uint64(table[np.uint64(column[record & mask])])
        to = left if goes_left else right
        out_records[to] = record
        if not gather:
            for w in range(words.shape[1]):
                out_words[to, w] = words[place, w]
        left += goes_left
        right -= one - goes_left
    return np.int64(left)


@inner_kernel  # type: ignore[untyped-decorator]
def best_open(nodes, n_nodes, depthwise):  # type: ignore[no-untyped-def]
    """Return the node to split next, or -1: see frontier.one_at_a_time. Nodes are numbered as they are made."""
    best = -1
    for node in range(n_nodes):
        this = nodes[node]
        if this.left >= 0 or this.split.gain == -np.inf:
            continue
        if (
            best < 0
            or (depthwise and this.depth < nodes[best].depth)
            or ((not depthwise or this.depth == nodes[best].depth) and this.split.gain > nodes[best].split.gain)
        ):
            best = node
    return best


@inner_kernel  # type: ignore[untyped-decorator]
def enter_children(nodes, number, n_nodes, n_left, min_data, may_grow):  # type: ignore[no-untyped-def]
    """Enter the children of a node, of whose rows n_left go left, as nodes n_nodes and n_nodes + 1, without a split.

    may_grow  False: neither is to be searched, whatever its rows

    Returns whether the left one is the smaller, and whether the smaller and the larger one are to be searched.
    """
    node, left, right = nodes[number], nodes[n_nodes], nodes[n_nodes + 1]
    split = node.split
    node.left = n_nodes
    for child in (left, right):
        child.depth, child.parent, child.left, child.slot = node.depth + 1, number, -1, -1
        child.split.gain = -np.inf
    left.begin, left.end = node.begin, node.begin + n_left
    right.begin, right.end = left.end, node.end
    left.gradient, left.hessian = split.left_gradient, split.left_hessian
    right.gradient, right.hessian = node.gradient - split.left_gradient, node.hessian - split.left_hessian
    left_wanted = may_grow and left.end - left.begin >= 2 * min_data and left.hessian > 1
    right_wanted = may_grow and right.end - right.begin >= 2 * min_data and right.hessian > 1
    if left.end - left.begin <= right.end - right.begin:
        return True, left_wanted, right_wanted
    return False, right_wanted, left_wanted


@inner_kernel  # type: ignore[untyped-decorator]
def take_best(found, split):  # type: ignore[no-untyped-def]
    """Take the best of the splits that the threads have found, of equal ones that of the first feature.

    found  SPLIT (n_threads,)  in
    split  SPLIT ()            out
    """
    best = 0
    for t in range(1, len(found)):
        if is_better(found[t], found[best]):
            best = t
    of = found[best]
    split.gain, split.feature, split.bin, split.missing_left = of.gain, of.feature, of.bin, of.missing_left
    split.left_gradient, split.left_hessian = of.left_gradient, of.left_hessian


@inner_kernel  # type: ignore[untyped-decorator]
def search_own(  # type: ignore[no-untyped-def]
    bins, records, line, gather, columns, f0, gradient, hessian, less_g, less_h, child, number, offsets, has_missing,
    no_counts, units, rules, bounds, counts, scores, bits, upper, upper_bits, found, categories=None,
):  # fmt: skip
    """Find the best split of a node among the features of one thread.

    gradient, hessian, less_g, less_h  see prefix_split.score_features
    child    NODE ()   in
    number   of the node
    found    NODE ()   out   a copy of it with the split
    the rest as in tree_kernel, but of columns, offsets, has_missing, upper and upper_bits what begins with feature f0
    """
    found.begin, found.end, found.gradient, found.hessian = child.begin, child.end, child.gradient, child.hessian
    score_features(
        gradient, hessian, less_g, less_h, child.gradient, child.hessian, offsets, has_missing, units, rules, bounds,
        scores, bits, upper_bits,
    )  # fmt: skip
    choose_split(
        columns, line, gradient, hessian, child.gradient, child.hessian, child.begin, child.end, offsets, has_missing,
        units, rules, bounds, scores, upper, counts, no_counts, found.split,
    )  # fmt: skip
    if found.split.feature >= 0:
        found.split.feature += f0
    if categories is not None:
        improve_in_tree(bins, records, gather, gradient, hessian, less_g, less_h, found, number, categories)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def tree_kernel(  # type: ignore[no-untyped-def]
    t, crew, lefts, found, cuts, blocks_of, first_blocks, counters_of, shared, look_cost, counts_of, free_of,
    nodes_of, bins, bins_even, bins_odd, even, odd, gather, words, words_even, words_odd, columns, line_even,
    line_odd, n_value_bins, offsets, places, has_missing, no_counts, units, rules, bounds, n_leaves, max_depth,
    depthwise, gradients, hessians, scores, bits, upper, upper_bits, categories_of,
):  # fmt: skip
    """Do one thread's part of growing a tree from its root, nodes[0], which can_split (splitting.py).

    t, crew              number of this thread, and its team (team.py)
    lefts                int64 (n_threads, a cache line)        in out   rows that go left; at last, number of nodes
    found                NODE (n_threads, 4)                    in out   the small and the large child, and a space
    cuts                 int64 (n_threads + 1,)                 in       which features are whose
    blocks_of, first_blocks, places   see histogram.feature_blocks, for groups of 1, 2, 4, ... threads; those of group g
                         of 2**n threads are blocks_of[first_blocks[n, g] : first_blocks[n, g + 1]] and places[n]
    counters_of          int64 (n_threads, >= bins of a block)  scratch
    shared               int64 (n_threads, n_total_bins)        scratch  see sum_shared; empty: threads never share rows
    look_cost            how much longer it takes to look at a row than to put a bin of another thread together
    counts_of            int64 (n_threads, most bins)           scratch
    free_of              int64 (n_threads, n_slots)             scratch  slots that are not in use, the last one first
    nodes_of             NODE (n_threads, 2 * n_leaves - 1)     in out
    columns              uint8 or uint16 (n_used, n_rows)       in       the bins once more: one feature's in a row
    line_even, line_odd  uint64 (n_rows,)                       in out   memory of the records `even` and `odd`
    gradients, hessians  int32, uint32 (n_slots, n_total_bins)  scratch  running sums of the nodes
    scores, bits         float32 (2, n_total_bins), its memory  scratch
    upper, upper_bits    float32 (n_numeric,), its memory       scratch
    categories_of        see tree_categories.py; None: no feature is categorical. has_missing is that of the others
    """
    given = (
        lefts, found, cuts, blocks_of, first_blocks, counters_of, shared, look_cost, counts_of, free_of,
        nodes_of, bins, bins_even, bins_odd, even, odd, gather, words, words_even, words_odd, columns,
        line_even, line_odd, n_value_bins, offsets, places, has_missing, no_counts, units, rules, bounds,
        n_leaves, max_depth, depthwise, gradients, hessians, scores, bits, upper, upper_bits, categories_of,
    )  # fmt: skip
    call_helpers(t, crew, given)
    n_threads = crew[0]
    free, counters, counts, nodes = free_of[t], counters_of[t], counts_of[t], nodes_of[t]
    f0, f1 = min(cuts[t], len(has_missing)), min(cuts[t + 1], len(has_missing))
    categories = None
    if categories_of is not None:
        categories = own_categories(t, categories_of)
    min_data = rules[4]
    no_g, no_h = gradients[0, :0], hessians[0, :0]
    own_columns, own_offsets, own_missing = columns[f0:f1], offsets[f0 : f1 + 1], has_missing[f0:f1]
    own_upper, own_bits = upper[f0:f1], upper_bits[f0:f1]
    n_free, n_nodes, table = len(free), 1, None
    for i in range(n_free):
        free[i] = n_free - 1 - i
    # The root is summed and searched as if it were the smaller child of a node that is divided already.
    left_small, small_wanted, large_wanted = True, True, False
    for n_splits in range(n_leaves):
        if n_splits == 0:
            left, right, first_child, kept = nodes[0], nodes[0], np.int64(0), np.int64(-1)
            depth = np.int64(left.depth) - 1
        else:
            number = best_open(nodes, n_nodes, depthwise)
            if number < 0:
                break
            node, left, right = nodes[number], nodes[n_nodes], nodes[n_nodes + 1]
            split, depth = node.split, np.int64(node.depth)
            line, out_line = records_at(line_even, line_odd, depth), records_at(line_even, line_odd, depth + 1)
            own_words = bins_at(words, words_even, words_odd, gather, depth)
            out_words = bins_at(words, words_even, words_odd, gather, depth + 1)
            column, n_values = columns[split.feature], n_value_bins[split.feature]
            if categories is not None:
                table = left_bins(split, n_values, categories)
            n_rows, rows_left, before = node.end - node.begin, np.int64(0), np.int64(0)
            first, last = node.begin + n_rows * t // n_threads, node.begin + n_rows * (t + 1) // n_threads
            if n_threads > 1:
                lefts[t, 0] = count_left(column, line, split.bin, split.missing_left, n_values, first, last, table)
                if not meet(crew):
                    return
                for other in range(n_threads):
                    if other == t:
                        before = rows_left
                    rows_left += lefts[other, 0]
            reached = divide(
                column, line, out_line, gather, own_words, out_words, split.bin, split.missing_left, n_values, first,
                last, node.begin + before, node.end - 1 - (first - node.begin - before), table,
            )  # fmt: skip
            if n_threads == 1:
                rows_left = reached - node.begin
            elif not meet(crew):
                return
            may_grow = depth + 1 < max_depth and n_splits < n_leaves - 1
            left_small, small_wanted, large_wanted = enter_children(
                nodes, number, n_nodes, rows_left, min_data, may_grow
            )
            first_child = np.int64(n_nodes)
            n_nodes += 2
            kept = np.int64(node.slot)
            if not (small_wanted or large_wanted):
                free[n_free] = kept
                n_free += 1
                continue
        small, large = (left, right) if left_small else (right, left)
        n_free -= 1
        spare = free[n_free]
        own_bins = bins_at(bins, bins_even, bins_odd, gather, depth + 1)
        records, line = records_at(even, odd, depth + 1), records_at(line_even, line_odd, depth + 1)
        small_g, small_h = gradients[spare], hessians[spare]
        if not sum_node(
            t, crew, look_cost, own_bins, records, small.begin, small.end, gather, cuts, blocks_of, first_blocks,
            offsets, places, counters, shared, small_g, small_h,
        ):  # fmt: skip
            return
        for k in range(2):
            child, slot = (small, spare) if k == 0 else (large, kept)
            if not (small_wanted if k == 0 else large_wanted):
                continue
            child.slot = slot
            less_g, less_h = (no_g, no_h) if k == 0 else (small_g, small_h)
            search_own(
                own_bins, records, line, gather, own_columns, f0, gradients[slot], hessians[slot], less_g, less_h,
                child, first_child + np.int64((k == 0) != left_small), own_offsets, own_missing, no_counts, units,
                rules, bounds, counts, scores, bits, own_upper, own_bits, found[t, k], categories,
            )  # fmt: skip
        if not meet(crew):
            return
        for k in range(2):
            child, slot = (small, spare) if k == 0 else (large, kept)
            if small_wanted if k == 0 else large_wanted:
                take_best(found[:, k].split, child.split)
            if child.split.gain == -np.inf and slot >= 0:
                free[n_free] = slot
                n_free += 1
    lefts[t, 0] = n_nodes
