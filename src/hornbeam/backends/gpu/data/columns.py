"""Columns that the user has on the device (data/columns.py): looked at, copied and added up there.

Only a few bytes of each group of threads come to the host; see kernels/data/columns.cl.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime import devices
from hornbeam.backends.gpu.runtime.device_table import THREADS, launch_over
from hornbeam.backends.gpu.runtime.order import values_of_keys
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant, u32, u64
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.data.columns import Column, DeviceColumn, Facts

TYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
"""Types of columns by number, as in kernels/data/columns.cl; truth values are bytes."""

LABEL, OF_CLASS, ROWS_OF_CLASS, POSITIVE_ROWS, ALL_ROWS = range(5)
"""`which` of add_up_kernel."""


def arguments_of(column: DeviceColumn) -> tuple[Any, ...]:
    """Return what kernels take of a column: COLUMN of kernels/data/columns.cl."""
    array, dtype = column.array, np.dtype(column.array.dtype)
    name = "u1" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"
    strides = [stride // dtype.itemsize for stride in array.strides]
    outer = 0 if column.ndim == 1 else strides[0]
    length = max(1, column.shape[-1])
    return array, u32(TYPES.index(name)), np.int64(outer), np.int64(strides[-1]), u64(length)


def facts_of(column: DeviceColumn) -> Facts:
    """Look at all numbers of a column."""
    seen = _reports(column, "look_at_column_kernel", 6, *arguments_of(column))
    not_finite, not_whole, n_nonzero, n_positive = (int(seen[:, i].sum()) for i in range(4))
    keys = np.array([seen[:, 4].min(), seen[:, 5].max()])
    ends = np.zeros(2) if not_finite == column.size else values_of_keys(keys)
    return Facts(column.size, not_finite == 0, not_whole == 0, n_nonzero, n_positive, float(ends[0]), float(ends[1]))


def copy_column(runtime: Runtime, column: DeviceColumn, out: Buffer, start: Buffer | None = None) -> None:
    """Copy a column to memory of the runtime.

    out    float64 or uint8 (size,)   out   as the column's value_bytes say
    start  float64 (n_outputs,)       in    is added to the numbers of each output; None: nothing is
    """
    given = (out if start is None else start, u32(start is not None), u32(column.value_bytes), out)
    launch_over(
        column.size, runtime, "columns.cl", "copy_column_kernel", *arguments_of(column), u64(column.size), *given
    )


class DeviceSums:
    """Exact sums of labels and weights, as objectives/label_sums.py defines them.

    Parameters
    ----------
    label, weight
        Columns of one device; weights may be None.
    """

    def __init__(self, label: DeviceColumn, weight: DeviceColumn | None) -> None:
        self._label, self._weight = label, weight
        self.n_rows = len(label)
        self._total: float | None = float(self.n_rows) if weight is None else None  # None: not known yet

    def mean(self) -> float:
        """Return the (weighted) mean label."""
        return self._sum(LABEL) / self.total_weight()

    def mean_of_class(self, number: int) -> float:
        """Return the (weighted) mean of what is 1 where the label is this class, and 0 elsewhere."""
        return self._sum(OF_CLASS, number) / self.total_weight()

    def share_of_class(self, number: int) -> float:
        """Return the rows of a class, or their weights, by those of all rows."""
        return self._sum(ROWS_OF_CLASS, number) / self.total_weight()

    def total_weight(self) -> float:
        """Return the sum of the weights, or the number of rows."""
        if self._total is None:
            self._total = self._sum(ALL_ROWS)
        return self._total

    def fixed_weights(self, scale: float) -> tuple[int, int]:
        """Return the weights of the positive rows and of the others, each rint(weight * scale), added up."""
        (_, _, positive), (_, _, both) = (self._add_up(which, 0, scale) for which in (POSITIVE_ROWS, ALL_ROWS))
        return positive, both - positive

    def _sum(self, which: int, number: int = 0) -> float:
        largest, count, _ = self._add_up(which, number, 0.0)
        if count == 0:
            return 0.0
        exponent = exact_exponent(largest, count)
        return float(self._add_up(which, number, 2.0**exponent)[2]) * 2.0**-exponent

    def _add_up(self, which: int, number: int, scale: float) -> tuple[float, int, int]:
        """Return the largest size, how many numbers there are, and their sum in fixed point."""
        label, weight = self._label, self._weight
        given = (*arguments_of(label), *arguments_of(label if weight is None else weight))
        how = (u32(weight is not None), u32(which), np.float64(number), np.float64(scale))
        seen = _reports(label, "add_up_kernel", 3, *given, *how)
        largest = float(seen[:, 0].max(keepdims=True).view(np.float64)[0])
        return largest, int(seen[:, 1].sum()), int(seen[:, 2].view(np.int64).sum())


def sums_on_device(label: Column | None, weight: Column | None) -> DeviceSums | None:
    """Return sums of labels and weights that are on one device; None: the host has to add them up."""
    if not isinstance(label, DeviceColumn) or isinstance(weight, np.ndarray):
        return None
    return DeviceSums(label, weight) if weight is None or weight.device == label.device else None


def _reports(column: DeviceColumn, name: str, n_fields: int, *arguments: Any) -> NDArray[np.uint64]:
    """Launch a kernel over a column; returns what every group wrote, uint64 (n_groups, n_fields)."""
    runtime = devices.open_runtime(column.device)
    facts = runtime.facts
    threads = min(THREADS, 1 << (facts.max_threads.bit_length() - 1))
    kernel = runtime.kernel(name, Variant("columns.cl", threads))
    groups = min(8 * facts.compute_units, max(1, -(-column.size // threads)))
    seen = np.empty((groups, n_fields), np.uint64)
    out = runtime.allocate(seen.nbytes)
    try:
        runtime.launch(kernel, groups, *arguments, u64(column.size), out)
        runtime.download(out, seen)
    finally:
        runtime.free(out)
    return seen
