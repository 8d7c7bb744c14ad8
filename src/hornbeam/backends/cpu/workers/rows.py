"""The rows of a tree that grows on several workers: histograms and partition of the rows of one of them.

Records (row number, gradient, hessian) lie side by side in the order of the nodes, so that a node's rows are read in
sequence; only their bins are fetched from all over the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.threads import run_threads

ROWS_A_THREAD = 4096
"""Rows below which another thread is not worth its waking."""


@kernel
def sum_bins_kernel(bins, rows, values, begin, end, offsets, first, last, out):
    """Add up the rows of nodes by bin, for the features first to last.

    bins     uint8 or uint16 (n_rows, stride)  in
    rows     uint32 (n,)                       in   row of each place
    values   int32 (n, 2)                      in   gradient and hessian of each place
    begin    int64 (n_nodes,)                  in   places of each node
    end      int64 (n_nodes,)                  in
    offsets  int64 (n_used + 1,)               in
    out      int64 (n_nodes, n_bins, 2 or 3)   out  zeros before; a third sum counts rows
    """
    counted = out.shape[2] > 2
    for node in range(len(begin)):
        sums = out[node]
        for place in range(begin[node], end[node]):
            row, gradient, hessian = rows[place], values[place, 0], values[place, 1]
            for feature in range(first, last):
                entry = offsets[feature] + bins[row, feature]
                sums[entry, 0] += gradient
                sums[entry, 1] += hessian
                if counted:
                    sums[entry, 2] += 1


@kernel
def divide_kernel(bins, rows, values, spare_rows, spare_values, begin, end, features, goes_left, n_left):
    """Move the rows of nodes to the places of their children, in their order.

    bins          uint8 or uint16 (n_rows, stride)  in
    rows          uint32 (n,)                       in, out
    values        int32 (n, 2)                      in, out
    spare_rows    uint32 (n,)                       scratch
    spare_values  int32 (n, 2)                      scratch
    begin, end    int64 (n_nodes,)                  in   places of each node
    features      int64 (n_nodes,)                  in   used feature of each split
    goes_left     uint8 (n_nodes, most bins)        in   by bin
    n_left        int64 (n_nodes,)                  out
    """
    for node in range(len(begin)):
        feature, table = features[node], goes_left[node]
        left, n_right = begin[node], 0
        for place in range(begin[node], end[node]):
            row = rows[place]
            if table[bins[row, feature]]:
                rows[left] = row
                values[left, 0], values[left, 1] = values[place, 0], values[place, 1]
                left += 1
            else:
                spare = begin[node] + n_right
                spare_rows[spare] = row
                spare_values[spare, 0], spare_values[spare, 1] = values[place, 0], values[place, 1]
                n_right += 1
        for i in range(n_right):
            rows[left + i] = spare_rows[begin[node] + i]
            values[left + i, 0], values[left + i, 1] = (
                spare_values[begin[node] + i, 0],
                spare_values[begin[node] + i, 1],
            )
        n_left[node] = left - begin[node]


def sum_bins(
    bins: NDArray[Any],
    rows: NDArray[np.uint32],
    values: NDArray[np.int32],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    offsets: NDArray[np.int64],
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
    bins: NDArray[Any],
    records: tuple[NDArray[np.uint32], NDArray[np.int32]],
    spare: tuple[NDArray[np.uint32], NDArray[np.int32]],
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
        divide_kernel(bins, *records, *spare, begin[own], end[own], features[own], goes_left[own], n_left[own])

    run_threads(work, n_threads)
    return n_left
