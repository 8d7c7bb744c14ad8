"""Growing on a GPU: a round with one copy to the device and one back, or a whole tree without the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.histograms import ONE, DeviceHistograms
from hornbeam.backends.gpu.growth.memory import lefts_bytes
from hornbeam.backends.gpu.growth.outputs import OutputsAhead
from hornbeam.backends.gpu.growth.split_search import SplitSearch, check_rules, min_rows
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.tree_kernels import (
    CAPACITY,
    MOST_ORDERED,
    GrowingTree,
    OrderedPartition,
    SummedTree,
    TreeKernels,
)
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.dtypes import CONTEXT, EXPANSION, NODE, SPLIT
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import ContextsAhead, GrownAhead, LeavesLater, Segments
from hornbeam.trees.splitting import SplitRules

MOST_PIECES = 64
"""Pieces of a node among which select.cl chooses itself; of more, a kernel with more threads."""

PLANNING_GROUPS_A_UNIT = 2
"""Groups of the plan, which clear slots, for each compute unit."""

FIRST_ROUNDS_AHEAD, MOST_ROUNDS_AHEAD = 16, 80
"""Rounds that are launched before the host looks whether the tree is finished: it learns from the trees before."""

ROUNDS_AT_ONCE = 4
"""Rounds that are recorded together: from one recording to the next the device waits a little."""

SPARE_ROUNDS, MORE_ROUNDS, TREES_OF_LATE = 1, 8, 4
"""Rounds to launch beyond what any of the last trees took, and when they were not enough; how many trees these are."""

LARGEST_SHARE, SMALLEST_SHARE = 2, 8
"""One in this many candidates is expanded in a round, see kernels/growth/select.cl."""

LONGER_THAN_DEEP, IN_VAIN = 3, 1.15
"""Rounds beyond the depth of a tree, and expanded nodes for each split, that make the share change."""

Finish = Callable[[Buffer, Buffer], Callable[[int], LeavesLater]]
"""The state and the order of kernels/growth/select.cl -> the number of leaves, once known -> what brings their
values."""

STATE_BYTES, FIRST_KEY = 64, 32
"""Head of the device's node table, and where in it kernels/growth/contexts.cl finds the keys of a tree."""


