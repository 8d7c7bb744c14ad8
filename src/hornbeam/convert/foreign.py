"""Trees and models as readers find them -> Hornbeam's.

A reader fills `ForeignTree`s: arrays that are checked number by number, with categories as numbers. What they have in
common is checked and translated here: the order of nodes, categories as codes of levels, zeros that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.zeros import is_plain, spell_out_zeros
from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.data.levels import Levels
from hornbeam.data.sources.reader import ZERO
from hornbeam.model.file import ModelData
from hornbeam.model.file.tree_checks import fail
from hornbeam.trees.linear_leaves import LinearLeaves
from hornbeam.trees.tree import Tree

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass
class ForeignTree:
    """A tree of another library: as `Tree`, but for the numbers of nodes, categories and zeros.

    left, right     int64 (n_splits,)   child >= 0: split; < 0: leaf ~child. In any order, split 0 is the root
    reads_zeros     bool (n_splits,)    whether zeros are missing values, too
    categories      one entry a split: int64 (n,), the categories that go left; None for a split of numbers
    linear          functions of the leaves; None: every leaf is constant
    missing_in_set  bool (n_splits,)    whether missing values go left with the categories; unseen ones go right
    """

    feature: IntArray
    threshold: FloatArray
    missing_left: NDArray[np.bool_]
    reads_zeros: NDArray[np.bool_]
    left: IntArray
    right: IntArray
    gain: FloatArray
    split_value: FloatArray
    split_weight: FloatArray
    split_count: IntArray
    leaf_value: FloatArray
    leaf_weight: FloatArray
    leaf_count: IntArray
    shrinkage: float
    categories: list[IntArray | None]
    missing_in_set: NDArray[np.bool_]
    linear: LinearLeaves | None = None

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.feature)


@dataclass
class ForeignModel:
    """A model of another library: as `ModelData`, with foreign trees.

    vocabulary  of each feature: the level of each category, by its number, where the file has names for them; None: a
                category is its own level, and a feature without categories is one of numbers
    """

    feature_names: list[str]
    n_outputs: int
    objective: dict[str, Any]
    params: dict[str, Any]
    init_scores: list[float]
    trees: list[ForeignTree]
    vocabulary: Sequence[tuple[str | int | bool, ...] | None]
    best_iteration: int = 0
    places: list[str] = field(default_factory=list)
    """What messages call each tree."""


def to_hornbeam(model: ForeignModel) -> ModelData:
    """Translate a model, or raise ModelFormatError."""
    n_features = len(model.feature_names)
    trees = [ordered(tree, n_features, place) for tree, place in zip(model.trees, model.places, strict=True)]
    trees = _ask_for_missing(trees, model.vocabulary)
    levels = find_levels(trees, model)
    params = dict(model.params)
    zeros_are_missing = not _all_plain(trees) and _zeros_go_with_missing(trees)
    if zeros_are_missing:
        params["zero_as_missing"] = True
    made = []
    for tree, place in zip(trees, model.places, strict=True):
        own = _with_linear(_to_tree(tree, levels, model.vocabulary), tree, levels, place)
        if tree.reads_zeros.any() and not zeros_are_missing:
            own = spell_out_zeros(own, tree.reads_zeros, partial(fail, f"{place}, zeros that are missing values"))
        made.append(own)
    return ModelData(
        feature_names=model.feature_names,
        n_outputs=model.n_outputs,
        objective=model.objective,
        params=dict(sorted(params.items())),
        init_scores=model.init_scores,
        best_iteration=model.best_iteration,
        trees=made,
        levels=levels if any(own is not None for own in levels) else None,
    )


def ordered(tree: ForeignTree, n_features: int, place: str) -> ForeignTree:
    """Return the tree with splits numbered so that children come after their parents, or fail if it is no tree.

    Leaves keep their numbers, and so do splits where they are in such an order already.
    """
    n_splits, n_leaves = tree.n_splits, len(tree.leaf_value)
    if n_leaves != n_splits + 1:
        fail(place, f"has {n_leaves} leaves and {n_splits} splits; a tree has one leaf more than splits")
    if n_leaves > MAX_LEAVES:
        fail(place, f"has {n_leaves} leaves; Hornbeam's trees have at most {MAX_LEAVES}")
    if n_splits == 0:
        return tree
    if tree.feature.min() < 0 or tree.feature.max() >= n_features:
        fail(place, f"splits feature {_first_outside(tree.feature, 0, n_features - 1)}, of {n_features} features")
    children = np.concatenate([tree.left, tree.right])
    if children.min() < -n_leaves or children.max() >= n_splits:
        fail(place, f"has a child {_first_outside(children, -n_leaves, n_splits - 1)}, and no such node")
    n_parents = np.bincount(children + n_leaves, minlength=n_leaves + n_splits)  # leaves, then splits
    if n_parents[n_leaves] != 0 or np.count_nonzero(n_parents == 1) < n_leaves + n_splits - 1:
        fail(place, "the nodes are no tree: every node but the root must be the child of one other")
    numbers = np.arange(n_splits)
    if all(((side < 0) | (side > numbers)).all() for side in (tree.left, tree.right)):
        return tree
    order = _from_the_root(tree)
    if len(order) < n_splits:
        fail(place, "the nodes are no tree: some of them are children of one another")
    return _renumbered(tree, np.array(order))


def _first_outside(values: IntArray, low: int, high: int) -> int:
    return int(values[(values < low) | (values > high)][0])


def _from_the_root(tree: ForeignTree) -> list[int]:
    """Return the splits that can be reached from the root, parents first; every split has at most one parent."""
    order, left, right = [0], tree.left.tolist(), tree.right.tolist()
    for split in order:
        order += [child for child in (left[split], right[split]) if child >= 0]
    return order


def _renumbered(tree: ForeignTree, order: IntArray) -> ForeignTree:
    """Return the tree with split order[i] as split i."""
    new_number = np.empty(len(order), np.int64)
    new_number[order] = np.arange(len(order))

    def child(side: IntArray) -> IntArray:
        moved = side[order]
        return np.where(moved >= 0, new_number[np.maximum(moved, 0)], moved)

    names = ("feature", "threshold", "missing_left", "reads_zeros", "gain", "split_value", "split_weight",
             "split_count", "missing_in_set")  # fmt: skip
    return replace(
        tree,
        **{name: getattr(tree, name)[order] for name in names},
        left=child(tree.left),
        right=child(tree.right),
        categories=[tree.categories[i] for i in order.tolist()],
    )


def _ask_for_missing(trees: list[ForeignTree], vocabulary: Sequence[Any]) -> list[ForeignTree]:
    """Return the trees with sets in the place of "x <= +inf, missing values right" where the feature is categorical.

    That asks whether there is a value; a set of missing values alone asks the same. Files that Hornbeam writes have it
    (missing_levels.py).
    """
    pairs = [(tree, split) for tree in trees for split, own in enumerate(tree.categories) if own is not None]
    categorical = {int(tree.feature[split]) for tree, split in pairs}
    categorical |= {feature for feature, words in enumerate(vocabulary) if words is not None}
    made = []
    for tree in trees:
        asks = np.isposinf(tree.threshold) & ~tree.missing_left & np.isin(tree.feature, list(categorical))
        asks &= np.array([own is None for own in tree.categories], np.bool_)
        if asks.any():
            none = np.empty(0, np.int64)
            tree = replace(
                tree,
                left=np.where(asks, tree.right, tree.left),
                right=np.where(asks, tree.left, tree.right),
                categories=[none if asks[i] else own for i, own in enumerate(tree.categories)],
                missing_in_set=tree.missing_in_set | asks,
                reads_zeros=tree.reads_zeros & ~asks,
            )
        made.append(tree)
    return made


def find_levels(trees: Sequence[ForeignTree], model: ForeignModel) -> list[Levels | None]:
    """Return the levels of each feature: its vocabulary, or the categories that some split sends left, ascending."""
    seen: dict[int, list[IntArray]] = {}
    coded_missing: set[int] = set()
    numeric: dict[int, int] = {}
    for number, tree in enumerate(trees):
        for split, categories in enumerate(tree.categories):
            feature = int(tree.feature[split])
            if categories is None:
                numeric.setdefault(feature, number)
                continue
            seen.setdefault(feature, []).append(categories)
            if tree.missing_in_set[split]:
                coded_missing.add(feature)
    levels: list[Levels | None] = []
    for feature, words in enumerate(model.vocabulary):
        if feature in numeric and (feature in seen or words is not None):
            fail(
                model.places[numeric[feature]],
                f"compares feature {model.feature_names[feature]!r} as a number, which has categories elsewhere; "
                "Hornbeam reads a feature in one way",
            )
        if words is None and feature not in seen:
            levels.append(None)
            continue
        used = np.unique(np.concatenate([np.empty(0, np.int64), *seen.get(feature, [])]))
        values: tuple[Any, ...] = words if words is not None else tuple(used.tolist())
        if words is not None and len(used) and used[-1] >= len(words):
            fail("categories", f"feature {model.feature_names[feature]!r} has category {used[-1]} of {len(words)}")
        levels.append(Levels((*values, None) if feature in coded_missing else values))
    return levels


def _to_tree(tree: ForeignTree, levels: list[Levels | None], vocabulary: Sequence[Any]) -> Tree:
    """Return Hornbeam's tree; splits that read zeros as missing are as they are."""
    codes: list[NDArray[np.int32] | None] = []
    for split, categories in enumerate(tree.categories):
        if categories is None:
            codes.append(None)
            continue
        feature = int(tree.feature[split])
        own = levels[feature]
        assert own is not None
        places = (
            categories if vocabulary[feature] is not None else [own.code_of[value] for value in categories.tolist()]
        )
        more = [own.code_of[None]] if tree.missing_in_set[split] else []
        codes.append(np.unique(np.array([*places, *more], np.int32)))
    is_set = np.array([own is not None for own in codes], np.bool_)
    return Tree(
        feature=tree.feature.astype(np.int32),
        threshold=np.where(is_set, 0.0, tree.threshold),
        missing_left=np.where(is_set, False, tree.missing_left),
        left=tree.left.astype(np.int32),
        right=tree.right.astype(np.int32),
        gain=tree.gain,
        split_value=tree.split_value,
        split_weight=tree.split_weight,
        split_count=tree.split_count,
        leaf_value=tree.leaf_value,
        leaf_weight=tree.leaf_weight,
        leaf_count=tree.leaf_count,
        shrinkage=tree.shrinkage,
        left_codes=tuple(codes) if is_set.any() else None,
        linear=tree.linear,
    )


