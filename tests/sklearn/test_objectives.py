"""Estimators with every objective: same model as `train`, predictions on the scale of the labels, class weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import hornbeam as hb
from hornbeam.objectives import OBJECTIVES
from hornbeam.sklearn import HornbeamClassifier, HornbeamRegressor
from hornbeam.testing.labels import labels_for

QUIET = {"n_estimators": 8, "num_leaves": 7, "verbosity": -1}
X = np.random.default_rng(3).normal(size=(400, 5))
SIGNAL = X[:, 0] * 2.0 + np.abs(X[:, 2]) + 1.0
OF_NUMBERS = [name for name, kind in OBJECTIVES.items() if kind.labels not in ("binary", "classes")]


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_regressor_takes_every_objective_of_numbers(name):
    y = labels_for(name, SIGNAL)
    model = HornbeamRegressor(objective=name, **QUIET).fit(X, y, eval_set=[(X, y)])
    booster = hb.train({"objective": name, **QUIET}, hb.Dataset(X, label=y))
    assert model.booster_.fingerprint() == booster.fingerprint()
    assert (model.predict(X) == booster.predict(X)).all()
    (history,) = model.evals_result_["training"].values()
    assert history[-1] < history[0]


def test_scores_are_of_predictions_not_of_raw_scores():
    y = labels_for("poisson", SIGNAL)
    model = HornbeamRegressor(objective="poisson", **{**QUIET, "n_estimators": 60})
    assert cross_val_score(model, X, y, scoring="neg_mean_poisson_deviance", cv=3).min() > -3.0
    assert model.fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("objective", ["focal", "cross_entropy", "hinge", "binary", "multiclassova", "multiclass"])
@pytest.mark.parametrize("weighted", [False, True])
def test_classifier_of_two_classes(objective, weighted):
    y = np.where(SIGNAL > 1.0, "yes", "no")
    weights = {"class_weight": {"yes": 3.0, "no": 1.0}} if weighted else {}
    model = HornbeamClassifier(objective=objective, **weights, **{**QUIET, "n_estimators": 30}).fit(X, y)
    probability = model.predict_proba(X)
    assert np.allclose(probability.sum(axis=1), 1.0)
    assert model.score(X, y) > 0.9
    if weighted:
        plain = HornbeamClassifier(objective=objective, **{**QUIET, "n_estimators": 30}).fit(X, y)
        assert probability[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()


def test_classifier_of_three_classes_one_against_all():
    y = labels_for("multiclassova", SIGNAL * 2.0)
    model = HornbeamClassifier(objective="ovr", is_unbalance=True, **{**QUIET, "n_estimators": 30}).fit(X, y)
    own = model.booster_.predict(X)
    assert np.allclose(model.predict_proba(X), own / own.sum(axis=1, keepdims=True))
    assert model.score(X, y) > 0.8
    with pytest.raises(hb.ParameterError, match="multiclass or multiclassova for 3 classes"):
        HornbeamClassifier(objective="focal", **QUIET).fit(X, y)


def test_alpha_is_no_penalty():
    for alpha in (0.5, 0.9):
        with pytest.raises(hb.ParameterError, match="lambda_l1"):
            HornbeamRegressor(alpha=alpha, **QUIET).fit(X, SIGNAL)
    low, high = (HornbeamRegressor(objective="quantile", alpha=a, **QUIET).fit(X, SIGNAL) for a in (0.1, 0.9))
    assert (low.predict(X) < high.predict(X)).mean() > 0.99
