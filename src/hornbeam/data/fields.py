"""What belongs to the rows of a data set: labels, weights, queries, initial scores; and weights of its features.

Objective and metric functions written for these libraries ask the Dataset for its labels by `get_label()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.columns import (
    Column,
    FindFacts,
    check_bound,
    check_init_score,
    check_labels,
    check_position,
    check_weight,
    column_on,
    host_of,
    query_sizes,
)
from hornbeam.data.device_arrays import device_of, host_array
from hornbeam.data.queries import boundaries_of
from hornbeam.params.constraints import WEIGHTS, parse_weights, resolve_weights
from hornbeam.params.peer_arguments import DATASET_ATTRIBUTES, PeerAttributes

SelfFields = TypeVar("SelfFields", bound="Fields")
Floats = TypeVar("Floats")
Integers = TypeVar("Integers")
T = TypeVar("T")

BOUNDS = ("label_lower_bound", "label_upper_bound")
"""Fields of times that are known to lie between two bounds: see objectives/aft.py."""

ROW_FIELDS = (*BOUNDS, "position")
"""Fields of one number a row that only some objectives look at; positions: see objectives/position_bias.py."""

SETTABLE = ("label", "weight", "group", "init_score", *ROW_FIELDS, "feature_weights")
"""Fields that `set_field` takes."""


class FieldGetters(Generic[Floats, Integers]):
    """Labels, weights, queries and initial scores by the methods; who inherits has the attributes."""

    _holder = "a Dataset"
    """Who has the fields, for errors."""

    feature_weights: Floats | None = None
    """Weights of the features in random choices of them, float64 (n_features,), or None; see docs/parameters.md."""

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
        """Return the labels, float64 (n_rows,) or (n_rows, n_columns), or None."""
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

    def row_field(self, name: str) -> Floats | None:
        """Return one of `ROW_FIELDS`, float64 (n_rows,), or None."""
        return None

    def get_position(self) -> Floats | None:
        """Return the positions, float64 (n_rows,), or None."""
        return self.row_field("position")

    def get_field(self, field_name: str) -> Floats | Integers | None:
        """Return a field: "label", "weight", "group", "init_score", "position", "feature_weights" or a bound of times.

        Of the queries it returns where they begin, `query_boundaries`, as LightGBM's does: functions walk through them.
        Their sizes, which `set_field` takes, are `get_group()`.
        """
        getters: dict[str, Callable[[], Floats | Integers | None]] = {
            "label": lambda: self.label,
            "weight": lambda: self.weight,
            "group": lambda: self.query_boundaries,
            "init_score": self.get_init_score,
            **{name: lambda name=name: self.row_field(name) for name in ROW_FIELDS},  # type: ignore[misc]
            "feature_weights": lambda: self.feature_weights,
        }
        if field_name not in getters:
            raise DataError(f"field {field_name!r}: {self._holder} has {', '.join(getters)}")
        return getters[field_name]()


class Fields(FieldGetters[NDArray[np.float64], NDArray[np.int64]], PeerAttributes):
    """The rows of a data set, apart from their features: what objectives, metrics and engines see of a Dataset.

    Attributes
    ----------
    n_rows, n_features
        Shape of the table.
    feature_names
        list of str.
    group
        int64 (n_queries,), sizes of the queries, or None.
    query_boundaries
        int64 (n_queries + 1,): query q owns the rows query_boundaries[q] : query_boundaries[q + 1]; or None.
    """

    _instead = DATASET_ATTRIBUTES
    data: Any
    feature_names: list[str]

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.group: NDArray[np.int64] | None = None
        self.query_boundaries: NDArray[np.int64] | None = None
        self._columns: dict[str, Column | None] = dict.fromkeys(("label", "weight", "init_score", *ROW_FIELDS))
        self._derived: dict[str, Any] = {}

    @property
    def label(self) -> NDArray[np.float64] | None:
        """The labels in host memory."""
        return host_of(self._columns["label"])

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """The weights in host memory."""
        return host_of(self._columns["weight"])

    @property
    def init_score(self) -> NDArray[np.float64] | None:
        """The initial scores in host memory."""
        return host_of(self._columns["init_score"])

    @property
    def n_targets(self) -> int:
        """Columns of the labels: 1 for one label a row, and where there are none."""
        label = self._columns["label"]
        return 1 if label is None or label.ndim == 1 else int(label.shape[1])

    def row_field(self, name: str) -> NDArray[np.float64] | None:
        """Return one of `ROW_FIELDS`, float64 (n_rows,), or None."""
        return host_of(self._columns[name])

    @property
    def bounds(self) -> NDArray[np.float64] | None:
        """Lower and upper bounds of the times, float64 (2, n_rows), or None; DataError if they are no bounds."""
        lower, upper = (self.row_field(name) for name in BOUNDS)
        if lower is None and upper is None:
            return None
        if lower is None or upper is None:
            raise DataError(
                "label_lower_bound and label_upper_bound go together: an observed time has equal ones, a "
                "right-censored one the upper bound infinity, a left-censored one the lower bound 0"
            )
        return self.derived("bounds", lambda: _ordered(lower, upper))

    def derived(self, name: str, find: Callable[[], T]) -> T:
        """Return what `find` makes of the fields, made once and again after a field has changed."""
        if name not in self._derived:
            self._derived[name] = find()
        found: T = self._derived[name]
        return found

    def given(self, name: str) -> Column | None:
        """Return labels ("label"), weights ("weight") or initial scores ("init_score") wherever they are, or None."""
        return self._columns[name]

    def column(self, name: str, device: str) -> Any:
        """Return the same where a device finds them; the one way for engines to read them.

        A `DeviceColumn` where they were given on that very device ("cuda:0", ...), else an array in host memory.
        """
        return column_on(self._columns[name], device)

    def _find_facts(self) -> FindFacts | None:
        """Return what looks at columns on a device; None: they are copied to the host."""
        return None

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

    def set_label(self: SelfFields, label: Any) -> SelfFields:
        """Take other labels, as in the constructor, or None for none; returns self."""
        return self._set_fields(label=label)

    def set_weight(self: SelfFields, weight: Any) -> SelfFields:
        """Take other weights, as in the constructor, or None for none; returns self."""
        return self._set_fields(weight=weight)

    def set_group(self: SelfFields, group: Any) -> SelfFields:
        """Take other queries, as in the constructor, or None for none; returns self."""
        return self._set_fields(group=group)

    def set_init_score(self: SelfFields, init_score: Any) -> SelfFields:
        """Take other initial scores, as in the constructor, or None for none; returns self."""
        return self._set_fields(init_score=init_score)

    def set_position(self: SelfFields, position: Any) -> SelfFields:
        """Take other positions, as in the constructor, or None for none; returns self."""
        return self._set_fields(position=position)

    def set_field(self: SelfFields, field_name: str, data: Any) -> SelfFields:
        """Take other values of a field of `get_field`, of "group" sizes, or None for none; returns self."""
        if field_name not in SETTABLE:
            raise DataError(f"field {field_name!r}: {self._holder} has {', '.join(SETTABLE)}")
        return self._set_fields(**{field_name: data})

    def _set_fields(self: SelfFields, **given: Any) -> SelfFields:
        """Check and set those of the fields that are given, group or qid among them; None takes one away."""
        n_rows, find_facts = self.n_rows, self._find_facts()
        self._derived = {}
        if "group" in given:  # before weights, of which there may be one a query
            self.group = query_sizes(given["group"], given.get("qid"), n_rows)
            self.query_boundaries = None if self.group is None else boundaries_of(self.group)
        checks: dict[str, Callable[[Any], Column]] = {
            "label": lambda label: check_labels(label, n_rows, find_facts),
            "weight": lambda weight: check_weight(weight, n_rows, self.group, find_facts),
            "init_score": lambda init_score: check_init_score(init_score, n_rows, find_facts),
            **{name: lambda bound, name=name: check_bound(bound, n_rows, name) for name in BOUNDS},  # type: ignore[misc]
        }
        checks["position"] = lambda position: check_position(position, n_rows)
        for name, check in checks.items():
            if name in given:
                self._columns[name] = None if given[name] is None else check(given[name])
        if "feature_weights" in given:
            self.feature_weights = check_feature_weights(given["feature_weights"], self.feature_names)
        return self


def check_feature_weights(weights: Any, feature_names: Sequence[str]) -> NDArray[np.float64] | None:
    """Return weights of features, given as the parameter may be, float64 (n_features,); None: there are none."""
    try:
        value = parse_weights(host_array(weights) if device_of(weights, "feature_weights") is not None else weights)
    except (ValueError, TypeError):
        raise DataError(f"feature_weights={weights!r}: must be {WEIGHTS}") from None
    return None if value is None else resolve_weights(value, feature_names)


def _ordered(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return both bounds, float64 (2, n_rows); raise DataError where the lower one is above the other."""
    wrong = lower > upper
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"label_lower_bound[{row}] is {lower[row]} and label_upper_bound[{row}] is {upper[row]}; the lower bound "
            "of a time must not be above the upper one"
        )
    return np.stack([lower, upper])
