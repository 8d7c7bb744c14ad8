"""Lists of rows in the order of every feature on a GPU, divided as the tree grows: see kernels/growth/lists.cl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.contexts import PlacedContexts
from hornbeam.backends.gpu.ranked.list_blocks import BY_PARITY, BYTES, ListBlocks
from hornbeam.backends.gpu.ranked.sorted_rows import bytes_to_sort, sorted_rows
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32, u64
from hornbeam.backends.gpu.runtime.tables import node_table
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.workspace import Workspace, room_bytes
from hornbeam.core.dtypes import SPLIT
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules, keep_better, no_splits

THREADS, EACH = 256, 4
"""Threads of a group, and entries of each at a time: 1,024 entries, which take 16 KB of local memory."""

SMALL_TABLES = 1 << 18
"""Bytes of tables of nodes and features, or a little more."""


class _Asked(NamedTuple):
    """A search: nodes and tiles of their rows, the table of both and the sums of the nodes on the device, the rules."""

    n_nodes: int
    n_tiles: int
    table: Buffer
    totals: Buffer
    wide: bool
    rules: SplitRules
    contexts: PlacedContexts | None


class DeviceLists:
    """The lists of one training's trees.

    features  those of the listed ones that the tree may use, int32 (n,)
    most      lists that are on the device at a time
    """

    def __init__(
        self, workspace: Workspace, ranked: BinnedData, ranks: PlacedBins, listed: NDArray[np.int32], most: int
    ) -> None:
        self._workspace, self._runtime, self._ranked = workspace, workspace.runtime, ranked
        self.features = listed
        self._blocks = ListBlocks(workspace, ranked.n_rows, listed, most)
        kernel = self._runtime.kernel("entries_kernel", workspace.variant("lists.cl", THREADS, each=EACH))
        for block in self._blocks.fill():
            for some in sorted_rows(workspace, ranks, block.astype(np.uint32)):
                n_entries, first = some.n_features * ranked.n_rows, some.first * ranked.n_rows
                workspace.launch_over(
                    n_entries, kernel, some.ranks, some.rows, u64(first), u64(n_entries), workspace.buffer("whole")
                )  # fmt: skip
        workspace.room("sides", ranked.n_rows + 4)
        described = ranked.n_value_bins * 2 + ranked.has_missing
        workspace.upload("described ranks", described.astype(np.uint32))
        workspace.upload("rank counts", ranked.n_value_bins.astype(np.uint32))

    @staticmethod
    def bytes_of(n_rows: int, n_lists: int) -> int:
        """Return the bytes of so many lists, and of what stands beside them."""
        n_tiles = 2 * (-(-n_rows // (THREADS * EACH)) + 1)
        lists, by_row = 3 * room_bytes(BYTES * n_lists * n_rows), room_bytes(8 * n_rows) + room_bytes(n_rows + 4)
        by_tile = (room_bytes(size * n_lists * n_tiles) for size in (4, 24, SPLIT.itemsize))
        return lists + by_row + sum(by_tile) + bytes_to_sort(n_rows) + SMALL_TABLES

    @classmethod
    def fitting(cls, n_rows: int, n_lists: int, spare: int) -> int:
        """Return how many of the lists fit at a time, at least one of them."""
        fits = (n for n in range(n_lists, 1, -1) if cls.bytes_of(n_rows, n) <= spare)
        return next(fits, min(n_lists, 1))

    def _in_blocks(self) -> Iterator[int]:
        """Yield the number of features of each block that the tree may use, if any, their lists on the device."""
        for block in self._blocks.each():
            chosen = self.features[np.isin(self.features, block)]
            if len(chosen):
                numbers = np.searchsorted(block, chosen)
                self._workspace.upload("list features", np.concatenate([chosen, numbers]).astype(np.uint32))
                yield len(chosen)

    def _kernel(self, name: str, wide: bool) -> Kernel:
        return self._runtime.kernel(name, self._workspace.variant("lists.cl", THREADS, wide=wide, each=EACH))

    def _tile(self, wide: bool) -> int:
        return EACH * self._kernel("mark_kernel", wide).threads

    def begin_tree(self, n_records: int, listed: bool, wide: bool, rows: tuple[Buffer, Buffer]) -> None:
        """Note the gradients of a tree by row, and take the rows that it sees into the lists of its root."""
        own, buffer = self._workspace, self._workspace.buffer
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
        own, runtime = self._workspace, self._runtime
        table = node_table(nodes, self._tile(wide), n_left)
        n_tiles = int(table[0, -1])
        if n_tiles == 0:
            return
        placed = own.upload("list table", table)
        for n in self._in_blocks():
            counts = own.room("list counts", 4 * n * n_tiles)
            lists = *(own.buffer(name) for name in names), u32(self._ranked.n_rows), own.buffer("sides")
            which = own.buffer("list features"), u32(n), placed, u32(len(n_left))
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
        """Find the best split of each node by a listed feature, SPLIT (n_nodes,)."""
        own, n_nodes = self._workspace, len(gradient)
        best = no_splits(n_nodes)
        if n_nodes:
            table = node_table(nodes, self._tile(wide), np.zeros(n_nodes, np.int64))
            totals = own.upload("totals", np.stack([gradient, hessian], axis=1))
            placed = own.upload("list table", table)
            asked = _Asked(n_nodes, int(table[0, -1]), placed, totals, wide, rules, contexts)
            for n in self._in_blocks():
                keep_better(best, self._find_in_block(n, asked))
        return best

    def _find_in_block(self, n: int, asked: _Asked) -> NDArray[np.void]:
        """Find the best split of each node by one of n features whose lists are on the device."""
        own, runtime, buffer = self._workspace, self._runtime, self._workspace.buffer
        n_nodes, n_tiles, placed, totals, wide, rules, contexts = asked
        groups = min(4 * own.groups, n * n_tiles)
        sums = own.room("list sums", 24 * n * (n_tiles + 1))
        splits, best = own.room("list splits", SPLIT.itemsize * n * n_tiles), own.room("best", SPLIT.itemsize * n_nodes)
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
