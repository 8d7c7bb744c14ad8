"""LibSVM (SVMlight) files: lines such as `1 qid:3 0:0.5 7:1.25 # comment`.

Feature k of a line is column k, counted from 0, as LightGBM and XGBoost have it: where a file counts from 1, column 0
is empty. The first number of a line is its label. Either all lines have a query or none has.

pyarrow's CSV reader is the fastest parser of numbers at hand, so a block of lines is rewritten as a CSV file of two
columns, one line an entry, with marks in place of an index for what is no entry:

    1 qid:3 0:0.5 7:1.25      ->      -1,1    -2,3    0,0.5    7,1.25

A block that this cannot read, or that reads as anything but rows of ascending indices, goes to the definition below
(`read_lines`, plain Python), which returns its rows or says which line is wrong. Without pyarrow all of them do.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.cpus import available_cpus
from hornbeam.core.errors import DataError
from hornbeam.data.sources.text import has_pyarrow, opened_text, unreadable
from hornbeam.data.sources.wanted_columns import Loaded, Wanted

BLOCK_BYTES = 8 << 20
"""Of text that is parsed at a time; blocks are parsed side by side."""

LABEL, QUERY = -1, -2
"""Marks in place of an index."""

MIXED_QUERIES = "some lines have a qid and others have none; all need one, or none"

_TO_CSV = bytes.maketrans(b" \t\r\v\f:", b"\n\n\n\n\n,")
_COMMENT = re.compile(rb"[ \t]*#[^\n]*")
_BLANK_LINES = re.compile(rb"\n\s*\n")


@dataclass(frozen=True)
class Rows:
    """Rows of a block.

    label    float64 (n_rows,)
    query    int64   (n_rows,), or None: lines have no queries
    sizes    int64   (n_rows,)       entries of each row
    indices  int32   (n_entries,)    ascending within a row
    values   float64 (n_entries,)
    """

    label: NDArray[np.float64]
    query: NDArray[np.int64] | None
    sizes: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]


class BadLineError(Exception):
    """A line that is no row: its number in the block, from 0, and what is wrong."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def read_libsvm(source: str | BinaryIO, name: str, wanted: Wanted) -> Loaded:
    """Return a CSR matrix of SciPy with labels, and with queries where lines have them."""
    try:
        from scipy import sparse
    except ImportError:
        raise DataError(
            f"reading {name!r} takes SciPy: pip install 'hornbeam[files]', or pass the table as an array"
        ) from None
    try:
        with opened_text(source) as stream:
            parts = list(_parsed_blocks(stream, name))
    except unreadable() as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n", 1)[0]
        raise DataError(f"{name!r} cannot be read as LibSVM ({reason})") from None
    parts = [part for part in parts if len(part.label)]
    if not parts:
        raise DataError(f"{name!r} cannot be read as LibSVM (it has no rows)")
    starts = np.concatenate([[0], np.cumsum(np.concatenate([part.sizes for part in parts]))])
    indices = np.concatenate([part.indices for part in parts])
    values = np.concatenate([part.values for part in parts])
    n_columns = int(indices.max()) + 1 if len(indices) else 1
    if wanted.n_features is not None and n_columns > wanted.n_features:
        raise DataError(
            f"{name!r} has a feature {n_columns - 1}, but the model was trained on {wanted.n_features}, numbered from "
            "0; pass a file with the same features"
        )
    shape = (len(starts) - 1, wanted.n_features or n_columns)
    fields = {"label": np.concatenate([part.label for part in parts])}
    queries = [part.query for part in parts if part.query is not None]
    if queries:
        fields["qid"] = np.concatenate(queries)
    return Loaded(sparse.csr_matrix((values, indices, starts), shape), fields)


def _parsed_blocks(stream: Any, name: str) -> Iterator[Rows]:
    """Parse the blocks of a stream side by side, and yield them in order."""
    n_threads = available_cpus()
    waiting: deque[tuple[Future[Rows], int]] = deque()
    n_lines = 0

    def finished() -> Rows:
        nonlocal n_lines
        job, n_block_lines = waiting.popleft()
        try:
            rows = job.result()
        except BadLineError as error:
            line = n_lines + error.line + 1
            raise DataError(f"{name!r} cannot be read as LibSVM (line {line}: {error})") from None
        n_lines += n_block_lines
        return rows

    with_queries: bool | None = None
    with ThreadPoolExecutor(n_threads) as pool:
        for block in _blocks(stream):
            if with_queries is None:
                with_queries = has_queries(block)
            waiting.append((pool.submit(parse, block, bool(with_queries)), block.count(b"\n")))
            if len(waiting) > n_threads:
                yield finished()
        while waiting:
            yield finished()


def has_queries(block: bytes) -> bool | None:
    """Say whether the first row of a block has a query; None: it has no row."""
    for line in block.split(b"\n"):
        words = line.split(b"#", 1)[0].split()
        if words:
            return len(words) > 1 and words[1].startswith(b"qid:")
    return None


