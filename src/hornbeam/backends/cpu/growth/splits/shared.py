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

from hornbeam.backends.cpu.growth.splits.candidates import largest_score
from hornbeam.backends.cpu.growth.splits.rules import leaf_score
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
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
    """What a split of all outputs must honour: see SplitRules."""

    lambda_l1: float
    lambda_l2: float
    max_delta_step: float
    min_gain: float
    min_data: int
    min_hessian: float

    @classmethod
    def of(cls, rules: SplitRules) -> SharedRules:
        """Put the rules of a training into numbers."""
        least = float(rules.min_sum_hessian_in_leaf)
        return cls(
            float(rules.lambda_l1), float(rules.lambda_l2), float(rules.max_delta_step),
            float(rules.min_gain_to_split), int(rules.min_data_in_leaf), least,
        )  # fmt: skip


class SharedBins(NamedTuple):
    """The histograms that are searched.

    histograms   int64 (n_slots, n_total_bins, 2)
    slots        int32 (n_nodes, n_histograms)
    offsets      int64 (n_features + 1,)            the bins of feature f are offsets[f]:offsets[f + 1]
    has_missing  bool (n_features,)
    is_chosen    bool (n_features,)                 those that may split
    """

    histograms: NDArray[np.int64]
    slots: NDArray[np.int32]
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


class Scoring(NamedTuple):
    """What a split of all outputs is scored by.

    Sums of a node come in lanes: lane k has the gradients of output k.

    hessian_lane  int64 (n_outputs,)    in   lane of the hessians of each output
    counter       lane that counts rows
    units         float64 (n_outputs, 2)
    """

    hessian_lane: NDArray[np.int64]
    counter: int
    units: NDArray[np.float64]
    weights: Weights
    rules: SharedRules


class Room(NamedTuple):
    """Scratch of a thread.

    scores   float32 (2, n_values)   with the missing rows on the left, and on the right
    bits     int32 (2, n_values)     memory of `scores`
    parents  float64 (n_outputs,)    scores of the node
    """

    scores: NDArray[np.float32]
    bits: NDArray[np.int32]
    parents: NDArray[np.float64]

    @classmethod
    def make(cls, n_outputs: int, n_values: int) -> Room:
        """Make room for features of so many values."""
        scores = np.empty((2, n_values), np.float32)
        return cls(scores, scores.view(np.int32), np.empty(n_outputs))


@inner_kernel
def add_scores(gradient, hessian, more_g, more_h, total_g, total_h, factor, scale, least, extra, scores):
    """Add the scores of one output at every threshold.

    gradient, hessian  int, uint (n_values,) of 32 or 64 bits  in       running sums
    more, total        the same                                         what goes left besides, and of the node
    scores             float32 (n_values,)                     in, out
    """
    for b in range(len(scores)):
        g, h = gradient.dtype.type(gradient[b] + more_g), hessian.dtype.type(hessian[b] + more_h)
        left, right = np.float32(g), np.float32(gradient.dtype.type(total_g - g))
        wl, wr = np.float32(h) * scale, np.float32(hessian.dtype.type(total_h - h)) * scale
        wl, wr = (wl if wl > least else least) + extra, (wr if wr > least else least) + extra
        scores[b] += factor * (left * left / wl + right * right / wr)


@inner_kernel
def score_thresholds(gradient, hessian, first, last, n_sides, scoring, scores):
    """Score the thresholds of a feature, whose bins are first:last; sums as in search_feature."""
    weights, zero_g, zero_h = scoring.weights, gradient.dtype.type(0), hessian.dtype.type(0)
    for k in range(len(scoring.units)):
        own_g, own_h = gradient[k, first : last - 1], hessian[scoring.hessian_lane[k], first : last - 1]
        total_g, total_h = gradient[k, last - 1], hessian[scoring.hessian_lane[k], last - 1]
        more_g, more_h = gradient.dtype.type(total_g - own_g[-1]), hessian.dtype.type(total_h - own_h[-1])
        for side in range(n_sides):
            add_scores(
                own_g, own_h, zero_g if side else more_g, zero_h if side else more_h, total_g, total_h,
                weights.factor[k], weights.scale[k], weights.least[k], weights.extra[k], scores[side, : len(own_g)],
            )  # fmt: skip


