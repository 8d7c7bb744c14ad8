"""Parameters as commands take them: KEY=VALUE arguments, TOML files, and LightGBM's configuration files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.sources.labelled import COLUMN_PARAMETERS
from hornbeam.params.params import BY_NAME, Params

FILE_KEYS = {
    **dict.fromkeys(("data", "train", "train_data", "train_data_file", "data_filename"), "data"),
    **dict.fromkeys(("valid", "test", "valid_data", "valid_data_file", "test_data", "valid_filenames"), "valid"),
    **dict.fromkeys(("output_model", "model_output", "model_out"), "output"),
    **dict.fromkeys(("input_model", "model_input", "model_in"), "init_model"),
}
"""Names that LightGBM has for files, by what they are here."""

_TRUE, _FALSE = ("true", "1", "+", "yes", "on"), ("false", "0", "-", "no", "off")


def file_and_pairs(data: str | None, pairs: Sequence[str] | None, config: str | None) -> tuple[str | None, list[str]]:
    """Return the data and the parameters among arguments: a configuration may name the data."""
    others = list(pairs or [])
    if data is not None and config is not None and "=" in data:
        return None, [data, *others]
    return data, others


def read_parameters(config: str | None, pairs: Sequence[str]) -> tuple[Params, dict[str, Any]]:
    """Return parameters, and what a configuration says of files and columns; arguments win over the file.

    Parameters
    ----------
    config
        Path of a file, or None.
    pairs
        Arguments KEY=VALUE.
    """
    from_file = {} if config is None else read_config(config)
    given = dict(_split(pair) for pair in pairs)
    places: dict[str, Any] = {}
    for values in (from_file, given):
        for name in [name for name in values if name in FILE_KEYS or name in COLUMN_PARAMETERS]:
            places[FILE_KEYS.get(name, name)] = values.pop(name)
        values.pop("config", None)
        task = values.pop("task", "train")
        if task not in ("train", "training"):
            raise ParameterError(f"task={task!r}: a command is a task here; see hornbeam --help")
    params = Params.from_dict(
        {name: typed(name, value) for name, value in from_file.items()},
        **{name: typed(name, value) for name, value in given.items()},
    )
    return params, places


def read_config(path: str) -> dict[str, Any]:
    """Return the values of a configuration file by name: TOML where the name ends so, else lines key = value."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path!r} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if Path(path).suffix.lower() == ".toml":
        return _read_toml(text, path)
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.split("#", 1)[0].strip()
        if stripped:
            name, equals, value = stripped.partition("=")
            if not equals:
                raise ParameterError(f"{path!r}, line {number}: {stripped!r} is not of the form key = value")
            values[name.strip()] = value.strip()
    return values


def _read_toml(text: str, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"{path!r} is no TOML ({error})") from None
    values.update(values.pop("params", {}))
    tables = [name for name, value in values.items() if isinstance(value, dict)]
    if tables:
        raise ParameterError(f"{path!r} has the table [{tables[0]}]; parameters stand at the top, or in [params]")
    return values


def _split(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise ParameterError(f"{pair!r} is not of the form KEY=VALUE, as num_leaves=63; files come before parameters")
    return name, value


def typed(name: str, value: Any) -> Any:
    """Return the value of a parameter that is written as text: a number, a boolean, a list or the text."""
    row = BY_NAME.get(name)
    if not isinstance(value, str):
        return value
    kind = "literal" if row is None else row.type
    if row is not None and row.default is None and value.lower() == "none" and kind != "metric":
        return None
    if kind == "bool" or (kind == "literal" and value.lower() in ("true", "false")):
        return True if value.lower() in _TRUE else False if value.lower() in _FALSE else value
    if kind == "gains" or (kind == "alpha" and "," in value):
        return [_number(part) for part in value.split(",")]
    return _number(value) if kind in ("int", "float", "alpha", "threads", "literal") else value


def _number(text: str) -> Any:
    """Return a text as an integer or a float where it is one, else as it is: the check of parameters refuses it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
