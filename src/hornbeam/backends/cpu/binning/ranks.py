"""Ranks of the values of a dense table on the CPU: a thread sorts a column, and numbers its values in that order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.data.binning import BinMapper, BinParams, allocate_bins
from hornbeam.data.sources.reader import ZERO, TableReader

BLOCK_ROWS = 4096
"""Rows of bins that are written at a time."""

SpareBins = Callable[[NDArray[np.uint32]], NDArray[np.uint32]]
"""Function(rows) -> the bins of these rows in features whose ranks are no bins."""


def encode_ranks(
    reader: TableReader, mapper: BinMapper, params: BinParams, n_threads: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Code a dense table whose features have a bin for every value; as `dense.encode` does, which searches."""
    used = mapper.used.tolist()
    bins = allocate_bins(reader.n_rows, len(used), mapper.bin_dtype)
    missing = np.zeros(len(used), np.bool_)
    n_threads = max(1, min(n_threads, len(used)))

    def code(thread: int) -> None:
        for position in range(thread, len(used), n_threads):
            feature = used[position]
            values = column_values(reader, feature, params)
            n_values = number_kernel(values, np.argsort(values), mapper.upper_bounds[feature], position, bins)
            if n_values < len(values):
                missing[position] = True
                bins[np.isnan(values), position] = mapper.missing_code(feature)

    run_threads(code, n_threads)
    return bins, missing


def column_values(reader: TableReader, feature: int, params: BinParams) -> NDArray[Any]:
    """Return a column as it is binned, contiguous; zeros that count as missing are NaN."""
    values = np.ascontiguousarray(reader.sample(None, feature, feature + 1)[:, 0], reader.block_dtype)
    is_encoded = reader.levels is not None and reader.levels[feature] is not None
    if params.zeros_are_missing and not is_encoded:  # a mean label of 0 is not missing
        values = np.where(np.abs(values) <= ZERO, values.dtype.type(np.nan), values)
    return values


def take_ranks(
    bins: NDArray[Any], ranks: NDArray[Any], is_same: NDArray[np.bool_], spare_bins: SpareBins, n_threads: int
) -> None:
    """Take ranks for bins where a feature has a bin for each, and spare bins elsewhere.

    bins     unsigned (n_rows, n_used)   out
    ranks    unsigned (n_rows, n_used)   in
    is_same  bool (n_used,)              in
    """

    def take(start: int, stop: int) -> None:
        for first in range(start, stop, BLOCK_ROWS):
            rows = slice(first, min(first + BLOCK_ROWS, stop))
            spare = spare_bins(np.arange(rows.start, rows.stop, dtype=np.uint32))
            bins[rows] = np.where(is_same, ranks[rows], spare[:, None])

    run_ranges(take, len(bins), n_threads, smallest=BLOCK_ROWS)


@kernel
def number_kernel(values: Any, order: Any, bounds: Any, position: Any, out: Any) -> Any:
    """Write the bins of one feature.

    values    float32 or float64 (n_rows,)               in
    order     int64 (n_rows,)                            in   rows by ascending value, NaN last
    bounds    float64 (n_bins,)                          in   upper bounds, the last is infinite
    position  column of `out`
    out       uint8, uint16 or uint32 (n_rows, stride)   out
    returns   number of values; the rows behind them are not written
    """
    bin_ = np.int64(0)
    for i in range(len(order)):
        row = order[i]
        value = values[row]
        if value != value:
            return i
        while value > bounds[bin_]:
            bin_ += 1
        out[row, position] = bin_
    return len(order)
