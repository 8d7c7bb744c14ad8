"""Scalar twins of `hornbeam.core.numerics` for use inside Numba kernels: the same operations in the same order.

Numba does not contract `a * b + c` to a fused multiply-add unless it is asked to (fastmath), so these give the bits of
the NumPy definitions; the tests compare with `==`. They are small enough to be inlined, and they are written so that a
loop around them vectorises: choices are selects, not branches, and integers are converted through 32 bits, for which
every SIMD instruction set has a conversion (float64 <-> int64 has none before AVX-512).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.backends.cpu.host.kernels import instruction, kernel
from hornbeam.core.numerics import (
    EXP_COEFFICIENTS,
    EXP_LIMIT,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOG_COEFFICIENTS,
    SMALLEST_NORMAL,
    SQRT_HALF,
    TANH_COEFFICIENTS,
    TANH_SMALL,
)
from hornbeam.metrics.classes import SMALLEST_PROBABILITY

# Numba freezes module-level floats into the code, but would load them from a tuple: hence one name a coefficient.
E13, E12, E11, E10, E9, E8, E7, E6, E5, E4, E3, E2, E1, E0 = EXP_COEFFICIENTS
T6, T5, T4, T3, T2, T1, T0 = TANH_COEFFICIENTS
L10, L9, L8, L7, L6, L5, L4, L3, L2, L1, L0 = LOG_COEFFICIENTS

MANTISSA_MASK = 0x000FFFFFFFFFFFFF
HALF_EXPONENT = 0x3FE0000000000000
"""Exponent bits of the numbers in [0.5, 1)."""


@instruction
def float_from_bits(bits: Any) -> Any:
    """Return the float64 whose bit pattern is this int64."""
    raise NotImplementedError


@instruction
def bits_from_float(value: Any) -> Any:
    """Return the bit pattern of this float64 as int64."""
    raise NotImplementedError


@kernel
def exp_(x: float) -> float:
    """Return e**x for x clamped to +-708: the twin of `hornbeam.core.numerics.exp`.

    Order of operations: clamp; k = floor(x * LOG2_E + 0.5); r = (x - k * LN2_HIGH) - k * LN2_LOW; Horner from the
    highest coefficient; times 2**k.
    """
    x = -EXP_LIMIT if x < -EXP_LIMIT else x
    x = EXP_LIMIT if x > EXP_LIMIT else x
    k = np.floor(x * LOG2_E + 0.5)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = E13 * r + E12
    p = p * r + E11
    p = p * r + E10
    p = p * r + E9
    p = p * r + E8
    p = p * r + E7
    p = p * r + E6
    p = p * r + E5
    p = p * r + E4
    p = p * r + E3
    p = p * r + E2
    p = p * r + E1
    p = p * r + E0
    power: float = float_from_bits((np.int64(np.int32(k)) + 1023) << 52)
    return p * power


@kernel
def log_(x: float) -> float:
    """Return the natural logarithm of x >= 0: the twin of `hornbeam.core.numerics.log`.

    Order of operations: raise x to the smallest normal number; split into m in [sqrt(1/2), sqrt(2)) and 2**k;
    s = (m - 1) / (m + 1); z = s * s; Horner in z from the highest coefficient;
    k * LN2_HIGH + (k * LN2_LOW + (2 * s) * p).
    """
    x = SMALLEST_NORMAL if x < SMALLEST_NORMAL else x
    bits = bits_from_float(x)
    k = np.float64(np.int32(bits >> 52) - np.int32(1022))
    m = float_from_bits((bits & MANTISSA_MASK) | HALF_EXPONENT)
    low = m < SQRT_HALF
    m = m + m if low else m
    k = k - 1.0 if low else k
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = L10 * z + L9
    p = p * z + L8
    p = p * z + L7
    p = p * z + L6
    p = p * z + L5
    p = p * z + L4
    p = p * z + L3
    p = p * z + L2
    p = p * z + L1
    p = p * z + L0
    result: float = k * LN2_HIGH + (k * LN2_LOW + 2.0 * s * p)
    return result


@kernel
def sigmoid_(x: float) -> float:
    """Return 1 / (1 + exp(-x)): the twin of `hornbeam.core.numerics.sigmoid`."""
    return 1.0 / (1.0 + exp_(-x))


@kernel
def softplus_(x: float) -> float:
    """Return log(1 + exp(x)): the twin of `hornbeam.core.numerics.softplus`."""
    e = exp_(-abs(x))
    u = 1.0 + e
    d = u - 1.0
    part = e if d == 0.0 else log_(u) * (e / (1.0 if d == 0.0 else d))
    return (x if x > 0.0 else 0.0) + part


@kernel
def log2_(x: float) -> float:
    """Return the logarithm of x >= 0 to the base 2: the twin of `hornbeam.core.numerics.log2`."""
    return log_(x) * LOG2_E


@kernel
def tanh_ratio_(x: float) -> float:
    """Return tanh(x) / x: the twin of `hornbeam.core.numerics.tanh_ratio`."""
    size = abs(x)
    z = size * size
    p = T6 * z + T5
    p = p * z + T4
    p = p * z + T3
    p = p * z + T2
    p = p * z + T1
    p = p * z + T0
    t = TANH_SMALL if size < TANH_SMALL else size
    ratio: float = (1.0 - 2.0 / (exp_(t + t) + 1.0)) / t
    return p if size < TANH_SMALL else ratio


@kernel
def log_loss_(q: float) -> float:
    """Return -log(q), where q is clipped to 1e-15 <= q <= 1; NaN stays NaN."""
    clipped = SMALLEST_PROBABILITY if q < SMALLEST_PROBABILITY else q
    clipped = 1.0 if clipped > 1.0 else clipped
    loss = -log_(clipped)
    return loss if q == q else q
