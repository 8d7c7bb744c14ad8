"""The GPU engine that tries every distinct value: lists of rows in order, and histograms of features of few values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.growth import DeviceGrowth
from hornbeam.backends.gpu.ranked.engine import RankedEngine
from hornbeam.backends.gpu.ranked.lists import DeviceLists
from hornbeam.backends.gpu.runtime.runtime import Buffer
from hornbeam.backends.gpu.workspace.tree_kernels import PARTITION_EACH, PARTITION_THREADS, plain_variant
from hornbeam.data.quantiles import NAMED_BINS, listed_features
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import ContextsAhead, LeafRenewal, Root, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, keep_better
from hornbeam.trees.steps import expand_in_steps


class ExactEngine(RankedEngine):
    """Grows trees on ranks as they are; in histograms, listed features are there by name alone."""

    def _more_bytes(self, spare: int) -> int:
        self._listed = listed_features(self._binned).astype(np.int32)
        self._most_lists = DeviceLists.fitting(self._binned.n_rows, len(self._listed), spare)
        return DeviceLists.bytes_of(self._binned.n_rows, self._most_lists)

    def _prepare(self) -> None:
        own, ranked = self.workspace, self._binned
        self._has_dense = len(self._listed) < ranked.n_used
        self._lists = DeviceLists(own, ranked, self._ranks, self._listed, self._most_lists)
        self._growth = DeviceGrowth(own, self._ranks, self._histograms, self._search)
        own.upload("features", (ranked.n_value_bins * 2 + ranked.has_missing).astype(np.uint32))
        self.choose_features(None)

    @staticmethod
    def _spare_bins(rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return bins that nobody looks at, so that few rows that are summed together have the same."""
        return rows % np.uint32(NAMED_BINS)

    @property
    def _row_lists(self) -> tuple[Buffer, Buffer]:
        even, odd, *_ = self._histograms.row_buffers()
        return even, odd

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features of the trees to come."""
        chosen = np.arange(self._binned.n_used, dtype=np.int32) if features is None else features
        is_listed = np.isin(chosen, self._listed)
        self._lists.features = chosen[is_listed]
        super().choose_features(chosen[~is_listed])

    def _sum_root_ahead(self, wide: bool) -> None:
        """Wait: not all features have histograms."""

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree; its rows are moved by their ranks."""
        root = super().begin_tree(n_slots)
        self._wide = wide = self._rounded.quantization.wide
        layout = self._ranks.layout
        moving = plain_variant(
            self._runtime.facts, "partition.cl", PARTITION_THREADS, **layout.options, wide=wide, each=PARTITION_EACH,
            categorical=self._search.categories is not None,
        )  # fmt: skip
        kernels = replace(
            self._tree.kernels, partition=self._runtime.kernel("partition_kernel", moving),
            partition_tile=moving.threads * moving.each,
        )  # fmt: skip
        self._tree = replace(self._tree, kernels=kernels)
        self._lists.begin_tree(root.n_rows, bool(self._bag), wide, self._row_lists)
        return root

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the features of few values."""
        if self._has_dense:
            super().build_histograms(nodes, slots)

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Get the larger children."""
        if self._has_dense:
            super().subtract(parent_slots, child_slots)

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best splits in the lists, and in the histograms."""
        placed = None if context is None else self._search.contexts.upload(context)
        best = self._lists.find_splits(nodes, gradient, hessian, self._wide, rules, placed)
        if self._has_dense:
            keep_better(best, super().find_splits(nodes, slots, gradient, hessian, rules, context))
        return best

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Divide the rows, and every list."""
        n_left = super().partition(nodes, splits)
        self._lists.divide(nodes, n_left, self._wide, self._row_lists)
        return n_left

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a round step by step."""
        return expand_in_steps(self, batch, rules, max_depth)

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
        renewal: LeafRenewal | None = None,
    ) -> None:
        """Leave the choice of nodes to the host."""
