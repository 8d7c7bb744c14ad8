"""`predict(pred_contrib=True)`, `predict(pred_interactions=True)` and `explain` of whole models."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import hornbeam as hb
from hornbeam.explain import Explanation

RNG = np.random.default_rng(0)
N_FEATURES = 5
X = RNG.standard_normal((300, N_FEATURES))
X[RNG.random(X.shape) < 0.1] = np.nan
SIGNAL = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2])
CLASSES = np.digitize(SIGNAL, [-0.5, 0.5]).astype(float)
FRAME = pd.DataFrame(X, columns=list("abcde")).assign(
    d=pd.Categorical(RNG.choice(["x", "y", "z"], 300)), e=RNG.choice(["p", "q"], 300)
)
SMALL = {"num_leaves": 8, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}

MODELS = {
    "regression": ({"objective": "regression"}, X, SIGNAL),
    "binary": ({"objective": "binary"}, X, (SIGNAL > 0).astype(float)),
    "multiclass": ({"objective": "multiclass", "num_class": 3}, X, CLASSES),
    "dart": ({"objective": "regression", "boosting": "dart", "drop_rate": 0.5}, X, SIGNAL),
    "forest": ({"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "objective": "regression"}, X, SIGNAL),
    "categories": ({"objective": "regression"}, FRAME, SIGNAL + (FRAME["d"] == "x")),
    "zeros": ({"objective": "regression", "zero_as_missing": True}, np.round(np.nan_to_num(X)), SIGNAL),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    params, table, label = MODELS[request.param]
    return hb.train({**SMALL, **params}, hb.Dataset(table, label=np.asarray(label)), 6), table


@pytest.fixture(scope="module")
def booster():
    return hb.train({**SMALL, "objective": "regression"}, hb.Dataset(X, label=SIGNAL), 6)


@pytest.fixture(scope="module")
def classes():
    return hb.train({**SMALL, "objective": "multiclass", "num_class": 3}, hb.Dataset(X, label=CLASSES), 4)


def by_output(values, n_outputs):
    return values.reshape(len(values), n_outputs, N_FEATURES + 1)


def test_contributions_add_up_to_the_raw_score(model):
    booster, table = model
    values = by_output(booster.predict(table, pred_contrib=True), booster.n_outputs)
    raw = booster.predict(table, raw_score=True).reshape(len(table), booster.n_outputs)
    np.testing.assert_allclose(values.sum(axis=2), raw, rtol=1e-10, atol=1e-12)
    assert (values[:, :, -1] == values[0, :, -1]).all()
    assert np.abs(values[:, :, :-1]).max() > 0.01


def test_interactions_add_up_to_the_contributions(model):
    booster, table = model
    pairs = booster.predict(table[:40], pred_interactions=True)
    shape = (40, N_FEATURES + 1, N_FEATURES + 1)
    assert pairs.shape == (shape if booster.n_outputs == 1 else (40, booster.n_outputs, *shape[1:]))
    values = by_output(booster.predict(table[:40], pred_contrib=True), booster.n_outputs)
    np.testing.assert_allclose(pairs.sum(axis=-1).reshape(values.shape), values, rtol=0, atol=1e-12)
    assert (pairs == np.swapaxes(pairs, -1, -2)).all()


def test_values_against_background_add_up_to_the_raw_score(model):
    booster, table = model
    found = booster.explain(table[:50], background=table[50:70])
    raw = booster.predict(table[:50], raw_score=True)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, raw, rtol=1e-10, atol=1e-12)
    expected = booster.predict(table[50:70], raw_score=True).mean(axis=0)
    np.testing.assert_allclose(found.base_values[0], expected, rtol=1e-12)


def test_values_against_the_row_itself_are_zero(booster):
    assert (booster.explain(X[3:4], background=X[3:4]).values == 0.0).all()


def test_target_encodings_are_explained():
    params = {**SMALL, "objective": "regression", "target_encoding_levels": 20}
    levels = RNG.integers(0, 60, 300)
    table = np.column_stack((levels, np.nan_to_num(X[:, 0])))
    made = hb.train(params, hb.Dataset(table, label=SIGNAL + levels % 3, categorical_features=[0]), 5)
    assert made.levels is not None and not made.levels[0].is_coded
    values = made.predict(table, pred_contrib=True)
    np.testing.assert_allclose(values.sum(axis=1), made.predict(table, raw_score=True), rtol=1e-10, atol=1e-12)


def test_result_is_the_same_for_any_device_and_number_of_threads(classes, device):
    for choice in ({"pred_contrib": True}, {"pred_interactions": True}):
        expected = classes.predict(X[:60], num_threads=1, **choice)
        assert (classes.predict(X[:60], num_threads=3, device=device, **choice) == expected).all()
    expected = classes.explain(X[:30], X[30:40], num_threads=1)
    assert (classes.explain(X[:30], X[30:40], num_threads=2, device=device).values == expected.values).all()


def test_device_auto_gives_the_same(booster):
    assert (booster.predict(X, pred_contrib=True, device="auto") == booster.predict(X, pred_contrib=True)).all()


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_tables_have_sparse_contributions(booster, classes, form):
    dense = np.where(np.abs(np.nan_to_num(X)) > 0.8, np.nan_to_num(X), 0.0)
    sparse = scipy.sparse.csr_matrix(dense).asformat(form)
    found = booster.predict(sparse, pred_contrib=True)
    assert scipy.sparse.issparse(found) and found.format == form
    assert (found.toarray() == booster.predict(dense, pred_contrib=True)).all()
    parts = classes.predict(sparse, pred_contrib=True)
    assert isinstance(parts, list) and len(parts) == 3
    expected = by_output(classes.predict(dense, pred_contrib=True), 3)
    assert all((part.toarray() == expected[:, output]).all() for output, part in enumerate(parts))
    assert (booster.predict(sparse, pred_interactions=True) == booster.predict(dense, pred_interactions=True)).all()


def test_sparse_and_dense_tables_go_together_as_rows_and_background(booster):
    dense = np.where(np.abs(np.nan_to_num(X[:40])) > 0.8, np.nan_to_num(X[:40]), 0.0)
    sparse = scipy.sparse.csr_matrix(dense)
    expected = booster.explain(dense[:20], dense[20:]).values
    for rows, background in ((dense, sparse), (sparse, dense), (sparse, sparse)):
        assert (booster.explain(rows[:20], background[20:]).values == expected).all()


def test_iterations_are_chosen_as_for_predictions(booster):
    values = booster.predict(X, pred_contrib=True, start_iteration=2, num_iteration=3)
    raw = booster.predict(X, raw_score=True, start_iteration=2, num_iteration=3)
    np.testing.assert_allclose(values.sum(axis=1), raw, rtol=1e-10, atol=1e-12)
    whole = booster.predict(X, pred_contrib=True, iteration_range=(2, 5))
    assert (whole == booster[2:5].predict(X, pred_contrib=True)).all()
    assert (whole[:, :-1] == values[:, :-1]).all()
    assert not booster.predict(X, pred_contrib=True, start_iteration=6).any()
    empty = booster.predict(X, pred_contrib=True, iteration_range=(6, 7))
    assert (empty[:, :-1] == 0.0).all() and (empty[:, -1] == booster.init_scores[0]).all()


def test_estimators_have_contributions():
    labels = np.array(["a", "b", "c"])[CLASSES.astype(int)]
    estimator = hb.HornbeamClassifier(n_estimators=3, **SMALL).fit(X, labels)
    expected = estimator.booster_.predict(X, pred_contrib=True)
    assert (estimator.predict(X, pred_contrib=True) == expected).all()
    by_output = expected.reshape(len(X), 3, N_FEATURES + 1)
    assert (estimator.predict_proba(X, pred_contribs=True) == by_output).all()
    assert estimator.predict(X[:5], pred_interactions=True).shape == (5, 3, N_FEATURES + 1, N_FEATURES + 1)


def test_explanation_has_the_names_and_data_of_the_table(model):
    booster, table = model
    found = booster.explain(table[:10])
    assert found.feature_names == booster.feature_names
    assert found.data.shape == (10, N_FEATURES)
    outputs = () if booster.n_outputs == 1 else (booster.n_outputs,)
    assert found.values.shape == (10, N_FEATURES, *outputs)
    assert found.base_values.shape == (10, *outputs)


def test_explanation_without_shap_has_the_same_values(booster, monkeypatch):
    expected = booster.explain(X[:10])
    monkeypatch.setitem(sys.modules, "shap", None)
    found = booster.explain(X[:10])
    assert type(found) is Explanation and len(found) == 10 and found.shape == (10, N_FEATURES)
    assert (found.values == expected.values).all() and (found[2:4].values == expected.values[2:4]).all()


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"pred_leaf": True, "pred_contrib": True}, "pred_leaf and pred_contrib"),
        ({"pred_contrib": True, "pred_interactions": True}, "pred_contrib and pred_interactions"),
        ({"pred_leaf": True, "pred_interactions": True}, "pred_leaf and pred_interactions"),
    ],
)
def test_options_that_exclude_each_other_are_refused(booster, choices, words):
    with pytest.raises(hb.ParameterError, match=words):
        booster.predict(X, **choices)


def test_wrong_columns_are_refused(booster):
    for call in (lambda: booster.predict(X[:, :3], pred_contrib=True), lambda: booster.explain(X[:, :3])):
        with pytest.raises(hb.DataError, match="data has 3 features, but the model was trained on 5"):
            call()


def test_background_of_other_columns_is_refused(booster):
    with pytest.raises(hb.DataError, match="background has 4 features, but the model was trained on 5"):
        booster.explain(X, background=X[:, :4])


@pytest.mark.parametrize("background", [X[:0], FRAME.iloc[:0], scipy.sparse.csr_matrix((0, 5)), []])
def test_background_without_rows_is_refused(booster, background):
    with pytest.raises(hb.DataError, match="background has no rows"):
        booster.explain(X, background=background)


def test_unknown_covers_are_refused(booster):
    for call in (booster.explain, lambda X, cover: booster.to_shap(cover=cover)):
        with pytest.raises(hb.ParameterError, match="cover='gain'"):
            call(X, cover="gain")
