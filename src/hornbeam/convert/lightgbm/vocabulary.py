"""Names of categories in LightGBM's model files.

A categorical column of a pandas frame reaches LightGBM as codes, places in the list of its categories, and the file
keeps these lists (`pandas_categorical`), in the order of the columns. It does not say which columns they are. A
categorical feature may also come as integers, without a list. So the lists are dealt to features by what is known:

- only features that training took for categorical can have one (`categorical_feature` among the parameters; without it,
  those whose `feature_infos` are categories, and those that are "none" may have been);
- the list of a feature is longer than its highest code in `feature_infos`;
- lists and features are in the same order.

Where that leaves a choice that matters, reading fails: a guess might be wrong without a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.data.levels import LARGEST_INTEGER
from hornbeam.model.file.tree_checks import fail, show

Words = tuple[str | int | bool, ...]


def deal_lists(
    lists: Any, n_features: int, infos: Sequence[str], named: Sequence[int] | None, used: set[int]
) -> list[Words | None]:
    """Return the names of each feature's categories, by code; None for features without.

    lists   what `pandas_categorical` says
    infos   `feature_infos`, one a feature
    named   the categorical features, where the parameters name them
    used    features of categorical splits, whose names matter
    """
    none: list[Words | None] = [None] * n_features
    if lists is None or lists == []:
        return none
    if type(lists) is not list:
        fail("pandas_categorical", f"{show(lists)} is not a JSON array")
    words = [_levels(own, f"pandas_categorical[{i}]") for i, own in enumerate(lists)]
    able = [f for f in range(n_features) if _may_be_categorical(infos[f])] if named is None else list(named)
    highest = {feature: _highest_code(infos[feature]) for feature in able}

    def fits(i: int, feature: int) -> bool:
        return highest[feature] < len(words[i])

    # earliest and latest feature that list i can belong to, with all others in order
    first: list[int] = []
    place = 0
    for i in range(len(words)):
        while place < len(able) and not fits(i, able[place]):
            place += 1
        first.append(place)
        place += 1
    last: list[int] = []
    place = len(able) - 1
    for i in reversed(range(len(words))):
        while place >= 0 and not fits(i, able[place]):
            place -= 1
        last.insert(0, place)
        place -= 1
    if any(f >= len(able) or g < 0 for f, g in zip(first, last, strict=True)):
        fail(
            "pandas_categorical",
            f"has {len(words)} lists of categories that do not fit the {len(able)} categorical features",
        )
    for i, (f, g) in enumerate(zip(first, last, strict=True)):
        doubtful = [feature for feature in able[f : g + 1] if feature in used and fits(i, feature)]
        if f < g and doubtful:
            fail(
                "pandas_categorical",
                f"does not say whether list {i} belongs to feature {doubtful[0]}; train with every categorical column "
                "as a pandas category, or with every one as integers, and save the model again",
            )
        if f == g:
            none[able[f]] = words[i]
        elif not doubtful:  # of columns that no split looks at; any reading does
            none[next(feature for feature in able[f : g + 1] if none[feature] is None)] = words[i]
    return none


def _may_be_categorical(info: str) -> bool:
    return not info.startswith("[")


def _highest_code(info: str) -> int:
    """Return the highest code that training saw; -1 if that is not known."""
    codes = [int(word) for word in info.split(":") if word.isascii() and word.isdecimal() and len(word) < 12]
    return max(codes, default=-1)


def _levels(own: Any, place: str) -> Words:
    """Return the names of a column's categories, or fail if they cannot be levels."""
    if type(own) is not list:
        fail(place, f"{show(own)} is not a JSON array")
    words = [int(word) if type(word) is float and word.is_integer() else word for word in own]
    kinds = {type(word) for word in words}
    if not (kinds <= {str} or kinds <= {int} or kinds <= {bool}):
        fail(
            place,
            f"has categories such as {show(own[0])}, which are not all strings, all integers or all booleans; train "
            "with the column converted to strings, and save the model again",
        )
    if len(set(words)) < len(words):
        fail(place, "has a category twice")
    if kinds == {int} and not all(0 <= word <= LARGEST_INTEGER for word in words):
        fail(place, "has a category that is a negative or a huge integer; levels are integers from 0 to 2**63 - 1")
    return tuple(words)
