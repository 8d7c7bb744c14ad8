"""Files of tables: which files a path names, and what is in them.

A path names a file, a pattern of several ("part-*.parquet"), or a folder. Several files are one table, in the order of
their names. The end of a name says what a file is; where it says nothing, the first bytes do.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from hornbeam.core.errors import DataError
from hornbeam.core.log import inform
from hornbeam.data.sources.delimited import read_delimited, read_numbers
from hornbeam.data.sources.libsvm import MIXED_QUERIES, read_libsvm
from hornbeam.data.sources.side_files import fields_beside, with_fields
from hornbeam.data.sources.text import has_pyarrow, unreadable
from hornbeam.data.sources.wanted_columns import Loaded, Wanted

FORMATS = {
    "parquet": (".parquet", ".pq", ".parq"),
    "arrow": (".arrow", ".arrows", ".ipc", ".feather", ".ftr"),
    "csv": (".csv", ".tsv", ".tab"),
    "libsvm": (".svm", ".libsvm", ".svmlight"),
}
"""Ends of names, by format."""

COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
"""Ends of names of compressed text, which pyarrow unpacks."""

_WAYS_ON = "Parquet, CSV, Arrow and LibSVM files are read; others: read them with pandas or polars, and pass the frame"


def holds_files(data: Any) -> bool:
    """Say whether data names files: a path, a list of paths, or a file that is open."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(isinstance(entry, (str, os.PathLike)) for entry in data)
    return isinstance(data, (str, os.PathLike)) or (hasattr(data, "read") and hasattr(data, "readable"))


def is_delimited(data: Any) -> bool:
    """Say whether data names one file of lines with separators."""
    return isinstance(data, (str, os.PathLike)) and Path(data).is_file() and format_of(os.fspath(data)) == "csv"


def read_files(data: Any, wanted: Wanted) -> Loaded:
    """Read the table that files hold.

    Parameters
    ----------
    data
        Path, pattern or folder; list of paths; or a file that is open for reading bytes.
    wanted
        Which columns.
    """
    if hasattr(data, "read"):
        return _read_open(data, wanted)
    paths = data if isinstance(data, (list, tuple)) else [data]
    files = [file for path in paths for file in files_of(os.fspath(path))]
    formats = {file: format_of(file) for file in files}
    others = sorted(set(formats.values()))
    if len(others) > 1:
        raise DataError(f"{_shown(data)} names files of several formats ({', '.join(others)}); pass those of one")
    parts = [_read(file, file, formats[file], wanted) for file in files]
    return parts[0] if len(parts) == 1 else _together(parts, files)


def files_of(path: str) -> list[str]:
    """Return the files that a path names, in the order of their names; DataError where there is none."""
    if re.match(r"^[a-zA-Z][a-zA-Z0-9+.-]+://", path):
        raise DataError(
            f"{path!r} is an address; files of this machine are read: download it, or pass polars.scan_parquet(...) or "
            "pyarrow.dataset.dataset(...), which read from the network"
        )
    if Path(path).is_dir():
        inside = sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
        files = [file for file in inside if not Path(file).name.startswith(("_", "."))]
        folders = {part.partition("=")[0] for file in files for part in Path(file).relative_to(path).parts[:-1]
                   if "=" in part}  # fmt: skip
        if folders:
            inform(
                f"{path}: columns that are names of folders ({', '.join(sorted(folders))}) are not read; "
                "pyarrow.dataset.dataset(path, partitioning='hive') has them"
            )
    elif Path(path).exists() or not glob.has_magic(path):
        files = [path]
    else:
        files = sorted(file for file in glob.glob(path, recursive=True) if Path(file).is_file())  # noqa: PTH207
    if not files:
        what = "is a folder without files" if Path(path).is_dir() else "is a pattern that no file has"
        raise DataError(f"{path!r} {what}; pass the path of a file")
    if not Path(files[0]).exists():
        raise DataError(f"data: there is no file {path!r}; pass the path of a file, a table or an array")
    return files


def format_of(path: str) -> str:
    """Return the format of a file: a key of FORMATS."""
    named = format_of_name(path)
    if named is not None:
        return named
    try:
        with Path(path).open("rb") as file:
            return format_of_bytes(file.read(4096), path)
    except OSError as error:
        raise DataError(f"{path!r} cannot be read ({error.strerror})") from None


