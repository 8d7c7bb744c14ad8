"""Best splits of nodes with a context: twin of splitting.best_split with a NodeContext.

Plain where pairs.py is quick: every candidate of every allowed feature gets its gain. Rows are counted where they
matter: always for path smoothing, else where the bounds of a row's hessian leave `min_data_in_leaf` open for a
candidate that would win.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import count_all, count_bins, node_at_cost
from hornbeam.backends.cpu.growth.splits.candidates import ANYTHING, BinBounds, Feature, best_candidate, take_candidate
from hornbeam.backends.cpu.growth.splits.pairs import run_up, scratch_of
from hornbeam.backends.cpu.growth.splits.rules import (
    NO_COSTS,
    clear_split,
    cost_of,
    is_allowed,
    random_threshold,
    rules_in,
)
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run
from hornbeam.data.binning import BinnedData
from hornbeam.trees.splitting import NodeContext, SideBounds

NO_SIDES, NO_OFFSETS = np.empty((1, 4, 0)), np.empty(0, np.int64)


class Marks(NamedTuple):
    """What is said of features.

    numbers             int32 (n,)               names of the features that are searched in what follows
    sign, contribution  int8, float64 (n_used,)  see FeatureRules
    masks               uint32 (n, n_words)      features that a node may use, by its number among contexts
    costs               float64 (n, n_used)      what they cost there, see NodeContext; no columns: nothing
    sides, side_offsets  float64 (n, 4, n_bins), int64 (n_used + 1,)  see SideBounds, by CALL.side_bounds; no columns:
                                                                      there are none
    """

    numbers: NDArray[np.int32]
    sign: NDArray[np.int8]
    contribution: NDArray[np.float64]
    masks: NDArray[np.uint32]
    costs: NDArray[np.float64] = NO_COSTS
    sides: NDArray[np.float64] = NO_SIDES
    side_offsets: NDArray[np.int64] = NO_OFFSETS


def marks_of(context: NodeContext, numbers: NDArray[np.int32], mask: NDArray[np.uint32]) -> Marks:
    """Return what a context says of features."""
    features, sides = context.features, context.sides
    marks = Marks(numbers, features.sign, features.contribution, mask, context.cost_table)
    return marks if sides is None else marks._replace(sides=sides.table, side_offsets=sides.offsets)


def with_sides(marks: Marks, binned: BinnedData, n_threads: int) -> Marks:
    """Make room for the bounds of both sides of splits, of a leaf a thread."""
    offsets = SideBounds.offsets_of(binned.n_value_bins, binned.n_numeric)
    return marks._replace(sides=np.empty((n_threads, 4, int(offsets[-1]))), side_offsets=offsets)


class Contexts(NamedTuple):
    """Some nodes' contexts: the arrays of NodeContext."""

    score: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    output: NDArray[np.float64]
    factor: NDArray[np.float64]
    key: NDArray[np.uint64]

    @classmethod
    def of(cls, context: NodeContext) -> Contexts:
        """Take the arrays of a context."""
        return cls(
            context.score, context.lower, context.upper, context.parent_output, context.monotone_factor, context.key
        )  # fmt: skip


_NONE = np.empty(0)
NO_MARKS = Marks(np.empty(0, np.int32), np.empty(0, np.int8), _NONE, np.empty((0, 0), np.uint32))
"""Every node may use every feature, and gains count as they are."""

NO_CONTEXTS = Contexts(_NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0, np.uint64))
"""Of nodes that have none."""


@inner_kernel
def enter_context(call, contexts, i):
    """Enter context i into a CALL that has the node."""
    call.score, call.lower, call.upper, call.output, call.factor, call.key, call.context, call.side_bounds = (
        contexts.score[i], contexts.lower[i], contexts.upper[i], contexts.output[i], contexts.factor[i],
        contexts.key[i], i, i,
    )  # fmt: skip


@inner_kernel
def sign_and_factor(call, marks, f):
    """Return the sign of feature f, and the factor on its gains in the node of a CALL."""
    number = np.int64(marks.numbers[f])
    sign, factor = np.int64(marks.sign[number]), marks.contribution[number]
    return sign, factor * call.factor if sign != 0 else factor


