"""Splits of categorical features on a GPU: see kernels/growth/split_categorical.cl."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.contexts import PlacedContexts
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32
from hornbeam.backends.gpu.workspace.tree_kernels import CHOOSE_THREADS
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.dtypes import SPLIT
from hornbeam.data.binning import BinnedData
from hornbeam.trees.splitting import SplitRules

LARGEST_LOCAL_SORT = 1024
"""Levels that are sorted in local memory: 12 bytes each."""

SCRATCH_BYTES = 64 << 20
"""Global memory for sorting: fewer groups share it where levels are many."""

SETS_BYTES = 256 << 20
"""Memory for the sets of a round, one a node and feature, up to which trees are grown without the host."""

FIRST_SETS = 1024
"""Sets that there is room for at first."""


class DeviceCategories:
    """Searches the categorical features of one training set, and keeps the sets of the growing tree.

    n_sets  sets in use, see engine.Engine.left_sets
    """

    def __init__(self, workspace: Workspace, layout: Layout, binned: BinnedData) -> None:
        self._runtime, self._workspace, self._layout = workspace.runtime, workspace, layout
        self.n_numeric = binned.n_numeric
        self.n_categorical = binned.n_used - binned.n_numeric
        self.set_words = binned.set_words
        most = int(binned.n_value_bins[self.n_numeric :].max())
        self._sort_room = 1 << max(1, (most - 1).bit_length())
        self._sets_room = FIRST_SETS
        self.n_sets = 0
        workspace.room("sets", 4 * self.set_words * self._sets_room)

    def begin_tree(self) -> None:
        """Forget the sets."""
        self.n_sets = 0

    def make_room(self, most_nodes: int) -> bool:
        """Make room for searching so many nodes at once, so that a round can be recorded; False: it is too much."""
        if 4 * most_nodes * self.n_categorical * self.set_words > SETS_BYTES:
            return False
        self._rooms(most_nodes)
        return True

    def _rooms(self, most_nodes: int) -> tuple[int, int, Buffer, Buffer, Buffer, Buffer]:
        """Return groups and levels to sort in each of them, and the buffers of a search: keys, bins, splits, sets."""
        own, n_items = self._workspace, most_nodes * self.n_categorical
        room = 1 if self._sort_room <= LARGEST_LOCAL_SORT else self._sort_room
        groups = max(1, min(n_items, SCRATCH_BYTES // (12 * room), 32 * own.facts.compute_units))
        return (
            groups, room, own.room("sort keys", 8 * room * groups), own.room("sort bins", 4 * room * groups),
            own.room("level splits", SPLIT.itemsize * n_items), own.room("level sets", 4 * n_items * self.set_words),
        )  # fmt: skip

    def reserve(self, n_nodes: int) -> int:
        """Make room for the sets of some nodes and return the number of the first."""
        first, self.n_sets = self.n_sets, self.n_sets + n_nodes
        if self.n_sets > self._sets_room:
            held = self.read(np.arange(first, dtype=np.int32)) if first else None
            self._sets_room = max(2 * self._sets_room, self.n_sets)
            self._workspace.room("sets", 4 * self.set_words * self._sets_room)
            if held is not None:
                self._workspace.upload("sets", held)
        return first

    def read(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return sets, uint32 (n, set_words)."""
        last = int(numbers.max(initial=-1)) + 1
        held = np.empty((last, self.set_words), np.uint32)
        self._runtime.download(self._workspace.buffer("sets"), held)
        return held[numbers]

    @property
    def partition_arguments(self) -> tuple[Any, ...]:
        """What partition.cl takes besides."""
        return self._workspace.buffer("sets"), u32(self.set_words), u32(self.n_numeric)

    def improve(
        self,
        table: Buffer,
        count: Buffer,
        children: int,
        most_nodes: int,
        rules: SplitRules,
        stats: int,
        min_rows: int,
        contexts: PlacedContexts | None,
        best: Buffer,
        members: tuple[Buffer, ...] = (),
    ) -> None:
        """Replace the splits of the nodes of a table where one of a categorical feature is better.

        table, count, children, most_nodes, contexts, best  as in SplitSearch.launch
        members  PlacedBins.bundle_arguments
        """
        runtime, workspace, layout, own = self._runtime, self._workspace, self._layout, rules.categorical
        groups, room, keys, bins, found, found_sets = self._rooms(most_nodes)
        variant = workspace.variant(
            "split_categorical.cl", **layout.options, stats=stats, n_bins=layout.n_bins,
            sort_size=self._sort_room if room == 1 else 0, bundled=bool(members),
        )  # fmt: skip
        around, mask, n_words, contribution, costs, n_costs = table, table, 0, table, table, 0
        if contexts is not None:
            around, mask, n_words, contribution, costs, n_costs = (
                contexts.context, contexts.mask, contexts.n_words, contexts.contribution, contexts.costs,
                contexts.n_costs,
            )  # fmt: skip
        runtime.launch(
            runtime.kernel("split_categorical_kernel", variant), groups, workspace.buffer("histograms"), table,
            count, u32(children), around, u32(contexts is not None), mask, u32(n_words), contribution, costs,
            u32(n_costs), workspace.buffer("tree features"), u32(self.n_numeric), u32(layout.n_used),
            u32(layout.n_tiles), workspace.buffer("units"), np.float64(rules.lambda_l1), np.float64(rules.lambda_l2),
            np.float64(rules.max_delta_step), np.float64(rules.min_gain_to_split),
            np.float64(rules.min_sum_hessian_in_leaf), np.int64(min_rows), np.float64(rules.path_smooth),
            u32(rules.monotone), u32(contexts is not None and rules.extra_trees), u32(own.max_cat_to_onehot),
            u32(own.max_cat_threshold), np.float64(own.cat_smooth), np.float64(own.cat_l2),
            np.float64(own.min_data_per_group), keys, bins, u32(room), u32(self.set_words), found, found_sets,
            *members,
        )  # fmt: skip
        choose = Kernel(runtime.kernel("choose_set_kernel", variant).handle, CHOOSE_THREADS)
        runtime.launch(
            choose, most_nodes, found, found_sets, count, u32(children), u32(self.n_categorical), u32(self.set_words),
            best, workspace.buffer("sets"),
        )  # fmt: skip
