"""The split search of a tree that all outputs share: twin of trees/output_splits.py.

One (node, feature) after the other: the sums of an output run over the bins, then what the output gains at every
threshold is added to what the outputs before it do. Thresholds do not look at each other, so the additions vectorise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.rules import leaf_score
from hornbeam.backends.cpu.host.kernels import borrowed, inner_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.splitting import ROUNDING_NOISE, SplitRules

TASKS_PER_THREAD = 4
"""Features of nodes that are worth a thread of their own."""


class SharedRules(NamedTuple):
    """What a split of all outputs must honour: see SplitRules.

    counter       the histogram whose hessians count rows
    """

    lambda_l1: float
    lambda_l2: float
    max_delta_step: float
    min_gain: float
    min_data: int
    min_hessian: float
    counter: int

    @classmethod
    def of(cls, rules: SplitRules, counter: int) -> SharedRules:
        """Put the rules of a training into numbers."""
        least = float(rules.min_sum_hessian_in_leaf)
        return cls(
            float(rules.lambda_l1), float(rules.lambda_l2), float(rules.max_delta_step),
            float(rules.min_gain_to_split), int(rules.min_data_in_leaf), least, counter,
        )  # fmt: skip


class SharedBins(NamedTuple):
    """The histograms that are searched.

    histograms   int64 (n_slots, n_total_bins, 2)
    slots        int32 (n_nodes, n_histograms)
    sums         int64 (n_nodes, n_outputs, 2)      of the nodes
    units        float64 (n_outputs, 2)
    offsets      int64 (n_features + 1,)            the bins of feature f are offsets[f]:offsets[f + 1]
    has_missing  bool (n_features,)
    """

    histograms: NDArray[np.int64]
    slots: NDArray[np.int32]
    sums: NDArray[np.int64]
    units: NDArray[np.float64]
    offsets: NDArray[np.int64]
    has_missing: NDArray[np.bool_]


class Found(NamedTuple):
    """The best candidate of every node and feature, each (n_nodes, n_features)."""

    gain: NDArray[np.float64]
    bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]


@inner_kernel
def add_output(left_g, left_h, more, total, parent, units, rules, gain, scores, left_weight, right_weight):
    """Add what one output gains at every threshold; twin of output_splits.output_gains.

    left_g, left_h  int64 (n_values,)    in       running sums
    more, total     int64 (2,)           in       what goes left besides, and of the node
    gain ...        float64 (n_values,)  in, out
    """
    unit_g, unit_h, least = units[0], units[1], rules.min_hessian
    more_g, more_h, total_g, total_h = more[0], more[1], total[0], total[1]
    l1, l2, most = rules.lambda_l1, rules.lambda_l2, rules.max_delta_step
    for b in range(len(left_g)):
        g, h = left_g[b] + more_g, left_h[b] + more_h
        lw, rw = np.float64(h) * unit_h, np.float64(total_h - h) * unit_h
        score = leaf_score(np.float64(g) * unit_g, lw if lw > least else least, l1, l2, most)
        score += leaf_score(np.float64(total_g - g) * unit_g, rw if rw > least else least, l1, l2, most)
        gain[b] += score - parent
        scores[b] += score
        left_weight[b] = lw if lw > left_weight[b] else left_weight[b]
        right_weight[b] = rw if rw > right_weight[b] else right_weight[b]


@inner_kernel
def run_sums(histogram, gradient, hessian):
    """Write the running sums of a feature's bins, and return the missing bin's sums."""
    g, h = np.int64(0), np.int64(0)
    for b in range(len(gradient)):
        g += histogram[b, 0]
        h += histogram[b, 1]
        gradient[b], hessian[b] = g, h
    return histogram[len(gradient)]


@kernel
def search_shared(start, stop, bins, rules, found):
    """Search the (node, feature) pairs start:stop, counted feature by feature."""
    histograms, slots, offsets = borrowed(bins.histograms), borrowed(bins.slots), borrowed(bins.offsets)
    sums, units, has_missing = borrowed(bins.sums), borrowed(bins.units), borrowed(bins.has_missing)
    gains, best_bins, sides_left = borrowed(found.gain), borrowed(found.bin), borrowed(found.missing_left)
    n_features, n_outputs, most_values, none = len(has_missing), sums.shape[1], 0, np.zeros(2, np.int64)
    for f in range(n_features):
        most_values = max(most_values, offsets[f + 1] - offsets[f] - 1)
    room, running, rows = (
        np.empty((2, 4, most_values)),
        np.empty((2, most_values), np.int64),
        np.empty(most_values, np.int64),
    )
    counted = np.empty(most_values, np.int64)
    for task in range(start, stop):
        node, f = task // n_features, task % n_features
        first, last = offsets[f], offsets[f + 1]
        n_values = last - first - 1
        gradient, hessian = running[0, :n_values], running[1, :n_values]
        n_rows_missing = run_sums(
            histograms[slots[node, rules.counter], first:last], counted[:n_values], rows[:n_values]
        )[1]
        n_sides = 2 if has_missing[f] and n_rows_missing != 0 else 1
        n_rows = rows[n_values - 1] + n_rows_missing
        room[:, :, :n_values] = 0.0
        for k in range(n_outputs):
            total, of_output = sums[node, k], units[k]
            missing = run_sums(histograms[slots[node, k], first:last], gradient, hessian)
            weight = np.float64(total[1]) * of_output[1]
            weight = weight if weight > rules.min_hessian else rules.min_hessian
            parent = leaf_score(
                np.float64(total[0]) * of_output[0], weight, rules.lambda_l1, rules.lambda_l2, rules.max_delta_step
            )
            for side in range(n_sides):
                own = room[side]
                add_output(
                    gradient, hessian, missing if side == 0 else none, total, parent, of_output, rules,
                    own[0, :n_values], own[1, :n_values], own[2, :n_values], own[3, :n_values],
                )  # fmt: skip
        best, best_bin, best_side = -np.inf, np.int32(-1), 0
        for b in range(n_values):
            for side in range(n_sides):
                gain, left = room[side, 0, b], rows[b] + (n_rows_missing if side == 0 else 0)
                if not (gain > best and gain > rules.min_gain and gain > room[side, 1, b] * ROUNDING_NOISE):
                    continue
                left_weight, right_weight = room[side, 2, b], room[side, 3, b]
                if left < rules.min_data or n_rows - left < rules.min_data:
                    continue
                if not (left_weight > 0.0 and right_weight > 0.0):
                    continue
                if left_weight >= rules.min_hessian and right_weight >= rules.min_hessian:
                    best, best_bin, best_side = gain, np.int32(b), side
        gains[node, f], best_bins[node, f], sides_left[node, f] = best, best_bin, best_side == 0


def find_shared(bins: SharedBins, rules: SharedRules, n_threads: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the best split of each node, SPLIT (n_nodes,), and the sums of its left side, (n_nodes, n_outputs, 2)."""
    n_nodes, n_features, n_outputs = len(bins.slots), len(bins.has_missing), bins.sums.shape[1]
    splits, left = np.zeros(n_nodes, SPLIT), np.zeros(bins.sums.shape, np.int64)
    splits["gain"], splits["feature"], splits["bin"] = -np.inf, -1, -1
    if n_features == 0:
        return splits, left
    shape = n_nodes, n_features
    found = Found(np.empty(shape), np.empty(shape, np.int32), np.empty(shape, np.bool_))
    n_tasks = n_nodes * n_features
    run_ranges(lambda start, stop: search_shared(start, stop, bins, rules, found), n_tasks, n_threads, TASKS_PER_THREAD)
    winner, every = np.argmax(found.gain, axis=1), np.arange(n_nodes)  # the first of equals
    chosen = found.gain[every, winner] > -np.inf
    splits["gain"][chosen] = found.gain[every, winner][chosen]
    splits["feature"][chosen] = winner[chosen]
    splits["bin"][chosen] = found.bin[every, winner][chosen]
    splits["missing_left"][chosen] = found.missing_left[every, winner][chosen]
    for node in np.flatnonzero(chosen).tolist():
        first, last = bins.offsets[winner[node]], bins.offsets[winner[node] + 1]
        histograms = bins.histograms[bins.slots[node, :n_outputs], first:last]
        left[node] = histograms[:, : splits["bin"][node] + 1].sum(axis=1)
        if splits["missing_left"][node]:
            left[node] += histograms[:, -1]
    return splits, left


def units_of(quantizations: Sequence[Quantization]) -> NDArray[np.float64]:
    """Return the units of all outputs, float64 (n_outputs, 2)."""
    return np.array([how.units for how in quantizations])
