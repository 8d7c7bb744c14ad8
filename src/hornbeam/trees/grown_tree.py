"""A tree that is grown: from its nodes to bins, sets and thresholds, when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import Quantization
from hornbeam.core.lazy import lazy
from hornbeam.data.binning import BinnedData
from hornbeam.trees.categorical_splits import l2_of_children
from hornbeam.trees.records import BinnedTree, LeavesLater
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
    contexts                 CONTEXT (n_nodes,), where outputs depend on them
    """

    def __init__(
        self,
        setting: Setting,
        nodes: NDArray[np.void],
        n_splits: int,
        numbering: Numbering,
        leaves: LeavesLater,
        values_on_engine: bool,
        quantization: Quantization,
        learning_rate: float,
        contexts: NDArray[np.void] | None = None,
        left_sets: NDArray[np.uint32] | None = None,
    ) -> None:
        self._binned, self._rules, self._nodes = setting.binned, setting.rules, nodes
        self._contexts = contexts
        self.n_splits, self._numbering = n_splits, numbering
        self._leaves, self._on_engine = leaves, values_on_engine
        self._quantization = quantization
        self._learning_rate = learning_rate
        self._left_sets, self._level_codes = left_sets, setting.level_codes

    @lazy
    def _numbers(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self._numbering()

    @property
    def _order(self) -> NDArray[np.int32]:
        return self._numbers[0]

    @property
    def _leaf_of(self) -> NDArray[np.int32]:
        return self._numbers[1]

    @property
    def leaf_count(self) -> NDArray[np.int64]:
        """Rows of the leaves, int64 (n_leaves,)."""
        ends = self._nodes["left"] < 0
        n_rows = self._nodes["end"][ends] - self._nodes["begin"][ends]
        return np.bincount(self._leaf_of[ends], n_rows, self.n_splits + 1).astype(np.int64)

    @lazy
    def _fetched(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._leaves()

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
        nodes, order = self._nodes, self._order
        splits = nodes["split"][order]
        feature, bins = splits["feature"].copy(), splits["bin"].copy()
        child_of = ~self._leaf_of  # what a parent says of each node: its number if it is split, else its leaf
        child_of[order] = np.arange(len(order), dtype=np.int32)
        first = nodes["left"][order]
        left, right = child_of[first], child_of[first + 1]
        n_rows = nodes["end"] - nodes["begin"]
        left_rows, right_rows = n_rows[first], n_rows[first + 1]
        missing_left = self._binned.missing_goes_left(feature, bins, splits["missing_left"], left_rows, right_rows)
        categorical = feature >= self._binned.n_numeric
        missing_left[categorical], bins[categorical] = False, 0
        return BinnedTree(feature, bins, missing_left, left, right, self.leaf_value, self._left_sets)

    def _left_codes(self) -> tuple[NDArray[np.int32] | None, ...] | None:
        """Return the sets of the splits in codes of the model; None if no split is categorical."""
        if self._left_sets is None:
            return None
        found: list[NDArray[np.int32] | None] = []
        for feature, bits in zip(self.binned.feature.tolist(), self._left_sets, strict=True):
            if feature < self._binned.n_numeric:
                found.append(None)
                continue
            codes = bits_to_codes(bits)
            names = self._level_codes.get(int(self._binned.used[feature]))
            found.append(codes if names is None else np.sort(names[codes]))
        return tuple(found)

    @lazy
    def tree(self) -> Tree:
        """The tree in raw thresholds."""
        binned, split = self.binned, self._nodes[self._order]
        gradient = split["gradient"].astype(np.float64) * self._quantization.gradient_unit
        weight = split["hessian"].astype(np.float64) * self._quantization.hessian_unit
        if self._contexts is None:
            added = l2_of_nodes(self._binned, self._nodes, self._order, self._rules)
            output = leaf_output(gradient, weight, self._rules, added[self._order])
        else:
            output = self._contexts["output"][self._order]
        return Tree(
            feature=self._binned.used[binned.feature].astype(np.int32),
            threshold=self._binned.thresholds(binned.feature, binned.bin),
            missing_left=binned.missing_left,
            left=binned.left,
            right=binned.right,
            gain=split["split"]["gain"].copy(),
            split_value=output * self._learning_rate,
            split_weight=weight,
            split_count=split["end"] - split["begin"],
            leaf_value=self.leaf_value,
            leaf_weight=self.leaf_weight,
            leaf_count=self.leaf_count,
            shrinkage=self._learning_rate,
            left_codes=self._left_codes(),
        )


def l2_of_nodes(
    binned: BinnedData, nodes: NDArray[np.void], order: NDArray[np.int32], rules: SplitRules
) -> NDArray[np.float64]:
    """Return what is added to lambda_l2 in the output of every node of a tree, float64 (n_nodes,); 0 for pruned ones.

    nodes  NODE  (n_nodes,)   in
    order  int32 (n_splits,)  in  those that are split
    """
    more = np.zeros(len(nodes))
    if len(order):
        first = nodes["left"][order]
        added = l2_of_children(nodes["split"]["feature"][order], binned.n_value_bins, binned.n_numeric, rules)
        more[first] = more[first + 1] = added
    return more