def format_of_name(path: str) -> str | None:
    """Return the format that the end of a name says; None: it says nothing."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    ends = suffixes[-1:] or [""]
    return next((name for name, known in FORMATS.items() if ends[0] in known), None)


def format_of_bytes(begin: bytes, source: str) -> str:
    """Return the format that the first bytes of a file say."""
    if begin.startswith(b"PAR1"):
        return "parquet"
    if begin.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    line = begin.lstrip().split(b"\n", 1)[0]
    if b"\0" in begin or not line:
        raise DataError(f"{source!r} is {'empty' if not begin else 'no table that is known'}; {_WAYS_ON}")
    return "libsvm" if re.match(rb"^\S+(\s+qid:\d+)?\s+\d+:\S", line) else "csv"


def _read_open(file: BinaryIO, wanted: Wanted) -> Loaded:
    name = str(getattr(file, "name", "the stream"))
    content = file.read()
    if not isinstance(content, bytes):
        raise DataError(f"{name!r} is open for reading text; open it for reading bytes: open(path, 'rb')")
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{name!r} is compressed, and cannot be unpacked ({error}); is it whole?") from None
    return _read(io.BytesIO(content), name, format_of_bytes(content[:4096], name), wanted)


def _read(source: str | BinaryIO, name: str, kind: str, wanted: Wanted) -> Loaded:
    """Read one file; whatever is wrong with it is a DataError."""
    beside = fields_beside(source) if isinstance(source, str) and kind in ("csv", "libsvm") else {}
    if kind == "libsvm":
        read = read_libsvm(source, name, wanted)
        return Loaded(read.table, with_fields(read.fields, beside))
    readers: dict[str, Callable[[Any, str, Wanted], Any]] = {
        "parquet": _read_parquet, "arrow": _read_arrow, "csv": read_delimited if has_pyarrow() else read_numbers,
    }  # fmt: skip
    if kind != "csv":
        check_pyarrow(name)
    with errors_of_file(name, kind):
        return Loaded(readers[kind](source, name, wanted), beside)


def check_pyarrow(name: str) -> None:
    """Refuse to read a file where pyarrow, which reads it, is missing."""
    if not has_pyarrow():
        raise DataError(
            f"reading {name!r} takes pyarrow: pip install 'hornbeam[files]', or pass a table of pandas or polars"
        )


@contextmanager
def errors_of_file(name: str, kind: str) -> Iterator[None]:
    """Turn whatever is wrong with a file that is read within into a DataError that names it."""
    try:
        yield
    except DataError:
        raise
    except unreadable() as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n", 1)[0]
        if isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError)):
            raise DataError(f"{name!r} cannot be read ({reason})") from None
        title = {"parquet": "Parquet", "arrow": "Arrow", "csv": "CSV"}[kind]
        raise DataError(f"{name!r} cannot be read as {title} ({reason}); is the file whole?") from None


def _read_parquet(source: Any, name: str, wanted: Wanted) -> Any:
    from pyarrow import parquet

    with parquet.ParquetFile(source) as file:
        names = without_index(file.schema_arrow, name)
        chosen = wanted.choose(names, name) or names
        return file.read(columns=[f"{column}" for column in chosen]).select(chosen)


def _read_arrow(source: Any, name: str, wanted: Wanted) -> Any:
    import pyarrow as pa

    content = pa.memory_map(source) if isinstance(source, str) else source
    try:
        table = pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:
        content.seek(0)
        table = pa.ipc.open_stream(content).read_all()
    names = without_index(table.schema, name)
    return table.select(wanted.choose(names, name) or names)


def without_index(schema: Any, name: str) -> list[str]:
    """Return the names of the columns without those that pandas wrote as its index: it reads them as no columns."""
    index = [entry for entry in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(entry, str)]
    index = [entry for entry in index if entry in schema.names]
    if index:
        inform(f"{name}: the index of pandas is no feature: {', '.join(map(repr, index))}")
    return [column for column in schema.names if column not in index]


def _together(parts: Sequence[Loaded], files: Sequence[str]) -> Loaded:
    """Return the tables of several files as one."""
    fields = _fields_together(parts, files)
    if hasattr(parts[0].table, "tocsr"):
        return Loaded(_rows_of_libsvm(parts), fields)
    if not has_pyarrow():
        raise DataError(f"reading {len(parts)} files as one table takes pyarrow: pip install 'hornbeam[files]'")
    import pyarrow as pa

    first = parts[0].table.column_names
    for part, file in zip(parts, files, strict=True):
        if sorted(part.table.column_names) != sorted(first):
            odd = sorted(set(first) ^ set(part.table.column_names)) or part.table.column_names
            raise DataError(
                f"{file!r} has other columns than {files[0]!r} ({', '.join(map(repr, odd[:5]))}); files of one table "
                "have the same columns"
            )
    try:
        table = pa.concat_tables([part.table.select(first) for part in parts], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"{files[0]!r} and the files after it hold columns of other types ({str(error).splitlines()[0]}); write "
            "them with the same types"
        ) from None
    return Loaded(table, fields)


def _fields_together(parts: Sequence[Loaded], files: Sequence[str]) -> dict[str, Any]:
    """Return what several files say of their rows."""
    import numpy as np

    for part, file in zip(parts, files, strict=True):
        odd = part.fields.keys() ^ parts[0].fields.keys()
        if odd:
            reason = MIXED_QUERIES if "qid" in odd else f"one has {min(odd)} beside it, the other has not"
            raise DataError(f"{files[0]!r} and {file!r} cannot be read as one table ({reason})")
    return {name: np.concatenate([part.fields[name] for part in parts]) for name in parts[0].fields}


def _rows_of_libsvm(parts: Sequence[Loaded]) -> Any:
    from scipy import sparse

    n_features = max(part.table.shape[1] for part in parts)
    for part in parts:
        part.table.resize(part.table.shape[0], n_features)
    return sparse.vstack([part.table for part in parts], format="csr")


def _shown(data: Any) -> str:
    return repr(os.fspath(data)) if not isinstance(data, (list, tuple)) else f"the list of {len(data)} paths"
