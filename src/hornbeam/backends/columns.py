"""Labels and weights wherever they are: looked at and added up on their device, or in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.columns import Column, DeviceColumn, Facts, host_of
from hornbeam.data.fields import Fields
from hornbeam.objectives.aft import AftObjective
from hornbeam.objectives.base import Objective
from hornbeam.objectives.label_sums import HostSums, LabelSums


def find_facts(column: DeviceColumn) -> Facts:
    """Look at the numbers of a column on its device."""
    from hornbeam.backends.gpu.data.columns import facts_of

    return facts_of(column)


def label_sums(label: Column, weight: Column | None) -> LabelSums:
    """Return sums of labels and weights: on the device where both are, else in host memory."""
    if isinstance(label, DeviceColumn):
        from hornbeam.backends.gpu.data.columns import sums_on_device

        sums = sums_on_device(label, weight)
        if sums is not None:
            return sums
    return HostSums(host_of(label), host_of(weight))


def first_scores(
    objective: Objective, train_set: Fields, device: str, base_score: Any, is_xgboosts: bool = False
) -> NDArray[np.float64]:
    """Return the constants that training starts from, float64 (n_outputs,): zeros for data with initial scores.

    base_score   the prediction to start from, or one an output; None: the best constant
    is_xgboosts  whether a model of data with initial scores has such constants all the same, for rows without them
    """
    if train_set.given("init_score") is not None and not is_xgboosts:
        return np.zeros(objective.n_outputs)
    if base_score is not None:
        return objective.scores_at(base_score)
    if isinstance(objective, AftObjective):  # it may have bounds in the place of labels
        return objective.init_scores(train_set.label, train_set.weight)
    if train_set.given("label") is None:
        return np.zeros(objective.n_outputs)
    found = objective.scores_of_sums(label_sums(train_set.column("label", device), train_set.column("weight", device)))
    if found is None:
        assert train_set.label is not None
        found = objective.init_scores(train_set.label, train_set.weight)
    return found
