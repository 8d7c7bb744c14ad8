"""Bins on their way to a device: the tiles of training and validation sets, and columns where there is room."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hornbeam.backends.gpu.data.binning import TiledBins
from hornbeam.backends.gpu.data.bundles import Bundles, Spelling
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant, u32
from hornbeam.backends.gpu.workspace.stored_upload import StoredUpload
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.binning import BinnedData

BLOCK_BYTES = 64 << 20
"""Bytes of bins that are uploaded at a time, at most half of what there is."""

SMALLEST_BLOCK = 64
"""Rows of a block, at least."""


def bins_on_device(binned: BinnedData, runtime: Runtime) -> TiledBins | None:
    """Return the bins of a data set that are on this device already."""
    found = binned.on_device
    return found if isinstance(found, TiledBins) and found.runtime is runtime else None


def available_bytes(workspace: Workspace, sets: Iterable[BinnedData]) -> int:
    """Return the bytes that a training on these sets may hold, with those of their bins that are on the device."""
    shared = (bins_on_device(each, workspace.runtime) for each in sets)
    return workspace.spare_bytes(sum(bins.n_bytes for bins in shared if bins is not None))


class PlacedBins:
    """The bins of a training or validation set on a device.

    layout       how they lie
    bundles      which features share a column; None: none
    has_columns  whether they lie there by feature as well
    """

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        binned: BinnedData,
        bundles: Bundles | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.layout = layout or Layout.of(binned, bundles)
        self.bundles = bundles
        self.has_columns = False
        self._workspace, self._name = workspace, name
        shared = bins_on_device(binned, workspace.runtime)
        if shared is not None and self.layout.n_used > 0:
            workspace.borrow(name, shared.tiles, shared.n_bytes)
        else:
            room = workspace.room_on_host if self.layout.on_host else workspace.room
            room(name, self.layout.tile_bytes)
            if bundles is not None:
                workspace.upload(f"members of {name}", bundles.members)
            self._upload(binned)

    @property
    def tiles(self) -> Buffer:
        """The tiles."""
        return self._workspace.buffer(self._name)

    @property
    def by_feature(self) -> Buffer:
        """What kernels read that look at one feature of many rows: columns, or else tiles."""
        return self._workspace.buffer("columns") if self.has_columns else self.tiles

    def variant(self, source: str) -> Variant:
        """Return the variant of a kernel that reads `by_feature`."""
        options = {**self.layout.options, "bundled": self.layout.is_bundled}
        return self._workspace.variant(source, **options, columns=self.has_columns)

    @property
    def bundle_arguments(self) -> tuple[Buffer, ...]:
        """What such a kernel takes besides: the members of bundles, where there are any."""
        return () if self.bundles is None else (self._workspace.buffer(f"members of {self._name}"),)

    def _upload(self, binned: BinnedData) -> None:
        """Fill the tiles, a block of rows at a time."""
        own, layout = self._workspace, self.layout
        if layout.n_used == 0 or layout.n_rows == 0:
            return
        n_rows, held = layout.n_rows, binned.stored
        stride = binned.stride if self.bundles is None else layout.n_columns
        row_bytes = stride * layout.host_bytes
        if held is not None:
            row_bytes += held.codes.shape[1] * held.codes.itemsize + 8 + 4 * len(held.entries) // n_rows
        step = max(SMALLEST_BLOCK, min(BLOCK_BYTES, own.spare_bytes() // 2) // row_bytes)
        block = own.room("block", min(step, n_rows) * stride * layout.host_bytes)
        stored = None
        if held is not None:
            spelling = Spelling.plain(held) if self.bundles is None else self.bundles.spelling
            stored = StoredUpload(own, held, spelling, stride, step, layout.options)
        kernel = own.runtime.kernel("tile_kernel", own.variant("layout.cl", **layout.options))
        for first in range(0, n_rows, step):
            last = min(first + step, n_rows)
            if stored is None:
                own.runtime.upload(block, np.ascontiguousarray(binned.block(first, last)))
            else:
                stored.spell_out(first, last, block)
            sizes = (u32(stride), u32(layout.n_columns), u32(layout.n_tiles))
            where = (u32(first), u32(last - first), u32(n_rows))
            own.runtime.launch(kernel, own.groups, block, *sizes, *where, self.tiles)
        own.runtime.synchronize()
        if stored is not None:
            stored.close()
        own.release("block")
        own.runtime.trim()

    def make_columns(self, on_host: bool = False) -> None:
        """Lay the bins out by feature as well; on_host: in memory of the host."""
        own, layout = self._workspace, self.layout
        columns = (own.room_on_host if on_host else own.room)("columns", layout.column_bytes)
        kernel = own.runtime.kernel("column_kernel", own.variant("layout.cl", **layout.options))
        sizes = (u32(layout.n_columns), u32(layout.n_rows))
        own.runtime.launch(kernel, own.groups, self.tiles, *sizes, columns)
        self.has_columns = True
