"""Binning of sparse tables: entries are coded one by one, then put where stored_bins.py says.

    code     every value becomes a place in a histogram, first place of its feature + bin; default bins are dropped
    group    features that are never stored in the same sampled row become bundles
    check    a feature that meets another one of its bundle in any row at all leaves it
    place    codes go into columns, the others stay as entries

A bundle that passes the check loses nothing, so the bins are those of the dense form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.binning.dense import rows_below, search_tables
from hornbeam.backends.cpu.host.kernels import allocating_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.data import stored_bins as bundling
from hornbeam.data.bin_bounds import sample_rows
from hornbeam.data.binning import BinMapper, BinParams, BinType, allocate_bins
from hornbeam.data.sources.reader import ZERO, TableReader
from hornbeam.data.sources.sparse_table import SparseTable
from hornbeam.data.stored_bins import StoredBins, plan_storage

DROPPED = np.uint32(0xFFFFFFFF)

NEVER_SPARSE = 2.0
"""A threshold that no share of zeros reaches."""


def find_missing(reader: TableReader, features: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say for each of some features whether it has missing values, and whether it has others."""
    table = reader.sparse
    assert table is not None
    counts = np.zeros((2, reader.n_features), np.int64)  # NaN, and other values that are there
    zeros_are_missing = np.full(reader.n_features, reader.zero_as_missing)
    absent_is_missing = zeros_are_missing.copy()
    if table.codes is not None:
        zeros_are_missing[table.codes.columns] = False
        absent_is_missing[table.codes.columns] = False
        for column, absent in table.codes.absent.items():
            absent_is_missing[column] = np.isnan(absent)
    for first, last in _row_blocks(table, 0, table.n_rows):
        columns, values = table.part(first, last, reader.block_dtype)
        nan = np.isnan(values) | ((np.abs(values) <= ZERO) & zeros_are_missing[columns])
        counts[0] += np.bincount(columns[nan], minlength=reader.n_features)
        counts[1] += np.bincount(columns[~nan], minlength=reader.n_features)
    absent_rows = counts.sum(axis=0) < reader.n_rows  # zeros that are not there
    missing = (counts[0] > 0) | (absent_rows & absent_is_missing)
    present = (counts[1] > 0) | (absent_rows & ~absent_is_missing)
    if table.codes is not None:
        for column in table.codes.whole:
            missing[column], present[column] = False, True
    return missing[features], present[features]


def _row_blocks(table: SparseTable, start: int, stop: int) -> list[tuple[int, int]]:
    """Cut a range of rows where about `converted_values` (tuning.py) values are full."""
    blocks, first = [], start
    while first < stop:
        last = int(np.searchsorted(table.indptr, table.indptr[first] + in_use().converted_values, side="right")) - 1
        last = min(max(last, first + 1), stop)
        blocks.append((first, last))
        first = last
    return blocks


