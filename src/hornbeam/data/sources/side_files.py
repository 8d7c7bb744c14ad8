"""Files beside a text file that say more of its rows, by LightGBM's names: train.csv.weight, train.csv.query, ..."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.core.log import inform

ENDS = {
    "weight": (".weight",),
    "group": (".query", ".group"),
    "init_score": (".init",),
    "position": (".position",),
}
"""Ends of names by field: a line a row, of `group` a line a query, its size; of `init_score` a number an output."""


def fields_beside(path: str) -> dict[str, Any]:
    """Return what the files beside a file say, by field."""
    found: dict[str, Any] = {}
    for name, ends in ENDS.items():
        beside = next((f"{path}{end}" for end in ends if Path(f"{path}{end}").is_file()), None)
        if beside is not None:
            found[name] = _read(beside, name)
    if found:
        inform(f"{path}: {', '.join(found)} from the files beside it")
    return found


def _read(path: str, name: str) -> Any:
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
        values = np.array([line.replace(",", " ").split() for line in lines if line.strip()], np.float64)
    except (OSError, ValueError) as error:
        raise DataError(f"{path!r} cannot be read as {name} of the rows ({error}); mend it, or rename it") from None
    if values.ndim != 2 or (values.shape[1] != 1 and name != "init_score"):
        raise DataError(f"{path!r} must have one number a line; mend it, or rename it")
    is_whole = name in ("group", "position")
    if is_whole and (values != np.floor(values)).any():
        raise DataError(f"{path!r} must have whole numbers; mend it, or rename it")
    column = values[:, 0] if values.shape[1] == 1 else values
    return column.astype(np.int64) if is_whole else column


def with_fields(own: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says of its rows, and what files beside it say where it says nothing."""
    return {**{name: values for name, values in beside.items() if name != "group" or "qid" not in own}, **own}
