"""Sets of levels that hold missing values, for formats whose sets cannot.

Hornbeam sends missing values left with a set where they are one of its levels (levels.py), and unseen levels right. A
format in which both go right says it by a split more, which asks whether there is a value at all:

    in the set, or missing                 at most +inf (NaN goes right)
       left     right           =             in the set         left, a copy
                                             left     right
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from hornbeam.convert.copies import Fail, TreeCopier
from hornbeam.convert.exactness import Exactness
from hornbeam.convert.outgoing import Column, Outgoing
from hornbeam.trees.tree import Tree


def spell_out_missing(tree: Tree, columns: Sequence[Column], fail: Fail) -> Tree:
    """Return a tree whose sets hold no missing values; splits without a set compare numbers, of categories too.

    columns  of the features
    fail     raises an error with a message; called where the tree would be too large
    """
    codes = tree.left_codes or (None,) * tree.n_splits
    missing = [None if own is None else columns[int(tree.feature[i])].missing_code for i, own in enumerate(codes)]
    if not any(own is not None and code in own for own, code in zip(codes, missing, strict=True)):
        return tree
    copier = TreeCopier(tree, fail)
    for place, old in copier.splits():
        left, right, own = int(tree.left[old]), int(tree.right[old]), codes[old]
        if own is None or missing[old] not in own:
            split = copier.add_split(place, old, float(tree.threshold[old]), bool(tree.missing_left[old]), own)
            copier.go_on((split, "left", left), (split, "right", right))
            continue
        known = own[own != missing[old]]
        first = copier.add_split(place, old, np.inf, False)
        if len(known) == 0:  # the question is the split
            copier.go_on((first, "left", right), (first, "right", left))
            continue
        second = copier.add_split((first, "left"), old, 0.0, False, known, is_further=True)
        copier.go_on((second, "left", left), (second, "right", right), (first, "right", left))
    return copier.finish()


def without_missing_levels(tree: Tree, out: Outgoing, exactness: Exactness) -> Tree:
    """Return the tree of a model for a format whose sets cannot hold missing values."""

    def refuse(problem: str) -> NoReturn:
        exactness.refuse(f"missing values are a level of sets: spelled out, {problem}", "use format 'c' or 'python'")

    return spell_out_missing(tree, out.columns, refuse)
