"""The CPU engine for stored bins: bundles and entries (stored_bins.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.backends.cpu.growth import stored_rows
from hornbeam.backends.cpu.growth.histogram import HistogramBuilder
from hornbeam.backends.cpu.growth.split import SplitFinder
from hornbeam.backends.cpu.growth.split_general import NOT_COUNTED, find_general
from hornbeam.backends.cpu.growth.stored_expand import Categories, StoredExpander
from hornbeam.backends.cpu.growth.stored_histogram import StoredHistograms
from hornbeam.backends.cpu.growth.stored_partition import StoredPartition, StoredRows
from hornbeam.backends.cpu.growth.stored_split import StoredSplits
from hornbeam.backends.cpu.growth.stored_tree import StoredTree
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.core.dtypes import SPLIT
from hornbeam.trees.bagging import ROOT_DEPTH
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import BinnedTree, ContextsAhead, GrownAhead, Root, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, pack_mask
from hornbeam.trees.steps import expand_in_steps

COUNT_BYTES = 1 << 28
"""Memory for the row counts of nodes with a context."""

NO_MASK = np.empty(0, np.uint32)


class StoredEngine(CpuEngine):
    """Training state in host memory, with bins in columns, bundles and entries."""

    nodes_are_costly = True

    def _prepare(self) -> None:
        stored = self.binned.stored
        assert stored is not None
        self._stored = stored
        self._storage = stored_rows.described(stored, with_columns=True)
        n_value_bins = self.binned.n_value_bins.astype(np.int64)
        self._partition = StoredPartition(stored, n_value_bins, self.n_threads)
        self._store: StoredRows = StoredRows(stored)
        self._histograms: HistogramBuilder = StoredHistograms(stored, self.n_threads)
        self._splits = StoredSplits(self._partition, self.binned.has_missing)
        self._numbers = np.arange(self.binned.n_used, dtype=np.int32)
        self._chosen: NDArray[np.bool_] | None = None
        self._splits.chosen[self.binned.n_numeric :] = False
        self._expander = StoredExpander(self._partition, self._histograms, self._splits)
        self._tree = StoredTree(self._partition, self._histograms, self._splits, self.binned.n_numeric, self._n_team)

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Note the features; the others are summed too, but not searched."""
        self._chosen = None
        self._splits.chosen[:] = features is None
        if features is not None:
            self._splits.chosen[features] = True
            self._chosen = self._splits.chosen.copy()
        self._splits.chosen[self.binned.n_numeric :] = False  # the search for thresholds passes them by

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree."""
        self._n_slots = n_slots
        self._histograms.set_slots(n_slots)
        root = self._rounded.root
        self._store.begin_tree(root.n_rows, self._n_team)
        self._expander.bare.clear()
        if self._categories is not None:
            self._categories.begin_tree()
        return root if self._bag is None else replace(root, depth=ROOT_DEPTH)

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
    ) -> GrownAhead | None:
        """Grow the tree whole where its nodes have no contexts and there are slots; leave it to rounds otherwise."""
        if contexts is not None or not self._expander.can_grow(limits, self._n_slots):
            return None
        how, n_sets = SplitFinder.numbers(self._rounded.quantization, rules), 2 * limits.n_leaves - 1
        n_threads = self._tree.team(limits, self._rounded.root.n_rows)
        if n_threads > 1:
            categories = self._categories_of(n_threads * n_sets, rules)
            return GrownAhead(self._tree.grow(n_threads, self._store, root, how, limits, meanwhile, categories))
        nodes, slots = Segments(root["begin"], root["end"], root["depth"]), np.zeros(1, np.int32)
        self.build_histograms(nodes, slots)
        root["split"] = self.find_splits(nodes, slots, root["gradient"], root["hessian"], rules)
        root["slot"], root["priority"] = 0, root["split"]["gain"]
        categories = self._categories_of(n_sets, rules)
        return GrownAhead(self._expander.grow(self._store, root, how, limits, categories))

    def _categories_of(self, n_nodes: int, rules: SplitRules) -> Categories | None:
        """Return what the expander needs that searches so many nodes; None: no feature is categorical."""
        if self._categories is None:
            return None
        where = self._splits.offsets, self.binned.n_numeric, self._numbers
        whole = self._categories.for_round(n_nodes, *where, self._rounded.quantization, rules)
        return whole, NO_MASK if self._chosen is None else pack_mask(self._chosen[None])[0]

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places."""
        return self._partition.partition(self._store, nodes, splits, self._sets)

    @property
    def _sets(self) -> tuple[NDArray[np.uint32], int] | None:
        """What partition.move_rows takes as sets."""
        return None if self._categories is None else (self._categories.sets, self.binned.n_numeric)

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Route the rows that were not chosen."""
        if self._bag is not None:
            rows, bins = self._bag.outside, (self.binned.n_value_bins, self.binned.n_numeric)
            stored_rows.find_leaves(self._stored, *bins, tree, rows, self.n_threads, self._leaf)

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a round in one go, or step by step where a node is so much work that threads should share it."""
        bounds = self._expander.deal(batch, self._sets)
        if bounds is None:
            return expand_in_steps(self, batch, rules, max_depth)
        how = SplitFinder.numbers(self._rounded.quantization, rules)
        categories = self._categories_of(2 * len(batch), rules)
        return self._expander.expand(self._store, batch, bounds, how, max_depth, categories)

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows."""
        self._expander.forget(slots)
        super().build_histograms(nodes, slots)

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Get the larger children."""
        self._expander.fill(self._store, parent_slots)
        super().subtract(parent_slots, child_slots)

    def _count(self, nodes: Segments, node: int, counts: NDArray[np.int64]) -> None:
        """Count the rows of every bin in a node."""
        in_codes = np.empty(int(self._stored.code_starts[-1]), np.int64)
        stored_rows.count_kernel(
            self._stored.codes, self._store.even, self._store.odd, self._storage, self._stored.code_starts,
            nodes.begin[node], nodes.end[node], int(nodes.depth[node]), in_codes, counts,
        )  # fmt: skip

    def _count_some(self, nodes: Segments, counts: NDArray[np.int64], start: int, stop: int) -> None:
        """Count the rows of the nodes start:stop, each into a row of counts."""
        for node in range(start, stop):
            self._count(nodes, node, counts[node])

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best splits."""
        given = self._store, self._histograms.histograms, nodes, slots, gradient, hessian
        if context is not None:
            best = self._find_general(nodes, slots, gradient, hessian, rules, context)
        else:
            best = self._splits.find(*given, SplitFinder.numbers(self._rounded.quantization, rules))
        if self._categories is not None:
            stored = self._stored.codes, self._store.place_of, self._storage, *self._partition.lists
            self._categories.improve(
                *given, self._splits.offsets, self.binned.n_numeric, self._numbers, self._rounded.quantization, rules,
                context, best, stored, self._chosen,
            )  # fmt: skip
        return best

    def _find_general(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext,
    ) -> NDArray[np.void]:
        """Find the best thresholds of nodes with a context, some nodes at a time; rows are counted for all features."""
        how = self._rounded.quantization
        context = replace(context, mask=context.mask & pack_mask(self._splits.chosen[None]))
        n_bins, n_numeric = int(self._splits.offsets[-1]), self.binned.n_numeric
        step = max(1, COUNT_BYTES // (8 * max(1, n_bins)))
        parts = []
        for first in range(0, len(slots), step):
            some = np.arange(first, min(first + step, len(slots)))
            part, counted = nodes.take(some), NOT_COUNTED
            if not how.hessian_min == how.hessian_max == 1:
                counted = np.empty((len(some), n_bins), np.int64)
                run_ranges(partial(self._count_some, part, counted), len(some), self.n_threads)
            parts.append(
                find_general(
                    self._store, self._histograms.histograms, part, slots[some], gradient[some], hessian[some],
                    self._splits.offsets[: n_numeric + 1], self._splits.has_missing[:n_numeric],
                    np.arange(n_numeric, dtype=np.int32), how, rules, context.take(some), self.n_threads, counted,
                )
            )  # fmt: skip
        return np.concatenate(parts) if parts else np.zeros(0, SPLIT)
