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

from hornbeam.backends.protocol import BinnedTree, Engine, Segments
from hornbeam.binning import BinnedData
from hornbeam.dtypes import NODE
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
        order = one_at_a_time(nodes["split"]["gain"], nodes["left"], nodes["depth"], self.limits)
        return self._finish(nodes, order, quantization, learning_rate)

    def _expand_nodes(self) -> NDArray[np.void]:
        """Expand nodes round by round until the best n_leaves - 1 are all expanded; returns all nodes evaluated."""
        root = self.engine.begin_tree(self.n_slots)
        pool = HistogramPool(self.n_slots)
        nodes = np.zeros(4 * self.limits.n_leaves, NODE)
        nodes[0] = (0, root.n_rows, root.gradient, root.hessian, -np.inf, 0, -1, -1, nodes[0]["split"])
        n_nodes = 1
        self._evaluate(nodes, np.zeros(1, np.intp), pool, parents=False)
        while True:
            now = nodes[:n_nodes]
            batch, bound = next_batch(now["split"]["gain"], now["priority"], now["left"], now["depth"], self.limits)
            if len(batch) == 0:
                return now
            if bound > -np.inf:
                pool.release_below(bound, now["priority"])
            if n_nodes + 2 * len(batch) > len(nodes):
                nodes = np.concatenate([nodes, np.zeros(len(nodes) + 2 * len(batch), NODE)])
            self._split(nodes, batch, n_nodes)
            n_nodes += 2 * len(batch)
            self._evaluate(nodes, batch, pool, parents=True)

    def _split(self, nodes: NDArray[np.void], batch: NDArray[np.intp], n_nodes: int) -> None:
        """Partition the rows of the batch and enter the children, from place n_nodes of the table on."""
        parents = nodes[batch]
        splits = np.ascontiguousarray(parents["split"])
        n_left = self.engine.partition(segments(parents), splits)
        middle = parents["begin"] + n_left
        nodes["left"][batch] = n_nodes + 2 * np.arange(len(batch), dtype=np.int32)
        for side in (0, 1):
            children = nodes[n_nodes + side : n_nodes + 2 * len(batch) : 2]
            children["begin"] = middle if side else parents["begin"]
            children["end"] = parents["end"] if side else middle
            for total, of_left in (("gradient", "left_gradient"), ("hessian", "left_hessian")):
                children[total] = parents[total] - splits[of_left] if side else splits[of_left]
            children["depth"] = parents["depth"] + 1
            children["parent"] = batch
            children["left"] = -1
            children["split"]["gain"] = -np.inf
            children["priority"] = -np.inf

    def _splittable(self, nodes: NDArray[np.void]) -> NDArray[np.bool_]:
        """Say which nodes could have two children at all."""
        many = nodes["end"] - nodes["begin"] >= 2 * self.rules.min_data_in_leaf
        return np.asarray(many & (nodes["depth"] < self.limits.max_depth) & (nodes["hessian"] > 1))

    def _evaluate(self, nodes: NDArray[np.void], batch: NDArray[np.intp], pool: HistogramPool, parents: bool) -> None:
        """Build histograms and find the best splits: of the batch's children, or of the batch itself (the root)."""
        if not parents:
            root = batch[self._splittable(nodes[batch])]
            slots = np.array([pool.take(int(node)) for node in root], np.int32)
            self.engine.build_histograms(segments(nodes[root]), slots)
            self._find_splits(nodes, root, slots, pool)
            return
        pending = [int(node) for node in batch]
        while pending:
            pending = self._evaluate_some(nodes, pending, pool)

    def _evaluate_some(self, nodes: NDArray[np.void], pending: list[int], pool: HistogramPool) -> list[int]:
        """Evaluate the children of as many pending nodes as slots allow; returns the rest."""
        children = nodes["left"][pending][:, None] + np.array([0, 1])
        wanted = self._splittable(nodes[children])
        n_rows = nodes["end"][children] - nodes["begin"][children]
        smaller = (n_rows[:, 0] > n_rows[:, 1]).astype(int)
        build: list[int] = []
        subtract: list[int] = []  # positions in `build` whose sibling comes by subtraction
        evaluate: list[int] = []
        n_slots = sum(1 if node in pool.slot_of else 2 for node in pending)
        pool.make_room(n_slots, nodes["priority"], keep=set(pending))
        done = 0
        for node, pair, want, small in zip(pending, children.tolist(), wanted.tolist(), smaller.tolist(), strict=True):
            if not any(want):
                pool.release(node)
            elif want[1 - small] and node in pool.slot_of:  # the larger child by subtraction
                if len(pool.free) < 1:
                    break
                subtract.append(len(build))
                build.append(pair[small])
                pool.take(pair[small])
                pool.hand_down(node, pair[1 - small])
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
            pool.make_room(2, nodes["priority"], keep={pending[0]})
            if len(pool.free) < 2:
                pool.release(pending[0])
            return pending
        if build:
            built = np.array(build)
            slots = np.array([pool.slot_of[node] for node in build], np.int32)
            self.engine.build_histograms(segments(nodes[built]), slots)
            if subtract:
                siblings = [nodes["left"][nodes["parent"][node]] * 2 + 1 - node for node in built[subtract]]
                parent_slots = np.array([pool.slot_of[int(node)] for node in siblings], np.int32)
                self.engine.subtract(parent_slots, slots[subtract])
            found = np.array(evaluate)
            self._find_splits(nodes, found, np.array([pool.slot_of[node] for node in evaluate], np.int32), pool)
            for node in set(build) - set(evaluate):
                pool.release(node)
        return pending[done:]

    def _find_splits(
        self, nodes: NDArray[np.void], found: NDArray[np.intp], slots: NDArray[np.int32], pool: HistogramPool
    ) -> None:
        """Enter the best splits of the nodes, and free the slots of those that have none."""
        some = nodes[found]
        splits = self.engine.find_splits(
            segments(some),
            slots,
            np.ascontiguousarray(some["gradient"]),
            np.ascontiguousarray(some["hessian"]),
            self.rules,
        )
        nodes["split"][found] = splits
        parents = some["parent"]
        above = np.where(parents < 0, np.inf, nodes["priority"][parents])
        nodes["priority"][found] = np.minimum(splits["gain"], above)
        for node in found[splits["gain"] == -np.inf]:
            pool.release(int(node))

    def _finish(
        self, nodes: NDArray[np.void], order: list[int], quantization: Quantization, learning_rate: float
    ) -> GrownTree:
        """Cut the evaluated nodes back to the tree, tell the rows their leaves, and compute the leaf values."""
        number = {node: split for split, node in enumerate(order)}
        leaf_of = np.full(len(nodes), -1, np.int32)
        leaf_of[0] = 0
        for split, node in enumerate(order):
            left = nodes["left"][node]
            leaf_of[left], leaf_of[left + 1] = leaf_of[node], split + 1
        lefts, parents = nodes["left"].tolist(), nodes["parent"].tolist()
        for node, parent in enumerate(parents):  # parents come first; a pruned node passes its leaf on
            if parent >= 0 and parent not in number:
                leaf_of[node] = leaf_of[parent]
        ends = np.flatnonzero(nodes["left"] < 0)
        self.engine.assign_leaves(segments(nodes[ends]), leaf_of[ends])

        n_leaves = len(order) + 1
        gradient, hessian = self.engine.leaf_sums(n_leaves)
        leaf_value = leaf_output(gradient, hessian, self.rules) * learning_rate
        leaf_count = np.bincount(leaf_of[ends], (nodes["end"] - nodes["begin"])[ends], n_leaves).astype(np.int64)

        split_nodes = nodes[order]
        children = [[number.get(child, ~int(leaf_of[child])) for child in (lefts[n], lefts[n] + 1)] for n in order]
        left, right = np.array(children, np.int32).reshape(-1, 2).T.copy()
        splits = split_nodes["split"]
        positions = splits["feature"]
        left_rows = nodes["end"][split_nodes["left"]] - nodes["begin"][split_nodes["left"]]
        n_rows = split_nodes["end"] - split_nodes["begin"]
        # a feature without missing values in training sends them where most rows go
        missing_left = np.where(self.binned.has_missing[positions], splits["missing_left"], 2 * left_rows >= n_rows)
        units = quantization.gradient_unit, quantization.hessian_unit
        weight = split_nodes["hessian"] * units[1]
        tree = Tree(
            feature=self.binned.used[positions].astype(np.int32),
            threshold=np.array(list(map(self.binned.threshold, positions.tolist(), splits["bin"].tolist())), np.float64),
            missing_left=missing_left,
            left=left,
            right=right,
            gain=splits["gain"].copy(),
            split_value=leaf_output(split_nodes["gradient"] * units[0], weight, self.rules) * learning_rate,
            split_weight=weight,
            split_count=n_rows,
            leaf_value=leaf_value,
            leaf_weight=hessian,
            leaf_count=leaf_count,
            shrinkage=learning_rate,
        )
        binned = BinnedTree(positions.copy(), splits["bin"].copy(), missing_left, left, right, leaf_value)
        return GrownTree(tree, binned)


def segments(nodes: NDArray[np.void]) -> Segments:
    """Return the rows of some nodes of the table."""
    begin, end, depth = (np.ascontiguousarray(nodes[name]) for name in ("begin", "end", "depth"))
    return Segments(begin, end, depth)
