"""The nodes of a tree that grows on several workers, as each of them keeps them: the same table on all.

A round takes some open nodes. Once their rows are divided, `plan_kernel` enters their children and says which
histograms are to be summed and which nodes to be searched; `take_kernel` enters what was found. Rows of nodes are those
of all workers; where the rows of this worker lie stands beside them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.rules import can_split, copy_split
from hornbeam.backends.cpu.growth.trees.children import enter_children
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.core.dtypes import NODE

N_NODES, N_FREE = 0, 1
"""Entries of `TreeNodes.size`."""


class TreeNodes(NamedTuple):
    """The table.

    nodes       NODE (n,)                 parents before their children
    places      int64 (n, 2)              begin and end of this worker's rows
    n_left      int64 (n,)                rows of all workers that go left at a node's best split
    sets        uint32 (n, n_words)       bins that go left, of a node whose best split is of a categorical feature
    free        int32 (n_slots,)          slots that are not in use, the next one last
    size        int64 (2,)                number of nodes, and of free slots
    """

    nodes: NDArray[np.void]
    places: NDArray[np.int64]
    n_left: NDArray[np.int64]
    sets: NDArray[np.uint32]
    free: NDArray[np.int32]
    size: NDArray[np.int64]

    @classmethod
    def of(cls, root: NDArray[np.void], n_rows: int, n_slots: int, n_leaves: int, n_words: int) -> TreeNodes:
        """Make the table of a tree.

        root    NODE (1,)  in   with its sums; it has the last slot
        n_rows  of this worker
        """
        n = 3 * n_leaves
        nodes, places = np.zeros(n, NODE), np.zeros((n, 2), np.int64)
        nodes[0] = root[0]
        nodes["slot"][0], places[0] = n_slots - 1, (0, n_rows)
        free, size = np.arange(n_slots, dtype=np.int32), np.array([1, n_slots - 1], np.int64)
        return cls(nodes, places, np.zeros(n, np.int64), np.zeros((n, n_words), np.uint32), free, size)

    def with_room(self, n_more: int) -> TreeNodes:
        """Return a table that has room for more nodes: this one, or a larger one."""
        n, n_nodes = len(self.nodes), int(self.size[N_NODES])
        if n_nodes + n_more <= n:
            return self

        def larger(of: NDArray[Any]) -> NDArray[Any]:
            more = np.zeros((2 * n + n_more, *of.shape[1:]), of.dtype)
            more[:n] = of
            return more

        nodes, places, n_left, sets = map(larger, self[:4])
        return TreeNodes(nodes, places, n_left, sets, self.free, self.size)


class Round(NamedTuple):
    """What is to be done in a round.

    batch     int64 (n,)     nodes that are expanded
    sums      int64 (n,)     nodes whose histograms are summed: smaller children
    slots     int32 (n,)     theirs
    parents   int32 (n,)     slots that they are subtracted from, which then are their siblings'; -1: from none
    searched  int64 (2 n,)   nodes whose splits are looked for
    counts    int64 (2,)     of sums, and of searched
    """

    batch: NDArray[np.int64]
    sums: NDArray[np.int64]
    slots: NDArray[np.int32]
    parents: NDArray[np.int32]
    searched: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, batch: NDArray[np.int64]) -> Round:
        """Make the plan of a round, to be filled."""
        n = len(batch)
        sums, (slots, parents) = np.empty(n, np.int64), np.empty((2, n), np.int32)
        return cls(batch, sums, slots, parents, np.empty(2 * n, np.int64), np.zeros(2, np.int64))


@kernel
def plan_kernel(table, plan, n_left_here, max_depth, rules):
    """Enter the children of the nodes of a round, and plan what is to be done with them.

    table, plan  see TreeNodes and Round        in out
    n_left_here  int64 (n,)                in   rows of this worker that went left
    rules        RULES (1,)                in
    """
    nodes, places, size, n_sums, n_searched = table.nodes, table.places, table.size, 0, 0
    for k in range(len(plan.batch)):
        number, first = plan.batch[k], size[N_NODES]
        node, left, right = nodes[number], nodes[first], nodes[first + 1]
        enter_children(node, number, left, right, table.n_left[number])
        node.left = first
        size[N_NODES] += 2
        middle = places[number, 0] + n_left_here[k]
        places[first, 0], places[first, 1] = places[number, 0], middle
        places[first + 1, 0], places[first + 1, 1] = middle, places[number, 1]
        n_left, n_right = left.end - left.begin, right.end - right.begin
        left_wanted = can_split(n_left, left.hessian, left.depth, max_depth, rules[0])
        right_wanted = can_split(n_right, right.hessian, right.depth, max_depth, rules[0])
        kept = node.slot
        if not (left_wanted or right_wanted):
            table.free[size[N_FREE]] = kept
            size[N_FREE] += 1
            continue
        size[N_FREE] -= 1
        spare, left_small = table.free[size[N_FREE]], n_left <= n_right
        small_wanted, large_wanted = (left_wanted, right_wanted) if left_small else (right_wanted, left_wanted)
        small, large = (left, right) if left_small else (right, left)
        small.slot = spare if small_wanted else -1
        large.slot = kept if large_wanted else -1
        plan.sums[n_sums] = first if left_small else first + 1
        plan.slots[n_sums], plan.parents[n_sums] = spare, kept if large_wanted else -1
        n_sums += 1
        if not large_wanted:
            table.free[size[N_FREE]] = kept
            size[N_FREE] += 1
        for side in range(2):
            if left_wanted if side == 0 else right_wanted:
                plan.searched[n_searched] = first + side
                n_searched += 1
    plan.counts[0], plan.counts[1] = n_sums, n_searched


@kernel
def take_kernel(table, plan, splits, n_left, sets, n_numeric):
    """Enter the best splits of the nodes that a round has searched.

    splits  SPLIT (n_searched,)             in
    n_left  int64 (n_searched,)             in   rows that go left
    sets    uint32 (n_searched, n_words)    in   bins that go left, for features from n_numeric on
    """
    nodes, free, size = table.nodes, table.free, table.size
    for k in range(plan.counts[0]):
        if nodes[plan.sums[k]].slot < 0:  # it was summed for its sibling alone
            free[size[N_FREE]] = plan.slots[k]
            size[N_FREE] += 1
    for k in range(plan.counts[1]):
        number = plan.searched[k]
        node = nodes[number]
        copy_split(splits[k], node.split)
        gain, table.n_left[number] = node.split.gain, n_left[k]
        node.priority = gain
        if node.parent >= 0:
            node.priority = min(gain, nodes[node.parent].priority)
        if node.split.feature >= n_numeric:
            node.split.bin = number
            for word in range(sets.shape[1]):
                table.sets[number, word] = sets[k, word]
        if gain == -np.inf:
            free[size[N_FREE]] = node.slot
            node.slot = -1
            size[N_FREE] += 1


@kernel
def release_kernel(table, order):
    """Free the slots of open nodes that are not among those that the tree can still split.

    order  int32 (n_splits,)  in   those that it would split, as far as is known
    """
    nodes, size = table.nodes, table.size
    for k in range(len(order)):
        nodes[order[k]].lower = 1
    for number in range(size[N_NODES]):
        node = nodes[number]
        if node.left < 0 and node.slot >= 0 and node.lower != 1:
            table.free[size[N_FREE]] = node.slot
            node.slot = -1
            size[N_FREE] += 1
        node.lower = 0


@kernel
def count_left_kernel(splits, slots, sets, rows, offsets, n_numeric, n_left):
    """Count the rows that go left at splits in a section of the features.

    splits   SPLIT (n,)                 in   features numbered in the section
    sets     uint32 (n, n_words)        in   bins that go left, for features from n_numeric on
    rows     int64 (n_slots, n_bins)    in
    offsets  int64 (n_features + 1,)    in   first bin of each feature
    n_left   int64 (n,)                 out
    """
    for k in range(len(splits)):
        split, total = splits[k], np.int64(0)
        if split.feature >= 0:
            own = rows[slots[k], offsets[split.feature] : offsets[split.feature + 1]]
            if split.feature >= n_numeric:
                for bin_ in range(len(own) - 1):
                    if (sets[k, bin_ >> 5] >> np.uint32(bin_ & 31)) & np.uint32(1) != 0:
                        total += own[bin_]
            else:
                for bin_ in range(np.int64(split.bin) + 1):
                    total += own[bin_]
                if split.missing_left:
                    total += own[len(own) - 1]
        n_left[k] = total
