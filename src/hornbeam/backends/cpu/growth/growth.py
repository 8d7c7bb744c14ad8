"""Growing trees on one training set: what dense and sparse data have in common on the host.

A tree is grown whole in one kernel (trees/driver.py) by a team of threads; or in rounds, whose nodes are dealt to
threads, a kernel call each; or in single operations, where a node is so large that threads should share it, and
wherever the grower asks for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import RowStore
from hornbeam.backends.cpu.growth.rows.rounding import Rounded
from hornbeam.backends.cpu.growth.rows.sides import NO_SETS, Sides
from hornbeam.backends.cpu.growth.search import Conditions, SlotSearch
from hornbeam.backends.cpu.growth.splits.contexts import NO_MARKS, Marks, with_sides
from hornbeam.backends.cpu.growth.splits.levels import Categories
from hornbeam.backends.cpu.growth.trees.contexts import (
    LevelsL2,
    family_of,
    make_contexts,
    only_masks,
    shares_of,
    tree_mask,
)
from hornbeam.backends.cpu.growth.trees.driver import (
    Limits,
    Table,
    Work,
    expanded,
    grow_kernel,
    grow_one_at_a_time,
    round_table,
    tree_table,
)
from hornbeam.backends.cpu.growth.trees.generations import NO_PLAN, Plan, grow_by_generations
from hornbeam.backends.cpu.growth.trees.leaf_boxes import bound_leaves, bound_sides, boxes_of
from hornbeam.backends.cpu.host.kernels import Kernel
from hornbeam.backends.cpu.host.operations import NO_OPERATION, Operation
from hornbeam.backends.cpu.host.team import ALONE, Crew, team
from hornbeam.backends.cpu.host.threads import beside, run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import ContextsAhead, GrownAhead, Segments
from hornbeam.trees.splitting import SplitRules


def even_cuts(cost: NDArray[Any], n_parts: int) -> NDArray[np.int64]:
    """Cut columns into parts that cost about as much as each other: their bounds, int64 (n_parts + 1,)."""
    done = np.concatenate([[0.0], np.cumsum(cost)])
    cuts = np.searchsorted(done, done[-1] * np.arange(n_parts + 1) / n_parts).astype(np.int64)
    cuts[-1] = len(cost)  # the last bound is the sum, which may be rounded to more than that
    return cuts


def deal(work: list[float], n_threads: int, steps_ns: float, tuning: Tuning) -> list[int] | None:
    """Deal nodes to threads by their work, in nanoseconds: n + 1 bounds for n threads.

    steps_ns  what a round costs more in single operations, each of which cuts large nodes

    Returns None where a node is so large that these are better.
    """
    total, most = sum(work), n_threads
    n_threads = max(1, min(n_threads, int(total / tuning.thread_ns), len(work)))
    if n_threads < most and max(work) > steps_ns:
        return None
    bounds, done = [0], 0.0
    for node, cost in enumerate(work):
        if done + cost / 2 > total * len(bounds) / n_threads and len(bounds) < n_threads:
            bounds.append(node)
        done += cost
    bounds.append(len(work))
    heaviest = max(sum(work[first:last]) for first, last in pairwise(bounds))
    return None if heaviest > 1.3 * total / n_threads + steps_ns / 2 else bounds


class Growth(SlotSearch, ABC):
    """Grows the trees of one training run.

    n_team   the largest team
    space    features that the tree may use
    slots    histograms of rounds and single operations
    store    rows of the growing tree
    rounded  of its gradients
    """

    store: RowStore
    rounded: Rounded
    nodes_are_costly = False
    divide_kernel: Kernel

    def __init__(self, binned: BinnedData, n_threads: int, n_team: int, tuning: Tuning) -> None:
        super().__init__(binned, n_threads, tuning)
        self.n_team = n_team
        self.goes_left = np.empty((n_threads, int(binned.n_value_bins.max(initial=0)) + 1), np.uint8)
        self.divide = Operation(self.divide_kernel)
        self._contexts, self._bounds, self._sides = map(Operation, (make_contexts, bound_leaves, bound_sides))
        self._one_at_a_time, self._by_generations = Operation(grow_one_at_a_time), Operation(grow_by_generations)

    @property
    def quantization(self) -> Quantization:
        """How the gradients of the tree were rounded."""
        return self.rounded.quantization

    # --- what differs -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def rows(self) -> Any:
        """The rows of the tree: see operations.py."""

    @abstractmethod
    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """See engine.Engine.choose_features."""

    @abstractmethod
    def build(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """See engine.Engine.build_histograms."""

    @abstractmethod
    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """See engine.Engine.partition."""

    @abstractmethod
    def can_grow(self, limits: GrowthLimits, in_context: bool) -> bool:
        """Say whether the tree can be grown whole, and whether that is quicker than in rounds; in contexts it is."""

    @abstractmethod
    def team_size(self, limits: GrowthLimits) -> int:
        """Return how many threads should grow a tree together."""

    @abstractmethod
    def tree_work(self, crew: Crew, limits: GrowthLimits, conditions: Conditions) -> Work:
        """Return what a team needs to grow a tree."""

    def plan(self, limits: GrowthLimits, n_threads: int) -> Plan:
        """Return the plan of a tree that grows by generations; none: it is grown in another way."""
        return NO_PLAN

    @abstractmethod
    def round_work(self, categories: Categories | None) -> Work:
        """Return what threads need to expand the nodes of a round, each alone."""

    @property
    def round_threads(self) -> int:
        """How many threads may expand nodes."""
        return self.n_threads

    @abstractmethod
    def costs(self, batch: NDArray[np.void]) -> list[float]:
        """Estimate the nanoseconds to expand each node; EXPANSION (n_nodes,)."""

    steps_ns: float
    """See deal."""

    def gradients_are_rounded(self, n_rows: int) -> None:
        """Prepare the rows for the gradients of the next tree; n_rows of them have a record."""

    # --- what is the same ---------------------------------------------------------------------------------------------

    def begin_tree(self, n_slots: int) -> None:
        """Start a tree on the rounded gradients, with room for n_slots histograms."""
        self.n_slots = n_slots
        self.slots.set_slots(n_slots)
        if self.sets is not None:
            self.sets.begin_tree()

    @property
    def sides(self) -> Sides:
        """What says which bins go left at the splits of the tree."""
        sets = NO_SETS if self.sets is None else self.sets.sets
        return Sides(self.space.n_value_bins, self.space.n_numeric, sets)

    # --- rounds and trees ---------------------------------------------------------------------------------------------

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]] | None:
        """See engine.Engine.expand; None: a node is so large that single operations are better."""
        bounds = deal(self.costs(batch), self.round_threads, self.steps_ns, self.tuning)
        if bounds is None:
            return None
        n_threads, categories = len(bounds) - 1, self.categories(3 * len(batch), rules, self.mask[None])
        self.set_rules(rules)
        work, table = self.round_work(categories), round_table(batch, n_threads, self.sides)
        parts = [Limits(max_depth, False, first, last) for first, last in pairwise(bounds)]
        run_threads(lambda t: grow_one_at_a_time(t, NO_OPERATION, ALONE, work, table, parts[t]), n_threads)
        return expanded(table)

    def grow(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
    ) -> GrownAhead:
        """Grow a tree from its root, NODE (1,). See engine.Engine.grow_ahead."""
        in_context = contexts is not None and not only_masks(contexts, rules)
        self.set_rules(rules, in_context)
        with beside(meanwhile if self.n_threads > 1 else None), team(self.team_size(limits)) as some:
            n_nodes, made = some.size * (2 * limits.n_leaves - 1), None
            with some.interruptible():
                if contexts is None:
                    conditions = Conditions(NO_MARKS, False, 0, self.categories(n_nodes, rules, self.mask[None]))
                else:
                    features, n_words = contexts.rules.features, -(-self.binned.n_used // 32)
                    masks = np.zeros((n_nodes, n_words), np.uint32)
                    marks = Marks(self.space.numbers, features.sign, features.contribution, masks)
                    if contexts.rules.bounds_sides:
                        marks = with_sides(marks, self.binned, some.size)
                    conditions = self._conditions(n_nodes, rules, marks, in_context)
                work = self.tree_work(some.crew, limits, conditions)
                table, numbered_limits = tree_table(root, limits, some.size, self.sides)
                if contexts is None:
                    table = table._replace(plan=self.plan(limits, some.size))
                else:
                    work, made = self._with_contexts(work, table, conditions.marks, contexts, rules, limits)
                operation = self.growing(some.crew, work, table, numbered_limits)
            some.run(grow_kernel, operation)
        n_grown = int(table.n_grown[0])
        return GrownAhead(table.nodes[0, :n_grown], contexts=None if made is None else made[0, :n_grown])

    def growing(self, crew: Crew, work: Work, table: Table, limits: Limits) -> NDArray[np.int64]:
        """Return the operation that grows a tree: by generations where the table has a plan."""
        operation = self._by_generations if len(table.plan.keys) else self._one_at_a_time
        return operation.on(crew, work, table, limits)

    def _with_contexts(
        self,
        work: Work,
        table: Table,
        marks: Marks,
        ahead: ContextsAhead,
        rules: SplitRules,
        limits: GrowthLimits,
    ) -> tuple[Work, NDArray[np.void]]:
        """Add the operations that make contexts, and that bound leaves by others; returns the work and the contexts."""
        n_threads, n_used, of = len(table.nodes), self.binned.n_used, rules.categorical
        of_tree = self.mask if len(self.mask) else tree_mask(self.space.numbers, n_used)
        family, binned = family_of(ahead.rules, n_threads, limits.n_leaves), self.binned
        boxes = boxes_of(
            self.space, binned.set_words, binned.mapper.use_missing, n_threads,
            limits.n_leaves if ahead.rules.in_turn else 0, ahead.rules.bounds_sides,
        )  # fmt: skip
        given = self.calls, table.nodes, table.sides, marks
        operation = self._contexts.on(
            *given, LevelsL2(of.max_cat_to_onehot, of.cat_l2), shares_of(ahead, of_tree, n_used, n_threads), boxes,
            family, self.numbers,
        )  # fmt: skip
        work = work._replace(around=family.around, contexts=operation)
        if ahead.rules.in_turn:
            bounds = self._bounds.on(*given, boxes, family.contexts, family.around)
            work = work._replace(moved=boxes.moved, bounds=bounds)
        if ahead.rules.bounds_sides:
            work = work._replace(sides=self._sides.on(*given, boxes, family.contexts))
        return work, family.contexts
