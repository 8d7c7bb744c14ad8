"""Growing trees on dense data: when a tree is grown whole, by how many threads, and which features are whose."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.columns import ColumnMaker, Columns
from hornbeam.backends.cpu.growth.dense.histograms import Layout, sum_in_round
from hornbeam.backends.cpu.growth.dense.partition import DenseRows, count_dense, divide_dense, partition
from hornbeam.backends.cpu.growth.dense.running_sums import Planes
from hornbeam.backends.cpu.growth.dense.single_pass import SinglePass
from hornbeam.backends.cpu.growth.dense.tree import Shares, search_in_tree, search_tree_in_context, sum_in_tree
from hornbeam.backends.cpu.growth.growth import Growth, even_cuts
from hornbeam.backends.cpu.growth.rows.rounding import Rounded
from hornbeam.backends.cpu.growth.search import NO_THIN, Conditions
from hornbeam.backends.cpu.growth.splits.levels import Categories
from hornbeam.backends.cpu.growth.trees.driver import Work
from hornbeam.backends.cpu.growth.trees.generations import NO_PLAN, Plan
from hornbeam.backends.cpu.host.operations import Operation, same
from hornbeam.backends.cpu.host.team import ALONE, LINE, Crew, worthwhile
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import GrownAhead, Root, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules
from hornbeam.trees.steps import expand_in_steps


def make_shares(columns: Columns, cuts: NDArray[np.int64], tuning: Tuning) -> Shares:
    """Make the shares of a team: thread t has the features cuts[t]:cuts[t + 1]."""
    offsets, n_threads = columns.offsets, len(cuts) - 1
    steps = [*(1 << level for level in range(n_threads.bit_length())), n_threads]
    first_blocks = np.zeros((len(steps), n_threads + 1), np.int64)
    places = np.empty((len(steps), len(columns.numbers)), np.uint32)
    blocks: list[int] = []
    most = 1
    for level, step in enumerate(steps):
        bounds = [*cuts[:-1:step].tolist(), int(cuts[-1])]
        for group, (first, last) in enumerate(pairwise(bounds)):
            layout = Layout.of(offsets, first, last, tuning.counters_at_once)
            first_blocks[level, group] = len(blocks)
            blocks += layout.blocks.tolist()
            places[level, first:last] = layout.places
            most = max(most, layout.most_counters)
        first_blocks[level, len(bounds) - 1 :] = len(blocks)
    n_shared = n_threads if 1 < n_threads <= tuning.shared_bytes // (8 * max(1, columns.n_bins)) else 0
    return Shares(
        cuts, np.array(blocks, np.int64), first_blocks, places, np.empty((n_threads, most + 16), np.int64),
        np.empty((n_shared, columns.n_bins if n_shared else 0), np.int64), float(tuning.look_cost),
    )  # fmt: skip


class DenseGrowth(Growth):
    """Grows the trees of one training run on dense data."""

    divide_kernel, count_kernel = divide_dense, count_dense
    _rows: DenseRows

    def __init__(self, binned: BinnedData, n_threads: int, n_team: int, tuning: Tuning) -> None:
        super().__init__(binned, n_threads, n_team, tuning)
        self._maker = ColumnMaker(binned, n_threads, n_team, tuning)
        self._scratch = np.empty(binned.n_rows, np.uint8), np.empty((2, n_team, LINE), np.int64)
        self._no_columns = np.empty((0, 0), binned.bins.dtype)
        self._memory = np.empty((2, 0), np.uint8)
        self._planes = Planes(np.empty((0, 0), np.int32), np.empty((0, 0), np.uint32))
        self._level_sums = np.empty((1, 0, 2), np.int64)
        self._sum_in_tree, self._sum_in_round = Operation(sum_in_tree), Operation(sum_in_round)
        self._search_in_tree, self._search_in_context = Operation(search_in_tree), Operation(search_tree_in_context)
        self._row_arrays: tuple[Any, ...] = ()
        self.steps_ns = tuning.dense_steps_ns
        self._use(self._maker.whole)

    def _use(self, columns: Columns) -> None:
        self.columns = self.space = columns
        self.store, self.slots = columns.store, columns.slots

    @property
    def rows(self) -> DenseRows:
        """The rows of the tree."""
        turned, store = self._no_columns if self.columns.turned is None else self.columns.turned, self.store
        arrays = (
            store.bins, store.bins_even, store.bins_odd, store.even, store.odd, store.wide_even, store.wide_odd, turned,
        )  # fmt: skip
        if not same(arrays, self._row_arrays):
            self._row_arrays, self._rows = arrays, DenseRows.of(store, turned, *self._scratch)
        return self._rows

    @property
    def may_copy(self) -> bool:
        """Whether there is memory to have the bins once more, one feature's in a row."""
        tuning, is_mapped = self.tuning, self.binned.mapped is not None
        return self.store.bins.size <= (tuning.most_mapped_cells if is_mapped else tuning.most_cells)

    def rows_in(self, n_leaves: int) -> DenseRows:
        """Return the rows of a tree of so many leaves."""
        return self.rows._replace(by_row=self.stay(n_leaves))

    def turn_columns(self) -> None:
        """Have the bins once more, for whoever divides many nodes."""
        if self.may_copy:
            self._maker.turn(self.columns)

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Copy the chosen columns side by side."""
        self._use(self._maker.whole if features is None else self._maker.take(features))

    def begin_tree(self, n_slots: int) -> None:
        """Start a tree."""
        self._maker.lend_slots(self.columns, n_slots)
        super().begin_tree(n_slots)

    def build(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows."""
        self.columns.slots.build(self.rows, nodes, slots)

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places."""
        return partition(self.rows, nodes, self.columns.inside(splits), self.sides, self.n_threads, self.tuning)

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best splits."""
        return self.columns.outside(super().find_splits(nodes, slots, gradient, hessian, rules, context))

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]] | None:
        """Expand the nodes of a round."""
        done = super().expand(self.columns.inside(batch), rules, max_depth)
        if done is not None:
            return done[0], self.columns.outside(done[1])
        if not SinglePass.serves(self.rows, self.columns.n_bins, self.tuning):
            return None
        return expand_in_steps(SinglePass(self, self.columns, batch, max_depth), batch, rules, max_depth)

    def costs(self, batch: NDArray[np.void]) -> list[float]:
        """Estimate the work of each node."""
        tuning, n_used = self.tuning, len(self.space.numbers)
        of_row = tuning.dense_round_row_ns + n_used * tuning.dense_round_update_ns
        of_bins = self.space.n_bins * tuning.dense_round_bin_ns
        return [n_rows * of_row + of_bins for n_rows in (batch["end"] - batch["begin"]).tolist()]

    def round_work(self, categories: Categories | None) -> Work:
        """Return what threads need to expand nodes."""
        columns, slots, rows = self.columns, self.columns.slots, self.rows
        cuts = np.array([0, len(columns.numbers)])
        sums = self._sum_in_round.on(self.calls, rows, slots.layout, slots.counters, slots.histograms)
        divide, search = self.divide.on(self.calls, ALONE, rows, self.goes_left), self.pair_search(categories)
        return Work(self.calls, cuts, self.numbers, self.goes_left, divide, sums, search)

    # --- whole trees --------------------------------------------------------------------------------------------------

    @property
    def _sum_bytes(self) -> int:
        """Bytes of a running sum: see running_sums.py."""
        small_g = self.rounded.sum_of_magnitudes <= self.tuning.most_narrow_gradients
        return 4 if small_g and self.rounded.root.hessian <= self.tuning.most_narrow_hessians else 8

    def can_grow(self, limits: GrowthLimits, in_context: bool) -> bool:
        """Say whether a tree is small enough, in its sums, in the pool's memory, and to be quicker than in rounds."""
        rounded, tuning = self.rounded, self.tuning
        if (
            rounded.quantization.wide
            or max(rounded.sum_of_magnitudes, rounded.root.hessian) > tuning.most_wide_sums
            or len(self.space.numbers) == 0
            or not self.may_copy
            or limits.n_leaves > min(tuning.most_leaves, self.n_slots * 8 // self._sum_bytes)  # a slot: 16 bytes a bin
        ):
            return False
        if in_context:
            return True
        if self._maker.reads_in_passes:
            return False
        work, n_threads = self.tree_ns(limits), self.team_size(limits)
        rounds = math.log2(limits.n_leaves) * tuning.rounds_ns + work * tuning.rounds_work / self.n_team
        return work / n_threads + (n_threads - 1) * tuning.waking_ns < rounds

    def tree_ns(self, limits: GrowthLimits) -> float:
        """Estimate the nanoseconds of a tree on one thread."""
        levels, n_used, tuning = math.log2(limits.n_leaves), len(self.space.numbers), self.tuning
        updates = (1 + levels * tuning.dense_added_again) * n_used * tuning.dense_update_ns
        work = self.rounded.root.n_rows * (levels * tuning.dense_row_ns + updates)
        return work + 2 * limits.n_leaves * self.space.n_bins * tuning.dense_bin_ns

    def team_size(self, limits: GrowthLimits) -> int:
        """Return how many threads should grow a tree together."""
        return worthwhile(self.tree_ns(limits), min(self.n_team, len(self.space.numbers)), self.tuning)

    def plan(self, limits: GrowthLimits, n_threads: int) -> Plan:
        """Return the plan of a tree that grows by depth."""
        if not limits.depthwise:
            return NO_PLAN
        tuning, n_used = self.tuning, len(self.space.numbers)
        of_row = tuning.dense_row_ns + tuning.dense_added_again * n_used * tuning.dense_update_ns
        node_rows = 2 * self.space.n_bins * tuning.dense_bin_ns / of_row
        return Plan.make(n_threads, limits.n_leaves, node_rows, float(tuning.large_share))

    def beside(self, n_slots: int, limits: GrowthLimits, n_threads: int) -> DenseGrowth | None:
        """Return what grows trees beside this, on some threads, and shares the bins; its sums have 32 bits.

        None: the bins are not the same for all trees, or travel, or some feature is categorical.
        """
        maker, n_rows = self._maker, self.binned.n_rows
        if self.columns is not maker.whole or not self.stay(limits.n_leaves) or self.sets is not None:
            return None
        own = DenseGrowth(self.binned, n_threads, n_threads, self.tuning)
        own._maker.lend_columns(maker.turn(maker.whole))
        own.rounded = Rounded(Quantization(1.0, 1.0, False, 0, 0), Root(n_rows, 0, 0), 0.0, 0.0, 0)
        own.n_slots = n_slots
        return own

    def shares(self, n_threads: int, limits: GrowthLimits) -> Shares:
        """Cut the features into parts that take about as long as each other."""
        columns, tuning = self.columns, self.tuning
        if n_threads not in columns.shares:
            levels = math.log2(limits.n_leaves)
            rows = self.rounded.root.n_rows * (1 + levels * tuning.dense_added_again) / (2 * limits.n_leaves)
            is_number = np.arange(len(columns.numbers)) < columns.n_numeric
            of_bin = np.where(is_number, tuning.dense_bin_ns, tuning.dense_level_ns)
            cost = rows * tuning.dense_update_ns + (columns.n_value_bins + 1.0) * of_bin
            columns.shares[n_threads] = make_shares(columns, even_cuts(cost, n_threads), tuning)
        return columns.shares[n_threads]

    def _make_planes(self, limits: GrowthLimits) -> Planes:
        """Return room for the running sums of a tree."""
        n_bytes, shape = self._sum_bytes, (limits.n_leaves, self.columns.n_bins)
        if self._planes.gradient.shape == shape and self._planes.gradient.itemsize == n_bytes:
            return self._planes
        size = shape[0] * shape[1] * n_bytes
        if len(self._memory[0]) < size:
            self._memory = np.empty((2, size), np.uint8)
        gradient, hessian = self._memory[:, :size]
        self._planes = Planes(gradient.view(f"i{n_bytes}").reshape(shape), hessian.view(f"u{n_bytes}").reshape(shape))
        return self._planes

    def stay(self, n_leaves: int) -> bool:
        """Say whether bins stay in place while a tree is grown; its columns say which way rows go."""
        return self.store.by_row or math.log2(n_leaves) < self.tuning.travelling_levels

    def _needs_gains(self, conditions: Conditions) -> bool:
        """Say whether the search must compute the gain of every candidate, for scores say nothing about it."""
        rules, factors = self.numbers[0], conditions.marks.contribution
        scores_bound = rules["by_scores"] and not rules["extra_trees"] and bool((factors <= 1.0).all())
        return conditions.in_context and not scores_bound

    def tree_work(self, crew: Crew, limits: GrowthLimits, conditions: Conditions) -> Work:
        """Return what a team needs to grow a tree."""
        columns, calls, numbers = self.columns, self.calls, self.numbers
        self._maker.turn(columns)
        rows, offsets = self.rows_in(limits.n_leaves), columns.offsets
        shares, planes = self.shares(crew.size, limits), self._make_planes(limits)
        n_levels = columns.n_bins - int(offsets[columns.n_numeric])
        if self._level_sums.shape[1] != n_levels:
            self._level_sums = np.empty((self.n_threads, n_levels, 2), np.int64)
        categories, counting = conditions.categories, self.counting(conditions.n_counted)
        if categories is not None:
            categories = categories._replace(first_bin=0)
        levels = self.levels(self._level_sums, NO_THIN, categories, counting)
        divide = self.divide.on(calls, crew, rows, self.goes_left)
        sums = self._sum_in_tree.on(calls, crew, rows, shares, offsets, planes)
        search = (self._search_in_context if self._needs_gains(conditions) else self._search_in_tree).on(
            calls, offsets, columns.features.has_missing, planes, columns.scores, self._level_sums, conditions.marks,
            numbers, counting, levels,
        )  # fmt: skip
        return Work(calls, shares.cuts, numbers, self.goes_left, divide, sums, search)

    def grow(self, *arguments: Any) -> GrownAhead:
        """Grow a tree."""
        grown = super().grow(*arguments)
        self.columns.outside(grown.nodes["split"])
        return grown
