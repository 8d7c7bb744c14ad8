"""Constraints that users put on features: how they are written, and what they mean for the features of a data set.

    monotone_constraints      [1, 0, -1]   "(1,0,-1)"   "1,0,-1"   {"age": 1}       one sign a feature
    interaction_constraints   [["a", "b"], [2, 3]]   "[0,1],[2,3]"   '[["a","b"]]'  groups that may share a branch
                              "no_interactions"   "pairwise"                        groups of one feature, or of two
                              [["a", "b"], "rest"]                                  one of all features in no group
    feature_contri            [1.0, 0.5]   "1.0,0.5"   {"age": 0.5}                 factors on gains
    feature_weights           the same                                              weights in choices of features

The parsers bring a value to its one canonical form, which can be hashed and written as JSON; what names and numbers
refer to is found out when the data are known (`resolve_...`). Dictionaries, and groups, become JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.core.log import warn


def numbers_of(text: str) -> list[str]:
    """Split "(1,0,-1)", "[1, 0]" or "1,0" into the texts of its numbers."""
    inner = text.strip()
    if inner[:1] + inner[-1:] in ("()", "[]"):
        inner = inner[1:-1]
    return [part.strip() for part in inner.rstrip(", ").split(",")] if inner.strip() else []


def _per_feature(
    value: Any, one: Callable[[Any], Any], from_text: Callable[[str], Any], allowed: str
) -> str | tuple[Any, ...] | None:
    """Bring values for each feature, in order or by name, to canonical form; ValueError says what is allowed."""
    if isinstance(value, str):
        text = value.strip()
        try:
            value = json.loads(text) if text.startswith("{") else [from_text(part) for part in numbers_of(text)]
        except ValueError:
            raise ValueError(allowed) from None
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ValueError(allowed)
        named = {str(name): one(number) for name, number in value.items()}
        return json.dumps(named, sort_keys=True) if named else None
    if value is None:
        return None
    if not isinstance(value, (Sequence, np.ndarray)) or (isinstance(value, np.ndarray) and value.ndim != 1):
        raise ValueError(allowed)
    return tuple(one(number) for number in value) or None


SIGNS = "one of -1, 0 and 1 for each feature: a list, a string such as '(1,0,-1)', or a dict {name: sign}"


def parse_monotone(value: Any) -> str | tuple[int, ...] | None:
    """Bring `monotone_constraints` to its canonical form; ValueError says what is allowed."""

    def one(sign: Any) -> int:
        if isinstance(sign, (bool, np.bool_)) or not isinstance(sign, (int, float, np.integer, np.floating)):
            raise ValueError(SIGNS)
        if sign not in (-1, 0, 1):
            raise ValueError(SIGNS)
        return int(sign)

    return _per_feature(value, one, int, SIGNS)


FACTORS = "a number >= 0 for each feature: a list, a string such as '1.0,0.5', or a dict {name: number}"


def parse_contributions(value: Any) -> str | tuple[float, ...] | None:
    """Bring `feature_contri` to its canonical form; ValueError says what is allowed."""

    def one(factor: Any) -> float:
        if isinstance(factor, (bool, np.bool_)) or not isinstance(factor, (int, float, np.integer, np.floating)):
            raise ValueError(FACTORS)
        if not 0.0 <= float(factor) < np.inf:
            raise ValueError(FACTORS)
        return float(factor) + 0.0

    return _per_feature(value, one, float, FACTORS)


WEIGHTS = (
    "a number >= 0 for each feature, one above 0 at least: a list, a string such as '1.0,0.5', or a dict {name: number}"
)


def parse_weights(value: Any) -> str | tuple[float, ...] | None:
    """Bring `feature_weights` to its canonical form; ValueError says what is allowed."""
    if value is not None and not isinstance(value, (str, Mapping, Sequence)):
        value = np.asarray(value)
        value = value.ravel() if value.shape[1:] == (1,) else value
    try:
        found = parse_contributions(value)
    except ValueError:
        raise ValueError(WEIGHTS) from None
    if isinstance(found, tuple) and not any(found):
        raise ValueError(WEIGHTS)
    return found


GROUPS = (
    "groups of features that may be used together: a list of lists of names or numbers, or a string such as "
    "'[0,1,2],[2,3]'"
)


GROUP_SIZES = {"no_interactions": 1, "pairwise": 2}
"""Names that scikit-learn has for groups, all of so many features; they are canonical values, too."""


REST = "rest"
"""The group of all features that are in no other one, as scikit-learn makes it."""


def parse_interactions(value: Any) -> str | None:
    """Bring `interaction_constraints` to its canonical form; ValueError says what is allowed."""
    if value is None:
        return None
    if isinstance(value, str) and value in GROUP_SIZES:
        return value
    if isinstance(value, str):
        try:
            value = json.loads(f"[{value}]")
        except ValueError:
            raise ValueError(GROUPS) from None
        inner = value[0] if len(value) == 1 and isinstance(value[0], list) else [""]
        if all(isinstance(group, list) or group == REST for group in inner):
            value = value[0]  # it was a list already
    if isinstance(value, (Mapping, str)) or not isinstance(value, (Sequence, set, frozenset)):
        raise ValueError(GROUPS)
    groups: list[Any] = []
    for group in value:
        if isinstance(group, str) and group == REST:
            groups += [] if REST in groups else [REST]
            continue
        if isinstance(group, (str, Mapping)) or not isinstance(group, (Sequence, set, frozenset, np.ndarray)):
            raise ValueError(GROUPS)
        members = list(group)
        if not members or not all(
            isinstance(member, (str, int, np.integer)) and not isinstance(member, bool) for member in members
        ):
            raise ValueError(GROUPS)
        plain = {str(member) if isinstance(member, str) else int(member) for member in members}
        groups.append(sorted(plain, key=lambda member: (isinstance(member, str), member)))
    return json.dumps(groups) if groups else None


def find_feature(name: str, feature_names: Sequence[str], parameter: str) -> int:
    """Return the number of a feature that a parameter names."""
    if name not in feature_names:
        known = ", ".join(map(repr, list(feature_names)[:8])) + (", ..." if len(feature_names) > 8 else "")
        raise ParameterError(f"{parameter} names feature {name!r}, which the data do not have; they have {known}")
    return list(feature_names).index(name)


def resolve_per_feature(
    value: str | tuple[Any, ...] | None, default: float, feature_names: Sequence[str], parameter: str
) -> NDArray[np.float64]:
    """Return one number for each feature, float64 (n_features,), from a canonical value."""
    found = np.full(len(feature_names), default)
    if isinstance(value, str):
        for name, number in json.loads(value).items():
            found[find_feature(name, feature_names, parameter)] = number
    elif value is not None:
        if len(value) != len(feature_names):
            raise ParameterError(
                f"{parameter} has {len(value)} entries and the data {len(feature_names)} features; give one each, or "
                "a dict by feature name"
            )
        found[:] = value
    return found


def resolve_weights(value: str | tuple[float, ...], feature_names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weight of each feature, float64 (n_features,), from a canonical value; 1 where there is none."""
    found = resolve_per_feature(value, 1.0, feature_names, "feature_weights")
    if not found.any():
        raise ParameterError("feature_weights is 0 for every feature; give one that may be chosen a weight above 0")
    return found


