"""Prediction on the CPU: rows walk down trees of 8-byte nodes, eight rows side by side.

A block of rows is turned into 16-bit codes first; what codes and nodes are, packed_forest.py says. A tree of 255 leaves
takes 4 KB and a tile of 584 rows of 28 columns 32 KB, so both stay in the first-level cache. Forests without
categorical splits run kernels that know nothing of them.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, inner_kernel, joined_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.backends.cpu.prediction.categories import PackedSets, code_categories
from hornbeam.backends.cpu.prediction.packed_forest import (
    CATEGORY_SHIFT,
    CHILD_SHIFT,
    COLUMN_SHIFT,
    MAX_COLUMNS,
    PackedForest,
)
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.trees.forest import Forest, Reader

# Measured with 500 trees of 255 leaves on 100,000 x 28 rows, CPU seconds of one thread of a Neoverse N1: rows that walk
# until all eight have arrived 1.15; MORE_STEPS 2, 3, 4: 1.14, 1.07, 1.04; tiles of 8, 16, 24, 32 KB with MORE_STEPS 4:
# 1.14, 1.08, 1.05, 1.04. The same machine at one moment; differences of a few per cent mean nothing.

LANES = 8
"""Rows that walk side by side; one step is a chain of two loads and a comparison, and eight chains overlap."""

MORE_STEPS = 4
"""Steps of the rows that are deeper than a balanced tree, until those that have arrived are sorted out again."""

FEW_ROWS = 3
"""Most rows of a block that go through several trees side by side instead of several rows."""

TILE_BYTES = 32 * 1024
TILE_ROWS = 1024
"""Codes, and most rows, that go through one tree after the other: half a first-level cache of 64 KB."""

GROUP_NODES = 16 * 1024
"""Nodes of the trees that a block goes through, tile by tile, before it turns to the next trees. With their values
they take 256 KB, so the nodes come from far memory once a block and not once a tile."""


def packed(forest: Forest) -> PackedForest:
    """Return a forest as the kernels want it."""
    return forest.packed_for("cpu", lambda: PackedForest.from_trees(forest.trees, forest.n_outputs))


class Walk(NamedTuple):
    """A forest as its kernels take it: see PackedForest, and PackedSets, whose first arrays are bits, ... set_words.

    Each array stands here by itself: taken from a tuple in a tuple, it would be counted as in use again and again.
    """

    nodes: NDArray[np.uint64]
    tree_start: NDArray[np.int64]
    column_feature: NDArray[np.int64]
    column_missing: NDArray[np.uint16]
    column_start: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    sets: PackedSets | None
    bits: NDArray[np.uint64] | None
    set_start: NDArray[np.uint64] | None
    set_words: NDArray[np.uint64] | None

    @classmethod
    def of(cls, forest: PackedForest) -> Walk:
        """Take the arrays of a forest."""
        bits, set_start, set_words = (None, None, None) if forest.sets is None else forest.sets[:3]
        return cls(
            forest.nodes, forest.tree_start, forest.column_feature, forest.column_missing, forest.column_start,
            forest.thresholds, forest.sets, bits, set_start, set_words,
        )  # fmt: skip


def add_trees(
    whole: Forest, reader: Reader, first: int, last: int, scores: NDArray[np.float64], n_threads: int
) -> None:
    """Add the values of trees first..last - 1 to the scores, for every row in tree order.

    scores       float64 (n_outputs, n_rows)              in, out
    """
    forest = packed(whole)
    walk = Walk.of(forest)

    def work(block: NDArray[np.float64], codes: NDArray[np.uint16], start: int) -> None:
        add_trees_kernel(walk, forest.node_value, first, last, block, codes, start, scores)

    run_blocks(work, forest, reader, n_threads)


def find_leaves(
    whole: Forest, reader: Reader, first: int, last: int, leaves: NDArray[np.int32], n_threads: int
) -> None:
    """Find the leaf of every row in trees first..last - 1.

    leaves       int32 (n_rows, last - first)             out
    """
    forest = packed(whole)
    walk = Walk.of(forest)

    def work(block: NDArray[np.float64], codes: NDArray[np.uint16], start: int) -> None:
        find_leaves_kernel(walk, forest.node_leaf, first, last, block, codes, start, leaves)

    run_blocks(work, forest, reader, n_threads)


def run_blocks(work: Any, forest: PackedForest, reader: Reader, n_threads: int) -> None:
    """Call work(block, codes, first row) for every block of rows, the blocks shared out among threads as they go."""
    n_columns, tuning = max(forest.n_columns, 1), in_use()
    if reader.n_rows <= LANES:
        work(reader.read(0, reader.n_rows), np.zeros((LANES, n_columns), np.uint16), 0)
        return
    read_rows = min(tuning.read_code_bytes // (2 * n_columns), tuning.read_cells // max(reader.n_features, 1))
    read_rows = read_rows // LANES * LANES
    # Small inputs are still shared out evenly, in whole groups of lanes.
    fair_share = -(-reader.n_rows // (n_threads * LANES)) * LANES
    read_rows = max(min(read_rows, fair_share), LANES)
    starts = iter(range(0, reader.n_rows, read_rows))
    turn = Lock()

    def task(_thread: int) -> None:
        codes = np.zeros((read_rows, n_columns), np.uint16)
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
_COLUMN_MASK = np.uint64(MAX_COLUMNS - 1)
_CATEGORY_SHIFT = np.uint64(CATEGORY_SHIFT)
_SIX = np.uint64(6)
_BIT_MASK = np.uint64(63)
_ONE = np.uint64(1)


@kernel
def code_rows(block, column_feature, column_missing, column_start, thresholds, codes):
    """Turn a block of rows into codes; arguments as in `add_trees_kernel`.

    A binary search for four rows side by side. A shifted comparison, since the compiler turned a choice between two
    numbers into a jump here: 0.128 s became 0.035 s for 100,000 x 28 values.
    """
    last_row = np.uint64(len(block) - 1)
    for column in range(np.uint64(len(column_feature))):
        feature = np.uint64(column_feature[column])
        missing = column_missing[column]
        bounds = thresholds[column_start[column] : column_start[column + _ONE]]
        n_bounds = np.uint64(len(bounds))  # 2**k - 1
        top_shift = np.uint64(0)
        while (n_bounds >> top_shift) > _ONE:
            top_shift += _ONE
        for row in range(np.uint64(0), np.uint64(len(block)), np.uint64(4)):
            # Past the end the last row is searched again; codes has room for whole groups of LANES rows.
            v0 = block[row, feature]
            v1 = block[min(row + np.uint64(1), last_row), feature]
            v2 = block[min(row + np.uint64(2), last_row), feature]
            v3 = block[min(row + np.uint64(3), last_row), feature]
            c0 = c1 = c2 = c3 = np.uint64(0)
            step, shift = n_bounds, top_shift
            while step > np.uint64(0):
                step >>= _ONE
                c0 += np.uint64(bounds[c0 + step] < v0) << shift
                c1 += np.uint64(bounds[c1 + step] < v1) << shift
                c2 += np.uint64(bounds[c2 + step] < v2) << shift
                c3 += np.uint64(bounds[c3 + step] < v3) << shift
                shift -= _ONE
            codes[row, column] = np.uint16(c0) if v0 == v0 else missing
            codes[row + np.uint64(1), column] = np.uint16(c1) if v1 == v1 else missing
            codes[row + np.uint64(2), column] = np.uint16(c2) if v2 == v2 else missing
            codes[row + np.uint64(3), column] = np.uint16(c3) if v3 == v3 else missing


@inner_kernel
def _child(word):
    """Return the position of a split's first child, or of a leaf itself."""
    return (word >> _CHILD_SHIFT) & _CHILD_MASK