def encode_sparse(
    reader: TableReader, mapper: BinMapper, params: BinParams, n_threads: int, table: SparseTable | None = None
) -> tuple[NDArray[Any] | StoredBins, NDArray[np.bool_]]:
    """Code a sparse table, or a dense one of which `table` is the sparse form, with the bins of `mapper`.

    Returns the bins, plain where every feature has a column of its own, and for each used feature whether missing
    values were seen, bool (n_used,).
    """
    if table is None:
        table = reader.sparse
    assert table is not None
    used = mapper.used.astype(np.int64)
    n_used, n_rows = len(used), reader.n_rows
    n_bins = mapper.n_value_bins[used].astype(np.int64) + 1
    offsets = np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)
    missing_code = np.array([mapper.missing_code(feature) for feature in used.tolist()], np.int64)
    absent = np.full(reader.n_features, np.nan if reader.zero_as_missing else 0.0)
    zero = np.full(n_used, ZERO if reader.zero_as_missing else -1.0)
    position = np.full(reader.n_features, -1, np.int32)
    position[used] = np.arange(n_used)
    whole: dict[int, NDArray[np.float64]] = {}  # by position
    if table.codes is not None:
        for column, value in table.codes.absent.items():
            absent[column] = value
        coded = position[table.codes.columns]
        zero[coded[coded >= 0]] = -1.0
        whole = {int(position[column]): values for column, values in table.codes.whole.items() if position[column] >= 0}
        position[list(table.codes.whole)] = -1  # their entries say nothing
    default = np.array([int(mapper.codes(feature, absent[[feature]])[0]) for feature in used.tolist()], np.int64)
    tables, starts, steps = search_tables(mapper, used, reader.block_dtype)

    entries = np.empty(len(table.values), np.uint32)
    n_stored, n_missing = np.zeros(n_used, np.int64), np.zeros(n_used, np.int64)

    def code(start: int, stop: int) -> None:
        counts = np.zeros((2, n_used), np.int64)
        for first, last in _row_blocks(table, start, stop):
            columns, values = table.part(first, last, reader.block_dtype)
            out = entries[table.indptr[first] : table.indptr[last]]
            code_kernel(
                columns, values, position, tables, starts, steps, missing_code, default, offsets, zero, out, counts
            )
        totals.append(counts)

    totals: list[NDArray[np.int64]] = []
    run_ranges(code, n_rows, n_threads, smallest=1024)
    for counts in totals:
        n_stored += counts[0]
        n_missing += counts[1]
    n_stored[list(whole)] = n_rows
    seen_missing = (n_missing > 0) | ((default == n_bins - 1) & (n_stored < n_rows))

    # in a bundle: value bins and, where seen, the missing bin, without the default one
    reserved = (default == n_bins - 1) | (seen_missing & (missing_code == n_bins - 1))
    n_codes = (n_bins - 2 + reserved).astype(np.int32)
    own = np.full(n_used, -1, np.int64)
    if n_rows * n_used <= bundling.PLAIN_CELLS:
        plan = plan_storage(n_rows, n_stored, n_bins, n_codes, own, NEVER_SPARSE)
    else:
        threshold = params.sparse_threshold if params.is_enable_sparse else NEVER_SPARSE
        bundle = own
        if params.enable_bundle:
            may_share = np.arange(n_used) < mapper.n_numeric  # a GPU looks for a categorical feature in its own column
            bundle = _find_bundles(table, position, offsets, entries, n_stored, n_codes, may_share, mapper.bin_dtype)
        plan = plan_storage(n_rows, n_stored, n_bins, n_codes, bundle, threshold)
        in_bundle = plan.first_code > 0
        if in_bundle.any():
            kept = np.where(in_bundle, bundle, -1)
            leaves = np.zeros(n_used, np.bool_)
            check_kernel(table.indptr, *_indices(table), position, entries, kept, leaves)
            if leaves.any():
                bundle = np.where(leaves, -1, bundle)
                alone = np.bincount(bundle[bundle >= 0], minlength=1)
                bundle = np.where((bundle >= 0) & (alone[bundle] > 1), bundle, -1)
                plan = plan_storage(n_rows, n_stored, n_bins, n_codes, bundle, threshold)

    n_columns = len(plan.code_starts) - 1
    codes = allocate_bins(n_rows, n_columns, mapper.bin_dtype if plan.is_plain else plan.dtype)
    initial = np.zeros(codes.shape[1], codes.dtype)
    alone_in = (plan.column >= 0) & (plan.first_code == 0)
    initial[plan.column[alone_in]] = default[alone_in]
    indptr = np.zeros(n_rows + 1, np.int64)
    indices = _indices(table)[0]
    is_entry = plan.column < 0
    all_entries = bool(is_entry.all()) and int(n_stored.sum()) == len(entries)
    if all_entries:
        indptr, kept_entries = table.indptr, entries
    else:
        run_ranges(
            lambda start, stop: count_kernel(
                table.indptr, indices, position, entries, is_entry, start, stop, indptr[1:]
            ),
            n_rows, n_threads, smallest=1024,
        )  # fmt: skip
        np.cumsum(indptr, out=indptr)
        kept_entries = np.empty(int(indptr[-1]), np.uint32)
    if n_columns > 0 or not all_entries:
        places = Places(position, offsets, default, plan.column, plan.first_code, initial, all_entries)
        out = Placed(indptr, kept_entries, codes)
        run_ranges(
            lambda start, stop: place_kernel(table.indptr, indices, entries, places, start, stop, out),
            n_rows, n_threads, smallest=1024,
        )  # fmt: skip
    if is_entry[mapper.n_numeric :].any():
        last_numbers = int(offsets[mapper.n_numeric])
        run_ranges(
            lambda start, stop: order_kernel(indptr, kept_entries, last_numbers, start, stop),
            n_rows, n_threads, smallest=1024,
        )  # fmt: skip
    for feature, values in whole.items():
        codes[:, plan.column[feature]] = mapper.codes(int(used[feature]), values)
    if plan.is_plain:
        return codes, seen_missing
    return StoredBins(
        offsets, default.astype(np.int32), plan.column, plan.first_code, n_codes, plan.code_starts, codes, indptr,
        kept_entries,
    ), seen_missing  # fmt: skip


