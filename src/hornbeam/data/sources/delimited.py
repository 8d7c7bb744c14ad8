"""CSV files and their like, by pyarrow; without it files of numbers, by pandas.

separator   a comma; a tab in .tsv and .tab files; a tab or a semicolon where the first line has one and no comma
names       the first line, unless it holds numbers alone: then columns are called Column_0, Column_1, ...
types       of a column by all its lines: integers, booleans, dates, times, datetimes, floats, else strings
missing     nothing between separators, and what pandas takes for missing (NA, NaN, null, None, ...)
numbers     are the nearest float64, as Python's `float` reads them
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.data.sources.text import opened_text
from hornbeam.data.sources.wanted_columns import Wanted

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What stands for a missing value: pandas' list."""

LARGEST_BLOCK = 2**31 - 1
"""Bytes that pyarrow takes at a time at most."""

BLOCK = 4 << 20
"""Bytes that are read at a time where a file is read block by block."""


def read_delimited(source: Any, name: str, wanted: Wanted) -> Any:
    """Return a pyarrow table.

    Parameters
    ----------
    source
        Path, or bytes that can be read again.
    name
        What messages call it.
    wanted
        Which columns.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    layout = layout_of(source, name, wanted.header)
    chosen = wanted.choose(layout.names, name, layout.has_names)

    def read(block_size: int | None) -> Any:
        return arrow_csv.read_csv(
            io.BytesIO(source.getvalue()) if isinstance(source, io.BytesIO) else source,
            **layout.options(chosen, block_size),
        )

    try:
        return read(None)
    except pa.ArrowInvalid as error:
        # Types come from the first block, and a later line does not fit. Were the file one block, they would come from
        # all lines; where the first attempt succeeds, these are the same.
        if "conversion error" not in str(error):
            raise
        return read(LARGEST_BLOCK)


def read_numbers(source: Any, name: str, wanted: Wanted) -> Any:
    """Return a frame of pandas; arguments as of `read_delimited`.

    It reads numbers as pyarrow does. What it would read otherwise (texts, dates) is an error.
    """
    try:
        import pandas as pd
    except ImportError:
        raise DataError(
            f"reading {name!r} takes pyarrow: pip install 'hornbeam[files]', or pass the table as an array"
        ) from None
    layout = layout_of(source, name, wanted.header)
    chosen = wanted.choose(layout.names, name, layout.has_names)
    try:
        frame = pd.read_csv(
            source, sep=layout.separator, names=layout.names, header=0 if layout.has_names else None, usecols=chosen,
            na_values=list(MISSING), keep_default_na=False, index_col=False, float_precision="round_trip",
        )  # fmt: skip
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise EOFError(str(error)) from None
    odd = [column for column in frame.columns if frame[column].dtype.kind not in "fiub"]
    if odd:
        raise DataError(
            f"{name!r}: column {odd[0]!r} has other than numbers, and reading it takes pyarrow: pip install "
            "'hornbeam[files]', or pass a frame"
        )
    return frame if chosen is None else frame[list(chosen)]


def read_delimited_blocks(path: str, name: str, header: bool | None, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield pyarrow record batches, block by block, in the order of the lines; arguments as of `layout_of`.

    Types of columns are those of the first block, and integers are read as float64 like any number: lines further down
    may hold fractions.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    layout = layout_of(path, name, header)
    with arrow_csv.open_csv(path, **layout.options(columns, BLOCK)) as reader:
        kinds = {field.name: field.type for field in reader.schema}
    as_floats = {
        column: pa.float64() for column, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_null(kind)
    }
    with arrow_csv.open_csv(path, **layout.options(columns, BLOCK, as_floats)) as reader:
        yield from reader


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are cut: names of the columns, whether the first line holds them, and what separates."""

    names: list[str]
    has_names: bool
    separator: str

    def options(
        self, columns: Sequence[str] | None, block_size: int | None, types: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the options of pyarrow's functions that read it.

        columns     names of those to read; None: all
        block_size  bytes that are read at a time; None: pyarrow's
        types       of some columns; the others are inferred
        """
        from pyarrow import csv as arrow_csv

        return {
            "read_options": arrow_csv.ReadOptions(
                column_names=self.names, skip_rows=1 if self.has_names else 0, block_size=block_size
            ),
            "parse_options": arrow_csv.ParseOptions(delimiter=self.separator),
            "convert_options": arrow_csv.ConvertOptions(
                include_columns=columns, null_values=list(MISSING), strings_can_be_null=True, column_types=types
            ),
        }


def layout_of(source: Any, name: str, header: bool | None) -> Layout:
    """Return how a file is laid out.

    source  path, or bytes that can be read again
    name    what messages call it
    header  whether the first line holds names; None: unless it holds numbers alone
    """
    line = _first_line(source)
    separator = separator_of(line, name)
    fields = next(csv.reader([line], delimiter=separator), [])
    has_names = header if header is not None else not are_numbers(fields)
    names = fields if has_names else [f"Column_{place}" for place in range(len(fields))]
    twice = next((column for place, column in enumerate(names) if column in names[:place]), None)
    if twice is not None:
        raise DataError(f"{name!r} has two columns called {twice!r}; rename columns so that names are unique")
    return Layout(names, has_names, separator)


def separator_of(line: str, name: str) -> str:
    """Return what separates the fields of a first line."""
    if Path(name.removesuffix(".gz")).suffix.lower() in (".tsv", ".tab") or ("\t" in line and "," not in line):
        return "\t"
    return ";" if ";" in line and "," not in line else ","


def are_numbers(fields: Sequence[str]) -> bool:
    """Say whether the fields of a line are numbers or missing, so that the line cannot hold names."""
    known = [text.strip() for text in fields if text.strip() not in MISSING]
    try:
        return bool([float(text) for text in known])
    except ValueError:
        return False


def _first_line(source: Any) -> str:
    """Return the first line of a file, which may be compressed, or of bytes."""
    if isinstance(source, io.BytesIO):
        source.seek(0)
        begin = source.readline()
        source.seek(0)
    else:
        with opened_text(source) as stream:
            begin = stream.read(1 << 16)
            while b"\n" not in begin and (more := stream.read(1 << 20)):
                begin += more
    text = begin.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").rstrip("\r")
    if not text.strip():
        raise EOFError("it is empty, or its first line is")
    return text
