"""Callbacks of scikit-learn: they see every iteration, may stop training, and change nothing else."""

from __future__ import annotations

import importlib.util
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hornbeam as hb
from hornbeam.sklearn import HornbeamClassifier, HornbeamRanker, HornbeamRegressor, fit_tasks
from hornbeam.testing.data import make_higgs_like

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
X, CODES = make_higgs_like(300, 6)
Y = np.where(CODES > 0, "yes", "no")
SMALL = {"n_estimators": 4, "num_leaves": 7, "verbosity": -1}


class Recorder:
    """Remembers the tasks that begin and end, and how many iterations the estimator shown has."""

    def __init__(self, stop_after=None):
        self.events, self.shown, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X, y):
        self.events.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.events.append(("end", context.task_name, context.task_id))
        if fitted_estimator is not None:
            assert fitted_estimator is not estimator
            self.shown.append((fitted_estimator.booster_.n_iterations, fitted_estimator.score(X, y)))
        return context.task_id + 1 == self.stop_after and context.task_name == "iteration"


def iteration(number):
    return [("begin", "iteration", number), ("end", "iteration", number)]


def test_every_iteration_is_a_task_and_the_model_is_the_same():
    recorder = Recorder()
    model = HornbeamClassifier(**SMALL).set_callbacks(recorder).fit(X, Y)
    plain = HornbeamClassifier(**SMALL).fit(X, Y)
    assert model.booster_.fingerprint() == plain.booster_.fingerprint()
    inner = [event for number in range(4) for event in iteration(number)]
    assert recorder.events == ["setup", ("begin", "fit", 0), *inner, ("end", "fit", 0), "teardown"]
    assert [n for n, _ in recorder.shown] == [1, 2, 3, 4, 4]
    scores = [HornbeamClassifier(**{**SMALL, "n_estimators": n}).fit(X, Y).score(X, Y) for n in (1, 2, 3, 4, 4)]
    assert [score for _, score in recorder.shown] == scores


def test_a_callback_stops_training():
    model = HornbeamRegressor(**SMALL).set_callbacks(Recorder(stop_after=2)).fit(X, CODES)
    assert model.booster_.n_iterations == 2
    expected = HornbeamRegressor(**{**SMALL, "n_estimators": 2}).fit(X, CODES)
    assert model.predict(X).tobytes() == expected.predict(X).tobytes()


def test_tasks_end_however_training_ends():
    def fail(env):
        raise RuntimeError("stop here")

    recorder = Recorder()
    with pytest.raises(RuntimeError, match="stop here"):
        HornbeamRegressor(**SMALL).set_callbacks(recorder).fit(X, CODES, callbacks=[fail])
    assert recorder.events == ["setup", ("begin", "fit", 0), *iteration(0), "teardown"]
    recorder = Recorder()
    HornbeamRegressor(**SMALL).set_callbacks(recorder).fit(X, np.ones(len(X)))  # there is no split to make
    assert recorder.events == ["setup", ("begin", "fit", 0), *iteration(0), ("end", "fit", 0), "teardown"]


def test_early_stopping_and_scikit_learn_callbacks_go_together():
    recorder = Recorder()
    model = HornbeamClassifier(**{**SMALL, "n_estimators": 60, "learning_rate": 0.9}, early_stopping_rounds=2)
    model.set_callbacks(recorder).fit(X[:150], Y[:150], eval_set=[(X[150:], Y[150:])])
    begun = [event for event in recorder.events if event[0] == "begin" and event[1] == "iteration"]
    ended = [event for event in recorder.events if event[0] == "end" and event[1] == "iteration"]
    assert len(begun) == len(ended) == model.booster_.n_iterations < 60


def test_a_ranker_takes_callbacks(capsys):
    HornbeamRanker(**SMALL).set_callbacks(callback.ProgressBar()).fit(X, CODES, group=[100, 200])
    assert "HornbeamRanker" in capsys.readouterr().out


def test_score_monitor_scores_every_iteration():
    monitor = callback.ScoringMonitor(scoring="neg_log_loss")
    model = HornbeamClassifier(**SMALL).set_callbacks(monitor).fit(X, Y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    values = [value for row in rows for key, value in row.items() if "log_loss" in key or key == "score"]
    assert len(values) == 4
    assert values == sorted(values)  # the loss on the training rows falls
    assert model.booster_.n_iterations == 4


def test_progress_bar_reaches_through_searches_and_pipelines(capsys):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), HornbeamClassifier(**SMALL)), {"hornbeamclassifier__num_leaves": [4, 7]}, cv=2
    )
    plain = clone(search).fit(X, Y)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X, Y)
    fingerprints = [s.best_estimator_[-1].booster_.fingerprint() for s in (search, plain)]
    assert fingerprints[0] == fingerprints[1]
    assert "HornbeamClassifier" in capsys.readouterr().out


def test_estimators_with_callbacks_can_be_fitted_in_processes_and_dumped(tmp_path):
    search = GridSearchCV(HornbeamClassifier(**SMALL), {"num_leaves": [4, 7]}, cv=2, n_jobs=2)
    search.set_callbacks(callback.ProgressBar()).fit(X, Y)
    joblib.dump(search.best_estimator_, tmp_path / "model.joblib")
    back = joblib.load(tmp_path / "model.joblib")
    assert back.booster_.fingerprint() == search.best_estimator_.booster_.fingerprint()


def test_callbacks_in_the_wrong_place_are_refused():
    with pytest.raises(hb.ParameterError, match="set_callbacks"):
        HornbeamClassifier(**SMALL).fit(X, Y, callbacks=[callback.ProgressBar()])
    with pytest.raises(TypeError, match="FitCallback"):
        HornbeamClassifier(**SMALL).set_callbacks(hb.progress())
    with pytest.raises(hb.ParameterError, match="pass a list"):
        HornbeamClassifier(**SMALL).set_callbacks(Recorder()).fit(X, Y, callbacks=hb.progress())


def test_scikit_learn_without_callbacks_is_enough(monkeypatch):
    path = fit_tasks.__file__
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)  # as before 1.9
    spec = importlib.util.spec_from_file_location("fit_tasks_before", path)
    before = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(before)
    assert not hasattr(before.TakesFitCallbacks(), "set_callbacks")
    task = before.FitTask(before.TakesFitCallbacks(), 3, X, Y, None)
    assert task.joined_to(None) is None
    task.end()
    assert before.is_fit_task(len) is len
