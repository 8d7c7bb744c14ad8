"""Names of categories in XGBoost's files, both ways (since XGBoost 3.1, `cats`).

enc               one entry a feature: the names in the order of their codes. Strings as UTF-8 bytes one after the
other (`values`) and where each begins (`offsets`); integers as such (`values`) with a `type`; a
feature of numbers has empty strings
feature_segments  where the names of each feature begin among all names
sorted_idx        the codes of each feature in the order of its names
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from hornbeam.convert.outgoing import Column, Outgoing
from hornbeam.convert.xgboost.document import ROOT, entries, inner, integers
from hornbeam.data.levels import LARGEST_INTEGER
from hornbeam.model.file.tree_checks import fail, show

CATEGORICAL = "c"
"""The type of a categorical feature in `feature_types`."""

Words = tuple[str | int | bool, ...]


def read_names(model: dict[str, Any], n_features: int) -> list[Words | None]:
    """Return the names of each feature's categories, by code; None for a feature without names."""
    none: list[Words | None] = [None] * n_features
    if "cats" not in model:
        return none
    place = f"{ROOT}, cats"
    listed = entries(inner(model, "cats", ROOT), "enc", place)
    if not listed:
        return none
    if len(listed) != n_features:
        fail(f"{place}.enc", f"has {len(listed)} entries, must have one for each of the {n_features} features")
    return [_names(own, f"{place}.enc[{i}]") or None for i, own in enumerate(listed)]


def _names(own: Any, place: str) -> Words:
    if type(own) is not dict:
        fail(place, f"{show(own)} is not a JSON object")
    values = integers(own, "values", place)
    if "offsets" not in own:
        if len(values) and (values.min() < 0 or values.max() > LARGEST_INTEGER):
            fail(place, "has a category that is a negative integer; levels are integers from 0 on")
        names: Words = tuple(values.tolist())
    else:
        offsets = integers(own, "offsets", place)
        if len(offsets) == 0:
            return ()
        if offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
            fail(f"{place}.offsets", "do not divide the values: the file is damaged")
        content = (values & 255).astype(np.uint8).tobytes()
        try:
            text = [content[a:b].decode("utf-8") for a, b in pairwise(offsets.tolist())]
        except UnicodeDecodeError:
            fail(place, "has a category that is not UTF-8 text")
        names = tuple(text)
    if len(set(names)) < len(names):
        fail(place, "has a category twice")
    return names


def write_names(out: Outgoing) -> dict[str, Any]:
    """Return `cats`: the names of string levels that are ASCII; integer levels are their own codes."""
    words = [_words(column) for column in out.columns]
    if not any(words):
        return {"enc": [], "feature_segments": np.empty(0, np.int32), "sorted_idx": np.empty(0, np.int32)}
    listed = []
    for own in words:
        content = [word.encode("utf-8") for word in own]
        offsets = np.cumsum([0, *map(len, content)]).astype(np.int32) if own else np.empty(0, np.int32)
        listed.append({"offsets": offsets, "values": np.frombuffer(b"".join(content), np.int8)})
    order = [code for own in words for _, code in sorted((word.encode("utf-8"), code) for code, word in enumerate(own))]
    return {
        "enc": listed,
        "feature_segments": np.cumsum([0, *(len(own) for own in words)]).astype(np.int32),
        "sorted_idx": np.array(order, np.int32),
    }


def _words(column: Column) -> list[str]:
    if column.levels is None or not (column.has_strings and column.is_set):
        return []
    words = [str(value) for value in column.levels.values if value is not None]
    return words if all(word.isascii() for word in words) else []
