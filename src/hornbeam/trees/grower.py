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

from hornbeam.core.dtypes import EXPANSION, NODE, SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.trees.contexts import ContextPlan, TreeContexts, leaf_outputs
from hornbeam.trees.engine import ContextsAhead, Engine, GrownAhead, LeavesLater, Root, Segments
from hornbeam.trees.frontier import NEVER, GrowthLimits, next_batch
from hornbeam.trees.grown_tree import GrownTree, l2_of_nodes
from hornbeam.trees.growth_in_turn import grow_in_turn
from hornbeam.trees.histogram_pool import HistogramPool
from hornbeam.trees.splitting import SplitRules, can_split, finished_weight, leaf_output

Renewal = Callable[[int], NDArray[np.float64]]
"""Number of leaves -> value of each, float64 (n_leaves,), from the rows that were just told their leaves."""


class NodeTable:
    """The nodes of a growing tree, one list a property.

    Plain lists: a tree has a few hundred nodes, touched a few at a time, which costs less than calls of NumPy.

    begin, end         the node's rows: places begin:end of the engine's row list
    gradient, hessian  fixed-point sums
    gain, priority     of the best split; smallest gain on the path from the root; NEVER: cannot be split
    depth, parent      parent -1: the root
    left               -1: not expanded; the right child is left + 1
    split              the best split, (left_gradient, left_hessian, feature, bin, missing_left)
    root_depth         where the engine has the root's rows: what engines see as depth is depth + root_depth
    """

    def __init__(self, root: Root) -> None:
        self.root_depth = root.depth
        self.begin, self.end = [0], [root.n_rows]
        self.gradient, self.hessian = [root.gradient], [root.hessian]
        self.gain, self.priority = [NEVER], [NEVER]
        self.depth, self.parent, self.left = [0], [-1], [-1]
        self.split: list[tuple[int, int, int, int, bool]] = [(0, 0, -1, -1, False)]

    def root_table(self) -> NDArray[np.void]:
        """Return the root, not evaluated yet, as dtypes.NODE (1,): the same as `table`, but quick."""
        root = (
            0, self.end[0], self.gradient[0], self.hessian[0], NEVER, (NEVER, *self.split[0]),
            self.root_depth, -1, -1, 0, -1, 0,
        )  # fmt: skip
        return np.array([root], NODE)

    def table(self) -> NDArray[np.void]:
        """Return all of it as dtypes.NODE (n_nodes,), but for `slot`, `lower` and `chain`, which are 0."""
        table = np.zeros(len(self.begin), NODE)
        for name in ("begin", "end", "gradient", "hessian", "priority", "depth", "parent", "left"):
            table[name] = getattr(self, name)
        table["depth"] += self.root_depth
        table["split"] = self.splits(range(len(self.begin)))
        return table

    @classmethod
    def from_table(cls, table: NDArray[np.void]) -> NodeTable:
        """Make a table from dtypes.NODE (n_nodes,)."""
        nodes = cls(Root(0, 0, 0))
        for name in ("begin", "end", "gradient", "hessian", "priority", "depth", "parent", "left"):
            setattr(nodes, name, table[name].tolist())
        nodes.root_depth = nodes.depth[0]
        nodes.depth = [depth - nodes.root_depth for depth in nodes.depth]
        nodes.gain = table["split"]["gain"].tolist()
        nodes.split = [split[1:] for split in table["split"].tolist()]
        return nodes

    def segments(self, nodes: Sequence[int]) -> Segments:
        """Return the rows of some nodes."""
        return Segments(
            np.array([self.begin[node] for node in nodes], np.int64),
            np.array([self.end[node] for node in nodes], np.int64),
            np.array([self.depth[node] + self.root_depth for node in nodes], np.int32),
        )

    def splits(self, nodes: Sequence[int]) -> NDArray[np.void]:
        """Return the best splits of some nodes, SPLIT (n_nodes,)."""
        return np.array([(self.gain[node], *self.split[node]) for node in nodes], SPLIT)

    def expansion(self, node: int, slot: int, spare_slot: int) -> tuple[int | bool, ...]:
        """Return what `Engine.expand` needs of a node, in the order of dtypes.EXPANSION."""
        left_gradient, left_hessian, feature, bin_, missing_left = self.split[node]
        return (
            self.begin[node], self.end[node], self.gradient[node], self.hessian[node], left_gradient, left_hessian,
            self.depth[node] + self.root_depth, feature, bin_, slot, spare_slot, missing_left,
        )  # fmt: skip

    def halves(self, node: int) -> tuple[int, int]:
        """Return a node's children, the one with fewer rows (the left one of equals) first."""
        left = self.left[node]
        if self.end[left] - self.begin[left] <= self.end[left + 1] - self.begin[left + 1]:
            return left, left + 1
        return left + 1, left

    def add_children(self, parents: Sequence[int], n_left: Sequence[int]) -> None:
        """Enter the two children of each node, of which n_left rows are in the left one."""
        for parent, rows in zip(parents, n_left, strict=True):
            gradient, hessian = self.split[parent][:2]
            middle = self.begin[parent] + rows
            self.left[parent] = len(self.begin)
            self.begin += (self.begin[parent], middle)
            self.end += (middle, self.end[parent])
            self.gradient += (gradient, self.gradient[parent] - gradient)
            self.hessian += (hessian, self.hessian[parent] - hessian)
            self.gain += (NEVER, NEVER)
            self.priority += (NEVER, NEVER)
            self.depth += (self.depth[parent] + 1,) * 2
            self.parent += (parent, parent)
            self.left += (-1, -1)
            self.split += (self.split[0],) * 2

    def set_splits(self, nodes: Sequence[int], splits: NDArray[np.void]) -> None:
        """Enter the best splits of some nodes."""
        for node, (gain, *split) in zip(nodes, splits.tolist(), strict=True):
            parent = self.parent[node]
            self.gain[node] = gain
            self.priority[node] = gain if parent < 0 else min(gain, self.priority[parent])
            self.split[node] = tuple(split)


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
        self._contexts: TreeContexts | None = None  # of the tree that is growing

    def grow(
        self,
        quantization: Quantization,
        learning_rate: float,
        iteration: int = 0,
        output: int = 0,
        renew: Renewal | None = None,
    ) -> GrownTree:
        """Grow a tree on the engine's quantised gradients; leaves every row with its leaf number.

        iteration, output  which tree it is: keys of its random choices
        renew              gives the leaves' values in place of the Newton step, before max_delta_step and shrinkage
        """
        from hornbeam.backends.cpu.growth.replay import replay

        root = self.engine.begin_tree(self.n_slots)
        start = NodeTable(root)
        pool = HistogramPool(self.n_slots if root.n_slots is None else root.n_slots)
        plan = self.plan if self.plan is not None and self.plan.needs_context else None
        self._contexts, ahead = None, None
        if plan is None or not plan.in_turn:
            ahead = self._grow_ahead(
                start, None if renew is not None or self._has_categories else learning_rate,
                None if plan is None else plan.ahead(iteration, output),
            )  # fmt: skip
        if ahead is not None and ahead.leaves is not None:
            nodes = ahead.nodes
            return GrownTree(
                self, nodes, ahead.n_splits, lambda: replay(nodes, self.limits), ahead.leaves, True, quantization,
                learning_rate, ahead.contexts if self.rules.outputs_in_context else None,
            )  # fmt: skip
        if ahead is not None:
            order, leaf_of = replay(ahead.nodes, self.limits)
            if np.all(ahead.nodes["left"][order] >= 0):
                return self._finish(ahead.nodes, order, leaf_of, ahead.contexts, quantization, learning_rate, renew)
        if plan is not None:
            self._contexts = TreeContexts(plan, self.rules, quantization, start, self.binned, iteration, output)
        if ahead is not None:
            start = NodeTable.from_table(ahead.nodes)
            pool.restore(ahead.nodes)
            if self._contexts is not None and ahead.contexts is not None:
                self._contexts.restore(start, ahead.contexts)
        elif self.splittable(start, 0):
            pool.take(0)
            self.engine.build_histograms(start.segments([0]), pool.slots([0]))
            self.find_splits(start, [0], pool)
        if self._contexts is not None and self._contexts.boxes is not None:
            order, leaf_of = grow_in_turn(self, start, pool, self._contexts)
            self._contexts.close_bounds()
            nodes = start.table()
        else:
            nodes = self._expand_nodes(start, pool).table()
            order, leaf_of = replay(nodes, self.limits)
        contexts = None if self._contexts is None else self._contexts.table()
        return self._finish(nodes, order, leaf_of, contexts, quantization, learning_rate, renew)

    @property
    def _has_categories(self) -> bool:
        return self.binned.n_numeric < len(self.binned.used)

    def _grow_ahead(
        self, start: NodeTable, learning_rate: float | None, contexts: ContextsAhead | None
    ) -> GrownAhead | None:
        """Let the engine expand nodes on its own as far as it can, and go on to the leaves if there is a rate."""
        if not self.splittable(start, 0):
            return None
        limits = self.limits
        if start.root_depth:
            limits = replace(limits, max_depth=limits.max_depth + start.root_depth)
        return self.engine.grow_ahead(
            start.root_table(), self.rules, limits, learning_rate, self.while_waiting, contexts
        )

    def _expand_nodes(self, nodes: NodeTable, pool: HistogramPool) -> NodeTable:
        """Expand nodes round by round until the best n_leaves - 1 are all expanded; returns all nodes evaluated."""
        while True:
            batch, bound = next_batch(
                nodes.gain, nodes.priority, nodes.left, nodes.depth, self.limits, self.engine.rounds_are_costly,
                self.engine.nodes_are_costly,
            )  # fmt: skip
            if not batch:
                return nodes
            if bound > NEVER:
                pool.release_below(bound, nodes.priority)
            whole = self._contexts is None and len(pool.free) >= len(batch)
            if whole and all(node in pool.slot_of for node in batch):
                self._expand(nodes, batch, pool)
            else:
                n_left = self.engine.partition(nodes.segments(batch), nodes.splits(batch))
                nodes.add_children(batch, n_left.tolist())
                if self._contexts is not None:
                    self._contexts.add_children(batch)
                while batch:
                    batch = self.evaluate_children(nodes, batch, pool)

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

    def splittable(self, nodes: NodeTable, node: int) -> bool:
        """Say whether a node could have two children at all."""
        n_rows = nodes.end[node] - nodes.begin[node]
        return can_split(n_rows, nodes.hessian[node], nodes.depth[node], self.rules, self.limits.max_depth)

    def evaluate_children(self, nodes: NodeTable, pending: list[int], pool: HistogramPool) -> list[int]:
        """Evaluate the children of as many pending nodes as slots allow; returns the rest."""
        build: list[int] = []
        halves: list[tuple[int, int]] = []  # (larger child, smaller child): the larger one comes by subtraction
        evaluate: list[int] = []
        n_slots = sum(1 if node in pool.slot_of else 2 for node in pending)
        pool.make_room(n_slots, nodes.priority, keep=set(pending))
        done = 0
        for node in pending:
            small, large = nodes.halves(node)
            wanted = [child for child in (small, large) if self.splittable(nodes, child)]
            if large in wanted and node in pool.slot_of:
                if not pool.free:
                    break
                build.append(small)
                halves.append((large, small))
                pool.take(small)
                pool.hand_down(node, large)
            else:  # the larger child is not wanted, or the parent's histogram is gone: sum what is wanted
                pool.release(node)
                if len(pool.free) < len(wanted):
                    break
                build += wanted
                for child in wanted:
                    pool.take(child)
            evaluate += wanted
            done += 1
        if done == 0:  # no slot left beside the pending nodes' own: they have to give theirs up
            pool.make_room(2, nodes.priority, keep={pending[0]})
            if len(pool.free) < 2:
                pool.release(pending[0])
            return pending
        if build:
            self.engine.build_histograms(nodes.segments(build), pool.slots(build))
            if halves:
                larger, smaller = zip(*halves, strict=True)
                self.engine.subtract(pool.slots(larger), pool.slots(smaller))
            self.find_splits(nodes, evaluate, pool)
            for node in set(build).difference(evaluate):
                pool.release(node)
        return pending[done:]

    def find_splits(self, nodes: NodeTable, some: list[int], pool: HistogramPool) -> None:
        """Enter the best splits of some nodes, and free the slots of those that have none."""
        splits = self.engine.find_splits(
            nodes.segments(some),
            pool.slots(some),
            np.array([nodes.gradient[node] for node in some], np.int64),
            np.array([nodes.hessian[node] for node in some], np.int64),
            self.rules,
            None if self._contexts is None else self._contexts.of(some),
        )
        nodes.set_splits(some, splits)
        for node in some:
            if nodes.gain[node] == NEVER:
                pool.release(node)

    def _finish(
        self,
        nodes: NDArray[np.void],
        order: NDArray[np.int32],
        leaf_of: NDArray[np.int32],
        contexts: NDArray[np.void] | None,
        quantization: Quantization,
        learning_rate: float,
        renew: Renewal | None,
    ) -> GrownTree:
        """Cut the evaluated nodes back to the tree, tell the rows their leaves, and compute the leaf values."""
        n_leaves = len(order) + 1
        if not self.rules.outputs_in_context:
            contexts = None
        ends = np.flatnonzero(nodes["left"] < 0)
        segments = Segments(nodes["begin"][ends], nodes["end"][ends], nodes["depth"][ends])
        self.engine.assign_leaves(segments, leaf_of[ends])
        later, more_l2 = None, self._leaf_l2(nodes, order, leaf_of)
        if renew is None and contexts is None and more_l2 is None:
            later = self.engine.leaf_values_later(n_leaves, self.rules, learning_rate)
        leaves = later or self._leaf_values(nodes, order, leaf_of, contexts, more_l2, learning_rate, renew)
        left_sets = self._left_sets(nodes, order)
        return GrownTree(
            self, nodes, len(order), lambda: (order, leaf_of), leaves, later is not None, quantization, learning_rate,
            contexts, left_sets,
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
        renew: Renewal | None,
    ) -> LeavesLater:
        """Compute the leaves' values on the host."""
        n_leaves = len(order) + 1
        leaf_gradient, leaf_weight = self.engine.leaf_sums(n_leaves)
        weight = finished_weight(leaf_weight, self.rules)
        if renew is not None:
            most = self.rules.max_delta_step if self.rules.max_delta_step > 0.0 else np.inf
            leaf_value = np.minimum(np.maximum(renew(n_leaves), -most), most) * learning_rate
        elif contexts is None:
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