@joined_kernel
def _goes_right(word, codes, row_start, bits, set_start, set_words):
    """Return 1 where a row goes right at a node of a forest with categorical splits, else 0."""
    column, rank = (word >> _COLUMN_SHIFT) & _COLUMN_MASK, word & _RANK_MASK
    code = np.uint64(codes[row_start + column])
    is_set = (word >> _CATEGORY_SHIFT) & _ONE
    # Without a branch: splits of numbers and leaves, whose rank names no set, look at a word of the column's first set.
    number = rank & (np.uint64(0) - is_set)
    own = bits[set_start[column] + number * set_words[column] + (code >> _SIX)]
    in_set = (own >> (code & _BIT_MASK)) & _ONE
    return (is_set & (in_set ^ _ONE)) | ((is_set ^ _ONE) & np.uint64(code > rank))


@joined_kernel
def _step(nodes, word, codes, row_start, bits, set_start, set_words):
    """Return the node that a row goes to from a node; `bits` None is known to the compiler."""
    if bits is None:
        code = np.uint64(codes[row_start + (word >> _COLUMN_SHIFT)])
        return nodes[_child(word) + np.uint64(code > (word & _RANK_MASK))]
    return nodes[_child(word) + _goes_right(word, codes, row_start, bits, set_start, set_words)]


