"""The kernel that grows a whole tree (whole_tree.py), by a team of threads of any size.

Each thread moves some rows of the node that is split, sums and searches some features of its children, and keeps the
list of nodes for itself, which is the same for all. They meet (team.py) three times a split:

    count own rows that go left | move own rows | sum and search own features | take the best of all
                                ^               ^                             ^
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hornbeam.backends.cpu.histogram import PACKED_ROWS, add_counters
from hornbeam.backends.cpu.partition import bin_goes_left
from hornbeam.backends.cpu.prefix_split import accumulate, choose_split, score_features
from hornbeam.backends.cpu.rows import bins_at, records_at
from hornbeam.backends.cpu.split import is_better
from hornbeam.backends.cpu.team import meet
from hornbeam.backends.cpu.tree_categories import improve_in_tree, left_bins


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def take_best(found, split):  # type: ignore[no-untyped-def]
    """Take the best of the splits that the threads have found, of equal ones that of the first feature.

    found  NODE (n_threads,)  in
    split  SPLIT ()           out
    """
    best = 0
    for t in range(1, len(found)):
        if is_better(found[t].split, found[best].split):
            best = t
    of = found[best].split
    split.gain, split.feature, split.bin, split.missing_left = of.gain, of.feature, of.bin, of.missing_left
    split.left_gradient, split.left_hessian = of.left_gradient, of.left_hessian


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
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
    t, n_threads, gate, lefts, found, f0, f1, bins, bins_even, bins_odd, even, odd, gather, words, words_even,
    words_odd, columns, line_even, line_odd, n_value_bins, blocks, offsets, places, has_missing, no_counts, units,
    rules, bounds, n_leaves, max_depth, depthwise, gradients, hessians, free, counters, counts, scores, bits, upper,
    upper_bits, nodes, categories=None,
):  # fmt: skip
    """Do one thread's part of growing a tree from its root, nodes[0], which can_split (splitting.py).

    t, n_threads, gate   number of this thread, size of the team, and where it meets
    lefts                int64 (n_threads, a cache line)        in out   of all threads: rows that go left
    found                NODE (2, n_threads)                    in out   of all threads: the small and the large child
    f0, f1               features of this thread that are no categories
    columns              uint8 or uint16 (n_used, n_rows)       in       the bins once more: one feature's in a row
    line_even, line_odd  uint64 (n_rows,)                       in out   memory of the records `even` and `odd`
    blocks, places       of this thread's features, see histogram.feature_blocks
    gradients, hessians  int32, uint32 (n_slots, n_total_bins)  scratch  running sums of the nodes
    free                 int64 (n_slots,)                       scratch  slots that are not in use, the last one first
    counters             int64 (>= bins of a block,)            scratch
    counts               int64 (most bins of a feature,)        scratch
    scores, bits         float32 (2, n_total_bins), its memory  scratch
    upper, upper_bits    float32 (n_numeric,), its memory       scratch
    nodes                NODE (2 * n_leaves - 1,)               in out
    categories           see tree_categories.py; None: no feature is categorical. has_missing is that of the others

    Each thread has its own of free, counters, counts, nodes and categories. Returns the number of nodes.
    """
    min_data = rules[4]
    no_g, no_h = gradients[0, :0], hessians[0, :0]
    own_columns, own_offsets, own_missing = columns[f0:f1], offsets[f0 : f1 + 1], has_missing[f0:f1]
    own_upper, own_bits = upper[f0:f1], upper_bits[f0:f1]
    n_free = len(free) - 1
    for i in range(n_free):
        free[i] = n_free - i
    root = nodes[0]
    root_bins = bins_at(bins, bins_even, bins_odd, gather, root.depth)
    root_records = records_at(even, odd, root.depth)
    root.slot = 0
    sum_rows(
        root_bins, root_records, root.begin, root.end, gather, blocks, offsets, places, counters, gradients[0],
        hessians[0],
    )  # fmt: skip
    search_own(
        root_bins, root_records, records_at(line_even, line_odd, root.depth), gather, own_columns, f0, gradients[0],
        hessians[0], no_g, no_h, root, np.int64(0), own_offsets, own_missing, no_counts, units, rules, bounds, counts,
        scores, bits, own_upper, own_bits, found[0, t], categories,
    )  # fmt: skip
    if not meet(gate, n_threads):
        return 0
    take_best(found[0], root.split)
    table = None
    n_nodes = 1
    for n_splits in range(1, n_leaves):
        number = best_open(nodes, n_nodes, depthwise)
        if number < 0:
            break
        node, left, right = nodes[number], nodes[n_nodes], nodes[n_nodes + 1]
        split, depth = node.split, np.int64(node.depth)
        out_records = records_at(even, odd, depth + 1)
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
            if not meet(gate, n_threads):
                return 0
            for other in range(n_threads):
                if other == t:
                    before = rows_left
                rows_left += lefts[other, 0]
        reached = divide(
            column, line, out_line, gather, own_words, out_words, split.bin, split.missing_left, n_values, first, last,
            node.begin + before, node.end - 1 - (first - node.begin - before), table,
        )  # fmt: skip
        if n_threads == 1:
            rows_left = reached - node.begin
        elif not meet(gate, n_threads):
            return 0
        node.left = n_nodes
        n_nodes += 2
        for child in (left, right):
            child.depth, child.parent, child.left, child.slot = depth + 1, number, -1, -1
            child.split.gain = -np.inf
        left.begin, left.end = node.begin, node.begin + rows_left
        right.begin, right.end = left.end, node.end
        left.gradient, left.hessian = split.left_gradient, split.left_hessian
        right.gradient, right.hessian = node.gradient - split.left_gradient, node.hessian - split.left_hessian
        left_small = left.end - left.begin <= right.end - right.begin
        small, large = (left, right) if left_small else (right, left)
        may_grow = depth + 1 < max_depth and n_splits < n_leaves - 1
        small_wanted = may_grow and small.end - small.begin >= 2 * min_data and small.hessian > 1
        large_wanted = may_grow and large.end - large.begin >= 2 * min_data and large.hessian > 1
        kept = np.int64(node.slot)
        if not (small_wanted or large_wanted):
            free[n_free] = kept
            n_free += 1
            continue
        n_free -= 1
        spare = free[n_free]
        children = bins_at(bins, bins_even, bins_odd, gather, depth + 1)
        small_g, small_h = gradients[spare], hessians[spare]
        sum_rows(
            children, out_records, small.begin, small.end, gather, blocks, offsets, places, counters, small_g, small_h
        )
        for k in range(2):
            child, slot = (small, spare) if k == 0 else (large, kept)
            if not (small_wanted if k == 0 else large_wanted):
                continue
            child.slot = slot
            less_g, less_h = (no_g, no_h) if k == 0 else (small_g, small_h)
            search_own(
                children, out_records, out_line, gather, own_columns, f0, gradients[slot], hessians[slot], less_g,
                less_h, child, np.int64(node.left) + np.int64((k == 0) != left_small), own_offsets, own_missing,
                no_counts, units, rules, bounds, counts, scores, bits, own_upper, own_bits, found[k, t], categories,
            )  # fmt: skip
        if not meet(gate, n_threads):
            return 0
        if small_wanted:
            take_best(found[0], small.split)
        if large_wanted:
            take_best(found[1], large.split)
        if small.split.gain == -np.inf:
            free[n_free] = spare
            n_free += 1
        if large.split.gain == -np.inf:
            free[n_free] = kept
            n_free += 1
    return n_nodes
