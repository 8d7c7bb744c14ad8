"""Methods of a Dataset that users of LightGBM and XGBoost know, and that say or change what it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hornbeam.core.errors import DataError
from hornbeam.data.binning import BinnedData
from hornbeam.data.column_names import are_made_up
from hornbeam.data.fields import ROW_FIELDS, SETTABLE, Fields
from hornbeam.data.streams.table import UnheldTable
from hornbeam.dataset.joined_tables import side_by_side
from hornbeam.dataset.kept import write_kept
from hornbeam.dataset.names import check_names
from hornbeam.dataset.rows import row_numbers
from hornbeam.dataset.saved import write_saved
from hornbeam.params.params import whole_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from hornbeam.data.binning import BinMapper
    from hornbeam.data.sources.reader import TableReader


class PeerMethods(Fields):
    """What LightGBM's Dataset and XGBoost's DMatrix have besides; `Dataset` is one."""

    def get_params(self) -> dict[str, Any]:
        """Return the data parameters that the Dataset was made with."""
        return dict(self._own_params)

    def feature_num_bin(self, feature: int | str) -> int:
        """Return the number of bins of a feature, by name or position, with that of missing values if it has any."""
        if isinstance(feature, str) and feature not in self.feature_names:
            raise DataError(f"feature {feature!r} is not in the data; features are {self.feature_names[:5]}")
        number = self.feature_names.index(feature) if isinstance(feature, str) else feature
        place = whole_number(number, "feature", 0, self.n_features - 1)
        mapper = self.mapper
        return int(mapper.n_value_bins[place]) + int(mapper.use_missing and mapper.has_missing[place])

    def set_feature_name(self, feature_name: Sequence[str] | str) -> Self:
        """Give the features other names; "auto" leaves them; returns self."""
        if isinstance(feature_name, str):
            if feature_name != "auto":
                raise DataError(f'feature_name={feature_name!r}: pass a list of {self.n_features} names, or "auto"')
            return self
        names = list(feature_name)
        check_names(names, self.n_features)
        if self.reference is not None and names != self.reference.feature_names:
            raise DataError("the names of a validation set are those of its reference; set them there")
        self.column_names = self.column_names or (self.feature_names if self.has_names else None)
        self.feature_names, self.has_names = names, True
        return self

    def set_categorical_feature(self, categorical_feature: Sequence[Any] | str) -> Self:
        """Name the categorical features, as `categorical_features` of the constructor; returns self."""
        positions = self._positions(categorical_feature, "categorical_feature")
        if self.is_binned and positions is not None and list(positions) != self.categorical_features:
            raise DataError(
                f"the Dataset is binned with categorical features {self.categorical_features}; make a new one"
            )
        if positions is not None:
            self._check_categorical(positions)
        self._categorical = positions
        self._is_by_type = isinstance(categorical_feature, str) and categorical_feature == "from_dtype"
        return self

    def get_ref_chain(self, ref_limit: int = 100) -> set[Any]:
        """Return the Dataset, its reference, the reference of that, and so on, at most so many."""
        chain: list[Any] = []
        last: Any = self
        while last is not None and len(chain) < ref_limit and not any(last is one for one in chain):
            chain.append(last)
            last = last.reference
        return set(chain)

    def add_features_from(self, other: Any) -> Self:
        """Take the columns of another Dataset, of as many rows, after those there are; returns self.

        Labels, weights and data parameters stay. Columns that nobody named are numbered anew. Other names must differ.
        """
        if not isinstance(other, PeerMethods):
            raise DataError(f"add_features_from takes a Dataset, not {type(other).__name__}")
        if other.n_rows != self.n_rows:
            raise DataError(
                f"the Dataset has {self.n_rows} rows and the other one {other.n_rows}; they must be as many"
            )
        if self.feature_weights is not None or other.feature_weights is not None:
            raise DataError("add_features_from: set feature_weights afterwards, for all features, not before")
        table = side_by_side(self.data, other.data)
        names: Sequence[str] | str = "auto"
        if self.has_names or other.has_names:
            names = [*self.feature_names, *_renamed(other, self.n_features)]
        categories = [*(self._categorical or ()), *(self.n_features + place for place in other._categorical or ())]
        is_named = self._categorical is not None or other._categorical is not None
        make: Callable[..., PeerMethods] = type(self)
        made = make(
            table,
            self.label,
            weight=self.weight,
            group=self.group,
            init_score=self.get_init_score(),
            **{name: self.row_field(name) for name in ROW_FIELDS},
            feature_names=names,
            categorical_features=categories if is_named else "auto",
            params=self._own_params,
        )
        self.__dict__.update(made.__dict__)
        return self

    def save_binary(self, filename: str | os.PathLike[str]) -> Self:
        """Write table, labels, weights, queries, names and data parameters to a file; returns self.

        `Dataset(filename)` reads it, and a training gives the same model. The file holds arrays alone: reading it runs
        no code, as reading a pickle would. Of a Stream it holds the bins instead of the table, and this Dataset uses
        them there from now on.
        """
        if isinstance(self._reader, UnheldTable):
            file = write_kept(self, filename)
            self._binned = BinnedData(self.mapper, file)
        else:
            write_saved(self, filename)
        return self

    _is_by_type = False  # whether columns of a category type are meant as levels: "from_dtype"
    given_params: Mapping[str, Any] = MappingProxyType({})
    """Parameters as they were given, to the Dataset and to the last training on it."""

    used_indices: list[int] | None = None
    """Of a subset: the numbers of its rows in the whole; else None."""

    def subset(self, used_indices: Any, params: Mapping[str, Any] | None = None) -> Self:
        """Make a Dataset of some rows, by their numbers; it finds bins of its own.

        Data parameters in `params` must not contradict those that were given to this Dataset.
        """
        rows = row_numbers(used_indices, self.n_rows, "used_indices")
        made: Self = self.take_rows(rows, params=params)
        made.used_indices = rows.tolist()
        return made

    @property
    def pandas_categorical(self) -> list[list[Any]] | None:
        """The levels of each column of a category type, in ascending order, once it is binned; None: no such table."""
        if not self.is_binned or not self._reader.has_types:
            return None
        every = self._reader.levels or [None] * self.n_features
        levels = [every[place] for place in sorted(self.category_columns)]
        return [sorted(one for one in own.values if one is not None) for own in levels if own is not None]

    def num_row(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def num_col(self) -> int:
        """Return the number of features."""
        return self.n_features

    def slice(self, rindex: Any, allow_groups: bool = False) -> Any:
        """Make a Dataset of some rows, as `subset`; `allow_groups` asks for whole queries, which are kept anyway."""
        return self.subset(rindex)

    @property
    def categorical_feature(self) -> list[int]:
        """`categorical_features` by LightGBM's name."""
        return self.categorical_features

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that the Dataset was made with, and those of the last training on it."""
        return {**self._own_params, **self.given_params}

    @property
    def category_columns(self) -> frozenset[int]:
        """Positions of the columns of a category type, as far as the table is at hand."""
        reader = self._reader
        return frozenset(position for position in reader.level_columns if reader.holds_categories(position))

    @property
    def position(self) -> Any:
        """The positions at which rows were shown, float64 (n_rows,), or None."""
        return self.row_field("position")

    def set_info(self, **fields: Any) -> None:
        """Set fields by XGBoost's names: label, weight, base_margin, group, qid, feature_weights, feature_names, ..."""
        names = fields.pop("feature_names", None)
        if "base_margin" in fields:
            fields["init_score"] = fields.pop("base_margin")
        if "qid" in fields:
            fields.setdefault("group", None)
        known = (*SETTABLE, "qid")
        wrong = [name for name in fields if name not in known]
        if wrong:
            raise DataError(
                f"set_info({wrong[0]}=): a Dataset has label, weight, base_margin, group, qid, "
                f"{', '.join(ROW_FIELDS)}, feature_weights, feature_names"
            )
        self._set_fields(**fields)
        if names is not None:
            self.set_feature_name(names)

    def get_base_margin(self) -> Any:
        """Return the initial scores."""
        return self.get_init_score()

    def set_base_margin(self, margin: Any) -> None:
        """Set the initial scores."""
        self._set_fields(init_score=margin)

    def set_float_info(self, field: str, data: Any) -> None:
        """Set label, weight, base_margin, feature_weights or a bound of times, as XGBoost's does."""
        if field == "group":
            raise DataError("set_float_info('group'): sizes of queries are no floats; call set_group(sizes)")
        self.set_field("init_score" if field == "base_margin" else field, data)

    def get_float_info(self, field: str) -> Any:
        """Return label, weight, base_margin, feature_weights or a bound of times by XGBoost's names."""
        return self.get_field("init_score" if field == "base_margin" else field)

    def get_uint_info(self, field: str) -> Any:
        """Return the boundaries of the queries, which XGBoost calls "group_ptr"."""
        return self.get_field("group" if field == "group_ptr" else field)

    if TYPE_CHECKING:  # what Dataset has
        column_names: list[str] | None
        has_names: bool
        reference: Any
        _own_params: dict[str, Any]
        _reader: TableReader
        _binned: BinnedData | None
        _categorical: tuple[int, ...] | None
        _positions: Callable[[Any, str], tuple[int, ...] | None]
        _check_categorical: Callable[[tuple[int, ...]], None]
        take_rows: Callable[..., Any]

        @property
        def is_binned(self) -> bool:
            """Whether there are bins."""

        @property
        def mapper(self) -> BinMapper:
            """How values are binned."""

        @property
        def categorical_features(self) -> list[int]:
            """Positions of the categorical features."""


def _renamed(other: PeerMethods, first: int) -> list[str]:
    """Return the names of columns that come after others: those made up count on."""
    made_up = are_made_up(other.feature_names)
    return [f"Column_{first + i}" for i in range(other.n_features)] if made_up else list(other.feature_names)
