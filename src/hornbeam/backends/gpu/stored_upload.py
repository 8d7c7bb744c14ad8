"""Stored bins (bundling.py) on their way to a device: what is stored travels, and is spelled out there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace import Workspace
from hornbeam.bundling import StoredBins


class StoredUpload:
    """Brings blocks of rows to a device; its buffers are freed by `close`.

    stride     bins from one row of a block to the next
    most_rows  of a block
    options    fields of the Variant: the size of a bin
    """

    def __init__(
        self, workspace: Workspace, stored: StoredBins, stride: int, most_rows: int, options: dict[str, int]
    ) -> None:
        self._workspace, self._runtime, self._stored = workspace, workspace.runtime, stored
        self._stride = stride
        self._buffers: dict[str, Buffer] = {}
        self._variant = workspace.variant("stored.cl", value_bytes=stored.codes.itemsize, **options)
        what = np.stack([stored.column, stored.first_code, stored.n_codes, stored.default], axis=1)
        self._features = self._upload("features", what.astype(np.int32))
        self._first_place = self._upload("first places", stored.offsets)
        n_places = np.diff(stored.offsets)
        self._feature_of = self._upload("features of places", np.repeat(np.arange(len(n_places)), n_places), np.uint32)
        most = min(most_rows, stored.n_rows)
        self._room("codes", most * stored.codes.shape[1] * stored.codes.itemsize)
        self._room("bounds", 8 * (most + 1))
        ends = np.append(stored.indptr[::most_rows], stored.indptr[-1])
        self._room("entries", 4 * int(np.diff(ends).max()))

    def _room(self, name: str, n_bytes: int) -> None:
        self._buffers[name] = self._workspace.room(f"stored {name}", n_bytes)

    def _upload(self, name: str, array: NDArray[Any], dtype: Any = None) -> Buffer:
        array = np.ascontiguousarray(array, dtype)
        self._room(name, array.nbytes)
        self._runtime.upload(self._buffers[name], array)
        return self._buffers[name]

    def spell_out(self, first: int, last: int, rows: Buffer) -> None:
        """Write the bins of the rows first to last, which are a block, row by row."""
        own, stored, runtime = self._workspace, self._stored, self._runtime
        n_block, n_used = last - first, len(stored.column)
        bounds = stored.indptr[first : last + 1]
        buffers = self._buffers
        runtime.upload(buffers["codes"], np.ascontiguousarray(stored.codes[first:last]))
        runtime.upload(buffers["bounds"], np.ascontiguousarray(bounds))
        runtime.upload(buffers["entries"], np.ascontiguousarray(stored.entries[bounds[0] : bounds[-1]]))
        own.launch_over(
            n_block * n_used, runtime.kernel("spell_codes_kernel", self._variant), buffers["codes"],
            u32(stored.codes.shape[1]), self._features, u32(n_used), u32(n_block), u32(self._stride), rows,
        )  # fmt: skip
        own.launch_over(
            n_block, runtime.kernel("spell_entries_kernel", self._variant), buffers["entries"], buffers["bounds"],
            self._feature_of, self._first_place, u32(n_block), u32(self._stride), rows,
        )  # fmt: skip

    def close(self) -> None:
        """Free the buffers."""
        self._runtime.synchronize()
        for name in self._buffers:
            self._workspace.release(f"stored {name}")
        self._buffers = {}