def _indices(table: SparseTable) -> tuple[NDArray[np.int32]]:
    return (np.require(table.indices, np.int32, ["C", "A", "W"]),)


def _find_bundles(
    table: SparseTable,
    position: NDArray[np.int32],
    offsets: NDArray[np.int64],
    entries: NDArray[np.uint32],
    n_stored: NDArray[np.int64],
    n_codes: NDArray[np.int32],
    may_share: NDArray[np.bool_],
    bin_dtype: BinType,
) -> NDArray[np.int64]:
    """Group features that do not meet in the sampled rows; returns the bundle of each feature, -1: none."""
    n_used = len(n_stored)
    rows = sample_rows(table.n_rows, bundling.BUNDLED_ROWS, rows_below)
    lengths = np.diff(table.indptr)[rows]
    number = np.repeat(np.arange(len(rows)), lengths)
    place = np.repeat(table.indptr[rows] - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    stored = entries[place] != DROPPED
    number, place = number[stored], place[stored]
    feature = position[table.indices[place]]
    order = np.argsort(feature, kind="stable")
    starts = np.searchsorted(feature[order], np.arange(n_used + 1)).astype(np.int64)
    most_codes = 256 if bin_dtype == np.uint8 else 65_536
    has_room = (n_stored <= bundling.LARGEST_SHARE * table.n_rows) & (n_codes < most_codes)
    candidates = np.flatnonzero(has_room & may_share)
    candidates = candidates[np.argsort(-n_stored[candidates], kind="stable")]
    found = np.full(n_used, -1, np.int64)
    group_kernel(
        candidates, starts, number[order].astype(np.int32), n_codes, most_codes, len(rows), bundling.BUNDLES_TRIED,
        found,
    )  # fmt: skip
    sizes = np.bincount(found[found >= 0], minlength=1)
    return np.where((found >= 0) & (sizes[found] > 1), found, -1)


@kernel
def code_kernel(columns, values, position, tables, starts, steps, missing_code, default, offsets, zero, out, counts):
    """Code some values of a sparse table.

    columns       int32 (n,)                    in
    values        float32 or float64 (n,)       in
    position      int32 (n_features,)           in   number among the used features, -1: not used
    tables, starts, steps                       in   see search_tables
    missing_code  int64 (n_used,)               in
    default       int64 (n_used,)               in   bin that is dropped
    zero          float64 (n_used,)             in   magnitudes up to this are missing
    out           uint32 (n,)                   out  place in the histogram, or DROPPED
    counts        int64 (2, n_used)             out  entries that stay; missing values that are there; added to
    """
    for i in range(np.uint64(len(values))):
        feature = position[columns[i]]
        if feature < 0:
            out[i] = DROPPED
            continue
        f = np.uint64(feature)
        value = values[i]
        if value != value or abs(value) <= zero[f]:
            code = missing_code[f]
            counts[1, f] += 1
        else:
            start = np.uint64(starts[f])
            place = np.uint64(0)
            for left in range(steps[f]):
                step = np.uint64(steps[f] - 1 - left)
                half = np.uint64(1) << step
                place += np.uint64(tables[start + place + half - np.uint64(1)] < value) << step
            code = np.int64(place)
        if code == default[f]:
            out[i] = DROPPED
        else:
            out[i] = np.uint32(offsets[f] + code)
            counts[0, f] += 1


@allocating_kernel
def group_kernel(candidates, starts, rows, n_codes, most_codes, n_rows, n_tried, found):
    """Put features into bundles, first fit, the fullest features first.

    candidates  int64 (n,)           in   features, in order
    starts      int64 (n_used + 1,)  in   first row of each feature in `rows`
    rows        int32                in   sampled rows where a feature is not default
    found       int64 (n_used,)      out  bundle
    """
    n_words = (n_rows + 63) // 64
    taken = np.zeros((16, n_words), np.uint64)  # rows of each bundle, a bit each
    codes = np.zeros(len(candidates), np.int64)
    n_bundles = 0
    for feature in candidates:
        first, last = starts[feature], starts[feature + 1]
        chosen = -1
        for bundle in range(max(0, n_bundles - n_tried), n_bundles):
            if codes[bundle] + n_codes[feature] > most_codes - 1:
                continue
            free = True
            for i in range(first, last):
                row = np.uint64(rows[i])
                if (taken[bundle, row >> np.uint64(6)] >> (row & np.uint64(63))) & np.uint64(1):
                    free = False
                    break
            if free:
                chosen = bundle
                break
        if chosen < 0:
            chosen = n_bundles
            n_bundles += 1
            if n_bundles > len(taken):
                more = np.zeros((2 * len(taken), n_words), np.uint64)
                for bundle in range(len(taken)):  # one at a time: Numba takes 10 s to compile the other way
                    for word in range(n_words):
                        more[bundle, word] = taken[bundle, word]
                taken = more
        codes[chosen] += n_codes[feature]
        for i in range(first, last):
            row = np.uint64(rows[i])
            taken[chosen, row >> np.uint64(6)] |= np.uint64(1) << (row & np.uint64(63))
        found[feature] = chosen


@allocating_kernel
def check_kernel(indptr, indices, position, entries, bundle, leaves):
    """Find the features that meet another one of their bundle in some row.

    bundle  int64 (n_used,)  in   -1: none
    leaves  bool  (n_used,)  out  the later one of two that meet; it is looked at no more
    """
    last_row = np.full(bundle.max() + 1, -1, np.int64)
    for row in range(len(indptr) - 1):
        for i in range(indptr[row], indptr[row + 1]):
            if entries[i] == DROPPED:
                continue
            feature = position[indices[i]]
            own = bundle[feature]
            if own < 0 or leaves[feature]:
                continue
            if last_row[own] == row:
                leaves[feature] = True
            else:
                last_row[own] = row


@kernel
def count_kernel(indptr, indices, position, entries, is_entry, start, stop, out):
    """Count what stays as entries in the rows start:stop.

    is_entry  bool  (n_used,)  in
    out       int64 (n_rows,)  out
    """
    for row in range(start, stop):
        count = 0
        for i in range(indptr[row], indptr[row + 1]):
            if entries[i] != DROPPED and is_entry[position[indices[i]]]:
                count += 1
        out[row] = count


class Places(NamedTuple):
    """Where the coded values of each feature belong.

    position            of a column of the table among the used features
    offsets, default    first histogram place, and default bin, of each feature
    column, first_code  see storage plans; column < 0: the feature is kept in entries
    initial             codes' dtype (stride,)   what a row without values has
    only_columns        the entries are in place
    """

    position: NDArray[Any]
    offsets: NDArray[Any]
    default: NDArray[Any]
    column: NDArray[Any]
    first_code: NDArray[Any]
    initial: NDArray[Any]
    only_columns: bool


class Placed(NamedTuple):
    """What place_kernel writes to: codes (n_rows, stride), and entries from indptr[row] on."""

    indptr: NDArray[np.int64]
    entries: NDArray[np.uint32]
    codes: NDArray[Any]


@kernel
def place_kernel(indptr, indices, entries, places, start, stop, out):
    """Put the coded values of the rows start:stop where they belong.

    indptr, indices, entries   in   of the table
    places, out                see Places and Placed
    """
    position, offsets, default, column = places.position, places.offsets, places.default, places.column
    first_code, initial, only_columns = places.first_code, places.initial, places.only_columns
    out_indptr, out_entries, codes = out.indptr, out.entries, out.codes
    for row in range(start, stop):
        for place in range(len(initial)):
            codes[row, place] = initial[place]
        to = out_indptr[row]
        for i in range(indptr[row], indptr[row + 1]):
            entry = entries[i]
            if entry == DROPPED:
                continue
            feature = position[indices[i]]
            if column[feature] < 0:
                if not only_columns:
                    out_entries[to] = entry
                    to += 1
                continue
            code = np.int64(entry) - offsets[feature]
            if first_code[feature] > 0:
                code += first_code[feature] - (code > default[feature])
            codes[row, column[feature]] = code


@allocating_kernel
def order_kernel(indptr, entries, first_level, start, stop):
    """Let the entries of the rows start:stop ascend: those of categorical features, which are numbered last, go last.

    first_level  first place of the categorical features
    entries      uint32  in out   each kind ascends already
    """
    longest = np.int64(0)
    for row in range(start, stop):
        longest = max(longest, indptr[row + 1] - indptr[row])
    aside = np.empty(longest, np.uint32)
    for row in range(start, stop):
        to, n_aside = indptr[row], 0
        for i in range(indptr[row], indptr[row + 1]):
            if entries[i] < first_level:
                entries[to] = entries[i]
                to += 1
            else:
                aside[n_aside] = entries[i]
                n_aside += 1
        for i in range(n_aside):
            entries[to + i] = aside[i]
