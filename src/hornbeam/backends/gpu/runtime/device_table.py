"""Tables of raw values in device memory, as kernels read them: any strides, float32 or float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant, u64

THREADS = 256

GROUPS_A_UNIT = 8
"""Groups for each compute unit: 2,048 threads, as many as one can hold."""


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """Values of n_rows x n_features: row i and feature j at element i * row_stride + j * column_stride.

    buffer   memory of the runtime, or a CuPy array of somebody else: kernels take both
    dtype    float32 or float64
    """

    buffer: Buffer
    dtype: np.dtype[Any]
    n_rows: int
    n_features: int
    row_stride: int
    column_stride: int

    @classmethod
    def upload(cls, runtime: Runtime, block: NDArray[Any], buffer: Buffer | None = None) -> DeviceTable:
        """Copy a block to the device, into `buffer` where one is given.

        block   float32 or float64 (n_rows, n_features)   in   C order
        """
        if buffer is None:
            buffer = runtime.allocate(block.nbytes)
        runtime.upload(buffer, block)
        return cls(buffer, block.dtype, len(block), block.shape[1], block.shape[1], 1)

    @classmethod
    def of_cupy(cls, array: Any) -> DeviceTable:
        """Wrap a CuPy array (n_rows, n_features) of float32 or float64, without a copy where strides are whole."""
        import cupy

        size = array.dtype.itemsize
        if any(stride % size for stride in array.strides):
            with array.device:
                array = cupy.ascontiguousarray(array)
                cupy.cuda.get_current_stream().synchronize()
        (n_rows, n_features), (row_stride, column_stride) = array.shape, (stride // size for stride in array.strides)
        return cls(array, np.dtype(array.dtype), n_rows, n_features, row_stride, column_stride)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What kernels take: values, row_stride, column_stride, n_rows."""
        return self.buffer, np.int64(self.row_stride), np.int64(self.column_stride), u64(self.n_rows)


def launch_over(n: int, runtime: Runtime, source: str, name: str, *arguments: Any, **options: int) -> None:
    """Launch a kernel whose threads stride over n items; `options` are fields of its Variant."""
    threads = min(THREADS, 1 << (runtime.facts.max_threads.bit_length() - 1))
    kernel = runtime.kernel(name, Variant(source, threads, **options))  # type: ignore[arg-type]
    groups = min(runtime.facts.compute_units * GROUPS_A_UNIT, max(1, -(-n // threads)))
    runtime.launch(kernel, groups, *arguments)
