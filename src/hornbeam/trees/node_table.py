"""The nodes of a growing tree, by number: rows, sums, best splits, parents and children."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import NODE, SPLIT
from hornbeam.trees.frontier import NEVER
from hornbeam.trees.records import Root, Segments


class NodeTable:
    """The nodes of a growing tree, one list a property.

    Plain lists: a tree has a few hundred nodes, touched a few at a time, which costs less than calls of NumPy.

    begin, end         the node's rows: places begin:end of the engine's row list
    gradient, hessian  fixed-point sums
    gain, priority     of the best split; smallest gain on the path from the root; NEVER: cannot be split
    depth, parent      parent -1: the root
    left               -1: not expanded; the right child is left + 1
    split              the best split, (left_gradient, left_hessian, feature, bin, missing_left)
    root_depth         where the engine has the root's rows: what engines see as depth is depth + root_depth
    """

    def __init__(self, root: Root) -> None:
        self.root_depth = root.depth
        self.begin, self.end = [0], [root.n_rows]
        self.gradient, self.hessian = [root.gradient], [root.hessian]
        self.gain, self.priority = [NEVER], [NEVER]
        self.depth, self.parent, self.left = [0], [-1], [-1]
        self.split: list[tuple[int, int, int, int, bool]] = [(0, 0, -1, -1, False)]

    def root_table(self) -> NDArray[np.void]:
        """Return the root, not evaluated yet, as dtypes.NODE (1,): the same as `table`, but quick."""
        root = (
            0, self.end[0], self.gradient[0], self.hessian[0], NEVER, (NEVER, *self.split[0]),
            self.root_depth, -1, -1, 0, -1, 0,
        )  # fmt: skip
        return np.array([root], NODE)

    def table(self) -> NDArray[np.void]:
        """Return all of it as dtypes.NODE (n_nodes,), but for `slot`, `lower` and `chain`, which are 0."""
        table = np.zeros(len(self.begin), NODE)
        for name in ("begin", "end", "gradient", "hessian", "priority", "depth", "parent", "left"):
            table[name] = getattr(self, name)
        table["depth"] += self.root_depth
        table["split"] = self.splits(range(len(self.begin)))
        return table

    @classmethod
    def from_table(cls, table: NDArray[np.void]) -> NodeTable:
        """Make a table from dtypes.NODE (n_nodes,)."""
        nodes = cls(Root(0, 0, 0))
        for name in ("begin", "end", "gradient", "hessian", "priority", "depth", "parent", "left"):
            setattr(nodes, name, table[name].tolist())
        nodes.root_depth = nodes.depth[0]
        nodes.depth = [depth - nodes.root_depth for depth in nodes.depth]
        nodes.gain = table["split"]["gain"].tolist()
        nodes.split = [split[1:] for split in table["split"].tolist()]
        return nodes

    def segments(self, nodes: Sequence[int]) -> Segments:
        """Return the rows of some nodes."""
        return Segments(
            np.array([self.begin[node] for node in nodes], np.int64),
            np.array([self.end[node] for node in nodes], np.int64),
            np.array([self.depth[node] + self.root_depth for node in nodes], np.int32),
        )

    def splits(self, nodes: Sequence[int]) -> NDArray[np.void]:
        """Return the best splits of some nodes, SPLIT (n_nodes,)."""
        return np.array([(self.gain[node], *self.split[node]) for node in nodes], SPLIT)

    def expansion(self, node: int, slot: int, spare_slot: int) -> tuple[int | bool, ...]:
        """Return what `Engine.expand` needs of a node, in the order of dtypes.EXPANSION."""
        left_gradient, left_hessian, feature, bin_, missing_left = self.split[node]
        return (
            self.begin[node], self.end[node], self.gradient[node], self.hessian[node], left_gradient, left_hessian,
            self.depth[node] + self.root_depth, feature, bin_, slot, spare_slot, missing_left,
        )  # fmt: skip

    def halves(self, node: int) -> tuple[int, int]:
        """Return a node's children, the one with fewer rows (the left one of equals) first."""
        left = self.left[node]
        if self.end[left] - self.begin[left] <= self.end[left + 1] - self.begin[left + 1]:
            return left, left + 1
        return left + 1, left

    def add_children(self, parents: Sequence[int], n_left: Sequence[int]) -> None:
        """Enter the two children of each node, of which n_left rows are in the left one."""
        for parent, rows in zip(parents, n_left, strict=True):
            gradient, hessian = self.split[parent][:2]
            middle = self.begin[parent] + rows
            self.left[parent] = len(self.begin)
            self.begin += (self.begin[parent], middle)
            self.end += (middle, self.end[parent])
            self.gradient += (gradient, self.gradient[parent] - gradient)
            self.hessian += (hessian, self.hessian[parent] - hessian)
            self.gain += (NEVER, NEVER)
            self.priority += (NEVER, NEVER)
            self.depth += (self.depth[parent] + 1,) * 2
            self.parent += (parent, parent)
            self.left += (-1, -1)
            self.split += (self.split[0],) * 2

    def set_splits(self, nodes: Sequence[int], splits: NDArray[np.void]) -> None:
        """Enter the best splits of some nodes."""
        for node, (gain, *split) in zip(nodes, splits.tolist(), strict=True):
            parent = self.parent[node]
            self.gain[node] = gain
            self.priority[node] = gain if parent < 0 else min(gain, self.priority[parent])
            self.split[node] = tuple(split)
