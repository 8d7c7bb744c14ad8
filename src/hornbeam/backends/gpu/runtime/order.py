"""Floats as integers in the same order: twins of kernels/shared/order.h."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def order_keys(values: NDArray[Any]) -> NDArray[Any]:
    """Return the keys of float32 or float64 values without NaN, as unsigned integers of the same size."""
    bits = (values + values.dtype.type(0.0)).view(np.dtype(f"u{values.itemsize}"))  # -0.0 becomes 0.0
    sign = bits.dtype.type(1 << (8 * values.itemsize - 1))
    keys: NDArray[Any] = np.where(bits & sign != 0, ~bits, bits | sign)
    return keys


def values_of_keys(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the float64 values that have these keys."""
    sign = np.uint64(1 << 63)
    return np.where(keys & sign != 0, keys ^ sign, ~keys).view(np.float64)
