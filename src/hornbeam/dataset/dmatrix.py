"""`DMatrix`: a Dataset by XGBoost's name and arguments."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.binning import BinParams
from hornbeam.data.device_arrays import device_of, host_array
from hornbeam.data.fields import Fields
from hornbeam.data.sources.frame import as_frame
from hornbeam.data.sources.loading import load_table
from hornbeam.data.sources.markers import without_marker
from hornbeam.data.sources.series_tables import as_column, is_series
from hornbeam.data.streams.stream import Stream
from hornbeam.dataset.agreement import check_agreement
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.kept import KeptTable
from hornbeam.params.params import Params

CATEGORY = "c"
"""What XGBoost calls the type of a categorical feature; all others are numbers."""


class DataIter(abc.ABC):
    """Data that come in batches, as XGBoost's DataIter: a class of the user's own with `next` and `reset`."""

    def __init__(self, cache_prefix: str | None = None, **others: Any) -> None:
        self.cache_prefix = cache_prefix

    @abc.abstractmethod
    def next(self, input_data: Any) -> Any:
        """Hand the next batch to `input_data(data=, label=, weight=, ...)`, and return whether there was one."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Begin again."""


class DMatrix(Dataset):
    """A Dataset with the arguments of XGBoost's DMatrix; trainings and predictions take either.

    Parameters
    ----------
    data
        What `Dataset` takes, a `DataIter`, or a Series, which is a column. A path may end in
        "?format=csv&label_column=0".
    label, weight, group, qid, label_lower_bound, label_upper_bound, feature_names, feature_weights
        As for `Dataset`.
    base_margin
        `init_score` of `Dataset`. `predict` adds it to the scores of the rows.
    missing
        A number that marks missing values, besides NaN; None: NaN alone. The data are copied then.
    feature_types
        One a feature: "c" is a categorical feature, anything else a number. None: those of a frame.
    ref
        The training data whose bins a validation set takes, `reference` of `Dataset`.
    max_bin
        As for `Dataset`.
    nthread, silent, enable_categorical
        Taken, and without effect: threads are chosen by training, and categories of frames are known.
    """

    is_xgboosts = True

    def __init__(
        self,
        data: Any,
        label: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        *,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        ref: Dataset | None = None,
        max_bin: int | None = None,
        **others: Any,
    ) -> None:
        if isinstance(data, DataIter):
            data, fields = _gathered(data)
            label = fields.get("label", label)
            weight = fields.get("weight", weight)
            base_margin, qid = fields.get("base_margin", base_margin), fields.get("qid", qid)
            label_lower_bound = fields.get("label_lower_bound", label_lower_bound)
            label_upper_bound = fields.get("label_upper_bound", label_upper_bound)
        data = data.data if isinstance(data, Fields) else data
        data, roles = _without_format(as_column(data) if is_series(data) else data)
        if missing is not None and not np.isnan(missing):
            data = without_marker(load_table(data), missing)
        cache = others.pop("cache", None)  # of ExtMemQuantileDMatrix
        for name in others:
            refuse_argument(name)
        super().__init__(
            data,
            label,
            ref,
            weight,
            group,
            base_margin,
            feature_names if feature_names is not None else "auto",
            categories_of(feature_types),
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            max_bin=max_bin,
            cache=cache,
            params=roles,
        )
        self.types = None if feature_types is None else [str(kind) for kind in feature_types]
        self._whole, self._ref = self._reader, ref

    def construct(self, params: Params | None = None, init_levels: Any = None) -> Dataset:
        """Bin the data, as `Dataset.construct`, but anew where a training asks for other bins, as XGBoost does."""
        if self.reference is None and self.is_binned and not isinstance(self._whole, KeptTable):
            found = {name: value for name, value in vars(self._bin_params).items() if name not in self._own_params}
            try:
                check_agreement(found, params, "the Dataset is already binned with")
            except DataError:
                self.forget_bins()
        return super().construct(params, init_levels)

    def begin_training(self, params: Params, init_levels: Any = None) -> Dataset:
        """Bin the data as a training asks, whatever trainings and evaluations there were before."""
        if self.reference is not self._ref:  # another training evaluated it
            self.forget_bins(self._ref)
        is_free = self.reference is None and self.is_binned and not isinstance(self._whole, KeptTable)
        if is_free and BinParams.of(params, self._own_params) != self._bin_params:
            self.forget_bins()
        return super().begin_training(params, init_levels)

    def forget_bins(self, reference: Dataset | None = None) -> None:
        """Forget the bins: those of a training set are taken, or the next training finds them."""
        self._reader, self._binned, self.reference = self._whole, None, None
        if reference is not None:
            self.set_reference(reference)

    def take_rows(
        self, rows: NDArray[np.intp], reference: Dataset | None = None, params: Mapping[str, Any] | None = None
    ) -> DMatrix:
        """Make a DMatrix of some rows, as `Dataset.take_rows`."""
        made = DMatrix.__new__(DMatrix)
        made.__dict__.update(super().take_rows(rows, reference, params).__dict__)
        made._whole, made._ref, made.types, made.is_estimators = made._reader, reference, self.types, self.is_estimators
        return made

    def get_group(self) -> Any:
        """Return the sizes of the queries; an empty array where there are none, as XGBoost."""
        return _or_empty(super().get_group())

    def get_label(self) -> Any:
        """Return the labels; an empty array where there are none, as XGBoost."""
        return _or_empty(super().get_label())

    def get_weight(self) -> Any:
        """Return the weights; an empty array where there are none, as XGBoost."""
        return _or_empty(super().get_weight())

    def get_float_info(self, field: str) -> Any:
        """Return a field by XGBoost's name; an empty array where it is not set, as XGBoost."""
        return _or_empty(super().get_float_info(field))

    def get_base_margin(self) -> Any:
        """Return the initial scores; an empty array where there are none, as XGBoost."""
        return _or_empty(super().get_base_margin())

    def num_nonmissing(self) -> int:
        """Return the number of values that are not missing; of a sparse table, of those that it stores."""
        if self.data is None:
            raise DataError("num_nonmissing: the table is not kept once it is binned; count before training")
        table = load_table(self.data)
        frame = as_frame(table)
        if frame is None:
            values = np.asarray(table.data if hasattr(table, "nnz") else table)
            return int(values.size - np.count_nonzero(values != values))  # NaN alone differs from itself
        missing = 0
        for column in frame.iter_columns():
            is_missing = column.is_null()
            missing += int((is_missing | column.is_nan() if column.dtype.is_float() else is_missing).sum())
        return int(frame.shape[0] * frame.shape[1] - missing)

    def get_data(self) -> Any:
        """Return what is not missing as a CSR matrix of SciPy, float32, as XGBoost does; categories by their codes."""
        from scipy.sparse import csr_matrix

        if self.data is None:
            raise DataError("get_data: the table is not kept once it is binned; ask before training")
        table = load_table(self.data)
        if hasattr(table, "tocsr"):
            return table.tocsr().astype(np.float32)
        values = (self.construct().reader if self._whole.level_columns else self._whole).read(0, self.n_rows)
        is_there = ~np.isnan(values)
        ends = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])
        return csr_matrix((values[is_there].astype(np.float32), np.nonzero(is_there)[1], ends), values.shape)

    def get_quantile_cut(self) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Return where the bins of every feature end, as XGBoost does; the data are binned now, if they are not yet.

        Returns
        -------
        starts
            uint64 (n_features + 1,): the ends of feature f are values[starts[f]] to values[starts[f + 1] - 1].
        values
            float32: ascending for each feature, the first -inf, the last inf; bins have their upper end, not the lower.
        """
        self.construct()
        ends = [np.concatenate([[-np.inf], bounds]) for bounds in self.mapper.upper_bounds]
        starts = np.cumsum([0, *map(len, ends)]).astype(np.uint64)
        return starts, np.concatenate(ends).astype(np.float32)

    @property
    def feature_types(self) -> list[str] | None:
        """The types that were given, or those of a frame's columns: "c", "float", "int", "i" (booleans); else None."""
        categorical = self._whole.level_columns if self._categorical is None else self._categorical
        return self.types if self.types is not None else _types_of(self.data, categorical)

    @feature_types.setter
    def feature_types(self, feature_types: Sequence[str] | None) -> None:
        if self.is_binned:
            self.forget_bins(self.reference)
        self.set_categorical_feature(categories_of(feature_types))
        self.types = None if feature_types is None else [str(kind) for kind in feature_types]