def _with_linear(made: Tree, tree: ForeignTree, levels: list[Levels | None], place: str) -> Tree:
    """Return a tree with its linear leaves; those without features are constant."""
    linear = tree.linear
    if linear is None:
        return made
    if tree.reads_zeros.any():
        fail(place, "has linear leaves, and reads zeros as missing values: Hornbeam reads either")
    for own in linear.lists()[0]:
        wrong = [one for one in own if not 0 <= one < len(levels) or levels[one] is not None]
        if wrong or len(set(own)) < len(own):
            fail(place, f"a linear leaf has the features {own}; they must be numbers, and each stands there once")
    is_constant = np.diff(linear.start) == 0
    made = made.with_leaf_values(np.where(is_constant, linear.const, made.leaf_value))
    return made if is_constant.all() else replace(made, linear=linear)


def _rules(tree: ForeignTree) -> list[tuple[float, bool, bool]]:
    """Return threshold, missing_left and reads_zeros of the splits of numbers."""
    arrays = (tree.threshold.tolist(), tree.missing_left.tolist(), tree.reads_zeros.tolist())
    pairs = zip(tree.categories, zip(*arrays, strict=True), strict=True)
    return [rule for categories, rule in pairs if categories is None]


def _all_plain(trees: Sequence[ForeignTree]) -> bool:
    """Say whether every split sends zeros where a threshold can send them."""
    reading = (tree for tree in trees if tree.reads_zeros.any())
    return all(is_plain(threshold, left) for tree in reading for threshold, left, reads in _rules(tree) if reads)


def _zeros_go_with_missing(trees: Sequence[ForeignTree]) -> bool:
    """Say whether every split of numbers sends zeros where it sends NaN: then the model may read zeros as missing."""
    return all(
        reads or (threshold >= ZERO if left else threshold < -ZERO)
        for tree in trees
        for threshold, left, reads in _rules(tree)
    )
