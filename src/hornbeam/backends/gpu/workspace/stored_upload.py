"""Stored bins (stored_bins.py) on their way to a device: what is stored travels, and is spelled out there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.bundles import Spelling
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.stored_bins import StoredBins


class StoredUpload:
    """Brings blocks of rows to a device; its buffers are freed by `close`.

    spelling   the columns to make
    stride     bins from one row of a block to the next
    most_rows  of a block
    options    fields of the Variant: the size of a bin
    """

    def __init__(
        self,
        workspace: Workspace,
        stored: StoredBins,
        spelling: Spelling,
        stride: int,
        most_rows: int,
        options: dict[str, int],
    ) -> None:
        self._workspace, self._runtime, self._stored = workspace, workspace.runtime, stored
        self._stride, self._n_columns = stride, len(spelling.columns)
        self._buffers: dict[str, Buffer] = {}
        self._variant = workspace.variant("stored.cl", value_bytes=stored.codes.itemsize, **options)
        self._columns = self._upload("columns", spelling.columns)
        self._places = self._upload("places", spelling.places)
        most = min(most_rows, stored.n_rows)
        self._room("codes", most * stored.codes.shape[1] * stored.codes.itemsize)
        self._room("bounds", 8 * (most + 1))
        ends = np.append(stored.indptr[::most_rows], stored.indptr[-1])
        self._room("entries", 4 * int(np.diff(ends).max()))

    def _room(self, name: str, n_bytes: int) -> None:
        self._buffers[name] = self._workspace.room(f"stored {name}", n_bytes)

    def _upload(self, name: str, array: NDArray[Any]) -> Buffer:
        array = np.ascontiguousarray(array)
        self._room(name, array.nbytes)
        self._runtime.upload(self._buffers[name], array)
        return self._buffers[name]

    def spell_out(self, first: int, last: int, rows: Buffer) -> None:
        """Write the bins of the rows first to last, which are a block, row by row."""
        own, stored, runtime = self._workspace, self._stored, self._runtime
        n_block, n_columns = last - first, self._n_columns
        bounds = stored.indptr[first : last + 1]
        buffers = self._buffers
        runtime.upload(buffers["codes"], np.ascontiguousarray(stored.codes[first:last]))
        runtime.upload(buffers["bounds"], np.ascontiguousarray(bounds))
        runtime.upload(buffers["entries"], np.ascontiguousarray(stored.entries[bounds[0] : bounds[-1]]))
        own.launch_over(
            n_block * n_columns, runtime.kernel("spell_codes_kernel", self._variant), buffers["codes"],
            u32(stored.codes.shape[1]), self._columns, u32(n_columns), u32(n_block), u32(self._stride), rows,
        )  # fmt: skip
        own.launch_over(
            n_block, runtime.kernel("spell_entries_kernel", self._variant), buffers["entries"], buffers["bounds"],
            self._places, u32(n_block), u32(self._stride), rows,
        )  # fmt: skip

    def close(self) -> None:
        """Free the buffers."""
        self._runtime.synchronize()
        for name in self._buffers:
            self._workspace.release(f"stored {name}")
        self._buffers = {}
