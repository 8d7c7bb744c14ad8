"""Bags on a GPU: the rows of the trees to come, chosen and compacted on the device; see kernels/growth/bag.cl."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.routing import add_values, launch_route
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32, u64
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.trees.bagging import Bag, Draw, Goss
from hornbeam.trees.records import BinnedTree

STATE = np.dtype(
    [
        ("least", np.uint64),
        ("last", np.uint32),
        ("n_left", np.uint32),
        ("sizes", np.uint32, 3),
        ("digits", np.uint32, 256),
    ],
    align=True,
)
"""bag.cl's bag_t."""

N_DIGITS = 12
"""Bytes of an importance and of a row number: steps to the last top row."""


class DeviceBag:
    """The rows of the trees to come on one device.

    n_plain, n_in_bag, factor  as in bagging.Bag
    is_drawn                   whether there is a bag; n_in_bag is 0 while all rows are chosen, and where the bag of
                               several workers has no row of this one
    """

    def __init__(self, workspace: Workspace, bins: PlacedBins) -> None:
        self._runtime, self._workspace, self._bins = workspace.runtime, workspace, bins
        self._variant = workspace.variant("bag.cl")
        self._clear()

    def _clear(self) -> None:
        self.n_plain = self.n_in_bag = 0
        self.factor, self.is_drawn = 1.0, False

    def __bool__(self) -> bool:
        return self.is_drawn

    def _kernel(self, name: str) -> Kernel:
        return self._runtime.kernel(name, self._variant)

    def choose(self, draw: Draw | Goss | None, n_outputs: int) -> None:
        """Choose rows; see engine.Engine.choose_rows."""
        self._clear()
        if draw is None:
            return
        own, n_rows = self._workspace, self._workspace.n_rows
        state = np.zeros(1, STATE)
        is_goss = isinstance(draw, Goss)
        state["n_left"] = draw.n_top if isinstance(draw, Goss) else 0
        on_device = own.upload("bag state", state)
        rows = own.room("bag", 4 * n_rows)
        importance = own.room("importance", 8 * n_rows if is_goss else 8)
        label = own.upload_once("bag label", None if isinstance(draw, Goss) else draw.label)
        query = own.upload_once("query", None if isinstance(draw, Goss) else draw.query)
        by_label = by_query = False
        positive = draw.limit
        if isinstance(draw, Goss):
            self._find_last(on_device, importance, n_outputs)
        else:
            by_label, by_query = draw.positive_limit is not None, draw.query is not None
            positive = draw.limit if draw.positive_limit is None else draw.positive_limit
        own.launch_rows(
            self._kernel("place_kernel"), u64(draw.key), u64(draw.limit), u64(positive), label, u32(by_label), query,
            u32(by_query), u32(is_goss), importance, u32(draw.n_top if isinstance(draw, Goss) else 0), u32(n_rows),
            on_device, rows,
        )  # fmt: skip
        self._runtime.download(on_device, state)
        n_plain, n_scaled, _ = state["sizes"][0].tolist()
        self.n_plain, self.n_in_bag = n_plain, n_plain + n_scaled
        self.is_drawn = self.n_in_bag > 0
        if isinstance(draw, Goss):
            self.factor = draw.factor

    def take(self, bag: Bag | None) -> None:
        """Take a bag that was drawn elsewhere, of the rows of several workers; None: all rows."""
        self._clear()
        if bag is not None:
            self.n_plain, self.n_in_bag, self.factor, self.is_drawn = bag.n_plain, bag.n_in_bag, bag.factor, True
            self._workspace.upload("bag", bag.rows)

    def read_rows(self) -> NDArray[np.uint32]:
        """Return the rows of the bag, and then the others, uint32 (n_rows,)."""
        rows = np.empty(self._workspace.n_rows, np.uint32)
        self._runtime.download(self._workspace.buffer("bag"), rows)
        return rows

    def _find_last(self, state: Buffer, importance: Buffer, n_outputs: int) -> None:
        """Find importance and number of the last top row of GOSS."""
        own, n_rows = self._workspace, u32(self._workspace.n_rows)
        given = own.buffer("gradient"), own.buffer("hessian"), u32(n_outputs)
        own.launch_rows(self._kernel("importance_kernel"), *given, n_rows, importance)
        count, pick = self._kernel("count_kernel"), self._kernel("pick_kernel")
        for step in range(N_DIGITS):
            own.launch_rows(count, importance, n_rows, u32(step), state)
            self._runtime.launch(pick, 1, u32(step), state)

    def take_gradients(self, offset: int, rows: Buffer | None = None) -> tuple[Buffer, Buffer]:
        """Return the gradients and hessians of one output, from `offset` on, in the order of the bag.

        rows  gets their numbers; None: the row list of the root
        """
        own = self._workspace
        out = own.room("bag gradient", 8 * own.n_rows), own.room("bag hessian", 8 * own.n_rows)
        own.launch_rows(
            self._kernel("take_kernel"), own.buffer("gradient"), own.buffer("hessian"), u64(offset),
            own.buffer("bag"), u32(self.n_plain), u32(self.n_in_bag), np.float64(self.factor), *out,
            own.buffer("rows even") if rows is None else rows,
        )  # fmt: skip
        return out

    def take_leaves(self) -> Buffer:
        """Return the leaf numbers in the order of the bag."""
        own = self._workspace
        out = own.room("bag leaf", 2 * own.n_rows)
        own.launch_rows(
            self._kernel("take_leaves_kernel"), own.buffer("leaf"), own.buffer("bag"), u32(self.n_in_bag), out
        )
        return out

    def find_other_leaves(self, nodes: Buffer, n_splits: int) -> None:
        """Send the rows outside of the bag down a tree; nodes as in route.cl."""
        own = self._workspace
        if self.is_drawn:
            launch_route(own, self._bins, nodes, n_splits, own.buffer("leaf"), own.buffer("bag"), self.n_in_bag)

    def add_tree(self, nodes: Buffer, tree: BinnedTree, values: Buffer, offset: int) -> None:
        """Send all training rows down a tree and add its values to their scores."""
        own = self._workspace
        add_values(own, self._bins, nodes, len(tree.feature), values, own.buffer("scores"), offset)
