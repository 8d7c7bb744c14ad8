"""The rows of a growing tree on one worker: where they lie, their histograms, their leaves.

`TreeRows` is the definition, in NumPy; `CompiledRows` does the same by kernels.

Nodes are those of all workers: their places begin:end number the rows of all. Here each has the places of this worker's
rows, of which there may be none. A node has at least one row somewhere, so (begin, depth) names it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.reference.engine import bins_go_left
from hornbeam.core.fixed_point import NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import Segments
from hornbeam.trees.tree import bits_to_codes


class TreeRows:
    """Rows, rounded gradients and places of one tree.

    binned             the rows of this worker
    rows               int64 (n,)  those that the tree sees
    gradient, hessian  int64 (n,)  theirs, in fixed point
    counted            whether histograms have a third sum, of rows; else hessians count rows
    """

    def __init__(
        self,
        binned: BinnedData,
        rows: NDArray[np.int64],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        counted: bool,
    ) -> None:
        self._binned, self._n_sums = binned, 2 + counted
        self._rows = rows.astype(np.uint32)  # records, in the order of the places
        self._values: NDArray[np.int64] = np.stack([gradient, hessian], axis=1)
        self._places: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, len(rows))}

    def places(self, nodes: Segments) -> list[tuple[int, int]]:
        """Return the places of this worker's rows of each node."""
        return [self._places[key] for key in zip(nodes.begin.tolist(), nodes.depth.tolist(), strict=True)]

    def histograms(self, nodes: Segments) -> NDArray[np.int64]:
        """Return the sums of every node's rows by bin, int64 (n_nodes, n_total_bins, 2 or 3)."""
        sums = np.zeros((len(nodes.begin), int(self._binned.offsets[-1]), self._n_sums), np.int64)
        self._add_up(self.places(nodes), sums)
        return sums

    def _add_up(self, places: list[tuple[int, int]], sums: NDArray[np.int64]) -> None:
        """Add up the rows of nodes; sums, int64 (n_nodes, n_total_bins, 2 or 3), are zeros before."""
        binned = self._binned
        for node, (begin, end) in enumerate(places):
            codes = binned.bins[self._rows[begin:end], : binned.n_used].astype(np.int64)
            values = np.ones((end - begin, self._n_sums), np.int64)
            values[:, :2] = self._values[begin:end]
            for feature in range(binned.n_used):
                np.add.at(sums[node], codes[:, feature] + int(binned.offsets[feature]), values)

    def partition(
        self, nodes: Segments, splits: NDArray[np.void], left_sets: list[NDArray[np.uint32] | None]
    ) -> NDArray[np.int64]:
        """Move rows to the places of children, which `name_children` names; returns how many went left, int64."""
        n_left = np.zeros(len(splits), np.int64)
        for i, (begin, end) in enumerate(self.places(nodes)):
            split, rows = splits[i], self._rows[begin:end].astype(np.intp)
            left = bins_go_left(
                self._binned, rows, split["feature"], split["bin"], split["missing_left"], left_sets[i]
            )  # fmt: skip
            order = begin + np.argsort(~left, kind="stable")
            self._rows[begin:end], self._values[begin:end] = self._rows[order], self._values[order]
            n_left[i] = np.count_nonzero(left)
        return n_left

    def name_children(self, nodes: Segments, n_left: NDArray[np.int64], n_left_of_all: NDArray[np.int64]) -> None:
        """Enter the children of nodes whose rows were moved."""
        for i, (begin, end) in enumerate(self.places(nodes)):
            first, depth = int(nodes.begin[i]), int(nodes.depth[i]) + 1
            middle = begin + int(n_left[i])
            self._places[first, depth] = begin, middle
            self._places[first + int(n_left_of_all[i]), depth] = middle, end

    def leaves(self, nodes: Segments, leaf_of_node: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the leaf of every row, int64 (binned.n_rows,); -1: the tree does not see the row."""
        leaf = np.full(self._binned.n_rows, -1, np.int64)
        for (begin, end), number in zip(self.places(nodes), leaf_of_node.tolist(), strict=True):
            leaf[self._rows[begin:end]] = number
        return leaf


class CompiledRows(TreeRows):
    """The same by compiled kernels on some threads.

    columns  bins, feature by feature, (n_used, n_rows)
    """

    def __init__(self, columns: NDArray[Any], n_threads: int, *rows: Any) -> None:
        from hornbeam.backends.cpu.workers.rows import pack

        super().__init__(*rows)
        self._columns, self._n_threads = columns, n_threads
        self._offsets = self._binned.offsets.astype(np.uint32)
        if fits_narrow(self._values):
            self._values = pack(self._values[:, 0], self._values[:, 1])
        self._spare = np.empty_like(self._rows), np.empty_like(self._values)

    def _add_up(self, places: list[tuple[int, int]], sums: NDArray[np.int64]) -> None:
        """Add up by kernels."""
        from hornbeam.backends.cpu.workers.rows import sum_bins

        begin, end = np.array(places, np.int64).T.copy()
        sum_bins(
            self._binned.bins, self._rows, self._values, begin, end, self._offsets, sums, self._n_threads
        )  # fmt: skip

    def partition(
        self, nodes: Segments, splits: NDArray[np.void], left_sets: list[NDArray[np.uint32] | None]
    ) -> NDArray[np.int64]:
        """Move rows by kernels."""
        from hornbeam.backends.cpu.workers.rows import divide

        binned = self._binned
        goes_left = np.zeros((len(splits), int(binned.n_value_bins.max()) + 1), np.uint8)
        for table, split, left_set in zip(goes_left, splits, left_sets, strict=True):
            if left_set is not None:
                table[bits_to_codes(left_set)] = 1
                continue
            table[: split["bin"] + 1] = 1
            table[binned.n_value_bins[split["feature"]]] = split["missing_left"]
        begin, end = np.array(self.places(nodes), np.int64).T.copy()
        records = self._rows, self._values
        features = splits["feature"].astype(np.int64)
        return divide(self._columns, records, self._spare, begin, end, features, goes_left, self._n_threads)


def fits_narrow(values: NDArray[np.int64]) -> bool:
    """Say whether gradients and hessians, int64 (n, 2), have the bits of narrow ones."""
    largest = np.abs(values).max(axis=0, initial=0)
    return bool(largest[0] <= NARROW_GRADIENT_LIMIT and largest[1] <= NARROW_HESSIAN_LIMIT)
