"""Columns of frames as NumPy arrays.

`to_numpy` of pyarrow imports pandas wherever it is installed, and so does `to_pandas_dtype` of some versions, which
takes longer than training on a small file. Numbers are read here from where Arrow keeps them: a buffer of values, and
one of bits that say which of them are there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import narwhals as nw


def series_values(column: nw.Series[Any]) -> NDArray[Any]:
    """Return what `column.to_numpy()` returns: nulls among numbers are NaN; it may be read-only."""
    pyarrow = sys.modules.get("pyarrow")
    native = column.to_native()
    is_arrow = pyarrow is not None and isinstance(native, pyarrow.ChunkedArray)
    return arrow_values(native) if is_arrow else column.to_numpy()


def arrow_values(column: Any) -> NDArray[Any]:
    """Return what `to_numpy()` of a pyarrow ChunkedArray returns; it may be read-only."""
    if not holds_numbers(column):
        return column.to_numpy()  # type: ignore[no-any-return]
    parts = [_values(chunk) for chunk in column.chunks]
    if not parts:
        return np.empty(0, _dtype(column.type))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def holds_numbers(column: Any) -> bool:
    """Say whether a pyarrow column is of numbers, or of booleans without nulls, which NumPy has no value for."""
    types, kind = sys.modules["pyarrow"].types, column.type
    is_flag = types.is_boolean(kind) and column.null_count == 0
    return bool(types.is_integer(kind) or types.is_floating(kind) or is_flag)


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return NumPy's type of a pyarrow type of numbers, whose name is the same but for the floating ones."""
    return np.dtype({"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(kind), str(kind)))


def _values(chunk: Any) -> NDArray[Any]:
    """Return the numbers of a pyarrow Array."""
    present, content = chunk.buffers()
    dtype, begin, end = _dtype(chunk.type), chunk.offset, chunk.offset + len(chunk)
    if len(chunk) == 0:
        return np.empty(0, dtype)
    if dtype == np.bool_:
        return _bits(content, begin, end)
    values = np.frombuffer(content, dtype, end)[begin:]
    if chunk.null_count == 0:
        return values
    whole = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    return np.where(_bits(present, begin, end), values, whole.type(np.nan)).astype(whole, copy=False)


def _bits(buffer: Any, begin: int, end: int) -> NDArray[np.bool_]:
    """Return some bits of a buffer, lowest first in each byte."""
    packed = np.frombuffer(buffer, np.uint8, (end + 7) // 8)
    return np.unpackbits(packed, count=end, bitorder="little")[begin:].astype(np.bool_)
