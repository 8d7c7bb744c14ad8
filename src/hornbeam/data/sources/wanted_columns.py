"""Which columns are wanted of a source that is read, and what is read of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.core.log import inform
from hornbeam.data.column_names import are_made_up
from hornbeam.data.sources.arrow import is_arrow_table


@dataclass(frozen=True)
class Loaded:
    """A table that was read, and what its file says besides, by field: labels and queries of LibSVM files."""

    table: Any
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a source.

    features    names of the columns, in order, in one or more spellings of which one has to be there; none: all columns
    others      names of columns besides: labels, weights, queries
    n_features  of LibSVM files, whose columns have no names; None: as many as there are
    header      whether the first line of a CSV file holds names; None: it does unless it holds numbers alone
    """

    features: tuple[Sequence[str], ...] = ()
    others: tuple[str, ...] = ()
    n_features: int | None = None
    header: bool | None = None

    def choose(self, names: Sequence[str], source: str, are_given: bool = True) -> list[str] | None:
        """Return the names of the columns to read, in order; None: all as they are.

        names      of the columns that there are
        source     what messages call it
        are_given  whether the source has these names, or they are made up for its places
        """
        if not self.features:
            return None
        taken = [other for other in self.others if other in names]
        if not are_given and any(list(own) == list(names[: len(own)]) for own in self.features):
            self._check_places(names, taken, source)
            return None
        spelling = next((own for own in self.features if set(own) <= set(names)), None)
        if spelling is None:
            if len(names) - len(taken) == len(self.features[0]) and are_made_up(names):
                return None
            missing = [feature for feature in self.features[0] if feature not in names]
            raise DataError(
                f"{source} has no column {_listed(missing)}; the model needs {_listed(list(self.features[0]))}, and "
                f"there are {_listed(list(names))}: rename or add columns"
            )
        left = [column for column in names if column not in spelling and column not in taken]
        if left:
            inform(f"{source}: not read, since they are no features: {_listed(left)}")
        return [*spelling, *(other for other in taken if other not in spelling)]

    def _check_places(self, names: Sequence[str], taken: Sequence[str], source: str) -> None:
        """Raise unless as many columns without names are left as there are features, which have no names either.

        One column more may be the label, the first or the last one: names that nobody gave do not tell.
        """
        n_features = len(self.features[0])
        if len(names) - len(taken) != n_features:
            raise DataError(
                f"{source} has {len(names)} columns without names, and the model {n_features} features, whose places "
                f"there are not known; name the label: predict(Dataset({source!r}, label='Column_0')), or --keep "
                "Column_0 of `hornbeam predict`; or pass the features alone"
            )

    def chosen(self, loaded: Loaded, source: str) -> Loaded:
        """Return the wanted columns of a pyarrow table that was read whole."""
        names = self.choose(loaded.table.column_names, source)
        return loaded if names is None else Loaded(loaded.table.select(names), loaded.fields)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def first_columns(table: Any, n_features: int) -> Any:
    """Return the first columns of an array, a sparse matrix or a frame; what has no more is returned as it is."""
    shape: Any = getattr(table, "shape", ())
    if len(shape) != 2 or not isinstance(shape[1], int) or shape[1] <= n_features:
        return table
    if is_arrow_table(table):
        return table.select(list(range(n_features)))
    return table.iloc[:, :n_features] if hasattr(table, "iloc") else table[:, :n_features]
