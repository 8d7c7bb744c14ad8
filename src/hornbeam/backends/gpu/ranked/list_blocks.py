"""Lists of rows that are on the device: those of all features, or of a block of them while the others wait in the host.

A training whose lists do not fit takes the features block by block: what is done to the lists of one block is done to
those of the next after they have changed places.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.host_memory import check_host_memory

BY_PARITY = "whole", "list even", "list odd"
"""The lists of all rows, and of the nodes at even and at odd depths: u64 (n_lists, n_rows) each."""

BYTES = 8
"""Of an entry."""


class ListBlocks:
    """Which features' lists are on the device.

    blocks  the listed features, in order, int32 (n,) each
    """

    def __init__(self, workspace: Workspace, n_rows: int, listed: NDArray[np.int32], most: int) -> None:
        n = max(1, min(len(listed), most))
        self._workspace, self._n_rows, self._here = workspace, n_rows, 0
        self.blocks = [listed[first : first + n] for first in range(0, len(listed), n)]
        self._waiting: list[dict[str, NDArray[np.uint64]]] = []
        if len(self.blocks) > 1:
            check_host_memory(
                len(BY_PARITY) * BYTES * n_rows * len(listed),
                f"the lists of {n_rows:,} rows x {len(listed):,} features", "fewer rows, or tree_method='hist'",
            )  # fmt: skip
            self._waiting = [
                {name: np.empty((len(own), n_rows), np.uint64) for name in BY_PARITY} for own in self.blocks
            ]
        for name in BY_PARITY:
            workspace.room(name, max(BYTES, n * BYTES * n_rows))

    def fill(self) -> Iterator[NDArray[np.int32]]:
        """Yield block after block, whose whole lists are to be written on the device."""
        for number, block in enumerate(self.blocks):
            yield block
            self._here = number
            self._send_away(("whole",))

    def each(self) -> Iterator[NDArray[np.int32]]:
        """Yield the features of each block, their lists on the device; those that are there come first."""
        order = range(len(self.blocks))
        for number in order if self._here == 0 else reversed(order):
            if number != self._here:
                self._send_away(BY_PARITY[1:])
                for name, lists in self._waiting[number].items():
                    self._workspace.runtime.upload(self._workspace.buffer(name), lists)
                self._here = number
            yield self.blocks[number]

    def _send_away(self, names: tuple[str, ...]) -> None:
        for name in names if self._waiting else ():
            self._workspace.runtime.download(self._workspace.buffer(name), self._waiting[self._here][name])
