"""Rounding gradients on a GPU: the records of a tree's rows, and what the host must know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hornbeam.backends.gpu.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.workspace import Workspace
from hornbeam.quantize import (
    COARSE_SPREAD,
    NARROW_GRADIENT_BITS,
    NARROW_HESSIAN_BITS,
    WIDE_BITS,
    Quantization,
    is_coarse,
    scale_exponent,
)

REPORT = np.dtype([("largest", np.float64, 3), ("sums", np.int64, 5), ("extremes", np.int32, 4)])
"""What kernels report, report_t of kernels/measure.h."""


@dataclass(frozen=True, slots=True)
class TreeRows:
    """Gradients of the rows of a tree: two buffers, where its output begins, and the number of rows."""

    gradient: Buffer
    hessian: Buffer
    offset: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class Rounded:
    """What came of rounding the gradients of a tree.

    quantization  how
    largest       of the gradients and of the hessians, float64
    gradient      sum of the rounded ones
    hessian       the same
    """

    quantization: Quantization
    largest: tuple[float, float]
    gradient: int
    hessian: int

    @property
    def hessians_count(self) -> bool:
        """Whether every hessian is 1, so that their sums count rows."""
        return self.quantization.hessian_min == self.quantization.hessian_max == 1


def room_to_measure(workspace: Workspace) -> tuple[Buffer, Buffer]:
    """Return room for what is measured of gradients, see kernels/measure.h."""
    return workspace.room("extremes", 24 * workspace.groups), workspace.room("report", REPORT.itemsize)


def round_gradients(
    workspace: Workspace, rows: TreeRows, high_precision: bool, measured: int, meanwhile: Callable[[bool], None]
) -> Rounded:
    """Round into `records even`: in 16 bits, unless these are too coarse or more is asked for.

    measured   groups that have measured these rows already; 0: nobody has
    meanwhile  what to launch before the host waits for the result, given whether its records are wide
    """
    seen = _round(workspace, rows, high_precision, measured, meanwhile)
    wide = high_precision
    if not wide:
        h_sum, abs_sum, nonzero_g, nonzero_h = seen["sums"][1:].tolist()
        low, high = seen["extremes"][:2].tolist()
        coarse = is_coarse(abs_sum, nonzero_g) or 0 < high - low < COARSE_SPREAD
        wide = coarse or (not _is_constant(seen) and is_coarse(h_sum, nonzero_h))
        if wide:
            seen = _round(workspace, rows, wide, 0, meanwhile)
    largest = seen["largest"][:2].tolist()
    bits = (WIDE_BITS, WIDE_BITS) if wide else (NARROW_GRADIENT_BITS, NARROW_HESSIAN_BITS)
    g_exponent, h_exponent = (scale_exponent(*pair) for pair in zip(largest, bits, strict=True))
    hessian_unit = largest[1] if _is_constant(seen) else 2.0**-h_exponent
    quantization = Quantization(2.0**-g_exponent, hessian_unit, wide, *seen["extremes"][2:].tolist())
    return Rounded(quantization, (largest[0], largest[1]), *seen["sums"][:2].tolist())


def _is_constant(seen: np.void) -> bool:
    return bool(seen["largest"][1] > 0.0 and seen["largest"][1] == seen["largest"][2])


def _round(own: Workspace, rows: TreeRows, wide: bool, measured: int, meanwhile: Callable[[bool], None]) -> np.void:
    """Measure and round on the device; returns REPORT ()."""
    runtime = own.runtime
    variant = own.variant("quantize.cl", wide=wide)
    size = (8 if wide else 4) * own.n_rows
    even = own.room("records even", size)
    own.room("records odd", size)
    source = (rows.gradient, rows.hessian, u64(rows.offset), u32(rows.n_rows))
    groups = min(own.groups, max(1, -(-rows.n_rows // variant.threads)))
    extremes, report = room_to_measure(own)

    def launches() -> None:
        if not measured:
            runtime.launch(runtime.kernel("measure_kernel", variant), groups, *source, extremes, report)
        n_extremes = u32(measured or groups)
        runtime.launch(runtime.kernel("round_kernel", variant), groups, *source, extremes, n_extremes, even, report)

    own.repeatable(f"rounding from {rows.offset}", (id(rows.gradient), rows.n_rows, wide, measured), launches)()
    found = np.empty(1, REPORT)
    wait = runtime.download_later(report, found)
    meanwhile(wide)
    wait()
    seen: np.void = found[0]
    return seen
