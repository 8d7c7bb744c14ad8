"""What a stream is read from: every kind of source as tables, one after the other, as often as they are asked for.

files        paths, patterns and folders of Parquet, Arrow and CSV files      pyarrow Tables
datasets     of pyarrow                                                       pyarrow Tables
Arrow        whatever has `__arrow_c_stream__`, but a reader that is used up  pyarrow Tables
functions    that return something to iterate over                            whatever they yield
tables       in memory, or mapped from a file as `numpy.load(..., mmap_mode="r")` does; lists of tables
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.data.sources.delimited import layout_of, read_delimited_blocks
from hornbeam.data.sources.files import check_pyarrow, errors_of_file, files_of, format_of, holds_files, without_index
from hornbeam.data.sources.frame import as_frame

READ_BUFFER = 1 << 20
"""Bytes of a column of a Parquet file that are read at a time."""


class Source(ABC):
    """Something that gives the same batches whenever it is asked."""

    def names(self) -> list[str] | None:
        """Return the names of the columns, where they are known before anything is read and some may be chosen."""
        return None

    @abstractmethod
    def batches(self, columns: Sequence[str] | None, n_rows: int) -> Iterator[Any]:
        """Yield tables.

        columns  names of those to read, in order; None: all
        n_rows   of a batch at most, where the source leaves that open
        """


class FileSource(Source):
    """Files of one format, one after the other."""

    def __init__(self, paths: Sequence[Any], header: bool | None) -> None:
        self._files = [file for path in paths for file in files_of(str(path))]
        self._header = header
        formats = {format_of(file) for file in self._files}
        if len(formats) > 1:
            raise DataError(
                f"the stream has files of several formats ({', '.join(sorted(formats))}); pass those of one"
            )
        self._kind = formats.pop()
        if self._kind == "libsvm":
            raise DataError("LibSVM files are sparse and cannot be read as a stream; pass the path to Dataset itself")
        check_pyarrow(self._files[0])

    def names(self) -> list[str] | None:
        """Return the names of the first file's columns."""
        with errors_of_file(self._files[0], self._kind):
            return self._names(self._files[0])

    def _names(self, file: str) -> list[str]:
        if self._kind == "csv":
            return layout_of(file, file, self._header).names
        if self._kind == "parquet":
            from pyarrow import parquet

            return without_index(parquet.read_schema(file), file)
        with _open_arrow(file) as (schema, _):
            return without_index(schema, file)

    def batches(self, columns: Sequence[str] | None, n_rows: int) -> Iterator[Any]:
        """Yield the rows of all files."""
        import pyarrow as pa

        for file in self._files:
            with errors_of_file(file, self._kind):
                names = self._names(file) if file != self._files[0] or columns is None else list(columns)
                wanted = names if columns is None else list(columns)
                if missing := [column for column in wanted if column not in names]:
                    raise DataError(f"{file!r} has no column {missing[0]!r}; files of one stream have the same columns")
                for batch in self._read(file, wanted, n_rows):
                    yield from _cut(pa.Table.from_batches([batch]).select(wanted), n_rows)

    def _read(self, file: str, columns: list[str], n_rows: int) -> Iterator[Any]:
        if self._kind == "csv":
            yield from read_delimited_blocks(file, file, self._header, columns)
        elif self._kind == "parquet":
            from pyarrow import parquet

            # reading ahead would keep every row group that was read until the file is closed
            with parquet.ParquetFile(file, buffer_size=READ_BUFFER, pre_buffer=False) as opened:
                yield from opened.iter_batches(n_rows, columns=columns)
        else:
            with _open_arrow(file) as (_, batches):
                yield from batches


