"""Contexts of nodes on a GPU, as the split search reads them: see splitting.NodeContext.

The host makes and uploads them, or the device does, round after round: see kernels/growth/contexts.cl.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace.tree_kernels import CAPACITY
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.dtypes import CONTEXT
from hornbeam.data.binning import BinnedData
from hornbeam.trees.contexts.tree_contexts import monotone_factor
from hornbeam.trees.records import ContextRules
from hornbeam.trees.splitting import FeatureRules, NodeContext, SplitRules


@dataclass(frozen=True, slots=True)
class PlacedContexts:
    """The contexts of the nodes of a search, on the device: CONTEXT_ARGUMENTS of kernels/growth/gains.h.

    context  i64 (n_nodes, 6)
    mask     u32 (n_nodes, n_words)
    costs    f64 (n_nodes, n_costs)
    sides, side_offsets  f64 (n_nodes, 4, n_sides), u32 (n_used + 1,)
    as_they_are  gains of all features count as they are, and splits cost nothing
    """

    context: Buffer
    mask: Buffer
    n_words: int
    signs: Buffer
    contribution: Buffer
    costs: Buffer
    n_costs: int
    sides: Buffer
    side_offsets: Buffer
    n_sides: int
    as_they_are: bool

    def are_masks(self, rules: SplitRules) -> bool:
        """Say whether the masks are all that the search of numbers must know of the nodes."""
        return self.as_they_are and not rules.outputs_in_context and not rules.extra_trees

    def arguments(self, rules: SplitRules) -> tuple[Any, ...]:
        """Return what split_general.cl and split_bundles.cl take besides."""
        return (
            self.context, self.mask, u32(self.n_words), self.signs, self.contribution, np.float64(rules.path_smooth),
            u32(rules.monotone), u32(rules.extra_trees), self.costs, u32(self.n_costs), self.sides,
            self.side_offsets, u32(self.n_sides),
        )  # fmt: skip


def words_of(n_bits: int) -> int:
    """Return the 32-bit words of so many bits."""
    return -(-n_bits // 32)


def context_bytes(n_used: int, n_groups: int, n_leaves: int, costs: bool) -> int:
    """Return the bytes of the contexts of a growing tree: tables by node, those of a round, and what all share."""
    by_node = CONTEXT.itemsize + 4 * words_of(n_groups)
    in_round = 48 + 4 * words_of(n_used) + (8 * n_used if costs else 0)
    shared = 12 * n_used + 4 * n_groups * words_of(n_used) + 8 * n_leaves
    return CAPACITY * by_node + 2 * n_leaves * in_round + shared


class DeviceContexts:
    """Contexts of the nodes of one training.

    Buffer `contexts` has those of all nodes of a tree that the device grows by itself, CONTEXT (CAPACITY,).
    """

    def __init__(self, workspace: Workspace, binned: BinnedData) -> None:
        self._workspace, self._runtime, self._binned = workspace, workspace.runtime, binned
        self._features: FeatureRules | None = None  # what is on the device
        self._as_they_are = True  # see PlacedContexts
        self._factors: tuple[float, int] | None = None  # penalty and depths of those that are

    def upload(self, context: NodeContext) -> PlacedContexts:
        """Bring the contexts of some nodes to the device."""
        own = self._workspace
        floats = (context.lower, context.upper, context.parent_output, context.score, context.monotone_factor)
        around = np.stack([*(values.view(np.int64) for values in floats), context.key.view(np.int64)], axis=1)
        placed = self._placed(own.upload("context", around), own.upload("mask", context.mask), context.features)
        if context.cost is not None:
            costs = own.upload("costs", context.cost)
            placed = replace(placed, costs=costs, n_costs=context.cost.shape[1], as_they_are=False)
        if context.sides is not None:
            sides, n_sides = own.upload("sides", context.sides.table), context.sides.table.shape[2]
            offsets = own.upload("side offsets", context.sides.offsets.astype(np.uint32))
            placed = replace(placed, sides=sides, side_offsets=offsets, n_sides=n_sides, as_they_are=False)
        return placed

    def _placed(self, context: Buffer, mask: Buffer, features: FeatureRules) -> PlacedContexts:
        """Put the rules of the features beside contexts, where they are not there already."""
        own, n_words = self._workspace, words_of(len(features.sign))
        if self._features is not features:
            self._features = features
            self._as_they_are = bool((features.contribution == 1.0).all())
            own.upload("signs", features.sign.astype(np.int32))
            own.upload("contribution", features.contribution)
        contribution = own.buffer("contribution")
        return PlacedContexts(
            context, mask, n_words, own.buffer("signs"), contribution, contribution, 0, contribution, contribution, 0,
            self._as_they_are,
        )  # fmt: skip

    def prepare(self, rules: ContextRules, n_leaves: int) -> PlacedContexts:
        """Make room for the contexts of a tree that the device grows, and return those of its rounds.

        n_leaves  of the tree, at most: it is less deep than that
        """
        own, n_used = self._workspace, self._binned.n_used
        own.room("contexts", CONTEXT.itemsize * CAPACITY)
        own.room("alive groups", 4 * CAPACITY * words_of(len(rules.groups)))
        own.upload_once("groups", rules.groups if len(rules.groups) else None)
        if self._factors != (rules.monotone_penalty, n_leaves):
            self._factors = rules.monotone_penalty, n_leaves
            factors = [monotone_factor(depth, rules.monotone_penalty) for depth in range(n_leaves)]
            own.upload("monotone factors", np.array(factors))
        context, mask = own.room("context", 96 * n_leaves), own.room("mask", 8 * words_of(n_used) * n_leaves)
        return self._placed(context, mask, rules.features)

    def launch(
        self,
        groups: int,
        state: Buffer,
        chosen: Buffer | None,
        search: Buffer,
        placed: PlacedContexts,
        how: ContextRules,
        rules: SplitRules,
    ) -> None:
        """Make the contexts of the children of a round.

        groups         nodes that are expanded, at most
        state, chosen  as in kernels/growth/select.cl; chosen is None: make the context of the root
        search         as in kernels/growth/split.cl
        """
        own, binned, of_levels = self._workspace, self._binned, rules.categorical
        kernel = self._runtime.kernel("contexts_kernel", own.variant("contexts.cl"))
        self._runtime.launch(
            kernel, groups, state, search if chosen is None else chosen, u32(chosen is None), search,
            own.buffer("units"), own.buffer("tree features"), u32(binned.n_used), u32(binned.n_numeric),
            u32(of_levels.max_cat_to_onehot), np.float64(of_levels.cat_l2), np.float64(rules.lambda_l1),
            np.float64(rules.lambda_l2), np.float64(rules.max_delta_step), np.float64(rules.path_smooth),
            u32(rules.monotone), placed.signs, own.buffer("monotone factors"), own.buffer("groups"),
            u32(len(how.groups)), np.float64(how.by_level), np.float64(how.by_node), u32(how.has_keys),
            own.buffer("contexts"), own.buffer("alive groups"), placed.context, placed.mask,
        )  # fmt: skip
