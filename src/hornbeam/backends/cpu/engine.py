"""The CPU engine: Numba kernels on all threads that the process may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth import bag as bags
from hornbeam.backends.cpu.growth import leaves, stored_rows
from hornbeam.backends.cpu.growth.columns import Columns, SomeColumns
from hornbeam.backends.cpu.growth.partition import partition
from hornbeam.backends.cpu.growth.quantize import quantize
from hornbeam.backends.cpu.growth.renewal import renew_leaves
from hornbeam.backends.cpu.growth.replay import replay
from hornbeam.backends.cpu.growth.split_categorical import CategoricalFinder, Round
from hornbeam.backends.cpu.growth.split_general import find_general
from hornbeam.backends.cpu.host.team import largest_team
from hornbeam.backends.cpu.losses.gradients import compute_gradients
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.data.fields import Fields
from hornbeam.metrics.base import Metric
from hornbeam.objectives.base import Objective
from hornbeam.trees.bagging import ROOT_DEPTH, Bag, Draw, Goss, rows_in_bag
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.histogram_pool import host_slot_bytes
from hornbeam.trees.records import BinnedTree, ContextsAhead, ForestMean, GrownAhead, Root, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules
from hornbeam.trees.steps import expand_in_steps


class CpuEngine:
    """Training state in host memory; see protocol.Engine for what each operation does."""

    rounds_are_costly = False
    nodes_are_costly = False
    arrays = None
    device_name = "cpu"
    host_device = "cpu"
    has_own_memory = False

    def __init__(self, binned: BinnedData, num_threads: int = 0) -> None:
        self.binned = binned
        self.n_rows = binned.n_rows
        self.slot_bytes = host_slot_bytes(binned)
        self.n_threads = resolve_threads(num_threads)
        self._n_team = largest_team(self.n_threads)
        self._prepare()
        self._categories: CategoricalFinder | None = None
        if binned.n_numeric < binned.n_used:
            most_bins = int(binned.n_value_bins[binned.n_numeric :].max()) + 1
            self._categories = CategoricalFinder(binned.set_words, most_bins, self.n_threads)
        self._leaf = np.zeros(self.n_rows, np.uint16)
        self._gradient = np.empty((0, 0))
        self._hessian = np.empty((0, 0))
        self._valid: list[tuple[BinnedData, NDArray[np.float64]]] = []
        self._bag: Bag | None = None
        self._leaf_sums: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def _prepare(self) -> None:
        """Make what depends on how bins are stored."""
        self._whole = Columns.whole(self.binned, self.n_threads)
        self._some = SomeColumns(self.binned, self._whole.room, self.n_threads)
        self._use(self._whole)

    def _use(self, columns: Columns) -> None:
        """Let the operations work on these columns."""
        self._columns = columns
        self._store = columns.store
        self._histograms = columns.histograms

    def set_scores(self, scores: NDArray[np.float64], valid: int = -1) -> None:
        """Set the raw scores."""
        own = np.array(scores, np.float64, order="C")
        if valid >= 0:
            self._valid[valid] = self._valid[valid][0], own
            return
        self._scores = own

    def scores(self) -> NDArray[np.float64]:
        """Return the raw scores."""
        return self._scores

    def compute_gradients(
        self, objective: Objective, label: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> None:
        """Compute gradients and hessians of all outputs."""
        if self._gradient.shape != self._scores.shape:
            self._gradient, self._hessian = np.empty_like(self._scores), np.empty_like(self._scores)
        compute_gradients(objective, self._scores, label, weight, self._gradient, self._hessian, self._n_team)

    def set_gradients(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> None:
        """Take gradients from elsewhere."""
        self._gradient = np.ascontiguousarray(gradient, np.float64)
        self._hessian = np.ascontiguousarray(hessian, np.float64)

    def choose_rows(self, draw: Draw | Goss | None) -> int:
        """Choose the rows of the trees to come."""
        self._bag = None
        if draw is not None:
            self._bag = bags.choose_bag(draw, self._gradient, self._hessian, self.n_rows, self.n_threads)
        return self.n_rows if self._bag is None else self._bag.n_in_bag

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Copy the chosen columns side by side."""
        self._use(self._whole if features is None else self._some.take(features))

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round one output's gradients into the rows' records."""
        self._tree_gradient, self._tree_hessian = self._gradient[output], self._hessian[output]
        if self._bag is not None:
            self._tree_gradient, self._tree_hessian = bags.take_gradients(
                self._bag, self._tree_gradient, self._tree_hessian, self.n_threads
            )
        self._rounded = quantize(self._store, self._tree_gradient, self._tree_hessian, high_precision, self._n_team)
        if self._bag is not None:
            bags.number_records(self._store, self._bag, self.n_threads)
        return self._rounded.quantization

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree: the records are in row order already, or in that of the bag."""
        self._n_slots = n_slots
        if not self._columns.is_whole:
            self._some.lend_slots(self._columns, n_slots)
        self._histograms.set_slots(n_slots)
        if self._categories is not None:
            self._categories.begin_tree()
        root = self._rounded.root
        return root if self._bag is None else replace(root, depth=ROOT_DEPTH)

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows."""
        self._histograms.build(self._store, nodes, slots)

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Get the larger children."""
        self._histograms.subtract(parent_slots, child_slots)

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
        columns, quantization = self._columns, self._rounded.quantization
        given = columns.store, columns.histograms.histograms, nodes, slots, gradient, hessian
        if context is None:
            best = columns.splits.find(*given, quantization, rules)
        else:
            bins = columns.splits.offsets, columns.splits.has_missing, columns.features[: columns.n_numeric]
            best = find_general(*given, *bins, quantization, rules, context, self.n_threads)
        if self._categories is not None:
            where = columns.offsets, columns.n_numeric, columns.features
            self._categories.improve(*given, *where, quantization, rules, context, best)
        return columns.outside(best)

    def left_sets(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return sets of the growing tree."""
        assert self._categories is not None
        return self._categories.sets[numbers]

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places."""
        columns, own = self._columns, self._categories
        sets = None if own is None else (own.sets, columns.n_numeric)
        return partition(columns.store, nodes, columns.inside(splits), columns.n_value_bins, self.n_threads, sets)

    def _for_round(self, n_nodes: int, rules: SplitRules) -> Round | None:
        """Return what a kernel needs that searches so many nodes; None: the tree has no categorical features."""
        columns = self._columns
        if self._categories is None or columns.n_numeric == len(columns.features):
            return None
        where = columns.offsets, columns.n_numeric, columns.features
        return self._categories.for_round(n_nodes, *where, self._rounded.quantization, rules)

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a round in one go where the nodes are many and small, else step by step."""
        columns = self._columns
        bounds = columns.expander.deal(batch) if columns.n_numeric > 0 else None
        if bounds is None:
            return expand_in_steps(self, batch, rules, max_depth)
        quantization = self._rounded.quantization
        categories = self._for_round(2 * len(batch), rules)
        n_left, splits = columns.expander.expand(
            columns.store, columns.inside(batch), bounds, quantization, rules, max_depth, categories
        )
        return n_left, columns.outside(splits)

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
    ) -> GrownAhead | None:
        """Grow trees whole where that is quicker; leave them to rounds otherwise, and where nodes have contexts."""
        columns = self._columns
        if contexts is not None or not columns.whole_tree.can_grow(columns.store, self._rounded, limits, self._n_slots):
            return None
        n_threads = columns.whole_tree.team(limits, self._rounded.root.n_rows)
        categories = self._for_round(n_threads * (2 * limits.n_leaves - 1), rules)
        nodes = columns.whole_tree.grow(columns.store, root, self._rounded, rules, limits, meanwhile, categories)
        columns.outside(nodes["split"])
        return GrownAhead(nodes)

    def replay(self, nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Replay the growth by the compiled kernel."""
        return replay(nodes, limits)

    def assign_leaves(self, nodes: Segments, leaves_of_nodes: NDArray[np.int32]) -> None:
        """Scatter leaf numbers; on small data the leaves' sums are made at the same time."""
        self._leaf_sums = None
        if self._bag is None and self.n_rows < 4 * leaves.ROWS_PER_THREAD:
            self._leaf_sums = leaves.assign_and_sum(
                self._store, nodes, leaves_of_nodes, self._tree_gradient, self._tree_hessian, self._largest, self._leaf
            )
            return
        leaves.assign_leaves(self._store, nodes, leaves_of_nodes, self._n_team, self._leaf)

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Route the rows that were not chosen."""
        if self._bag is not None:
            bags.find_leaves(self.binned, tree, self._bag.outside, self.n_threads, self._leaf)

    def leaf_sums(self, n_leaves: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients per leaf, unless assign_leaves has done so."""
        if self._leaf_sums is not None and len(self._leaf_sums[0]) == n_leaves:
            return self._leaf_sums
        leaf = self._leaf if self._bag is None else self._leaf[self._bag.inside]
        return leaves.leaf_sums(self._tree_gradient, self._tree_hessian, self._largest, leaf, n_leaves, self._n_team)

    @property
    def _largest(self) -> tuple[float, float]:
        return self._rounded.largest_gradient, self._rounded.largest_hessian

    def renew_leaves(
        self,
        output: int,
        percentile: float,
        label: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        n_leaves: int,
        logcosh: bool = False,
    ) -> NDArray[np.float64]:
        """Find the percentile, or the minimum, of each leaf's residuals."""
        rows = rows_in_bag(self._bag, self._scores[output], label, weight, self._leaf)
        return renew_leaves(*rows, percentile, n_leaves, self.n_threads, logcosh)

    def leaf_values_later(self, n_leaves: int, rules: SplitRules, learning_rate: float) -> None:
        """Leave that to the host."""

    def add_leaf_values(self, output: int, leaf_value: NDArray[np.float64] | None) -> None:
        """Update the scores."""
        assert leaf_value is not None
        leaves.add_leaf_values(self._scores[output], self._leaf, leaf_value, self._n_team)

    def add_valid(self, binned: BinnedData, scores: NDArray[np.float64]) -> int:
        """Keep a validation set."""
        self._valid.append((binned, np.array(scores, np.float64, order="C")))
        return len(self._valid) - 1

    def add_tree(self, valid: int, output: int, tree: BinnedTree) -> None:
        """Update the scores of a validation set, or of the training set."""
        binned, scores = self._valid[valid] if valid >= 0 else (self.binned, self._scores)
        if binned.stored is not None:
            bins = binned.n_value_bins, binned.n_numeric
            stored_rows.add_tree(binned.stored, *bins, tree, scores[output], self.n_threads)
            return
        leaves.add_tree(binned, tree, scores[output], self.n_threads)

    def valid_scores(self, valid: int) -> NDArray[np.float64]:
        """Return the scores of a validation set."""
        return self._valid[valid][1]

    def evaluate(
        self, metric: Metric, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None = None
    ) -> None:
        """Leave it to the caller: the scores are in the host's memory."""

    def close(self) -> None:
        """Memory goes with the object."""
