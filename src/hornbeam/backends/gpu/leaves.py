"""Leaves on a GPU: each row's leaf number, sums and percentiles of the leaves, and their values in the scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.bag import DeviceBag
from hornbeam.backends.gpu.quantize import TreeRows
from hornbeam.backends.gpu.renewal import DeviceRenewal
from hornbeam.backends.gpu.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.tables import node_table
from hornbeam.backends.gpu.workspace import Workspace
from hornbeam.backends.protocol import LeavesLater, Segments
from hornbeam.quantize import exact_exponent
from hornbeam.splitting import SplitRules

LEAF_CLASSES = (64, 256, 1024)
"""Most leaves whose sums are added in local memory, 24 bytes each; with more leaves, in global memory."""


class DeviceLeaves:
    """The leaves of the tree at hand; `leaf` is u16 (n_rows,)."""

    def __init__(self, workspace: Workspace, bag: DeviceBag) -> None:
        self._workspace, self._runtime, self._bag = workspace, workspace.runtime, bag
        self._variant = workspace.variant("leaves.cl")
        self._n_leaves = 0
        self._renewal = DeviceRenewal(workspace, bag)
        self._nodes: tuple[Segments, NDArray[np.int32]]  # what `assign` was given
        workspace.room("leaf", 2 * workspace.n_rows)
        workspace.room("leaf sums", 24 * 256)

    def assign(self, rows: tuple[Buffer, Buffer], nodes: Segments, leaves: NDArray[np.int32]) -> None:
        """Write each row's leaf number; rows of even and of odd depth."""
        self._nodes = nodes, leaves
        own, kernel = self._workspace, self._runtime.kernel("assign_kernel", self._variant)
        table = node_table(nodes, 8 * kernel.threads, leaves)
        groups = min(own.groups, max(1, int(table[0, -1])))
        self._runtime.launch(kernel, groups, *rows, own.upload("table", table), u32(len(leaves)), own.buffer("leaf"))

    def sums(
        self, rows: TreeRows, largest: tuple[float, float], n_leaves: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients and hessians per leaf in wide fixed point."""
        exponents = self._launch_sums(rows, largest, n_leaves)
        found = np.empty((n_leaves, 2), np.int64)
        self._runtime.download(self._workspace.buffer("leaf sums"), found)
        total = found.astype(np.float64)
        return total[:, 0] * 2.0 ** -exponents[0], total[:, 1] * 2.0 ** -exponents[1]

    def _launch_sums(self, rows: TreeRows, largest: tuple[float, float], n_leaves: int) -> tuple[int, int]:
        """Sum into `leaf sums`; returns the exponents of the scales."""
        own, runtime = self._workspace, self._runtime
        leaf = self._bag.take_leaves() if self._bag else own.buffer("leaf")
        exponents = exact_exponent(largest[0], rows.n_rows), exact_exponent(largest[1], rows.n_rows)
        fits = [most for most in LEAF_CLASSES if n_leaves <= most]
        kernel = runtime.kernel("leaf_sums_kernel", own.variant("leaves.cl", leaves=fits[0] if fits else 0))
        rows_a_group = min(65_536, max(4096, -(-rows.n_rows // own.groups)))
        sums = own.room("leaf sums", 24 * max(n_leaves, 256))
        runtime.zero(sums, 16 * n_leaves)
        runtime.launch(
            kernel, -(-rows.n_rows // rows_a_group), rows.gradient, rows.hessian, u64(rows.offset), leaf,
            np.float64(2.0 ** exponents[0]), np.float64(2.0 ** exponents[1]), u32(rows.n_rows), u32(rows_a_group),
            u32(n_leaves), sums,
        )  # fmt: skip
        return exponents

    def values_later(
        self, rows: TreeRows, largest: tuple[float, float], n_leaves: int, rules: SplitRules, learning_rate: float
    ) -> LeavesLater:
        """Compute values from the sums, behind them in `leaf sums`; see protocol.Engine.leaf_values_later."""
        own = self._workspace
        exponents = self._launch_sums(rows, largest, n_leaves)
        sums, scale = own.buffer("leaf sums"), 2.0 ** -exponents[1]
        self._n_leaves = n_leaves
        own.launch_over(
            n_leaves, self._runtime.kernel("leaf_values_kernel", self._variant), sums, np.float64(2.0 ** -exponents[0]),
            np.float64(scale), np.float64(rules.lambda_l1), np.float64(rules.lambda_l2),
            np.float64(rules.max_delta_step), np.float64(learning_rate), u32(n_leaves),
        )  # fmt: skip
        found = np.empty(3 * n_leaves, np.int64)
        wait = self._runtime.download_later(sums, found)

        def fetch() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            wait()
            return found[2 * n_leaves :].view(np.float64), found[1 : 2 * n_leaves : 2].astype(np.float64) * scale

        return fetch

    def renew(
        self,
        output: int,
        percentile: float,
        label: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        n_leaves: int,
    ) -> NDArray[np.float64]:
        """Find the percentile of each leaf's residuals."""
        return self._renewal.renew(*self._nodes, output, percentile, label, weight, n_leaves)

    def add_values(self, output: int, leaf_value: NDArray[np.float64] | None) -> None:
        """Add each row's leaf value to its score; None: what values_later has computed."""
        own = self._workspace
        values, first = own.buffer("leaf sums"), 2 * self._n_leaves
        if leaf_value is not None:
            values, first = own.upload("values", np.ascontiguousarray(leaf_value, np.float64)), 0
        kernel = self._runtime.kernel("add_values_kernel", self._variant)
        offset = u64(output * own.n_rows)
        own.launch_rows(kernel, own.buffer("scores"), offset, own.buffer("leaf"), values, u32(first), u32(own.n_rows))
