"""XGBoost's names on a Dask cluster: the models of a DMatrix and of the estimators in one process, to the bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import hornbeam as hb
from hornbeam.core.errors import DataError, ParameterError

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client, LocalCluster

import hornbeam.dask as hbd

CHUNKS = (200, 0, 100, 300)
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "device": "reference"}
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(600, 4))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0.0).astype(float)
NUMBER = X[:, 0] * X[:, 1] + X[:, 2]
WEIGHT = 0.5 + np.abs(X[:, 3])
QUERY = np.repeat(np.arange(30), 20)
QUIET = {"verbose_eval": False}


@pytest.fixture(scope="module")
def client():
    """Two workers in this process, so that what they print is heard."""
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as made:
        yield made


def in_chunks(values):
    return da.from_array(values, chunks=(CHUNKS, *((size,) for size in values.shape[1:])))


@pytest.fixture(scope="module")
def dtrain(client):
    return hbd.DaskDMatrix(client, in_chunks(X), in_chunks(Y), weight=in_chunks(WEIGHT))


@pytest.fixture(scope="module")
def whole():
    return hb.DMatrix(X, Y, weight=WEIGHT)


@pytest.fixture(scope="module")
def one(whole):
    return hb.train(PARAMS, whole, 4, **QUIET)


def test_the_result_is_the_model_of_one_process_and_its_history(client, dtrain, whole):
    expected, kept = {}, {}
    params = {**PARAMS, "eval_metric": ["auc", "logloss"]}
    one = hb.train(params, whole, 4, evals=[(whole, "train")], evals_result=expected, **QUIET)
    found = hbd.train(client, params, dtrain, 4, evals=[(dtrain, "train")], evals_result=kept, **QUIET)
    assert list(found) == ["booster", "history"]
    assert type(found["booster"]) is hbd.Booster is hb.Booster
    assert found["booster"].fingerprint() == one.fingerprint()
    assert found["history"] == kept == expected


def test_the_model_is_near_xgboosts(client):
    peer = pytest.importorskip("xgboost")
    ours = hbd.DaskDMatrix(client, in_chunks(X), in_chunks(Y))
    result = hbd.train(client, {**PARAMS, "eta": 0.1}, ours, 10, evals=[(ours, "train")], **QUIET)
    theirs, expected = peer.DMatrix(X, Y), {}
    params = {name: value for name, value in PARAMS.items() if name != "device"}
    watched = {"evals": [(theirs, "train")], "evals_result": expected}
    booster = peer.train({**params, "eta": 0.1}, theirs, 10, **watched, **QUIET)
    assert result["history"]["train"]["logloss"] == pytest.approx(expected["train"]["logloss"], rel=0.02)
    assert np.corrcoef(result["booster"].predict(X), booster.predict(theirs))[0, 1] > 0.98


def test_weights_of_features_are_those_of_a_dmatrix(client):
    params, weights = {"colsample_bynode": 0.5, "max_depth": 3, "device": "reference"}, [1.0, 0.0, 9.0, 2.0]
    expected = hb.train(params, hb.DMatrix(X, NUMBER, feature_weights=weights), 3, **QUIET).fingerprint()
    dtrain = hbd.DaskDMatrix(client, in_chunks(X), in_chunks(NUMBER), feature_weights=np.array(weights))
    assert hbd.train(client, params, dtrain, 3, **QUIET)["booster"].fingerprint() == expected
    for given, fitted in (({"feature_weights": weights}, {}), ({}, {"feature_weights": weights})):
        model = hbd.DaskXGBRegressor(**params, n_estimators=3, **given)
        model.client = client
        model.fit(in_chunks(X), in_chunks(NUMBER), **fitted)
        assert model.booster_.fingerprint() == expected


CASES = {
    "defaults": ({}, Y, {}),
    "pairs": ([("objective", "binary:logistic"), ("eval_metric", "auc"), ("eval_metric", "error")], Y, {}),
    "alpha": ({"alpha": 1.5}, NUMBER, {}),
    "rows and features": ({"subsample": 0.6, "colsample_bytree": 0.5, "seed": 3}, NUMBER, {}),
    "some signs": ({"monotone_constraints": [1]}, NUMBER, {}),
    "dart": ({"booster": "dart", "rate_drop": 0.5}, NUMBER, {}),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, np.digitize(NUMBER, [-0.5, 0.5]), {}),
    "columns": ({"num_target": 2}, np.column_stack([NUMBER, X[:, 3]]), {}),
    "queries": ({"objective": "rank:ndcg"}, Y, {"qid": QUERY}),
    "start": ({}, NUMBER, {"base_margin": WEIGHT}),
    "times": ({"objective": "survival:aft"}, None, {"label_lower_bound": WEIGHT, "label_upper_bound": WEIGHT + 1.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_training_is_that_of_a_dmatrix(client, case):
    given, label, fields = CASES[case]
    small = {"device": "reference"} if case == "defaults" else {"device": "reference", "max_depth": 3}
    params = [*given, *small.items()] if isinstance(given, list) else {**given, **small}
    expected = hb.train(params, hb.DMatrix(X, label, **fields), 2, **QUIET)
    parts = {name: in_chunks(values) for name, values in fields.items()}
    dtrain = hbd.DaskDMatrix(client, in_chunks(X), None if label is None else in_chunks(label), **parts)
    found = hbd.train(client, params, dtrain, 2, **QUIET)["booster"]
    assert found.fingerprint() == expected.fingerprint()


def test_arguments_are_taken_by_xgboosts_names(client, dtrain, one):
    by_name = hbd.train(client=client, params=PARAMS, dtrain=dtrain, num_boost_round=4, **QUIET)
    assert by_name["booster"].fingerprint() == one.fingerprint()
    assert hbd.train(None, PARAMS, dtrain, 4, **QUIET)["booster"].fingerprint() == one.fingerprint()
    first = hbd.train(client, PARAMS, dtrain, 2, **QUIET)["booster"]
    longer = hbd.train(client, PARAMS, dtrain, 2, xgb_model=first, retries=1, timeout=60, **QUIET)["booster"]
    assert longer.fingerprint() == one.fingerprint()
    stumps, few = {**PARAMS, "max_depth": 1}, hbd.DaskDMatrix(client, [dask.delayed(X[:60])], [dask.delayed(Y[:60])])
    assert hbd.train(client, stumps, few, **QUIET)["booster"].n_iterations == 10


def logistic(scores, dtrain):
    chance = 1.0 / (1.0 + np.exp(-scores))
    return chance - dtrain.get_label(), chance * (1.0 - chance)


def mean_miss(predictions, dtrain):
    return "miss", float(np.mean(np.abs(predictions - dtrain.get_label())))


def test_functions_are_those_of_one_process(client, dtrain, whole):
    options = {"obj": logistic, "custom_metric": mean_miss, **QUIET}
    expected = hb.train(PARAMS, whole, 3, evals=[(whole, "train")], **options)
    found = hbd.train(client, PARAMS, dtrain, 3, evals=[(dtrain, "train")], **options)
    assert found["booster"].fingerprint() == expected.fingerprint()
    assert found["history"] == expected.eval_history
    assert "miss" in found["history"]["train"]


@pytest.mark.parametrize("by", ["argument", "callback", "parameter"])
def test_early_stopping_is_that_of_one_process(client, by):
    params, rounds = {**PARAMS, "eta": 1.0, "eval_metric": ["auc", "logloss"]}, 2
    params |= {"early_stopping_round": rounds} if by == "parameter" else {}

    def choice():
        if by == "callback":
            return {"callbacks": [hb.callback.EarlyStopping(rounds, save_best=True)]}
        return {"early_stopping_rounds": rounds} if by == "argument" else {}

    halves = slice(0, 300), slice(300, 600)
    train_set, valid = (hb.DMatrix(X[rows], Y[rows]) for rows in halves)
    one = hb.train(params, train_set, 50, evals=[(train_set, "train"), (valid, "valid")], **choice(), **QUIET)
    assert one.best_iteration < 47
    parts, others = (
        hbd.DaskDMatrix(client, da.from_array(X[rows], (150, 4)), da.from_array(Y[rows], 150)) for rows in halves
    )
    found = hbd.train(client, params, parts, 50, evals=[(parts, "train"), (others, "valid")], **choice(), **QUIET)
    booster = found["booster"]
    assert found["history"] == one.eval_history and list(found["history"]) == ["train", "valid"]
    assert booster.fingerprint() == one.fingerprint()
    assert (booster.best_iteration, booster.best_score) == (one.best_iteration, one.best_score)
    assert np.array_equal(hbd.predict(client, found, parts).compute(), one.predict(train_set))


def test_one_worker_prints_the_evaluations(client, dtrain, whole, capsys):
    hb.train(PARAMS, whole, 3, evals=[(whole, "train")])
    expected = capsys.readouterr().out
    assert len(expected.splitlines()) == 3
    hbd.train(client, PARAMS, dtrain, 3, evals=[(dtrain, "train")])
    assert capsys.readouterr().out == expected
    hbd.train(client, PARAMS, dtrain, 3, evals=[(dtrain, "train")], verbose_eval=2)
    assert capsys.readouterr().out.splitlines() == expected.splitlines()[::2]
    monitor = hb.callback.EvaluationMonitor(rank=1)
    hbd.train(client, PARAMS, dtrain, 3, evals=[(dtrain, "train")], callbacks=[monitor], **QUIET)
    assert capsys.readouterr().out == expected
    hbd.train(client, PARAMS, dtrain, 3, evals=[(dtrain, "train")], **QUIET)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("options", [{}, {"output_margin": True}, {"pred_contribs": True}, {"pred_leaf": True}])
def test_predictions_are_those_of_one_process(client, dtrain, whole, one, options):
    expected = one.predict(whole, **options)
    for model in (one, {"booster": one, "history": {}}):
        lazy = hbd.predict(client, model, dtrain, **options)
        assert isinstance(lazy, da.Array) and lazy.chunks[0] == CHUNKS
        assert np.array_equal(lazy.compute(), expected)
    assert np.array_equal(hbd.predict(client, {"booster": one}, in_chunks(X), **options).compute(), expected)
    assert np.array_equal(hbd.inplace_predict(client, {"booster": one}, in_chunks(X), **options).compute(), expected)


@pytest.mark.parametrize("kind", ["array", "frame", "delayed"])
def test_a_marker_of_missing_values_is_nan(client, kind):
    marked = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, -999.0, X)
    matrix = hb.DMatrix(marked, Y, missing=-999.0)
    one = hb.train(PARAMS, matrix, 3, **QUIET)
    if kind == "array":
        table, label = in_chunks(marked), in_chunks(Y)
    elif kind == "frame":
        frames = pd.DataFrame(marked, columns=one.feature_names), pd.Series(Y)
        table, label = (dd.from_pandas(each, npartitions=3) for each in frames)
    else:
        table, label = ([dask.delayed(each[:250]), dask.delayed(each[250:])] for each in (marked, Y))
    dtrain = hbd.DaskDMatrix(client, table, label, missing=-999)
    found = hbd.train(client, PARAMS, dtrain, 3, **QUIET)
    assert np.array_equal(found["booster"].predict(matrix), one.predict(matrix))
    if kind != "delayed":
        assert np.array_equal(hbd.predict(client, found, dtrain).compute(), one.predict(matrix))
    if kind == "array":
        assert found["booster"].fingerprint() == one.fingerprint()
        plain = hbd.DaskDMatrix(client, table, label, missing=float("nan"))
        unmarked = hb.train(PARAMS, hb.DMatrix(marked, Y), 3, **QUIET)
        assert hbd.train(client, PARAMS, plain, 3, **QUIET)["booster"].fingerprint() == unmarked.fingerprint()


def test_types_names_and_bins_are_those_of_a_dmatrix(client):
    table = np.column_stack([X[:, :3], np.arange(len(X)) % 5])
    described = {"feature_types": ["q", "q", "float", "c"], "feature_names": list("wxyz")}
    expected = hb.train(PARAMS, hb.DMatrix(table, Y, **described), 3, **QUIET)
    dtrain = hbd.DaskDMatrix(client, in_chunks(table), in_chunks(Y), **described, enable_categorical=True, silent=True)
    found = hbd.train(client, PARAMS, dtrain, 3, **QUIET)["booster"]
    assert found.fingerprint() == expected.fingerprint()
    assert found.feature_names == list("wxyz") and dtrain.num_col() == 4
    binned = hbd.DaskQuantileDMatrix(client, in_chunks(X), in_chunks(Y), max_bin=8)
    valid = hbd.DaskQuantileDMatrix(client, in_chunks(X), in_chunks(Y), ref=binned)
    coarse = hbd.train(client, PARAMS, binned, 3, evals=[(valid, "valid")], **QUIET)
    expected = hb.train(PARAMS, hb.QuantileDMatrix(X, Y, max_bin=8), 3, **QUIET)
    assert coarse["booster"].fingerprint() == expected.fingerprint() != found.fingerprint()
    predicted = expected.predict(X)
    loss = -np.mean(np.where(Y > 0, np.log(predicted), np.log(1.0 - predicted)))
    assert coarse["history"]["valid"]["logloss"][-1] == pytest.approx(loss, rel=1e-9)


def test_frames_of_categories_are_those_of_one_process(client):
    frame = pd.DataFrame({"a": X[:, 0], "c": pd.Categorical(np.array(["r", "g", "b"])[np.arange(len(X)) % 3])})
    one = hb.train(PARAMS, hb.DMatrix(frame, Y, enable_categorical=True), 3, **QUIET)
    parts = dd.from_pandas(frame, npartitions=3)
    dtrain = hbd.DaskDMatrix(client, parts, dd.from_pandas(pd.Series(Y), npartitions=3), enable_categorical=True)
    found = hbd.train(client, PARAMS, dtrain, 3, **QUIET)
    assert found["booster"].fingerprint() == one.fingerprint()
    assert np.array_equal(hbd.predict(client, found, dtrain).compute(), one.predict(frame))


def test_what_a_cluster_does_not_take_says_what_to_do(client, dtrain, one):
    with_margin = hbd.DaskDMatrix(client, in_chunks(X), base_margin=in_chunks(WEIGHT))
    with pytest.raises(ParameterError, match=r"with base_margin; add it to predict\(output_margin=True\)"):
        hbd.predict(client, one, with_margin)
    with pytest.raises(DataError, match="of delayed tables; pass a Dask array or dataframe"):
        hbd.predict(client, one, hbd.DaskDMatrix(client, [dask.delayed(X)]))
    with pytest.raises(DataError, match="data is a ndarray; pass a Dask array"):
        hbd.DaskDMatrix(client, X, in_chunks(Y))
    with pytest.raises(DataError, match="data is a ndarray; pass a Dask array"):
        hbd.DaskDMatrix(client, X, in_chunks(Y), missing=-999.0)
    with pytest.raises(DataError, match="pass a list, one type a feature"):
        hbd.DaskDMatrix(client, in_chunks(X), in_chunks(Y), feature_types="c")
    with pytest.raises(TypeError, match="unexpected argument 'nonsense'"):
        hbd.DaskDMatrix(client, in_chunks(X), in_chunks(Y), nonsense=in_chunks(WEIGHT))
    with pytest.raises(DataError, match=r"pass objects of hornbeam\.dask\.Dataset"):
        hbd.train(client, PARAMS, dtrain, 2, evals=[(hb.DMatrix(X, Y), "valid")], **QUIET)
    with pytest.raises(DataError, match=r"train_set must be a hornbeam\.dask\.Dataset, not DMatrix"):
        hbd.train(client, PARAMS, hb.DMatrix(X, Y), 2)
    with pytest.raises(AttributeError, match="no attribute 'DaskNothing'"):
        hbd.DaskNothing  # noqa: B018


def test_a_plain_dataset_keeps_its_ways(client):
    params = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 5}
    booster = hbd.train(client, params, hbd.Dataset(client, in_chunks(X), in_chunks(Y)), 2)
    assert booster.fingerprint() == hb.train(params, hb.Dataset(X, Y), 2).fingerprint()


# --- estimators -----------------------------------------------------------------------------------------------------


ESTIMATORS = {
    "XGBClassifier": (np.array(["no", "yes"])[Y.astype(int)], {"sample_weight": WEIGHT}),
    "XGBRegressor": (NUMBER, {"base_margin": WEIGHT}),
    "XGBRanker": (Y, {"qid": QUERY}),
    "XGBRFClassifier": (Y.astype(int), {}),
    "XGBRFRegressor": (NUMBER, {"sample_weight": WEIGHT}),
}
SMALL = {"n_estimators": 3, "max_depth": 3, "device": "reference", "verbosity": 0}


def on_cluster(client, kind, **options):
    estimator = getattr(hbd, f"Dask{kind}")(**options)
    estimator.client = client
    return estimator


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_estimators_are_those_of_one_process(client, kind):
    label, fields = ESTIMATORS[kind]
    one = getattr(hb, kind)(**SMALL).fit(X, label, **fields)
    several = on_cluster(client, kind, **SMALL)
    several.fit(in_chunks(X), in_chunks(label), **{name: in_chunks(values) for name, values in fields.items()})
    assert several.get_booster().fingerprint() == one.get_booster().fingerprint()
    assert np.array_equal(several.predict(in_chunks(X)).compute(), one.predict(X))
    assert several.feature_importances_.tolist() == one.feature_importances_.tolist()
    assert isinstance(several, getattr(hb, kind)) and isinstance(several, hb.XGBModel)
    assert several.get_params() == one.get_params() == clone(several).get_params()
    assert np.array_equal(pickle.loads(pickle.dumps(several)).predict(X), one.predict(X))
    if hasattr(one, "predict_proba"):
        assert np.array_equal(several.predict_proba(in_chunks(X)).compute(), one.predict_proba(X))


@pytest.mark.parametrize("rounds", [None, 2])
def test_evaluations_of_estimators_bear_xgboosts_names_and_end_training(client, rounds, capsys):
    options = {**SMALL, "n_estimators": 30, "learning_rate": 1.0, "eval_metric": ["auc", "logloss"]}
    options |= {"early_stopping_rounds": rounds, "n_estimators": 30 if rounds else 3}
    one, several = hb.XGBClassifier(**options), on_cluster(client, "XGBClassifier", **options)
    backwards = X[::-1] + 0.5
    sets = [(X, Y), (backwards, Y[::-1])]
    one.fit(X, Y, eval_set=sets, sample_weight_eval_set=[WEIGHT, None])
    printed = capsys.readouterr().out
    parts = [(in_chunks(table), in_chunks(label)) for table, label in sets]
    several.fit(in_chunks(X), in_chunks(Y), eval_set=parts, sample_weight_eval_set=[in_chunks(WEIGHT), None])
    assert capsys.readouterr().out == printed != ""
    assert several.evals_result() == one.evals_result()
    assert list(several.evals_result()) == ["validation_0", "validation_1"]
    if rounds:
        assert several.best_iteration == one.best_iteration < 29
    several.fit(in_chunks(X), in_chunks(Y), eval_set=parts, verbose=False)
    assert capsys.readouterr().out == ""


def test_a_training_set_that_is_evaluated_with_weights_is_a_set_of_its_own(client):
    parts, label, weight = in_chunks(X), in_chunks(NUMBER), in_chunks(WEIGHT)
    several = on_cluster(client, "XGBRegressor", **SMALL)
    several.fit(parts, label, eval_set=[(parts, label)] * 2, sample_weight_eval_set=[weight, None], verbose=False)
    squares = (several.predict(X) - NUMBER) ** 2
    found = several.evals_result()
    expected = [np.sqrt(np.average(squares, weights=WEIGHT)), np.sqrt(np.mean(squares))]
    assert [metrics["rmse"][-1] for metrics in found.values()] == pytest.approx(expected, rel=1e-9)


def test_the_default_client_is_taken(client):
    data = hbd.DaskDMatrix(None, in_chunks(X), in_chunks(Y))
    assert hbd.train(None, PARAMS, data, 2, **QUIET)["booster"].n_iterations == 2


def test_evals_are_pairs_with_names_of_their_own(client, dtrain):
    other = hbd.DaskDMatrix(client, in_chunks(X), in_chunks(Y))
    with pytest.raises(ParameterError, match=r"\['v', 'v'\] are not unique"):
        hbd.train(client, PARAMS, dtrain, 2, evals=[(dtrain, "v"), (other, "v")], **QUIET)
    with pytest.raises(ParameterError, match="evals must be a list of pairs"):
        hbd.train(client, PARAMS, dtrain, 2, evals=[dtrain], **QUIET)
    assert list(hbd.train(client, PARAMS, dtrain, 2, valid_sets={"v": dtrain}, **QUIET)["history"]) == ["v"]


@pytest.mark.parametrize("call", [hb.log_evaluation(1), hb.early_stopping(5)])
def test_one_worker_logs_for_all(client, call, caplog):
    data = hbd.Dataset(client, in_chunks(X), in_chunks(Y))
    valid = hbd.Dataset(client, in_chunks(X), in_chunks(Y), reference=data)
    params = {"objective": "regression", "metric": "l2", "device": "reference", "verbosity": 0}
    hbd.train(client, params, data, 1, {"v": valid}, callbacks=[call])
    assert len([record for record in caplog.records if "v's l2" in record.message]) == 1
