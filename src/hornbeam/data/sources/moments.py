"""Dates and times as numbers: all of them are seconds, whatever holds them.

    datetime, date   seconds since 1970-01-01 00:00 UTC; without a time zone: as if it were UTC
    duration         seconds
    time of day      seconds since midnight
    missing          NaN

So a day is 86400, and a date is the datetime of its midnight: pandas, which has no dates, gives the same numbers as
polars. Whole seconds and their fraction are converted apart and added, both exact or rounded once. The sum is therefore
the same for every unit that a column may be stored in (seconds, milli-, micro-, nanoseconds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError

if TYPE_CHECKING:
    import narwhals as nw

MOMENT_KINDS = "mM"
"""NumPy dtype kinds: timedelta64 and datetime64."""

NO_MOMENT = np.iinfo(np.int64).min
"""The integer that NumPy stores for NaT."""

_TICKS = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
"""Units finer than a second: how many of them are one."""


def seconds(moments: NDArray[Any], name: str = "data") -> NDArray[np.float64]:
    """Return dates, times and durations as seconds.

    moments  datetime64 or timedelta64 of any unit, any shape  in
    """
    unit, count = np.datetime_data(moments.dtype)
    letter = moments.dtype.kind
    if unit == "generic" or (letter == "m" and unit in ("Y", "M")):
        raise DataError(f"{name} has dtype {moments.dtype}, which is no number of seconds; use a unit such as days")
    if unit in _TICKS:
        ticks = moments if count == 1 else moments.astype(f"{letter}8[{unit}]")
        whole, rest = np.divmod(ticks.astype(np.int64), _TICKS[unit])
        numbers = whole + rest / _TICKS[unit]
    else:
        numbers = moments.astype(f"{letter}8[s]").astype(np.int64).astype(np.float64)
    numbers[np.isnat(moments)] = np.nan
    return numbers


def holds_moments(column: nw.Series[Any]) -> bool:
    """Say whether a column of a frame holds dates, times or durations."""
    import narwhals

    kinds = (narwhals.Datetime, narwhals.Date, narwhals.Duration, getattr(narwhals, "Time", narwhals.Date))
    if column.dtype == narwhals.Unknown and column.implementation.is_pyarrow():
        return str(column.to_native().type).startswith("date64")  # which narwhals does not know
    return column.dtype in kinds


def column_seconds(column: nw.Series[Any]) -> NDArray[np.float64]:
    """Return a column of dates, times or durations as seconds, float64 (n_rows,)."""
    native = column.to_native()
    if column.implementation.is_polars():
        return _polars_seconds(native)
    if column.implementation.is_pyarrow():
        return _arrow_seconds(native)
    if hasattr(native.dtype, "pyarrow_dtype"):  # pandas' columns that are Arrow's
        import pyarrow as pa

        return _arrow_seconds(pa.array(native))
    if getattr(native.dtype, "tz", None) is not None:
        native = native.dt.tz_convert("UTC").dt.tz_localize(None)
    return seconds(native.to_numpy())


def _polars_seconds(native: Any) -> NDArray[np.float64]:
    import polars as pl

    unit = "D" if native.dtype == pl.Date else getattr(native.dtype, "time_unit", "ns")  # a time of day: nanoseconds
    counts = native.to_physical().cast(pl.Int64).fill_null(NO_MOMENT).to_numpy()
    return seconds(counts.astype(f"m8[{unit}]"))


def _arrow_seconds(native: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    is_day, is_milli = pa.types.is_date32(native.type), pa.types.is_date64(native.type)
    unit = "D" if is_day else "ms" if is_milli else native.type.unit
    small = is_day or pa.types.is_time32(native.type)
    counts = native.cast(pa.int32()).cast(pa.int64()) if small else native.cast(pa.int64())
    return seconds(counts.fill_null(NO_MOMENT).to_numpy(zero_copy_only=False).astype(f"m8[{unit}]"))
