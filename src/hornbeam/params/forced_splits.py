"""Splits that every tree begins with (`forcedsplits_filename`), from LightGBM's JSON files.

    {"feature": 0, "threshold": 1.5, "left": {"feature": 2, "threshold": 0.5}, "right": {...}}

What they mean for the features and bins of a data set is found out when these are known
(trees/contexts/forced_splits.py).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ALLOWED = (
    'a JSON file, or a dict, with {"feature": 0, "threshold": 1.5, "left": {...}, "right": {...}}, where left and '
    "right are splits too, or left out"
)
KEYS = ("feature", "threshold", "left", "right")

DEEPEST = 100
"""Splits from the root to a leaf; a dict that holds itself has no end."""

MOST_SPLITS = 10_000
"""Splits of a tree; a dict that holds another one twice, and so on, has very many."""


def parse_forced_splits(value: Any) -> str | None:
    """Return the splits as JSON, with keys in one order; ValueError says what is allowed.

    The file is read at once: the parameter holds what is in it, so that a model knows what its trees began with.
    """
    if value is None or (isinstance(value, (str, Mapping)) and len(value) == 0):
        return None
    if isinstance(value, (str, os.PathLike)):
        try:
            is_text = isinstance(value, str) and value.lstrip().startswith("{")
            value = json.loads(value if is_text else Path(value).read_text(encoding="utf-8"))  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            raise ValueError(f"{ALLOWED}; it cannot be read ({error})") from None
        except RecursionError:
            raise ValueError(_too_deep()) from None
        if value == {}:
            return None
    return json.dumps(_checked(value, "the root", 0, [0]))


def _too_deep() -> str:
    return f"{ALLOWED}; it is more than {DEEPEST} splits deep, or a dict holds itself"


def _checked(value: Any, place: str, depth: int, n_splits: list[int]) -> dict[str, Any]:
    """Return a split and those below it in canonical form.

    place     of the split, for messages
    n_splits  counted so far, in out
    """
    if depth >= DEEPEST:
        raise ValueError(_too_deep())
    n_splits[0] += 1
    if n_splits[0] > MOST_SPLITS:
        raise ValueError(f"{ALLOWED}; it has more than {MOST_SPLITS} splits")
    if not isinstance(value, Mapping):
        raise ValueError(f"{ALLOWED}; {place} is a {type(value).__name__}")
    unknown = [key for key in value if key not in KEYS]
    if unknown:
        raise ValueError(f"{ALLOWED}; {place} has {unknown[0]!r}, which means nothing")
    absent = [key for key in KEYS[:2] if key not in value]
    if absent:
        raise ValueError(f"{ALLOWED}; {place} has no {absent[0]!r}")
    split: dict[str, Any] = {
        "feature": _feature(value["feature"], place),
        "threshold": _threshold(value["threshold"], place),
    }
    for side in KEYS[2:]:
        child = value.get(side)
        if child is not None and child != {}:
            below = side if depth == 0 else f"{place}.{side}"
            split[side] = _checked(child, below if depth < 8 else "a split below", depth + 1, n_splits)
    return split


def _feature(feature: Any, place: str) -> int | str:
    if isinstance(feature, str):
        return feature
    if isinstance(feature, bool) or not isinstance(feature, (int, np.integer)) or feature < 0:
        raise ValueError(f"{ALLOWED}; the feature of {place} is {feature!r}: must be a number from 0 on, or a name")
    return int(feature)


def _threshold(threshold: Any, place: str) -> float:
    number = math.nan
    if isinstance(threshold, (int, float, np.integer, np.floating)) and not isinstance(threshold, bool):
        try:
            number = float(threshold)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{ALLOWED}; the threshold of {place} is {threshold!r}: must be a finite number")
    return number + 0.0
