"""Rows that no split by a feature has seen, for prices of such rows (feature_costs.py).

A split by a feature has seen a row if the row was in the node that was split, in this tree or in one before; rows that
were not chosen for a tree are not in its nodes. All this is done on the host, for every device alike: the engine tells
which rows the nodes have, a number of two bytes for each, once a round. So it takes a bit of host memory for each row
and feature, and the time of a pass over the rows for each round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.engine import Engine
from hornbeam.trees.node_table import NodeTable

BLOCK = 1 << 16
"""Rows whose bits are counted together: a byte for each feature and row."""


class UnseenRows:
    """How many rows of each node no split by a feature has seen.

    n_used   features
    sampled  whether trees may be grown on some of the rows

    A worker keeps the bits of its own rows; counts are of all workers' rows.
    """

    def __init__(self, n_used: int, sampled: bool) -> None:
        self._n_used, self._sampled = n_used, sampled
        self._seen: NDArray[np.uint8] | None = None  # (n_rows, n_bytes), bit f: by feature f, in the trees before

    def begin_tree(self, engine: Engine, nodes: NodeTable) -> None:
        """Begin with a tree of one node."""
        self._engine, self._nodes = engine, nodes
        engine.assign_leaves(nodes.segments([0]), np.zeros(1, np.int32))
        if self._seen is None:
            self._seen = np.zeros((len(engine.row_leaves()), -(-self._n_used // 8)), np.uint8)
        self._rows = engine.chosen_rows().rows if self._sampled else None
        self._on_path = [np.zeros(self._n_used, bool)]
        self._counts = [self._count(1)[0]]

    def _count(self, n_numbers: int) -> NDArray[np.int64]:
        """Count the rows of each number below n_numbers that no tree before has seen, int64 (n_numbers, n_used)."""
        assert self._seen is not None
        numbers, seen = self._engine.row_leaves(), self._seen
        rows = np.arange(len(numbers)) if self._rows is None else self._rows.astype(np.intp)
        numbers = numbers[rows]
        in_order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[in_order], np.arange(n_numbers + 1))
        counts = np.zeros((n_numbers, self._n_used), np.int64)
        for number in range(n_numbers):
            for begin in range(ends[number], ends[number + 1], BLOCK):
                some = rows[in_order[begin : min(begin + BLOCK, ends[number + 1])]]
                bits = np.unpackbits(seen[some], axis=1, count=self._n_used, bitorder="little")
                counts[number] += len(some) - bits.sum(axis=0, dtype=np.int64)
        counts[:] = self._engine.gather(counts.ravel()).sum(axis=0).reshape(counts.shape)
        return counts

    def add_children(self, parents: Sequence[int]) -> None:
        """Count the rows of the children of some nodes: of the smaller child, the others are the rest."""
        nodes, smaller = self._nodes, [self._nodes.halves(parent)[0] for parent in parents]
        ends = [node for node, left in enumerate(nodes.left) if left < 0]
        number_of = {node: number for number, node in enumerate(smaller)}
        numbers = np.array([number_of.get(node, len(smaller)) for node in ends], np.int32)
        self._engine.assign_leaves(nodes.segments(ends), numbers)
        counts = self._count(len(smaller))
        for number, parent in enumerate(parents):
            rest = self._counts[parent] - counts[number]
            on_path = self._on_path[parent].copy()
            on_path[nodes.split[parent][2]] = True
            is_left = smaller[number] == nodes.left[parent]
            self._counts += (counts[number], rest) if is_left else (rest, counts[number])
            self._on_path += (on_path, on_path)

    def counts(self, some: Sequence[int]) -> NDArray[np.int64]:
        """Return how many rows of some nodes no split by each feature has seen, int64 (n_nodes, n_used)."""
        return np.array([np.where(self._on_path[node], 0, self._counts[node]) for node in some])

    def end_tree(self, nodes: NDArray[np.void], order: NDArray[np.int32], leaf_of: NDArray[np.int32]) -> None:
        """Enter what the splits of the finished tree have seen; its rows know their leaves."""
        assert self._seen is not None
        of_leaf = np.zeros((len(order) + 1, self._n_used), bool)
        is_split = np.zeros(len(nodes) + 1, bool)
        is_split[order] = is_split[-1] = True  # the parent of the root is -1
        for node in np.flatnonzero(is_split[nodes["parent"]] & ~is_split[:-1]).tolist():
            of_leaf[leaf_of[node]] = self._on_path[node]
        bits = np.packbits(of_leaf, axis=1, bitorder="little")
        numbers = self._engine.row_leaves()
        rows = np.arange(len(numbers)) if self._rows is None else self._rows
        self._seen[rows] |= bits[numbers[rows]]
