"""Rows of stored bins (bundling.py) on the CPU: the bin of a row, routing of validation rows, and counts.

Kernels take the storage as the tuple that `described` makes: where, indptr, entries, columns. `where` has a row for
each feature and one more; its columns bear the names below. They are one array, since Numba's time to compile a call
goes with the number of arrays that are handed over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.partition import bin_goes_left, bin_in_set
from hornbeam.backends.cpu.growth.rows import records_at
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.data.stored_bins import StoredBins
from hornbeam.trees.records import BinnedTree

ROUTED_ROWS_PER_THREAD = 512

NOWHERE = np.uint32(0xFFFFFFFF)
"""Place of a code that says nothing: all features of a bundle are default. And of a row that is not in the tree."""


DEFAULT, COLUMN, FIRST_CODE, N_CODES, OFFSET, APART = range(6)
"""Columns of `where`: fields of StoredBins, the last row with an offset alone; and the place in `columns`, -1: none."""


def described(stored: StoredBins, with_columns: bool = False) -> tuple[NDArray[Any], ...]:
    """Return what kernels take as `storage`.

    with_columns  with a second copy of the codes that belong to one feature each, by column: codes of one feature are
                  asked of all rows of a node, and those of a row lie a cache line apart
    """
    where = np.zeros((len(stored.offsets), 6), np.int64)
    where[:, OFFSET] = stored.offsets
    for column in (DEFAULT, COLUMN, FIRST_CODE, N_CODES):
        where[:-1, column] = (stored.default, stored.column, stored.first_code, stored.n_codes)[column]
    where[:, APART] = -1
    columns = np.empty((0, 0), stored.codes.dtype)
    if with_columns:
        alone = np.flatnonzero((stored.column >= 0) & (stored.first_code == 0))
        where[alone, APART] = np.arange(len(alone))
        if "columns" not in stored.derived:
            stored.derived["columns"] = np.ascontiguousarray(stored.codes[:, stored.column[alone]].T)
        columns = stored.derived["columns"]
    return where, stored.indptr, stored.entries, columns


def places_of_codes(stored: StoredBins, with_own_columns: bool = True) -> NDArray[np.uint32]:
    """Return the histogram place of every code of every column; NOWHERE where all features of a bundle are default.

    with_own_columns  False: nor for the codes of columns that belong to one feature
    """
    places = np.full(int(stored.code_starts[-1]), NOWHERE, np.uint32)
    for feature in np.flatnonzero(stored.column >= 0).tolist():
        start, first = int(stored.code_starts[stored.column[feature]]), int(stored.offsets[feature])
        if stored.first_code[feature] == 0:
            n_bins = int(stored.offsets[feature + 1]) - first
            if with_own_columns:
                places[start : start + n_bins] = first + np.arange(n_bins)
            continue
        codes = np.arange(int(stored.n_codes[feature]))
        bins = codes + (codes >= stored.default[feature])
        places[start + int(stored.first_code[feature]) + codes] = first + bins
    return places


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def find_entry(indptr, entries, row, first, last, default):  # type: ignore[no-untyped-def]
    """Return the bin of a feature of entries, whose histogram places are first:last, in a row: by bisection.

    Not inlined, as others are that take numbers alone: arrays would be counted for each row as in use, and no more so,
    which takes ten times as long as the rest. The same holds for arrays that are taken out of `storage` in a loop.
    """
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
def coded_bin(code, first_code, n_codes, default):  # type: ignore[no-untyped-def]
    """Return the bin of a feature from the code of its column or bundle."""
    if first_code == 0:
        return code
    place = code - first_code
    if 0 <= place < n_codes:
        return place + (place >= default)
    return default


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def count_kernel(  # type: ignore[no-untyped-def]
    codes, even, odd, storage, code_starts, begin, end, depth, in_codes, counts
):
    """Count the rows of every bin of every feature in one node.

    in_codes  int64 (n codes of all columns,)  scratch
    counts    int64 (n_total_bins,)            out
    """
    where, indptr, entries, _ = storage
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
    for f in range(len(where) - 1):
        first, last, default, first_code = (
            where[f, OFFSET],
            where[f + 1, OFFSET],
            where[f, DEFAULT],
            where[f, FIRST_CODE],
        )
        if where[f, COLUMN] >= 0:
            start = code_starts[where[f, COLUMN]]
            if first_code == 0:
                for b in range(last - first):
                    counts[first + b] = in_codes[start + b]
                continue
            for k in range(where[f, N_CODES]):
                counts[first + k + (k >= default)] = in_codes[start + first_code + k]
        rest = end - begin
        for b in range(last - first):
            rest -= counts[first + b]
        counts[first + default] = rest


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def route_kernel(  # type: ignore[no-untyped-def]
    codes,
    storage,
    n_value_bins,
    feature,
    bin_,
    missing_left,
    left,
    right,
    rows,
    start,
    stop,
    leaf,
    left_sets,
    n_numeric,
):
    """Send the rows rows[start:stop], or start:stop where no rows are listed, down a tree of bins.

    rows  uint32 (n,)                in   or empty
    leaf  uint16 (n_rows,)           out  leaf numbers, by row
    left_sets  as in BinnedTree, or None
    """
    where, indptr, entries, _ = storage
    for place in range(np.uint64(start), np.uint64(stop)):
        row = np.uint64(rows[place]) if len(rows) > 0 else place
        node = np.int64(0)
        while node >= 0:
            f = feature[node]
            c = where[f, COLUMN]
            if c < 0:
                code = find_entry(indptr, entries, row, where[f, OFFSET], where[f + 1, OFFSET], where[f, DEFAULT])
            else:
                code = np.int64(codes[row, np.uint64(c)])
                code = coded_bin(code, where[f, FIRST_CODE], where[f, N_CODES], where[f, DEFAULT])
            goes_left = bin_goes_left(code, bin_[node], missing_left[node], n_value_bins[f])
            if left_sets is not None:  # noqa: SIM102 (a condition that the compiler can decide, alone)
                if f >= n_numeric:
                    goes_left = bin_in_set(code, left_sets[node])
            if goes_left:
                node = np.int64(left[node])
            else:
                node = np.int64(right[node])
        leaf[row] = ~node


def find_leaves(
    stored: StoredBins,
    n_value_bins: NDArray[np.int32],
    n_numeric: int,
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
            listed, start, stop, leaf, tree.left_sets, n_numeric,
        ),
        n_rows, n_threads, smallest=ROUTED_ROWS_PER_THREAD,
    )  # fmt: skip


def add_tree(
    stored: StoredBins,
    n_value_bins: NDArray[np.int32],
    n_numeric: int,
    tree: BinnedTree,
    scores: NDArray[np.float64],
    n_threads: int,
) -> None:
    """See protocol.Engine.add_tree, for a data set of stored bins."""
    leaf = np.empty(len(scores), np.uint16)
    find_leaves(stored, n_value_bins, n_numeric, tree, None, n_threads, leaf)
    scores += tree.leaf_value[leaf]
