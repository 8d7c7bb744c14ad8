"""The CPU engine: Numba kernels on all threads that the process may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.dense.outputs import OutputGrowth
from hornbeam.backends.cpu.growth.dense.shared_histograms import SharedHistograms
from hornbeam.backends.cpu.growth.dense.shared_tree import SharedTrees
from hornbeam.backends.cpu.growth.growth import Growth
from hornbeam.backends.cpu.growth.replay import replay
from hornbeam.backends.cpu.growth.routing import find_leaves
from hornbeam.backends.cpu.growth.rows import bags, leaves
from hornbeam.backends.cpu.growth.rows.renewal import renew_leaves
from hornbeam.backends.cpu.growth.rows.rounding import Rounded, quantize
from hornbeam.backends.cpu.growth.slots import Slots
from hornbeam.backends.cpu.growth.sparse.growth import SparseGrowth
from hornbeam.backends.cpu.growth.splits.shared import SharedBins, find_shared
from hornbeam.backends.cpu.growth.trees.leaves import TreeRows, finish
from hornbeam.backends.cpu.host.team import largest_team
from hornbeam.backends.cpu.losses.gradients import gradient_task
from hornbeam.backends.cpu.tuning import Tuning, in_use
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.fixed_point import Quantization, alone
from hornbeam.data.binning import BinnedData
from hornbeam.data.fields import Fields
from hornbeam.metrics.base import Metric
from hornbeam.objectives.base import Objective
from hornbeam.trees.bagging import ROOT_DEPTH, Bag, Draw, Goss, rows_in_bag
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.histogram_pool import host_slot_bytes
from hornbeam.trees.output_splits import OutputsRoot, SharedAhead, find_counter
from hornbeam.trees.records import (
    BinnedTree,
    ChosenRows,
    ContextsAhead,
    FinishedTree,
    ForestMean,
    GrownAhead,
    LeafRenewal,
    Root,
    Segments,
)
from hornbeam.trees.splitting import NodeContext, SplitRules
from hornbeam.trees.steps import expand_in_steps


class CpuEngine:
    """Training state in host memory; see trees/engine.Engine for what each operation does.

    Scores, gradients and leaves are kept here; trees grow in `growth`, which differs for dense and sparse data.
    """

    rounds_are_costly = False
    arrays = None
    device_name = "cpu"
    host_device = "cpu"
    has_own_memory = False

    def __init__(
        self,
        binned: BinnedData,
        num_threads: int = 0,
        tuning: Tuning | None = None,
        make_growth: Callable[[BinnedData, int, int, Tuning], Growth] | None = None,
    ) -> None:
        self.binned = binned
        self.n_rows = binned.n_rows
        self.n_threads = resolve_threads(num_threads)
        self.tuning = in_use() if tuning is None else tuning
        self._n_team = largest_team(self.n_threads, self.tuning)
        make = make_growth or (DenseGrowth if binned.stored is None else SparseGrowth)
        self.growth: Growth = make(binned, self.n_threads, self._n_team, self.tuning)
        self.nodes_are_costly = self.growth.nodes_are_costly
        self.slot_bytes = host_slot_bytes(self.growth.binned)
        self._leaf = np.zeros(self.n_rows, np.uint16)
        self._gradient = np.empty((0, 0))
        self._hessian = np.empty((0, 0))
        self._task_of: tuple[Any, ...] = (None,) * 6  # what _task computes gradients of
        self._valid: list[tuple[BinnedData, NDArray[np.float64]]] = []
        self._bag: Bag | None = None
        self._leaf_sums: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._outputs: OutputGrowth | None = None
        self._shared: SharedHistograms | None = None  # of trees that all outputs share
        self._shared_trees: SharedTrees | None = None
        self._of_outputs: list[Rounded] = []
        self._leaf_value = np.empty(0)  # of a tree that was finished ahead

    @property
    def _histograms(self) -> Slots:
        return self.growth.slots

    def set_scores(self, scores: NDArray[np.float64], valid: int = -1) -> None:
        """Set the raw scores."""
        copied = np.array(scores, np.float64, order="C")
        if valid >= 0:
            self._valid[valid] = self._valid[valid][0], copied
            return
        self._scores = copied

    def scores(self) -> NDArray[np.float64]:
        """Return the raw scores."""
        return self._scores

    def compute_gradients(
        self, objective: Objective, label: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> None:
        """Compute gradients and hessians of all outputs."""
        given = objective, self._scores, label, weight, self._gradient, self._hessian
        if not all(map(is_, given, self._task_of)):
            if self._gradient.shape != self._scores.shape:
                self._gradient, self._hessian = np.empty_like(self._scores), np.empty_like(self._scores)
            self._task_of = objective, self._scores, label, weight, self._gradient, self._hessian
            self._task = gradient_task(*self._task_of, self._n_team)
        self._task()

    def set_gradients(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> None:
        """Take gradients from elsewhere."""
        self._gradient = np.require(gradient, np.float64, ["C", "W"])
        self._hessian = np.require(hessian, np.float64, ["C", "W"])

    def read_gradients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what there is."""
        return self._gradient, self._hessian

    def choose_rows(self, draw: Draw | Goss | None) -> int:
        """Choose the rows of the trees to come."""
        self._bag = None
        if draw is not None:
            self._bag = bags.choose_bag(draw, self._gradient, self._hessian, self.n_rows, self._n_team, self.tuning)
        return self.n_rows if self._bag is None else self._bag.n_in_bag

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features of the trees to come."""
        self.growth.choose_features(features)

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round one output's gradients into the rows' records."""
        gradient, hessian = self._tree_gradient, self._tree_hessian = self._of_tree(output)
        store = self.growth.store
        self.growth.rounded = quantize(store, gradient, hessian, high_precision, self._n_team, self.tuning)
        if self._bag is not None:
            bags.number_records(store, self._bag, self._n_team, self.tuning)
        self.growth.gradients_are_rounded(len(gradient))
        return self.growth.rounded.quantization

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree: the records are in row order already, or in that of the bag."""
        self.growth.begin_tree(n_slots)
        root = self.growth.rounded.root
        return root if self._bag is None else replace(root, depth=ROOT_DEPTH)

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows."""
        self.growth.build(nodes, slots)

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Get the larger children."""
        self.growth.subtract(parent_slots, child_slots)

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
        return self.growth.find_splits(nodes, slots, gradient, hessian, rules, context)

    def left_sets(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return sets of the growing tree."""
        assert self.growth.sets is not None
        return self.growth.sets.sets[numbers]

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places."""
        return self.growth.partition(nodes, splits)

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a round in one go where the nodes are small, else step by step."""
        done = self.growth.expand(batch, rules, max_depth)
        return expand_in_steps(self, batch, rules, max_depth) if done is None else done

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
        renewal: LeafRenewal | None = None,
    ) -> GrownAhead | None:
        """Grow trees whole where that is quicker; leave them to rounds otherwise."""
        if not self.growth.can_grow(limits, contexts is not None):
            return None
        ahead = self.growth.grow(root, rules, limits, meanwhile, contexts)
        if learning_rate is None or renewal is not None or not self._is_small or rules.outputs_in_context:
            return ahead
        store = self.growth.store
        rows = TreeRows(store.even, store.odd, self._tree_gradient, self._tree_hessian, self._leaf)
        finished = finish(ahead, rows, self._largest, self.growth.numbers, learning_rate)
        assert finished.leaves is not None
        self._leaf_value = finished.leaves()[0]
        return finished

    def grow_outputs(
        self, rules: SplitRules, limits: GrowthLimits, n_slots: int, learning_rate: float
    ) -> Sequence[FinishedTree | None]:
        """Grow the trees of small data at once."""
        if self._bag is not None or not isinstance(self.growth, DenseGrowth):
            return ()
        given = self.growth, len(self._gradient), rules, limits, n_slots
        if self._outputs is None or not self._outputs.serves(*given):
            self._outputs = OutputGrowth(*given)
        return self._outputs.grow(self._gradient, self._hessian, self._scores, learning_rate)

    def begin_outputs(self, n_slots: int, high_precision: bool, min_data_in_leaf: int) -> OutputsRoot:
        """Round all outputs, keep that by row, and start a tree."""
        growth, n_outputs = self.growth, len(self._gradient)
        assert isinstance(growth, DenseGrowth)
        if self._shared is None or self._shared.n_outputs != n_outputs:
            self._shared = SharedHistograms(self.n_rows, n_outputs, self.n_threads, self.tuning)
        self._shared.begin()
        self._of_outputs = []
        for output in range(n_outputs):
            self.quantize(output, high_precision)
            self._shared.keep(growth.store, len(self._tree_gradient), output)
            self._of_outputs.append(growth.rounded)
        how = tuple(rounded.quantization for rounded in self._of_outputs)
        self._counter = find_counter(how, min_data_in_leaf)
        self._shared.finish(self._counter == n_outputs)
        growth.store.set_width(False)  # records bring row numbers alone
        sums = np.array([[rounded.root.gradient, rounded.root.hessian] for rounded in self._of_outputs], np.int64)
        root = OutputsRoot(len(self._tree_gradient), sums, how, self._counter, 0 if self._bag is None else ROOT_DEPTH)
        growth.begin_tree(n_slots * root.n_histograms)
        return root

    def grow_shared(
        self,
        table: NDArray[np.void],
        root: OutputsRoot,
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> SharedAhead | None:
        """Grow the tree whole, unless its sums are too large, or its nodes too many."""
        assert isinstance(self.growth, DenseGrowth) and self._shared is not None
        if self._shared_trees is None:
            self._shared_trees = SharedTrees(self.growth)
        return self._shared_trees.grow(table, root, self._of_outputs, self._shared.kept, rules, limits)

    def build_outputs(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the histograms of all outputs, row by row."""
        assert isinstance(self.growth, DenseGrowth) and self._shared is not None
        self._shared.build(self.growth.columns.slots, self.growth.rows, nodes, slots)

    def find_output_splits(
        self, nodes: Segments, slots: NDArray[np.int32], sums: NDArray[np.int64], rules: SplitRules
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Find the best splits for all outputs."""
        growth, how = self.growth, [rounded.quantization for rounded in self._of_outputs]
        assert isinstance(growth, DenseGrowth)
        features = growth.space.features
        bins = SharedBins(
            growth.slots.histograms, np.ascontiguousarray(slots), features.offsets, features.has_missing,
            np.ones(len(features.has_missing), np.bool_),
        )  # fmt: skip
        splits, left = find_shared(bins, how, self._counter, rules, self.n_threads)
        return growth.columns.outside(splits), left

    def choose_output(self, output: int) -> None:
        """Choose the gradients that leaves are summed of."""
        self._leaf_sums, self.growth.rounded = None, self._of_outputs[output]
        self._tree_gradient, self._tree_hessian = self._of_tree(output)

    def _of_tree(self, output: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gradients and hessians of the rows of a tree, in the order of the bag."""
        gradient, hessian = self._gradient[output], self._hessian[output]
        if self._bag is None:
            return gradient, hessian
        return bags.take_gradients(self._bag, gradient, hessian, self._n_team, self.tuning)

    @property
    def _is_small(self) -> bool:
        """Whether one thread tells rows their leaves and sums the leaves in one go; a tree must have all rows then."""
        return self._bag is None and self.n_rows < 4 * self.tuning.summed_rows_per_thread

    def replay(self, nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Replay the growth by the compiled kernel."""
        return replay(nodes, limits)

    def assign_leaves(self, nodes: Segments, leaves_of_nodes: NDArray[np.int32]) -> None:
        """Scatter leaf numbers; on small data the leaves' sums are made at the same time."""
        self._leaf_sums, store = None, self.growth.store
        if self._is_small:
            self._leaf_sums = leaves.assign_and_sum(
                store, nodes, leaves_of_nodes, self._tree_gradient, self._tree_hessian, self._largest, self._leaf
            )
            return
        leaves.assign_leaves(store, nodes, leaves_of_nodes, self._n_team, self.tuning, self._leaf)

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Route the rows that were not chosen."""
        if self._bag is not None:
            find_leaves(self.binned, tree, self._bag.outside, self._n_team, self.tuning, self._leaf)

    def chosen_rows(self) -> ChosenRows:
        """Return the chosen rows."""
        rows = None if self._bag is None else self._bag.inside
        return ChosenRows(rows, self._tree_gradient, self._tree_hessian)

    def row_leaves(self) -> NDArray[np.uint16]:
        """Return the leaf numbers."""
        return self._leaf

    def leaves_in(self, valid: int, tree: BinnedTree) -> NDArray[np.uint16]:
        """Route the rows of a validation set."""
        return self._route(self._valid[valid][0], tree)

    def _route(self, binned: BinnedData, tree: BinnedTree) -> NDArray[np.uint16]:
        leaf = np.empty(binned.n_rows, np.uint16)
        find_leaves(binned, tree, None, self._n_team, self.tuning, leaf)
        return leaf

    def leaf_sums(self, n_leaves: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients per leaf, unless assign_leaves has done so."""
        if self._leaf_sums is not None and len(self._leaf_sums[0]) == n_leaves:
            return self._leaf_sums
        leaf = self._leaf if self._bag is None else self._leaf[self._bag.inside]
        gradients = self._tree_gradient, self._tree_hessian
        return leaves.leaf_sums(*gradients, self._largest, leaf, n_leaves, self._n_team, self.tuning)

    @property
    def _largest(self) -> tuple[float, float]:
        return self.growth.rounded.largest_gradient, self.growth.rounded.largest_hessian

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
        return renew_leaves(*rows, percentile, n_leaves, self.n_threads, logcosh, self.tuning)

    def leaf_values_later(self, n_leaves: int, rules: SplitRules, learning_rate: float) -> None:
        """Leave that to the host."""

    def add_leaf_values(self, output: int, leaf_value: NDArray[np.float64] | None) -> None:
        """Update the scores."""
        self.add_values_of(output, self._leaf, self._leaf_value if leaf_value is None else leaf_value)

    def add_values_of(self, output: int, leaf: NDArray[np.uint16], leaf_value: NDArray[np.float64]) -> None:
        """Update the scores by leaves that are given, those of all rows."""
        leaves.add_leaf_values(self._scores[output], leaf, leaf_value, self._n_team, self.tuning)

    def add_row_values(self, output: int, values: NDArray[np.float64], valid: int = -1) -> None:
        """Update the scores."""
        scores = self._valid[valid][1] if valid >= 0 else self._scores
        scores[output] += values

    def add_valid(self, binned: BinnedData, scores: NDArray[np.float64]) -> int:
        """Keep a validation set."""
        self._valid.append((binned, np.array(scores, np.float64, order="C")))
        return len(self._valid) - 1

    def add_tree(self, valid: int, output: int, tree: BinnedTree) -> None:
        """Update the scores of a validation set, or of the training set."""
        binned, scores = self._valid[valid] if valid >= 0 else (self.binned, self._scores)
        leaf = self._route(binned, tree)
        leaves.add_leaf_values(scores[output], leaf, tree.leaf_value, self._n_team, self.tuning)

    def valid_scores(self, valid: int) -> NDArray[np.float64]:
        """Return the scores of a validation set."""
        return self._valid[valid][1]

    def evaluate(
        self, metric: Metric, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None = None
    ) -> None:
        """Leave it to the caller: the scores are in the host's memory."""

    def gather(self, figures: NDArray[Any]) -> NDArray[Any]:
        """Return them: this engine has all rows."""
        return alone(figures)

    def close(self) -> None:
        """Memory goes with the object."""
