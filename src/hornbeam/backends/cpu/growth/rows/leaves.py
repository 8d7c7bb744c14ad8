"""Leaf numbers, leaf sums and score updates on the CPU.

Leaf numbers are scattered to the rows (2 bytes a row, which stay in the cache); sums and scores then go through the
rows in sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.pieces import cut, whole_nodes
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, RowStore
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.trees.records import Segments


@kernel
def assign_kernel(t, crew, even, odd, pieces, leaf, out):
    """Write the leaf number of every row of some parts (team.run_parts).

    leaf  uint16 (n_nodes,)  in
    out   uint16 (n_rows,)   out
    """
    call_helpers(t, crew, (even, odd, pieces, leaf, out))
    bounds, nodes, begin, end, depth = pieces.bounds, pieces.node, pieces.begin, pieces.end, pieces.depth
    for part in range(t, len(bounds) - 1, crew.size):
        for piece in range(bounds[part], bounds[part + 1]):
            records, number = even if depth[piece] % 2 == 0 else odd, leaf[nodes[piece]]
            for place in range(np.uint64(begin[piece]), np.uint64(end[piece])):
                out[records[place] & ROW_MASK] = number


@kernel
def assign_sum_kernel(even, odd, pieces, leaf, gradient, hessian, g_scale, h_scale, out, sums):
    """Write the leaf number of every row of all nodes, and add up the leaves' rows on the way.

    leaf               uint16 (n_nodes,)      in
    gradient, hessian  float64 (n_rows,)      in
    out                uint16 (n_rows,)       out
    sums               int64 (n_leaves, 2)    in out
    """
    begin, end, depth = pieces.begin, pieces.end, pieces.depth
    for node in range(len(leaf)):
        records, number = even if depth[node] % 2 == 0 else odd, leaf[node]
        g, h = np.int64(0), np.int64(0)
        for place in range(np.uint64(begin[node]), np.uint64(end[node])):
            row = records[place] & ROW_MASK
            out[row] = number
            g += np.int64(np.rint(gradient[row] * g_scale))
            h += np.int64(np.rint(hessian[row] * h_scale))
        sums[number, 0] += g
        sums[number, 1] += h


@kernel
def leaf_sums_kernel(t, crew, gradient, hessian, leaf, g_scale, h_scale, sums):
    """Add some parts of the rows (team.run_parts) to fixed-point sums, int64 (n_parts, n_leaves, 2)."""
    call_helpers(t, crew, (gradient, hessian, leaf, g_scale, h_scale, sums))
    n_rows, n_parts = len(leaf), len(sums)
    for part in range(t, n_parts, crew.size):
        out = sums[part]
        for row in range(n_rows * part // n_parts, n_rows * (part + 1) // n_parts):
            out[leaf[row], 0] += np.int64(np.rint(gradient[row] * g_scale))
            out[leaf[row], 1] += np.int64(np.rint(hessian[row] * h_scale))


@kernel
def add_values_kernel(t, crew, scores, leaf, leaf_value):
    """Add the leaf values to the scores of one thread's rows; see team.py."""
    call_helpers(t, crew, (scores, leaf, leaf_value))
    n_rows, n_threads = len(leaf), crew.size
    for row in range(n_rows * t // n_threads, n_rows * (t + 1) // n_threads):
        scores[row] += leaf_value[leaf[row]]


def assign_leaves(
    store: RowStore,
    nodes: Segments,
    leaves: NDArray[np.int32],
    n_threads: int,
    tuning: Tuning,
    out: NDArray[np.uint16],
) -> None:
    """See engine.Engine.assign_leaves."""
    pieces = cut(nodes, n_threads, tuning.assigned_rows_per_thread, tuning)
    run_parts(assign_kernel, len(pieces.bounds) - 1, store.even, store.odd, pieces, leaves.astype(np.uint16), out)


def assign_and_sum(
    store: RowStore,
    nodes: Segments,
    leaves: NDArray[np.int32],
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    largest: tuple[float, float],
    out: NDArray[np.uint16],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Do what assign_leaves and then leaf_sums do, in one pass of one thread, where the tree has all rows."""
    exponents = [exact_exponent(value, len(out)) for value in largest]
    sums = np.zeros((int(leaves.max()) + 1, 2), np.int64)
    assign_sum_kernel(
        store.even, store.odd, whole_nodes(nodes), leaves.astype(np.uint16), gradient, hessian, 2.0 ** exponents[0],
        2.0 ** exponents[1], out, sums,
    )  # fmt: skip
    total = sums.astype(np.float64)
    return total[:, 0] * 2.0 ** -exponents[0], total[:, 1] * 2.0 ** -exponents[1]


def leaf_sums(
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    largest: tuple[float, float],
    leaf: NDArray[np.uint16],
    n_leaves: int,
    n_threads: int,
    tuning: Tuning,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """See engine.Engine.leaf_sums; `largest` are the largest |gradient| and hessian."""
    exponents = [exact_exponent(value, len(leaf)) for value in largest]
    total = leaf_integers(gradient, hessian, exponents, leaf, n_leaves, n_threads, tuning).astype(np.float64)
    return total[:, 0] * 2.0 ** -exponents[0], total[:, 1] * 2.0 ** -exponents[1]


def leaf_integers(
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    exponents: Sequence[int],
    leaf: NDArray[np.uint16],
    n_leaves: int,
    n_threads: int,
    tuning: Tuning,
) -> NDArray[np.int64]:
    """Return the sums of gradients and hessians per leaf in fixed point, int64 (n_leaves, 2)."""
    n_parts = max(1, min(n_threads, len(leaf) // tuning.summed_rows_per_thread))
    sums = np.zeros((n_parts, n_leaves, 2), np.int64)
    run_parts(leaf_sums_kernel, n_parts, gradient, hessian, leaf, 2.0 ** exponents[0], 2.0 ** exponents[1], sums)
    return sums[0] if n_parts == 1 else sums.sum(axis=0)


def add_leaf_values(
    scores: NDArray[np.float64],
    leaf: NDArray[np.uint16],
    leaf_value: NDArray[np.float64],
    n_threads: int,
    tuning: Tuning,
) -> None:
    """See engine.Engine.add_leaf_values."""
    n_parts = max(1, min(n_threads, len(leaf) // tuning.summed_rows_per_thread))
    run_parts(add_values_kernel, n_parts, scores, leaf, leaf_value)
