"""`train_score_` and `validation_score_`: scores before the first iteration and after each, as scikit-learn keeps them.

They are there where training may end by rows held out (held_out.py); higher is better, and a loss has a minus.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import get_metrics
from hornbeam.model.booster import Booster
from hornbeam.training.finished_models import params_of

FloatArray = NDArray[np.float64]

MOST_ROWS = 10_000
"""Training rows that are scored by the loss: every second, every third, ... of more than these."""

MOST_SCORED = 2_000
"""The same for a scorer, which predicts anew with all trees after each iteration."""


@dataclass(frozen=True)
class ScoredRows:
    """Rows that are scored, as `fit` was given them."""

    X: Any
    y: Any
    sample_weight: Any = None
    init_score: Any = None

    def thinned(self, most: int) -> ScoredRows:
        """Return at most so many of the rows, evenly spaced."""
        n_rows = int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)
        if n_rows <= most:
            return self
        rows = np.arange(0, n_rows, -(-n_rows // most))
        parts = (self.X, self.y, self.sample_weight, self.init_score)
        return ScoredRows(*(None if part is None else _safe_indexing(part, rows) for part in parts))


def training_scores(estimator: Any, scorer: Any, rows: ScoredRows) -> FloatArray:
    """Return float64 (n_iter_ + 1,); (0,) where rows are not in memory, or a function of the user's own is the metric.

    scorer  a function of (estimator, X, y), or None: the loss is scored
    """
    if isinstance(rows.y, str) or not (hasattr(rows.X, "shape") or isinstance(rows.X, (list, tuple))):
        return np.empty(0)
    return np.fromiter(_scores(estimator, scorer, rows.thinned(MOST_SCORED if scorer else MOST_ROWS)), np.float64)


def first_score(estimator: Any, scorer: Any, rows: ScoredRows) -> list[float]:
    """Return the score before the first iteration in a list, which is empty as `training_scores` may be."""
    return list(islice(_scores(estimator, scorer, rows), 1))


def _scores(estimator: Any, scorer: Any, rows: ScoredRows) -> Iterator[float]:
    booster: Booster = estimator.booster_
    if scorer is None:
        yield from _losses(estimator, booster, rows)
        return
    shell = copy.copy(estimator)
    for n_iterations in range(booster.n_iterations + 1):
        shell.booster_ = booster[:n_iterations]
        yield float(scorer(shell, rows.X, rows.y))


def _losses(estimator: Any, booster: Booster, rows: ScoredRows) -> Iterator[float]:
    objective = booster.objective
    metrics = get_metrics(params_of(booster), objective)
    if not metrics:
        return
    table = estimator._check_table(rows.X, reset=False)
    label = estimator._code_target(estimator._check_target(rows.y))
    weight = None if rows.sample_weight is None else np.asarray(rows.sample_weight, np.float64)
    weight = estimator._row_weights(label, weight, getattr(estimator, "class_weight", None))
    data = Dataset(table, label, weight=weight)
    start = np.tile(booster.init_scores, (data.num_data(), 1))
    offset = 0.0 if rows.init_score is None else np.asarray(rows.init_score, np.float64).reshape(len(start), -1)
    for stage in chain([start], booster.staged_predict(table, raw_score=True)):
        raw = np.ascontiguousarray((stage.reshape(len(start), -1) + offset).T)
        score = metrics[0].evaluate(data, raw, objective)[0][1]
        yield score if metrics[0].higher_is_better else -score
