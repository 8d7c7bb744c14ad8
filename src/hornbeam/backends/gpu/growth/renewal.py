"""Leaf values as percentiles of residuals on a GPU, or as minima of log(cosh): only they come back, if anything does.

See kernels/growth/renewal.cl and kernels/growth/logcosh_leaves.cl.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.bag import DeviceBag
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32, u64
from hornbeam.backends.gpu.runtime.tables import node_table
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.columns import Column
from hornbeam.objectives.logcosh_leaves import LAST_STEP, MOST_STEPS
from hornbeam.trees.records import LeafRenewal, Segments

LEAF_BYTES = 48
"""renewal.cl's leaf_t."""

COUNTS_BYTES = 4096
"""Weight by digit, of a leaf."""

LEAVES_AT_ONCE = 4096
"""Leaves whose percentiles are searched together: 16 MB of counts."""

N_DIGITS = 8

SLOPE_BYTES = 24
"""logcosh_leaves.cl's slope_t."""


FILLED = 64
"""Leaves are filled up with empty ones to a multiple of so many: launches are then those of the last tree."""


def filled(number: int) -> int:
    """Return the next multiple of FILLED."""
    return number + -number % FILLED


class DeviceRenewal:
    """The renewal of leaves on one device.

    The nodes of a tree, which own its rows, and their leaves are in the buffer "leaf table", and their number in
    "leaf count": by the host, or by leaf_numbers.cl where it does not know the tree.

    Parameters
    ----------
    workspace
        The engine's.
    bag
        The rows of the trees.
    tile_rows
        Rows of a tile of the table.
    """

    def __init__(self, workspace: Workspace, bag: DeviceBag, tile_rows: int) -> None:
        self._workspace, self._runtime, self._bag, self._tile_rows = workspace, workspace.runtime, bag, tile_rows

    def renew(
        self, nodes: Segments, leaves: NDArray[np.int32], renewal: LeafRenewal, n_leaves: int
    ) -> NDArray[np.float64]:
        """Return the percentile, or the minimum, of each leaf's residuals; see engine.Engine.renew_leaves.

        nodes, leaves  what own the rows of the tree, and int32 (n_nodes,) their leaves
        """
        own = self._workspace
        own.upload("leaf table", node_table(nodes, self._tile_rows, leaves))
        own.upload("leaf count", np.array([len(leaves)], np.uint32))
        found = np.empty(n_leaves)
        self._runtime.download(self._launch(renewal, n_leaves), found)
        return found

    def launch_values(self, renewal: LeafRenewal, n_leaves: int, max_delta_step: float, learning_rate: float) -> None:
        """Find the same, and put what grower.renewed_leaves makes of it behind the leaves' sums, without the host."""
        own, kernel = self._workspace, self._kernel("renewed_values_kernel", False)
        most = np.float64(max_delta_step if max_delta_step > 0.0 else np.inf)
        found = self._launch(renewal, n_leaves)
        own.launch_over(
            n_leaves, kernel, found, most, np.float64(learning_rate), u32(n_leaves), own.buffer("leaf sums")
        )

    def _launch(self, renewal: LeafRenewal, n_leaves: int) -> Buffer:
        """Find values of leaves; returns where they will be, float64 (n_leaves,)."""
        own, runtime, n_rows = self._workspace, self._runtime, self._workspace.n_rows
        n_tree = self._bag.n_in_bag or n_rows
        scaled = bool(self._bag) and self._bag.n_plain < self._bag.n_in_bag
        weighted = renewal.weight is not None or scaled
        residuals, count, pick = (
            self._kernel(name, weighted) for name in ("residuals_kernel", "count_kernel", "pick_kernel")
        )
        assert 8 * residuals.threads == self._tile_rows
        table, n_nodes = own.buffer("leaf table"), own.buffer("leaf count")
        weights, partial, n_partial = self._weights(renewal.weight, n_tree) if weighted else (table, table, 0)
        keys = own.room("residuals", 8 * n_tree)
        fixed = own.room("residual weights", 8 * n_tree if weighted else 8)
        label = own.upload_once("label", renewal.label)
        rows = own.buffer("rows even"), own.buffer("rows odd")
        scores, offset = own.buffer("scores"), u64(renewal.output * n_rows)
        n_all = filled(n_leaves)
        state, values = own.room("renewal", LEAF_BYTES * n_all), own.room("renewed values", 8 * n_all)
        most = min(n_all, LEAVES_AT_ONCE)
        counts = own.room("renewal counts", COUNTS_BYTES * most)
        slopes = own.room("slopes", SLOPE_BYTES * n_all) if renewal.logcosh else None

        def find_values() -> None:
            runtime.launch(
                residuals, own.groups, *rows, table, n_nodes, scores, offset, label, weights, u64(n_tree), partial,
                u32(n_partial), keys, fixed,
            )  # fmt: skip
            runtime.zero(state, LEAF_BYTES * n_all)
            runtime.zero(counts, COUNTS_BYTES * most)
            for first in range(0, n_all, most):
                last = min(first + most, n_all)
                for step in range(N_DIGITS):
                    which = u32(step), u32(first), u32(last)
                    runtime.launch(count, own.groups, table, n_nodes, keys, fixed, *which, state, counts)
                    runtime.launch(
                        pick, min(own.groups, last - first), *which, np.float64(renewal.percentile), state, counts,
                        values,
                    )  # fmt: skip
            if slopes is not None:
                runtime.zero(slopes, SLOPE_BYTES * n_all)
                self._to_minima((table, n_nodes, keys, fixed, u64(n_tree), values, slopes), weighted, n_all)

        same = n_all, renewal.percentile, renewal.logcosh, weighted, bool(self._bag), n_tree, n_partial
        own.repeatable(f"percentiles of output {renewal.output}", same, find_values)()
        return values

    def _to_minima(self, rows: tuple[Any, ...], weighted: bool, n_leaves: int) -> None:
        """Lead the values of leaves from the median to the minimum of log(cosh); see objectives/logcosh_leaves.py.

        rows  what slopes_kernel takes, values and slopes last
        """
        own, runtime = self._workspace, self._runtime
        variant = own.variant("logcosh_leaves.cl", wide=weighted)
        slope, step = runtime.kernel("slopes_kernel", variant), runtime.kernel("step_kernel", variant)
        for _ in range(MOST_STEPS):
            runtime.launch(slope, own.groups, *rows)
            runtime.launch(step, own.groups_over(n_leaves, step), u32(n_leaves), np.float64(LAST_STEP), *rows[-2:])

    def _kernel(self, name: str, weighted: bool) -> Kernel:
        return self._runtime.kernel(name, self._workspace.variant("renewal.cl", wide=weighted))

    def _weights(self, weight: Column | None, n_tree: int) -> tuple[Buffer, Buffer, int]:
        """Return the weights of the tree's rows by row, the bits of the largest of each part, and how many parts."""
        own, bag = self._workspace, self._bag
        given = own.upload_once("renewal weight", weight)
        out = own.room("tree weights", 8 * own.n_rows) if bag else given
        kernel = self._kernel("tree_weights_kernel", True)
        groups = own.groups_over(n_tree, kernel)
        partial = own.room("largest weights", 8 * groups)
        self._runtime.launch(
            kernel, groups, given, u32(weight is not None), own.buffer("bag") if bag else given, u32(bool(bag)),
            u32(bag.n_plain if bag else n_tree), u32(n_tree), np.float64(bag.factor), out, partial,
        )  # fmt: skip
        return out, partial, groups
