"""The scores that a training starts from: constants, the initial scores of the data, and the trees there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.backends.prediction import add_trees, predict_in_place
from hornbeam.data.columns import DeviceColumn, StartScores
from hornbeam.dataset.dataset import Dataset
from hornbeam.training.boosting import Boosting
from hornbeam.training.state import TrainingState
from hornbeam.trees.forest import fitting


def start_scores(state: TrainingState, boosting: Boosting, dataset: Dataset) -> Any:
    """Return the scores before the first new tree: initial ones, then the trees there are, in their order.

    float64 (n_outputs, n_rows), or StartScores: on the device that trains.
    """
    on_device = _scores_of_trees(state, dataset) if state.booster.trees else boosting.start_on_device(dataset)
    if on_device is not None:
        return on_device
    scores = boosting.start_scores(dataset)
    if state.booster.trees:
        scores = np.array(scores)
        for rows, piece in dataset.pieces():
            forest, reader = fitting(state.booster.forest, piece.with_levels(state.booster.levels))
            part = np.ascontiguousarray(scores[:, rows])
            add_trees(forest, reader, 0, len(forest.trees), part, state.n_threads, state.engine.host_device)
            scores[:, rows] = part
    return scores


def _scores_of_trees(state: TrainingState, dataset: Dataset) -> StartScores | None:
    """Return the scores of the trees there are, where the data are on the device that trains; None: on the host."""
    reader, forest, where = dataset.reader, state.booster.forest, state.engine.device_name
    plain = not forest.is_linear and state.params.boosting == "gbdt" and dataset.given("init_score") is None
    if not plain or reader.device != where or not (reader.levels is None and state.booster.levels is None):
        return None
    made = predict_in_place(forest, reader, state.booster.init_scores, (0, len(forest.trees)), None)
    return StartScores(np.zeros(len(made)), DeviceColumn(made))
