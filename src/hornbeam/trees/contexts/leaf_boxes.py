"""Bounds of leaves that come from other leaves: `monotone_constraints_method` "intermediate" and "advanced".

A leaf is a box: an interval of bins of every feature, and whether missing values of the feature are in it; of a
categorical feature a set of levels. Two leaves are *ordered* by a constrained feature when their boxes overlap in every
other feature and one lies below the other in this one: then some row can go from the one to the other by moving this
feature alone.

    feature 1   |  a  |   b    |        feature 0 is constrained to rise:
                |-----+--------|        a <= b,  c <= d,  a <= d (they overlap in feature 1),  not c <= b
                |   c    |  d  |
                 feature 0  -->

A leaf may be split into outputs between the highest output of the leaves below it and the lowest of those above it. The
children's boxes lie in their parent's, so whatever is ordered with a child was ordered with the parent, and the split
breaks nothing. It changes the bounds of the leaves around, though, which must then be evaluated anew: growth goes one
split at a time.

With "advanced" the bounds of a child are those of its own box: where the leaf is split by a feature, another leaf that
overlaps one part of it alone does not bound the other child (`side_bounds`). A leaf that shares missing values of the
feature with it bounds both children, wherever these values go.

This is the definition; where the CPU grows a tree by itself there is a twin, backends/cpu/growth/trees/leaf_boxes.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray


def as_bits(words: NDArray[np.uint32]) -> int:
    """Return a set of levels (tree.code_bits) as one number."""
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


class LeafBoxes:
    """The leaves of a growing tree, their boxes and their outputs.

    Only features that were split have a column; in all others every box is whole.

    sign         int8 (n_used,)  monotone constraint of each used feature
    n_value_bins int (n_used,)
    use_missing  missing values are not zeros; zeros are on one side as all values are
    """

    def __init__(self, sign: NDArray[np.int8], n_value_bins: NDArray[np.int32], use_missing: bool = True) -> None:
        self._sign, self._n_value_bins, self._use_missing = sign, n_value_bins, use_missing
        self._column: dict[int, int] = {}
        self._signs: list[int] = []
        self.leaves = [0]
        self._low = np.zeros((1, 0), np.int64)  # of each leaf, in the order of `leaves`
        self._high = np.zeros((1, 0), np.int64)
        self._missing = np.zeros((1, 0), bool)
        self._levels: dict[int, list[int]] = {}  # of each leaf, by categorical feature: bits of its levels
        self._no_level = np.zeros((1, 1), bool)  # pairs of leaves that share no level of some categorical feature

    def split(
        self, node: int, left: int, feature: int, bin_: int, missing_left: bool, left_set: int | None = None
    ) -> list[int]:
        """Replace a leaf by its children `left` and `left + 1`; returns the other leaves that were ordered with it.

        left_set  of a categorical feature: the bits of the levels that go left. All others go right
        """
        place = self.leaves.index(node)
        touched = [self.leaves[other] for other in np.flatnonzero(np.logical_or(*self._ordered(place)))]
        from_ = [*(other for other in range(len(self.leaves)) if other != place), place, place]
        for name in ("_low", "_high", "_missing"):
            setattr(self, name, getattr(self, name)[from_])
        self._no_level = self._no_level[np.ix_(from_, from_)]
        self._levels = {f: [levels[other] for other in from_] for f, levels in self._levels.items()}
        self.leaves = [*(other for other in self.leaves if other != node), left, left + 1]
        if left_set is not None:
            levels = self._levels.setdefault(feature, [-1] * len(self.leaves))  # every bit of -1 is set
            levels[-2:] = levels[-2] & left_set, levels[-1] & ~left_set
            for child in (-2, -1):
                self._no_level[child] |= [levels[child] & other == 0 for other in levels]
                self._no_level[:, child] = self._no_level[child]
            return touched
        column = self._column_of(feature)
        self._high[-2, column] = min(self._high[-2, column], bin_)
        self._low[-1, column] = max(self._low[-1, column], bin_ + 1)
        self._missing[-2, column] &= missing_left
        self._missing[-1, column] &= not missing_left
        return touched

    def _column_of(self, feature: int) -> int:
        """Return the column of a feature; a new one is whole in every box."""
        if feature not in self._column:
            self._column[feature] = len(self._column)
            self._signs.append(int(self._sign[feature]))
            shape = len(self.leaves), 1
            last = int(self._n_value_bins[feature]) - 1
            self._low = np.hstack([self._low, np.zeros(shape, np.int64)])
            self._high = np.hstack([self._high, np.full(shape, last, np.int64)])
            self._missing = np.hstack([self._missing, np.full(shape, self._use_missing)])
        return self._column[feature]

    def _ordered(self, place: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which leaves must not exceed the one at a place, and which it must not exceed, bool (n_leaves,)."""
        low, high, missing = self._low, self._high, self._missing
        before, after = high < low[place], low > high[place]  # (n_leaves, n_columns)
        valued = (low <= high) & (low[place] <= high[place])  # else one of them has missing values alone
        apart = (before | after | ~valued) & ~(missing & missing[place])
        once = (np.count_nonzero(apart, axis=1) == 1) & ~self._no_level[place]
        alone = once[:, None] & apart & valued
        rising, falling = alone & (np.array(self._signs) > 0), alone & (np.array(self._signs) < 0)
        below = (rising & before | falling & after).any(axis=1)
        above = (rising & after | falling & before).any(axis=1)
        return below, above

    def bounds(self, leaf: int, outputs: Sequence[float], silent: Collection[int] = frozenset()) -> tuple[float, float]:
        """Return the highest output below a leaf and the lowest above it.

        outputs  of every node, by its number
        silent   leaves that bound no other
        """
        below, above = (
            [self.leaves[other] for other in np.flatnonzero(found) if self.leaves[other] not in silent]
            for found in self._ordered(self.leaves.index(leaf))
        )
        return (
            max((outputs[other] for other in below), default=-math.inf),
            min((outputs[other] for other in above), default=math.inf),
        )

    def side_bounds(
        self, leaf: int, outputs: Sequence[float], silent: Collection[int] = frozenset()
    ) -> dict[int, NDArray[np.float64]]:
        """Return bounds of the children of a leaf by the bin of a split, float64 (4, n_value_bins), see SideBounds.

        outputs, silent  as in `bounds`

        By feature; of a feature that no leaf was split by the bounds are those of the leaf.
        """
        place = self.leaves.index(leaf)
        low, high, found = self._low, self._high, {}
        valued = (low <= high) & (low[place] <= high[place])
        parted = (high < low[place]) | (low > high[place])  # by the constrained feature
        whole = parted | ~valued | (self._missing & self._missing[place])
        bounding = []
        for others, sign in zip(self._ordered(place), (1.0, -1.0), strict=True):
            some = [other for other in np.flatnonzero(others) if self.leaves[other] not in silent]
            bounding.append((sign, some, np.array([sign * outputs[self.leaves[other]] for other in some])))
        for feature, column in self._column.items():
            n = int(self._n_value_bins[feature])
            table = np.full((4, n), -math.inf)
            for row, (sign, some, values) in enumerate(bounding):
                first = np.where(whole[some, column], 0, low[some, column])
                last = np.where(whole[some, column], n, high[some, column])
                left, right = np.full((2, n + 1), -math.inf)
                np.maximum.at(left, first, values)
                np.maximum.at(right, last, values)
                table[row] = sign * np.maximum.accumulate(left)[:n]
                table[2 + row] = sign * np.maximum.accumulate(right[::-1])[::-1][1:]
            found[feature] = table
        return found

    def below(self, place: int) -> NDArray[np.bool_]:
        """Return which leaves must not exceed the one at a place of `leaves`, bool (n_leaves,), in their order."""
        return self._ordered(place)[0]
