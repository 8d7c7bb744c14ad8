"""A real Dask cluster: two worker processes, with TLS."""

from __future__ import annotations

import os
import pickle
import re
import signal
import threading
import time

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import CollectiveError, DataError, HornbeamError, ParameterError

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client, LocalCluster

import hornbeam.dask as hbd
from hornbeam.distributed.dask import mailbox
from hornbeam.testing.checks import usable_devices

CHUNKS = (300, 0, 150, 450)
PARAMS = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 7}
X = np.random.default_rng(0).normal(size=(900, 4))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0.0).astype(float)
WEIGHT = 0.5 + np.abs(X[:, 3])


def in_chunks(values):
    return da.from_array(values, chunks=(CHUNKS, *((size,) for size in values.shape[1:])))


@pytest.fixture(scope="module")
def one():
    return hb.train(PARAMS, hb.Dataset(X, label=Y, weight=WEIGHT), 5)


@pytest.fixture
def train_set(client):
    return hbd.Dataset(client, in_chunks(X), label=in_chunks(Y), weight=in_chunks(WEIGHT))


def test_the_cluster_talks_by_tls(client):
    assert all(address.startswith("tls://") for address in client.nthreads())


def test_model_is_that_of_one_process(client, train_set, one):
    booster = hbd.train(client, PARAMS, train_set, 5)
    assert booster.fingerprint() == one.fingerprint()
    assert np.array_equal(booster.predict(X), one.predict(X))


@pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")
def test_model_is_that_of_one_process_with_rows_on_gpus(opencl_client, train_set, one):
    booster = hbd.train(opencl_client, {**PARAMS, "device": "opencl"}, train_set, 5)
    assert booster.fingerprint() == one.fingerprint()


def test_validation_sets_and_early_stopping_are_those_of_one_process(client):
    rows = slice(0, 600), slice(600, 900)
    whole = hb.Dataset(X[rows[0]], label=Y[rows[0]])
    sets = {"valid": hb.Dataset(X[rows[1]], label=Y[rows[1]], reference=whole), "training": whole}
    params = {**PARAMS, "metric": ["auc", "binary_logloss"], "learning_rate": 0.8}
    one = hb.train(params, whole, 20, sets, callbacks=[hb.early_stopping(2)])
    pieces = [hbd.Dataset(client, da.from_array(X[own], (100, 4)), label=da.from_array(Y[own], 100)) for own in rows]
    several = hbd.train(
        client, params, pieces[0], 20, {"valid": pieces[1], "training": pieces[0]}, callbacks=[hb.early_stopping(2)]
    )
    assert several.eval_history == one.eval_history
    assert list(several.eval_history) == list(one.eval_history) == ["training", "valid"]
    assert (several.best_iteration, several.fingerprint()) == (one.best_iteration, one.fingerprint())


def test_a_frame_has_its_names_and_labels_are_a_column(client):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        colour=pd.Categorical.from_codes(np.arange(900) % 3, ["r", "g", "b"]), y=Y
    )
    params = {**PARAMS, "min_data_per_group": 5}
    one = hb.train(params, hb.Dataset(frame.drop(columns="y"), label=Y), 3)
    several = hbd.train(client, params, hbd.Dataset(client, dd.from_pandas(frame, npartitions=3), label="y"), 3)
    assert several.fingerprint() == one.fingerprint()
    assert several.feature_names == [*"abcd", "colour"]


