"""Partition of dense data: records (and bins, where they travel) move to the buffer of the next depth.

First every row of a node says whether it goes left (`ask`), then rows are moved without a branch: left ones from the
front of the node's segment upwards, right ones from the back downwards. The order of rows inside a node does not
matter, since all sums are integers. Threads that share a node have counted first, so that each knows where its rows go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.pieces import cut
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, RowStore
from hornbeam.backends.cpu.growth.rows.sides import Sides, left_bins
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced
from hornbeam.backends.cpu.host.team import meet
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.trees.records import Segments


class DenseRows(NamedTuple):
    """The rows of a tree on dense data.

    bins, ... wide_odd   see RowStore
    words, ... words_odd uint64 (n_rows, stride in words)   memory of the bins
    columns              uint8 or uint16 (n_used, n_rows)   the bins once more, one feature's in a row; empty: there
                                                            is no copy
    answers              uint8 (n_rows,)                    scratch: which rows of a node go left
    lefts                int64 (2, n_threads, a line)       scratch: how many rows of each thread do
    by_row               see RowStore
    """

    bins: NDArray[Any]
    bins_even: NDArray[Any]
    bins_odd: NDArray[Any]
    words: NDArray[np.uint64]
    words_even: NDArray[np.uint64]
    words_odd: NDArray[np.uint64]
    even: NDArray[np.uint64]
    odd: NDArray[np.uint64]
    wide_even: NDArray[np.uint64]
    wide_odd: NDArray[np.uint64]
    columns: NDArray[Any]
    answers: NDArray[np.uint8]
    lefts: NDArray[np.int64]
    by_row: bool

    @classmethod
    def of(
        cls, store: RowStore, columns: NDArray[Any], answers: NDArray[np.uint8], lefts: NDArray[np.int64]
    ) -> DenseRows:
        """Take the arrays of a store."""
        bins = store.bins, store.bins_even, store.bins_odd
        words: list[Any] = [array.view(np.uint64) for array in bins]
        return cls(
            *bins, words[0], words[1], words[2], store.even, store.odd, store.wide_even, store.wide_odd,
            columns, answers, lefts, store.by_row,
        )  # fmt: skip


@inlined
def bins_at(rows, depth):
    """Return the bins of the nodes at a depth."""
    if rows.by_row or depth == 0:
        return rows.bins
    return rows.bins_even if depth % 2 == 0 else rows.bins_odd


@inner_kernel
def ask(rows, f, depth, goes_left, begin, end):
    """Write which rows of the places begin:end go left, to answers[begin:end]; returns how many.

    goes_left  uint8 (n_bins,)  in   see left_bins
    """
    answers, records, by_row = rows.answers, rows.even if depth % 2 == 0 else rows.odd, rows.by_row
    start, stop, feature, n_left = np.uint64(begin), np.uint64(end), np.uint64(f), np.int64(0)
    if len(rows.columns) > 0:
        column = rows.columns[f]
        for place in range(start, stop):
            answers[place] = goes_left[np.uint64(column[records[place] & ROW_MASK])]
    else:
        bins = bins_at(rows, depth)
        for place in range(start, stop):
            index = records[place] & ROW_MASK if by_row else place
            answers[place] = goes_left[np.uint64(bins[index, feature])]
    for place in range(start, stop):
        n_left += np.int64(answers[place])
    return n_left


@inner_kernel
def move(rows, depth, begin, end, left, right):
    """Move the rows begin:end of a node to the next depth as they have answered: from `left` up, from `right` down."""
    answers, is_even = rows.answers, depth % 2 == 0
    records, out_records = (rows.even, rows.odd) if is_even else (rows.odd, rows.even)
    wide, out_wide = (rows.wide_even, rows.wide_odd) if is_even else (rows.wide_odd, rows.wide_even)
    words, out_words = (rows.words_even, rows.words_odd) if is_even else (rows.words_odd, rows.words_even)
    if depth == 0:
        words = rows.words
    is_wide, n_words = len(wide) > 0, 0 if rows.by_row else out_words.shape[1]
    left, right, one = np.uint64(left), np.uint64(right), np.uint64(1)
    for place in range(np.uint64(begin), np.uint64(end)):
        goes_left = np.uint64(answers[place])
        to = left if goes_left else right
        out_records[to] = records[place]
        if is_wide:
            out_wide[to] = wide[place]
        for w in range(n_words):
            out_words[to, w] = words[place, w]
        left += goes_left
        right -= one - goes_left


@inner_kernel
def _divide(call, crew, rows, goes_left):
    """See divide_dense; returns how many rows went left, -1 if a thread has failed."""
    begin, end, depth, lefts = call.begin, call.end, call.depth, rows.lefts[call.turn]
    n_threads, t = (np.int64(1), np.int64(0)) if call.alone else (crew.size, call.part)
    n_rows = end - begin
    first, last = begin + n_rows * t // n_threads, begin + n_rows * (t + 1) // n_threads
    n_left, before = ask(rows, call.feature, depth, goes_left, first, last), np.int64(0)
    if n_threads > 1:
        lefts[t, 0] = n_left
        if not meet(crew):
            return np.int64(-1)
        n_left = np.int64(0)
        for other in range(n_threads):
            if other == t:
                before = n_left
            n_left += lefts[other, 0]
    move(rows, depth, first, last, begin + before, end - 1 - (first - begin - before))
    if n_threads > 1 and not meet(crew):
        return np.int64(-1)
    return n_left


@kernel
def divide_dense(t, room, calls, crew, rows, goes_left):
    """Divide a node; each thread moves some rows.

    goes_left  uint8 (n_threads, most bins)  in   which bins of the split's feature go left, the missing bin last
    """
    if introduced(t, room, (calls, crew, rows, goes_left)):
        return
    call = calls[t]
    call.n_left = _divide(call, crew, rows, goes_left[t])
    call.moving = False


@kernel
def partition_kernel(part, moves, rows, pieces, shared, splits, sides, table, before, n_left):
    """Ask the rows of one thread's pieces, and move them.

    part    number of the thread
    moves   False: only ask, and only the pieces of nodes that have several
    shared  bool (n_nodes,)      in   the node has several pieces
    splits  SPLIT (n_nodes,)     in
    table   uint8 (most bins,)   scratch
    before  int64 (n_pieces,)    in   rows of the node's earlier pieces that go left; rows that are right follow
    n_left  int64 (n_pieces,)    in out
    """
    for piece in range(pieces.bounds[part], pieces.bounds[part + 1]):
        node, begin, end, depth = pieces.node[piece], pieces.begin[piece], pieces.end[piece], pieces.depth[piece]
        if moves != shared[node]:
            split = splits[node]
            goes_left = table[: left_bins(split, sides, table)]
            n_left[piece] = ask(rows, np.int64(split.feature), depth, goes_left, begin, end)
        if moves:
            first, last = pieces.begin[pieces.first[node]], pieces.end[pieces.first[node + 1] - 1]
            move(rows, depth, begin, end, first + before[piece], last - 1 - (begin - first - before[piece]))


def partition(
    rows: DenseRows, nodes: Segments, splits: NDArray[np.void], sides: Sides, n_threads: int, tuning: Tuning
) -> NDArray[np.int64]:
    """See engine.Engine.partition."""
    pieces = cut(nodes, n_threads, tuning.divided_rows_per_thread, tuning)
    n_pieces, shared = len(pieces.node), np.diff(pieces.first) > 1
    before, n_left = np.zeros(n_pieces, np.int64), np.zeros(n_pieces, np.int64)
    tables = np.empty((len(pieces.bounds) - 1, int(sides.n_value_bins.max(initial=0)) + 1), np.uint8)

    def work(part: int, moves: bool) -> None:
        partition_kernel(part, moves, rows, pieces, shared, splits, sides, tables[part], before, n_left)

    if shared.any():
        run_threads(lambda part: work(part, False), len(tables))
        before = np.cumsum(n_left) - n_left
        before -= np.repeat(before[pieces.first[:-1]], np.diff(pieces.first))
    run_threads(lambda part: work(part, True), len(tables))
    return np.add.reduceat(n_left, pieces.first[:-1])


@inner_kernel
def _count(call, rows, counts):
    """See count_dense."""
    records, by_row = rows.even if call.depth % 2 == 0 else rows.odd, rows.by_row
    start, stop, feature = np.uint64(call.begin), np.uint64(call.end), np.uint64(call.feature)
    counts[:] = 0
    if len(rows.columns) > 0:
        column = rows.columns[call.feature]
        for place in range(start, stop):
            counts[np.uint64(column[records[place] & ROW_MASK])] += 1
    else:
        bins = bins_at(rows, call.depth)
        for place in range(start, stop):
            index = records[place] & ROW_MASK if by_row else place
            counts[np.uint64(bins[index, feature])] += 1


@kernel
def count_dense(t, room, calls, rows, counts, all_counts):
    """Count the rows of a node in the bins of one feature; all features at once would take as long as one by one.

    counts      int64 (n_threads, most bins)   out
    all_counts  is not used
    """
    if introduced(t, room, (calls, rows, counts, all_counts)):
        return
    call = calls[t]
    call.counted = False
    if call.feature >= 0:
        _count(call, rows, counts[t, : call.n_bins])
