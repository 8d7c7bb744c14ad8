"""A stream as a Dataset sees it: a table whose rows are not held, and can only be read in order."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.log import inform
from hornbeam.data.binning import BinParams, allocate_bins
from hornbeam.data.levels import CodedColumn, CountedColumn, Levels
from hornbeam.data.masked_arrays import is_masked
from hornbeam.data.sources.dense import DenseReader
from hornbeam.data.sources.labelled import ColumnRoles, load_labelled
from hornbeam.data.sources.opening import open_table
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.sources.wanted_columns import Wanted
from hornbeam.data.streams.bin_file import BinWriter, row_bytes
from hornbeam.data.streams.first_reading import FirstReading, Identity, Sample
from hornbeam.data.streams.stream import FIELDS, Stream

Piece = tuple[slice, TableReader]
"""Some rows that lie together, and the table of them."""


class Schema(NamedTuple):
    """Columns of a table: their number and names, positions of strings and categories, whether they have types."""

    n_features: int
    names: list[str] | None
    levels: list[int]
    has_types: bool

    @classmethod
    def of(cls, reader: TableReader) -> Schema:
        """Return that of a table."""
        return cls(reader.n_features, reader.names, reader.level_columns, reader.has_types)


class UnheldTable(TableReader):
    """A table of which no rows are in memory."""

    why = "the rows of a stream are read in order, and are not held"

    @classmethod
    def open(cls, data: Any, name: str) -> TableReader | None:
        """Return None: such a table is made by `read_stream`, or comes with a file of bins."""
        return None

    def _refuse(self) -> NoReturn:
        raise DataError(f"{self.why}; pass a table in memory for what needs single rows (subset, cv, refit, predict)")

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        self._refuse()

    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        self._refuse()

    def _code_column(self, position: int) -> CodedColumn:
        self._refuse()

    def pieces(self) -> Iterator[Piece]:
        """Yield all rows in order, in pieces."""
        self._refuse()


class StreamTable(UnheldTable):
    """The rows of a stream, which has been read once.

    Parameters
    ----------
    stream
        Where rows come from.
    batches
        How they are read.
    first
        What was found at the first reading.
    schema
        Names and kinds of the columns.

    Attributes
    ----------
    cache
        Folder that bins are written to; None: they stay in memory.
    """

    has_types: ClassVar[bool] = False

    def __init__(self, stream: Stream, batches: Batches, first: FirstReading, schema: Schema) -> None:
        super().__init__((first.n_rows, schema.n_features), first.block_dtype, "data", schema.names, schema.levels)
        self.stream, self._batches, self._first = stream, batches, first
        self.has_types = schema.has_types  # type: ignore[misc]
        self.cache: str | None = None

    def pieces(self) -> Iterator[Piece]:
        """Yield the batches, whose categorical columns are read as `levels` says."""
        for rows, reader in self._read():
            fitted = {place: values[rows] for place, (_, values) in self._fitted.items()}
            reader.other_numbers = "missing"  # in a training set they are cut, as the levels say
            coded = reader if self.levels is None else reader.with_levels(self.levels, fitted)
            coded.zero_as_missing = self.zero_as_missing
            yield rows, coded

    def _read(self) -> Iterator[Piece]:
        """Yield the batches as they are; DataError at the end if they are not those of the first reading."""
        seen = Identity()
        for reader, fields in self._batches.read():
            first = seen.n_rows
            seen.add(reader, fields.get("label"))
            if seen.n_rows > self.n_rows:
                break
            yield slice(first, seen.n_rows), reader
        self._first.identity.check(seen)

    def prepare_coding(self, positions: Sequence[int]) -> None:
        """Count the levels of columns, where the first reading has not."""
        if any(position not in self._first.levels for position in positions):
            self._read_first(self._first.sample.count, positions, f"levels of {len(positions)} categorical features")

    def _read_first(self, count: int, categorical: Sequence[int], why: str) -> None:
        """Do the first reading again, to know more."""
        inform(f"the stream is read once more: {why}; name what is needed when making the Dataset to save a reading")
        wanted = sorted({*categorical, *self._first.levels})
        found = FirstReading(count, wanted, {place: self.column_name(place) for place in wanted})
        for _, reader in self._read():
            found.add(reader, {})
        found.close()
        found.identity = self._first.identity
        self._first = found

    def coded(self, position: int) -> CodedColumn:
        """Return a column as far as numbers of rows; the codes of rows are read where they are asked for."""
        return StreamedColumn(self, position)

    def row_places(self, position: int) -> NDArray[np.int32]:
        """Return the place of every row's value among the column's values, by another reading; int32 (n_rows,)."""
        places = np.empty(self.n_rows, np.int32)
        for rows, reader in self._read():
            reader.other_numbers = "cut"
            places[rows] = self._first.levels[position].places(reader.coded(position))
        return places

    def counted(self, position: int) -> CountedColumn:
        """Return the values of a column and their numbers of rows."""
        return self._first.levels[position].counted()

    def with_levels(
        self, levels: Sequence[Levels | None] | None, fitted: Mapping[int, NDArray[np.float64]] | None = None
    ) -> StreamTable:
        """Return a table of the same stream that reads some columns as codes; see TableReader."""
        table = copy.copy(self)
        named: list[Levels | None] = [None] * self.n_features if levels is None else list(levels)
        table.levels = named if any(own is not None for own in named) else None
        if fitted is not None:
            pairs = ((place, named[place]) for place in fitted)
            table._fitted = {place: (own, fitted[place]) for place, own in pairs if own is not None}
        if table.levels is not None:
            table.block_dtype = np.dtype(np.float64)
        return table

    def sampled(self, params: BinParams) -> DenseReader:
        """Return the rows that bins are found from, as a table that reads alike."""
        count = min(params.bin_construct_sample_cnt, self.n_rows)
        if count > len(self._first.sample.rows):
            self._read_first(count, (), f"bin_construct_sample_cnt={params.bin_construct_sample_cnt}")
        sample = self._first.sample.smaller(count)
        values = sample.values.astype(self.block_dtype)
        reader = DenseReader(values, "data", self.names)
        reader.levels, reader.zero_as_missing = self.levels, self.zero_as_missing
        for position, counts in self._first.levels.items():
            own = None if self.levels is None else self.levels[position]
            values[:, position] = np.nan  # places among levels are no values
            if own is not None and not own.is_coded:
                fitted = self._fitted_values(position, own)
                places = CodedColumn(counts.values, sample.values[:, position].astype(np.int32))
                encoded = own.encode(places, self.column_name(position)) if fitted is None else fitted[sample.rows]
                reader._codes[position] = encoded
        return reader

    def find_missing(self, features: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Say whether some features have missing values, and whether they have others, in any row; each bool (n,)."""
        if not self.zero_as_missing and not any((self.levels or [None] * self.n_features)[f] for f in features):
            return self._first.has_nan[features], self._first.has_value[features]
        inform("the stream is read once more: some features have a single value in the sample")
        seen = np.zeros((2, len(features)), np.bool_)
        for _, reader in self.pieces():
            missing = np.isnan(reader.read(0, reader.n_rows)[:, features])
            seen |= np.stack([missing.any(axis=0), ~missing.all(axis=0)])
        return seen[0], seen[1]

    def destination(self, n_used: int, dtype: type[np.unsignedinteger[Any]]) -> BinWriter | BinMemory:
        """Return what bins are written to, for `with`: a file in the folder `cache`, or memory."""
        if self.cache is None:
            return BinMemory(self.n_rows, n_used, dtype)
        return BinWriter(self.cache, self.n_rows * row_bytes(n_used, dtype))

    def forget_sample(self) -> None:
        """Free the rows that bins were found from."""
        self._first.sample = Sample(0)

    def _is_all_null(self, position: int) -> bool:
        return not self._first.levels[position].values


