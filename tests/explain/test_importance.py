"""Importances of features: of trees, of contributions, of permutations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from sklearn.metrics import roc_auc_score

import hornbeam as hb
from hornbeam.explain import permutation_importance

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 4))
LABEL = (2.0 * X[:, 0] + X[:, 1] + RNG.standard_normal(400) > 0).astype(float)
PARAMS = {"objective": "binary", "num_leaves": 6, "verbosity": -1, "num_threads": 1, "feature_fraction": 1.0}


@pytest.fixture(scope="module")
def booster():
    return hb.train(PARAMS, hb.Dataset(X, label=LABEL), 8)


def test_importances_of_trees_are_sums_over_splits(booster):
    for kind, values in (("split", "ones"), ("gain", "gain"), ("cover", "split_weight")):
        expected = np.zeros(4)
        for tree in booster.trees:
            for split, feature in enumerate(tree.feature):
                expected[feature] += 1 if values == "ones" else getattr(tree, values)[split]
        np.testing.assert_allclose(booster.feature_importance(kind), expected)
        np.testing.assert_array_equal(booster.feature_importance(kind, 3), booster[:3].feature_importance(kind))
    assert booster.feature_importance("split").dtype == np.int64


def test_shap_importance_is_the_mean_size_of_contributions(booster):
    values = booster.predict(X, pred_contrib=True)[:, :-1]
    np.testing.assert_allclose(booster.feature_importance("shap", data=X), np.abs(values).mean(axis=0), rtol=1e-12)
    sparse = scipy.sparse.csr_matrix(X)
    np.testing.assert_allclose(
        booster.feature_importance("shap", data=sparse), booster.feature_importance("shap", data=X), rtol=1e-12
    )


def test_permutation_importance_is_the_loss_of_the_metric(booster):
    found = permutation_importance(booster, X, LABEL, metric="auc", repeats=3, seed=5)
    assert found.importances.shape == (4, 3) and found.metric == "auc"
    assert found.baseline == pytest.approx(roc_auc_score(LABEL, booster.predict(X)))
    np.testing.assert_array_equal(found.mean, found.importances.mean(axis=1))
    assert found.mean[0] > found.mean[1] > max(found.mean[2:].max(), 0.01)
    again = permutation_importance(booster, hb.Dataset(X, label=LABEL), metric="auc", repeats=3, seed=5)
    np.testing.assert_array_equal(again.importances, found.importances)
    np.testing.assert_array_equal(
        booster.feature_importance("permutation", data=X, label=LABEL, metric="auc", repeats=3, seed=5), found.mean
    )


def test_losses_that_grow_are_positive_importances(booster):
    found = permutation_importance(booster, X, LABEL)
    assert found.metric == "binary_logloss" and found.mean[0] > 0.05


def test_permutation_importance_is_the_same_for_any_device_threads_and_storage(booster, device):
    expected = permutation_importance(booster, X, LABEL, repeats=2, num_threads=1).importances
    for table in (X, scipy.sparse.csr_matrix(X)):
        found = permutation_importance(booster, table, LABEL, repeats=2, num_threads=3, device=device)
        np.testing.assert_array_equal(found.importances, expected)


def test_interval_is_students(booster):
    found = permutation_importance(booster, X, LABEL, repeats=4)
    low, high = found.interval(0.9)
    for feature in np.flatnonzero(found.std):
        expected = scipy.stats.t.interval(0.9, 3, found.mean[feature], scipy.stats.sem(found.importances[feature]))
        np.testing.assert_allclose((low[feature], high[feature]), expected)


def test_features_of_no_split_have_no_importance():
    table = np.column_stack((X, np.zeros(400)))
    made = hb.train(PARAMS, hb.Dataset(table, label=LABEL), 3)
    assert (permutation_importance(made, table, LABEL, repeats=2).importances[4] == 0.0).all()
    assert made.feature_importance("shap", data=table)[4] == 0.0


def test_the_table_is_left_as_it_was(booster):
    before = X.copy()
    permutation_importance(booster, X, LABEL, repeats=1)
    np.testing.assert_array_equal(X, before)


def test_estimators_have_importances():
    estimator = hb.HornbeamClassifier(n_estimators=3, importance_type="cover", verbosity=-1).fit(X, LABEL)
    np.testing.assert_array_equal(estimator.feature_importances_, estimator.booster_.feature_importance("cover"))
    assert permutation_importance(estimator, X, LABEL, repeats=1).importances.shape == (4, 1)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda b: b.feature_importance("much"), hb.ParameterError, "XGBoost: weight"),
        (lambda b: b.feature_importance("gain", data=X), hb.ParameterError, "trees alone; leave out data="),
        (lambda b: b.feature_importance("shap"), hb.DataError, "takes data"),
        (lambda b: b.feature_importance("shap", data=X, label=LABEL), hb.ParameterError, "not label="),
        (lambda b: b.feature_importance("permutation", data=X), hb.DataError, "label is missing"),
        (lambda b: permutation_importance("model", X, LABEL), hb.ParameterError, "pass a Booster"),
        (lambda b: permutation_importance(b, X[:, :2], LABEL), hb.DataError, "2 features"),
        (lambda b: permutation_importance(b, X, LABEL[:9]), hb.DataError, "label"),
        (lambda b: permutation_importance(b, X, LABEL, repeats=0), hb.ParameterError, "repeats"),
        (lambda b: permutation_importance(b, X, LABEL, metric="multi_auc"), hb.ParameterError, "not known"),
        (lambda b: permutation_importance(b, X, LABEL, metric="auc_mu"), hb.ParameterError, "does not fit"),
        (lambda b: permutation_importance(b, hb.Dataset(X)), hb.DataError, "no labels"),
        (lambda b: permutation_importance(b, hb.Dataset(X, label=LABEL), LABEL), hb.ParameterError, "of its own"),
        (lambda b: permutation_importance(b, X, LABEL, repeats=1).interval(), hb.ParameterError, "two repeats"),
        (lambda b: permutation_importance(b, X, LABEL, repeats=2).interval(95), hb.ParameterError, "level=95"),
    ],
)
def test_bad_arguments_are_named(booster, call, error, words):
    with pytest.raises(error, match=words):
        call(booster)
