"""The split search of a tree that all outputs share: twin of trees/output_splits.py.

One (node, feature) after the other. First every threshold gets a score in float32, which is a little more or a little
less than what its sides score in truth, or more than that:

    sum over the outputs of  factor (gl^2 / (max(hl, least) + extra) + the same of the right side)

in fixed-point units, times a factor that tells what they are worth beside those of the other outputs. The score of a
node is the same for all of its thresholds, so those below the best so far (within a margin far above the rounding of
the scores) cannot win, and the others alone get their gain computed, by the formula of output_splits.py. What passes
thresholds by cannot be seen in the result.
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

MARGIN, MARGIN_OF_OUTPUT = 1e-5, 2.0**-22
"""Scores are sums of positive terms, each of fewer than 16 roundings of 2**-24, and one more for each output."""

SMALLEST_FACTOR, SMALLEST_EXTRA = 1e-12, 1e-20
"""Keep scores within the range of float32. They make scores larger, if anything."""


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
    is_chosen    bool (n_features,)                 those that may split
    """

    histograms: NDArray[np.int64]
    slots: NDArray[np.int32]
    sums: NDArray[np.int64]
    units: NDArray[np.float64]
    offsets: NDArray[np.int64]
    has_missing: NDArray[np.bool_]
    is_chosen: NDArray[np.bool_]


class Found(NamedTuple):
    """The best candidate of every node and feature, each (n_nodes, n_features)."""

    gain: NDArray[np.float64]
    bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]


class Weights(NamedTuple):
    """What scores of an output are made with, in float32, (n_outputs,) each; and the unit of all scores.

    Hessians are those in fixed-point units by the smallest weight of a side, or as they are where that is less than 1:
    so weights are never far below 1, nor above 2**63.

    factor  what a score is worth, the largest 1
    scale   of hessians
    least   the smallest hessian of a side
    extra   what is added to it
    unit    of the scores
    margin  of scores below the best: what rounding may have done to them
    """

    factor: NDArray[np.float32]
    scale: NDArray[np.float32]
    least: NDArray[np.float32]
    extra: NDArray[np.float32]
    unit: float
    margin: float

    @classmethod
    def of(cls, units: NDArray[np.float64], rules: SharedRules) -> Weights:
        """Prepare the scores of some outputs; units: float64 (n_outputs, 2)."""
        gradient, hessian = units[:, 0], np.where(units[:, 1] > 0.0, units[:, 1], 1.0)
        least, extra = rules.min_hessian / hessian, rules.lambda_l2 / hessian
        smallest = np.maximum(least + extra, 1.0)
        worth = gradient * gradient / (hessian * smallest)
        unit = float(worth.max(initial=0.0)) or 1.0
        factor, added = np.maximum(worth / unit, SMALLEST_FACTOR), np.maximum(extra / smallest, SMALLEST_EXTRA)
        factor, scale, least, added = np.array([factor, 1.0 / smallest, least / smallest, added], np.float32)
        return cls(factor, scale, least, added, unit, MARGIN + len(units) * MARGIN_OF_OUTPUT)


@inner_kernel
def add_scores(gradient, hessian, more, total, factor, scale, least, extra, scores):
    """Add the scores of one output at every threshold.

    gradient, hessian  int64 (n_values,)    in       running sums
    more, total        int64 (2,)           in       what goes left besides, and of the node
    scores             float32 (n_values,)  in, out
    """
    more_g, more_h, total_g, total_h = more[0], more[1], total[0], total[1]
    for b in range(len(gradient)):
        g, h = gradient[b] + more_g, hessian[b] + more_h
        left, right = np.float32(g), np.float32(total_g - g)
        wl, wr = np.float32(h) * scale, np.float32(total_h - h) * scale
        wl, wr = (wl if wl > least else least) + extra, (wr if wr > least else least) + extra
        scores[b] += factor * (left * left / wl + right * right / wr)


