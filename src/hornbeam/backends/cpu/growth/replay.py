"""The last step of a tree, compiled: which of the evaluated nodes are split, and which leaf each belongs to.

Twin of frontier.one_at_a_time on a node table. A GPU waits while this runs, and on small data it is a good part of a
tree's time.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.trees.frontier import GrowthLimits


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def comes_before(level_a, gain_a, made_a, level_b, gain_b, made_b):  # type: ignore[no-untyped-def]
    """Say whether node a is split before node b: lower level, then higher gain, then made earlier."""
    if level_a != level_b:
        return level_a < level_b
    if gain_a != gain_b:
        return gain_a > gain_b
    return made_a < made_b


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def replay_kernel(nodes, n_splits, depthwise, heap, level, gain, made, order, leaf_of):  # type: ignore[no-untyped-def]
    """Replay the growth with a binary heap of nodes; returns the number of splits.

    nodes              NODE (n_nodes,)     in
    heap               int64 (n_nodes,)    scratch
    level, gain, made  (n_nodes,)          scratch: what a node in the heap is compared by
    order              int32 (n_splits,)   out  the nodes that are split
    leaf_of            int32 (n_nodes,)    out  leaf number of each node; that of its ancestor for a pruned one
    """
    size, n_made, n_done = 0, 0, 0
    leaf_of[:] = -1
    leaf_of[0] = 0
    if nodes[0].split.gain > -np.inf:
        heap[0], level[0], gain[0], made[0] = 0, 0, nodes[0].split.gain, 0
        size = 1
    while size > 0 and n_done < n_splits:
        node = heap[0]
        size -= 1
        last = heap[size]
        at = 0
        while True:  # the last one sinks from the top
            child = 2 * at + 1
            if child >= size:
                break
            a, b = heap[child], heap[min(child + 1, size - 1)]
            if comes_before(level[b], gain[b], made[b], level[a], gain[a], made[a]):
                child += 1
                a = b
            if not comes_before(level[a], gain[a], made[a], level[last], gain[last], made[last]):
                break
            heap[at] = a
            at = child
        heap[at] = last
        order[n_done] = node
        n_done += 1
        first = nodes[node].left
        if first < 0:
            continue
        leaf_of[first], leaf_of[first + 1] = leaf_of[node], n_done
        for new in range(first, first + 2):
            n_made += 1
            if nodes[new].split.gain == -np.inf:
                continue
            level[new] = nodes[new].depth if depthwise else 0
            gain[new], made[new] = nodes[new].split.gain, n_made
            at = size
            size += 1
            while at > 0:
                above = heap[(at - 1) // 2]
                if comes_before(level[above], gain[above], made[above], level[new], gain[new], made[new]):
                    break
                heap[at] = above
                at = (at - 1) // 2
            heap[at] = new
    for node in range(1, len(nodes)):  # parents come first; a pruned node takes its parent's leaf
        if leaf_of[node] < 0:
            leaf_of[node] = leaf_of[nodes[node].parent]
    return n_done


def replay(nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nodes that one-split-at-a-time growth splits, in its order, and the leaf of every node.

    nodes  NODE (n_nodes,)  in
    """
    n_nodes = len(nodes)
    heap, level, made = np.empty((3, n_nodes), np.int64)
    order, leaf_of = np.empty(limits.n_leaves - 1, np.int32), np.empty(n_nodes, np.int32)
    n_splits = replay_kernel(
        nodes, limits.n_leaves - 1, limits.depthwise, heap, level, np.empty(n_nodes), made, order, leaf_of
    )
    return order[:n_splits], leaf_of
