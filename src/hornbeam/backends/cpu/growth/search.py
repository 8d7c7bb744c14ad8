"""The search for splits of the nodes of a tree, from slots: what all kinds of growth, and workers, have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import Counting, make_calls
from hornbeam.backends.cpu.growth.slots import Slots
from hornbeam.backends.cpu.growth.splits.contexts import NO_CONTEXTS, Contexts, Marks, marks_of, search_in_context
from hornbeam.backends.cpu.growth.splits.levels import Categories, search_levels
from hornbeam.backends.cpu.growth.splits.pairs import search_pairs
from hornbeam.backends.cpu.growth.splits.rules import NO_COSTS, RULES, Rules
from hornbeam.backends.cpu.growth.splits.search import Batch, find_splits
from hornbeam.backends.cpu.growth.splits.sets import NO_CONTRIBUTION, LeftSets
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.host.kernels import Kernel
from hornbeam.backends.cpu.host.operations import NO_OPERATION, Operation, same
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules

NO_MASK = np.empty(0, np.uint32)
NO_THIN = np.zeros((0, 0, 2), np.int64)


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


class SlotSearch:
    """Searches the histograms of slots.

    space         features that are searched
    slots         histograms
    sets          of categorical splits; None: no feature is categorical
    calls         CALL (n_threads,): what threads ask of operations
    numbers       RULES (1,): the rules of the tree
    quantization  how the gradients of the tree were rounded
    rows          what `count_kernel` counts: the rows of the tree, see operations.py
    """

    space: Space
    slots: Slots
    count_kernel: Kernel
    quantization: Any
    rows: Any
    in_team = False
    """Whether single searches are done by a team of threads: see splits/search.find_splits."""

    def __init__(self, binned: BinnedData, n_threads: int, tuning: Tuning) -> None:
        self.binned = binned
        self.n_threads = n_threads
        self.tuning = tuning
        self.sets: LeftSets | None = None
        if binned.n_numeric < binned.n_used:
            most_bins = int(binned.n_value_bins[binned.n_numeric :].max()) + 1
            self.sets = LeftSets(binned.set_words, most_bins, n_threads)
        most_bins = int(binned.n_value_bins.max(initial=0)) + 1
        self.calls = make_calls(n_threads)
        self.numbers = np.zeros(1, RULES)
        self._rules: tuple[Any, ...] | None = None  # what they were made from
        self._counts = np.empty((n_threads, most_bins), np.int64)
        self._all_counts = np.empty((n_threads, 0), np.int64)
        self._count = Operation(self.count_kernel)
        self._counting = Counting(self._count.room, self._counts, self._all_counts)
        self._pairs, self._in_context, self._levels = map(Operation, (search_pairs, search_in_context, search_levels))

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
        costs: NDArray[np.float64] = NO_COSTS,
    ) -> Categories | None:
        """Return what is needed to search categorical features, with so many sets; None: there are none.

        mask, contribution, costs  see Categories
        """
        if self.sets is None or self.space.n_numeric == len(self.space.numbers):
            return None
        return self.sets.categories(self.space, rules, n_sets, mask, contribution, costs)

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
            marks = marks_of(context, self.space.numbers, mask)
            conditions = self._conditions(len(slots), rules, marks)
            contexts, search = Contexts.of(context), self.context_search(conditions)
        batch = Batch(nodes.begin, nodes.end, nodes.depth, gradient, hessian, slots, contexts)
        return find_splits(self.space, self.calls, batch, self.numbers, search, self.in_team)

    # --- operations ---------------------------------------------------------------------------------------------------

    def set_rules(self, rules: SplitRules, in_context: bool = False) -> None:
        """Enter the rules of a tree whose gradients are rounded; in_context: its nodes have contexts."""
        given = rules, self.quantization, in_context
        if not same(given, self._rules):
            self.numbers[0], self._rules = Rules.of(*given), given

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
        categories = self.categories(n_sets, rules, marks.masks, marks.contribution, marks.costs)
        return Conditions(marks, in_context, self.space.n_bins if rules.path_smooth > 0.0 else 0, categories)