@inner_kernel
def gain_at(b, running, more, sums, parents, units, rules):
    """Return what a threshold gains, scores, and the largest weights of its sides: twin of output_splits.output_gains.

    running  int64 (n_outputs, 2, n_values)  in
    more     int64 (n_outputs, 2)            in   what goes left besides
    parents  float64 (n_outputs,)            in   scores of the node
    """
    least, l1, l2, most = rules.min_hessian, rules.lambda_l1, rules.lambda_l2, rules.max_delta_step
    gain, scores, left_weight, right_weight = 0.0, 0.0, 0.0, 0.0
    for k in range(len(parents)):
        g, h = running[k, 0, b] + more[k, 0], running[k, 1, b] + more[k, 1]
        unit_g, unit_h = units[k, 0], units[k, 1]
        lw, rw = np.float64(h) * unit_h, np.float64(sums[k, 1] - h) * unit_h
        score = leaf_score(np.float64(g) * unit_g, lw if lw > least else least, l1, l2, most)
        score += leaf_score(np.float64(sums[k, 0] - g) * unit_g, rw if rw > least else least, l1, l2, most)
        gain += score - parents[k]
        scores += score
        left_weight = lw if lw > left_weight else left_weight
        right_weight = rw if rw > right_weight else right_weight
    return gain, scores, left_weight, right_weight


@inner_kernel
def run_sums(histogram, gradient, hessian):
    """Write the running sums of a feature's bins, and return the missing bin's sums."""
    g, h = np.int64(0), np.int64(0)
    for b in range(len(gradient)):
        g += histogram[b, 0]
        h += histogram[b, 1]
        gradient[b], hessian[b] = g, h
    return histogram[len(gradient)]


class Room(NamedTuple):
    """Scratch of a thread.

    running  int64 (n_outputs, 2, n_values)   running sums of a feature's bins
    more     int64 (2, n_outputs, 2)          what goes left besides: the missing rows, or nothing
    rows     int64 (2, n_values)              running sums of what counts rows, the hessians
    scores   float32 (2, n_values)            with the missing rows on the left, and on the right
    parents  float64 (n_outputs,)             scores of the node
    """

    running: NDArray[np.int64]
    more: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    parents: NDArray[np.float64]

    @classmethod
    def make(cls, n_outputs: int, n_values: int) -> Room:
        """Make room for features of so many values."""
        return cls(
            np.empty((n_outputs, 2, n_values), np.int64), np.zeros((2, n_outputs, 2), np.int64),
            np.empty((2, n_values), np.int64), np.empty((2, n_values), np.float32), np.empty(n_outputs),
        )  # fmt: skip


@inner_kernel
def score_thresholds(node, first, last, n_sides, bins, weights, room):
    """Score the thresholds of a feature, whose bins are first:last."""
    n_values, slots, histograms = last - first - 1, bins.slots[node], bins.histograms
    room.scores[:n_sides, :n_values] = np.float32(0.0)
    for k in range(len(room.parents)):
        gradient, hessian = room.running[k, 0, :n_values], room.running[k, 1, :n_values]
        missing = run_sums(histograms[slots[k], first:last], gradient, hessian)
        room.more[0, k, 0], room.more[0, k, 1] = missing[0], missing[1]
        for side in range(n_sides):
            add_scores(
                gradient, hessian, room.more[side, k], bins.sums[node, k], weights.factor[k], weights.scale[k],
                weights.least[k], weights.extra[k], room.scores[side, :n_values],
            )  # fmt: skip


@inner_kernel
def highest(scores):
    """Return the place of the highest score: float32 (n_sides, n_values)."""
    top, best_side, best = np.float32(-1.0), 0, 0
    for side in range(len(scores)):
        for b in range(scores.shape[1]):
            if scores[side, b] > top:
                top, best_side, best = scores[side, b], side, b
    return best_side, best


