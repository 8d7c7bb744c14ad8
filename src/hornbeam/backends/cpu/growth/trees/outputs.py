"""The trees of an iteration, one an output, in one go: on small data every call from Python counts.

    round the gradients of an output  |  grow a tree  |  values of its leaves  |  add them to the scores

Threads take one output after the other, and each grows its trees alone, in memory of its own; or all grow each tree
together, where there are few outputs. What they need is said once, to an operation (host/operations.py). Where a tree
is not of the common kind, because its gradients need 31 bits, its sums 64, or its root cannot be split, the output is
left to the host.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import RowStore
from hornbeam.backends.cpu.growth.rows.rounding import (
    Scale,
    Seen,
    is_coarse_,
    measure_rows,
    power_of_two,
    round_rows,
    scale_exponent_,
)
from hornbeam.backends.cpu.growth.splits.rules import can_split, set_units
from hornbeam.backends.cpu.growth.trees.leaves import Finish, TreeRows, finish_in_team, finish_tree
from hornbeam.backends.cpu.host.atomics import add
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run
from hornbeam.backends.cpu.host.team import LINE, call_helpers, meet, share_of
from hornbeam.core.dtypes import NODE
from hornbeam.core.fixed_point import (
    NARROW_GRADIENT_BITS,
    NARROW_GRADIENT_LIMIT,
    NARROW_HESSIAN_BITS,
    NARROW_HESSIAN_LIMIT,
)


class Iteration(NamedTuple):
    """What trees are grown on.

    gradient, hessian  float64 (n_outputs, n_rows)  in
    scores             float64 (n_outputs, n_rows)  in out
    rate               float64 (1,)                 in      learning rate
    first              int64 (1,)                   in      number of the first output's tree among those of Grown
    """

    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    scores: NDArray[np.float64]
    rate: NDArray[np.float64]
    first: NDArray[np.int64]


class Grown(NamedTuple):
    """Trees, of one iteration or of several.

    nodes    NODE (n_trees, most nodes)         out
    order    int32 (n_trees, most splits)       out   see finish_tree, as are the next two
    leaf_of  int32 (n_trees, most nodes)        out
    leaves   float64 (n_trees, 2, most leaves)  out
    units    float64 (n_trees, 2)               out   of gradients and hessians: see Quantization
    n_nodes  int64 (n_trees,)                   out   nodes of each tree; 0: it is left to the host
    """

    nodes: NDArray[np.void]
    order: NDArray[np.int32]
    leaf_of: NDArray[np.int32]
    leaves: NDArray[np.float64]
    units: NDArray[np.float64]
    n_nodes: NDArray[np.int64]

    @classmethod
    def make(cls, n_trees: int, n_leaves: int) -> Grown:
        """Make room for trees of n_leaves leaves."""
        n_nodes = 2 * n_leaves - 1
        return cls(
            np.zeros((n_trees, n_nodes), NODE), np.empty((n_trees, n_leaves - 1), np.int32),
            np.empty((n_trees, n_nodes), np.int32), np.empty((n_trees, 2, n_leaves)), np.empty((n_trees, 2)),
            np.zeros(n_trees, np.int64),
        )  # fmt: skip


class Memory(NamedTuple):
    """The memory of a crew.

    even, odd  uint64 (n_rows,)           scratch  records
    wide       uint64 (0,)                         there are no wide ones
    leaf       uint16 (n_rows,)           scratch  leaf of each row
    measured   float64 (n_threads, LINE)  scratch  see measure_rows
    seen       int64 (n_threads, LINE)    scratch  what is Seen by each thread
    taken      int64 (1,)                 scratch  see finish_in_team
    """

    even: NDArray[np.uint64]
    odd: NDArray[np.uint64]
    wide: NDArray[np.uint64]
    leaf: NDArray[np.uint16]
    measured: NDArray[np.float64]
    seen: NDArray[np.int64]
    taken: NDArray[np.int64]

    @classmethod
    def make(cls, store: RowStore, n_threads: int) -> Memory:
        """Make room for the rows of a store."""
        n_rows = len(store.even)
        return cls(
            store.even, store.odd, store.wide_even, np.empty(n_rows, np.uint16), np.empty((n_threads, LINE)),
            np.empty((n_threads, LINE), np.int64), np.zeros(1, np.int64),
        )  # fmt: skip


class Bounds(NamedTuple):
    """Largest sums of a tree's |gradients| and hessians; and bits of the numbers that the leaves' sums are made of."""

    gradients: int
    hessians: int
    sum_bits: int


@inner_kernel
def enter_root(root, n_rows, seen):
    """Enter a root that is not searched yet; NODE ()."""
    root.begin, root.end, root.gradient, root.hessian = 0, n_rows, seen.gradient, seen.hessian
    root.depth, root.parent, root.left, root.slot = 0, -1, -1, 0
    root.split.gain, root.split.feature, root.split.bin = -np.inf, -1, -1


@inner_kernel
def put_measures_together(measured, size):
    """Return what measure_rows does of all rows, from the rows of `size` threads; infinite where one is not finite."""
    largest_g, largest_h, smallest_h = 0.0, 0.0, np.inf
    for t in range(size):
        if not (measured[t, 0] < np.inf and measured[t, 1] < np.inf):
            return np.inf, np.inf, np.inf
        largest_g, largest_h = max(largest_g, measured[t, 0]), max(largest_h, measured[t, 1])
        smallest_h = min(smallest_h, measured[t, 2])
    return largest_g, largest_h, smallest_h


@inner_kernel
def put_seen_together(seen, size):
    """Return what is Seen of all rows, from the rows of `size` threads."""
    g, h, magnitudes, n_g, n_h, least_g, most_g, least_h, most_h = (
        seen[0, 0], seen[0, 1], seen[0, 2], seen[0, 3], seen[0, 4], seen[0, 5], seen[0, 6], seen[0, 7], seen[0, 8],
    )  # fmt: skip
    for t in range(1, size):
        own = seen[t]
        g, h, magnitudes, n_g, n_h = g + own[0], h + own[1], magnitudes + own[2], n_g + own[3], n_h + own[4]
        least_g, most_g = min(least_g, own[5]), max(most_g, own[6])
        least_h, most_h = min(least_h, own[7]), max(most_h, own[8])
    return Seen(g, h, magnitudes, n_g, n_h, least_g, most_g, least_h, most_h)


@inner_kernel
def grow_tree(t, output, crew, iteration, grown, memory, rules, table, limits, bounds, grow):
    """Do one thread's part of what grow_output says."""
    gradient, hessian, scores = iteration.gradient[output], iteration.hessian[output], iteration.scores[output]
    n_rows, size, leaf = len(gradient), crew.size, memory.leaf
    first, last = share_of(n_rows, t, crew.size)
    tree = iteration.first[0] + output
    measured, own_seen = memory.measured, memory.seen[t]
    measured[t, 0], measured[t, 1], measured[t, 2] = measure_rows(gradient, hessian, first, last)
    if t == 0:
        grown.n_nodes[tree], memory.taken[0] = 0, 0
    if not meet(crew):
        return
    largest_g, largest_h, smallest_h = put_measures_together(measured, size)
    if largest_g == np.inf:
        return
    constant = largest_h > 0.0 and smallest_h == largest_h
    g_exponent = scale_exponent_(largest_g, NARROW_GRADIENT_BITS)
    h_exponent = scale_exponent_(largest_h, NARROW_HESSIAN_BITS)
    scale = Scale(
        power_of_two(g_exponent), power_of_two(h_exponent), NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT, constant
    )  # fmt: skip
    (
        own_seen[0], own_seen[1], own_seen[2], own_seen[3], own_seen[4], own_seen[5], own_seen[6], own_seen[7],
        own_seen[8],
    ) = round_rows(gradient, hessian, scale, first, last, memory.even, memory.wide)  # fmt: skip
    if not meet(crew):
        return
    seen = put_seen_together(memory.seen, size)
    if (
        is_coarse_(seen, constant)
        or seen.magnitudes > bounds.gradients
        or seen.hessian > bounds.hessians
        or not can_split(n_rows, seen.hessian, 0, limits.max_depth, rules)
    ):
        return
    unit_g, unit_h = power_of_two(-g_exponent), largest_h if constant else power_of_two(-h_exponent)
    if t == 0:
        set_units(rules, unit_g, unit_h, seen.least_hessian, seen.most_hessian)
    enter_root(table.nodes[t, 0], n_rows, seen)
    if not meet(crew):
        return
    run(grow, t)
    if not meet(crew):
        return
    n_nodes = table.n_grown[0]
    nodes, leaves, n_splits = table.nodes[0, :n_nodes], grown.leaves[tree], n_nodes // 2
    rows = TreeRows(memory.even, memory.odd, gradient, hessian, leaf)
    how = Finish(
        power_of_two(scale_exponent_(largest_g, bounds.sum_bits)),
        power_of_two(scale_exponent_(largest_h, bounds.sum_bits)), iteration.rate[0],
    )  # fmt: skip
    order, leaf_of = grown.order[tree, :n_splits], grown.leaf_of[tree, :n_nodes]
    if size == 1:
        finish_tree(nodes, rows, how, rules, order, leaf_of, leaves)
    else:
        finish_in_team(t, nodes, rows, how, rules, order, leaf_of, leaves, memory.taken)
    if not meet(crew):
        return
    for row in range(first, last):
        scores[row] += leaves[0, leaf[row]]
    if t == 0:
        for number in range(n_nodes):
            grown.nodes[tree, number] = nodes[number]
        grown.units[tree, 0], grown.units[tree, 1], grown.n_nodes[tree] = unit_g, unit_h, n_nodes