class BinMemory:
    """Takes bins as `BinWriter` does, and keeps them in memory."""

    def __init__(self, n_rows: int, n_used: int, dtype: type[np.unsignedinteger[Any]]) -> None:
        self._bins, self._n_rows = allocate_bins(n_rows, n_used, dtype), 0

    def write_bins(self, block: NDArray[Any]) -> None:
        """Take the next rows."""
        self._bins[self._n_rows : self._n_rows + len(block)] = block
        self._n_rows += len(block)

    def finish(self) -> NDArray[Any]:
        """Return the bins of all rows."""
        return self._bins

    def __enter__(self) -> BinMemory:
        return self

    def __exit__(self, *failure: object) -> None:
        pass


class StreamedColumn(CountedColumn):
    """A categorical column of a stream: the numbers of rows are known, and the codes of rows are read again."""

    def __init__(self, table: StreamTable, position: int) -> None:
        counted = table.counted(position)
        super().__init__(counted.values, counted.counts(), counted.is_cut)
        object.__setattr__(self, "_where", (table, position))

    def row_codes(self) -> NDArray[np.int32]:
        """Return the code of every row, int32 (n_rows,)."""
        table, position = self._where  # type: ignore[attr-defined]
        codes: NDArray[np.int32] = table.row_places(position)
        return codes