@inner_kernel
def score_node(gradient, hessian, total, scoring, parents):
    """Write the scores of a node, whose sums are at the place `total`; parents: float64 (n_outputs,), out."""
    rules = scoring.rules
    for k in range(len(parents)):
        weight = np.float64(np.int64(hessian[scoring.hessian_lane[k], total])) * scoring.units[k, 1]
        parents[k] = leaf_score(
            np.float64(np.int64(gradient[k, total])) * scoring.units[k, 0],
            weight if weight > rules.min_hessian else rules.min_hessian,
            rules.lambda_l1, rules.lambda_l2, rules.max_delta_step,
        )  # fmt: skip


@inner_kernel
def gain_at(b, is_left, gradient, hessian, total, scoring, parents):
    """Return what a threshold gains, scores, and the largest weights of its sides: twin of output_splits.output_gains.

    b        its bin
    is_left  whether the missing rows go left
    total    place of the feature's last bin, the missing one
    """
    rules, units = scoring.rules, scoring.units
    least, l1, l2, most = rules.min_hessian, rules.lambda_l1, rules.lambda_l2, rules.max_delta_step
    gain, scores, left_weight, right_weight = 0.0, 0.0, 0.0, 0.0
    for k in range(len(parents)):
        lane, unit_g, unit_h = scoring.hessian_lane[k], units[k, 0], units[k, 1]
        total_g, total_h = np.int64(gradient[k, total]), np.int64(hessian[lane, total])
        g, h = np.int64(gradient[k, b]), np.int64(hessian[lane, b])
        if is_left:
            g += total_g - np.int64(gradient[k, total - 1])
            h += total_h - np.int64(hessian[lane, total - 1])
        lw, rw = np.float64(h) * unit_h, np.float64(total_h - h) * unit_h
        score = leaf_score(np.float64(g) * unit_g, lw if lw > least else least, l1, l2, most)
        score += leaf_score(np.float64(total_g - g) * unit_g, rw if rw > least else least, l1, l2, most)
        gain += score - parents[k]
        scores += score
        left_weight = lw if lw > left_weight else left_weight
        right_weight = rw if rw > right_weight else right_weight
    return gain, scores, left_weight, right_weight


@inner_kernel
def highest(room, n_sides, n_values):
    """Return side and threshold of the highest score, and the score."""
    top, best_side = largest_score(room.bits[0, :n_values]), 0
    for side in range(1, n_sides):
        other = largest_score(room.bits[side, :n_values])
        if other > top:
            top, best_side = other, side
    best = 0
    while room.bits[best_side, best] < top:
        best += 1
    return best_side, best, room.scores[best_side, best]


