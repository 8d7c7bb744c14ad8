"""Tables in and out of commands: data with their columns' roles, and results in the format of a file's name."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Mapping, Sequence
from csv import writer as writer_of_names
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hornbeam.cli.processes import n_processes, own_rows
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.sources.files import FORMATS, format_of_name
from hornbeam.data.sources.labelled import COLUMN_PARAMETERS, column_roles, load_labelled
from hornbeam.data.streams.stream import Stream
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.model.file import write_atomically

if TYPE_CHECKING:
    from hornbeam.distributed.dataset import PartDataset

STANDARD = "-"
"""Standard input, standard output."""

FIELDS = ("label", "weight", "qid")


class Roles:
    """What the columns of the data are, by the options of a command and its configuration.

    Parameters
    ----------
    label, weight, query, ignore, header
        Values of the options; None: not given.
    places
        What the configuration says, by LightGBM's names.
    """

    def __init__(
        self,
        label: str | None,
        weight: str | None = None,
        query: str | None = None,
        ignore: str | None = None,
        header: bool | None = None,
        places: Mapping[str, Any] | None = None,
    ) -> None:
        options = {
            "label_column": label, "weight_column": weight, "group_column": query, "ignore_column": ignore,
            "header": header,
        }  # fmt: skip
        given = {name: value for name, value in options.items() if value is not None}
        named = {name: value for name, value in (places or {}).items() if name in COLUMN_PARAMETERS}
        self.params = {**named, **given}

    def dataset(self, path: str, reference: Dataset | None = None, cache: str | None = None) -> Dataset:
        """Return a Dataset with labels; cache: the folder for its bins, and the file is read as a stream.

        Under mpiexec it is that of all processes, each of which has some rows.
        """
        if n_processes() > 1:
            return self._part(path, reference, cache)
        if cache is None:
            made = Dataset(source_of(path), reference=reference, params=self.params)
        else:
            params = {name: value for name, value in self.params.items() if COLUMN_PARAMETERS[name] != "header"}
            _, roles = column_roles(self.params)
            stream = Stream(source_of(path), header=roles.header)
            made = Dataset(stream, reference=reference, params=params, cache=cache)
        if made.given("label") is None:
            raise no_labels(path, made.feature_names)
        return made

    def _part(self, path: str, reference: Dataset | None, cache: str | None) -> Dataset:
        """Return a Dataset of this process's rows."""
        import hornbeam.mpi as hbm

        if cache is not None:
            raise DataError("--cache under mpiexec: each process holds its rows in memory; start more, or leave it out")
        if path == STANDARD:
            raise DataError("- under mpiexec: no process can read the input of all; name a file that each of them sees")
        params, roles = column_roles(self.params)
        table, fields = load_labelled(path, dict.fromkeys(FIELDS), roles)
        if fields["label"] is None:
            raise no_labels(path, [])
        table, fields = own_rows(table, fields)
        return hbm.Dataset(table, reference=cast("PartDataset | None", reference), params=params, **fields)

    def labelled(self, path: str, booster: Booster, needs_labels: bool = True) -> tuple[Any, Dataset]:
        """Return the columns of a model, and a Dataset of the same rows with labels."""
        _, roles = column_roles(self.params)
        names = (booster.feature_names, booster.column_names or booster.feature_names)
        table, fields = load_labelled(
            source_of(path), dict.fromkeys(FIELDS), roles, features=names, n_features=booster.n_features
        )
        made = Dataset(table, **fields)
        if needs_labels and made.given("label") is None:
            raise no_labels(path, [])
        return table, made


def no_labels(path: str, names: Sequence[str]) -> DataError:
    """Make the error for data without labels."""
    shown = f"; columns are {', '.join(map(repr, names[:8]))}{' ...' if len(names) > 8 else ''}" if names else ""
    return DataError(f"{path!r}: which column holds the labels? Pass --label COLUMN, a name or a position{shown}")


def source_of(path: str) -> Any:
    """Return what a path names: itself, or standard input."""
    return sys.stdin.buffer if path == STANDARD else path


def check_writable(path: str) -> None:
    """Raise unless a file can be written: before work is done whose result would be lost."""
    if path == STANDARD:
        return
    target = Path(path)
    if target.is_dir():
        raise DataError(f"cannot write {path!r}: it is a folder; name a file in it")
    try:
        if target.exists():
            with target.open("ab"):
                return
        with tempfile.TemporaryFile(dir=target.resolve().parent):
            return
    except OSError as error:
        raise DataError(
            f"cannot write {path!r} ({error.strerror}); name a file in a folder that exists and may be written to"
        ) from None


def output_format(path: str, named: str | None) -> str:
    """Return the format of a result: the one named, or by the end of the file's name; standard output: CSV."""
    found = named or ("csv" if path == STANDARD else format_of_name(path))
    if found not in FORMATS:
        raise ParameterError(f"{named or path!r}: results are written as {', '.join(FORMATS)}; pass --format")
    return found


def write_table(columns: Mapping[str, NDArray[Any]], path: str, kind: str) -> None:
    """Write columns as a file, whole or not at all."""
    content = _libsvm(columns) if kind == "libsvm" else _arrow_bytes(columns, kind, path)
    if path == STANDARD:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    write_atomically(path, content)


def _arrow_bytes(columns: Mapping[str, NDArray[Any]], kind: str, path: str) -> bytes:
    try:
        import pyarrow as pa
        from pyarrow import csv, parquet
    except ImportError:
        raise DataError("writing tables takes pyarrow: pip install 'hornbeam[cli]'") from None
    table, sink = pa.table({name: np.ascontiguousarray(column) for name, column in columns.items()}), io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink)
    elif kind == "arrow":
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        separator = "\t" if Path(path).suffix.lower() in (".tsv", ".tab") else ","
        names = io.StringIO()
        writer_of_names(names, delimiter=separator, lineterminator="\n").writerow(columns)
        sink.write(names.getvalue().encode())
        csv.write_csv(table, sink, csv.WriteOptions(include_header=False, delimiter=separator, quoting_style="needed"))
    return sink.getvalue()


def _libsvm(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return rows of LibSVM: the first column stands where labels do, the others are features 0, 1, ..."""
    first, *others = (column.tolist() for column in columns.values())
    lines = []
    for row, label in enumerate(first):
        entries = [f"{place}:{column[row]!r}" for place, column in enumerate(others) if column[row] != 0]
        lines.append(" ".join([repr(label), *entries]))
    return ("\n".join(lines) + "\n").encode()
