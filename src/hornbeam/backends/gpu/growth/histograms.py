"""Histograms on a GPU: sums of the nodes of a table, and subtractions that wait until the split search does them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.bundles import Bundles
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.runtime.tables import chunk_rows, node_table
from hornbeam.backends.gpu.workspace.tree_kernels import GrowingTree, SummedTree
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.trees.records import Segments

ONE = np.array([1, 0], np.uint32)
"""One node, whose set has the number 0: what the kernels of a root count by."""


class DeviceHistograms:
    """The slots of the histogram pool, buffer `histograms`."""

    def __init__(self, workspace: Workspace, layout: Layout, bundles: Bundles | None) -> None:
        self._workspace, self._runtime, self._layout = workspace, workspace.runtime, layout
        self._bundles = bundles
        self._root: tuple[int, int, int] | None = None  # what `root table` was made for
        self._pending: list[tuple[int, int]] = []  # subtractions that the split search will do on the way

    def begin_tree(self, tree: SummedTree) -> None:
        """Make room for the slots of a tree."""
        self._pending = []
        self._workspace.room("histograms", 8 * tree.n_slots * self._layout.slot_size(tree.stats))

    def row_buffers(self) -> tuple[Buffer, Buffer, Buffer, Buffer]:
        """Return rows and records of even and of odd depth."""
        buffer = self._workspace.buffer
        return buffer("rows even"), buffer("rows odd"), buffer("records even"), buffer("records odd")

    def build(self, tree: GrowingTree, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows into their slots."""
        self.subtract_pending(tree)
        self.sum_nodes(tree, nodes, slots)

    def sum_nodes(self, tree: SummedTree, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Do the same where no subtraction waits."""
        if self._layout.n_used == 0 or len(slots) == 0:
            return
        own = self._workspace
        on_device = own.upload("table", self._table(tree, nodes, slots))
        self._launch_cleared(tree, on_device, own.upload_count(len(slots)), len(slots))

    def prepare_root(self, tree: GrowingTree, n_rows: int, depth: int) -> Callable[[], None]:
        """Return what sums a root of so many rows into slot 0, by launches alone."""
        own, same = self._workspace, (tree.kernels.groups_a_pass, n_rows, depth)
        if self._root != same:
            root = Segments(np.array([0]), np.array([n_rows]), np.array([depth], np.int32))
            own.upload("root table", self._table(tree, root, np.array([0], np.int32)))
            self._root = same
        table, count = own.buffer("root table"), own.upload_once("one", ONE)
        return lambda: self._launch_cleared(tree, table, count, 1)

    def _table(self, tree: SummedTree, nodes: Segments, slots: NDArray[np.int32]) -> NDArray[np.uint32]:
        chunk = chunk_rows(int((nodes.end - nodes.begin).sum()), tree.kernels.groups_a_pass)
        table = node_table(nodes, chunk, slots)
        table[1, -1] = chunk
        return table

    def _launch_cleared(self, tree: SummedTree, table: Buffer, count: Buffer, n_nodes: int) -> None:
        """Clear the slots of a table that need it, and sum."""
        own, size, clear = self._workspace, self._layout.slot_size(tree.stats), tree.kernels.zero
        groups = min(own.groups, max(1, n_nodes * size // (4 * clear.threads)))
        self._runtime.launch(
            clear, groups, table, count, u32(tree.kernels.groups_a_pass), u32(size), own.buffer("histograms")
        )
        self.launch(tree, table, count)

    def launch(self, tree: SummedTree, table: Buffer, count: Buffer) -> None:
        """Sum as the table on the device says; slots are clear that need it."""
        own, kernels = self._workspace, tree.kernels
        groups = kernels.groups_a_pass
        self._runtime.launch(
            kernels.histogram, groups * kernels.n_passes, own.buffer("tiles"), *self.row_buffers(), table, count,
            u32(groups), u32(own.n_rows), u32(self._layout.n_tiles), own.buffer("histograms"),
        )  # fmt: skip

    def subtract_later(self, tree: GrowingTree, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """Note pairs of slots: the split search subtracts while it reads the parents' histograms anyway."""
        self.subtract_pending(tree)
        self._pending = list(zip(parents.tolist(), children.tolist(), strict=True))

    def subtract_pending(self, tree: GrowingTree, but: frozenset[int] = frozenset()) -> None:
        """Subtract now what the split search will not, because its slot is not among `but`."""
        pairs = [pair for pair in self._pending if pair[0] not in but]
        self._pending = [pair for pair in self._pending if pair[0] in but]
        if not pairs or self._layout.n_used == 0:
            return
        own, size = self._workspace, u32(self._layout.slot_size(tree.stats))
        table = own.upload("pairs", np.array(pairs, np.int32))
        self._runtime.launch(tree.kernels.subtract, own.groups, own.buffer("histograms"), table, u32(len(pairs)), size)

    def take_pending(self) -> dict[int, int]:
        """Return the slots that are to be subtracted, by the slot to subtract from, and forget them."""
        pending, self._pending = dict(self._pending), []
        return pending

    def read(self, tree: GrowingTree, slot: int, n_value_bins: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the histogram in a slot as the reference engine has it, int64 (n_total_bins, 2)."""
        self.subtract_pending(tree)
        layout = self._layout
        held = np.empty((layout.n_tiles, tree.stats, layout.n_bins, layout.lanes), np.int64)
        self._runtime.download(self._workspace.buffer("histograms"), held, offset=slot * held.nbytes)
        by_column = held.transpose(0, 3, 2, 1).reshape(-1, layout.n_bins, tree.stats)[:, :, :2]
        features = enumerate(n_value_bins.tolist())
        if self._bundles is None:
            parts = [by_column[feature, : n_values + 1] for feature, n_values in features]
        else:
            parts = [self._bundles.unbundle(by_column, feature, n_values) for feature, n_values in features]
        return np.concatenate([np.empty((0, 2), np.int64), *parts])
