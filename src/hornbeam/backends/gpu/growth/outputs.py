"""Trees that all outputs share, on a GPU: gradients of all outputs by row, their histograms, and the split search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.histograms import DeviceHistograms
from hornbeam.backends.gpu.losses.quantize import Rounded
from hornbeam.backends.gpu.runtime.runtime import Kernel, u32, u64
from hornbeam.backends.gpu.runtime.tables import node_table
from hornbeam.backends.gpu.workspace.tree_kernels import GrowingTree
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
        self._workspace, self._runtime, self._layout = workspace, workspace.runtime, layout
        self._histograms = histograms
        self.rounded: Sequence[Rounded] = ()
        self.counter = 0

    @property
    def is_wide(self) -> bool:
        """Whether the records of the tree are wide: one of the outputs needs that."""
        return any(rounded.quantization.wide for rounded in self.rounded)

    def keep(self, output: int, n_outputs: int, wide: bool, n_tree: int, is_bag: bool) -> None:
        """Keep the rounded gradients of an output, which are in the records of the root."""
        own, n_rows = self._workspace, self._workspace.n_rows
        kept = own.room("kept outputs", 8 * n_outputs * n_rows)
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

    def _kernel(self, name: str, wide: bool) -> Kernel:
        return self._runtime.kernel(name, self._workspace.variant("load_outputs.cl", wide=wide))

    def begin_tree(self) -> None:
        """Make room for the records of the tree, which may be wider than those of the last output."""
        for name in ("records even", "records odd"):
            self._workspace.room(name, (8 if self.is_wide else 4) * self._workspace.n_rows)

    def build(self, tree: GrowingTree, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum every histogram of each node, int32 (n_nodes, n_histograms), one after the other."""
        own, load = self._workspace, self._kernel("load_kernel", self.is_wide)
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
        own, layout, n_nodes, n_outputs = self._workspace, self._layout, len(slots), sums.shape[1]
        splits, left = np.zeros(n_nodes, SPLIT), np.zeros(sums.shape, np.int64)
        if layout.n_used == 0 or n_nodes == 0:
            splits["gain"], splits["feature"], splits["bin"] = -np.inf, -1, -1
            return splits, left
        self._histograms.subtract_pending(tree)
        sizes = {**layout.options, "stats": STATS, "n_bins": layout.n_bins}
        variant, n_used = own.variant("split_outputs.cl", **sizes), layout.n_used
        search, choose = (self._runtime.kernel(name, variant) for name in KERNELS)
        counted = sums[:, self.counter, 1] if self.counter < n_outputs else nodes.end - nodes.begin
        numbers = [rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, rules.min_gain_to_split]
        histograms, features = own.buffer("histograms"), own.buffer("tree features")
        on_device = own.upload("output slots", np.ascontiguousarray(slots, np.int32))
        gains, keys = (own.room(name, 8 * n_nodes * n_used) for name in ("output gains", "output keys"))
        groups = min(n_nodes * n_used, GROUPS_A_UNIT * own.facts.compute_units)
        carries = own.room("output carries", 16 * groups * slots.shape[1])
        shape = u32(n_nodes), u32(n_outputs), u32(slots.shape[1])
        self._runtime.launch(
            search, groups, histograms, on_device, own.upload("output sums", np.ascontiguousarray(sums)),
            own.upload("output rows", np.ascontiguousarray(counted, np.int64)),
            own.upload("output units", np.array([one.quantization.units for one in self.rounded])), features,
            own.upload("output rules", np.array([*numbers, rules.min_sum_hessian_in_leaf])), *shape, u32(self.counter),
            u32(n_used), u32(layout.n_tiles), np.int64(rules.min_data_in_leaf), carries, gains, keys,
        )  # fmt: skip
        best, of_left = own.room("best", SPLIT.itemsize * n_nodes), own.room("output left sums", left.nbytes)
        self._runtime.launch(
            choose, n_nodes, histograms, on_device, features, gains, keys, *shape, u32(n_used), u32(layout.n_tiles),
            best, of_left,
        )  # fmt: skip
        self._runtime.download(best, splits)
        self._runtime.download(of_left, left)
        return splits, left


KERNELS = ("split_outputs_kernel", "choose_outputs_kernel")


def output_bytes(layout: Layout, n_outputs: int, n_leaves: int) -> int:
    """Return the bytes of the search of a round: gains and keys by feature, and sums by output."""
    return 2 * n_leaves * (16 * layout.n_used + 40 * n_outputs)
