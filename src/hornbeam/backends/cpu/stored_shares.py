"""A node on stored bins that several threads search together: each has some columns, and the features in them.

A thread sums its columns of the smaller child, subtracts them from the larger one, and searches its features of both
children; nobody waits for anybody until all are done. Then the best of all threads is taken, which is what one thread
would have found: of equal gains the one of the first feature.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.split import is_better
from hornbeam.backends.cpu.split_categorical import around_node, improve_node
from hornbeam.backends.cpu.stored_histogram import StoredHistograms, sum_node
from hornbeam.backends.cpu.stored_split import scan_stored, settle
from hornbeam.splitting import pack_mask

ADDED, SEARCHED, SORTED = 3, 10, 60
"""Rough cost of a code of a row, of a bin, and of a level of a categorical feature, in nanoseconds."""

SHARE_COST = 150_000
"""A thread more is worth having for this much work of a node, in nanoseconds."""


class Share(NamedTuple):
    """The columns of one thread.

    blocks    int64 (n_blocks + 1,)   see stored_histogram.add_rows
    features  int64 (n,)              those in the columns, ascending
    own       bool (n_used,)          the same
    mask      uint32 (n_words,)       the same, see splitting.pack_mask
    """

    blocks: NDArray[np.int64]
    features: NDArray[np.int64]
    own: NDArray[np.bool_]
    mask: NDArray[np.uint32]


def cut_columns(builder: StoredHistograms, n_numeric: int, n_rows: float) -> tuple[list[Share], int]:
    """Cut the columns into shares that take about as long as each other, for smaller children of so many rows.

    Returns no shares where one thread had better do it all, and the most rows of a smaller child for which it should.
    """
    stored = builder.stored
    if len(stored.entries) or stored.n_columns == 0:  # a row's entries are of all features
        return [], stored.n_rows
    n_bins = np.diff(stored.offsets)
    fixed = np.zeros(stored.n_columns)
    np.add.at(fixed, stored.column, n_bins * np.where(np.arange(len(n_bins)) < n_numeric, SEARCHED, SORTED))
    done = np.concatenate([[0.0], np.cumsum(fixed + ADDED * n_rows)])
    n_shares = int(min(builder.n_summing, stored.n_columns, done[-1] / SHARE_COST))
    if n_shares < 2:
        return [], stored.n_rows
    cuts = np.searchsorted(done, done[-1] * np.arange(n_shares + 1) / n_shares).tolist()
    shares = []
    for first, last in pairwise(cuts):
        if last > first:
            own = (stored.column >= first) & (stored.column < last)
            shares.append(Share(builder.blocks_of(first, last), np.flatnonzero(own), own, pack_mask(own[None])[0]))
    most_alone = (n_shares * SHARE_COST - float(fixed.sum())) / (ADDED * stored.n_columns)
    return shares, int(max(most_alone, builder.most_thin))


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def search_child(  # type: ignore[no-untyped-def]
    codes, records, place_of_row, storage, starts, rows, histogram, g, h, begin, end, default, chosen, offsets,
    has_missing, no_counts, units, rules, bounds, scratch, open_features, open_gains, set_number, split,
    categories=None,
):  # fmt: skip
    """Find the best split of a node with the rows begin:end.

    histogram   int64 (n_total_bins, 2)   in
    set_number  where its set is written, from the first set on, if the feature is categorical
    split       SPLIT (1,)                out
    categories  see stored_expand.expand_kernel
    the rest as in stored_split.scan_stored and settle
    """
    zero, n_used, gather = np.int64(0), len(has_missing), np.bool_(True)
    n_open = scan_stored(
        histogram, g, h, end - begin, default, chosen, offsets, has_missing, no_counts, units, rules, bounds, zero,
        n_used, scratch, split, open_features, open_gains,
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


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def share_kernel(  # type: ignore[no-untyped-def]
    codes, records, place_of_row, storage, blocks, places, features, starts, rows, default, chosen, offsets,
    has_missing, no_counts, batch, n_left, asked, histograms, units, rules, bounds, counters, totals, nothing, scratch,
    open_features, open_gains, found, categories=None,
):  # fmt: skip
    """Do one thread's share of a node whose rows are divided; its slot holds its histogram.

    batch   EXPANSION (1,)   in
    n_left  int64 (1,)       in
    asked   SPLIT (2,)       in    of a child that is not to be searched the gain is -inf
    found   SPLIT (2,)       out   the best split of the children with this thread's features
    the rest as in stored_expand.expand_kernel; the sets of the children are the first two
    """
    this = batch[0]
    begin, middle, end = this.begin, this.begin + n_left[0], this.end
    small = np.int64(n_left[0] > end - middle)
    larger = histograms[this.slot] if asked[1 - small].gain > -np.inf else histograms[this.slot, :0]
    sum_node(
        codes, records, storage, blocks, places, features, middle if small else begin, end if small else middle,
        counters, totals, nothing, histograms[this.spare_slot], larger,
    )  # fmt: skip
    for side in range(2):
        found[side].gain = -np.inf
        if asked[side].gain == -np.inf:
            continue
        g, h = this.left_gradient, this.left_hessian
        if side:
            g, h = this.gradient - g, this.hessian - h
        search_child(
            codes, records, place_of_row, storage, starts, rows,
            histograms[this.spare_slot if side == small else this.slot], g, h, middle if side else begin,
            end if side else middle, default, chosen, offsets, has_missing, no_counts, units, rules, bounds, scratch,
            open_features, open_gains, side, found[side : side + 1], categories,
        )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def take_best(found, n_numeric, sets, first, to, out):  # type: ignore[no-untyped-def]
    """Take the best split that any thread has found for each child.

    found  SPLIT (n_shares, 2)        in
    sets   uint32 (n_sets, n_words)   in out   first: number of the set of the first thread's left child, the others
                                               follow; to: that of the left child
    out    SPLIT (2,)                 in out   as `asked` of share_kernel
    """
    for side in range(2):
        if out[side].gain == -np.inf:
            continue
        best = 0
        for t in range(1, len(found)):
            if is_better(found[t, side], found[best, side]):
                best = t
        out[side] = found[best, side]
        if out[side].feature >= n_numeric:
            sets[to + side] = sets[first + 2 * best + side]
            out[side].bin = to + side
