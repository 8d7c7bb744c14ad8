"""The operations `sum` and `search` on sparse data, of whole trees and of rounds.

Each thread adds some rows of the smaller child to its counters, and merges, subtracts and searches its features. Few
rows are added by few threads, since the counters of each have to be merged. Nodes of few rows are thin: they are not
summed at all until they are searched, and each thread sums what its features have.
"""

from __future__ import annotations

import numpy as np

from hornbeam.backends.cpu.growth.sparse.histograms import add_thin, sum_rows, wipe_thin
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run
from hornbeam.backends.cpu.host.team import meet


@inner_kernel
def _sum(t, call, crew, rows, summing, thin, histograms):
    """See sum_sparse; returns False if a thread has failed."""
    part, begin, end, kept, spare = call.part, call.begin, call.end, call.kept, call.spare
    bare, cuts = thin.bare[part], summing.cuts
    records, wide = (rows.spare, rows.spare_wide) if call.moving else (rows.records, rows.wide)
    is_bare = kept >= 0 and bare[kept, 1] > 0
    if is_bare or end - begin < thin.most_rows:
        bare[spare, 0], bare[spare, 1] = begin, end
        if is_bare:  # so are both children
            if begin == bare[kept, 0]:
                bare[kept, 0] = end
            else:
                bare[kept, 1] = begin
        elif call.wants_larger:
            less, f0, f1 = np.int64(-1), cuts[part], cuts[part + 1]
            add_thin(t, rows, records, wide, thin, begin, end, less, f0, f1, histograms[kept])
        return not call.moving or meet(crew)  # the search takes the records from their places
    bare[spare, 0], bare[spare, 1] = 0, 0
    larger = histograms[kept] if call.wants_larger else histograms[0, :0]
    return sum_rows(t, part, crew, rows.storage, summing, records, wide, begin, end, histograms[spare], larger)


@kernel
def sum_sparse(t, room, calls, crew, rows, summing, thin, histograms):
    """Sum the smaller child of a node: the operation `sum`; histograms: int64 (n_slots, n_total_bins, 2), in out."""
    if introduced(t, room, (calls, crew, rows, summing, thin, histograms)):
        return
    call = calls[t]
    call.failed = not _sum(
        t, call, crew, rows, summing, thin, histograms
    )  # fmt: skip


@kernel
def search_sparse(t, room, calls, rows, thin, search):
    """Search a node: the operation `search`; thin nodes are summed for it.

    search  the operation on histograms of pairs, see splits/pairs.py
    """
    if introduced(t, room, (calls, rows, thin, search)):
        return
    call = calls[t]
    if thin.bare[call.part, call.slot, 1] == 0:
        run(search, t)
        return
    slot, begin, end, f0, f1, one = call.slot, call.begin, call.end, call.first, call.last, np.int64(1)
    histogram = thin.empty[t]
    add_thin(t, rows, rows.records, rows.wide, thin, begin, end, one, f0, f1, histogram)  # 1 would be compiled for
    call.slot, call.beside = -1, True
    run(search, t)
    call.slot, call.beside = slot, False
    wipe_thin(rows, thin, begin, end, f0, f1, histogram)
