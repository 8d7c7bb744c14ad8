"""What growth asks of the rows and histograms of a tree: operations (host/operations.py), one kernel a kind of data.

    divide   moves the rows of a node to its children's places      dense.partition, sparse.partition
    sum      sums the smaller child, subtracts it from the larger   dense.tree, dense.histograms, sparse.tree
    search   finds the best split of a node among some features     dense.tree, splits.pairs, splits.contexts,
                                                                    sparse.tree
    levels   the same among categorical features, after `search`    splits.levels
    count    counts the rows of a node in the bins of a feature     dense.partition, sparse.counting
    contexts makes the contexts of the children of a node           trees.contexts
    bounds   bounds leaves by others, after `contexts`              trees.leaf_boxes
    sides    bounds both sides of a leaf's splits, before `search`  trees.leaf_boxes

An operation takes what it is asked from the CALL of its thread and leaves its answer there; what it works on it was
introduced with. So the kernels that ask (trees/driver.py, splits/search.py) are the same for all kinds of data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel
from hornbeam.backends.cpu.host.operations import run
from hornbeam.core.dtypes import SPLIT

_FIELDS = [
    ("part", np.int64),  # number of the thread in its team, 0 if it works without one
    ("alone", np.bool_),  # divide, sum and search: the thread has the node to itself, and all features of it
    # the node: see Node
    ("begin", np.int64),
    ("end", np.int64),
    ("depth", np.int64),
    ("gradient", np.int64),
    ("hessian", np.int64),
    ("score", np.float64),
    ("lower", np.float64),
    ("upper", np.float64),
    ("output", np.float64),
    ("key", np.uint64),
    ("factor", np.float64),  # on the gains of its monotone features
    ("context", np.int64),  # its number among contexts; 0: it has none
    ("side_bounds", np.int64),  # where the bounds of both sides of its splits are, see Marks.sides
    # contexts
    ("number", np.int64),  # of the node whose children need theirs; -1: the root needs its own
    ("wants_left", np.bool_),  # they will be searched
    ("wants_right", np.bool_),
    # bounds, of the children of the same node; sides, of that node
    ("n_moved", np.int64),  # answer: other leaves whose bounds have changed and that have a slot, see Boxes.moved
    # divide
    ("feature", np.int64),  # of the split; for `count`: that is counted, -1 for all
    ("n_bins", np.int64),  # of that feature
    ("turn", np.int64),  # 0 and 1 in turn, from split to split: threads may still read what the last one has written
    ("n_left", np.int64),  # answer: rows that went left, -1 if a thread has failed
    ("moving", np.bool_),  # answer: rows are still being copied, see sparse/partition.py; for `sum`: they are
    # sum
    ("spare", np.int64),  # slot of the smaller child, which is empty
    ("kept", np.int64),  # slot of the larger one, which has the sums of both; -1: there is none
    ("wants_larger", np.bool_),  # the larger child will be searched
    ("failed", np.bool_),  # answer: a thread has failed
    # search
    ("first", np.int64),  # the features first:last
    ("last", np.int64),
    ("slot", np.int64),  # of the node; -1: the thread's thin histogram, see sparse/tree.py
    ("beside", np.bool_),  # rows beside default bins are known, see splits/pairs.Scratch
    ("less", np.int64),  # slot of its smaller sibling, whose sums it may have in it still; -1: it has not
    ("set_number", np.int64),  # where the set of a categorical split is written, from the first set of the search on
    ("split", SPLIT),  # answer
    # count
    ("counted", np.bool_),  # answer where all features are asked for: that was quicker than one at a time, and is done
]
_LINES = 128
_SIZE = np.dtype(_FIELDS, align=True).itemsize
CALL = np.dtype([*_FIELDS, ("unused", np.uint8, (-_SIZE % _LINES,))], align=True)
"""What one thread asks of operations; a thread's has cache lines of its own, see make_calls."""


def make_calls(n_threads: int) -> NDArray[np.void]:
    """Return the CALLs of some threads, each at the beginning of a line."""
    memory = np.zeros(n_threads * CALL.itemsize + _LINES, np.uint8)
    first = -memory.ctypes.data % _LINES
    return memory[first : first + n_threads * CALL.itemsize].view(CALL)


class Node(NamedTuple):
    """What the search knows of a node.

    begin, end, depth     its rows, see trees/engine.Segments
    gradient, hessian     fixed-point sums
    score                 what the children's scores must exceed
    lower, upper, output  see NodeContext: bounds of the children's outputs, and the output of the node itself
    key                   of random choices
    """

    begin: int
    end: int
    depth: int
    gradient: int
    hessian: int
    score: float
    lower: float
    upper: float
    output: float
    key: int


@inlined
def between(node, lower, upper):
    """Return a node with other bounds."""
    return Node(
        node.begin, node.end, node.depth, node.gradient, node.hessian, node.score, lower, upper, node.output, node.key
    )


class Counting(NamedTuple):
    """How rows are counted.

    operation   the room of `count`
    counts      int64 (n_threads, most bins)            of one feature
    all_counts  int64 (n_threads, n_total_bins or 0)    of all
    """

    operation: NDArray[np.int64]
    counts: NDArray[np.int64]
    all_counts: NDArray[np.int64]


@inlined
def count_bins(t, call, counting, f, n_bins):
    """Return the rows of the call's node in every bin of feature f: int64 (n_bins,)."""
    call.feature, call.n_bins = f, n_bins
    run(counting.operation, t)
    return counting.counts[t, :n_bins]


@inner_kernel
def count_all(t, call, counting):
    """Count the rows in every bin of every feature, if that is quicker than one feature at a time; says whether."""
    call.feature = -1
    run(counting.operation, t)
    return call.counted


@inlined
def node_of(call):
    """Return the node of a CALL."""
    return node_at_cost(call, 0.0)


@inlined
def node_at_cost(call, cost):
    """Return the node of a CALL where a split has a price: see NodeContext.bar."""
    return Node(
        call.begin, call.end, call.depth, call.gradient, call.hessian, call.score + cost, call.lower, call.upper,
        call.output, call.key,
    )  # fmt: skip
