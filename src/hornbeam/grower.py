"""Growing one tree, in rounds.

A round expands many nodes at once:

    choose nodes (frontier.py)  ->  partition their rows  ->  histograms of the smaller children
        ->  larger children by subtraction  ->  best split of every child

The loop knows nodes, slots and integer sums; arithmetic on rows is the engine's. The rows of a node are a segment of
the engine's row list, and its children divide the segment between them:

    places      begin                          end
    parent        [ . . . . . . . . . . . . . . )
    children      [ left . . . . )[ . . . right )
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.protocol import BinnedTree, Engine, Root, Segments
from hornbeam.binning import BinnedData
from hornbeam.dtypes import SPLIT
from hornbeam.frontier import GrowthLimits, next_batch, one_at_a_time
from hornbeam.histogram_pool import HistogramPool
from hornbeam.quantize import Quantization
from hornbeam.splitting import SplitRules, leaf_output
from hornbeam.tree import Tree


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A finished tree, in raw thresholds and in bins."""

    tree: Tree
    binned: BinnedTree


class NodeTable:
    """The nodes of a growing tree, one array a property; the first `n_nodes` entries count.

    begin, end         int64    the node's rows: places begin:end of the engine's row list
    gradient, hessian  int64    fixed-point sums
    gain               float64  of the best split; -inf: cannot be split
    priority           float64  smallest gain on the path from the root
    depth, parent      int32    parent -1: the root
    left               int32    -1: not expanded; the right child is left + 1
    split              SPLIT    the best split
    """

    COLUMNS = ("begin", "end", "gradient", "hessian", "gain", "priority", "depth", "parent", "left", "split")

    def __init__(self, capacity: int, root: Root) -> None:
        self.n_nodes = 1
        self.begin = np.zeros(capacity, np.int64)
        self.end = np.zeros(capacity, np.int64)
        self.gradient = np.zeros(capacity, np.int64)
        self.hessian = np.zeros(capacity, np.int64)
        self.gain = np.zeros(capacity)
        self.priority = np.zeros(capacity)
        self.depth = np.zeros(capacity, np.int32)
        self.parent = np.zeros(capacity, np.int32)
        self.left = np.zeros(capacity, np.int32)
        self.split = np.zeros(capacity, SPLIT)
        self.end[0], self.gradient[0], self.hessian[0] = root.n_rows, root.gradient, root.hessian
        self.gain[0] = self.priority[0] = -np.inf
        self.parent[0] = self.left[0] = -1

    def segments(self, nodes: NDArray[np.intp]) -> Segments:
        """Return the rows of some nodes."""
        return Segments(self.begin[nodes], self.end[nodes], self.depth[nodes])

    def add_children(self, parents: NDArray[np.intp], n_left: NDArray[np.int64]) -> None:
        """Enter the two children of each node, of which n_left rows are in the left one."""
        first, last = self.n_nodes, self.n_nodes + 2 * len(parents)
        if last > len(self.begin):
            for name in self.COLUMNS:
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(last, column.dtype)]))
        left, right = slice(first, last, 2), slice(first + 1, last, 2)
        split = self.split[parents]
        middle = self.begin[parents] + n_left
        self.begin[left], self.end[left] = self.begin[parents], middle
        self.begin[right], self.end[right] = middle, self.end[parents]
        self.gradient[left], self.hessian[left] = split["left_gradient"], split["left_hessian"]
        self.gradient[right] = self.gradient[parents] - split["left_gradient"]
        self.hessian[right] = self.hessian[parents] - split["left_hessian"]
        self.gain[first:last] = self.priority[first:last] = -np.inf
        self.left[first:last] = -1
        for side in (left, right):
            self.depth[side] = self.depth[parents] + 1
            self.parent[side] = parents
        self.left[parents] = np.arange(first, last, 2)
        self.n_nodes = last

    def set_splits(self, nodes: NDArray[np.intp], splits: NDArray[np.void]) -> None:
        """Enter the best splits of some nodes."""
        self.split[nodes] = splits
        self.gain[nodes] = splits["gain"]
        parents = self.parent[nodes]
        above = np.where(parents < 0, np.inf, self.priority[parents])
        self.priority[nodes] = np.minimum(splits["gain"], above)


