"""The operations `sum` and `search` on sparse data, of whole trees and of rounds.

Each thread adds some rows of the smaller child to its counters, and merges, subtracts and searches its features. Few
rows are added by few threads, since the counters of each have to be merged. Nodes of few rows are thin: a thread that
works alone does not sum them at all until it searches them.
"""

from __future__ import annotations

import numpy as np

from hornbeam.backends.cpu.growth.sparse.histograms import add_thin, sum_rows, wipe_thin
from hornbeam.backends.cpu.host.kernels import borrowed, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run


@inner_kernel
def _sum(t, call, crew, rows, summing, thin, histograms):
    """See sum_sparse; returns False if a thread has failed."""
    bare, begin, end, kept, spare = thin.bare, call.begin, call.end, call.kept, call.spare
    is_bare = kept >= 0 and bare[kept, 1] > 0
    if is_bare or end - begin < thin.most_rows:
        bare[spare, 0], bare[spare, 1] = begin, end
        if is_bare:  # so are both children
            if begin == bare[kept, 0]:
                bare[kept, 0] = end
            else:
                bare[kept, 1] = begin
        elif call.wants_larger:
            add_thin(t, rows, thin, begin, end, np.int64(-1), histograms[kept])
        return True
    if thin.most_rows > 0:
        bare[spare, 0], bare[spare, 1] = 0, 0
    records, wide = (rows.spare, rows.spare_wide) if call.moving else (rows.records, rows.wide)
    larger = histograms[kept] if call.wants_larger else histograms[0, :0]
    return sum_rows(
        t, call.part, crew, rows.storage, summing, records, wide, begin, end, histograms[spare], larger
    )  # fmt: skip


@kernel
def sum_sparse(t, room, calls, crew, rows, summing, thin, histograms):
    """Sum the smaller child of a node: the operation `sum`; histograms: int64 (n_slots, n_total_bins, 2), in out."""
    if introduced(t, room, (calls, crew, rows, summing, thin, histograms)):
        return
    call = calls[t]
    call.failed = not _sum(
        t, call, borrowed(crew), borrowed(rows), borrowed(summing), borrowed(thin), borrowed(histograms)
    )  # fmt: skip


@kernel
def search_sparse(t, room, calls, rows, thin, search):
    """Search a node: the operation `search`; thin nodes are summed for it.

    search  the operation on histograms of pairs, see splits/pairs.py
    """
    if introduced(t, room, (calls, rows, thin, search)):
        return
    call, rows, thin = calls[t], borrowed(rows), borrowed(thin)
    if thin.bare[call.slot, 1] == 0:
        run(search, t)
        return
    slot, histogram, one = call.slot, thin.empty[t], np.int64(1)  # 1 would be compiled for
    add_thin(t, rows, thin, call.begin, call.end, one, histogram)
    call.slot = -1
    run(search, t)
    call.slot = slot
    wipe_thin(rows, thin, call.begin, call.end, histogram)
