"""Gauss-Legendre quadrature on [0, 1]: points and weights to the last bit, and how many a product of chances takes.

A rule of n points integrates polynomials of degree 2 n - 1 without error. Points and weights come from Newton's method
in integers of more than twice the digits of float64 and are rounded once, so that they are the same on every platform.

The integrands of explanations (trees/shapley/plan.py) are products of m - 1 factors (1 - t) z + t o with z in [0, 1]
and o in {0, 1}, m being the number of features on a path. So (m + 1) // 2 points are exact. Long paths need fewer: on
the ellipse around [0, 1] whose half-axes add up to rho / 2, no factor is larger than

    A = (sqrt(rho) + 1 / sqrt(rho))**2 / 4,

and the error of n points is at most (32 / 15) A**(m - 1) rho**(-2 n) / (1 - rho**-2), for any rho > 1 (Trefethen,
Approximation Theory and Approximation Practice, theorem 19.3). `points_needed` takes the smaller of the two numbers,
with the error below 2**-60 of the largest leaf.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

FRACTION_BITS = 160
"""Bits after the point in the integers of Newton's method."""

STEPS = 3
"""Newton's steps in integers: 1e-10 becomes 1e-20, 1e-40 and 1e-80, and 160 bits are 1e-48."""

SMALLEST_ERROR = 2.0**-60


@cache
def gauss_legendre(n_points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points and weights on [0, 1], float64 (n_points,) each, points ascending; do not write to them."""
    one = 1 << FRACTION_BITS
    points, weights = np.empty(n_points), np.empty(n_points)
    for place, guess in enumerate(_rough_roots(n_points)):
        x = round(guess * 2.0**60) << (FRACTION_BITS - 60)
        for _ in range(STEPS):
            value, slope = _legendre(n_points, x)
            x -= (value << FRACTION_BITS) // slope
        _, slope = _legendre(n_points, x)
        gap = one - (x * x >> FRACTION_BITS)
        points[place] = (one + x) / (2 * one)  # a quotient of integers is rounded once
        weights[place] = (one << FRACTION_BITS) / (gap * (slope * slope >> FRACTION_BITS))
    points.setflags(write=False)
    weights.setflags(write=False)
    return points, weights


def _rough_roots(n_points: int) -> list[float]:
    """Return the roots of the Legendre polynomial on [-1, 1], ascending, to some 10 digits."""
    places = np.arange(n_points, 0, -1)
    x = np.cos(np.pi * (places - 0.25) / (n_points + 0.5))
    for _ in range(4):
        before, value = np.ones(n_points), x
        for k in range(2, n_points + 1):
            before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
        x = x - value * (x * x - 1.0) / (n_points * (x * value - before))
    return [float(root) for root in x]


def _legendre(n: int, x: int) -> tuple[int, int]:
    """Return the Legendre polynomial of degree n and its derivative at x, in fixed point."""
    before, value = 1 << FRACTION_BITS, x
    for k in range(2, n + 1):
        before, value = value, ((2 * k - 1) * (x * value >> FRACTION_BITS) - (k - 1) * before) // k
    gap = (x * x >> FRACTION_BITS) - (1 << FRACTION_BITS)
    return value, (n * ((x * value >> FRACTION_BITS) - before) << FRACTION_BITS) // gap


@cache
def points_needed(n_features: int) -> int:
    """Return the points with which a path of so many different features is integrated to rounding; an even number.

    Even, since points are taken two at a time.
    """
    exact = max(2, (n_features + 1) // 2)
    enough = next((n for n in range(2, exact) if error_bound(n_features, n) < SMALLEST_ERROR), exact)
    return enough + enough % 2


def error_bound(n_features: int, n_points: int) -> float:
    """Return what the integral of a path's chances is off by at most, before rounding."""
    if n_features <= 2 * n_points:
        return 0.0

    def bound(rho: float) -> float:
        size = (n_features - 1) * 2.0 * math.log((math.sqrt(rho) + 1.0 / math.sqrt(rho)) / 2.0)
        return math.log(32.0 / 15.0) + size - 2.0 * n_points * math.log(rho) - math.log1p(-1.0 / (rho * rho))

    smallest = min(bound(1.0 + 1.1**step) for step in range(-80, 40))
    return math.exp(min(smallest, 700.0))
