"""Bags on a GPU: the rows of the trees to come, chosen and compacted on the device; see kernels/bag.cl."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime import Buffer, Kernel, Runtime, Variant, u32, u64
from hornbeam.backends.protocol import BinnedTree
from hornbeam.bagging import Bag, Draw, Goss
from hornbeam.dtypes import ROW

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


@dataclass(frozen=True, slots=True)
class Memory:
    """What a bag needs of its engine: how to get buffers by name, and how to launch over the rows.

    room         returns a buffer with room for so many bytes
    buffer       returns one that is there
    upload       copies an array into one
    upload_once  the same, unless the array is there already
    launch_rows  launches a kernel that strides over rows
    """

    n_rows: int
    room: Callable[[str, int], Buffer]
    buffer: Callable[[str], Buffer]
    upload: Callable[[str, NDArray[Any]], Buffer]
    upload_once: Callable[[str, NDArray[Any] | None], Buffer]
    launch_rows: Callable[..., None]


class DeviceBag:
    """The rows of the trees to come on one device.

    n_plain, n_in_bag, factor  as in bagging.Bag; n_in_bag is 0 while all rows are chosen
    """

    def __init__(self, runtime: Runtime, variant: Variant, memory: Memory) -> None:
        self._runtime, self._variant, self._memory = runtime, variant, memory
        self.n_plain = self.n_in_bag = 0
        self.factor = 1.0

    def __bool__(self) -> bool:
        return self.n_in_bag > 0

    def _kernel(self, name: str) -> Kernel:
        return self._runtime.kernel(name, self._variant)

    def choose(self, draw: Draw | Goss | None, n_outputs: int) -> None:
        """Choose rows; see protocol.Engine.choose_rows."""
        self.n_plain = self.n_in_bag = 0
        self.factor = 1.0
        if draw is None:
            return
        memory, n_rows = self._memory, self._memory.n_rows
        state = np.zeros(1, STATE)
        is_goss = isinstance(draw, Goss)
        state["n_left"] = draw.n_top if isinstance(draw, Goss) else 0
        on_device = memory.upload("bag state", state)
        rows = memory.room("bag", 4 * n_rows)
        importance = memory.room("importance", 8 * n_rows if is_goss else 8)
        label = memory.upload_once("bag label", None if isinstance(draw, Goss) else draw.label)
        query = memory.upload_once("query", None if isinstance(draw, Goss) else draw.query)
        by_label = by_query = False
        positive = draw.limit
        if isinstance(draw, Goss):
            self._find_last(on_device, importance, n_outputs)
        else:
            by_label, by_query = draw.positive_limit is not None, draw.query is not None
            positive = draw.limit if draw.positive_limit is None else draw.positive_limit
        memory.launch_rows(
            self._kernel("place_kernel"), u64(draw.key), u64(draw.limit), u64(positive), label, u32(by_label), query,
            u32(by_query), u32(is_goss), importance, u32(draw.n_top if isinstance(draw, Goss) else 0), u32(n_rows),
            on_device, rows,
        )  # fmt: skip
        self._runtime.download(on_device, state)
        n_plain, n_scaled, _ = state["sizes"][0].tolist()
        self.n_plain, self.n_in_bag = n_plain, n_plain + n_scaled
        if isinstance(draw, Goss):
            self.factor = draw.factor

    def _find_last(self, state: Buffer, importance: Buffer, n_outputs: int) -> None:
        """Find importance and number of the last top row of GOSS."""
        memory, n_rows = self._memory, u32(self._memory.n_rows)
        given = memory.buffer("gradient"), memory.buffer("hessian"), u32(n_outputs)
        memory.launch_rows(self._kernel("importance_kernel"), *given, n_rows, importance)
        count, pick = self._kernel("count_kernel"), self._kernel("pick_kernel")
        for step in range(N_DIGITS):
            memory.launch_rows(count, importance, n_rows, u32(step), state)
            self._runtime.launch(pick, 1, u32(step), state)

    def take_gradients(self, offset: int) -> tuple[Buffer, Buffer]:
        """Return the gradients and hessians of one output, from `offset` on, in the order of the bag."""
        memory = self._memory
        out = memory.room("bag gradient", 8 * memory.n_rows), memory.room("bag hessian", 8 * memory.n_rows)
        memory.launch_rows(
            self._kernel("take_kernel"), memory.buffer("gradient"), memory.buffer("hessian"), u64(offset),
            memory.buffer("bag"), u32(self.n_plain), u32(self.n_in_bag), np.float64(self.factor), *out,
            memory.buffer("rows even"),
        )  # fmt: skip
        return out

    def on_host(self) -> Bag | None:
        """Return a copy of the bag in host memory; None while all rows are chosen."""
        if not self:
            return None
        rows = np.empty(self._memory.n_rows, ROW)
        self._runtime.download(self._memory.buffer("bag"), rows)
        return Bag(rows, self.n_plain, self.n_in_bag, self.factor)

    def take_leaves(self) -> Buffer:
        """Return the leaf numbers in the order of the bag."""
        memory = self._memory
        out = memory.room("bag leaf", 2 * memory.n_rows)
        memory.launch_rows(
            self._kernel("take_leaves_kernel"), memory.buffer("leaf"), memory.buffer("bag"), u32(self.n_in_bag), out
        )
        return out

    def find_other_leaves(self, nodes: Buffer, n_splits: int) -> None:
        """Send the rows outside of the bag down a tree; nodes as in route.cl."""
        if self.n_in_bag > 0:
            self._route(nodes, n_splits, self._memory.buffer("bag"), self.n_in_bag, None, 0)

    def add_tree(self, nodes: Buffer, tree: BinnedTree, values: Buffer, offset: int) -> None:
        """Send all training rows down a tree and add its values to their scores."""
        self._route(nodes, len(tree.feature), self._memory.buffer("leaf"), None, values, offset)

    def _route(
        self, nodes: Buffer, n_splits: int, bag: Buffer, first: int | None, values: Buffer | None, offset: int
    ) -> None:
        memory, leaf = self._memory, self._memory.buffer("leaf")
        memory.launch_rows(
            self._kernel("route_rows_kernel"), memory.buffer("columns"), u32(memory.n_rows), nodes, u32(n_splits), bag,
            u32(first is not None), u32(first or 0), u32(memory.n_rows), u32(values is not None), leaf,
            leaf if values is None else values, leaf if values is None else memory.buffer("scores"), u64(offset),
        )  # fmt: skip