def _or_empty(field: Any) -> Any:
    """Return a field, or an empty array in its place."""
    return np.zeros(0) if field is None else field


def _types_of(table: Any, categorical: Sequence[int]) -> list[str] | None:
    """Return what XGBoost calls the types of a frame's columns; None: it is no frame."""
    frame = as_frame(table)
    if frame is None:
        return None
    kinds = frame.schema.values()
    plain = ["i" if kind.is_boolean() else "int" if kind.is_integer() else "float" for kind in kinds]
    return [CATEGORY if place in categorical else kind for place, kind in enumerate(plain)]


IDLE = ("nthread", "silent", "enable_categorical", "max_quantile_batches", "data_split_mode")
"""Arguments of XGBoost's without effect here."""


def refuse_argument(name: str) -> None:
    """Raise for arguments that XGBoost's has not."""
    if name not in IDLE:
        raise TypeError(f"DMatrix got an unexpected argument {name!r}")


def categories_of(feature_types: Sequence[str] | None) -> Any:
    """Return the places of categorical features among types as XGBoost writes them; None: those of a frame."""
    if feature_types is None:
        return "auto"
    if isinstance(feature_types, str):
        raise DataError(f"feature_types={feature_types!r}: pass a list, one type a feature")
    return [place for place, kind in enumerate(feature_types) if kind == CATEGORY]


