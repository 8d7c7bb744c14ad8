"""Curves agree with scikit-learn's and with counting."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from hornbeam.views.plots.curves import calibration, confusion, thinned, thresholds


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "weighted"])
def scored(request):
    rng = np.random.default_rng(0)
    score = np.round(rng.uniform(size=500), 2)  # with ties
    positive = rng.uniform(size=500) < score
    return positive, score, rng.uniform(0.1, 2.0, 500) if request.param else None


def test_roc_is_that_of_scikit_learn(scored):
    positive, score, weight = scored
    at = thresholds(positive, score, weight)
    fall_out, recall, cuts = metrics.roc_curve(positive, score, sample_weight=weight, drop_intermediate=False)
    np.testing.assert_allclose(at.fall_out, fall_out, atol=1e-12)
    np.testing.assert_allclose(at.recall, recall, atol=1e-12)
    np.testing.assert_array_equal(at.threshold, cuts)
    assert at.auc == pytest.approx(metrics.roc_auc_score(positive, score, sample_weight=weight), abs=1e-12)


def test_precision_and_recall_are_those_of_scikit_learn(scored):
    positive, score, weight = scored
    at = thresholds(positive, score, weight)
    precision, recall, _ = metrics.precision_recall_curve(positive, score, sample_weight=weight)
    np.testing.assert_allclose(at.precision[1:][::-1], precision[:-1], atol=1e-12)
    np.testing.assert_allclose(at.recall[1:][::-1], recall[:-1], atol=1e-12)
    expected = metrics.average_precision_score(positive, score, sample_weight=weight)
    assert at.average_precision == pytest.approx(expected, abs=1e-12)


def test_one_class_alone_has_curves_without_division_by_zero():
    at = thresholds(np.ones(5, np.bool_), np.arange(5.0))
    assert np.isfinite(at.recall).all() and np.isfinite(at.fall_out).all() and np.isfinite(at.precision).all()


def test_calibration_groups_hold_every_row_once_and_intervals_hold_the_share(scored):
    positive, score, weight = scored
    found = calibration(positive.astype(float), score, weight, 10)
    each = np.ones(500) if weight is None else weight
    assert found.weight.sum() == pytest.approx(each.sum())
    assert float(found.seen @ found.weight) == pytest.approx(float(positive @ each))
    assert ((found.low <= found.seen) & (found.seen <= found.high)).all()
    assert (np.diff(found.predicted) > 0).all()


def test_calibration_of_one_prediction_is_one_group():
    found = calibration(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    assert found.predicted.tolist() == [0.5] and found.seen.tolist() == [0.5]


def test_confusion_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    label, predicted, weight = rng.integers(4, size=200), rng.integers(4, size=200), rng.uniform(size=200)
    np.testing.assert_array_equal(confusion(label, predicted, 4), metrics.confusion_matrix(label, predicted))
    expected = metrics.confusion_matrix(label, predicted, sample_weight=weight)
    np.testing.assert_allclose(confusion(label, predicted, 4, weight), expected)


def test_thinned_curves_keep_both_ends_and_stay_near():
    x = np.linspace(0.0, 1.0, 5000)
    y = np.sqrt(x)
    kept = thinned(x, y, 100)
    assert len(kept) <= 101 and kept[0] == 0 and kept[-1] == 4999
    assert np.abs(np.interp(x, x[kept], y[kept]) - y).max() < 0.02
