"""Fixed point: the one place where floats become integers.

A sum of integers has no order, so threads, devices, chunks and workers may add in any order and still agree bit for
bit. Scales are powers of two, so going back to float64 is exact up to 2**53. Nothing here overflows:

    histogram sums    |q| <= 2**30 (wide) over fewer than 2**32 rows           < 2**62
    exact sums        |q| < 2**(62 - bits of n) over n rows                    < 2**62
    packed counters   see backends/cpu/growth/, which states its own bound

Gradients and hessians get 16 bits each (`NARROW`). Where a few huge values set the scale and the typical value would
keep fewer than 6 bits, or where all gradients share an offset much larger than their spread, the whole tree uses 31
bits (`WIDE`) instead; the rule looks at integers alone, so every device takes the same decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NARROW_GRADIENT_BITS = 15
NARROW_GRADIENT_LIMIT = 2**15 - 1
NARROW_HESSIAN_BITS = 16
NARROW_HESSIAN_LIMIT = 2**16 - 1
WIDE_BITS = 30
WIDE_LIMIT = 2**30

COARSE_MEAN = 64
"""A narrow tree is redone wide when the mean non-zero |gradient| or hessian is below this many steps."""

COARSE_SPREAD = 4096
"""A narrow tree is redone wide when largest and smallest gradient differ, but by less than this many steps."""

MAX_ROWS = 2**32 - 1
assert WIDE_LIMIT * (MAX_ROWS + 1) <= 2**62

EXACT_BITS = 62
"""Exact sums stay below 2**62, whatever the number of rows."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the gradients of one tree were rounded.

    A histogram sum s stands for s * unit. `hessian_min` and `hessian_max` bound the fixed-point hessian of a row, so
    they bound the number of rows behind a hessian sum.
    """

    gradient_unit: float
    hessian_unit: float
    wide: bool
    hessian_min: int
    hessian_max: int


def exponent_above(value: float) -> int:
    """Return the smallest x with value < 2**x (for value > 0)."""
    return math.frexp(value)[1]


def scale_exponent(largest: float, bits: int) -> int:
    """Return e such that largest * 2**e < 2**bits; 0 for all-zero data, and never so large that 2**e overflows."""
    if largest == 0.0:
        return 0
    return min(bits - exponent_above(largest), 1000)


def exact_exponent(largest: float, n_rows: int) -> int:
    """Return the scale exponent with which n_rows values of at most `largest` add up below 2**62.

    At most 52 bits a value, so that rint(value * 2**e) is exact in float64.
    """
    return scale_exponent(largest, min(52, EXACT_BITS - int(n_rows).bit_length()))


def exact_sum(values: NDArray[np.float64]) -> float:
    """Sum floats so that the result does not depend on their order.

    values  float64 (n,)  in  finite
    """
    if len(values) == 0:
        return 0.0
    exponent = exact_exponent(float(np.max(np.abs(values))), len(values))
    return float(int(np.rint(values * 2.0**exponent).astype(np.int64).sum())) * 2.0**-exponent


def round_gradients(
    gradient: NDArray[np.float64], hessian: NDArray[np.float64], high_precision: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64], Quantization]:
    """Round gradients and hessians to fixed point: the definition that every backend follows.

    gradient  float64 (n_rows,)  in
    hessian   float64 (n_rows,)  in  >= 0

    Returns the integers and how they were rounded. A positive hessian never rounds to zero. When every hessian is the
    same it becomes 1, so its sums count rows.
    """
    largest_gradient = float(np.max(np.abs(gradient), initial=0.0))
    largest_hessian = float(np.max(hessian, initial=0.0))
    constant = largest_hessian > 0.0 and float(np.min(hessian, initial=np.inf)) == largest_hessian

    def rounded(wide: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], Quantization]:
        bits = (WIDE_BITS, WIDE_BITS) if wide else (NARROW_GRADIENT_BITS, NARROW_HESSIAN_BITS)
        limits = (WIDE_LIMIT, WIDE_LIMIT) if wide else (NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT)
        exponent = scale_exponent(largest_gradient, bits[0])
        g = np.clip(np.rint(gradient * 2.0**exponent), -limits[0], limits[0]).astype(np.int64)
        if constant:
            h = np.ones(len(hessian), np.int64)
            return g, h, Quantization(2.0**-exponent, largest_hessian, wide, 1, 1)
        h_exponent = scale_exponent(largest_hessian, bits[1])
        h = np.clip(np.rint(hessian * 2.0**h_exponent), hessian > 0.0, limits[1]).astype(np.int64)
        low, high = int(h.min(initial=limits[1])), int(h.max(initial=0))
        return g, h, Quantization(2.0**-exponent, 2.0**-h_exponent, wide, low, high)

    if high_precision:
        return rounded(wide=True)
    g, h, how = rounded(wide=False)
    coarse = is_coarse(int(np.abs(g).sum()), int(np.count_nonzero(gradient)))
    coarse |= 0 < int(g.max()) - int(g.min()) < COARSE_SPREAD
    coarse |= not constant and is_coarse(int(h.sum()), int(np.count_nonzero(hessian)))
    return rounded(wide=True) if coarse else (g, h, how)


def is_coarse(total: int, n_nonzero: int) -> bool:
    """Say whether n_nonzero values that round to this sum of magnitudes kept too few bits."""
    return total < COARSE_MEAN * n_nonzero
