"""Bin finding and binning on the CPU: the fast twin of `hornbeam.data.binning`.

Bins are found one column at a time from the sampled rows, columns side by side in threads. Then every thread codes a
range of rows, block by block, so no copy of the whole table is ever made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.data import binning as definition
from hornbeam.data.binning import (
    BinMapper,
    BinnedData,
    BinParams,
    allocate_bins,
    bin_by,
    find_upper_bounds,
    sample_rows,
)
from hornbeam.data.stored_bins import StoredBins
from hornbeam.data.table import ZERO, TableReader

if TYPE_CHECKING:
    from hornbeam.backends.gpu.data.binning import DeviceBins

EncodeDense = Callable[[BinMapper], "tuple[NDArray[Any] | DeviceBins, NDArray[np.bool_]]"]
"""Function(mapper) -> bins of a dense table, and whether each used feature has missing values."""

SAMPLE_CELLS = 1 << 23
"""Sampled values held at once while bins are found (32 or 64 MB): wide tables are taken a few columns at a time."""

MANY_CELLS = 1 << 21
"""Sampled values from which on a kernel finds the bounds, threads side by side; for fewer it is not worth compiling."""

BLOCK_CELLS = 1 << 19
"""Values coded a call: where a block must be copied (other dtypes, frames) it stays small, in megabytes."""

TILE_ROWS = 256
"""Rows coded for one feature before the next: the lines read stay in the first-level cache for the next feature."""


def bin_table(
    reader: TableReader,
    params: BinParams,
    n_threads: int,
    may_store: bool = False,
    encode_dense: EncodeDense | None = None,
) -> BinnedData:
    """Find the bins of a table and code it; may_store and encode_dense as in encode_table."""
    return bin_by(
        find_bounds(reader, params, n_threads),
        params,
        lambda features: _find_missing(reader, features, n_threads),
        lambda mapper: encode_table(reader, mapper, params, n_threads, may_store, encode_dense),
        n_levels=reader.n_levels,
    )


def encode_table(
    reader: TableReader,
    mapper: BinMapper,
    params: BinParams,
    n_threads: int,
    may_store: bool = False,
    encode_dense: EncodeDense | None = None,
) -> tuple[NDArray[Any] | DeviceBins | StoredBins, NDArray[np.bool_]]:
    """Code a table with the bins of `mapper`; a sparse one is stored as bundling.py says.

    may_store     a dense table of mostly zeros is stored in the same way
    encode_dense  what codes other dense tables; None: `encode`
    """
    table = None
    if reader.sparse is None:
        if may_store:
            from hornbeam.backends.cpu.binning.mostly_zeros import read_mostly_zeros

            table = read_mostly_zeros(reader, mapper, params, n_threads)
        if table is None:
            return encode(reader, mapper, n_threads) if encode_dense is None else encode_dense(mapper)
    from hornbeam.backends.cpu.binning.sparse import encode_sparse

    return encode_sparse(reader, mapper, params, n_threads, table)


def find_bounds(reader: TableReader, params: BinParams, n_threads: int) -> list[NDArray[np.float64]]:
    """Find the upper bounds of every feature from the sampled rows."""
    n_sampled = min(params.bin_construct_sample_cnt, reader.n_rows)
    rows = None if n_sampled == reader.n_rows else sample_rows(reader.n_rows, n_sampled, rows_below)
    bounds: list[NDArray[np.float64]] = [np.empty(0)] * reader.n_features
    find_bounds_of = find_upper_bounds
    if reader.sparse is not None or n_sampled * reader.n_features >= MANY_CELLS:
        from hornbeam.backends.cpu.binning import bounds as of_many

        find_bounds_of = of_many.find_upper_bounds

    def find_feature(feature: int, values: NDArray[Any], n_zeros: int, is_encoded: bool = False) -> None:
        values = np.ascontiguousarray(values, reader.block_dtype)
        if params.zeros_are_missing and not is_encoded:  # a mean label of 0 is not missing
            values = np.where(np.abs(values) <= ZERO, values.dtype.type(np.nan), values)
            n_zeros = 0
        if not params.use_missing:
            values = np.where(np.isnan(values), values.dtype.type(0.0), values)
        bounds[feature] = find_bounds_of(values, params.max_bin, params.min_data_in_bin, n_zeros)

    def find_coded(feature: int) -> bool:
        """Give every code of a categorical feature a bin; False: it has none."""
        own = None if reader.levels is None else reader.levels[feature]
        if own is None or not own.is_coded:
            return False
        bounds[feature] = np.append(np.arange(len(own) - 1) + 0.5, np.inf) if len(own) else np.empty(0)
        return True

    if reader.sparse is not None:
        table = reader.sparse
        starts, sampled = table.by_column(rows)

        def find_sparse(thread: int) -> None:
            for feature in range(thread, reader.n_features, n_threads):
                if find_coded(feature):
                    continue
                if reader.levels is not None and reader.levels[feature] is not None:
                    encoded = table.coded_column(feature)
                    find_feature(feature, encoded if rows is None else encoded[rows], 0, is_encoded=True)
                    continue
                values = sampled[starts[feature] : starts[feature + 1]]
                find_feature(feature, values, n_sampled - len(values))

        run_threads(find_sparse, n_threads)
        return bounds
    n_columns = max(n_threads, SAMPLE_CELLS // n_sampled)
    for first in range(0, reader.n_features, n_columns):
        last = min(first + n_columns, reader.n_features)
        sample = reader.sample(rows, first, last)

        def find(thread: int, first: int = first, last: int = last, sample: NDArray[Any] = sample) -> None:
            for feature in range(first + thread, last, n_threads):
                if not find_coded(feature):
                    is_encoded = reader.levels is not None and reader.levels[feature] is not None
                    find_feature(feature, sample[:, feature - first], 0, is_encoded)

        run_threads(find, n_threads)
    return bounds


def _find_missing(
    reader: TableReader, features: NDArray[np.int64], n_threads: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say for each of some features whether it has missing values, and whether it has others."""
    if reader.sparse is not None:
        from hornbeam.backends.cpu.binning.sparse import find_missing

        return find_missing(reader, features)
    missing = np.zeros(len(features), np.bool_)
    present = np.zeros(len(features), np.bool_)

    def look(start: int, stop: int) -> None:
        for first, last in _blocks(start, stop, reader.n_features):
            nan = np.isnan(reader.block(first, last)[:, features])
            missing[nan.any(axis=0)] = True
            present[~nan.all(axis=0)] = True

    run_ranges(look, reader.n_rows, n_threads, smallest=TILE_ROWS)
    return missing, present


