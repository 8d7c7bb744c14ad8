"""Models, estimators, callbacks and functions in them travel by pickle, cloudpickle and joblib, also to processes."""

from __future__ import annotations

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import hornbeam as hb
from hornbeam.testing.data import make_higgs_like
from hornbeam.training.callbacks import EarlyStopException
from hornbeam.training.evaluations import Evaluation

cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
X, Y = make_higgs_like(300, 6)
SMALL = {"n_estimators": 3, "num_leaves": 7, "verbosity": -1}


def by_joblib(thing):
    file = io.BytesIO()
    joblib.dump(thing, file, compress=1)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "oldest pickle": lambda thing: pickle.loads(pickle.dumps(thing, protocol=0)),
    "cloudpickle": lambda thing: cloudpickle.loads(cloudpickle.dumps(thing)),
    "joblib": by_joblib,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
PLAIN = [name for name in WAYS if name != "cloudpickle"]


@pytest.mark.parametrize("way", WAYS)
def test_boosters_survive(way):
    valid = {"v": hb.Dataset(X, label=Y)}
    callbacks = [hb.early_stopping(2, verbose=False)]
    booster = hb.train({"num_leaves": 7, "verbosity": -1}, hb.Dataset(X, label=Y), 4, valid, callbacks=callbacks)
    back = WAYS[way](booster)
    assert back.fingerprint() == booster.fingerprint()
    for name in ("best_iteration", "best_score", "eval_history", "params", "num_threads", "interrupted"):
        assert getattr(back, name) == getattr(booster, name)
    assert back.predict(X).tobytes() == booster.predict(X).tobytes()
    more = [
        hb.train({"num_leaves": 7, "verbosity": -1}, hb.Dataset(X, label=Y), 1, init_model=model)
        for model in (back, booster)
    ]
    assert more[0].fingerprint() == more[1].fingerprint()


@pytest.mark.parametrize("way", WAYS)
def test_boosters_of_folds_survive(way):
    params = {"num_leaves": 7, "verbosity": -1}
    booster = hb.cv(params, hb.Dataset(X, label=Y), 2, nfold=2, return_cvbooster=True)["cvbooster"]
    assert WAYS[way](booster).fingerprint() == booster.fingerprint()


def half_squared(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_pred)


@pytest.mark.parametrize("way", WAYS)
def test_estimators_with_a_function_survive_and_fit_again(way):
    function = half_squared
    if way == "cloudpickle":  # takes what pickle does not: functions that no module has
        function = lambda y_true, y_pred: (y_pred - y_true, np.ones_like(y_pred))  # noqa: E731
    model = hb.HornbeamRegressor(objective=hb.on_device(function), **SMALL).fit(X, Y)
    back = WAYS[way](model)
    assert back.booster_.fingerprint() == model.booster_.fingerprint()
    assert clone(back).fit(X, Y).booster_.fingerprint() == model.booster_.fingerprint()


def made_callbacks():
    return {
        "early_stopping": hb.early_stopping(2, verbose=False),
        "log_evaluation": hb.log_evaluation(2),
        "record_evaluation": hb.record_evaluation({}),
        "reset_parameter": hb.reset_parameter(learning_rate=[0.1, 0.2, 0.3]),
        "progress": hb.progress(),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", made_callbacks())
def test_callbacks_survive_also_after_a_training(name, way):
    data = hb.Dataset(X, label=Y)

    def train(callback):
        sets = {"v": hb.Dataset(X, label=Y, reference=data)}
        return hb.train({"num_leaves": 7, "verbosity": -1}, data, 3, sets, callbacks=[callback]).fingerprint()

    callback = made_callbacks()[name]
    fingerprints = [train(WAYS[way](callback)), train(callback), train(WAYS[way](callback))]
    assert len(set(fingerprints)) == 1


@pytest.mark.parametrize("way", PLAIN)
def test_what_ends_a_training_survives(way):
    stop = WAYS[way](EarlyStopException(3, [("v", "l2", 1.5, False)]))
    assert (stop.best_iteration, stop.best_score) == (3, [Evaluation("v", "l2", 1.5, False)])


def test_a_search_in_processes_finds_the_models_of_a_search_in_one():
    def objective(y_true, y_pred):  # goes to the processes by value
        return y_pred - y_true, np.ones_like(y_pred)

    model = hb.HornbeamRegressor(objective=objective, **SMALL)
    searches = [
        GridSearchCV(model, {"num_leaves": [4, 7]}, cv=2, n_jobs=n_jobs, error_score="raise").fit(
            X, Y, callbacks=[hb.log_evaluation(0)]
        )
        for n_jobs in (1, 2)
    ]
    one, two = (search.best_estimator_.booster_.fingerprint() for search in searches)
    assert one == two
    one, two = (search.cv_results_["mean_test_score"].tolist() for search in searches)
    assert one == two


def test_models_fitted_in_processes_come_back_with_the_same_fingerprint():
    model = hb.HornbeamClassifier(**SMALL)
    fitted = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(clone(model).fit)(X, Y) for _ in range(2))
    assert {one.booster_.fingerprint() for one in fitted} == {clone(model).fit(X, Y).booster_.fingerprint()}


def test_errors_of_a_process_come_back_as_they_were():
    wrong = hb.HornbeamClassifier(num_leaves=-1)
    with pytest.raises(hb.ParameterError, match="num_leaves"):
        joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(wrong.fit)(X, Y) for _ in range(2))
