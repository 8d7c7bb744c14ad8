"""Counting the rows of a node on sparse data: the operation `count`."""

from __future__ import annotations

import numpy as np

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.sparse.partition import goes_by_lists
from hornbeam.backends.cpu.growth.sparse.storage import coded_bin, find_entry
from hornbeam.backends.cpu.host.kernels import allocating_inner_kernel, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced


@inner_kernel
def count_bins(rows, f, begin, end, counts):
    """Count the rows begin:end in every bin of feature f; counts, int64 (n_bins or more,), out."""
    storage, records, place_of = rows.storage, rows.records, rows.place_of
    codes, indptr, entries, starts, listed = (
        storage.codes, storage.indptr, storage.entries, storage.list_starts, storage.listed,
    )  # fmt: skip
    place = storage.features[f]
    first, last, default, column = place.first, place.last, place.default, np.uint64(place.column)
    first_code, n_codes = place.first_code, place.n_codes
    counts[:] = 0
    if place.alone >= 0:
        own = storage.columns[place.alone]
        for at in range(np.uint64(begin), np.uint64(end)):
            counts[np.uint64(own[records[at] & ROW_MASK])] += 1
    elif goes_by_lists(storage, place, starts[last] - starts[first], end - begin):
        rest = end - begin
        for b in range(last - first):
            count = np.int64(0)
            for i in range(np.uint64(starts[first + b]), np.uint64(starts[first + b + 1])):
                at_row = np.int64(place_of[listed[i]])
                count += np.int64(begin <= at_row < end)
            counts[b] = count
            rest -= count
        counts[default] = rest
    else:
        for at in range(np.uint64(begin), np.uint64(end)):
            row = records[at] & ROW_MASK
            if place.column < 0:
                code = find_entry(indptr, entries, row, first, last, default)
            else:
                code = coded_bin(np.int64(codes[row, column]), first_code, n_codes, default)
            counts[np.uint64(code)] += 1


@allocating_inner_kernel
def count_all(rows, begin, end, counts):
    """Count the rows begin:end in every bin of every feature: a row has few entries, and most features none in it.

    counts  int64 (n_total_bins,)  out
    """
    storage, records = rows.storage, rows.records
    features, codes, code_starts, indptr, entries = (
        storage.features, storage.codes, storage.code_starts, storage.indptr, storage.entries,
    )  # fmt: skip
    in_codes, n_columns = np.zeros(code_starts[-1], np.int64), np.uint64(len(code_starts) - 1)
    counts[:] = 0
    for at in range(np.uint64(begin), np.uint64(end)):
        row = records[at] & ROW_MASK
        for c in range(n_columns):
            in_codes[np.uint64(code_starts[c]) + codes[row, c]] += 1
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            counts[entries[i]] += 1
    for f in range(len(features)):
        place = features[f]
        rest = end - begin
        if place.column >= 0:
            start = code_starts[place.column] + place.first_code
            for k in range(place.last - place.first if place.first_code == 0 else place.n_codes):
                b = k + (place.first_code > 0 and k >= place.default)
                counts[place.first + b] = in_codes[start + k]
        if place.column < 0 or place.first_code > 0:
            for b in range(place.first, place.last):
                rest -= counts[b]
            counts[place.first + place.default] = rest


@kernel
def count_sparse(t, room, calls, rows, counts, all_counts):
    """Count the rows of a node in the bins of one feature, or of all.

    counts      int64 (n_threads, most bins)            out
    all_counts  int64 (n_threads, n_total_bins or 0)    out
    """
    if introduced(t, room, (calls, rows, counts, all_counts)):
        return
    call = calls[t]
    call.counted = call.feature < 0
    if call.counted:
        count_all(rows, call.begin, call.end, all_counts[t])
    else:
        count_bins(rows, call.feature, call.begin, call.end, counts[t, : call.n_bins])
