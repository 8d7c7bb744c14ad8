"""Trees that all outputs share, on a GPU: gradients of all outputs by row, their histograms, and the split search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.histograms import ONE, DeviceHistograms
from hornbeam.backends.gpu.losses.quantize import Rounded
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32, u64
from hornbeam.backends.gpu.runtime.tables import chunk_rows, node_table
from hornbeam.backends.gpu.workspace.tree_kernels import CAPACITY, GrowingTree, histogram_variant
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.dtypes import SPLIT
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules

STATS = 2
"""Sums of a histogram: rows are counted by the hessians of one of them."""

GROUPS_A_UNIT = 32
"""Groups of the split search a compute unit."""


class DeviceOutputs:
    """What a tree that all outputs share needs besides; see kernels/growth/load_outputs.cl and split_outputs.cl.

    rounded  of each output, for the tree at hand
    counter  the histogram whose hessians count rows
    """

    def __init__(self, workspace: Workspace, layout: Layout, histograms: DeviceHistograms) -> None:
        self.workspace, self.layout, self._runtime = workspace, layout, workspace.runtime
        self._histograms = histograms
        self.rounded: Sequence[Rounded] = ()
        self._rules: SplitRules | None = None  # what the device has of them
        self.counter = 0

    @property
    def n_histograms(self) -> int:
        """Histograms of a node."""
        return max(len(self.rounded), self.counter + 1)

    @property
    def is_wide(self) -> bool:
        """Whether the records of the tree are wide: one of the outputs needs that."""
        return any(rounded.quantization.wide for rounded in self.rounded)

    def keep(self, output: int, n_outputs: int, wide: bool, n_tree: int, is_bag: bool) -> None:
        """Keep the rounded gradients of an output, which are in the records of the root."""
        own, n_rows, kept = self.workspace, self.workspace.n_rows, self.make_kept(n_outputs)
        even, _, records, _ = self._histograms.row_buffers()
        own.launch_over(
            n_tree,
            self._kernel("keep_kernel", wide),
            records,
            even,
            u32(is_bag),
            u32(n_tree),
            u64(output * n_rows),
            kept,
        )

    def make_kept(self, n_outputs: int) -> Buffer:
        """Make room for the rounded gradients of all outputs."""
        return self.workspace.room("kept outputs", 8 * n_outputs * self.workspace.n_rows)

    def _kernel(self, name: str, wide: bool) -> Kernel:
        return self._runtime.kernel(name, self.workspace.variant("load_outputs.cl", wide=wide))

    def begin_tree(self) -> None:
        """Make room for the records of the tree, which may be wider than those of the last output."""
        for name in ("records even", "records odd"):
            self.workspace.room(name, (8 if self.is_wide else 4) * self.workspace.n_rows)

    def build(self, tree: GrowingTree, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum every histogram of each node, int32 (n_nodes, n_histograms), one after the other."""
        own, load = self.workspace, self._kernel("load_kernel", self.is_wide)
        self._histograms.subtract_pending(tree)
        table = node_table(nodes, 8 * load.threads)
        on_device, n_nodes = own.upload("load table", table), len(nodes.begin)
        groups = min(own.groups, max(1, int(table[0, -1])))
        for number in range(slots.shape[1]):
            even, odd, *records = self._histograms.row_buffers()
            counts = number == len(self.rounded)
            offset = u64(0 if counts else number * own.n_rows)
            self._runtime.launch(
                load, groups, even, odd, on_device, own.upload_count(n_nodes), own.buffer("kept outputs"), offset,
                u32(counts), *records,
            )  # fmt: skip
            self._histograms.build(tree, nodes, slots[:, number])

    def find(
        self, tree: GrowingTree, nodes: Segments, slots: NDArray[np.int32], sums: NDArray[np.int64], rules: SplitRules
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Find the best splits; see engine.Engine.find_output_splits."""
        own, layout, n_nodes, n_outputs = self.workspace, self.layout, len(slots), sums.shape[1]
        splits, left = np.zeros(n_nodes, SPLIT), np.zeros(sums.shape, np.int64)
        if layout.n_used == 0 or n_nodes == 0:
            splits["gain"], splits["feature"], splits["bin"] = -np.inf, -1, -1
            return splits, left
        self._histograms.subtract_pending(tree)
        counted = sums[:, self.counter, 1] if self.counter < n_outputs else nodes.end - nodes.begin
        best, of_left = own.room("best", SPLIT.itemsize * n_nodes), self.make_room(n_nodes, n_nodes)
        own.upload("output slots", np.ascontiguousarray(slots, np.int32))
        own.upload("output sums", np.ascontiguousarray(sums))
        own.upload("output rows", np.ascontiguousarray(counted, np.int64))
        self.upload_rules(rules)
        self.launch_search(own.upload_count(n_nodes), 1, n_nodes, rules, best)
        self._runtime.download(best, splits)
        self._runtime.download(of_left, left)
        splits["left_gradient"], splits["left_hessian"] = 0, 0
        return splits, left

    def upload_rules(self, rules: SplitRules) -> None:
        """Tell the search the rules, and the units of the tree at hand."""
        own = self.workspace
        own.upload("output units", np.array([one.quantization.units for one in self.rounded]))
        if rules is not self._rules:
            numbers = [rules.lambda_l1, rules.lambda_l2, rules.max_delta_step]
            own.upload("output rules", np.array([*numbers, rules.min_gain_to_split, rules.min_sum_hessian_in_leaf]))
            self._rules = rules

    def make_room(self, most_nodes: int, most_numbers: int) -> Buffer:
        """Make room for a search of so many nodes, of such numbers; return that of the sums of left sides."""
        own, n_outputs = self.workspace, len(self.rounded)
        own.room("output slots", 4 * most_nodes * self.n_histograms)
        own.room("output sums", 16 * most_nodes * n_outputs)
        own.room("output rows", 8 * most_nodes)
        for name in ("output gains", "output keys"):
            own.room(name, 8 * most_nodes * self.layout.n_used)
        own.room("output carries", 16 * self._groups(most_nodes) * self.n_histograms)
        return own.room("output left sums", 16 * most_numbers * n_outputs)

    def _groups(self, most_nodes: int) -> int:
        return min(most_nodes * self.layout.n_used, GROUPS_A_UNIT * self.workspace.facts.compute_units)

    def search_kernel(self, name: str) -> Kernel:
        """Return a kernel of split_outputs.cl."""
        layout = self.layout
        sizes = {**layout.options, "stats": STATS, "n_bins": layout.n_bins}
        return self._runtime.kernel(name, self.workspace.variant("split_outputs.cl", **sizes))

    def launch_search(self, count: Buffer, children: int, most_nodes: int, rules: SplitRules, best: Buffer) -> None:
        """Search the nodes whose slots, sums and rows are on the device; see SplitSearch.launch."""
        buffer, n_outputs, n_used = self.workspace.buffer, len(self.rounded), u32(self.layout.n_used)
        histograms, slots, features = buffer("histograms"), buffer("output slots"), buffer("tree features")
        gains, keys, n_tiles = buffer("output gains"), buffer("output keys"), u32(self.layout.n_tiles)
        shape = count, u32(children), u32(n_outputs), u32(self.n_histograms)
        self._runtime.launch(
            self.search_kernel("split_outputs_kernel"), self._groups(most_nodes), histograms, slots,
            buffer("output sums"), buffer("output rows"), buffer("output units"), features, buffer("output rules"),
            *shape, u32(self.counter), n_used, n_tiles, np.int64(rules.min_data_in_leaf), buffer("output carries"),
            gains, keys,
        )  # fmt: skip
        self._runtime.launch(
            self.search_kernel("choose_outputs_kernel"), most_nodes, histograms, slots, features, gains, keys, *shape,
            n_used, n_tiles, best, buffer("output left sums"),
        )  # fmt: skip


class OutputsAhead:
    """What a round does otherwise where the device grows a tree that all outputs share by itself: growth.py.

    Histogram k of the node in slot s is in slot s * n_histograms + k; each kernel does all of them in one launch.

    n_slots   of nodes
    key       what launches depend on besides what all trees do
    left      int64 (n_nodes, n_outputs, 2): sums of the left sides of a tree's splits, once it is grown
    """

    def __init__(self, outputs: DeviceOutputs, tree: GrowingTree) -> None:
        self._outputs, self._workspace = outputs, outputs.workspace
        self._runtime, self._layout = self._workspace.runtime, outputs.layout
        self.n_histograms, self.n_slots = outputs.n_histograms, tree.n_slots // outputs.n_histograms
        self.n_outputs, self.key = len(outputs.rounded), (self.n_histograms, outputs.counter)
        self.left = np.empty((0, self.n_outputs, 2), np.int64)
        self.slot_size = self.n_histograms * self._layout.slot_size(STATS)
        self.groups_a_pass = max(1, tree.kernels.groups_a_pass // self.n_histograms)
        variant, local_bytes = histogram_variant(self._workspace.facts, self._layout, outputs.is_wide, STATS)
        self._sum = self._runtime.kernel("histogram_kernel", replace(variant, outputs=True), local_bytes)
        self._clear, self._n_passes = tree.kernels.zero, tree.kernels.n_passes

    def prepare(self, most_nodes: int, most_numbers: int, rules: SplitRules) -> Buffer:
        """Make room for rounds of so many nodes; return where the sums of left sides will be, by number."""
        left = self._outputs.make_room(most_nodes, most_numbers)
        self._outputs.upload_rules(rules)
        return left

    def sum_root(self, n_rows: int, depth: int) -> None:
        """Sum all histograms of the root into slot 0."""
        own, root = self._workspace, Segments(np.array([0]), np.array([n_rows]), np.array([depth], np.int32))
        chunk = chunk_rows(n_rows, self.groups_a_pass)
        table = node_table(root, chunk, np.array([0], np.int32))
        table[1, -1] = chunk
        on_device, one = own.upload("table", table), own.upload_once("one", ONE)
        groups = min(own.groups, max(1, self.slot_size // (4 * self._clear.threads)))
        self._runtime.launch(
            self._clear, groups, on_device, one, u32(self.groups_a_pass), u32(self.slot_size), own.buffer("histograms")
        )
        self.launch_sums(on_device, one)

    def launch_sums(self, table: Buffer, count: Buffer) -> None:
        """Sum as the table on the device says: see DeviceHistograms.launch."""
        own, buffer, groups = self._workspace, self._workspace.buffer, self.groups_a_pass
        rows = buffer("rows even"), buffer("rows odd"), buffer("records even"), buffer("records odd")
        self._runtime.launch(
            self._sum, groups * self._n_passes * self.n_histograms, buffer("tiles"), *rows, table, count, u32(groups),
            u32(own.n_rows), u32(self._layout.n_tiles), buffer("histograms"), buffer("kept outputs"),
            u32(self.n_outputs), u32(self.n_histograms),
        )  # fmt: skip

    def launch_search(
        self, search: Buffer, count: Buffer, children: int, most_nodes: int, rules: SplitRules, best: Buffer
    ) -> None:
        """Subtract, and search the nodes of a table: see SplitSearch.launch."""
        own, outputs, n_tiles = self._workspace, self._outputs, u32(self._layout.n_tiles)
        histograms, n_histograms = own.buffer("histograms"), u32(self.n_histograms)
        subtract, total = (outputs.search_kernel(name) for name in ("subtract_outputs_kernel", "sum_outputs_kernel"))
        self._runtime.launch(subtract, own.groups, histograms, search, count, u32(children), n_histograms, n_tiles)
        self._runtime.launch(
            total, min(own.groups, most_nodes * self.n_histograms), histograms, search, count, u32(children),
            u32(self.n_outputs), n_histograms, u32(outputs.counter), n_tiles,
            *(own.buffer(name) for name in ("output slots", "output sums", "output rows")),
        )  # fmt: skip
        outputs.launch_search(count, children, most_nodes, rules, best)


def output_bytes(layout: Layout, n_outputs: int, n_leaves: int) -> int:
    """Return the bytes of a round's search (gains and keys by feature, sums by output), of left sides and of leaves."""
    return 2 * n_leaves * (16 * layout.n_used + 40 * n_outputs) + (16 * CAPACITY + 24 * n_leaves) * n_outputs
