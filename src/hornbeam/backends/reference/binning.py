"""Binning in NumPy: the definition, one feature after the other, of the whole table at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.bin_bounds import find_upper_bounds, sample_rows
from hornbeam.data.binning import BinMapper, BinnedData, BinParams, allocate_bins, bin_by
from hornbeam.data.sources.reader import TableReader


def bin_table(reader: TableReader, params: BinParams) -> BinnedData:
    """Find the bins of a table and code it."""
    table = reader.read(0, reader.n_rows)

    def find_missing(features: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        missing = np.isnan(table[:, features])
        return np.any(missing, axis=0), ~np.all(missing, axis=0)

    return bin_by(
        find_bounds(reader, table, params),
        params,
        find_missing,
        lambda mapper: encode_values(table, mapper),
        n_levels=reader.n_levels,
    )


def encode_table(reader: TableReader, mapper: BinMapper) -> NDArray[Any]:
    """Code a table with the bins of `mapper`."""
    return encode_values(reader.read(0, reader.n_rows), mapper)[0]


def find_bounds(reader: TableReader, table: NDArray[np.float64], params: BinParams) -> list[NDArray[np.float64]]:
    """Find the upper bounds of every feature from the sampled rows.

    table  float64 (n_rows, n_features)  in  what `reader` reads
    """
    rows = sample_rows(reader.n_rows, params.sampled_rows(reader.n_rows))
    bounds = []
    for feature in range(reader.n_features):
        n_levels = reader.n_levels.get(feature)
        if n_levels is not None:  # every level has a bin of its own
            bounds.append(np.append(np.arange(n_levels - 1) + 0.5, np.inf) if n_levels else np.empty(0))
            continue
        values = table[rows, feature]
        if not params.use_missing:
            values = np.where(np.isnan(values), 0.0, values)
        found = find_upper_bounds(values, params.found_bins(feature), params.least_in_bin)
        bounds.append(params.with_forced(feature, found))
    return bounds


def encode_values(table: NDArray[np.float64], mapper: BinMapper) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the bins, laid out as `BinnedData` says, and whether each used feature has missing values, bool (n_used,).

    table  float64 (n_rows, n_features)  in
    """
    used = mapper.used.tolist()
    bins = allocate_bins(len(table), len(used), mapper.bin_dtype)
    for position, feature in enumerate(used):
        bins[:, position] = mapper.codes(feature, table[:, feature])
    return bins, np.any(np.isnan(table[:, used]), axis=0)