@kernel
def search_shared(start, stop, bins, rules, weights, room, found):
    """Search the (node, feature) pairs start:stop, counted feature by feature; room: of this thread."""
    bins, weights, room = borrowed(bins), borrowed(weights), borrowed(room)
    gains, best_bins, sides_left = borrowed(found.gain), borrowed(found.bin), borrowed(found.missing_left)
    n_features, parents, searched, bar = len(bins.has_missing), room.parents, -1, -np.inf
    for task in range(start, stop):
        node, f = task // n_features, task % n_features
        if not bins.is_chosen[f]:
            gains[node, f] = -np.inf
            continue
        if node != searched:
            searched, bar = node, -np.inf
            for k in range(len(parents)):
                total, unit_g, unit_h = bins.sums[node, k], bins.units[k, 0], bins.units[k, 1]
                weight = np.float64(total[1]) * unit_h
                parents[k] = leaf_score(
                    np.float64(total[0]) * unit_g, weight if weight > rules.min_hessian else rules.min_hessian,
                    rules.lambda_l1, rules.lambda_l2, rules.max_delta_step,
                )  # fmt: skip
        first, last = bins.offsets[f], bins.offsets[f + 1]
        n_values, rows = last - first - 1, room.rows[1, : last - first - 1]
        counted = bins.histograms[bins.slots[node, rules.counter], first:last]
        n_rows_missing = run_sums(counted, room.rows[0, :n_values], rows)[1]
        n_sides, n_rows = 2 if bins.has_missing[f] and n_rows_missing != 0 else 1, rows[n_values - 1] + n_rows_missing
        score_thresholds(node, first, last, n_sides, bins, weights, room)
        best, best_bin, best_side, scores = -np.inf, np.int64(-1), 0, room.scores[:n_sides, :n_values]
        first_side, first_bin = highest(scores)
        for place in range(-1, n_values):
            b = first_bin if place < 0 else place
            for side in range(n_sides):
                if scores[side, b] < bar or (place < 0 and side != first_side):
                    continue
                left = rows[b] + (n_rows_missing if side == 0 else 0)
                if left < rules.min_data or n_rows - left < rules.min_data:
                    continue
                gain, score, left_weight, right_weight = gain_at(
                    b, room.running, room.more[side], bins.sums[node], parents, bins.units, rules
                )
                if not (gain > rules.min_gain and gain > score * ROUNDING_NOISE):
                    continue
                if not (left_weight > 0.0 and right_weight > 0.0):
                    continue
                if left_weight < rules.min_hessian or right_weight < rules.min_hessian:
                    continue
                is_tie = gain == best and (b < best_bin or (b == best_bin and side < best_side))
                if gain > best or is_tie:
                    best, best_bin, best_side = gain, np.int64(b), side
                    bar = max(bar, score / weights.unit * (1.0 - weights.margin))
        gains[node, f], best_bins[node, f], sides_left[node, f] = best, np.int32(best_bin), best_side == 0


@kernel
def take_left(bins, splits, left):
    """Sum the left sides of splits; those of no feature are left out.

    splits  SPLIT (n_nodes,)                in
    left    int64 (n_nodes, n_outputs, 2)   out
    """
    for node in range(len(splits)):
        split = splits[node]
        if split.feature < 0:
            continue
        first, last = bins.offsets[split.feature], bins.offsets[split.feature + 1]
        for k in range(left.shape[1]):
            histogram = bins.histograms[bins.slots[node, k]]
            g, h = np.int64(0), np.int64(0)
            for b in range(first, first + split.bin + 1):
                g += histogram[b, 0]
                h += histogram[b, 1]
            if split.missing_left:
                g += histogram[last - 1, 0]
                h += histogram[last - 1, 1]
            left[node, k, 0], left[node, k, 1] = g, h


def find_shared(bins: SharedBins, rules: SharedRules, n_threads: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the best split of each node, SPLIT (n_nodes,), and the sums of its left side, (n_nodes, n_outputs, 2)."""
    n_nodes, n_features, n_outputs = len(bins.slots), len(bins.has_missing), bins.sums.shape[1]
    splits, left = np.zeros(n_nodes, SPLIT), np.zeros(bins.sums.shape, np.int64)
    splits["gain"], splits["feature"], splits["bin"] = -np.inf, -1, -1
    if n_features == 0:
        return splits, left
    shape, most_values = (n_nodes, n_features), int(np.diff(bins.offsets).max()) - 1
    found = Found(np.empty(shape), np.empty(shape, np.int32), np.empty(shape, np.bool_))
    weights = Weights.of(bins.units, rules)
    run_ranges(
        lambda start, stop: search_shared(
            start, stop, bins, rules, weights, Room.make(n_outputs, most_values), found
        ),
        n_nodes * n_features, n_threads, TASKS_PER_THREAD,
    )  # fmt: skip
    winner, every = np.argmax(found.gain, axis=1), np.arange(n_nodes)  # the first of equals
    chosen = found.gain[every, winner] > -np.inf
    splits["gain"][chosen] = found.gain[every, winner][chosen]
    splits["feature"][chosen] = winner[chosen]
    splits["bin"][chosen] = found.bin[every, winner][chosen]
    splits["missing_left"][chosen] = found.missing_left[every, winner][chosen]
    take_left(bins, splits, left)
    return splits, left


def units_of(quantizations: Sequence[Quantization]) -> NDArray[np.float64]:
    """Return the units of all outputs, float64 (n_outputs, 2)."""
    return np.array([how.units for how in quantizations])
