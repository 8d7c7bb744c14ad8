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

import numpy as np

from hornbeam.params.params import Params

SMALLEST_BATCH = 4
"""A round takes the better half of the nodes that the bound allows, but not fewer than this many. 255 leaves on 200,000
x 28: 17 rounds, 254.3 nodes expanded for 254 splits; 31 leaves on 20,000 x 20: 10 rounds, 33.2 for 30 (a larger batch
saves at most one round and wastes up to a third)."""

SPARING_PART = 32
"""A sparing round takes one node, and one more for so many that the bound allows."""

NO_LIMIT = 1 << 30
"""Depth of trees without a limit."""

NEVER = float("-inf")
"""Gain and priority of a node that cannot be split."""


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """How far a tree may grow."""

    n_leaves: int
    max_depth: int  # NO_LIMIT without a limit
    depthwise: bool

    @classmethod
    def of(cls, params: Params, n_rows: int) -> GrowthLimits:
        """Return the limits that the parameters set to trees on so many rows."""
        depth = min(params.max_depth, NO_LIMIT) if params.max_depth > 0 else NO_LIMIT
        return cls(most_leaves(params, n_rows), depth, params.grow_policy == "depthwise")


def most_leaves(params: Params, n_rows: int) -> int:
    """Return how many leaves a tree on so many rows may have: each has min_data_in_leaf rows, or one, at least."""
    return min(params.num_leaves, max(2, n_rows // max(1, params.min_data_in_leaf)))


def one_at_a_time(gain: Sequence[float], left: Sequence[int], depth: Sequence[int], limits: GrowthLimits) -> list[int]:
    """Replay one-split-at-a-time growth and return the nodes that it splits, in its order.

    gain   best gain of each node; NEVER: cannot be split
    left   left child of each node, the right one is next to it; -1: not expanded (yet)
    depth  depth of each node

    Leaf-wise takes the highest gain, depth-wise the highest gain of the shallowest level; among equals the node that
    was made first. Nodes that are not expanded count as splits without splittable children.
    """
    order: list[int] = []
    made, n_splits, depthwise = 0, limits.n_leaves - 1, limits.depthwise
    push, pop = heapq.heappush, heapq.heappop
    heap = [(0, -gain[0], made, 0)] if gain[0] > NEVER else []
    while heap and len(order) < n_splits:
        node = pop(heap)[3]
        order.append(node)
        child = left[node]
        if child >= 0:
            for new in (child, child + 1):
                made += 1
                if gain[new] > NEVER:
                    push(heap, (depth[new] if depthwise else 0, -gain[new], made, new))
    return order


def next_batch(
    gain: Sequence[float],
    priority: Sequence[float],
    left: Sequence[int],
    depth: Sequence[int],
    limits: GrowthLimits,
    whole: bool = False,
    sparing: bool = False,
) -> tuple[list[int], float]:
    """Choose the nodes to expand in this round.

    gain, priority, left, depth  of each node evaluated so far; see one_at_a_time
    whole                        take all that the bound allows: where a round costs more than some wasted work
    sparing                      take few: where nodes cost much, and trees are lopsided

    Returns the nodes, and the priority below which a frontier node can be forgotten.
    """
    if limits.depthwise:
        return [node for node in one_at_a_time(gain, left, depth, limits) if left[node] < 0], NEVER
    n_splits = limits.n_leaves - 1
    values = np.array(priority)
    bound = NEVER
    if len(values) > n_splits:
        bound = float(np.partition(values, len(values) - n_splits)[len(values) - n_splits])
    eligible = (values >= bound) & (values > NEVER)
    if np.count_nonzero(eligible) > n_splits:
        # Equals at the bound are common: a child whose gain is above its parent's has its parent's priority.
        frontier = [node for node in one_at_a_time(gain, left, depth, limits) if left[node] < 0]
    else:
        frontier = np.flatnonzero(eligible & (np.array(left) < 0)).tolist()
    n_best = len(frontier) // SPARING_PART + 1 if sparing else max(SMALLEST_BATCH, (len(frontier) + 1) // 2)
    if not whole and n_best < len(frontier):
        best_first = np.argsort(-values[frontier], kind="stable")
        frontier = [frontier[place] for place in best_first[:n_best]]
    return frontier, bound
