"""The rows of a tree that grows on several workers: histograms and partition of the rows of one of them.

Records (row number, gradient, hessian) lie side by side in the order of the nodes, so that a node's rows are read in
sequence; only their bins are fetched from all over the table. Gradient, hessian and a one that counts rows are a word,

    gradient, 27 bits, signed | hessian, 26 bits | rows, 11 bits

so that a (row, feature) is one addition. Counters of some features at a time stay in the first cache; after CHUNK rows
they are emptied into the sums, before a field can overflow. Wide gradients have two words, and are added up so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.threads import run_threads

ROWS_A_THREAD = 4096
"""Rows below which another thread is not worth its waking."""

COUNT_BITS, HESSIAN_BITS = 11, 26
"""Fields of a word; the gradient has the rest."""

CHUNK = 1024
"""Rows after which counters are emptied."""

assert CHUNK < 1 << COUNT_BITS
assert CHUNK * (2**16 - 1) < 1 << HESSIAN_BITS
assert CHUNK * 2**15 < 1 << (63 - COUNT_BITS - HESSIAN_BITS)

COUNTERS = 3584
"""Counters that are in use at a time: 28 KB, which the first cache holds."""


def pack(gradient: NDArray[np.int64], hessian: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return narrow gradients and hessians as words, int64 (n, 1)."""
    return ((gradient << (COUNT_BITS + HESSIAN_BITS)) + (hessian << COUNT_BITS) + 1)[:, None]


@kernel
def sum_words_kernel(bins, rows, words, begin, end, offsets, first, last, counters, out):
    """Add up the rows of nodes by bin, for the features first to last, which have no more bins than there are counters.

    bins      uint8 or uint16 (n_rows, stride)  in
    rows      uint32 (n,)                       in   row of each place
    words     int64 (n, 1)                      in   from `pack`
    begin     int64 (n_nodes,)                  in   places of each node
    end       int64 (n_nodes,)                  in
    offsets   uint32 (n_used + 1,)              in   unsigned, so that sums of them and bins are
    counters  int64 (n,)                        scratch
    out       int64 (n_nodes, n_bins, 2 or 3)   out  zeros before; a third sum is that of rows
    """
    counted = out.shape[2] > 2
    origin = offsets[first]
    n_bins = offsets[last] - origin
    for node in range(len(begin)):
        sums = out[node]
        for start in range(begin[node], end[node], CHUNK):
            counters[:n_bins] = 0
            for place in range(start, min(start + CHUNK, end[node])):
                row, word = rows[place], words[place, 0]
                for feature in range(first, last):
                    counters[offsets[feature] - origin + bins[row, feature]] += word
            for entry in range(n_bins):
                word = counters[entry]
                if word != 0:
                    sums[origin + entry, 0] += word >> (COUNT_BITS + HESSIAN_BITS)
                    sums[origin + entry, 1] += (word >> COUNT_BITS) & ((1 << HESSIAN_BITS) - 1)
                    if counted:
                        sums[origin + entry, 2] += word & ((1 << COUNT_BITS) - 1)


@kernel
def sum_pairs_kernel(bins, rows, pairs, begin, end, offsets, first, last, out):
    """Do the same with wide gradients.

    pairs  int64 (n, 2)  in  gradient and hessian of each place; the rest as in `sum_words_kernel`
    """
    counted = out.shape[2] > 2
    for node in range(len(begin)):
        sums = out[node]
        for place in range(begin[node], end[node]):
            row, gradient, hessian = rows[place], pairs[place, 0], pairs[place, 1]
            for feature in range(first, last):
                entry = offsets[feature] + bins[row, feature]
                sums[entry, 0] += gradient
                sums[entry, 1] += hessian
                if counted:
                    sums[entry, 2] += 1


@kernel
def divide_kernel(columns, rows, values, spare_rows, spare_values, begin, end, features, goes_left, n_left):
    """Move the rows of nodes to the places of their children, in their order.

    columns       uint8 or uint16 (n_used, n_rows)  in   bins, feature by feature
    rows          uint32 (n,)                       in, out
    values        int64 (n, 1 or 2)                 in, out
    spare_rows    uint32 (n,)                       scratch
    spare_values  int64 (n, 1 or 2)                 scratch
    begin, end    int64 (n_nodes,)                  in   places of each node
    features      int64 (n_nodes,)                  in   used feature of each split
    goes_left     uint8 (n_nodes, most bins)        in   by bin
    n_left        int64 (n_nodes,)                  out
    """
    last = values.shape[1] - 1
    for node in range(len(begin)):
        column, table = columns[features[node]], goes_left[node]
        left, n_right = begin[node], 0
        for place in range(begin[node], end[node]):
            row, a, b = rows[place], values[place, 0], values[place, last]
            spare = begin[node] + n_right
            is_left = table[column[row]]
            # both are written, and the next row overwrites the wrong one: a branch would be foretold wrongly
            rows[left], spare_rows[spare] = row, row
            values[left, 0], values[left, last] = a, b
            spare_values[spare, 0], spare_values[spare, last] = a, b
            left += is_left
            n_right += 1 - is_left
        for i in range(n_right):
            rows[left + i] = spare_rows[begin[node] + i]
            values[left + i, 0] = spare_values[begin[node] + i, 0]
            values[left + i, last] = spare_values[begin[node] + i, last]
        n_left[node] = left - begin[node]


def feature_blocks(offsets: NDArray[np.uint32], n_threads: int) -> list[tuple[int, int]]:
    """Return runs of features, (first, last + 1): of COUNTERS bins at most, or of one; at least one run a thread."""
    blocks, first, n_used = [], 0, len(offsets) - 1
    most = -(-n_used // n_threads)
    for feature in range(1, n_used + 1):
        is_full = feature == n_used or int(offsets[feature + 1]) - int(offsets[first]) > COUNTERS
        if is_full or feature - first == most:
            blocks.append((first, feature))
            first = feature
    return blocks


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
    """Add up the rows of nodes by bin; each thread has some of the features.

    values  int64 (n, 1): words of `pack`; int64 (n, 2): wide gradients and hessians; the rest as in the kernels
    """
    n_threads = max(1, min(n_threads, len(offsets) - 1, int((end - begin).sum()) // ROWS_A_THREAD))
    blocks = feature_blocks(offsets, n_threads)
    most = max((int(offsets[last]) - int(offsets[first]) for first, last in blocks), default=1)

    def work(t: int) -> None:
        counters = np.empty(most, np.int64)
        for block in blocks[t::n_threads]:
            if values.shape[1] == 1:
                sum_words_kernel(bins, rows, values, begin, end, offsets, *block, counters, out)
            else:
                sum_pairs_kernel(bins, rows, values, begin, end, offsets, *block, out)

    run_threads(work, n_threads)


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
