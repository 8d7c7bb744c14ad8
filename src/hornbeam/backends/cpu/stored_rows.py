"""Rows of stored bins (bundling.py) on the CPU: partition, routing of validation rows, and counts.

Kernels take the storage as the tuple that `described` makes: default, column, first_code, n_codes, offsets, indptr,
entries. Only records travel (rows.py): codes and entries stay in place and are found by row number. Sparse features
make lopsided splits, where most rows would travel for a histogram that only the few are summed for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.partition import bin_goes_left
from hornbeam.backends.cpu.rows import RowStore, records_at
from hornbeam.backends.cpu.threads import run_ranges, run_threads
from hornbeam.backends.protocol import BinnedTree, Segments
from hornbeam.bundling import StoredBins

DEFAULT, LEFT, RIGHT = 0, 1, 2
"""Marks of rows, see StoredPartition."""

ROWS_PER_THREAD = 32_768
ROUTED_ROWS_PER_THREAD = 512


def described(stored: StoredBins) -> tuple[NDArray[Any], ...]:
    """Return what kernels take as `storage`."""
    return (
        stored.default.astype(np.int64), stored.column.astype(np.int64), stored.first_code.astype(np.int64),
        stored.n_codes.astype(np.int64), stored.offsets, stored.indptr, stored.entries,
    )  # fmt: skip


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def find_entry(indptr, entries, row, first, last, default):  # type: ignore[no-untyped-def]
    """Return the bin of a feature of entries, whose histogram places are first:last, in a row: by bisection."""
    low, high = indptr[row], indptr[row + np.uint64(1)]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if np.int64(entries[np.uint64(middle)]) < first:
            low = middle + 1
        else:
            high = middle
    if low < end:
        entry = np.int64(entries[np.uint64(low)])
        if entry < last:
            return entry - first
    return default


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def bundled_bin(code, first_code, n_codes, default):  # type: ignore[no-untyped-def]
    """Return the bin of a feature from the code of its bundle."""
    place = code - first_code
    if 0 <= place < n_codes:
        return place + (place >= default)
    return default


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def rows_by_feature(storage, rows):  # type: ignore[no-untyped-def]
    """List the rows of the entries feature by feature.

    rows     uint32 (n_entries,)   out
    returns  int64 (n_used + 1,)   first row of each feature
    """
    _, column, _, _, offsets, indptr, entries = storage
    n_used = len(column)
    feature_of = np.empty(offsets[n_used], np.uint32)
    for f in range(n_used):
        feature_of[offsets[f] : offsets[f + 1]] = f
    starts = np.zeros(n_used + 1, np.int64)
    for i in range(np.uint64(len(entries))):
        starts[feature_of[entries[i]] + np.uint32(1)] += 1
    for f in range(n_used):
        starts[f + 1] += starts[f]
    filled = starts.copy()
    for row in range(np.uint64(len(indptr) - 1)):
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            f = feature_of[entries[i]]
            rows[np.uint64(filled[f])] = row
            filled[f] += 1
    return starts


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def mark_kernel(storage, rows, f, bin_, missing_left, n_value_bins, clear, marks):  # type: ignore[no-untyped-def]
    """Mark the rows where a feature of entries is not default: LEFT or RIGHT, or clear the marks again.

    rows   uint32 (n,)       in
    marks  uint8 (n_rows,)   out
    """
    default, _, _, _, offsets, indptr, entries = storage
    first, last, own_default = offsets[f], offsets[f + 1], default[f]
    for i in range(np.uint64(len(rows))):
        row = np.uint64(rows[i])
        if clear:
            marks[row] = DEFAULT
            continue
        code = find_entry(indptr, entries, row, first, last, own_default)
        marks[row] = LEFT if bin_goes_left(code, bin_, missing_left, n_value_bins) else RIGHT


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def mark_node_kernel(storage, even, odd, begin, end, depth, f, bin_, missing_left, n_value_bins, clear, marks):  # type: ignore[no-untyped-def]
    """Mark every row of a node, for a feature of entries; see mark_kernel."""
    default, _, _, _, offsets, indptr, entries = storage
    first, last, own_default = offsets[f], offsets[f + 1], default[f]
    records = records_at(even, odd, depth)
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place, 0] & np.uint64(0xFFFFFFFF)
        if clear:
            marks[row] = DEFAULT
            continue
        code = find_entry(indptr, entries, row, first, last, own_default)
        marks[row] = LEFT if bin_goes_left(code, bin_, missing_left, n_value_bins) else RIGHT


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sides_of_codes(storage, f, bin_, missing_left, n_value_bins, sides):  # type: ignore[no-untyped-def]
    """Say for each code of a feature's column, or for each mark, whether it goes left.

    sides  bool (n_codes of the column, at least 3)  out
    """
    default, column, first_code, n_codes, _, _, _ = storage
    if column[f] < 0:
        sides[DEFAULT] = bin_goes_left(default[f], bin_, missing_left, n_value_bins)
        sides[LEFT], sides[RIGHT] = True, False
        return
    for code in range(len(sides)):
        b = np.int64(code)
        if first_code[f] > 0:
            b = bundled_bin(b, first_code[f], n_codes[f], default[f])
        sides[code] = bin_goes_left(b, bin_, missing_left, n_value_bins)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def count_left_kernel(codes, column, sides, even, odd, begin, end, depth):  # type: ignore[no-untyped-def]
    """Count the rows begin:end of a node that go left.

    codes  uint8 or uint16 (n_rows, stride)  in  columns, or marks
    """
    records, c, count = records_at(even, odd, depth), np.uint64(column), 0
    for place in range(np.uint64(begin), np.uint64(end)):
        count += sides[codes[records[place, 0] & np.uint64(0xFFFFFFFF), c]]
    return count


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def move_kernel(codes, column, sides, even, odd, begin, end, depth, left, right, right_step):  # type: ignore[no-untyped-def]
    """Move the rows begin:end of a node to the next depth and return how many went left; see partition.move_rows."""
    records, out = records_at(even, odd, depth), records_at(even, odd, depth + 1)
    c = np.uint64(column)
    left_place, right_place = np.int64(left), np.int64(right)
    for place in range(np.uint64(begin), np.uint64(end)):
        record = records[place, 0]
        if sides[codes[record & np.uint64(0xFFFFFFFF), c]]:
            to = np.uint64(left_place)
            left_place += 1
        else:
            to = np.uint64(right_place)
            right_place += right_step
        out[to, 0] = record
        if records.shape[1] == 2:
            out[to, 1] = records[place, 1]
    return left_place - left


class StoredPartition:
    """Moves the rows of nodes on stored bins. Codes and entries stay in place: only records move.

    A feature of entries is first turned into marks, a byte a row: those rows are marked where it is not default, found
    in a list of rows by feature, or all rows of the node where that is less.
    """

    def __init__(self, stored: StoredBins, n_value_bins: NDArray[np.int64], n_threads: int) -> None:
        self.stored = stored
        self.storage = described(stored)
        self.n_value_bins = n_value_bins
        self.n_threads = n_threads
        self.rows = np.empty(len(stored.entries), np.uint32)
        self.starts = rows_by_feature(self.storage, self.rows)
        self.marks = np.full((stored.n_rows, 1), DEFAULT, np.uint8)

    def partition(self, store: RowStore, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """See protocol.Engine.partition."""
        n_left = np.zeros(len(splits), np.int64)
        rows = (nodes.end - nodes.begin).tolist()
        large = [node for node, count in enumerate(rows) if count > ROWS_PER_THREAD and self.n_threads > 1]
        for node in large:
            n_left[node] = self._move(store, nodes, splits, node, self.n_threads)
        wide = [node for node in range(len(rows)) if node not in large and self._by_feature(splits, node, rows[node])]
        for node in wide:  # marks of rows outside the node: one at a time
            n_left[node] = self._move(store, nodes, splits, node, 1)
        others = [node for node in range(len(rows)) if node not in large and node not in wide]

        def move(start: int, stop: int) -> None:
            for node in others[start:stop]:
                n_left[node] = self._move(store, nodes, splits, node, 1)

        run_ranges(move, len(others), self.n_threads, smallest=-(-ROWS_PER_THREAD // max(1, max(rows, default=1))))
        return n_left

    def _by_feature(self, splits: NDArray[np.void], node: int, n_rows: int) -> bool:
        feature = int(splits["feature"][node])
        return self.stored.column[feature] < 0 and self.starts[feature + 1] - self.starts[feature] < 2 * n_rows

    def _move(self, store: RowStore, nodes: Segments, splits: NDArray[np.void], node: int, n_threads: int) -> int:
        """Move the rows of one node, and return how many went left."""
        begin, end, depth = int(nodes.begin[node]), int(nodes.end[node]), int(nodes.depth[node])
        feature, n_rows = int(splits["feature"][node]), end - begin
        rule = int(splits["bin"][node]), bool(splits["missing_left"][node]), int(self.n_value_bins[feature])
        column = int(self.stored.column[feature])
        starts = self.stored.code_starts
        sides = np.empty(max(3, int(starts[column + 1] - starts[column]) if column >= 0 else 0), np.bool_)
        sides_of_codes(self.storage, feature, *rule, sides)
        n_threads = max(1, min(n_threads, n_rows // ROWS_PER_THREAD))
        cuts = [begin + n_rows * part // n_threads for part in range(n_threads + 1)]
        by_feature = column < 0 and self._by_feature(splits, node, n_rows)
        own_rows = self.rows[self.starts[feature] : self.starts[feature + 1]]

        def mark(clear: bool) -> None:
            if by_feature:
                mark_kernel(self.storage, own_rows, feature, *rule, clear, self.marks[:, 0])
            elif column < 0:
                run_threads(
                    lambda t: mark_node_kernel(
                        self.storage, store.even, store.odd, cuts[t], cuts[t + 1], depth, feature, *rule, clear,
                        self.marks[:, 0],
                    ),
                    n_threads,
                )  # fmt: skip

        mark(False)
        source = (self.marks, 0, sides) if column < 0 else (self.stored.codes, column, sides)
        rows = (store.even, store.odd)
        if n_threads == 1:
            n_left = int(move_kernel(*source, *rows, begin, end, depth, begin, end - 1, -1))
        else:
            counts = [0] * n_threads

            def count(t: int) -> None:
                counts[t] = int(count_left_kernel(*source, *rows, cuts[t], cuts[t + 1], depth))

            run_threads(count, n_threads)
            n_left = sum(counts)
            lefts = [begin + sum(counts[:t]) for t in range(n_threads)]
            rights = [begin + n_left + cuts[t] - lefts[t] for t in range(n_threads)]
            run_threads(
                lambda t: move_kernel(*source, *rows, cuts[t], cuts[t + 1], depth, lefts[t], rights[t], 1), n_threads
            )
        mark(True)
        return n_left


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def count_kernel(  # type: ignore[no-untyped-def]
    codes, even, odd, storage, code_starts, begin, end, depth, in_codes, counts
):
    """Count the rows of every bin of every feature in one node.

    in_codes  int64 (n codes of all columns,)  scratch
    counts    int64 (n_total_bins,)            out
    """
    default, column, first_code, n_codes, offsets, indptr, entries = storage
    mask = np.uint64(0xFFFFFFFF)
    n_columns = np.uint64(len(code_starts) - 1)
    records = records_at(even, odd, depth)
    counts[:] = 0
    in_codes[:] = 0
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place, 0] & mask
        for c in range(n_columns):
            in_codes[np.uint64(code_starts[c]) + codes[row, c]] += 1
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            counts[entries[i]] += 1
    for f in range(len(column)):
        first, last = offsets[f], offsets[f + 1]
        if column[f] >= 0:
            start = code_starts[column[f]]
            if first_code[f] == 0:
                for b in range(last - first):
                    counts[first + b] = in_codes[start + b]
                continue
            for k in range(n_codes[f]):
                counts[first + k + (k >= default[f])] = in_codes[start + first_code[f] + k]
        rest = end - begin
        for b in range(last - first):
            rest -= counts[first + b]
        counts[first + default[f]] = rest


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def route_kernel(  # type: ignore[no-untyped-def]
    codes, storage, n_value_bins, feature, bin_, missing_left, left, right, rows, start, stop, leaf
):
    """Send the rows rows[start:stop], or start:stop where no rows are listed, down a tree of bins.

    rows  uint32 (n,)                in   or empty
    leaf  uint16 (n_rows,)           out  leaf numbers, by row
    """
    default, column, first_code, n_codes, offsets, indptr, entries = storage
    for place in range(np.uint64(start), np.uint64(stop)):
        row = np.uint64(rows[place]) if len(rows) > 0 else place
        node = np.int64(0)
        while node >= 0:
            f = feature[node]
            if column[f] < 0:
                code = find_entry(indptr, entries, row, offsets[f], offsets[f + 1], default[f])
            else:
                code = np.int64(codes[row, np.uint64(column[f])])
                if first_code[f] > 0:
                    code = bundled_bin(code, first_code[f], n_codes[f], default[f])
            if bin_goes_left(code, bin_[node], missing_left[node], n_value_bins[f]):
                node = np.int64(left[node])
            else:
                node = np.int64(right[node])
        leaf[row] = ~node


def find_leaves(
    stored: StoredBins,
    n_value_bins: NDArray[np.int32],
    tree: BinnedTree,
    rows: NDArray[np.uint32] | None,
    n_threads: int,
    leaf: NDArray[np.uint16],
) -> None:
    """Write the leaf numbers of some rows (None: of all) under a tree.

    leaf  uint16 (n_rows,)  out
    """
    if len(tree.feature) == 0:
        leaf[slice(None) if rows is None else rows] = 0
        return
    storage, n_rows = described(stored), stored.n_rows if rows is None else len(rows)
    listed = np.empty(0, np.uint32) if rows is None else np.ascontiguousarray(rows)
    run_ranges(
        lambda start, stop: route_kernel(
            stored.codes, storage, n_value_bins, tree.feature, tree.bin, tree.missing_left, tree.left, tree.right,
            listed, start, stop, leaf,
        ),
        n_rows, n_threads, smallest=ROUTED_ROWS_PER_THREAD,
    )  # fmt: skip


def add_tree(
    stored: StoredBins,
    n_value_bins: NDArray[np.int32],
    tree: BinnedTree,
    scores: NDArray[np.float64],
    n_threads: int,
) -> None:
    """See protocol.Engine.add_tree, for a data set of stored bins."""
    leaf = np.empty(len(scores), np.uint16)
    find_leaves(stored, n_value_bins, tree, None, n_threads, leaf)
    scores += tree.leaf_value[leaf]
