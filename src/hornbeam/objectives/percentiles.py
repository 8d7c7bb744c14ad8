"""Percentiles by one rule, for starting points and leaf values of losses such as the absolute error.

Sort the values; C is the running sum of their weights (fixed-point integers; 1 each where there are no weights) and T
the total. Then

    low     = the first value with C >= alpha * T
    high    = the first value with C > alpha * T
    result  = low + (high - low) * 0.5

This minimises the pinball loss, is the usual median for alpha = 0.5, and equals the result of repeated rows where
weights are whole numbers. Integer sums have no order, and equal values are equal wherever the sort puts them, so
neither the order of the rows nor the sorting algorithm can be seen. (LightGBM interpolates between neighbours by
position, and in another way with weights; the difference is at most one neighbour.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import exact_exponent

FloatArray = NDArray[np.float64]


def fixed_weights(weight: FloatArray) -> NDArray[np.int64]:
    """Return weights as integers whose total stays below 2**62; the scale cancels out of percentiles.

    weight  float64 (n_rows,)  in  >= 0
    """
    exponent = exact_exponent(float(weight.max(initial=0.0)), len(weight))
    return np.rint(weight * 2.0**exponent).astype(np.int64)


def places(total: int, alpha: float) -> tuple[int, int]:
    """Return the places of `low` and `high` among `total` sorted values without weights."""
    threshold = alpha * float(total)
    return max(0, int(np.ceil(threshold)) - 1), min(int(np.floor(threshold)), total - 1)


def between(low: float, high: float) -> float:
    """Return the percentile between its two neighbours; + 0.0 makes -0.0, which equals 0.0, one number."""
    return low + (high - low) * 0.5 + 0.0


def percentile(values: FloatArray, weight: NDArray[np.int64] | None, alpha: float) -> float:
    """Return a percentile; 0 if there are no values, or no weight.

    values  float64 (n,)  in  in any order
    weight  int64 (n,)    in  from `fixed_weights`, or None
    alpha   0 < alpha < 1
    """
    if len(values) == 0:
        return 0.0
    if weight is None:
        low, high = places(len(values), alpha)
        found = np.partition(values, (low, high))
        return between(float(found[low]), float(found[high]))
    order = np.argsort(values)
    running = np.cumsum(weight[order]).astype(np.float64)
    if running[-1] == 0.0:
        return 0.0
    threshold = alpha * running[-1]
    low, high = (int(np.searchsorted(running, threshold, side)) for side in ("left", "right"))
    return between(float(values[order[low]]), float(values[order[min(high, len(values) - 1)]]))


def weighted_percentile(values: FloatArray, weight: FloatArray | None, alpha: float) -> float:
    """Return a percentile of labels.

    values  float64 (n_rows,)  in
    weight  float64 (n_rows,)  in  or None
    """
    return percentile(values, None if weight is None else fixed_weights(weight), alpha)


def leaf_percentiles(
    residuals: FloatArray, weight: FloatArray | None, leaf: NDArray[np.int64], n_leaves: int, alpha: float
) -> FloatArray:
    """Return the percentile of each leaf's residuals, float64 (n_leaves,): the definition of `Engine.renew_leaves`.

    residuals  float64 (n_rows,)  in  label - score
    weight     float64 (n_rows,)  in  or None
    leaf       int64 (n_rows,)    in
    """
    fixed = None if weight is None else fixed_weights(weight)
    rows_of = [leaf == number for number in range(n_leaves)]
    return np.array([percentile(residuals[rows], None if fixed is None else fixed[rows], alpha) for rows in rows_of])
