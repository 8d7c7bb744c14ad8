"""`Stream`: data that are read in order, batch by batch, and are never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.data.streams.batches import open_source
from hornbeam.params.params import whole_number

FIELDS = ("label", "weight", "qid", "init_score")


class Stream:
    """Data for `Dataset` that are larger than memory: read in order, and twice.

    Parameters
    ----------
    source
        Path, pattern, folder or list of Parquet, Arrow or CSV files; dataset of pyarrow; object with
        `__arrow_c_stream__`; array that is mapped from a file; list of tables; or a function without arguments that
        yields batches: tables as `Dataset` takes them, pairs (table, label), or mappings with the entry "data" and
        those of "label", "weight", "qid" and "init_score" that there are. What can be read only once, such as a
        generator, is refused: pass the function that makes it.
    label, weight, qid, init_score
        Names of columns, which then are no features. Values of all rows may be passed to `Dataset` instead.
    group
        The same as qid: a column of query ids. Rows of a query lie together; batches may cut queries.
    chunk_rows
        Rows that are read at a time, where the source leaves that open. The model does not depend on it.
    header
        Whether the first line of CSV files holds names; None: unless it holds numbers alone.

    Notes
    -----
    The first reading takes labels, the rows that bins are found from, and the levels of categories; the second writes
    bins. A source must give the same rows both times, which is checked by the labels and the first feature.

    Examples
    --------
    >>> stream = hb.Stream(lambda: ({"data": X[i : i + 500], "label": y[i : i + 500]} for i in range(0, 2000, 500)))
    >>> hb.Dataset(stream).n_rows
    2000
    """

    def __init__(
        self,
        source: Any,
        label: str | None = None,
        *,
        weight: str | None = None,
        group: str | None = None,
        qid: str | None = None,
        init_score: str | None = None,
        chunk_rows: int = 65_536,
        header: bool | None = None,
    ) -> None:
        if group is not None and qid is not None:
            raise DataError(f"group={group!r} beside qid={qid!r}: both name the column of query ids; give one of them")
        given = {"label": label, "weight": weight, "qid": group if qid is None else qid, "init_score": init_score}
        for name, column in given.items():
            if column is not None and not isinstance(column, str):
                raise DataError(
                    f"{name} of a Stream is the name of a column, not {type(column).__name__}; pass values to Dataset"
                )
        self.columns: dict[str, str] = {name: column for name, column in given.items() if column is not None}
        self.chunk_rows = whole_number(chunk_rows, "chunk_rows", 1, 2**31 - 1)
        self._source = open_source(source, header)

    def column_names(self) -> list[str] | None:
        """Return the names of all columns, where they are known before anything is read; else None."""
        return self._source.names()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield tables that have rows, and the fields that came beside them, by name.

        columns  those to read, where `column_names` knows them; None: all
        """
        for batch in self._source.batches(columns, self.chunk_rows):
            table, fields = _table_and_fields(batch)
            shape = getattr(table, "shape", None)
            if shape is None or len(shape) != 2 or shape[0] > 0:
                yield table, fields


def _table_and_fields(batch: Any) -> tuple[Any, dict[str, Any]]:
    """Return the table of a batch, and its fields."""
    if isinstance(batch, Mapping):
        if "data" not in batch:
            raise DataError(
                f"a batch has the entries {', '.join(map(repr, batch))}; one of them must be 'data', the table"
            )
        fields = {name: value for name, value in batch.items() if name != "data" and value is not None}
        wrong = [name for name in fields if name not in FIELDS]
        if wrong:
            raise DataError(f"a batch has the entry {wrong[0]!r}; entries are data, {', '.join(FIELDS)}")
        return batch["data"], fields
    if isinstance(batch, tuple):
        if len(batch) != 2:
            raise DataError(
                f"a batch is a tuple of {len(batch)}; yield (table, label), or a mapping with data, {', '.join(FIELDS)}"
            )
        return batch[0], {"label": batch[1]}
    return batch, {}
