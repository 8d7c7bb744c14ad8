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
from numpy.typing import NDArray

from hornbeam.backends.cpu.histogram import HistogramBuilder, feature_blocks
from hornbeam.backends.cpu.partition import as_words
from hornbeam.backends.cpu.prefix_split import LARGEST_GRADIENT_SUM, LARGEST_HESSIAN_SUM, LARGEST_WIDE_SUM
from hornbeam.backends.cpu.quantize import Rounded
from hornbeam.backends.cpu.rows import RowStore
from hornbeam.backends.cpu.split import NO_COUNTS, SplitFinder
from hornbeam.backends.cpu.split_categorical import Round
from hornbeam.backends.cpu.team import run_team
from hornbeam.backends.cpu.threads import available_cpus
from hornbeam.backends.cpu.tree_categories import tree_categories
from hornbeam.backends.cpu.tree_kernel import tree_kernel
from hornbeam.dtypes import NODE
from hornbeam.frontier import GrowthLimits
from hornbeam.splitting import SplitRules

MOST_CELLS = 1 << 26
"""Rows times features: a copy of the bins in columns must not cost much memory."""

MOST_LEAVES = 1024
"""The best node is found by looking at all of them."""

ROUNDS_COST = 500_000
"""Nanoseconds that rounds cost a tree of 2**n leaves, n times, besides the work that threads share."""

ROUNDS_WORK = 1.4
"""How much more there is to do in rounds, in sums of 64 bits, on the average of 20 to 100 features."""

WAKING_COST = 20_000
"""Nanoseconds to wake one more thread (threads.py)."""

THREAD_WORK = 400_000
"""A thread of a team should have this many nanoseconds of a tree to do: on a busy machine, waiting costs more."""

TEAM_CPUS = 0
"""Largest team; 0: as many as there are CPUs, since threads that share one wait for each other too long."""

ROW, UPDATE, BIN, LEVEL = 2, 1, 2, 30
"""Rough cost of moving a row, of a histogram update, and of a bin and a level of a node, in nanoseconds."""

ADDED_AGAIN = 0.3
"""Share of the rows that are in the smaller child, at each of n levels of a tree of 2**n leaves."""


class TreeRoom:
    """Memory of the whole trees of one training run, used by tree after tree, whatever features they may use.

    bins  uint8 or uint16 (n_rows, stride)  in  of the data set
    """

    def __init__(self, bins: NDArray[Any], n_used: int) -> None:
        self._bins = bins[:, :n_used]
        self._columns: NDArray[Any] | None = None
        self._slots: tuple[NDArray[Any], NDArray[Any]] = np.empty(0, np.int32), np.empty(0, np.uint32)

    def slots(self, n_slots: int, n_bins: int, n_bytes: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return room for running sums, signed and unsigned integers of 4 or 8 bytes (n_slots, n_bins)."""
        size = n_slots * n_bins
        if len(self._slots[0]) < size or self._slots[0].itemsize != n_bytes:
            self._slots = np.empty(size, f"i{n_bytes}"), np.empty(size, f"u{n_bytes}")
        signed, unsigned = self._slots
        return signed[:size].reshape(n_slots, n_bins), unsigned[:size].reshape(n_slots, n_bins)

    def columns(self, features: NDArray[np.int32]) -> NDArray[Any]:
        """Return the bins of some used features, each in a row: uint8 or uint16 (n_features, n_rows)."""
        if self._columns is None:
            self._columns = np.ascontiguousarray(self._bins.T)
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
        self.parts: dict[int, list[Part]] = {}
        self.most_threads = min(builder.n_threads, TEAM_CPUS or available_cpus())

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
        work = self._work(limits, n_rows)
        worth = min(int(math.sqrt(work / WAKING_COST)), int(work / THREAD_WORK))
        return max(1, min(self.most_threads, len(self.n_value_bins), worth))

    def _cut(self, n_threads: int, limits: GrowthLimits, n_rows: int) -> list[Part]:
        """Cut the features into parts that take about as long as each other."""
        if n_threads not in self.parts:
            levels, n_used = math.log2(limits.n_leaves), len(self.n_value_bins)
            rows = n_rows * (1 + levels * ADDED_AGAIN) / (2 * limits.n_leaves)
            of_bin = np.where(np.arange(n_used) < self.n_numeric, BIN, LEVEL)
            cost = rows * UPDATE + (self.n_value_bins + 1.0) * of_bin
            done = np.concatenate([[0.0], np.cumsum(cost)])
            cuts = np.searchsorted(done, done[-1] * np.arange(n_threads + 1) / n_threads).tolist()
            self.parts[n_threads] = [Part(self, first, last) for first, last in pairwise(cuts)]
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
            self.columns = self.room.columns(self.features)
        arrays = store.arrays()
        shared = (
            *arrays, *(as_words(array) for array in arrays[:3]), self.columns, store.even.reshape(-1),
            store.odd.reshape(-1), self.n_value_bins,
        )  # fmt: skip
        how = (
            self.finder.has_missing, NO_COUNTS, *self.finder.numbers(rounded.quantization, rules), n_leaves,
            limits.max_depth, limits.depthwise,
            *self.room.slots(n_leaves, self.builder.n_bins, self._sum_bytes(rounded)),
        )  # fmt: skip
        most_bins = int(self.n_value_bins.max()) + 1
        levels = np.empty((0 if categories is None else int(categories.own[1][-1]), 2), np.int64)
        grown = np.zeros(0, NODE)

        def work(t: int, n_threads: int, gate: NDArray[np.int64]) -> None:
            nonlocal grown
            part, nodes = parts[n_threads][t], np.zeros(2 * n_leaves - 1, NODE)
            nodes[0] = root[0]
            own = None
            if categories is not None:
                own = tree_categories(categories, t, part.first_level, part.last_level, len(nodes), levels, most_bins)
            n_nodes = tree_kernel(
                t, n_threads, gate, lefts[:n_threads], found[:, :n_threads], part.first, part.last, *shared,
                part.blocks, self.builder.offsets, part.places, *how, np.empty(n_leaves, np.int64), part.counters,
                part.counts, *self.scratch, nodes, own,
            )  # fmt: skip
            if t == 0:
                grown = nodes[:n_nodes]

        n_threads = self.team(limits, n_rows)
        parts = {size: self._cut(size, limits, n_rows) for size in {1, n_threads}}
        lefts, found = np.empty((n_threads, 8), np.int64), np.zeros((2, n_threads), NODE)
        run_team(work, n_threads, meanwhile if self.builder.n_threads > 1 else None)
        return grown


class Part:
    """The features first:last of a WholeTree, which are one thread's, and its scratch memory.

    first, last              of those that are no categories
    first_level, last_level  of the categorical ones, counted from the first of them
    blocks, places           see histogram.feature_blocks
    """

    def __init__(self, tree: WholeTree, first: int, last: int) -> None:
        offsets, n_numeric = tree.builder.offsets.astype(np.int64), tree.n_numeric
        self.first, self.last = min(first, n_numeric), min(last, n_numeric)
        self.first_level, self.last_level = max(first, n_numeric) - n_numeric, max(last, n_numeric) - n_numeric
        self.blocks = first + feature_blocks(offsets[first : last + 1])
        self.places = np.zeros(len(offsets) - 1, np.uint32)
        self.places[first:last] = offsets[first:last] - np.repeat(offsets[self.blocks[:-1]], np.diff(self.blocks))
        self.counters = np.empty(int(np.diff(offsets[self.blocks]).max(initial=1)), np.int64)
        self.counts = np.empty(tree.finder.most_bins, np.int64)