@kernel
def grow_output(number, room, crew, iteration, grown, memory, rules, table, limits, bounds, grow):
    """Grow the tree of an output, and add it to the scores: an operation, one for each crew.

    number  of the output, times the size of the crew, and of the thread
    crew    threads that grow each tree together
    rules   RULES (1,), of the training
    table   see driver.Table
    limits  see driver.Limits
    grow    operation that grows a tree in the table by these rules and limits
    """
    if introduced(number, room, (crew, iteration, grown, memory, rules, table, limits, bounds, grow)):
        return
    grow_tree(
        number % crew.size, number // crew.size, crew, iteration, grown,
        memory, rules[0], table, limits, bounds, grow,
    )  # fmt: skip


@kernel
def grow_outputs_kernel(t, crew, rooms, taken, n_outputs):
    """Grow trees until all outputs have theirs; see team.py.

    rooms  int64 (n_threads, ROOM)  in      operation of each thread, whose crew it is alone; or one of all
    taken  int64 (1,)               in out  outputs that some thread has taken; 0 at first
    """
    call_helpers(t, crew, (rooms, taken, n_outputs))
    if len(rooms) == 1:
        for output in range(n_outputs):
            run(rooms[0], output * crew.size + t)
            if not meet(crew):
                return
        return
    while True:
        output = add(taken, 0, 1)
        if output >= n_outputs:
            return
        run(rooms[t], output)
