"""Best splits of nodes with a context: twin of splitting.best_split with a NodeContext.

Plain where pairs.py is quick: every candidate of every allowed feature gets its gain. Rows are counted where they
matter: always for path smoothing, else where the bounds of a row's hessian leave `min_data_in_leaf` open for a
candidate that would win.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import count_all, count_bins
from hornbeam.backends.cpu.growth.splits.candidates import ANYTHING, Feature, best_candidate, take_candidate
from hornbeam.backends.cpu.growth.splits.pairs import run_up
from hornbeam.backends.cpu.growth.splits.rules import Node, clear_split, is_allowed, random_threshold
from hornbeam.backends.cpu.host.kernels import inner_kernel
from hornbeam.trees.splitting import NodeContext


class Contexts(NamedTuple):
    """What the search must know of some nodes besides their sums: the arrays of NodeContext.

    numbers             int32 (n,)        names of the features that are searched in masks, signs and contributions
    sign, contribution  see FeatureRules
    counts              int64 (n_threads, n_total_bins or 0)   scratch  rows of every bin, for path smoothing
    """

    numbers: NDArray[np.int32]
    sign: NDArray[np.int8]
    contribution: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    output: NDArray[np.float64]
    score: NDArray[np.float64]
    monotone_factor: NDArray[np.float64]
    key: NDArray[np.uint64]
    mask: NDArray[np.uint32]
    counts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        context: NodeContext,
        numbers: NDArray[np.int32],
        mask: NDArray[np.uint32],
        n_threads: int,
        n_counts: int,
    ) -> Contexts:
        """Take the arrays of a context; mask: features that the tree may use, empty: all."""
        return cls(
            numbers, context.features.sign, context.features.contribution, context.lower, context.upper,
            context.parent_output, context.score, context.monotone_factor, context.key,
            context.mask & mask if len(mask) else context.mask, np.empty((n_threads, n_counts), np.int64),
        )  # fmt: skip


@inner_kernel
def node_in_context(contexts, i, begin, end, depth, gradient, hessian):
    """Return the Node that has context i."""
    return Node(
        begin, end, np.int64(depth), gradient, hessian, contexts.score[i], contexts.lower[i], contexts.upper[i],
        contexts.output[i], contexts.key[i],
    )  # fmt: skip


@inner_kernel
def rank_bins(histogram, only, tells_empty, scores):
    """Write 1 for the bins that are candidates, and 0 for the others.

    only         the one bin to try; -1: all
    tells_empty  a bin without a hessian is empty: its candidate is that of the bin before, which wins the tie
    """
    for b in range(len(histogram)):
        passed_by = b != only if only >= 0 else tells_empty and b > 0 and histogram[b, 1] == 0
        scores[b] = 0.0 if passed_by else 1.0


@inner_kernel
def scan_in_context(rows, histogram, f0, f1, features, contexts, i, node, rules, scratch, all_counts, split):
    """Find the best split of the features f0:f1 of one node with context i.

    rows        of the node's tree, see operations.py
    histogram   int64 (n_total_bins, 2)   in
    features    see pairs.Features; the mask of the context says which may be used
    scratch     see pairs.Scratch
    all_counts  int64 (n_total_bins,)     scratch
    split       SPLIT ()                  out
    """
    offsets, has_missing, numbers, mask = features.offsets, features.has_missing, contexts.numbers, contexts.mask[i]
    clear_split(split)
    counts_all = rules.path_smooth > 0.0 and not rules.rows_are_hessians
    counted = counts_all and count_all(rows, node, all_counts)
    for f in range(f0, f1):
        number = np.int64(numbers[f])
        if not is_allowed(mask, number):
            continue
        sign, factor = np.int64(contexts.sign[number]), contexts.contribution[number]
        if sign != 0:
            factor = factor * contexts.monotone_factor[i]
        first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
        n_values, bins, counts = last - first - 1, histogram[first:last], scratch.counts[: last - first]
        only = random_threshold(node.key, number, n_values, has_missing[f]) if rules.extra_trees else np.int64(-1)
        gradient, hessian, scores = (
            scratch.gradient[:n_values],
            scratch.hessian[:n_values],
            scratch.scores[0, :n_values],
        )
        run_up(bins[:n_values], gradient, hessian)
        rank_bins(bins[:n_values], only, rules.tells_empty, scores)
        if counted:
            counts = all_counts[first:last]
        elif counts_all:
            count_bins(rows, f, node, counts)
        known = counts if counts_all else counts[:0]
        feature = Feature(has_missing[f], sign, factor, False)
        best = best_candidate(gradient, hessian, scores, scores, ANYTHING, known, feature, node, rules)
        if best.open_gain > split.gain and best.open_gain >= best.gain:
            count_bins(rows, f, node, counts)
            best = best_candidate(gradient, hessian, scores, scores, ANYTHING, counts, feature, node, rules)
        take_candidate(best, f, split)