class Batches:
    """Reads a stream as tables of features that are all alike, and the fields of their rows.

    Parameters
    ----------
    stream
        What is read.
    columns
        Columns of label, weight, qid and init_score, by field, where they are named.
    roles
        What parameters say of the columns.
    features
        As in `Wanted`.
    """

    def __init__(
        self, stream: Stream, columns: Mapping[str, str], roles: ColumnRoles, features: tuple[Sequence[str], ...]
    ) -> None:
        self._stream, self._columns, self._roles = stream, columns, roles
        names = stream.column_names()
        others = (*columns.values(), *roles.ignore, *roles.fields.values())
        by_name = tuple(column for column in others if isinstance(column, str))
        self._chosen: list[str] | None = None
        if names is not None and len(by_name) == len(others):  # positions are those among all columns
            self._chosen = Wanted(features, by_name).choose(names, "data")
        self.schema: Schema | None = None

    def read(self) -> Iterator[tuple[TableReader, dict[str, Any]]]:
        """Yield a reader of the features of each batch, and label, weight, qid and init_score by name."""
        first = 0
        fields_before: list[str] | None = None
        for number, (table, beside) in enumerate(self._stream.batches(self._chosen)):
            where = f"batch {number} of the stream (from row {first} on)"
            try:
                reader, fields = self._open(table, beside)
            except DataError as error:
                raise DataError(f"{where}: {error}") from None
            if fields_before is not None and sorted(fields) != fields_before:
                odd = sorted(set(fields) ^ set(fields_before))
                raise DataError(f"{where}: {odd[0]} is not in all batches; pass it with each of them, or with none")
            fields_before = sorted(fields)
            first += reader.n_rows
            yield reader, fields

    def _open(self, table: Any, beside: dict[str, Any]) -> tuple[TableReader, dict[str, Any]]:
        both = [name for name in beside if name in self._columns]
        if both:
            raise DataError(f"{both[0]} is named as a column, and comes beside the table too; give one of them")
        features, fields = load_labelled(table, {**dict.fromkeys(FIELDS), **self._columns, **beside}, self._roles)
        reader = open_table(features)
        fields = {name: value for name, value in fields.items() if value is not None}
        for name, value in fields.items():
            if is_masked(value) or np.shape(value)[:1] != (reader.n_rows,):
                raise DataError(f"{name} has shape {np.shape(value)} for {reader.n_rows} rows; pass one value a row")
        self._check(reader)
        return reader, fields

    def _check(self, reader: TableReader) -> None:
        """Raise DataError unless a batch has the columns of the first one."""
        if reader.sparse is not None:
            raise DataError("a sparse table; streams are dense: pass the matrix to Dataset itself, or dense batches")
        if reader.device is not None:
            raise DataError("a table on a device; streams are read in host memory: copy batches to NumPy arrays")
        if self.schema is None:
            self.schema = Schema.of(reader)
        like = self.schema
        if reader.n_features != like.n_features:
            raise DataError(f"{reader.n_features} columns, and {like.n_features} in the first batch; make them alike")
        if reader.names != like.names:
            without: list[Any] = [None] * like.n_features
            pairs = zip(reader.names or without, like.names or without, strict=True)
            own, other = next(pair for pair in pairs if pair[0] != pair[1])
            raise DataError(
                f"a column is called {own!r} where that of the first batch is called {other!r}; all batches must have "
                "the same columns in the same order"
            )
        for position in reader.level_columns:
            if position not in like.levels and not reader._is_all_null(position):
                raise DataError(
                    f"column {reader.column_name(position)!r} holds {reader._column_type(position)}, and numbers in "
                    "the first batch; make it one kind in all batches"
                )


def read_stream(
    stream: Stream,
    given: Mapping[str, Any],
    roles: ColumnRoles,
    features: tuple[Sequence[str], ...],
    sample_count: int,
    categorical: Any,
) -> tuple[StreamTable, dict[str, Any]]:
    """Read a stream for the first time: return it as a table, and label, weight, group, qid and init_score.

    Parameters
    ----------
    stream
        What is read.
    given
        What was passed to the Dataset: values of all rows, or names of columns.
    roles, features
        As for `load_labelled`.
    sample_count
        Rows that bins are found from; 0: they are those of another Dataset.
    categorical
        What was passed as categorical features, which are looked for among the columns.
    """
    if roles.header is not None:
        raise DataError(f"header={roles.header}: pass it to the Stream")
    named = {name: value for name, value in given.items() if isinstance(value, str)}
    for name in named.keys() & stream.columns.keys():
        raise DataError(f"{name}= is given to the Stream and to the Dataset; give it once")
    if "group" in named:
        named["qid"] = named.pop("group")
    batches = Batches(stream, {**stream.columns, **named}, roles, features)
    found: FirstReading | None = None
    for reader, fields in batches.read():
        if found is None:
            columns = _positions(categorical, reader)
            found = FirstReading(sample_count, columns, {place: reader.column_name(place) for place in columns})
        found.add(reader, fields)
    if found is None or batches.schema is None:
        raise DataError("the stream is empty: it gave no batch with rows; a stream of at least one row is needed")
    values = found.close()
    both = [name for name in values if given.get(name) is not None and name not in named]
    if both:
        raise DataError(f"{both[0]}= is given to the Dataset, and comes with the stream too; give it once")
    rest = {name: value for name, value in given.items() if name not in named and name != "group"}
    fields = {**rest, "group": None if "qid" in named else given.get("group"), **values}
    return StreamTable(stream, batches, found, batches.schema), fields


def _positions(categorical: Any, reader: TableReader) -> list[int]:
    """Return the positions of the columns whose levels will be asked for, as far as that can be told now."""
    named = [] if categorical is None or isinstance(categorical, str) else list(categorical)
    names = reader.names or []
    places = [names.index(entry) if isinstance(entry, str) and entry in names else entry for entry in named]
    numbers = [
        int(place)
        for place in places
        if isinstance(place, (int, np.integer)) and not isinstance(place, bool) and 0 <= place < reader.n_features
    ]
    return sorted({*reader.level_columns, *numbers})
