"""Bounds of bins on the CPU: twin of bin_bounds.find_upper_bounds, for tables of thousands of features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, inlined, kernel


@inlined
def first_at_least(values, wanted):
    """Return the first place of an ascending array whose value is at least `wanted`; its length if there is none."""
    low, high = np.int64(0), np.int64(len(values))
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def ends_of_distinct(cumulative, min_data_in_bin, ends):
    """Twin of bin_bounds._ends_of_distinct; ends int64 (>= n_distinct,) out, returns how many."""
    n_ends, below = 0, np.int64(0)
    for end in range(len(cumulative) - 1):
        if cumulative[end] - below >= min_data_in_bin:
            ends[n_ends] = end
            n_ends += 1
            below = cumulative[end]
    return n_ends


@kernel
def ends_of_shared(cumulative, max_bin, min_data_in_bin, ends):
    """Twin of bin_bounds._ends_of_shared; ends int64 (>= max_bin,) out, returns how many."""
    n_distinct = len(cumulative)
    total = cumulative[n_distinct - 1]
    max_bin = max(np.int64(1), min(max_bin, total // min_data_in_bin))
    light_bins, light_rows, before = max_bin, total, np.int64(0)
    for i in range(n_distinct):
        count = cumulative[i] - before
        before = cumulative[i]
        if count * max_bin >= total:
            light_bins -= 1
            light_rows -= count
    n_ends, start, below, next_heavy = 0, np.int64(0), np.int64(0), np.int64(-1)
    while n_ends < max_bin - 1:
        if next_heavy < start:
            next_heavy = start
            while next_heavy < n_distinct:
                before = cumulative[next_heavy - 1] if next_heavy > 0 else np.int64(0)
                if (cumulative[next_heavy] - before) * max_bin >= total:
                    break
                next_heavy += 1
        if start == next_heavy:
            end = start
        else:
            mean = light_rows / light_bins if light_bins > 0 else np.float64(total)
            end = first_at_least(cumulative, below + max(np.int64(1), np.int64(math.ceil(mean))))
            if end >= next_heavy:
                light = cumulative[next_heavy - 1] - below
                end = next_heavy - 1 if light_bins > 0 and 2 * light >= mean else next_heavy
        if end >= n_distinct - 1:
            break
        ends[n_ends] = end
        n_ends += 1
        rows = cumulative[end] - below
        if end == next_heavy:
            rows -= cumulative[end] - (cumulative[end - 1] if end > 0 else np.int64(0))
        else:
            light_bins -= 1
        light_rows -= rows
        start, below = end + 1, cumulative[end]
    return n_ends


@allocating_kernel
def bounds_kernel(ordered, n_zeros, max_bin, min_data_in_bin):
    """Return the upper bounds of the bins of one feature, float64.

    ordered  float32 or float64 (n,)  in   ascending, NaN last
    """
    n = len(ordered)
    while n > 0 and ordered[n - 1] != ordered[n - 1]:
        n -= 1
    if n + n_zeros == 0:
        return np.empty(0)
    distinct, cumulative = np.empty(n + 1), np.empty(n + 1, np.int64)
    n_distinct, zeros_left = 0, np.int64(n_zeros)
    for i in range(n):
        if i + 1 < n and ordered[i + 1] == ordered[i]:
            continue
        value = np.float64(ordered[i])
        if zeros_left > 0 and value >= 0.0:
            if value > 0.0:
                distinct[n_distinct] = 0.0
                cumulative[n_distinct] = (cumulative[n_distinct - 1] if n_distinct > 0 else 0) + zeros_left
                n_distinct += 1
            zeros_left = np.int64(0)
        distinct[n_distinct] = value
        cumulative[n_distinct] = i + 1 + n_zeros - zeros_left
        n_distinct += 1
    if zeros_left > 0:
        distinct[n_distinct] = 0.0
        cumulative[n_distinct] = n + n_zeros
        n_distinct += 1
    ends = np.empty(n_distinct, np.int64)
    if n_distinct <= max_bin:
        n_ends = ends_of_distinct(cumulative[:n_distinct], min_data_in_bin, ends)
    else:
        n_ends = ends_of_shared(cumulative[:n_distinct], max_bin, min_data_in_bin, ends)
    bounds = np.empty(n_ends + 1)
    for i in range(n_ends):
        low, high = distinct[ends[i]], distinct[ends[i] + 1]
        middle = low / 2.0 + high / 2.0
        bounds[i] = (middle if low <= middle < high else low) + 0.0
    bounds[n_ends] = np.inf
    return bounds


def find_upper_bounds(
    values: NDArray[Any], max_bin: int, min_data_in_bin: int, n_zeros: int = 0
) -> NDArray[np.float64]:
    """See bin_bounds.find_upper_bounds."""
    bounds: NDArray[np.float64] = bounds_kernel(np.sort(values), n_zeros, max_bin, min_data_in_bin)
    return bounds
