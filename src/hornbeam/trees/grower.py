"""Growing one tree, in rounds.

A round expands many nodes at once:

    choose nodes (frontier.py)  ->  partition their rows  ->  histograms of the smaller children
        ->  larger children by subtraction  ->  best split of every child

The loop knows nodes, slots and integer sums; arithmetic on rows is the engine's. The rows of a node are a segment of
the engine's row list, and its children divide the segment between them:

    places      begin                          end
    parent        [ . . . . . . . . . . . . . . )
    children      [ left . . . . )[ . . . right )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import EXPANSION
from hornbeam.core.fixed_point import Quantization
from hornbeam.core.log import warn
from hornbeam.data.binning import BinnedData
from hornbeam.trees.contexts.forced_splits import ForcedNodes
from hornbeam.trees.contexts.tree_contexts import ContextPlan, TreeContexts, close_bounds, leaf_outputs
from hornbeam.trees.engine import Engine
from hornbeam.trees.frontier import NEVER, GrowthLimits, next_batch
from hornbeam.trees.grown_tree import GrownTree, Setting, l2_of_nodes
from hornbeam.trees.growth_in_turn import grow_in_turn, number_in_turn
from hornbeam.trees.histogram_pool import HistogramPool
from hornbeam.trees.node_search import NodeSearch
from hornbeam.trees.node_table import NodeTable
from hornbeam.trees.records import ContextsAhead, GrownAhead, LeafRenewal, LeavesLater, Segments
from hornbeam.trees.splitting import SplitRules, finished_weight, leaf_output


def renewed_leaves(
    engine: Engine, n_leaves: int, rules: SplitRules, learning_rate: float, renewal: LeafRenewal
) -> LeavesLater:
    """Give leaves other values than the Newton step, of which the engine tells the hessian sums, later if it can.

    Rows have just been told their leaves.
    """
    later = engine.leaf_values_later(n_leaves, rules, learning_rate)
    most = rules.max_delta_step if rules.max_delta_step > 0.0 else np.inf
    given = renewal.output, renewal.percentile, renewal.label, renewal.weight
    found = engine.renew_leaves(*given, n_leaves, renewal.logcosh)
    values = np.minimum(np.maximum(found, -most), most) * learning_rate
    if later is not None:
        return lambda: (values, later()[1])
    weight = engine.leaf_sums(n_leaves)[1]
    return lambda: (values, weight)


class TreeGrower:
    """Grows the trees of one training run on one engine.

    With a plan that needs contexts, an engine that grows no such trees by itself does rounds step by step, and the
    children's contexts are made after partition.
    """

    def __init__(
        self,
        engine: Engine,
        binned: BinnedData,
        rules: SplitRules,
        limits: GrowthLimits,
        n_slots: int,
        plan: ContextPlan | None = None,
    ) -> None:
        self.engine = engine
        self.binned = binned
        self.rules = rules
        self.limits = limits
        self.n_slots = n_slots
        self.plan = plan
        self.level_codes: dict[int, NDArray[np.int32]] = {}
        """Codes in the model of the levels of a categorical feature, where they differ from the bins; by feature."""
        self.while_waiting: Callable[[], None] | None = None
        """What to do while a GPU grows a tree ahead."""
        self._told_of_forced = False

    def grow(
        self,
        quantization: Quantization,
        learning_rate: float,
        iteration: int = 0,
        output: int = 0,
        renewal: LeafRenewal | None = None,
    ) -> GrownTree:
        """Grow a tree on the engine's quantised gradients; leaves every row with its leaf number.

        iteration, output  which tree it is: keys of its random choices
        renewal            gives the leaves' values in place of the Newton step, before max_delta_step and shrinkage
        """
        root = self.engine.begin_tree(self.n_slots)
        pool = HistogramPool(self.n_slots if root.n_slots is None else root.n_slots)
        search = NodeSearch(self.engine, NodeTable(root), pool, self.rules, self.limits)
        plan = self.plan if self.plan is not None and self.plan.needs_context else None
        in_turn = plan is not None and plan.in_turn
        forced = None if plan is None else plan.forced
        ahead = None if plan is not None and plan.by_host else self._grow_ahead(
            search, None if self._has_categories else learning_rate,
            None if plan is None else plan.ahead(iteration, output), renewal,
        )  # fmt: skip
        if ahead is not None and ahead.leaves is not None:
            nodes, numbers = ahead.nodes, ahead.numbers
            return GrownTree(
                self._setting, nodes, ahead.n_splits, lambda: numbers or self.engine.replay(nodes, self.limits),
                ahead.leaves, True, quantization.units, learning_rate,
                ahead.contexts if self.rules.outputs_in_context else None,
            )  # fmt: skip
        if ahead is not None:
            order, leaf_of = number_in_turn(ahead.nodes) if in_turn else self.engine.replay(ahead.nodes, self.limits)
            if np.all(ahead.nodes["left"][order] >= 0):
                return self._finish(ahead.nodes, order, leaf_of, ahead.contexts, quantization, learning_rate, renewal)
        if plan is not None:
            search.contexts = TreeContexts(
                plan, self.rules, quantization, search.nodes, self.binned, iteration, output
            )  # fmt: skip
            if plan.costs is not None:
                plan.costs.begin_tree(self.engine, search.nodes)
        if forced is not None:
            search.forced = ForcedNodes(forced)
        if ahead is not None:
            search.nodes = NodeTable.from_table(ahead.nodes)
            pool.restore(ahead.nodes)
            if search.contexts is not None and ahead.contexts is not None:
                search.contexts.restore(search.nodes, ahead.contexts)
        elif search.splittable(0):
            pool.take(0)
            self.engine.build_histograms(search.nodes.segments([0]), pool.slots([0]))
            search.find_splits([0])
        if in_turn:
            grow_in_turn(search, self.binned.n_numeric)
        else:
            self._expand_nodes(search, plan is not None and plan.all_in_context)
        nodes = search.nodes.table()
        if in_turn:
            order, leaf_of = number_in_turn(nodes)
        else:
            in_order = nodes if search.forced is None else search.forced.in_front(nodes)
            order, leaf_of = self.engine.replay(in_order, self.limits)
        if search.forced is not None:
            self._finish_forced(search.forced, nodes, order)
        table = None if search.contexts is None else search.contexts.table()
        return self._finish(nodes, order, leaf_of, table, quantization, learning_rate, renewal)

    def grow_outputs(self, learning_rate: float) -> Sequence[GrownTree | None]:
        """Grow a tree for each output on the engine's gradients, and add it to the scores, where that goes at once.

        Leaf values are Newton steps. Returns None for an output that has to be quantised and grown by itself; nothing
        where all have to.
        """
        if self._has_categories or (self.plan is not None and self.plan.needs_context):
            return ()
        setting, grown = self._setting, self.engine.grow_outputs(self.rules, self.limits, self.n_slots, learning_rate)
        return [None if tree is None else GrownTree.finished(setting, tree, learning_rate) for tree in grown]

    @property
    def _setting(self) -> Setting:
        return Setting(self.binned, self.rules, self.level_codes)

    @property
    def _has_categories(self) -> bool:
        return self.binned.n_numeric < len(self.binned.used)

    def _grow_ahead(
        self,
        search: NodeSearch,
        learning_rate: float | None,
        contexts: ContextsAhead | None,
        renewal: LeafRenewal | None,
    ) -> GrownAhead | None:
        """Let the engine expand nodes on its own as far as it can, and go on to the leaves if there is a rate."""
        if not search.splittable(0):
            return None
        limits, start = self.limits, search.nodes
        if start.root_depth:
            limits = replace(limits, max_depth=limits.max_depth + start.root_depth)
        return self.engine.grow_ahead(
            start.root_table(), self.rules, limits, learning_rate, self.while_waiting, contexts, renewal
        )

    def _expand_nodes(self, search: NodeSearch, in_context: bool) -> None:
        """Expand nodes round by round until the best n_leaves - 1 are all expanded.

        in_context  whether all nodes have contexts; where none but those of forced splits do, they end with these
        """
        nodes, pool, forced = search.nodes, search.pool, search.forced
        while True:
            batch, bound = next_batch(
                nodes.gain, nodes.priority, nodes.left, search.turns, self.limits, self.engine.rounds_are_costly,
                self.engine.nodes_are_costly,
            )  # fmt: skip
            if not batch:
                return
            if forced is not None and not in_context and forced.is_done(nodes):
                search.contexts = None
            if bound > NEVER:
                pool.release_below(bound, nodes.priority)
            whole = search.contexts is None and len(pool.free) >= len(batch)
            if whole and all(node in pool.slot_of for node in batch):
                self._expand(nodes, batch, pool)
            else:
                search.divide(batch)
                while batch:
                    batch = search.evaluate_children(batch)

    def _expand(self, nodes: NodeTable, batch: list[int], pool: HistogramPool) -> None:
        """Do a whole round in one operation: there is a histogram of every node and a free slot for a child of each."""
        expansions = [nodes.expansion(node, pool.slot_of[node], pool.free[i]) for i, node in enumerate(batch)]
        max_depth = self.limits.max_depth + nodes.root_depth
        n_left, splits = self.engine.expand(np.array(expansions, EXPANSION), self.rules, max_depth)
        first = len(nodes.begin)
        nodes.add_children(batch, n_left.tolist())
        children = list(range(first, len(nodes.begin)))
        nodes.set_splits(children, splits.reshape(-1))
        pool.hand_over(batch, [nodes.halves(node) for node in batch])
        for child in children:
            if nodes.gain[child] == NEVER:
                pool.release(child)

    def _finish_forced(self, forced: ForcedNodes, nodes: NDArray[np.void], order: NDArray[np.int32]) -> None:
        """Give the forced splits of a tree the gains that they have, and say once where some are left out."""
        forced.restore_gains(nodes)
        assert self.plan is not None and self.plan.forced is not None
        n_made, n_given = len(forced.gain.keys() & set(order.tolist())), len(self.plan.forced.all())
        if n_made < n_given and not self._told_of_forced:
            self._told_of_forced = True
            warn(
                f"forcedsplits_filename: a tree has {n_made} of {n_given} splits; the others would leave too little on "
                "a side, gain nothing, or break another limit or constraint (this is said once)"
            )

    def _finish(
        self,
        nodes: NDArray[np.void],
        order: NDArray[np.int32],
        leaf_of: NDArray[np.int32],
        contexts: NDArray[np.void] | None,
        quantization: Quantization,
        learning_rate: float,
        renewal: LeafRenewal | None,
    ) -> GrownTree:
        """Cut the evaluated nodes back to the tree, tell the rows their leaves, and compute the leaf values."""
        n_leaves = len(order) + 1
        if not self.rules.outputs_in_context:
            contexts = None
        elif contexts is not None and self.plan is not None and self.plan.bounds_leaves:
            close_bounds(nodes, contexts)
        ends = np.flatnonzero(nodes["left"] < 0)
        segments = Segments(nodes["begin"][ends], nodes["end"][ends], nodes["depth"][ends])
        self.engine.assign_leaves(segments, leaf_of[ends])
        if self.plan is not None and self.plan.costs is not None:
            self.plan.costs.end_tree(nodes, order, leaf_of)
        later, more_l2 = None, self._leaf_l2(nodes, order, leaf_of)
        if renewal is not None:
            leaves = renewed_leaves(self.engine, n_leaves, self.rules, learning_rate, renewal)
        else:
            if contexts is None and more_l2 is None:
                later = self.engine.leaf_values_later(n_leaves, self.rules, learning_rate)
            leaves = later or self._leaf_values(nodes, order, leaf_of, contexts, more_l2, learning_rate)
        left_sets = self._left_sets(nodes, order)
        return GrownTree(
            self._setting, nodes, len(order), lambda: (order, leaf_of), leaves, later is not None,
            quantization.units, learning_rate, contexts, left_sets,
        )  # fmt: skip

    def _leaf_l2(
        self, nodes: NDArray[np.void], order: NDArray[np.int32], leaf_of: NDArray[np.int32]
    ) -> NDArray[np.float64] | None:
        """Return what is added to lambda_l2 in the leaves' outputs, float64 (n_leaves,); None: nothing to any."""
        if not self._has_categories:
            return None
        of_node = l2_of_nodes(self.binned, nodes, order, self.rules)
        is_leaf = of_node > 0.0
        is_leaf[order] = False
        if not is_leaf.any():
            return None
        found = np.zeros(len(order) + 1)
        found[leaf_of[is_leaf]] = of_node[is_leaf]
        return found

    def _leaf_values(
        self,
        nodes: NDArray[np.void],
        order: NDArray[np.int32],
        leaf_of: NDArray[np.int32],
        contexts: NDArray[np.void] | None,
        more_l2: NDArray[np.float64] | None,
        learning_rate: float,
    ) -> LeavesLater:
        """Compute the leaves' values on the host."""
        leaf_gradient, leaf_weight = self.engine.leaf_sums(len(order) + 1)
        weight = finished_weight(leaf_weight, self.rules)
        if contexts is None:
            added = 0.0 if more_l2 is None else more_l2
            leaf_value = leaf_output(leaf_gradient, weight, self.rules, added) * learning_rate
        else:
            is_split = np.zeros(len(nodes) + 1, bool)
            is_split[order] = is_split[-1] = True  # the parent of the root is -1
            in_tree = np.flatnonzero(is_split[nodes["parent"]])
            leaf_nodes = in_tree[~is_split[in_tree]]
            leaf_nodes = leaf_nodes[np.argsort(leaf_of[leaf_nodes])]
            leaf_value = learning_rate * leaf_outputs(
                nodes, contexts, leaf_nodes, leaf_gradient, weight, self.binned, self.rules
            )
        return lambda: (leaf_value, leaf_weight)

    def _left_sets(self, nodes: NDArray[np.void], order: NDArray[np.int32]) -> NDArray[np.uint32] | None:
        """Return the sets of the nodes that are split, zeros for splits of numbers; None if none is categorical."""
        splits = nodes["split"][order]
        places = np.flatnonzero(splits["feature"] >= self.binned.n_numeric)
        if len(places) == 0:
            return None
        sets = np.zeros((len(order), self.binned.set_words), np.uint32)
        sets[places] = self.engine.left_sets(splits["bin"][places])
        return sets
