"""The forest as prediction on the CPU wants it: trees of 8-byte nodes, and columns of thresholds.

Comparing with a threshold needs only the value's rank among the thresholds that the forest has for that feature, so
every block of rows is first turned into 16-bit ranks, its *codes*:

    code = number of thresholds of the column that are < value         value <= threshold j   <=>   code <= j

A missing value gets the code 0, which goes left everywhere, or 65,535, which goes right everywhere. Splits of one
feature that send it left and splits that send it right therefore look at different *columns* of codes, and the walk has
no special case. A feature with more than 65,535 thresholds takes several columns too.

A node is then one 64-bit word, and the two children of split s stand side by side:

    bit  62 ............ 33 | 32 ............ 16 | 15 ....... 0
             column         |   first child      |   rank          next = first child + (code > rank)

    position in the tree   0      1         2           3         4           ...   2s + 1    2s + 2
    node                 root   left(0)   right(0)   left(1)   right(1)       ...   left(s)   right(s)

A split of a categorical feature has bit 63 set, and the number of its set for a rank: categories.py.

A leaf is a word of rank 65,535 that names itself as its child: a row that has arrived stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.prediction.categories import PackedSets, pack_sets, sets_of
from hornbeam.trees.tree import Tree

RANKS = 65_535
"""Most thresholds of one column: ranks 0..65,534, codes 0..65,535."""

CHILD_SHIFT = 16
COLUMN_SHIFT = 33
CATEGORY_SHIFT = 63
MAX_COLUMNS = 1 << 30
MAX_TREE_LEAVES = 1 << 16  # 2 * (leaves - 1) + 1 positions fit in the 17 bits of a child


@dataclass(frozen=True, eq=False)
class PackedForest:
    """The forest as the kernels want it.

    nodes             uint64  (n_nodes,)       see above; trees one after the other
    node_value        float64 (n_nodes,)       leaf value; 0 at splits
    node_leaf         int32   (n_nodes,)       leaf number; 0 at splits
    tree_start        int64   (n_trees + 1,)   first node of every tree
    column_feature    int64   (n_columns,)     feature of every column of codes
    column_missing    uint16  (n_columns,)     code of a missing value
    column_start      int64   (n_columns + 1,) first threshold of every column
    thresholds        float64 (n_thresholds,)  ascending within a column, then NaN up to 2**k - 1 of them
    sets              PackedSets               None: no split is categorical
    """

    n_outputs: int
    nodes: NDArray[np.uint64]
    node_value: NDArray[np.float64]
    node_leaf: NDArray[np.int32]
    tree_start: NDArray[np.int64]
    column_feature: NDArray[np.int64]
    column_missing: NDArray[np.uint16]
    column_start: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    sets: PackedSets | None = None

    @staticmethod
    def from_trees(trees: Sequence[Tree], n_outputs: int) -> PackedForest:
        """Flatten trees in boosting order."""
        n_splits = np.array([tree.n_splits for tree in trees], np.int64)
        if n_splits.max(initial=0) >= MAX_TREE_LEAVES:
            raise ValueError(f"a tree has {n_splits.max() + 1} leaves, prediction allows {MAX_TREE_LEAVES}")
        feature = _joined([tree.feature for tree in trees], np.int64)
        threshold = _joined([tree.threshold for tree in trees], np.float64)
        missing_left = _joined([tree.missing_left for tree in trees], np.bool_)
        left_sets = sets_of(trees) if any(tree.left_codes is not None for tree in trees) else []
        numeric = np.array([own is None for own in left_sets] or [True] * len(feature), np.bool_)
        column, rank = np.zeros(len(feature), np.int64), np.zeros(len(feature), np.int64)
        column[numeric], rank[numeric], column_feature, column_missing, column_start, thresholds = _columns(
            feature[numeric], threshold[numeric], missing_left[numeric]
        )
        packed_sets = None
        if left_sets:
            set_column, set_number, new_feature, packed_sets = pack_sets(feature, left_sets, len(column_feature))
            column = np.where(numeric, column, set_column | (1 << (CATEGORY_SHIFT - COLUMN_SHIFT)))
            rank = np.where(numeric, rank, set_number)
            column_feature = np.concatenate([column_feature, new_feature])
            column_missing = np.concatenate([column_missing, np.zeros(len(new_feature), np.uint16)])
            column_start = np.concatenate([column_start, np.full(len(new_feature), column_start[-1])])

        tree_start = np.zeros(len(trees) + 1, np.int64)
        np.cumsum(2 * n_splits + 1, out=tree_start[1:])
        node_leaf = np.zeros(tree_start[-1], np.int32)
        node_value = np.zeros(tree_start[-1], np.float64)
        # Leaves first, splits overwrite them: a lone root is leaf 0 and stays one.
        position = np.arange(tree_start[-1]) - np.repeat(tree_start[:-1], 2 * n_splits + 1)
        nodes = _words(np.zeros_like(position), position, np.full_like(position, RANKS))
        split_start = np.zeros(len(trees) + 1, np.int64)
        np.cumsum(n_splits, out=split_start[1:])
        for i, tree in enumerate(trees):
            start, stop = tree_start[i], tree_start[i + 1]
            child = np.full(stop - start, ~0, np.int64)  # by position; a lone root is leaf 0
            if tree.n_splits:
                child[0] = 0
                child[1::2] = tree.left
                child[2::2] = tree.right
            leaf = child < 0
            node_leaf[start:stop][leaf] = ~child[leaf]
            node_value[start:stop][leaf] = tree.leaf_value[~child[leaf]]
            split = child[~leaf]
            index = split_start[i] + split
            nodes[start:stop][~leaf] = _words(column[index], 2 * split + 1, rank[index])
        return PackedForest(
            n_outputs,
            nodes,
            node_value,
            node_leaf,
            tree_start,
            column_feature,
            column_missing,
            column_start,
            thresholds,
            packed_sets,
        )

    @property
    def n_columns(self) -> int:
        """Number of columns of codes."""
        return len(self.column_feature)


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)


def _words(column: NDArray[np.int64], child: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.uint64]:
    words = (column.astype(np.uint64) << np.uint64(COLUMN_SHIFT)) | (child << CHILD_SHIFT).astype(np.uint64)
    return np.asarray(words | rank.astype(np.uint64))


def _columns(
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    missing_left: NDArray[np.bool_],
    ranks: int = RANKS,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.uint16],
    NDArray[np.int64],
    NDArray[np.float64],
]:
    """Give every split a column of codes and the rank of its threshold there.

    feature, threshold, missing_left   (n_splits,)                        in
    returns column and rank            int64 (n_splits,)
            column_feature, column_missing, column_start, thresholds      as in PackedForest
    """
    if len(feature) == 0:
        empty = np.empty(0, np.int64)
        return empty, empty, empty, np.empty(0, np.uint16), np.zeros(1, np.int64), np.empty(0, np.float64)
    order = np.lexsort((threshold, missing_left, feature))
    sorted_feature, sorted_threshold, sorted_left = feature[order], threshold[order], missing_left[order]
    new_group = np.ones(len(order), np.bool_)
    new_group[1:] = (sorted_feature[1:] != sorted_feature[:-1]) | (sorted_left[1:] != sorted_left[:-1])
    new_threshold = new_group.copy()
    new_threshold[1:] |= sorted_threshold[1:] != sorted_threshold[:-1]
    number = np.cumsum(new_threshold) - 1  # of the distinct (feature, missing_left, threshold)
    group_first = number[new_group][np.cumsum(new_group) - 1]
    in_group = number - group_first  # rank in the group, which may need several columns
    new_column = new_group | (new_threshold & (in_group % ranks == 0))
    sorted_column = np.cumsum(new_column) - 1
    if sorted_column[-1] >= MAX_COLUMNS:
        raise ValueError(f"the forest needs {sorted_column[-1] + 1} columns, prediction allows {MAX_COLUMNS}")
    column = np.empty(len(order), np.int64)
    rank = np.empty(len(order), np.int64)
    column[order] = sorted_column
    rank[order] = in_group % ranks
    # NaN is less than no value: it fills up a column without changing a code.
    size = np.bincount(sorted_column[new_threshold])
    column_start = np.zeros(len(size) + 1, np.int64)
    np.cumsum((1 << np.frexp(size)[1].astype(np.int64)) - 1, out=column_start[1:])
    thresholds = np.full(column_start[-1], np.nan)
    thresholds[(column_start[sorted_column] + in_group % ranks)[new_threshold]] = sorted_threshold[new_threshold]
    return (
        column,
        rank,
        sorted_feature[new_column],
        np.where(sorted_left[new_column], 0, RANKS).astype(np.uint16),
        column_start,
        thresholds,
    )
