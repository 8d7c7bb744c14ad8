"""Rows by the values of a column: levels, few numbers one by one, many numbers by quarters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.device_arrays import host_array
from hornbeam.views.plots.models import feature_position
from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.material import Material

MAX_GROUPS = 12
"""Groups of one column that are shown: the largest ones."""
FEW_NUMBERS = 6
"""So many different numbers are groups of their own."""

Slice = tuple[str, NDArray[np.bool_]]


def slices_of(material: Material) -> Iterator[tuple[str, list[Slice]]]:
    """Yield name and groups of every column that the user named: (text, rows as bool (n_rows,))."""
    asked = material.choices.slices
    if asked is None or material.valid is None:
        return
    if isinstance(asked, Mapping):
        for name, values in asked.items():
            yield str(name), groups_of(_checked(name, values, material.valid.n_rows))
        return
    reader = material.seeing.open(material.valid)
    for name in asked:
        feature = feature_position(material.booster, name)
        numbers = reader.sample(None, feature, feature + 1)[:, 0].astype(np.float64)
        if material.seeing.is_categorical(feature):
            texts = {code: material.seeing.value_text(feature, code) for code in np.unique(numbers).tolist()}
            named = np.array([texts.get(value, "missing") for value in numbers.tolist()], object)
            yield material.booster.feature_names[feature], groups_of(named)
        else:
            yield material.booster.feature_names[feature], groups_of(numbers)


def check_slices(material: Material) -> None:
    """Raise for columns that are not there, before any work is done."""
    asked = material.choices.slices
    if asked is None:
        return
    if material.valid is None:
        raise ParameterError("slices= needs valid=, whose rows are to be sliced")
    for name in asked:
        if isinstance(asked, Mapping):
            _checked(name, asked[name], material.valid.n_rows)
        else:
            feature_position(material.booster, name)


def _checked(name: Any, values: Any, n_rows: int) -> NDArray[Any]:
    found = host_array(values)
    if found.shape != (n_rows,):
        raise DataError(f"slices[{name!r}] has shape {found.shape}; pass one value a row of valid, ({n_rows},)")
    return found


def groups_of(values: NDArray[Any]) -> list[Slice]:
    """Return the groups of a column, the largest first where they are levels, else in the order of the numbers.

    values  (n_rows,) of any type  in
    """
    if values.dtype.kind in "fiu":
        numbers = values.astype(np.float64)
        known = ~np.isnan(numbers)
        distinct = np.unique(numbers[known])
        finite = distinct[np.isfinite(distinct)]
        if len(finite) > FEW_NUMBERS:
            edges = np.unique(np.quantile(numbers[np.isfinite(numbers)], (0.25, 0.5, 0.75)))
            place = np.searchsorted(edges, numbers, "left")
            texts = [f"≤ {number_text(edges[0])}"]
            texts += [f"{number_text(a)} to {number_text(b)}" for a, b in pairwise(edges.tolist())]
            texts += [f"> {number_text(edges[-1])}"]
            groups = [(text, known & (place == i)) for i, text in enumerate(texts)]
        else:
            groups = [(number_text(value), numbers == value) for value in distinct.tolist()]
        groups.append(("missing", ~known))
        return [(text, rows) for text, rows in groups if rows.any()]
    words = np.array([str(value) for value in values.tolist()], object)
    names, counts = np.unique(words, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:MAX_GROUPS]
    return [(str(names[i]), words == names[i]) for i in often.tolist()]
