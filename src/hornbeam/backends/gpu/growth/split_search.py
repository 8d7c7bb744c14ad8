"""The split search on a GPU: kernels/growth/split*.cl for plain nodes, contexts, bundles and categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.categorical import DeviceCategories
from hornbeam.backends.gpu.growth.contexts import DeviceContexts, PlacedContexts
from hornbeam.backends.gpu.growth.histograms import DeviceHistograms
from hornbeam.backends.gpu.runtime.runtime import Buffer, Kernel, u32
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.tree_kernels import GrowingTree, bundles_variant, general_variant, search_variant
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.errors import DeviceError
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules

GROUPS_A_UNIT = 32
"""Groups of the split search a compute unit: what it can run at once, several times over."""


class SplitSearch:
    """Searches the histograms of nodes for their best splits.

    categories  of the training set; None: all features are numbers
    contexts    of nodes that have one
    """

    def __init__(
        self, workspace: Workspace, bins: PlacedBins, binned: BinnedData, histograms: DeviceHistograms
    ) -> None:
        self._workspace, self._runtime, self._layout = workspace, workspace.runtime, bins.layout
        self._bins, self._histograms = bins, histograms
        self._n_numeric = binned.n_numeric
        self._described = binned.n_value_bins.astype(np.uint32) * 2 + binned.has_missing.astype(np.uint32)
        workspace.upload("features", self._described)
        workspace.upload("tree features", self._described)
        self.contexts = DeviceContexts(workspace, binned)
        self.categories: DeviceCategories | None = None
        if binned.n_numeric < binned.n_used:
            self.categories = DeviceCategories(workspace, bins.layout, binned)
        if bins.bundles is not None:
            workspace.upload("code features", bins.bundles.code_features)

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Describe the other features to the search as ones without bins."""
        described = np.zeros_like(self._described) if features is not None else self._described
        if features is not None:
            described[features] = self._described[features]
        self._workspace.upload("tree features", described)

    def find(
        self,
        tree: GrowingTree,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None,
    ) -> NDArray[np.void]:
        """Find the best split of each node; see engine.Engine.find_splits."""
        own, histograms = self._workspace, self._histograms
        best = np.zeros(len(slots), SPLIT)
        if self._layout.n_used == 0 or len(slots) == 0:
            best["gain"], best["feature"], best["bin"] = -np.inf, -1, -1
            return best
        check_rules(tree, rules)
        found = own.room("best", SPLIT.itemsize * len(slots))
        table = np.empty((len(slots), 5), np.int64)
        table[:, 0], table[:, 1], table[:, 2], table[:, 3] = gradient, hessian, nodes.end - nodes.begin, slots
        histograms.subtract_pending(tree, but=frozenset(slots.tolist()))
        sibling = histograms.take_pending()
        table[:, 4] = [sibling.get(slot, -1) for slot in slots.tolist()]
        on_device = own.upload("table", table)
        first_set = 0 if self.categories is None else self.categories.reserve(len(slots))
        count = own.upload_count(len(slots), first_set)
        placed = None if context is None else self.contexts.upload(context)
        self.launch(tree, on_device, count, 1, len(slots), rules, found, placed)
        self._runtime.download(found, best)
        return best

    def launch(
        self,
        tree: GrowingTree,
        table: Buffer,
        count: Buffer,
        children: int,
        most_nodes: int,
        rules: SplitRules,
        best: Buffer | None,
        contexts: PlacedContexts | None = None,
    ) -> None:
        """Search the nodes of a table on the device, count * children of them and at most most_nodes.

        count  see Workspace.upload_count
        best   gets SPLIT (n_nodes,) from its beginning on; without it the best of each piece stay in `splits`
        contexts  of the nodes; None: they have none
        """
        own, n_pieces = self._workspace, tree.kernels.n_pieces
        found = own.room("splits", SPLIT.itemsize * most_nodes * n_pieces)
        kernel, around = self._kernel(tree, rules, contexts)
        self._runtime.launch(
            kernel, min(most_nodes * n_pieces, GROUPS_A_UNIT * own.facts.compute_units),
            own.buffer("histograms"), table, count, u32(children), own.buffer("tree features"), *self._looked_at,
            u32(self._layout.n_tiles), u32(n_pieces), own.buffer("units"), np.float64(rules.lambda_l1),
            np.float64(rules.lambda_l2), np.float64(rules.max_delta_step), np.float64(rules.min_gain_to_split),
            np.float64(rules.min_sum_hessian_in_leaf), np.int64(min_rows(tree, rules)), found, *around,
        )  # fmt: skip
        if best is not None:
            self._runtime.launch(tree.kernels.choose, most_nodes, found, count, u32(children), u32(n_pieces), best)
        if self.categories is not None:
            assert best is not None
            self.categories.improve(
                table, count, children, most_nodes, rules, tree.stats, min_rows(tree, rules), contexts, best,
                self._bins.bundle_arguments,
            )  # fmt: skip

    def _kernel(
        self, tree: GrowingTree, rules: SplitRules, contexts: PlacedContexts | None
    ) -> tuple[Kernel, tuple[Any, ...]]:
        """Return what searches, and what it takes besides; what is for contexts is compiled where there are some."""
        if contexts is None:
            return tree.kernels.split, ()
        kernel, facts, layout = self._runtime.kernel, self._workspace.facts, self._layout
        if self._bins.bundles is not None:
            of_bundles = bundles_variant(facts, layout, tree.stats, context=True)
            return kernel("split_bundles_kernel", of_bundles), contexts.arguments(rules)
        if contexts.are_masks(rules):
            masked = search_variant(facts, layout, tree.stats, context=True)
            return kernel("split_kernel", masked), (contexts.mask, u32(contexts.n_words))
        return kernel("split_general_kernel", general_variant(facts, layout, tree.stats)), contexts.arguments(rules)

    @property
    def _looked_at(self) -> tuple[Any, ...]:
        """How many features split.cl and split_general.cl look at, or what split_bundles.cl knows of the columns."""
        if self._bins.bundles is None:
            return (u32(self._n_numeric),)
        codes = self._workspace.buffer("code features")
        return *self._bins.bundle_arguments, codes, u32(self._layout.n_columns)


def check_rules(tree: GrowingTree, rules: SplitRules) -> None:
    """Raise if rows would have to be counted: that is decided when a tree begins, before its rules are seen."""
    needed = rules.min_data_in_leaf > 1 or rules.path_smooth > 0.0
    if needed and not tree.counts_rows:
        raise DeviceError("this engine does not count rows; make it with the min_data_in_leaf of the rules")


def min_rows(tree: GrowingTree, rules: SplitRules) -> int:
    """Return the fewest rows; without counts the hessians stand in for them: a positive sum is a row or more."""
    return rules.min_data_in_leaf if tree.counts_rows else 1
