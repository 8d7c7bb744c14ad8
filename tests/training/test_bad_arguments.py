"""Arguments that make no sense are errors of ours, which name the argument, whatever they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb

X = np.random.default_rng(0).standard_normal((60, 3))
Y = X[:, 0]
QUIET = {"verbosity": -1, "num_leaves": 4, "device": "reference"}
HUGE = 10**400
OBJECTS = X.astype(object)
OBJECTS[0, 0] = HUGE


def data(**more):
    return hb.Dataset(X, label=Y, **more)


def train(params=None, **more):
    return hb.train({**QUIET, **(params or {})}, data(), 1, **more)


def ranked(**params):
    label = np.clip(np.round(Y), 0.0, 2.0)
    return hb.train({**QUIET, "objective": "lambdarank", **params}, hb.Dataset(X, label=label, group=[10] * 6), 1)


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (lambda: train({"max_depth": 2**63}), "max_depth"),
        (lambda: train({"histogram_pool_size": 1e308}), "histogram_pool_size"),
        (lambda: train({"device_memory_limit": 1e308}), "device_memory_limit"),
        (lambda: train({"objective": "binary", "sigmoid": 5e-324}), "sigmoid"),
        (lambda: train({"objective": int}), "objective"),
        (lambda: hb.Dataset(OBJECTS, label=Y), "column 0"),
        (lambda: train().predict(OBJECTS, device="reference"), "column 0"),
        (lambda: train(valid_sets=[data()], feval=lambda p, d: ("m", HUGE, True)), "feval"),
        (lambda: train(feval=5), "feval"),
        (lambda: train(feval=["l2"]), "feval"),
        (lambda: train(valid_sets=5), "valid_sets"),
        (lambda: train(callbacks=5), "callbacks"),
        (lambda: data(feature_names=5), "feature_names"),
        (lambda: data(categorical_features=5), "categorical_features"),
        (lambda: train().predict(X, num_threads="3.5"), "num_threads"),
        (lambda: train().predict(X, num_threads=1.5), "num_threads"),
        (lambda: hb.cv(QUIET, data(), 1, folds=5), "folds"),
        (lambda: hb.reset_parameter(learning_rate=5), "learning_rate"),
        (lambda: hb.reset_parameter(learning_rate="0.1"), "learning_rate"),
        (lambda: hb.log_evaluation("1"), "period"),
        (lambda: train().save(5), "path"),
        (lambda: hb.load(None), "path"),
        (lambda: hb.Dataset(pd.DataFrame(X, columns=["a", "a", "b"]), label=Y), "two columns called 'a'"),
        (lambda: train(callbacks=[lambda env: (_ for _ in ()).throw(hb.EarlyStopException(0, [5]))]), "best_score"),
    ],
)
def test_the_argument_is_named(act, name):
    with pytest.raises(hb.HornbeamError, match=name):
        act()


@pytest.mark.parametrize("at", [[1, 3], np.array([1, 3]), (3, 1)])
def test_arrays_are_taken_where_lists_are(at):
    expected = ranked(eval_at=[1, 3], label_gain=[0.0, 1.0, 3.0])
    assert ranked(eval_at=at, label_gain=np.array([0, 1, 3])).fingerprint() == expected.fingerprint()
    whole = np.abs(np.round(X))
    models = [
        hb.train({**QUIET, "categorical_feature": named}, hb.Dataset(whole, label=Y), 1)
        for named in ([2], np.array([2]), (2,))
    ]
    assert len({model.fingerprint() for model in models}) == 1


def test_none_leaves_names_and_categories_to_the_data():
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(["x", "y"] * 30)})
    plain = hb.Dataset(frame, label=Y).construct()
    left = hb.Dataset(frame, label=Y, feature_names=None, categorical_features=None).construct()
    assert (left.feature_names, left.categorical_features) == (plain.feature_names, plain.categorical_features)


def test_a_callback_may_stop_training_with_tuples_as_in_lightgbm():
    def stop(env):
        if env.iteration == 3:
            raise hb.EarlyStopException(1, [("v", "m", 0.7, True), ("v", "cv m", 0.5, False, 0.1)])

    model = hb.train(QUIET, data(), 9, callbacks=[stop])
    assert (model.n_iterations, model.best_iteration) == (4, 2)
    assert model.best_score == {"v": {"m": 0.7, "cv m": 0.5}}


def test_no_more_threads_are_started_than_make_sense():
    from hornbeam.core.cpus import MOST_THREADS, available_cpus, resolve_threads

    assert resolve_threads(5000) == max(MOST_THREADS, 4 * available_cpus())
    assert resolve_threads(3) == 3