@inner_kernel
def _walk_lanes(nodes, codes, stride, rows, words, n_steps, pending, n_pending, bits, set_start, set_words):
    """Take LANES rows some steps down. Written out, so that eight chains of loads overlap.

    rows         eight row numbers                        in
    words        uint64 (n_tile_rows,)                    in, out   node where every row stands
    pending      uint64 (n_tile_rows,)                    out       rows that stand at a split, from n_pending on
    returns      n_pending, raised by their number
    """
    r0, r1, r2, r3, r4, r5, r6, r7 = rows
    s0, s1, s2, s3 = r0 * stride, r1 * stride, r2 * stride, r3 * stride
    s4, s5, s6, s7 = r4 * stride, r5 * stride, r6 * stride, r7 * stride
    w0, w1, w2, w3 = words[r0], words[r1], words[r2], words[r3]
    w4, w5, w6, w7 = words[r4], words[r5], words[r6], words[r7]
    for _ in range(n_steps):
        w0 = _step(nodes, w0, codes, s0, bits, set_start, set_words)
        w1 = _step(nodes, w1, codes, s1, bits, set_start, set_words)
        w2 = _step(nodes, w2, codes, s2, bits, set_start, set_words)
        w3 = _step(nodes, w3, codes, s3, bits, set_start, set_words)
        w4 = _step(nodes, w4, codes, s4, bits, set_start, set_words)
        w5 = _step(nodes, w5, codes, s5, bits, set_start, set_words)
        w6 = _step(nodes, w6, codes, s6, bits, set_start, set_words)
        w7 = _step(nodes, w7, codes, s7, bits, set_start, set_words)
    words[r0], words[r1], words[r2], words[r3] = w0, w1, w2, w3
    words[r4], words[r5], words[r6], words[r7] = w4, w5, w6, w7
    for row, word in ((r0, w0), (r1, w1), (r2, w2), (r3, w3), (r4, w4), (r5, w5), (r6, w6), (r7, w7)):
        pending[n_pending] = row  # without a branch: overwritten by the next row if this one has arrived
        n_pending += np.uint64((word & _RANK_MASK) != _RANK_MASK)
    return n_pending


@inner_kernel
def _walk_tile(nodes, codes, stride, n_rows, words, pending, bits, set_start, set_words):
    """Find the leaves of a tile of rows in one tree.

    All rows take as many steps as a balanced tree has levels; then those that are still at a split take a few steps
    more, and so on. So a row that arrives early does not wait long for the slowest of its neighbours, and no branch
    depends on the data.

    nodes        uint64 (n_nodes,)                        in   of the tree
    codes        uint16 (n_tile_rows * stride,)           in
    words        uint64 (n_tile_rows,)                    out  leaves of the rows; n_tile_rows a multiple of LANES
    pending      uint64 (n_tile_rows + 1,)                scratch
    bits, set_start, set_words                            in   see PackedSets, or None
    """
    levels = 0
    while (1 << levels) < len(nodes) // 2 + 1:
        levels += 1
    n_padded = (np.uint64(n_rows) + np.uint64(LANES - 1)) // np.uint64(LANES) * np.uint64(LANES)
    words[:n_padded] = nodes[0]
    n_pending = np.uint64(0)
    for row in range(np.uint64(0), np.uint64(n_rows), np.uint64(LANES)):
        rows = (
            row,
            row + np.uint64(1),
            row + np.uint64(2),
            row + np.uint64(3),
            row + np.uint64(4),
            row + np.uint64(5),
            row + np.uint64(6),
            row + np.uint64(7),
        )
        n_pending = _walk_lanes(
            nodes, codes, stride, rows, words, levels, pending, n_pending, bits, set_start, set_words
        )
    while n_pending > np.uint64(0):
        # The last row fills up the last group; taking it along several times does no harm.
        n_padded = (n_pending + np.uint64(LANES - 1)) // np.uint64(LANES) * np.uint64(LANES)
        for i in range(n_pending, n_padded):
            pending[i] = pending[n_pending - _ONE]
        n_pending = np.uint64(0)
        for i in range(np.uint64(0), n_padded, np.uint64(LANES)):
            rows = (
                pending[i],
                pending[i + np.uint64(1)],
                pending[i + np.uint64(2)],
                pending[i + np.uint64(3)],
                pending[i + np.uint64(4)],
                pending[i + np.uint64(5)],
                pending[i + np.uint64(6)],
                pending[i + np.uint64(7)],
            )
            n_pending = _walk_lanes(
                nodes, codes, stride, rows, words, MORE_STEPS, pending, n_pending, bits, set_start, set_words
            )


