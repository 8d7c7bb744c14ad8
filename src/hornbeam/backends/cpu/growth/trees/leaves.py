"""The leaves of a tree that was grown whole, in one go: on small data every call from Python counts.

What trees/replay.py, assign_leaves and leaf_sums of the engine and splitting.leaf_output do, and the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.splits.rules import newton_step
from hornbeam.backends.cpu.host.atomics import add
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.trees.records import GrownAhead


class TreeRows(NamedTuple):
    """The rows of a tree.

    even, odd          uint64 (n_rows,)   records at even and at odd depths
    gradient, hessian  float64 (n_rows,)
    leaf               uint16 (n_rows,)   leaf of each row, out
    """

    even: NDArray[np.uint64]
    odd: NDArray[np.uint64]
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    leaf: NDArray[np.uint16]


class Finish(NamedTuple):
    """How the values of leaves are computed.

    g_scale, h_scale  factors of the sums' fixed point, powers of two
    rate              learning rate
    """

    g_scale: float
    h_scale: float
    rate: float


@inner_kernel
def number_leaves(nodes, order, leaf_of):
    """Give the leaves numbers.

    nodes    NODE (n_nodes,)    in   split one at a time: nodes 2 k + 1 and 2 k + 2 come from the k-th split
    order    int32 (n_splits,)  out  the nodes that are split
    leaf_of  int32 (n_nodes,)   out
    """
    leaf_of[0] = 0
    for split in range(len(order)):
        parent = nodes[2 * split + 1].parent
        order[split] = parent
        leaf_of[2 * split + 1], leaf_of[2 * split + 2] = leaf_of[parent], split + 1


@inner_kernel
def leaf_number(nodes, number):
    """Return what number_leaves says of one node: a left child has the leaf of its parent."""
    while number % 2 == 1:
        number = np.int64(nodes[number].parent)
    return number // 2


@inner_kernel
def tell_leaf(node, rows, leaf):
    """Write the leaf of the rows of a node; rows: TreeRows."""
    records, out = rows.even if node.depth % 2 == 0 else rows.odd, rows.leaf
    for place in range(np.uint64(node.begin), np.uint64(node.end)):
        out[records[place] & ROW_MASK] = leaf


@inner_kernel
def finish_leaf(node, rows, how, rules, leaf, leaves, tells):
    """Compute the value of a leaf, NODE (), and tell its rows if it `tells`; other arguments as in finish_tree."""
    records, gradient, hessian = rows.even if node.depth % 2 == 0 else rows.odd, rows.gradient, rows.hessian
    g, h, out = np.int64(0), np.int64(0), rows.leaf
    for place in range(np.uint64(node.begin), np.uint64(node.end)):
        row = records[place] & ROW_MASK
        if tells:
            out[row] = leaf
        g += np.int64(np.rint(gradient[row] * how.g_scale))
        h += np.int64(np.rint(hessian[row] * how.h_scale))
    weight = h / how.h_scale
    step = newton_step(g / how.g_scale, max(weight, rules.min_hessian), rules, 0.0)
    leaves[0, leaf], leaves[1, leaf] = (step + 0.0) * how.rate, weight


@inner_kernel
def finish_tree(nodes, rows, how, rules, order, leaf_of, leaves):
    """Give the leaves numbers, tell the rows, and compute the leaves' values.

    nodes, order, leaf_of  see number_leaves
    how                    see Finish
    rules                  RULES ()              in
    leaves                 float64 (2, n_leaves) out  values, and sums of hessians
    """
    number_leaves(nodes, order, leaf_of)
    for number in range(len(nodes)):
        node, leaf = nodes[number], leaf_of[number]
        if node.left < 0:
            finish_leaf(node, rows, how, rules, leaf, leaves, True)


@inner_kernel
def finish_in_team(t, nodes, rows, how, rules, order, leaf_of, leaves, taken):
    """Do one thread's part of finish_tree; a leaf is the work of who takes it.

    Thread 0 tells the rows their leaves: several threads would take each other's cache lines.

    taken  int64 (1 or more,)  in out   nodes that threads have taken; 0 at first
    """
    if t == 0:
        number_leaves(nodes, order, leaf_of)
        for number in range(len(nodes)):
            if nodes[number].left < 0:
                tell_leaf(nodes[number], rows, leaf_of[number])
    while True:
        number = add(taken, 0, 1)
        if number >= len(nodes):
            return
        if nodes[number].left < 0:
            finish_leaf(nodes[number], rows, how, rules, leaf_number(nodes, number), leaves, False)


@kernel
def finish_kernel(nodes, rows, g_scale, h_scale, numbers, learning_rate, order, leaf_of, leaves):
    """Do what finish_tree does; numbers: RULES (1,)."""
    finish_tree(nodes, rows, Finish(g_scale, h_scale, learning_rate), numbers[0], order, leaf_of, leaves)


def finish(
    ahead: GrownAhead,
    rows: TreeRows,
    largest: tuple[float, float],
    numbers: NDArray[np.void],
    learning_rate: float,
) -> GrownAhead:
    """Finish a tree whose rows are all rows.

    largest  of the gradients and of the hessians
    numbers  RULES (1,)
    """
    n_leaves = (len(ahead.nodes) + 1) // 2
    order, leaf_of = np.empty(n_leaves - 1, np.int32), np.empty(len(ahead.nodes), np.int32)
    leaves = np.empty((2, n_leaves))
    scales = (2.0 ** exact_exponent(value, len(rows.leaf)) for value in largest)
    finish_kernel(ahead.nodes, rows, *scales, numbers, learning_rate, order, leaf_of, leaves)
    return GrownAhead(ahead.nodes, lambda: (leaves[0], leaves[1]), n_leaves - 1, ahead.contexts, (order, leaf_of))
