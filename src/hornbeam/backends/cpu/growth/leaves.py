"""Leaf numbers, leaf sums and score updates on the CPU.

Leaf numbers are scattered to the rows (2 bytes a row, which stay in the cache); sums and scores then go through the
rows in sequence.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.partition import leaf_of_row
from hornbeam.backends.cpu.growth.pieces import cut
from hornbeam.backends.cpu.growth.rows import RowStore, records_at
from hornbeam.backends.cpu.host.team import call_helpers, run_parts
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import BinnedTree, Segments

ROWS_PER_THREAD = 16_384
ASSIGNED_ROWS_PER_THREAD = 131_072
"""More, since the rows of a leaf lie everywhere: threads that write their numbers take each other's cache lines."""

ROUTED_ROWS_PER_THREAD = 1024


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def assign_kernel(t, crew, even, odd, begin, end, depth, leaf, bounds, out):  # type: ignore[no-untyped-def]
    """Write the leaf number of every row of some parts (team.run_parts), with the pieces bounds[part]:bounds[part + 1].

    leaf  uint16 (n_pieces,)  in
    out   uint16 (n_rows,)    out
    """
    call_helpers(t, crew, (even, odd, begin, end, depth, leaf, bounds, out))
    mask = np.uint64(0xFFFFFFFF)
    for part in range(t, len(bounds) - 1, crew[0]):
        for piece in range(bounds[part], bounds[part + 1]):
            records = records_at(even, odd, depth[piece])
            for place in range(np.uint64(begin[piece]), np.uint64(end[piece])):
                out[records[place, 0] & mask] = leaf[piece]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def assign_sum_kernel(  # type: ignore[no-untyped-def]
    even, odd, begin, end, depth, leaf, gradient, hessian, g_scale, h_scale, out, sums
):
    """Write the leaf number of every row of all nodes, and add up the leaves' rows on the way.

    leaf               uint16 (n_nodes,)      in
    gradient, hessian  float64 (n_rows,)      in
    out                uint16 (n_rows,)       out
    sums               int64 (n_leaves, 2)    in out
    """
    mask = np.uint64(0xFFFFFFFF)
    for node in range(len(leaf)):
        records = records_at(even, odd, depth[node])
        number = leaf[node]
        g, h = np.int64(0), np.int64(0)
        for place in range(np.uint64(begin[node]), np.uint64(end[node])):
            row = records[place, 0] & mask
            out[row] = number
            g += np.int64(np.rint(gradient[row] * g_scale))
            h += np.int64(np.rint(hessian[row] * h_scale))
        sums[number, 0] += g
        sums[number, 1] += h


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def leaf_sums_kernel(t, crew, gradient, hessian, leaf, g_scale, h_scale, sums):  # type: ignore[no-untyped-def]
    """Add some parts of the rows (team.run_parts) to fixed-point sums, int64 (n_parts, n_leaves, 2)."""
    call_helpers(t, crew, (gradient, hessian, leaf, g_scale, h_scale, sums))
    n_rows, n_parts = len(leaf), len(sums)
    for part in range(t, n_parts, crew[0]):
        out = sums[part]
        for row in range(n_rows * part // n_parts, n_rows * (part + 1) // n_parts):
            out[leaf[row], 0] += np.int64(np.rint(gradient[row] * g_scale))
            out[leaf[row], 1] += np.int64(np.rint(hessian[row] * h_scale))


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_values_kernel(t, crew, scores, leaf, leaf_value):  # type: ignore[no-untyped-def]
    """Add the leaf values to the scores of one thread's rows; see team.py."""
    call_helpers(t, crew, (scores, leaf, leaf_value))
    n_rows, n_threads = len(leaf), crew[0]
    for row in range(n_rows * t // n_threads, n_rows * (t + 1) // n_threads):
        scores[row] += leaf_value[leaf[row]]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def route_kernel(  # type: ignore[no-untyped-def]
    bins, n_value_bins, feature, bin_, missing_left, left, right, leaf_value, start, stop, scores, left_sets, n_numeric
):
    """Send the rows start:stop down a tree of bins and add their leaf's value; left_sets as in BinnedTree, or None."""
    for row in range(start, stop):
        leaf = leaf_of_row(bins, row, n_value_bins, feature, bin_, missing_left, left, right, left_sets, n_numeric)
        scores[row] += leaf_value[leaf]


def assign_leaves(
    store: RowStore, nodes: Segments, leaves: NDArray[np.int32], n_threads: int, out: NDArray[np.uint16]
) -> None:
    """See protocol.Engine.assign_leaves."""
    pieces = cut(nodes, n_threads, ASSIGNED_ROWS_PER_THREAD)
    leaf = leaves.astype(np.uint16)[pieces.node]
    bounds = np.array(pieces.bounds)
    given = store.even, store.odd, pieces.begin, pieces.end, pieces.depth, leaf, bounds, out
    run_parts(assign_kernel, len(bounds) - 1, *given)


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
        store.even, store.odd, nodes.begin, nodes.end, nodes.depth, leaves.astype(np.uint16), gradient, hessian,
        2.0 ** exponents[0], 2.0 ** exponents[1], out, sums,
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
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """See protocol.Engine.leaf_sums; `largest` are the largest |gradient| and hessian."""
    n_rows = len(leaf)
    exponents = [exact_exponent(value, n_rows) for value in largest]
    n_parts = max(1, min(n_threads, n_rows // ROWS_PER_THREAD))
    sums = np.zeros((n_parts, n_leaves, 2), np.int64)
    run_parts(leaf_sums_kernel, n_parts, gradient, hessian, leaf, 2.0 ** exponents[0], 2.0 ** exponents[1], sums)
    total = sums[0] if n_parts == 1 else sums.sum(axis=0)
    return total[:, 0] * 2.0 ** -exponents[0], total[:, 1] * 2.0 ** -exponents[1]


def add_leaf_values(
    scores: NDArray[np.float64], leaf: NDArray[np.uint16], leaf_value: NDArray[np.float64], n_threads: int
) -> None:
    """See protocol.Engine.add_leaf_values."""
    run_parts(add_values_kernel, max(1, min(n_threads, len(leaf) // ROWS_PER_THREAD)), scores, leaf, leaf_value)


def add_tree(binned: BinnedData, tree: BinnedTree, scores: NDArray[np.float64], n_threads: int) -> None:
    """See protocol.Engine.add_tree."""
    if len(tree.feature) == 0:
        scores += tree.leaf_value[0]
        return
    run_ranges(
        lambda start, stop: route_kernel(
            binned.bins, binned.n_value_bins, tree.feature, tree.bin, tree.missing_left, tree.left, tree.right,
            tree.leaf_value, start, stop, scores, tree.left_sets, binned.n_numeric,
        ),
        len(scores), n_threads, smallest=ROUTED_ROWS_PER_THREAD,
    )  # fmt: skip
