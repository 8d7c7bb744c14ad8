"""Data in: `Dataset` checks what it is given and bins it once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.binning import bin_table, encode_table
from hornbeam.backends.columns import find_facts
from hornbeam.core.errors import DataError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.locks import Lock
from hornbeam.core.log import inform, warn
from hornbeam.data.binning import BinMapper, BinnedData, BinParams
from hornbeam.data.column_names import same_columns
from hornbeam.data.columns import DeviceColumn, FindFacts
from hornbeam.data.device_arrays import check_device
from hornbeam.data.fields import ROW_FIELDS
from hornbeam.data.levels import Levels
from hornbeam.data.sources.labelled import column_roles
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.streams.table import UnheldTable
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.dataset.agreement import check_agreement
from hornbeam.dataset.file_columns import keeps_arguments
from hornbeam.dataset.kept import KeptTable
from hornbeam.dataset.names import check_names, positions_of
from hornbeam.dataset.opened import open_data
from hornbeam.dataset.own_levels import warn_of_order, with_own_levels
from hornbeam.dataset.peer_methods import PeerMethods
from hornbeam.dataset.rows import whole_queries
from hornbeam.dataset.saved import with_saved
from hornbeam.params.params import BY_NAME, Params, canonical_names
from hornbeam.params.peer_arguments import CREATE_VALID, DATASET, takes_peer_arguments

_BIN_PARAMS = tuple(BinParams.__dataclass_fields__)


class Dataset(PeerMethods):
    """A table of features with labels and weights, binned once for any number of trainings.

    Parameters
    ----------
    data
        Features (n_rows, n_features): NumPy array of floats, integers or booleans in any order; list of lists; pandas,
        polars or pyarrow table of numeric, boolean, date, string and category columns; array on a CUDA device (CuPy,
        PyTorch, anything with DLPack or `__cuda_array_interface__`), which is binned there; sparse matrix or array of
        SciPy (CSR, or what becomes CSR), or pandas table of sparse columns, whose zeros are never filled in. NaN and
        nulls are missing values. Neither copied nor changed. Or what a table is read from, see docs/inputs.md: path of
        Parquet, CSV, Arrow or LibSVM files, lazy frame, Arrow stream, tensor, collection of Dask. Or a `Stream`, which
        is never in memory as a whole, see docs/streams.md.
    label
        (n_rows,) numbers of at most 1e38, or None. The name of a column of `data`, which then is no feature; so may be
        `weight`, `qid` and `init_score`. LibSVM files have labels, and perhaps queries, of their own. Labels, weights
        and initial scores in host memory are copied. Those on a CUDA device are read there by trainings on that device,
        and are not to be changed as long as the Dataset is used.
    weight
        (n_rows,) numbers >= 0, the largest from 1e-38 to 1e38, or None. With queries also (n_queries,): one weight for
        all rows of a query.
    group
        For ranking. Sizes of the queries, in row order; they add up to n_rows.
    qid
        Query id of every row, instead of `group`: integers or strings in any order, but the rows of a query lie
        together.
    init_score
        Raw scores to start from: (n_rows,), (n_rows, n_outputs) as `predict` returns them, (n_outputs, n_rows), or the
        latter flat. At most 1e38.
    label_lower_bound, label_upper_bound
        For `survival:aft`. Bounds of each row's time, (n_rows,): equal ones are an observed time, an upper bound of
        infinity is a right-censored one, a lower bound of 0 a left-censored one. `label` may then be left out.
    position
        For ranking by clicks: the position at which each row was shown, (n_rows,) whole numbers; its bias is learned.
    feature_weights
        For each feature a number >= 0, its weight in random choices of features (`feature_fraction...`), as the
        parameter `feature_weights` may be given.
    feature_names
        One name a feature; "auto" or None: the column names of a frame, else Column_0, Column_1, ...
    categorical_features
        Names or positions of the columns whose values are levels without an order: strings, categories, booleans or
        integers (negative ones are missing; what a sparse table does not hold is level 0). "auto" or None: the columns
        of strings and categories of a frame, unless the parameter `categorical_feature` names others. Columns of
        strings of an array of objects have to be named.
    max_bin, min_data_in_bin, bin_construct_sample_cnt, use_missing, zero_as_missing, is_enable_sparse,
    sparse_threshold, enable_bundle, target_encoding_levels, target_encoding_smooth
        Data parameters, see docs/parameters.md; None: those of the training, else the defaults.
    reference
        Training Dataset whose bins a validation set takes.
    cache
        Folder for the bins of a Stream, one file that is mapped; it goes with the Dataset, unless `save_binary` keeps
        it. None: the bins of a Stream stay in memory.
    params
        Data parameters by name or alias, as for LightGBM's Dataset, `label_column` and its like among them. What is of
        no concern to data is left to `train`.

    Attributes
    ----------
    data
        The table of features: what was given, not copied, or what was read.
    n_rows, n_features
        Shape.
    feature_names
        list of str.
    column_names
        Names of a frame's columns, where the features were given others; else None.
    label, weight
        float64 (n_rows,) or None, in host memory: what was given on a device is copied when this is first asked for.
    init_score
        float64 (n_outputs, n_rows) or None, likewise.
    group
        int64 (n_queries,), sizes of the queries, or None.
    query_boundaries
        int64 (n_queries + 1,), or None: query q has the rows `query_boundaries[q] : query_boundaries[q + 1]`.

    Notes
    -----
    The names that LightGBM and XGBoost have for these arguments work too.

    Examples
    --------
    >>> train_set = hb.Dataset(X, label=y)
    >>> valid_set = hb.Dataset(X_valid, label=y_valid, reference=train_set)
    >>> train_set.n_rows, train_set.n_features
    (2000, 28)
    """

    is_xgboosts = False  # whether trainings on it have XGBoost's defaults and ways, as on a DMatrix
    is_estimators = False  # whether an estimator made it, and no user
    _has_warned_of_categories = False

    @takes_peer_arguments(DATASET)
    @keeps_arguments
    def __init__(
        self,
        data: Any,
        label: Any = None,
        reference: Dataset | None = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        feature_names: Sequence[str] | str | None = "auto",
        categorical_features: Sequence[Any] | str | None = "auto",
        params: Mapping[str, Any] | None = None,
        *,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        position: Any = None,
        feature_weights: Any = None,
        max_bin: int | None = None,
        min_data_in_bin: int | None = None,
        bin_construct_sample_cnt: int | None = None,
        use_missing: bool | None = None,
        zero_as_missing: bool | None = None,
        is_enable_sparse: bool | None = None,
        sparse_threshold: float | None = None,
        enable_bundle: bool | None = None,
        target_encoding_levels: int | None = None,
        target_encoding_smooth: float | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        given = {"label": label, "weight": weight, "group": group, "qid": qid, "init_score": init_score}
        given |= dict(zip(ROW_FIELDS, (label_lower_bound, label_upper_bound, position), strict=True))
        given["feature_weights"] = feature_weights
        data, given, params, feature_names, categorical_features = with_saved(
            data, given, params, feature_names, categorical_features
        )
        feature_weights = given.pop("feature_weights")
        self.given_params = dict(params or {})
        params, self.roles = column_roles(self.given_params)
        own_params = {} if bin_construct_sample_cnt is None else {"bin_construct_sample_cnt": bin_construct_sample_cnt}
        hints = {**params, **own_params, "categories": categorical_features}
        self.data, self._reader, fields = open_data(data, given, self.roles, reference, cache, hints)
        super().__init__(self._reader.n_rows, self._reader.n_features)
        self._binned: BinnedData | None = None
        self._bin_params: BinParams | None = None
        self._set_fields(**fields)
        own = (max_bin, min_data_in_bin, bin_construct_sample_cnt, use_missing, zero_as_missing, is_enable_sparse,
               sparse_threshold, enable_bundle, target_encoding_levels, target_encoding_smooth)  # fmt: skip
        self._own_params: dict[str, Any] = {
            name: BY_NAME[name].check(value) for name, value in zip(_BIN_PARAMS, own, strict=False) if value is not None
        }
        chosen = self._take_params(params, "auto" if categorical_features is None else categorical_features)
        self._is_by_type = isinstance(chosen, str) and chosen == "from_dtype"  # as scikit-learn has it
        self.reference = reference
        named = self._reader.names
        if feature_names is not None and not (isinstance(feature_names, str) and feature_names == "auto"):
            if isinstance(feature_names, str) or not isinstance(feature_names, Iterable):
                raise DataError(f'feature_names={feature_names!r}: pass a list of {self.n_features} names, or "auto"')
            named = list(feature_names)
        if named is not None:
            check_names(named, self.n_features)
        self.has_names = named is not None
        self.column_names = self._reader.names if named is not None and named != self._reader.names else None
        if reference is not None:
            self._check_reference(reference, named)
            named = reference.feature_names
        self.feature_names: list[str] = named if named is not None else [f"Column_{i}" for i in range(self.n_features)]
        self._set_fields(feature_weights=feature_weights)
        self._categorical = self._positions(chosen, "categorical_features")
        if self._categorical is not None:
            self._check_categorical(self._categorical)
        self._lock = Lock()

    def _find_facts(self) -> FindFacts:
        """Return what looks at columns on a device."""
        return find_facts

    def _set_fields(self, **given: Any) -> Dataset:
        """Check and set fields as `Fields` does; not those that the bins depend on already."""
        if self.is_binned and self.encoded_features:
            raise DataError(
                f"{', '.join(given)}: the Dataset is binned with mean labels of categorical features; make a new one"
            )
        return super()._set_fields(**given)

    def _take_params(
        self, params: Mapping[str, Any] | None, categorical_features: Sequence[Any] | str
    ) -> Sequence[Any] | str:
        """Enter the data parameters among some parameters; returns the categorical features, if they are there."""
        given = canonical_names(params or {})
        for name in [name for name in given if name in _BIN_PARAMS]:
            value = given.pop(name)
            if self._own_params.setdefault(name, value) != value:
                raise DataError(f"{name}={self._own_params[name]!r}, but params has {name}={value!r}; give one of them")
        named: Sequence[Any] | str = given.pop("categorical_feature", "auto")
        if given:
            inform(f"Dataset leaves to train: {', '.join(given)}", given.get("verbosity", 1))
        if isinstance(categorical_features, str):
            return named if categorical_features == "auto" else categorical_features
        if not isinstance(named, str) and list(named) != list(categorical_features):
            raise DataError(
                f"categorical_features={list(categorical_features)}, but params has "
                f"categorical_feature={list(named)}; give one of them"
            )
        return categorical_features

    def _check_reference(self, reference: Dataset, named: list[str] | None) -> None:
        if not isinstance(reference, Dataset):
            raise DataError(f"reference must be a Dataset, not {type(reference).__name__}; pass the training Dataset")
        if reference.n_features != self.n_features:
            raise DataError(
                f"data has {self.n_features} features and the reference Dataset {reference.n_features}; pass the same "
                "columns in the same order"
            )
        known = named is not None and named == reference.column_names
        if named is not None and reference.has_names and not known and not same_columns(named, reference.feature_names):
            position = next(i for i, name in enumerate(named) if name != reference.feature_names[i])
            raise DataError(
                f"feature {position} is {named[position]!r} and {reference.feature_names[position]!r} in the reference "
                "Dataset; pass the same columns in the same order"
            )
        there = vars(reference._bin_params) if reference.is_binned else reference._own_params
        for name, value in self._own_params.items():
            if name not in there or there[name] != value:
                raise DataError(
                    f"{name}={value!r} together with reference: the reference's bins are taken; set {name} there"
                )

    def set_reference(self, reference: Dataset) -> Dataset:
        """Take the bins of another Dataset, only before `construct`; returns self."""
        if self.is_binned:
            raise DataError("reference: the Dataset is binned already; pass reference= when making it")
        self._check_reference(reference, self.feature_names if self.has_names else None)
        self.reference = reference
        return self

    def _positions(self, given: Sequence[Any] | str, what: str) -> tuple[int, ...] | None:
        """Return the positions of categorical features given by name or position, ascending; None for "auto".

        Columns of a category type are among them even where they were not given.
        """
        positions, reader = positions_of(given, what, self.feature_names), self._reader
        if positions is None:
            return None
        more = [p for p in reader.level_columns if p not in positions and reader.holds_categories(p)]
        if more and not self._has_warned_of_categories:
            named = ", ".join(repr(reader.column_name(position)) for position in more[:5])
            warn(f"{what} does not name {named}, of a category type: categorical all the same (LightGBM takes codes)")
            self._has_warned_of_categories = True
        return tuple(sorted({*positions, *more}))

    def _check_categorical(self, positions: tuple[int, ...]) -> None:
        """Check that columns of strings and categories are all among the categorical features."""
        missed = [position for position in self._reader.level_columns if position not in positions]
        if missed:
            named = ", ".join(repr(self._reader.column_name(position)) for position in missed[:5])
            raise DataError(
                f"data has columns that are not numbers and not among the categorical features: {named}; name these "
                "in categorical_features, drop them, or code them as numbers"
            )

    def _find_categorical(self, params: Params | None) -> tuple[int, ...]:
        """Return the positions of the categorical features, from the Dataset or from the training parameters."""
        asked = None if params is None else self._positions(params.categorical_feature, "categorical_feature")
        if asked is not None:
            if self._categorical is not None and asked != self._categorical:
                raise DataError(
                    f"categorical_feature={list(asked)} in the training parameters, but the Dataset has "
                    f"categorical_features={list(self._categorical)}; make them equal, or leave one out"
                )
            self._check_categorical(asked)
            return asked
        if self._categorical is None and not self._reader.has_types:
            self._check_categorical(())
        by_type = self._is_by_type or self.is_xgboosts or (params and params.categorical_feature == "from_dtype")
        if self._categorical is None and not by_type:
            warn_of_order(self._reader, self.feature_names)
        return tuple(self._reader.level_columns) if self._categorical is None else self._categorical

    @property
    def reader(self) -> TableReader:
        """The table, to be read block by block."""
        return self._reader

    def pieces(self) -> Iterable[tuple[slice, TableReader]]:
        """Return the pieces of the table that this process has, and which rows they are, in the order of rows."""
        return self.reader.pieces()

    def read_rows(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start to stop as trees read them, float64 (stop - start, n_features); bins where none is held."""
        if isinstance(self.reader, UnheldTable):
            return self.binned.block(start, stop).astype(np.float64)
        return self.reader.read(start, stop)

    @property
    def levels(self) -> list[Levels | None] | None:
        """Levels of each categorical feature, None for the others (the Dataset is binned first if need be).

        None alone: no feature is categorical.
        """
        self.construct()
        return self._reader.levels

    @property
    def categorical_features(self) -> list[int]:
        """Positions of the categorical features (the Dataset is binned first if need be)."""
        return [position for position, own in enumerate(self.levels or []) if own is not None]

    @property
    def is_binned(self) -> bool:
        """Whether `construct` has been called."""
        return self._binned is not None

    @property
    def bin_params(self) -> BinParams:
        """The data parameters the Dataset was binned with (it is binned first if need be)."""
        self.construct()
        assert self._bin_params is not None
        return self._bin_params

    @property
    def binned(self) -> BinnedData:
        """The bins (made first if need be)."""
        self.construct()
        assert self._binned is not None
        return self._binned

    @property
    def mapper(self) -> BinMapper:
        """How values are binned."""
        return self.binned.mapper

    @property
    def encoded_features(self) -> list[int]:
        """Positions of the categorical features that are replaced by mean labels, see target_encoding.py."""
        return [position for position, own in enumerate(self.levels or []) if isinstance(own, EncodedLevels)]

    def construct(self, params: Params | None = None, init_levels: Sequence[Levels | None] | None = None) -> Dataset:
        """Bin the data, unless that has been done; return self.

        Parameters
        ----------
        params
            Training parameters. Data parameters (`max_bin`, ...) that are given there must agree with those of the
            Dataset, or of its binning if it is binned already.
        init_levels
            `Booster.levels` of a model to train on, whose target encodings are kept.

        Raises
        ------
        DataError
            If they do not agree.
        DeviceError
            If the data, labels, weights or initial scores are on another device than the training shall be.
        """
        if params is not None:
            if self._reader.device is not None:
                check_device(self._reader.device, params.device)
            for name, column in self._columns.items():
                if isinstance(column, DeviceColumn):
                    check_device(column.device, params.device, name)
        with self._lock, default_mode():
            if self.reference is not None:
                self.reference.construct(params)
            elif self._binned is None:
                check_agreement(self._own_params, params, "the Dataset has")
            else:
                check_agreement(vars(self._bin_params), params, "the Dataset is already binned with")
                self._check_binned_categorical(params)
            if self._binned is None:
                self._bin(params, init_levels)
            elif self._binned.mapped is not None:
                self._binned.mapped.check_size()
        return self

    def begin_training(self, params: Params, init_levels: Sequence[Levels | None] | None = None) -> Dataset:
        """Bin the data for a training on them; see `construct`."""
        return self.construct(params, init_levels)

    @takes_peer_arguments(CREATE_VALID)
    def create_valid(
        self,
        data: Any,
        label: Any = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        params: Mapping[str, Any] | None = None,
        position: Any = None,
    ) -> Dataset:
        """Make a validation set with the bins of this Dataset: `Dataset(data, label, reference=self, ...)`.

        Data parameters in `params` must be those of this Dataset.
        """
        return Dataset(data, label, self, weight, group, init_score, params=params, position=position)

    def take_rows(
        self, rows: NDArray[np.intp], reference: Dataset | None = None, params: Mapping[str, Any] | None = None
    ) -> Dataset:
        """Make a Dataset of some rows, with data parameters of its own; its queries are the whole ones among them."""
        boundaries, label, weight, init_score = self.query_boundaries, self.label, self.weight, self.init_score
        named, automatic = self.has_names or self.reference is not None, "from_dtype" if self._is_by_type else "auto"
        others: dict[str, Any] = {name: self.row_field(name) for name in ROW_FIELDS}
        return Dataset(
            self.reader.take(rows),
            label=None if label is None else label[rows],
            weight=None if weight is None else weight[rows],
            group=None if boundaries is None else whole_queries(boundaries, rows),
            init_score=None if init_score is None else np.ascontiguousarray(init_score[:, rows].T),
            feature_names=self.feature_names if named else "auto",
            categorical_features=automatic if self._categorical is None else list(self._categorical),
            reference=reference,
            params=params,
            **{name: None if field is None else field[rows] for name, field in others.items()},
            feature_weights=self.feature_weights,
            **({} if reference is not None else self._own_params),
        )

    def __repr__(self) -> str:
        return f"<hornbeam.{type(self).__name__}: {self.n_rows:,} rows, {self.n_features:,} features>"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())

    def _check_binned_categorical(self, params: Params | None) -> None:
        """Check that the parameters name the categorical features that the Dataset is binned with."""
        asked = None if params is None else self._positions(params.categorical_feature, "categorical_feature")
        binned = tuple(position for position, own in enumerate(self._reader.levels or []) if own is not None)
        if asked is not None and asked != binned:
            raise DataError(
                f"categorical_feature={list(asked)} in the training parameters, but the Dataset is already binned with "
                f"categorical features {list(binned)}; make them equal, or make a new Dataset"
            )

    def _bin(self, params: Params | None, init_levels: Sequence[Levels | None] | None) -> None:
        if isinstance(self._reader, KeptTable):
            self._bin_params = self._reader.bin_params
            check_agreement(vars(self._bin_params), params, "the file is binned with")
            self._binned = self._reader.binned() if self.reference is None else self._reader.binned_as(self.reference)
            self._check_binned_categorical(params)
            return
        if self.reference is not None:
            mapper = self.reference.mapper
            if self._categorical is not None and list(self._categorical) != self.reference.categorical_features:
                raise DataError(
                    f"categorical_features={list(self._categorical)}, but the reference Dataset has "
                    f"{self.reference.categorical_features}; make them equal, or leave them out here"
                )
            self._reader.other_numbers = "missing"
            self._reader = self._reader.with_levels(self.reference.levels)
            own = self._bin_params = self.reference.bin_params
            self._reader.zero_as_missing = own.zeros_are_missing
            bins = encode_table(self._reader, mapper, own, params, self.reference.binned)
            self._binned = BinnedData(mapper, bins)
            return
        own = self._bin_params = BinParams.of(params, self._own_params)
        own.check(self.n_features)
        self._reader.zero_as_missing = own.zeros_are_missing
        categorical, one_class = self._find_categorical(params), params is None or params.num_class == 1
        self._reader = with_own_levels(self._reader, self, categorical, own, one_class, init_levels)
        self._binned = bin_table(self._reader, own, params)
