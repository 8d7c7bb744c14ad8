"""CSV files and their like, by pyarrow.

separator   a comma; a tab in .tsv and .tab files; a tab or a semicolon where the first line has one and no comma
names       the first line, unless it holds numbers alone: then columns are called Column_0, Column_1, ...
types       of a column by all its lines: integers, booleans, dates, times, datetimes, floats, else strings
missing     nothing between separators, and what pandas takes for missing (NA, NaN, null, None, ...)
numbers     are the nearest float64, as Python's `float` reads them
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.data.sources.wanted_columns import Wanted

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What stands for a missing value: pandas' list."""

LARGEST_BLOCK = 2**31 - 1
"""Bytes that pyarrow takes at a time at most."""


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

    line = _first_line(source)
    separator = separator_of(line, name)
    fields = next(csv.reader([line], delimiter=separator), [])
    has_names = wanted.header if wanted.header is not None else not are_numbers(fields)
    names = fields if has_names else [f"Column_{place}" for place in range(len(fields))]
    twice = next((column for place, column in enumerate(names) if column in names[:place]), None)
    if twice is not None:
        raise DataError(f"{name!r} has two columns called {twice!r}; rename columns so that names are unique")
    chosen = wanted.choose(names, name)

    def read(block_size: int | None) -> Any:
        return arrow_csv.read_csv(
            io.BytesIO(source.getvalue()) if isinstance(source, io.BytesIO) else source,
            read_options=arrow_csv.ReadOptions(
                column_names=names, skip_rows=1 if has_names else 0, block_size=block_size
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=separator),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=chosen, null_values=list(MISSING), strings_can_be_null=True
            ),
        )

    try:
        return read(None)
    except pa.ArrowInvalid as error:
        # Types come from the first block, and a later line does not fit. Were the file one block, they would come from
        # all lines; where the first attempt succeeds, these are the same.
        if "conversion error" not in str(error):
            raise
        return read(LARGEST_BLOCK)


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
    import pyarrow as pa

    if isinstance(source, io.BytesIO):
        source.seek(0)
        begin = source.readline()
        source.seek(0)
    else:
        with pa.input_stream(source) as stream:  # unpacks by the end of the name
            begin = stream.read(1 << 16)
            while b"\n" not in begin and (more := stream.read(1 << 20)):
                begin += more
    text = begin.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").rstrip("\r")
    if not text.strip():
        raise pa.ArrowInvalid("it is empty, or its first line is")
    return text
