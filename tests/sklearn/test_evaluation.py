"""What estimators evaluate while they are fitted, and early stopping."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import hornbeam as hb
from hornbeam.sklearn import HornbeamClassifier, HornbeamRegressor
from hornbeam.testing.data import make_targets

QUIET = {"n_estimators": 8, "num_leaves": 7, "verbosity": -1}
X, NUMBER, CODES2, CODES3 = make_targets(300)
WEIGHT = np.random.default_rng(4).uniform(0.5, 2.0, len(X))


@pytest.mark.parametrize("where", ["fit", "parameter"])
@pytest.mark.parametrize(
    ("names", "of_two", "of_three"),
    [
        ("logloss", ["binary_logloss"], ["multi_logloss"]),
        ("binary_logloss", ["binary_logloss"], ["multi_logloss"]),
        ("multi_logloss", ["binary_logloss"], ["multi_logloss"]),
        ("error,mlogloss", ["binary_error", "binary_logloss"], ["multi_error", "multi_logloss"]),
        (["multi_error", "logloss"], ["binary_error", "binary_logloss"], ["multi_error", "multi_logloss"]),
    ],
    ids=str,
)
def test_metrics_of_classes_are_those_of_as_many_classes_as_there_are(names, of_two, of_three, where):
    for y, expected in ((CODES2, of_two), (CODES3, of_three)):
        model = HornbeamClassifier(**QUIET, **({"metric": names} if where == "parameter" else {}))
        model.fit(X, y, eval_set=[(X[:50], y[:50])], **({"eval_metric": names} if where == "fit" else {}))
        assert list(model.evals_result_["valid_0"]) == expected


def test_metrics_of_two_classes_follow_the_objective():
    model = HornbeamClassifier(**QUIET, objective="multiclass")
    model.fit(X, CODES2, eval_set=[(X[:50], CODES2[:50])], eval_metric=["error", "logloss"])
    assert list(model.evals_result_["valid_0"]) == ["multi_error", "multi_logloss"]


def test_training_set_in_eval_set_is_called_training():
    model = HornbeamClassifier(**QUIET).fit(X, CODES2, eval_set=((X, CODES2), (X[:9], CODES2[:9])), eval_metric="auc")
    assert {name: list(found) for name, found in model.evals_result_.items()} == {
        "training": ["auc", "binary_logloss"],
        "valid_1": ["auc", "binary_logloss"],
    }
    silent = HornbeamClassifier(**QUIET).fit(X, CODES2, eval_set=(X, CODES2), eval_metric="none")
    assert silent.evals_result_ == {}


@pytest.mark.parametrize("labels", [np.array([0, 1, 2]), np.array(["c", "b", "a"])])
def test_early_stopping_by_parameter_equals_callback(labels):
    noise = np.random.default_rng(0).integers(0, 3, len(X))
    y = labels[np.where(np.arange(len(X)) % 2 == 0, CODES3, noise)]
    options = {"n_estimators": 200, "num_leaves": 15, "verbosity": -1, "learning_rate": 0.3}
    fit = {"X": X[:200], "y": y[:200], "eval_set": [(X[200:], y[200:])]}
    model = HornbeamClassifier(**options, early_stopping_rounds=5).fit(**fit)
    other = HornbeamClassifier(**options).fit(**fit, callbacks=[hb.early_stopping(5)])
    assert 0 < model.best_iteration_ == other.best_iteration_
    assert model.n_iter_ == model.best_iteration_ + 5 < 200
    losses = model.evals_result_["valid_0"]["multi_logloss"]
    assert model.best_score_["valid_0"]["multi_logloss"] == min(losses) == losses[model.best_iteration_ - 1]
    assert (model.predict_proba(X) == model.predict_proba(X, num_iteration=model.best_iteration_)).all()
    assert model.booster_.fingerprint() == other.booster_.fingerprint()


def test_search_whose_last_fit_evaluates_the_training_data_alone_is_not_lost():
    grid = {"num_leaves": [4, 8]}
    search = GridSearchCV(HornbeamClassifier(n_estimators=5, verbosity=-1), grid, cv=2)
    search.fit(X, CODES2, eval_set=[(X, CODES2)], callbacks=[hb.early_stopping(2, verbose=False)])
    assert search.best_params_["num_leaves"] in grid["num_leaves"]
    assert search.best_estimator_.best_iteration_ == 0


def test_early_stopping_needs_an_eval_set():
    with pytest.raises(hb.ParameterError, match="eval_set"):
        HornbeamRegressor(**QUIET, early_stopping_rounds=5).fit(X, NUMBER)


def test_unseen_class_in_eval_set_is_an_error():
    with pytest.raises(hb.DataError, match="classes that fit has not seen"):
        HornbeamClassifier(**QUIET).fit(X, CODES2, eval_set=[(X, CODES3)])
    with pytest.raises(hb.DataError, match="eval_sample_weight has 2 entries"):
        HornbeamClassifier(**QUIET).fit(X, CODES2, eval_set=[(X, CODES2)], eval_sample_weight=[WEIGHT, WEIGHT])
