"""Rounding gradients to fixed point on the CPU: twin of fixed_point.round_gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import RowStore
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts
from hornbeam.backends.cpu.losses.numerics import bits_from_float, float_from_bits
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.fixed_point import (
    COARSE_MEAN,
    COARSE_SPREAD,
    NARROW_GRADIENT_BITS,
    NARROW_GRADIENT_LIMIT,
    NARROW_HESSIAN_BITS,
    NARROW_HESSIAN_LIMIT,
    WIDE_BITS,
    WIDE_LIMIT,
    Gather,
    Quantization,
    is_coarse,
    scale_exponent,
)
from hornbeam.trees.records import Root


class Scale(NamedTuple):
    """How gradients and hessians become integers.

    gradient, hessian              factors
    gradient_limit, hessian_limit  largest integers
    constant                       all hessians are alike: 1 each
    """

    gradient: float
    hessian: float
    gradient_limit: int
    hessian_limit: int
    constant: bool


class Seen(NamedTuple):
    """What rounding has seen of some rows: sums, how many are not zero, and bounds, of gradients and hessians."""

    gradient: int
    hessian: int
    magnitudes: int
    n_gradients: int
    n_hessians: int
    least_gradient: int
    most_gradient: int
    least_hessian: int
    most_hessian: int


@inner_kernel
def measure_rows(gradient, hessian, first, last):
    """Return the largest |gradient|, the largest and the smallest hessian of the rows first:last."""
    largest_g, largest_h, smallest_h = 0.0, 0.0, np.inf
    for row in range(first, last):
        largest_g = max(largest_g, abs(gradient[row]))
        largest_h = max(largest_h, hessian[row])
        smallest_h = min(smallest_h, hessian[row])
    return largest_g, largest_h, smallest_h


@inner_kernel
def round_rows(gradient, hessian, scale, first, last, records, wide):
    """Write the records of the rows first:last; returns what is Seen. Arrays as in round_kernel."""
    is_wide, g_limit, h_limit = len(wide) > 0, np.int64(scale.gradient_limit), np.int64(scale.hessian_limit)
    sum_g, sum_h, sum_abs = np.int64(0), np.int64(0), np.int64(0)
    nonzero_g, nonzero_h = np.int64(0), np.int64(0)
    min_g, max_g, min_h, max_h = g_limit, -g_limit, h_limit, np.int64(0)
    for row in range(first, last):
        scaled = np.rint(gradient[row] * scale.gradient)
        g = np.int64(min(max(scaled, np.float64(-g_limit)), np.float64(g_limit)))
        h = np.int64(1)
        if not scale.constant:
            smallest = 1.0 if hessian[row] > 0.0 else 0.0
            h = np.int64(min(max(np.rint(hessian[row] * scale.hessian), smallest), np.float64(h_limit)))
        sum_g += g
        sum_h += h
        sum_abs += abs(g)
        nonzero_g += gradient[row] != 0.0
        nonzero_h += hessian[row] != 0.0
        min_g, max_g = min(min_g, g), max(max_g, g)
        min_h, max_h = min(min_h, h), max(max_h, h)
        if is_wide:
            records[row] = np.uint64(row)
            wide[row] = np.uint64(g & 0xFFFFFFFF) | (np.uint64(h) << np.uint64(32))
        else:
            upper = (np.uint64(g & 0xFFFF) << np.uint64(32)) | (np.uint64(h) << np.uint64(48))
            records[row] = np.uint64(row) | upper
    return Seen(sum_g, sum_h, sum_abs, nonzero_g, nonzero_h, min_g, max_g, min_h, max_h)


@kernel
def measure_kernel(t, crew, gradient, hessian, cuts, out):
    """Write the largest |gradient|, the largest and the smallest hessian of some parts of the rows (team.run_parts).

    gradient, hessian  float64 (n_rows,)        in
    cuts               int64 (n_parts + 1,)     in
    out                float64 (n_parts, 3)     out
    """
    call_helpers(t, crew, (gradient, hessian, cuts, out))
    for part in range(t, len(out), crew.size):
        out[part, 0], out[part, 1], out[part, 2] = measure_rows(gradient, hessian, cuts[part], cuts[part + 1])


@kernel
def round_kernel(t, crew, gradient, hessian, scale, cuts, records, wide, out):
    """Write the records of some parts of the rows (team.run_parts), and what the coarseness rule looks at.

    records  uint64 (n_rows,)         out
    wide     uint64 (n_rows,)         out   or empty: records are narrow
    out      int64 (n_parts, 9)       out   see Seen
    """
    call_helpers(t, crew, (gradient, hessian, scale, cuts, records, wide, out))
    for part in range(t, len(out), crew.size):
        seen = round_rows(gradient, hessian, scale, cuts[part], cuts[part + 1], records, wide)
        own = out[part]
        own[0], own[1], own[2], own[3], own[4], own[5], own[6], own[7], own[8] = seen


@inlined
def power_of_two(exponent):
    """Return 2.0**exponent, for -1022 <= exponent <= 1023."""
    return float_from_bits((np.int64(exponent) + 1023) << 52)


@inner_kernel
def scale_exponent_(largest, bits):
    """Twin of fixed_point.scale_exponent for finite numbers and 15 bits or more; a subnormal one has 1000."""
    if largest == 0.0:
        return np.int64(0)
    exponent = (bits_from_float(largest) >> 52) - 1022
    return min(np.int64(bits) - exponent, np.int64(1000))


@inner_kernel
def is_coarse_(seen, constant):
    """Say whether narrow records kept too few bits: twin of the rule in fixed_point.round_gradients."""
    return (
        seen.magnitudes < COARSE_MEAN * seen.n_gradients
        or 0 < seen.most_gradient - seen.least_gradient < COARSE_SPREAD
        or (not constant and seen.hessian < COARSE_MEAN * seen.n_hessians)
    )


@dataclass(frozen=True, slots=True)
class Rounded:
    """Result of rounding one output's gradients: how, the sums of the rows here, and the largest float values.

    sum_of_magnitudes  sum of the |gradients| in fixed point: no sum of some rows is larger
    """

    quantization: Quantization
    root: Root
    largest_gradient: float
    largest_hessian: float
    sum_of_magnitudes: int


def of_all_workers(seen: NDArray[np.int64], gather: Gather) -> NDArray[np.int64]:
    """Return what every worker has seen, int64 (n_workers, 9), from what is Seen here; no worker needs the gradients.

    What travels has the order of fixed_point.round_gradients: a worker without rows follows that.
    """
    _, of_hessian, *of_gradient, n_hessians = seen[:, :5].sum(axis=0).tolist()
    least_g, least_h = seen[:, [5, 7]].min(axis=0).tolist()
    most_g, most_h = seen[:, [6, 8]].max(axis=0).tolist()
    figures = gather(np.array([most_g, -least_g, most_h, -least_h, *of_gradient, of_hessian, n_hessians], np.int64))
    every = np.zeros((len(figures), 9), np.int64)
    every[:, [6, 5, 8, 7, 2, 3, 1, 4]] = figures * [1, -1, 1, -1, 1, 1, 1, 1]
    return every


def quantize(
    store: RowStore,
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    high_precision: bool,
    n_threads: int,
    tuning: Tuning,
    gather: Gather | None = None,
) -> Rounded:
    """Round the gradients of all rows into the records at depth 0; see fixed_point.round_gradients.

    gather  what brings together the figures of the workers that the rows are spread over; None: all are here
    """
    n_rows = len(gradient)
    n_parts = max(1, min(n_threads, n_rows // tuning.rounded_rows_per_thread))
    cuts = np.arange(n_parts + 1) * n_rows // n_parts
    measured = np.empty((n_parts, 3))
    run_parts(measure_kernel, n_parts, gradient, hessian, cuts, measured)
    if gather is not None:
        measured = gather(np.append(measured[:, :2].max(axis=0), measured[:, 2].min()))
    largest_of_parts, most_of_parts, least_of_parts = measured.T.tolist()  # plain numbers: small data feel every call
    largest_g, largest_h = max(largest_of_parts), max(most_of_parts)
    constant = largest_h > 0.0 and min(least_of_parts) == largest_h

    root: list[list[int]] = []

    def rounded(wide: bool) -> tuple[list[int], Quantization]:
        bits = (WIDE_BITS, WIDE_BITS) if wide else (NARROW_GRADIENT_BITS, NARROW_HESSIAN_BITS)
        limits = (WIDE_LIMIT, WIDE_LIMIT) if wide else (NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT)
        g_exponent, h_exponent = scale_exponent(largest_g, bits[0]), scale_exponent(largest_h, bits[1])
        store.set_width(wide)
        seen, scale = np.empty((n_parts, 9), np.int64), Scale(2.0**g_exponent, 2.0**h_exponent, *limits, constant)
        run_parts(round_kernel, n_parts, gradient, hessian, scale, cuts, store.even, store.wide_even, seen)
        root.append(seen[:, :2].sum(axis=0).tolist())
        if gather is not None:
            seen = of_all_workers(seen, gather)
        parts = seen.T.tolist()
        h_unit = largest_h if constant else 2.0**-h_exponent
        how = Quantization(2.0**-g_exponent, h_unit, wide, min(parts[7]), max(parts[8]))
        return [*map(sum, parts[:5]), min(parts[5]), max(parts[6])], how

    seen, how = rounded(wide=high_precision)
    if not high_precision:
        coarse = is_coarse(seen[2], seen[3]) or 0 < seen[6] - seen[5] < COARSE_SPREAD
        coarse = coarse or (not constant and is_coarse(seen[1], seen[4]))
        if coarse:
            seen, how = rounded(wide=True)
    return Rounded(how, Root(n_rows, *root[-1]), largest_g, largest_h, seen[2])
