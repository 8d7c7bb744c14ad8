"""Growing trees on one training set: what dense and sparse data have in common on the host.

A tree is grown whole in one kernel (trees/driver.py) by a team of threads; or in rounds, whose nodes are dealt to
threads, a kernel call each; or in single operations, where a node is so large that threads should share it, and
wherever the grower asks for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import Counting, make_calls
from hornbeam.backends.cpu.growth.rows.records import RowStore
from hornbeam.backends.cpu.growth.rows.rounding import Rounded
from hornbeam.backends.cpu.growth.rows.sides import NO_SETS, Sides
from hornbeam.backends.cpu.growth.slots import Slots
from hornbeam.backends.cpu.growth.splits.contexts import NO_CONTEXTS, NO_MARKS, Contexts, Marks, search_in_context
from hornbeam.backends.cpu.growth.splits.levels import Categories, search_levels
from hornbeam.backends.cpu.growth.splits.pairs import search_pairs
from hornbeam.backends.cpu.growth.splits.rules import RULES, Rules
from hornbeam.backends.cpu.growth.splits.search import Batch, find_splits
from hornbeam.backends.cpu.growth.splits.sets import NO_CONTRIBUTION, LeftSets
from hornbeam.backends.cpu.growth.splits.space import Space
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
    round_table,
    tree_table,
)
from hornbeam.backends.cpu.growth.trees.leaf_boxes import bound_leaves, boxes_of
from hornbeam.backends.cpu.host.kernels import Kernel
from hornbeam.backends.cpu.host.operations import NO_OPERATION, Operation
from hornbeam.backends.cpu.host.team import ALONE, Crew, team
from hornbeam.backends.cpu.host.threads import beside, run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.data.binning import BinnedData
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import ContextsAhead, GrownAhead, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules

NO_MASK = np.empty(0, np.uint32)
NO_THIN = np.zeros((0, 0, 2), np.int64)


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


class Conditions(NamedTuple):
    """What a search honours besides the rules.

    marks       of features; its masks are those of nodes
    in_context  nodes have contexts that are more than masks
    n_counted   bins whose rows may be counted together
    categories  what is needed to search categorical features; None: there are none
    """

    marks: Marks
    in_context: bool
    n_counted: int
    categories: Categories | None


class Growth(ABC):
    """Grows the trees of one training run.

    n_team   the largest team
    space    features that the tree may use
    slots    histograms of rounds and single operations
    store    rows of the growing tree
    rounded  of its gradients
    calls    CALL (n_threads,): what threads ask of operations
    numbers  RULES (1,): the rules of the tree
    """

    space: Space
    slots: Slots
    store: RowStore
    rounded: Rounded
    nodes_are_costly = False
    divide_kernel: Kernel
    count_kernel: Kernel

    def __init__(self, binned: BinnedData, n_threads: int, n_team: int, tuning: Tuning) -> None:
        self.binned = binned
        self.n_threads = n_threads
        self.n_team = n_team
        self.tuning = tuning
        self.sets: LeftSets | None = None
        if binned.n_numeric < binned.n_used:
            most_bins = int(binned.n_value_bins[binned.n_numeric :].max()) + 1
            self.sets = LeftSets(binned.set_words, most_bins, n_threads)
        most_bins = int(binned.n_value_bins.max(initial=0)) + 1
        self.calls = make_calls(n_threads)
        self.numbers = np.zeros(1, RULES)
        self.goes_left = np.empty((n_threads, most_bins), np.uint8)
        self._counts = np.empty((n_threads, most_bins), np.int64)
        self._all_counts = np.empty((n_threads, 0), np.int64)
        self.divide, self._count = Operation(self.divide_kernel), Operation(self.count_kernel)
        self._counting = Counting(self._count.room, self._counts, self._all_counts)
        self._pairs, self._in_context, self._levels = map(Operation, (search_pairs, search_in_context, search_levels))
        self._contexts, self._bounds = Operation(make_contexts), Operation(bound_leaves)

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

    def gradients_are_rounded(self, n_rows: int) -> None:  # noqa: B027 - most kinds have nothing to do
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

    @property
    def mask(self) -> NDArray[np.uint32]:
        """Features that the search must leave out: see Categories."""
        return NO_MASK

    def categories(
        self,
        n_sets: int,
        rules: SplitRules,
        mask: NDArray[np.uint32],
        contribution: NDArray[np.float64] = NO_CONTRIBUTION,
    ) -> Categories | None:
        """Return what is needed to search categorical features, with so many sets; None: there are none.

        mask, contribution  see Categories
        """
        if self.sets is None or self.space.n_numeric == len(self.space.numbers):
            return None
        return self.sets.categories(self.space, rules, n_sets, mask, contribution)

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """See engine.Engine.subtract."""
        self.slots.subtract(parents, children)

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """See engine.Engine.find_splits."""
        self.set_rules(rules, context is not None)
        if context is None:
            contexts, search = NO_CONTEXTS, self.pair_search(self.categories(len(slots), rules, self.mask[None]))
        else:
            mask = context.mask & self.mask if len(self.mask) else context.mask
            marks = Marks(self.space.numbers, context.features.sign, context.features.contribution, mask)
            conditions = self._conditions(len(slots), rules, marks)
            contexts, search = Contexts.of(context), self.context_search(conditions)
        batch = Batch(nodes.begin, nodes.end, nodes.depth, gradient, hessian, slots, contexts)
        return find_splits(self.space, self.calls, batch, self.numbers, search)

    # --- operations ---------------------------------------------------------------------------------------------------

    def set_rules(self, rules: SplitRules, in_context: bool = False) -> None:
        """Enter the rules of a tree whose gradients are rounded; in_context: its nodes have contexts."""
        self.numbers[0] = Rules.of(rules, self.rounded.quantization, in_context)

    def counting(self, n_bins: int = 0) -> Counting:
        """Return what counts rows; n_bins: of all features, where these may be counted together."""
        if self._all_counts.shape[1] != n_bins:
            self._all_counts = np.empty((self.n_threads, n_bins), np.int64)
            self._counting = self._counting._replace(all_counts=self._all_counts)
        self._count.on(self.calls, self.rows, self._counts, self._all_counts)
        return self._counting

    def levels(
        self, histograms: NDArray[np.int64], thin: NDArray[np.int64], categories: Categories | None, counting: Counting
    ) -> NDArray[np.int64]:
        """Return the operation that searches categorical features; see levels.search_levels."""
        if categories is None:
            return NO_OPERATION
        return self._levels.on(self.calls, histograms, thin, self.numbers, categories, counting)

    def pair_search(self, categories: Categories | None, thin: NDArray[np.int64] = NO_THIN) -> NDArray[np.int64]:
        """Return the operation that searches the slots."""
        histograms, space, counting = self.slots.histograms, self.space, self.counting()
        levels = self.levels(histograms, thin, categories, counting)
        return self._pairs.on(
            self.calls, histograms, thin, space.features, self.numbers, space.scratch, counting, levels
        )  # fmt: skip

    def context_search(self, conditions: Conditions, thin: NDArray[np.int64] = NO_THIN) -> NDArray[np.int64]:
        """Return the operation that searches the slots of nodes with contexts."""
        histograms, space, counting = self.slots.histograms, self.space, self.counting(conditions.n_counted)
        levels = self.levels(histograms, thin, conditions.categories, counting)
        return self._in_context.on(
            self.calls, histograms, thin, space.features, conditions.marks, self.numbers, space.scratch, counting,
            levels,
        )  # fmt: skip

    def _conditions(self, n_sets: int, rules: SplitRules, marks: Marks, in_context: bool = True) -> Conditions:
        categories = self.categories(n_sets, rules, marks.masks, marks.contribution)
        return Conditions(marks, in_context, self.space.n_bins if rules.path_smooth > 0.0 else 0, categories)

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
        run_threads(lambda t: grow_kernel(t, ALONE, work, table, parts[t]), n_threads)
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
                    conditions = self._conditions(n_nodes, rules, marks, in_context)
                work = self.tree_work(some.crew, limits, conditions)
                table, numbered_limits = tree_table(root, limits, some.size, self.sides)
                if contexts is not None:
                    work, made = self._with_contexts(work, table, conditions.marks, contexts, rules, limits)
            some.run(grow_kernel, work, table, numbered_limits)
        n_grown = int(table.n_grown[0])
        return GrownAhead(table.nodes[0, :n_grown], contexts=None if made is None else made[0, :n_grown])

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
        family = family_of(ahead.rules, n_threads, limits.n_leaves)
        operation = self._contexts.on(
            self.calls, table.nodes, table.sides, marks, LevelsL2(of.max_cat_to_onehot, of.cat_l2),
            shares_of(ahead, of_tree, n_used, n_threads), family, self.numbers,
        )  # fmt: skip
        work = work._replace(around=family.around, contexts=operation)
        if ahead.rules.in_turn:
            binned = self.binned
            boxes = boxes_of(self.space, binned.set_words, binned.mapper.use_missing, n_threads, limits.n_leaves)
            work = work._replace(
                moved=boxes.moved,
                bounds=self._bounds.on(
                    self.calls, table.nodes, table.sides, marks, boxes, family.contexts, family.around
                ),
            )
        return work, family.contexts
