"""Rounding gradients to fixed point on the CPU: twin of quantize.round_gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows import RowStore
from hornbeam.backends.cpu.host.team import call_helpers, inner_kernel, run_parts
from hornbeam.core.fixed_point import (
    COARSE_SPREAD,
    NARROW_GRADIENT_BITS,
    NARROW_GRADIENT_LIMIT,
    NARROW_HESSIAN_BITS,
    NARROW_HESSIAN_LIMIT,
    WIDE_BITS,
    WIDE_LIMIT,
    Quantization,
    is_coarse,
    scale_exponent,
)
from hornbeam.trees.records import Root

ROWS_PER_THREAD = 8192


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def measure_kernel(t, crew, gradient, hessian, cuts, out):  # type: ignore[no-untyped-def]
    """Write the largest |gradient|, the largest and the smallest hessian of some parts of the rows (team.run_parts).

    gradient, hessian  float64 (n_rows,)        in
    cuts               int64 (n_parts + 1,)     in
    out                float64 (n_parts, 3)     out
    """
    call_helpers(t, crew, (gradient, hessian, cuts, out))
    for part in range(t, len(out), crew[0]):
        largest_g, largest_h, smallest_h = 0.0, 0.0, np.inf
        for row in range(cuts[part], cuts[part + 1]):
            largest_g = max(largest_g, abs(gradient[row]))
            largest_h = max(largest_h, hessian[row])
            smallest_h = min(smallest_h, hessian[row])
        out[part, 0], out[part, 1], out[part, 2] = largest_g, largest_h, smallest_h


@inner_kernel  # type: ignore[untyped-decorator]
def round_rows(gradient, hessian, g_scale, h_scale, g_limit, h_limit, constant, start, stop, records, out):  # type: ignore[no-untyped-def]
    """Write the records of the rows start:stop (rows.py) and what the coarseness rule looks at.

    records  uint64 (n_rows, 1 or 2)  out
    out      int64 (9,)  out  sums of g, h, |g|; non-zero g, h; smallest and largest g; smallest and largest h
    """
    wide = records.shape[1] == 2
    sum_g, sum_h, sum_abs = np.int64(0), np.int64(0), np.int64(0)
    nonzero_g, nonzero_h = np.int64(0), np.int64(0)
    min_g, max_g, min_h, max_h = g_limit, -g_limit, h_limit, np.int64(0)
    for row in range(start, stop):
        g = np.int64(min(max(np.rint(gradient[row] * g_scale), np.float64(-g_limit)), np.float64(g_limit)))
        h = np.int64(1)
        if not constant:
            smallest = 1.0 if hessian[row] > 0.0 else 0.0
            h = np.int64(min(max(np.rint(hessian[row] * h_scale), smallest), np.float64(h_limit)))
        sum_g += g
        sum_h += h
        sum_abs += abs(g)
        nonzero_g += gradient[row] != 0.0
        nonzero_h += hessian[row] != 0.0
        min_g, max_g = min(min_g, g), max(max_g, g)
        min_h, max_h = min(min_h, h), max(max_h, h)
        if wide:
            records[row, 0] = np.uint64(row)
            records[row, 1] = np.uint64(g & 0xFFFFFFFF) | (np.uint64(h) << np.uint64(32))
        else:
            records[row, 0] = (
                np.uint64(row) | (np.uint64(g & 0xFFFF) << np.uint64(32)) | (np.uint64(h) << np.uint64(48))
            )
    out[0], out[1], out[2], out[3], out[4] = sum_g, sum_h, sum_abs, nonzero_g, nonzero_h
    out[5], out[6], out[7], out[8] = min_g, max_g, min_h, max_h


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def round_kernel(t, crew, gradient, hessian, g_scale, h_scale, g_limit, h_limit, constant, cuts, records, out):  # type: ignore[no-untyped-def]
    """Do round_rows for some parts of the rows, out (n_parts, 9); see measure_kernel."""
    call_helpers(t, crew, (gradient, hessian, g_scale, h_scale, g_limit, h_limit, constant, cuts, records, out))
    for part in range(t, len(out), crew[0]):
        round_rows(
            gradient, hessian, g_scale, h_scale, g_limit, h_limit, constant, cuts[part], cuts[part + 1], records,
            out[part],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rounded:
    """Result of rounding one output's gradients: how, the root's sums, and the largest float values.

    sum_of_magnitudes  sum of the |gradients| in fixed point: no sum of some rows is larger
    """

    quantization: Quantization
    root: Root
    largest_gradient: float
    largest_hessian: float
    sum_of_magnitudes: int


def quantize(
    store: RowStore,
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    high_precision: bool,
    n_threads: int,
) -> Rounded:
    """Round the gradients of all rows into the records at depth 0; see quantize.round_gradients."""
    n_rows = len(gradient)
    n_parts = max(1, min(n_threads, n_rows // ROWS_PER_THREAD))
    cuts = np.arange(n_parts + 1) * n_rows // n_parts
    measured = np.empty((n_parts, 3))
    run_parts(measure_kernel, n_parts, gradient, hessian, cuts, measured)
    largest_of_parts, most_of_parts, least_of_parts = measured.T.tolist()  # plain numbers: small data feel every call
    largest_g, largest_h = max(largest_of_parts), max(most_of_parts)
    constant = largest_h > 0.0 and min(least_of_parts) == largest_h

    def rounded(wide: bool) -> tuple[list[int], Quantization]:
        bits = (WIDE_BITS, WIDE_BITS) if wide else (NARROW_GRADIENT_BITS, NARROW_HESSIAN_BITS)
        limits = (WIDE_LIMIT, WIDE_LIMIT) if wide else (NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT)
        g_exponent, h_exponent = scale_exponent(largest_g, bits[0]), scale_exponent(largest_h, bits[1])
        store.set_width(wide)
        seen = np.empty((n_parts, 9), np.int64)
        run_parts(
            round_kernel, n_parts,
            gradient, hessian, 2.0**g_exponent, 2.0**h_exponent, *limits, constant, cuts, store.even, seen,
        )  # fmt: skip
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
    return Rounded(how, Root(n_rows, seen[0], seen[1]), largest_g, largest_h, seen[2])
