"""Leaf values that minimise the sum of w * log(cosh(residual - value)) over the rows of a leaf.

They start at the median (percentiles.py), where a few rows far away count no more than near ones, and go on by steps

    S    = sum of w * tanh(value - residual),  H = sum of w * (1 - tanh(value - residual)**2)
    step = log(1 + 2 |S| / H) / 2, down where S > 0 and up where S < 0

which is a Newton step, |S| / H, where that is small. H grows by no more than exp(2 t) over a way of length t, since the
third derivative of log(cosh) is never more than twice the second one; so S cannot change its sign within such a step:
every one leads towards the minimum, none past it, and the last ones converge quadratically. A handful suffices.

Sums are of integers (`fixed_weights`, times tanh, rounded), so that neither the order of the rows nor the device can be
seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.objectives.percentiles import fixed_weights, leaf_percentiles

FloatArray = NDArray[np.float64]

MOST_STEPS = 16
"""Where the loss is all but flat, between two heaps of rows of the same weight, it does not matter where steps end."""

LAST_STEP = 2.0**-20
"""After a step of at most this length the rest is about its square."""

FARTHEST = 32.0
"""Distances beyond are taken as this one: tanh is 1 there, to the last bit."""


def unit_weight(n_rows: int) -> float:
    """Return the weight in fixed point of every one of n_rows rows without weights."""
    return float(2.0 ** exact_exponent(1.0, n_rows))


def slope_and_curvature(value: float, residuals: FloatArray, weight: FloatArray | float) -> tuple[int, int]:
    """Return S and H, in the unit of the weights.

    residuals  float64 (n,)  in
    weight     float64 (n,)  in  whole numbers, or one for all
    """
    d = np.minimum(np.maximum(value - residuals, -FARTHEST), FARTHEST)
    t = d * numerics.tanh_ratio(d)
    slopes, curvatures = np.rint(t * weight), np.rint((1.0 - t * t) * weight)
    return int(slopes.astype(np.int64).sum()), int(curvatures.astype(np.int64).sum())


def towards_minimum(value: float, residuals: FloatArray, weight: FloatArray | float) -> float:
    """Return where the steps lead from a value; arguments as in `slope_and_curvature`."""
    for _ in range(MOST_STEPS):
        slope, curvature = slope_and_curvature(value, residuals, weight)
        if slope == 0 or curvature == 0:
            break
        ratio = (2.0 * abs(float(slope))) / float(curvature)
        step = 0.5 * float(numerics.log(np.array(1.0 + ratio)))
        value = value - step if slope > 0 else value + step
        if step <= LAST_STEP:
            break
    return value


def leaf_minima(residuals: FloatArray, weight: FloatArray | None, leaf: NDArray[np.int64], n_leaves: int) -> FloatArray:
    """Return the value of each leaf, float64 (n_leaves,); 0 for a leaf without rows, or without weight.

    residuals  float64 (n_rows,)  in  label - score
    weight     float64 (n_rows,)  in  or None
    leaf       int64 (n_rows,)    in
    """
    values = leaf_percentiles(residuals, weight, leaf, n_leaves, 0.5)
    fixed = np.full(len(leaf), unit_weight(len(leaf))) if weight is None else fixed_weights(weight).astype(np.float64)
    for number in range(n_leaves):
        rows = leaf == number
        values[number] = towards_minimum(float(values[number]), residuals[rows], fixed[rows])
    return values
