"""HornbeamRanker: scikit-learn's conventions, queries in every form, and the same model as `train`."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils import estimator_checks

import hornbeam as hb
from hornbeam import HornbeamRanker
from hornbeam.testing.data import make_ranking

X, Y, SIZES = make_ranking(60, seed=1)
QID = np.repeat(np.arange(len(SIZES)), SIZES)
X_VALID, Y_VALID, VALID_SIZES = make_ranking(20, seed=2)
QUIET = {"n_estimators": 8, "verbosity": -1, "num_leaves": 7}


def test_model_is_that_of_train_however_queries_are_given():
    train = hb.Dataset(X, Y, group=SIZES)
    expected = hb.train({"objective": "lambdarank", "num_leaves": 7, "verbosity": -1}, train, 8).fingerprint()
    frame = pd.DataFrame(X, columns=[f"Column_{i}" for i in range(X.shape[1])])
    for found in (
        HornbeamRanker(**QUIET).fit(X, Y, group=SIZES),
        HornbeamRanker(**QUIET).fit(X, Y, qid=QID),
        HornbeamRanker(**QUIET).fit(frame.assign(qid=QID), Y),
        HornbeamRanker(**QUIET).fit(frame, Y, qid=pd.Series(QID)),
    ):
        assert found.booster_.fingerprint() == expected
    assert found.n_features_in_ == X.shape[1]


def test_predictions_are_raw_scores_and_leave_out_the_query_column():
    frame = pd.DataFrame(X).rename(columns=str).assign(qid=QID)
    model = HornbeamRanker(**QUIET).fit(frame, Y)
    scores = model.predict(frame)
    assert (scores == model.booster_.predict(frame.drop(columns="qid"), raw_score=True)).all()
    assert (scores == model.predict(frame.drop(columns="qid"))).all()
    assert "qid" not in model.feature_names_in_


def test_score_is_the_mean_ndcg():
    model = HornbeamRanker(**QUIET).fit(X, Y, group=SIZES)
    whole, first = model.score(X, Y, group=SIZES), model.score(X, Y, qid=QID, at=1)
    assert 0.6 < first < whole < 1.0
    assert model.score(X, Y, group=[len(Y)]) != whole


def test_evaluation_sets():
    model = HornbeamRanker(**QUIET)
    model.fit(
        X, Y, group=SIZES, eval_set=[(X, Y), (X_VALID, Y_VALID)], eval_group=[SIZES, VALID_SIZES],
        eval_names=["training", "valid"], eval_at=[3, 10], eval_metric="mrr", callbacks=[hb.early_stopping(5)],
    )  # fmt: skip
    assert set(model.evals_result_["valid"]) == {"ndcg@3", "ndcg@10", "mrr"}
    assert model.best_iteration_ > 0
    ids = np.repeat(np.arange(len(VALID_SIZES)), VALID_SIZES)
    again = HornbeamRanker(**QUIET, eval_at=10).fit(X, Y, qid=QID, eval_set=[(X_VALID, Y_VALID)], eval_qid=[ids])
    by_text = again.fit(X, Y, qid=QID, eval_set=[(X_VALID, Y_VALID)], eval_qid=[ids], eval_at="3,10")
    assert list(by_text.evals_result_["valid_0"]) == ["ndcg@3", "ndcg@10"]
    assert again.evals_result_["valid_0"]["ndcg@10"] == model.evals_result_["valid"]["ndcg@10"]


def test_a_weight_a_query_is_taken():
    weight = np.linspace(0.0, 2.0, len(SIZES))
    by_query = HornbeamRanker(**QUIET).fit(X, Y, group=SIZES, sample_weight=weight)
    by_row = HornbeamRanker(**QUIET).fit(X, Y, group=SIZES, sample_weight=np.repeat(weight, SIZES))
    assert by_query.booster_.fingerprint() == by_row.booster_.fingerprint()


@pytest.mark.parametrize("objective", ["lambdarank", "rank:pairwise", "xendcg"])
def test_clone_pickle_and_parameters(objective):
    model = clone(HornbeamRanker(**QUIET, objective=objective, lambdarank_truncation_level=5))
    assert model.get_params()["lambdarank_truncation_level"] == 5
    model.set_params(num_leaves=5).fit(X, Y, group=SIZES)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X_VALID) == model.predict(X_VALID)).all()
    assert max(tree.n_leaves for tree in model.booster_.trees) <= 5


def test_grid_search_by_query():
    frame = pd.DataFrame(X).rename(columns=str).assign(qid=QID)
    search = GridSearchCV(HornbeamRanker(**QUIET), {"num_leaves": [2, 7]}, cv=GroupKFold(3))
    search.fit(frame, Y, groups=QID)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert 0.5 < search.best_score_ < 1.0


def test_a_function_is_an_objective():
    def residuals(y, scores):
        return scores - y, np.ones_like(y)

    model = HornbeamRanker(**QUIET, objective=residuals).fit(X, Y, group=SIZES)
    assert model.score(X, Y, group=SIZES) > 0.7


def test_functions_may_take_weights_and_queries():
    def by_query(y, scores, weight, group):
        assert weight is None
        means = [part.mean() for part in np.split(y, np.cumsum(group)[:-1])]
        return scores - (y - np.repeat(means, group)), np.ones_like(y)

    def n_queries(y, scores, weight, group):
        return "queries", len(group), True

    model = HornbeamRanker(**QUIET, objective=by_query).fit(
        X, Y, group=SIZES, eval_set=[(X_VALID, Y_VALID)], eval_group=[VALID_SIZES], eval_metric=n_queries
    )
    assert set(model.evals_result_["valid_0"]["queries"]) == {len(VALID_SIZES)}
    assert model.score(X, Y, group=SIZES) > 0.7


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, hb.DataError, "pass group= "),
        ({"group": SIZES, "qid": QID}, hb.DataError, "pass one of them"),
        ({"group": SIZES[:-1]}, hb.DataError, "add up"),
        ({"group": SIZES, "eval_set": [(X_VALID, Y_VALID)]}, hb.DataError, r"eval_set\[0\]: ranking needs"),
        ({"group": SIZES, "eval_set": [(X, Y)], "eval_group": []}, hb.DataError, "eval_group has 0 entries"),
        ({"group": SIZES, "eval_at": [0]}, hb.ParameterError, "eval_at"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        HornbeamRanker(**QUIET).fit(X, Y, **arguments)


def test_other_objectives_are_refused():
    with pytest.raises(hb.ParameterError, match="HornbeamRanker takes lambdarank"):
        HornbeamRanker(objective="binary").fit(X, Y, group=SIZES)
    with pytest.raises(hb.ParameterError, match="class_weight"):
        HornbeamRanker(class_weight="balanced").fit(X, Y, group=SIZES)


@pytest.mark.parametrize(
    "check",
    [
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_no_attributes_set_in_init",
        "check_estimator_cloneable",
        "check_estimator_repr",
    ],
)
def test_checks_of_scikit_learn_that_need_no_queries(check):
    function = getattr(estimator_checks, check, None)
    if function is None:
        pytest.skip(f"this scikit-learn has no {check}")
    function("HornbeamRanker", HornbeamRanker())


def test_predicting_before_fitting_is_refused():
    with pytest.raises(NotFittedError):
        HornbeamRanker().predict(X)