def _blocks(stream: Any) -> Iterator[bytes]:
    """Yield the text of a stream in blocks of whole lines."""
    rest = b""
    while more := stream.read(BLOCK_BYTES):
        end = more.rfind(b"\n") + 1
        if end == 0:
            rest += more
            continue
        yield rest + more[:end]
        rest = more[end:]
    if rest:
        yield rest


def parse(block: bytes, with_queries: bool) -> Rows:
    """Return the rows of a block of whole lines, which have queries or not; BadLineError where a line is no row."""
    rows = _parse_by_arrow(block, with_queries)
    return read_lines(block, with_queries) if rows is None else rows


def _parse_by_arrow(block: bytes, with_queries: bool) -> Rows | None:
    """Return the rows of a block; None: it is not plain enough, or wrong, or pyarrow is missing."""
    if not has_pyarrow():
        return None
    import pyarrow as pa
    from pyarrow import csv

    text = _COMMENT.sub(b"", block) if b"#" in block else block
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    text = text.strip()
    if b"\n\n" in text:
        text = _BLANK_LINES.sub(b"\n", text)
    if not text or b"," in text:
        return None
    n_rows = text.count(b"\n") + 1
    text = b"%d,%b" % (LABEL, text.replace(b"\n", b"\n%d," % LABEL))
    text = text.translate(_TO_CSV)
    if with_queries:
        text = text.replace(b"\nqid,", b"\n%d," % QUERY)
    if b",+" in text:  # labels are written +1, too, which pyarrow does not read
        text = text.replace(b",+", b",")
    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(column_names=["index", "value"], block_size=len(text) + 1, use_threads=False),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types={"index": pa.int32(), "value": pa.float64()}, null_values=[""]
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table["index"].null_count or table["value"].null_count:
        return None
    index, value = table["index"].to_numpy(), table["value"].to_numpy()
    starts = np.flatnonzero(index == LABEL)
    queries = np.flatnonzero(index == QUERY)
    if len(starts) != n_rows or index.min() < QUERY:
        return None
    if not np.array_equal(queries, starts + 1 if with_queries else []):
        return None
    with np.errstate(invalid="ignore"):
        query = value[queries].astype(np.int64) if with_queries else None
    if query is not None and (not np.array_equal(query, value[queries]) or query.min() < 0 or query.max() >= 2**53):
        return None
    # the marks before a row are below every index, so that only its entries have to ascend
    ascends = index[1:] > index[:-1]
    ascends[starts[1:] - 1] = True
    if with_queries:
        ascends[starts] = True
    if not ascends.all():
        return None
    entries = index >= 0
    sizes = np.diff(starts, append=len(index)) - (2 if with_queries else 1)
    return Rows(value[starts], query, sizes, index[entries], value[entries])


def read_lines(block: bytes, with_queries: bool) -> Rows:
    """Return the rows of a block, line by line: the definition of the format."""
    label: list[float] = []
    query: list[int] = []
    sizes: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    for number, line in enumerate(block.split(b"\n")):
        words = line.split(b"#", 1)[0].split()
        if not words:
            continue
        label.append(_number(words.pop(0), number, "the label"))
        if with_queries != bool(words and words[0].startswith(b"qid:")):
            raise BadLineError(number, MIXED_QUERIES)
        if with_queries:
            query.append(_query(words.pop(0)[4:], number))
        last = -1
        for word in words:
            index, colon, value = word.partition(b":")
            if not colon:
                raise BadLineError(number, f"{_shown(word)} is no entry; write index:value")
            position = _whole(index, number, "the index")
            if position <= last:
                raise BadLineError(number, f"index {position} stands after {last}; indices of a line have to ascend")
            last = position
            indices.append(position)
            values.append(_number(value, number, f"the value of index {position}"))
        sizes.append(len(words))
    return Rows(
        np.array(label, np.float64), np.array(query, np.int64) if with_queries else None, np.array(sizes, np.int64),
        np.array(indices, np.int32), np.array(values, np.float64),
    )  # fmt: skip


def _number(word: bytes, line: int, what: str) -> float:
    try:
        if b"_" in word:
            raise ValueError
        return float(word)
    except ValueError:
        raise BadLineError(line, f"{what}, {_shown(word)}, is no number") from None


def _query(word: bytes, line: int) -> int:
    number = _number(word, line, "the query")
    if not (number.is_integer() and 0 <= number < 2**53):
        raise BadLineError(line, f"the query, {_shown(word)}, is no whole number from 0 up")
    return int(number)


def _whole(word: bytes, line: int, what: str) -> int:
    if not word.isdigit():
        raise BadLineError(line, f"{what}, {_shown(word)}, is no whole number from 0 up")
    if int(word) >= 2**31:
        raise BadLineError(line, f"{what}, {_shown(word)}, is too large: 2147483647 is the largest")
    return int(word)


def _shown(word: bytes) -> str:
    return repr(word[:40].decode("utf-8", "replace"))
