"""The best splits of nodes: which children get a histogram, where it comes from, and what is found in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hornbeam.trees.contexts.forced_splits import ForcedNodes
from hornbeam.trees.contexts.tree_contexts import TreeContexts
from hornbeam.trees.engine import Growth
from hornbeam.trees.frontier import NEVER, GrowthLimits
from hornbeam.trees.histogram_pool import HistogramPool
from hornbeam.trees.node_table import NodeTable
from hornbeam.trees.splitting import NodeContext, SplitRules, can_split


@dataclass(slots=True)
class NodeSearch:
    """Searches the nodes of one tree.

    engine    what knows their rows
    nodes     the table that splits are entered into
    pool      slots of histograms
    contexts  of the nodes, where they have some
    forced    splits that the tree begins with, where there are some; nodes have contexts then
    """

    engine: Growth
    nodes: NodeTable
    pool: HistogramPool
    rules: SplitRules
    limits: GrowthLimits
    contexts: TreeContexts | None = None
    forced: ForcedNodes | None = None

    def splittable(self, node: int) -> bool:
        """Say whether a node could have two children at all."""
        nodes = self.nodes
        n_rows = nodes.end[node] - nodes.begin[node]
        return can_split(n_rows, nodes.hessian[node], nodes.depth[node], self.rules, self.limits.max_depth)

    @property
    def turns(self) -> Sequence[int]:
        """The level in whose turn depth-wise growth takes each node."""
        return self.nodes.depth if self.forced is None else self.forced.turns(self.nodes.depth)

    def divide(self, some: list[int]) -> None:
        """Move the rows of some nodes to their children, and enter these; they have no splits yet."""
        nodes = self.nodes
        n_left = self.engine.partition(nodes.segments(some), nodes.splits(some))
        nodes.add_children(some, n_left.tolist())
        if self.contexts is not None:
            self.contexts.add_children(some)
        if self.forced is not None:
            self.forced.add_children(some, nodes)

    def evaluate_children(self, pending: list[int]) -> list[int]:
        """Evaluate the children of as many pending nodes as slots allow; returns the rest."""
        nodes, pool = self.nodes, self.pool
        build: list[int] = []
        halves: list[tuple[int, int]] = []  # (larger child, smaller child): the larger one comes by subtraction
        evaluate: list[int] = []
        n_slots = sum(1 if node in pool.slot_of else 2 for node in pending)
        pool.make_room(n_slots, nodes.priority, keep=set(pending))
        done = 0
        for node in pending:
            small, large = nodes.halves(node)
            wanted = [child for child in (small, large) if self.splittable(child)]
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
            self.find_splits(evaluate)
            for node in set(build).difference(evaluate):
                pool.release(node)
        return pending[done:]

    def find_splits(self, some: list[int]) -> None:
        """Enter the forced or else the best splits of some nodes, and free the slots of those that have none."""
        contexts, others = self.contexts, self._find_forced(some)
        if others:
            self._find(others, self.rules, None if contexts is None else contexts.of(others))
        for node in some:
            if self.nodes.gain[node] == NEVER:
                self.pool.release(node)

    def _find_forced(self, some: list[int]) -> list[int]:
        """Enter the forced splits of some nodes; returns the nodes that have none."""
        forced = self.forced
        wanting = [] if forced is None else [node for node in some if node in forced.wanted]
        if forced is None or not wanting:
            return some
        assert self.contexts is not None
        context = self.contexts.of_forced(wanting, [forced.wanted[node] for node in wanting])
        self._find(wanting, replace(self.rules, extra_trees=True), context)
        forced.settle(wanting, self.nodes)
        return [node for node in some if node not in forced.wanted]

    def _find(self, some: list[int], rules: SplitRules, context: NodeContext | None) -> None:
        """Enter the best splits of some nodes."""
        nodes = self.nodes
        splits = self.engine.find_splits(
            nodes.segments(some),
            self.pool.slots(some),
            np.array([nodes.gradient[node] for node in some], np.int64),
            np.array([nodes.hessian[node] for node in some], np.int64),
            rules,
            context,
        )
        nodes.set_splits(some, splits)
