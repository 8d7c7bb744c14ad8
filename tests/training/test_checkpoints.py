"""A training that is cut short and goes on from its checkpoint ends with the model of one go."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.golden_case import golden_score, golden_table, uniform
from hornbeam.training import checkpoints

ROOT = Path(__file__).parents[2]
BASE = {"device": "cpu", "num_threads": 1, "verbosity": -1, "num_leaves": 5, "min_data_in_leaf": 5}
TABLE = golden_table(300, 4)
SCORE = golden_score(TABLE)


def labels(params):
    objective = params.get("objective", "regression")
    if objective == "binary":
        return (SCORE > 1.0).astype(float)
    if objective in ("multiclass", "lambdarank"):
        return np.digitize(SCORE, [-1.0, 1.0]).astype(float)
    return SCORE


def training_set(params, rows=slice(0, 200)):
    group = [20] * (len(SCORE[rows]) // 20) if params.get("objective") == "lambdarank" else None
    return hb.Dataset(TABLE[rows], label=labels(params)[rows], group=group)


def run(params, n_rounds=12, valid=True, **arguments):
    train_set = training_set(params)
    sets = None
    if valid:
        made = training_set(params, slice(200, 300))
        made.set_reference(train_set)
        sets = {"valid": made}
    return hb.train({**BASE, **params}, train_set, n_rounds, sets, **arguments)


class PowerCut(Exception):  # noqa: N818
    pass


def cut_at(iteration):
    def callback(env):
        if env.iteration == iteration:
            raise PowerCut

    callback.order = -1
    return callback


def assert_same(found, expected):
    assert found.fingerprint() == expected.fingerprint()
    assert found.eval_history == expected.eval_history
    assert (found.best_iteration, found.best_score) == (expected.best_iteration, expected.best_score)


CASES = {
    "gbdt": {},
    "bagging": {"bagging_fraction": 0.6, "bagging_freq": 3, "feature_fraction": 0.7},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.3},
    "dart": {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.1},
    "rf": {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "lambdarank": {"objective": "lambdarank"},
    "early stopping": {"learning_rate": 1.0, "early_stopping_round": 3},
    "categories": {"categorical_feature": [2], "boosting": "dart", "drop_rate": 0.5, "min_data_per_group": 5},
    "metric_freq": {"metric_freq": 5, "metric": "l1,l2"},
}


@pytest.mark.parametrize("cut", [0, 7])
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_is_the_run_of_one_go(name, cut, tmp_path):
    path = tmp_path / "run.ckpt"
    expected = run(CASES[name])
    if expected.n_iterations > cut:
        with pytest.raises(PowerCut):
            run(CASES[name], callbacks=[cut_at(cut)], checkpoint=path, checkpoint_freq=2)
    assert_same(run(CASES[name], checkpoint=path, checkpoint_freq=2), expected)
    before = path.read_bytes()
    assert_same(run(CASES[name], checkpoint=path), expected)  # nothing is left to do
    assert path.read_bytes() == before


def test_checkpoints_are_written_as_often_as_asked(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(checkpoints, "write_atomically", lambda path, data: written.append(json.loads(data)))
    for valid in (True, False):  # without anything to evaluate trees are entered into the model late
        written.clear()
        run({}, n_rounds=10, valid=valid, checkpoint=tmp_path / "x", checkpoint_freq=4)
        assert [len(document["model"]["trees"]) for document in written] == [4, 8, 10]


def test_schedules_records_and_begin_iteration_go_on(tmp_path):
    path = tmp_path / "run.ckpt"
    begins, rates = [], [0.5 / (1 + i) for i in range(9)]

    def train(cut=None, **arguments):
        record = {}
        callbacks = [
            hb.reset_parameter(learning_rate=rates),
            hb.record_evaluation(record),
            lambda env: begins.append(env.begin_iteration),
            *([] if cut is None else [cut_at(cut)]),
        ]
        return run({}, 9, init_model=start, callbacks=callbacks, **arguments), record

    start = run({}, 3)
    expected, record = train()
    with pytest.raises(PowerCut):
        train(cut=7, checkpoint=path, checkpoint_freq=1)
    found, again = train(checkpoint=path, checkpoint_freq=1)
    assert_same(found, expected)
    assert again == record and set(begins) == {3}


def test_ctrl_c_leaves_a_checkpoint(tmp_path):
    path = tmp_path / "run.ckpt"
    for params in ({}, CASES["dart"]):
        path.unlink(missing_ok=True)

        def press(env):
            if env.iteration == 5:
                raise KeyboardInterrupt

        assert run(params, callbacks=[press], checkpoint=path, checkpoint_freq=100).interrupted
        assert len(json.loads(path.read_bytes())["model"]["trees"]) == 5  # the callbacks of the sixth were not done
        assert_same(run(params, checkpoint=path, checkpoint_freq=100), run(params))


def test_a_longer_run_goes_on_from_the_end_of_a_shorter_one(tmp_path):
    path = tmp_path / "run.ckpt"
    params = {"early_stopping_round": 4, "metric_freq": 2}
    run(params, 5, checkpoint=path)
    assert_same(run(params, 12, checkpoint=path), run(params, 12))
    with pytest.raises(hb.ParameterError, match=r"num_boost_round=5: the checkpoint .* has 12 iterations"):
        run(params, 5, checkpoint=path)


def test_the_end_by_a_callback_of_ones_own_is_kept(tmp_path):
    path = tmp_path / "run.ckpt"

    def stop(env):
        if env.iteration == 6:
            raise hb.EarlyStopException(2, env.evaluation_result_list)

    expected = run({}, callbacks=[stop], checkpoint=path)
    assert_same(run({}, callbacks=[stop], checkpoint=path), expected)
    assert expected.best_iteration == 3


def test_an_objective_function_goes_on(tmp_path):
    def squared(scores, dataset):
        return scores - dataset.label, np.ones_like(scores)

    def mean_error(predictions, dataset):
        return "me", float("nan") if len(predictions) == 0 else float(np.mean(predictions - dataset.label)), False

    arguments = {"params": {"objective": squared}, "feval": [mean_error, lambda p, d: ("nan", float("inf"), True)]}
    with pytest.raises(PowerCut):
        run(**arguments, callbacks=[cut_at(5)], checkpoint=tmp_path / "x", checkpoint_freq=2)
    assert_same(run(**arguments, checkpoint=tmp_path / "x"), run(**arguments))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    run({"learning_rate": 0.2}, 4, checkpoint=path)
    before = path.read_bytes()
    X, y = TABLE[:200], SCORE[:200]
    params = {**BASE, "learning_rate": 0.2}
    with pytest.raises(hb.ParameterError, match=r"another training.*learning_rate was 0\.2 and is the default.*delete"):
        run({}, 4, checkpoint=path)
    for match, data in {
        "the labels differ": hb.Dataset(X, label=y + 1.0),
        "the weights differ": hb.Dataset(X, label=y, weight=np.arange(1.0, 201.0)),
        "the number of rows differ: 200 then, 199 now": hb.Dataset(X[1:], label=y[1:]),
        "the bins, and so the features, differ": hb.Dataset(X + uniform(200, 9)[:, None], label=y),
        "the bins, and so the features, +differ": hb.Dataset(X[::-1].copy(), label=y),  # of other rows
        "the names of the features differ": hb.Dataset(X, label=y, feature_names=list("abcd")),
        "the initial scores differ": hb.Dataset(X, label=y, init_score=y),
    }.items():
        with pytest.raises(hb.DataError, match=match):
            hb.train(params, data, 4, checkpoint=path)
    with pytest.raises(hb.DataError, match="the validation sets differ: 'valid'"):
        hb.train(params, hb.Dataset(X, label=y), 4, checkpoint=path)
    with pytest.raises(hb.DataError, match="init_model differ"):
        run({"learning_rate": 0.2}, 4, checkpoint=path, init_model=run({"learning_rate": 0.2}, 1))
    assert path.read_bytes() == before


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    run({}, 4, checkpoint=path)
    whole = path.read_bytes()
    digit = whole.index(b'"leaf_value":[') + 18
    for damaged, match in (
        (b"", "the file is empty"),
        (whole[: len(whole) // 2], "cut short"),
        (whole[:digit] + (b"1" if whole[digit : digit + 1] != b"1" else b"2") + whole[digit + 1 :], "damaged"),
        (run({}, 1).to_bytes(), "not a checkpoint"),
        (whole.replace(b'"stopped":null,"version":1', b'"stopped":null,"version":9'), "9"),
        (b"\xff" + whole, "UTF-8"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(hb.ModelFormatError, match=f"run.ckpt: .*{match}.*; delete the file"):
            run({}, 4, checkpoint=path)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("arguments", [{"checkpoint": 3}, {"checkpoint": "no/such/folder/x"}, {"checkpoint_freq": 0}])
def test_bad_arguments_are_refused_before_training(arguments, tmp_path):
    with pytest.raises(hb.ParameterError, match="checkpoint"):
        run({}, **{"checkpoint": tmp_path / "x", **arguments})


STARTER = """
import json, os, sys
sys.path.insert(0, {tests!r})
import test_checkpoints as own
for line in sys.stdin:  # a child for every line; it has one thread, and so may be forked
    child = os.fork()
    if child == 0:
        own.run(**json.loads(line))
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def starter():
    """Return a process that has imported what trainings need, and starts a process for each that it is told of."""
    code = STARTER.format(tests=str(Path(__file__).parent))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    arguments = [sys.executable, "-c", code]
    with subprocess.Popen(
        arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        yield process


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked there")
@pytest.mark.parametrize("name", ["gbdt", "dart"])
def test_kill_at_any_moment_and_resume(name, tmp_path, starter):
    path, n_rounds, rng = tmp_path / "run.ckpt", 60, random.Random(name)
    expected, n_killed = run(CASES[name], n_rounds), 0
    for freq in (1, 3):  # the same file: every child goes on where the one before was killed
        arguments = {"params": CASES[name], "n_rounds": n_rounds, "checkpoint": str(path), "checkpoint_freq": freq}
        starter.stdin.write(json.dumps(arguments).encode() + b"\n")
        child = int(starter.stdout.readline())
        seen, n_changes, wanted = path.stat().st_mtime_ns if path.exists() else 0, 0, rng.randint(1, 8)
        while n_changes < wanted and not select.select([starter.stdout], [], [], 0.001)[0]:  # there once it has ended
            now = path.stat().st_mtime_ns if path.exists() else 0
            n_changes, seen = n_changes + (now != seen), now
        time.sleep(rng.random() * 0.02)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        n_killed += int(starter.stdout.readline()) == -signal.SIGKILL
        assert path.exists()
    assert n_killed > 0  # none: all were faster than the kill
    assert_same(run(CASES[name], n_rounds, checkpoint=path), expected)


# by their names: processes that import this module need no scikit-learn
@pytest.mark.parametrize("estimator", ["HornbeamRegressor", "HornbeamClassifier", "HornbeamRanker"])
def test_estimators_go_on_from_a_checkpoint(tmp_path, estimator):
    model = getattr(hb, estimator)(n_estimators=12, num_leaves=5, n_jobs=1, verbosity=-1)
    label = SCORE if estimator == "HornbeamRegressor" else np.digitize(SCORE, [-1.0, 1.0])
    queries = {"group": [20] * 15} if estimator == "HornbeamRanker" else {}
    expected = model.fit(TABLE, label, **queries).booster_.fingerprint()
    path = tmp_path / "run.ckpt"
    with pytest.raises(PowerCut):
        model.fit(TABLE, label, **queries, callbacks=[cut_at(7)], checkpoint=path, checkpoint_freq=2)
    assert path.exists()
    found = model.fit(TABLE, label, **queries, checkpoint=path).booster_
    assert found.fingerprint() == expected
    assert found.n_iterations == 12
