"""Which nodes to split next: growth policy, without a word about devices.

Best-first growth with L leaves splits exactly the L - 1 nodes of highest *priority*, where the priority of a node is
the smallest gain on its path from the root (its own included). So a round may expand, all at once, every frontier node
that is still among the best L - 1 of all nodes evaluated so far. A node that falls out later was wasted work: at the
end `one_at_a_time` replays the growth one split at a time over the evaluated nodes and keeps what it would have split,
in its order, ties included. How many nodes a round takes can therefore never change the tree.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

SMALLEST_BATCH = 4
"""A round takes the better half of the nodes that the bound allows, but not fewer than this many. 255 leaves on 200,000
x 28: 17 rounds, 254.3 nodes expanded for 254 splits; 31 leaves on 20,000 x 20: 10 rounds, 33.2 for 30 (a larger batch
saves at most one round and wastes up to a third)."""

NEVER = float("-inf")
"""Gain and priority of a node that cannot be split."""


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """How far a tree may grow."""

    n_leaves: int
    max_depth: int  # a huge number without a limit
    depthwise: bool


def one_at_a_time(gain: Sequence[float], left: Sequence[int], depth: Sequence[int], limits: GrowthLimits) -> list[int]:
    """Replay one-split-at-a-time growth and return the nodes that it splits, in its order.

    gain   best gain of each node; NEVER: cannot be split
    left   left child of each node, the right one is next to it; -1: not expanded (yet)
    depth  depth of each node

    Leaf-wise takes the highest gain, depth-wise the highest gain of the shallowest level; among equals the node that
    was made first. Nodes that are not expanded count as splits without splittable children.
    """
    order: list[int] = []
    made = 0
    heap = [(0, -gain[0], made, 0)] if gain[0] > NEVER else []
    while heap and len(order) < limits.n_leaves - 1:
        node = heapq.heappop(heap)[-1]
        order.append(node)
        child = left[node]
        if child >= 0:
            for new in (child, child + 1):
                made += 1
                if gain[new] > NEVER:
                    heapq.heappush(heap, (depth[new] if limits.depthwise else 0, -gain[new], made, new))
    return order


def next_batch(
    gain: Sequence[float], priority: Sequence[float], left: Sequence[int], depth: Sequence[int], limits: GrowthLimits
) -> tuple[list[int], float]:
    """Choose the nodes to expand in this round.

    gain, priority, left, depth  of each node evaluated so far; see one_at_a_time

    Returns the nodes, and the priority below which a frontier node can be forgotten.
    """
    n_splits = limits.n_leaves - 1
    bound, n_eligible = NEVER, 0
    if not limits.depthwise and len(priority) > n_splits:
        bound = sorted(priority)[-n_splits]
        n_eligible = sum(value >= bound for value in priority) if bound > NEVER else 0
    if limits.depthwise or n_eligible > n_splits:
        # Equals at the bound are common: a child whose gain is above its parent's has its parent's priority.
        frontier = [node for node in one_at_a_time(gain, left, depth, limits) if left[node] < 0]
    else:
        frontier = [
            node
            for node, (value, child) in enumerate(zip(priority, left, strict=True))
            if child < 0 and value >= bound and value > NEVER
        ]
    n_best = max(SMALLEST_BATCH, (len(frontier) + 1) // 2)
    if not limits.depthwise and n_best < len(frontier):
        frontier = sorted(frontier, key=lambda node: -priority[node])[:n_best]
    return frontier, bound
