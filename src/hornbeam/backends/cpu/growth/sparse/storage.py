"""Where kernels find the bins of sparse data (data/stored_bins.py): the bin of a row, and the rows of a bin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.sides import bin_goes_left, bin_in_set
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.tuning import Tuning, in_use
from hornbeam.data.stored_bins import StoredBins

NOWHERE = np.uint32(0xFFFFFFFF)
"""Place of a code that says nothing: all features of a bundle are default. And of a row that is not in the tree."""

PLACE = np.dtype(
    [
        ("first", np.int64),  # the histogram places of the feature are first:last
        ("last", np.int64),
        ("default", np.int64),  # the bin that is not stored
        ("column", np.int64),  # of codes; -1: entries
        ("first_code", np.int64),  # 0: the column is the feature's alone; else first code in the bundle
        ("n_codes", np.int64),  # codes of the feature in its bundle
        ("alone", np.int64),  # its row in Storage.columns; -1: none
    ]
)
"""Where a feature is kept. One array for all features, since Numba's time to compile a call goes with their number."""


class Storage(NamedTuple):
    """The bins of a sparse data set.

    features     PLACE (n_used,)
    codes        uint8 or uint16 (n_rows, stride)   columns and bundles, row by row
    code_starts  int64 (n_columns + 1,)             codes of the columns before
    indptr       int64 (n_rows + 1,)                the entries of row i are indptr[i]:indptr[i + 1]
    entries      uint32 (n_entries,)                histogram places, ascending in a row
    columns      as codes (n, n_rows)               columns of one feature once more, each in a row: codes of
                                                    one feature are asked of all rows of a node, and those of a
                                                    row lie a cache line apart
    list_starts  int64 (n_total_bins + 1,)          first listed row of each bin
    listed       uint32 (n,)                        rows of the bins of features in bundles and entries, default bins
                                                    left out; ascending within a bin
    entry_cost, code_cost                           see tuning.py
    """

    features: NDArray[np.void]
    codes: NDArray[Any]
    code_starts: NDArray[np.int64]
    indptr: NDArray[np.int64]
    entries: NDArray[np.uint32]
    columns: NDArray[Any]
    list_starts: NDArray[np.int64]
    listed: NDArray[np.uint32]
    entry_cost: float
    code_cost: float


def storage_of(stored: StoredBins, for_growth: bool = False, tuning: Tuning | None = None) -> Storage:
    """Return what kernels take.

    for_growth  with columns and lists of rows, which are made at the first training on the data set and kept with it
    """
    tuning, features = tuning or in_use(), np.empty(len(stored.column), PLACE)
    features["first"], features["last"] = stored.offsets[:-1], stored.offsets[1:]
    for name in ("default", "column", "first_code", "n_codes"):
        features[name] = getattr(stored, name)
    features["alone"] = -1
    columns, starts, listed = np.empty((0, 0), stored.codes.dtype), np.empty(0, np.int64), np.empty(0, np.uint32)
    if for_growth:
        alone = np.flatnonzero((stored.column >= 0) & (stored.first_code == 0))
        features["alone"][alone] = np.arange(len(alone))
        if "columns" not in stored.derived:
            stored.derived["columns"] = np.ascontiguousarray(stored.codes[:, stored.column[alone]].T)
            stored.derived["lists"] = list_rows(stored)
        columns, (starts, listed) = stored.derived["columns"], stored.derived["lists"]
    return Storage(
        features, stored.codes, stored.code_starts, stored.indptr, stored.entries, columns, starts, listed,
        float(tuning.entry_cost), float(tuning.code_cost),
    )  # fmt: skip


def places_of_codes(stored: StoredBins, with_columns: bool = True) -> NDArray[np.uint32]:
    """Return the histogram place of every code of every column; NOWHERE where all features of a bundle are default.

    with_columns  False: nor for the codes of columns that belong to one feature
    """
    places = np.full(int(stored.code_starts[-1]), NOWHERE, np.uint32)
    for feature in np.flatnonzero(stored.column >= 0).tolist():
        start, first = int(stored.code_starts[stored.column[feature]]), int(stored.offsets[feature])
        if stored.first_code[feature] == 0:
            n_bins = int(stored.offsets[feature + 1]) - first
            if with_columns:
                places[start : start + n_bins] = first + np.arange(n_bins)
            continue
        codes = np.arange(int(stored.n_codes[feature]))
        bins = codes + (codes >= stored.default[feature])
        places[start + int(stored.first_code[feature]) + codes] = first + bins
    return places


@kernel
def list_rows_kernel(codes, places, code_starts, indptr, entries, at, rows):
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


def list_rows(stored: StoredBins) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return Storage.list_starts and Storage.listed."""
    places = places_of_codes(stored, with_columns=False)
    given = stored.codes, places, stored.code_starts, stored.indptr, stored.entries
    counts = np.zeros(int(stored.offsets[-1]), np.int64)
    list_rows_kernel(*given, counts, np.empty(0, np.uint32))
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.empty(int(starts[-1]), np.uint32)
    if len(rows):
        list_rows_kernel(*given, starts[:-1].copy(), rows)
    return starts, rows


@inner_kernel
def find_entry(indptr, entries, row, first, last, default):
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


@inlined
def coded_bin(code, first_code, n_codes, default):
    """Return the bin of a feature from the code of its column or bundle."""
    if first_code == 0:
        return code
    place = code - first_code
    if 0 <= place < n_codes:
        return place + (place >= default)
    return default


@kernel
def route_sparse_kernel(storage, route, rows, start, stop, leaf):
    """Do what routing.route_kernel does on sparse data."""
    features, codes, indptr, entries = storage.features, storage.codes, storage.indptr, storage.entries
    feature, bin_, missing_left, left, right = route.feature, route.bin, route.missing_left, route.left, route.right
    left_sets, n_value_bins, n_numeric, is_listed = route.left_sets, route.n_value_bins, route.n_numeric, len(rows) > 0
    for place in range(np.uint64(start), np.uint64(stop)):
        row, node = np.uint64(rows[place]) if is_listed else place, np.int64(0)
        while node >= 0:
            f = feature[node]
            of = features[f]
            if of.column < 0:
                code = find_entry(indptr, entries, row, of.first, of.last, of.default)
            else:
                code = coded_bin(np.int64(codes[row, np.uint64(of.column)]), of.first_code, of.n_codes, of.default)
            goes_left = bin_goes_left(code, bin_[node], missing_left[node], n_value_bins[f])
            if f >= n_numeric:
                goes_left = bin_in_set(code, left_sets[node])
            if goes_left:
                node = np.int64(left[node])
            else:
                node = np.int64(right[node])
        leaf[row] = ~node
