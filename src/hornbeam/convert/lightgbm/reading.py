"""LightGBM's text -> model.

A split of numbers sends x left when x <= threshold. Which values are missing differs from split to split
(`decision_type`): none, so that NaN is 0; NaN; or NaN and zeros. These go by a default direction. A split of categories
has a set of integers as bits: what is in it goes left, everything else right, NaN and negative numbers too, which is
Hornbeam's rule. The score starts from 0: the best constant is in the leaves of the first trees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.foreign import ForeignModel, ForeignTree, to_hornbeam
from hornbeam.convert.lightgbm.objectives import read_objective, read_params
from hornbeam.convert.lightgbm.text import ROOT, Sections, entry, floats, integer, integers, number_of, split_sections
from hornbeam.convert.lightgbm.vocabulary import deal_lists
from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.model.file import ModelData
from hornbeam.model.file.tree_checks import fail, show
from hornbeam.trees.linear_leaves import LinearLeaves
from hornbeam.trees.tree import bits_to_codes

VERSIONS = ("v2", "v3", "v4")

CATEGORICAL, DEFAULT_LEFT, MISSING_TYPE = 1, 2, 2
"""Bits of `decision_type`; the kind of missing values is in the two bits from MISSING_TYPE on."""

MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2

MOST_FEATURES = 2**31 - 1


def read(data: bytes) -> ModelData:
    """Rebuild a model from the bytes of its file, or raise ModelFormatError."""
    sections = split_sections(data)
    header = sections.header
    version = entry(header, "version", ROOT)
    if version not in VERSIONS:
        fail(f"{ROOT}, version", f"{show(version)} is not known; {', '.join(VERSIONS)} are read")
    names = _names(header)
    n_outputs = integer(header, "num_class", ROOT, 1, MOST_FEATURES)
    if "num_tree_per_iteration" in header:
        n_outputs = integer(header, "num_tree_per_iteration", ROOT, 1, MOST_FEATURES)
    objective = read_objective(header.get("objective"), n_outputs)
    _check_number_of_trees(sections, n_outputs)
    places = [f"{ROOT}, tree {i}" for i in range(len(sections.trees))]
    trees = [_tree(section, place) for section, place in zip(sections.trees, places, strict=True)]
    used = {int(tree.feature[i]) for tree in trees for i, own in enumerate(tree.categories) if own is not None}
    infos = header.get("feature_infos", "").split() or ["none"] * len(names)
    if len(infos) != len(names):
        fail(f"{ROOT}, feature_infos", f"has {len(infos)} entries, must have {len(names)}")
    named = _categorical_features(sections.parameters, len(names))
    vocabulary = deal_lists(sections.pandas_categorical, infos, named, used, names)
    made = to_hornbeam(
        ForeignModel(
            feature_names=names,
            n_outputs=n_outputs,
            objective=objective,
            params=read_params(objective, sections.parameters, "average_output" in header),
            init_scores=[0.0] * n_outputs,
            trees=trees,
            vocabulary=vocabulary,
            places=places,
        )
    )
    listed = frozenset(feature for feature, words in enumerate(vocabulary) if words is not None)
    return replace(made, category_columns=listed)


def _names(header: dict[str, str]) -> list[str]:
    n_features = 1 + integer(header, "max_feature_idx", ROOT, 0, MOST_FEATURES)
    names = [name for name in entry(header, "feature_names", ROOT).split(" ") if name]
    if len(names) != n_features:
        fail(f"{ROOT}, feature_names", f"has {len(names)} names, must have {n_features}")
    if len(set(names)) < n_features:
        fail(f"{ROOT}, feature_names", "has a name twice")
    return names


def _check_number_of_trees(sections: Sections, n_outputs: int) -> None:
    n_trees = len(sections.trees)
    if "tree_sizes" in sections.header:
        announced = len(sections.header["tree_sizes"].split())
        if announced != n_trees:
            fail(f"{ROOT}, tree_sizes", f"announces {announced} trees, and there are {n_trees}: the file is damaged")
    if n_trees % n_outputs:
        fail(ROOT, f"has {n_trees} trees, must have a multiple of the {n_outputs} outputs")


def _linear(section: dict[str, str], n_leaves: int, place: str) -> LinearLeaves | None:
    """Return the linear leaves of a tree, their features ascending; None where the tree has none."""
    if section.get("is_linear", "0") == "0":
        return None
    sizes = integers(section, "num_features", place, n_leaves)
    if sizes.min() < 0 or sizes.max() > MAX_LEAVES:
        fail(f"{place}, num_features", "has an entry that is no number of features")
    ends = np.cumsum(sizes)[:-1]
    features = np.split(integers(section, "leaf_features", place, int(sizes.sum())), ends)
    coeff = np.split(floats(section, "leaf_coeff", place, int(sizes.sum())), ends)
    orders = [np.argsort(own, kind="stable") for own in features]
    return LinearLeaves.of_leaves(
        [own[order].tolist() for own, order in zip(features, orders, strict=True)],
        [own[order].tolist() for own, order in zip(coeff, orders, strict=True)],
        floats(section, "leaf_const", place, n_leaves),
    )


def _categorical_features(parameters: dict[str, str], n_features: int) -> list[int] | None:
    """Return the features that training took for categorical; None where the file does not say."""
    words = parameters.get("categorical_feature", "").split(",")
    if not all(word.isascii() and word.isdecimal() and len(word) < 11 for word in words):
        return None
    features = sorted({int(word) for word in words})
    return features if features[-1] < n_features else None


def _tree(section: dict[str, str], place: str) -> ForeignTree:
    n_leaves = integer(section, "num_leaves", place, 1, MAX_LEAVES)
    n_splits = n_leaves - 1
    linear = _linear(section, n_leaves, place)
    if n_splits == 0:
        section = {key: value for key, value in section.items() if value or not key.startswith(("leaf_", "internal_"))}

    def statistic(key: str, length: int) -> NDArray[np.float64]:
        return floats(section, key, place, length) if key in section else np.zeros(length)

    def count(key: str, length: int) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = np.zeros(length, np.int64)
        if key in section:
            counts = integers(section, key, place, length)
        return np.maximum(counts, 0)

    decision = integers(section, "decision_type", place, n_splits) if n_splits else np.empty(0, np.int64)
    kind = decision >> MISSING_TYPE
    if ((decision < 0) | (kind > MISSING_NAN)).any():
        fail(f"{place}, decision_type", "has an entry that is none")
    threshold = floats(section, "threshold", place, n_splits, may_be_infinite=True)
    # what is not missing counts as 0
    missing_left = np.where(kind == MISSING_NONE, threshold >= 0.0, (decision & DEFAULT_LEFT) != 0)
    is_set = (decision & CATEGORICAL) != 0
    return ForeignTree(
        feature=integers(section, "split_feature", place, n_splits),
        threshold=threshold,
        missing_left=missing_left,
        reads_zeros=(kind == MISSING_ZERO) & ~is_set,
        left=integers(section, "left_child", place, n_splits),
        right=integers(section, "right_child", place, n_splits),
        gain=statistic("split_gain", n_splits),
        split_value=statistic("internal_value", n_splits),
        split_weight=statistic("internal_weight", n_splits),
        split_count=count("internal_count", n_splits),
        leaf_value=floats(section, "leaf_value", place, n_leaves),
        leaf_weight=statistic("leaf_weight", n_leaves),
        leaf_count=count("leaf_count", n_leaves),
        shrinkage=number_of(section.get("shrinkage", "1"), f"{place}, shrinkage"),
        categories=_categories(section, is_set, threshold, place),
        missing_in_set=np.zeros(n_splits, np.bool_),
        linear=linear,
    )


def _categories(
    section: dict[str, str], is_set: NDArray[np.bool_], threshold: NDArray[np.float64], place: str
) -> list[NDArray[np.int64] | None]:
    """Return the categories that go left at each split; `threshold` has the number of the set."""
    n_sets = integer(section, "num_cat", place, 0, len(is_set))
    if not is_set.any():
        return [None] * len(is_set)
    bounds = integers(section, "cat_boundaries", place, n_sets + 1)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > 2**31:
        fail(f"{place}, cat_boundaries", "are not ascending from 0")
    words = integers(section, "cat_threshold", place, int(bounds[-1]), np.uint32)
    sets: list[NDArray[np.int64] | None] = []
    for split, number in enumerate(threshold.tolist()):
        if not is_set[split]:
            sets.append(None)
            continue
        if not (0 <= number < n_sets and number == int(number)):
            fail(f"{place}, threshold", f"{number} is not the number of a set: there are {n_sets}")
        own = bits_to_codes(words[bounds[int(number)] : bounds[int(number) + 1]]).astype(np.int64)
        if len(own) == 0:
            fail(f"{place}, cat_threshold", f"no category goes left at split {split}")
        sets.append(own)
    return sets
