"""The trees of an iteration in one go (trees/outputs.py): whether that can be, by how many threads, what they need."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.search import Conditions
from hornbeam.backends.cpu.growth.splits.contexts import NO_MARKS
from hornbeam.backends.cpu.growth.trees.driver import tree_table
from hornbeam.backends.cpu.growth.trees.outputs import (
    Bounds,
    Grown,
    Iteration,
    Memory,
    grow_output,
    grow_outputs_kernel,
)
from hornbeam.backends.cpu.host.atomics import ROOM
from hornbeam.backends.cpu.host.operations import Operation
from hornbeam.backends.cpu.host.team import ALONE, Team, team, worthwhile
from hornbeam.core.dtypes import NODE
from hornbeam.core.fixed_point import exact_bits
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import FinishedTree
from hornbeam.trees.splitting import SplitRules

Arrays = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Gradients, hessians and scores: see Iteration."""

ROOM_BYTES = 1 << 19
"""Nodes of the trees that there is room for, unless one iteration needs more."""


class OutputGrowth:
    """Grows the trees of all outputs at once, on all rows and features of small data without categories.

    What threads need is prepared once, for as many iterations as it is in use. Each thread grows trees alone, or, where
    a team is quicker, all grow each tree together.

    growth  what grows single trees of the training; its features are those of the trees to come
    """

    def __init__(
        self, growth: DenseGrowth, n_outputs: int, rules: SplitRules, limits: GrowthLimits, n_slots: int
    ) -> None:
        self._made_for = growth.space, n_outputs, rules, limits, n_slots
        self._n_outputs, self._limits = n_outputs, limits
        self._crew = ALONE
        self._growths = self._choose(growth, limits, n_slots)
        self._rooms = np.zeros((len(self._growths), ROOM), np.int64)
        self._operations = [Operation(grow_output, room) for room in self._rooms]
        self._rate, self._first, self._taken = np.empty(1), np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._arrays: Arrays | None = None
        self._next = self._n_trees = 0  # among those that there is room for
        self._given = [self._prepare(own, rules) for own in self._growths]

    def serves(self, growth: DenseGrowth, *given: object) -> bool:
        """Say whether it was made for such arguments."""
        return self._made_for == (growth.space, *given)

    def _choose(self, growth: DenseGrowth, limits: GrowthLimits, n_slots: int) -> list[DenseGrowth]:
        """Return what each crew grows its trees by; none where a tree at a time has to be."""
        tuning, n_outputs = growth.tuning, self._n_outputs
        n_rows, n_bytes = growth.binned.n_rows, n_outputs * 2 * limits.n_leaves * NODE.itemsize
        most_rows = tuning.rows_at_once if growth.n_team == 1 else tuning.rows_at_once_by_team
        if not 0 < n_rows <= most_rows or n_bytes > tuning.nodes_at_once_bytes:
            return []
        first = growth.beside(n_slots, limits, 1)
        if first is None or not first.can_grow(limits, False):
            return []
        work, most = first.tree_ns(limits), growth.n_team
        n_threads = worthwhile(n_outputs * work, min(most, n_outputs), tuning)
        n_together = worthwhile(work, min(most, len(first.space.numbers)), tuning)
        if n_threads < n_together:
            self._crew = Team(n_together).crew
            n_threads, first = 1, growth.beside(n_slots, limits, n_together)
        others = [growth.beside(n_slots, limits, 1) for _ in range(n_threads - 1)]
        return [own for own in (first, *others) if own is not None]

    def _prepare(self, own: DenseGrowth, rules: SplitRules) -> tuple[Any, ...]:
        """Return what a crew needs in all iterations, as grow_output takes it."""
        n_rows, tuning, limits, n_threads = own.binned.n_rows, own.tuning, self._limits, self._crew.size
        own.set_rules(rules)
        work = own.tree_work(self._crew, limits, Conditions(NO_MARKS, False, 0, None))
        table, numbered_limits = tree_table(np.zeros(1, NODE), limits, n_threads, own.sides)
        table = table._replace(plan=own.plan(limits, n_threads))
        bounds = Bounds(tuning.most_narrow_gradients, tuning.most_narrow_hessians, exact_bits(n_rows))
        grow = own.growing(self._crew, work, table, numbered_limits)
        return Memory.make(own.store, n_threads), work.rules, table, numbered_limits, bounds, grow

    def _introduce(self, arrays: Arrays) -> None:
        """Tell the operation of each thread what it works on, with room for the trees to come."""
        self._arrays = arrays
        n_outputs, n_leaves = self._n_outputs, self._limits.n_leaves
        if self._next == self._n_trees:
            self._n_trees = n_outputs * max(1, ROOM_BYTES // (2 * n_leaves * NODE.itemsize * n_outputs))
            self._grown, self._next = Grown.make(self._n_trees, n_leaves), 0
        iteration = Iteration(*arrays, self._rate, self._first)
        for operation, given in zip(self._operations, self._given, strict=True):
            operation.on(self._crew, iteration, self._grown, *given)

    def grow(
        self,
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
        scores: NDArray[np.float64],
        learning_rate: float,
    ) -> Sequence[FinishedTree | None]:
        """See engine.Engine.grow_outputs; arrays as in Iteration."""
        if not self._growths:
            return ()
        arrays, size = (gradient, hessian, scores), max(len(self._growths), self._crew.size)
        if size == 1:
            self._make_ready(arrays, learning_rate)
            grow_outputs_kernel(0, ALONE, self._rooms, self._taken, self._n_outputs)
        else:
            with team(size) as some:
                if some.size < self._crew.size:
                    return ()  # there is another team, and this one would wait for threads that it has not
                with some.interruptible():
                    self._make_ready(arrays, learning_rate)
                some.run(grow_outputs_kernel, self._rooms, self._taken, self._n_outputs)
        last = self._next
        first, grown = last - self._n_outputs, self._grown
        n_nodes, units = grown.n_nodes[first:last].tolist(), grown.units[first:last].tolist()
        return list(map(self._tree, range(first, last), n_nodes, units))

    def _make_ready(self, arrays: Arrays, learning_rate: float) -> None:
        """Say what the next trees are grown on, and where they go."""
        if self._next == self._n_trees or self._arrays is None or not all(map(is_, arrays, self._arrays)):
            self._introduce(arrays)
        self._rate[0], self._first[0], self._taken[0] = learning_rate, self._next, 0
        self._next += self._n_outputs

    def _tree(self, number: int, n_nodes: int, units: list[float]) -> FinishedTree | None:
        """Return one of the trees that there is room for."""
        if n_nodes == 0:
            return None
        grown, n_splits, n_leaves = self._grown, n_nodes // 2, n_nodes // 2 + 1
        return FinishedTree(
            grown.nodes[number, :n_nodes], grown.order[number, :n_splits], grown.leaf_of[number, :n_nodes],
            grown.leaves[number, 0, :n_leaves], grown.leaves[number, 1, :n_leaves], units[0], units[1],
        )  # fmt: skip
