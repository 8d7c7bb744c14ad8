"""Best splits of stored bins on the CPU: many features of few bins, most of them with few rows or none in a node.

Features are scanned in chunks. First the running sums of all candidates of a chunk that could stand at all are written
side by side, those of empty bins and of sides with too few rows left out; then they are held against the best gain so
far, without a branch (split.compare); only a feature that reaches it is scanned in full, by split.scan_feature.

Whatever the split, one side is without the default bin, so a feature that has too few rows beside it is passed by.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.split import (
    BINS_PER_THREAD,
    MARGIN,
    NO_COUNTS,
    can_compare,
    leaf_score,
    scan_feature,
    write_split,
)
from hornbeam.backends.cpu.growth.split_categorical import around_node, improve_node
from hornbeam.backends.cpu.growth.stored_partition import StoredPartition, StoredRows, count_bins
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.core.dtypes import SPLIT
from hornbeam.trees.records import Segments

FIRST_CHUNK, LARGEST_CHUNK = 64, 1024
"""Candidates of a chunk: few at first, since what they are held against is low then; more each time."""


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def reaches(left_g, left_h, total_g, total_h, extra, bar):  # type: ignore[no-untyped-def]
    """Say whether the score of a candidate reaches the bar; see split.compare."""
    left, right = np.float64(left_g), np.float64(total_g - left_g)
    wl, wr = np.float64(left_h) + extra, np.float64(total_h - left_h) + extra
    return left * left * wr + right * right * wl > bar * (wl * wr)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def candidates_of(  # type: ignore[no-untyped-def]
    histogram, total_h, default, chosen, offsets, compare_first, few, f, f1, size, left_g, left_h, features, ends
):
    """Write the candidates of the features f... of a node until `size` are there, or a feature must be scanned in full.

    left_g, left_h  int64 (>= size + most bins,)   out   sums of the left side
    features        int64 (>= size,)               out   features that have candidates
    ends            int64 (>= size,)               out   end of their candidates

    Returns the next feature, how many have candidates, and whether the next one must be scanned in full.
    """
    n, n_found = np.uint64(0), np.uint64(0)
    most, many = np.uint64(size), total_h - few
    while f < f1 and n < most:
        first, missing = np.uint64(offsets[f]), np.uint64(offsets[f + 1] - 1)
        if not chosen[f] or (default[f] >= 0 and total_h - histogram[first + np.uint64(default[f]), 1] < few):
            f += 1
            continue
        if not compare_first or histogram[missing, 0] != 0 or histogram[missing, 1] != 0:
            return f, np.int64(n_found), True
        g, h, start = np.int64(0), np.int64(0), n
        for entry in range(first, missing):
            own_g, own_h = histogram[entry, 0], histogram[entry, 1]
            g += own_g
            h += own_h
            left_g[n], left_h[n] = g, h
            n += np.uint64(((own_g | own_h) != 0) & (h >= few) & (h <= many))
        if n > start:
            features[n_found], ends[n_found] = f, n
            n_found += np.uint64(1)
        f += 1
    return f, np.int64(n_found), False


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_stored(  # type: ignore[no-untyped-def]
    histogram, total_g, total_h, n_rows, default, chosen, offsets, has_missing, no_counts, units, rules, bounds, f0, f1,
    scratch, split, open_features, open_gains,
):  # fmt: skip
    """Find the best certain split of the features f0:f1 of one node.

    histogram      int64 (n_total_bins, 2)   in
    default        int64 (n_used,)           in    the default bin, -1: none
    chosen         bool (n_used,)            in    features that may be used
    scratch        see make_scratch
    split          SPLIT (1,)                out
    open_features  int32 (>= f1 - f0,)       out   features with a candidate that needs a row count
    open_gains     float64 (>= f1 - f0,)     out   the best gain of these

    Returns how many features are open.
    """
    left_g, left_h, features, ends, sums, above = scratch[:6]
    compare_first = can_compare(units, rules)
    scale, extra = units[1] / (units[0] * units[0]), rules[1] / units[1]
    parent = leaf_score(total_g * units[0], total_h * units[1], rules[0], rules[1], rules[2])
    few = max(np.int64(1), np.int64(rules[4] * bounds[0]))
    write_split(split[0], -1, (-np.inf, -1, False, np.int64(0), np.int64(0), -np.inf))
    n_open, size, f = np.int64(0), np.int64(FIRST_CHUNK), np.int64(f0)
    while f < f1:
        f, n_found, in_full = candidates_of(
            histogram, total_h, default, chosen, offsets, compare_first, few, f, f1, size, left_g, left_h, features,
            ends,
        )  # fmt: skip
        size = min(2 * size, np.int64(LARGEST_CHUNK))
        n_candidates = ends[n_found - 1] if n_found > 0 else 0
        bar = (max(rules[3], split[0].gain) + parent) * scale * MARGIN
        n_reached = np.int64(0)
        for i in range(np.uint64(n_candidates)):
            n_reached += np.int64(reaches(left_g[i], left_h[i], total_g, total_h, extra, bar))
        first = np.int64(0) if n_reached > 0 else n_found
        start = np.int64(0)
        for k in range(first, n_found + np.int64(in_full)):
            reached = k == n_found  # that is the feature f, which must be scanned in any case
            if not reached:
                bar = (max(rules[3], split[0].gain) + parent) * scale * MARGIN  # it rises
                for i in range(np.uint64(start), np.uint64(ends[k])):
                    reached |= reaches(left_g[i], left_h[i], total_g, total_h, extra, bar)
                start = ends[k]
            if not reached:
                continue
            own = features[k] if k < n_found else f
            result = scan_feature(
                histogram[offsets[own] : offsets[own + 1]], no_counts, has_missing[own], total_g, total_h, n_rows,
                split[0].gain, units, rules, bounds, sums, above,
            )  # fmt: skip
            if result[0] > split[0].gain:
                write_split(split[0], own, result)
            if result[5] > -np.inf:
                open_features[n_open], open_gains[n_open] = own, result[5]
                n_open += 1
        f += np.int64(in_full)
    return n_open


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def settle(  # type: ignore[no-untyped-def]
    codes, records, place_of, storage, starts, rows, histogram, total_g, total_h, begin, end, offsets, has_missing,
    units, rules, bounds, scratch, open_features, open_gains, n_open, split,
):  # fmt: skip
    """Count the rows of the open features that may still win, and take the best.

    split  SPLIT (1,)  in out  the best certain split
    the rest as in stored_partition.count_bins and scan_stored
    """
    sums, above, counts = scratch[4], scratch[5], scratch[6]
    for k in range(n_open):
        if open_gains[k] < split[0].gain:
            continue
        f = np.int64(open_features[k])
        count_bins(codes, records, place_of, storage, starts, rows, f, begin, end, counts)
        result = scan_feature(
            histogram[offsets[f] : offsets[f + 1]], counts[: offsets[f + 1] - offsets[f]], has_missing[f], total_g,
            total_h, end - begin, split[0].gain, units, rules, bounds, sums, above,
        )  # fmt: skip
        if result[0] > split[0].gain or (result[1] >= 0 and result[0] == split[0].gain and f <= split[0].feature):
            write_split(split[0], f, result)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def search_child(  # type: ignore[no-untyped-def]
    codes, records, place_of_row, storage, starts, rows, histogram, g, h, begin, end, default, chosen, offsets,
    has_missing, no_counts, units, rules, bounds, f0, f1, scratch, open_features, open_gains, set_number, split,
    categories=None,
):  # fmt: skip
    """Find the best split of a node with the rows begin:end, among the features f0:f1 and categorical ones.

    histogram   int64 (n_total_bins, 2)   in
    set_number  where its set is written, from the first set on, if the feature is categorical
    split       SPLIT (1,)                out
    categories  (`own`, `scratch` and `mask` of split_categorical.improve_node, number of the first set); None: no
                feature is categorical
    the rest as in scan_stored and settle
    """
    gather = np.bool_(True)
    n_open = scan_stored(
        histogram, g, h, end - begin, default, chosen, offsets, has_missing, no_counts, units, rules, bounds, f0, f1,
        scratch, split, open_features, open_gains,
    )  # fmt: skip
    settle(
        codes, records, place_of_row, storage, starts, rows, histogram, g, h, begin, end, offsets, has_missing, units,
        rules, bounds, scratch, open_features, open_gains, n_open, split,
    )  # fmt: skip
    if categories is not None:
        own, levels, mask, first_set = categories
        improve_node(
            codes, records, gather, histogram[own[0] :], g, h, begin, end, around_node(g, h, own), np.uint64(0), mask,
            own, levels, first_set + set_number, split[0], (codes, place_of_row, storage, starts, rows),
        )  # fmt: skip


def make_scratch(most_bins: int) -> tuple[NDArray[Any], ...]:
    """Make what one thread needs for scanning; most_bins of a feature."""
    n = LARGEST_CHUNK + most_bins
    return (
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty((2, most_bins), np.int64), np.empty(most_bins), np.empty(most_bins, np.int64),
    )  # fmt: skip


class StoredSplits:
    """Finds splits on stored bins for one training run."""

    def __init__(self, partition: StoredPartition, has_missing: NDArray[np.bool_]) -> None:
        stored, self.n_threads = partition.stored, partition.n_threads
        self.codes, self.storage, self.lists = stored.codes, partition.storage, partition.lists
        self.offsets, self.has_missing = stored.offsets, has_missing
        is_own = (stored.column >= 0) & (stored.first_code == 0)
        self.default = np.where(is_own, -1, stored.default).astype(np.int64)
        self.chosen = np.ones(len(has_missing), np.bool_)
        most_bins = int(np.diff(stored.offsets).max(initial=1))
        self.scratch = [make_scratch(most_bins) for _ in range(self.n_threads)]

    def find(
        self,
        store: StoredRows,
        histograms: NDArray[np.int64],
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        how: tuple[tuple[float, ...], ...],
    ) -> NDArray[np.void]:
        """See protocol.Engine.find_splits; how is what SplitFinder.numbers returns."""
        n_nodes, n_used = len(slots), len(self.has_missing)
        n_bins = int(self.offsets[-1])
        n_threads = max(1, min(self.n_threads, n_nodes * n_bins // BINS_PER_THREAD))
        n_parts = min(-(-2 * n_threads // max(1, n_nodes)), n_used) if n_threads > 1 else 1
        cuts = np.searchsorted(self.offsets, np.arange(n_parts + 1) * n_bins // n_parts).astype(np.int64)
        found = np.empty((n_nodes, n_parts), SPLIT)
        n_open = np.empty((n_nodes, n_parts), np.int64)
        open_features, open_gains = np.empty((n_nodes, n_used), np.int32), np.empty((n_nodes, n_used))
        fixed = self.offsets, self.has_missing
        bounds = list(pairwise(cuts.tolist()))

        def scan(thread: int) -> None:
            for i in range(n_nodes * n_parts * thread // n_threads, n_nodes * n_parts * (thread + 1) // n_threads):
                node, part = divmod(i, n_parts)
                f0, f1 = bounds[part]
                n_open[node, part] = scan_stored(
                    histograms[slots[node]], gradient[node], hessian[node], nodes.end[node] - nodes.begin[node],
                    self.default, self.chosen, *fixed, NO_COUNTS, *how, f0, f1, self.scratch[thread],
                    found[node, part : part + 1], open_features[node, f0:f1], open_gains[node, f0:f1],
                )  # fmt: skip

        def choose(thread: int) -> None:
            for node in range(n_nodes * thread // n_threads, n_nodes * (thread + 1) // n_threads):
                best = found[node, :1]
                for part in range(1, n_parts):
                    if found["gain"][node, part] > best["gain"][0]:
                        best[0] = found[node, part]
                for part, (f0, f1) in enumerate(bounds):
                    if n_open[node, part] > 0:
                        settle(
                            self.codes, store.even, store.place_of, self.storage, *self.lists, histograms[slots[node]],
                            gradient[node], hessian[node], nodes.begin[node], nodes.end[node], *fixed, *how,
                            self.scratch[thread], open_features[node, f0:f1], open_gains[node, f0:f1],
                            n_open[node, part], best,
                        )  # fmt: skip

        run_threads(scan, n_threads)
        run_threads(choose, n_threads)
        return found[:, 0].copy()
