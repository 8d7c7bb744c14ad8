"""Sorted keys of a training: 64 bits, with 32-bit payloads; see kernels/data/sort.cl."""

from __future__ import annotations

from hornbeam.backends.gpu.data.sort import EACH, SegmentSort
from hornbeam.backends.gpu.runtime.runtime import Buffer
from hornbeam.backends.gpu.workspace.workspace import Workspace


class DeviceSort:
    """Sorts keys in the workspace's buffers "sort keys" and "sort payload"."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._variant = workspace.variant("sort.cl", each=EACH)

    def room(self, n: int) -> tuple[Buffer, Buffer]:
        """Return where n keys, uint64, and their payloads, uint32, are to be written before, and are found after."""
        own = self._workspace
        return own.room("sort keys", 8 * n), own.room("sort payload", 4 * n)

    def sort(self, n: int) -> None:
        """Sort n keys, ascending and stable."""
        own = self._workspace
        sort = SegmentSort(own.runtime, self._variant, own.groups, n)
        counts, totals = own.room("digit counts", sort.count_bytes), own.room("digit totals", sort.total_bytes)
        here = self.room(n)
        there = own.room("sort keys out", 8 * n), own.room("sort payload out", 4 * n)
        own.repeatable(f"sort of {n}", None, lambda: sort.launch(here, there, counts, totals))()
