"""Rounding the gradients of one worker's rows by the scale of all workers' rows: twin of fixed_point.round_gradients.

Between the two kernels of kernels/growth/quantize.cl the host asks the other workers: the largest values come down,
24 bytes a group of threads, and those of all workers go up. What 16 or 31 bits are chosen by is exchanged after that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.losses.quantize import REPORT, Rounded, rounding_room, rounding_variant, too_coarse
from hornbeam.backends.gpu.losses.row_gradients import RowGradients
from hornbeam.backends.gpu.runtime.runtime import u32
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.fixed_point import Gather

NO_ROWS = np.array([((0.0, 0.0, np.inf), (0,) * 5, (2**31 - 1, 1 - 2**31, 2**31 - 1, 0))], REPORT)
"""What kernels report of no rows."""


def round_together(own: Workspace, rows: RowGradients, high_precision: bool, gather: Gather) -> Rounded:
    """Round into `records even` while all workers do the same.

    Returns how, which is the same on all workers, and the sums of the rows that are here.
    """
    largest, wide = _measure(own, rows, high_precision, gather), high_precision
    seen, of_all = _round(own, rows, wide, largest, gather)
    if not wide and too_coarse(of_all):
        wide = True
        seen, of_all = _round(own, rows, wide, largest, gather)
    gradient, hessian = seen["sums"][:2].tolist()
    return replace(Rounded.of(of_all, wide), gradient=gradient, hessian=hessian)


def _measure(own: Workspace, rows: RowGradients, wide: bool, gather: Gather) -> NDArray[np.float64]:
    """Return the largest |gradient|, the largest and the smallest hessian of all workers' rows, float64 (3,)."""
    _, extremes, report = rounding_room(own, wide)
    kernel = own.runtime.kernel("measure_kernel", rounding_variant(own, wide, rows.options))
    groups = own.groups_over(rows.n_rows, kernel)
    own.runtime.launch(kernel, groups, *rows.arguments, u32(rows.n_rows), extremes, report)
    of_groups = np.empty((groups, 3))
    own.runtime.download(extremes, of_groups)
    every = gather(np.append(of_groups[:, :2].max(axis=0), of_groups[:, 2].min()))
    return np.append(every[:, :2].max(axis=0), every[:, 2].min())


def _round(
    own: Workspace, rows: RowGradients, wide: bool, largest: NDArray[np.float64], gather: Gather
) -> tuple[np.void, np.void]:
    """Round by the largest values; returns what was seen here, and by all workers, each REPORT ()."""
    even, _, _ = rounding_room(own, wide)
    kernel = own.runtime.kernel("round_kernel", rounding_variant(own, wide, rows.options))
    extremes, report = own.upload("extremes", largest), own.upload("report", NO_ROWS)
    own.launch_over(rows.n_rows, kernel, *rows.arguments, u32(rows.n_rows), extremes, u32(1), even, report)
    found = np.empty(1, REPORT)
    own.runtime.download(report, found)
    return found[0], _of_all_workers(found[0], gather)


def _of_all_workers(seen: np.void, gather: Gather) -> np.void:
    """Return the report of all workers' rows from that of the rows here; sums of gradients no worker needs.

    What travels has the order of fixed_point.round_gradients: a worker without rows follows that.
    """
    least_g, most_g, least_h, most_h = seen["extremes"].tolist()
    _, of_hessian, of_gradient, n_gradients, n_hessians = seen["sums"].tolist()
    mine = [most_g, -least_g, most_h, -least_h, of_gradient, n_gradients, of_hessian, n_hessians]
    every = gather(np.array(mine, np.int64))
    high_g, minus_low_g, high_h, minus_low_h = every[:, :4].max(axis=0).tolist()
    of_gradient, n_gradients, of_hessian, n_hessians = every[:, 4:].sum(axis=0).tolist()
    of_all = np.empty(1, REPORT)
    of_all["largest"] = seen["largest"]
    of_all["sums"] = 0, of_hessian, of_gradient, n_gradients, n_hessians
    of_all["extremes"] = -minus_low_g, high_g, -minus_low_h, high_h
    found: np.void = of_all[0]
    return found
