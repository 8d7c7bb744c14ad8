"""Histogram slots: which node's histogram lives where, under a limit.

A histogram is kept only so that a larger child can be had by subtraction. When slots run short the least promising
nodes give theirs up, and their children are summed from the rows instead. Sums are integers, so the pool's size can be
seen in the time, never in the model.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.binning import BinnedData

SMALLEST_POOL = 2
"""Slots for the two children of one node."""

DEFAULT_BYTES = 2 << 30
"""Limit of the pool when `histogram_pool_size` names none. Slots cost memory only once they are used."""

STORED_BYTES = 1 << 30
"""The same for stored bins (stored_bins.py): data of so many bins are there to be small."""


def host_slot_bytes(binned: BinnedData) -> int:
    """Return the bytes of one histogram in host memory: two 64-bit sums a bin."""
    return 16 * max(1, int(binned.offsets[-1]))


def count_slots(n_leaves: int, bytes_per_slot: int, limit_mb: float, default: int = DEFAULT_BYTES) -> int:
    """Return how many slots to offer: what a tree can use at most, or what the limit allows (0 or less: the default).

    A round starts with fewer than n_leaves histograms and at most doubles them.
    """
    limit = limit_mb * 2**20 if limit_mb > 0 else default
    return max(SMALLEST_POOL, min(2 * n_leaves, int(limit // bytes_per_slot)))


class HistogramPool:
    """Free slots (lowest first, so that untouched memory stays untouched) and the slot of each node."""

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self.free = list(range(n_slots))
        self.slot_of: dict[int, int] = {}

    def take(self, node: int) -> int:
        """Give the node a free slot."""
        slot = heapq.heappop(self.free)
        self.slot_of[node] = slot
        return slot

    def hand_down(self, parent: int, child: int) -> int:
        """Pass the parent's slot on to its child."""
        slot = self.slot_of.pop(parent)
        self.slot_of[child] = slot
        return slot

    def restore(self, nodes: NDArray[np.void]) -> None:
        """Take over the slots that an engine gave to nodes itself: those that may still be split, dtypes.NODE."""
        keeps = (nodes["left"] < 0) & (nodes["split"]["gain"] > -np.inf) & (nodes["slot"] >= 0)
        kept = np.flatnonzero(keeps)
        self.slot_of = dict(zip(kept.tolist(), nodes["slot"][kept].tolist(), strict=True))
        used = set(self.slot_of.values())
        self.free = [slot for slot in range(self.n_slots) if slot not in used]

    def hand_over(self, parents: Sequence[int], halves: Sequence[tuple[int, int]]) -> None:
        """Give each parent's slot to its larger child, and free[0], free[1], ... to the smaller ones, in this order."""
        spare = self.free[: len(parents)]
        for parent, (smaller, larger), slot in zip(parents, halves, spare, strict=True):
            self.slot_of[smaller] = slot
            self.slot_of[larger] = self.slot_of.pop(parent)
        self.free = sorted(self.free[len(parents) :])

    def slots(self, nodes: Sequence[int]) -> NDArray[np.int32]:
        """Return the slots of some nodes."""
        return np.array([self.slot_of[node] for node in nodes], np.int32)

    def release(self, node: int) -> None:
        """Free the node's slot, if it has one."""
        slot = self.slot_of.pop(node, None)
        if slot is not None:
            heapq.heappush(self.free, slot)

    def release_below(self, bound: float, priority: Sequence[float]) -> None:
        """Free the slots of the nodes whose priority is below the bound: they will not be split."""
        for node in [node for node in self.slot_of if priority[node] < bound]:
            self.release(node)

    def make_room(self, n_slots: int, priority: Sequence[float], keep: set[int]) -> None:
        """Free slots of the nodes of lowest priority, except those to keep, until n_slots are free or none is left."""
        if len(self.free) >= n_slots:
            return
        for node in sorted((node for node in self.slot_of if node not in keep), key=lambda node: priority[node]):
            if len(self.free) >= n_slots:
                return
            self.release(node)
