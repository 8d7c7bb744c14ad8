"""Partition of sparse data: rows are exchanged within their node, and only those that leave it are touched.

Splits of sparse features are lopsided: a handful of rows is other than default, all the rest goes to the other side. So
codes and entries stay in place and are found by row number, records live in one buffer, and a split moves the few rows
out of a node's segment by exchange:

    node     | a b c D e F g H i |        D, F, H leave: exchange with the last ones
    children | a b c i e g | H F D |      the order of rows inside a node does not matter

The rows of each bin are listed once for the data set (storage.py), and each row knows its place among the records, so
the work is that of the rows listed for the bins that leave, whatever the size of the node. Where that would be more
than to ask every row of the node, every row is asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, RowStore
from hornbeam.backends.cpu.growth.rows.sides import left_bins
from hornbeam.backends.cpu.growth.sparse.storage import NOWHERE, Storage, find_entry
from hornbeam.backends.cpu.host.kernels import allocating_inner_kernel, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced
from hornbeam.backends.cpu.host.team import LINE, call_helpers, meet, run_parts, share_of
from hornbeam.backends.cpu.tuning import Tuning


class SparseRows(NamedTuple):
    """The rows of a tree on sparse rows, in one buffer for nodes of any depth.

    records, wide         uint64 (n_rows,)               see rows/records.py
    spare, spare_wide     uint64 (n_rows,)               scratch  at the places of the node that is divided
    place_of              uint32 (n_rows,)               in out   place of each row's record, or NOWHERE
    answers               uint8 (n_rows,)                scratch  which rows of a node go left
    lefts                 int64 (2, n_threads, a line)   scratch  how many rows of each thread do, or leave
    leaving               uint32 (n_rows + n_threads,)   scratch  rows that leave
    stays                 uint8 (n_rows,)                scratch  all zero before and after
    few_rows, lists_team  see tuning.py
    """

    records: NDArray[np.uint64]
    wide: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    spare_wide: NDArray[np.uint64]
    place_of: NDArray[np.uint32]
    answers: NDArray[np.uint8]
    lefts: NDArray[np.int64]
    leaving: NDArray[np.uint32]
    stays: NDArray[np.uint8]
    few_rows: int
    lists_team: int
    storage: Storage


class SparseStore(RowStore):
    """Keeps the rows of one training's trees, for teams of up to n_threads."""

    def __init__(self, storage: Storage, n_threads: int, tuning: Tuning) -> None:
        super().__init__(storage.codes, by_row=True)
        n_rows = len(self.even)
        self.tuning = tuning
        self.storage = storage
        self.odd = self.even
        self.spare = np.empty_like(self.even)
        self.spare_wide = self.wide_even
        self.place_of = np.empty(n_rows, np.uint32)
        self._scratch = (
            np.empty(n_rows, np.uint8), np.zeros((2, n_threads, LINE), np.int64),
            np.empty(n_rows + n_threads, np.uint32), np.zeros(n_rows, np.uint8),
        )  # fmt: skip

    def set_width(self, wide: bool) -> None:
        """Make room for narrow or wide records."""
        n_rows = len(self.even) if wide else 0
        if len(self.wide_even) != n_rows:
            self.wide_even = self.wide_odd = np.empty(n_rows, np.uint64)
            self.spare_wide = np.empty(n_rows, np.uint64)

    @property
    def rows(self) -> SparseRows:
        """What kernels take."""
        tuning = self.tuning
        return SparseRows(
            self.even, self.wide_even, self.spare, self.spare_wide, self.place_of, *self._scratch, tuning.few_rows,
            tuning.lists_team, self.storage,
        )  # fmt: skip

    def begin_tree(self, n_rows: int, n_threads: int) -> None:
        """Note where the records of a new tree are: the places 0:n_rows; n_threads: of the largest team."""
        if n_rows < len(self.place_of):
            self.place_of[:] = NOWHERE
        n_parts = max(1, min(n_threads, n_rows // self.tuning.listed_rows_per_thread))
        run_parts(note_kernel, n_parts, self.even, n_rows, self.place_of)


@kernel
def note_kernel(t, crew, records, n_rows, place_of):
    """Tell one thread's rows of the records their places; see host/team.py."""
    call_helpers(t, crew, (records, n_rows, place_of))
    first, last = share_of(n_rows, t, crew.size)
    for place in range(np.uint64(first), np.uint64(last)):
        place_of[records[place] & ROW_MASK] = place


@inner_kernel
def exchange(records, wide, place_of, a, b):
    """Exchange two records."""
    first, second = records[a], records[b]
    records[a], records[b] = second, first
    if len(wide) > 0:
        wide[a], wide[b] = wide[b], wide[a]
    place_of[second & ROW_MASK] = a
    place_of[first & ROW_MASK] = b


@inner_kernel
def next_run(goes_left, b, default_left):
    """Return the next bins from b on that go the other way than the default bin: first, and past the last of them."""
    n_bins = len(goes_left)
    while b < n_bins and goes_left[b] == default_left:
        b += 1
    last = b
    while last < n_bins and goes_left[last] != default_left:
        last += 1
    return b, last


@inner_kernel
def count_listed(storage, place, goes_left):
    """Return how many rows of the data set are listed that go the other way than the default bin; place: PLACE ()."""
    starts, n_listed, b = storage.list_starts, np.int64(0), np.int64(0)
    default_left = goes_left[place.default]
    while b < len(goes_left):
        first, b = next_run(goes_left, b, default_left)
        n_listed += starts[place.first + b] - starts[place.first + first]
    return n_listed


@inner_kernel
def goes_by_lists(storage, place, n_listed, n_rows):
    """Say whether the listed rows are to be looked at, rather than those of the node."""
    if place.column < 0:
        return n_listed < storage.entry_cost * n_rows
    return place.first_code > 0 and n_listed < storage.code_cost * n_rows


@inner_kernel
def move_listed(records, wide, place_of, listed, start, stop, default_left, left, right):
    """Move the listed rows start:stop that are in a node out of its places left:right, and return those that remain.

    Rows other than default go to the end of the node where default rows go left, and to its beginning otherwise.
    """
    for i in range(np.uint64(start), np.uint64(stop)):
        place = np.uint64(place_of[listed[i]])
        if left <= place < right:
            if default_left:
                right -= np.uint64(1)
                exchange(records, wide, place_of, place, right)
            else:
                exchange(records, wide, place_of, place, left)
                left += np.uint64(1)
    return left, right


@allocating_inner_kernel
def ask(rows, f, goes_left, begin, end):
    """Write which rows of the places begin:end go left, to answers[begin:end]; returns how many."""
    records, answers, storage = rows.records, rows.answers, rows.storage
    codes, indptr, entries = storage.codes, storage.indptr, storage.entries
    place = storage.features[f]
    first, last, default, column = place.first, place.last, place.default, np.uint64(place.column)
    start, stop, n_left = np.uint64(begin), np.uint64(end), np.int64(0)
    if place.column < 0:
        for at in range(start, stop):
            code = find_entry(indptr, entries, records[at] & ROW_MASK, first, last, default)
            answers[at] = goes_left[np.uint64(code)]
    elif place.alone >= 0:
        own = storage.columns[place.alone]
        for at in range(start, stop):
            answers[at] = goes_left[np.uint64(own[records[at] & ROW_MASK])]
    else:
        first_code, n = np.uint64(place.first_code), place.n_codes
        of_code = np.empty(n + 1, np.uint8)  # of the feature's own codes, and of all others
        for code in range(n):
            of_code[code] = goes_left[code + (code >= default)]
        of_code[n] = goes_left[default]
        for at in range(start, stop):
            code = np.uint64(codes[records[at] & ROW_MASK, column]) - first_code
            answers[at] = of_code[min(code, np.uint64(n))]
    for at in range(start, stop):
        n_left += np.int64(answers[at])
    return n_left


@inner_kernel
def divide_alone(rows, f, place, by_lists, goes_left, begin, end):
    """Move the rows begin:end of a node to its children's places, and return how many went left.

    by_lists  only the rows that are listed for the bins that leave are looked at; else every row is asked, and moved
              without a branch: its record is written to both places where it may belong, of which one will be written
              again, that of the next row
    """
    records, wide, spare, spare_wide, place_of = rows.records, rows.wide, rows.spare, rows.spare_wide, rows.place_of
    left, right, one, is_wide = np.uint64(begin), np.uint64(end), np.uint64(1), len(wide) > 0
    if by_lists:
        starts, listed, default_left, b = rows.storage.list_starts, rows.storage.listed, goes_left[place.default], 0
        while b < len(goes_left):
            first, b = next_run(goes_left, b, default_left)
            start, stop = starts[place.first + first], starts[place.first + b]
            left, right = move_listed(records, wide, place_of, listed, start, stop, default_left, left, right)
        return np.int64(right if default_left else left) - begin
    ask(rows, f, goes_left, begin, end)
    answers, to = rows.answers, np.uint64(begin)
    for at in range(np.uint64(begin), np.uint64(end)):
        record, is_left = records[at], np.uint64(answers[at])
        if is_wide:
            more = wide[at]
            wide[left], spare_wide[to] = more, more
        records[left], spare[to] = record, record
        place_of[record & ROW_MASK] = left  # of rows that go right it is written again below
        left += is_left
        to += one - is_left
    copy_back(rows, begin, np.int64(to) - begin, np.int64(left))
    return np.int64(left) - begin


@inner_kernel
def copy_back(rows, source, n_rows, begin):
    """Copy n_rows records from the places source... of spare to begin... of the records."""
    records, wide, spare, spare_wide, place_of = rows.records, rows.wide, rows.spare, rows.spare_wide, rows.place_of
    is_wide = len(wide) > 0
    for i in range(np.uint64(n_rows)):
        place = np.uint64(begin) + i
        record = spare[np.uint64(source) + i]
        records[place] = record
        if is_wide:
            wide[place] = spare_wide[np.uint64(source) + i]
        place_of[record & ROW_MASK] = place


@inner_kernel
def move_to_spare(rows, begin, end, left, right):
    """Copy the records begin:end of a node to its children's places in spare, from left and from right upwards."""
    records, wide, spare, spare_wide, answers = rows.records, rows.wide, rows.spare, rows.spare_wide, rows.answers
    is_wide = len(wide) > 0
    for place in range(np.uint64(begin), np.uint64(end)):
        if answers[place]:
            to = np.uint64(left)
            left += 1
        else:
            to = np.uint64(right)
            right += 1
        spare[to] = records[place]
        if is_wide:
            spare_wide[to] = wide[place]


@inner_kernel
def find_listed(place_of, listed, start, stop, begin, end, n_found, out):
    """Write the listed rows start:stop that are in a node to out[n_found:]; returns the new n_found. No branch."""
    n, first, last = np.uint64(n_found), np.uint64(begin), np.uint64(end)
    for i in range(np.uint64(start), np.uint64(max(start, stop))):
        row = listed[i]
        place = np.uint64(place_of[row])
        out[n] = row
        n += np.uint64((first <= place) & (place < last))
    return np.int64(n)


@inner_kernel
def find_leaving(rows, place, goes_left, first, last, begin, end, out):
    """Write the rows of a node that are among the first:last that count_listed counts; returns how many they are.

    out  uint32 (last - first + 1,)  out  with room for one that is not in the node
    """
    starts, default_left = rows.storage.list_starts, goes_left[place.default]
    n, seen, b = np.int64(0), np.int64(0), np.int64(0)  # rows written, and listed before those from `start` on
    while b < len(goes_left):
        run, b = next_run(goes_left, b, default_left)
        start, stop = starts[place.first + run], starts[place.first + b]
        part_start, part_stop = start + max(first - seen, 0), min(start + last - seen, stop)
        n = find_listed(rows.place_of, rows.storage.listed, part_start, part_stop, begin, end, n, out)
        seen += stop - start
    return n


@inner_kernel
def move_leaving(t, crew, rows, turn, own, n_own, n_leaving, to):
    """Do one thread's part of moving the rows that leave a node to the places from `to` on, by exchange.

    Those that are there already stay. The others are exchanged for the rows there that do not leave, in turn:

        places from `to` on   | a L b L c |        a, b, c make room for the first, second, third row that comes

    own  uint32 (n_own,)  in out   rows that leave, of this thread

    Returns False if a thread has failed.
    """
    records, wide, place_of, stays, lefts = rows.records, rows.wide, rows.place_of, rows.stays, rows.lefts[turn]
    n, first, last, n_threads = np.uint64(0), np.uint64(to), np.uint64(to + n_leaving), crew.size
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
    while moved < n:  # there are as many rows that make room as come
        if stays[place - first] == 0:
            if skipped > 0:
                skipped -= 1
            else:
                exchange(records, wide, place_of, np.uint64(place_of[own[moved]]), place)
                moved += np.uint64(1)
        place += np.uint64(1)
    if not meet(crew):
        return False
    stays[n_leaving * t // n_threads : n_leaving * (t + 1) // n_threads] = 0
    return True


@inner_kernel
def divide(t, crew, rows, f, begin, end, goes_left, turn):
    """Do one thread's part of dividing the rows begin:end of a node by feature f; see operations.py.

    goes_left  uint8 (n_bins,)  in   which bins of the feature go left, the missing bin last

    Returns how many rows went left, -1 if a thread has failed; and whether rows are still being copied.

    Where all rows are asked, each thread copies some to their places in spare and back again. While it does so the
    others may go on with what is in spare.
    """
    n_threads = crew.size
    lefts, place, n_rows, failed = rows.lefts[turn], rows.storage.features[f], end - begin, np.int64(-1)
    n_listed = count_listed(rows.storage, place, goes_left)
    by_lists = goes_by_lists(rows.storage, place, n_listed, n_rows)
    is_little = n_rows < rows.few_rows
    if by_lists:
        is_little = n_listed < rows.few_rows or n_threads < rows.lists_team
    if n_threads == 1 or is_little:
        n_left = np.int64(0)
        if t == 0:
            n_left = divide_alone(rows, f, place, by_lists, goes_left, begin, end)
        if n_threads > 1:
            lefts[t, 0] = n_left
            if not meet(crew):
                return failed, False
            n_left = lefts[0, 0]
        return n_left, False
    if by_lists:
        first, last = share_of(n_listed, t, n_threads)
        own = rows.leaving[first + t : last + t + 1]
        n_own = find_leaving(rows, place, goes_left, first, last, begin, end, own)
    else:
        first, last = begin + n_rows * t // n_threads, begin + n_rows * (t + 1) // n_threads
        own = rows.leaving[:0]
        n_own = ask(rows, f, goes_left, first, last)
    lefts[t, 0] = n_own
    if not meet(crew):
        return failed, False
    before, n_left = np.int64(0), np.int64(0)
    for other in range(n_threads):
        if other == t:
            before = n_left
        n_left += lefts[other, 0]
    if by_lists:
        default_left = goes_left[place.default] != 0
        to = end - n_left if default_left else begin
        if not move_leaving(t, crew, rows, turn, own, n_own, n_left, to):
            return failed, False
        return n_rows - n_left if default_left else n_left, False
    move_to_spare(rows, first, last, begin + before, begin + n_left + (first - begin - before))
    if not meet(crew):
        return failed, True
    copy_back(rows, first, last - first, first)
    return n_left, True


@kernel
def divide_sparse(t, room, calls, crew, rows, goes_left):
    """Divide a node: the operation; goes_left: uint8 (n_threads, most bins)."""
    if introduced(t, room, (calls, crew, rows, goes_left)):
        return
    call = calls[t]
    goes_left = goes_left[t, : call.n_bins]
    call.n_left, call.moving = divide(
        call.part, crew, rows, call.feature, call.begin, call.end, goes_left, call.turn
    )  # fmt: skip


@kernel
def partition_kernel(t, crew, rows, nodes, sides, tables, n_left):
    """Divide some nodes, one after the other, each by the whole team.

    nodes   NODE (n_nodes,)                in
    sides   see rows.sides.Sides
    tables  uint8 (n_threads, most bins)   scratch
    n_left  int64 (n_nodes,)               out
    """
    call_helpers(t, crew, (rows, nodes, sides, tables, n_left))
    for i in range(len(nodes)):
        node = nodes[i]
        goes_left = tables[t, : left_bins(node.split, sides, tables[t])]
        rows_left, moving = divide(
            t, crew, rows, np.int64(node.split.feature), node.begin, node.end, goes_left, i % 2
        )  # fmt: skip
        if rows_left < 0 or (moving and not meet(crew)):
            return
        if t == 0:
            n_left[i] = rows_left
