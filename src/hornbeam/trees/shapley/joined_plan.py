"""The plans of all trees of a forest as arrays one behind the other: what kernels of every device read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.shapley.plan import PathFeatures, ShapleyPlan, TreePlan


class Walks(NamedTuple):
    """The plans; names as in TreePlan, numbers of splits are counted from the first one of the tree.

    split_start, step_start, feature_start, point_start   int64 (n_trees + 1,)   first entry of each tree
    split     int64 (n_splits,)   among the splits of all trees, in the order of their numbers there
    point     float64 (n_points,)   of the quadrature of each tree
    weight    float64 (n_points,)
    """

    split_start: NDArray[np.int64]
    step_start: NDArray[np.int64]
    feature_start: NDArray[np.int64]
    point_start: NDArray[np.int64]
    split: NDArray[np.int64]
    is_right: NDArray[np.bool_]
    share: NDArray[np.float64]
    merged: NDArray[np.float64]
    previous: NDArray[np.int32]
    slot: NDArray[np.int32]
    value: NDArray[np.float64]
    level: NDArray[np.int32]
    room: NDArray[np.int32]
    step: NDArray[np.int32]
    features: NDArray[np.int32]
    point: NDArray[np.float64]
    weight: NDArray[np.float64]


class Paths(NamedTuple):
    """The other features on the paths; names as in PathFeatures.

    path_start  int64 (n_splits + n_trees,)   first entry of each split among those of all trees, and one more a tree
    pair_start  int64 (n_trees + 1,)          first pair of each tree
    """

    path_start: NDArray[np.int64]
    pair_start: NDArray[np.int64]
    edge: NDArray[np.int32]
    pair: NDArray[np.int32]
    pairs: NDArray[np.int32]


def join_walks(plan: ShapleyPlan) -> Walks:
    """Put the plans of all trees together."""
    trees = plan.trees
    split_start = starts_of(tree.n_splits for tree in trees)
    splits = [tree.split + start for tree, start in zip(trees, split_start[:-1], strict=True)]

    def joined(name: str) -> NDArray[Any]:
        empty: NDArray[Any] = getattr(_NO_TREE, name)
        return np.concatenate([empty, *(getattr(tree, name) for tree in trees)])

    return Walks(
        split_start=split_start,
        step_start=starts_of(len(tree.step) for tree in trees),
        feature_start=starts_of(len(tree.features) for tree in trees),
        point_start=starts_of(tree.n_points for tree in trees),
        split=np.concatenate([np.empty(0, np.int64), *splits]).astype(np.int64),
        point=np.concatenate([np.empty(0), *(tree.rule[0] for tree in trees)]),
        weight=np.concatenate([np.empty(0), *(tree.rule[1] for tree in trees)]),
        **{name: joined(name) for name in TreePlan._fields if name in Walks._fields and name != "split"},
    )


def join_paths(plan: ShapleyPlan) -> Paths:
    """Put the paths of all trees together."""
    paths = plan.paths
    entry_start = starts_of(len(path.edge) for path in paths)
    starts = [path.start + first for path, first in zip(paths, entry_start[:-1], strict=True)]

    def joined(name: str) -> NDArray[Any]:
        empty: NDArray[Any] = getattr(_NO_PATH, name)
        return np.concatenate([empty, *(getattr(path, name) for path in paths)])

    return Paths(
        np.concatenate([np.empty(0, np.int64), *starts]).astype(np.int64),
        starts_of(len(path.pairs) for path in paths),
        joined("edge"),
        joined("pair"),
        joined("pairs"),
    )


def starts_of(sizes: Iterable[int]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends, int64 (n + 1,)."""
    return np.cumsum([0, *sizes], dtype=np.int64)


_INT, _FLOAT = np.empty(0, np.int32), np.empty(0, np.float64)
_NO_TREE = TreePlan(
    _INT, np.empty(0, np.bool_), _FLOAT.reshape(0, 2), _FLOAT, _INT, _INT, _FLOAT.reshape(0, 2), _INT, _INT, _INT, _INT,
    0, 0.0,
)  # fmt: skip
_NO_PATH = PathFeatures(_INT, _INT, _INT, _INT.reshape(0, 2))
