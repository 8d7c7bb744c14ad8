"""Lists of rows in the order of every feature on a GPU, divided as the tree grows: see kernels/growth/lists.cl."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.contexts import PlacedContexts
from hornbeam.backends.gpu.ranked.sorted_rows import BYTES_A_ROW, sorted_rows
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32, u64
from hornbeam.backends.gpu.runtime.tables import node_table
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.dtypes import SPLIT
from hornbeam.data.binning import BinnedData
from hornbeam.data.quantiles import listed_features
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules, no_splits

THREADS, EACH = 256, 4
"""Threads of a group, and entries of each at a time: 1,024 entries, which take 16 KB of local memory."""

BY_PARITY = "whole", "list even", "list odd"


class DeviceLists:
    """The lists of one training's trees.

    features  those of the listed ones that the tree may use, int32 (n,)
    """

    def __init__(self, workspace: Workspace, ranked: BinnedData, ranks: PlacedBins, listed: NDArray[np.int32]) -> None:
        self._workspace, self._runtime, self._ranked = workspace, workspace.runtime, ranked
        self._listed, n = listed, len(listed)
        self.features = listed
        size = 8 * ranked.n_rows
        for name in BY_PARITY:
            workspace.room(name, max(8, n * size))
        kernel = self._runtime.kernel("entries_kernel", workspace.variant("lists.cl", THREADS, each=EACH))
        for some in sorted_rows(workspace, ranks, listed.astype(np.uint32)):
            n_entries, first = some.n_features * ranked.n_rows, some.first * ranked.n_rows
            workspace.launch_over(
                n_entries, kernel, some.ranks, some.rows, u64(first), u64(n_entries), workspace.buffer("whole")
            )  # fmt: skip
        workspace.room("sides", ranked.n_rows + 4)
        described = ranked.n_value_bins * 2 + ranked.has_missing
        workspace.upload("described ranks", described.astype(np.uint32))
        workspace.upload("rank counts", ranked.n_value_bins.astype(np.uint32))

    @staticmethod
    def more_bytes(ranked: BinnedData) -> int:
        """Return the bytes of the lists of a training set, and of what stands beside them."""
        n_tiles = -(-ranked.n_rows // (THREADS * EACH)) + 1
        n = len(listed_features(ranked))
        by_row = 24 * n + 9 + BYTES_A_ROW
        return ranked.n_rows * by_row + n * 2 * n_tiles * (SPLIT.itemsize + 28)

    def _kernel(self, name: str, wide: bool) -> Kernel:
        return self._runtime.kernel(name, self._workspace.variant("lists.cl", THREADS, wide=wide, each=EACH))

    def _tile(self, wide: bool) -> int:
        return EACH * self._kernel("mark_kernel", wide).threads

    def begin_tree(self, n_records: int, listed: bool, wide: bool, rows: tuple[Buffer, Buffer]) -> None:
        """Note the gradients of a tree by row, and take the rows that it sees into the lists of its root."""
        own, buffer = self._workspace, self._workspace.buffer
        numbers = np.searchsorted(self._listed, self.features)
        own.upload("list features", np.concatenate([self.features, numbers]).astype(np.uint32))
        gradients = own.room("row gradients", (8 if wide else 4) * self._ranked.n_rows)
        own.launch_over(
            n_records, self._kernel("spread_kernel", wide), buffer("records even"), rows[0], u32(listed),
            u32(n_records), gradients,
        )  # fmt: skip
        if listed:  # a root at an even depth, see bagging.ROOT_DEPTH
            self._runtime.zero(buffer("sides"), (self._ranked.n_rows + 3) // 4 * 4)
            size = np.array([n_records])
            self._mark(Segments(np.array([0]), size, np.array([1], np.int32)), size, wide, rows)
            everything = Segments(np.array([0]), np.array([self._ranked.n_rows]), np.array([0], np.int32))
            self._move(everything, size, wide, ("whole", "list odd", "list even"))

    def divide(self, nodes: Segments, n_left: NDArray[np.int64], wide: bool, rows: tuple[Buffer, Buffer]) -> None:
        """Divide the lists of nodes whose rows are divided already; rows of even and of odd depth."""
        if len(self.features):
            self._mark(nodes, n_left, wide, rows)
            self._move(nodes, n_left, wide, BY_PARITY)

    def _mark(self, nodes: Segments, n_left: NDArray[np.int64], wide: bool, rows: tuple[Buffer, Buffer]) -> None:
        own, table = self._workspace, node_table(nodes, self._tile(wide), n_left)
        self._runtime.launch(
            self._kernel("mark_kernel", wide), min(own.groups, max(1, int(table[0, -1]))), *rows,
            own.upload("list table", table), u32(len(n_left)), own.buffer("sides"),
        )  # fmt: skip

    def _move(self, nodes: Segments, n_left: NDArray[np.int64], wide: bool, names: tuple[str, ...]) -> None:
        own, runtime, n = self._workspace, self._runtime, len(self.features)
        table = node_table(nodes, self._tile(wide), n_left)
        n_tiles = int(table[0, -1])
        if n_tiles == 0 or n == 0:
            return
        counts = own.room("list counts", 4 * n * n_tiles)
        lists = *(own.buffer(name) for name in names), u32(self._ranked.n_rows), own.buffer("sides")
        which = own.buffer("list features"), u32(n), own.upload("list table", table), u32(len(n_left))
        groups = min(4 * own.groups, n * n_tiles)
        runtime.launch(self._kernel("count_kernel", wide), groups, *lists, *which, counts)
        runtime.launch(self._kernel("scan_counts_kernel", wide), n, counts, u32(n), u32(n_tiles))
        runtime.launch(self._kernel("scatter_kernel", wide), groups, *lists, *which, counts)

    def find_splits(
        self,
        nodes: Segments,
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        wide: bool,
        rules: SplitRules,
        contexts: PlacedContexts | None,
    ) -> NDArray[np.void]:
        """Find the best split of each node by a feature of numbers, SPLIT (n_nodes,)."""
        own, runtime, n, n_nodes = self._workspace, self._runtime, len(self.features), len(gradient)
        if n == 0 or n_nodes == 0:
            return no_splits(n_nodes)
        table = node_table(nodes, self._tile(wide), np.zeros(n_nodes, np.int64))
        n_tiles = int(table[0, -1])
        buffer, groups = own.buffer, min(4 * own.groups, n * n_tiles)
        sums = own.room("list sums", 24 * n * (n_tiles + 1))
        splits, best = own.room("list splits", SPLIT.itemsize * n * n_tiles), own.room("best", SPLIT.itemsize * n_nodes)
        placed, totals = own.upload("list table", table), own.upload("totals", np.stack([gradient, hessian], axis=1))
        read: tuple[Any, ...] = (
            *(buffer(name) for name in BY_PARITY), u32(self._ranked.n_rows), buffer("row gradients"),
            buffer("list features"), u32(n), buffer("rank counts"), placed, u32(n_nodes),
        )  # fmt: skip
        runtime.launch(self._kernel("sum_kernel", wide), groups, *read, sums)
        runtime.launch(self._kernel("scan_sums_kernel", wide), n, sums, u32(n), u32(n_tiles))
        no_context = totals, totals, u32(0), totals, totals, np.float64(0.0), u32(0), u32(0)
        nothing = (*no_context, totals, u32(0), totals, totals, u32(0))
        runtime.launch(
            self._kernel("search_kernel", wide), groups, *read, totals, sums, buffer("units"),
            np.float64(rules.lambda_l1), np.float64(rules.lambda_l2), np.float64(rules.max_delta_step),
            np.float64(rules.min_gain_to_split), np.float64(rules.min_sum_hessian_in_leaf),
            np.int64(rules.min_data_in_leaf), splits, u32(contexts is not None), buffer("described ranks"),
            *(nothing if contexts is None else contexts.arguments(rules)),
        )  # fmt: skip
        runtime.launch(self._kernel("choose_list_kernel", wide), n_nodes, splits, u32(n), placed, u32(n_nodes), best)
        found = np.empty(n_nodes, SPLIT)
        runtime.download(best, found)
        return found
