"""Trees that grow by depth: all nodes of one depth, a *generation*, are split before any of the next.

So the nodes of a generation can be taken in any order: their children get their numbers in advance, in the order of
the gains, as if nodes were split one at a time (frontier.one_at_a_time). Nodes that are a large part of the work are
divided, summed and searched by all threads together, one after the other; then each thread takes one of the others at a
time, the largest first, and has it to itself. Besides the meetings of large nodes there is one at the end of a
generation.

All threads read one table of nodes. The children of a large node are entered into it by thread 0; the others have
theirs in tables of their own. What threads find for nodes of their own has places of its own, too: thread 0 may still
be reading what all have found for the last large node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.rules import can_split
from hornbeam.backends.cpu.growth.trees.children import (
    divide_node,
    enter_children,
    search_children,
    take_best,
)
from hornbeam.backends.cpu.host.atomics import add, swap
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced
from hornbeam.backends.cpu.host.team import LINE, meet


class Plan(NamedTuple):
    """What is done with the nodes of a generation: scratch of the threads, each of which makes the same plan.

    keys       float64 (n_threads, n_leaves)   what nodes are ordered by
    open       int64 (n_threads, n_leaves)     nodes that have a split
    by_gain    int64 (n_threads, n_leaves)     the same, the best first
    by_size    int64 (n_threads, n_leaves)     places in `by_gain` of those that are split, the largest first
    taken      int64 (2, LINE)                 nodes that threads have taken; generations use the lines in turn
    node_rows  rows whose work is that of a node's bins
    large      see Tuning.large_share

    Without threads: the tree is not grown so.
    """

    keys: NDArray[np.float64]
    open: NDArray[np.int64]
    by_gain: NDArray[np.int64]
    by_size: NDArray[np.int64]
    taken: NDArray[np.int64]
    node_rows: float
    large: float

    @classmethod
    def make(cls, n_threads: int, n_leaves: int, node_rows: float, large: float) -> Plan:
        """Make room for the plans of a tree."""
        open_, by_gain, by_size = np.empty((3, n_threads, n_leaves), np.int64)
        taken = np.zeros((2, LINE), np.int64)
        return cls(np.empty((n_threads, n_leaves)), open_, by_gain, by_size, taken, node_rows, large)


NO_PLAN = Plan.make(0, 0, 0.0, 0.0)


@inner_kernel
def order_keys(keys, n, order):
    """Order the places 0:n by their keys, the largest first, of equals the one that comes first.

    keys   float64 (n or more,)  in
    order  int64 (n or more,)    out
    """
    for i in range(n):
        key, before = keys[i], np.int64(0)
        for j in range(i):
            before += keys[j] >= key
        for j in range(i + 1, n):
            before += keys[j] > key
        order[before] = i


@inner_kernel
def find_free(nodes, open_, n_open, free):
    """Enter the slots that none of the open nodes has; free: int64 (n_slots,), out."""
    for slot in range(len(free)):
        free[slot] = 1
    for i in range(n_open):
        free[nodes[open_[i]].slot] = 0
    n_free = 0
    for slot in range(len(free)):
        is_free = free[slot]
        free[n_free] = slot
        n_free += is_free


@inner_kernel
def count_large(t, n_split, n_threads, plan):
    """Return how many of the nodes that are split, the largest ones, threads should share."""
    sizes, by_size, node_rows = plan.keys[t], plan.by_size[t], plan.node_rows
    rest = node_rows * n_split
    for i in range(n_split):
        rest += sizes[i]
    for i in range(n_split):
        work = sizes[by_size[i]] + node_rows
        if work * n_threads <= plan.large * rest:
            return i
        rest -= work
    return n_split


@inner_kernel
def plan_generation(t, nodes, first, last, most, free, plan):
    """Plan what is done with the nodes first:last; returns how many are split: no more than `most`."""
    keys, open_, by_gain, by_size = plan.keys[t], plan.open[t], plan.by_gain[t], plan.by_size[t]
    n_open = 0
    for number in range(first, last):
        gain = nodes[number].split.gain
        if gain > -np.inf:
            open_[n_open], keys[n_open] = number, gain
            n_open += 1
    order_keys(keys, n_open, by_size)
    find_free(nodes, open_, n_open, free)
    n_split = min(n_open, most)
    for i in range(n_split):
        by_gain[i] = open_[by_size[i]]
        node = nodes[by_gain[i]]
        keys[i] = node.end - node.begin
    order_keys(keys, n_split, by_size)
    return n_split


@inner_kernel
def expand_node(t, crew, work, table, limits, number, first_child, spare, may_grow, turn):
    """Do one thread's part of expanding a node, or all of it where the thread is alone; returns False if one failed.

    spare     an empty slot
    may_grow  the tree is not full with this generation
    turn      see operations.CALL, which says, too, whether the thread is alone
    """
    call, rules, found = work.calls[t], work.rules[0], table.found
    enters, place = call.alone or t == 0, 2 if call.alone else 0
    node, nodes = table.nodes[0, number], table.nodes[0 if enters else t]
    n_left = divide_node(t, call, work, node, table.sides, turn)
    if n_left < 0:
        return False
    left, right = nodes[first_child], nodes[first_child + 1]
    enter_children(node, number, left, right, n_left)
    if enters:
        node.left = first_child
    rows_left, rows_right = left.end - left.begin, right.end - right.begin
    wants_left = may_grow and can_split(rows_left, left.hessian, left.depth, limits.max_depth, rules)
    wants_right = may_grow and can_split(rows_right, right.hessian, right.depth, limits.max_depth, rules)
    if not (wants_left or wants_right):
        return True
    small, large, wanted = first_child, first_child + 1, (wants_left, wants_right)
    if rows_left > rows_right:
        small, large, wanted = large, small, (wants_right, wants_left)
    if not search_children(t, call, work, nodes, small, large, wanted, (spare, np.int64(node.slot)), found[t, place:]):
        return False
    if not call.alone and not meet(crew):
        return False
    if enters:
        for k in range(2):
            if wanted[k]:
                take_best(found[t : t + 1] if call.alone else found, place + k, nodes[large if k else small].split)
    return True


@inner_kernel
def grow_generations(t, crew, work, table, limits):
    """Do one thread's part of growing a tree by depth from its root, which can_split: see driver.grow_part."""
    nodes, free, call, plan, found = table.nodes[0], table.free[t], work.calls[t], table.plan, table.found
    by_gain, by_size, cuts, n_threads = plan.by_gain[t], plan.by_size[t], work.cuts, crew.size
    call.part, call.alone, call.first, call.last = t, False, cuts[t], cuts[t + 1]
    root, no_slot, of_all = np.int64(0), np.int64(-1), (True, False)
    if not search_children(t, call, work, table.nodes[t], root, root, of_all, (root, no_slot), found[t]):
        return
    if not meet(crew):
        return
    if t == 0:
        take_best(found, 0, nodes[0].split)
        swap(plan.taken[0], 0, 0)
    first, n_nodes, generation, turn = np.int64(0), np.int64(1), 0, 0
    while meet(crew):
        n_leaves = (n_nodes + 1) // 2
        n_split = plan_generation(t, nodes, first, n_nodes, limits.last - n_leaves, free, plan)
        if n_split == 0:
            break
        n_large = count_large(t, n_split, n_threads, plan)
        taken, may_grow = plan.taken[generation % 2], n_leaves + n_split < limits.last
        if t == 0:
            swap(plan.taken[(generation + 1) % 2], 0, 0)
        i = np.int64(0)
        while True:
            call.alone = i >= n_large
            if call.alone:
                i = n_large + add(taken, 0, 1)
                call.first, call.last = 0, cuts[n_threads]
            else:
                call.first, call.last = cuts[t], cuts[t + 1]
                turn = 1 - turn
            if i >= n_split:
                break
            k = by_size[i]
            if not expand_node(
                t, crew, work, table, limits, by_gain[k], n_nodes + 2 * k, free[k], may_grow, turn
            ):  # fmt: skip
                return
            i += 1
        first, n_nodes, generation = n_nodes, n_nodes + 2 * n_split, generation + 1
    call.alone = False
    if t == 0:
        table.n_grown[0] = n_nodes


@kernel
def grow_by_generations(t, room, crew, work, table, limits):
    """Split all nodes of a depth before any of the next: an operation, see grow_generations."""
    if introduced(t, room, (crew, work, table, limits)):
        return
    grow_generations(t, crew, work, table, limits)
