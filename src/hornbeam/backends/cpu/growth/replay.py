"""The last step of a tree, compiled: which of the evaluated nodes are split, and which leaf each belongs to.

Twin of frontier.one_at_a_time on a node table. A GPU waits while this runs, and on small data it is a good part of a
tree's time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.trees.frontier import GrowthLimits


@inner_kernel
def comes_before(a, b, level, gain, made):
    """Say whether node a is split before node b: lower level, then higher gain, then made earlier."""
    if level[a] != level[b]:
        return level[a] < level[b]
    if gain[a] != gain[b]:
        return gain[a] > gain[b]
    return made[a] < made[b]


@kernel
def replay_kernel(gain, left, parent, level, heap, made, order, leaf_of):
    """Replay the growth with a binary heap of nodes; returns the number of splits.

    gain, left, parent  (n_nodes,)          in   see dtypes.NODE
    level               int64 (n_nodes,)    in   nodes of a lower one are split first
    heap, made          int64 (n_nodes,)    scratch
    order               int32 (n_splits,)   out  the nodes that are split
    leaf_of             int32 (n_nodes,)    out  leaf number of each node; that of its ancestor for a pruned one
    """
    size, n_made, n_done = 0, 0, 0
    leaf_of[:] = -1
    leaf_of[0] = 0
    if gain[0] > -np.inf:
        heap[0], made[0], size = 0, 0, 1
    while size > 0 and n_done < len(order):
        node = heap[0]
        size -= 1
        last = heap[size]
        at = 0
        while True:  # the last one sinks from the top
            child = 2 * at + 1
            if child >= size:
                break
            if child + 1 < size and comes_before(heap[child + 1], heap[child], level, gain, made):
                child += 1
            if not comes_before(heap[child], last, level, gain, made):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        order[n_done] = node
        n_done += 1
        first = left[node]
        if first < 0:
            continue
        leaf_of[first], leaf_of[first + 1] = leaf_of[node], n_done
        for new in range(first, first + 2):
            n_made += 1
            made[new] = n_made
            if gain[new] == -np.inf:
                continue
            at = size
            size += 1
            while at > 0 and comes_before(new, heap[(at - 1) // 2], level, gain, made):
                heap[at] = heap[(at - 1) // 2]
                at = (at - 1) // 2
            heap[at] = new
    for node in range(1, len(leaf_of)):  # parents come first; a pruned node takes its parent's leaf
        if leaf_of[node] < 0:
            leaf_of[node] = leaf_of[parent[node]]
    return n_done


def replay(nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nodes that one-split-at-a-time growth splits, in its order, and the leaf of every node.

    nodes  NODE (n_nodes,)  in
    """
    n_nodes = len(nodes)
    level = nodes["depth"].astype(np.int64) if limits.depthwise else np.zeros(n_nodes, np.int64)
    gain, left, parent = (np.ascontiguousarray(of) for of in (nodes["split"]["gain"], nodes["left"], nodes["parent"]))
    heap, made = np.empty((2, n_nodes), np.int64)
    order, leaf_of = np.empty(limits.n_leaves - 1, np.int32), np.empty(n_nodes, np.int32)
    n_splits = replay_kernel(gain, left, parent, level, heap, made, order, leaf_of)
    return order[:n_splits], leaf_of
