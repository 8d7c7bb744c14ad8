"""What rows would do at every split of a tree, a byte each, for a block of rows side by side.

Values are compared by their ranks, as prediction on the CPU does (cpu/prediction/packed_forest.py); the ranks of a
block are turned so that the rows of a column are neighbours, and one instruction compares many of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.prediction.categories import code_categories
from hornbeam.backends.cpu.prediction.packed_forest import (
    CATEGORY_SHIFT,
    CHILD_SHIFT,
    COLUMN_SHIFT,
    MAX_COLUMNS,
    RANKS,
    PackedForest,
)
from hornbeam.backends.cpu.prediction.walk import LANES, code_rows


class SplitTests(NamedTuple):
    """How the splits of all trees are decided.

    column   int64  (n_splits,)   of the ranks
    rank     uint16 (n_splits,)   ranks up to this go left; of a categorical split, the number of its set
    is_set   bool   (n_splits,)   whether the split is categorical
    """

    column: NDArray[np.int64]
    rank: NDArray[np.uint16]
    is_set: NDArray[np.bool_]


def split_tests(forest: PackedForest) -> SplitTests:
    """Read the tests of all splits, tree after tree in the order of their numbers, from the nodes."""
    words = forest.nodes[(forest.nodes & np.uint64(RANKS)) != RANKS]  # leaves have the last rank
    child = (words >> np.uint64(CHILD_SHIFT)) & np.uint64(0x1FFFF)
    is_split = (forest.nodes & np.uint64(RANKS)) != RANKS
    tree = np.repeat(np.arange(len(forest.tree_start) - 1), np.diff(forest.tree_start))[is_split]
    order = np.lexsort((child, tree))  # the children of split s stand at 2 s + 1
    words = words[order]
    return SplitTests(
        ((words >> np.uint64(COLUMN_SHIFT)) & np.uint64(MAX_COLUMNS - 1)).astype(np.int64),
        (words & np.uint64(RANKS)).astype(np.uint16),
        (words >> np.uint64(CATEGORY_SHIFT)) == 1,
    )


class RowRanks:
    """Room for the ranks of a block of rows, and what makes them."""

    def __init__(self, forest: PackedForest, n_rows: int) -> None:
        n_columns = max(forest.n_columns, 1)
        self.forest = forest
        self._by_row = np.zeros((-(-n_rows // LANES) * LANES, n_columns), np.uint16)
        self.ranks = np.zeros((n_columns, n_rows), np.uint16)

    def fill(self, block: NDArray[np.float64]) -> NDArray[np.uint16]:
        """Return the ranks of a block of rows, uint16 (n_columns, n_rows); those past the end of the block are any.

        block  float64 (n_block_rows, n_features)  in   no more rows than there is room for
        """
        own = self.forest
        code_rows(block, own.column_feature, own.column_missing, own.column_start, own.thresholds, self._by_row)
        if own.sets is not None:
            code_categories(block, own.column_feature, own.sets, self._by_row)
        self.ranks[:, : len(block)] = self._by_row[: len(block)].T
        return self.ranks


@kernel
def decide(ranks: Any, start: Any, n_rows: Any, tests: Any, sets: Any, number: Any, out: Any) -> None:
    """Say which rows go left at one split.

    ranks    uint16 (n_columns, >= start + n_rows)  in
    start    the first row
    tests    SplitTests                             in
    sets     PackedSets or None                     in
    number   of the split among those of all trees
    out      uint8 (>= n_rows,)                     out   1: left, 0: right
    """
    column, limit = tests.column[number], tests.rank[number]
    own = ranks[column, start : start + n_rows]
    if sets is not None and tests.is_set[number]:
        first = sets.set_start[column] + np.uint64(limit) * sets.set_words[column]
        for row in range(n_rows):
            place = np.uint64(own[row])
            word = sets.bits[first + (place >> np.uint64(6))]
            out[row] = np.uint8((word >> (place & np.uint64(63))) & np.uint64(1))
        return
    for row in range(n_rows):
        out[row] = np.uint8(own[row] <= limit)
