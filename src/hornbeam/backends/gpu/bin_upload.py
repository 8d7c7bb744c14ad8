"""Bins on their way to a device: both layouts of the training set, and the rows of a validation set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hornbeam.backends.gpu.binning import DeviceBins
from hornbeam.backends.gpu.layout import Layout
from hornbeam.backends.gpu.runtime import Buffer, Runtime, u32
from hornbeam.backends.gpu.stored_upload import StoredUpload
from hornbeam.backends.gpu.workspace import Workspace
from hornbeam.binning import BinnedData

BLOCK_BYTES = 64 << 20
"""Bytes of bins that are uploaded at a time."""


def bins_on_device(binned: BinnedData, runtime: Runtime) -> DeviceBins | None:
    """Return the bins of a data set that are on this device already."""
    found = binned.on_device
    return found if found is not None and found.runtime is runtime else None


def upload_training_bins(workspace: Workspace, layout: Layout, binned: BinnedData) -> None:
    """Bring the bins into both layouts, `tiles` and `columns`, a block of rows at a time."""
    runtime, n_rows = workspace.runtime, layout.n_rows
    shared = bins_on_device(binned, runtime)
    columns = workspace.room("columns", layout.column_bytes)
    variant = workspace.variant("layout.cl", **layout.options)

    def make_columns(first: int, n_block: int, tiles: Buffer) -> None:
        kernel = runtime.kernel("column_kernel", variant)
        where = (u32(layout.n_used), u32(first), u32(n_block), u32(n_rows))
        runtime.launch(kernel, workspace.groups, tiles, *where, columns)

    if shared is not None and layout.n_used > 0:
        workspace.borrow("tiles", shared.tiles, shared.n_bytes)
        make_columns(0, n_rows, shared.tiles)
        return
    tiles = workspace.room("tiles", layout.tile_bytes)
    if layout.n_used == 0:
        return
    stride = binned.stride
    row_bytes = stride * layout.host_bytes
    step = max(1, BLOCK_BYTES // (2 * row_bytes)) * 2  # even: a byte of a column may hold two rows
    tile_kernel = runtime.kernel("tile_kernel", variant)
    for first, last, block in _blocks(workspace, binned, step, layout.options):
        where = (u32(first), u32(last - first), u32(n_rows))
        sizes = (u32(stride), u32(layout.n_used), u32(layout.n_tiles))
        runtime.launch(tile_kernel, workspace.groups, block, *sizes, *where, tiles)
        make_columns(first, last - first, tiles)


def _blocks(
    workspace: Workspace, binned: BinnedData, step: int, options: dict[str, int]
) -> Iterator[tuple[int, int, Buffer]]:
    """Bring blocks of `step` rows to the device, row by row as BinnedData.bins has them; each until the next one."""
    runtime, stride, n_rows = workspace.runtime, binned.stride, binned.n_rows
    block = runtime.allocate(min(step, n_rows) * stride * np.dtype(binned.mapper.bin_dtype).itemsize)
    stored = None if binned.stored is None else StoredUpload(workspace, binned.stored, stride, step, options)
    try:
        for first in range(0, n_rows, step):
            last = min(first + step, n_rows)
            if stored is None:
                runtime.upload(block, np.ascontiguousarray(binned.block(first, last)))
            else:
                stored.spell_out(first, last, block, 0)
            yield first, last, block
    finally:
        if stored is not None:
            stored.close()
        runtime.synchronize()
        runtime.free(block)


def upload_validation_bins(workspace: Workspace, name: str, binned: BinnedData) -> tuple[Buffer, int]:
    """Bring the bins row by row into the buffer `name`; returns it, and the bins from one row to the next."""
    runtime, n_rows, size = workspace.runtime, binned.n_rows, np.dtype(binned.mapper.bin_dtype).itemsize
    shared = bins_on_device(binned, runtime)
    stride = binned.stride if shared is None else binned.n_used
    bins = workspace.room(name, max(1, n_rows * stride * size))
    if shared is not None:
        shared.untile(bins)
        return bins, stride
    step = max(1, BLOCK_BYTES // (stride * size))
    stored = None
    if binned.stored is not None:
        stored = StoredUpload(workspace, binned.stored, stride, step, {"bin_bits": 8 * size})
    for first in range(0, n_rows, step):
        last = min(first + step, n_rows)
        if stored is None:
            part = np.ascontiguousarray(binned.block(first, last))
            runtime.upload(bins, part, offset=first * stride * size)
        else:
            stored.spell_out(first, last, bins, first)
    if stored is not None:
        stored.close()
    return bins, stride
