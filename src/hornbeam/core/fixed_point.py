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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


Gather = Callable[[NDArray[Any]], NDArray[Any]]
"""What brings together the figures of all workers that have rows: (n,) -> (n_workers, n), the same on every worker."""


def alone(figures: NDArray[Any]) -> NDArray[Any]:
    """Return the figures of one worker that has all rows, (1, n)."""
    return figures[None]


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

    @property
    def units(self) -> tuple[float, float]:
        """Those of gradients and hessians."""
        return self.gradient_unit, self.hessian_unit

    @property
    def n_sums(self) -> int:
        """Sums of a bin that tell its gradient, hessian and rows: where every hessian is 1 theirs counts rows."""
        return 2 if self.hessian_min == self.hessian_max == 1 else 3


def exponent_above(value: float) -> int:
    """Return the smallest x with value < 2**x (for value > 0)."""
    return math.frexp(value)[1]


def scale_exponent(largest: float, bits: int) -> int:
    """Return e such that largest * 2**e < 2**bits; 0 for all-zero data, and never so large that 2**e overflows."""
    if largest == 0.0:
        return 0
    return min(bits - exponent_above(largest), 1000)


def exact_bits(n_rows: int) -> int:
    """Return how many bits n_rows values may have to add up below 2**62.

    At most 52 bits a value, so that rint(value * 2**e) is exact in float64.
    """
    return min(52, EXACT_BITS - int(n_rows).bit_length())


def exact_exponent(largest: float, n_rows: int) -> int:
    """Return the scale exponent with which n_rows values of at most `largest` add up below 2**62."""
    return scale_exponent(largest, exact_bits(n_rows))


def exact_sum(values: NDArray[np.float64], gather: Gather = alone) -> float:
    """Sum floats so that the result does not depend on their order.

    values  float64 (n,)  in  finite
    gather  what brings together the figures of the workers that the values are spread over
    """
    largest = gather(np.array([np.max(np.abs(values), initial=0.0), len(values)]))
    n_values = int(largest[:, 1].sum())
    if n_values == 0:
        return 0.0
    exponent = exact_exponent(float(largest[:, 0].max()), n_values)
    sums = gather(np.rint(values * 2.0**exponent).astype(np.int64).sum(keepdims=True))
    return float(int(sums.sum())) * 2.0**-exponent


def round_gradients(
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    high_precision: bool = False,
    gather: Gather = alone,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Quantization]:
    """Round gradients and hessians to fixed point: the definition that every backend follows.

    gradient  float64 (n_rows,)  in
    hessian   float64 (n_rows,)  in  >= 0
    gather    what brings together the figures of the workers that the rows are spread over

    Returns the integers and how they were rounded. A positive hessian never rounds to zero. When every hessian is the
    same it becomes 1, so its sums count rows.
    """
    seen = gather(
        np.array([np.max(np.abs(gradient), initial=0.0), np.max(hessian, initial=0.0), np.min(hessian, initial=np.inf)])
    )
    largest_gradient, largest_hessian = float(seen[:, 0].max()), float(seen[:, 1].max())
    constant = largest_hessian > 0.0 and float(seen[:, 2].min()) == largest_hessian

    def rounded(wide: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], Quantization, bool]:
        """Return integers, how they were rounded, and whether too few bits were kept."""
        bits = (WIDE_BITS, WIDE_BITS) if wide else (NARROW_GRADIENT_BITS, NARROW_HESSIAN_BITS)
        limits = (WIDE_LIMIT, WIDE_LIMIT) if wide else (NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT)
        exponent, h_exponent = scale_exponent(largest_gradient, bits[0]), scale_exponent(largest_hessian, bits[1])
        g = np.clip(np.rint(gradient * 2.0**exponent), -limits[0], limits[0]).astype(np.int64)
        if constant:
            h = np.ones(len(hessian), np.int64)
        else:
            h = np.clip(np.rint(hessian * 2.0**h_exponent), hessian > 0.0, limits[1]).astype(np.int64)
        seen = gather(
            np.array(
                [
                    g.max(initial=-limits[0]), -g.min(initial=limits[0]), h.max(initial=0), -h.min(initial=limits[1]),
                    np.abs(g).sum(), np.count_nonzero(gradient), h.sum(), np.count_nonzero(hessian),
                ],
                np.int64,
            )
        )  # fmt: skip
        high_g, minus_low_g, high, minus_low = seen[:, :4].max(axis=0).tolist()
        of_gradient, n_gradients, of_hessian, n_hessians = seen[:, 4:].sum(axis=0).tolist()
        coarse = is_coarse(of_gradient, n_gradients) or 0 < high_g + minus_low_g < COARSE_SPREAD
        if constant:
            return g, h, Quantization(2.0**-exponent, largest_hessian, wide, 1, 1), coarse
        coarse |= is_coarse(of_hessian, n_hessians)
        return g, h, Quantization(2.0**-exponent, 2.0**-h_exponent, wide, -minus_low, high), coarse

    g, h, how, coarse = rounded(wide=high_precision)
    if coarse and not high_precision:
        g, h, how, _ = rounded(wide=True)
    return g, h, how


def is_coarse(total: int, n_nonzero: int) -> bool:
    """Say whether n_nonzero values that round to this sum of magnitudes kept too few bits."""
    return total < COARSE_MEAN * n_nonzero
