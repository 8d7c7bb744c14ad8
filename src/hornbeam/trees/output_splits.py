"""Splits that all outputs share: what one is worth, and which one is best. The definitions that every backend follows.

A tree of several outputs has one structure, and in each leaf a value of each output. With G_k and H_k the sums of
output k in a node, in its own fixed-point units, m = min_sum_hessian_in_leaf and `score` that of splitting.py:

    gain of output k  = (score(G_k, max(H_k, m)) of the left side + that of the right side) - that of the node
    gain              = the sum of these over k = 0, 1, ..., in this order

An output may have next to no hessian where others have much: it weighs m at least, as in the value of a leaf
(splitting.finished_weight), so that it neither forbids a split nor promises one by a division by next to nothing. A
side must be heavy enough for one of the outputs:

    max(H_0, H_1, ...) >= m, and > 0

Rows are counted by the hessians of one of the histograms, `OutputsRoot.counter`. Ties: higher gain, then lower feature,
then lower bin, then missing-left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.records import LeavesLater
from hornbeam.trees.splitting import ROUNDING_NOISE, SplitRules, leaf_score, no_splits


@dataclass(frozen=True, slots=True)
class OutputsRoot:
    """All rows of a tree of several outputs.

    n_rows         of them
    sums           int64 (n_outputs, 2): fixed-point gradients and hessians
    quantizations  of each output
    counter        the histogram whose hessians count rows: that of an output, or n_outputs for one that does nothing
                   else
    depth, n_slots as in Root; slots of all histograms together
    """

    n_rows: int
    sums: NDArray[np.int64]
    quantizations: tuple[Quantization, ...]
    counter: int
    depth: int = 0
    n_slots: int | None = None

    @property
    def n_histograms(self) -> int:
        """Histograms of a node."""
        return max(len(self.quantizations), self.counter + 1)


@dataclass(frozen=True, slots=True)
class SharedAhead:
    """What an engine has grown on its own of a tree that all outputs share.

    nodes     dtypes.NODE (n_nodes,); their sums are those of all outputs together
    sums      what brings int64 (n_nodes, n_outputs, 2)
    left      the same of the left sides of the best splits; None: no node is open any more
    leaves    of a tree that is finished, where the engine has gone on, as in GrownAhead
    n_splits  of such a tree
    """

    nodes: NDArray[np.void]
    sums: Callable[[], NDArray[np.int64]]
    left: NDArray[np.int64] | None = None
    leaves: LeavesLater | None = None
    n_splits: int = 0


def sums_of_splits(nodes: NDArray[np.void], root: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of all nodes from those of the root, int64 (n_outputs, 2), and of the left sides."""
    sums, level = np.zeros(left.shape, np.int64), np.zeros(1, np.int64)
    sums[0] = root
    while len(level):
        level = level[nodes["left"][level] >= 0]
        first = nodes["left"][level]
        sums[first], sums[first + 1] = left[level], sums[level] - left[level]
        level = np.concatenate([first, first + 1])
    return sums


def find_counter(quantizations: Sequence[Quantization], min_data_in_leaf: int) -> int:
    """Return the histogram that tells the rows of a bin: that of an output whose hessians do, else one more.

    Hessians of 1 each count rows; where a single row is enough, any hessians do that are nowhere 0.
    """
    for output, how in enumerate(quantizations):
        if how.hessian_min == how.hessian_max == 1 or (min_data_in_leaf <= 1 and how.hessian_min > 0):
            return output
    return len(quantizations)


def best_output_split(
    histograms: NDArray[np.int64],
    counts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
    quantizations: Sequence[Quantization],
    rules: SplitRules,
    features: NDArray[np.int32],
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Find the best split of one node, naively.

    histograms  int64 (n_outputs, n_total_bins, 2)  in  fixed-point sums of gradients and hessians
    counts      int64 (n_total_bins,)               in  rows
    features    int32 (n,)                          in  what the tree may use, ascending
    others as for splitting.best_split

    Returns one record of dtypes.SPLIT, without sums, and the sums of the left side, int64 (n_outputs, 2).
    """
    best, best_left = no_splits(()), np.zeros((len(histograms), 2), np.int64)
    for feature in features.tolist():
        own = slice(offsets[feature], offsets[feature + 1])
        left, left_rows = _sides(histograms[:, own], counts[own], bool(has_missing[feature]))
        total, n_rows = histograms[:, own].sum(axis=1), counts[own].sum()
        gain = output_gains(left, total, left_rows, n_rows, quantizations, rules)
        winner = int(np.argmax(gain))  # the first of equals
        if gain.flat[winner] > best["gain"]:
            threshold, side = divmod(winner, gain.shape[1])
            best["gain"], best["feature"], best["bin"] = gain.flat[winner], feature, threshold
            best["missing_left"], best_left = side == 0, left[:, threshold, side]
    return best, best_left


def _sides(
    sums: NDArray[np.int64], rows: NDArray[np.int64], has_missing: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sums and rows of the left sides of a feature's candidates, (n_outputs, n_values, n_sides, 2).

    Sides are those with the missing rows on the left, then on the right, in the order in which ties are broken.
    """
    left, left_rows = np.cumsum(sums[:, :-1], axis=1), np.cumsum(rows[:-1])
    if not has_missing:
        return left[:, :, None], left_rows[:, None]
    return (
        np.stack([left + sums[:, -1:], left], axis=2),
        np.stack([left_rows + rows[-1], left_rows], axis=1),
    )


def output_gains(
    left: NDArray[np.int64],
    total: NDArray[np.int64],
    left_rows: NDArray[np.int64],
    n_rows: np.int64,
    quantizations: Sequence[Quantization],
    rules: SplitRules,
) -> NDArray[np.float64]:
    """Return the gain of every candidate, -inf where it is not allowed.

    left       int64 (n_outputs, ..., 2)  in   fixed-point sums of the left sides
    total      int64 (n_outputs, 2)       in   of the node
    left_rows  int64 (...)                in
    """
    gain, scores = np.zeros(left_rows.shape), np.zeros(left_rows.shape)
    weights = [np.zeros(left_rows.shape), np.zeros(left_rows.shape)]
    least = rules.min_sum_hessian_in_leaf
    for own, whole, how in zip(left, total, quantizations, strict=True):
        unit_g, unit_h = how.units
        parent = leaf_score(whole[:1] * unit_g, np.maximum(whole[1:] * unit_h, least), rules)[0]
        found = []
        for side, sums in enumerate((own, whole - own)):
            hessian = sums[..., 1] * unit_h
            weights[side] = np.maximum(weights[side], hessian)
            found.append(leaf_score(sums[..., 0] * unit_g, np.maximum(hessian, least), rules))
        score = found[0] + found[1]
        gain = gain + (score - parent)
        scores = scores + score
    allowed = (gain > rules.min_gain_to_split) & (gain > scores * ROUNDING_NOISE)
    for rows, weight in ((left_rows, weights[0]), (n_rows - left_rows, weights[1])):
        allowed &= (rows >= rules.min_data_in_leaf) & (weight > 0.0) & (weight >= least)
    return np.where(allowed, gain, -np.inf)
