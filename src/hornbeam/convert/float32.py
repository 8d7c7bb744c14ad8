"""Thresholds of libraries that compare float32.

XGBoost rounds every value to float32 and sends it left when it is less than a float32 threshold t. Hornbeam sends a
float64 value left when it is at most a float64 threshold T. With p the float32 number just below t:

    into Hornbeam    round(x) < t  <=>  round(x) <= p  <=>  x <= T, where T is the largest float64 that rounds to p: the
                     middle of p and t if it rounds to p (ties go to the even one of both), else the float64 below it.
                     True for every float64 x.
    out of Hornbeam  x <= T  <=>  x < t, where t is the smallest float32 above T. True for every x that is a float32;
                     another x is rounded first, and may change sides with that.

In and out again gives t back, since p <= T < t.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LARGEST = float(np.finfo(np.float32).max)

BEYOND = 2.0**128
"""Where the next float32 after the largest one would be; what lies nearer to it than to the largest one is infinite."""


def from_float32(threshold: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return T for thresholds t, float64 (n,); t is neither NaN nor -inf, which no value is less than."""
    with np.errstate(over="ignore", under="ignore"):  # -inf is below the most negative number
        below = np.nextafter(threshold, np.float32(-np.inf))
    low = np.where(np.isinf(below), -BEYOND, below.astype(np.float64))
    high = np.where(np.isinf(threshold), BEYOND, threshold.astype(np.float64))
    middle = low / 2.0 + high / 2.0  # exact: both have 24 bits, and float64 has exponents to spare
    is_even = (below.view(np.uint32) & np.uint32(1)) == 0
    return np.where(is_even, middle, np.nextafter(middle, -np.inf))


def to_float32(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return t for thresholds T, float32 (n,); T is not +inf, which every value is at most."""
    with np.errstate(over="ignore", under="ignore"):
        nearest = threshold.astype(np.float32)
        above = np.nextafter(nearest, np.float32(np.inf))
    return np.where(nearest.astype(np.float64) > threshold, nearest, above)
