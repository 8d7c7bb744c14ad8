"""Prediction with linear leaves on the CPU: leaves first, some trees at a time, then their values in tree order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.linear.functions import Functions, value_of
from hornbeam.backends.cpu.prediction.walk import Walk, find_leaves_kernel, packed, run_blocks
from hornbeam.trees.forest import Forest, Reader
from hornbeam.trees.linear_leaves import LinearLeaves

TREES_AT_A_TIME = 64
"""Trees whose leaves are found before their values are added: 256 bytes a row."""

BLOCK_ROWS = 4096
"""Rows that are held as float64 at a time where a GPU has found the leaves."""


class ForestLeaves(NamedTuple):
    """The leaves of all trees side by side; those of tree i from first_leaf[i] on.

    first_leaf  int64 (n_trees + 1,)
    functions   of the leaves; those of a tree without are constants
    """

    first_leaf: NDArray[np.int64]
    functions: Functions

    @classmethod
    def of(cls, forest: Forest) -> ForestLeaves:
        """Take those of a forest."""
        none: list[Any] = []
        of_trees = [
            (
                LinearLeaves.of_leaves([none] * tree.n_leaves, [none] * tree.n_leaves, tree.leaf_value)
                if tree.linear is None
                else tree.linear
            )
            for tree in forest.trees
        ]

        def side_by_side(name: str) -> Any:
            return np.concatenate([getattr(own, name) for own in of_trees])

        start = np.cumsum(np.concatenate([[0], *(np.diff(own.start) for own in of_trees)])).astype(np.int64)
        values = np.concatenate([tree.leaf_value for tree in forest.trees])
        feature, coeff, const, low, high = map(side_by_side, ("feature", "coeff", "const", "low", "high"))
        functions = Functions(start, feature, coeff, const, values, low, high)
        return cls(np.cumsum([0, *(tree.n_leaves for tree in forest.trees)], dtype=np.int64), functions)


@kernel
def add_leaves_kernel(functions, first_leaf, first, last, found, block, score_row, scores):
    """Add the values of trees first..last - 1 to the scores of a block of rows.

    functions   Functions                           in       see ForestLeaves
    first_leaf  int64 (n_trees + 1,)                in
    found       int32 (n_rows, last - first)        in       leaf of each row in each tree
    block       float64 (n_rows, n_features)        in       row 0 is row `score_row` of the scores
    scores      float64 (n_outputs, all rows)       in, out
    """
    start, feature, coeff, const, value, low, high = functions
    for row in range(np.uint64(len(block))):
        for tree in range(first, last):
            leaf = np.uint64(first_leaf[tree] + found[row, tree - first])
            made = value_of(start, feature, coeff, const, value, low, high, leaf, block, row)
            scores[tree % len(scores), np.uint64(score_row) + row] += made


def add_trees(
    whole: Forest, reader: Reader, first: int, last: int, scores: NDArray[np.float64], n_threads: int
) -> None:
    """Add the values of trees first..last - 1 to the scores, for every row in tree order.

    scores       float64 (n_outputs, n_rows)              in, out
    """
    forest = packed(whole)
    walk, leaves = Walk.of(forest), whole.packed_for("linear leaves", lambda: ForestLeaves.of(whole))

    def work(block: NDArray[np.float64], codes: NDArray[np.uint16], start: int) -> None:
        for begin in range(first, last, TREES_AT_A_TIME):
            end = min(begin + TREES_AT_A_TIME, last)
            found = np.empty((len(block), end - begin), np.int32)
            find_leaves_kernel(walk, forest.node_leaf, begin, end, block, codes, 0, found)
            add_leaves_kernel(leaves.functions, leaves.first_leaf, begin, end, found, block, start, scores)

    run_blocks(work, forest, reader, n_threads)


def add_values(
    forest: Forest, reader: Reader, first: int, last: int, found: NDArray[np.int32], scores: NDArray[np.float64]
) -> None:
    """Add the values of trees whose leaves were found elsewhere, block by block.

    found   int32 (n_rows, last - first)              in
    scores  float64 (n_outputs, n_rows)               in, out
    """
    leaves = forest.packed_for("linear leaves", lambda: ForestLeaves.of(forest))
    for start in range(0, reader.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, reader.n_rows)
        block = reader.read(start, stop)
        add_leaves_kernel(leaves.functions, leaves.first_leaf, first, last, found[start:stop], block, start, scores)
