"""Leaves on a GPU: each row's leaf number, sums and percentiles of the leaves, and their values in the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.bag import DeviceBag
from hornbeam.backends.gpu.growth.renewal import DeviceRenewal
from hornbeam.backends.gpu.losses.row_gradients import RowGradients
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, Variant, u32, u64
from hornbeam.backends.gpu.runtime.tables import node_table
from hornbeam.backends.gpu.workspace.tree_kernels import CAPACITY
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.trees.records import LeafRenewal, LeavesLater, Segments
from hornbeam.trees.splitting import SplitRules

LEAF_CLASSES = (64, 256, 1024)
"""Most leaves whose sums are added in local memory, 24 bytes each; with more leaves, in global memory."""

NUMBERING_THREADS = 512
"""Threads of leaf_numbers.cl, one group."""


def numbering_variant(workspace: Workspace, in_context: bool) -> Variant:
    """Return the file that numbers the leaves of a tree on the device."""
    variant = workspace.variant("leaf_numbers.cl", NUMBERING_THREADS, capacity=CAPACITY, context=in_context)
    return replace(variant, each=CAPACITY // variant.threads)


def sums_variant(workspace: Workspace, n_leaves: int, options: dict[str, int]) -> Variant:
    """Return the file that sums gradients with these options (RowGradients.options) by leaf."""
    fits = [most for most in LEAF_CLASSES if n_leaves <= most]
    return workspace.variant("leaves.cl", leaves=fits[0] if fits else 0, **options)


def _exponents(rows: RowGradients, largest: tuple[float, float]) -> tuple[int, int]:
    """Return the exponents of the scales with which the gradients and hessians of rows are summed."""
    return exact_exponent(largest[0], rows.n_rows), exact_exponent(largest[1], rows.n_rows)


def _leaf_rules(rules: SplitRules, learning_rate: float) -> tuple[np.float64, ...]:
    """Return what kernels take of the rules for the values of leaves."""
    numbers = rules.min_sum_hessian_in_leaf, rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, learning_rate
    return tuple(map(np.float64, numbers))


class DeviceLeaves:
    """The leaves of the tree at hand; `leaf` is u16 (n_rows,)."""

    def __init__(self, workspace: Workspace, bag: DeviceBag) -> None:
        self._workspace, self._runtime, self._bag = workspace, workspace.runtime, bag
        self._variant = workspace.variant("leaves.cl")
        self._n_leaves = self._n_outputs = 0  # of the values behind the sums; 0 outputs: those of one tree
        self._numbering: dict[bool, Kernel] = {}  # by whether nodes are in contexts
        self._output_kernels: dict[int, tuple[Kernel, Kernel]] = {}  # by the most leaves
        self._nodes: tuple[Segments, NDArray[np.int32]]  # what `assign` was given
        self._assign = self._runtime.kernel("assign_kernel", self._variant)
        self._renewal = DeviceRenewal(workspace, bag, self._tile_rows)
        leaf = workspace.room("leaf", 2 * workspace.n_rows + 2)
        self._runtime.zero(
            leaf, (2 * workspace.n_rows + 3) // 4 * 4
        )  # `finish_ahead` may sum a tree that is not finished
        workspace.room("leaf sums", 24 * 256)
        workspace.room("leaf table", 20 * (CAPACITY + 1))
        workspace.room("leaf count", 4)

    def assign(self, rows: tuple[Buffer, Buffer], nodes: Segments, leaves: NDArray[np.int32]) -> None:
        """Write each row's leaf number; rows of even and of odd depth."""
        self._nodes = nodes, leaves
        own = self._workspace
        table = node_table(nodes, self._tile_rows, leaves)
        groups = min(own.groups, max(1, int(table[0, -1])))
        on_device, count = own.upload("table", table), own.upload_count(len(leaves))
        self._runtime.launch(self._assign, groups, *rows, on_device, count, own.buffer("leaf"))

    @property
    def _tile_rows(self) -> int:
        """Rows of a tile of assign_kernel."""
        return 8 * self._assign.threads

    def finish_ahead(
        self,
        state: Buffer,
        order: Buffer,
        rows: tuple[Buffer, Buffer],
        tree_rows: RowGradients,
        largest: tuple[float, float],
        most_leaves: int,
        rules: SplitRules,
        learning_rate: float,
        renewal: LeafRenewal | None = None,
    ) -> Callable[[int], LeavesLater]:
        """Assign leaves and compute their values for a tree that the host does not know (growth/leaf_numbers.cl).

        state, order  as in kernels/growth/select.cl
        rows          of even and of odd depth
        renewal       what the values come from; None: the sums of gradients and hessians

        Returns what to call with the number of leaves once the tree is known to be finished. If it is not, all this was
        for nothing: rows keep the leaf numbers that they had.
        """
        in_context = rules.outputs_in_context and renewal is None
        nodes = self._number_ahead(state, order, rows, most_leaves, most_leaves, in_context)
        exponents = _exponents(tree_rows, largest)
        self._launch_sums(tree_rows, exponents, most_leaves)
        if renewal is not None:
            self._n_leaves, self._n_outputs = most_leaves, 0
            self._renewal.launch_values(renewal, most_leaves, rules.max_delta_step, learning_rate)
        elif nodes is None:
            self._launch_values(exponents, most_leaves, rules, learning_rate)
        else:
            self._launch_values_in_context(state, nodes, exponents, most_leaves, rules, learning_rate)
        hessian_unit = 2.0 ** -exponents[1]
        return lambda n_leaves: self._fetch_later(n_leaves, hessian_unit)

    def _number_ahead(
        self,
        state: Buffer,
        order: Buffer,
        rows: tuple[Buffer, Buffer],
        most_leaves: int,
        n_sums: int,
        in_context: bool,
    ) -> Buffer | None:
        """Assign the leaves of a tree that the host does not know, and clear as many sums.

        Returns the node of every leaf, where nodes are in contexts.
        """
        own, runtime = self._workspace, self._runtime
        nodes = own.room("leaf nodes", 4 * most_leaves) if in_context else None
        table, count = own.buffer("leaf table"), own.buffer("leaf count")
        sums = own.room("leaf sums", 24 * max(n_sums, 256))
        if in_context not in self._numbering:
            self._numbering[in_context] = runtime.kernel("leaf_numbers_kernel", numbering_variant(own, in_context))
        runtime.launch(
            self._numbering[in_context], 1, state, order, u32(self._tile_rows), u32(n_sums), table, count, sums,
            *(() if nodes is None else (nodes,)),
        )  # fmt: skip
        runtime.launch(self._assign, own.groups_over(own.n_rows, self._assign), *rows, table, count, own.buffer("leaf"))
        return nodes

    def finish_outputs_ahead(
        self,
        state: Buffer,
        order: Buffer,
        rows: tuple[Buffer, Buffer],
        tree_rows: RowGradients,
        largest: Sequence[tuple[float, float]],
        most_leaves: int,
        rules: SplitRules,
        learning_rate: float,
    ) -> Callable[[int], LeavesLater]:
        """Do what finish_ahead does for a tree that all outputs share.

        tree_rows  stored gradients of all rows, those of the first output
        largest    of every output
        """
        own, runtime, n_outputs = self._workspace, self._runtime, len(largest)
        self._n_leaves, self._n_outputs = most_leaves, n_outputs
        self._number_ahead(state, order, rows, most_leaves, n_outputs * most_leaves, False)
        exponents = np.array([_exponents(tree_rows, one) for one in largest])
        scales = own.upload("output scales", np.concatenate([2.0**exponents, 2.0**-exponents], axis=1))
        sums, n_rows = own.buffer("leaf sums"), tree_rows.n_rows
        if most_leaves not in self._output_kernels:
            variant = replace(sums_variant(own, most_leaves, tree_rows.options), outputs=True)
            kernels = runtime.kernel("leaf_sums_kernel", variant), runtime.kernel("output_values_kernel", variant)
            self._output_kernels[most_leaves] = kernels
        sum_, evaluate = self._output_kernels[most_leaves]
        rows_a_group = self._rows_a_group(n_rows * n_outputs)
        runtime.launch(
            sum_, n_outputs * max(1, -(-n_rows // rows_a_group)), *tree_rows.arguments, own.buffer("leaf"), scales,
            u32(n_rows), u32(rows_a_group), u32(most_leaves), sums,
        )  # fmt: skip
        own.launch_over(
            n_outputs * most_leaves, evaluate, sums, scales,
            *_leaf_rules(rules, learning_rate), u32(n_outputs), u32(most_leaves),
        )  # fmt: skip
        hessian_units = 2.0 ** -exponents[:, 1:]
        return lambda n_leaves: self._fetch_outputs_later(n_leaves, hessian_units)

    def _fetch_outputs_later(self, n_leaves: int, hessian_units: NDArray[np.float64]) -> LeavesLater:
        """Start to fetch the values, and the hessian sums, of the first leaves of all outputs."""
        n_outputs, room = self._n_outputs, self._n_leaves
        found = np.empty(3 * n_outputs * room, np.int64)
        wait = self._runtime.download_later(self._workspace.buffer("leaf sums"), found)

        def fetch() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            wait()
            sums, values = found[: 2 * n_outputs * room], found[2 * n_outputs * room :].view(np.float64)
            hessians = sums.reshape(n_outputs, room, 2)[:, :n_leaves, 1].astype(np.float64) * hessian_units
            return values.reshape(n_outputs, room)[:, :n_leaves].copy(), hessians

        return fetch

    def sums(
        self, rows: RowGradients, largest: tuple[float, float], n_leaves: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients and hessians per leaf in wide fixed point."""
        exponents = _exponents(rows, largest)
        total = self.integers(rows, exponents, n_leaves).astype(np.float64)
        return total[:, 0] * 2.0 ** -exponents[0], total[:, 1] * 2.0 ** -exponents[1]

    def integers(self, rows: RowGradients, exponents: tuple[int, int], n_leaves: int) -> NDArray[np.int64]:
        """Return the sums of gradients and hessians of each leaf, times two to the exponents, int64 (n_leaves, 2)."""
        self._clear_sums(n_leaves)
        self._launch_sums(rows, exponents, n_leaves)
        found = np.empty((n_leaves, 2), np.int64)
        self._runtime.download(self._workspace.buffer("leaf sums"), found)
        return found

    def _rows_a_group(self, n_rows: int) -> int:
        """Return the rows that a group sums, of so many: see SLICE in kernels/growth/leaves.cl."""
        return min(65_536, max(4096, -(-n_rows // self._workspace.groups)))

    def _launch_sums(self, rows: RowGradients, exponents: tuple[int, int], n_leaves: int) -> None:
        """Sum into `leaf sums`, zeros now, with these exponents of the scales."""
        own, runtime = self._workspace, self._runtime
        leaf = self._bag.take_leaves() if self._bag else own.buffer("leaf")
        kernel = runtime.kernel("leaf_sums_kernel", sums_variant(own, n_leaves, rows.options))
        rows_a_group = self._rows_a_group(rows.n_rows)
        runtime.launch(
            kernel, max(1, -(-rows.n_rows // rows_a_group)), *rows.arguments, leaf,
            np.float64(2.0 ** exponents[0]), np.float64(2.0 ** exponents[1]), u32(rows.n_rows), u32(rows_a_group),
            u32(n_leaves), own.buffer("leaf sums"),
        )  # fmt: skip

    def _launch_values(
        self, exponents: tuple[int, int], n_leaves: int, rules: SplitRules, learning_rate: float
    ) -> None:
        """Compute values behind the sums, whose scales have these exponents."""
        self._n_leaves, self._n_outputs = n_leaves, 0
        self._workspace.launch_over(
            n_leaves, self._runtime.kernel("leaf_values_kernel", self._variant), self._workspace.buffer("leaf sums"),
            np.float64(2.0 ** -exponents[0]), np.float64(2.0 ** -exponents[1]), *_leaf_rules(rules, learning_rate),
            u32(n_leaves),
        )  # fmt: skip

    def _launch_values_in_context(
        self,
        state: Buffer,
        nodes: Buffer,
        exponents: tuple[int, int],
        n_leaves: int,
        rules: SplitRules,
        learning_rate: float,
    ) -> None:
        """Compute the same where they depend on the nodes above the leaves."""
        own = self._workspace
        kernel = self._runtime.kernel("values_in_context_kernel", own.variant("contexts.cl"))
        self._n_leaves, self._n_outputs = n_leaves, 0
        own.launch_over(
            n_leaves, kernel, state, own.buffer("leaf count"), nodes, own.buffer("contexts"), own.buffer("leaf sums"),
            np.float64(2.0 ** -exponents[0]), np.float64(2.0 ** -exponents[1]),
            np.float64(rules.min_sum_hessian_in_leaf), np.float64(rules.lambda_l1), np.float64(rules.lambda_l2),
            np.float64(rules.max_delta_step), np.float64(rules.path_smooth), u32(rules.monotone),
            np.float64(learning_rate), u32(n_leaves),
        )  # fmt: skip

    def _fetch_later(self, n_leaves: int, hessian_unit: float) -> LeavesLater:
        """Start to fetch the values, and the hessian sums, of the first leaves."""
        room = self._n_leaves
        found = np.empty(3 * room, np.int64)
        wait = self._runtime.download_later(self._workspace.buffer("leaf sums"), found)

        def fetch() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            wait()
            values = found[2 * room : 2 * room + n_leaves].view(np.float64)
            return values, found[1 : 2 * n_leaves : 2].astype(np.float64) * hessian_unit

        return fetch

    def values_later(
        self, rows: RowGradients, largest: tuple[float, float], n_leaves: int, rules: SplitRules, learning_rate: float
    ) -> LeavesLater:
        """Compute values from the sums, behind them in `leaf sums`; see engine.Engine.leaf_values_later."""
        self._clear_sums(n_leaves)
        exponents = _exponents(rows, largest)
        self._launch_sums(rows, exponents, n_leaves)
        self._launch_values(exponents, n_leaves, rules, learning_rate)
        return self._fetch_later(n_leaves, 2.0 ** -exponents[1])

    def _clear_sums(self, n_leaves: int) -> None:
        sums = self._workspace.room("leaf sums", 24 * max(n_leaves, 256))
        self._runtime.zero(sums, 16 * n_leaves)

    def renew(self, renewal: LeafRenewal, n_leaves: int) -> NDArray[np.float64]:
        """Find the percentile, or the minimum, of each leaf's residuals."""
        return self._renewal.renew(*self._nodes, renewal, n_leaves)

    def add_values(self, output: int, leaf_value: NDArray[np.float64] | None) -> None:
        """Add each row's leaf value to its score; None: what values_later has computed."""
        own = self._workspace
        if leaf_value is not None:
            self._launch_add(output, own.upload("values", np.ascontiguousarray(leaf_value, np.float64)), 0)
            return
        values, first = own.buffer("leaf sums"), 2 * self._n_leaves
        if self._n_outputs > 0:
            first = (2 * self._n_outputs + output) * self._n_leaves
        own.repeatable(f"values of output {output}", first, lambda: self._launch_add(output, values, first))()

    def _launch_add(self, output: int, values: Buffer, first: int) -> None:
        own, kernel = self._workspace, self._runtime.kernel("add_values_kernel", self._variant)
        offset = u64(output * own.n_rows)
        own.launch_rows(kernel, own.buffer("scores"), offset, own.buffer("leaf"), values, u32(first), u32(own.n_rows))
