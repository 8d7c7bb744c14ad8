"""The trees of an iteration, one an output, in one go: on small data every call from Python counts.

    round the gradients of an output  |  grow a tree  |  values of its leaves  |  add them to the scores

Threads take one output after the other, and each grows its trees alone, in memory of its own: what it needs is said
once, to an operation (host/operations.py). Where a tree is not of the common kind, because its gradients need 31 bits,
its sums 64, or its root cannot be split, the output is left to the host.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.rounding import (
    Scale,
    is_coarse_,
    measure_rows,
    power_of_two,
    round_rows,
    scale_exponent_,
)
from hornbeam.backends.cpu.growth.splits.rules import can_split, set_units
from hornbeam.backends.cpu.growth.trees.driver import Table, grow
from hornbeam.backends.cpu.growth.trees.leaves import TreeRows, finish_tree
from hornbeam.backends.cpu.host.atomics import add
from hornbeam.backends.cpu.host.kernels import borrowed, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced, run
from hornbeam.backends.cpu.host.team import call_helpers
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
    """The memory of one thread.

    even, odd  uint64 (n_rows,)  scratch  records
    wide       uint64 (0,)                there are no wide ones
    leaf       uint16 (n_rows,)  scratch  leaf of each row
    """

    even: NDArray[np.uint64]
    odd: NDArray[np.uint64]
    wide: NDArray[np.uint64]
    leaf: NDArray[np.uint16]


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
def grow_tree(output, crew, iteration, grown, memory, work, table, limits, bounds):
    """Do what grow_output says."""
    gradient, hessian, scores = iteration.gradient[output], iteration.hessian[output], iteration.scores[output]
    n_rows, rules, rate = len(gradient), work.rules[0], iteration.rate[0]
    tree = iteration.first[0] + output
    grown.n_nodes[tree] = 0
    largest_g, largest_h, smallest_h = measure_rows(gradient, hessian, 0, n_rows)
    if not (largest_g < np.inf and largest_h < np.inf):
        return
    constant = largest_h > 0.0 and smallest_h == largest_h
    g_exponent = scale_exponent_(largest_g, NARROW_GRADIENT_BITS)
    h_exponent = scale_exponent_(largest_h, NARROW_HESSIAN_BITS)
    scale = Scale(
        power_of_two(g_exponent), power_of_two(h_exponent), NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT, constant
    )  # fmt: skip
    seen = round_rows(gradient, hessian, scale, 0, n_rows, memory.even, memory.wide)
    if (
        is_coarse_(seen, constant)
        or seen.magnitudes > bounds.gradients
        or seen.hessian > bounds.hessians
        or not can_split(n_rows, seen.hessian, 0, limits.max_depth, rules)
    ):
        return
    unit_g, unit_h = power_of_two(-g_exponent), largest_h if constant else power_of_two(-h_exponent)
    set_units(rules, unit_g, unit_h, seen.least_hessian, seen.most_hessian)
    own = grown.nodes[tree : tree + 1]
    enter_root(own[0, 0], n_rows, seen)
    of_tree = Table(own, table.spare_slots, table.free, table.found, table.sides, table.n_grown, table.plan)
    grow(0, crew, work, of_tree, limits)
    n_nodes = table.n_grown[0]
    n_splits, leaves = n_nodes // 2, grown.leaves[tree]
    finish_tree(
        own[0, :n_nodes], TreeRows(memory.even, memory.odd, gradient, hessian, memory.leaf),
        power_of_two(scale_exponent_(largest_g, bounds.sum_bits)),
        power_of_two(scale_exponent_(largest_h, bounds.sum_bits)), rules, rate, grown.order[tree, :n_splits],
        grown.leaf_of[tree, :n_nodes], leaves,
    )  # fmt: skip
    leaf = memory.leaf
    for row in range(n_rows):
        scores[row] += leaves[0, leaf[row]]
    grown.units[tree, 0], grown.units[tree, 1] = unit_g, unit_h
    grown.n_nodes[tree] = n_nodes


@kernel
def grow_output(output, room, crew, iteration, grown, memory, work, table, limits, bounds):
    """Grow the tree of an output, and add it to the scores: an operation, one for each thread.

    crew    of one thread
    work    see driver.Work, whose rules are those of the training
    table   see driver.Table; its nodes are not used
    limits  see driver.Limits
    """
    if introduced(output, room, (crew, iteration, grown, memory, work, table, limits, bounds)):
        return
    grow_tree(
        output, borrowed(crew), borrowed(iteration), borrowed(grown), borrowed(memory), borrowed(work),
        borrowed(table), limits, bounds,
    )  # fmt: skip


@kernel
def grow_outputs_kernel(t, crew, rooms, taken, n_outputs):
    """Grow trees until all outputs have theirs; see team.py.

    rooms  int64 (n_threads, ROOM)  in      operation of each thread
    taken  int64 (1,)               in out  outputs that some thread has taken; 0 at first
    """
    call_helpers(t, crew, (rooms, taken, n_outputs))
    while True:
        output = add(taken, 0, 1)
        if output >= n_outputs:
            return
        run(rooms[t], output)
