"""The best split of a node among all distinct values of a feature: running sums over the rows in order.

A node's list is read in chunks. The running sums after every rank of a chunk, the candidates, are written side by side
and held against the best gain so far without a branch; only those that reach it get their gain computed, as from
histograms (splits/candidates.py, splits/pairs.py). Rows need not be counted: a place in the list is a count.

A rank that none of the node's rows has makes no candidate: it divides the rows as a lower one does, which wins the tie.
One such candidate has no lower one: missing values alone on the left, as after rank 0 where no row has that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import node_at_cost
from hornbeam.backends.cpu.growth.ranked.lists import Lists, lists_at
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.splits.candidates import MARGIN
from hornbeam.backends.cpu.growth.splits.contexts import enter_context
from hornbeam.backends.cpu.growth.splits.pairs import reaches
from hornbeam.backends.cpu.growth.splits.rules import (
    candidate_gain,
    clear_split,
    cost_of,
    enter_node,
    is_allowed,
    random_threshold,
    rules_in,
)
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel

CHUNK = 1024
"""Candidates that are looked at together: their sums stay in the first-level cache."""


class Chunk(NamedTuple):
    """Candidates of one thread.

    gradient, hessian  int64 (CHUNK + 1,)   sums up to each, missing rows left out
    rows, ranks        int64 (CHUNK + 1,)
    """

    gradient: NDArray[np.int64]
    hessian: NDArray[np.int64]
    rows: NDArray[np.int64]
    ranks: NDArray[np.int64]

    @classmethod
    def make(cls) -> Chunk:
        """Make room."""
        return cls(*(np.empty(CHUNK + 1, np.int64) for _ in range(4)))


class Ranked(NamedTuple):
    """Rows in the order of every feature, and what is added up.

    gradients    int32 (n_rows, 2)
    has_missing  bool (n_numeric,)
    """

    lists: Lists
    gradients: NDArray[np.int32]
    has_missing: NDArray[np.bool_]


class Feature(NamedTuple):
    """A feature in a node; sign and factor as in splitting.NodeContext."""

    number: int
    n_ranks: int
    has_missing: bool
    sign: int
    factor: float


class Missing(NamedTuple):
    """Rows of a node whose value is missing."""

    gradient: int
    hessian: int
    rows: int


@inner_kernel
def first_missing(entries, begin, end, n_ranks):
    """Return the first place of a node whose value is missing; its end if none is."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if np.int64(entries[middle] >> np.uint64(32)) < n_ranks:
            low = middle + 1
        else:
            high = middle
    return low


@inner_kernel
def write_chunk(entries, gradients, start, stop, end, sums, begin, least, most, chunk):
    """Write the candidates after the places start:stop; returns their number and the sums up to there.

    end          past the last value of the node
    sums         (gradient, hessian) up to start
    least, most  rows that a candidate must have up to there
    """
    (g, h), n = sums, np.uint64(0)
    gradient, hessian, rows, ranks = chunk.gradient, chunk.hessian, chunk.rows, chunk.ranks
    last = np.uint64(end - 1)
    for place in range(np.uint64(start), np.uint64(stop)):
        entry = entries[place]
        row, rank = entry & ROW_MASK, entry >> np.uint64(32)
        g += np.int64(gradients[row, 0])
        h += np.int64(gradients[row, 1])
        n_rows = np.int64(place) + 1 - begin
        gradient[n], hessian[n], rows[n], ranks[n] = g, h, n_rows, np.int64(rank)
        after = entries[min(place + np.uint64(1), last)] >> np.uint64(32)
        n += np.uint64(((after != rank) | (place == last)) & (n_rows >= least) & (n_rows <= most))
    return np.int64(n), (g, h)


@inner_kernel
def try_chunk(chunk, n, missing, feature, node, rules, known, split):
    """Take the best of n candidates that gains `known` or more, if it is better than the split of the feature."""
    by_products, n_node = rules.by_products and feature.factor == 1.0, node.end - node.begin
    for side in range(2 if missing.rows > 0 else 1):
        more_g, more_h = (missing.gradient, missing.hessian) if side == 0 else (np.int64(0), np.int64(0))
        more_rows = missing.rows if side == 0 else np.int64(0)
        bar = (max(rules.min_gain, max(known, split.gain)) + node.score) * rules.scale * MARGIN
        if by_products:
            n_reached = np.int64(0)
            for i in range(np.uint64(n)):
                n_reached += np.int64(
                    reaches(
                        chunk.gradient[i] + more_g, chunk.hessian[i] + more_h, node.gradient, node.hessian,
                        rules.extra, bar,
                    ) > 0.0
                )  # fmt: skip
            if n_reached == 0:
                continue
        for i in range(np.uint64(n)):
            g, h, rows = chunk.gradient[i] + more_g, chunk.hessian[i] + more_h, chunk.rows[i] + more_rows
            if by_products and not reaches(g, h, node.gradient, node.hessian, rules.extra, bar) > 0.0:
                continue
            gain = candidate_gain(g, h, rows, n_node - rows, node, rules, feature.sign, feature.factor, 0.0)
            rank = chunk.ranks[i]
            if gain > split.gain or (gain == split.gain and gain > -np.inf and rank < split.bin):
                split.gain, split.feature, split.bin, split.missing_left = gain, feature.number, rank, side == 0
                split.left_gradient, split.left_hessian = g, h
                bar = (max(rules.min_gain, max(known, gain)) + node.score) * rules.scale * MARGIN


