"""Growth one split at a time, where a split changes what other leaves may be split into (leaf_bounds.py).

Rounds of many nodes (grower.py) need gains that do not depend on the other leaves. Here each split is followed by a new
search in the leaves whose bounds it moved; the next split is the best of what there is then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.frontier import NEVER
from hornbeam.trees.histogram_pool import HistogramPool
from hornbeam.trees.leaf_boxes import as_bits

if TYPE_CHECKING:
    from hornbeam.trees.contexts import TreeContexts
    from hornbeam.trees.grower import NodeTable, TreeGrower


def grow_in_turn(
    grower: TreeGrower, nodes: NodeTable, pool: HistogramPool, contexts: TreeContexts
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Split the best leaf until the tree is complete; the root has been evaluated.

    Returns the nodes in the order in which they were split, int32 (n_splits,), and the leaf number of every node, int32
    (n_nodes,).
    """
    limits, boxes = grower.limits, contexts.boxes
    assert boxes is not None
    order: list[int] = []
    while len(order) < limits.n_leaves - 1:
        open_ = [leaf for leaf in boxes.leaves if nodes.gain[leaf] > NEVER]
        if not open_:
            break
        # ties go to the node that was made first, which has the lower number
        node = min(open_, key=lambda leaf: (nodes.depth[leaf] if limits.depthwise else 0, -nodes.gain[leaf], leaf))
        order.append(node)
        n_left = grower.engine.partition(nodes.segments([node]), nodes.splits([node]))
        nodes.add_children([node], n_left.tolist())
        contexts.add_children([node])
        moved = contexts.divide_box(node, left_set(grower, nodes, node))
        pending = [node]
        while pending:
            pending = grower.evaluate_children(nodes, pending, pool)
        evaluate_again(grower, nodes, [leaf for leaf in moved if grower.splittable(nodes, leaf)], pool)
    leaf_of = np.zeros(len(nodes.begin), np.int32)
    for number, node in enumerate(order):
        left = nodes.left[node]
        leaf_of[left], leaf_of[left + 1] = leaf_of[node], number + 1
    return np.array(order, np.int32), leaf_of


def left_set(grower: TreeGrower, nodes: NodeTable, node: int) -> int | None:
    """Return the bins that go left at a split of a categorical feature, as bits; None: it is one of numbers."""
    feature, number = nodes.split[node][2:4]
    if feature < grower.binned.n_numeric:
        return None
    return as_bits(grower.engine.left_sets(np.array([number], np.int32))[0])


def evaluate_again(grower: TreeGrower, nodes: NodeTable, leaves: list[int], pool: HistogramPool) -> None:
    """Find the best splits of some leaves anew; histograms that are gone are summed anew too, one at a time."""
    held = [leaf for leaf in leaves if leaf in pool.slot_of]
    if held:
        grower.find_splits(nodes, held, pool)
    for leaf in leaves:
        if leaf not in held:
            pool.make_room(1, nodes.priority, keep=set())
            pool.take(leaf)
            grower.engine.build_histograms(nodes.segments([leaf]), pool.slots([leaf]))
            grower.find_splits(nodes, [leaf], pool)
