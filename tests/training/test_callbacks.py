"""Callbacks: early stopping, schedules, records, logs and the progress bar."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.data import make_higgs_like

X, Y = make_higgs_like(600, 6)
XV, YV = make_higgs_like(300, 6, seed=1)
FAST = {"objective": "binary", "num_leaves": 15, "learning_rate": 0.8, "verbosity": -1}


def train(params=FAST, rounds=60, valid_sets=None, **arguments) -> hb.Booster:
    valid_sets = {"v": hb.Dataset(XV, label=YV)} if valid_sets is None else valid_sets
    return hb.train(params, hb.Dataset(X, label=Y), rounds, valid_sets, **arguments)


# --- early stopping -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["binary_logloss", "auc", "binary_error", "average_precision", "l1"])
@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_early_stopping_keeps_the_best_iteration_of_any_metric(metric, rounds):
    model = train({**FAST, "metric": metric}, callbacks=[hb.early_stopping(rounds)])
    values = np.array(model.eval_history["v"][metric])
    best = int(np.argmax(values) if metric in ("auc", "average_precision") else np.argmin(values))
    assert model.best_iteration == best + 1
    assert model.best_score == {"v": {metric: values[best]}}
    assert model.n_iterations == len(values)
    assert len(values) == min(60, best + 1 + rounds)
    assert model.predict(XV).tobytes() == model.predict(XV, num_iteration=best + 1).tobytes()


def test_early_stopping_by_parameter_equals_the_callback():
    by_callback = train(callbacks=[hb.early_stopping(3)])
    by_parameter = train({**FAST, "early_stopping_rounds": 3})
    assert by_parameter.fingerprint() == by_callback.fingerprint()
    assert by_parameter.best_score == by_callback.best_score


def test_any_validation_set_ends_training():
    sets = {"good": hb.Dataset(X, label=Y), "bad": hb.Dataset(XV, label=YV)}
    model = train(valid_sets=sets, callbacks=[hb.early_stopping(3)])
    assert model.best_iteration == int(np.argmin(model.eval_history["bad"]["binary_logloss"])) + 1
    assert set(model.best_score) == {"good", "bad"}


def test_first_metric_only_looks_at_the_first():
    params = {**FAST, "metric": ["l1", "binary_logloss"], "learning_rate": 0.3}
    model = train(params, rounds=40, callbacks=[hb.early_stopping(2, first_metric_only=True)])
    alone = train({**params, "metric": "l1"}, rounds=40, callbacks=[hb.early_stopping(2)])
    assert model.best_iteration == alone.best_iteration


def test_metric_functions_steer_early_stopping():
    def falling(predictions, dataset):
        return "falling", -float(len(seen)), bool(seen.append(1)) or True

    seen: list[int] = []
    model = train({**FAST, "metric": "none"}, feval=falling, callbacks=[hb.early_stopping(4)])
    assert model.best_iteration == 1
    assert model.n_iterations == 5


@pytest.mark.parametrize(("values", "best"), [([np.nan, np.nan, 3.0, np.nan, 2.0], 3), ([np.nan, 1.0, 5.0], 3)])
def test_any_number_is_better_than_nan(values, best):
    """A correlation, for one, is NaN as long as all predictions are the same."""

    def correlation(predictions, dataset):
        return "correlation", values.pop(0) if values else np.nan, True

    values = list(values)
    model = train({**FAST, "metric": "none"}, feval=correlation, callbacks=[hb.early_stopping(4)])
    assert model.best_iteration == best
    assert model.n_iterations == best + 4


def test_interruption_keeps_the_best_iteration_so_far():
    def interrupt(env):
        if env.iteration == 5:
            raise KeyboardInterrupt

    model = train(callbacks=[hb.early_stopping(50), interrupt])
    values = model.eval_history["v"]["binary_logloss"]
    assert model.interrupted
    assert model.best_iteration == int(np.argmin(values)) + 1 < model.n_iterations
    assert model.best_score == {"v": {"binary_logloss": min(values)}}


def test_min_delta_asks_for_a_real_improvement():
    model = train({**FAST, "learning_rate": 0.05}, callbacks=[hb.early_stopping(3, min_delta=10.0)])
    assert (model.best_iteration, model.n_iterations) == (1, 4)
    with pytest.raises(hb.ParameterError, match="min_delta has 2 values for 1 metrics"):
        train(callbacks=[hb.early_stopping(3, min_delta=[0.1, 0.2])])


def test_training_set_is_not_watched_whatever_its_name():
    for name in ("training", "mine"):
        data = hb.Dataset(X, label=np.roll(Y, 1))
        model = hb.train(FAST, data, 60, {name: data, "v": hb.Dataset(XV, label=YV)}, callbacks=[hb.early_stopping(3)])
        assert model.best_iteration == int(np.argmin(model.eval_history["v"]["binary_logloss"])) + 1


@pytest.mark.parametrize("by", ["parameter", "callback"])
def test_early_stopping_on_the_training_set_alone_is_off_and_says_so(by, caplog):
    data = hb.Dataset(X, label=Y)
    params = {**FAST, "verbosity": 0, "early_stopping_round": 3 if by == "parameter" else 0}
    found = hb.train(params, data, 5, {"mine": data}, callbacks=[hb.early_stopping(3)] if by == "callback" else None)
    assert [record.message for record in caplog.records] == [
        "early stopping is off: the training set alone is evaluated, and on it there is no best iteration"
    ]
    assert (found.best_iteration, found.n_iterations) == (0, 5)
    assert found.best_score == {"mine": {"binary_logloss": found.eval_history["mine"]["binary_logloss"][-1]}}


@pytest.mark.parametrize(("verbosity", "by", "heard"), [(-1, "callback", 1), (1, "parameter", 1), (-1, "parameter", 0)])
def test_who_asks_for_the_best_iteration_hears_it(verbosity, by, heard, caplog):
    asked = {"callbacks": [hb.early_stopping(3)]} if by == "callback" else {}
    model = train({**FAST, "verbosity": verbosity, "early_stopping_round": 3 * (by == "parameter")}, **asked)
    texts = [record.message for record in caplog.records if "best iteration" in record.message]
    if heard:
        how = "early stopping" if model.n_iterations < 60 else "no early stopping"
        value = model.eval_history["v"]["binary_logloss"][model.best_iteration - 1]
        line = f"[{model.best_iteration}]\tv's binary_logloss: {value:g}"
        assert texts == [f"{how}, best iteration: {line}"]
    else:
        assert not texts
    caplog.clear()
    train(callbacks=[hb.early_stopping(3, verbose=False)])
    assert not caplog.records


def test_early_stopping_without_anything_to_watch_is_refused():
    with pytest.raises(hb.ParameterError, match="validation set"):
        hb.train(FAST, hb.Dataset(X, label=Y), 5, callbacks=[hb.early_stopping(3)])


def half_squares(predictions, dataset):
    return predictions - dataset.label, np.ones(len(predictions))


@pytest.mark.parametrize("params", [{"metric": "none"}, {"objective": half_squares}], ids=["none", "function"])
@pytest.mark.parametrize("call", [hb.train, hb.cv], ids=["train", "cv"])
@pytest.mark.parametrize("by", ["parameter", "callback"])
def test_early_stopping_without_a_metric_is_refused_before_training(params, call, by):
    seen = []
    given = {**FAST, **params, "early_stopping_round": 3 if by == "parameter" else 0}
    callbacks = [lambda env: seen.append(env.iteration), *([hb.early_stopping(3)] if by == "callback" else [])]
    more = {"valid_sets": hb.Dataset(XV, label=YV)} if call is hb.train else {}
    with pytest.raises(hb.ParameterError, match="early stopping needs a metric"):
        call(given, hb.Dataset(X, label=Y), 3, callbacks=callbacks, **more)
    assert seen == []


def test_model_is_kept_where_metric_functions_return_nothing():
    params = {**FAST, "metric": "none"}
    model = train(params, rounds=3, feval=lambda predictions, dataset: [], callbacks=[hb.early_stopping(2)])
    assert (model.n_iterations, model.best_iteration) == (3, 0)


def test_training_that_never_got_worse_ends_with_its_best_iteration():
    model = train({**FAST, "learning_rate": 0.01}, rounds=5, callbacks=[hb.early_stopping(50)])
    assert (model.best_iteration, model.n_iterations) == (5, 5)


@pytest.mark.parametrize("metrics", [["binary_logloss", "auc"], ["auc", "binary_logloss"]], ids=str)
def test_best_iteration_is_that_of_the_first_metric_where_none_stopped_training(metrics):
    noise = np.random.default_rng(5).random(len(YV)) < 0.4
    valid = {"v": hb.Dataset(XV, label=np.where(noise, 1.0 - YV, YV))}
    params = {**FAST, "metric": metrics, "learning_rate": 0.3}
    model = train(params, 30, valid, callbacks=[hb.early_stopping(100)])
    history = model.eval_history["v"]
    best = {"binary_logloss": int(np.argmin(history["binary_logloss"])), "auc": int(np.argmax(history["auc"]))}
    assert best["auc"] != best["binary_logloss"]
    assert model.best_iteration == best[metrics[0]] + 1
    assert model.best_score["v"] == {name: history[name][best[metrics[0]]] for name in metrics}


def test_last_round_belongs_to_the_first_metric_as_in_lightgbm():
    def falling(predictions, dataset):
        return "falling", -float(len(seen)), bool(seen.append(1)) or True

    seen: list[int] = []
    model = train({**FAST, "learning_rate": 0.01}, 5, feval=falling, callbacks=[hb.early_stopping(4)])
    assert (model.best_iteration, model.n_iterations) == (5, 5)


def test_evaluations_have_lightgbms_names_too():
    seen = []
    train(rounds=1, callbacks=[lambda env: seen.extend(env.evaluation_result_list)])
    hb.cv(FAST, hb.Dataset(X, label=Y), 1, callbacks=[lambda env: seen.extend(env.evaluation_result_list)])
    for result in seen:
        names = ("dataset_name", "metric_name", "metric_value", "maximize", "metric_std_dev")[: len(result)]
        assert tuple(getattr(result, name) for name in names) == tuple(result)
    assert {len(result) for result in seen} == {4, 5}
    with pytest.raises(AttributeError, match="metric_std_dev"):
        _ = seen[0].metric_std_dev


def test_one_callback_serves_several_trainings():
    stopper = hb.early_stopping(3)
    assert train(callbacks=[stopper]).fingerprint() == train(callbacks=[stopper]).fingerprint()


@pytest.mark.parametrize("arguments", [(2.5,), (True,), (3, False, True, -0.1), (3, False, True, float("nan"))])
def test_unusable_arguments_are_refused(arguments):
    with pytest.raises(hb.ParameterError, match=r"stopping_rounds|min_delta"):
        hb.early_stopping(*arguments)


# --- schedules, records, logs ---------------------------------------------------------------------------------------


def test_learning_rate_follows_its_schedule():
    by_list = train(rounds=3, callbacks=[hb.reset_parameter(learning_rate=[0.5, 0.25, 0.125])])
    by_function = train(rounds=3, callbacks=[hb.reset_parameter(eta=lambda i: 0.5 * 0.5**i)])
    assert [tree.shrinkage for tree in by_list.trees] == [0.5, 0.25, 0.125]
    assert by_list.fingerprint() == by_function.fingerprint()
    start = train({**FAST, "learning_rate": 0.5}, rounds=1)
    rest = train(rounds=2, callbacks=[hb.reset_parameter(learning_rate=[0.25, 0.125])], init_model=start)
    assert rest.predict(X).tobytes() == by_list.predict(X).tobytes()


@pytest.mark.parametrize("device", usable_devices())
def test_limits_of_trees_follow_their_schedules_alike_on_every_device(device):
    callbacks = [hb.reset_parameter(num_leaves=[15, 3, 7], min_data_in_leaf=[20, 1, 40])]
    params = {**FAST, "num_leaves": 15, "min_data_in_leaf": 20}
    made = train({**params, "device": device}, rounds=3, callbacks=callbacks)
    assert made.fingerprint() == train({**params, "device": "reference"}, rounds=3, callbacks=callbacks).fingerprint()
    assert [tree.n_leaves for tree in made.trees][:2] == [15, 3] and made.trees[2].leaf_count.min() >= 40
    start = train({**params, "device": device}, rounds=1)
    live = hb.Booster(made.to_bytes())[:1]
    rest = train({**params, "num_leaves": 3, "min_data_in_leaf": 1, "device": device}, rounds=1, init_model=live)
    assert start.trees[0].leaf_value.tolist() == made.trees[0].leaf_value.tolist()
    assert rest.trees[1].leaf_value.tolist() == made.trees[1].leaf_value.tolist()


def test_limits_beyond_those_that_the_training_began_with_are_refused():
    with pytest.raises(hb.ParameterError, match=r"num_leaves=32.*began with 31"):
        train({**FAST, "num_leaves": 31}, rounds=2, callbacks=[hb.reset_parameter(num_leaves=[31, 32])])
    params = {**FAST, "min_data_in_leaf": 1}
    with pytest.raises(hb.ParameterError, match=r"min_data_in_leaf=2.*began with 1"):
        train(params, rounds=2, callbacks=[hb.reset_parameter(min_data_in_leaf=[1, 2])])


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_learning_rate_is_refused(rate):
    with pytest.raises(hb.ParameterError, match="learning_rate"):
        train(rounds=2, callbacks=[hb.reset_parameter(learning_rate=lambda i: rate)])


def test_schedules_that_cannot_be_followed_are_refused():
    with pytest.raises(hb.ParameterError, match="3 values for 2 rounds"):
        train(rounds=2, callbacks=[hb.reset_parameter(learning_rate=[0.1] * 3)])
    with pytest.raises(hb.ParameterError, match="learning_rate"):
        hb.reset_parameter(max_bin=[3])
    with pytest.raises(hb.ParameterError, match="learning_rate"):
        hb.reset_parameter()


def test_record_is_the_history():
    record: dict = {"old": {"x": [1.0]}}
    params = {**FAST, "metric": ["auc", "l2"]}
    model = train(params, rounds=4, callbacks=[hb.record_evaluation(record)])
    assert record == model.eval_history
    assert {len(values) for values in record["v"].values()} == {4}
    with pytest.raises(hb.ParameterError, match="eval_result must be a dict"):
        hb.record_evaluation([])


def test_log_has_a_line_every_period(caplog):
    with caplog.at_level(logging.INFO, "hornbeam"):
        model = train(rounds=6, callbacks=[hb.log_evaluation(3)])
        train(rounds=2, callbacks=[hb.log_evaluation(0)])
    lines = [record.getMessage() for record in caplog.records]
    values = model.eval_history["v"]["binary_logloss"]
    assert lines == [f"[{n}]\tv's binary_logloss: {values[n - 1]:g}" for n in (3, 6)]


@pytest.mark.parametrize("run", [hb.train, hb.cv])
def test_callbacks_that_are_no_functions_are_refused_before_training(run):
    class Other:
        def after_epoch(self):
            raise AssertionError

    called = []
    with pytest.raises(hb.ParameterError, match=r"callbacks\[1\].*Other.*hornbeam\.early_stopping"):
        run(FAST, hb.Dataset(X, label=Y), 3, callbacks=[called.append, Other()])
    assert not called


def test_callbacks_run_in_their_order_before_and_after_every_iteration():
    seen = []

    def callback(name, order, before=False):
        def call(env):
            seen.append((name, env.iteration, len(env.evaluation_result_list)))

        call.order, call.before_iteration = order, before
        return call

    train(rounds=2, callbacks=[callback("late", 5), callback("early", 1), callback("before", 9, True)])
    assert seen == [(name, i, int(name != "before")) for i in range(2) for name in ("before", "early", "late")]


def test_environment_unpacks_as_in_lightgbm():
    seen = []

    def call(env):
        ((name, metric, value, higher),) = env.evaluation_result_list
        seen.append((name, metric, higher, env.begin_iteration, env.end_iteration, env.model.n_iterations))
        assert isinstance(value, float)

    train(rounds=2, callbacks=[call])
    assert seen == [("v", "binary_logloss", False, 0, 2, 1), ("v", "binary_logloss", False, 0, 2, 2)]


# --- progress -------------------------------------------------------------------------------------------------------

PROGRESS = """
import numpy as np, hornbeam as hb
X = np.random.default_rng(0).normal(size=(200, 2))
y = X[:, 0]
train, valid = hb.Dataset(X, label=y), hb.Dataset(X, label=y)
hb.train({"verbosity": -1, "num_leaves": 4}, train, 7, {"mine [x]": valid}, callbacks=[hb.progress()])
"""


def test_progress_is_silent_where_output_is_no_terminal():
    environment = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")}
    run = subprocess.run([sys.executable, "-c", PROGRESS], capture_output=True, text=True, check=True, env=environment)
    assert (run.stdout, run.stderr) == ("", "")


def test_progress_shows_in_a_terminal():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    process = subprocess.Popen([sys.executable, "-c", PROGRESS], stderr=theirs, stdout=subprocess.PIPE, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.communicate()[0] == b""
    assert process.returncode == 0
    assert b"boosting" in shown
    assert b"7/7" in shown
    assert b"mine [x] l2" in shown


def test_progress_bar_is_closed_however_training_ends(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = hb.progress()

    def fail(env):
        raise RuntimeError("stop here")

    fail.order = 50
    with pytest.raises(RuntimeError, match="stop here"):
        train(rounds=3, callbacks=[bar, fail])
    assert bar._bar is None
    train(rounds=2, callbacks=[bar])
    assert bar._bar is None


def test_early_stopping_without_a_validation_set_is_refused_before_the_first_iteration():
    seen = []
    with pytest.raises(hb.ParameterError, match="validation set"):
        hb.train(
            FAST,
            hb.Dataset(X, label=Y),
            5,
            callbacks=[hb.early_stopping(3), lambda env: seen.append(env.iteration)],
        )
    assert seen == []


def test_one_callback_without_a_list_is_refused():
    with pytest.raises(hb.ParameterError, match="pass a list, also of one"):
        train(callbacks=hb.early_stopping(3))


def test_best_score_has_the_training_set_too():
    train_set = hb.Dataset(X, label=Y)
    valid_set = hb.Dataset(XV, label=YV, reference=train_set)
    sets = {"train": train_set, "valid": valid_set}
    model = hb.train({"objective": "binary"}, train_set, 6, sets, callbacks=[hb.early_stopping(2, verbose=False)])
    best = model.best_iteration - 1
    history = model.eval_history
    assert model.best_score == {name: {"binary_logloss": history[name]["binary_logloss"][best]} for name in sets}


QUIET = {"objective": "binary", "lambda_l2": 0.0, "verbosity": -1}


@pytest.mark.parametrize("name", ["reset_parameter", "set_param"])
@pytest.mark.parametrize("before", [False, True])
def test_a_callback_can_set_parameters_of_the_iterations_to_come(name, before):
    """As LightGBM's env.model.reset_parameter and XGBoost's model.set_param do: they hold until they are set anew."""

    def change(env):
        if env.iteration == 2:
            getattr(env.model, name)({"eta": 0.05, "reg_lambda": 3.0})

    change.before_iteration = before
    begin = 2 if before else 3
    made = hb.train(QUIET, hb.Dataset(X, label=Y), 5, callbacks=[change])
    schedule = hb.reset_parameter(
        learning_rate=lambda i: 0.05 if i >= begin else 0.1, lambda_l2=lambda i: 3.0 if i >= begin else 0.0
    )
    assert made.fingerprint() == hb.train(QUIET, hb.Dataset(X, label=Y), 5, callbacks=[schedule]).fingerprint()
    with pytest.raises(hb.ParameterError, match="this Booster has no training data"):
        made.reset_parameter({"eta": 0.1})


def test_a_callback_of_cv_can_set_parameters_of_all_folds():
    def change(env):
        env.model.reset_parameter({"learning_rate": 0.01})

    made = hb.cv(QUIET, hb.Dataset(X, label=Y), 4, nfold=2, callbacks=[change])
    schedule = hb.reset_parameter(learning_rate=[0.1, 0.01, 0.01, 0.01])
    assert made == hb.cv(QUIET, hb.Dataset(X, label=Y), 4, nfold=2, callbacks=[schedule])


def test_what_cannot_change_while_trees_grow_is_an_error():
    with pytest.raises(hb.ParameterError, match=r"max_bin cannot change.*learning_rate"):
        hb.train(QUIET, hb.Dataset(X, label=Y), 3, callbacks=[lambda env: env.model.reset_parameter({"max_bin": 15})])


def test_what_a_file_would_not_know_of_is_no_change_of_a_callback(tmp_path):
    """A training that goes on from a checkpoint ends as one in one go: iterations that are there see no callback."""
    change = lambda env: env.model.reset_parameter({"learning_rate": 0.01})  # noqa: E731
    with pytest.raises(hb.ParameterError, match=r"learning_rate set by a callback beside checkpoint="):
        hb.train(QUIET, hb.Dataset(X, label=Y), 3, callbacks=[change], checkpoint=tmp_path / "state")


def test_an_environment_is_made_by_its_names():
    model = train(rounds=2)
    env = hb.callback.CallbackEnv(model=model, iteration=1, begin_iteration=0, end_iteration=2, learning_rate=0.1)
    assert env.model is model


def test_fewer_rows_in_a_leaf_give_later_trees_more_leaves(device):
    """The first tree has as many leaves as 200 rows in each allow; later ones have all of num_leaves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    data = hb.Dataset(X, label=X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=1000))
    params = {"num_leaves": 63, "min_data_in_leaf": 200, "verbosity": -1}
    schedule = {"min_data_in_leaf": [200, 5, 100]}
    model, expected = (
        hb.train({**params, "device": where}, data, 3, callbacks=[hb.reset_parameter(**schedule)])
        for where in (device, "reference")
    )
    assert model.fingerprint() == expected.fingerprint()
    leaves = [tree.n_leaves for tree in model.trees]
    assert leaves[0] <= 5 and leaves[1] == 63 and leaves[2] <= 10