@inner_kernel
def try_one(entries, gradients, begin, end, only, missing, feature, node, rules, chunk, split):
    """Try the one threshold after rank `only`; see splitting.random_threshold."""
    stop = first_missing(entries, begin, end, only + 1)
    g, h = np.int64(0), np.int64(0)
    for place in range(np.uint64(begin), np.uint64(stop)):
        row = entries[place] & ROW_MASK
        g += np.int64(gradients[row, 0])
        h += np.int64(gradients[row, 1])
    chunk.gradient[0], chunk.hessian[0], chunk.rows[0], chunk.ranks[0] = g, h, stop - begin, only
    try_chunk(chunk, np.int64(1), missing, feature, node, rules, -np.inf, split)


@inner_kernel
def search_list(entries, gradients, feature, key, node, rules, known, chunk, split):
    """Find the best split of a node by one feature.

    entries    uint64 (n_rows,)     in
    gradients  int32 (n_rows, 2)    in
    key        of the node, see splitting.random_threshold
    known      a gain that the node has for certain; what gains less need not be found
    split      SPLIT ()             out
    """
    clear_split(split)
    begin, end = node.begin, node.end
    values = first_missing(entries, begin, end, feature.n_ranks) if feature.has_missing else end
    missing_g, missing_h = np.int64(0), np.int64(0)
    for place in range(np.uint64(values), np.uint64(end)):
        row = entries[place] & ROW_MASK
        missing_g += np.int64(gradients[row, 0])
        missing_h += np.int64(gradients[row, 1])
    missing = Missing(missing_g, missing_h, end - values)
    if rules.extra_trees:
        only = random_threshold(key, feature.number, feature.n_ranks, feature.has_missing)
        try_one(entries, gradients, begin, values, only, missing, feature, node, rules, chunk, split)
        return
    if missing.rows > 0 and (values == begin or entries[begin] >> np.uint64(32) > np.uint64(0)):
        chunk.gradient[0], chunk.hessian[0], chunk.rows[0], chunk.ranks[0] = 0, 0, 0, 0
        try_chunk(chunk, np.int64(1), missing, feature, node, rules, known, split)
    sums, least, most = (np.int64(0), np.int64(0)), rules.min_data - missing.rows, end - begin - rules.min_data
    for start in range(begin, values, CHUNK):
        stop = min(start + CHUNK, values)
        n, sums = write_chunk(entries, gradients, start, stop, values, sums, begin, least, most, chunk)
        try_chunk(chunk, n, missing, feature, node, rules, known, split)


@kernel
def search_kernel(t, start, stop, calls, batch, features, ranked, marks, rules, chunk, known, found):
    """Search the pairs start:stop of a feature and a node, feature by feature.

    t            thread whose call is used
    calls        CALL (n_threads,)             see operations.py
    batch        the nodes, see search.Batch
    features     int64 (n,)                    in
    marks        of features, and the masks of nodes; no masks: nodes have no contexts
    rules        RULES (1,)                    in
    known        float64 (n_nodes,)            in out   best gain of each node so far; threads may see it late
    found        SPLIT (n_nodes, n)            out
    """
    call, rules_of_tree = calls[t], rules[0]
    n_nodes, in_context, lists = len(batch.begin), len(marks.masks) > 0, ranked.lists
    read = rules_in(rules_of_tree)
    for pair in range(start, stop):
        number, i = pair // n_nodes, pair % n_nodes
        f, sign, factor, cost, split = features[number], np.int64(0), 1.0, 0.0, found[i, number]
        enter_node(
            call, batch.begin[i], batch.end[i], batch.depth[i], batch.gradient[i], batch.hessian[i], rules_of_tree
        )  # fmt: skip
        if in_context:
            if not is_allowed(marks.masks[i], f):
                clear_split(split)
                continue
            enter_context(call, batch.contexts, i)
            sign, factor = np.int64(marks.sign[f]), marks.contribution[f]
            if sign != 0:
                factor = factor * call.factor
            cost = cost_of(marks.costs, i, f)
        search_list(
            lists_at(lists, batch.depth[i])[lists.number[f]], ranked.gradients,
            Feature(f, lists.n_ranks[f], ranked.has_missing[f], sign, factor), call.key, node_at_cost(call, cost), read,
            known[i], chunk, split,
        )  # fmt: skip
        known[i] = max(known[i], split.gain)
