"""The real files of the six data sets, where a folder has them: docs/paper_data.md says where they come from.

    higgs     HIGGS.csv                                            rows 0 to 9,999,999, tested on the last 500,000
    mslr      MSLR-WEB30K/Fold1/train.txt, test.txt                or Fold1/ itself
    yahoo     set1.train.txt, set1.test.txt
    epsilon   epsilon_normalized, epsilon_normalized.t
    expo      2005.csv, 2006.csv; tested on 2007.csv               rows chosen at random; categories one-hot coded
    bosch     train_numeric.csv                                    1,000,000 rows, tested on the others

Names may end in .gz or .bz2. A loader returns None where its files are not there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from libraries import Data
from numpy.typing import NDArray

from hornbeam.data.sources.delimited import read_delimited
from hornbeam.data.sources.libsvm import read_libsvm
from hornbeam.data.sources.wanted_columns import Wanted

EXPO_ROWS = 10_000_000, 1_000_000
EXPO_CATEGORIES = ("Month", "DayofMonth", "DayOfWeek", "UniqueCarrier", "Origin", "Dest")
EXPO_NUMBERS = ("DepTime", "Distance")
LATE = 15.0
"""Minutes after which a flight is late."""


def find(folder: Path, *names: str) -> Path | None:
    """Return the first of the files that is there, compressed or not."""
    for name in names:
        for end in ("", ".gz", ".bz2"):
            if (folder / (name + end)).is_file():
                return folder / (name + end)
    return None


def columns(path: Path) -> Any:
    """Return a pyarrow table of a CSV file."""
    return read_delimited(str(path), str(path), Wanted())


def matrix(table: Any, names: list[str]) -> NDArray[np.float32]:
    """Return columns of a pyarrow table as float32 (n_rows, n_columns), null as NaN."""
    X = np.empty((table.num_rows, len(names)), np.float32)
    for place, name in enumerate(names):
        X[:, place] = table[name].cast("float64", safe=False).to_numpy()
    return X


def load_higgs(folder: Path) -> tuple[Data, Data] | None:
    path = find(folder, "HIGGS.csv", "higgs.csv")
    if path is None:
        return None
    table = columns(path)
    X = matrix(table, table.column_names[1:])
    y = matrix(table, table.column_names[:1])[:, 0].astype(np.float64)
    first = min(10_000_000, len(y) * 10 // 11)
    last = len(y) - min(500_000, len(y) - first)
    return Data(X[:first], y[:first]), Data(X[last:], y[last:])


def load_bosch(folder: Path) -> tuple[Data, Data] | None:
    path = find(folder, "train_numeric.csv")
    if path is None:
        return None
    table = columns(path)
    X = matrix(table, [name for name in table.column_names if name not in ("Id", "Response")])
    y = matrix(table, ["Response"])[:, 0].astype(np.float64)
    first = min(1_000_000, len(y) * 5 // 6)
    return Data(X[:first], y[:first]), Data(X[first:], y[first:])


def text_pair(folder: Path, train: tuple[str, ...], test: tuple[str, ...], binary: bool) -> tuple[Data, Data] | None:
    """Return the tables of two LibSVM files, dense, with the same columns."""
    paths = find(folder, *train), find(folder, *test)
    if None in paths:
        return None
    loaded = [read_libsvm(str(path), str(path), Wanted()) for path in paths]
    n_features = max(part.table.shape[1] for part in loaded)
    found = []
    for part in loaded:
        part.table.resize(part.table.shape[0], n_features)
        label = np.asarray(part.fields["label"], np.float64)
        sizes = None
        if not binary:
            query = part.fields["qid"]
            sizes = np.diff(np.flatnonzero(np.diff(query, prepend=query[0] - 1)), append=len(query)).astype(np.int64)
        X = part.table.astype(np.float32).toarray()
        found.append(Data(X, (label > 0).astype(np.float64) if binary else label, sizes))
    return found[0], found[1]


def load_epsilon(folder: Path) -> tuple[Data, Data] | None:
    return text_pair(folder, ("epsilon_normalized",), ("epsilon_normalized.t",), True)


def load_mslr(folder: Path) -> tuple[Data, Data] | None:
    names = ("Fold1", "MSLR-WEB30K/Fold1")
    return text_pair(
        folder, tuple(f"{one}/train.txt" for one in names), tuple(f"{one}/test.txt" for one in names), False
    )


def load_yahoo(folder: Path) -> tuple[Data, Data] | None:
    return text_pair(folder, ("set1.train.txt",), ("set1.test.txt",), False)


def load_expo(folder: Path) -> tuple[Data, Data] | None:
    """Return flights as sparse rows: a column for each level of a category that is trained on, and two numbers."""
    import pyarrow as pa

    years = [find(folder, f"{year}.csv") for year in (2005, 2006, 2007)]
    if None in years:
        return None
    tables = [columns(path) for path in years if path is not None]
    parts = [pa.concat_tables(tables[:2], promote_options="permissive"), tables[2]]
    rng = np.random.default_rng(7)
    for place, part in enumerate(parts):
        known = part.filter(pa.compute.is_valid(part["DepDelay"]))
        n_rows = min(EXPO_ROWS[place], known.num_rows)
        parts[place] = known.take(pa.array(np.sort(rng.permutation(known.num_rows)[:n_rows])))
    levels = {name: pa.compute.unique(parts[0][name]).sort() for name in EXPO_CATEGORIES}
    n_levels = sum(len(one) for one in levels.values())
    found = []
    for part in parts:
        n_rows = part.num_rows
        rows, places, values, first = [], [], [], 0
        for name, known in levels.items():
            code = pa.compute.index_in(part[name], value_set=known).to_numpy(zero_copy_only=False)
            there = np.flatnonzero(~np.isnan(code.astype(np.float64)))  # a level that was not trained on has no column
            rows.append(there)
            places.append(first + code[there].astype(np.int64))
            values.append(np.ones(len(there), np.float32))
            first += len(known)
        for place, name in enumerate(EXPO_NUMBERS):
            rows.append(np.arange(n_rows))
            places.append(np.full(n_rows, n_levels + place))
            values.append(part[name].cast("float32", safe=False).fill_null(0.0).to_numpy().astype(np.float32))
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(places))
        X = scipy.sparse.csr_matrix(entries, (n_rows, n_levels + len(EXPO_NUMBERS)))
        X.sort_indices()
        late = part["DepDelay"].cast("float64", safe=False).to_numpy() >= LATE
        found.append(Data(X, late.astype(np.float64)))
    return found[0], found[1]


LOADERS: dict[str, Callable[[Path], tuple[Data, Data] | None]] = {
    "higgs": load_higgs,
    "mslr": load_mslr,
    "yahoo": load_yahoo,
    "epsilon": load_epsilon,
    "expo": load_expo,
    "bosch": load_bosch,
}
