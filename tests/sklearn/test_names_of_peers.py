"""Estimators by the names and arguments that scripts of LightGBM and XGBoost have."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hornbeam as hb
from hornbeam.core.errors import DataError

SMALL = {"n_estimators": 5, "num_leaves": 7, "verbosity": -1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 4)), 1)
    X[rng.random(X.shape) < 0.2] = -999.0
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


SAME = {
    "num_leaves": 7, "learning_rate": 0.2, "max_depth": 5, "max_bin": 63, "grow_policy": "leafwise", "reg_lambda": 0.0,
    "min_child_samples": 20, "min_child_weight": 1e-3, "min_data_in_bin": 3,
}  # fmt: skip
"""Everything whose default is another one for XGBoost's estimators."""


@pytest.mark.parametrize("kind", ["Classifier", "Regressor", "Ranker"])
def test_estimators_have_the_names_of_peers(kind):
    for peer in ("LGBM", "XGB"):
        named = getattr(hb, f"{peer}{kind}")
        assert issubclass(named, getattr(hb, f"Hornbeam{kind}"))
        assert named.__name__ == f"{peer}{kind}"
        assert repr(named(n_estimators=3)).startswith(f"{peer}{kind}(")


def test_steps_of_pipelines_are_named_as_the_peers(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), hb.LGBMClassifier(n_estimators=3, verbosity=-1, n_jobs=1))
    search = GridSearchCV(pipeline, {"lgbmclassifier__num_leaves": [2, 4]}, cv=2).fit(X, y)
    best = search.best_estimator_.named_steps["lgbmclassifier"]
    plain = hb.HornbeamClassifier(n_estimators=3, num_leaves=best.num_leaves, verbosity=-1, n_jobs=1)
    expected = plain.fit(StandardScaler().fit_transform(X), y)
    assert best.booster_.fingerprint() == expected.booster_.fingerprint()
    assert type(pickle.loads(pickle.dumps(best))) is type(clone(best)) is hb.LGBMClassifier


def test_names_of_peers_can_be_imported():
    from hornbeam import LGBMRegressor
    from hornbeam.sklearn import LGBMClassifier, XGBClassifier

    assert (LGBMRegressor, LGBMClassifier) == (hb.LGBMRegressor, hb.LGBMClassifier)
    assert XGBClassifier is hb.XGBClassifier


def test_modules_of_peers_have_what_their_scripts_import():
    from hornbeam.basic import Booster as LightGBMs
    from hornbeam.engine import train as of_engine

    from hornbeam.core import Booster, DataIter, DMatrix, QuantileDMatrix, XGBoostError
    from hornbeam.training import cv, train

    assert Booster is LightGBMs is hb.Booster
    assert (DataIter, DMatrix, QuantileDMatrix) == (hb.DataIter, hb.DMatrix, hb.QuantileDMatrix)
    assert XGBoostError is hb.HornbeamError
    assert train is of_engine is hb.train
    assert cv is hb.cv
    for package in (hb.core, hb.training):
        with pytest.raises(AttributeError, match=r"has no attribute 'Dataset'"):
            package.Dataset  # noqa: B018  (it is asked for)


@pytest.mark.parametrize(
    "given", [{}, {"max_depth": 9, "eta": 0.1}, {"subsample": 0.6, "colsample_bytree": 0.5}, {"booster": "dart"}]
)
def test_estimators_of_xgboosts_names_train_as_a_dmatrix_is_trained_on(data, given):
    X, y = data
    model = hb.XGBClassifier(n_estimators=4, **given).fit(X, y)
    expected = hb.train({"objective": "binary:logistic", **given}, hb.DMatrix(X, y), 4)
    assert model.booster_.fingerprint() == expected.fingerprint()
    assert clone(model).fit(X, y).booster_.fingerprint() == expected.fingerprint()
    assert model.get_booster().trees_to_dataframe().equals(expected.trees_to_dataframe())


def test_estimators_of_xgboosts_names_stop_and_weigh_features_as_xgboosts_do(data):
    peer = pytest.importorskip("xgboost")
    X, y = data
    stopped = {}
    for name, library in (("ours", hb), ("theirs", peer)):
        model = library.XGBClassifier(
            n_estimators=60, learning_rate=0.5, max_depth=3, eval_metric=["error", "logloss"], early_stopping_rounds=5
        )
        model.fit(X[:200], y[:200], eval_set=[(X[:200], y[:200]), (X[200:], y[200:])], verbose=False)
        history = model.evals_result()["validation_1"]["logloss"]
        assert model.best_iteration == int(np.argmin(history))
        assert len(history) == model.best_iteration + 6
        stopped[name] = model
    shares = [model.feature_importances_ for model in stopped.values()]
    assert [one.dtype for one in shares] == [np.float32] * 2
    assert [one.sum() for one in shares] == pytest.approx([1.0, 1.0])
    assert [int(one.argmax()) for one in shares] == [int(shares[1].argmax())] * 2


