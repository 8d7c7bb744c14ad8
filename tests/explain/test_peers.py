"""Contributions beside those of LightGBM, XGBoost and SHAP, for the same trees."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.explain import TreeExplainer
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


@pytest.mark.parametrize("classes", [2, 3])
def test_the_tree_explainer_of_a_script_returns_what_shap_returns(classes):
    shap = pytest.importorskip("shap")
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("abcdef"))
    label = np.digitize(Y, [0.0, 1.0][: classes - 1])
    model = hb.LGBMClassifier(n_estimators=3, num_leaves=7, verbosity=-1, n_jobs=1).fit(table, label)
    ours, theirs = TreeExplainer(model), shap.TreeExplainer(model.booster_.to_shap())
    rows = table[:40]
    values, expected = ours.shap_values(rows), theirs.shap_values(rows.astype(float))
    assert values.shape == expected.shape
    np.testing.assert_allclose(values, expected, atol=1e-10)
    np.testing.assert_allclose(np.ravel(ours.expected_value), np.ravel(theirs.expected_value), atol=1e-10)
    called = ours(rows)
    assert type(called) is shap.Explanation
    assert called.feature_names == list("abcdef")
    np.testing.assert_array_equal(called.values, values)
    np.testing.assert_allclose(called.base_values, theirs(rows.astype(float)).base_values, atol=1e-10)
    pairs, theirs_pairs = ours.shap_interaction_values(rows), theirs.shap_interaction_values(rows.astype(float))
    assert pairs.shape == theirs_pairs.shape
    np.testing.assert_allclose(pairs, theirs_pairs, atol=1e-8)
    background = table[50:60].fillna(0.0)
    against = TreeExplainer(model, background)
    np.testing.assert_allclose(against.shap_values(rows), model.explain(rows, background).values, atol=1e-12)
    shares = values.sum(axis=1) + ours.expected_value
    np.testing.assert_allclose(shares, model.predict(rows, raw_score=True), atol=1e-10)
    first = ours.shap_values(rows, tree_limit=1 if classes == 2 else 3).sum(axis=1) + ours.expected_value
    np.testing.assert_allclose(first, model.predict(rows, raw_score=True, num_iteration=1), atol=1e-10)


def test_the_tree_explainer_takes_categories_and_datasets():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": X[:, 2], "b": pd.Categorical(np.where(X[:, 3] > 0, "x", "y"))})
    train_set = hb.DMatrix(table, Y, enable_categorical=True)
    booster = hb.train({"objective": "reg:squarederror", "nthread": 1}, train_set, 2)
    explainer = TreeExplainer(booster)
    values = explainer.shap_values(train_set)
    np.testing.assert_allclose(values.sum(axis=1) + explainer.expected_value, booster.predict(train_set), atol=1e-10)


@pytest.mark.parametrize(
    ("choices", "word"),
    [
        ({"model_output": "probability"}, "to_shap"),
        ({"feature_perturbation": "interventional"}, "data="),
        ({"feature_perturbation": "other"}, "auto"),
        ({"feature_perturbation": "tree_path_dependent", "data": X[:3]}, "leave out data="),
    ],
)
def test_what_the_tree_explainer_does_not_do_is_an_error_that_says_what_does(choices, word):
    booster = hb.train({"objective": "regression", "verbosity": -1, "num_threads": 1}, hb.Dataset(X, label=Y), 1)
    with pytest.raises(hb.ParameterError, match=word):
        TreeExplainer(booster, **choices)
    explainer = TreeExplainer(booster)
    with pytest.raises(hb.ParameterError, match="exact"):
        explainer.shap_values(X, approximate=True)
    with pytest.raises(hb.ParameterError, match="loss"):
        explainer.shap_values(X, Y)
    with pytest.raises(hb.ParameterError, match="background"):
        TreeExplainer(booster, X[:3]).shap_interaction_values(X)


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


def test_imported_models_are_explained_as_lightgbm_explains_them(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    peer = lightgbm.train({"objective": "binary", "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, Y > 0), 5)
    peer.save_model(str(tmp_path / "model.txt"))
    booster = hb.load(tmp_path / "model.txt")
    np.testing.assert_allclose(booster.predict(X, pred_contrib=True), peer.predict(X, pred_contrib=True), atol=1e-6)


@pytest.fixture(scope="module", params=["binary:logistic", "multi:softprob"])
def xgboost_models(request, tmp_path_factory):
    """A model of XGBoost, and the same as it is read from its file."""
    xgboost = pytest.importorskip("xgboost")
    params = {"objective": request.param, "max_depth": 5, "nthread": 1}
    params |= {"num_class": 3} if request.param == "multi:softprob" else {}
    peer = xgboost.train(params, xgboost.DMatrix(X, np.digitize(Y, [0.0, 1.0]) if "num_class" in params else Y > 0), 5)
    path = tmp_path_factory.mktemp("xgboost") / "model.ubj"
    peer.save_model(str(path))
    return peer, hb.load(path)


def test_imported_models_are_explained_as_xgboost_explains_them(xgboost_models):
    """Their files have no counts of rows, so that sums of hessians are the sizes of branches, as in XGBoost."""
    xgboost = pytest.importorskip("xgboost")
    peer, booster = xgboost_models
    few = xgboost.DMatrix(X[:60])
    expected = peer.predict(few, pred_contribs=True)
    found = booster.predict(X[:60], pred_contrib=True).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    expected = peer.predict(few, pred_interactions=True)
    np.testing.assert_allclose(booster.predict(X[:60], pred_interactions=True), expected, atol=2e-6)
    weighed = booster.explain(X[:60], cover="weight")
    assert (booster.explain(X[:60]).values == weighed.values).all()
    assert (
        booster.feature_importance("shap", data=X) == booster.feature_importance("shap", data=X, cover="weight")
    ).all()


def test_sizes_of_branches_that_a_file_does_not_have_are_refused(xgboost_models):
    _, booster = xgboost_models
    with pytest.raises(hb.ParameterError, match=r"cover='weight', or background="):
        booster.explain(X[:5], cover="count")
    with pytest.raises(hb.ParameterError, match="cover='weight'"):
        booster.to_shap(cover="count")
    assert booster.explain(X[:5], X[5:9], cover="count").values.shape[0] == 5  # rows alone are compared


def test_files_without_any_sizes_are_explained_against_rows_alone():
    lightgbm = pytest.importorskip("lightgbm")
    peer = lightgbm.train({"objective": "regression", "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, Y), 2)
    lines = peer.model_to_string().split("\n")
    text = "\n".join(line for line in lines if not line.startswith(("leaf_count", "leaf_weight", "internal_")))
    booster = hb.Booster(model_str=text.replace("tree_sizes", "old_sizes"))
    with pytest.raises(hb.ParameterError, match="pass background="):
        booster.predict(X[:5], pred_contrib=True)
    found = booster.explain(X[:5], X[5:9])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, booster.predict(X[:5]), rtol=1e-10)
