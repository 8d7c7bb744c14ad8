"""Tables that hold their labels: columns that are named as label, weight or query are taken out of the features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.log import inform
from hornbeam.data.column_names import are_made_up
from hornbeam.data.sources.arrow import is_arrow_table
from hornbeam.data.sources.files import is_delimited
from hornbeam.data.sources.frame import as_frame
from hornbeam.data.sources.loading import load
from hornbeam.data.sources.series_values import arrow_values, series_values
from hornbeam.data.sources.wanted_columns import Loaded, Wanted

COLUMN_PARAMETERS = {
    "label_column": "label", "label": "label",
    "weight_column": "weight", "weight": "weight",
    **dict.fromkeys(("group_column", "group", "group_id", "query_column", "query", "query_id"), "qid"),
    **dict.fromkeys(("ignore_column", "ignore_feature", "blacklist"), "ignore"),
    **dict.fromkeys(("header", "has_header"), "header"),
}  # fmt: skip
"""LightGBM's parameters that say what the columns of a file are, and what each of them names."""


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a file are, as LightGBM's parameters say it.

    fields  columns of label, weight and qid, by name, or by position: of the label among all columns, of the others
            among those without the label
    ignore  columns that are no features, likewise
    header  as in `Wanted`
    """

    fields: Mapping[str, str | int]
    ignore: tuple[str | int, ...] = ()
    header: bool | None = None


def column_roles(params: Mapping[str, Any]) -> tuple[dict[str, Any], ColumnRoles]:
    """Return the other parameters, and what LightGBM's parameters of columns say: "name:y", "y", 0 or "0"."""
    others = {name: value for name, value in params.items() if name not in COLUMN_PARAMETERS}
    given: dict[str, Any] = {}
    for name, value in params.items():
        if name in COLUMN_PARAMETERS and value not in (None, ""):
            given[COLUMN_PARAMETERS[name]] = value
    header = given.pop("header", None)
    if isinstance(header, str):
        header = header.strip().lower() in ("true", "1", "+")
    ignored = given.pop("ignore", ())
    if isinstance(ignored, str):
        prefix = "name:" if ignored.startswith("name:") else ""
        ignored = [f"{prefix}{entry.strip()}" for entry in ignored.removeprefix("name:").split(",")]
    ignore = tuple(_column(entry) for entry in ([ignored] if isinstance(ignored, int) else ignored))
    fields = {name: _column(value) for name, value in given.items()}
    return others, ColumnRoles(fields, ignore, None if header is None else bool(header))


def _column(value: Any) -> str | int:
    """Return a column as LightGBM writes it: a position, "0", or "name:y"."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() else value.removeprefix("name:")
    return int(value)


def load_labelled(
    data: Any,
    fields: Mapping[str, Any],
    roles: ColumnRoles | None = None,
    features: tuple[Sequence[str], ...] = (),
    n_features: int | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return a table of features, and label, weight, qid and init_score: given ones, or columns of the table.

    Parameters
    ----------
    data
        Table, or what one is read from.
    fields
        Values by name; a string is the name of a column of the table, which then is no feature.
    roles
        What parameters say of the columns.
    features, n_features
        As in `Wanted`.
    """
    roles = roles or ColumnRoles({})
    named: dict[str, str | int] = {name: value for name, value in fields.items() if isinstance(value, str)}
    if "group" in named:
        raise DataError(f"group={named['group']!r}: sizes of queries are no column; name a column of ids: qid=")
    for name, column in roles.fields.items():
        if fields.get(name) is not None:
            raise DataError(f"{name}= beside the parameter {name}_column={column!r}; give one of them")
        named[name] = column
    columns = (*named.values(), *roles.ignore)
    by_name = tuple(column for column in columns if isinstance(column, str))
    may_lead = "label" in fields and fields["label"] is None and "label" not in named and is_delimited(data)
    early = len(by_name) == len(columns) and not may_lead  # positions are those among all columns: all must be read
    wanted = Wanted(features, by_name, n_features, roles.header)
    read = load(data, "data", wanted if early else replace(wanted, features=()))
    loaded = read or Loaded(data)
    of_file = dict(loaded.fields)
    if fields.get("qid") is not None or "qid" in named:
        of_file.pop("group", None)
    values = {name: of_file.get(name) if value is None else value for name, value in fields.items()}
    has_no_names = is_delimited(data) and are_made_up(_names_of(loaded.table))
    if may_lead and loaded.fields.get("label") is None and (has_no_names or roles.header):
        no_names = "" if roles.header else "no column has a name, and "
        inform(f"{data}: {no_names}none is said to be the label: the first one is")
        named["label"] = 0
    if not named and not roles.ignore and not may_lead:
        return loaded.table, values
    opened = _columns_of(loaded.table)
    if opened is None:
        shown = ", ".join(f"{name}={column!r}" for name, column in named.items()) or f"ignore_column={roles.ignore}"
        raise DataError(
            f"{shown} names a column, but data ({type(loaded.table).__name__}) has no names of columns; pass "
            "the values themselves, or a frame"
        )
    names, values_at, columns_at = opened
    taken: dict[str, int] = {}
    label = named.pop("label", None)
    if label is not None:
        taken["label"] = _position(label, names, "label", None)
    for name, column in named.items():
        taken[name] = _position(column, names, name, taken.get("label"))
    ignored = [_position(column, names, "ignore_column", taken.get("label")) for column in roles.ignore]
    left = [place for place in range(len(names)) if place not in taken.values() and place not in ignored]
    if not left:
        raise DataError(f"data has no features besides {', '.join(taken)}; a table of features and labels is needed")
    values.update({name: values_at(place) for name, place in taken.items()})
    chosen = None
    if not early and read is not None and not (has_no_names and features and len(left) == len(features[0])):
        chosen = wanted.choose([names[place] for place in left], "data")
    return columns_at(left if chosen is None else [names.index(name) for name in chosen]), values


def _names_of(table: Any) -> list[str]:
    """Return the names of the columns of what a text file became."""
    return list(table.column_names if is_arrow_table(table) else table.columns)


def _columns_of(table: Any) -> tuple[list[str], Callable[[int], NDArray[Any]], Callable[[list[int]], Any]] | None:
    """Return the names of a frame's columns, and functions that give the values of one and a frame of some."""
    if is_arrow_table(table):
        return list(table.column_names), lambda place: arrow_values(table.column(place)), table.select
    frame = as_frame(table)
    if frame is None:
        return None
    names = [str(column) for column in frame.columns]
    return names, lambda place: series_values(frame[:, place]), lambda places: frame[:, places].to_native()


def _position(column: str | int, names: Sequence[str], what: str, label: int | None) -> int:
    """Return the position of a column that is given by name or, among those besides the label, by position."""
    if isinstance(column, str):
        if column not in names:
            shown = ", ".join(map(repr, names[:8])) + (" ..." if len(names) > 8 else "")
            raise DataError(f"{what}={column!r}: there is no such column; columns are {shown}")
        return names.index(column)
    places = [place for place in range(len(names)) if place != label]
    if column >= len(places):
        raise DataError(f"{what}={column}: columns are numbered 0 to {len(places) - 1}")
    return places[column]
