"""Columns of Arrow as NumPy arrays are those of pyarrow's to_numpy, and come without pandas."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pytest

from hornbeam.data.sources.series_values import series_values

pa = pytest.importorskip("pyarrow")

TYPES = [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()]


def series(native):
    return nw.from_native(native, series_only=True)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("has_nulls", [False, True])
@pytest.mark.parametrize("begin", [0, 3])
def test_values_are_those_of_pyarrow(kind, has_nulls, begin):
    entries = [1, 0, None if has_nulls else 1, 1, 0, 1, 1, 0, 1, 0, None if has_nulls else 0, 1]
    make = bool if kind == pa.bool_() else (lambda entry: entry * 7)
    entries = [None if entry is None else make(entry) for entry in entries]
    whole = pa.array(entries, kind)
    for column in (
        pa.chunked_array([whole[begin:]]),
        pa.chunked_array([whole[begin:5], whole[5:5], whole[5:]]),
        pa.chunked_array([], kind),
    ):
        values, expected = series_values(series(column)), column.to_numpy()
        assert values.dtype == expected.dtype
        np.testing.assert_array_equal(values, expected)


def test_nan_and_infinities_stay_and_nulls_are_nan():
    column = pa.chunked_array([pa.array([np.nan, None, np.inf, -0.0])])
    values = series_values(series(column))
    assert np.isnan(values[:2]).all() and values[2] == np.inf and np.signbit(values[3])


@pytest.mark.parametrize("column", [pa.chunked_array([["a", None, "b"]]), pa.chunked_array([[True, None]])])
def test_other_columns_are_as_narwhals_gives_them(column):
    values = series_values(series(column))
    assert values.dtype == object
    assert values.tolist() == column.to_pylist()
