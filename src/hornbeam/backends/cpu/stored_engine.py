"""The CPU engine for stored bins: bundles and entries (bundling.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu import stored_rows
from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.backends.cpu.histogram import HistogramBuilder
from hornbeam.backends.cpu.rows import RowStore
from hornbeam.backends.cpu.split import (
    BINS_PER_THREAD,
    MARGIN,
    NO_COUNTS,
    SplitFinder,
    can_compare,
    leaf_score,
    scan_feature,
    write_split,
)
from hornbeam.backends.cpu.split_general import NOT_COUNTED, find_general
from hornbeam.backends.cpu.stored_histogram import StoredHistograms
from hornbeam.backends.cpu.threads import run_ranges
from hornbeam.backends.protocol import BinnedTree, Root, Segments
from hornbeam.backends.steps import expand_in_steps
from hornbeam.bagging import ROOT_DEPTH
from hornbeam.dtypes import SPLIT
from hornbeam.frontier import GrowthLimits
from hornbeam.splitting import NodeContext, SplitRules, pack_mask

COUNT_BYTES = 1 << 28
"""Memory for the row counts of nodes with a context."""


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_stored_kernel(  # type: ignore[no-untyped-def]
    histograms, slots, gradient, hessian, begin, end, default, chosen, offsets, has_missing, no_counts, units, rules,
    bounds, most_bins, start, stop, found, left_open,
):  # fmt: skip
    """Scan the (node, feature) pairs start:stop; the same as split.scan_kernel, made for many bins of few rows.

    default  int64 (n_used,)  in  the default bin, -1: none
    chosen   bool (n_used,)   in  features that may be used

    Whatever the split, one side is without the default bin, so a feature that has too few rows beside it is passed by.
    Then its sums are held against the best so far in one go; only a feature that reaches it is scanned in full.
    """
    n_used = len(has_missing)
    sums, above = np.empty((2, most_bins), np.int64), np.empty(most_bins)
    compare_first = can_compare(units, rules)
    scale, extra = units[1] / (units[0] * units[0]), rules[1] / units[1]
    few = max(np.int64(1), np.int64(rules[4] * bounds[0]))
    nothing = (-np.inf, -1, False, np.int64(0), np.int64(0), -np.inf)
    known = -np.inf
    for pair in range(start, stop):
        node, f = pair // n_used, pair % n_used
        if f == 0 or pair == start:
            known = -np.inf
        total_g, total_h = gradient[node], hessian[node]
        histogram = histograms[slots[node]]
        first, missing = np.uint64(offsets[f]), np.uint64(offsets[f + 1] - 1)
        if not chosen[f] or (default[f] >= 0 and total_h - histogram[first + np.uint64(default[f]), 1] < few):
            write_split(found[node, f], f, nothing)
            left_open[node, f] = -np.inf
            continue
        if compare_first and histogram[missing, 0] == 0 and histogram[missing, 1] == 0:
            parent = leaf_score(total_g * units[0], total_h * units[1], rules[0], rules[1], rules[2])
            bar = (max(rules[3], known) + parent) * scale * MARGIN
            g, h, reached = np.int64(0), np.int64(0), False
            for entry in range(first, missing):
                g += histogram[entry, 0]
                h += histogram[entry, 1]
                right_h = total_h - h
                left, right = np.float64(g), np.float64(total_g - g)
                wl, wr = np.float64(h) + extra, np.float64(right_h) + extra
                if (left * left * wr + right * right * wl) - bar * (wl * wr) > 0.0 and h >= few and right_h >= few:
                    reached = True
                    break
            if not reached:
                write_split(found[node, f], f, nothing)
                left_open[node, f] = -np.inf
                continue
        result = scan_feature(
            histogram[offsets[f] : offsets[f + 1]], no_counts, has_missing[f], total_g, total_h,
            end[node] - begin[node], known, units, rules, bounds, sums, above,
        )  # fmt: skip
        known = max(known, result[0])
        write_split(found[node, f], f, result)
        left_open[node, f] = result[5]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def choose_kernel(  # type: ignore[no-untyped-def]
    histogram, total_g, total_h, n_rows, offsets, has_missing, units, rules, bounds, counts, sums, above, found,
    left_open,
):  # fmt: skip
    """Return the feature with the best split of one node whose rows are counted.

    counts            int64 (n_total_bins,)  in  empty: no candidate needs them
    sums, above       scratch, see split.scan_side
    found, left_open  in out, see split.scan_features
    """
    certain = -np.inf
    for f in range(len(has_missing)):
        certain = max(certain, found[f].gain)
    winner = 0
    for f in range(len(has_missing)):
        if len(counts) > 0 and left_open[f] > -np.inf and left_open[f] >= certain:
            first, last = offsets[f], offsets[f + 1]
            result = scan_feature(
                histogram[first:last], counts[first:last], has_missing[f], total_g, total_h, n_rows, certain, units,
                rules, bounds, sums, above,
            )  # fmt: skip
            write_split(found[f], f, result)
            certain = max(certain, result[0])
        if found[f].gain > found[winner].gain:
            winner = f
    return winner


class StoredEngine(CpuEngine):
    """Training state in host memory, with bins in columns, bundles and entries."""

    nodes_are_costly = True

    def _prepare(self) -> None:
        stored = self.binned.stored
        assert stored is not None
        self._stored = stored
        self._storage = stored_rows.described(stored)
        is_own = (stored.column >= 0) & (stored.first_code == 0)
        self._default = np.where(is_own, -1, stored.default).astype(np.int64)
        n_value_bins = self.binned.n_value_bins.astype(np.int64)
        self._partition = stored_rows.StoredPartition(stored, n_value_bins, self.n_threads)
        self._store: RowStore = RowStore(stored.codes, in_place=True)
        self._histograms: HistogramBuilder = StoredHistograms(stored, self.n_threads)
        self._splits = SplitFinder(stored.offsets, self.binned.has_missing, self.n_threads)
        self._chosen = np.ones(self.binned.n_used, np.bool_)

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Note the features; the others are summed too, but not searched."""
        self._chosen[:] = features is None
        if features is not None:
            self._chosen[features] = True

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree."""
        self._histograms.set_slots(n_slots)
        root = self._rounded.root
        return root if self._bag is None else replace(root, depth=ROOT_DEPTH)

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        meanwhile: Callable[[], None] | None,
    ) -> None:
        """Leave the tree to rounds."""

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places."""
        return self._partition.partition(self._store, nodes, splits)

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Route the rows that were not chosen."""
        if self._bag is not None:
            rows = self._bag.outside
            stored_rows.find_leaves(self._stored, self.binned.n_value_bins, tree, rows, self.n_threads, self._leaf)

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a round step by step."""
        return expand_in_steps(self, batch, rules, max_depth)

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
        if context is not None:
            return self._find_general(nodes, slots, gradient, hessian, rules, context)
        finder, histograms = self._splits, self._histograms.histograms
        n_nodes, n_used = len(slots), self.binned.n_used
        best = np.zeros(n_nodes, SPLIT)
        found = np.empty((n_nodes, n_used), SPLIT)
        left_open = np.empty((n_nodes, n_used))
        how = finder.numbers(self._rounded.quantization, rules)
        bins_per_feature = max(1, int(finder.offsets[-1]) // max(1, n_used))
        run_ranges(
            lambda start, stop: scan_stored_kernel(
                histograms, slots, gradient, hessian, nodes.begin, nodes.end, self._default, self._chosen,
                finder.offsets, finder.has_missing,
                NO_COUNTS, *how, finder.most_bins, start, stop, found, left_open,
            ),
            n_nodes * n_used, self.n_threads, smallest=BINS_PER_THREAD // bins_per_feature + 1,
        )  # fmt: skip
        is_open = left_open.max(axis=1) >= np.maximum(found["gain"].max(axis=1), np.finfo(np.float64).min)

        def choose(start: int, stop: int) -> None:
            counts = np.empty(int(finder.offsets[-1]) if is_open[start:stop].any() else 0, np.int64)
            sums, above = np.empty((2, finder.most_bins), np.int64), np.empty(finder.most_bins)
            for node in range(start, stop):
                if is_open[node]:
                    self._count(nodes, node, counts)
                winner = choose_kernel(
                    histograms[slots[node]], gradient[node], hessian[node], nodes.end[node] - nodes.begin[node],
                    finder.offsets, finder.has_missing, *how, counts if is_open[node] else NO_COUNTS, sums, above,
                    found[node], left_open[node],
                )  # fmt: skip
                best[node] = found[node, winner]

        run_ranges(choose, n_nodes, self.n_threads)
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
        """Find the best splits of nodes with a context, some nodes at a time; rows are counted for all features."""
        how = self._rounded.quantization
        context = replace(context, mask=context.mask & pack_mask(self._chosen[None]))
        n_bins = int(self._splits.offsets[-1])
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
                    self._splits.offsets, self._splits.has_missing, np.arange(self.binned.n_used, dtype=np.int32), how,
                    rules, context.take(some), self.n_threads, counted,
                )
            )  # fmt: skip
        return np.concatenate(parts) if parts else np.zeros(0, SPLIT)
