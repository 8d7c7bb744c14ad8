"""Growing a tree that all outputs share: one structure, and a value of each output in every leaf.

It becomes a tree for each output with the same splits and other values, so that whatever works with trees works with
these. Growth is that of grower.py: by the engine on its own, or in rounds, by its single operations. A node has a
histogram for each output, and perhaps one that counts rows:

    slots   histogram k of the node in slot s of the pool has the engine's slot s * n_histograms + k
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.binning import BinnedData
from hornbeam.trees.engine import Engine
from hornbeam.trees.frontier import NEVER, GrowthLimits, next_batch
from hornbeam.trees.grower import renewed_leaves
from hornbeam.trees.grown_tree import GrownTree, Numbering, Setting
from hornbeam.trees.histogram_pool import HistogramPool
from hornbeam.trees.node_search import NodeSearch
from hornbeam.trees.node_table import NodeTable
from hornbeam.trees.output_splits import OutputsRoot, SharedAhead
from hornbeam.trees.records import LeafRenewal, LeavesLater, Root, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, finished_weight, leaf_output


class OutputHistograms:
    """The histograms of a tree that all outputs share, as a search asks for them: by the slots of its pool."""

    def __init__(self, engine: Engine, root: OutputsRoot) -> None:
        self._engine, self._places = engine, np.arange(root.n_histograms, dtype=np.int32)

    def slots(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the engine's slots of each node, int32 (n_nodes, n_histograms)."""
        return slots[:, None] * np.int32(len(self._places)) + self._places

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum all histograms of some nodes."""
        self._engine.build_outputs(nodes, self.slots(slots))

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Replace all histograms of each parent by those of its other child."""
        self._engine.subtract(self.slots(parent_slots).reshape(-1), self.slots(child_slots).reshape(-1))


