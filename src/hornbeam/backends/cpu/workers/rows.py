"""The rows of a tree that grows on several workers: histograms and partition of the rows of one of them.

Records (row number, gradient, hessian) lie side by side in the order of the nodes, so that a node's rows are read in
sequence; only their bins are fetched from all over the table. Where rows are counted, a one above the hessian's bits
counts them, so that each (row, feature) is two additions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.threads import run_threads

ROWS_A_THREAD = 4096
"""Rows below which another thread is not worth its waking."""


PACKED_BITS = 40
"""Bits of a hessian sum in a packed sum, whose upper bits count rows."""

PACKED_ROWS = 1 << 23
"""Rows below which packed sums hold: 2**23 hessians of 16 bits stay below 2**40, and 2**23 rows below 2**63."""


@kernel
def sum_bins_kernel(bins, rows, values, begin, end, offsets, first, last, out):
    """Add up the rows of nodes by bin, for the features first to last.

    bins     uint8 or uint16 (n_rows, stride)  in
    rows     uint32 (n,)                       in   row of each place
    values   int64 (n, 2)                      in   what is added for each place, see `packed_values`
    begin    int64 (n_nodes,)                  in   places of each node
    end      int64 (n_nodes,)                  in
    offsets  uint32 (n_used + 1,)              in   unsigned, so that sums of them and bins are
    out      int64 (n_nodes, n_bins, 2)        out  zeros before
    """
    for node in range(len(begin)):
        sums = out[node]
        for place in range(begin[node], end[node]):
            row, a, b = rows[place], values[place, 0], values[place, 1]
            for feature in range(first, last):
                entry = offsets[feature] + bins[row, feature]
                sums[entry, 0] += a
                sums[entry, 1] += b


@kernel
def divide_kernel(columns, rows, values, spare_rows, spare_values, begin, end, features, goes_left, n_left):
    """Move the rows of nodes to the places of their children, in their order.

    columns       uint8 or uint16 (n_used, n_rows)  in   bins, feature by feature
    rows          uint32 (n,)                       in, out
    values        int64 (n, 2)                      in, out
    spare_rows    uint32 (n,)                       scratch
    spare_values  int64 (n, 2)                      scratch
    begin, end    int64 (n_nodes,)                  in   places of each node
    features      int64 (n_nodes,)                  in   used feature of each split
    goes_left     uint8 (n_nodes, most bins)        in   by bin
    n_left        int64 (n_nodes,)                  out
    """
    for node in range(len(begin)):
        column, table = columns[features[node]], goes_left[node]
        left, n_right = begin[node], 0
        for place in range(begin[node], end[node]):
            row, a, b = rows[place], values[place, 0], values[place, 1]
            spare = begin[node] + n_right
            is_left = table[column[row]]
            # both are written, and the next row overwrites the wrong one: a branch would be foretold wrongly
            rows[left], spare_rows[spare] = row, row
            values[left, 0], values[left, 1] = a, b
            spare_values[spare, 0], spare_values[spare, 1] = a, b
            left += is_left
            n_right += 1 - is_left
        for i in range(n_right):
            rows[left + i] = spare_rows[begin[node] + i]
            values[left + i, 0] = spare_values[begin[node] + i, 0]
            values[left + i, 1] = spare_values[begin[node] + i, 1]
        n_left[node] = left - begin[node]


def sum_bins(
    bins: NDArray[Any],
    rows: NDArray[np.uint32],
    values: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    offsets: NDArray[np.uint32],
    out: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Add up the rows of nodes by bin; each thread has some of the features. Arguments as in `sum_bins_kernel`."""
    n_used = len(offsets) - 1
    n_threads = max(1, min(n_threads, n_used, int((end - begin).sum()) // ROWS_A_THREAD))
    cuts = [n_used * t // n_threads for t in range(n_threads + 1)]
    run_threads(
        lambda t: sum_bins_kernel(bins, rows, values, begin, end, offsets, cuts[t], cuts[t + 1], out), n_threads
    )


def divide(
    columns: NDArray[Any],
    records: tuple[NDArray[np.uint32], NDArray[np.int64]],
    spare: tuple[NDArray[np.uint32], NDArray[np.int64]],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    features: NDArray[np.int64],
    goes_left: NDArray[np.uint8],
    n_threads: int,
) -> NDArray[np.int64]:
    """Move the rows of nodes to their children, and return how many went left; arguments as in `divide_kernel`.

    records, spare  rows and values
    """
    n_left = np.zeros(len(begin), np.int64)
    sizes = np.cumsum(end - begin)
    total = int(sizes[-1]) if len(sizes) else 0
    n_threads = max(1, min(n_threads, len(begin), total // ROWS_A_THREAD))
    cuts = [0, *np.searchsorted(sizes, total * np.arange(1, n_threads) / n_threads).tolist(), len(begin)]

    def work(t: int) -> None:
        own = slice(cuts[t], cuts[t + 1])
        divide_kernel(columns, *records, *spare, begin[own], end[own], features[own], goes_left[own], n_left[own])

    run_threads(work, n_threads)
    return n_left
