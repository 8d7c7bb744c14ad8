"""Leaf values as percentiles of residuals on the CPU: the twin of `hornbeam.objectives.percentiles.leaf_percentiles`.

Or as minima of log(cosh): the twin of `hornbeam.objectives.logcosh_leaves.leaf_minima`.

Residuals are dealt out to their leaves (a counting sort, a part of the rows a thread), then every leaf is sorted as far
as its percentile needs it. Sorting is NumPy's, which lets other threads work meanwhile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.backends.cpu.losses.numerics import log_, tanh_ratio_
from hornbeam.backends.cpu.tuning import Tuning, in_use
from hornbeam.objectives.logcosh_leaves import FARTHEST, LAST_STEP, MOST_STEPS, unit_weight
from hornbeam.objectives.percentiles import fixed_weights, percentile

FloatArray = NDArray[np.float64]

NO_WEIGHT = np.empty(0, np.int64)


@kernel
def count_rows_kernel(leaf, start, stop, counts):
    """Count the rows start:stop of each leaf.

    leaf    uint16 (n_rows,)    in
    counts  int64 (n_leaves,)   in, out   zeros at first
    """
    for row in range(start, stop):
        counts[leaf[row]] += 1


@kernel
def deal_residuals_kernel(scores, label, weight, leaf, start, stop, place, residuals, weights):
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


@kernel
def towards_minimum_kernel(value, residuals, weights, unit):
    """Return where the steps of `hornbeam.objectives.logcosh_leaves` lead from a value.

    residuals  float64 (n,)        in
    weights    int64 (n,) or (0,)  in   empty: `unit` each
    """
    for _ in range(MOST_STEPS):
        slope, curvature = np.int64(0), np.int64(0)
        for row in range(len(residuals)):
            d = min(max(value - residuals[row], -FARTHEST), FARTHEST)
            t = d * tanh_ratio_(d)
            weight = float(weights[row]) if len(weights) > 0 else unit
            slope += np.int64(np.rint(t * weight))
            curvature += np.int64(np.rint((1.0 - t * t) * weight))
        if slope == 0 or curvature == 0:
            break
        step = 0.5 * log_(1.0 + (2.0 * abs(float(slope))) / float(curvature))
        value = value - step if slope > 0 else value + step
        if step <= LAST_STEP:
            break
    return value


def renew_leaves(
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray | None,
    leaf: NDArray[np.uint16],
    alpha: float,
    n_leaves: int,
    n_threads: int,
    logcosh: bool = False,
    tuning: Tuning | None = None,
) -> FloatArray:
    """See engine.Engine.renew_leaves; scores, label and leaf number of every row."""
    n_rows, rows_per_thread = len(leaf), (tuning or in_use()).renewed_rows_per_thread
    fixed = NO_WEIGHT if weight is None else fixed_weights(weight)
    n_parts = max(1, min(n_threads, n_rows // rows_per_thread))
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
    unit = unit_weight(n_rows)

    def part(start: int, stop: int) -> None:
        for number in range(start, stop):
            rows = slice(leaf_ends[number - 1] if number else 0, leaf_ends[number])
            of_leaf = residuals[rows]
            values[number] = percentile(of_leaf, None if weight is None else weights[rows], alpha)
            if logcosh and len(of_leaf) > 0:
                values[number] = towards_minimum_kernel(values[number], of_leaf, weights[rows], unit)

    run_ranges(part, n_leaves, n_threads, max(1, n_leaves * rows_per_thread // max(1, n_rows)))
    return values
