"""The scores that a training starts from: constants, the initial scores of the data, and the trees there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.columns import DeviceColumn, StartScores, sums_on_device
from hornbeam.dataset.dataset import Dataset
from hornbeam.objectives import Objective
from hornbeam.objectives.label_sums import HostSums, LabelSums
from hornbeam.trees.forest import fitting

if TYPE_CHECKING:
    from hornbeam.training.training import TrainingRun


def label_sums(train_set: Dataset) -> LabelSums | None:
    """Return the sums of the labels, where these are; None: there are no labels."""
    if train_set.given("label") is None:
        return None
    on_device = sums_on_device(train_set.given("label"), train_set.given("weight"))
    return on_device or HostSums(train_set.label, train_set.weight)  # type: ignore[arg-type]


def first_scores(objective: Objective, train_set: Dataset, device: str) -> NDArray[np.float64]:
    """Return the constants that training starts from, float64 (n_outputs,): zeros for data with initial scores."""
    if train_set.given("init_score") is not None or train_set.given("label") is None:
        return np.zeros(objective.n_outputs)
    sums = sums_on_device(train_set.column("label", device), train_set.column("weight", device))
    found = None if sums is None else objective.scores_of_sums(sums)
    if found is None:
        assert train_set.label is not None
        found = objective.init_scores(train_set.label, train_set.weight)
    return found


def start_scores(run: TrainingRun, dataset: Dataset) -> Any:
    """Return the scores before the first new tree: initial ones, then the trees there are, in their order.

    float64 (n_outputs, n_rows), or StartScores: on the device that trains.
    """
    on_device = _scores_of_trees(run, dataset) if run.booster.trees else run.boosting.start_on_device(dataset)
    if on_device is not None:
        return on_device
    scores = run.boosting.start_scores(dataset)
    if run.booster.trees:
        from hornbeam.backends.cpu.prediction.walk import add_trees

        scores = np.array(scores)
        forest, reader = fitting(run.booster.forest, dataset.reader.with_levels(run.booster.levels))
        add_trees(forest.packed, reader, 0, len(forest.trees), scores, run.n_threads)
    return scores


def _scores_of_trees(run: TrainingRun, dataset: Dataset) -> StartScores | None:
    """Return the scores of the trees there are, where the data are on the device that trains; None: on the host."""
    reader, forest, where = dataset.reader, run.booster.forest, run.engine.device_name
    plain = run.params.boosting == "gbdt" and dataset.given("init_score") is None
    if not plain or reader.device != where or not (reader.levels is None and run.booster.levels is None):
        return None
    from hornbeam.backends.gpu.predict import predict_raw_in_place

    made = predict_raw_in_place(forest, reader, run.booster.init_scores, 0, len(forest.trees), None)
    return StartScores(np.zeros(len(made)), DeviceColumn(made))
