"""What makes arrays a tree: the checks of a loaded model, each failure with the path to its place."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.core.errors import ModelFormatError
from hornbeam.model.file.writing import INFINITE, TREE_ARRAYS
from hornbeam.trees.linear_leaves import LinearLeaves
from hornbeam.trees.tree import Tree

INT_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
INFINITE_VALUES = {text: value for value, text in INFINITE.items()}

LINEAR_KEYS = {"leaf_const", "leaf_features", "leaf_coeff"}
"""Keys of a tree that has linear leaves."""

BOUND_KEYS = {"leaf_low", "leaf_high"}
"""Keys of one whose linear leaves have bounds, besides."""

MAX_SHOWN = 60
"""Characters of a wrong value that an error message shows."""


def fail(place: str, problem: str) -> NoReturn:
    """Raise ModelFormatError for one place in the file."""
    raise ModelFormatError(f"{place}: {problem}")


def show(value: object) -> str:
    """Describe a value from the file in few characters."""
    if isinstance(value, (dict, list)):
        return f"a JSON {'object' if isinstance(value, dict) else 'array'} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a huge integer"  # Python refuses to write out the very largest
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def check_keys(document: object, keys: Collection[str], place: str, optional: Collection[str] = ()) -> dict[str, Any]:
    """Return the JSON object, or fail if it is none, lacks one of the keys, or has others than these."""
    if type(document) is not dict:
        fail(place, f"{show(document)} is not a JSON object")
    for key in sorted(keys):
        if key not in document:
            fail(place, f'the key "{key}" is missing')
    for key in document:
        if key not in keys and key not in optional:
            fail(place, f"unknown key {show(key)}; allowed are {', '.join(sorted([*keys, *optional]))}")
    return document


def check_list(value: object, kind: type, place: str, length: int | None = None) -> list[Any]:
    """Return the list, or fail if it is none, has another length, or holds anything but values of exactly this type."""
    if type(value) is not list:
        fail(place, f"{show(value)} is not a JSON array")
    if length is not None and len(value) != length:
        fail(place, f"has {len(value)} entries, must have {length}")
    if not set(map(type, value)) <= {kind}:  # the search for the place only when there is one
        index = next(i for i, entry in enumerate(value) if type(entry) is not kind)
        fail(f"{place}[{index}]", f"{show(value[index])} is not {_KIND_NAMES[kind]}")
    return value


_KIND_NAMES = {
    int: "an integer",
    float: "a float",
    bool: "true or false",
    str: "a string",
    dict: "a JSON object",
    list: "a JSON array",
}


def check_floats(value: object, place: str, length: int | None = None) -> NDArray[np.float64]:
    """Return float64 (length,), or fail if the entries are not all finite floats."""
    array = np.array(check_list(value, float, place, length), np.float64)
    _check_all(np.isfinite(array), array, place, "not a finite number")
    return array


def check_int(value: object, place: str, low: int, high: int) -> int:
    """Return the integer, or fail if it is none or out of range."""
    if type(value) is not int:
        fail(place, f"{show(value)} is not an integer")
    if not low <= value <= high:
        fail(place, f"{show(value)} is not in {low}..{high}")
    return value


def check_tree(document: object, n_levels: Sequence[int | None], place: str) -> Tree:
    """Return the tree, or fail if the arrays do not make one.

    n_levels  of each feature, None for one that is not categorical

    Guaranteed afterwards: lengths agree; every split but the first and every leaf has exactly one parent, which has a
    lower number, so a walk from split 0 ends in a leaf; features exist; counts are not negative; floats are finite but
    for thresholds, which are not NaN; splits of categorical features, and no others, have a set of their codes; linear
    leaves are functions of features that are not categorical, with bounds in order or without.
    """
    values = check_keys(document, {*TREE_ARRAYS, "shrinkage"}, place, ("left_codes", *LINEAR_KEYS, *BOUND_KEYS))
    shrinkage = values["shrinkage"]
    if type(shrinkage) is not float or not math.isfinite(shrinkage):
        fail(f"{place}.shrinkage", f"{show(shrinkage)} is not a finite float")
    if type(values["feature"]) is not list:
        fail(f"{place}.feature", f"{show(values['feature'])} is not a JSON array")
    n_splits = len(values["feature"])
    if n_splits >= MAX_LEAVES:
        fail(f"{place}.feature", f"has {n_splits} splits, a tree has at most {MAX_LEAVES - 1}")
    arrays = {
        name: _check_array(name, values[name], f"{place}.{name}", n_splits + name.startswith("leaf_"))
        for name in TREE_ARRAYS
    }
    _check_range(arrays["feature"], 0, len(n_levels) - 1, f"{place}.feature")
    for name in ("split_count", "leaf_count"):
        _check_range(arrays[name], 0, INT_LIMITS["int64"][1], f"{place}.{name}")
    _check_children(arrays["left"], arrays["right"], n_splits, place)
    of_split = [n_levels[feature] for feature in arrays["feature"].tolist()]
    left_codes = check_left_codes(values.get("left_codes"), "left_codes" in values, of_split, place)
    has_linear = (LINEAR_KEYS | BOUND_KEYS) & values.keys()
    linear = check_linear(values, n_levels, n_splits + 1, place) if has_linear else None
    return Tree(**arrays, shrinkage=shrinkage, left_codes=left_codes, linear=linear)


def check_linear(values: dict[str, Any], n_levels: Sequence[int | None], n_leaves: int, place: str) -> LinearLeaves:
    """Return the linear leaves of a tree.

    n_levels  of each feature, None for one that is not categorical
    """
    needed = LINEAR_KEYS | BOUND_KEYS if BOUND_KEYS & values.keys() else LINEAR_KEYS
    missing = sorted(needed - values.keys())
    if missing:
        fail(place, f'the key "{missing[0]}" is missing: linear leaves have {", ".join(sorted(needed))}')
    const = check_floats(values["leaf_const"], f"{place}.leaf_const", n_leaves)
    features = check_list(values["leaf_features"], list, f"{place}.leaf_features", n_leaves)
    coeff = check_list(values["leaf_coeff"], list, f"{place}.leaf_coeff", n_leaves)
    for leaf, (own, factors) in enumerate(zip(features, coeff, strict=True)):
        where = f"{place}.leaf_features[{leaf}]"
        numbers = check_list(own, int, where)
        if any(b <= a for a, b in pairwise(numbers)):
            fail(where, "features are not ascending")
        for feature in numbers:
            if not 0 <= feature < len(n_levels):
                fail(where, f"{show(feature)} is not in 0..{len(n_levels) - 1}")
            if n_levels[feature] is not None:
                fail(where, f"feature {feature} is categorical, and has no numbers")
        check_floats(factors, f"{place}.leaf_coeff[{leaf}]", len(numbers))
    if not any(features):
        fail(f"{place}.leaf_features", "no leaf is linear, so this key must not be there")
    if needed == LINEAR_KEYS:
        return LinearLeaves.of_leaves(features, coeff, const)
    low, high = (check_floats(values[key], f"{place}.{key}", n_leaves) for key in ("leaf_low", "leaf_high"))
    for leaf in np.flatnonzero(low > high).tolist():
        fail(f"{place}.leaf_low[{leaf}]", f"{show(float(low[leaf]))} is above leaf_high, {show(float(high[leaf]))}")
    return LinearLeaves.of_leaves(features, coeff, const, (low, high))


def check_left_codes(
    value: object, is_there: bool, n_levels: Sequence[int | None], place: str
) -> tuple[NDArray[np.int32] | None, ...] | None:
    """Return the sets of codes of a tree's splits; None if there is no such key.

    n_levels  of the feature of each split, None for one that is not categorical
    """
    where = f"{place}.left_codes"
    if not is_there:
        if any(n is not None for n in n_levels):
            fail(place, 'the key "left_codes" is missing: a split has a categorical feature')
        return None
    if type(value) is not list:
        fail(where, f"{show(value)} is not a JSON array")
    if len(value) != len(n_levels):
        fail(where, f"has {len(value)} entries, must have {len(n_levels)}")
    if all(n is None for n in n_levels):
        fail(where, "no split has a categorical feature, so this key must not be there")
    sets: list[NDArray[np.int32] | None] = []
    for split, (codes, n) in enumerate(zip(value, n_levels, strict=True)):
        own = f"{where}[{split}]"
        if n is None:
            if codes is not None:
                fail(own, f"{show(codes)} is not null: the feature of the split is not categorical")
            sets.append(None)
            continue
        numbers = check_list(codes, int, own)
        if not numbers:
            fail(own, "is empty, at least one code goes left")
        if numbers[0] < 0 or numbers[-1] >= n:
            wrong = numbers[0] if numbers[0] < 0 else numbers[-1]
            fail(own, f"{show(wrong)} is not in 0..{n - 1}, the codes of the feature")
        if any(b <= a for a, b in pairwise(numbers)):
            fail(own, "codes are not ascending")
        sets.append(np.array(numbers, np.int32))
    return tuple(sets)


def _check_array(name: str, value: object, place: str, length: int) -> NDArray[Any]:
    dtype = TREE_ARRAYS[name]
    if dtype == "bool":
        return np.array(check_list(value, bool, place, length), np.bool_)
    if dtype == "float64":
        if name == "threshold":
            return _check_thresholds(value, place, length)
        return check_floats(value, place, length)
    integers = check_list(value, int, place, length)
    low, high = INT_LIMITS[dtype]
    if integers and not (low <= min(integers) and max(integers) <= high):
        index = next(i for i, entry in enumerate(integers) if not low <= entry <= high)
        fail(f"{place}[{index}]", f"{show(integers[index])} is not in {low}..{high}")
    return np.array(integers, dtype)


def _check_thresholds(value: object, place: str, length: int) -> NDArray[np.float64]:
    """Return float64 (length,); the strings of `INFINITE` stand for infinities, a float like 1e999 does not."""
    if type(value) is not list:
        fail(place, f"{show(value)} is not a JSON array")
    infinite = [i for i, entry in enumerate(value) if type(entry) is str and entry in INFINITE_VALUES]
    finite = list(value)
    for i in infinite:
        finite[i] = 0.0
    array = check_floats(finite, place, length)
    for i in infinite:
        array[i] = INFINITE_VALUES[value[i]]
    return array


def _check_children(left: NDArray[np.int32], right: NDArray[np.int32], n_splits: int, place: str) -> None:
    """Fail unless every split but the first and every leaf is the child of exactly one split of a lower number."""
    numbers = np.arange(n_splits)
    for name, child in (("left", left), ("right", right)):
        where = f"{place}.{name}"
        _check_range(child, -(n_splits + 1), n_splits - 1, where)
        _check_all(
            (child < 0) | (child > numbers),
            child,
            where,
            "not a child: a split must have a higher number than its parent",
        )
    children = np.stack((left, right), axis=1).ravel().astype(np.int64)
    first_use = np.unique(children, return_index=True)[1]
    if len(first_use) < len(children):
        again = np.ones(len(children), np.bool_)
        again[first_use] = False
        index = int(np.argmax(again))
        name = ("left", "right")[index % 2]
        fail(f"{place}.{name}[{index // 2}]", f"{children[index]} already is the child of a split")
    # 2 n_splits children, all different, among n_splits - 1 splits and n_splits + 1 leaves: each occurs once.


def _check_range(array: NDArray[Any], low: int, high: int, place: str) -> None:
    _check_all((array >= low) & (array <= high), array, place, f"not in {low}..{high}")


def _check_all(good: NDArray[np.bool_], array: NDArray[Any], place: str, problem: str) -> None:
    if not good.all():
        index = int(np.argmin(good))
        fail(f"{place}[{index}]", f"{show(array[index].item())} is {problem}")
