"""Leaf values as percentiles of residuals on a GPU, or as minima of log(cosh): only they come back.

See kernels/growth/renewal.cl and kernels/growth/logcosh_leaves.cl.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.bag import DeviceBag
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32, u64
from hornbeam.backends.gpu.runtime.tables import node_table
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.columns import Column
from hornbeam.objectives.logcosh_leaves import LAST_STEP, MOST_STEPS
from hornbeam.trees.records import Segments

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
"""Nodes and leaves are filled up with empty ones to a multiple of so many: launches are then those of the last tree."""


def filled(number: int) -> int:
    """Return the next multiple of FILLED."""
    return number + -number % FILLED


def _with_empty_nodes(table: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return a table of nodes (tables.node_table) with nodes of no rows behind them."""
    n_nodes = table.shape[1] - 1
    more = np.zeros((len(table), filled(n_nodes) + 1), np.uint32)
    more[:, : n_nodes + 1] = table
    more[0, n_nodes:] = table[0, n_nodes]
    return more


class DeviceRenewal:
    """The renewal of leaves on one device.

    Parameters
    ----------
    workspace
        The engine's.
    bag
        The rows of the trees.
    """

    def __init__(self, workspace: Workspace, bag: DeviceBag) -> None:
        self._workspace, self._runtime, self._bag = workspace, workspace.runtime, bag

    def renew(
        self,
        nodes: Segments,
        leaves: NDArray[np.int32],
        output: int,
        percentile: float,
        label: Column,
        weight: Column | None,
        n_leaves: int,
        logcosh: bool,
    ) -> NDArray[np.float64]:
        """Return the percentile, or the minimum, of each leaf's residuals; see engine.Engine.renew_leaves.

        nodes, leaves  what own the rows of the tree, and int32 (n_nodes,) their leaves
        """
        own, runtime, n_rows = self._workspace, self._runtime, self._workspace.n_rows
        n_tree = self._bag.n_in_bag or n_rows
        scaled = bool(self._bag) and self._bag.n_plain < self._bag.n_in_bag
        weighted = weight is not None or scaled
        residuals, count, pick = (
            self._kernel(name, weighted) for name in ("residuals_kernel", "count_kernel", "pick_kernel")
        )
        on_host = _with_empty_nodes(node_table(nodes, 8 * residuals.threads, leaves))
        table, n_nodes = own.upload("leaf table", on_host), on_host.shape[1] - 1
        weights, partial, n_partial = self._weights(weight, n_tree) if weighted else (table, table, 0)
        keys = own.room("residuals", 8 * n_tree)
        fixed = own.room("residual weights", 8 * n_tree if weighted else 8)
        on_label = own.upload_once("label", label)
        rows = own.buffer("rows even"), own.buffer("rows odd")
        scores, offset = own.buffer("scores"), u64(output * n_rows)
        n_all = filled(n_leaves)
        state, values = own.room("renewal", LEAF_BYTES * n_all), own.room("renewed values", 8 * n_all)
        most = min(n_all, LEAVES_AT_ONCE)
        counts = own.room("renewal counts", COUNTS_BYTES * most)

        def find_percentiles() -> None:
            runtime.launch(
                residuals, own.groups, *rows, table, u32(n_nodes), scores, offset, on_label, weights, u64(n_tree),
                partial, u32(n_partial), keys, fixed,
            )  # fmt: skip
            runtime.zero(state, LEAF_BYTES * n_all)
            runtime.zero(counts, COUNTS_BYTES * most)
            for first in range(0, n_all, most):
                last = min(first + most, n_all)
                for step in range(N_DIGITS):
                    which = u32(step), u32(first), u32(last)
                    runtime.launch(count, own.groups, table, u32(n_nodes), keys, fixed, *which, state, counts)
                    runtime.launch(
                        pick, min(own.groups, last - first), *which, np.float64(percentile), state, counts, values
                    )

        same = n_nodes, n_all, percentile, weighted, bool(self._bag), n_tree, n_partial
        own.repeatable(f"percentiles of output {output}", same, find_percentiles)()
        if logcosh:
            self._to_minima(table, n_nodes, keys, fixed, weighted, n_tree, values, n_leaves)
        found = np.empty(n_leaves)
        runtime.download(values, found)
        return found

    def _to_minima(
        self,
        table: Buffer,
        n_nodes: int,
        keys: Buffer,
        fixed: Buffer,
        weighted: bool,
        n_tree: int,
        values: Buffer,
        n_leaves: int,
    ) -> None:
        """Lead the values of leaves from the median to the minimum of log(cosh); see objectives/logcosh_leaves.py."""
        own, runtime = self._workspace, self._runtime
        variant = own.variant("logcosh_leaves.cl", wide=weighted)
        slopes, step = runtime.kernel("slopes_kernel", variant), runtime.kernel("step_kernel", variant)
        state = own.room("slopes", SLOPE_BYTES * n_leaves)
        runtime.zero(state, SLOPE_BYTES * n_leaves)
        for _ in range(MOST_STEPS):
            runtime.launch(slopes, own.groups, table, u32(n_nodes), keys, fixed, u64(n_tree), values, state)
            runtime.launch(step, own.groups_over(n_leaves, step), u32(n_leaves), np.float64(LAST_STEP), values, state)

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
