"""The kernels that grow a tree, or expand the nodes of a round: dense or sparse data, a team of any size.

    divide a node  |  sum the smaller child, subtract it from the larger one  |  search both  |  take the best splits

A tree is grown from its root: the best node is split, then the best of what there is, until the tree is full. That is
exactly the growth that frontier.one_at_a_time replays, with nothing expanded in vain. Each thread moves some rows of
the node, sums and searches some features of its children, and keeps the table of nodes for itself, which is the same
for all; they meet (host/team.py) a few times a split, the last time before they take the best of what all have found.

Where leaves bound each other (leaf_boxes.py), a split may move the bounds of other leaves, which are then searched
again: their histograms are kept, so no row is counted.

Trees that grow by depth have a way of their own where there are no contexts: generations.py. Both ways are operations,
so that each is compiled once, whoever calls it, and only where it is called.

A round has its nodes given, and each thread expands some of them alone.

What depends on the kind of data are operations: operations.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.sides import Sides
from hornbeam.backends.cpu.growth.splits.rules import can_split
from hornbeam.backends.cpu.growth.trees.children import (
    divide_node,
    enter_children,
    search_children,
    search_node,
    take_best,
)
from hornbeam.backends.cpu.growth.trees.contexts import AROUND
from hornbeam.backends.cpu.growth.trees.generations import NO_PLAN, Plan
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import NO_OPERATION, introduced, run
from hornbeam.backends.cpu.host.team import call_helpers, meet
from hornbeam.core.dtypes import NODE, SPLIT
from hornbeam.trees.frontier import GrowthLimits

NO_AROUND, NO_MOVED = np.zeros((0, 0), AROUND), np.zeros((0, 0), np.int64)


class Work(NamedTuple):
    """What threads do with nodes: operations.py.

    calls      CALL (n_threads,)
    cuts       int64 (n_threads + 1,)         in       the features cuts[t]:cuts[t + 1] are searched by thread t
    rules      RULES (1,)                     in
    goes_left  uint8 (n_threads, most bins)   scratch  see left_bins; for `divide`
    around     AROUND (n_threads, most_nodes) in       what `contexts` has made (contexts.py)
    moved      int64 (n_threads, n_leaves)    in       nodes whose bounds `bounds` has changed (leaf_boxes.py)
    divide, sum_smaller, search, contexts, bounds, sides  operations; no contexts: nodes have none; no bounds: they are
                                                          not bounded by each other; no sides: nor are both sides of
                                                          a split differently
    """

    calls: NDArray[np.void]
    cuts: NDArray[np.int64]
    rules: NDArray[np.void]
    goes_left: NDArray[np.uint8]
    divide: NDArray[np.int64]
    sum_smaller: NDArray[np.int64]
    search: NDArray[np.int64]
    around: NDArray[np.void] = NO_AROUND
    contexts: NDArray[np.int64] = NO_OPERATION
    moved: NDArray[np.int64] = NO_MOVED
    bounds: NDArray[np.int64] = NO_OPERATION
    sides: NDArray[np.int64] = NO_OPERATION


class Table(NamedTuple):
    """The nodes of a tree or of a round, and the threads' memory for them.

    nodes         NODE (n_threads, n)           in out   a tree's: the root; a round's, once: its nodes, then their
                                                         children
    spare_slots   int64 (n_nodes of the round,) in       a free slot for each of them; empty: it is a tree
    free          int64 (n_threads, n_slots)    scratch  a tree's slots that are not in use, the last one first
    found         SPLIT (n_threads, 2 or more)  scratch  of the small and the large child, and of leaves that are
                                                         searched again
    sides         see rows.sides.Sides
    n_grown       int64 (1,)                    out      number of a tree's nodes
    plan          see generations.Plan
    """

    nodes: NDArray[np.void]
    spare_slots: NDArray[np.int64]
    free: NDArray[np.int64]
    found: NDArray[np.void]
    sides: Sides
    n_grown: NDArray[np.int64]
    plan: Plan = NO_PLAN


class Limits(NamedTuple):
    """How far a tree may grow, see GrowthLimits; or which nodes of a round a thread expands: first:last."""

    max_depth: int
    depthwise: bool
    first: int
    last: int


def tree_table(root: NDArray[np.void], limits: GrowthLimits, n_threads: int, sides: Sides) -> tuple[Table, Limits]:
    """Make the table of a tree that n_threads grow; root: NODE (1,)."""
    nodes = np.zeros((n_threads, 2 * limits.n_leaves - 1), NODE)
    nodes[:, 0] = root[0]
    free, found = np.empty((n_threads, limits.n_leaves), np.int64), np.zeros((n_threads, 2 + limits.n_leaves), SPLIT)
    table = Table(nodes, np.empty(0, np.int64), free, found, sides, np.zeros(1, np.int64))
    return table, Limits(limits.max_depth, limits.depthwise, 0, limits.n_leaves)


def round_table(batch: NDArray[np.void], n_threads: int, sides: Sides) -> Table:
    """Make the table of a round; batch: EXPANSION (n_nodes,), in."""
    n_nodes = len(batch)
    nodes = np.zeros((1, 3 * n_nodes), NODE)
    for name in ("begin", "end", "gradient", "hessian", "depth", "slot"):
        nodes[name][0, :n_nodes] = batch[name]
    for name in ("left_gradient", "left_hessian", "feature", "bin", "missing_left"):
        nodes["split"][name][0, :n_nodes] = batch[name]
    spare_slots, free = batch["spare_slot"].astype(np.int64), np.empty((1, 0), np.int64)
    return Table(nodes, spare_slots, free, np.zeros((n_threads, 4), SPLIT), sides, np.zeros(1, np.int64))


def expanded(table: Table) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """Return what engine.Engine.expand does, of a round that is done."""
    n_nodes = len(table.spare_slots)
    children = table.nodes[0, n_nodes:].reshape(n_nodes, 2)
    return children["end"][:, 0] - children["begin"][:, 0], np.ascontiguousarray(children["split"])


@inner_kernel
def best_open(nodes, n_nodes, depthwise):
    """Return the node to split next, or -1: see frontier.one_at_a_time. Nodes are numbered as they are made."""
    best, best_gain, best_depth = np.int64(-1), -np.inf, np.int64(0)
    for number in range(n_nodes):
        node = nodes[number]
        gain, depth = node.split.gain, np.int64(node.depth) if depthwise else np.int64(0)
        if (
            node.left < 0
            and gain > -np.inf
            and (best < 0 or depth < best_depth or (depth == best_depth and gain > best_gain))
        ):
            best, best_gain, best_depth = np.int64(number), gain, depth
    return best


@inner_kernel
def grow_part(t, crew, work, table, limits):
    """Do one thread's part of growing a tree from its root, which can_split, or of expanding the nodes of a round.

    t, crew  number of this thread, and its team; in a round each thread works alone
    work     see Work
    """
    found, spare_slots, rules, call = table.found, table.spare_slots, work.rules[0], work.calls[t]
    in_round = len(spare_slots) > 0
    part = np.int64(0 if in_round else t)
    nodes, free = table.nodes[part], table.free[part]
    n_free, n_nodes = len(free), np.int64(1)
    if in_round:
        n_nodes = len(spare_slots) + 2 * limits.first
    for i in range(n_free):
        free[i] = n_free - 1 - i
    call.part, call.alone, call.first, call.last = part, False, work.cuts[part], work.cuts[part + 1]
    in_turn = len(work.bounds) > 0
    for step in range(limits.first, limits.last):
        # The root is summed and searched as if it were the smaller child of a node that is divided already.
        left, right, left_small, small_wanted, large_wanted = nodes[0], nodes[0], True, True, False
        first_child, kept = np.int64(0), np.int64(-1)
        call.moving, call.number, call.wants_left, call.wants_right = False, -1, True, False
        if in_round or step > 0:
            number = np.int64(step) if in_round else best_open(nodes, n_nodes, limits.depthwise)
            if number < 0:
                break
            node, first_child = nodes[number], n_nodes
            if divide_node(t, call, work, node, table.sides, step % 2) < 0:
                return
            left, right, kept = nodes[first_child], nodes[first_child + 1], np.int64(node.slot)
            enter_children(node, number, left, right, call.n_left)
            node.left = first_child
            n_nodes += 2
            rows_left, rows_right = left.end - left.begin, right.end - right.begin
            left_small, may_grow = rows_left <= rows_right, in_round or step < limits.last - 1
            small_wanted = may_grow and can_split(rows_left, left.hessian, left.depth, limits.max_depth, rules)
            large_wanted = may_grow and can_split(rows_right, right.hessian, right.depth, limits.max_depth, rules)
            call.number, call.wants_left, call.wants_right = number, small_wanted, large_wanted
            if not left_small:
                small_wanted, large_wanted = large_wanted, small_wanted
        if len(work.contexts) > 0:
            run(work.contexts, t)
        n_moved = np.int64(0)
        if in_turn:
            run(work.bounds, t)
            n_moved = call.n_moved if step < limits.last - 1 else np.int64(0)
        spare, any_wanted = np.int64(-1), small_wanted or large_wanted
        small, large = (left, right) if left_small else (right, left)
        if any_wanted:
            if in_round:
                spare = spare_slots[step]
            else:
                n_free -= 1
                spare = free[n_free]
            small_number = first_child if left_small else first_child + 1
            large_number, wanted = 2 * first_child + 1 - small_number, (small_wanted, large_wanted)
            if not search_children(
                t, call, work, nodes, small_number, large_number, wanted, (spare, kept), found[t]
            ):  # fmt: skip
                return
        for k in range(n_moved):
            search_node(t, call, work, nodes, work.moved[t, k], np.int64(-1), found[t, 2 + k])
        # Without a search no need to meet: rows of this node may be moving still, and the next one has none of them.
        if (any_wanted or n_moved > 0) and not meet(crew):
            return
        for k in range(2):
            child, slot, is_wanted = (small, spare, small_wanted) if k == 0 else (large, kept, large_wanted)
            if is_wanted:
                take_best(found[t : t + 1] if in_round else found, k, child.split)
            has_use = is_wanted and (in_turn or child.split.gain > -np.inf)  # other bounds may leave a leaf a split
            if not has_use and slot >= 0 and not in_round:
                free[n_free] = slot
                n_free += 1
        for k in range(n_moved):
            take_best(found, 2 + k, nodes[work.moved[t, k]].split)
    if t == 0:
        table.n_grown[0] = n_nodes


@kernel
def grow_one_at_a_time(t, room, crew, work, table, limits):
    """Split one node after the other: an operation, see grow_part."""
    if introduced(t, room, (crew, work, table, limits)):
        return
    grow_part(t, crew, work, table, limits)


@kernel
def grow_kernel(t, crew, grow):
    """Let all threads of a team do their parts of growing a tree; grow: grow_one_at_a_time, or grow_by_generations."""
    call_helpers(t, crew, (grow,))
    run(grow, t)
