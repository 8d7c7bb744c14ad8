"""Trees that are grown whole in one kernel (tree_kernel.py), so that nothing is handed over before they are done.

The best node is split, then the best of what there is, until the tree is full: exactly the growth that
frontier.one_at_a_time replays, with nothing expanded in vain. Histograms are running sums of 32 or 64 bits, see
prefix_split.py, which also says when a tree's sums are small enough. Threads grow a tree together, each with some rows
of a node and some features: here is told how many they are, and who has which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.histogram import HistogramBuilder, feature_blocks
from hornbeam.backends.cpu.growth.partition import as_words
from hornbeam.backends.cpu.growth.prefix_split import LARGEST_GRADIENT_SUM, LARGEST_HESSIAN_SUM, LARGEST_WIDE_SUM
from hornbeam.backends.cpu.growth.quantize import Rounded
from hornbeam.backends.cpu.growth.rows import RowStore
from hornbeam.backends.cpu.growth.split import NO_COUNTS, SplitFinder
from hornbeam.backends.cpu.growth.split_categorical import Round
from hornbeam.backends.cpu.growth.tree_categories import tree_categories
from hornbeam.backends.cpu.growth.tree_kernel import tree_kernel
from hornbeam.backends.cpu.host.team import WAKING_COST, call_helpers, largest_team, run_parts, team, worthwhile
from hornbeam.backends.cpu.host.threads import beside
from hornbeam.core.dtypes import NODE
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.splitting import SplitRules

MOST_CELLS = 1 << 26
"""Rows times features: a copy of the bins in columns must not cost much memory."""

MOST_LEAVES = 1024
"""The best node is found by looking at all of them."""

ROUNDS_COST = 500_000
"""Nanoseconds that rounds cost a tree of 2**n leaves, n times, besides the work that threads share."""

ROUNDS_WORK = 1.4
"""How much more there is to do in rounds, in sums of 64 bits, on the average of 20 to 100 features."""

LOOK_COST = 2.0
"""How much longer it takes to look at a row than to put a bin of another thread together; see sum_shared."""

SHARED_BYTES = 1 << 26
"""Largest memory for threads that share rows."""

ROW, UPDATE, BIN, LEVEL = 2, 1, 2, 45
"""Rough cost of moving a row, of a histogram update, and of a bin and a level of a node, in nanoseconds."""

ADDED_AGAIN = 0.3
"""Share of the rows that are in the smaller child, at each of n levels of a tree of 2**n leaves."""


CELLS_PER_THREAD = 1 << 17
"""A thread is worth having for turning this many bins into columns."""

TILE = 256
"""Rows that are turned into columns at a time: they stay in the second-level cache."""


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def columns_kernel(t, crew, bins, out):  # type: ignore[no-untyped-def]
    """Write one thread's rows of the bins once more, one feature's in a row; see team.py.

    bins  uint8 or uint16 (n_rows, stride)      in
    out   the same type (n_features, n_rows)    out
    """
    call_helpers(t, crew, (bins, out))
    n_rows, n_threads = len(bins), crew[0]
    first, last = n_rows * t // n_threads, n_rows * (t + 1) // n_threads
    for start in range(first, last, TILE):
        for f in range(np.uint64(len(out))):
            for row in range(np.uint64(start), np.uint64(min(start + TILE, last))):
                out[f, row] = bins[row, f]


class TreeRoom:
    """Memory of the whole trees of one training run, used by tree after tree, whatever features they may use.

    bins  uint8 or uint16 (n_rows, stride)  in  of the data set
    """

    def __init__(self, bins: NDArray[Any], n_used: int) -> None:
        self._bins = bins
        self._n_used = n_used
        self._columns: NDArray[Any] | None = None
        self._slots: tuple[NDArray[Any], NDArray[Any]] = np.empty(0, np.int32), np.empty(0, np.uint32)

    def slots(self, n_slots: int, n_bins: int, n_bytes: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return room for running sums, signed and unsigned integers of 4 or 8 bytes (n_slots, n_bins)."""
        size = n_slots * n_bins
        if len(self._slots[0]) < size or self._slots[0].itemsize != n_bytes:
            self._slots = np.empty(size, f"i{n_bytes}"), np.empty(size, f"u{n_bytes}")
        signed, unsigned = self._slots
        return signed[:size].reshape(n_slots, n_bins), unsigned[:size].reshape(n_slots, n_bins)

    def columns(self, features: NDArray[np.int32], n_threads: int) -> NDArray[Any]:
        """Return the bins of some used features, each in a row: uint8 or uint16 (n_features, n_rows)."""
        if self._columns is None:
            self._columns = np.empty((self._n_used, len(self._bins)), self._bins.dtype)
            n_threads = max(1, min(n_threads, self._columns.size // CELLS_PER_THREAD))
            run_parts(columns_kernel, n_threads, self._bins, self._columns)
        return self._columns if len(features) == len(self._columns) else self._columns[features]


class WholeTree:
    """Grows whole trees that may use some features; keeps the scratch memory.

    features  int32 (n,)  position of each feature among all used ones
    """

    def __init__(
        self,
        builder: HistogramBuilder,
        finder: SplitFinder,
        n_value_bins: NDArray[np.int64],
        features: NDArray[np.int32],
        room: TreeRoom,
    ) -> None:
        self.builder = builder
        self.features = features
        self.room = room
        self.finder = finder
        self.n_value_bins = n_value_bins
        self.columns: NDArray[Any] | None = None
        self.n_numeric = len(finder.has_missing)
        scores, upper = np.empty((2, builder.n_bins), np.float32), np.empty(self.n_numeric, np.float32)
        self.scratch = scores, scores.view(np.int32), upper, upper.view(np.int32)
        self.parts: dict[int, Parts] = {}
        self.most_threads = largest_team(builder.n_threads)

    def can_grow(self, store: RowStore, rounded: Rounded, limits: GrowthLimits, n_slots: int) -> bool:
        """Say whether a tree is small enough, in its sums, in the pool's memory, and to be quicker than in rounds."""
        n_rows, n_used = rounded.root.n_rows, len(self.n_value_bins)
        if (
            rounded.quantization.wide
            or max(rounded.sum_of_magnitudes, rounded.root.hessian) > LARGEST_WIDE_SUM
            or n_used == 0
            or store.bins.size > MOST_CELLS
            or limits.n_leaves > min(MOST_LEAVES, n_slots * 8 // self._sum_bytes(rounded))  # a slot has 16 bytes a bin
        ):
            return False
        work, n_threads = self._work(limits, n_rows), self.team(limits, n_rows)
        rounds = math.log2(limits.n_leaves) * ROUNDS_COST + work * ROUNDS_WORK / self.most_threads
        return work / n_threads + (n_threads - 1) * WAKING_COST < rounds

    @staticmethod
    def _sum_bytes(rounded: Rounded) -> int:
        """Return the bytes of a running sum."""
        small = rounded.sum_of_magnitudes <= LARGEST_GRADIENT_SUM and rounded.root.hessian <= LARGEST_HESSIAN_SUM
        return 4 if small else 8

    def _work(self, limits: GrowthLimits, n_rows: int) -> float:
        """Estimate the nanoseconds of a tree on one thread."""
        levels, n_used = math.log2(limits.n_leaves), len(self.n_value_bins)
        work = n_rows * (levels * ROW + (1 + levels * ADDED_AGAIN) * n_used * UPDATE)
        return work + 2 * limits.n_leaves * self.builder.n_bins * BIN

    def team(self, limits: GrowthLimits, n_rows: int) -> int:
        """Return how many threads should grow a tree together."""
        return worthwhile(self._work(limits, n_rows), min(self.most_threads, len(self.n_value_bins)))

    def _part(self, n_threads: int, limits: GrowthLimits, n_rows: int) -> Parts:
        """Cut the features into parts that take about as long as each other."""
        if n_threads not in self.parts:
            levels, n_used = math.log2(limits.n_leaves), len(self.n_value_bins)
            rows = n_rows * (1 + levels * ADDED_AGAIN) / (2 * limits.n_leaves)
            of_bin = np.where(np.arange(n_used) < self.n_numeric, BIN, LEVEL)
            cost = rows * UPDATE + (self.n_value_bins + 1.0) * of_bin
            done = np.concatenate([[0.0], np.cumsum(cost)])
            cuts = np.searchsorted(done, done[-1] * np.arange(n_threads + 1) / n_threads)
            self.parts[n_threads] = Parts(self, cuts.astype(np.int64))
        return self.parts[n_threads]

    def grow(
        self,
        store: RowStore,
        root: NDArray[np.void],
        rounded: Rounded,
        rules: SplitRules,
        limits: GrowthLimits,
        meanwhile: Callable[[], None] | None,
        categories: Round | None = None,
    ) -> NDArray[np.void]:
        """Grow a tree on the rounded gradients in `store`; see protocol.Engine.grow_ahead and tree_kernel.

        categories  with 2 * n_leaves - 1 sets for each thread of the team
        """
        n_leaves, n_rows = limits.n_leaves, int(root["end"][0] - root["begin"][0])
        if self.columns is None:
            self.columns = self.room.columns(self.features, self.most_threads)
        arrays = store.arrays()
        shared = (
            *arrays, *(as_words(array) for array in arrays[:3]), self.columns, store.even.reshape(-1),
            store.odd.reshape(-1), self.n_value_bins, self.builder.offsets,
        )  # fmt: skip
        how = (
            self.finder.has_missing, NO_COUNTS, *self.finder.numbers(rounded.quantization, rules), n_leaves,
            limits.max_depth, limits.depthwise,
            *self.room.slots(n_leaves, self.builder.n_bins, self._sum_bytes(rounded)), *self.scratch,
        )  # fmt: skip
        with beside(meanwhile if self.builder.n_threads > 1 else None), team(self.team(limits, n_rows)) as crew:
            parts = self._part(crew.size, limits, n_rows)
            lefts, found = np.empty((crew.size, 16), np.int64), np.zeros((crew.size, 4), NODE)
            free, nodes = np.empty((crew.size, n_leaves), np.int64), np.zeros((crew.size, 2 * n_leaves - 1), NODE)
            nodes[:, 0] = root[0]
            own = None
            if categories is not None:
                own = tree_categories(categories, parts.cuts, nodes.shape[1], int(self.n_value_bins.max()) + 1)
            crew.run(
                tree_kernel, lefts, found, parts.cuts, parts.blocks, parts.first_blocks, parts.counters, parts.shared,
                LOOK_COST, parts.counts, free, nodes, *shared, parts.places, *how, own,
            )  # fmt: skip
        return nodes[0, : lefts[0, 0]]


class Parts:
    """Which features of a WholeTree are whose, and the threads' scratch memory.

    cuts                           int64 (n_threads + 1,)   the features of thread t are cuts[t]:cuts[t + 1]
    blocks, first_blocks, places   see tree_kernel
    """

    def __init__(self, tree: WholeTree, cuts: NDArray[np.int64]) -> None:
        offsets, n_threads = tree.builder.offsets.astype(np.int64), len(cuts) - 1
        self.cuts = cuts
        n_levels = n_threads.bit_length()
        self.first_blocks = np.zeros((n_levels, n_threads + 1), np.int64)
        self.places = np.empty((n_levels, len(offsets) - 1), np.uint32)
        blocks: list[NDArray[np.int64]] = []
        for level in range(n_levels):
            bounds = [*cuts[: -1 : 1 << level].tolist(), int(cuts[-1])]
            for group, (first, last) in enumerate(pairwise(bounds)):
                own = first + feature_blocks(offsets[first : last + 1])
                self.first_blocks[level, group] = sum(map(len, blocks))
                blocks.append(own)
                self.places[level, first:last] = offsets[first:last] - np.repeat(offsets[own[:-1]], np.diff(own))
            self.first_blocks[level, len(bounds) - 1 :] = sum(map(len, blocks))
        self.blocks = np.concatenate(blocks)
        most = int((offsets[self.blocks[1:]] - offsets[self.blocks[:-1]]).max(initial=1))
        self.counters = np.empty((n_threads, most + 16), np.int64)
        self.shared = np.empty((n_threads, int(offsets[-1])), np.int64)
        if n_threads == 1 or self.shared.nbytes > SHARED_BYTES:
            self.shared = np.empty((0, 0), np.int64)
        self.counts = np.empty((n_threads, tree.finder.most_bins + 16), np.int64)
