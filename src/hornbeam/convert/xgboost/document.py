"""XGBoost's documents: JSON text in and out, and checked access to what is in them.

A list of numbers is a JSON array in text and a NumPy array from UBJ; readers take both.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.json_text import parse_text
from hornbeam.model.file.tree_checks import fail, show

ROOT = "XGBoost model"
"""What messages call the file."""


INFINITE = {"inf": "Infinity", "-inf": "-Infinity"}
"""How infinite numbers are written."""


def is_json(data: bytes) -> bool:
    """Say whether bytes are the JSON text of an XGBoost model, as far as that can be seen without reading it."""
    return data.lstrip()[:1] == b"{" and b'"learner"' in data


def parse_json(data: bytes) -> Any:
    """Return the document of JSON text; numbers may be NaN and infinite, and whoever reads them has to check."""
    return parse_text(data, ROOT)


def to_json(document: Any) -> bytes:
    """Return a document as JSON text that XGBoost reads: float32 in their shortest form, text as UTF-8."""
    parts: list[str] = []
    _write(document, parts)
    return "".join(parts).encode("utf-8")


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, dict):
        separator = "{"
        for key, own in value.items():
            parts += [separator, _quoted(key), ":"]
            _write(own, parts)
            separator = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, np.ndarray):
        words = _floats(value) if value.dtype.kind == "f" else [str(own) for own in value.tolist()]
        parts.append(f"[{','.join(words)}]")
    elif isinstance(value, list):
        parts.append("[")
        for place, own in enumerate(value):
            if place:
                parts.append(",")
            _write(own, parts)
        parts.append("]")
    else:
        parts.append(_quoted(value) if isinstance(value, str) else str(int(value)))


def _quoted(text: str) -> str:
    # XGBoost does not read \\uXXXX
    return json.dumps(text, ensure_ascii=False)


def _floats(values: NDArray[np.float32]) -> list[str]:
    """Return float32 numbers with as many digits as each takes; with a point or an exponent, else they are integers."""
    words: list[str] = values.astype(str).tolist()
    if not np.isfinite(values).all():
        words = [INFINITE.get(word, word) for word in words]
    return words


def child(document: Any, key: str, place: str) -> Any:
    """Return a value of an object, or fail."""
    if type(document) is not dict:
        fail(place, f"{show(document)} is not a JSON object")
    if key not in document:
        fail(place, f'the key "{key}" is missing: the file is damaged, or it is no model that XGBoost has saved')
    return document[key]


def inner(document: Any, key: str, place: str) -> dict[str, Any]:
    """Return an object of an object, or fail."""
    value = child(document, key, place)
    if type(value) is not dict:
        fail(f"{place}.{key}", f"{show(value)} is not a JSON object")
    return value


def entries(document: Any, key: str, place: str) -> list[Any]:
    """Return a list of an object, or fail."""
    value = child(document, key, place)
    if isinstance(value, np.ndarray):
        return list(value.tolist())
    if type(value) is not list:
        fail(f"{place}.{key}", f"{show(value)} is not a JSON array")
    return value


def strings(document: Any, key: str, place: str) -> list[str]:
    """Return a list of strings of an object, or fail."""
    values = entries(document, key, place)
    if not all(type(value) is str for value in values):
        fail(f"{place}.{key}", "has an entry that is no string")
    return values


def whole(document: Any, key: str, place: str, low: int, high: int, default: int | None = None) -> int:
    """Return an integer that is written as a string or a number; `default` where the key is not there."""
    if default is not None and key not in document:
        return default
    value = child(document, key, place)
    if type(value) is str and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if type(value) is not int or not low <= value <= high:
        fail(f"{place}.{key}", f"{show(value)} is not an integer from {low} to {high}")
    return value


def number(document: Any, key: str, place: str, default: float) -> float:
    """Return a finite number that is written as a string or a number; `default` where the key is not there."""
    if key not in document:
        return default
    return parse_number(document[key], f"{place}.{key}")


def parse_number(value: Any, place: str) -> float:
    """Return a finite number that is written as a string or a number."""
    try:
        found = float(value) if type(value) in (str, int, float) and "_" not in str(value)[:100] else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        fail(place, f"{show(value)} is not a finite number")
    return found


def integers(document: Any, key: str, place: str, length: int | None = None) -> NDArray[np.int64]:
    """Return integers, or booleans as integers, int64 (length,)."""
    where, value = f"{place}.{key}", child(document, key, place)
    if not isinstance(value, np.ndarray):
        listed = entries(document, key, place)
        if not {type(one) for one in listed} <= {int, bool}:
            fail(where, "has an entry that is no integer")
        if listed and not (min(listed) >= -(2**63) and max(listed) < 2**63):
            fail(where, "has an integer of more than 64 bits")
        value = np.array(listed, np.int64)
    if value.dtype.kind not in "iu":
        fail(where, "has entries that are no integers")
    return _of_length(value.astype(np.int64), length, where)


def floats(document: Any, key: str, place: str, length: int) -> NDArray[np.float32]:
    """Return numbers, float32 (length,); they may be NaN or infinite."""
    where, value = f"{place}.{key}", child(document, key, place)
    if not isinstance(value, np.ndarray):
        listed = entries(document, key, place)
        if not {type(one) for one in listed} <= {int, float}:
            fail(where, "has an entry that is no number")
        try:
            value = np.array(listed, np.float64)
        except OverflowError:
            fail(where, "has an entry that is no number of 64 bits")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _of_length(value.astype(np.float32), length, where)


def finite(document: Any, key: str, place: str, length: int) -> NDArray[np.float32]:
    """Return finite numbers, float32 (length,)."""
    values = floats(document, key, place, length)
    if not np.isfinite(values).all():
        fail(f"{place}.{key}", "has an entry that is no finite number")
    return values


def _of_length(values: NDArray[Any], length: int | None, where: str) -> NDArray[Any]:
    if length is not None and len(values) != length:
        fail(where, f"has {len(values)} entries, must have {length}")
    return values
