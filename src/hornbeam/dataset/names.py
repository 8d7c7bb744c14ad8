"""Names and places of features, as users give them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError


def check_names(names: list[Any], n_features: int) -> None:
    """Raise DataError unless there is one name a feature, all of them different strings."""
    if len(names) != n_features:
        raise DataError(f"feature_names has {len(names)} names and data {n_features} features; pass one name a feature")
    for position, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise DataError(f"feature_names[{position}] is {name!r}; names must be strings and not empty")
    if len(set(names)) < n_features:
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise DataError(f"feature name {twice!r} occurs more than once; rename the columns so that names are unique")


def positions_of_mask(given: Iterable[Any], n_features: int) -> list[Any]:
    """Return the positions of what is True where all entries are booleans, as scikit-learn takes masks; else them."""
    entries = list(given)
    if entries and all(isinstance(entry, (bool, np.bool_)) for entry in entries):
        if len(entries) != n_features:
            raise DataError(f"a mask of {len(entries)} entries (True, ...) for {n_features} features; give one each")
        return [position for position, is_one in enumerate(entries) if is_one]
    return entries


def positions_of(given: Sequence[Any] | str, what: str, names: list[str]) -> tuple[int, ...] | None:
    """Return the positions of features that are given by name or position, ascending; None for "auto".

    what   what messages call them
    names  of all features
    """
    if isinstance(given, str) and given in ("auto", "from_dtype"):
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(f'{what}={given!r}: pass a list of names or positions of columns, or "auto"')
    found = set()
    for entry in positions_of_mask(given, len(names)):
        if isinstance(entry, str):
            if entry not in names:
                raise DataError(f"{what} has {entry!r}, which is no feature; features are {names[:5]}")
            found.add(names.index(entry))
        elif isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            if not 0 <= entry < len(names):
                raise DataError(f"{what} has {entry}; columns are numbered 0 to {len(names) - 1}")
            found.add(int(entry))
        else:
            raise DataError(f"{what} has {entry!r}; pass names or positions of columns")
    return tuple(sorted(found))


def columns_of(reference: Any) -> tuple[tuple[Sequence[str], ...], int | None]:
    """Return the columns that a validation set takes of what it is read from: those of its reference, a Dataset."""
    if not hasattr(type(reference), "create_valid"):  # no Dataset, which is said later
        return (), None
    named = (reference.column_names or reference.feature_names,) if reference.has_names else ()
    return named, reference.n_features
