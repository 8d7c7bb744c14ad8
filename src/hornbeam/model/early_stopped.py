"""Prediction that stops early: rows whose class is clear get no more trees (LightGBM's pred_early_stop)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.prediction import add_trees
from hornbeam.core.errors import ParameterError
from hornbeam.core.log import warn
from hornbeam.data.sources.dense import DenseReader
from hornbeam.data.sources.reader import TableReader
from hornbeam.objectives import Objective
from hornbeam.params.params import whole_number
from hornbeam.trees.forest import Forest, fitting

BLOCK = 1 << 16
"""Rows that are read at a time."""

STOPPING = ("binary", "multiclass", "multiclassova", "lambdarank", "rank_xendcg")
"""Objectives whose predictions may stop early, as in LightGBM: the class or the order matters, not the score."""


def can_stop(objective: Objective, averages_trees: bool) -> bool:
    """Say whether rows of a model may stop; a warning where that was asked for in vain."""
    if objective.name in STOPPING and objective.n_targets == 1 and not averages_trees:
        return True
    kind = "a random forest" if averages_trees else f"objective {objective.name!r} here"
    warn(f"pred_early_stop has no effect with {kind}: its scores have to be exact")
    return False


class EarlyStop(NamedTuple):
    """When rows stop.

    freq    iterations from one look at the rows to the next
    margin  what the class of a row must be clear by
    """

    freq: int
    margin: float

    @classmethod
    def checked(cls, freq: object, margin: object) -> EarlyStop:
        """Make it of what users pass."""
        if isinstance(margin, bool) or not isinstance(margin, (int, float, np.number)) or not margin >= 0:
            raise ParameterError(f"pred_early_stop_margin={margin!r}: must be a number of at least 0")
        return cls(whole_number(freq, "pred_early_stop_freq", 1), float(margin))

    def is_clear(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which rows stop, bool (n_rows,), by their raw scores, float64 (n_outputs, n_rows)."""
        if len(scores) == 1:
            return np.asarray(2.0 * np.abs(scores[0]) > self.margin)
        highest = np.partition(scores, -2, axis=0)[-2:]
        return np.asarray(highest[1] - highest[0] > self.margin)


def early_stopped_scores(
    forest: Forest,
    reader: TableReader,
    init_scores: NDArray[np.float64],
    trees: tuple[int, int],
    stop: EarlyStop,
    n_threads: int,
) -> NDArray[np.float64]:
    """Return raw scores, float64 (n_outputs, n_rows), of rows that stop when their class is clear.

    init_scores  float64 (n_outputs,)  in
    trees        first and last tree, of whole iterations
    """
    scores = np.repeat(np.asarray(init_scores, np.float64)[:, None], reader.n_rows, axis=1)
    for start in range(0, reader.n_rows, BLOCK):
        end = min(start + BLOCK, reader.n_rows)
        _add_until_clear(forest, reader.read(start, end), scores[:, start:end], trees, stop, n_threads)
    return scores


def _add_until_clear(
    forest: Forest,
    rows: NDArray[np.float64],
    scores: NDArray[np.float64],
    trees: tuple[int, int],
    stop: EarlyStop,
    n_threads: int,
) -> None:
    """Add trees to the scores of some rows until their class is clear.

    rows    float64 (n, n_features)   in       levels as codes
    scores  float64 (n_outputs, n)    in, out
    """
    active, period = np.arange(len(rows)), stop.freq * forest.trees_per_iteration
    for first in range(trees[0], trees[1], period):
        last = min(first + period, trees[1])
        part = np.ascontiguousarray(scores[:, active])
        fitted, reader = fitting(forest, DenseReader(np.ascontiguousarray(rows[active])))
        add_trees(fitted, reader, first, last, part, n_threads, "cpu")
        scores[:, active] = part
        if last - first == period:  # LightGBM does not look after a part of a period
            active = active[~stop.is_clear(part)]
        if not len(active):
            return