def _without_format(data: Any) -> tuple[Any, dict[str, str] | None]:
    """Return a path without what XGBoost's users write behind it, and the parameters that this stands for.

    "train.txt?format=libsvm", "train.csv?format=csv&label_column=0"; the content of the file tells its format, and a
    column that no line names is empty, from wherever features are counted ("indexing_mode=1").
    """
    path, _, query = data.partition("?") if isinstance(data, str) else ("", "", "")
    said = dict(part.split("=", 1) for part in query.split("&") if "=" in part)
    if "format" not in said:
        return data, None
    return path, {"label_column": said["label_column"]} if "label_column" in said else None


def _gathered(batches: DataIter) -> tuple[Any, dict[str, Any]]:
    """Return the table and the fields of all batches."""
    tables: list[Any] = []
    fields: dict[str, list[Any]] = {}
    for table, given in _batches(batches):
        tables.append(table)
        for name, value in given.items():
            fields.setdefault(name, []).append(value)
    if not tables:
        raise DataError("the DataIter has no batches; next() hands one to its argument and returns True")
    wrong = [name for name, parts in fields.items() if len(parts) != len(tables)]
    if wrong:
        raise DataError(f"the DataIter has {wrong[0]} in some batches and not in others; pass it in all")
    return _joined(tables), {name: np.concatenate(parts) for name, parts in fields.items()}


def _batches(source: DataIter) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the batches of a DataIter: tables where they are, and their fields in host memory, by XGBoost's names."""
    found: list[tuple[Any, dict[str, Any]]] = []

    def take(data: Any = None, **given: Any) -> None:
        names = [name for name, value in given.items() if value is not None]
        if "feature_weights" in names:
            raise DataError(
                "feature_weights belong to no batch of a DataIter; pass them where it goes: feature_weights="
            )
        fields = {name: host_array(given[name]) for name in names if name not in ("feature_names", "feature_types")}
        found.append((data if device_of(data, "data") is not None else np.asarray(data), fields))

    source.reset()
    while source.next(take):
        yield from found
        found.clear()


def _for_stream(table: Any, fields: dict[str, Any], missing: float | None) -> dict[str, Any]:
    """Return a batch as a Stream takes it, in host memory."""
    names = {"base_margin": "init_score"}
    return {"data": without_marker(host_array(table), missing), **{names.get(k, k): v for k, v in fields.items()}}


def _joined(tables: list[Any]) -> Any:
    """Return one table of all; those on a device are joined there."""
    device = device_of(tables[0], "data")
    if device is None:
        return np.concatenate([host_array(table) for table in tables])
    import cupy

    with cupy.cuda.Device(int(device.rpartition(":")[2])):
        return cupy.concatenate([cupy.asarray(table) for table in tables])


class QuantileDMatrix(DMatrix):
    """The same by its other name: every Dataset is binned once."""


class ExtMemQuantileDMatrix(QuantileDMatrix):
    """The same of data beyond memory: a `Stream` of the batches of a `DataIter`, whose bins are in a file.

    Parameters
    ----------
    data
        The batches. The file is in the folder of its `cache_prefix`; None: bins are in memory.
    missing, max_bin, ref, feature_weights
        As for `DMatrix`.
    others
        Arguments of XGBoost's about threads, devices and pages of its cache: taken, and without effect.
    """

    def __init__(
        self,
        data: DataIter,
        *,
        missing: float | None = None,
        max_bin: int | None = None,
        ref: Dataset | None = None,
        feature_weights: Any = None,
        **others: Any,
    ) -> None:
        if not isinstance(data, DataIter):
            raise DataError(
                f"ExtMemQuantileDMatrix takes a DataIter, not {type(data).__name__}; or use QuantileDMatrix"
            )
        for name in others:
            if name not in ABOUT_PAGES:
                refuse_argument(name)
        folder = None if data.cache_prefix is None else Path(data.cache_prefix).parent
        stream = Stream(lambda: (_for_stream(*batch, missing) for batch in _batches(data)))
        super().__init__(stream, ref=ref, max_bin=max_bin, feature_weights=feature_weights, cache=folder)


ABOUT_PAGES = ("max_num_device_pages", "min_cache_page_bytes", "cache_host_ratio", "on_host")