def test_models_as_the_recipe_of_cross_validation_and_searches_use_them(data):
    X, y = data
    model = hb.XGBClassifier(n_estimators=5, max_depth=3)
    found = hb.cv(model.get_xgb_params(), hb.DMatrix(X, y), 5, nfold=3, metrics="auc", early_stopping_rounds=3)
    assert list(found) == ["train-auc-mean", "train-auc-std", "test-auc-mean", "test-auc-std"]
    search = GridSearchCV(model, {"max_depth": [1, 4], "learning_rate": [0.1, 0.5]}, cv=3).fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1


TABLES = {
    "array": np.asarray,
    "integers": lambda X: np.round(X).astype(np.int64),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcd")),
    "polars": lambda X: pl.DataFrame(X, schema=list("abcd")),
    "sparse": scipy.sparse.csr_array,
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_marker_of_missing_values_is_nan(data, kind):
    X, y = data
    table = TABLES[kind](X)
    plain = TABLES[kind](np.round(X)) if kind == "integers" else X
    clean = np.where(plain == -999.0, np.nan, plain)
    clean = pd.DataFrame(clean, columns=list("abcd")) if kind in ("pandas", "polars") else clean
    rounds = {"n_estimators": 5, "verbosity": -1}
    made = hb.XGBClassifier(missing=-999.0, **SAME, **rounds).fit(table, y, eval_set=[(table, y)], verbose=False)
    expected = hb.HornbeamClassifier(**SAME, **rounds).fit(clean, y)
    assert made.booster_.fingerprint() == expected.booster_.fingerprint()
    assert np.array_equal(made.predict_proba(table), expected.predict_proba(clean))
    assert made.get_params()["missing"] == -999.0
    names = {"feature_names": list("abcd")} if kind in ("pandas", "polars") else {}
    by_matrix = hb.train({"objective": "binary", **SAME}, hb.DMatrix(table, y, missing=-999.0, **names), 5)
    assert by_matrix.fingerprint() == expected.booster_.fingerprint()


def test_data_with_a_marker_are_not_changed(data):
    X, y = data
    sparse, dense = scipy.sparse.csr_array(X), X.copy()
    for table in (sparse, dense):
        hb.XGBRegressor(missing=-999.0, **SMALL).fit(table, y)
    assert np.array_equal(dense, X)
    assert np.array_equal(sparse.toarray(), X)


def test_what_a_sparse_table_does_not_store_is_no_marker(data):
    X, y = data
    with pytest.raises(DataError, match="zero_as_missing=True"):
        hb.XGBClassifier(missing=0, **SMALL).fit(scipy.sparse.csr_array(X), y)


def test_a_base_score_is_where_an_estimator_starts(data):
    X, y = data
    model = hb.XGBRegressor(base_score=0.25, **{**SMALL, "n_estimators": 1, "learning_rate": 1e-9}).fit(X, y)
    assert model.predict(X) == pytest.approx(0.25, abs=1e-6)
    classifier = hb.XGBClassifier(base_score=0.5, **SMALL).fit(X, y)
    plain = hb.XGBClassifier(boost_from_average=False, **SMALL).fit(X, y)
    assert np.array_equal(classifier.predict_proba(X), plain.predict_proba(X))


def test_forests_of_xgboosts_names_are_trees_side_by_side(data):
    peer = pytest.importorskip("xgboost")
    X, y = data
    ours = hb.XGBRFRegressor(n_estimators=20, random_state=1).fit(X, y)
    theirs = peer.XGBRFRegressor(n_estimators=20, random_state=1).fit(np.where(X == -999.0, -50.0, X), y)
    assert (ours.booster_.n_iterations, ours.booster_.num_trees()) == (1, 20)
    assert np.mean((ours.predict(X) - y) ** 2) < 1.2 * np.mean((theirs.predict(X) - y) ** 2)
    assert hb.XGBRFClassifier(n_estimators=4).fit(X, y).get_params()["colsample_bynode"] == 0.8
    assert clone(ours).fit(X, y).booster_.fingerprint() == ours.booster_.fingerprint()


def test_types_of_features_without_a_categorical_one_are_numbers(data):
    X, y = data
    plain = hb.XGBRegressor(n_estimators=2).fit(X, y)
    typed = hb.XGBRegressor(n_estimators=2, feature_types=["q"] * 4).fit(X, y)
    assert typed.booster_.fingerprint() == plain.booster_.fingerprint()


def test_the_class_of_all_estimators_of_xgboosts_can_be_fitted_by_itself(data):
    peer = pytest.importorskip("xgboost")
    X, _ = data
    X = np.where(X == -999.0, np.nan, X)
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2
    model = hb.XGBModel(n_estimators=20, max_depth=3).fit(X, y)
    assert np.array_equal(model.predict(X), hb.XGBRegressor(n_estimators=20, max_depth=3).fit(X, y).predict(X))
    theirs = peer.XGBModel(n_estimators=20, max_depth=3).fit(X, y)
    losses = [np.mean((one.predict(X) - y) ** 2) for one in (model, theirs)]
    assert losses[0] == pytest.approx(losses[1], rel=0.2)
    chances = hb.XGBModel(n_estimators=5, objective="binary:logistic").fit(X, y > 1).predict(X)
    assert chances.shape == y.shape and 0.0 < chances.min() < chances.max() < 1.0
    assert clone(model).fit(X, y).booster_.fingerprint() == model.booster_.fingerprint()
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()


def test_every_estimator_is_of_the_class_that_its_library_says():
    for kind in ("XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier", "XGBRFRegressor"):
        assert isinstance(getattr(hb, kind)(), hb.XGBModel)
    for kind in ("LGBMClassifier", "LGBMRegressor", "LGBMRanker"):
        assert isinstance(getattr(hb, kind)(), hb.LGBMModel)
        assert not isinstance(getattr(hb, kind)(), hb.XGBModel)


def test_parameters_for_train_have_xgboosts_names_though_they_are_not_given(data):
    peer = pytest.importorskip("xgboost")
    X, y = data
    ours, theirs = (library.XGBRegressor(n_estimators=3, max_depth=2).get_xgb_params() for library in (hb, peer))
    assert ours["max_depth"] == theirs["max_depth"] == 2
    assert theirs["gamma"] is None and ours["gamma"] == 0.0
    assert "min_split_gain" not in ours
    found = hb.train(ours, hb.DMatrix(X, y), 3)
    assert found.fingerprint() == hb.XGBRegressor(n_estimators=3, max_depth=2).fit(X, y).booster_.fingerprint()


def test_alpha_and_lambda_are_penalties_for_xgboosts_estimators(data):
    X, y = data
    given = {"alpha": 0.5, "lambda": 2.0, "gamma": 0.1, "max_depth": 2}
    model = hb.XGBRegressor(n_estimators=3, **given).fit(X, y)
    assert model.booster_.params["lambda_l1"] == 0.5
    expected = hb.XGBRegressor(n_estimators=3, reg_alpha=0.5, reg_lambda=2.0, gamma=0.1, max_depth=2).fit(X, y)
    assert model.booster_.fingerprint() == expected.booster_.fingerprint()
    assert model.booster_.fingerprint() == hb.train(given, hb.DMatrix(X, y), 3).fingerprint()
    quantile = hb.HornbeamRegressor(objective="quantile", **SMALL)
    quantile.alpha = 0.2
    assert quantile.fit(X, y).booster_.params["alpha"] == 0.2


def test_predict_takes_training_but_for_dart(data):
    X, y = data
    train_set = hb.DMatrix(X, y)
    booster = hb.train({"nthread": 1}, train_set, 2)
    assert np.array_equal(booster.predict(train_set, output_margin=True, training=True), booster.predict(train_set))
    dart = hb.train({"nthread": 1, "booster": "dart"}, train_set, 2)
    with pytest.raises(hb.ParameterError, match="all trees predict"):
        dart.predict(train_set, training=True)


@pytest.mark.parametrize("kind", ["XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier"])
def test_xgboosts_estimators_have_its_parameters_whether_they_are_given_or_not(kind):
    peer = pytest.importorskip("xgboost")
    ours = getattr(hb, kind)()
    assert set(getattr(peer, kind)().get_params()) <= set(ours.get_params())
    assert ours.get_params()["gamma"] is None and np.isnan(ours.get_params()["missing"])
    given = getattr(hb, kind)(gamma=2.0, missing=-1.0)
    for same in (clone(given), getattr(hb, kind)(**given.get_params()), ours.set_params(**given.get_params())):
        assert same.get_params()["gamma"] == same.gamma == 2.0
        assert same.get_params()["missing"] == -1.0


def test_an_estimator_of_all_its_parameters_is_the_same(data, caplog):
    X, y = data
    model = hb.XGBClassifier(n_estimators=3, gamma=0.5).fit(X, y)
    with caplog.at_level("INFO", logger="hornbeam"):
        again = hb.XGBClassifier(**model.get_params()).fit(X, y)
    assert again.booster_.fingerprint() == model.booster_.fingerprint()
    assert not caplog.records


def test_evaluations_are_of_lightgbms_class(data):
    from hornbeam.basic import EvalResult

    X, y = data
    seen = []
    hb.train({"verbosity": -1}, hb.Dataset(X, y), 2, {"valid": hb.Dataset(X, y)}, callbacks=[seen.append])
    one = seen[0].evaluation_result_list[0]
    assert isinstance(one, EvalResult) and not isinstance(tuple(one), EvalResult)
    assert EvalResult(dataset_name="valid", metric_name="l2", metric_value=one.value, maximize=False) == one
    mean = EvalResult("valid", "auc", 0.5, True, 0.1)
    assert (mean.metric_std_dev, len(mean), isinstance(mean, EvalResult)) == (0.1, 5, True)
