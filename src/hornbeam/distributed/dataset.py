"""The data of one worker, as a training on all workers sees them.

Labels, weights, queries and initial scores are those of all rows, on every worker: 8 bytes a row each. So objectives,
metrics and functions of the user's own see what they see on one machine. Features and bins are those of this worker's
parts alone; the parts are never put together before they are bins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.binning import encode_table
from hornbeam.core.errors import DataError
from hornbeam.core.locks import Lock
from hornbeam.data.binning import BinMapper, BinnedData, BinParams, allocate_bins, bin_by
from hornbeam.data.fields import ROW_FIELDS, Fields
from hornbeam.data.levels import Levels
from hornbeam.data.sources.reader import TableReader
from hornbeam.dataset.dataset import Dataset
from hornbeam.distributed.bounds import find_bounds, find_missing
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.rows import RowMap
from hornbeam.distributed.shared_levels import SharedLevels
from hornbeam.params.params import Params


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a data set that lie together.

    number      place among all parts, of all workers
    dataset     the rows
    zero_weight whether all weights are 0, which a Dataset by itself refuses
    query_ends  ids of the first and of the last query, where queries were named by ids
    """

    number: int
    dataset: Dataset
    zero_weight: bool = False
    query_ends: tuple[str, str] | None = None

    @classmethod
    def make(cls, number: int, data: Any, *, weight: Any = None, qid: Any = None, **options: Any) -> Part | None:
        """Make a part of what Dataset takes; None where it has no rows."""
        if getattr(data, "shape", (1,))[0] == 0:
            return None
        values = None if weight is None else np.asarray(weight)
        zero = values is not None and values.dtype.kind in "fiub" and not values.any()
        ids = None if qid is None else np.asarray(qid)
        ends = None if ids is None or len(ids) == 0 else (repr(ids.flat[0]), repr(ids.flat[-1]))
        return cls(number, Dataset(data, weight=None if zero else weight, qid=qid, **options), zero, ends)

    def schema(self) -> dict[str, Any]:
        """Return what all parts must have in common, and what a worker without parts has to know."""
        data = self.dataset
        given = {name: data.given(name) is not None for name in ("label", "weight", "init_score", *ROW_FIELDS)}
        scores = data.init_score
        return {
            "number of columns": data.n_features,
            "names of columns": data.feature_names if data.has_names else None,
            "names of a frame's columns": data.column_names,
            "columns of strings or categories": list(map(int, data.reader.level_columns)),
            "columns with types": bool(data.reader.has_types),
            "categorical_features": None if data._categorical is None else list(data._categorical),
            "data parameters": data._own_params,
            "feature_weights": None if data.feature_weights is None else data.feature_weights.tolist(),
            "labels": given["label"],
            "columns of labels": data.n_targets if given["label"] else 0,
            "weights": given["weight"] or self.zero_weight,
            "queries": data.group is not None,
            **{name: given[name] for name in ROW_FIELDS},
            "outputs of init_score": None if scores is None else len(scores),
        }


