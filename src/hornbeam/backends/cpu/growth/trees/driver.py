"""The kernel that grows a tree, or expands the nodes of a round: dense or sparse data, a team of any size.

    divide a node  |  sum the smaller child, subtract it from the larger one  |  search both  |  take the best splits

A tree is grown from its root: the best node is split, then the best of what there is, until the tree is full. That is
exactly the growth that frontier.one_at_a_time replays, with nothing expanded in vain. Each thread moves some rows of
the node, sums and searches some features of its children, and keeps the table of nodes for itself, which is the same
for all; they meet (host/team.py) a few times a split, the last time before they take the best of what all have found.

Where leaves bound each other (leaf_boxes.py), a split may move the bounds of other leaves, which are then searched
again: their histograms are kept, so no row is counted.

A round has its nodes given, and each thread expands some of them alone.

What depends on the kind of data are operations: operations.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.sides import Sides, left_bins
from hornbeam.backends.cpu.growth.splits.rules import can_split, copy_split, enter_node, is_better
from hornbeam.backends.cpu.growth.trees.contexts import AROUND
from hornbeam.backends.cpu.host.kernels import borrowed, inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import NO_OPERATION, run
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
    divide, sum_smaller, search, contexts, bounds      operations; no contexts: nodes have none; no bounds: they are not
                                                       bounded by each other
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
    """

    nodes: NDArray[np.void]
    spare_slots: NDArray[np.int64]
    free: NDArray[np.int64]
    found: NDArray[np.void]
    sides: Sides
    n_grown: NDArray[np.int64]


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


@inlined
def enter_children(node, number, left, right, first_child, n_left):
    """Enter the children of a node, of whose rows n_left go left, without splits; NODE () each."""
    node.left = first_child
    left.parent, left.depth, left.left, left.slot, left.split.gain = number, node.depth + 1, -1, -1, -np.inf
    right.parent, right.depth, right.left, right.slot, right.split.gain = number, node.depth + 1, -1, -1, -np.inf
    left.begin, left.end = node.begin, node.begin + n_left
    right.begin, right.end = left.end, node.end
    left.gradient, left.hessian = node.split.left_gradient, node.split.left_hessian
    right.gradient, right.hessian = node.gradient - left.gradient, node.hessian - left.hessian


@inlined
def enter_around(call, around, number):
    """Enter a context, AROUND (), into a CALL that has the node; number: of its mask."""
    call.score, call.lower, call.upper, call.output = around.score, around.lower, around.upper, around.output
    call.factor, call.key, call.context = around.factor, around.key, number


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


@inner_kernel
def search_node(t, call, work, nodes, number, less, found):
    """Search a node that has a slot, among the features of thread t.

    less   see operations.CALL
    found  SPLIT ()  out
    """
    node, of_all_threads = nodes[number], call.part * len(nodes) + number
    enter_node(call, node.begin, node.end, node.depth, node.gradient, node.hessian, work.rules[0])
    if len(work.contexts) > 0:
        enter_around(call, work.around[t, number], of_all_threads)
    call.slot, call.less, call.set_number = node.slot, less, of_all_threads
    run(work.search, t)
    copy_split(call.split, found)


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
    call.part, call.first, call.last = part, work.cuts[part], work.cuts[part + 1]
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
            call.n_bins = len(left_bins(node.split, table.sides, work.goes_left[t]))
            call.begin, call.end, call.depth, call.feature = node.begin, node.end, node.depth, node.split.feature
            call.turn = step % 2
            run(work.divide, t)
            if call.n_left < 0:
                return
            left, right, kept = nodes[first_child], nodes[first_child + 1], np.int64(node.slot)
            enter_children(node, number, left, right, first_child, call.n_left)
            n_nodes += 2
            rows_left, rows_right = left.end - left.begin, right.end - right.begin
            left_small = rows_left <= rows_right
            may_grow = in_round or step < limits.last - 1
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
            call.begin, call.end, call.depth = small.begin, small.end, small.depth
            call.spare, call.kept, call.wants_larger = spare, kept, large_wanted
            run(work.sum_smaller, t)
            if call.failed:
                return
        for k in range(2):
            if small_wanted if k == 0 else large_wanted:
                child, slot, less = (small, spare, np.int64(-1)) if k == 0 else (large, kept, spare)
                child.slot = slot
                side = np.int64((k == 0) != left_small)
                search_node(t, call, work, nodes, first_child + side, less, found[t, k])
        for k in range(n_moved):
            search_node(t, call, work, nodes, work.moved[t, k], np.int64(-1), found[t, 2 + k])
        # Without a search no need to meet: rows of this node may be moving still, and the next one has none of them.
        if (any_wanted or n_moved > 0) and not meet(crew):
            return
        for k in range(2):
            child, slot, wanted = (small, spare, small_wanted) if k == 0 else (large, kept, large_wanted)
            if wanted:
                take_best(found[t : t + 1] if in_round else found, k, child.split)
            has_use = wanted and (in_turn or child.split.gain > -np.inf)  # other bounds may leave a leaf a split
            if not has_use and slot >= 0 and not in_round:
                free[n_free] = slot
                n_free += 1
        for k in range(n_moved):
            take_best(found, 2 + k, nodes[work.moved[t, k]].split)
    if t == 0:
        table.n_grown[0] = n_nodes


@kernel
def grow_kernel(t, crew, work, table, limits):
    """Let all threads of a team do their parts: see grow_part."""
    call_helpers(t, crew, (work, table, limits))
    grow_part(t, borrowed(crew), borrowed(work), borrowed(table), limits)