@inner_kernel
def _tile_rows(codes):
    """Return the number of rows of a tile, a multiple of LANES; no more than codes has."""
    n_rows = min(TILE_BYTES // (2 * codes.shape[1]), TILE_ROWS, len(codes))
    return max(n_rows // LANES, 1) * LANES


@inner_kernel
def _group_end(tree_start, first, last):
    """Return one past the last of the trees from `first` on that have GROUP_NODES nodes together, at least one tree."""
    end = first + 1
    while end < last and tree_start[end + 1] - tree_start[first] <= GROUP_NODES:
        end += 1
    return end


@joined_kernel
def _step_in(nodes, base, word, codes, row_start, bits, set_start, set_words):
    """Return the node that a row goes to in the tree whose first node is at `base`; see _step."""
    if bits is None:
        code = np.uint64(codes[row_start + (word >> _COLUMN_SHIFT)])
        return nodes[base + _child(word) + np.uint64(code > (word & _RANK_MASK))]
    return nodes[base + _child(word) + _goes_right(word, codes, row_start, bits, set_start, set_words)]


@inner_kernel
def _walk_trees(nodes, tree_start, first, last, codes, row_start, words, bits, set_start, set_words):
    """Find the leaves of one row in the trees first..last - 1, no more than LANES of them, side by side.

    words        uint64 (LANES,)                          out   its leaf in every tree
    """
    top = last - 1
    b0, b1 = np.uint64(tree_start[first]), np.uint64(tree_start[min(first + 1, top)])
    b2, b3 = np.uint64(tree_start[min(first + 2, top)]), np.uint64(tree_start[min(first + 3, top)])
    b4, b5 = np.uint64(tree_start[min(first + 4, top)]), np.uint64(tree_start[min(first + 5, top)])
    b6, b7 = np.uint64(tree_start[min(first + 6, top)]), np.uint64(tree_start[min(first + 7, top)])
    w0, w1, w2, w3, w4, w5, w6, w7 = (
        nodes[b0], nodes[b1], nodes[b2], nodes[b3], nodes[b4], nodes[b5], nodes[b6], nodes[b7],
    )  # fmt: skip
    while (w0 & w1 & w2 & w3 & w4 & w5 & w6 & w7 & _RANK_MASK) != _RANK_MASK:
        for _ in range(MORE_STEPS):
            w0 = _step_in(nodes, b0, w0, codes, row_start, bits, set_start, set_words)
            w1 = _step_in(nodes, b1, w1, codes, row_start, bits, set_start, set_words)
            w2 = _step_in(nodes, b2, w2, codes, row_start, bits, set_start, set_words)
            w3 = _step_in(nodes, b3, w3, codes, row_start, bits, set_start, set_words)
            w4 = _step_in(nodes, b4, w4, codes, row_start, bits, set_start, set_words)
            w5 = _step_in(nodes, b5, w5, codes, row_start, bits, set_start, set_words)
            w6 = _step_in(nodes, b6, w6, codes, row_start, bits, set_start, set_words)
            w7 = _step_in(nodes, b7, w7, codes, row_start, bits, set_start, set_words)
    words[0], words[1], words[2], words[3] = w0, w1, w2, w3
    words[4], words[5], words[6], words[7] = w4, w5, w6, w7


@inner_kernel
def _code_block(forest, sets, block, codes):
    """Turn a block of rows into codes; `sets` are those of the forest, None is known to the compiler."""
    code_rows(
        block, forest.column_feature, forest.column_missing, forest.column_start, forest.thresholds, codes
    )  # fmt: skip
    if sets is not None:
        code_categories(block, forest.column_feature, sets, codes)


@allocating_kernel
def add_trees_kernel(forest, node_value, first, last, block, codes, score_row, scores):
    """Add the values of trees first..last - 1 to the scores of a block of rows.

    forest       Walk                                     in
    node_value   float64 (n_nodes,)                       in   see PackedForest
    block        float64 (n_block_rows, n_features)       in   row 0 is row `score_row` of the scores
    codes        uint16 (n_code_rows, n_columns)          scratch; whole groups of LANES rows, >= n_block_rows
    scores       float64 (n_outputs, n_rows)              in, out

    Many rows go through one tree after the other, LANES rows side by side; a few rows go through LANES trees side by
    side.
    """
    nodes, tree_start, bits = forest.nodes, forest.tree_start, forest.bits
    set_start, set_words, n_outputs = forest.set_start, forest.set_words, len(scores)
    stride, flat_codes, n_tile_rows = np.uint64(codes.shape[1]), codes.reshape(codes.size), _tile_rows(codes)
    _code_block(forest, forest.sets, block, codes)
    words = np.empty(n_tile_rows, np.uint64)
    if len(block) <= FEW_ROWS:
        for row in range(len(block)):
            for begin in range(first, last, LANES):
                end = min(begin + LANES, last)
                _walk_trees(
                    nodes, tree_start, begin, end, flat_codes, np.uint64(row) * stride, words, bits, set_start,
                    set_words,
                )  # fmt: skip
                for tree in range(begin, end):
                    place = np.uint64(tree_start[tree]) + _child(words[tree - begin])
                    scores[tree % n_outputs, score_row + row] += node_value[place]
        return
    pending = np.empty(n_tile_rows + 1, np.uint64)
    group_first = first
    while group_first < last:
        group_last = _group_end(tree_start, group_first, last)
        for begin in range(0, len(block), n_tile_rows):
            n_rows = min(n_tile_rows, len(block) - begin)
            for tree in range(group_first, group_last):
                tree_nodes = nodes[tree_start[tree] : tree_start[tree + 1]]
                value = node_value[tree_start[tree] : tree_start[tree + 1]]
                out = scores[tree % n_outputs, score_row + begin : score_row + begin + n_rows]
                _walk_tile(
                    tree_nodes, flat_codes[begin * codes.shape[1] :], stride, n_rows, words, pending, bits, set_start,
                    set_words,
                )  # fmt: skip
                for row in range(np.uint64(n_rows)):
                    out[row] += value[_child(words[row])]
        group_first = group_last


@allocating_kernel
def find_leaves_kernel(forest, node_leaf, first, last, block, codes, leaf_row, leaves):
    """Find the leaves of a block of rows in trees first..last - 1.

    forest       Walk                                     in
    node_leaf    int32 (n_nodes,)                         in   see PackedForest
    block        float64 (n_block_rows, n_features)       in   row 0 is row `leaf_row` of the leaves
    codes        uint16 (n_code_rows, n_columns)          scratch; whole groups of LANES rows, >= n_block_rows
    leaves       int32 (n_rows, last - first)             out
    """
    nodes, tree_start, bits = forest.nodes, forest.tree_start, forest.bits
    set_start, set_words = forest.set_start, forest.set_words
    stride, flat_codes, n_tile_rows = np.uint64(codes.shape[1]), codes.reshape(codes.size), _tile_rows(codes)
    _code_block(forest, forest.sets, block, codes)
    words = np.empty(n_tile_rows, np.uint64)
    pending = np.empty(n_tile_rows + 1, np.uint64)
    for begin in range(0, len(block), n_tile_rows):
        n_rows = min(n_tile_rows, len(block) - begin)
        for tree in range(first, last):
            tree_nodes = nodes[tree_start[tree] : tree_start[tree + 1]]
            leaf = node_leaf[tree_start[tree] : tree_start[tree + 1]]
            _walk_tile(
                tree_nodes, flat_codes[begin * codes.shape[1] :], stride, n_rows, words, pending, bits, set_start,
                set_words,
            )  # fmt: skip
            for row in range(n_rows):
                leaves[leaf_row + begin + row, tree - first] = leaf[_child(words[row])]
