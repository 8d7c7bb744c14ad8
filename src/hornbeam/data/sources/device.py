"""Reader of arrays on a CUDA device: CuPy's, PyTorch's, anything with DLPack or `__cuda_array_interface__`.

They are read where they are, or copied to the host, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.cuda_errors import cupy_errors
from hornbeam.data.device_arrays import as_cupy, device_of, to_host
from hornbeam.data.levels import CodedColumn, code_numbers
from hornbeam.data.sources.reader import ZERO, TableReader, check_array, write_codes

DEVICE_BLOCK_CELLS = 1 << 26
"""Values that are converted to float64 on a device at a time: 512 MB."""


class DeviceReader(TableReader):
    """Reads an array on a device."""

    device: str

    def __init__(self, array: Any, device: str, name: str) -> None:
        super().__init__(tuple(array.shape), np.dtype(array.dtype), name)
        self.device, self.device_array = device, array

    @classmethod
    def open(cls, data: Any, name: str) -> DeviceReader | None:
        """Read an array on a CUDA device."""
        device = device_of(data, name)
        return None if device is None else cls(check_array(as_cupy(data, name), name), device, name)

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        with self.device_array.device:
            out[...] = to_host(self.device_array[start:stop])

    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        with self.device_array.device:
            chosen = self.device_array[:, first:last]
            return to_host(chosen if rows is None else chosen[_on_device(rows)])

    def _code_column(self, position: int) -> CodedColumn:
        values = self._sample_values(None, position, position + 1)[:, 0]
        return code_numbers(values, self.column_name(position), self.others_in(position))

    def device_blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield (first row, CuPy block of `block_dtype`): one view where the dtype is right.

        Other dtypes are converted on the device, a block of rows at a time, and codes of levels are brought there.
        """
        array = self.device_array
        if array.dtype == self.block_dtype and not self.zero_as_missing and not self._codes:
            yield 0, array
            return
        import cupy

        step = max(1, DEVICE_BLOCK_CELLS // self.n_features)
        for start in range(0, self.n_rows, step):
            with cupy_errors(f"cuda:{array.device.id}", "converting values to floats"), array.device:
                block = array[start : start + step].astype(self.block_dtype)
                if self.zero_as_missing:
                    block[abs(block) <= ZERO] = np.nan
                for position, codes in self._codes.items():
                    column = np.empty(len(block), self.block_dtype)
                    write_codes(codes[start : start + step], column)
                    block[:, position] = _on_device(column)
                cupy.cuda.get_current_stream().synchronize()
            yield start, block

    def to_device(self, result: NDArray[Any]) -> Any:
        """Return a copy of an array on the device of the table, as CuPy's."""
        with self.device_array.device:
            return _on_device(result)


def _on_device(array: NDArray[Any]) -> Any:
    """Return a copy of an array on the current CUDA device."""
    import cupy

    return cupy.asarray(array)
