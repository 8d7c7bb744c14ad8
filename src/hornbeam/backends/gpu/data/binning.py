"""Binning on a GPU: values become bins there, in the tiles that the engine reads.

Bins of values on the device are found there (bounds.py), those of values in host memory by the CPU. A second pass codes
all values on the device (kernels/data/encode.cl); those in host memory pass through it block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.binning.dense import search_tables
from hornbeam.backends.cpu.binning.table import bin_table, coded_bounds, sampled_rows
from hornbeam.backends.demand import TRAINING_BYTES
from hornbeam.backends.gpu.data.bounds import Blocks, DeviceBounds
from hornbeam.backends.gpu.data.layout import Layout, check_buffer, megabytes
from hornbeam.backends.gpu.runtime import devices
from hornbeam.backends.gpu.runtime.device_table import DeviceTable, launch_over
from hornbeam.backends.gpu.runtime.forks import check_drivers
from hornbeam.backends.gpu.runtime.order import order_keys
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, u32, u64
from hornbeam.core.errors import DeviceMemoryError
from hornbeam.data.binning import BinMapper, BinnedData, BinParams, allocate_bins, bin_by
from hornbeam.data.sources.reader import TableReader

HOST_BLOCK_BYTES = 64 << 20
"""Bytes of values in host memory that are on the device at a time."""

CODING = np.dtype(
    [("start", np.uint64), ("feature", np.uint32), ("steps", np.uint32), ("missing", np.uint32), ("padding", np.uint32)]
)
"""coding_t of kernels/data/encode.cl."""


class TiledBins:
    """The bins of a table in device memory.

    Attributes
    ----------
    runtime, device
        Where they are, and the name of that, "cuda:0".
    n_rows, n_used
        Rows, and used features.
    dtype
        uint8 or uint16.
    layout
        How they lie.
    tiles
        u32 (n_tiles, n_rows, tile_words), see kernels/data/layout.cl.

    They are not made where the device has not so many bytes of each row free besides: `row_bytes`.
    """

    def __init__(self, runtime: Runtime, device: str, n_rows: int, mapper: BinMapper, row_bytes: int = 0) -> None:
        self.runtime = runtime
        self.device = device
        self.n_rows = n_rows
        self.n_used = len(mapper.used)
        self.dtype = mapper.bin_dtype
        self.layout = Layout.of_sizes(n_rows, mapper.n_value_bins[mapper.used])
        self.n_bytes = self.layout.tile_bytes
        check_buffer(self.n_bytes, "the bins", runtime.facts)
        runtime.trim()
        self._check_free(row_bytes * n_rows)
        self.tiles: Buffer = runtime.allocate(self.n_bytes)

    def _check_free(self, n_more: int) -> None:
        """Raise if the device has less memory free than the bins take, and so many bytes more, as far as it tells."""
        free = self.runtime.free_bytes()
        if free is not None and self.n_bytes + n_more > free:
            raise DeviceMemoryError(
                f"{self.n_rows:,} rows x {self.n_used:,} features take {megabytes(self.n_bytes)} of device memory as "
                f"bins, and {self.runtime.facts.name} has {megabytes(free)} free: fewer rows, fewer bins (max_bin=15 "
                "packs two bins a byte), or device='cpu', which bins them in host memory, help"
            )

    def host(self) -> NDArray[Any]:
        """Return a copy in host memory, laid out as `BinnedData.bins` is."""
        check_drivers()
        bins = allocate_bins(self.n_rows, self.n_used, self.dtype)
        lanes, packed = self.layout.lanes, self.layout.bin_bits == 4
        tile = np.empty((self.n_rows, lanes // 2 if packed else lanes), self.dtype)
        for number in range(self.layout.n_tiles):
            self.runtime.download(self.tiles, tile, number * tile.nbytes)
            first = number * lanes
            last = min(first + lanes, self.n_used)
            found = np.stack([tile & 15, tile >> 4], axis=2).reshape(self.n_rows, lanes) if packed else tile
            bins[:, first:last] = found[:, : last - first]
        return bins


def bin_on_device(device: str, reader: TableReader, params: BinParams, n_threads: int) -> BinnedData:
    """Find the bins of a dense table and code it on a device; one of mostly zeros in host memory is coded there."""
    if reader.device is None:
        return bin_table(reader, params, n_threads, True, lambda mapper: encode_on_device(device, reader, mapper))
    return bin_blocks(device, reader, lambda: _device_blocks(reader), params)


def encode_on_device(device: str, reader: TableReader, mapper: BinMapper) -> tuple[TiledBins, NDArray[np.bool_]]:
    """Code a dense table on a device with the bins of `mapper`; returns what `encode` does."""
    blocks = (lambda: _host_blocks(device, reader)) if reader.device is None else (lambda: _device_blocks(reader))
    return encode(device, reader, blocks, mapper)


def _host_blocks(device: str, reader: TableReader) -> Iterator[tuple[int, DeviceTable]]:
    runtime, row_bytes = devices.open_runtime(device), reader.n_features * reader.block_dtype.itemsize
    step = min(max(1, HOST_BLOCK_BYTES // row_bytes), reader.n_rows)
    buffer = runtime.allocate(step * row_bytes)
    try:
        for first in range(0, reader.n_rows, step):
            yield first, DeviceTable.upload(runtime, reader.block(first, min(first + step, reader.n_rows)), buffer)
    finally:
        runtime.free(buffer)
        runtime.trim()


def _device_blocks(reader: TableReader) -> Iterator[tuple[int, DeviceTable]]:
    for first, block in reader.device_blocks():
        yield first, DeviceTable.of_cupy(block)


def bin_blocks(device: str, reader: TableReader, blocks: Blocks, params: BinParams) -> BinnedData:
    """Find the bins of a table and code it on a device.

    reader   the table
    blocks   the same table on the device
    """
    return bin_by(
        find_bounds(device, reader, blocks, params),
        params,
        lambda features: find_missing(device, blocks, features),
        lambda mapper: encode(device, reader, blocks, mapper),
        n_levels=reader.n_levels,
    )


def find_bounds(device: str, reader: TableReader, blocks: Blocks, params: BinParams) -> list[NDArray[np.float64]]:
    """Find the upper bounds of every feature from the sampled rows."""
    found = [coded_bounds(reader, feature) for feature in range(reader.n_features)]
    runtime, numbers = devices.open_runtime(device), [feature for feature, own in enumerate(found) if own is None]
    bounds = {feature: own for feature, own in enumerate(found) if own is not None}
    for feature, own in DeviceBounds(runtime, reader, blocks, sampled_rows(reader, params), params).find(numbers):
        bounds[feature] = params.with_forced(feature, own)
    return [bounds[feature] for feature in range(reader.n_features)]


def encode(device: str, reader: TableReader, blocks: Blocks, mapper: BinMapper) -> tuple[TiledBins, NDArray[np.bool_]]:
    """Code a table; returns its bins, and for each used feature whether NaN was seen, bool (n_used,)."""
    runtime = devices.open_runtime(device)
    used = mapper.used.astype(np.int64)
    out = TiledBins(runtime, device, reader.n_rows, mapper, TRAINING_BYTES if reader.device is None else 0)
    if len(used) == 0:
        return out, np.zeros(0, np.bool_)
    tables, starts, steps = search_tables(mapper, used, reader.block_dtype)
    codings = np.zeros(len(used), CODING)
    codings["start"], codings["feature"], codings["steps"] = starts, used, steps
    codings["missing"] = [mapper.missing_code(feature) for feature in used.tolist()]
    bounds = order_keys(np.ascontiguousarray(tables, reader.block_dtype))
    room = [runtime.allocate(codings.nbytes), runtime.allocate(bounds.nbytes), runtime.allocate(4 * len(used))]
    try:
        runtime.upload(room[0], codings)
        runtime.upload(room[1], bounds)
        runtime.zero(room[2], 4 * len(used))
        layout = out.layout
        sizes = {"value_bytes": reader.block_dtype.itemsize, **layout.options}
        for first, table in blocks():
            how = (room[0], u32(len(used)), u32(layout.n_tiles), room[1])
            where = (u64(first), u64(reader.n_rows), out.tiles, room[2])
            n_words = table.n_rows * layout.n_tiles * layout.tile_words
            launch_over(n_words, runtime, "encode.cl", "encode_kernel", *table.arguments, *how, *where, **sizes)
            runtime.synchronize()  # then the block may go
        seen = np.empty(len(used), np.uint32)
        runtime.download(room[2], seen)
    finally:
        for buffer in room:
            runtime.free(buffer)
    return out, seen != 0


def find_missing(
    device: str, blocks: Blocks, features: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say for each of some features whether it has missing values, and whether it has others: bool (n,) each."""
    runtime = devices.open_runtime(device)
    seen = np.empty((2, len(features)), np.uint32)
    room = [runtime.allocate(4 * len(features)) for _ in range(3)]
    try:
        runtime.upload(room[0], features.astype(np.uint32))
        runtime.zero(room[1], 4 * len(features))
        runtime.zero(room[2], 4 * len(features))
        for _, table in blocks():
            looked = (*table.arguments, room[0], u32(len(features)), room[1], room[2])
            n, size = table.n_rows * len(features), table.dtype.itemsize
            launch_over(n, runtime, "encode.cl", "look_kernel", *looked, value_bytes=size)
            runtime.synchronize()
        runtime.download(room[1], seen[0])
        runtime.download(room[2], seen[1])
    finally:
        for buffer in room:
            runtime.free(buffer)
    return seen[0] != 0, seen[1] != 0
