"""Partition on stored bins (bundling.py): rows are swapped within their node, and only those that leave it are touched.

Splits of sparse features are lopsided: a handful of rows is other than default, all the rest goes to the other side. So
codes and entries stay in place and are found by row number, records live in one buffer, and a split moves the few rows
out of a node's segment by exchange:

    node     | a b c D e F g H i |        D, F, H leave: exchange with the last ones
    children | a b c i e g | H F D |      the order of rows inside a node does not matter

The rows of each bin are listed once for the data set (`RowLists`, bins in the order of histogram places), and each row
knows its place among the records, so the work is that of the rows listed for the bins that leave, whatever the size of
the node. Where that would be more than to ask every row of the node, every row is asked.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.partition import bin_goes_left, bin_in_set
from hornbeam.backends.cpu.growth.rows import RowStore
from hornbeam.backends.cpu.growth.stored_rows import (
    APART,
    COLUMN,
    DEFAULT,
    FIRST_CODE,
    N_CODES,
    NOWHERE,
    OFFSET,
    coded_bin,
    described,
    find_entry,
    places_of_codes,
)
from hornbeam.backends.cpu.host.team import call_helpers, run_parts
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.data.stored_bins import StoredBins
from hornbeam.trees.records import Segments

ROWS_PER_THREAD = 32_768

ENTRY_COST, CODE_COST = 8, 0.5
"""Listed rows that take as long as to ask one row of a node: by bisection of its entries, or by its code."""


class RowLists(NamedTuple):
    """The rows of each bin of the features in bundles and entries, default bins left out.

    starts  int64 (n_total_bins + 1,)   first row of each bin
    rows    uint32 (n,)                 ascending within a bin
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def list_rows_kernel(codes, places, code_starts, indptr, entries, at, rows):  # type: ignore[no-untyped-def]
    """Count the rows of each bin (rows empty), or write them.

    places  uint32 (n codes of all columns,)   in       place in the histogram, or NOWHERE
    at      int64 (n_total_bins,)              in out   count, or where the next row of the bin goes
    rows    uint32                             out
    """
    writes = len(rows) > 0
    n_columns = np.uint64(len(code_starts) - 1)
    for row in range(np.uint64(len(indptr) - 1)):
        for c in range(n_columns):
            place = places[np.uint64(code_starts[c]) + codes[row, c]]
            if place != NOWHERE:
                if writes:
                    rows[np.uint64(at[place])] = row
                at[place] += 1
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            place = entries[i]
            if writes:
                rows[np.uint64(at[place])] = row
            at[place] += 1


def list_rows(stored: StoredBins) -> RowLists:
    """Return the rows of each bin, made at the first training on the data set."""
    if "row_lists" not in stored.derived:
        places = places_of_codes(stored, with_own_columns=False)
        given = stored.codes, places, stored.code_starts, stored.indptr, stored.entries
        counts = np.zeros(int(stored.offsets[-1]), np.int64)
        list_rows_kernel(*given, counts, np.empty(0, np.uint32))
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows = np.empty(int(starts[-1]), np.uint32)
        if len(rows):
            list_rows_kernel(*given, starts[:-1].copy(), rows)
        stored.derived["row_lists"] = RowLists(starts, rows)
    lists: RowLists = stored.derived["row_lists"]
    return lists