@inner_kernel
def search_feature(gradient, hessian, first, last, has_missing, scoring, room, bar):
    """Search one feature of a node.

    gradient, hessian  int, uint (n_lanes, n) of 32 or 64 bits, the same memory  in   running sums of the bins
    first, last        bins of the feature, the missing one last: there the sums are those of the node
    room               its `parents` are those of the node
    bar                thresholds of lower scores are not looked at

    Returns gain, bin, whether missing rows go left, and the new bar; no split: -inf, -1.
    """
    rules, rows, total, n_values = scoring.rules, hessian[scoring.counter], last - 1, last - first - 1
    n_rows = np.int64(rows[total])
    n_rows_missing = n_rows - np.int64(rows[total - 1])
    n_sides = 2 if has_missing and n_rows_missing != 0 else 1
    scores = room.scores
    scores[0, :n_values] = np.float32(0.0)
    scores[1, :n_values] = np.float32(0.0)
    score_thresholds(gradient, hessian, first, last, n_sides, scoring, scores)
    best, best_bin, best_side = -np.inf, np.int64(-1), 0
    first_side, first_bin, top = highest(room, n_sides, n_values)
    if top < bar:
        return best, best_bin, False, bar
    for place in range(-1, n_values):
        b = first_bin if place < 0 else place
        for side in range(n_sides):
            if scores[side, b] < bar or (place < 0 and side != first_side):
                continue
            left = np.int64(rows[first + b]) + (n_rows_missing if side == 0 else 0)
            if left < rules.min_data or n_rows - left < rules.min_data:
                continue
            gain, score, left_weight, right_weight = gain_at(
                first + b, side == 0, gradient, hessian, total, scoring, room.parents
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
                bar = max(bar, score / scoring.weights.unit * (1.0 - scoring.weights.margin))
    return best, best_bin, best_side == 0, bar


class Running(NamedTuple):
    """Running sums of one feature of a node, in lanes: those of outputs, of their hessians, and one that counts rows.

    gradient  int64 (2 * n_outputs + 1, n_bins)
    hessian   uint64, the same memory
    """

    gradient: NDArray[np.int64]
    hessian: NDArray[np.uint64]

    @classmethod
    def make(cls, n_outputs: int, n_bins: int) -> Running:
        """Make room for features of so many bins."""
        gradient = np.empty((2 * n_outputs + 1, n_bins), np.int64)
        return cls(gradient, gradient.view(np.uint64))


@inner_kernel
def run_sums(bins, node, f, n_outputs, running):
    """Write the running sums of a feature of a node; running: int64 (2 * n_outputs + 1, n_bins), out."""
    first, last = bins.offsets[f], bins.offsets[f + 1]
    for number in range(bins.slots.shape[1]):
        histogram, g, h = bins.histograms[bins.slots[node, number]], np.int64(0), np.int64(0)
        for b in range(last - first):
            g += histogram[first + b, 0]
            h += histogram[first + b, 1]
            if number < n_outputs:
                running[number, b] = g
            running[n_outputs + number, b] = h


@kernel
def search_shared(start, stop, bins, scoring, running, room, found):
    """Search the (node, feature) pairs start:stop, counted feature by feature; running, room: of this thread."""
    gains, best_bins, sides_left = found.gain, found.bin, found.missing_left
    n_features, n_outputs, searched, bar = len(bins.has_missing), len(scoring.units), -1, -np.inf
    for task in range(start, stop):
        node, f = task // n_features, task % n_features
        if not bins.is_chosen[f]:
            gains[node, f] = -np.inf
            continue
        n_bins = bins.offsets[f + 1] - bins.offsets[f]
        run_sums(bins, node, f, n_outputs, running.gradient)
        if node != searched:
            searched, bar = node, -np.inf
            score_node(running.gradient, running.hessian, n_bins - 1, scoring, room.parents)
        gains[node, f], best_bin, sides_left[node, f], bar = search_feature(
            running.gradient, running.hessian, 0, n_bins, bins.has_missing[f], scoring, room, bar
        )
        best_bins[node, f] = np.int32(best_bin)


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


def find_shared(
    bins: SharedBins, quantizations: Sequence[Quantization], counter: int, rules: SplitRules, n_threads: int
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the best split of each node, SPLIT (n_nodes,), and the sums of its left side, (n_nodes, n_outputs, 2).

    counter  see OutputsRoot
    """
    n_nodes, n_features, n_outputs = len(bins.slots), len(bins.has_missing), len(quantizations)
    splits, left = np.zeros(n_nodes, SPLIT), np.zeros((n_nodes, n_outputs, 2), np.int64)
    splits["gain"], splits["feature"], splits["bin"] = -np.inf, -1, -1
    if n_features == 0:
        return splits, left
    shape, most_bins = (n_nodes, n_features), int(np.diff(bins.offsets).max())
    found = Found(np.empty(shape), np.empty(shape, np.int32), np.empty(shape, np.bool_))
    scoring = scoring_of(quantizations, np.arange(n_outputs, 2 * n_outputs), n_outputs + counter, rules)
    run_ranges(
        lambda start, stop: search_shared(
            start, stop, bins, scoring, Running.make(n_outputs, most_bins), Room.make(n_outputs, most_bins), found
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


def scoring_of(
    quantizations: Sequence[Quantization], hessian_lane: NDArray[np.int64], counter: int, rules: SplitRules
) -> Scoring:
    """Return what splits are scored by; arguments: see Scoring."""
    units, numbers = np.array([how.units for how in quantizations]), SharedRules.of(rules)
    return Scoring(hessian_lane, counter, units, Weights.of(units, numbers), numbers)
