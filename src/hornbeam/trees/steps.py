"""A round of growth as a sequence of an engine's operations: the definition of `Engine.expand`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import SPLIT
from hornbeam.trees.engine import Steps
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules, can_split


def expand_in_steps(
    engine: Steps, batch: NDArray[np.void], rules: SplitRules, max_depth: int
) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """Partition, build, subtract and find splits, one after the other; see engine.Engine.expand."""
    parents = Segments(*(np.ascontiguousarray(batch[name]) for name in ("begin", "end", "depth")))
    splits = np.zeros(len(batch), SPLIT)
    for name in ("left_gradient", "left_hessian", "feature", "bin", "missing_left"):
        splits[name] = batch[name]
    n_left = engine.partition(parents, splits)

    middle = parents.begin + n_left
    begin = np.stack([parents.begin, middle], axis=1)
    end = np.stack([middle, parents.end], axis=1)
    gradient = np.stack([batch["left_gradient"], batch["gradient"] - batch["left_gradient"]], axis=1)
    hessian = np.stack([batch["left_hessian"], batch["hessian"] - batch["left_hessian"]], axis=1)
    n_rows = end - begin
    small = (n_rows[:, 0] > n_rows[:, 1]).astype(np.intp)
    both = np.arange(len(batch))
    slot = np.empty((len(batch), 2), np.int32)
    slot[both, small], slot[both, 1 - small] = batch["spare_slot"], batch["slot"]
    wanted = np.zeros((len(batch), 2), bool)
    for node, side in np.ndindex(wanted.shape):
        depth = int(batch["depth"][node]) + 1
        wanted[node, side] = can_split(int(n_rows[node, side]), int(hessian[node, side]), depth, rules, max_depth)

    def segments(nodes: NDArray[np.intp], sides: NDArray[np.intp]) -> Segments:
        return Segments(begin[nodes, sides], end[nodes, sides], parents.depth[nodes] + np.int32(1))

    build = np.flatnonzero(wanted.any(axis=1))
    if len(build):
        engine.build_histograms(segments(build, small[build]), slot[build, small[build]])
        subtract = build[wanted[build, 1 - small[build]]]
        if len(subtract):
            engine.subtract(slot[subtract, 1 - small[subtract]], slot[subtract, small[subtract]])
    found = np.zeros((len(batch), 2), SPLIT)
    found["gain"] = -np.inf
    nodes, sides = np.nonzero(wanted)
    if len(nodes):
        found[nodes, sides] = engine.find_splits(
            segments(nodes, sides), slot[nodes, sides], gradient[nodes, sides], hessian[nodes, sides], rules
        )
    return n_left, found
