"""Rows that go down a finished tree: those of validation sets, and those that were not chosen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.sides import bin_goes_left, bin_in_set
from hornbeam.backends.cpu.growth.sparse.storage import route_sparse_kernel, storage_of
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts, share_of
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import BinnedTree

NO_ROWS = np.empty(0, np.uint32)
NO_SETS = np.empty((0, 0), np.uint32)


class Route(NamedTuple):
    """A finished tree as kernels take it: fields of BinnedTree, and of the data set.

    left_sets  uint32 (n_splits, n_words), or (0, 0): no feature is categorical
    n_numeric  number of features that are not categorical
    """

    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    left_sets: NDArray[np.uint32]
    n_value_bins: NDArray[Any]
    n_numeric: int


@kernel
def route_kernel(t, crew, bins, route, rows, leaf):
    """Send one thread's rows of those listed, or of all where none are, down a tree of bins; see host/team.py.

    bins  uint8 or uint16 (n_rows, stride)   in
    rows  uint32 (n,)                        in   or empty
    leaf  uint16 (n_rows,)                   out  leaf numbers, by row
    """
    call_helpers(t, crew, (bins, route, rows, leaf))
    feature, bin_, missing_left, left, right = route.feature, route.bin, route.missing_left, route.left, route.right
    left_sets, n_value_bins, n_numeric, is_listed = route.left_sets, route.n_value_bins, route.n_numeric, len(rows) > 0
    n_rows = len(rows) if is_listed else len(leaf)
    first, last = share_of(n_rows, t, crew.size)
    for place in range(np.uint64(first), np.uint64(last)):
        row, node = np.uint64(rows[place]) if is_listed else place, np.int64(0)
        while node >= 0:
            f = feature[node]
            code = np.int64(bins[row, f])
            goes_left = bin_goes_left(code, bin_[node], missing_left[node], n_value_bins[f])
            if f >= n_numeric:
                goes_left = bin_in_set(code, left_sets[node])
            if goes_left:
                node = np.int64(left[node])
            else:
                node = np.int64(right[node])
        leaf[row] = ~node


def find_leaves(
    binned: BinnedData,
    tree: BinnedTree,
    rows: NDArray[np.uint32] | None,
    n_team: int,
    tuning: Tuning,
    leaf: NDArray[np.uint16],
) -> None:
    """Write the leaf numbers of some rows (None: of all) under a tree.

    leaf  uint16 (n_rows,)  out
    """
    if len(tree.feature) == 0:
        leaf[slice(None) if rows is None else rows] = 0
        return
    route = Route(
        tree.feature, tree.bin, tree.missing_left, tree.left, tree.right,
        NO_SETS if tree.left_sets is None else tree.left_sets, binned.n_value_bins, binned.n_numeric,
    )  # fmt: skip
    listed, n_rows = (NO_ROWS, len(leaf)) if rows is None else (np.ascontiguousarray(rows), len(rows))
    if n_rows == 0:
        return
    if binned.stored is None:
        run_parts(
            route_kernel, max(1, min(n_team, n_rows // tuning.routed_rows_per_thread)), binned.bins, route, listed, leaf
        )
        return
    storage = storage_of(binned.stored)
    run_ranges(
        lambda start, stop: route_sparse_kernel(storage, route, listed, start, stop, leaf),
        n_rows, n_team, smallest=tuning.routed_sparse_rows_per_thread,
    )  # fmt: skip
