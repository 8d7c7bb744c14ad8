"""The kernel that grows a whole tree on stored bins (stored_tree.py), by a team of threads of any size.

It is to stored_expand.py what tree_kernel.py is to plain bins: each thread keeps the list of nodes for itself, which is
the same for all, and they meet (team.py) a few times a split:

    ask some rows | move them | copy them back, and add some rows of the smaller child to own counters |
                  ^           ^                                                                        ^
        merge the counters of own features, subtract, search them in both children | take the best of all
                                                                                   ^

Where the rows that leave a node are listed (stored_partition.py), each thread finds some of them in the lists and
exchanges them for others. What is little work is done by one thread while the others wait for it, and few rows are
added by few threads, since the counters of each have to be merged.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hornbeam.backends.cpu.growth.partition import bin_in_set
from hornbeam.backends.cpu.growth.split_categorical import own_features, scratch_of
from hornbeam.backends.cpu.growth.stored_histogram import add_rows, unpack_kernel
from hornbeam.backends.cpu.growth.stored_partition import (
    ask,
    copy_back,
    divide,
    divide_by_set,
    exchange,
    goes_by_lists,
    left_of_set,
    left_of_threshold,
    lists_that_leave,
    move_to_spare,
)
from hornbeam.backends.cpu.growth.stored_rows import DEFAULT, OFFSET
from hornbeam.backends.cpu.growth.stored_split import search_child
from hornbeam.backends.cpu.growth.tree_kernel import best_open, enter_children, take_best
from hornbeam.backends.cpu.host.team import call_helpers, inner_kernel, meet


@inner_kernel  # type: ignore[untyped-decorator]
def count_listed(storage, starts, f, bin_, missing_left, n_value_bins, is_set, left_set):  # type: ignore[no-untyped-def]
    """Return whether default rows go left, and how many rows of the data set are listed that go the other way."""
    if left_set is not None:  # noqa: SIM102 (a condition that the compiler can decide, alone)
        if is_set:
            where = storage[0]
            start, n_listed = where[f, OFFSET], np.int64(0)
            of_default = bin_in_set(where[f, DEFAULT], left_set)
            for b in range(n_value_bins + 1):
                if bin_in_set(b, left_set) != of_default:
                    n_listed += starts[start + b + 1] - starts[start + b]
            return of_default, n_listed
    default_left, first, last, first2, last2 = lists_that_leave(storage, starts, f, bin_, missing_left, n_value_bins)
    return default_left, last - first + last2 - first2


@inner_kernel  # type: ignore[untyped-decorator]
def find_listed(place_of, rows, start, stop, begin, end, n_found, found):  # type: ignore[no-untyped-def]
    """Write the listed rows start:stop that are in a node to found[n_found:]; returns the new n_found. No branch."""
    n = np.uint64(n_found)
    first, last = np.uint64(begin), np.uint64(end)
    for i in range(np.uint64(start), np.uint64(max(start, stop))):
        row = rows[i]
        place = np.uint64(place_of[row])
        found[n] = row
        n += np.uint64((first <= place) & (place < last))
    return np.int64(n)


@inner_kernel  # type: ignore[untyped-decorator]
def find_leaving(  # type: ignore[no-untyped-def]
    place_of, storage, starts, rows, f, bin_, missing_left, n_value_bins, is_set, left_set, first, last, begin, end, out
):
    """Write the rows of a node that are among those first:last that count_listed counts; returns how many they are.

    out  uint32 (last - first + 1,)  out  with room for one that is not in the node
    """
    n, seen = np.int64(0), np.int64(0)  # rows written, and listed before those from `start` on
    if left_set is not None:  # noqa: SIM102 (a condition that the compiler can decide, alone)
        if is_set:
            where = storage[0]
            default_left = bin_in_set(where[f, DEFAULT], left_set)
            for b in range(n_value_bins + 1):
                if bin_in_set(b, left_set) != default_left:
                    start, stop = starts[where[f, OFFSET] + b], starts[where[f, OFFSET] + b + 1]
                    own_start, own_stop = start + max(first - seen, 0), min(start + last - seen, stop)
                    n = find_listed(place_of, rows, own_start, own_stop, begin, end, n, out)
                    seen += stop - start
            return n
    _, start, stop, start2, stop2 = lists_that_leave(storage, starts, f, bin_, missing_left, n_value_bins)
    for part in range(2):
        if part == 1:
            seen, start, stop = stop - start, start2, stop2
        own_start, own_stop = start + max(first - seen, 0), min(start + last - seen, stop)
        n = find_listed(place_of, rows, own_start, own_stop, begin, end, n, out)
    return n


@inner_kernel  # type: ignore[untyped-decorator]
def move_leaving(  # type: ignore[no-untyped-def]
    t, crew, records, place_of, own, n_own, n_leaving, to, lefts, stays
):
    """Do one thread's part of moving the rows that leave a node to the places from `to` on, by exchange.

    Those that are there already stay. The others are exchanged for the rows there that do not leave, in turn:

        places from `to` on   | a L b L c |        a, b, c make room for the first, second, third row that comes

    own    uint32 (n_own,)                    in out   rows that leave, of this thread
    lefts  int64 (n_threads, a line)          scratch  of all threads; the second entry is used
    stays  uint8 (>= n_leaving,)              scratch  of all threads, all zero before and after

    Returns False if a thread has failed.
    """
    n, first, last, n_threads = np.uint64(0), np.uint64(to), np.uint64(to + n_leaving), crew[0]
    for i in range(np.uint64(n_own)):
        row = own[i]
        place = np.uint64(place_of[row])
        own[n] = row
        if first <= place < last:
            stays[place - first] = 1
        else:
            n += np.uint64(1)
    lefts[t, 1] = n
    if not meet(crew):
        return False
    skipped = np.int64(0)
    for other in range(t):
        skipped += lefts[other, 1]
    moved, place = np.uint64(0), first
    while moved < n:
        if stays[place - first] == 0:
            if skipped > 0:
                skipped -= 1
            else:
                exchange(records, place_of, np.uint64(place_of[own[moved]]), place)
                moved += np.uint64(1)
        place += np.uint64(1)
    if not meet(crew):
        return False
    stays[n_leaving * t // n_threads : n_leaving * (t + 1) // n_threads] = 0
    return True


@inner_kernel  # type: ignore[untyped-decorator]
def divide_together(  # type: ignore[no-untyped-def]
    t, crew, codes, records, place_of, spare, storage, starts, rows, n_value_bins, few, answers, leaving,
    stays, lefts, node, is_set, left_set,
):  # fmt: skip
    """Do one thread's part of moving the rows of a node to its children's places.

    few          (rows, threads): if fewer rows are to be looked at, one thread does that; lists are left to one thread
                 in teams of fewer
    answers      uint8 (n_rows,)               scratch  of all threads
    leaving      uint32 (n_rows + n_threads,)  scratch  of all threads
    stays        uint8 (n_rows,)               scratch  of all threads, all zero before and after
    lefts        int64 (n_threads, a line)     scratch  of all threads: rows that go left, or that leave
    node         NODE ()                       in
    left_set     uint32 (n_words,)             in       see stored_partition.divide_by_set; anything unless is_set,
                 and None where no feature is categorical: the kernels for sets are not compiled then
    the rest as in stored_partition.divide

    Returns how many rows went left, or -1 if a thread has failed, and whether `spare` holds the children's rows too.
    Then threads may be copying them to the records still.
    """
    begin, end, split, n_threads = node.begin, node.end, node.split, crew[0]
    f, b, missing_left = np.int64(split.feature), np.int64(split.bin), split.missing_left
    v, n_rows = np.int64(n_value_bins[f]), end - begin
    default_left, n_listed = count_listed(storage, starts, f, b, missing_left, v, is_set, left_set)
    by_lists = goes_by_lists(storage, f, n_listed, n_rows)
    if n_threads == 1 or (n_listed < few[0] or n_threads < few[1] if by_lists else n_rows < few[0]):
        if t == 0:
            if left_set is not None:  # noqa: SIM102
                if is_set:
                    lefts[0, 0] = divide_by_set(
                        codes, records, place_of, spare, storage, starts, rows, f, left_set, begin, end
                    )
            if not is_set:
                lefts[0, 0] = divide(
                    codes, records, place_of, spare, storage, starts, rows, f, b, missing_left, v, begin, end
                )
        if not meet(crew):
            return np.int64(-1), False
        return lefts[0, 0], False
    if by_lists:
        first, last = n_listed * t // n_threads, n_listed * (t + 1) // n_threads
        found = leaving[first + t : last + t + 1]
        n_own = find_leaving(
            place_of, storage, starts, rows, f, b, missing_left, v, is_set, left_set, first, last, begin, end, found
        )
    else:
        first, last = begin + n_rows * t // n_threads, begin + n_rows * (t + 1) // n_threads
        own = answers[first:last]
        goes_left = left_of_threshold(b, missing_left, v)
        if left_set is not None:  # noqa: SIM102
            if is_set:
                goes_left = left_of_set(left_set, v)
        ask(codes, records, storage, f, goes_left, first, last, own)
        n_own = np.int64(0)
        for i in range(np.uint64(len(own))):
            n_own += np.int64(own[i])
    lefts[t, 0] = n_own
    if not meet(crew):
        return np.int64(-1), False
    before, n_left = np.int64(0), np.int64(0)
    for other in range(n_threads):
        if other == t:
            before = n_left
        n_left += lefts[other, 0]
    if by_lists:
        to = end - n_left if default_left else begin
        if not move_leaving(t, crew, records, place_of, found, n_own, n_left, to, lefts, stays):
            return np.int64(-1), False
        return n_rows - n_left if default_left else n_left, False
    move_to_spare(records, spare, own, first, last, begin + before, begin + n_left + (first - begin - before))
    if not meet(crew):
        return np.int64(-1), True
    copy_back(records, place_of, spare, first, last - first, first)
    return n_left, True


@inner_kernel  # type: ignore[untyped-decorator]
def merge(counters, runs):  # type: ignore[no-untyped-def]
    """Add some counters of the other threads to those of the first, and clear them.

    counters  int64 (n_threads, 1 or 2, n)  in out
    runs      int64 (n_runs, 2)             in      places of the counters: first, last
    """
    for s in range(1, len(counters)):
        for word in range(counters.shape[1]):
            into, own = counters[0, word], counters[s, word]
            for run in range(len(runs)):
                for place in range(np.uint64(runs[run, 0]), np.uint64(runs[run, 1])):
                    into[place] += own[place]
                    own[place] = 0


@inner_kernel  # type: ignore[untyped-decorator]
def sum_together(  # type: ignore[no-untyped-def]
    t, crew, codes, records, storage, blocks, places, features, runs, begin, end, n_summing,
    packed_rows, counters, totals, nothing, out, larger,
):  # fmt: skip
    """Do one thread's part of summing the rows begin:end into a slot, and of subtracting them from `larger`.

    features     int64 (n,)                           in       of this thread, which are complete in the end
    runs         int64 (n_runs, 2)                    in       their counters, see merge
    n_summing    threads that add rows, the first ones
    packed_rows  that are added at a time, all threads together: what a packed counter takes
    counters     int64 (>= n_summing, 1 or 2, n)      scratch  of all threads, all zero before and after
    totals       int64 (n_threads, >= 2)              scratch  of all threads
    nothing      uint32 (1,)                          scratch  of this thread
    the rest as in stored_histogram.sum_node

    Returns False if a thread has failed.
    """
    indptr, entries = storage[1], storage[2]
    start, is_first = begin, True
    while is_first or start < end:
        stop = min(start + packed_rows, end)
        if t < n_summing:
            first, last = start + (stop - start) * t // n_summing, start + (stop - start) * (t + 1) // n_summing
            add_rows(codes, records, first, last, blocks, places, indptr, entries, counters[t], totals[t], nothing)
        if not meet(crew):
            return False
        total_g, total_h = np.int64(0), np.int64(0)
        for s in range(n_summing):
            total_g += totals[s, 0]
            total_h += totals[s, 1]
        merge(counters[:n_summing], runs)
        unpack_kernel(counters[0], total_g, total_h, storage, places, features, is_first, out, larger)
        for run in range(len(runs)):
            counters[0, :, runs[run, 0] : runs[run, 1]] = 0
        start, is_first = stop, False
        if start < end and not meet(crew):  # before the counters are used again
            return False
    return True


@inner_kernel  # type: ignore[untyped-decorator]
def own_categories(t, first, last, n_nodes, categories):  # type: ignore[no-untyped-def]
    """Return what search_child takes as `categories`, of the categorical features first:last, counted from the first.

    n_nodes     of a tree: each thread has as many sets, and a set stays where it was found
    categories  (see split_categorical.CategoricalFinder.own; mask of the features that may be used; number of the
                first set; see split_categorical.level_scratch, with a row for each thread) or None
    """
    if categories is None:
        return None
    whole, mask, first_set, scratch = categories
    return own_features(whole, first, last), scratch_of(scratch, t), mask, first_set + t * n_nodes


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def stored_tree_kernel(  # type: ignore[no-untyped-def]
    t, crew, codes, records, place_of, spare, storage, starts, rows, n_value_bins, blocks, places, features, cuts,
    n_numeric, runs, run_cuts, default, chosen, offsets, has_missing, no_counts, units, rules, bounds, n_leaves,
    max_depth, depthwise, sharing, histograms, counters, totals, lefts, nothing, answers, leaving, stays, found,
    free, scratch, open_features, open_gains, nodes, n_grown, categories,
):  # fmt: skip
    """Do one thread's part of growing a tree from its root, nodes[:, 0], which can_split (splitting.py).

    t, crew                number of this thread, and its team (team.py)
    records, place_of, spare, starts, rows   see stored_partition.divide
    blocks, places         see stored_histogram.add_rows
    features               int64 (n_used,)                     in       0, 1, 2, ...
    cuts                   int64 (n_threads + 1,)              in       features of each thread
    n_numeric              number of the features that are no categories
    runs, run_cuts         int64 (n_runs, 2), (n_threads + 1,) in       counters of each thread's features
    default, chosen, ...   see stored_split.scan_stored
    sharing                (see `few` of divide_together; rows that a packed counter takes; most threads that
                           may add rows; how many do so is the square root of the rows times this)
    histograms             int64 (n_slots, n_total_bins, 2)    scratch
    counters, totals                                           scratch  see sum_together
    answers, leaving, stays                                    scratch  see divide_together
    lefts                  int64 (2, n_threads, a line)        scratch  see divide_together; one split's and the next's
    found                  SPLIT (n_threads, >= 2)             scratch  of all threads: left and right child
    nothing, free, scratch, open_features, open_gains          scratch  with a row for each thread
    nodes                  NODE (n_threads, 2 * n_leaves - 1)  in out   with a row for each thread
    n_grown                int64 (1,)                          out      number of nodes
    categories             see own_categories
    """
    given = (
        codes, records, place_of, spare, storage, starts, rows, n_value_bins, blocks, places, features, cuts,
        n_numeric, runs, run_cuts, default, chosen, offsets, has_missing, no_counts, units, rules, bounds,
        n_leaves, max_depth, depthwise, sharing, histograms, counters, totals, lefts, nothing, answers, leaving,
        stays, found, free, scratch, open_features, open_gains, nodes, n_grown, categories,
    )  # fmt: skip
    call_helpers(t, crew, given)
    min_data, n_nodes, number = rules[4], 1, np.int64(0)
    own_nodes, own_free, own_found, own_nothing = nodes[t], free[t], found[t], nothing[t]
    f0, f1 = cuts[t], cuts[t + 1]
    own_features, own_runs = features[f0:f1], runs[run_cuts[t] : run_cuts[t + 1]]
    own_open, own_gains = open_features[t], open_gains[t]
    own_scratch = (
        scratch[0][t], scratch[1][t], scratch[2][t], scratch[3][t], scratch[4][t], scratch[5][t], scratch[6][t],
    )  # fmt: skip
    levels = own_categories(
        t, max(f0, n_numeric) - n_numeric, max(f1, n_numeric) - n_numeric, len(own_nodes), categories
    )
    f0, f1 = min(f0, n_numeric), min(f1, n_numeric)
    n_free = len(own_free)
    for i in range(n_free):
        own_free[i] = n_free - 1 - i
    nothing_less = histograms[0, :0]
    is_set, left_set = False, None
    # The root is searched as if it were the smaller child of a node that is divided already.
    for n_splits in range(n_leaves):
        is_root = n_splits == 0
        source, kept = records, np.int64(-1)
        if is_root:
            left, right = own_nodes[0], own_nodes[0]
            left_small, small_wanted, large_wanted = True, True, False
        else:
            number = np.int64(best_open(own_nodes, n_nodes, depthwise))
            if number < 0:
                break
            node, left, right = own_nodes[number], own_nodes[n_nodes], own_nodes[n_nodes + 1]
            split, depth = node.split, np.int64(node.depth)
            if categories is not None:
                is_set = split.feature >= n_numeric
                left_set = categories[0][11][split.bin if is_set else 0]
            n_left, moved = divide_together(
                t, crew, codes, records, place_of, spare, storage, starts, rows, n_value_bins, sharing[0],
                answers, leaving, stays, lefts[n_splits % 2], node, is_set, left_set,
            )  # fmt: skip
            if n_left < 0:
                return
            if moved:
                source = spare
            may_grow = depth + 1 < max_depth and n_splits < n_leaves - 1
            left_small, small_wanted, large_wanted = enter_children(
                own_nodes, number, n_nodes, n_left, min_data, may_grow
            )
            kept, number = np.int64(node.slot), np.int64(n_nodes)
            n_nodes += 2
            if not (small_wanted or large_wanted):
                own_free[n_free] = kept
                n_free += 1
                continue  # no need to meet: others may be copying rows of this node, and the next one has none of them
        small, large = (left, right) if left_small else (right, left)
        n_free -= 1
        spare_slot = own_free[n_free]
        n_rows = small.end - small.begin
        n_summing = np.int64(max(1, min(sharing[2], np.int64(np.sqrt(n_rows * sharing[3])))))
        larger = histograms[kept] if large_wanted else nothing_less
        if not sum_together(
            t, crew, codes, source, storage, blocks, places, own_features, own_runs, small.begin, small.end,
            n_summing, sharing[1], counters, totals, own_nothing, histograms[spare_slot], larger,
        ):  # fmt: skip
            return
        for k in range(2):
            child, slot = (small, spare_slot) if k == 0 else (large, kept)
            if not (small_wanted if k == 0 else large_wanted):
                continue
            child.slot = slot
            side = np.int64((k == 0) != left_small)
            search_child(
                codes, records, place_of, storage, starts, rows, histograms[slot], child.gradient, child.hessian,
                child.begin, child.end, default, chosen, offsets, has_missing, no_counts, units, rules, bounds, f0, f1,
                own_scratch, own_open, own_gains, number + side, own_found[side : side + 1], levels,
            )  # fmt: skip
        if not meet(crew):
            return
        for k in range(2):
            child, slot = (small, spare_slot) if k == 0 else (large, kept)
            if small_wanted if k == 0 else large_wanted:
                take_best(found[:, np.int64((k == 0) != left_small)], child.split)
            if child.split.gain == -np.inf and slot >= 0:
                own_free[n_free] = slot
                n_free += 1
    if t == 0:
        n_grown[0] = n_nodes