def resolve_groups(value: str | None, feature_names: Sequence[str]) -> list[NDArray[np.bool_]]:
    """Return the members of each interaction group, bool (n_features,), from a canonical value.

    A feature that is in no group has one of its own, with a warning, unless they are to have one together (REST).
    """
    if value is None:
        return []
    n_features = len(feature_names)
    groups = []
    size = min(GROUP_SIZES.get(value, 0), n_features)
    chosen: Any = combinations(range(n_features), size) if size else json.loads(value)
    for group in chosen:
        if group == REST:
            continue
        members = np.zeros(n_features, bool)
        for member in group:
            if isinstance(member, int) and not 0 <= member < n_features:
                raise ParameterError(
                    f"interaction_constraints names feature {member}, and the data have features 0 to {n_features - 1}"
                )
            by_name = isinstance(member, str)
            members[find_feature(member, feature_names, "interaction_constraints") if by_name else member] = True
        groups.append(members)
    outside = np.flatnonzero(~np.any(groups, axis=0)) if groups else np.arange(n_features)
    if len(outside) and REST in chosen:
        return [*groups, np.isin(np.arange(n_features), outside)]
    if len(outside):
        warn(
            f"interaction_constraints leaves {len(outside)} feature(s) in no group, {feature_names[int(outside[0])]!r} "
            "for one: each stands alone, as in XGBoost (LightGBM would never use it; with scikit-learn's "
            "interaction_cst, or a further group 'rest', they share one)"
        )
        groups += [np.arange(n_features) == feature for feature in outside.tolist()]
    return groups
