"""The functions of linear leaves as kernels take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import joined_kernel
from hornbeam.trees.linear_leaves import LARGEST, LinearLeaves

ONE = np.uint64(1)
"""Loops over rows count in uint64: a signed index would cost a test for negative numbers at every access."""


class Functions(NamedTuple):
    """Functions of some leaves: see LinearLeaves.

    start           int64 (n_leaves + 1,)
    feature, coeff  int32, float64 (n,)
    const, value    float64 (n_leaves,): of rows whose numbers are of use, and of the others
    low, high       float64 (n_leaves,): bounds of the former
    """

    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    coeff: NDArray[np.float64]
    const: NDArray[np.float64]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, linear: LinearLeaves, leaf_value: NDArray[np.float64]) -> Functions:
        """Take those of a tree."""
        return cls(linear.start, linear.feature, linear.coeff, linear.const, leaf_value, linear.low, linear.high)


@joined_kernel
def value_of(start, feature, coeff, const, value, low, high, own, values, row):
    """Return the value of a row in the leaf `own`: twin of LinearLeaves.outputs.

    start .. high  those of Functions: taken out of it once, since each time would count it as in use
    values         float32 or float64 (n_rows, n_features)  in
    """
    made, is_used = const[own], True
    for k in range(np.uint64(start[own]), np.uint64(start[own + ONE])):
        x = np.float64(values[row, np.uint64(feature[k])])
        is_used &= abs(x) <= LARGEST
        made = made + coeff[k] * x
    made = low[own] if made < low[own] else made
    made = high[own] if made > high[own] else made
    return made if is_used else value[own]
