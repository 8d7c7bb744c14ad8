"""XGBoost's trees, both ways.

A tree is arrays over its nodes, splits and leaves alike; node 0 is the root, a leaf has no children (-1) and its value
in the place of the threshold. Where leaves hold a vector (multi_strategy="multi_output_tree") it is in `base_weights`,
and the tree becomes one for each output. At a split of numbers x goes left when x < threshold, both float32
(float32.py). At a split of categories those of the set go *right* and all others left, unseen, negative and huge ones
too. Missing values go where `default_left` says, at both. Hornbeam's sets go left, so children change places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.float32 import from_float32, to_float32
from hornbeam.convert.foreign import ForeignTree
from hornbeam.convert.outgoing import Column
from hornbeam.convert.xgboost.document import finite, floats, inner, integers, whole
from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.model.file.tree_checks import fail
from hornbeam.trees.tree import Tree

LEAF = -1
NO_PARENT = 2**31 - 1
LARGEST_CATEGORY = 2**24 - 1
"""Categories are float32 there; beyond, they are not told apart."""


def leaf_size(document: Any, place: str) -> int:
    """Return how many numbers a leaf of a tree holds."""
    return max(1, whole(inner(document, "tree_param", place), "size_leaf_vector", place, 0, 2**31, default=1))


def read_trees(document: Any, n_features: int, weight: float, place: str) -> list[ForeignTree]:
    """Return the tree of each number that a leaf holds, with the same splits, or fail; others as for `read_tree`."""
    size = leaf_size(document, place)
    if size == 1:
        return [read_tree(document, n_features, weight, place)]
    n_nodes = whole(inner(document, "tree_param", place), "num_nodes", place, 1, 2**31 - 1)
    values = finite(document, "base_weights", place, n_nodes * size).reshape(n_nodes, size)
    left = integers(document, "left_children", place, n_nodes)
    right = integers(document, "right_children", place, n_nodes)  # of leaves: which vector is theirs
    condition = floats(document, "split_conditions", place, n_nodes)
    whole_tree = {**document, "right_children": np.where(left == LEAF, LEAF, right).tolist()}
    return [
        read_tree(
            {
                **whole_tree,
                "base_weights": values[:, k].tolist(),
                "split_conditions": np.where(left == LEAF, values[:, k], condition).tolist(),
            },
            n_features,
            weight,
            place,
        )
        for k in range(size)
    ]


def read_tree(document: Any, n_features: int, weight: float, place: str) -> ForeignTree:
    """Return a tree whose leaves hold a number each, or fail.

    weight  factor on its leaves: that of DART
    """
    params = inner(document, "tree_param", place)
    n_nodes = whole(params, "num_nodes", place, 1, 2**31 - 1)
    whole(params, "num_feature", place, n_features, n_features, default=n_features)
    left = integers(document, "left_children", place, n_nodes)
    right = integers(document, "right_children", place, n_nodes)
    nodes = _reachable(left, right, place)
    n_deleted = whole(params, "num_deleted", place, 0, n_nodes, default=0)
    if len(nodes) != n_nodes - n_deleted:
        fail(place, f"{len(nodes)} nodes hang together, and {n_nodes - n_deleted} are there: the file is damaged")
    is_leaf = left[nodes] == LEAF
    split, leaf = nodes[~is_leaf], nodes[is_leaf]
    split = split[np.argsort(left[split])]  # children are numbered in the order in which the splits were made
    if len(leaf) > MAX_LEAVES:
        fail(place, f"has {len(leaf)} leaves; Hornbeam's trees have at most {MAX_LEAVES}")
    number = np.zeros(n_nodes, np.int64)
    number[split], number[leaf] = np.arange(len(split)), ~np.arange(len(leaf))

    condition = floats(document, "split_conditions", place, n_nodes)
    gain, value = finite(document, "loss_changes", place, n_nodes), finite(document, "base_weights", place, n_nodes)
    hessian = finite(document, "sum_hessian", place, n_nodes)
    default_left = integers(document, "default_left", place, n_nodes)[split] != 0
    leaf_value = condition[leaf].astype(np.float64) * weight
    if not np.isfinite(leaf_value).all():
        fail(f"{place}.split_conditions", "has the value of a leaf that is no finite number")

    sets = _categories(document, n_nodes, place)
    categories = [sets.get(node) for node in split.tolist()]
    is_set = np.array([own is not None for own in categories], np.bool_)
    threshold = np.where(is_set, np.float32(0), condition[split])
    if np.isnan(threshold).any():
        fail(f"{place}.split_conditions", "has a threshold that is NaN")
    never_left = np.isneginf(threshold)
    swapped = is_set | never_left
    below, above = number[left[split]], number[right[split]]
    return ForeignTree(
        feature=integers(document, "split_indices", place, n_nodes)[split],
        threshold=np.where(never_left, np.inf, from_float32(np.where(never_left, np.float32(0), threshold))),
        missing_left=np.where(never_left, ~default_left, default_left),
        reads_zeros=np.zeros(len(split), np.bool_),
        left=np.where(swapped, above, below),
        right=np.where(swapped, below, above),
        gain=gain[split].astype(np.float64),
        split_value=value[split].astype(np.float64),
        split_weight=hessian[split].astype(np.float64),
        split_count=np.zeros(len(split), np.int64),
        leaf_value=leaf_value,
        leaf_weight=hessian[leaf].astype(np.float64),
        leaf_count=np.zeros(len(leaf), np.int64),
        shrinkage=1.0,
        categories=categories,
        missing_in_set=is_set & ~default_left,
    )


def _reachable(left: NDArray[np.int64], right: NDArray[np.int64], place: str) -> NDArray[np.int64]:
    """Return the nodes that hang on the root, ascending: a file may hold others, which were deleted."""
    n_nodes, sides = len(left), (left.tolist(), right.tolist())
    seen = np.zeros(n_nodes, np.bool_)
    seen[0] = True
    waiting = [0]
    while waiting:
        node = waiting.pop()
        children = [side[node] for side in sides]
        if children == [LEAF, LEAF]:
            continue
        for one in children:
            if not 0 <= one < n_nodes or seen[one]:
                fail(place, f"node {node} has child {one}, which is no node or the child of another one")
            seen[one] = True
        waiting += children
    return np.flatnonzero(seen)


def _categories(document: Any, n_nodes: int, place: str) -> dict[int, NDArray[np.int64]]:
    """Return the categories that go right at each split that has some, by node."""
    if "split_type" not in document:  # before XGBoost 1.3
        return {}
    kinds = integers(document, "split_type", place, n_nodes)
    nodes = integers(document, "categories_nodes", place)
    begin = integers(document, "categories_segments", place, len(nodes))
    size = integers(document, "categories_sizes", place, len(nodes))
    values = integers(document, "categories", place)
    with_set = set(np.flatnonzero(kinds == 1).tolist())
    if not set(kinds.tolist()) <= {0, 1} or sorted(nodes.tolist()) != sorted(with_set):
        fail(f"{place}.split_type", "does not go with categories_nodes: the file is damaged")
    found = {}
    for node, first, n in zip(nodes.tolist(), begin.tolist(), size.tolist(), strict=True):
        if not (0 <= first <= len(values) and 1 <= n <= len(values) - first):
            fail(f"{place}.categories_segments", f"node {node} has no categories in the file: it is damaged")
        own = np.unique(values[first : first + n])
        if own[0] < 0 or own[-1] > LARGEST_CATEGORY:
            fail(f"{place}.categories", f"node {node} has a category that is not in 0..{LARGEST_CATEGORY}")
        found[node] = own
    return found


def write_tree(tree: Tree, number: int, columns: list[Column]) -> dict[str, Any]:
    """Return the document of a tree: node 0 is the root, the children of split s are the nodes 2 s + 1 and 2 s + 2."""
    n_splits, n_nodes = tree.n_splits, 2 * tree.n_splits + 1
    # lists, not arrays: entries are read and written one by one
    of_split, of_leaf, parent = [0] * n_splits, [0] * tree.n_leaves, [NO_PARENT] * n_nodes
    lefts, rights, default_left = [LEAF] * n_nodes, [LEAF] * n_nodes, [0] * n_nodes
    condition, indices, kinds = [0.0] * n_nodes, [0] * n_nodes, [0] * n_nodes
    sets: dict[int, list[int]] = {}
    threshold = to_float32(np.where(np.isposinf(tree.threshold), 0.0, tree.threshold)).tolist()
    splits = zip(
        tree.feature.tolist(),
        tree.missing_left.tolist(),
        np.isposinf(tree.threshold).tolist(),
        zip(tree.left.tolist(), tree.right.tolist(), strict=True),
        tree.left_codes or (None,) * n_splits,
        strict=True,
    )
    for split, (feature, missing_left, is_infinite, children, codes) in enumerate(splits):  # parents come first
        node, swapped = of_split[split], codes is not None
        condition[node] = threshold[split]
        if codes is not None:
            members, missing_left = columns[feature].members(codes)
            if members:
                kinds[node], sets[node] = 1, members
            else:  # missing values alone go left: no value is less than -inf
                condition[node], swapped = -np.inf, False
        elif is_infinite:  # every value goes left
            condition[node], swapped = -np.inf, True
        default_left[node] = int(missing_left != swapped)
        indices[node] = feature
        lefts[node], rights[node] = 2 * split + 1, 2 * split + 2
        for place, one in zip((2 * split + 1, 2 * split + 2), children[::-1] if swapped else children, strict=True):
            parent[place] = node
            if one >= 0:
                of_split[one] = place
            else:
                of_leaf[~one] = place
    conditions = np.array(condition, np.float32)
    conditions[of_leaf] = tree.leaf_value
    gain, value, hessian = (np.zeros(n_nodes) for _ in range(3))
    gain[of_split], value[of_split], hessian[of_split] = tree.gain, tree.split_value, tree.split_weight
    value[of_leaf], hessian[of_leaf] = tree.leaf_value, tree.leaf_weight
    with_set = sorted(sets)
    sizes = [len(sets[node]) for node in with_set]
    return {
        "base_weights": _statistic(value),
        "categories": np.array([one for node in with_set for one in sets[node]], np.int32),
        "categories_nodes": np.array(with_set, np.int32),
        "categories_segments": np.cumsum([0, *sizes])[:-1].astype(np.int64),
        "categories_sizes": np.array(sizes, np.int64),
        "default_left": np.array(default_left, np.uint8),
        "id": number,
        "left_children": np.array(lefts, np.int32),
        "loss_changes": _statistic(gain),
        "parents": np.array(parent, np.int32),
        "right_children": np.array(rights, np.int32),
        "split_conditions": conditions,
        "split_indices": np.array(indices, np.int32),
        "split_type": np.array(kinds, np.uint8),
        "sum_hessian": _statistic(hessian),
        "tree_param": {
            "num_deleted": "0", "num_feature": str(len(columns)), "num_nodes": str(n_nodes), "size_leaf_vector": "1",
        },
    }  # fmt: skip


def _statistic(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return statistics as float32, the largest one for those beyond."""
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest).astype(np.float32)
