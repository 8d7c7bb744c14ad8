"""The last step of a tree: which of the evaluated nodes are split, and which leaf each of them belongs to.

The definition; engines have compiled twins, for a GPU waits meanwhile, and on small data it is a good part of a tree's
time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.frontier import GrowthLimits, one_at_a_time


def replay(nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nodes that one-split-at-a-time growth splits, in its order, and the leaf of every node.

    nodes    dtypes.NODE (n_nodes,)  in  parents before their children
    returns  int32 (n_splits,), and int32 (n_nodes,): a pruned node has the leaf of its ancestor
    """
    gain, left, depth = (column.tolist() for column in (nodes["split"]["gain"], nodes["left"], nodes["depth"]))
    order = one_at_a_time(gain, left, depth, limits)
    leaf_of = [-1] * len(nodes)
    leaf_of[0] = 0
    for number, node in enumerate(order):
        if left[node] >= 0:
            leaf_of[left[node]], leaf_of[left[node] + 1] = leaf_of[node], number + 1
    for node, parent in enumerate(nodes["parent"].tolist()):
        if leaf_of[node] < 0:
            leaf_of[node] = leaf_of[parent]
    return np.array(order, np.int32), np.array(leaf_of, np.int32)
