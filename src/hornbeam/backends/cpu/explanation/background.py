"""Shapley values against background rows on the CPU: every explained row plays with every background row.

trees/shapley/background_game.py has the game. A walk goes only where the two rows lead, some dozens of the splits of
a tree of 255 leaves; splits where they part are kept on a stack.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.explanation.blocks import Work, run_blocks
from hornbeam.backends.cpu.explanation.decisions import RowRanks, SplitTests, decide, split_tests
from hornbeam.backends.cpu.host.kernels import allocating_kernel, kernel
from hornbeam.backends.cpu.prediction.packed_forest import PackedForest
from hornbeam.backends.cpu.prediction.walk import packed
from hornbeam.trees.forest import Forest, Reader
from hornbeam.trees.shapley.background_game import coalition_weights, most_parted
from hornbeam.trees.shapley.joined_plan import starts_of

ROWS = 64
"""Explained rows of a block; for each block the background rows are decided anew, a hundredth of the time."""

BACKGROUND_ROWS = 2048
"""Background rows whose decisions are held at a time: half a megabyte for a tree of 255 leaves."""


class Games(NamedTuple):
    """The trees one behind the other.

    split_start, leaf_start, feature_start   int64 (n_trees + 1,)   first entry of each tree
    left, right   int32 (n_splits,)      as in Tree
    slot          int32 (n_splits,)      number of the feature among those of the tree
    features      int32                  features of each tree, ascending
    value         float64 (n_leaves,)
    weights       float64 (n, n)         see background_game.coalition_weights
    """

    split_start: NDArray[np.int64]
    leaf_start: NDArray[np.int64]
    feature_start: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    slot: NDArray[np.int32]
    features: NDArray[np.int32]
    value: NDArray[np.float64]
    weights: NDArray[np.float64]


class CpuGames:
    """A forest as the kernel wants it."""

    def __init__(self, forest: Forest, own: PackedForest) -> None:
        trees = forest.trees
        found = [np.unique(tree.feature, return_inverse=True) for tree in trees]

        def joined(parts: list[Any], dtype: Any) -> NDArray[Any]:
            return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)

        self.forest = own
        self.tests: SplitTests = split_tests(own)
        self.games = Games(
            starts_of(tree.n_splits for tree in trees),
            starts_of(tree.n_leaves for tree in trees),
            starts_of(len(features) for features, _ in found),
            joined([tree.left for tree in trees], np.int32),
            joined([tree.right for tree in trees], np.int32),
            joined([slots for _, slots in found], np.int32),
            joined([features for features, _ in found], np.int32),
            joined([tree.leaf_value for tree in trees], np.float64),
            np.array(coalition_weights(max((most_parted(tree) for tree in trees), default=0))),
        )


def games_of(forest: Forest) -> CpuGames:
    """Return a forest as the kernel wants it; it is kept as long as the Forest lives."""
    own = packed(forest)
    return forest.packed_for("cpu, background", lambda: CpuGames(forest, own))


def add_background(
    explainer: CpuGames,
    reader: Reader,
    rows: range,
    background: NDArray[np.float64],
    chosen: range,
    out: NDArray[np.float64],
    n_threads: int,
) -> None:
    """Add the Shapley values of the chosen trees for some rows, summed over the background rows.

    background  float64 (n_background, n_features)            in
    out         float64 (len(rows), n_outputs, n_features)    in, out
    """
    games = explainer.games
    most_splits = int(np.diff(games.split_start).max(initial=0))
    most_features = int(np.diff(games.feature_start).max(initial=0))
    against = RowRanks(explainer.forest, len(background)).fill(background)

    def begin() -> Work:
        ranks = RowRanks(explainer.forest, ROWS)
        left = np.zeros((ROWS, most_splits), np.uint8)
        other_left = np.zeros((min(BACKGROUND_ROWS, len(background)), most_splits), np.uint8)
        sums = np.zeros((ROWS, most_features))

        def work(block: NDArray[np.float64], start: int, stop: int) -> None:
            background_kernel(
                ranks.fill(block), against, explainer.tests, explainer.forest.sets, games, chosen.start, chosen.stop,
                left, other_left, sums, out[start:stop],
            )  # fmt: skip

        return work

    run_blocks(begin, reader, rows, ROWS, n_threads)


@allocating_kernel
def background_kernel(ranks, against, tests, sets, games, first, last, left, other_left, sums, out):
    """Add the Shapley values of trees first..last - 1 for a block of rows.

    ranks       uint16 (n_columns, >= n_rows)             in   see decisions.py
    against     uint16 (n_columns, n_background)          in   of the background rows
    tests, sets, games                                    in
    left        uint8 (>= n_rows, most splits)            scratch
    other_left  uint8 (n_chunk, most splits)              scratch
    sums        float64 (>= n_rows, most features)        scratch
    out         float64 (n_rows, n_outputs, n_features)   in, out
    """
    n_rows, n_outputs = out.shape[0], out.shape[1]
    n_background, n_chunk = against.shape[1], other_left.shape[0]
    most = len(games.weights)
    nodes, phases = np.empty(most, np.int64), np.empty(most, np.uint8)
    saved = np.empty((most, 2))
    taken = np.zeros(sums.shape[1], np.uint8)
    decided = np.empty(max(n_rows, n_chunk), np.uint8)
    for tree in range(first, last):
        begin, end = games.split_start[tree], games.split_start[tree + 1]
        if begin == end:
            continue
        left_child, right_child, slots = games.left[begin:end], games.right[begin:end], games.slot[begin:end]
        value = games.value[games.leaf_start[tree] : games.leaf_start[tree + 1]]
        n_features = games.feature_start[tree + 1] - games.feature_start[tree]
        sums[:n_rows, :n_features] = 0.0
        for split in range(end - begin):
            decide(ranks, 0, n_rows, tests, sets, begin + split, decided)
            for row in range(n_rows):
                left[row, split] = decided[row]
        for start in range(0, n_background, n_chunk):
            n_others = min(n_chunk, n_background - start)
            for split in range(end - begin):
                decide(against, start, n_others, tests, sets, begin + split, decided)
                for other in range(n_others):
                    other_left[other, split] = decided[other]
            for row in range(n_rows):
                for other in range(n_others):
                    _play(
                        left[row], other_left[other], left_child, right_child, slots, value, games.weights, nodes,
                        phases, saved, taken, sums[row],
                    )  # fmt: skip
        features = games.features[games.feature_start[tree] :]
        for row in range(n_rows):
            for slot in range(n_features):
                out[row, tree % n_outputs, features[slot]] += sums[row, slot]


@kernel
def _play(left, other_left, left_child, right_child, slots, value, weights, nodes, phases, saved, taken, sums):
    """Play one explained row against one background row in one tree.

    left, other_left    uint8 (n_splits,)     in    whether they go left
    nodes, phases       (most,)               scratch   splits where they part, and whose way the walk is on
    saved               float64 (most, 2)     scratch   what came back from the explained row's way
    taken               uint8 (n_features,)   scratch   0: free, 1: the explained row's, 2: the background row's
    sums                float64 (n_features,) in, out
    """
    node, depth, p, n = np.int64(0), 0, 0, 0
    while True:
        while node >= 0:
            slot = slots[node]
            goes_left = left[node]
            if taken[slot] == 2:
                goes_left = other_left[node]
            elif taken[slot] == 0 and goes_left != other_left[node]:
                nodes[depth], phases[depth] = node, 1
                depth += 1
                taken[slot] = 1
                p += 1
            node = np.int64(left_child[node] if goes_left else right_child[node])
        one, two = value[~node] * weights[p, n], value[~node] * weights[n, p]
        while depth > 0:
            node = nodes[depth - 1]
            slot = slots[node]
            if phases[depth - 1] == 1:
                saved[depth - 1, 0], saved[depth - 1, 1] = one, two
                phases[depth - 1], taken[slot] = 2, 2
                p -= 1
                n += 1
                node = np.int64(left_child[node] if other_left[node] else right_child[node])
                break
            sums[slot] += saved[depth - 1, 0] - two
            one, two = saved[depth - 1, 0] + one, saved[depth - 1, 1] + two
            taken[slot] = 0
            n -= 1
            depth -= 1
        else:
            return
