"""One decision tree, as plain arrays.

Split nodes are numbered in the order in which one-split-at-a-time growth makes them; leaf numbers follow: the left
child of a split keeps the leaf number of the node that was split, the right child gets the next free one.

    child >= 0   split node `child`
    child < 0    leaf `~child`

A value goes left when `value <= threshold`; a missing value (NaN) goes left when `missing_left`. A split of a
categorical feature has a set of codes (levels.py) instead: what is in it goes left, everything else, missing and unseen
levels too, goes right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.trees.linear_leaves import LinearLeaves


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of n_leaves leaves and n_leaves - 1 splits.

    Attributes
    ----------
    feature
        int32 (n_splits,): column of the input data.
    threshold
        float64 (n_splits,): a value at most this large goes left; +inf: every value that is not missing.
    missing_left
        bool (n_splits,): whether missing values go left.
    left, right
        int32 (n_splits,): children; child >= 0 is a split, child < 0 the leaf ~child.
    gain
        float64 (n_splits,): gain of the split.
    split_value
        float64 (n_splits,): output that the node would have as a leaf.
    split_weight
        float64 (n_splits,): sum of hessians.
    split_count
        int64 (n_splits,): training rows.
    leaf_value
        float64 (n_leaves,): output, with the learning rate applied.
    leaf_weight
        float64 (n_leaves,): sum of hessians.
    leaf_count
        int64 (n_leaves,): training rows.
    shrinkage
        Learning rate that the values carry.
    left_codes
        One entry a split: int32 (n,), ascending, the codes that go left, and None for a split of numbers. None alone:
        no split is categorical. A categorical split has threshold 0.0 and missing_left False.
    linear
        Functions of the leaves; None: every leaf is constant.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gain: NDArray[np.float64]
    split_value: NDArray[np.float64]
    split_weight: NDArray[np.float64]
    split_count: NDArray[np.int64]
    leaf_value: NDArray[np.float64]
    leaf_weight: NDArray[np.float64]
    leaf_count: NDArray[np.int64]
    shrinkage: float
    left_codes: tuple[NDArray[np.int32] | None, ...] | None = None
    linear: LinearLeaves | None = None

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaf_value)

    @property
    def n_splits(self) -> int:
        """Number of split nodes."""
        return len(self.feature)

    def depth(self) -> int:
        """Return the number of splits on the longest path; 0 for a lone leaf."""
        depth = np.zeros(self.n_splits, np.int64)
        for node in range(self.n_splits):  # children have higher numbers than their parent
            for child in (self.left[node], self.right[node]):
                if child >= 0:
                    depth[child] = depth[node] + 1
        return int(depth.max(initial=-1)) + 1

    def by_level(self) -> list[int]:
        """Return splits, by number, and leaves, by the complement of theirs, from the root down, level by level."""
        order = [0 if self.n_splits else ~0]
        for node in order:  # grows while it is read
            if node >= 0:
                order += [int(self.left[node]), int(self.right[node])]
        return order

    def with_leaf_values(self, leaf_value: NDArray[np.float64]) -> Tree:
        """Return the same tree with other outputs."""
        return replace(self, leaf_value=leaf_value)

    def plus(self, amount: float) -> Tree:
        """Return the same tree with an amount added to its outputs."""
        linear = None if self.linear is None else self.linear.plus(amount)
        return replace(self, leaf_value=self.leaf_value + amount, linear=linear)

    def goes_left(self, split: int, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which values of its feature go left at a split: the rule of partition, score update and prediction.

        values  float64 (n,)  in   codes for a categorical split
        """
        codes = None if self.left_codes is None else self.left_codes[split]
        if codes is not None:
            return np.isin(values, codes)
        return goes_left(values, float(self.threshold[split]), bool(self.missing_left[split]))


def refuse_linear(trees: Sequence[Tree], what: str, remedy: str = "train without linear_tree") -> None:
    """Raise ParameterError where a tree has linear leaves, for something that is not there with them."""
    if any(tree.linear is not None for tree in trees):
        raise ParameterError(f"{what} of a model with linear leaves (linear_tree=True): not available; {remedy}")


def goes_left(values: NDArray[np.float64], threshold: float, missing_left: bool) -> NDArray[np.bool_]:
    """Say which raw values go left at a split of numbers."""
    return np.where(np.isnan(values), missing_left, values <= threshold)


def code_bits(codes: NDArray[np.int32] | NDArray[np.int64], n_words: int) -> NDArray[np.uint32]:
    """Return a set of codes as bits, uint32 (n_words,): bit c % 32 of word c // 32 is set for code c."""
    flags = np.zeros(32 * n_words, np.uint8)
    flags[codes] = 1
    return np.packbits(flags, bitorder="little").view("<u4").astype(np.uint32)


def bits_to_codes(bits: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return the codes of a set, ascending, int32 (n,)."""
    return np.flatnonzero(np.unpackbits(bits.astype("<u4").view(np.uint8), bitorder="little")).astype(np.int32)
