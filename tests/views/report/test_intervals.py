"""Figures with intervals: the metric's own value, and resamples that mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as peer

import hornbeam as hb
from hornbeam.metrics import get_metric
from hornbeam.views.plots.models import judge
from hornbeam.views.report.intervals import _measure, chosen_metrics, figures, some_rows


def test_values_are_those_of_training(case):
    judged = judge(case.booster, case.valid)
    last = case.booster.best_iteration or case.booster.n_iterations
    seen = next(values for name, values in case.booster.eval_history.items() if name != "train")
    found = {figure.name: figure for figure in figures(judged, chosen_metrics(judged, case.valid, list(seen)), 30)}
    assert {name: figure.value for name, figure in found.items()} == {n: v[last - 1] for n, v in seen.items()}
    assert all(figure.low <= figure.value <= figure.high for figure in found.values())


@pytest.fixture(scope="module")
def judged(binary):
    return judge(binary.booster, binary.valid)


@pytest.mark.parametrize("name", ["auc", "average_precision", "binary_logloss", "binary_error"])
def test_a_resample_counts_as_if_rows_were_repeated(judged, name):
    times = np.random.default_rng(0).integers(0, 3, judged.n_rows)
    rows = np.repeat(np.arange(judged.n_rows), times)
    metric = get_metric(name)
    objective = judged.booster.objective
    expected = metric(judged.label[rows], np.ascontiguousarray(judged.raw[:, rows]), None, objective)
    assert _measure(judged, metric)(times.astype(np.float64)) == pytest.approx(expected, rel=1e-9)


def test_r_squared_of_a_resample_is_that_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(200, 2))
    booster = hb.train({"verbosity": -1, "num_leaves": 4}, hb.Dataset(X, label=X[:, 0] + 3.0), 5)
    judged = judge(booster, (X, X[:, 0] + 3.0))
    times = np.random.default_rng(1).integers(0, 3, 200).astype(np.float64)
    expected = peer.r2_score(judged.label, judged.predictions[0], sample_weight=times)
    assert _measure(judged, get_metric("r2"))(times) == pytest.approx(expected, rel=1e-9)


def test_intervals_narrow_with_the_number_of_rows(judged):
    few = np.zeros(judged.n_rows, np.bool_)
    few[::8] = True
    metric = [get_metric("binary_logloss")]
    wide, narrow = figures(some_rows(judged, few), metric, 100)[0], figures(judged, metric, 100)[0]
    assert wide.high - wide.low > narrow.high - narrow.low


def test_without_resamples_there_is_no_interval(judged):
    assert np.isnan(figures(judged, [get_metric("auc")], 0)[0].low)
