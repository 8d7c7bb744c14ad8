"""A sort on the device: 64-bit keys with 32-bit payloads; see kernels/data/sort.cl."""

from __future__ import annotations

from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace.workspace import Workspace

EACH = 8
"""Keys of a thread: 2,048 a tile, sorted in 34 KB of local memory."""

N_DIGITS = 8
"""An even number: the result lies where the keys were."""


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
        own, runtime = self._workspace, self._workspace.runtime
        count, scan, scatter = (
            runtime.kernel(f"digit_{name}_kernel", self._variant) for name in ("counts", "scan", "scatter")
        )
        tile = EACH * count.threads
        n_tiles = -(-n // tile)
        counts, totals = own.room("digit counts", 1024 * n_tiles), own.room("digit totals", 1024)
        here = self.room(n)
        there = own.room("sort keys out", 8 * n), own.room("sort payload out", 4 * n)
        groups = min(n_tiles, own.groups)

        def launches() -> None:
            source, target = here, there
            for digit in range(N_DIGITS):
                where = u32(n), u32(8 * digit), u32(n_tiles)
                runtime.launch(count, groups, source[0], *where, counts)
                runtime.launch(scan, min(256, own.groups), counts, u32(n_tiles), totals)
                runtime.launch(scatter, groups, *source, *where, counts, totals, *target)
                source, target = target, source

        own.repeatable(f"sort of {n}", None, launches)()
