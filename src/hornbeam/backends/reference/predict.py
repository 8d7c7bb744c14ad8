"""Prediction, one tree and one node at a time: the definition that the fast kernels are compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.forest import Forest, Reader
from hornbeam.trees.tree import Tree

BLOCK_ROWS = 4096
"""Rows that are held as float64 at a time."""


def add_trees(forest: Forest, reader: Reader, first: int, last: int, scores: NDArray[np.float64]) -> None:
    """Add the values of trees first..last - 1 to the scores, tree by tree.

    scores       float64 (n_outputs, n_rows)              in, out
    """
    for start in range(0, reader.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, reader.n_rows)
        block = reader.read(start, stop)
        for i in range(first, last):
            tree = forest.trees[i]
            scores[i % forest.n_outputs, start:stop] += tree_values(tree, tree_leaves(tree, block), block)


def find_leaves(forest: Forest, reader: Reader, first: int, last: int, leaves: NDArray[np.int32]) -> None:
    """Find the leaf of every row in trees first..last - 1.

    leaves       int32 (n_rows, last - first)             out
    """
    for start in range(0, reader.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, reader.n_rows)
        block = reader.read(start, stop)
        for i in range(first, last):
            leaves[start:stop, i - first] = tree_leaves(forest.trees[i], block)


def tree_values(tree: Tree, leaf: NDArray[np.int32], block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value of every row in one tree, float64 (n_rows,)."""
    if tree.linear is None:
        return tree.leaf_value[leaf]
    return tree.linear.outputs(tree.leaf_value, leaf, block)


def tree_leaves(tree: Tree, block: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the leaf of every row in one tree.

    block        float64 (n_rows, n_features)             in
    returns      int32 (n_rows,)
    """
    leaves = np.zeros(len(block), np.int32)
    if tree.n_splits == 0:
        return leaves
    rows_of = {0: np.arange(len(block))}
    for node in range(tree.n_splits):  # children have higher numbers than their parent
        rows = rows_of.pop(node)
        left = tree.goes_left(node, block[rows, tree.feature[node]])
        for child, part in ((int(tree.left[node]), rows[left]), (int(tree.right[node]), rows[~left])):
            if child >= 0:
                rows_of[child] = part
            else:
                leaves[part] = ~child
    return leaves
