"""Names of categories in LightGBM's model files.

A categorical column of a pandas frame reaches LightGBM as codes, places in the list of its categories, and the file
keeps these lists (`pandas_categorical`), in the order of the columns. It does not say which columns they are. A
categorical feature may also come as integers, without a list. So the lists are dealt to features by what is known:

- only features that training took for categorical can have one (`categorical_feature` among the parameters; without it,
  those whose `feature_infos` are categories, and those that are "none" may have been);
- the list of a feature is longer than its highest code in `feature_infos`;
- lists and features are in the same order.

A column of *ordered* categories has a list, too, though training took its codes for numbers. So where there are more
lists than categorical features, features of whole numbers from 0 on may have one in the same way. They stay numbers,
and a line of the log says that codes are to be passed.

Where that leaves a choice that matters, reading fails: a guess might be wrong without a sign. Only where ordered
categories are among the columns, and all levels are strings, codes are levels then: strings in their place are an
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.core.log import warn
from hornbeam.data.levels import LARGEST_INTEGER
from hornbeam.model.file.tree_checks import fail, show

Words = tuple[str | int | bool, ...]


def deal_lists(
    lists: Any, infos: Sequence[str], named: Sequence[int] | None, used: set[int], feature_names: Sequence[str]
) -> list[Words | None]:
    """Return the names of each feature's categories, by code; None for features without.

    lists          what `pandas_categorical` says
    infos          `feature_infos`, one a feature
    named          the categorical features, where the parameters name them
    used           features of categorical splits, whose names matter
    feature_names  for messages
    """
    n_features = len(infos)
    if lists is None or lists == []:
        return [None] * n_features
    if type(lists) is not list:
        fail("pandas_categorical", f"{show(lists)} is not a JSON array")
    words = [_levels(own, f"pandas_categorical[{i}]") for i, own in enumerate(lists)]
    able = [f for f in range(n_features) if _may_be_categorical(infos[f])] if named is None else list(named)
    if len(words) <= len(able):
        return _Dealing(words, able, infos, used).vocabulary(set(able))
    numbers = [f for f in range(n_features) if f not in able and f not in used and _may_be_codes(infos[f])]
    dealing = _Dealing(words, sorted([*able, *numbers]), infos, used)
    if dealing.doubt is not None and all(isinstance(word, str) for own in words for word in own):
        warn(
            "the LightGBM model was trained on ordered categories, and pandas_categorical does not say which lists are "
            "theirs: pass the codes of every category to predict, X[name].cat.codes of the training table's categories"
        )
        return [None] * n_features
    found = dealing.vocabulary(set(able))
    ordered = [feature_names[f] for f in numbers if f in dealing.certain]
    which = f"{', '.join(map(repr, ordered))} as" if ordered else "columns of"
    name = repr(ordered[0]) if ordered else "name"
    warn(
        f"the LightGBM model was trained on {which} ordered categories, whose codes are numbers: pass "
        f"X[{name}].cat.codes to predict, of the training table's categories, and NaN for -1"
    )
    return found


class _Dealing:
    """Lists dealt to features in the order of both.

    words  the lists
    able   features that may have one, ascending
    infos  `feature_infos`
    used   features of categorical splits

    Attributes
    ----------
    ranges
        Of each list: the first and the last of `able` that it can belong to, with all others in order.
    certain
        Features that surely have a list.
    doubt
        A list, and a feature of categorical splits that may have it or not; None: there is no such.
    """

    def __init__(self, words: Sequence[Words], able: list[int], infos: Sequence[str], used: set[int]) -> None:
        self.words, self.able, self.used, self.n_features = words, able, used, len(infos)
        self._highest = {feature: _highest_code(infos[feature]) for feature in able}
        backwards = [len(able) - 1 - place for place in self._earliest(words[::-1], able[::-1])]
        self.ranges = list(zip(self._earliest(words, able), backwards[::-1], strict=True))
        if any(first >= len(able) or last < 0 for first, last in self.ranges):
            fail(
                "pandas_categorical",
                f"has {len(words)} lists of categories that do not fit the {len(able)} features that may have one",
            )
        self.certain = {able[first] for first, last in self.ranges if first == last}
        doubts = ((i, self._doubtful(i)) for i, (first, last) in enumerate(self.ranges) if first < last)
        self.doubt = next(((i, features[0]) for i, features in doubts if features), None)

    def _earliest(self, words: Sequence[Words], able: Sequence[int]) -> list[int]:
        """Return for each list the earliest place of a feature that it can belong to, after those of lists before."""
        places, place = [], 0
        for own in words:
            while place < len(able) and not self._fits(own, able[place]):
                place += 1
            places.append(place)
            place += 1
        return places

    def _fits(self, own: Words, feature: int) -> bool:
        return self._highest[feature] < len(own)

    def _features(self, i: int) -> list[int]:
        """Return the features that a list may belong to."""
        first, last = self.ranges[i]
        return [feature for feature in self.able[first : last + 1] if self._fits(self.words[i], feature)]

    def _doubtful(self, i: int) -> list[int]:
        return [feature for feature in self._features(i) if feature in self.used]

    def vocabulary(self, categorical: set[int]) -> list[Words | None]:
        """Return the list of each categorical feature, or fail where there is a doubt."""
        if self.doubt is not None:
            fail(
                "pandas_categorical",
                f"does not say whether list {self.doubt[0]} belongs to feature {self.doubt[1]}; train with every "
                "categorical column as a pandas category, or with every one as integers, with the codes of ordered "
                "ones (.cat.codes), and save the model again",
            )
        found: list[Words | None] = [None] * self.n_features
        for i, own in enumerate(self.words):  # one of several features that no split looks at: any reading does
            free = [feature for feature in self._features(i) if feature in categorical and found[feature] is None]
            if free:
                found[free[0]] = own
        return found


def _may_be_categorical(info: str) -> bool:
    return not info.startswith("[")


def _may_be_codes(info: str) -> bool:
    """Say whether a feature of numbers may hold the codes of ordered categories: whole numbers from 0 on."""
    low, _, high = info.strip("[]").partition(":")
    return info == "none" or (low.isascii() and low.isdecimal() and high.isascii() and high.isdecimal())


def _highest_code(info: str) -> int:
    """Return the highest code that training saw; -1 if that is not known."""
    info = info.strip("[]")
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
