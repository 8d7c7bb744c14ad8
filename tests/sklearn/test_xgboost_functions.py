"""Functions of the user's own in `XGBClassifier` and on a DMatrix: what they are given, and what becomes of them."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.numerics import sigmoid

xgboost = pytest.importorskip("xgboost")
metrics = pytest.importorskip("sklearn.metrics")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=300), [-0.5, 0.5])
WEIGHT = RNG.random(300) + 0.1
QUIET = {"n_estimators": 3, "verbosity": 0}


def softmax_loss(label, scores):
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = odds / odds.sum(axis=1, keepdims=True)
    return p - np.eye(3)[label.astype(int)], 2.0 * p * (1.0 - p)


def logistic_loss(label, scores):
    p = 1.0 / (1.0 + np.exp(-scores))
    return p - label, p * (1.0 - p)


def test_an_objective_function_of_classes_has_the_links_of_xgboosts():
    for function, label in ((softmax_loss, Y), (logistic_loss, (Y > 0).astype(int))):
        theirs, ours = (one.XGBClassifier(objective=function, **QUIET) for one in (xgboost, hb))
        theirs.fit(X, label)
        ours.fit(X, label, eval_set=[(X, label)], verbose=False)
        proba = ours.predict_proba(X)
        assert proba.shape == theirs.predict_proba(X).shape
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert np.abs(proba - theirs.predict_proba(X)).mean() < 0.03
        assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.95
        assert set(ours.predict(X)) <= set(label)
        raw = ours.predict(X, output_margin=True)
        expected = sigmoid(raw) if raw.ndim == 1 else None
        assert expected is None or np.array_equal(proba[:, 1], expected)


def test_metric_functions_of_an_estimator_are_given_weights_by_name():
    for weight in (None, WEIGHT):
        seen = []
        for one in (xgboost, hb):
            model = one.XGBClassifier(eval_metric=metrics.log_loss, **QUIET)
            given = {} if weight is None else {"sample_weight_eval_set": [weight]}
            model.fit(X, Y > 0, sample_weight=weight, eval_set=[(X, Y > 0)], verbose=False, **given)
            found = model.evals_result()["validation_0"]
            seen.append(found)
            np.testing.assert_allclose(found["log_loss"], found["logloss"], rtol=1e-5)
        assert set(seen[0]) == set(seen[1])


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob", "binary:logitraw"])
def test_metric_functions_are_given_what_predict_returns(objective):
    label, shapes = (Y > 0) if objective.startswith("binary") else Y, {}
    for one in (xgboost, hb):
        last = []

        def metric(predictions, data, last=last):
            last.append(predictions.copy())
            return "mine", float(np.mean(data.get_label()))

        data = one.DMatrix(X, label=label)
        params = {"objective": objective, **({} if label is not Y else {"num_class": 3})}
        model = one.train(params, data, 2, evals=[(data, "t")], custom_metric=metric, verbose_eval=False)
        np.testing.assert_allclose(last[-1], model.predict(data), rtol=1e-6)
        shapes[one.__name__] = last[-1].shape
    assert shapes["xgboost"] == shapes["hornbeam"]


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob", "binary:logistic"])
def test_the_booster_of_an_estimator_predicts_what_its_objective_says(objective, tmp_path):
    """Classes for multi:softmax, where the estimator has probabilities all the same, also when it is read."""
    label, shapes = (Y > 0).astype(int) if objective.startswith("binary") else Y, []
    for one in (xgboost, hb):
        model = one.XGBClassifier(objective=objective, **QUIET).fit(X, label)
        predicted = model.get_booster().predict(one.DMatrix(X))
        model.save_model(tmp_path / "model.json")
        loaded = hb.XGBClassifier()
        loaded.load_model(tmp_path / "model.json")
        np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-5)
        assert np.array_equal(loaded.predict(X), model.predict(X))
        if objective == "multi:softmax":
            assert np.array_equal(predicted, model.predict(X))
        shapes.append((predicted.shape, model.predict_proba(X).shape))
    assert shapes[0] == shapes[1]


def test_inplace_predict_takes_a_marker_of_missing_values():
    model = hb.train({}, hb.DMatrix(X, label=Y), 2)
    gaps = np.where(X < -1.0, np.nan, X)
    marked = np.where(np.isnan(gaps), 11.0, gaps)
    assert np.array_equal(model.inplace_predict(marked, missing=11.0), model.inplace_predict(gaps))


@pytest.mark.parametrize("given", [{}, {"base_score": 0.2}, {"num_class": 3}])
@pytest.mark.parametrize("objective", [None, "binary:logistic", "count:poisson"])
def test_an_objective_function_begins_where_xgboosts_does(objective, given):
    if objective and "num_class" in given:
        given = {}
    params, first = {**given, **({"objective": objective} if objective else {})}, []

    def function(scores, data):
        first.append(np.ravel(scores)[:3].astype(float))
        return np.zeros_like(scores), np.ones_like(scores)

    for one in (xgboost, hb):
        one.train(params, one.DMatrix(X, label=Y > 0), 1, obj=function)
    np.testing.assert_allclose(first[1], first[0], atol=1e-6)
    first.clear()
    one_output = {"n_estimators": 1, "objective": lambda label, scores: function(scores, label)}
    for one in (xgboost, hb):
        one.XGBRegressor(**one_output).fit(X, Y)
        one.XGBClassifier(**one_output).fit(X, Y > 0)
    np.testing.assert_allclose(first[2:], first[:2], atol=1e-6)


def test_early_stopping_without_anything_to_evaluate_is_refused():
    data = hb.DMatrix(X, label=Y)
    with pytest.raises(ValueError, match="needs a validation set"):
        hb.train({}, data, 5, early_stopping_rounds=3)
    assert hb.train({}, data, 5, evals=[(data, "t")], early_stopping_rounds=3, verbose_eval=False).n_iterations == 5


def test_attributes_of_the_peers_estimators_and_datasets():
    assert hb.XGBClassifier(feature_types=["q"] * 4).feature_types == ["q"] * 4
    assert hb.XGBRegressor().feature_types is None
    assert hb.Dataset(np.abs(X).round(), label=Y, categorical_features=[1]).categorical_feature == [1]


@pytest.mark.parametrize("label", [X[:, 0] + 3.0, (Y > 0).astype(int), Y])
def test_what_training_starts_from_is_the_intercept(label):
    kind = "XGBRegressor" if label.dtype == float else "XGBClassifier"
    theirs, ours = (getattr(one, kind)(**QUIET).fit(X, label).intercept_ for one in (xgboost, hb))
    assert ours.dtype == theirs.dtype == np.float32
    assert ours.shape == theirs.shape
    if label is not Y:  # scores of classes are right but for a number added to all
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), rtol=1e-4)
    given = getattr(hb, kind)(base_score=0.25, **QUIET).fit(X, label)
    np.testing.assert_allclose(given.intercept_, 0.25, rtol=1e-6)


def test_functions_are_given_weights_where_they_ask_for_them():
    """By name as by XGBoost, by place as by LightGBM; other arguments keep their defaults, and rows their weights."""
    number, seen = X[:, 0] + Y, []

    def squares(label, scores, weight=1.0):
        seen.append(weight)
        return (scores - label) * weight, np.ones(len(label)) * weight

    def by_name(label, scores, sample_weight=1.0):
        return squares(label, scores, sample_weight)

    def behind_others(label, scores, factor=1.0, *, sample_weight=1.0):
        return squares(label, scores, factor * sample_weight)

    def by_place(label, scores, other):
        return squares(label, scores, 1.0 if other is None else other)

    def with_a_constant(label, scores, gamma=2.0):
        assert gamma == 2.0
        return squares(label, scores)

    def of_any(*arguments):
        return squares(*arguments)

    choices = {**QUIET, "tree_method": "exact", "max_depth": 3}
    for weight in (None, WEIGHT):
        expected = xgboost.XGBRegressor(objective=by_name, **choices).fit(X, number, sample_weight=weight).predict(X)
        given = np.ones(len(X)) if weight is None else weight
        for function in (by_name, squares, behind_others, functools.partial(behind_others, factor=1.0), by_place):
            model = hb.XGBRegressor(objective=function, **choices).fit(X, number, sample_weight=weight)
            np.testing.assert_allclose(model.predict(X), expected, atol=1e-4)
            assert np.array_equal(np.broadcast_to(seen[-1], len(X)), given)
        for function in (with_a_constant, of_any):
            model = hb.XGBRegressor(objective=function, **choices).fit(X, number, sample_weight=weight)
            np.testing.assert_allclose(model.predict(X), expected, atol=1e-4)
            assert seen[-1] == 1.0
    with pytest.raises(hb.ParameterError, match="takes 5 arguments"):
        hb.XGBRegressor(objective=lambda a, b, c, d, e: None, **QUIET).fit(X, number)