class StoredRows(RowStore):
    """Records in one buffer, for nodes of any depth.

    place_of  uint32 (n_rows,)              place of each row's record, or NOWHERE
    spare     uint64 (n_rows, 1 or 2)       scratch
    """

    def __init__(self, stored: StoredBins) -> None:
        super().__init__(stored.codes, in_place=True)
        self.odd = self.even
        self.spare = np.empty_like(self.even)
        self.place_of = np.empty(stored.n_rows, np.uint32)

    def set_width(self, wide: bool) -> None:
        """Make room for one or two words a record."""
        n_words = 2 if wide else 1
        if self.even.shape[1] != n_words:
            self.even = self.odd = np.empty((len(self.bins), n_words), np.uint64)
            self.spare = np.empty_like(self.even)

    def begin_tree(self, n_rows: int, n_threads: int) -> None:
        """Note where the records of a new tree are: the places 0:n_rows; n_threads: of the largest team."""
        if n_rows < len(self.place_of):
            self.place_of[:] = NOWHERE
        run_parts(note_kernel, max(1, min(n_threads, n_rows // ROWS_PER_THREAD)), self.even, n_rows, self.place_of)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def note_kernel(t, crew, records, n_rows, place_of):  # type: ignore[no-untyped-def]
    """Tell one thread's rows of the records their places; see team.py."""
    call_helpers(t, crew, (records, n_rows, place_of))
    for place in range(np.uint64(n_rows * t // crew[0]), np.uint64(n_rows * (t + 1) // crew[0])):
        place_of[records[place, 0] & np.uint64(0xFFFFFFFF)] = place


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def exchange(records, place_of, a, b):  # type: ignore[no-untyped-def]
    """Exchange two records."""
    mask = np.uint64(0xFFFFFFFF)
    first, second = records[a, 0], records[b, 0]
    records[a, 0], records[b, 0] = second, first
    if records.shape[1] == 2:
        records[a, 1], records[b, 1] = records[b, 1], records[a, 1]
    place_of[second & mask] = a
    place_of[first & mask] = b


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def lists_that_leave(storage, starts, f, bin_, missing_left, n_value_bins):  # type: ignore[no-untyped-def]
    """Return whether default rows go left, and the lists of the rows that go the other way: two ranges of rows."""
    where = storage[0]
    first, missing = where[f, OFFSET], where[f, OFFSET] + n_value_bins
    default_left = bin_goes_left(where[f, DEFAULT], bin_, missing_left, n_value_bins)
    above = first + bin_ + 1
    if default_left:
        return True, starts[above], starts[missing if missing_left else missing + 1], np.int64(0), np.int64(0)
    if missing_left:
        return False, starts[first], starts[above], starts[missing], starts[missing + 1]
    return False, starts[first], starts[above], np.int64(0), np.int64(0)


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def goes_by_lists(storage, f, n_listed, n_rows):  # type: ignore[no-untyped-def]
    """Say whether the listed rows are to be looked at, rather than those of the node."""
    where = storage[0]
    if where[f, COLUMN] < 0:
        return n_listed < ENTRY_COST * n_rows
    return where[f, FIRST_CODE] > 0 and n_listed < CODE_COST * n_rows


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def move_listed(records, place_of, rows, start, stop, default_left, left, right):  # type: ignore[no-untyped-def]
    """Move the listed rows start:stop that are in a node out of its places left:right, and return those that remain.

    Rows other than default go to the end of the node where default rows go left, and to its beginning otherwise.
    """
    for i in range(np.uint64(start), np.uint64(stop)):
        own = np.uint64(place_of[rows[i]])
        if left <= own < right:
            if default_left:
                right -= np.uint64(1)
                exchange(records, place_of, own, right)
            else:
                exchange(records, place_of, own, left)
                left += np.uint64(1)
    return left, right


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def divide(  # type: ignore[no-untyped-def]
    codes, records, place_of, spare, storage, starts, rows, f, bin_, missing_left, n_value_bins, begin, end
):
    """Move the rows begin:end of one node to its children's places, and return how many went left.

    records   uint64 (n_rows, 1 or 2)   in out
    place_of  uint32 (n_rows,)          in out
    spare     uint64 (n_rows, 1 or 2)   scratch, at begin:end
    starts, rows                        in       see RowLists

    Other nodes may be divided at the same time: they change the places of their own rows alone, within their segments.
    """
    b, v = np.int64(bin_), np.int64(n_value_bins)
    default_left, first, last, first2, last2 = lists_that_leave(storage, starts, f, b, missing_left, v)
    left, right = np.uint64(begin), np.uint64(end)
    if goes_by_lists(storage, f, last - first + last2 - first2, end - begin):
        for part in range(2):
            if part == 1:
                first, last = first2, last2
            left, right = move_listed(records, place_of, rows, first, last, default_left, left, right)
        return np.int64(right if default_left else left) - begin
    return ask_rows(codes, records, place_of, spare, storage, f, left_of_threshold(b, missing_left, v), begin, end)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def divide_by_set(  # type: ignore[no-untyped-def]
    codes, records, place_of, spare, storage, starts, rows, f, left_set, begin, end
):
    """Do what `divide` does for a categorical feature: left_set are the bits of the bins that go left, uint32."""
    where = storage[0]
    first, n_bins = where[f, OFFSET], where[f + 1, OFFSET] - where[f, OFFSET]
    default_left = bin_in_set(where[f, DEFAULT], left_set)
    n_listed = np.int64(0)
    for b in range(n_bins):
        if bin_in_set(b, left_set) != default_left:
            n_listed += starts[first + b + 1] - starts[first + b]
    if not goes_by_lists(storage, f, n_listed, end - begin):
        return ask_rows(codes, records, place_of, spare, storage, f, left_of_set(left_set, n_bins - 1), begin, end)
    left, right = np.uint64(begin), np.uint64(end)
    for b in range(n_bins):
        if bin_in_set(b, left_set) != default_left:
            start, stop = starts[first + b], starts[first + b + 1]
            left, right = move_listed(records, place_of, rows, start, stop, default_left, left, right)
    return np.int64(right if default_left else left) - begin


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def left_of_threshold(bin_, missing_left, n_value_bins):  # type: ignore[no-untyped-def]
    """Return which bins of a feature go left, uint8 (n_value_bins + 1,), the missing bin last."""
    goes_left = np.empty(n_value_bins + 1, np.uint8)
    for code in range(n_value_bins + 1):
        goes_left[code] = bin_goes_left(code, bin_, missing_left, n_value_bins)
    return goes_left


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def left_of_set(left_set, n_value_bins):  # type: ignore[no-untyped-def]
    """Do what left_of_threshold does for a categorical feature; left_set as in divide_by_set."""
    goes_left = np.empty(n_value_bins + 1, np.uint8)
    for code in range(n_value_bins + 1):
        goes_left[code] = bin_in_set(code, left_set)
    return goes_left


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def ask(codes, records, storage, f, goes_left, begin, end, out):  # type: ignore[no-untyped-def]
    """Write which rows of the places begin:end go left.

    goes_left  uint8 (n_bins,)       in   see left_of_threshold
    out        uint8 (end - begin,)  out
    """
    where, indptr, entries, columns = storage
    mask, start = np.uint64(0xFFFFFFFF), np.uint64(begin)
    first, d, c = where[f, FIRST_CODE], where[f, DEFAULT], where[f, COLUMN]
    own, last = where[f, OFFSET], where[f + 1, OFFSET]
    if c < 0:
        for place in range(start, np.uint64(end)):
            code = find_entry(indptr, entries, records[place, 0] & mask, own, last, d)
            out[place - start] = goes_left[np.uint64(code)]
        return
    if where[f, APART] >= 0:
        column = columns[where[f, APART]]
        for place in range(start, np.uint64(end)):
            out[place - start] = goes_left[np.uint64(column[records[place, 0] & mask])]
        return
    n = where[f, N_CODES]
    of_code = np.empty(n + 1, np.uint8)  # of the feature's own codes, and of all others
    for code in range(n):
        of_code[code] = goes_left[coded_bin(first + code, first, n, d)]
    of_code[n] = goes_left[d]
    for place in range(start, np.uint64(end)):
        code = np.uint64(codes[records[place, 0] & mask, np.uint64(c)]) - np.uint64(first)
        out[place - start] = of_code[min(code, np.uint64(n))]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def ask_rows(codes, records, place_of, spare, storage, f, goes_left, begin, end):  # type: ignore[no-untyped-def]
    """Do what `divide` does by asking every row of the node, without a branch; goes_left as in `ask`.

    A record is written to both places where it may belong, of which one will be written again: that of the next row.
    """
    answers = np.empty(end - begin, np.uint8)
    ask(codes, records, storage, f, goes_left, begin, end, answers)
    mask, one, start = np.uint64(0xFFFFFFFF), np.uint64(1), np.uint64(begin)
    left, to = start, start
    for place in range(start, np.uint64(end)):
        record, is_left = records[place, 0], np.uint64(answers[place - start])
        if records.shape[1] == 2:
            more = records[place, 1]
            records[left, 1], spare[to, 1] = more, more
        records[left, 0], spare[to, 0] = record, record
        place_of[record & mask] = left  # of rows that go right it is written again below
        left += is_left
        to += one - is_left
    copy_back(records, place_of, spare, begin, np.int64(to) - begin, np.int64(left))
    return np.int64(left) - begin


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def copy_back(records, place_of, spare, source, n_rows, begin):  # type: ignore[no-untyped-def]
    """Copy n_rows records from the places source... of spare to begin... of the records."""
    for i in range(np.uint64(n_rows)):
        place = np.uint64(begin) + i
        record = spare[np.uint64(source) + i, 0]
        records[place, 0] = record
        if records.shape[1] == 2:
            records[place, 1] = spare[np.uint64(source) + i, 1]
        place_of[record & np.uint64(0xFFFFFFFF)] = place


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def move_to_spare(records, spare, answers, begin, end, left, right):  # type: ignore[no-untyped-def]
    """Copy the records begin:end of a node to its children's places in spare, from left and from right upwards.

    answers  uint8 (end - begin,)  in   which of them go left
    """
    for place in range(np.uint64(begin), np.uint64(end)):
        if answers[place - np.uint64(begin)]:
            to = np.uint64(left)
            left += 1
        else:
            to = np.uint64(right)
            right += 1
        spare[to, 0] = records[place, 0]
        if records.shape[1] == 2:
            spare[to, 1] = records[place, 1]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def count_bins(codes, records, place_of, storage, starts, rows, f, begin, end, counts):  # type: ignore[no-untyped-def]
    """Count the rows of a node in every bin of one feature.

    counts  int64 (>= n_bins of the feature,)  out
    """
    where, indptr, entries, columns = storage
    first, n_bins = where[f, OFFSET], where[f + 1, OFFSET] - where[f, OFFSET]
    own_first, n, d, c = where[f, FIRST_CODE], where[f, N_CODES], where[f, DEFAULT], where[f, COLUMN]
    counts[:n_bins] = 0
    if where[f, APART] >= 0:
        column = columns[where[f, APART]]
        for place in range(np.uint64(begin), np.uint64(end)):
            counts[np.uint64(column[records[place, 0] & np.uint64(0xFFFFFFFF)])] += 1
        return
    if not goes_by_lists(storage, f, starts[first + n_bins] - starts[first], end - begin):
        for place in range(np.uint64(begin), np.uint64(end)):
            row = records[place, 0] & np.uint64(0xFFFFFFFF)
            if c < 0:
                code = find_entry(indptr, entries, row, first, first + n_bins, d)
            else:
                code = coded_bin(np.int64(codes[row, np.uint64(c)]), own_first, n, d)
            counts[np.uint64(code)] += 1
        return
    rest = np.int64(end - begin)
    for b in range(n_bins):
        count = np.int64(0)
        for i in range(np.uint64(starts[first + b]), np.uint64(starts[first + b + 1])):
            own = np.int64(place_of[rows[i]])
            count += np.int64(begin <= own < end)
        counts[b] = count
        rest -= count
    counts[d] = rest


class StoredPartition:
    """Moves the rows of nodes on stored bins."""

    def __init__(self, stored: StoredBins, n_value_bins: NDArray[np.int64], n_threads: int) -> None:
        self.stored = stored
        self.storage = described(stored, with_columns=True)
        self.lists = list_rows(stored)
        self.n_value_bins = n_value_bins
        self.n_threads = n_threads

    def partition(
        self,
        store: StoredRows,
        nodes: Segments,
        splits: NDArray[np.void],
        sets: tuple[NDArray[np.uint32], int] | None = None,
    ) -> NDArray[np.int64]:
        """See protocol.Engine.partition; sets as in partition.move_rows."""
        n_left = np.zeros(len(splits), np.int64)
        begins, ends = nodes.begin.tolist(), nodes.end.tolist()
        rules = [
            (feature, bin_, missing_left, int(self.n_value_bins[feature]))
            for feature, bin_, missing_left in zip(
                splits["feature"].tolist(), splits["bin"].tolist(), splits["missing_left"].tolist(), strict=True
            )
        ]
        left_sets = [None if sets is None or rule[0] < sets[1] else sets[0][rule[1]] for rule in rules]
        work = [
            self.work(*rule, end - begin, left_set)
            for rule, begin, end, left_set in zip(rules, begins, ends, left_sets, strict=True)
        ]

        def move(start: int, stop: int) -> None:
            for node in some[start:stop]:
                left_set = left_sets[node]
                given = self.stored.codes, store.even, store.place_of, store.spare, self.storage, *self.lists
                if left_set is None:
                    n_left[node] = divide(*given, *rules[node], begins[node], ends[node])
                else:
                    n_left[node] = divide_by_set(*given, rules[node][0], left_set, begins[node], ends[node])

        some = [node for node, (n_rows, by_lists) in enumerate(work) if by_lists or n_rows <= ROWS_PER_THREAD]
        if self.n_threads == 1:
            some = list(range(len(work)))
        run_ranges(move, len(some), self.n_threads, -(-ROWS_PER_THREAD // max([1, *(work[node][0] for node in some)])))
        for node in sorted(set(range(len(work))).difference(some)):
            n_left[node] = self._divide_together(store, (*rules[node], left_sets[node]), begins[node], ends[node])
        return n_left

    def work(
        self,
        feature: int,
        bin_: int,
        missing_left: bool,
        n_value_bins: int,
        n_rows: int,
        left_set: NDArray[np.uint32] | None = None,
    ) -> tuple[int, bool]:
        """Return how many rows a split has to look at, and whether they are listed ones."""
        if left_set is None:
            _, first, last, first2, last2 = lists_that_leave.py_func(
                self.storage, self.lists.starts, feature, bin_, missing_left, n_value_bins
            )
            n_listed = int(last - first + last2 - first2)
        else:
            bits = np.unpackbits(left_set.view(np.uint8), bitorder="little")
            goes_left = np.append(bits, 0)[: n_value_bins + 1]
            start = int(self.storage[0][feature, OFFSET])
            sizes = np.diff(self.lists.starts[start : start + n_value_bins + 2])
            n_listed = int(sizes[goes_left != goes_left[self.storage[0][feature, DEFAULT]]].sum())
        if goes_by_lists.py_func(self.storage, feature, n_listed, n_rows):
            return n_listed, True
        return n_rows, False

    def _divide_together(
        self, store: StoredRows, rule: tuple[int, int, bool, int, NDArray[np.uint32] | None], begin: int, end: int
    ) -> int:
        """Divide one node with all threads: count, copy to the places in spare, copy back."""
        n_threads = max(1, min(self.n_threads, (end - begin) // ROWS_PER_THREAD))
        cuts = [begin + (end - begin) * part // n_threads for part in range(n_threads + 1)]
        codes, records, counts = self.stored.codes, store.even, [0] * n_threads
        feature, bin_, missing_left, n_value_bins, left_set = rule
        if left_set is None:
            goes_left = left_of_threshold(bin_, missing_left, n_value_bins)
        else:
            goes_left = left_of_set(left_set, n_value_bins)
        answers = [np.empty(last - first, np.uint8) for first, last in pairwise(cuts)]

        def ask_some(t: int) -> None:
            ask(codes, records, self.storage, feature, goes_left, cuts[t], cuts[t + 1], answers[t])
            counts[t] = int(np.count_nonzero(answers[t]))

        run_threads(ask_some, n_threads)
        n_left = sum(counts)
        lefts = [begin + sum(counts[:t]) for t in range(n_threads)]
        rights = [begin + n_left + cuts[t] - lefts[t] for t in range(n_threads)]
        run_threads(
            lambda t: move_to_spare(records, store.spare, answers[t], cuts[t], cuts[t + 1], lefts[t], rights[t]),
            n_threads,
        )
        run_threads(
            lambda t: copy_back(records, store.place_of, store.spare, cuts[t], cuts[t + 1] - cuts[t], cuts[t]),
            n_threads,
        )
        return n_left
