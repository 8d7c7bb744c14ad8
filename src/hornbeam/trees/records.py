"""What the grower and an engine tell each other: rows of nodes, the root, trees in bins, what contexts are made by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.splitting import FeatureRules


@dataclass(frozen=True, slots=True)
class Segments:
    """The rows of some nodes: node i owns the places begin[i]:end[i] of the engine's row list at its depth.

    begin, end  int64 (n_nodes,)
    depth       int32 (n_nodes,)
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int32]

    def take(self, index: NDArray[np.intp]) -> Segments:
        """Return some of the nodes."""
        return Segments(self.begin[index], self.end[index], self.depth[index])


@dataclass(frozen=True, slots=True)
class Root:
    """Number of rows and fixed-point sums of all rows of a tree.

    depth    where the engine has its root's rows
    n_slots  histograms that there is room for, where these are fewer than were asked for; None: as many
    """

    n_rows: int
    gradient: int
    hessian: int
    depth: int = 0
    n_slots: int | None = None


@dataclass(frozen=True, slots=True)
class BinnedTree:
    """A tree whose thresholds are bins of the training data; children as in tree.py.

    feature       int32 (n_splits,)  position among the used features
    bin           int32 (n_splits,)
    missing_left  bool  (n_splits,)
    left, right   int32 (n_splits,)
    leaf_value    float64 (n_leaves,)
    left_sets     uint32 (n_splits, n_words): bits of the bins that go left (tree.code_bits), for splits of categorical
                  features (positions from BinnedData.n_numeric on), whose missing bin goes right; None: there is none
    """

    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    leaf_value: NDArray[np.float64]
    left_sets: NDArray[np.uint32] | None = None


class ChosenRows(NamedTuple):
    """The rows that a tree was grown on, in host memory; of a worker, its own.

    rows               uint32 (n,), in any order; None: all
    gradient, hessian  float64 (n,): theirs, as they count; not to be written to
    """

    rows: NDArray[np.uint32] | None
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ForestMean:
    """What makes scores of a random forest's sums of trees: forest.average_scores.

    init_scores  float64 (n_outputs,)
    """

    init_scores: NDArray[np.float64]
    n_iterations: int


LeavesLater = Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Waits for what a device computes of the leaves: values and hessian sums, each float64 (n_leaves,); of a tree that all
outputs share, float64 (n_outputs, n_leaves)."""


@dataclass(frozen=True, eq=False, slots=True)
class LeafRenewal:
    """What gives the leaves of one output's trees other values than the Newton step: see Engine.renew_leaves.

    label, weight  float64 (n_rows,), here or on a device: from Objective.prepare and Objective.renewal_weights
    logcosh        whether to go on from the percentile, the median, to the minimum of log(cosh)
    """

    output: int
    percentile: float
    label: Any
    weight: Any
    logcosh: bool


@dataclass(frozen=True, eq=False, slots=True)
class ContextRules:
    """What the contexts of nodes are made by, in all trees of a training run: see contexts.TreeContexts.

    features          signs and contributions
    groups            uint32 (n_groups, n_words): features of each interaction group, bits as in NodeContext.mask
    by_level, by_node  share of the features that a depth may use, and a node among these
    has_keys          nodes make random choices, by the hash of their paths
    monotone_penalty  see contexts.monotone_factor
    in_turn           leaves bound each other (leaf_boxes.py), so that a tree grows one split at a time
    bounds_sides      and each side of a split for itself
    """

    features: FeatureRules
    groups: NDArray[np.uint32]
    by_level: float
    by_node: float
    has_keys: bool
    monotone_penalty: float
    in_turn: bool
    bounds_sides: bool


@dataclass(frozen=True, slots=True)
class ContextsAhead:
    """What the contexts of one tree's nodes are made by.

    keys  of the random choices: features by node, thresholds, features by level (ContextPlan.keys)
    """

    rules: ContextRules
    keys: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GrownAhead:
    """What an engine has grown on its own.

    nodes     dtypes.NODE (n_nodes,): all that were evaluated, parents before their children
    leaves    of a tree that is finished, where the engine has gone on: its rows know their leaves, as if assign_leaves
              had been called with those of replay.py, and the values are what leaf_values_later would give; in
              contexts, what contexts.leaf_outputs would, and renewed ones what grower.renewed_leaves would
    contexts  dtypes.CONTEXT (n_nodes,); None: nodes have none
    numbers   of a tree that is finished, what replay.py would return, where the engine knows it already
    """

    nodes: NDArray[np.void]
    leaves: LeavesLater | None = None
    n_splits: int = 0
    contexts: NDArray[np.void] | None = None
    numbers: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None


class FinishedTree(NamedTuple):
    """A tree that an engine has grown, finished and added to the scores.

    nodes                        dtypes.NODE (n_nodes,), split one at a time
    order, leaf_of               what replay.py would return
    leaf_value, leaf_weight      float64 (n_leaves,)
    gradient_unit, hessian_unit  see Quantization
    """

    nodes: NDArray[np.void]
    order: NDArray[np.int32]
    leaf_of: NDArray[np.int32]
    leaf_value: NDArray[np.float64]
    leaf_weight: NDArray[np.float64]
    gradient_unit: float
    hessian_unit: float
