"""Prediction on the CPU: rows walk down trees of 8-byte nodes, eight rows side by side.

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

A leaf is a word of rank 65,535 that names itself as its child: a row that has arrived stays where it is.
A tree of 255 leaves takes 4 KB and 512 rows of 28 columns take 28 KB, so both stay in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.threads import run_threads
from hornbeam.tree import Tree

if TYPE_CHECKING:
    from hornbeam.predictor import Reader

RANKS = 65_535
"""Most thresholds of one column: ranks 0..65,534, codes 0..65,535."""

CHILD_SHIFT = 16
COLUMN_SHIFT = 33
MAX_COLUMNS = 1 << 30
MAX_TREE_LEAVES = 1 << 16  # 2 * (leaves - 1) + 1 positions fit in the 17 bits of a child

LANES = 8
"""Rows that walk side by side; one step is a chain of about 12 cycles, so eight of them keep a core busy."""

CODE_BYTES = 32 * 1024
"""Codes of one block of rows: half a first-level cache of 64 KB."""

READ_CELLS = 1 << 18
"""Cells that are read as float64 at a time, 2 MB a thread: few calls, and still in the second-level cache."""


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
    thresholds        float64 (n_thresholds,)  ascending within a column
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

    @staticmethod
    def from_trees(trees: Sequence[Tree], n_outputs: int) -> PackedForest:
        """Flatten trees in boosting order."""
        n_splits = np.array([tree.n_splits for tree in trees], np.int64)
        if n_splits.max(initial=0) >= MAX_TREE_LEAVES:
            raise ValueError(f"a tree has {n_splits.max() + 1} leaves, prediction allows {MAX_TREE_LEAVES}")
        feature = _joined([tree.feature for tree in trees], np.int64)
        threshold = _joined([tree.threshold for tree in trees], np.float64)
        missing_left = _joined([tree.missing_left for tree in trees], np.bool_)
        column, rank, column_feature, column_missing, column_start, thresholds = _columns(
            feature, threshold, missing_left
        )

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
        )

    @property
    def n_columns(self) -> int:
        """Number of columns of codes."""
        return len(self.column_feature)


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)


def _words(column: NDArray[np.int64], child: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.uint64]:
    return ((column << COLUMN_SHIFT) | (child << CHILD_SHIFT) | rank).astype(np.uint64)


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
    return (
        column,
        rank,
        sorted_feature[new_column],
        np.where(sorted_left[new_column], 0, RANKS).astype(np.uint16),
        np.append(number[new_column], number[-1] + 1),
        sorted_threshold[new_threshold],
    )


def add_trees(
    forest: PackedForest, reader: Reader, first: int, last: int, scores: NDArray[np.float64], n_threads: int
) -> None:
    """Add the values of trees first..last - 1 to the scores, for every row in tree order.

    scores       float64 (n_outputs, n_rows)              in, out
    """

    def work(block: NDArray[np.float64], codes: NDArray[np.uint16], start: int) -> None:
        add_trees_kernel(
            block,
            forest.column_feature,
            forest.column_missing,
            forest.column_start,
            forest.thresholds,
            forest.nodes,
            forest.node_value,
            forest.tree_start,
            first,
            last,
            forest.n_outputs,
            codes,
            start,
            scores,
        )

    _run_blocks(work, forest, reader, n_threads)


def find_leaves(
    forest: PackedForest, reader: Reader, first: int, last: int, leaves: NDArray[np.int32], n_threads: int
) -> None:
    """Find the leaf of every row in trees first..last - 1.

    leaves       int32 (n_rows, last - first)             out
    """

    def work(block: NDArray[np.float64], codes: NDArray[np.uint16], start: int) -> None:
        find_leaves_kernel(
            block,
            forest.column_feature,
            forest.column_missing,
            forest.column_start,
            forest.thresholds,
            forest.nodes,
            forest.node_leaf,
            forest.tree_start,
            first,
            last,
            codes,
            start,
            leaves,
        )

    _run_blocks(work, forest, reader, n_threads)


def _run_blocks(work: Any, forest: PackedForest, reader: Reader, n_threads: int) -> None:
    """Call work(block, codes, first row) for every block of rows, the blocks shared out among threads as they go."""
    n_columns = max(forest.n_columns, 1)
    code_rows = min(max(CODE_BYTES // (2 * n_columns) // LANES, 1) * LANES, 8192)
    read_rows = max(READ_CELLS // max(reader.n_features, 1) // code_rows, 1) * code_rows
    # Small inputs are still shared out evenly, in whole groups of lanes.
    fair_share = -(-reader.n_rows // (n_threads * LANES)) * LANES
    read_rows = max(min(read_rows, fair_share), LANES)
    starts = iter(range(0, reader.n_rows, read_rows))
    turn = Lock()

    def task(_thread: int) -> None:
        codes = np.zeros((code_rows, n_columns), np.uint16)
        while True:
            with turn:
                start = next(starts, -1)
            if start < 0:
                return
            work(reader.read(start, min(start + read_rows, reader.n_rows)), codes, start)

    run_threads(task, max(1, min(n_threads, -(-reader.n_rows // read_rows))))


# Everything below counts in uint64: a signed index would cost a test for negative numbers at every access.
_RANK_MASK = np.uint64(0xFFFF)
_CHILD_MASK = np.uint64(0x1FFFF)
_CHILD_SHIFT = np.uint64(CHILD_SHIFT)
_COLUMN_SHIFT = np.uint64(COLUMN_SHIFT)
_ONE = np.uint64(1)


@njit(nogil=True, cache=True, error_model="numpy")
def _code_rows(block, first_row, n_rows, column_feature, column_missing, column_start, thresholds, codes):  # type: ignore[no-untyped-def]
    """Turn rows first_row..first_row + n_rows - 1 of a block into codes; arguments as in `add_trees_kernel`.

    A binary search without branches, whose number of steps depends on the column alone, for four rows side by side.
    """
    last_row = np.uint64(first_row + n_rows - 1)
    for column in range(np.uint64(len(column_feature))):
        feature = np.uint64(column_feature[column])
        missing = column_missing[column]
        column_thresholds = thresholds[column_start[column] : column_start[column + _ONE]]
        for row in range(np.uint64(0), np.uint64(n_rows), np.uint64(4)):
            # Past the end the last row is searched again; codes has room for whole groups of LANES rows.
            r0 = np.uint64(first_row) + row
            v0 = block[r0, feature]
            v1 = block[min(r0 + np.uint64(1), last_row), feature]
            v2 = block[min(r0 + np.uint64(2), last_row), feature]
            v3 = block[min(r0 + np.uint64(3), last_row), feature]
            c0 = c1 = c2 = c3 = np.uint64(0)
            n = np.uint64(len(column_thresholds))
            while n > _ONE:
                half = n >> _ONE
                c0 += half * np.uint64(column_thresholds[c0 + half - _ONE] < v0)
                c1 += half * np.uint64(column_thresholds[c1 + half - _ONE] < v1)
                c2 += half * np.uint64(column_thresholds[c2 + half - _ONE] < v2)
                c3 += half * np.uint64(column_thresholds[c3 + half - _ONE] < v3)
                n -= half
            c0 += np.uint64(column_thresholds[c0] < v0)
            c1 += np.uint64(column_thresholds[c1] < v1)
            c2 += np.uint64(column_thresholds[c2] < v2)
            c3 += np.uint64(column_thresholds[c3] < v3)
            codes[row, column] = np.uint16(c0) if v0 == v0 else missing
            codes[row + np.uint64(1), column] = np.uint16(c1) if v1 == v1 else missing
            codes[row + np.uint64(2), column] = np.uint16(c2) if v2 == v2 else missing
            codes[row + np.uint64(3), column] = np.uint16(c3) if v3 == v3 else missing


@njit(nogil=True, cache=True, error_model="numpy")
def _child(word):  # type: ignore[no-untyped-def]
    """Return the position of a split's first child, or of a leaf itself."""
    return (word >> _CHILD_SHIFT) & _CHILD_MASK