def test_delayed_partitions_and_queries(client):
    sizes = np.full(30, 30)
    params = {**PARAMS, "objective": "lambdarank"}
    one = hb.train(params, hb.Dataset(X, label=Y, group=sizes), 3)
    cuts = [(0, 90), (90, 600), (600, 900)]
    tables = [dask.delayed(X[first:last]) for first, last in cuts]
    labels = [dask.delayed(Y[first:last]) for first, last in cuts]
    groups = [dask.delayed(np.full((last - first) // 30, 30)) for first, last in cuts]
    several = hbd.train(client, params, hbd.Dataset(client, tables, labels, group=groups), 3)
    assert several.fingerprint() == one.fingerprint()


@pytest.mark.parametrize("options", [{}, {"raw_score": True}, {"pred_leaf": True}])
def test_predictions_are_lazy_and_keep_partitions(client, one, options):
    expected = one.predict(X, **options)
    lazy = hbd.predict(client, one, in_chunks(X), **options)
    assert isinstance(lazy, da.Array) and lazy.chunks[0] == CHUNKS
    assert np.array_equal(lazy.compute(), expected)
    of_frame = hbd.predict(client, one, dd.from_pandas(pd.DataFrame(X), npartitions=3), **options)
    assert np.array_equal(of_frame.compute(), expected)


@pytest.mark.parametrize("kind", ["category", "str"])
def test_frames_with_levels_are_predicted(client, kind, recwarn):
    frame = pd.DataFrame({"a": X[:, 0], "city": pd.Series(np.array(["Paris", "Rome", "Bern"])[np.arange(len(X)) % 3])})
    frame["city"] = frame["city"].astype(kind)
    label = (np.arange(len(X)) % 3 == 1).astype(int)
    options = {
        "n_estimators": 3,
        "min_child_samples": 2,
        "device": "reference",
        "verbosity": -1,
        "min_data_per_group": 2,
    }
    one = hb.HornbeamClassifier(**options).fit(frame, label)
    several = hbd.DaskLGBMClassifier(**options)
    several.client = client
    parts = dd.from_pandas(frame, npartitions=3)
    several.fit(parts, dd.from_pandas(pd.Series(label), npartitions=3))
    assert several.booster_.fingerprint() == one.booster_.fingerprint()
    assert np.array_equal(several.predict(parts).compute(), one.predict(frame))
    assert np.array_equal(several.predict_proba(parts).compute(), one.predict_proba(frame))
    assert np.array_equal(hbd.predict(client, one.booster_, parts).compute(), one.booster_.predict(frame))
    assert not [warning for warning in recwarn if "feature names" in str(warning.message)]


def test_classifier_is_that_of_one_process(client):
    label = np.array(["no", "yes"])[Y.astype(int)]
    options = {"n_estimators": 4, "num_leaves": 7, "device": "reference", "verbosity": -1}
    one = hb.HornbeamClassifier(**options).fit(X, label)
    several = hbd.DaskHornbeamClassifier(**options)
    several.client = client
    several.fit(in_chunks(X), in_chunks(label), eval_set=[(in_chunks(X), in_chunks(label))])
    assert several.booster_.fingerprint() == one.booster_.fingerprint()
    assert several.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(several.predict(in_chunks(X)).compute(), one.predict(X))
    assert np.array_equal(several.predict_proba(in_chunks(X)).compute(), one.predict_proba(X))
    copy = pickle.loads(pickle.dumps(several))
    assert np.array_equal(copy.predict(X), one.predict(X))
    assert several.get_params() == one.get_params()


def test_regressor_and_ranker_are_those_of_one_process(client):
    options = {"n_estimators": 2, "num_leaves": 7, "device": "reference", "verbosity": -1}
    one = hb.HornbeamRegressor(**options).fit(X, X[:, 0])
    several = hbd.DaskHornbeamRegressor(**options).fit(in_chunks(X), in_chunks(X[:, 0]))
    assert several.booster_.fingerprint() == one.booster_.fingerprint()
    assert several.n_features_in_ == 4
    query = np.repeat(np.arange(30), 30)
    one = hb.HornbeamRanker(**options).fit(X, Y, qid=query)
    several = hbd.DaskHornbeamRanker(**options).fit(in_chunks(X), in_chunks(Y), qid=in_chunks(query))
    assert several.booster_.fingerprint() == one.booster_.fingerprint()


def mean_miss(labels, predictions):
    return "miss", float(np.mean(np.abs(labels - predictions))), False


def large_share(labels, predictions, weight):
    return "share", float(np.average(predictions > 0.5, weights=weight)), True


SETS = {
    "metrics": {"eval_metric": ["l1", mean_miss, "rmse"]},
    "function": {"eval_metric": mean_miss},
    "weights": {"eval_metric": large_share, "eval_sample_weight": [WEIGHT, WEIGHT[::-1]]},
    "starts": {"eval_init_score": [WEIGHT, -WEIGHT]},
    "xgboosts names": {"sample_weight_eval_set": [WEIGHT, None], "base_margin_eval_set": [None, WEIGHT]},
}


@pytest.mark.parametrize("kind", SETS)
def test_evaluations_of_an_estimator_are_those_of_one_process(client, kind):
    options = {"n_estimators": 3, "num_leaves": 7, "device": "reference", "verbosity": -1}
    given, names = SETS[kind], {"eval_names": ["same", "other"]}
    chunked = {
        name: value if name == "eval_metric" else [None if each is None else in_chunks(each) for each in value]
        for name, value in given.items()
    }
    one = hb.LGBMRegressor(**options).fit(X, Y, eval_set=[(X, Y), (X[::-1], Y[::-1])], **given, **names)
    several, table, label = hbd.DaskLGBMRegressor(**options), in_chunks(X), in_chunks(Y)
    several.client = client
    sets = [(table, label), (in_chunks(X[::-1]), in_chunks(Y[::-1]))]
    several.fit(table, label, eval_set=sets, verbose=False, **chunked, **names)
    assert several.booster_.fingerprint() == one.booster_.fingerprint()
    assert several.evals_result_ == one.evals_result_
    several.fit(table, label, eval_set=sets, verbose=False, **chunked)
    assert list(several.evals_result_) == ["valid_0", "valid_1"]  # LightGBM's on a cluster, of the training set too


def test_arguments_of_fit_have_the_peers_names(client):
    options = {"n_estimators": 2, "num_leaves": 7, "device": "reference", "verbosity": -1}
    start = hb.LGBMRegressor(**options).fit(X, Y)
    one = hb.LGBMRegressor(**options).fit(X, Y, base_margin=WEIGHT)
    several = hbd.DaskLGBMRegressor(**options).fit(in_chunks(X), in_chunks(Y), base_margin=in_chunks(WEIGHT))
    assert several.booster_.fingerprint() == one.booster_.fingerprint()
    longer = hb.LGBMRegressor(**options).fit(X, Y, xgb_model=start.booster_)
    several = hbd.DaskLGBMRegressor(**options).fit(in_chunks(X), in_chunks(Y), xgb_model=start.booster_)
    assert several.booster_.fingerprint() == longer.booster_.fingerprint()
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        hbd.DaskLGBMRegressor(**options).fit(in_chunks(X), in_chunks(Y), nonsense=1)
    with pytest.raises(hb.HornbeamError, match="eval_sample_weight"):
        hbd.DaskLGBMRegressor(**options).fit(
            in_chunks(X), in_chunks(Y), eval_set=[(in_chunks(X), in_chunks(Y))], eval_sample_weight=[None, None]
        )


def test_labels_of_several_columns_are_those_of_one_process(client):
    columns = X[:, :2] * X[:, 1:3]
    options = {"n_estimators": 2, "num_leaves": 7, "device": "reference", "verbosity": -1}
    one = hb.HornbeamRegressor(**options).fit(X, columns)
    several = hbd.DaskHornbeamRegressor(**options).fit(in_chunks(X), in_chunks(columns))
    assert several.booster_.fingerprint() == one.booster_.fingerprint()
    with pytest.raises(DataError, match="several columns"):
        hbd.DaskHornbeamClassifier(**options).fit(in_chunks(X), in_chunks(columns > 0))
    shared = {**PARAMS, "multi_strategy": "multi_output_tree"}
    labels = (columns > 0).astype(float)
    found = hbd.train(client, shared, hbd.Dataset(client, in_chunks(X), label=in_chunks(labels)), 2)
    assert found.fingerprint() == hb.train(shared, hb.Dataset(X, label=labels), 2).fingerprint()


def test_two_trainings_at_once_end_well(client, train_set, one):
    found = {}

    def run(name):
        found[name] = hbd.train(client, PARAMS, train_set, 5).fingerprint()

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == dict.fromkeys("ab", one.fingerprint())


def states():
    return len(mailbox.STATES)


def mailboxes():
    return len(mailbox.MAILBOXES)


def test_nothing_is_left_behind_after_an_error(client):
    wrong = hbd.Dataset(client, in_chunks(X), label=in_chunks(Y + 0.5))
    with pytest.raises(DataError, match=r"label\[\d+\] is"):
        hbd.train(client, PARAMS, wrong, 3)
    assert set(client.run(mailboxes).values()) == {0}


def test_a_query_cut_by_partitions_is_an_error(client):
    query = in_chunks(np.repeat(np.arange(9), 100))
    data = hbd.Dataset(client, in_chunks(X), in_chunks(Y), qid=query)
    with pytest.raises(DataError, match="is cut: it ends part"):
        hbd.train(client, {**PARAMS, "objective": "lambdarank"}, data, 2)


def test_partitions_with_other_columns_are_an_error(client):
    tables = [dask.delayed(X[:400]), dask.delayed(X[400:, :3])]
    labels = [dask.delayed(Y[:400]), dask.delayed(Y[400:])]
    with pytest.raises(DataError, match="part 1 has other number of columns than part 0: 3 and 4"):
        hbd.train(client, PARAMS, hbd.Dataset(client, tables, labels), 2)


def test_a_partition_that_cannot_be_made_raises_its_own_error(client):
    def fail():
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        hbd.train(client, PARAMS, hbd.Dataset(client, [dask.delayed(fail)()], [dask.delayed(Y)]), 2)


def test_bad_arguments_are_refused_at_once(client, train_set):
    with pytest.raises(DataError, match="label has 2 partitions and data 4"):
        hbd.Dataset(client, in_chunks(X), label=da.from_array(Y, 450))
    with pytest.raises(DataError, match="data is a ndarray; pass a Dask array"):
        hbd.Dataset(client, X, label=in_chunks(Y))
    with pytest.raises(DataError, match=r"train_set must be a hornbeam\.dask\.Dataset, not Dataset"):
        hbd.train(client, PARAMS, hb.Dataset(X, label=Y))
    with pytest.raises(ParameterError, match="num_leavs"):
        hbd.train(client, {"num_leavs": 3}, train_set)
    with pytest.raises(DataError, match="and the model 4 features"):
        hbd.predict(client, hb.train(PARAMS, hb.Dataset(X, label=Y), 1), in_chunks(X[:, :2]))


def test_another_version_on_a_worker_is_an_error(client, train_set, monkeypatch):
    monkeypatch.setattr(hb, "__version__", "9.9.9")
    with pytest.raises(HornbeamError, match=r"has Hornbeam .*, and the client 9\.9\.9; install one version"):
        hbd.train(client, PARAMS, train_set, 1)


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    monkeypatch.setattr("hornbeam.distributed.dask.dataset.NO_WORKERS_SECONDS", 0.1)
    monkeypatch.setattr("hornbeam.distributed.dask.dataset.LOOK_SECONDS", 0.02)
    options = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**options) as empty, Client(empty) as client:
        data = hbd.Dataset(client, in_chunks(X), in_chunks(Y))
        with pytest.raises(CollectiveError, match=r"the cluster has had no worker for 0\.1 s"):
            hbd.train(client, PARAMS, data, 1)
        classifier = hbd.DaskHornbeamClassifier(device="reference")
        classifier.client = client
        with pytest.raises(CollectiveError, match="no worker"):
            classifier.fit(in_chunks(X), in_chunks(Y))


class Kill:
    """A callback that kills one worker process with -9, in the middle of the training."""

    def __init__(self, client, iteration):
        self.victim, self.iteration = min(client.run(os.getpid).values()), iteration

    def __call__(self, env):
        if env.iteration == self.iteration and os.getpid() == self.victim:
            os.kill(self.victim, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")
def test_training_goes_on_without_a_worker_that_was_killed(client, train_set, caplog):
    whole = hb.Dataset(X, label=Y, weight=WEIGHT)
    one = hb.train(PARAMS, whole, 10, {"training": whole})
    options = {"callbacks": [Kill(client, iteration=4)], "retries": 1, "checkpoint_freq": 1}
    booster = hbd.train(client, {**PARAMS, "verbosity": 0}, train_set, 10, {"training": train_set}, **options)
    assert booster.fingerprint() == one.fingerprint()
    assert booster.eval_history == one.eval_history
    assert re.search(r"was lost during the training; going on after \d+ iterations on the workers", caplog.text)
    assert set(client.run(states).values()) == {0}


@pytest.mark.large
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_is_an_error_without_retries(client, train_set):
    client.wait_for_workers(2, timeout=60)
    kill, begun = Kill(client, iteration=4), time.monotonic()
    with pytest.raises(CollectiveError, match="was lost during the training"):
        hbd.train(client, PARAMS, train_set, 20, callbacks=[kill])
    assert time.monotonic() - begun < 60
    client.wait_for_workers(2, timeout=60)


def test_what_a_cluster_has_not_is_an_error(client):
    several = hbd.DaskLGBMRegressor(missing=-999.0)
    several.client = client
    with pytest.raises(hb.ParameterError, match=r"missing=-999.0 is not available on a cluster"):
        several.fit(in_chunks(X), in_chunks(Y))
    with pytest.raises(AttributeError, match="no attribute 'DaskLGBMNothing'"):
        hbd.DaskLGBMNothing  # noqa: B018
