"""Splits that read zeros as missing values, as splits that do not.

Such a split sends the *zeros*, magnitudes up to ZERO, where it sends NaN, and compares all other values. In most cases
another threshold says the same: zeros that go left although they are above the threshold, with nothing between, make
the threshold ZERO. Where the zeros interrupt a side, its values lie in two intervals, and three splits and a copy of
both children take the place of one:

    zeros go left, threshold T below them          zeros go right, threshold T above them

        --- T ---- -ZERO == +ZERO ---                  --- -ZERO == +ZERO ---- T ---
        left   right     left   right                  left     right     left   right
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.copies import Fail, TreeCopier
from hornbeam.data.sources.reader import ZERO
from hornbeam.trees.tree import Tree

BELOW_ZEROS = float(np.nextafter(-ZERO, -np.inf))
"""The largest value below the zeros."""


def is_plain(threshold: float, missing_left: bool) -> bool:
    """Say whether one threshold says what a split that reads zeros as missing does."""
    return threshold >= BELOW_ZEROS if missing_left else threshold <= ZERO


def plain_threshold(threshold: float, missing_left: bool) -> float:
    """Return that threshold."""
    return max(threshold, ZERO) if missing_left else min(threshold, BELOW_ZEROS)


def spell_out_zeros(tree: Tree, reads_zeros: NDArray[np.bool_], fail: Fail) -> Tree:
    """Return a tree that predicts the same where zeros are ordinary values.

    reads_zeros  bool (n_splits,)  in  the splits that read zeros as missing; none is categorical
    fail         raises an error with a message; called where the tree would be too large

    Leaves keep their numbers unless copies are needed.
    """
    rules = list(zip(tree.threshold.tolist(), tree.missing_left.tolist(), reads_zeros.tolist(), strict=True))
    if all(is_plain(threshold, left) for threshold, left, reads in rules if reads):
        thresholds = [plain_threshold(threshold, left) if reads else threshold for threshold, left, reads in rules]
        return replace(tree, threshold=np.array(thresholds, np.float64))
    copier, codes = TreeCopier(tree, fail), tree.left_codes
    for place, old in copier.splits():
        left, right = int(tree.left[old]), int(tree.right[old])
        threshold, missing_left, reads = rules[old]
        if not reads or is_plain(threshold, missing_left):
            own = plain_threshold(threshold, missing_left) if reads else threshold
            split = copier.add_split(place, old, own, missing_left, None if codes is None else codes[old])
            copier.go_on((split, "left", left), (split, "right", right))
            continue
        # the intervals in ascending order, and which child each belongs to; NaN goes with the zeros
        ends = (threshold, BELOW_ZEROS, ZERO) if missing_left else (BELOW_ZEROS, ZERO, threshold)
        first = copier.add_split(place, old, ends[0], missing_left)
        second = copier.add_split((first, "right"), old, ends[1], not missing_left, is_further=True)
        third = copier.add_split((second, "right"), old, ends[2], True, is_further=True)
        copier.go_on(
            (first, "left", left), (second, "left", right), (third, "left", left), (third, "right", right)
        )  # fmt: skip
    return copier.finish()
