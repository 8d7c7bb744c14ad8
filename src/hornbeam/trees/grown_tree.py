"""A tree that is grown: from its nodes to bins, sets and thresholds, when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import NODE
from hornbeam.core.lazy import lazy
from hornbeam.data.binning import BinnedData
from hornbeam.trees.categorical_splits import l2_of_children
from hornbeam.trees.linear_leaves import LinearLeaves
from hornbeam.trees.records import BinnedTree, FinishedTree, LeavesLater
from hornbeam.trees.splitting import SplitRules, leaf_output
from hornbeam.trees.tree import Tree, bits_to_codes

Numbering = Callable[[], tuple[NDArray[np.int32], NDArray[np.int32]]]
"""Which of the nodes are split, in which order, and the leaf of each: see replay.py."""


class Setting(NamedTuple):
    """What all trees of a training are grown in.

    level_codes  codes in the model of the levels of a categorical feature, where they differ from the bins; by feature
    """

    binned: BinnedData
    rules: SplitRules
    level_codes: dict[int, NDArray[np.int32]]


class GrownTree:
    """A finished tree, whose arrays are made when they are asked for: a GPU works meanwhile.

    leaves                   what brings leaf_value and leaf_weight
    values_on_engine         the engine has computed them: add_leaf_values needs nothing from here
    nodes                    NODE (n_nodes,): all that were evaluated
    numbering                what brings order, int32 (n_splits,): the nodes that are split, in the order of their
                             numbers; and leaf_of, int32 (n_nodes,): leaf numbers, for a pruned node its ancestor's
    units                    of the nodes' gradients and hessians: Quantization.units
    contexts                 CONTEXT (n_nodes,), where outputs depend on them
    sums                     what brings gradients and hessians of the nodes, int64 (n_nodes, 2), where they are not
                             those that `nodes` has
    """

    def __init__(
        self,
        setting: Setting,
        nodes: NDArray[np.void],
        n_splits: int,
        numbering: Numbering,
        leaves: LeavesLater,
        values_on_engine: bool,
        units: tuple[float, float],
        learning_rate: float,
        contexts: NDArray[np.void] | None = None,
        left_sets: NDArray[np.uint32] | None = None,
        sums: Callable[[], NDArray[np.int64]] | None = None,
    ) -> None:
        self.sums = sums
        self.setting, self.nodes, self.contexts = setting, nodes, contexts
        self.n_splits, self._numbering = n_splits, numbering
        self._leaves, self._on_engine = leaves, values_on_engine
        self.units, self.learning_rate = units, learning_rate
        self._left_sets = left_sets
        self.linear: LinearLeaves | None = None
        """Functions of the leaves, where they are fitted: leaf_fitting.py."""

    @classmethod
    def finished(cls, setting: Setting, tree: FinishedTree, learning_rate: float) -> GrownTree:
        """Make a grown tree of one that the engine has finished."""
        numbers, leaves = (tree.order, tree.leaf_of), (tree.leaf_value, tree.leaf_weight)
        units = tree.gradient_unit, tree.hessian_unit
        grown = cls(
            setting, tree.nodes, len(tree.order), lambda: numbers, lambda: leaves, True, units, learning_rate
        )  # fmt: skip
        grown._numbers, grown._fetched = numbers, leaves  # nobody needs to wait for them
        return grown

    @lazy
    def _numbers(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self._numbering()

    @property
    def order(self) -> NDArray[np.int32]:
        """The nodes that are split."""
        return self._numbers[0]

    @property
    def leaf_of(self) -> NDArray[np.int32]:
        """The leaf of every node."""
        return self._numbers[1]

    @lazy
    def _fetched(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._leaves()

    def fetch(self) -> None:
        """Take over what the engine keeps of the tree until it grows the next one."""
        _ = self._numbers, self._fetched
        if self.sums is not None:
            sums = self.sums()
            self.sums = lambda: sums

    @lazy
    def leaf_value(self) -> NDArray[np.float64]:
        """Values of the leaves, float64 (n_leaves,); may be replaced."""
        return self._fetched[0]

    @property
    def leaf_weight(self) -> NDArray[np.float64]:
        """Hessian sums of the leaves, float64 (n_leaves,)."""
        return self._fetched[1]

    @property
    def value_for_engine(self) -> NDArray[np.float64] | None:
        """What Engine.add_leaf_values takes: None where it knows them, and they have not been replaced."""
        return self.__dict__.get("leaf_value") if self._on_engine else self.leaf_value

    @lazy
    def binned(self) -> BinnedTree:
        """The tree in bins."""
        numbers = np.arange(self.n_splits, dtype=np.int32)
        splits = _splits_in_bins(self.setting.binned, self.nodes, self.order, self.leaf_of, numbers)
        return BinnedTree(*splits, self.leaf_value, self._left_sets)

    def left_codes(self) -> tuple[NDArray[np.int32] | None, ...] | None:
        """Return the sets of the splits in codes of the model; None if no split is categorical."""
        if self._left_sets is None:
            return None
        found: list[NDArray[np.int32] | None] = []
        binned, level_codes = self.setting.binned, self.setting.level_codes
        for feature, bits in zip(self.nodes["split"]["feature"][self.order].tolist(), self._left_sets, strict=True):
            if feature < binned.n_numeric:
                found.append(None)
                continue
            codes = bits_to_codes(bits)
            names = level_codes.get(int(binned.used[feature]))
            found.append(codes if names is None else np.sort(names[codes]))
        return tuple(found)

    @lazy
    def tree(self) -> Tree:
        """The tree in raw thresholds."""
        return trees_of([self])[0]


def _splits_in_bins(
    binned: BinnedData,
    nodes: NDArray[np.void],
    order: NDArray[np.integer[Any]],
    leaf_of: NDArray[np.int32],
    numbers: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_], NDArray[np.int32], NDArray[np.int32]]:
    """Return feature, bin, missing_left, left and right of splits, see BinnedTree.

    nodes    NODE  (n_nodes,)   in  of one tree, or of several side by side
    order    int   (n_splits,)  in  those that are split
    leaf_of  int32 (n_nodes,)   in
    numbers  int32 (n_splits,)  in  of the splits, each in its tree
    """
    splits = nodes["split"][order]
    feature, bins = splits["feature"].copy(), splits["bin"].copy()
    child_of = ~leaf_of  # what a parent says of each node: its number if it is split, else its leaf
    child_of[order] = numbers
    first = nodes["left"][order]
    n_rows = nodes["end"] - nodes["begin"]
    missing_left = binned.missing_goes_left(feature, bins, splits["missing_left"], n_rows[first], n_rows[first + 1])
    categorical = feature >= binned.n_numeric
    missing_left[categorical], bins[categorical] = False, 0
    return feature, bins, missing_left, child_of[first], child_of[first + 1]


def trees_of(grown: Sequence[GrownTree]) -> list[Tree]:
    """Return trees in raw thresholds; those of one training, grown by the same rules, are made together.

    On small data it takes as long to make a tree by itself as to grow it: some fifty calls of NumPy. So the nodes of
    all are put side by side, and every array of a tree is a part of one that belongs to all.
    """
    binned, rules = grown[0].setting.binned, grown[0].setting.rules
    n_splits, n_nodes = [tree.n_splits for tree in grown], [len(tree.nodes) for tree in grown]
    node, split, leaf = (np.cumsum([0, *sizes]) for sizes in (n_nodes, n_splits, [n + 1 for n in n_splits]))
    nodes = np.concatenate([tree.nodes.view(np.uint8) for tree in grown]).view(NODE)  # bytes: records take 20 us a tree
    for tree, (begin, end) in zip(grown, pairwise(node.tolist()), strict=True):
        if tree.sums is not None:
            nodes["gradient"][begin:end], nodes["hessian"][begin:end] = tree.sums().T
    of_tree = np.repeat(np.arange(len(grown)), n_splits)
    order = np.concatenate([tree.order for tree in grown]) + node[of_tree]
    leaf_of = np.concatenate([tree.leaf_of for tree in grown])
    is_end, at = nodes["left"] < 0, nodes[order]
    nodes["left"] += np.repeat(node[:-1], n_nodes).astype(np.int32)
    numbers = (np.arange(split[-1]) - split[of_tree]).astype(np.int32)
    feature, bins, missing_left, left, right = _splits_in_bins(binned, nodes, order, leaf_of, numbers)
    units = np.array([one.units for one in grown])[of_tree]
    weight = at["hessian"].astype(np.float64) * units[:, 1]
    if grown[0].contexts is None:
        added = l2_of_nodes(binned, nodes, order, rules)
        output = leaf_output(at["gradient"].astype(np.float64) * units[:, 0], weight, rules, added[order])
    else:
        output = np.concatenate([tree.contexts["output"] for tree in grown if tree.contexts is not None])[order]
    n_rows = nodes["end"] - nodes["begin"]
    end_leaf = (leaf_of + np.repeat(leaf[:-1], n_nodes))[is_end]
    leaf_count = np.bincount(end_leaf, n_rows[is_end], leaf[-1]).astype(np.int64)
    of_splits = (
        binned.used[feature].astype(np.int32), binned.thresholds(feature, bins), missing_left, left, right,
        at["split"]["gain"].copy(), output * np.array([one.learning_rate for one in grown])[of_tree], weight,
        n_rows[order],
    )  # fmt: skip
    leaf_value = np.concatenate([one.leaf_value for one in grown])
    of_leaves = leaf_value, np.concatenate([one.leaf_weight for one in grown]), leaf_count
    of_trees = [_parts(values, split.tolist()) for values in of_splits]
    of_trees += [_parts(values, leaf.tolist()) for values in of_leaves]
    shrinkage, left_codes = [one.learning_rate for one in grown], [one.left_codes() for one in grown]
    linear = [one.linear for one in grown]
    return list(map(Tree, *of_trees, shrinkage, left_codes, linear))  # in the order of its attributes


def _parts(values: NDArray[Any], bounds: list[int]) -> list[NDArray[Any]]:
    """Cut an array at some places."""
    return [values[begin:end] for begin, end in pairwise(bounds)]


def l2_of_nodes(
    binned: BinnedData, nodes: NDArray[np.void], order: NDArray[np.integer[Any]], rules: SplitRules
) -> NDArray[np.float64]:
    """Return what is added to lambda_l2 in the output of every node of a tree, float64 (n_nodes,); 0 for pruned ones.

    nodes  NODE  (n_nodes,)   in
    order  int   (n_splits,)  in  those that are split
    """
    more = np.zeros(len(nodes))
    if len(order) and binned.n_numeric < binned.n_used:
        first = nodes["left"][order]
        added = l2_of_children(nodes["split"]["feature"][order], binned.n_value_bins, binned.n_numeric, rules)
        more[first] = more[first + 1] = added
    return more
