"""Trees on stored bins that threads grow together in one kernel (stored_tree_kernel.py), from the root on.

The best node is split, then the best of what there is, until the tree is full, as in whole_tree.py. Each thread has
some rows of a node and some features: here is told how many threads there are, and who has which features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.histogram import PACKED_ROWS
from hornbeam.backends.cpu.growth.split import NO_COUNTS
from hornbeam.backends.cpu.growth.stored_expand import BIN, ENTRY, ROW, Categories, small_rows
from hornbeam.backends.cpu.growth.stored_histogram import StoredHistograms
from hornbeam.backends.cpu.growth.stored_partition import StoredPartition, StoredRows
from hornbeam.backends.cpu.growth.stored_split import StoredSplits, make_scratch
from hornbeam.backends.cpu.growth.stored_tree_kernel import stored_tree_kernel
from hornbeam.backends.cpu.host.team import LINE, team, worthwhile
from hornbeam.backends.cpu.host.threads import beside
from hornbeam.core.dtypes import NODE, SPLIT
from hornbeam.trees.frontier import GrowthLimits

MEETING_COST = 400
"""Nanoseconds that one more thread costs a split: to meet."""

FEW_ROWS = 256
"""Rows that one thread asks, or finds in lists, sooner than several can meet."""

LISTS_TEAM = 6
"""Lists are gone through together by this many threads or more: records wander between the caches then, and two threads
take 85 nanoseconds for each row that leaves where one takes 32 (Neoverse-N1)."""

FEATURE, SEARCHED, SORTED = 25, 12, 60
"""Rough cost of a feature, of a bin, and of a level of a categorical feature, in nanoseconds of a split."""

ADDED, MERGED = 4, 1.5
"""Rough cost of adding an entry or code of a row, and of merging a counter of one thread, in nanoseconds."""


class Shares(NamedTuple):
    """Who has which features, in a team of some size.

    cuts      int64 (n_threads + 1,)   the features cuts[t]:cuts[t + 1] are those of thread t
    runs      int64 (n_runs, 2)        their counters, first and last
    run_cuts  int64 (n_threads + 1,)   the runs of each thread
    """

    cuts: NDArray[np.int64]
    runs: NDArray[np.int64]
    run_cuts: NDArray[np.int64]


class StoredTree:
    """Grows whole trees on stored bins with a team of threads; keeps the scratch memory of one training run."""

    def __init__(
        self,
        partition: StoredPartition,
        builder: StoredHistograms,
        splits: StoredSplits,
        n_numeric: int,
        most_threads: int,
    ) -> None:
        self.partition = partition
        self.builder = builder
        self.splits = splits
        self.n_numeric = n_numeric
        self.most_threads = most_threads
        self._shares: dict[int, Shares] = {}
        self._room: tuple[Any, ...] | None = None

    def team(self, limits: GrowthLimits, n_rows: int) -> int:
        """Return how many threads should grow a tree together."""
        builder, n_leaves = self.builder, limits.n_leaves
        rows = n_rows + n_leaves * small_rows(n_leaves, n_rows)
        work = rows * (ROW + ENTRY * builder.entries_a_row) + 2 * n_leaves * builder.n_bins * BIN
        return worthwhile(work, self.most_threads, MEETING_COST * n_leaves)

    def shares(self, n_threads: int) -> Shares:
        """Cut the features into parts that take about as long as each other."""
        if n_threads not in self._shares:
            stored, n_bins = self.builder.stored, np.diff(self.builder.stored.offsets)
            is_number = np.arange(len(n_bins)) < self.n_numeric
            cost = FEATURE + n_bins * np.where(is_number, SEARCHED, SORTED)
            done = np.concatenate([[0.0], np.cumsum(cost)])
            cuts = np.searchsorted(done, done[-1] * np.arange(n_threads + 1) / n_threads)
            first = np.asarray(stored.offsets[:-1], np.int64).copy()
            last = first + n_bins
            coded, bundled = stored.column >= 0, stored.first_code > 0
            first[coded] = self.builder.code_places[stored.column[coded]] + stored.first_code[coded]
            last[coded] = first[coded] + np.where(bundled, stored.n_codes, n_bins)[coded]
            first[stored.first_code == 1] -= 1  # with the code before all features of a bundle, which is nobody's
            begins = np.ones(len(first), np.bool_)
            begins[1:] = first[1:] != last[:-1]
            begins[cuts[cuts < len(first)]] = True
            ends = np.append(begins[1:], True)
            run_cuts = np.append(0, np.cumsum(begins))[cuts]
            runs = np.stack([first[begins], last[ends]], axis=1)
            self._shares[n_threads] = Shares(*(array.astype(np.int64) for array in (cuts, runs, run_cuts)))
        return self._shares[n_threads]

    def grow(
        self,
        n_threads: int,
        store: StoredRows,
        root: NDArray[np.void],
        how: tuple[tuple[float, ...], ...],
        limits: GrowthLimits,
        meanwhile: Callable[[], None] | None = None,
        categories: Categories | None = None,
    ) -> NDArray[np.void]:
        """Grow a tree from its root, NODE (1,); returns all nodes. See protocol.Engine.grow_ahead.

        how         what SplitFinder.numbers returns
        categories  with 2 * n_leaves - 1 sets for each thread of the team
        """
        n_leaves, partition, builder, splits = limits.n_leaves, self.partition, self.builder, self.splits
        builder.make_counters(store)
        if self._room is None:
            self._room = self._make_room(len(store.place_of))
        totals, lefts, nothing, answers, leaving, stays, found, *search = self._room
        n_grown = np.zeros(1, np.int64)
        levels = None
        if categories is not None:
            whole, mask = categories
            levels = whole.own, mask, whole.first_set, whole.of_all
        with beside(meanwhile), team(n_threads) as crew:
            shares = self.shares(crew.size)
            nodes, free = np.zeros((crew.size, 2 * n_leaves - 1), NODE), np.empty((crew.size, n_leaves), np.int64)
            nodes[:, 0] = root[0]
            n_merged = int((shares.runs[:, 1] - shares.runs[:, 0]).sum())
            worth = crew.size * ADDED * builder.entries_a_row / (MERGED * max(1, n_merged))
            sharing = (FEW_ROWS, LISTS_TEAM), PACKED_ROWS, min(builder.n_summing, crew.size), worth
            crew.run(
                stored_tree_kernel, builder.stored.codes, store.even, store.place_of, store.spare, builder.storage,
                *partition.lists, partition.n_value_bins, builder.column_blocks, builder.code_places, builder.features,
                shares.cuts, self.n_numeric, shares.runs, shares.run_cuts, splits.default, splits.chosen,
                splits.offsets, splits.has_missing, NO_COUNTS, *how, n_leaves, limits.max_depth, limits.depthwise,
                sharing, builder.histograms, builder.thread_counters, totals, lefts, nothing, answers,
                leaving, stays, found[: crew.size], free, *search, nodes, n_grown, levels,
            )  # fmt: skip
        return nodes[0, : n_grown[0]]

    def _make_room(self, n_rows: int) -> tuple[Any, ...]:
        """Make the scratch memory that does not depend on the tree; see stored_tree_kernel."""
        n, n_used = self.most_threads, len(self.splits.has_missing)
        most_bins = int(np.diff(self.splits.offsets).max(initial=1))
        return (
            np.zeros((n, LINE), np.int64), np.zeros((2, n, LINE), np.int64), np.zeros((n, 2 * LINE), np.uint32),
            np.empty(n_rows, np.uint8), np.empty(n_rows + n, np.uint32), np.zeros(n_rows, np.uint8),
            np.zeros((n, 4), SPLIT), tuple(stacked(array, n) for array in make_scratch(most_bins)),
            np.empty((n, n_used), np.int32), np.empty((n, n_used)),
        )  # fmt: skip


def stacked(array: NDArray[Any], n_threads: int) -> NDArray[Any]:
    """Return memory for as many arrays of this shape."""
    return np.empty((n_threads, *array.shape), array.dtype)
