"""Rounding gradients on a GPU: the records of a tree's rows, and what the host must know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.losses.row_gradients import RowGradients
from hornbeam.backends.gpu.runtime.runtime import Buffer, Variant, u32
from hornbeam.backends.gpu.workspace.tree_kernels import THREADS
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.fixed_point import (
    COARSE_SPREAD,
    NARROW_GRADIENT_BITS,
    NARROW_HESSIAN_BITS,
    WIDE_BITS,
    Quantization,
    is_coarse,
    scale_exponent,
)

REPORT = np.dtype([("largest", np.float64, 3), ("sums", np.int64, 5), ("extremes", np.int32, 4)])
"""What kernels report, report_t of kernels/growth/quantize.cl."""


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

    @classmethod
    def of(cls, seen: np.void, wide: bool) -> Rounded:
        """Return what kernels report, REPORT (), of records of 31 bits or of 16."""
        largest = seen["largest"][:2].tolist()
        bits = (WIDE_BITS, WIDE_BITS) if wide else (NARROW_GRADIENT_BITS, NARROW_HESSIAN_BITS)
        g_exponent, h_exponent = (scale_exponent(*pair) for pair in zip(largest, bits, strict=True))
        hessian_unit = largest[1] if _is_constant(seen) else 2.0**-h_exponent
        quantization = Quantization(2.0**-g_exponent, hessian_unit, wide, *seen["extremes"][2:].tolist())
        return cls(quantization, (largest[0], largest[1]), *seen["sums"][:2].tolist())

    @property
    def hessians_count(self) -> bool:
        """Whether every hessian is 1, so that their sums count rows."""
        return self.quantization.hessian_min == self.quantization.hessian_max == 1


def rounding_variant(workspace: Workspace, wide: bool, options: dict[str, int]) -> Variant:
    """Return the file that rounds gradients with these options (RowGradients.options)."""
    return workspace.variant("quantize.cl", wide=wide, **options)


def rounding_room(workspace: Workspace, wide: bool) -> tuple[Buffer, Buffer, Buffer]:
    """Make room for records, of even and of odd depth; return those of the root, `extremes` and `report`."""
    size = (8 if wide else 4) * workspace.n_rows
    even = workspace.room("records even", size)
    workspace.room("records odd", size)
    return even, workspace.room("extremes", 24 * workspace.groups), workspace.room("report", REPORT.itemsize)


def round_gradients(
    workspace: Workspace, rows: RowGradients, high_precision: bool, meanwhile: Callable[[bool], None]
) -> Rounded:
    """Round into `records even`: in 16 bits, unless these are too coarse or more is asked for.

    meanwhile  what to launch before the host waits for the result, given whether its records are wide
    """
    seen, wide = _round(workspace, rows, high_precision, meanwhile), high_precision
    if not wide and too_coarse(seen):
        seen, wide = _round(workspace, rows, True, meanwhile), True
    return Rounded.of(seen, wide)


def too_coarse(seen: np.void) -> bool:
    """Say whether 16 bits are too few: twin of the rule in fixed_point.round_gradients; seen is REPORT ()."""
    h_sum, abs_sum, nonzero_g, nonzero_h = seen["sums"][1:].tolist()
    low, high = seen["extremes"][:2].tolist()
    coarse = is_coarse(abs_sum, nonzero_g) or 0 < high - low < COARSE_SPREAD
    return coarse or (not _is_constant(seen) and is_coarse(h_sum, nonzero_h))


def _is_constant(seen: np.void) -> bool:
    return bool(seen["largest"][1] > 0.0 and seen["largest"][1] == seen["largest"][2])


def _round(own: Workspace, rows: RowGradients, wide: bool, meanwhile: Callable[[bool], None]) -> np.void:
    """Measure and round on the device; returns REPORT ()."""
    wait = round_later(own, rows, wide)
    meanwhile(wide)
    return wait()


def round_outputs_later(
    own: Workspace, rows: RowGradients, n_outputs: int, wide: bool, kept: Buffer
) -> Callable[[], NDArray[np.void]]:
    """Measure and round all outputs, whose stored gradients begin with `rows`, into `kept` (load_outputs.cl).

    Returns what waits for REPORT (n_outputs,).
    """
    groups = max(1, min(own.groups // n_outputs, -(-rows.n_rows // THREADS)))
    extremes = own.room("extremes", 24 * groups * n_outputs)
    report = own.room("report", REPORT.itemsize * n_outputs)

    def launches() -> None:
        runtime, variant = own.runtime, replace(rounding_variant(own, wide, rows.options), outputs=True)
        measure, round_ = (runtime.kernel(name, variant) for name in ("measure_kernel", "round_kernel"))
        source = (*rows.arguments, u32(rows.n_rows))
        runtime.launch(measure, groups * n_outputs, *source, extremes, report, u32(groups))
        runtime.launch(round_, groups * n_outputs, *source, extremes, u32(groups), kept, report, u32(groups))

    own.repeatable("rounding of all outputs", (wide, n_outputs, rows.key), launches)()
    return _waiting(own, report, n_outputs)


def round_later(own: Workspace, rows: RowGradients, wide: bool, name: str = "report") -> Callable[[], np.void]:
    """Measure and round on the device; returns what waits for REPORT (), from the buffer of this name."""
    runtime = own.runtime
    even, extremes, _ = rounding_room(own, wide)
    report = own.room(name, REPORT.itemsize)

    def launches() -> None:
        variant = rounding_variant(own, wide, rows.options)
        measure, round_ = (runtime.kernel(name, variant) for name in ("measure_kernel", "round_kernel"))
        groups, source = own.groups_over(rows.n_rows, measure), (*rows.arguments, u32(rows.n_rows))
        runtime.launch(measure, groups, *source, extremes, report)
        runtime.launch(round_, groups, *source, extremes, u32(groups), even, report)

    own.repeatable(f"rounding, {name}, output from {rows.arguments[-1]}", (wide, rows.key), launches)()
    wait = _waiting(own, report, 1)
    return lambda: wait()[0]


def _waiting(own: Workspace, report: Buffer, n_reports: int) -> Callable[[], NDArray[np.void]]:
    """Return what waits for REPORT (n_reports,)."""
    found = np.empty(n_reports, REPORT)
    wait = own.runtime.download_later(report, found)

    def waited() -> NDArray[np.void]:
        wait()
        return found

    return waited