@njit(nogil=True, cache=True, error_model="numpy")
def _step(nodes, word, codes, row_start):  # type: ignore[no-untyped-def]
    """Return the node that a row goes to from a node."""
    code = np.uint64(codes[row_start + (word >> _COLUMN_SHIFT)])
    return nodes[_child(word) + np.uint64(code > (word & _RANK_MASK))]


@njit(nogil=True, cache=True, error_model="numpy")
def _walk(nodes, codes, row_start, stride):  # type: ignore[no-untyped-def]
    """Return the leaves of LANES rows, as words. Written out, so that eight chains of loads overlap.

    nodes        uint64 (n_nodes,)                        in   of one tree
    codes        uint16 (n_code_rows * stride,)           in   the first row's begin at `row_start`
    """
    w0 = w1 = w2 = w3 = w4 = w5 = w6 = w7 = nodes[0]
    r0 = row_start
    r1 = r0 + stride
    r2 = r1 + stride
    r3 = r2 + stride
    r4 = r3 + stride
    r5 = r4 + stride
    r6 = r5 + stride
    r7 = r6 + stride
    while (w0 & w1 & w2 & w3 & w4 & w5 & w6 & w7 & _RANK_MASK) != _RANK_MASK:
        for _ in range(2):
            w0 = _step(nodes, w0, codes, r0)
            w1 = _step(nodes, w1, codes, r1)
            w2 = _step(nodes, w2, codes, r2)
            w3 = _step(nodes, w3, codes, r3)
            w4 = _step(nodes, w4, codes, r4)
            w5 = _step(nodes, w5, codes, r5)
            w6 = _step(nodes, w6, codes, r6)
            w7 = _step(nodes, w7, codes, r7)
    return w0, w1, w2, w3, w4, w5, w6, w7


