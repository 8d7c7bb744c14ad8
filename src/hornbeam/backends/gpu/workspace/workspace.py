"""The device memory of one training: buffers by name, and launches over its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.columns import copy_column
from hornbeam.backends.gpu.data.layout import check_buffer
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, Runtime, Variant
from hornbeam.backends.gpu.workspace.tree_kernels import THREADS, plain_variant
from hornbeam.core.errors import DeviceMemoryError
from hornbeam.core.host_memory import check_host_memory
from hornbeam.data.columns import DeviceColumn

SMALL_BUFFER = 1 << 16
"""Buffers below this many bytes are made larger than asked, so that they seldom have to be made anew: tables of nodes.
Larger ones have the size of the rows, which does not change, and which memory.py counts."""

GROUPS_A_UNIT = 8
"""Groups for each compute unit of kernels that stride over the rows: as many threads as it can hold."""


def room_bytes(n_bytes: int) -> int:
    """Return the bytes of a buffer of which so many are asked for; small ones grow by doubling."""
    return n_bytes if n_bytes >= SMALL_BUFFER else 1 << max(12, n_bytes.bit_length())


class Workspace:
    """What the parts of an engine share: its device, its rows, and its buffers, which it frees in the end.

    n_rows         of the training set
    groups         of kernels that stride over the rows
    n_allocations  changes whenever a buffer has been made: what was recorded with the old one is void
    limit_bytes    that all buffers together may have
    reserved       bytes of buffers that will be made, or made larger, by name: others leave room for them
    held_bytes     that they have now, the borrowed ones included
    peak_bytes     that they have had at most
    """

    def __init__(self, runtime: Runtime, n_rows: int) -> None:
        self.runtime = runtime
        self.facts = runtime.facts
        self.n_rows = n_rows
        self.groups = runtime.facts.compute_units * GROUPS_A_UNIT
        self.n_allocations = 0
        self.limit_bytes = runtime.facts.memory_bytes
        self.reserved: dict[str, int] = {}
        self.held_bytes = self.peak_bytes = 0
        self._held: dict[str, tuple[Buffer, int]] = {}
        self._borrowed: set[str] = set()  # what somebody else frees
        self._uploaded: dict[str, Any] = {}
        self._recorded: dict[str, tuple[Any, Callable[[], None] | None]] = {}
        self._variants: dict[tuple[Any, ...], Variant] = {}
        runtime.trim()

    def room(self, name: str, n_bytes: int) -> Buffer:
        """Return the buffer of this name, made anew if it is too small."""
        held = self._held.get(name)
        if held is not None and held[1] >= n_bytes:
            return held[0]
        n_bytes = room_bytes(n_bytes)
        self.release(name)
        check_buffer(n_bytes, name, self.facts)
        promised = self._promised_bytes(name)
        if self.held_bytes + n_bytes + promised > self.limit_bytes:
            raise DeviceMemoryError(
                f"{self.facts.name}: {name!r} needs {n_bytes / 2**20:,.1f} MB of device memory; a training may hold "
                f"{self.limit_bytes / 2**20:,.1f} MB, holds {self.held_bytes / 2**20:,.1f} already (most for "
                f"{self._largest()}) and will need {promised / 2**20:,.1f} more. Fewer rows, fewer bins (max_bin=15 "
                "packs two bins a byte), a smaller histogram_pool_size, a higher device_memory_limit if one is set, or "
                "device='cpu' help"
            )
        buffer = self.runtime.allocate(n_bytes)
        self._hold(name, buffer, n_bytes)
        self.n_allocations += 1
        return buffer

    def room_on_host(self, name: str, n_bytes: int) -> Buffer:
        """Return a new buffer of this name in host memory; it is no memory of the device."""
        check_buffer(n_bytes, name, self.facts)
        check_host_memory(n_bytes, f"{name}, which the device has no memory for,", "fewer rows or features")
        buffer = self.runtime.allocate_on_host(n_bytes)
        self._hold(name, buffer, 0)
        self.n_allocations += 1
        return buffer

    def _hold(self, name: str, buffer: Buffer, n_bytes: int) -> None:
        self._held[name] = (buffer, n_bytes)
        self.held_bytes += n_bytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)

    def _largest(self) -> str:
        largest = sorted(self._held, key=lambda name: -self._held[name][1])[:3]
        return ", ".join(f"{name}: {self._held[name][1] / 2**20:,.1f}" for name in largest)

    def release(self, name: str) -> None:
        """Free the buffer of this name, if there is one."""
        held = self._held.pop(name, None)
        self._uploaded.pop(name, None)
        if held is None:
            return
        self.held_bytes -= held[1]
        if name in self._borrowed:
            self._borrowed.remove(name)
        else:
            self.runtime.free(held[0])

    def spare_bytes(self, borrowed: int = 0) -> int:
        """Return how much more may be held besides what is reserved, as far as the device tells.

        borrowed  bytes that are on the device already, and will be held
        """
        spare, free = self.limit_bytes - self.held_bytes, self.runtime.free_bytes()
        return (spare if free is None else min(spare, free + borrowed)) - self._promised_bytes()

    def _promised_bytes(self, name: str | None = None) -> int:
        """Return what is reserved for buffers that are not there yet, or not as large, all but the one of a name."""
        held = {other: self._held[other][1] if other in self._held else 0 for other in self.reserved if other != name}
        return sum(max(0, room_bytes(self.reserved[other]) - has) for other, has in held.items())

    @contextmanager
    def leaving(self, n_bytes: int) -> Iterator[None]:
        """Let what is made meanwhile leave so many bytes free."""
        self.limit_bytes -= n_bytes
        try:
            yield
        finally:
            self.limit_bytes += n_bytes

    def buffer(self, name: str) -> Buffer:
        """Return a buffer that is there."""
        return self._held[name][0]

    def borrow(self, name: str, buffer: Buffer, n_bytes: int) -> None:
        """Use a buffer that belongs to somebody else under this name."""
        self._hold(name, buffer, n_bytes)
        self._borrowed.add(name)

    def upload(self, name: str, array: NDArray[Any]) -> Buffer:
        """Copy an array into the buffer of this name."""
        buffer = self.room(name, array.nbytes)
        self.runtime.upload(buffer, np.ascontiguousarray(array))
        return buffer

    def upload_once(self, name: str, array: NDArray[Any] | DeviceColumn | None) -> Buffer:
        """Copy labels, weights or queries, unless they are there already; what is on the device does not leave it."""
        if array is None:
            return self.room(name, 8)
        if self._uploaded.get(name) is not array:
            if isinstance(array, DeviceColumn):
                self._take(name, array)
            else:
                self.upload(name, array)
            self._uploaded[name] = array
        return self.buffer(name)

    def _take(self, name: str, column: DeviceColumn) -> None:
        """Read the user's own array under this name, or a copy of it in the form that kernels read."""
        if not column.is_ready:
            copy_column(self.runtime, column, self.room(name, column.size * column.value_bytes))
            return
        self.release(name)
        self.borrow(name, column.array, 0)  # it is no memory of the training
        self.n_allocations += 1

    def uploaded(self, name: str) -> NDArray[Any] | DeviceColumn | None:
        """Return the array that `upload_once` brought into the buffer of this name; None: there is none."""
        found: NDArray[Any] | DeviceColumn | None = self._uploaded.get(name)
        return found

    def upload_count(self, n_nodes: int, first_set: int = 0) -> Buffer:
        """Tell the kernels how many nodes there are, and the number of their first set (split_categorical.cl).

        Where a tree is grown ahead the device knows both by itself.
        """
        return self.upload("count", np.array([n_nodes, first_set], np.uint32))

    def variant(self, source: str, threads: int = THREADS, **options: Any) -> Variant:
        """Return a variant of a kernel file for this device: the same object for the same options."""
        key = source, threads, *options.items()
        found = self._variants.get(key)
        if found is None:
            found = self._variants[key] = plain_variant(self.facts, source, threads, **options)
        return found

    def groups_over(self, n_rows: int, kernel: Kernel) -> int:
        """Return the groups of a kernel that strides over so many rows."""
        return min(self.groups, max(1, -(-n_rows // kernel.threads)))

    def launch_over(self, n_rows: int, kernel: Kernel, *arguments: Any) -> None:
        """Launch a kernel that strides over so many rows."""
        self.runtime.launch(kernel, self.groups_over(n_rows, kernel), *arguments)

    def launch_rows(self, kernel: Kernel, *arguments: Any) -> None:
        """Launch a kernel that strides over the rows of the training set."""
        self.launch_over(self.n_rows, kernel, *arguments)

    def repeatable(self, name: str, key: Any, launches: Callable[[], None]) -> Callable[[], None]:
        """Return what does these launches: a recording of them, from the second time on that the same are asked for.

        name  of the launches: one recording is kept of each
        key   what they depend on besides the buffers: when it changes, or a buffer is made anew, they are done anew
        """
        key = self.n_allocations, key
        held = self._recorded.get(name)
        if held is None or held[0] != key:
            self._recorded[name] = key, None
            return launches
        recorded = held[1]
        if recorded is None:
            recorded = self.runtime.repeatable(launches)
            self._recorded[name] = key, recorded
        return recorded

    def close(self) -> None:
        """Free everything."""
        self._uploaded = {}
        self._recorded = {}
        for name in list(self._held):
            self.release(name)
        self.runtime.close()
