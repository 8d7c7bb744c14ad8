"""Best splits of nodes with a context: twin of splitting.best_split with a NodeContext.

Plain where pairs.py is quick: every candidate of every allowed feature gets its gain. Rows are counted where they
matter: always for path smoothing, else where the bounds of a row's hessian leave `min_data_in_leaf` open for a
candidate that would win.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import count_all, count_bins, node_of
from hornbeam.backends.cpu.growth.splits.candidates import ANYTHING, Feature, best_candidate, take_candidate
from hornbeam.backends.cpu.growth.splits.pairs import run_up, scratch_of
from hornbeam.backends.cpu.growth.splits.rules import clear_split, is_allowed, random_threshold, rules_in
from hornbeam.backends.cpu.host.kernels import borrowed, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run
from hornbeam.trees.splitting import NodeContext


class Contexts(NamedTuple):
    """What the search must know of some nodes besides their sums: the arrays of NodeContext.

    numbers             int32 (n,)        names of the features that are searched in masks, signs and contributions
    sign, contribution  see FeatureRules
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

    @classmethod
    def of(cls, context: NodeContext, numbers: NDArray[np.int32], mask: NDArray[np.uint32]) -> Contexts:
        """Take the arrays of a context; mask, uint32 (n_nodes, n_words): features that each node may use."""
        return cls(
            numbers, context.features.sign, context.features.contribution, context.lower, context.upper,
            context.parent_output, context.score, context.monotone_factor, context.key,
            mask,
        )  # fmt: skip


_NONE = np.empty(0)
NO_CONTEXTS = Contexts(
    np.empty(0, np.int32), np.empty(0, np.int8), _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0, np.uint64),
    np.empty((0, 0), np.uint32),
)  # fmt: skip
"""Of nodes that have none."""


@inner_kernel
def enter_context(call, contexts, i):
    """Enter context i into a CALL that has the node."""
    call.score, call.lower, call.upper, call.output, call.key, call.context = (
        contexts.score[i], contexts.lower[i], contexts.upper[i], contexts.output[i], contexts.key[i], i,
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
def _search(t, call, histogram, features, contexts, rules, scratch, counting):
    """See search_in_context."""
    i, split, node, no_counts = call.context, call.split, node_of(call), counting.counts[t, :0]
    offsets, has_missing, numbers, mask = features.offsets, features.has_missing, contexts.numbers, contexts.mask[i]
    n_numeric = np.int64(len(has_missing))
    clear_split(split)
    counts_all = rules.path_smooth > 0.0 and not rules.rows_are_hessians
    counted = counts_all and count_all(t, call, counting)
    for f in range(min(call.first, n_numeric), min(call.last, n_numeric)):
        number = np.int64(numbers[f])
        if not is_allowed(mask, number):
            continue
        sign, factor = np.int64(contexts.sign[number]), contexts.contribution[number]
        if sign != 0:
            factor = factor * contexts.monotone_factor[i]
        first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
        n_values, bins, known = last - first - 1, histogram[first:last], no_counts
        only = random_threshold(node.key, number, n_values, has_missing[f]) if rules.extra_trees else np.int64(-1)
        gradient, hessian, scores = (
            scratch.gradient[:n_values],
            scratch.hessian[:n_values],
            scratch.scores[0, :n_values],
        )
        run_up(bins[:n_values], gradient, hessian)
        rank_bins(bins[:n_values], only, rules.tells_empty, scores)
        if counted:
            known = counting.all_counts[t, first:last]
        elif counts_all:
            known = count_bins(t, call, counting, f, last - first)
        feature = Feature(has_missing[f], sign, factor, False)
        best = best_candidate(gradient, hessian, scores, scores, ANYTHING, known, feature, node, rules)
        if best.open_gain > split.gain and best.open_gain >= best.gain:
            known = count_bins(t, call, counting, f, last - first)
            best = best_candidate(gradient, hessian, scores, scores, ANYTHING, known, feature, node, rules)
        take_candidate(best, f, split)


@kernel
def search_in_context(t, room, calls, histograms, features, contexts, rules, scratch, counting, levels):
    """Search a node with a context: the operation `search` on histograms of pairs.

    histograms  int64 (n_slots, n_total_bins, 2)   in
    features    see pairs.Features; the mask of the context says which may be used
    rules       RULES (1,)                         in
    scratch     see pairs.Scratch, of all threads
    levels      the operation; empty: no feature is categorical
    """
    if introduced(t, room, (calls, histograms, features, contexts, rules, scratch, counting, levels)):
        return
    call, own = calls[t], scratch_of(borrowed(scratch), t)
    _search(
        t, call, borrowed(histograms)[call.slot], borrowed(features), borrowed(contexts), rules_in(rules[0]), own,
        borrowed(counting),
    )  # fmt: skip
    if len(levels) > 0:
        run(levels, t)
