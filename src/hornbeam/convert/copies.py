"""Trees made of the nodes of another tree, each as often as need be: for splits that take several in another form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.trees.tree import Tree

Fail = Callable[[str], NoReturn]
Place = tuple[int, str]
"""Where a node hangs: the number of its parent in the new tree, and "left" or "right"; the root has parent -1."""

SPLIT_ARRAYS = ("feature", "threshold", "missing_left", "gain", "split_value", "split_weight", "split_count")
LEAF_ARRAYS = ("leaf_value", "leaf_weight", "leaf_count")


class TreeCopier:
    """A new tree that grows from the root down, while `splits` walks over the old one.

    Copies have the weights and counts of the original; a further split, one of several in the place of one, has gain 0.

    tree  the old tree
    fail  raises an error with a message; called where the new tree would be too large
    """

    def __init__(self, tree: Tree, fail: Fail) -> None:
        self._tree = tree
        self._fail = fail
        self._waiting: list[tuple[int, str, int]] = [(-1, "left", 0 if tree.n_splits else ~0)]
        self._old_split: list[int] = []
        self._old_leaf: list[int] = []
        self._rules: list[tuple[float, bool, bool, NDArray[np.int32] | None]] = []
        self._children: dict[str, list[int]] = {"left": [], "right": []}

    def splits(self) -> Iterator[tuple[Place, int]]:
        """Yield where a split of the old tree is due in the new one, and its number; leaves are copied by the way."""
        while self._waiting:
            parent, side, old = self._waiting.pop()
            if old >= 0:
                yield (parent, side), old
                continue
            if len(self._old_leaf) == MAX_LEAVES:
                self._fail(f"a tree would have more than {MAX_LEAVES} leaves")
            self._attach((parent, side), ~len(self._old_leaf))
            self._old_leaf.append(~old)

    def go_on(self, *children: tuple[int, str, int]) -> None:
        """Say what hangs where: (split of the new tree, side, node of the old tree), the first one next."""
        self._waiting += reversed(children)

    def add_split(
        self,
        place: Place,
        old: int,
        threshold: float,
        missing_left: bool,
        codes: NDArray[np.int32] | None = None,
        is_further: bool = False,
    ) -> int:
        """Add a split by the feature of an old one, and return its number."""
        number = len(self._old_split)
        self._attach(place, number)
        self._old_split.append(old)
        self._rules.append((threshold, missing_left, is_further, codes))
        for side in self._children.values():
            side.append(0)
        return number

    def _attach(self, place: Place, child: int) -> None:
        parent, side = place
        if parent >= 0:
            self._children[side][parent] = child

    def finish(self) -> Tree:
        """Return the new tree."""
        tree, split, leaf = self._tree, np.array(self._old_split, np.int64), np.array(self._old_leaf, np.int64)
        arrays: dict[str, NDArray[Any]] = {name: getattr(tree, name)[split] for name in SPLIT_ARRAYS}
        arrays |= {name: getattr(tree, name)[leaf] for name in LEAF_ARRAYS}
        arrays["threshold"] = np.array([rule[0] for rule in self._rules], np.float64)
        arrays["missing_left"] = np.array([rule[1] for rule in self._rules], np.bool_)
        arrays["gain"] = np.where([rule[2] for rule in self._rules], 0.0, arrays["gain"])
        arrays |= {side: np.array(children, np.int32) for side, children in self._children.items()}
        codes = tuple(rule[3] for rule in self._rules)
        has_sets = any(own is not None for own in codes)
        linear = None if tree.linear is None else tree.linear.of_some(leaf)
        return Tree(**arrays, shrinkage=tree.shrinkage, left_codes=codes if has_sets else None, linear=linear)
