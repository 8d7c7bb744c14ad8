"""Splits that every tree begins with (`forcedsplits_filename`).

    ForcedSplit   one of them, in bins of the training data, and those below it
    ForcedNodes   the same for one growing tree: which nodes are to have a forced split, and which have one

A forced split is a search with one candidate: one feature by the mask of the node's context, one threshold by the key
of its random choices (`splitting.random_threshold`), which is made so that the threshold is the wanted one. So every
engine finds its sums and its gain as it finds those of any other split, and the side of missing values too.

A node that has its forced split counts as one of infinite gain, so that growth takes it before all others, level by
level and from left to right, and never cuts it back for another; the tree keeps the gain that was found. Where no
engine may split (too few rows or too small a hessian on a side, no gain above `min_gain_to_split`, outputs against a
monotone constraint), the split and all below it are left out, and the node is searched as any other is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.core.random_choices import key_for
from hornbeam.data.binning import BinnedData
from hornbeam.params.constraints import find_feature
from hornbeam.params.params import Params
from hornbeam.trees.frontier import NEVER
from hornbeam.trees.node_table import NodeTable
from hornbeam.trees.splitting import bits_of_threshold

NAME = "forcedsplits_filename"

NO_FEATURE = -1

FIRST = float("inf")
"""Gain and priority of a node that has its forced split."""


@dataclass(frozen=True, slots=True)
class ForcedSplit:
    """One split that trees begin with.

    feature      position among the used features; NO_FEATURE: no row lies above the threshold
    key          of a node's random choices, under which the feature's one threshold is the wanted one
    left, right  splits of the children; None: none is forced
    """

    feature: int
    key: int
    left: ForcedSplit | None
    right: ForcedSplit | None

    def all(self) -> list[ForcedSplit]:
        """Return this split and all below it."""
        found = [self]
        for side in (self.left, self.right):
            if side is not None:
                found += side.all()
        return found


def forced_splits(
    params: Params, feature_names: Sequence[str], binned: BinnedData, categorical: Sequence[int]
) -> ForcedSplit | None:
    """Return the root's forced split, from the canonical form of the parameter; None: no split is forced.

    feature_names  of all features of the data, the unused ones included
    categorical    numbers of the categorical features, target-encoded ones too

    Raises ParameterError for features that cannot be split by a threshold.
    """
    if params.forcedsplits_filename is None:
        return None
    if params.tree_method == "approx":
        raise ParameterError(
            f"{NAME} with tree_method='approx', whose bounds are others in every tree; use 'hist' or 'exact'"
        )
    place_of = {feature: place for place, feature in enumerate(binned.used.tolist())}

    def position(given: int | str) -> int:
        if isinstance(given, int) and given >= len(feature_names):
            raise ParameterError(f"{NAME} names feature {given}; they are numbered 0 to {len(feature_names) - 1}")
        feature = given if isinstance(given, int) else find_feature(given, feature_names, NAME)
        if feature in categorical:
            raise ParameterError(
                f"{NAME} names {feature_names[feature]!r}, a categorical feature; splits of levels cannot be forced"
            )
        if feature not in place_of:
            raise ParameterError(
                f"{NAME} names {feature_names[feature]!r}, which has one bin in these data and is never split; "
                "leave it out"
            )
        return place_of[feature]

    def made(split: dict[str, Any] | None) -> ForcedSplit | None:
        if split is None:
            return None
        place = position(split["feature"])
        bin_ = int(binned.mapper.codes(int(binned.used[place]), np.array([split["threshold"]]))[0])
        n_values, has_missing = int(binned.n_value_bins[place]), bool(binned.has_missing[place])
        below = made(split.get("left")), made(split.get("right"))
        if bin_ == n_values - 1 and not has_missing:
            return ForcedSplit(NO_FEATURE, 0, *below)
        return ForcedSplit(place, key_for(bits_of_threshold(bin_, n_values, has_missing), place), *below)

    return made(json.loads(params.forcedsplits_filename))


class ForcedNodes:
    """The nodes of one tree that are to have forced splits, by their numbers in a NodeTable.

    wanted  their splits; a split that is not allowed is dropped
    gain    of those whose split is found: what it gains
    """

    def __init__(self, root: ForcedSplit) -> None:
        self.wanted = {0: root}
        self.gain: dict[int, float] = {}

    def add_children(self, parents: Sequence[int], nodes: NodeTable) -> None:
        """Enter the forced splits of the children of some nodes, which the NodeTable has already."""
        for parent in parents:
            if parent in self.wanted:
                split, left = self.wanted[parent], nodes.left[parent]
                self.wanted |= {
                    left + place: child for place, child in enumerate((split.left, split.right)) if child is not None
                }

    def settle(self, some: Sequence[int], nodes: NodeTable) -> None:
        """Put nodes first whose forced splits the NodeTable has, and drop the forced splits of those without one."""
        for node in some:
            if nodes.gain[node] == NEVER:
                del self.wanted[node]
                self.gain.pop(node, None)
            else:
                self.gain[node] = nodes.gain[node]
                nodes.gain[node] = nodes.priority[node] = FIRST

    def is_done(self, nodes: NodeTable) -> bool:
        """Say whether no node is left to be split by force."""
        return all(nodes.left[node] >= 0 for node in self.gain)

    def turns(self, depth: Sequence[int]) -> list[int]:
        """Return the level in whose turn depth-wise growth takes each node: the first for forced splits."""
        return [0 if node in self.gain else level for node, level in enumerate(depth)]

    def in_front(self, nodes: NDArray[np.void]) -> NDArray[np.void]:
        """Return a copy of a table, dtypes.NODE (n_nodes,), whose forced splits are all in the root's level."""
        moved = nodes.copy()
        moved["depth"][list(self.gain)] = nodes["depth"][0]
        return moved

    def restore_gains(self, nodes: NDArray[np.void]) -> None:
        """Enter what the forced splits gain into a table, dtypes.NODE (n_nodes,)."""
        nodes["split"]["gain"][list(self.gain)] = list(self.gain.values())
