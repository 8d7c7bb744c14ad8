"""Contributions beside those of LightGBM, XGBoost and SHAP, for the same trees."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.peer_trees import booster_of, lightgbm_trees, xgboost_trees

RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, 6)).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2]) + (np.nan_to_num(X[:, 3]) > 0.5)


def test_contributions_are_those_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    params = {"objective": "regression", "num_leaves": 40, "min_data_in_leaf": 3, "verbosity": -1, "num_threads": 1}
    peer = lightgbm.train(params, lightgbm.Dataset(X, Y), 8)
    ours = booster_of(lightgbm_trees(peer), 6)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(ours.predict(X, pred_contrib=True), peer.predict(X, pred_contrib=True), atol=1e-10)


def test_contributions_and_interactions_are_those_of_xgboost():
    xgboost = pytest.importorskip("xgboost")
    params = {"objective": "reg:squarederror", "max_depth": 6, "nthread": 1, "base_score": 0.0}
    data = xgboost.DMatrix(X, Y)
    peer = xgboost.train(params, data, 8)
    ours = booster_of(xgboost_trees(peer), 6)
    np.testing.assert_allclose(ours.predict(X), peer.predict(data), atol=1e-6)
    found = ours.explain(X, cover="weight")
    expected = peer.predict(data, pred_contribs=True)
    np.testing.assert_allclose(found.values, expected[:, :-1], atol=1e-6)
    np.testing.assert_allclose(found.base_values, expected[:, -1], atol=1e-6)
    few = xgboost.DMatrix(X[:30])
    task = ours._explained(ours.checked_table(X[:30]), (0, None), 1, "cpu", "weight")
    pairs = ours._predict_explained(task, X[:30], True)
    np.testing.assert_allclose(pairs, peer.predict(few, pred_interactions=True), atol=2e-6)


@pytest.mark.parametrize("objective", ["regression", "multiclass"])
def test_shap_explains_the_dictionary_of_trees_alike(objective):
    shap = pytest.importorskip("shap")
    label, params = (Y, {}) if objective == "regression" else (np.digitize(Y, [0.0, 1.0]), {"num_class": 3})
    params |= {"objective": objective, "num_leaves": 12, "verbosity": -1, "num_threads": 1}
    booster = hb.train(params, hb.Dataset(X, label=label), 4)
    rows = X[:60].astype(np.float64)
    explainer = shap.TreeExplainer(booster.to_shap())
    found = booster.explain(rows)
    np.testing.assert_allclose(explainer.shap_values(rows), found.values, atol=1e-10)
    np.testing.assert_allclose(np.ravel(explainer.expected_value), np.ravel(found.base_values[0]), atol=1e-10)
    background = np.nan_to_num(X[60:90]).astype(np.float64)
    against = shap.TreeExplainer(booster.to_shap(), background, feature_perturbation="interventional")
    np.testing.assert_allclose(against.shap_values(rows), booster.explain(rows, background).values, atol=1e-6)


def test_shap_plots_take_an_explanation():
    shap = pytest.importorskip("shap")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    booster = hb.train({"objective": "regression", "verbosity": -1, "num_threads": 1}, hb.Dataset(X, label=Y), 3)
    found = booster.explain(X[:50])
    assert isinstance(found, shap.Explanation)
    shap.plots.bar(found, show=False)
    shap.plots.waterfall(found[0], show=False)
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("params", "table", "word"),
    [
        ({}, {"categorical_features": [0]}, "categorical features"),
        ({"zero_as_missing": True}, {}, "zero_as_missing"),
    ],
)
def test_models_that_shap_cannot_express_are_refused(params, table, word):
    data = hb.Dataset(np.abs(np.round(np.nan_to_num(X))), label=Y, **table)
    booster = hb.train({"objective": "regression", "verbosity": -1, "num_threads": 1, **params}, data, 2)
    with pytest.raises(hb.ParameterError, match=word):
        booster.to_shap()


@pytest.mark.skipif(
    importlib.util.find_spec("hornbeam.convert") is None, reason="models of peers cannot be imported yet"
)
def test_imported_models_are_explained_as_lightgbm_explains_them(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    peer = lightgbm.train({"objective": "binary", "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, Y > 0), 5)
    peer.save_model(str(tmp_path / "model.txt"))
    booster = hb.load(tmp_path / "model.txt")
    np.testing.assert_allclose(booster.predict(X, pred_contrib=True), peer.predict(X, pred_contrib=True), atol=1e-6)