@njit(nogil=True, cache=True, error_model="numpy")
def add_trees_kernel(  # type: ignore[no-untyped-def]
    block,
    column_feature,
    column_missing,
    column_start,
    thresholds,
    nodes,
    node_value,
    tree_start,
    first,
    last,
    n_outputs,
    codes,
    score_row,
    scores,
):
    """Add the values of trees first..last - 1 to the scores of a block of rows.

    block        float64 (n_block_rows, n_features)       in   row 0 is row `score_row` of the scores
    column_feature ... tree_start                         in   see PackedForest
    codes        uint16 (n_code_rows, n_columns)          scratch; n_code_rows a multiple of LANES
    scores       float64 (n_outputs, n_rows)              in, out
    """
    n_code_rows = len(codes)
    stride = np.uint64(codes.shape[1])
    flat_codes = codes.reshape(codes.size)
    for begin in range(0, len(block), n_code_rows):
        n_rows = min(n_code_rows, len(block) - begin)
        _code_rows(block, begin, n_rows, column_feature, column_missing, column_start, thresholds, codes)
        for tree in range(first, last):
            tree_nodes = nodes[tree_start[tree] : tree_start[tree + 1]]
            value = node_value[tree_start[tree] : tree_start[tree + 1]]
            out = scores[tree % n_outputs, score_row + begin : score_row + begin + n_rows]
            n_whole = n_rows // LANES * LANES
            for row in range(np.uint64(0), np.uint64(n_whole), np.uint64(LANES)):
                w0, w1, w2, w3, w4, w5, w6, w7 = _walk(tree_nodes, flat_codes, row * stride, stride)
                out[row] += value[_child(w0)]
                out[row + np.uint64(1)] += value[_child(w1)]
                out[row + np.uint64(2)] += value[_child(w2)]
                out[row + np.uint64(3)] += value[_child(w3)]
                out[row + np.uint64(4)] += value[_child(w4)]
                out[row + np.uint64(5)] += value[_child(w5)]
                out[row + np.uint64(6)] += value[_child(w6)]
                out[row + np.uint64(7)] += value[_child(w7)]
            if n_whole < n_rows:  # lanes past the end walk on old codes, which are harmless
                arrived = _walk(tree_nodes, flat_codes, np.uint64(n_whole) * stride, stride)
                for row in range(n_whole, n_rows):
                    out[row] += value[_child(arrived[row - n_whole])]


@njit(nogil=True, cache=True, error_model="numpy")
def find_leaves_kernel(  # type: ignore[no-untyped-def]
    block,
    column_feature,
    column_missing,
    column_start,
    thresholds,
    nodes,
    node_leaf,
    tree_start,
    first,
    last,
    codes,
    leaf_row,
    leaves,
):
    """Find the leaves of a block of rows in trees first..last - 1.

    block        float64 (n_block_rows, n_features)       in   row 0 is row `leaf_row` of the leaves
    column_feature ... tree_start                         in   see PackedForest
    codes        uint16 (n_code_rows, n_columns)          scratch; n_code_rows a multiple of LANES
    leaves       int32 (n_rows, last - first)             out
    """
    n_code_rows = len(codes)
    stride = np.uint64(codes.shape[1])
    flat_codes = codes.reshape(codes.size)
    for begin in range(0, len(block), n_code_rows):
        n_rows = min(n_code_rows, len(block) - begin)
        _code_rows(block, begin, n_rows, column_feature, column_missing, column_start, thresholds, codes)
        for tree in range(first, last):
            tree_nodes = nodes[tree_start[tree] : tree_start[tree + 1]]
            leaf = node_leaf[tree_start[tree] : tree_start[tree + 1]]
            for group in range(0, n_rows, LANES):
                arrived = _walk(tree_nodes, flat_codes, np.uint64(group) * stride, stride)
                for lane in range(min(LANES, n_rows - group)):
                    leaves[leaf_row + begin + group + lane, tree - first] = leaf[_child(arrived[lane])]
