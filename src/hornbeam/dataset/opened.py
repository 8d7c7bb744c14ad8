"""What a Dataset is made of: a table in memory, what a table is read from, or a stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.data.binning import BinParams
from hornbeam.data.sources.files import holds_files
from hornbeam.data.sources.labelled import ColumnRoles, load_labelled
from hornbeam.data.sources.opening import open_table
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.streams.stream import Stream
from hornbeam.data.streams.table import read_stream
from hornbeam.dataset.names import columns_of
from hornbeam.params.params import BY_NAME, canonical_names


def open_data(
    data: Any,
    fields: Mapping[str, Any],
    roles: ColumnRoles,
    reference: Any,
    cache: str | os.PathLike[str] | None,
    hints: Mapping[str, Any],
) -> tuple[Any, TableReader, dict[str, Any]]:
    """Return the data, a reader of them, and the fields of their rows.

    Parameters
    ----------
    data, fields, reference, cache
        What was passed to the Dataset.
    roles
        What parameters say of the columns; nothing: of files what is said of those of the reference.
    hints
        Parameters of the Dataset, "bin_construct_sample_cnt" and "categories" (its categorical features) among them: a
        stream is read now, and need not be read again for what is named here.
    """
    features, n_features = columns_of(reference)
    if roles == ColumnRoles({}) and reference is not None and holds_files(data):
        roles = getattr(reference, "roles", roles)
    if not isinstance(data, Stream):
        if cache is not None:
            raise DataError(
                f"cache={os.fspath(cache)!r} is the folder for bins of a stream; data are {type(data).__name__}: pass "
                "hb.Stream(data), or leave cache= out"
            )
        table, values = load_labelled(data, fields, roles, features, n_features)
        return table, open_table(table), values
    if cache is not None and Path(cache).is_file():
        raise DataError(f"cache={os.fspath(cache)!r} is a file, and must be a folder; a file of bins: Dataset(path)")
    known = {name: value for name, value in hints.items() if value is not None}
    categories = known.pop("categories", "auto")
    given = canonical_names(known)
    count = given.get("bin_construct_sample_cnt", BinParams.bin_construct_sample_cnt)
    count = 0 if reference is not None else BY_NAME["bin_construct_sample_cnt"].check(count)
    named = given.get("categorical_feature") if isinstance(categories, str) else categories
    stream, values = read_stream(data, fields, roles, features, count, named)
    stream.cache = None if cache is None else os.fspath(cache)
    return data, stream, values
