"""Dense tables in host memory: NumPy arrays of real numbers or dates, in any order and strides, and lists of lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.levels import CodedColumn, code_numbers
from hornbeam.data.masked_arrays import is_masked
from hornbeam.data.sources.moments import MOMENT_KINDS, seconds
from hornbeam.data.sources.reader import TableReader, check_array


class DenseReader(TableReader):
    """Reads a two-dimensional array, which is not copied."""

    def __init__(self, array: NDArray[Any], name: str = "data", names: list[str] | None = None) -> None:
        super().__init__(array.shape, array.dtype, name, names)
        self._array = array

    @classmethod
    def open(cls, data: Any, name: str) -> DenseReader:
        """Read whatever NumPy makes an array of; this is the last kind that is tried."""
        if is_masked(data):
            raise DataError(f"{name} is a masked array, whose mask would be lost; pass .filled(numpy.nan)")
        if data is None or isinstance(data, (str, bytes, dict, set)):
            shown = "None" if data is None else f"a {type(data).__name__}"
            raise DataError(f"{name} is {shown}; pass a 2-D array, a frame, or the path of a file")
        try:
            array = np.asarray(data)
        except ValueError as error:
            raise DataError(f"{name} cannot be read as a table ({error}); all rows must have the same length") from None
        if array.dtype.kind in MOMENT_KINDS:
            array = seconds(array, name)
        return cls(check_array(array, name), name)

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        out[...] = self._array[start:stop]

    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        part = self._array[:, first:last]
        return part if rows is None else part[rows]

    def _code_column(self, position: int) -> CodedColumn:
        return code_numbers(self._array[:, position], self.column_name(position), self.others_in(position))

    def _view(self, start: int, stop: int) -> NDArray[Any] | None:
        view = self._array[start:stop]
        # kernels are compiled for such arrays alone: another one would need another specialisation
        return view if view.dtype == self.block_dtype and view.flags.carray else None
