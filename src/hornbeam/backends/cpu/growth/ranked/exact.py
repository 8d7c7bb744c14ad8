"""Growing trees on all distinct values: lists of rows in the order of every feature of many values.

Features of few values, and categorical ones, have histograms, as on dense data. They are searched there, and what wins
is taken.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.binning.ranks import take_ranks
from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.ranked.joining import spread_kernel
from hornbeam.backends.cpu.growth.ranked.lists import (
    Division,
    Lists,
    divide_kernel,
    keep_kernel,
    mark_kernel,
    sort_kernel,
)
from hornbeam.backends.cpu.growth.ranked.search import Chunk, Ranked, search_kernel
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.rows.sides import NO_SETS
from hornbeam.backends.cpu.growth.splits.contexts import NO_CONTEXTS, NO_MARKS, Contexts, marks_of
from hornbeam.backends.cpu.growth.splits.search import Batch
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.dtypes import SPLIT
from hornbeam.data.binning import BinnedData, allocate_bins
from hornbeam.data.quantiles import joined_mapper, listed_features, named_sizes
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, keep_better, no_splits

NEVER = 1 << 62


class ExactGrowth(DenseGrowth):
    """Grows trees on ranks as they are.

    Features without a list are dense data; the others are in it by name alone, in bins that nobody looks at.
    """

    def __init__(self, ranked: BinnedData, n_threads: int, n_team: int, tuning: Tuning) -> None:
        n_rows, n, n_used = ranked.n_rows, ranked.n_numeric, ranked.n_used
        mapper, listed = joined_mapper(ranked, named_sizes(ranked)), listed_features(ranked)
        dense = BinnedData(mapper, allocate_bins(n_rows, n_used, mapper.bin_dtype))
        self._is_dense = np.ones(n_used, np.bool_)
        self._is_dense[listed] = False
        take_ranks(dense.bins[:, :n_used], ranked.bins[:, :n_used], self._is_dense, np.zeros_like, n_threads)
        super().__init__(dense, n_threads, n_team, replace(tuning, ordered_smallest_bytes=NEVER))
        self._has_missing = np.ascontiguousarray(ranked.has_missing[:n])
        n_ranks = ranked.n_value_bins[:n].astype(np.int64)
        whole, even, odd = (np.empty((len(listed), n_rows), np.uint64) for _ in range(3))
        number = np.full(n, -1, np.int64)
        number[listed] = np.arange(len(listed))
        self._lists = Lists(whole, even, odd, np.empty(n_rows, np.uint8), n_ranks, number)
        self._gradients = np.zeros((n_rows, 2), np.int32)
        self._chunks = [Chunk.make() for _ in range(n_threads)]
        counts = np.empty((n_threads, int(n_ranks.max(initial=0)) + 2), np.int64)
        parts = np.array_split(listed, n_threads)
        run_threads(lambda t: sort_kernel(parts[t], ranked.bins, counts[t], self._lists), n_threads)
        self.choose_features(None)

    @staticmethod
    def bytes_a_row(ranked: BinnedData) -> int:
        """Return the bytes that are kept for a row: three lists of each feature of many values, and bins."""
        return 3 * 8 * len(listed_features(ranked)) + 2 * ranked.n_used + 9

    def beside(self, n_slots: int, limits: GrowthLimits, n_threads: int) -> None:
        """Bins of one tree are of no use to another."""

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose features; those without a list are dense data."""
        chosen = np.arange(self.binned.n_used, dtype=np.int32) if features is None else features
        self._features = chosen[~self._is_dense[chosen]].astype(np.int64)
        super().choose_features(chosen[self._is_dense[chosen]])

    @property
    def _has_dense(self) -> bool:
        return len(self.space.numbers) > 0

    def gradients_are_rounded(self, n_rows: int) -> None:
        """Note the gradients by row, and take the rows of the tree into the lists of its root."""
        store, lists = self.store, self._lists
        spread_kernel(store.even, store.wide_even, n_rows, self._gradients)
        if n_rows < len(lists.sides):  # a root at an even depth, see bagging.ROOT_DEPTH
            lists.sides[:] = 0
            lists.sides[store.even[:n_rows] & ROW_MASK] = 1
            parts = np.array_split(self._features, self.n_threads)
            run_threads(lambda t: keep_kernel(parts[t], lists, lists.even), self.n_threads)

    def build(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the dense features."""
        if self._has_dense:
            super().build(nodes, slots)

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """Get the larger children."""
        if self._has_dense:
            super().subtract(parents, children)

    def can_grow(self, limits: GrowthLimits, in_context: bool) -> bool:
        """Leave the tree to rounds."""
        return False

    def expand(self, batch: NDArray[np.void], rules: SplitRules, max_depth: int) -> None:
        """Leave the round to single operations."""

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Divide the rows, and every list."""
        n_nodes, store, lists, n = len(splits), self.store, self._lists, len(self._has_missing)
        depth = nodes.depth.astype(np.int64)
        division = Division(nodes.begin, nodes.end, depth, np.zeros(n_nodes, np.int64))
        records, sets = (store.even, store.odd), NO_SETS if self.sets is None else self.sets.sets
        parts = self._deal(nodes.end - nodes.begin, 1)
        run_threads(
            lambda t: mark_kernel(
                np.arange(parts[t], parts[t + 1]), lists, records, splits, self.binned.bins, n, sets, division
            ),
            len(parts) - 1,
        )
        cuts, wide = self._deal(nodes.end - nodes.begin, len(self._features) + 1), (store.wide_even, store.wide_odd)
        run_threads(
            lambda t: divide_kernel(cuts[t], cuts[t + 1], self._features, lists, (*records, *wide), division),
            len(cuts) - 1,
        )
        return division.n_left

    def _deal(self, n_rows: NDArray[np.int64], n_lists: int) -> list[int]:
        """Deal pairs of a list and a node to threads, evenly by rows: n + 1 bounds for n threads."""
        work = np.cumsum(np.tile(n_rows, n_lists))
        n_threads = max(1, min(self.n_threads, int(work[-1]) // self.tuning.divided_rows_per_thread))
        inner = np.searchsorted(work, work[-1] * np.arange(1, n_threads) / n_threads, side="left")
        return [0, *inner.tolist(), len(work)]

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best splits in the lists, and in the slots; of equals that of the lower feature."""
        best = self._find_in_lists(nodes, slots, gradient, hessian, rules, context)
        if self._has_dense:
            keep_better(best, super().find_splits(nodes, slots, gradient, hessian, rules, context))
        return best

    def _find_in_lists(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None,
    ) -> NDArray[np.void]:
        """Find the best split of each node by a feature of numbers."""
        n_nodes, features = len(slots), self._features
        if n_nodes == 0 or len(features) == 0:
            return no_splits(n_nodes)
        self.set_rules(rules, context is not None)
        contexts, marks = NO_CONTEXTS, NO_MARKS
        if context is not None:
            contexts = Contexts.of(context)
            marks = marks_of(context, NO_MARKS.numbers, context.mask)
        batch = Batch(nodes.begin, nodes.end, nodes.depth, gradient, hessian, slots, contexts)
        found, known = np.empty((n_nodes, len(features)), SPLIT), np.full(n_nodes, -np.inf)
        cuts = self._deal(nodes.end - nodes.begin, len(features))
        ranked = Ranked(self._lists, self._gradients, self._has_missing)
        given = self.calls, batch, features, ranked, marks, self.numbers
        run_threads(
            lambda t: search_kernel(t, cuts[t], cuts[t + 1], *given, self._chunks[t], known, found),
            len(cuts) - 1,
        )
        return found[np.arange(n_nodes), np.argmax(found["gain"], axis=1)]  # of equals that of the lower feature
