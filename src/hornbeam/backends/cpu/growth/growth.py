"""Growing trees on one training set: what dense and sparse data have in common on the host.

A tree is grown whole in one kernel (trees/driver.py) by a team of threads; or in rounds, whose nodes are dealt to
threads, a kernel call each; or in single operations, where a node is so large that threads should share it, where nodes
have contexts, and wherever the grower asks for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import RowStore
from hornbeam.backends.cpu.growth.rows.rounding import Rounded
from hornbeam.backends.cpu.growth.rows.sides import NO_SETS, Sides
from hornbeam.backends.cpu.growth.slots import Slots
from hornbeam.backends.cpu.growth.splits.levels import Categories
from hornbeam.backends.cpu.growth.splits.rules import Rules
from hornbeam.backends.cpu.growth.splits.search import find_splits
from hornbeam.backends.cpu.growth.splits.sets import NO_CONTRIBUTION, LeftSets
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.growth.trees.driver import expanded, grow_kernel, round_tables, tree_table
from hornbeam.backends.cpu.host.team import ALONE, team
from hornbeam.backends.cpu.host.threads import beside, run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.data.binning import BinnedData
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules

NO_MASK = np.empty(0, np.uint32)

Arrays = TypeVar("Arrays", bound=Sequence[Any])


def of_thread(arrays: Arrays, t: int) -> Arrays:
    """Return a NamedTuple of arrays, whose leading axis is for threads, with the part of thread t alone."""
    return type(arrays)(*(array[t : t + 1] for array in arrays))


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


class Growth(ABC):
    """Grows the trees of one training run.

    n_team   the largest team
    space    features that the tree may use
    slots    histograms of rounds and single operations
    store    rows of the growing tree
    rounded  of its gradients
    """

    space: Space
    slots: Slots
    store: RowStore
    rounded: Rounded
    nodes_are_costly = False

    def __init__(self, binned: BinnedData, n_threads: int, n_team: int, tuning: Tuning) -> None:
        self.binned = binned
        self.n_threads = n_threads
        self.n_team = n_team
        self.tuning = tuning
        self.sets: LeftSets | None = None
        if binned.n_numeric < binned.n_used:
            most_bins = int(binned.n_value_bins[binned.n_numeric :].max()) + 1
            self.sets = LeftSets(binned.set_words, most_bins, n_threads)

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
    def can_grow(self, limits: GrowthLimits) -> bool:
        """Say whether the tree can be grown whole, and whether that is quicker than in rounds."""

    @abstractmethod
    def team_size(self, limits: GrowthLimits) -> int:
        """Return how many threads should grow a tree together."""

    @abstractmethod
    def tree_sums(self, n_threads: int, limits: GrowthLimits) -> Any:
        """Return the sums of a tree that a team grows: see operations.py."""

    @abstractmethod
    def round_sums(self, t: int) -> Any:
        """Return the sums of a round's nodes that thread t expands."""

    @abstractmethod
    def costs(self, batch: NDArray[np.void]) -> list[float]:
        """Estimate the nanoseconds to expand each node; EXPANSION (n_nodes,)."""

    steps_ns: float
    """See deal."""

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
        self, n_sets: int, rules: SplitRules, contribution: NDArray[np.float64] = NO_CONTRIBUTION
    ) -> Categories | None:
        """Return what kernels need that search categorical features, with so many sets; None: there are none."""
        if self.sets is None or self.space.n_numeric == len(self.space.numbers):
            return None
        return self.sets.categories(self.space, rules, n_sets, self.mask, contribution)

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
        contribution = NO_CONTRIBUTION if context is None else context.features.contribution
        categories = self.categories(len(slots), rules, contribution)
        numbers = Rules.of(rules, self.rounded.quantization, context is not None)
        batch = nodes, gradient, hessian, slots, self.slots.histograms
        return find_splits(self.rows, self.space, batch, numbers, categories, context, self.mask)

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]] | None:
        """See engine.Engine.expand; None: a node is so large that single operations are better."""
        bounds = deal(self.costs(batch), self.n_threads, self.steps_ns, self.tuning)
        if bounds is None:
            return None
        categories = self.categories(3 * len(batch), rules)
        numbers, parts = Rules.of(rules, self.rounded.quantization), round_tables(batch, max_depth, bounds, self.sides)
        rows, works = self.rows, list[tuple[Any, Categories | None]]()
        for t in range(len(parts)):
            own = None if categories is None else categories._replace(scratch=of_thread(categories.scratch, t))
            works.append((self.round_sums(t), own))
        run_threads(lambda t: grow_kernel(0, ALONE, rows, *works[t], parts[t][0], numbers, parts[t][1]), len(parts))
        return expanded(parts[0][0])

    def grow(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        meanwhile: Callable[[], None] | None = None,
    ) -> NDArray[np.void]:
        """Grow a tree from its root, NODE (1,); returns all nodes. See engine.Engine.grow_ahead."""
        numbers = Rules.of(rules, self.rounded.quantization)
        with beside(meanwhile if self.n_threads > 1 else None), team(self.team_size(limits)) as crew:
            categories = self.categories(crew.size * (2 * limits.n_leaves - 1), rules)
            table, numbered_limits = tree_table(root, limits, crew.size, self.sides)
            sums = self.tree_sums(crew.size, limits)
            crew.run(grow_kernel, self.rows, sums, categories, table, numbers, numbered_limits)
        return table.nodes[0, : table.n_grown[0]]
