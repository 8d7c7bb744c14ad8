"""Bounds of bins found on a device, from values that are there: see kernels/data/bounds.cl."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.sort import EACH, SegmentSort
from hornbeam.backends.gpu.runtime.device_table import GROUPS_A_UNIT, THREADS, DeviceTable
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, Runtime, Variant, u32
from hornbeam.data.binning import BinParams
from hornbeam.data.sources.reader import ZERO, TableReader

Blocks = Callable[[], Iterator[tuple[int, DeviceTable]]]
"""Function that goes through a table once more: (first row, rows on the device)."""

SORTED_BYTES = 1 << 30
"""Bytes of values that are sorted at a time, at most an eighth of the memory that is free."""

COLUMNS_A_GROUP = 32
"""Columns of a group of bounds_kernel, whose threads read far from each other."""


class DeviceBounds:
    """Finds the bounds of columns from the sampled rows of a table.

    rows   int64 (n_sampled,)   ascending; None: all
    """

    def __init__(
        self, runtime: Runtime, reader: TableReader, blocks: Blocks, rows: NDArray[np.int64] | None, params: BinParams
    ) -> None:
        self._runtime, self._reader, self._blocks, self._params = runtime, reader, blocks, params
        self._rows = np.arange(reader.n_rows) if rows is None else rows
        self._groups = runtime.facts.compute_units * GROUPS_A_UNIT
        self._key = np.uint32 if reader.block_dtype == np.float32 else np.uint64

    def _variant(self, source: str, threads: int = THREADS) -> Variant:
        threads = min(threads, 1 << (self._runtime.facts.max_threads.bit_length() - 1))
        return Variant(source, threads, each=EACH, value_bytes=self._key().itemsize, payload=False)

    def _kernel(self, name: str, threads: int = THREADS) -> Kernel:
        return self._runtime.kernel(name, self._variant("bounds.cl", threads))

    def find(self, features: list[int]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield features and their bounds, as find_upper_bounds finds them."""
        free = self._runtime.free_bytes()
        most = SORTED_BYTES if free is None else min(SORTED_BYTES, free // 8)
        step = max(1, most // (len(self._rows) * self._key().itemsize))
        for first in range(0, len(features), step):
            yield from self._find_some(features[first : first + step])

    def _find_some(self, features: list[int]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        runtime, n, n_sampled = self._runtime, len(features), len(self._rows)
        size = n * n_sampled * self._key().itemsize
        sort = SegmentSort(runtime, self._variant("sort.cl"), self._groups, n_sampled, n)
        most_bins = np.array([min(self._params.found_bins(feature), n_sampled) for feature in features], np.uint32)
        capacity = max(1, int(most_bins.max()))
        bounds, n_bounds = np.empty((n, capacity)), np.empty(n, np.uint32)
        with ExitStack() as held:

            def room(n_bytes: int) -> Buffer:
                buffer = runtime.allocate(max(8, n_bytes))
                held.callback(runtime.free, buffer)
                return buffer

            keys, other = room(size), room(size)
            self._take(features, keys, room)
            sort.launch((keys, keys), (other, other), room(sort.count_bytes), room(sort.total_bytes))
            bins, found, counts = room(most_bins.nbytes), room(bounds.nbytes), room(n_bounds.nbytes)
            runtime.upload(bins, most_bins)
            kernel = self._kernel("bounds_kernel", COLUMNS_A_GROUP)
            runtime.launch(
                kernel, min(self._groups, -(-n // kernel.threads)), keys, u32(n_sampled), u32(n), bins,
                u32(max(1, self._params.least_in_bin)), u32(capacity), found, counts,
            )  # fmt: skip
            runtime.download(found, bounds)
            runtime.download(counts, n_bounds)
        runtime.trim()
        for feature, own, count in zip(features, bounds, n_bounds.tolist(), strict=True):
            yield feature, np.append(own[: count - 1], np.inf) if count else np.empty(0)

    def _take(self, features: list[int], keys: Buffer, room: Callable[[int], Buffer]) -> None:
        """Write the sampled values of some features as keys."""
        runtime, reader, key = self._runtime, self._reader, self._key
        levels: Any = reader.levels or [None] * reader.n_features
        small = [self._params.zeros_are_missing and levels[feature] is None for feature in features]
        chosen, is_small, rows = room(4 * len(features)), room(4 * len(features)), room(4 * len(self._rows))
        runtime.upload(chosen, np.array(features, np.uint32))
        runtime.upload(is_small, np.array(small, np.uint32))
        smallest = reader.block_dtype.type(ZERO).view(key)
        no_value = key(np.iinfo(key).max) if self._params.use_missing else key(1 << (8 * key().itemsize - 1))
        kernel = self._kernel("take_kernel")
        for first_row, table in self._blocks():
            first, last = np.searchsorted(self._rows, [first_row, first_row + table.n_rows]).tolist()
            if first == last:
                continue
            runtime.upload(rows, (self._rows[first:last] - first_row).astype(np.uint32))
            squares = -(-(last - first) // 32) * -(-len(features) // 32)
            runtime.launch(
                kernel, min(self._groups, squares), *table.arguments, rows, u32(last - first), chosen, is_small,
                u32(len(features)), smallest, no_value, u32(first), u32(len(self._rows)), keys,
            )  # fmt: skip
            runtime.synchronize()  # then the block may go
