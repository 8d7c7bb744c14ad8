"""Which nodes to split next: growth policy, without a word about devices.

Best-first growth with L leaves splits exactly the L - 1 nodes of highest *priority*, where the priority of a node is
the smallest gain on its path from the root (its own included). So a round may expand, all at once, every frontier node
that is still among the best L - 1 of all nodes evaluated so far. A node that falls out later was wasted work: at the
end `one_at_a_time` replays the growth one split at a time over the evaluated nodes and keeps what it would have split,
in its order, ties included. How many nodes a round takes can therefore never change the tree.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SMALLEST_BATCH = 8
"""A round takes the better half of the nodes that the bound allows, but not fewer than this many: with the whole bound
5% of the rows touched are wasted on a 28-feature set, with half of it none (255 leaves, 12 against 18 rounds)."""


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """How far a tree may grow."""

    n_leaves: int
    max_depth: int  # a huge number without a limit
    depthwise: bool


def one_at_a_time(
    gain: NDArray[np.float64], left: NDArray[np.int32], depth: NDArray[np.int32], limits: GrowthLimits
) -> list[int]:
    """Replay one-split-at-a-time growth and return the nodes that it splits, in its order.

    gain   float64 (n_nodes,)  in  -inf: cannot be split
    left   int32   (n_nodes,)  in  left child, the right one is next to it; -1: not expanded (yet)
    depth  int32   (n_nodes,)  in

    Leaf-wise takes the highest gain, depth-wise the highest gain of the shallowest level; among equals the node that
    was made first. Nodes that are not expanded count as splits without splittable children.
    """
    order: list[int] = []
    gains, lefts, depths = gain.tolist(), left.tolist(), depth.tolist()
    made = 0

    def entry(node: int) -> tuple[int, float, int, int]:
        return (depths[node] if limits.depthwise else 0, -gains[node], made, node)

    heap = [entry(0)] if gains[0] > -np.inf else []
    while heap and len(order) < limits.n_leaves - 1:
        node = heapq.heappop(heap)[-1]
        order.append(node)
        child = lefts[node]
        if child >= 0:
            for made_now in (child, child + 1):
                made += 1
                if gains[made_now] > -np.inf:
                    heapq.heappush(heap, entry(made_now))
    return order


def next_batch(
    gain: NDArray[np.float64],
    priority: NDArray[np.float64],
    left: NDArray[np.int32],
    depth: NDArray[np.int32],
    limits: GrowthLimits,
) -> tuple[NDArray[np.intp], float]:
    """Choose the nodes to expand in this round.

    gain, priority  float64 (n_nodes,)  in  -inf: cannot be split
    left            int32   (n_nodes,)  in  -1: not expanded
    depth           int32   (n_nodes,)  in

    Returns the nodes, and the priority below which a frontier node can be forgotten.
    """
    if limits.depthwise:
        order = one_at_a_time(gain, left, depth, limits)
        return np.array([node for node in order if left[node] < 0], np.intp), -np.inf
    bound = -np.inf
    n_splits = limits.n_leaves - 1
    if len(priority) > n_splits:
        bound = float(np.partition(priority, len(priority) - n_splits)[len(priority) - n_splits])
    candidates = np.flatnonzero((left < 0) & (priority >= bound) & (priority > -np.inf))
    n_best = max(SMALLEST_BATCH, (len(candidates) + 1) // 2)
    if n_best < len(candidates):
        best_first = np.argsort(-priority[candidates], kind="stable")
        candidates = candidates[best_first[:n_best]]
    return candidates, bound
