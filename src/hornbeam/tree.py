"""One decision tree, as plain arrays.

Split nodes are numbered in the order in which one-split-at-a-time growth makes them; leaf numbers follow: the left
child of a split keeps the leaf number of the node that was split, the right child gets the next free one.

    child >= 0   split node `child`
    child < 0    leaf `~child`

A value goes left when `value <= threshold`; a missing value (NaN) goes left when `missing_left`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of n_leaves leaves and n_leaves - 1 splits.

    feature       int32   (n_splits,)   column of the input data
    threshold     float64 (n_splits,)   may be +inf: every value that is not missing goes left
    missing_left  bool    (n_splits,)
    left, right   int32   (n_splits,)   see above
    gain          float64 (n_splits,)
    split_value   float64 (n_splits,)   output the node would have as a leaf
    split_weight  float64 (n_splits,)   sum of hessians
    split_count   int64   (n_splits,)   training rows
    leaf_value    float64 (n_leaves,)   shrinkage applied
    leaf_weight   float64 (n_leaves,)
    leaf_count    int64   (n_leaves,)
    shrinkage     learning rate that the values carry
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

    def with_leaf_values(self, leaf_value: NDArray[np.float64]) -> Tree:
        """Return the same tree with other outputs."""
        return replace(self, leaf_value=leaf_value)


def goes_left(values: NDArray[np.float64], threshold: float, missing_left: bool) -> NDArray[np.bool_]:
    """Say which raw values go left: the rule of partition, score update and prediction."""
    return np.where(np.isnan(values), missing_left, values <= threshold)
