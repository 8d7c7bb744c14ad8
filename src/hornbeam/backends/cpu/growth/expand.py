"""A whole round in one kernel: each thread takes some nodes from partition to the best splits of their children.

Nothing is shared between nodes, so threads need not wait for each other between the steps, and the histograms of a
node are still in the cache when they are subtracted and scanned.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.histogram import HistogramBuilder, add_packed, add_wide
from hornbeam.backends.cpu.growth.partition import as_words, move_rows
from hornbeam.backends.cpu.growth.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.growth.split import NO_COUNTS, SplitFinder, choose_feature, scan_features
from hornbeam.backends.cpu.growth.split_categorical import Round, around_node, improve_node
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.splitting import SplitRules

NANOSECONDS_PER_THREAD = 60_000
"""A second thread is worth waking for this much work."""

STEPS_COST = 1_500_000
"""A round in steps costs some 700 microseconds more than in one go, so a node must be larger than this to be cut."""

ROW, UPDATE, BIN = 8, 1, 12
"""Rough cost of moving a row, of a histogram update, and of a bin (unpack, subtract, scan twice), in nanoseconds."""


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def expand_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, words, words_even, words_odd, n_value_bins, blocks, offsets, places,
    has_missing, batch, start, stop, histograms, no_counts, units, rules, bounds, max_depth, counters, counts, sums,
    above, features, left_open, n_left, found, sets=None, categories=None,
):  # fmt: skip
    """Expand the nodes start:stop of the batch; see protocol.Engine.expand.

    batch      EXPANSION (n_nodes,)  in
    counters, counts, sums, above, features (SPLIT, n_used), left_open (n_used)  scratch of this thread
    n_left     int64 (n_nodes,)      out
    found      SPLIT (n_nodes, 2)    out
    sets       see partition.move_rows
    categories (`own` and `scratch` of split_categorical.improve_node, number of the first set); None: no feature is
               categorical. has_missing is that of the others
    """
    wide = even.shape[1] == 2
    min_data = rules[4]
    for node in range(start, stop):
        this = batch[node]
        begin, end, depth = this.begin, this.end, np.int64(this.depth)
        source, records = bins_at(bins, bins_even, bins_odd, gather, depth), records_at(even, odd, depth)
        out_records = records_at(even, odd, depth + 1)
        source_words = bins_at(words, words_even, words_odd, gather, depth)
        out_words = bins_at(words, words_even, words_odd, gather, depth + 1)
        rows_left = move_rows(
            source, records, source_words, out_records, out_words, gather, np.int64(this.feature), np.int64(this.bin),
            this.missing_left, n_value_bins[this.feature], begin, end, begin, end - 1, np.int64(-1), sets,
        )  # fmt: skip
        n_left[node] = rows_left
        middle = begin + rows_left
        rows_right = end - middle
        g_left, h_left = this.left_gradient, this.left_hessian
        g_right, h_right = this.gradient - g_left, this.hessian - h_left
        shallow = depth + 1 < max_depth
        left_wanted = shallow and rows_left >= 2 * min_data and h_left > 1
        right_wanted = shallow and rows_right >= 2 * min_data and h_right > 1
        found[node, 0].gain = -np.inf
        found[node, 1].gain = -np.inf
        if not (left_wanted or right_wanted):
            continue
        left_small = rows_left <= rows_right
        small_begin, small_end = (begin, middle) if left_small else (middle, end)
        children = bins_at(bins, bins_even, bins_odd, gather, depth + 1)
        small = histograms[this.spare_slot]
        for block in range(len(blocks) - 1):
            f0, f1 = blocks[block], blocks[block + 1]
            if wide or small_begin == small_end:
                small[offsets[f0] : offsets[f1]] = 0
            if wide:
                add_wide(children, out_records, small_begin, small_end, gather, f0, f1, offsets, small)
            else:
                add_packed(
                    children, out_records, small_begin, small_end, gather, f0, f1, offsets, places, counters, small
                )
        if right_wanted if left_small else left_wanted:
            large = histograms[this.slot]
            for i in range(len(large)):
                large[i, 0] -= small[i, 0]
                large[i, 1] -= small[i, 1]
        for side in range(2):
            if not (right_wanted if side else left_wanted):
                continue
            slot = this.spare_slot if left_small == (side == 0) else this.slot
            child_begin, child_end = (middle, end) if side else (begin, middle)
            g, h = (g_right, h_right) if side else (g_left, h_left)
            scan_features(
                histograms, slot, g, h, child_end - child_begin, offsets, has_missing, no_counts, units, rules, bounds,
                np.int64(0), len(has_missing), sums, above, features, left_open,
            )  # fmt: skip
            winner = choose_feature(
                children, out_records, gather, histograms, slot, g, h, child_begin, child_end, offsets, has_missing,
                units, rules, bounds, counts, sums, above, features, left_open,
            )  # fmt: skip
            found[node, side] = features[winner]
            if categories is not None:
                own, levels, first_set = categories
                improve_node(
                    children, out_records, gather, histograms[slot, own[0] :], g, h, child_begin, child_end,
                    around_node(g, h, own), np.uint64(0), own[-1][0, :0], own, levels, first_set + 2 * node + side,
                    found[node, side],
                )  # fmt: skip


class Expander:
    """Expands rounds for one training run; keeps the scratch memory of the threads."""

    def __init__(self, builder: HistogramBuilder, finder: SplitFinder, n_value_bins: NDArray[np.int64]) -> None:
        self.builder = builder
        self.finder = finder
        self.n_value_bins = n_value_bins
        n_used, most_bins, n_threads = len(n_value_bins), finder.most_bins, builder.n_threads
        self.scratch = [
            (
                builder.counters[thread],
                np.empty(most_bins, np.int64),
                np.empty((2, most_bins), np.int64),
                np.empty(most_bins),
                np.empty(n_used, SPLIT),
                np.empty(n_used),
            )
            for thread in range(n_threads)
        ]

    def deal(self, batch: NDArray[np.void]) -> list[int] | None:
        """Deal the nodes to threads by their work: n + 1 bounds for n threads, or None if one node is too large.

        Then the steps, each of which cuts large nodes, are better.
        """
        n_used, n_threads = len(self.n_value_bins), self.builder.n_threads
        rows = (batch["end"] - batch["begin"]).tolist()
        work = [count * (ROW + n_used * UPDATE // 2) + self.builder.n_bins * BIN for count in rows]
        total = sum(work)
        n_threads = max(1, min(n_threads, total // NANOSECONDS_PER_THREAD, len(rows)))
        if n_threads < self.builder.n_threads and max(work) > STEPS_COST:
            return None
        bounds, done = [0], 0
        for node, cost in enumerate(work):
            if done + cost / 2 > total * len(bounds) / n_threads and len(bounds) < n_threads:
                bounds.append(node)
            done += cost
        bounds.append(len(rows))
        heaviest = max(sum(work[first:last]) for first, last in pairwise(bounds))
        if heaviest > 1.3 * total / n_threads + STEPS_COST / 2:
            return None
        return bounds

    def expand(
        self,
        store: RowStore,
        batch: NDArray[np.void],
        bounds: list[int],
        quantization: Quantization,
        rules: SplitRules,
        max_depth: int,
        categories: Round | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Expand the batch on the threads that `deal` chose."""
        arrays = store.arrays()
        words = [as_words(array) for array in arrays[:3]]
        builder, finder = self.builder, self.finder
        sets: tuple[Any, ...] | None = None
        own: list[Any] = [None] * len(bounds)
        if categories is not None:
            sets = categories.own[-1], categories.own[3]
            own = [(categories.own, scratch, categories.first_set) for scratch in categories.scratch]
        fixed = (
            *arrays, *words, self.n_value_bins, builder.blocks, builder.offsets, builder.places, finder.has_missing,
            batch,
        )  # fmt: skip
        how = finder.numbers(quantization, rules)
        n_left = np.empty(len(batch), np.int64)
        found = np.zeros((len(batch), 2), SPLIT)
        run_threads(
            lambda t: expand_kernel(
                *fixed, bounds[t], bounds[t + 1], builder.histograms, NO_COUNTS, *how, max_depth, *self.scratch[t],
                n_left, found, sets, own[t],
            ),
            len(bounds) - 1,
        )  # fmt: skip
        return n_left, found