class DeviceGrowth:
    """Expands the nodes of trees on one device."""

    def __init__(
        self, workspace: Workspace, bins: PlacedBins, histograms: DeviceHistograms, search: SplitSearch
    ) -> None:
        self._workspace, self._runtime, self._bins = workspace, workspace.runtime, bins
        self._histograms, self._search = histograms, search
        self._rounds_ahead = FIRST_ROUNDS_AHEAD
        self._rounds_of_late: tuple[int, ...] = ()
        self._share = LARGEST_SHARE
        self._grown: tuple[GrowthLimits, int, NDArray[np.void]] | None = None  # the last tree, and its rounds
        self._summed_root: tuple[TreeKernels, int, Buffer] | None = None  # with what, of how many rows, where

    def partition(self, tree: SummedTree, batch: NDArray[np.void], first_set: int = 0) -> tuple[Buffer, Buffer]:
        """Move the rows of a batch, EXPANSION (n_nodes,), to the children's places.

        first_set  number of the set of the first child, for what comes after

        Returns the batch on the device, with the rows placed behind it (see `rows_placed`), and its size there.
        """
        own, n_nodes = self._workspace, len(batch)
        tile = tree.kernels.partition_tile
        upload = np.zeros(rows_placed(n_nodes) + 8 * n_nodes, np.uint8)
        upload[: batch.nbytes] = batch.view(np.uint8)
        first_tile = upload[batch.nbytes :].view(np.uint32)[: n_nodes + 1]
        np.cumsum((batch["end"] - batch["begin"] + (tile - 1)) // tile, out=first_tile[1:])
        on_device, count = own.upload("batch", upload), own.upload_count(n_nodes, first_set)
        self._launch_partition(tree, min(own.groups, max(1, int(first_tile[-1]))), on_device, count, n_nodes)
        return on_device, count

    def divide(self, tree: SummedTree, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move the rows of nodes to the children's places; returns how many went left, int64 (n_nodes,)."""
        batch = np.zeros(len(splits), EXPANSION)
        batch["begin"], batch["end"], batch["depth"] = nodes.begin, nodes.end, nodes.depth
        for name in ("feature", "bin", "missing_left"):
            batch[name] = splits[name]
        on_device, _ = self.partition(tree, batch)
        placed = np.empty((len(splits), 2), np.uint32)
        self._runtime.download(on_device, placed, offset=rows_placed(len(splits)))
        return placed[:, 0].astype(np.int64)

    def _launch_partition(self, tree: SummedTree, groups: int, batch: Buffer, count: Buffer, most_nodes: int) -> None:
        """Move the rows of a batch of at most so many nodes."""
        own, categories, partition = self._workspace, self._search.categories, tree.kernels.partition
        rows = self._histograms.row_buffers()
        arguments = (
            self._bins.by_feature, *rows, own.buffer("features"), batch, count, u32(own.n_rows),
            *(() if categories is None else categories.partition_arguments), *self._bins.bundle_arguments,
        )  # fmt: skip
        if not isinstance(partition, OrderedPartition):
            self._runtime.launch(partition, groups, *arguments)
            return
        marks = own.room("marks", own.n_rows)
        lefts = own.room("lefts", lefts_bytes(own.n_rows, most_nodes, tree.kernels.partition_tile))
        self._runtime.launch(partition.mark, groups, *arguments, marks, lefts)
        self._runtime.launch(partition.place, min(own.groups, most_nodes), batch, count, lefts)
        self._runtime.launch(partition.move, groups, *rows, batch, count, marks, lefts)

    def _launch_plan(
        self, tree: GrowingTree, batch: Buffer, count: Buffer, rules: SplitRules, max_depth: int, *out: Buffer,
        outputs: OutputsAhead | None = None,
    ) -> None:  # fmt: skip
        own = self._workspace
        groups, size = tree.kernels.groups_a_pass, self._bins.layout.slot_size(tree.stats)
        if outputs is not None:
            groups, size = outputs.groups_a_pass, outputs.slot_size
        self._runtime.launch(
            tree.kernels.plan, PLANNING_GROUPS_A_UNIT * own.facts.compute_units, batch, count,
            np.int64(rules.min_data_in_leaf), np.int32(min(max_depth, 2**31 - 1)), u32(groups), u32(size), *out,
            own.buffer("histograms"),
        )  # fmt: skip

    def _tables(self, most_nodes: int) -> tuple[Buffer, Buffer, Buffer]:
        """Return room for the tables of a round: of the histograms, of the search, and the best splits."""
        own = self._workspace
        best = own.room("best", (2 * SPLIT.itemsize + 4) * most_nodes)
        return own.room("table", 20 * (most_nodes + 1)), own.room("search", 80 * most_nodes), best

    def expand(
        self, tree: GrowingTree, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a whole round; see engine.Engine.expand."""
        self._histograms.subtract_pending(tree)
        check_rules(tree, rules)
        n_nodes, categories = len(batch), self._search.categories
        first_set = 0 if categories is None else categories.reserve(2 * n_nodes)
        on_device, count = self.partition(tree, np.ascontiguousarray(batch), first_set)
        work, search, best = self._tables(n_nodes)
        self._launch_plan(tree, on_device, count, rules, max_depth, work, search, best)
        self._histograms.launch(tree, work, count)
        self._search.launch(tree, search, count, 2, 2 * n_nodes, rules, best)
        result = np.empty(2 * n_nodes * SPLIT.itemsize + 4 * n_nodes, np.uint8)
        self._runtime.download(best, result)
        splits = result[: 2 * n_nodes * SPLIT.itemsize].view(SPLIT).reshape(n_nodes, 2)
        return result[splits.nbytes :].view(np.uint32).astype(np.int64), splits

    def grow_ahead(
        self,
        tree: GrowingTree,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        finish: Finish | None,
        meanwhile: Callable[[], None] | None,
        contexts: ContextsAhead | None,
        outputs: OutputsAhead | None = None,
    ) -> GrownAhead | None:
        """Run round after round without the host, which looks at the result once: see kernels/growth/select.cl.

        finish    what goes on to the leaves, for a tree that may not be finished; None: the host will
        contexts  what those of the nodes are made by, see kernels/growth/contexts.cl; None: they have none
        outputs   all of them share the tree; None: it is one output's
        """
        summed, self._summed_root = self._summed_root, None
        most_batch, categories = limits.n_leaves - 1, self._search.categories
        if limits.n_leaves > MOST_ORDERED or self._bins.layout.n_used == 0:
            return None
        if categories is not None and not categories.make_room(2 * most_batch):
            return None
        self._histograms.subtract_pending(tree)
        if outputs is None:
            check_rules(tree, rules)
        own, runtime, kernels = self._workspace, self._runtime, tree.kernels
        state = np.zeros(STATE_BYTES + NODE.itemsize, np.uint8)
        state[:20].view(np.uint32)[:] = 0, 1, 0, 0, self._share  # nothing to expand yet, one node, no round, no order
        state[STATE_BYTES:] = root.view(np.uint8)
        placed, how = None, None
        if contexts is not None:
            how, placed = contexts.rules, self._search.contexts.prepare(contexts.rules, limits.n_leaves)
            state[FIRST_KEY : FIRST_KEY + 24].view(np.uint64)[:] = contexts.keys
        if categories is not None:
            categories.reserve(CAPACITY)  # the set of a node has its number: see `state` in select.cl
        own.room("state", STATE_BYTES + NODE.itemsize * CAPACITY)
        on_device = own.upload("state", state)
        batch = own.room("batch", (EXPANSION.itemsize + 12) * (most_batch + 1))
        order, chosen = own.room("order", 4 * most_batch), own.room("chosen", 4 * most_batch)
        work, search, best = self._tables(most_batch)
        pieces = own.room("splits", SPLIT.itemsize * 2 * most_batch * kernels.n_pieces)
        by_key = categories is not None or self._bins.layout.is_bundled  # then the piece does not tell who wins a tie
        chosen_before = best if kernels.n_pieces > MOST_PIECES or by_key or outputs is not None else None
        n_rows, n_slots = int(root["end"][0]), tree.n_slots if outputs is None else outputs.n_slots
        if outputs is not None:
            left_sums = outputs.prepare(2 * most_batch, CAPACITY, rules)
            outputs.sum_root(n_rows, int(root["depth"][0]))
            self._learn()
        elif summed is None or summed[:2] != (kernels, n_rows) or summed[2] is not own.buffer("histograms"):
            self._sum_root(tree, n_rows, int(root["depth"][0]))
        sums = np.array([[root["gradient"][0], root["hessian"][0], n_rows, 0, -1]], np.int64)
        own.upload("search", sums)
        one = own.upload_once("one", ONE)

        def select() -> None:
            runtime.launch(
                kernels.select, 1, on_device, order, batch, chosen, best, pieces,
                u32(0 if chosen_before is not None else kernels.n_pieces), u32(most_batch), u32(limits.depthwise),
                u32(min(n_slots, CAPACITY)), u32(CAPACITY), u32(kernels.partition_tile),
            )  # fmt: skip

        def make_contexts(groups: int, parents: Buffer | None) -> None:
            if placed is not None and how is not None:
                self._search.contexts.launch(groups, on_device, parents, search, placed, how, rules)

        def find(count: Buffer, children: int, most_nodes: int) -> None:
            if outputs is None:
                self._search.launch(tree, search, count, children, most_nodes, rules, chosen_before, placed)
            else:
                outputs.launch_search(search, count, children, most_nodes, rules, best)

        def begin() -> None:
            make_contexts(1, None)
            find(one, 1, 1)
            select()

        def do_round() -> None:
            self._launch_partition(tree, own.groups, batch, on_device, most_batch)
            self._launch_plan(tree, batch, on_device, rules, limits.max_depth, work, search, best, outputs=outputs)
            make_contexts(most_batch, chosen)
            if outputs is None:
                self._histograms.launch(tree, work, on_device)
            else:
                outputs.launch_sums(work, on_device)
            find(on_device, 2, 2 * most_batch)
            select()

        def do_rounds() -> None:
            for _ in range(ROUNDS_AT_ONCE):
                do_round()

        least = min_rows(tree, rules)  # which may change from tree to tree where GOSS scales hessians
        same = (kernels, tree.n_slots, rules, limits, least, how, None if outputs is None else outputs.key)
        own.repeatable("first round", same, begin)()
        rounds, one_round = own.repeatable("rounds", same, do_rounds), own.repeatable("round", same, do_round)
        room = min(CAPACITY, 4 * limits.n_leaves)  # nodes that are looked at
        table = np.empty(STATE_BYTES + NODE.itemsize * room, np.uint8)
        around = None if placed is None else np.empty(room, CONTEXT)
        left = None if outputs is None else np.empty((room, outputs.n_outputs, 2), np.int64)
        n_rounds = min(self._rounds_ahead, limits.max_depth) if limits.depthwise else self._rounds_ahead
        while True:
            for _ in range(n_rounds // ROUNDS_AT_ONCE):
                rounds()
            for _ in range(n_rounds % ROUNDS_AT_ONCE):
                one_round()
            wait = runtime.download_later(on_device, table)
            wait_too = None if around is None else runtime.download_later(own.buffer("contexts"), around)
            if left is not None:
                wait_too = runtime.download_later(left_sums, left)
            finished = None if finish is None else finish(on_device, order)
            if meanwhile is not None:
                meanwhile()
            wait()
            if wait_too is not None:
                wait_too()
            n_batch, n_nodes, n_selected, n_ordered = table[:16].view(np.uint32).tolist()
            if n_batch == 0:
                break
            n_rounds = MORE_ROUNDS
        if n_nodes > room:
            table = np.empty(STATE_BYTES + NODE.itemsize * n_nodes, np.uint8)
            runtime.download(on_device, table)
            if around is not None:
                around = np.empty(n_nodes, CONTEXT)
                runtime.download(own.buffer("contexts"), around)
            if left is not None:
                left = np.empty((n_nodes, *left.shape[1:]), np.int64)
                runtime.download(left_sums, left)
        nodes = table[STATE_BYTES:].view(NODE)[:n_nodes]
        around = None if around is None else around[:n_nodes]
        if categories is not None:
            categories.n_sets = n_nodes
        self._grown = limits, n_selected - 1, nodes
        is_open = np.any((nodes["left"] < 0) & (nodes["slot"] >= 0))  # the best nodes keep their slots: not all fitted
        # Where slots may be wanting, a level may be expanded in pieces, and `order` is not that of levels.
        in_pieces = limits.depthwise and tree.n_slots < 2 * limits.n_leaves
        if outputs is not None and left is not None:
            outputs.left = left[:n_nodes]
        if finished is None or is_open or in_pieces:
            return GrownAhead(nodes, contexts=around)
        return GrownAhead(nodes, finished(n_ordered + 1), n_ordered, around)

    def sum_root_ahead(self, tree: GrowingTree, n_rows: int, depth: int) -> None:
        """Sum the root of a tree that has not begun, as if it were made like the given one, the last."""
        self._sum_root(tree, n_rows, depth)
        self._summed_root = tree.kernels, n_rows, self._workspace.buffer("histograms")
        self._learn()

    def _sum_root(self, tree: GrowingTree, n_rows: int, depth: int) -> None:
        sum_ = self._histograms.prepare_root(tree, n_rows, depth)
        self._workspace.repeatable("sum of the root", (tree.kernels, tree.n_slots, n_rows, depth), sum_)()

    def _learn(self) -> None:
        """Choose how a tree is grown from how the last ones were; late, when the device has its root to sum.

        A tree needs at least as many rounds as it is deep. Where it took more, rounds may be larger; where many nodes
        were expanded in vain, smaller.
        """
        if self._grown is None:
            return
        (limits, n_rounds, nodes), self._grown = self._grown, None
        self._rounds_of_late = (*self._rounds_of_late[1 - TREES_OF_LATE :], n_rounds)
        self._rounds_ahead = min(max(self._rounds_of_late) + SPARE_ROUNDS, MOST_ROUNDS_AHEAD)
        if n_rounds - int(nodes["depth"].max() - nodes["depth"][0]) >= LONGER_THAN_DEEP:
            self._share = max(LARGEST_SHARE, self._share // 2)
        elif (len(nodes) - 1) // 2 > IN_VAIN * (limits.n_leaves - 1):
            self._share = min(SMALLEST_SHARE, self._share * 2)

    def close(self) -> None:
        """Forget the last tree: its buffers go."""
        self._summed_root = self._grown = None


def rows_placed(n_nodes: int) -> int:
    """Return where the rows placed, u32 (n_nodes, 2), begin behind a batch."""
    return EXPANSION.itemsize * n_nodes + 4 * (n_nodes + 1)