@inner_kernel
def rank_bins(hessian, only, tells_empty, scores):
    """Write 1 for the bins that are candidates, and 0 for the others.

    hessian      integers (n_values,)  in   running sums
    only         the one bin to try; -1: all
    tells_empty  a bin without a hessian is empty: its candidate is that of the bin before, which wins the tie, unless
                 its sides have other bounds
    """
    for b in range(len(hessian)):
        passed_by = b != only if only >= 0 else tells_empty and b > 0 and hessian[b] == hessian[b - 1]
        scores[b] = 0.0 if passed_by else 1.0


@inner_kernel
def counts_all_features(t, call, counting, rules):
    """Count the rows of every bin if the gains depend on them and that is quick; say whether it was done."""
    return rules.path_smooth > 0.0 and not rules.rows_are_hessians and count_all(t, call, counting)


@inlined
def sides_of(call, marks, f):
    """Return the bounds of both sides of the splits of feature f in the node of a CALL; empty: they have none."""
    place, first, last, table = np.int64(0), np.int64(0), np.int64(0), marks.sides
    if table.shape[2] > 0:
        offsets, number = marks.side_offsets, np.int64(marks.numbers[f])
        place, first, last = call.side_bounds, offsets[number], offsets[number + 1]
    return BinBounds(
        table[place, 0, first:last], table[place, 1, first:last], table[place, 2, first:last],
        table[place, 3, first:last],
    )  # fmt: skip


@inner_kernel
def search_feature(t, call, counting, counted, f, bins, has_missing, gradient, hessian, scores, marks, rules):
    """Take the best candidate of feature f, if its node may use it and it is better than the split of the call.

    counted            all bins' rows are in all_counts
    bins               (first, past the last) of the feature, the missing one last
    gradient, hessian  integers (n_values,)  in   running sums
    scores             floats (n_values,)    scratch
    """
    number, split = np.int64(marks.numbers[f]), call.split
    node = node_at_cost(call, cost_of(marks.costs, call.context, number))
    sign, factor = sign_and_factor(call, marks, f)
    n_values, known = np.int64(len(gradient)), counting.counts[t, :0]
    only = random_threshold(call.key, number, n_values, has_missing) if rules.extra_trees else np.int64(-1)
    sides = sides_of(call, marks, f)
    rank_bins(hessian, only, rules.tells_empty and len(sides.left_lower) == 0, scores)
    if counted:
        known = counting.all_counts[t, bins[0] : bins[1]]
    elif rules.path_smooth > 0.0 and not rules.rows_are_hessians:
        known = count_bins(t, call, counting, f, n_values + 1)
    feature = Feature(has_missing, sign, factor, False)
    best = best_candidate(gradient, hessian, scores, scores, ANYTHING, known, feature, node, sides, rules)
    if best.open_gain > split.gain and best.open_gain >= best.gain:
        known = count_bins(t, call, counting, f, n_values + 1)
        best = best_candidate(gradient, hessian, scores, scores, ANYTHING, known, feature, node, sides, rules)
    take_candidate(best, f, split)


@inner_kernel
def _search(t, call, histogram, features, marks, rules, scratch, counting):
    """See search_in_context."""
    offsets, n_numeric, mask = features.offsets, np.int64(len(features.has_missing)), marks.masks[call.context]
    clear_split(call.split)
    counted = counts_all_features(t, call, counting, rules)
    for f in range(min(call.first, n_numeric), min(call.last, n_numeric)):
        if is_allowed(mask, np.int64(marks.numbers[f])):
            first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
            n = last - first - 1
            gradient, hessian, scores = scratch.gradient[:n], scratch.hessian[:n], scratch.scores[0, :n]
            run_up(histogram[first : last - 1], gradient, hessian)
            search_feature(
                t, call, counting, counted, f, (first, last), features.has_missing[f], gradient, hessian, scores, marks,
                rules,
            )  # fmt: skip


@kernel
def search_in_context(t, room, calls, histograms, thin, features, marks, rules, scratch, counting, levels):
    """Search a node with a context: the operation `search` on histograms of pairs.

    histograms, thin  see pairs.search_pairs
    features          see pairs.Features; the mask of the context says which may be used
    rules             RULES (1,)  in
    scratch           see pairs.Scratch, of all threads
    levels            the operation; empty: no feature is categorical
    """
    if introduced(t, room, (calls, histograms, thin, features, marks, rules, scratch, counting, levels)):
        return
    call, own = calls[t], scratch_of(scratch, t)
    histogram = histograms[call.slot] if call.slot >= 0 else thin[t]
    _search(
        t, call, histogram, features, marks, rules_in(rules[0]), own, counting
    )  # fmt: skip
    if len(levels) > 0:
        run(levels, t)
