"""What belongs to the rows of a Dataset, by the methods that LightGBM's and XGBoost's users call.

Objective and metric functions written for these libraries ask the Dataset for its labels by `get_label()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.params.peer_arguments import CREATE_VALID, DATASET_ATTRIBUTES, PeerAttributes, takes_peer_arguments

if TYPE_CHECKING:
    from hornbeam.dataset.dataset import Dataset

Fields = TypeVar("Fields", bound="DatasetFields")
Floats = TypeVar("Floats")
Integers = TypeVar("Integers")


class FieldGetters(Generic[Floats, Integers]):
    """Labels, weights, queries and initial scores by the methods; who inherits has the attributes."""

    _holder = "a Dataset"
    """Who has the fields, for errors."""

    if TYPE_CHECKING:

        @property
        def label(self) -> Floats | None:
            """The labels."""

        @property
        def weight(self) -> Floats | None:
            """The weights."""

        @property
        def init_score(self) -> Floats | None:
            """The initial scores."""

        @property
        def group(self) -> Integers | None:
            """The sizes of the queries."""

        @property
        def query_boundaries(self) -> Integers | None:
            """The rows where queries begin, and the number of rows."""

    def get_label(self) -> Floats | None:
        """Return the labels, float64 (n_rows,), or None."""
        return self.label

    def get_weight(self) -> Floats | None:
        """Return the weights, float64 (n_rows,), or None."""
        return self.weight

    def get_group(self) -> Integers | None:
        """Return the sizes of the queries, int64 (n_queries,), or None."""
        return self.group

    def get_init_score(self) -> Floats | None:
        """Return the initial scores, float64 (n_rows,) or (n_rows, n_outputs), or None."""
        scores: Any = self.init_score
        if scores is None:
            return None
        return scores[0] if len(scores) == 1 else scores.T  # type: ignore[no-any-return]

    def get_field(self, field_name: str) -> Floats | Integers | None:
        """Return "label", "weight", "group" or "init_score".

        Of the queries it returns where they begin, `query_boundaries`, as LightGBM's does: functions walk through them.
        Their sizes, which `set_field` takes, are `get_group()`.
        """
        getters: dict[str, Callable[[], Floats | Integers | None]] = {
            "label": self.get_label,
            "weight": self.get_weight,
            "group": lambda: self.query_boundaries,
            "init_score": self.get_init_score,
        }
        if field_name not in getters:
            raise DataError(f"field {field_name!r}: {self._holder} has {', '.join(getters)}")
        return getters[field_name]()


class DatasetFields(FieldGetters[NDArray[np.float64], NDArray[np.int64]], PeerAttributes):
    """The fields of a Dataset; `Dataset` sets the attributes."""

    _instead = DATASET_ATTRIBUTES
    data: Any
    n_rows: int
    n_features: int
    feature_names: list[str]

    def num_data(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def num_feature(self) -> int:
        """Return the number of features."""
        return self.n_features

    def get_data(self) -> Any:
        """Return the table as it was given."""
        return self.data

    def get_feature_name(self) -> list[str]:
        """Return the names of the features."""
        return list(self.feature_names)

    @property
    def feature_name(self) -> list[str]:
        """The names of the features."""
        return list(self.feature_names)

    def set_label(self: Fields, label: Any) -> Fields:
        """Take other labels, as in the constructor, or None for none; returns self."""
        return self._set_fields(label=label)

    def set_weight(self: Fields, weight: Any) -> Fields:
        """Take other weights, as in the constructor, or None for none; returns self."""
        return self._set_fields(weight=weight)

    def set_group(self: Fields, group: Any) -> Fields:
        """Take other queries, as in the constructor, or None for none; returns self."""
        return self._set_fields(group=group)

    def set_init_score(self: Fields, init_score: Any) -> Fields:
        """Take other initial scores, as in the constructor, or None for none; returns self."""
        return self._set_fields(init_score=init_score)

    def set_field(self: Fields, field_name: str, data: Any) -> Fields:
        """Take other values of "label", "weight", "group" (sizes) or "init_score", or None for none; returns self."""
        if field_name not in ("label", "weight", "group", "init_score"):
            raise DataError(f"field {field_name!r}: {self._holder} has label, weight, group, init_score")
        return self._set_fields(**{field_name: data})

    def _set_fields(self: Fields, **given: Any) -> Fields:
        """Check and set some fields; `Dataset` knows how."""
        raise NotImplementedError

    @takes_peer_arguments(CREATE_VALID)
    def create_valid(
        self,
        data: Any,
        label: Any = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Make a validation set with the bins of this Dataset: Dataset(data, label, reference=self, ...).

        Data parameters in `params` must be those of this Dataset.
        """
        from hornbeam.dataset.dataset import Dataset

        assert isinstance(self, Dataset)
        return Dataset(data, label, self, weight=weight, group=group, init_score=init_score, params=params)

    def subset(
        self, used_indices: Sequence[int] | NDArray[np.integer[Any]], params: Mapping[str, Any] | None = None
    ) -> Dataset:
        """Make a Dataset of some rows, by their numbers; it finds bins of its own.

        Data parameters in `params` must not contradict those that were given to this Dataset.
        """
        from hornbeam.dataset.dataset import Dataset
        from hornbeam.training.folds import row_numbers, take_rows

        assert isinstance(self, Dataset)
        return take_rows(self, row_numbers(used_indices, self.n_rows, "used_indices"), params=params)
