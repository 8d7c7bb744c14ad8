"""Coding of dense tables on the CPU: threads code ranges of rows, block by block, without a copy of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inlined, kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.core.hashing import HASH_KEY
from hornbeam.data import bin_bounds as definition
from hornbeam.data.binning import BinMapper, allocate_bins
from hornbeam.data.sources.reader import TableReader

TILE_ROWS = 256
"""Rows coded for one feature before the next: the lines read stay in the first-level cache for the next feature."""


def blocks(start: int, stop: int, n_features: int) -> list[tuple[int, int]]:
    """Cut a range of rows into blocks of about `coded_cells` values (tuning.py)."""
    size = max(TILE_ROWS, in_use().coded_cells // n_features)
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
        for first, last in blocks(start, stop, reader.n_features):
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
    """Return the rows whose hash is at most `limit`, and the hashes: the fast twin of `bin_bounds.rows_below`."""
    room = int(n_rows * (float(limit) / 2.0**64) * 1.05) + 4096
    rows, hashes = np.empty(room, np.int64), np.empty(room, np.uint64)
    n_found = rows_below_kernel(n_rows, limit, rows, hashes)
    if n_found > room:  # hashes are evenly spread, so this does not happen; if it did, it would cost time only
        return definition.rows_below(n_rows, limit)
    return rows[:n_found], hashes[:n_found]


@kernel
def rows_below_kernel(n_rows: Any, limit: Any, rows: Any, hashes: Any) -> Any:
    """Find the rows whose hash (`hashing.hash_rows`) is at most `limit`.

    rows     int64 (room,)     out
    hashes   uint64 (room,)    out
    returns  how many there are; those beyond `room` are not written
    """
    n_found = 0
    for row in range(np.uint64(n_rows)):
        z = (row + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + HASH_KEY
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        if z <= limit:
            if n_found < len(rows):
                rows[n_found] = row
                hashes[n_found] = z
            n_found += 1
    return n_found


@inlined
def _halve(table: Any, position: Any, value: Any, half: Any, step: Any) -> Any:
    """Move `position` past the next `half` bounds if they are all below `value`; without a branch to mispredict."""
    return position + (np.uint64(table[position + half - np.uint64(1)] < value) << step)


@kernel
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
