"""Growing trees on sparse data: by how many threads, which features are whose, and what a node costs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.growth import Growth, even_cuts
from hornbeam.backends.cpu.growth.rows.counters import PACKED_ROWS, blocks_of
from hornbeam.backends.cpu.growth.search import NO_MASK, Conditions
from hornbeam.backends.cpu.growth.slots import Slots
from hornbeam.backends.cpu.growth.sparse.counting import count_sparse
from hornbeam.backends.cpu.growth.sparse.histograms import Summing, Thin, build_kernel, fill_kernel
from hornbeam.backends.cpu.growth.sparse.partition import SparseRows, SparseStore, divide_sparse, partition_kernel
from hornbeam.backends.cpu.growth.sparse.storage import places_of_codes, storage_of
from hornbeam.backends.cpu.growth.sparse.tree import search_sparse, sum_sparse
from hornbeam.backends.cpu.growth.splits.contexts import NO_MARKS
from hornbeam.backends.cpu.growth.splits.levels import Categories
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.growth.trees.driver import Work
from hornbeam.backends.cpu.host.operations import Operation
from hornbeam.backends.cpu.host.team import ALONE, LINE, Crew, team, worthwhile
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.dtypes import NODE
from hornbeam.data.binning import BinnedData
from hornbeam.data.stored_bins import StoredBins
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import pack_mask


class SparseGrowth(Growth):
    """Grows the trees of one training run on sparse data.

    entries_per_row  codes and entries
    n_summing        threads that have counters
    most_thin        a node of fewer rows is thin
    """

    nodes_are_costly = True
    divide_kernel, count_kernel = divide_sparse, count_sparse
    store: SparseStore

    def __init__(self, binned: BinnedData, n_threads: int, n_team: int, tuning: Tuning) -> None:
        super().__init__(binned, n_threads, n_team, tuning)
        assert binned.stored is not None
        assert tuning.packed_rows <= PACKED_ROWS
        self.stored: StoredBins = binned.stored
        stored, n_used = self.stored, binned.n_used
        is_alone = (stored.column >= 0) & (stored.first_code == 0)
        default = np.where(is_alone, -1, stored.default).astype(np.int64)
        self.space = Space(binned, np.arange(n_used, dtype=np.int32), default, n_threads, tuning)
        self.slots = Slots(self.space.n_bins, n_threads, tuning)
        self.store = SparseStore(storage_of(stored, for_growth=True, tuning=tuning), n_team, tuning)
        self.steps_ns = tuning.sparse_steps_ns / n_threads
        self.entries_per_row = stored.n_columns + len(stored.entries) / max(1, stored.n_rows)
        self.most_thin = self.space.n_bins / max(tuning.bins_per_thin_entry * self.entries_per_row, 1e-9)
        self.n_counters = self.space.n_bins + int(stored.code_starts[-1])
        self.n_summing = max(1, min(n_threads, tuning.counter_bytes // (8 * self.n_counters)))
        self._mask = NO_MASK
        self._bare = np.zeros((n_team, 0, 2), np.int64)
        self._places = (stored.code_starts[:-1] + self.space.n_bins).astype(np.uint32)
        self._blocks = blocks_of(stored.code_starts, 0, stored.n_columns, tuning.codes_at_once)
        self._code_places = places_of_codes(stored)
        self._feature_of = np.repeat(np.arange(n_used, dtype=np.uint32), np.diff(stored.offsets))
        self._counters = np.zeros((0, 1, 0), np.int64)
        self._totals = np.zeros((n_threads, LINE), np.int64)
        self._touched = np.zeros((n_threads, 2 * LINE), np.uint32)
        self._thin_sums = np.zeros((n_threads, n_used, 3), np.int64)
        self._empty = np.zeros((0, self.space.n_bins, 2), np.int64)
        self._sum, self._search = Operation(sum_sparse), Operation(search_sparse)
        self._shares: dict[int, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = {}

    @property
    def rows(self) -> SparseRows:
        """The rows of the tree."""
        return self.store.rows

    @property
    def mask(self) -> NDArray[np.uint32]:
        """The features that the tree may use."""
        return self._mask

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Note the features; the others are summed too, but not searched."""
        chosen = np.full(len(self.space.numbers), features is None)
        chosen[slice(0) if features is None else features] = True
        self._mask = NO_MASK if features is None else pack_mask(chosen[None])[0]
        self.space.features.chosen[:] = chosen[: self.space.n_numeric]

    def begin_tree(self, n_slots: int) -> None:
        """Start a tree."""
        super().begin_tree(n_slots)
        self.store.begin_tree(self.rounded.root.n_rows, self.n_team)
        if self._bare.shape[1] == n_slots:
            self._bare[:] = 0
        else:
            self._bare = np.zeros((self.n_team, n_slots, 2), np.int64)
        shape = self.n_summing, 1 + (len(self.store.wide_even) > 0), self.n_counters
        if self._counters.shape != shape:
            self._counters = np.zeros(shape, np.int64)

    # --- single operations --------------------------------------------------------------------------------------------

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places."""
        table, n_left = np.zeros(len(splits), NODE), np.zeros(len(splits), np.int64)
        table["begin"], table["end"], table["split"] = nodes.begin, nodes.end, splits
        most_rows, sides = int((nodes.end - nodes.begin).max(initial=0)), self.sides
        with team(max(1, min(self.n_team, most_rows // self.tuning.listed_rows_per_thread))) as crew:
            tables = np.empty((crew.size, int(sides.n_value_bins.max(initial=0)) + 1), np.uint8)
            crew.run(partition_kernel, self.rows, table, sides, tables, n_left)
        return n_left

    def build(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows, one node after the other."""
        self._bare[:, slots] = 0
        n_rows = int((nodes.end - nodes.begin).sum())
        work = n_rows * self._row_ns + len(slots) * self.space.n_bins * self.tuning.sparse_bin_ns
        with team(worthwhile(work, self.n_team, self.tuning)) as crew:
            summing = self._summing(crew.size)
            crew.run(build_kernel, self.rows, summing, nodes.begin, nodes.end, slots, self.slots.histograms)

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """Get the larger children."""
        for slot in parents[self._bare[0, parents, 1] > 0].tolist():
            fill_kernel(self.rows, self._thin(1), slot, self.slots.histograms[slot])
        super().subtract(parents, children)

    # --- rounds -------------------------------------------------------------------------------------------------------

    @property
    def _row_ns(self) -> float:
        """To sum a row."""
        return self.tuning.sparse_row_ns + self.tuning.sparse_entry_ns * self.entries_per_row

    def costs(self, batch: NDArray[np.void]) -> list[float]:
        """Estimate the work of each node."""
        n_rows, tuning = batch["end"] - batch["begin"], self.tuning
        n_bins = np.where(n_rows >= self.most_thin, self.space.n_bins, 0)
        asked = n_rows * tuning.sparse_listed_ns
        return (asked + n_rows / 4 * self._row_ns + n_bins * tuning.sparse_bin_ns).tolist()  # type: ignore[no-any-return]

    @property
    def round_threads(self) -> int:
        """Those that have counters."""
        return self.n_summing

    def round_work(self, categories: Categories | None) -> Work:
        """Return what threads need to expand nodes."""
        return self._work(ALONE, Conditions(NO_MARKS, False, 0, categories))

    # --- whole trees --------------------------------------------------------------------------------------------------

    def can_grow(self, limits: GrowthLimits, in_context: bool) -> bool:
        """Say whether there are slots for a whole tree."""
        return 2 <= limits.n_leaves <= min(self.tuning.most_leaves, self.n_slots)

    def team_size(self, limits: GrowthLimits) -> int:
        """Return how many threads should grow a tree together."""
        n_leaves, n_rows, tuning = limits.n_leaves, self.rounded.root.n_rows, self.tuning
        rows = n_rows * (1 + math.log2(n_leaves) * tuning.sparse_added_again)
        work = rows * self._row_ns + 2 * n_leaves * self.space.n_bins * tuning.sparse_bin_ns
        return worthwhile(work, self.n_team, tuning, tuning.meeting_ns * n_leaves)

    def tree_work(self, crew: Crew, limits: GrowthLimits, conditions: Conditions) -> Work:
        """Return what a team needs to grow a tree."""
        return self._work(crew, conditions)

    def _work(self, crew: Crew, conditions: Conditions) -> Work:
        calls, rows, summing, thin = self.calls, self.rows, self._summing(crew.size), self._thin(crew.size)
        divide = self.divide.on(calls, crew, rows, self.goes_left)
        sums = self._sum.on(calls, crew, rows, summing, thin, self.slots.histograms)
        if len(conditions.marks.masks):
            of_sums = self.context_search(conditions, thin.empty)
        else:
            of_sums = self.pair_search(conditions.categories, thin.empty)
        search = self._search.on(calls, rows, thin, of_sums)
        return Work(calls, summing.cuts, self.numbers, self.goes_left, divide, sums, search)

    def _thin(self, n_threads: int) -> Thin:
        """Return what a team of n_threads needs for thin nodes: each thread looks at all of their rows."""
        if len(self._empty) == 0:
            self._empty = np.zeros((self.n_threads, self.space.n_bins, 2), np.int64)
        most_rows = self.most_thin * min(1.0, self.tuning.thin_team / n_threads)
        return Thin(
            self._code_places, self._feature_of, self._thin_sums, self.space.scratch.beside, self._empty,
            self._touched, self._bare, most_rows,
        )  # fmt: skip

    def _summing(self, n_threads: int) -> Summing:
        """Return what a team of n_threads needs to sum rows."""
        (cuts, runs, run_cuts), tuning = self._shares_of(n_threads), self.tuning
        n_merged = int((runs[:, 1] - runs[:, 0]).sum())
        worth = n_threads * tuning.added_ns * self.entries_per_row / (tuning.merged_ns * max(1, n_merged))
        return Summing(
            cuts, runs, run_cuts, self._places, self._blocks, self._counters, self._totals, self._touched,
            min(self.n_summing, n_threads), tuning.packed_rows, worth,
        )  # fmt: skip

    def _shares_of(self, n_threads: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Cut the features into parts that take about as long as each other: cuts, runs and run_cuts of Summing."""
        if n_threads not in self._shares:
            stored, n_bins, tuning = self.stored, np.diff(self.stored.offsets), self.tuning
            is_number = np.arange(len(n_bins)) < self.space.n_numeric
            cost = tuning.share_feature_ns + n_bins * np.where(is_number, tuning.share_bin_ns, tuning.share_level_ns)
            cuts = even_cuts(cost, n_threads)
            first = np.asarray(stored.offsets[:-1], np.int64).copy()
            last = first + n_bins
            coded, bundled = stored.column >= 0, stored.first_code > 0
            first[coded] = self._places[stored.column[coded]] + stored.first_code[coded]
            last[coded] = first[coded] + np.where(bundled, stored.n_codes, n_bins)[coded]
            first[stored.first_code == 1] -= 1  # with the code before all features of a bundle, which is nobody's
            begins = np.ones(len(first), np.bool_)
            begins[1:] = first[1:] != last[:-1]
            begins[cuts[cuts < len(first)]] = True
            ends = np.append(begins[1:], True)
            run_cuts = np.append(0, np.cumsum(begins))[cuts]
            runs = np.stack([first[begins], last[ends]], axis=1)
            self._shares[n_threads] = cuts.astype(np.int64), runs.astype(np.int64), run_cuts.astype(np.int64)
        return self._shares[n_threads]
