"""Contexts of nodes on a GPU, as the split search reads them: see splitting.NodeContext."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.backends.gpu.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace import Workspace
from hornbeam.splitting import FeatureRules, NodeContext, SplitRules


@dataclass(frozen=True, slots=True)
class PlacedContexts:
    """The contexts of the nodes of a search, on the device: see kernels/split_general.cl.

    context  i64 (n_nodes, 6)
    mask     u32 (n_nodes, n_words)
    """

    context: Buffer
    mask: Buffer
    n_words: int
    signs: Buffer
    contribution: Buffer

    def arguments(self, rules: SplitRules) -> tuple[Any, ...]:
        """Return what split_general.cl and split_bundles.cl take besides."""
        return (
            self.context, self.mask, u32(self.n_words), self.signs, self.contribution, np.float64(rules.path_smooth),
            u32(rules.monotone), u32(rules.extra_trees),
        )  # fmt: skip


class DeviceContexts:
    """Contexts of the nodes of one training, which the host makes and uploads."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._features: FeatureRules | None = None  # what is on the device

    def upload(self, context: NodeContext) -> PlacedContexts:
        """Bring the contexts of some nodes to the device."""
        own = self._workspace
        floats = (context.lower, context.upper, context.parent_output, context.score, context.monotone_factor)
        around = np.stack([*(values.view(np.int64) for values in floats), context.key.view(np.int64)], axis=1)
        return self._placed(
            own.upload("context", around), own.upload("mask", context.mask), context.mask.shape[1], context.features
        )

    def _placed(self, context: Buffer, mask: Buffer, n_words: int, features: FeatureRules) -> PlacedContexts:
        """Put the rules of the features beside contexts, where they are not there already."""
        own = self._workspace
        if self._features is not features:
            self._features = features
            own.upload("signs", features.sign.astype(np.int32))
            own.upload("contribution", features.contribution)
        return PlacedContexts(context, mask, n_words, own.buffer("signs"), own.buffer("contribution"))
