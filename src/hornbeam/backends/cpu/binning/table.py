"""Bin finding and binning on the CPU, dense tables and sparse ones: the fast twin of `hornbeam.data.binning`.

Bins are found one column at a time from the sampled rows, columns side by side in threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.binning.bounds import bounds_kernel
from hornbeam.backends.cpu.binning.bounds import find_upper_bounds as find_many_bounds
from hornbeam.backends.cpu.binning.dense import TILE_ROWS, blocks, encode, rows_below
from hornbeam.backends.cpu.binning.mostly_zeros import read_mostly_zeros
from hornbeam.backends.cpu.binning.ranks import encode_ranks
from hornbeam.backends.cpu.binning.sparse import encode_sparse, find_missing
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.data.bin_bounds import find_upper_bounds, sample_rows
from hornbeam.data.binning import BinMapper, BinnedData, BinParams, Bins, bin_by
from hornbeam.data.sources.reader import ZERO, TableReader

EncodeDense = Callable[[BinMapper], tuple[Bins, NDArray[np.bool_]]]
"""Function(mapper) -> bins of a dense table, and whether each used feature has missing values."""


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
) -> tuple[Bins, NDArray[np.bool_]]:
    """Code a table with the bins of `mapper`; a sparse one is stored as data/stored_bins.py says.

    may_store     a dense table of mostly zeros is stored in the same way
    encode_dense  what codes other dense tables; None: `encode`
    """
    if params.by_rank:  # ranks are never stored otherwise
        if reader.sparse is None:
            return encode_ranks(reader, mapper, params, n_threads)
        return encode(reader, mapper, n_threads)
    table = None
    if reader.sparse is None:
        if may_store:
            table = read_mostly_zeros(reader, mapper, params, n_threads)
        if table is None:
            return encode(reader, mapper, n_threads) if encode_dense is None else encode_dense(mapper)
    return encode_sparse(reader, mapper, params, n_threads, table)


def sampled_rows(reader: TableReader, params: BinParams) -> NDArray[np.int64] | None:
    """Return the rows that bins are found from, ascending; None: all."""
    n_sampled = params.sampled_rows(reader.n_rows)
    return None if n_sampled == reader.n_rows else sample_rows(reader.n_rows, n_sampled, rows_below)


def coded_bounds(reader: TableReader, feature: int) -> NDArray[np.float64] | None:
    """Return the bounds of a categorical feature, every code of which has a bin; None: it has no codes."""
    own = None if reader.levels is None else reader.levels[feature]
    if own is None or not own.is_coded:
        return None
    return np.append(np.arange(len(own) - 1) + 0.5, np.inf) if len(own) else np.empty(0)


def find_bounds(reader: TableReader, params: BinParams, n_threads: int) -> list[NDArray[np.float64]]:
    """Find the upper bounds of every feature from the sampled rows."""
    rows = sampled_rows(reader, params)
    n_sampled = reader.n_rows if rows is None else len(rows)
    bounds: list[NDArray[np.float64]] = [np.empty(0)] * reader.n_features
    is_small = reader.sparse is None and n_sampled * reader.n_features < _cells_worth_a_kernel()
    find_bounds_of = find_upper_bounds if is_small else find_many_bounds

    def find_feature(feature: int, values: NDArray[Any], n_zeros: int, is_encoded: bool = False) -> None:
        values = np.ascontiguousarray(values, reader.block_dtype)
        if params.zeros_are_missing and not is_encoded:  # a mean label of 0 is not missing
            values = np.where(np.abs(values) <= ZERO, values.dtype.type(np.nan), values)
            n_zeros = 0
        if not params.use_missing:
            values = np.where(np.isnan(values), values.dtype.type(0.0), values)
        found = find_bounds_of(values, params.found_bins(feature), params.least_in_bin, n_zeros)
        bounds[feature] = params.with_forced(feature, found)

    def find_coded(feature: int) -> bool:
        """Give every code of a categorical feature a bin; False: it has none."""
        found = coded_bounds(reader, feature)
        if found is not None:
            bounds[feature] = found
        return found is not None

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
    n_columns = max(n_threads, in_use().sampled_cells // n_sampled)
    for first in range(0, reader.n_features, n_columns):
        last = min(first + n_columns, reader.n_features)
        sample = _sample(reader, rows, first, last, n_threads)

        def find(thread: int, first: int = first, last: int = last, sample: NDArray[Any] = sample) -> None:
            for feature in range(first + thread, last, n_threads):
                if not find_coded(feature):
                    is_encoded = reader.levels is not None and reader.levels[feature] is not None
                    find_feature(feature, sample[:, feature - first], 0, is_encoded)

        run_threads(find, n_threads)
    return bounds


def _cells_worth_a_kernel() -> int:
    """Return how many sampled values make up for what the kernel takes before it runs for the first time."""
    if not bounds_kernel.is_at_hand:
        return in_use().loaded_bounds_cells
    return 0 if bounds_kernel.is_ready else in_use().compiled_bounds_cells


def _sample(reader: TableReader, rows: NDArray[np.int64] | None, first: int, last: int, n_threads: int) -> NDArray[Any]:
    """Return reader.sample, whose rows are read by several threads where that is worth it."""
    if rows is None or reader.device is not None or n_threads == 1:
        return reader.sample(rows, first, last)
    few = min(len(rows), TILE_ROWS)
    sample = np.empty((len(rows), last - first), reader.sample(rows[:few], first, last).dtype)

    def read(start: int, stop: int) -> None:
        sample[start:stop] = reader.sample(rows[start:stop], first, last)

    run_ranges(read, len(rows), n_threads, smallest=TILE_ROWS)
    return sample


def _find_missing(
    reader: TableReader, features: NDArray[np.int64], n_threads: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say for each of some features whether it has missing values, and whether it has others."""
    if reader.sparse is not None:
        return find_missing(reader, features)
    missing = np.zeros(len(features), np.bool_)
    present = np.zeros(len(features), np.bool_)

    def look(start: int, stop: int) -> None:
        for first, last in blocks(start, stop, reader.n_features):
            nan = np.isnan(reader.block(first, last)[:, features])
            missing[nan.any(axis=0)] = True
            present[~nan.all(axis=0)] = True

    run_ranges(look, reader.n_rows, n_threads, smallest=TILE_ROWS)
    return missing, present
