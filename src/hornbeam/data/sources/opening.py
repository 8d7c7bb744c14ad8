"""Which reader suits a table: each kind is asked in turn."""

from __future__ import annotations

from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.data.sources.arrow import ArrowReader
from hornbeam.data.sources.dense import DenseReader
from hornbeam.data.sources.device import DeviceReader
from hornbeam.data.sources.frame import FrameReader, few_numbers
from hornbeam.data.sources.loading import load_table
from hornbeam.data.sources.objects import ObjectReader
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.sources.series_tables import is_series
from hornbeam.data.sources.sparse import SparseReader
from hornbeam.data.sources.wanted_columns import Wanted

READERS: tuple[type[TableReader], ...] = (
    DeviceReader, SparseReader, ObjectReader, ArrowReader, FrameReader, DenseReader,
)  # fmt: skip
"""In the order in which they are asked; the last one takes what it can, and says what is wrong with the rest."""


def open_table(data: Any, name: str = "data", wanted: Wanted | None = None) -> TableReader:
    """Return a reader of a table.

    Parameters
    ----------
    data
        2-D NumPy array of floats, integers or booleans, or of objects: numbers, and strings in columns that are given
        levels; list of lists of numbers; pandas, polars or pyarrow table with numeric and boolean columns, whose nulls
        are read as NaN, columns of dates and times, read as seconds (moments.py), and columns of strings and
        categories, which need levels (`with_levels`) to be read; array on a CUDA device; sparse matrix or array of
        SciPy, or pandas table of sparse columns; or a reader. It is not copied, but for sparse matrices in another form
        than CSR. Or what such a table is read from: files, streams, lazy frames, tensors (loading.py).
    name
        What error messages call the table.
    wanted
        Which columns are wanted of what is read; None: all.
    """
    if isinstance(data, TableReader):
        return data
    data = load_table(data, name, wanted)
    if is_series(data):
        raise DataError(f"{name} is a Series; pass a table: df[['a']] for a column of df, df.iloc[[0]] for a row")
    for kind in READERS:
        reader = kind.open(data, name)
        if reader is not None:
            return reader
    raise AssertionError("the last kind takes everything or raises")


def open_numbers(data: Any, name: str = "data", wanted: Wanted | None = None) -> TableReader:
    """Return a reader of a table for a model of numbers alone, which small frames are read for at once."""
    return few_numbers(data) or open_table(data, name, wanted)
