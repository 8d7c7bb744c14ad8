"""Estimators on targets of several columns: shapes, and the same model as `train`."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

pytest.importorskip("sklearn")
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.estimator_checks import check_classifier_multioutput, check_regressor_multioutput

SMALL = {"n_estimators": 4, "num_leaves": 7, "verbosity": -1, "n_jobs": 1}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, X[:, :3] + X[:, 1:4]


def test_scikit_learns_own_checks():
    check_regressor_multioutput("HornbeamRegressor", hb.HornbeamRegressor(**SMALL))
    check_classifier_multioutput("HornbeamClassifier", hb.HornbeamClassifier(**SMALL))


def test_regressor_is_the_model_of_train(rows):
    X, Y = rows
    model = hb.HornbeamRegressor(**SMALL).fit(X, Y)
    params = {"num_leaves": 7, "verbosity": -1}
    assert model.booster_.fingerprint() == hb.train(params, hb.Dataset(X, Y), 4).fingerprint()
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) == r2_score(Y, model.predict(X))


def test_classifier_predicts_which_labels_hold(rows):
    pd = pytest.importorskip("pandas")
    X, Y = rows[0], (rows[1] > 0).astype(int)
    model = hb.HornbeamClassifier(**SMALL).fit(X, Y, eval_set=[(X, Y)], eval_metric="error")
    chances, held = model.predict_proba(X), model.predict(X)
    assert model.classes_.tolist() == [0, 1]
    assert (held == (chances > 0.5)).all()
    assert held.dtype.kind == "i"
    assert (chances == model.booster_.predict(X)).all()
    assert (list(model.staged_predict(X))[-1] == held).all()
    assert ((model.decision_function(X) > 0) == held).all()
    assert model.score(X, Y) == accuracy_score(Y, held)
    assert model.evals_result_["training"]["binary_error"][-1] == np.mean(held != Y)
    for same in (Y.tolist(), pd.DataFrame(Y), Y.astype(bool)):
        assert hb.HornbeamClassifier(**SMALL).fit(X, same).booster_.fingerprint() == model.booster_.fingerprint()


def test_functions_of_the_user_see_all_columns(rows):
    X, Y = rows

    def squares(label, scores):
        assert label.shape == scores.shape == Y.shape
        return scores - label, np.ones_like(scores)

    own = hb.HornbeamRegressor(**SMALL, objective=squares).fit(X, Y, sample_weight=np.full(len(X), 2.0))
    named = hb.HornbeamRegressor(**SMALL, boost_from_average=False).fit(X, Y, sample_weight=np.full(len(X), 2.0))
    assert (own.predict(X) == named.predict(X)).all()


def test_bad_targets(rows):
    X, Y = rows
    labels = (Y > 0).astype(int)
    with pytest.raises(hb.DataError, match=r"y\[0, \d\] is 2"):
        hb.HornbeamClassifier(**SMALL).fit(X, labels * 2)
    with pytest.raises(ValueError, match="NaN"):
        hb.HornbeamRegressor(**SMALL).fit(X, np.where(Y > 2, np.nan, Y))
    with pytest.raises(ValueError, match="inconsistent"):
        hb.HornbeamRegressor(**SMALL).fit(X, Y[1:])
    with pytest.raises(hb.ParameterError, match="no classes"):
        hb.HornbeamClassifier(**SMALL, class_weight="balanced").fit(X, labels)
    with pytest.raises(hb.ParameterError, match="objective='poisson'"):
        hb.HornbeamClassifier(**SMALL, objective="poisson").fit(X, labels)
    with pytest.raises(hb.DataError, match="columns"):
        hb.HornbeamClassifier(**SMALL, objective="multiclass").fit(X, labels)
    with pytest.raises(ValueError, match="1d"):
        hb.HornbeamRanker(**SMALL).fit(X, Y, group=[300])