def _blocks(start: int, stop: int, n_features: int) -> list[tuple[int, int]]:
    """Cut a range of rows into blocks of about BLOCK_CELLS values."""
    size = max(TILE_ROWS, BLOCK_CELLS // n_features)
    return [(first, min(first + size, stop)) for first in range(start, stop, size)]


def encode(reader: TableReader, mapper: BinMapper, n_threads: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Code a table with the bins of `mapper`.

    Returns the bins, laid out as `BinnedData` says, and for each used feature whether NaN was seen, bool (n_used,).
    """
    used = mapper.used.astype(np.int64)
    bins = allocate_bins(reader.n_rows, len(used), mapper.bin_dtype)
    missing = np.zeros(len(used), np.uint8)
    missing_codes = np.array([mapper.missing_code(feature) for feature in used.tolist()], np.uint64)
    tables, starts, steps = search_tables(mapper, used, reader.block_dtype)

    def code(start: int, stop: int) -> None:
        for first, last in _blocks(start, stop, reader.n_features):
            block = reader.block(first, last)
            encode_kernel(block, used, tables, starts, steps, missing_codes, bins[first:last], missing)

    run_ranges(code, reader.n_rows, n_threads, smallest=TILE_ROWS)
    return bins, missing.astype(np.bool_)


def search_tables(
    mapper: BinMapper, used: NDArray[np.int64], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Lay the bounds out for `encode_kernel`: each feature padded with +inf to a power of two.

    For float32 values a bound is rounded down to float32: x <= bound holds for the same x, since no float32 lies
    between the two.

    Returns the tables, the start of each feature and the number of halvings of each feature.
    """
    tables, steps = [], []
    for feature in used.tolist():
        bounds = mapper.upper_bounds[feature]
        step = (len(bounds) - 1).bit_length()
        table = np.full(1 << step, np.inf)
        table[: len(bounds)] = bounds
        tables.append(table)
        steps.append(step)
    table = np.concatenate(tables) if tables else np.empty(0)
    if dtype == np.float32:
        with np.errstate(all="ignore"):
            narrow = table.astype(np.float32)
            table = np.where(narrow > table, np.nextafter(narrow, np.float32(-np.inf)), narrow)
    starts = np.cumsum([0] + [1 << step for step in steps[:-1]], dtype=np.int64)
    return table, starts, np.array(steps, np.int64)


def rows_below(n_rows: int, limit: np.uint64) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the rows whose hash is at most `limit`, and the hashes: the fast twin of `binning.rows_below`."""
    room = int(n_rows * (float(limit) / 2.0**64) * 1.05) + 4096
    rows, hashes = np.empty(room, np.int64), np.empty(room, np.uint64)
    n_found = rows_below_kernel(n_rows, limit, rows, hashes)
    if n_found > room:  # hashes are evenly spread, so this does not happen; if it did, it would cost time only
        return definition.rows_below(n_rows, limit)
    return rows[:n_found], hashes[:n_found]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def rows_below_kernel(n_rows: Any, limit: Any, rows: Any, hashes: Any) -> Any:
    """Find the rows whose hash (`binning.hash_rows`) is at most `limit`.

    rows     int64 (room,)     out
    hashes   uint64 (room,)    out
    returns  how many there are; those beyond `room` are not written
    """
    n_found = 0
    for row in range(np.uint64(n_rows)):
        z = (row + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + definition.HASH_KEY
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        if z <= limit:
            if n_found < len(rows):
                rows[n_found] = row
                hashes[n_found] = z
            n_found += 1
    return n_found


@njit(nogil=True, cache=True, error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _halve(table: Any, position: Any, value: Any, half: Any, step: Any) -> Any:
    """Move `position` past the next `half` bounds if they are all below `value`; without a branch to mispredict."""
    return position + (np.uint64(table[position + half - np.uint64(1)] < value) << step)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def encode_kernel(
    values: Any, features: Any, tables: Any, starts: Any, steps: Any, missing_codes: Any, out: Any, missing: Any
) -> None:
    """Code rows: count the bounds below each value by binary search.

    values         float32 or float64 (n_rows, n_features)   in   C order
    features       int64 (n_used,)                           in   columns of `values`
    tables         dtype of values (sum of table sizes,)     in   see `search_tables`
    starts         int64 (n_used,)                           in   first bound of a feature in `tables`
    steps          int64 (n_used,)                           in   the table of a feature has 2**steps bounds
    missing_codes  uint64 (n_used,)                          in   code of NaN
    out            uint8 or uint16 (n_rows, stride)          out  the first n_used columns
    missing        uint8 (n_used,)                           out  set to 1 where NaN is seen, else unchanged

    A search is a chain of dependent loads, so four rows are searched at once (28 million float32 values, 255 bins, one
    thread of a Neoverse N1: 0.82 s one by one, 0.33 s four at a time, 1.3 s with branches).
    """
    n_rows = values.shape[0]
    for tile in range(0, n_rows, TILE_ROWS):
        tile_end = min(tile + TILE_ROWS, n_rows)
        for position in range(len(features)):
            feature = features[position]
            table = tables[starts[position] :]
            n_steps = steps[position]
            missing_code = missing_codes[position]
            seen = False
            row = tile
            while row < tile_end:
                # The last group of a tile may repeat its last row.
                r1, r2, r3 = min(row + 1, tile_end - 1), min(row + 2, tile_end - 1), min(row + 3, tile_end - 1)
                v0, v1, v2, v3 = values[row, feature], values[r1, feature], values[r2, feature], values[r3, feature]
                p0 = p1 = p2 = p3 = np.uint64(0)
                for left in range(n_steps):
                    step = np.uint64(n_steps - 1 - left)
                    half = np.uint64(1) << step
                    p0 = _halve(table, p0, v0, half, step)
                    p1 = _halve(table, p1, v1, half, step)
                    p2 = _halve(table, p2, v2, half, step)
                    p3 = _halve(table, p3, v3, half, step)
                seen |= (v0 != v0) | (v1 != v1) | (v2 != v2) | (v3 != v3)
                out[row, position] = missing_code if v0 != v0 else p0
                out[r1, position] = missing_code if v1 != v1 else p1
                out[r2, position] = missing_code if v2 != v2 else p2
                out[r3, position] = missing_code if v3 != v3 else p3
                row += 4
            if seen:
                missing[position] = 1