class PartDataset(Dataset):
    """A data set of which this worker has some parts; made on all workers at the same time.

    Parameters
    ----------
    collective
        The worker's end of the group.
    parts
        Parts of this worker; there may be none.
    reference
        Training set whose bins a validation set takes.
    name
        What errors call the data set.

    Attributes
    ----------
    rows
        Which rows are whose.
    """

    def __init__(
        self,
        collective: Collective,
        parts: Sequence[Part],
        reference: PartDataset | None = None,
        name: str = "train_set",
    ) -> None:
        self.collective, self.name = collective, name
        self.parts = sorted(parts, key=lambda part: part.number)
        schema = self._common_schema()
        self.rows = RowMap.gather(collective, [(part.number, part.dataset.n_rows) for part in self.parts], name)
        Fields.__init__(self, self.rows.n_rows, schema["number of columns"])
        self.data = None
        self._reader = SharedTable([part.dataset.reader for part in self.parts], schema)  # type: ignore[assignment]
        self._binned = self._bin_params = None
        self._own_params = dict(schema["data parameters"])
        self._categorical = None if schema["categorical_features"] is None else tuple(schema["categorical_features"])
        self.reference = None
        named = schema["names of columns"]
        self.has_names, self.column_names = named is not None, schema["names of a frame's columns"]
        self.feature_names = named or [f"Column_{i}" for i in range(self.n_features)]
        self._lock = Lock()
        self._gather_fields(schema)
        if reference is not None:
            self.set_reference(reference)

    def _common_schema(self) -> dict[str, Any]:
        """Check that all parts of all workers are alike, and return what they have in common."""
        mine = [(part.number, part.schema()) for part in self.parts]
        received = self.collective.all_gather(json.dumps(mine).encode(), f"columns of {self.name}")
        every = sorted((entry for message in received for entry in json.loads(bytes(message))), key=_number)
        if not every:
            raise DataError(f"{self.name} has no rows on any worker; at least one is needed")
        first, common = every[0]
        for number, schema in every[1:]:
            for what, value in schema.items():
                if value != common[what]:
                    raise DataError(
                        f"{self.name}: part {number} has other {what} than part {first}: {value!r} and "
                        f"{common[what]!r}; all parts must have the same columns and fields"
                    )
        return dict(common)

    def _gather_fields(self, schema: dict[str, Any]) -> None:
        """Bring together the labels, weights, queries and initial scores of all rows."""
        given: dict[str, Any] = {"feature_weights": schema["feature_weights"]}
        if schema["columns of labels"]:
            columns = [np.transpose(part.dataset.label) for part in self.parts]  # type: ignore[arg-type]
            given["label"] = self._all_rows(columns, schema["columns of labels"], "labels").T
        if schema["weights"]:
            own = [np.zeros(part.dataset.n_rows) if part.zero_weight else part.dataset.weight for part in self.parts]
            given["weight"] = self._all_rows(own, 1, "weights")[0]
        if schema["outputs of init_score"]:
            n_outputs = schema["outputs of init_score"]
            scores = self._all_rows([part.dataset.init_score for part in self.parts], n_outputs, "initial scores")
            given["init_score"] = np.ascontiguousarray(scores.T)
        for name in ROW_FIELDS:
            if schema[name]:
                given[name] = self._all_rows([part.dataset.row_field(name) for part in self.parts], 1, name)[0]
        if schema["queries"]:
            given["group"] = self._all_queries()
        self._set_fields(**given)

    def _all_rows(self, own: list[Any], n_values: int, what: str) -> NDArray[np.float64]:
        """Return the values of all rows, float64 (n_values, n_rows), from those of this worker's parts."""
        stacked = [np.asarray(each, np.float64).reshape(n_values, -1) for each in own]
        mine = np.concatenate([np.empty((n_values, 0)), *stacked], axis=1)
        return self.rows.gather_values(self.collective, mine, f"{what} of {self.name}")

    def _all_queries(self) -> NDArray[np.int64]:
        """Return the sizes of all queries, in the order of the parts; none may be cut by parts."""
        mine = [(part.number, part.query_ends, part.dataset.group.tolist()) for part in self.parts]  # type: ignore[union-attr]
        received = self.collective.all_gather(json.dumps(mine).encode(), f"queries of {self.name}")
        every = sorted((entry for message in received for entry in json.loads(bytes(message))), key=_number)
        for (before, ends, _), (number, following, _) in pairwise(every):
            if ends is not None and following is not None and ends[1] == following[0]:
                raise DataError(
                    f"{self.name}: query {ends[1]} is cut: it ends part {before} and begins part {number}; the rows of "
                    "a query must lie in one part: partition the data by query"
                )
        return np.concatenate([np.array(sizes, np.int64) for _, _, sizes in every])

    def pieces(self) -> list[tuple[slice, TableReader]]:
        """Return the tables of this worker's parts, and which rows they are."""
        ranges = self.rows.ranges[self.rows.rank]
        return [(slice(*pair), reader) for pair, reader in zip(ranges, self._reader.parts, strict=True)]  # type: ignore[attr-defined]

    def read_rows(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return some of all rows; all workers ask for them at the same time."""
        values = np.zeros((stop - start, self.n_features))
        for rows, reader in self.pieces():
            first, last = max(start, rows.start), min(stop, rows.stop)
            if first < last:
                values[first - start : last - start] = reader.read(first - rows.start, last - rows.start)
        self.collective.all_reduce(values.view(np.int64), "some rows")  # bits of one worker, zeros of the others
        return values

    def _bin(self, params: Params | None, init_levels: Sequence[Levels | None] | None) -> None:
        """Find the bins from the rows of all workers, and code those of this one."""
        table: SharedTable = self._reader  # type: ignore[assignment]
        if isinstance(self.reference, PartDataset):
            own = self._bin_params = self.reference.bin_params
            for reader in table.parts:
                reader.other_numbers = "missing"
            table.read_as(self.reference.levels, own)
            mapper = self.reference.mapper
            self._binned = BinnedData(mapper, self._codes(mapper, own, params))
            return
        given = {} if params is None else {name: getattr(params, name) for name in BinParams.__dataclass_fields__}
        own = self._bin_params = BinParams(**{**given, **self._own_params})
        for reader in table.parts:
            reader.zero_as_missing = own.zeros_are_missing
        categorical = self._find_categorical(params)
        has_means = self.label is not None and self.n_targets == 1 and (params is None or params.num_class == 1)
        shared = SharedLevels(self.collective, self.pieces(), own, self, has_means)
        levels, fitted = shared.choose({place: self.feature_names[place] for place in categorical}, init_levels)
        table.read_as(levels, own, fitted)

        def encode(mapper: BinMapper) -> tuple[NDArray[Any], NDArray[np.bool_]]:
            codes = self._codes(mapper, own, params)
            missing = np.any(codes[:, : len(mapper.used)] == mapper.n_value_bins[mapper.used], axis=0)
            return codes, np.logical_or.reduce(self.collective.gather_array(missing, "missing values"))

        bounds = find_bounds(self.collective, table.parts, self.rows, self.n_features, own, table.n_levels)
        missing = lambda features: find_missing(self.collective, table.parts, features)  # noqa: E731
        self._binned = bin_by(bounds, own, missing, encode, n_levels=table.n_levels)

    def _codes(self, mapper: BinMapper, own: BinParams, params: Params | None) -> NDArray[Any]:
        """Return the bins of this worker's rows, part by part into one array."""
        n_rows = sum(part.dataset.n_rows for part in self.parts)
        codes, done = allocate_bins(n_rows, len(mapper.used), mapper.bin_dtype), 0
        for reader in self._reader.parts:  # type: ignore[attr-defined]
            plain = BinnedData(mapper, codes[:0])  # says that bins are in host memory
            part = BinnedData(mapper, encode_table(reader, mapper, own, params, plain))
            codes[done : done + reader.n_rows] = part.bins
            done += reader.n_rows
        return codes


class SharedTable:
    """The tables of this worker's parts, as far as a Dataset looks at its table.

    parts   one reader a part
    levels  of each categorical feature, None: not known yet, or no feature is categorical
    """

    device = None
    sparse = None

    def __init__(self, parts: list[TableReader], schema: dict[str, Any]) -> None:
        self.parts = parts
        self.names = schema["names of columns"]
        self.level_columns: list[int] = schema["columns of strings or categories"]
        self.has_types: bool = schema["columns with types"]
        self.levels: list[Levels | None] | None = None

    def column_name(self, position: int) -> str:
        """Return how messages call a column."""
        return str(position) if self.names is None else str(self.names[position])

    def holds_categories(self, position: int) -> bool:
        """Say whether the type of a column is that of categories, as far as this worker sees."""
        return any(part.holds_categories(position) for part in self.parts)

    def holds_order(self, position: int) -> bool:
        """Say whether the categories of a column are in an order, as far as this worker sees."""
        return any(part.holds_order(position) for part in self.parts)

    def says_first(self, text: str) -> bool:
        """Say whether nothing was said of these parts by that name before."""
        return all(part.says_first(text) for part in self.parts)

    @property
    def n_levels(self) -> dict[int, int]:
        """Number of levels of every column that is read as codes, by position."""
        pairs = enumerate(self.levels or [])
        return {position: len(own) for position, own in pairs if own is not None and own.is_coded}

    def read_as(
        self,
        levels: list[Levels | None] | None,
        own: BinParams,
        fitted: Sequence[Mapping[int, NDArray[np.float64]]] | None = None,
    ) -> None:
        """Read categorical columns as the codes of levels from now on, or as numbers.

        fitted  for each part what TableReader.with_levels takes; None: the levels come from other rows
        """
        self.levels = levels
        of_parts = [None] * len(self.parts) if fitted is None else fitted
        self.parts = [reader.with_levels(levels, own) for reader, own in zip(self.parts, of_parts, strict=True)]
        for reader in self.parts:
            reader.zero_as_missing = own.zeros_are_missing


def _number(entry: Any) -> int:
    return int(entry[0])
