"""Dense tables of mostly zeros, as one-hot coding makes them, are read as sparse ones: then stored_bins.py applies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.data import stored_bins as bundling
from hornbeam.data.bin_bounds import sample_rows
from hornbeam.data.binning import BinMapper, BinParams
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.sources.sparse_table import SparseTable


def read_mostly_zeros(reader: TableReader, mapper: BinMapper, params: BinParams, n_threads: int) -> SparseTable | None:
    """Return a dense table of numbers in sparse form if that is smaller, else None."""
    used, tuning = mapper.used, in_use()
    if (
        reader.n_rows * len(used) <= bundling.PLAIN_CELLS
        or not (params.enable_bundle and params.is_enable_sparse)
        or params.zeros_are_missing
        or reader.levels is not None
        or reader.device is not None
    ):
        return None
    sample = reader.sample(sample_rows(reader.n_rows, tuning.mostly_zeros_rows), 0, reader.n_features)
    if np.count_nonzero(sample[:, used]) > tuning.mostly_zeros_share * len(sample) * len(used):
        return None
    parts: dict[int, tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]] = {}
    step = max(1, tuning.coded_cells // reader.n_features)

    def gather(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            block = reader.block(first, min(first + step, stop))
            rows, columns = np.nonzero(block)  # NaN too
            counts = np.bincount(rows, minlength=len(block))
            parts[first] = counts, columns.astype(np.int32), block[rows, columns]

    run_ranges(gather, reader.n_rows, n_threads, smallest=step)
    counts, columns, values = (
        np.concatenate(part) for part in zip(*(parts[first] for first in sorted(parts)), strict=True)
    )
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return SparseTable.from_parts(indptr, columns, values, reader.n_features)
