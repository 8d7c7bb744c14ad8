"""The device memory of one training: buffers by name, and launches over its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.layout import check_buffer
from hornbeam.backends.gpu.runtime import Buffer, Kernel, Runtime, Variant
from hornbeam.backends.gpu.tree_kernels import plain_variant

SMALL_BUFFER = 1 << 20
"""Buffers below this many bytes are made larger than asked, so that they seldom have to be made anew."""

GROUPS_A_UNIT = 8
"""Groups for each compute unit of kernels that stride over the rows: as many threads as it can hold."""


class Workspace:
    """What the parts of an engine share: its device, its rows, and its buffers, which it frees in the end.

    n_rows         of the training set
    groups         of kernels that stride over the rows
    n_allocations  changes whenever a buffer has been made: what was recorded with the old one is void
    """

    def __init__(self, runtime: Runtime, n_rows: int) -> None:
        self.runtime = runtime
        self.facts = runtime.facts
        self.n_rows = n_rows
        self.groups = runtime.facts.compute_units * GROUPS_A_UNIT
        self.n_allocations = 0
        self._held: dict[str, tuple[Buffer, int]] = {}
        self._borrowed: set[str] = set()  # what somebody else frees
        self._uploaded: dict[str, Any] = {}

    def room(self, name: str, n_bytes: int) -> Buffer:
        """Return the buffer of this name, made anew if it is too small; small ones grow by doubling."""
        held = self._held.get(name)
        if held is not None and held[1] >= n_bytes:
            return held[0]
        if n_bytes < SMALL_BUFFER:
            n_bytes = 1 << max(12, n_bytes.bit_length())
        if held is not None:
            del self._held[name]
            self.runtime.free(held[0])
        check_buffer(n_bytes, name, self.facts)
        buffer = self.runtime.allocate(n_bytes)
        self._held[name] = (buffer, n_bytes)
        self.n_allocations += 1
        return buffer

    def buffer(self, name: str) -> Buffer:
        """Return a buffer that is there."""
        return self._held[name][0]

    def borrow(self, name: str, buffer: Buffer, n_bytes: int) -> None:
        """Use a buffer that belongs to somebody else under this name."""
        self._held[name] = (buffer, n_bytes)
        self._borrowed.add(name)

    def upload(self, name: str, array: NDArray[Any]) -> Buffer:
        """Copy an array into the buffer of this name."""
        buffer = self.room(name, array.nbytes)
        self.runtime.upload(buffer, np.ascontiguousarray(array))
        return buffer

    def upload_once(self, name: str, array: NDArray[Any] | None) -> Buffer:
        """Copy labels, weights or queries, unless they are there already."""
        if array is None:
            return self.room(name, 8)
        if self._uploaded.get(name) is not array:
            self.upload(name, array)
            self._uploaded[name] = array
        return self.buffer(name)

    def uploaded(self, name: str) -> NDArray[Any] | None:
        """Return the array that `upload_once` brought into the buffer of this name; None: there is none."""
        found: NDArray[Any] | None = self._uploaded.get(name)
        return found

    def upload_count(self, n_nodes: int, first_set: int = 0) -> Buffer:
        """Tell the kernels how many nodes there are, and the number of their first set (split_categorical.cl).

        Where a tree is grown ahead the device knows both by itself.
        """
        return self.upload("count", np.array([n_nodes, first_set], np.uint32))

    def variant(self, source: str, **options: Any) -> Variant:
        """Return a variant of a kernel file for this device."""
        return plain_variant(self.facts, source, **options)

    def groups_over(self, n_rows: int, kernel: Kernel) -> int:
        """Return the groups of a kernel that strides over so many rows."""
        return min(self.groups, max(1, -(-n_rows // kernel.threads)))

    def launch_over(self, n_rows: int, kernel: Kernel, *arguments: Any) -> None:
        """Launch a kernel that strides over so many rows."""
        self.runtime.launch(kernel, self.groups_over(n_rows, kernel), *arguments)

    def launch_rows(self, kernel: Kernel, *arguments: Any) -> None:
        """Launch a kernel that strides over the rows of the training set."""
        self.launch_over(self.n_rows, kernel, *arguments)

    def close(self) -> None:
        """Free everything."""
        self._uploaded = {}
        while self._held:
            name, (buffer, _) = self._held.popitem()
            if name not in self._borrowed:
                self.runtime.free(buffer)
        self.runtime.close()
