"""The rows of a growing tree on one worker: where they lie, their histograms, their leaves.

Nodes are those of all workers: their places begin:end number the rows of all. Here each has the places of this worker's
rows, of which there may be none. A node has at least one row somewhere, so (begin, depth) names it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.reference.engine import bins_go_left
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import Segments


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
        self._binned, self._counted = binned, counted
        self._rows = rows.copy()
        self._values = np.stack([gradient, hessian] + [np.ones_like(gradient)] * counted, axis=1)
        self._order = np.arange(len(rows))  # places -> entries of the arrays above
        self._places: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, len(rows))}

    def places(self, nodes: Segments) -> list[tuple[int, int]]:
        """Return the places of this worker's rows of each node."""
        return [self._places[key] for key in zip(nodes.begin.tolist(), nodes.depth.tolist(), strict=True)]

    def histograms(self, nodes: Segments) -> NDArray[np.int64]:
        """Return the sums of every node's rows by bin, int64 (n_nodes, n_total_bins, 2 or 3)."""
        binned = self._binned
        offsets = binned.offsets
        sums = np.zeros((len(nodes.begin), int(offsets[-1]), self._values.shape[1]), np.int64)
        for node, (begin, end) in enumerate(self.places(nodes)):
            entries = self._order[begin:end]
            codes, values = binned.bins[self._rows[entries], : binned.n_used], self._values[entries]
            for feature in range(binned.n_used):
                np.add.at(sums[node], codes[:, feature].astype(np.int64) + offsets[feature], values)
        return sums

    def partition(
        self, nodes: Segments, splits: NDArray[np.void], left_sets: list[NDArray[np.uint32] | None]
    ) -> NDArray[np.int64]:
        """Move rows to the places of children, which `name_children` names; returns how many went left, int64."""
        n_left = np.zeros(len(splits), np.int64)
        for i, (begin, end) in enumerate(self.places(nodes)):
            entries, split = self._order[begin:end], splits[i]
            rows = self._rows[entries]
            left = bins_go_left(
                self._binned, rows, split["feature"], split["bin"], split["missing_left"], left_sets[i]
            )  # fmt: skip
            self._order[begin:end] = np.concatenate([entries[left], entries[~left]])
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
            leaf[self._rows[self._order[begin:end]]] = number
        return leaf
