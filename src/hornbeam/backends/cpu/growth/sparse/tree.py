"""What the driver (trees/driver.py) does with the nodes of sparse data.

Each thread asks, or finds in lists, some rows of the node that is divided, adds some rows of the smaller child to its
counters, and merges, subtracts and searches its features. What is little work is done by one thread while the others
wait for it, and few rows are added by few threads, since the counters of each have to be merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import search_child, sum_smaller
from hornbeam.backends.cpu.growth.sparse.histograms import Summing, Thin, add_thin, sum_rows, wipe_thin
from hornbeam.backends.cpu.growth.splits.pairs import Features, Scratch, search_pairs
from hornbeam.backends.cpu.growth.splits.rules import plain_node
from hornbeam.backends.cpu.host.kernels import kernels_by_kind


class SparseSums(NamedTuple):
    """Histograms of a tree, or of a round, on sparse data.

    histograms  int64 (n_slots, n_total_bins, 2)
    scratch     of all threads
    """

    summing: Summing
    thin: Thin
    histograms: NDArray[np.int64]
    features: Features
    scratch: Scratch


def sum_smaller_sparse(t, crew, rows, sums, small, spare, kept, wanted, moving):
    """See operations.sum_smaller; thin nodes are for one thread alone."""
    thin, bare, histograms = sums.thin, sums.thin.bare, sums.histograms
    begin, end, larger_wanted = small.begin, small.end, wanted[1]
    is_bare = kept >= 0 and bare[kept, 1] > 0
    if is_bare or end - begin < thin.most_rows:
        bare[spare, 0], bare[spare, 1] = begin, end
        if is_bare:  # so are both children
            if begin == bare[kept, 0]:
                bare[kept, 0] = end
            else:
                bare[kept, 1] = begin
        elif larger_wanted:
            add_thin(rows, thin, begin, end, np.int64(-1), sums.summing.touched[t], histograms[kept])
        return True
    if thin.most_rows > 0:
        bare[spare, 0], bare[spare, 1] = 0, 0
    records, wide = (rows.spare, rows.spare_wide) if moving else (rows.records, rows.wide)
    larger = histograms[kept] if larger_wanted else histograms[0, :0]
    return sum_rows(t, crew, rows.storage, sums.summing, records, wide, begin, end, histograms[spare], larger)


def search_child_sparse(t, rows, sums, categories, child, slot, less, set_number, rules, split):
    """See operations.search_child."""
    thin, cuts = sums.thin, sums.summing.cuts
    node = plain_node(child.begin, child.end, child.depth, child.gradient, child.hessian, rules)
    is_bare, histogram, one = thin.bare[slot, 1] > 0, sums.histograms[slot], np.int64(1)  # 1 would be compiled for
    if is_bare:
        histogram = thin.empty
        add_thin(rows, thin, node.begin, node.end, one, sums.summing.touched[t], histogram)
    search_pairs(
        t,
        rows,
        histogram,
        cuts[t],
        cuts[t + 1],
        sums.features,
        node,
        rules,
        sums.scratch,
        categories,
        set_number,
        split,
    )
    if is_bare:
        wipe_thin(rows, thin, node.begin, node.end, histogram)


kernels_by_kind(sum_smaller, "sums", {SparseSums: sum_smaller_sparse})
kernels_by_kind(search_child, "sums", {SparseSums: search_child_sparse})