class _open_arrow:  # noqa: N801  (a context manager)
    """Opens an Arrow file or stream: gives its schema and its record batches."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        self._content = pa.memory_map(path)

    def __enter__(self) -> tuple[Any, Iterator[Any]]:
        import pyarrow as pa

        try:
            file = pa.ipc.open_file(self._content)
            return file.schema, (file.get_batch(place) for place in range(file.num_record_batches))
        except pa.ArrowInvalid:
            self._content.seek(0)
            stream = pa.ipc.open_stream(self._content)
            return stream.schema, iter(stream)

    def __exit__(self, *failure: object) -> None:
        self._content.close()


class ArrowSource(Source):
    """A dataset of pyarrow, or an object that makes an Arrow stream whenever it is asked."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def names(self) -> list[str] | None:
        """Return the names of a dataset's columns."""
        return list(self._data.schema.names) if _is_dataset(self._data) else None

    def batches(self, columns: Sequence[str] | None, n_rows: int) -> Iterator[Any]:
        """Yield the rows."""
        import pyarrow as pa

        with errors_of_file(type(self._data).__name__, "arrow"):
            if _is_dataset(self._data):
                scanner = self._data.scanner(
                    columns=None if columns is None else list(columns), batch_size=n_rows, batch_readahead=1,
                    fragment_readahead=1, **_without_read_ahead(self._data),
                )  # fmt: skip
                batches = scanner.to_batches()
            else:
                batches = pa.RecordBatchReader.from_stream(self._data)
            for batch in batches:
                yield from _cut(pa.Table.from_batches([batch]), n_rows)


class FunctionSource(Source):
    """A function that begins anew whenever it is called."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def batches(self, columns: Sequence[str] | None, n_rows: int) -> Iterator[Any]:
        """Yield what the function yields."""
        made = self._function()
        try:
            iterator = iter(made)
        except TypeError:
            raise DataError(
                f"the function of the stream returned {type(made).__name__}, which is no batches; let it yield tables"
            ) from None
        yield from iterator


class TableSource(Source):
    """Tables that are there already."""

    def __init__(self, tables: Sequence[Any]) -> None:
        self._tables = tables

    def batches(self, columns: Sequence[str] | None, n_rows: int) -> Iterator[Any]:
        """Yield arrays and frames in pieces, other tables whole."""
        for table in self._tables:
            frame = as_frame(table)
            if frame is None and not isinstance(table, np.ndarray):
                yield table
                continue
            for first in range(0, len(table), n_rows):
                piece = slice(first, first + n_rows)
                yield table[piece] if frame is None else frame[piece].to_native()


def open_source(data: Any, header: bool | None) -> Source:
    """Return the source that suits what was passed to `Stream`; DataError: none does, or it can be read only once."""
    if holds_files(data):
        if hasattr(data, "read"):
            raise _only_once(data)
        return FileSource(data if isinstance(data, (list, tuple)) else [data], header)
    if hasattr(type(data), "collect") or hasattr(type(data), "__dask_graph__"):
        raise DataError(
            f"{type(data).__name__} is lazy, and would be collected as a whole; write it to Parquet files, or pass a "
            "function that yields its parts"
        )
    if isinstance(data, np.ndarray) or hasattr(type(data), "columns"):
        return TableSource([data])
    if _is_dataset(data):
        return ArrowSource(data)
    if isinstance(data, Iterator) or _is_used_up(data):
        raise _only_once(data)
    if hasattr(type(data), "__arrow_c_stream__"):
        return ArrowSource(data)
    if callable(data):
        return FunctionSource(data)
    if isinstance(data, (list, tuple)):
        return TableSource(data)
    raise DataError(
        f"a stream cannot be read from {type(data).__name__}; pass paths of Parquet, Arrow or CSV files, a dataset of "
        "pyarrow, an Arrow stream, or a function that yields batches"
    )


def _is_dataset(data: Any) -> bool:
    datasets = sys.modules.get("pyarrow.dataset")
    return datasets is not None and isinstance(data, datasets.Dataset)


def _without_read_ahead(data: Any) -> dict[str, Any]:
    """Return the options by which a dataset of Parquet files keeps no more than it must."""
    from pyarrow import dataset

    if not isinstance(getattr(data, "format", None), getattr(dataset, "ParquetFileFormat", ())):
        return {}
    return {"fragment_scan_options": dataset.ParquetFragmentScanOptions(pre_buffer=False)}


def _is_used_up(data: Any) -> bool:
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(data, pyarrow.RecordBatchReader)


def _only_once(data: Any) -> DataError:
    return DataError(
        f"a stream of {type(data).__name__} can be read only once, and it is read twice: pass a function that makes a "
        "new one, as hb.Stream(lambda: make_batches())"
    )


def _cut(table: Any, n_rows: int) -> Iterator[Any]:
    """Yield the rows of a pyarrow table in pieces."""
    for first in range(0, table.num_rows, n_rows):
        yield table if table.num_rows <= n_rows else table.slice(first, n_rows)
