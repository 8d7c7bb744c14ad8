"""Leaf values as percentiles of residuals on the CPU: the twin of `hornbeam.percentiles.leaf_percentiles`.

Residuals are dealt out to their leaves (a counting sort, a part of the rows a thread), then every leaf is sorted as far
as its percentile needs it. Sorting is NumPy's, which lets other threads work meanwhile.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.threads import run_ranges, run_threads
from hornbeam.percentiles import fixed_weights, percentile

FloatArray = NDArray[np.float64]

ROWS_PER_THREAD = 32_768
NO_WEIGHT = np.empty(0, np.int64)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def count_rows_kernel(leaf, start, stop, counts):  # type: ignore[no-untyped-def]
    """Count the rows start:stop of each leaf.

    leaf    uint16 (n_rows,)    in
    counts  int64 (n_leaves,)   in, out   zeros at first
    """
    for row in range(start, stop):
        counts[leaf[row]] += 1


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def deal_residuals_kernel(scores, label, weight, leaf, start, stop, place, residuals, weights):  # type: ignore[no-untyped-def]
    """Write label - score of the rows start:stop to the places of their leaves.

    scores, label  float64 (n_rows,)        in
    weight         int64 (n_rows,) or (0,)  in        empty: no weights
    place          int64 (n_leaves,)        in, out   where the next row of each leaf goes
    residuals      float64 (n_rows,)        out
    weights        int64 (n_rows,) or (0,)  out
    """
    for row in range(start, stop):
        to = place[leaf[row]]
        place[leaf[row]] = to + 1
        residuals[to] = label[row] - scores[row]
        if len(weight) > 0:
            weights[to] = weight[row]


def renew_leaves(
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray | None,
    leaf: NDArray[np.uint16],
    alpha: float,
    n_leaves: int,
    n_threads: int,
) -> FloatArray:
    """See protocol.Engine.renew_leaves; scores, label and leaf number of every row."""
    n_rows = len(leaf)
    fixed = NO_WEIGHT if weight is None else fixed_weights(weight)
    n_parts = max(1, min(n_threads, n_rows // ROWS_PER_THREAD))
    bounds = [n_rows * part // n_parts for part in range(n_parts + 1)]
    counts = np.zeros((n_parts, n_leaves), np.int64)
    run_threads(lambda t: count_rows_kernel(leaf, bounds[t], bounds[t + 1], counts[t]), n_parts)
    ends = np.cumsum(counts.T.ravel())  # leaf by leaf, and in a leaf part by part
    place = np.ascontiguousarray((ends.reshape(n_leaves, n_parts) - counts.T).T)
    leaf_ends = ends[n_parts - 1 :: n_parts]
    residuals, weights = np.empty(n_rows), np.empty_like(fixed)
    run_threads(
        lambda t: deal_residuals_kernel(
            scores, label, fixed, leaf, bounds[t], bounds[t + 1], place[t], residuals, weights
        ),
        n_parts,
    )
    values = np.empty(n_leaves)

    def part(start: int, stop: int) -> None:
        for number in range(start, stop):
            rows = slice(leaf_ends[number - 1] if number else 0, leaf_ends[number])
            values[number] = percentile(residuals[rows], None if weight is None else weights[rows], alpha)

    run_ranges(part, n_leaves, n_threads, max(1, n_leaves * ROWS_PER_THREAD // max(1, n_rows)))
    return values
