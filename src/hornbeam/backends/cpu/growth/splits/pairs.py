"""Best splits from histograms of pairs, int64 (n_total_bins, 2): gradient and hessian of each bin.

Features are searched in chunks. First the running sums of all candidates of a chunk that could stand at all are written
side by side, those of empty bins and of sides with too few rows left out; then they are held against the best gain so
far, without a branch; only a feature that reaches it is searched in full. Whatever the split, one side is without the
default bin, so a sparse feature that has too few rows beside it is passed by.

Candidates are written in float64, which all processors compare several at a time, integers few do. In nodes of so many
rows that their sums may not be exact in it, every feature is searched in full.

    scan     the best certain split of some features, and the features with an open candidate (candidates.py)
    settle   counts the rows of those that may still win
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import count_bins, node_of
from hornbeam.backends.cpu.growth.splits.candidates import (
    ANYTHING,
    MARGIN,
    Feature,
    best_candidate,
    take_candidate,
)
from hornbeam.backends.cpu.growth.splits.rules import clear_split, rules_in
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run
from hornbeam.backends.cpu.tuning import Tuning


class Features(NamedTuple):
    """The features that are searched for thresholds.

    offsets      int64 (n + 1,)   the bins of feature f are offsets[f]:offsets[f + 1], the missing bin last
    has_missing  bool (n,)
    default      int64 (n,)       the bin that a sparse feature does not store; -1: it has none
    chosen       bool (n,)        the tree may use it
    """

    offsets: NDArray[np.int64]
    has_missing: NDArray[np.bool_]
    default: NDArray[np.int64]
    chosen: NDArray[np.bool_]


class Scratch(NamedTuple):
    """What one thread needs for the search; with a leading axis: all threads.

    candidate_g, candidate_h  float64 (largest chunk + most bins,)   sums of the left side
    features, ends            int64 (largest chunk + most bins,)   features that have candidates; the end of these
    gradient, hessian         int64 (most bins,)                   running sums of one feature
    scores                    float64 (2, most bins)
    open_features             int64 (n,)                           features that need a row count
    open_gains                float64 (n,)                         the best gain of these
    limits                    int64 (3,)                           candidates of the first, and of the largest chunk;
                                                                   rows whose sums are exact in float64
    beside                    int64 (n,)                           rows beside the default bin of each feature, where
                                                                   they are known: in nodes of few sparse rows
    """

    candidate_g: NDArray[np.float64]
    candidate_h: NDArray[np.float64]
    features: NDArray[np.int64]
    ends: NDArray[np.int64]
    gradient: NDArray[np.int64]
    hessian: NDArray[np.int64]
    scores: NDArray[np.float64]
    open_features: NDArray[np.int64]
    open_gains: NDArray[np.float64]
    limits: NDArray[np.int64]
    beside: NDArray[np.int64]

    @classmethod
    def make(cls, n_threads: int, features: Features, tuning: Tuning) -> Scratch:
        """Make the memory of some threads that search these features."""
        n, most = len(features.has_missing), int(np.diff(features.offsets).max(initial=1))
        shapes: list[Any] = [tuning.largest_chunk + most] * 4 + [most, most, (2, most), n, n, 3, n]
        kinds: list[Any] = [np.float64] * 2 + [np.int64] * 4 + [np.float64, np.int64, np.float64, np.int64, np.int64]
        made = cls(
            *(np.empty((n_threads, *np.atleast_1d(shape)), kind) for shape, kind in zip(shapes, kinds, strict=True))
        )
        made.limits[:] = tuning.first_chunk, tuning.largest_chunk, tuning.exact_rows
        return made


@inner_kernel
def scratch_of(scratch, t):
    """Return the scratch memory of thread t."""
    return Scratch(
        scratch.candidate_g[t], scratch.candidate_h[t], scratch.features[t], scratch.ends[t], scratch.gradient[t],
        scratch.hessian[t], scratch.scores[t], scratch.open_features[t], scratch.open_gains[t], scratch.limits[t],
        scratch.beside[t],
    )  # fmt: skip


@inlined
def reaches(left_g, left_h, total_g, total_h, extra, bar):
    """Say by how much the score of a candidate, times a positive number, passes the bar; see candidates.py."""
    left, right = np.float64(left_g), np.float64(total_g - left_g)
    wl, wr = np.float64(left_h) + extra, np.float64(total_h - left_h) + extra
    return (left * left * wr + right * right * wl) - bar * (wl * wr)


@inner_kernel
def compare(gradient, hessian, more_g, more_h, node, extra, bar, scores):
    """Write by how much each candidate passes a bar, without division or branch."""
    total_g, total_h = node.gradient, node.hessian
    for b in range(len(gradient)):
        scores[b] = reaches(gradient[b] + more_g, hessian[b] + more_h, total_g, total_h, extra, bar)


@inner_kernel
def run_up(histogram, gradient, hessian):
    """Write the running sums of some bins."""
    g, h = np.int64(0), np.int64(0)
    for b in range(len(histogram)):
        g += histogram[b, 0]
        h += histogram[b, 1]
        gradient[b], hessian[b] = g, h


@inner_kernel
def search_feature(histogram, counts, has_missing, known, node, rules, scratch):
    """Find the best candidate of one feature that gains `known` or more.

    histogram  int64 (n_values + 1, 2)   in   the missing bin last
    counts     int64 (n_values + 1,)     in   rows; empty: the bounds decide
    """
    n_values = len(histogram) - 1
    gradient, hessian = scratch.gradient[:n_values], scratch.hessian[:n_values]
    left, right = scratch.scores[0, :n_values], scratch.scores[1, :n_values]
    run_up(histogram[:n_values], gradient, hessian)
    if rules.by_products:
        bar = (max(rules.min_gain, known) + node.score) * rules.scale * MARGIN
        missing_g, missing_h = histogram[n_values, 0], histogram[n_values, 1]
        compare(gradient, hessian, missing_g, missing_h, node, rules.extra, bar, left)
        if missing_g != 0 or missing_h != 0:
            compare(gradient, hessian, np.int64(0), np.int64(0), node, rules.extra, bar, right)
    else:
        left[:], right[:] = 1.0, 1.0
    feature = Feature(has_missing, np.int64(0), 1.0, False)
    return best_candidate(gradient, hessian, left, right, ANYTHING, counts, feature, node, None, rules)


@inner_kernel
def write_chunk(histogram, has_beside, f, f1, size, features, node, rules, scratch):
    """Write the candidates of the features f... until `size` are there, or a feature must be searched in full.

    Returns the next feature, the number of those that have candidates, and whether the next is to be searched in full.
    """
    offsets, default, chosen = features.offsets, features.default, features.chosen
    left_g, left_h, numbers, ends = scratch.candidate_g, scratch.candidate_h, scratch.features, scratch.ends
    few, total_h, in_floats = rules.few, node.hessian, rules.by_products and node.end - node.begin <= scratch.limits[2]
    n, n_features, most, many = np.uint64(0), np.uint64(0), np.uint64(size), total_h - few
    while f < f1 and n < most:
        first, missing = np.uint64(offsets[f]), np.uint64(offsets[f + 1] - 1)
        if not chosen[f] or (default[f] >= 0 and total_h - histogram[first + np.uint64(default[f]), 1] < few):
            f += 1
            continue
        if has_beside and scratch.beside[f] < rules.min_data:
            f += 1
            continue
        if not in_floats or histogram[missing, 0] != 0 or histogram[missing, 1] != 0:
            return f, np.int64(n_features), True
        g, h, start = np.int64(0), np.int64(0), n
        for entry in range(first, missing):
            bin_g, bin_h = histogram[entry, 0], histogram[entry, 1]
            g += bin_g
            h += bin_h
            left_g[n], left_h[n] = np.float64(g), np.float64(h)
            n += np.uint64(((bin_g | bin_h) != 0) & (h >= few) & (h <= many))
        if n > start:
            numbers[n_features], ends[n_features] = f, n
            n_features += np.uint64(1)
        f += 1
    return f, np.int64(n_features), False


@inner_kernel
def scan(histogram, has_beside, f0, f1, features, node, rules, scratch, split):
    """Find the best certain split of the features f0:f1 of one node; returns the number of open features.

    histogram   int64 (n_total_bins, 2)   in
    has_beside  the rows beside default bins are known, see Scratch
    split       SPLIT ()                  out
    """
    left_g, left_h, numbers, ends = scratch.candidate_g, scratch.candidate_h, scratch.features, scratch.ends
    offsets, has_missing, no_counts = features.offsets, features.has_missing, scratch.ends[:0]
    g, h, extra = np.float64(node.gradient), np.float64(node.hessian), rules.extra
    clear_split(split)
    n_open, size, f = np.int64(0), scratch.limits[0], np.int64(f0)
    while f < f1:
        f, n_features, in_full = write_chunk(histogram, has_beside, f, f1, size, features, node, rules, scratch)
        size = min(2 * size, scratch.limits[1])
        n_candidates = ends[n_features - 1] if n_features > 0 else 0
        bar = (max(rules.min_gain, split.gain) + node.score) * rules.scale * MARGIN
        n_reached = np.int64(0)
        for i in range(np.uint64(n_candidates)):
            n_reached += np.int64(reaches(left_g[i], left_h[i], g, h, extra, bar) > 0.0)
        start = np.int64(0)
        for k in range(np.int64(0) if n_reached > 0 else n_features, n_features + np.int64(in_full)):
            reached = k == n_features  # that is the feature f, which must be searched in any case
            if not reached:
                bar = (max(rules.min_gain, split.gain) + node.score) * rules.scale * MARGIN  # it rises
                for i in range(np.uint64(start), np.uint64(ends[k])):
                    reached |= reaches(left_g[i], left_h[i], g, h, extra, bar) > 0.0
                start = ends[k]
            if not reached:
                continue
            number = numbers[k] if k < n_features else f
            bins = histogram[offsets[number] : offsets[number + 1]]
            best = search_feature(bins, no_counts, has_missing[number], split.gain, node, rules, scratch)
            take_candidate(best, number, split)
            if best.open_gain > -np.inf:
                scratch.open_features[n_open], scratch.open_gains[n_open] = number, best.open_gain
                n_open += 1
        f += np.int64(in_full)
    return n_open


@inner_kernel
def settle(t, call, counting, histogram, n_open, features, node, rules, scratch):
    """Count the rows of the open features that may still win, and take the best split of all.

    call  of thread t, see operations.py; its split, in: the best certain one
    """
    split = call.split
    for k in range(n_open):
        if scratch.open_gains[k] >= split.gain:
            f = scratch.open_features[k]
            bins = histogram[features.offsets[f] : features.offsets[f + 1]]
            counts = count_bins(t, call, counting, f, len(bins))
            best = search_feature(bins, counts, features.has_missing[f], split.gain, node, rules, scratch)
            take_candidate(best, f, split)


@inner_kernel
def search_histogram(t, call, histogram, features, rules, scratch, counting):
    """Find the best split of a call's node among its features that are numbers, from a histogram of pairs."""
    own, n_numeric, node = scratch_of(scratch, t), np.int64(len(features.has_missing)), node_of(call)
    first, last = min(call.first, n_numeric), min(call.last, n_numeric)
    n_open = scan(histogram, call.beside, first, last, features, node, rules, own, call.split)
    settle(t, call, counting, histogram, n_open, features, node, rules, own)


@kernel
def search_pairs(t, room, calls, histograms, thin, features, rules, scratch, counting, levels):
    """Search a node: the operation `search` on histograms of pairs.

    histograms  int64 (n_slots, n_total_bins, 2)          in
    thin        int64 (n_threads or 0, n_total_bins, 2)   in   see sparse/tree.py
    rules       RULES (1,)                                in
    scratch     of all threads
    levels      the operation; empty: no feature is categorical
    """
    if introduced(t, room, (calls, histograms, thin, features, rules, scratch, counting, levels)):
        return
    call = calls[t]
    histogram = histograms[call.slot] if call.slot >= 0 else thin[t]
    search_histogram(
        t, call, histogram, features, rules_in(rules[0]), scratch, counting
    )  # fmt: skip
    if len(levels) > 0:
        run(levels, t)
