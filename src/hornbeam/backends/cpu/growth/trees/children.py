"""The children of a node: how they are entered into a table of nodes, summed and searched."""

from __future__ import annotations

import numpy as np

from hornbeam.backends.cpu.growth.rows.sides import left_bins
from hornbeam.backends.cpu.growth.splits.rules import copy_split, enter_node, is_better
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel
from hornbeam.backends.cpu.host.operations import run


@inlined
def enter_children(node, number, left, right, n_left):
    """Enter the children of a node, of whose rows n_left go left, without splits; NODE () each."""
    left.parent, left.depth, left.left, left.slot, left.split.gain = number, node.depth + 1, -1, -1, -np.inf
    right.parent, right.depth, right.left, right.slot, right.split.gain = number, node.depth + 1, -1, -1, -np.inf
    left.begin, left.end = node.begin, node.begin + n_left
    right.begin, right.end = left.end, node.end
    left.gradient, left.hessian = node.split.left_gradient, node.split.left_hessian
    right.gradient, right.hessian = node.gradient - left.gradient, node.hessian - left.hessian


@inner_kernel
def divide_node(t, call, work, node, sides, turn):
    """Divide a node by its split; returns how many rows went left, -1 if a thread has failed. turn: see CALL."""
    call.n_bins = left_bins(node.split, sides, work.goes_left[t])
    call.begin, call.end, call.depth, call.feature = node.begin, node.end, node.depth, node.split.feature
    call.turn = turn
    run(work.divide, t)
    return call.n_left


@inlined
def enter_around(call, around, number):
    """Enter a context, AROUND (), into a CALL that has the node; number: of its mask."""
    call.score, call.lower, call.upper, call.output = around.score, around.lower, around.upper, around.output
    call.factor, call.key, call.context = around.factor, around.key, number


@inner_kernel
def search_node(t, call, work, nodes, number, less, found):
    """Search a node that has a slot, among the features of thread t, or among all where it works alone.

    less   see operations.CALL
    found  SPLIT ()  out
    """
    node, of_all_threads = nodes[number], call.part * len(nodes) + number
    enter_node(call, node.begin, node.end, node.depth, node.gradient, node.hessian, work.rules[0])
    if len(work.contexts) > 0:
        enter_around(call, work.around[t, number], of_all_threads)
    if len(work.sides) > 0:
        call.number = number
        run(work.sides, t)
    call.slot, call.less, call.set_number = node.slot, less, of_all_threads
    run(work.search, t)
    copy_split(call.split, found)


@inner_kernel
def search_children(t, call, work, nodes, small, large, wanted, slots, found):
    """Sum the smaller child of a node, and search both: this thread's part. Returns False if a thread has failed.

    small, large  numbers of the children
    wanted        of either: whether it is searched; one of them is
    slots         of either: an empty one, and that of their parent, -1: there is none
    found         SPLIT (2,)  out  of either
    """
    child = nodes[small]
    call.begin, call.end, call.depth = child.begin, child.end, child.depth
    call.spare, call.kept, call.wants_larger = slots[0], slots[1], wanted[1]
    run(work.sum_smaller, t)
    if call.failed:
        return False
    if wanted[0]:
        nodes[small].slot = slots[0]
        search_node(t, call, work, nodes, small, np.int64(-1), found[0])
    if wanted[1]:
        nodes[large].slot = slots[1]
        search_node(t, call, work, nodes, large, slots[0], found[1])
    return True


@inner_kernel
def take_best(found, k, split):
    """Take the best of the splits that the threads have found, of equal ones that of the first feature.

    found  SPLIT (n_threads, n)  in   those of one node are at [:, k]
    split  SPLIT ()              out
    """
    best = 0
    for t in range(1, len(found)):
        if is_better(found[t, k], found[best, k]):
            best = t
    copy_split(found[best, k], split)