class OutputSearch(NodeSearch):
    """Searches the nodes of a tree that all outputs share.

    sums       int64 (n_outputs, 2) of each node, by its number: the table has none
    left_sums  the same of the left child at the best split
    """

    def __init__(
        self, engine: Engine, root: OutputsRoot, rules: SplitRules, limits: GrowthLimits, n_slots: int
    ) -> None:
        whole = n_slots * root.n_histograms if root.n_slots is None else root.n_slots
        pool = HistogramPool(whole // root.n_histograms)
        self.histograms = OutputHistograms(engine, root)
        nodes = NodeTable(Root(root.n_rows, 0, 0, root.depth))
        super().__init__(self.histograms, nodes, pool, rules, limits)  # type: ignore[arg-type]  # as far as it asks
        self.outputs = engine
        self.sums: list[NDArray[np.int64]] = [root.sums]
        self.left_sums: dict[int, NDArray[np.int64]] = {}

    def go_on(self, ahead: SharedAhead) -> None:
        """Take over what the engine has grown."""
        assert ahead.left is not None
        self.nodes = NodeTable.from_table(ahead.nodes)
        self.pool.restore(ahead.nodes)
        self.sums, self.left_sums = list(ahead.sums()), dict(enumerate(ahead.left))

    def splittable(self, node: int) -> bool:
        """Say whether a node could have two children at all."""
        nodes, rules = self.nodes, self.rules
        n_rows = nodes.end[node] - nodes.begin[node]
        return n_rows >= 2 * rules.min_data_in_leaf and nodes.depth[node] < self.limits.max_depth

    def divide(self, some: list[int]) -> None:
        """Move the rows of some nodes to their children, and enter these; they have no splits yet."""
        nodes = self.nodes
        n_left = self.outputs.partition(nodes.segments(some), nodes.splits(some))
        nodes.add_children(some, n_left.tolist())
        for node in some:
            left = self.left_sums.pop(node)
            self.sums += (left, self.sums[node] - left)

    def _find(self, some: list[int], rules: SplitRules, context: NodeContext | None) -> None:
        """Enter the best splits of some nodes."""
        nodes = self.nodes
        sums, slots = np.stack([self.sums[node] for node in some]), self.histograms.slots(self.pool.slots(some))
        splits, left = self.outputs.find_output_splits(nodes.segments(some), slots, sums, rules)
        nodes.set_splits(some, splits)
        self.left_sums.update(zip(some, left, strict=True))


@dataclass(frozen=True, slots=True)
class SharedStructure:
    """The splits of a tree that all outputs share; its rows know their leaves.

    nodes      NODE (n_nodes,)
    sums       what brings int64 (n_nodes, n_outputs, 2)
    numbering  what brings what replay.py returns
    leaves     of all outputs, where the engine has computed them; None: they are asked for one by one
    """

    root: OutputsRoot
    nodes: NDArray[np.void]
    n_splits: int
    sums: Callable[[], NDArray[np.int64]]
    numbering: Numbering
    leaves: LeavesLater | None = None


class OutputGrower:
    """Grows the trees that all outputs share, of one training run on one engine.

    n_slots  nodes whose histograms are kept
    """

    def __init__(
        self, engine: Engine, binned: BinnedData, rules: SplitRules, limits: GrowthLimits, n_slots: int
    ) -> None:
        self.engine, self.binned, self.rules, self.limits, self.n_slots = engine, binned, rules, limits, n_slots

    def grow(
        self,
        high_precision: bool,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> SharedStructure:
        """Grow a tree on the engine's gradients of all outputs; leaves every row with its leaf number.

        learning_rate, meanwhile  see engine.OutputGrowth.grow_shared
        """
        root = self.engine.begin_outputs(self.n_slots, high_precision, self.rules.min_data_in_leaf)
        search = OutputSearch(self.engine, root, self.rules, self.limits, self.n_slots)
        ahead = self._grow_ahead(root, search, learning_rate, meanwhile) if search.splittable(0) else None
        if ahead is not None:
            grown = self._finished_ahead(root, ahead)
            if grown is not None:
                return grown
            search.go_on(ahead)
        elif search.splittable(0):
            search.pool.take(0)
            search.histograms.build_histograms(search.nodes.segments([0]), search.pool.slots([0]))
            search.find_splits([0])
        self._grow_in_rounds(search)
        sums = np.stack(search.sums)
        grown = self._finished(root, search.nodes.table(), lambda: sums)
        assert grown is not None
        return grown

    def _grow_ahead(
        self,
        root: OutputsRoot,
        search: OutputSearch,
        learning_rate: float | None,
        meanwhile: Callable[[], None] | None,
    ) -> SharedAhead | None:
        """Let the engine grow the tree on its own; a node has the sums of all outputs together."""
        table, limits = search.nodes.root_table(), self.limits
        table["gradient"], table["hessian"] = root.sums.sum(axis=0)
        if root.depth:
            limits = replace(limits, max_depth=limits.max_depth + root.depth)
        return self.engine.grow_shared(table, root, self.rules, limits, learning_rate, meanwhile)

    def _grow_in_rounds(self, search: OutputSearch) -> None:
        """Grow the tree to its end by single operations."""
        nodes, pool = search.nodes, search.pool
        while True:
            costs = self.engine.rounds_are_costly, self.engine.nodes_are_costly
            batch, bound = next_batch(nodes.gain, nodes.priority, nodes.left, search.turns, self.limits, *costs)
            if not batch:
                return
            if bound > NEVER:
                pool.release_below(bound, nodes.priority)
            search.divide(batch)
            while batch:
                batch = search.evaluate_children(batch)

    def _finished_ahead(self, root: OutputsRoot, ahead: SharedAhead) -> SharedStructure | None:
        """Do the same with what an engine has grown, which may have told the rows itself."""
        nodes = ahead.nodes
        if ahead.leaves is None:
            return self._finished(root, nodes, ahead.sums)
        numbering, leaves = cache(lambda: self.engine.replay(nodes, self.limits)), cache(ahead.leaves)
        return SharedStructure(root, nodes, ahead.n_splits, cache(ahead.sums), numbering, leaves)

    def _finished(
        self, root: OutputsRoot, table: NDArray[np.void], sums: Callable[[], NDArray[np.int64]]
    ) -> SharedStructure | None:
        """Tell the rows their leaves, if all nodes are expanded that the tree splits; None: they are not."""
        order, leaf_of = self.engine.replay(table, self.limits)
        if not np.all(table["left"][order] >= 0):
            return None
        ends = np.flatnonzero(table["left"] < 0)
        segments = Segments(table["begin"][ends], table["end"][ends], table["depth"][ends])
        self.engine.assign_leaves(segments, leaf_of[ends])
        return SharedStructure(root, table, len(order), cache(sums), lambda: (order, leaf_of))

    def tree(self, grown: SharedStructure, output: int, learning_rate: float, renewal: LeafRenewal | None) -> GrownTree:
        """Return the tree of one output; rows have the leaf numbers of this structure still.

        renewal  gives the leaves' values in place of the Newton step, before max_delta_step and shrinkage
        """
        return GrownTree(
            Setting(self.binned, self.rules, {}), grown.nodes, grown.n_splits, grown.numbering,
            *self._leaves(grown, output, learning_rate, renewal), grown.root.quantizations[output].units, learning_rate,
            sums=lambda: grown.sums()[:, output],
        )  # fmt: skip

    def _leaves(
        self, grown: SharedStructure, output: int, learning_rate: float, renewal: LeafRenewal | None
    ) -> tuple[LeavesLater, bool]:
        """Return what brings the values and hessian sums of the leaves of one output; whether the engine has them."""
        of_all, n_leaves, rules = grown.leaves, grown.n_splits + 1, self.rules
        if of_all is not None:
            return lambda: (of_all()[0][output], of_all()[1][output]), True
        self.engine.choose_output(output)
        if renewal is not None:
            return renewed_leaves(self.engine, n_leaves, rules, learning_rate, renewal), False
        later = self.engine.leaf_values_later(n_leaves, rules, learning_rate)
        if later is not None:
            return later, True
        gradient, weight = self.engine.leaf_sums(n_leaves)
        value = leaf_output(gradient, finished_weight(weight, rules), rules) * learning_rate
        return lambda: (value, weight), False
