"""Prediction with linear leaves on the CPU: leaves first, some trees at a time, then their values in tree order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.linear.fitting import ONE
from hornbeam.backends.cpu.prediction.walk import Walk, find_leaves_kernel, packed, run_blocks
from hornbeam.trees.forest import Forest, Reader
from hornbeam.trees.linear_leaves import LARGEST

TREES_AT_A_TIME = 64
"""Trees whose leaves are found before their values are added: 256 bytes a row."""

BLOCK_ROWS = 4096
"""Rows that are held as float64 at a time where a GPU has found the leaves."""


class ForestLeaves(NamedTuple):
    """The leaves of all trees side by side; those of tree i from first_leaf[i] on.

    first_leaf      int64 (n_trees + 1,)
    start           int64 (n_leaves + 1,): leaf i of all has the entries start[i]:start[i + 1] of the next two
    feature, coeff  int32, float64 (n,)
    const, value    float64 (n_leaves,): of rows whose numbers are of use, and of the others
    """

    first_leaf: NDArray[np.int64]
    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    coeff: NDArray[np.float64]
    const: NDArray[np.float64]
    value: NDArray[np.float64]

    @classmethod
    def of(cls, forest: Forest) -> ForestLeaves:
        """Take those of a forest."""
        trees, linear = forest.trees, [tree.linear for tree in forest.trees if tree.linear is not None]
        sizes = [
            np.zeros(tree.n_leaves, np.int64) if tree.linear is None else np.diff(tree.linear.start) for tree in trees
        ]
        consts = [tree.leaf_value if tree.linear is None else tree.linear.const for tree in trees]
        return cls(
            np.cumsum([0, *(tree.n_leaves for tree in trees)], dtype=np.int64),
            np.cumsum(np.concatenate([[0], *sizes])).astype(np.int64),
            np.concatenate([np.empty(0, np.int32), *(own.feature for own in linear)]),
            np.concatenate([np.empty(0), *(own.coeff for own in linear)]),
            np.concatenate([np.empty(0), *consts]),
            np.concatenate([np.empty(0), *(tree.leaf_value for tree in trees)]),
        )


@kernel
def add_leaves_kernel(leaves, first, last, found, block, score_row, scores):
    """Add the values of trees first..last - 1 to the scores of a block of rows.

    leaves  ForestLeaves                        in
    found   int32 (n_rows, last - first)        in       leaf of each row in each tree
    block   float64 (n_rows, n_features)        in       row 0 is row `score_row` of the scores
    scores  float64 (n_outputs, all rows)       in, out
    """
    first_leaf, start, feature, coeff = leaves.first_leaf, leaves.start, leaves.feature, leaves.coeff
    consts, values = leaves.const, leaves.value
    for row in range(np.uint64(len(block))):
        for tree in range(first, last):
            leaf = np.uint64(first_leaf[tree] + found[row, tree - first])
            value, is_used = consts[leaf], True
            for k in range(np.uint64(start[leaf]), np.uint64(start[leaf + ONE])):
                x = block[row, np.uint64(feature[k])]
                is_used &= abs(x) <= LARGEST
                value = value + coeff[k] * x
            scores[tree % len(scores), np.uint64(score_row) + row] += value if is_used else values[leaf]


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
            add_leaves_kernel(leaves, begin, end, found, block, start, scores)

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
        add_leaves_kernel(leaves, first, last, found[start:stop], reader.read(start, stop), start, scores)