class TreeGrower:
    """Grows the trees of one training run on one engine."""

    def __init__(
        self, engine: Engine, binned: BinnedData, rules: SplitRules, limits: GrowthLimits, n_slots: int
    ) -> None:
        self.engine = engine
        self.binned = binned
        self.rules = rules
        self.limits = limits
        self.n_slots = n_slots

    def grow(self, quantization: Quantization, learning_rate: float) -> GrownTree:
        """Grow a tree on the engine's quantised gradients; leaves every row with its leaf number."""
        nodes = self._expand_nodes()
        n = nodes.n_nodes
        order = one_at_a_time(nodes.gain[:n], nodes.left[:n], nodes.depth[:n], self.limits)
        return self._finish(nodes, order, quantization, learning_rate)

    def _expand_nodes(self) -> NodeTable:
        """Expand nodes round by round until the best n_leaves - 1 are all expanded; returns all nodes evaluated."""
        nodes = NodeTable(4 * self.limits.n_leaves, self.engine.begin_tree(self.n_slots))
        pool = HistogramPool(self.n_slots)
        root = np.zeros(1, np.intp)
        if self._splittable(nodes, root)[0]:
            slots = np.array([pool.take(0)], np.int32)
            self.engine.build_histograms(nodes.segments(root), slots)
            self._find_splits(nodes, root, slots, pool)
        while True:
            n = nodes.n_nodes
            batch, bound = next_batch(nodes.gain[:n], nodes.priority[:n], nodes.left[:n], nodes.depth[:n], self.limits)
            if len(batch) == 0:
                return nodes
            if bound > -np.inf:
                pool.release_below(bound, nodes.priority)
            nodes.add_children(batch, self.engine.partition(nodes.segments(batch), nodes.split[batch]))
            pending = batch.tolist()
            while pending:
                pending = self._evaluate_children(nodes, pending, pool)

    def _splittable(self, nodes: NodeTable, some: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Say which nodes could have two children at all."""
        many = nodes.end[some] - nodes.begin[some] >= 2 * self.rules.min_data_in_leaf
        return np.asarray(many & (nodes.depth[some] < self.limits.max_depth) & (nodes.hessian[some] > 1))

    def _evaluate_children(self, nodes: NodeTable, pending: list[int], pool: HistogramPool) -> list[int]:
        """Evaluate the children of as many pending nodes as slots allow; returns the rest."""
        children = nodes.left[pending][:, None] + np.array([0, 1])
        wanted = self._splittable(nodes, children)
        n_rows = nodes.end[children] - nodes.begin[children]
        right_is_smaller = (n_rows[:, 0] > n_rows[:, 1]).tolist()
        build: list[int] = []
        halves: list[tuple[int, int]] = []  # (smaller child, larger child): the larger one comes by subtraction
        evaluate: list[int] = []
        n_slots = sum(1 if node in pool.slot_of else 2 for node in pending)
        pool.make_room(n_slots, nodes.priority, keep=set(pending))
        done = 0
        for node, pair, want, swap in zip(pending, children.tolist(), wanted.tolist(), right_is_smaller, strict=True):
            small, large = pair[::-1] if swap else pair
            if not any(want):
                pool.release(node)
            elif want[0 if swap else 1] and node in pool.slot_of:
                if len(pool.free) < 1:
                    break
                halves.append((small, large))
                build.append(small)
                pool.take(small)
                pool.hand_down(node, large)
            else:  # the larger child is not wanted, or the parent's histogram is gone: sum what is wanted
                pool.release(node)
                if len(pool.free) < sum(want):
                    break
                for child, is_wanted in zip(pair, want, strict=True):
                    if is_wanted:
                        build.append(child)
                        pool.take(child)
            evaluate.extend(child for child, is_wanted in zip(pair, want, strict=True) if is_wanted)
            done += 1
        if done == 0:  # no slot left beside the pending nodes' own: they have to give theirs up
            pool.make_room(2, nodes.priority, keep={pending[0]})
            if len(pool.free) < 2:
                pool.release(pending[0])
            return pending
        if build:
            self.engine.build_histograms(nodes.segments(np.array(build)), pool.slots(build))
            if halves:
                smaller, larger = zip(*halves, strict=True)
                self.engine.subtract(pool.slots(larger), pool.slots(smaller))
            self._find_splits(nodes, np.array(evaluate), pool.slots(evaluate), pool)
            for node in set(build).difference(evaluate):
                pool.release(node)
        return pending[done:]

    def _find_splits(
        self, nodes: NodeTable, some: NDArray[np.intp], slots: NDArray[np.int32], pool: HistogramPool
    ) -> None:
        """Enter the best splits of some nodes, and free the slots of those that have none."""
        splits = self.engine.find_splits(
            nodes.segments(some), slots, nodes.gradient[some], nodes.hessian[some], self.rules
        )
        nodes.set_splits(some, splits)
        for node in some[splits["gain"] == -np.inf].tolist():
            pool.release(node)

    def _finish(
        self, nodes: NodeTable, order: list[int], quantization: Quantization, learning_rate: float
    ) -> GrownTree:
        """Cut the evaluated nodes back to the tree, tell the rows their leaves, and compute the leaf values."""
        n, n_leaves = nodes.n_nodes, len(order) + 1
        number = {node: split for split, node in enumerate(order)}
        lefts = nodes.left[:n].tolist()
        leaf_of = [0] * n
        for split, node in enumerate(order):
            leaf_of[lefts[node]], leaf_of[lefts[node] + 1] = leaf_of[node], split + 1
        for node, parent in enumerate(
            nodes.parent[:n].tolist()
        ):  # parents come first; a pruned node passes its leaf on
            if parent >= 0 and parent not in number:
                leaf_of[node] = leaf_of[parent]
        ends = np.flatnonzero(nodes.left[:n] < 0)
        leaf_of_end = np.array(leaf_of, np.int32)[ends]
        self.engine.assign_leaves(nodes.segments(ends), leaf_of_end)
        gradient, hessian = self.engine.leaf_sums(n_leaves)
        leaf_value = leaf_output(gradient, hessian, self.rules) * learning_rate
        leaf_count = np.zeros(n_leaves, np.int64)
        np.add.at(leaf_count, leaf_of_end, nodes.end[ends] - nodes.begin[ends])

        splits = nodes.split[order]
        feature, bins = splits["feature"].copy(), splits["bin"].copy()
        children = [[number.get(child, ~leaf_of[child]) for child in (lefts[node], lefts[node] + 1)] for node in order]
        left, right = np.array(children, np.int32).reshape(-1, 2).T.copy()
        threshold = np.array(list(map(self.binned.threshold, feature.tolist(), bins.tolist())), np.float64)
        n_rows = nodes.end[order] - nodes.begin[order]
        left_rows = nodes.end[nodes.left[order]] - nodes.begin[order]
        missing_left = self._missing_left(feature, threshold, splits["missing_left"], 2 * left_rows >= n_rows)
        gradient = nodes.gradient[order].astype(np.float64) * quantization.gradient_unit
        weight = nodes.hessian[order].astype(np.float64) * quantization.hessian_unit
        tree = Tree(
            feature=self.binned.used[feature].astype(np.int32),
            threshold=threshold,
            missing_left=missing_left,
            left=left,
            right=right,
            gain=splits["gain"].copy(),
            split_value=leaf_output(gradient, weight, self.rules) * learning_rate,
            split_weight=weight,
            split_count=n_rows,
            leaf_value=leaf_value,
            leaf_weight=hessian,
            leaf_count=leaf_count,
            shrinkage=learning_rate,
        )
        return GrownTree(tree, BinnedTree(feature, bins, missing_left, left, right, leaf_value))

    def _missing_left(
        self,
        feature: NDArray[np.int32],
        threshold: NDArray[np.float64],
        learned: NDArray[np.bool_],
        left_is_larger: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Say where missing values go: as learned; without any in training, where most rows go; or as 0.0 would."""
        if not self.binned.mapper.use_missing:
            return np.asarray(threshold >= 0.0)
        return np.where(self.binned.has_missing[feature], learned, left_is_larger)
