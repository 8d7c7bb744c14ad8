"""Growth one split at a time, where a split changes what other leaves may be split into.

It bounds their outputs (leaf_boxes.py), or pays for a feature that is cheaper from then on (feature_costs.py).

Rounds of many nodes (grower.py) need gains that do not depend on the other leaves. Here each split is followed by a new
search in the leaves that it touched; the next split is the best of what there is then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.contexts.leaf_boxes import as_bits
from hornbeam.trees.frontier import NEVER
from hornbeam.trees.node_search import NodeSearch


def grow_in_turn(search: NodeSearch, n_numeric: int) -> None:
    """Split the best leaf until the tree is complete; the root has been evaluated.

    n_numeric  of the features, those that are not categorical
    """
    nodes, limits, contexts = search.nodes, search.limits, search.contexts
    assert contexts is not None
    leaves = [0]
    while len(leaves) < limits.n_leaves:
        open_ = [leaf for leaf in leaves if nodes.gain[leaf] > NEVER]
        if not open_:
            break
        # ties go to the node that was made first, which has the lower number
        turns = search.turns
        node = min(open_, key=lambda leaf: (turns[leaf] if limits.depthwise else 0, -nodes.gain[leaf], leaf))
        search.divide([node])
        leaves = [*(leaf for leaf in leaves if leaf != node), nodes.left[node], nodes.left[node] + 1]
        moved = contexts.settle(node, left_set(search, n_numeric, node), leaves)
        pending = [node]
        while pending:
            pending = search.evaluate_children(pending)
        evaluate_again(search, [leaf for leaf in moved if search.splittable(leaf)])


def number_in_turn(nodes: NDArray[np.void]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nodes that were split, in the order in which they were, and the leaf of every node.

    nodes    dtypes.NODE (n_nodes,)  in  in the order in which they were made, two at each split
    returns  int32 (n_splits,), and int32 (n_nodes,)

    What replay.replay returns of other trees; here the gain of a leaf depends on when it is asked for.
    """
    order = np.ascontiguousarray(nodes["parent"][1::2])
    leaf_of = [0]
    for number, node in enumerate(order.tolist()):
        leaf_of += (leaf_of[node], number + 1)
    return order, np.array(leaf_of, np.int32)


def left_set(search: NodeSearch, n_numeric: int, node: int) -> int | None:
    """Return the bins that go left at a split of a categorical feature, as bits; None: it is one of numbers."""
    feature, number = search.nodes.split[node][2:4]
    if feature < n_numeric:
        return None
    return as_bits(search.engine.left_sets(np.array([number], np.int32))[0])


def evaluate_again(search: NodeSearch, leaves: list[int]) -> None:
    """Find the best splits of some leaves anew; histograms that are gone are summed anew too, one at a time."""
    nodes, pool = search.nodes, search.pool
    held = [leaf for leaf in leaves if leaf in pool.slot_of]
    if held:
        search.find_splits(held)
    for leaf in leaves:
        if leaf not in held:
            pool.make_room(1, nodes.priority, keep=set())
            pool.take(leaf)
            search.engine.build_histograms(nodes.segments([leaf]), pool.slots([leaf]))
            search.find_splits([leaf])
