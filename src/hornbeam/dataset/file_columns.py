"""Columns of files that the parameters of a training name, as LightGBM takes them: `label_column`, `header`, ...

A Dataset reads its file when it is made. Where a training says what the columns are, it is read anew, by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.data.sources.files import holds_files
from hornbeam.data.sources.labelled import COLUMN_PARAMETERS, ColumnRoles, column_roles


def keeps_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Let a Dataset of files keep what it was made with, and the fields that its rows had then."""

    @wraps(init)
    def make(self: Any, data: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, data, *arguments, **keywords)
        if holds_files(data) and not hasattr(data, "read"):
            made_with = signature(init).bind(self, data, *arguments, **keywords).arguments
            self.made_with = {name: value for name, value in made_with.items() if name != "self"}, dict(self._columns)

    return make


def take_file_columns(params: Any, data_sets: Iterable[Any]) -> Any:
    """Return the parameters of a training without those of columns, by which Datasets of files are read.

    Where no Dataset is of files, the parameters are as they were: `Params` says that there is nothing to read.

    Parameters
    ----------
    params
        Parameters as the user gives them.
    data_sets
        The training set first; those with a reference after it.
    """
    if not isinstance(params, Mapping):
        return params
    others, roles = column_roles(params)
    read_anew = [data_set for data_set in data_sets if getattr(data_set, "made_with", None)]
    if roles == ColumnRoles({}) or not read_anew:
        return params
    named = {name: params[name] for name in params if name in COLUMN_PARAMETERS}
    for data_set in dict.fromkeys(read_anew):
        _read_by(data_set, named)
    return others


def _read_by(data_set: Any, named: Mapping[str, Any]) -> None:
    """Read the file of a Dataset by some parameters of columns, unless it was read so."""
    merged = {**data_set.given_params, **named}
    if column_roles(merged)[1] == data_set.roles:
        return
    own, asked = _said(data_set.given_params), _said(named)
    shown = ", ".join(f"{name}={value!r}" for name, value in named.items()) + " in the training parameters"
    if any(own.get(role, value) != value for role, value in asked.items()):
        read_by = ", ".join(f"{name}={data_set.given_params[name]!r}" for name in data_set.given_params
                            if name in COLUMN_PARAMETERS)  # fmt: skip
        raise DataError(f"{shown}, but the Dataset was read by {read_by}; make them equal, or leave one out")
    if data_set.is_binned:
        raise DataError(f"{shown}, but the Dataset is binned already: say it where it is made, Dataset(path, params=)")
    arguments, fields = data_set.made_with
    if any(data_set._columns[name] is not field for name, field in fields.items()):
        raise DataError(
            f"{shown}: the file would be read anew, without the fields that were set since; say it where the Dataset "
            "is made, Dataset(path, params=)"
        )
    anew = type(data_set)(**{**arguments, "params": merged})  # which may fail: the Dataset stays as it is then
    data_set.__dict__.update(anew.__dict__)


def _said(params: Mapping[str, Any]) -> dict[str, ColumnRoles]:
    """Return what parameters say, by what of the file they say it of."""
    return {
        COLUMN_PARAMETERS[name]: column_roles({name: value})[1]
        for name, value in params.items()
        if name in COLUMN_PARAMETERS and value not in (None, "")
    }
