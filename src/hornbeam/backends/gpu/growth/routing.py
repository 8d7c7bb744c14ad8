"""Finished trees on a GPU: their nodes for kernels/growth/route.cl, and rows of validation sets that go down them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.bundles import bundles_of
from hornbeam.backends.gpu.data.columns import copy_column
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.binning import BinnedData
from hornbeam.data.columns import StartScores
from hornbeam.trees.records import BinnedTree


def upload_tree(workspace: Workspace, tree: BinnedTree, binned: BinnedData) -> Buffer:
    """Bring a tree to the device: the nodes of route.cl, and the sets of its categorical splits behind them."""
    n_values, n_splits = binned.n_value_bins[tree.feature], len(tree.feature)
    bins, missing_left = tree.bin, tree.missing_left.astype(np.int32)
    sets = np.empty((n_splits, 0), np.uint32) if tree.left_sets is None else tree.left_sets
    if tree.left_sets is not None:
        categorical = tree.feature >= binned.n_numeric
        bins = np.where(categorical, 6 * n_splits + np.arange(n_splits) * sets.shape[1], bins)
        missing_left[categorical] = 2
    columns = (tree.feature, bins, missing_left, n_values, tree.left, tree.right)
    nodes = np.stack(columns, axis=1).astype(np.int32)
    return workspace.upload("tree", np.concatenate([nodes.ravel(), sets.view(np.int32).ravel()]))


def upload_scores(workspace: Workspace, name: str, scores: NDArray[np.float64] | StartScores) -> Buffer:
    """Bring scores, float64 (n_outputs, n_rows), to the device; those that are the same for all rows are filled in."""
    if isinstance(scores, StartScores):
        out = workspace.room(name, 8 * scores.column.size)
        start = workspace.upload("start", np.ascontiguousarray(scores.init, np.float64))
        copy_column(workspace.runtime, scores.column, out, start)
        workspace.runtime.synchronize()  # then the column may go
        return out
    n_outputs, n_rows = scores.shape
    if scores.strides[1] != 0 or n_rows == 0:
        return workspace.upload(name, np.array(scores, np.float64, order="C"))
    out = workspace.room(name, 8 * scores.size)
    start = workspace.upload("start", np.ascontiguousarray(scores[:, 0]))
    kernel = workspace.runtime.kernel("fill_kernel", workspace.variant("leaves.cl"))
    workspace.launch_over(scores.size, kernel, start, u32(n_outputs), u32(n_rows), out)
    return out


def launch_route(
    own: Workspace, bins: PlacedBins, nodes: Buffer, n_splits: int, leaf: Buffer, bag: Buffer | None, first: int
) -> None:
    """Find the leaves of the rows in a bag's places from `first` on: leaf u16 (n_rows,) out, bag u32 (n_rows,) in.

    bag  None: rows lie as they are numbered
    """
    n_rows, in_bag = bins.layout.n_rows, u32(bag is not None)
    bag = leaf if bag is None else bag
    own.launch_over(
        n_rows - first, own.runtime.kernel("route_kernel", bins.variant("route.cl")), bins.by_feature, u32(n_rows),
        nodes, u32(n_splits), bag, in_bag, u32(first), u32(n_rows), u32(0), leaf, leaf, leaf, u64(0),
        *bins.bundle_arguments,
    )  # fmt: skip


def add_values(
    own: Workspace, bins: PlacedBins, nodes: Buffer, n_splits: int, values: Buffer, scores: Buffer, offset: int
) -> None:
    """Send all rows down a tree and add its values, f64 (n_leaves,), to their scores, f64 from `offset` on."""
    n_rows = bins.layout.n_rows
    own.launch_over(
        n_rows, own.runtime.kernel("route_kernel", bins.variant("route.cl")), bins.by_feature, u32(n_rows), nodes,
        u32(n_splits), scores, u32(0), u32(0), u32(n_rows), u32(1), scores, values, scores, u64(offset),
        *bins.bundle_arguments,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """A validation set on the device: its bins, and its scores."""

    workspace: Workspace
    bins: PlacedBins
    n_outputs: int
    scores: Buffer

    @classmethod
    def upload(
        cls,
        workspace: Workspace,
        number: int,
        binned: BinnedData,
        scores: NDArray[np.float64] | StartScores,
        layout: Layout,
    ) -> ValidationSet:
        """Bring a data set and its scores, float64 (n_outputs, n_rows), to the device; it has bundles of its own."""
        bins = PlacedBins(workspace, f"bins of validation set {number}", binned, bundles_of(binned), layout)
        on_device = upload_scores(workspace, f"scores of validation set {number}", scores)
        return cls(workspace, bins, len(scores), on_device)

    def add_tree(self, nodes: Buffer, n_splits: int, values: Buffer, output: int) -> None:
        """Send the rows down a tree and add its values to their scores."""
        offset = output * self.bins.layout.n_rows
        add_values(self.workspace, self.bins, nodes, n_splits, values, self.scores, offset)

    def find_leaves(self, nodes: Buffer, n_splits: int) -> NDArray[np.uint16]:
        """Send the rows down a tree; return their leaves, uint16 (n_rows,)."""
        own, n_rows = self.workspace, self.bins.layout.n_rows
        leaf, found = own.room("leaf of validation set", 2 * n_rows + 2), np.empty(n_rows, np.uint16)
        launch_route(own, self.bins, nodes, n_splits, leaf, None, 0)
        own.runtime.download(leaf, found)
        return found

    def read_scores(self) -> NDArray[np.float64]:
        """Return the scores, float64 (n_outputs, n_rows)."""
        out = np.empty((self.n_outputs, self.bins.layout.n_rows))
        self.workspace.runtime.download(self.scores, out)
        return out

    def write_scores(self, scores: NDArray[np.float64] | StartScores) -> None:
        """Replace the scores."""
        assert not isinstance(scores, StartScores)  # they are where a set begins
        self.workspace.runtime.upload(self.scores, np.array(scores, np.float64, order="C"))
