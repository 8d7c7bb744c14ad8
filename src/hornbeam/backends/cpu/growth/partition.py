"""Partition on the CPU: records (and bins, where they travel) move to the buffer of the next depth.

A node in one piece is moved in one pass: left rows from the front of its segment upwards, right rows from the back
downwards. The order of rows inside a node does not matter, since all sums are integers. A node in several pieces is
counted first, so that every piece knows where its rows go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.pieces import cut
from hornbeam.backends.cpu.growth.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.trees.records import Segments

ROWS_PER_THREAD = 8192
"""A second thread is worth waking for this many rows, about 60 microseconds."""


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def bin_goes_left(code, bin_, missing_left, n_value_bins):  # type: ignore[no-untyped-def]
    """Twin of tree.goes_left in bins; the missing bin is code n_value_bins, above every split bin."""
    return (code <= bin_) | (missing_left & (code == n_value_bins))


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def bin_in_set(code, left_set):  # type: ignore[no-untyped-def]
    """Say whether a bin is in a set; the missing bin, past the last, may lie past its last word too.

    left_set  uint32 (n_words,)  in   bits, see tree.code_bits
    """
    word = np.uint64(code >> 5)
    return word < np.uint64(len(left_set)) and (left_set[word] >> np.uint32(code & 31)) & np.uint32(1) != 0


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def leaf_of_row(  # type: ignore[no-untyped-def]
    bins, row, n_value_bins, feature, bin_, missing_left, left, right, left_sets, n_numeric
):
    """Send a row down a tree of bins and return its leaf number; feature ... left_sets as in BinnedTree, or None."""
    node = np.int64(0)
    while node >= 0:
        f = feature[node]
        code = np.int64(bins[row, f])
        goes_left = bin_goes_left(code, bin_[node], missing_left[node], n_value_bins[f])
        if left_sets is not None:  # noqa: SIM102 (a condition that the compiler can decide, alone)
            if f >= n_numeric:
                goes_left = bin_in_set(code, left_sets[node])
        if goes_left:
            node = np.int64(left[node])
        else:
            node = np.int64(right[node])
    return ~node


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def count_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, feature, bin_, missing_left, n_value_bins, node, begin, end, depth,
    several, start, stop, n_left, sets=None,
):  # fmt: skip
    """Count the rows that go left in each of the pieces start:stop whose node has several pieces.

    feature, bin_, n_value_bins  int64 (n_nodes,)   in
    missing_left                 bool  (n_nodes,)   in
    several                      bool  (n_pieces,)  in
    n_left                       int64 (n_pieces,)  out
    sets                         see move_rows
    """
    mask = np.uint64(0xFFFFFFFF)
    for piece in range(start, stop):
        if not several[piece]:
            continue
        source = bins_at(bins, bins_even, bins_odd, gather, depth[piece])
        records = records_at(even, odd, depth[piece])
        n = node[piece]
        f, b, m, v = np.uint64(feature[n]), bin_[n], missing_left[n], n_value_bins[n]
        count = 0
        if sets is not None:
            is_set = np.int64(f) >= sets[1]
            left_set = sets[0][b if is_set else 0]
        for place in range(np.uint64(begin[piece]), np.uint64(end[piece])):
            index = records[place, 0] & mask if gather else place
            goes_left = bin_goes_left(np.int64(source[index, f]), b, m, v)
            if sets is not None:  # noqa: SIM102 (a condition that the compiler can decide, alone)
                if is_set:
                    goes_left = bin_in_set(np.int64(source[index, f]), left_set)
            count += goes_left
        n_left[piece] = count


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def move_rows(  # type: ignore[no-untyped-def]
    bins, records, words, out_records, out_words, gather, feature, bin_, missing_left, n_value_bins, begin, end, left,
    right, right_step, sets=None,
):  # fmt: skip
    """Move the rows begin:end of one node to the next depth and return how many went left.

    words, out_words  uint64 (n_rows, stride in words)  the bins, for copying; not used when gathered
    left              first place of left rows, filled upwards
    right             first place of right rows, filled in steps of right_step
    sets              (sets of bins that go left, uint32 (n_sets, n_words); first categorical feature), or None: there
                      is no such feature. The bin of its splits is the number of a set
    """
    mask = np.uint64(0xFFFFFFFF)
    n_record, n_words = records.shape[1], words.shape[1]
    f, b, v = np.uint64(feature), np.int64(bin_), np.int64(n_value_bins)
    left_place, right_place = np.int64(left), np.int64(right)
    if sets is not None:
        is_set = np.int64(f) >= sets[1]
        left_set = sets[0][b if is_set else 0]
    for place in range(np.uint64(begin), np.uint64(end)):
        record = records[place, 0]
        index = record & mask if gather else place
        goes_left = bin_goes_left(np.int64(bins[index, f]), b, missing_left, v)
        if sets is not None:  # noqa: SIM102 (a condition that the compiler can decide, alone)
            if is_set:
                goes_left = bin_in_set(np.int64(bins[index, f]), left_set)
        if goes_left:
            to = np.uint64(left_place)
            left_place += 1
        else:
            to = np.uint64(right_place)
            right_place += right_step
        out_records[to, 0] = record
        if n_record == 2:
            out_records[to, 1] = records[place, 1]
        if not gather:
            for w in range(n_words):
                out_words[to, w] = words[place, w]
    return left_place - left


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def move_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, words, words_even, words_odd, feature, bin_, missing_left,
    n_value_bins, node, begin, end, depth, left_place, right_place, right_step, start, stop, n_left, sets=None,
):  # fmt: skip
    """Move the rows of the pieces start:stop to the next depth.

    left_place, right_place, right_step  int64 (n_pieces,)  in   see move_rows
    n_left                               int64 (n_pieces,)  out
    """
    for piece in range(start, stop):
        d, n = depth[piece], node[piece]
        n_left[piece] = move_rows(
            bins_at(bins, bins_even, bins_odd, gather, d), records_at(even, odd, d),
            bins_at(words, words_even, words_odd, gather, d), records_at(even, odd, d + 1),
            bins_at(words, words_even, words_odd, gather, d + 1), gather, feature[n], bin_[n], missing_left[n],
            n_value_bins[n], begin[piece], end[piece], left_place[piece], right_place[piece], right_step[piece], sets,
        )  # fmt: skip


def partition(
    store: RowStore,
    nodes: Segments,
    splits: NDArray[np.void],
    n_value_bins: NDArray[np.int64],
    n_threads: int,
    sets: tuple[NDArray[np.uint32], int] | None = None,
) -> NDArray[np.int64]:
    """See protocol.Engine.partition; sets as in move_rows."""
    pieces = cut(nodes, n_threads, ROWS_PER_THREAD)
    feature, bin_ = splits["feature"].astype(np.int64), splits["bin"].astype(np.int64)
    rule = (feature, bin_, np.ascontiguousarray(splits["missing_left"]), n_value_bins[feature])
    where = (pieces.node, pieces.begin, pieces.end, pieces.depth)
    n_left = np.zeros(len(pieces.node), np.int64)
    arrays = store.arrays()

    left_place, right_place = pieces.begin, pieces.end - 1
    right_step = np.full(len(pieces.node), -1)
    if len(pieces.node) > len(splits):
        several = (np.diff(pieces.first) > 1)[pieces.node]
        run_threads(
            lambda t: count_kernel(
                *arrays, *rule, *where, several, pieces.bounds[t], pieces.bounds[t + 1], n_left, sets
            ),
            len(pieces.bounds) - 1,
        )
        lefts_before = exclusive_cumsum(n_left, pieces.first)
        rights_before = exclusive_cumsum(pieces.end - pieces.begin - n_left, pieces.first)
        all_left = np.add.reduceat(n_left, pieces.first[:-1])[pieces.node]
        begin = nodes.begin[pieces.node]
        left_place = np.where(several, begin + lefts_before, left_place)
        right_place = np.where(several, begin + all_left + rights_before, right_place)
        right_step[several] = 1

    words = [as_words(array) for array in arrays[:3]]
    run_threads(
        lambda t: move_kernel(
            *arrays, *words, *rule, *where, left_place, right_place, right_step, pieces.bounds[t],
            pieces.bounds[t + 1], n_left, sets,
        ),
        len(pieces.bounds) - 1,
    )  # fmt: skip
    return np.add.reduceat(n_left, pieces.first[:-1])


def exclusive_cumsum(values: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum what comes before each value within its group; group g starts at first[g]."""
    before = np.cumsum(values) - values
    return np.asarray(before - np.repeat(before[first[:-1]], np.diff(first)))


def as_words(bins: NDArray[Any]) -> NDArray[np.uint64]:
    """View row-major bins as 64-bit words; rows are padded to whole words."""
    return bins.view(np.uint64)
