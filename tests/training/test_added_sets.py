"""Data sets that a callback adds while `train` runs: evaluated from then on, as if they had been there."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError, ParameterError

RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(300, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RANDOM.normal(size=300)
OTHER, LABEL = X[200:], Y[200:]
PARAMS = {"objective": "regression", "metric": ["l2", "l1"], "num_leaves": 5, "verbosity": -1, "device": "reference"}
N_ROUNDS = 6


def data():
    return hb.Dataset(X[:200], label=Y[:200])


class Adds:
    """A callback that adds a data set in one iteration."""

    def __init__(self, dataset, name="late", iteration=2, before=False):
        self.dataset, self.name, self.iteration, self.before_iteration = dataset, name, iteration, before

    def __call__(self, env):
        if env.iteration == self.iteration:
            env.model.add_valid(self.dataset, self.name)


KINDS = {
    "plain": {},
    "dart": {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
    "forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "linear": {"linear_tree": True},
    "classes": {"objective": "multiclass", "num_class": 3, "metric": ["multi_logloss", "multi_error"]},
    "renewed": {"objective": "regression_l1", "metric": "l1"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_evaluations_are_those_of_a_set_that_was_there_from_the_start(kind, before):
    params = {**PARAMS, **KINDS[kind]}
    label = np.digitize(Y, [-0.5, 0.5]).astype(float) if kind == "classes" else Y
    found = []
    for is_late in (True, False):
        train_set = hb.Dataset(X[:200], label=label[:200])
        valid = hb.Dataset(OTHER, label=label[200:], reference=train_set)
        calls = [Adds(valid, before=before)] if is_late else []
        found.append(hb.train(params, train_set, N_ROUNDS, {} if is_late else {"late": valid}, callbacks=calls))
    late, whole = found
    assert late.fingerprint() == whole.fingerprint()
    begin = 2 if before else 3
    assert list(late.eval_history) == ["late"]
    for metric, values in whole.eval_history["late"].items():
        assert late.eval_history["late"][metric] == pytest.approx(values[begin:], rel=1e-12)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_evaluations_are_those_of_the_predictions(device):
    record = {}
    calls = [Adds(hb.Dataset(OTHER, label=LABEL)), hb.record_evaluation(record)]
    booster = hb.train({**PARAMS, "device": device}, data(), N_ROUNDS, callbacks=calls)
    predicted = [booster.predict(OTHER, num_iteration=n) for n in range(4, N_ROUNDS + 1)]
    assert record["late"]["l2"] == pytest.approx([np.mean((p - LABEL) ** 2) for p in predicted], rel=1e-12)
    assert record["late"]["l1"] == pytest.approx([np.mean(np.abs(p - LABEL)) for p in predicted], rel=1e-12)
    assert record == booster.eval_history


def test_other_sets_and_the_model_are_as_without_it():
    found = []
    for is_added in (True, False):
        train_set = data()
        sets = {"training": train_set, "valid": hb.Dataset(OTHER, label=LABEL, reference=train_set)}
        calls = [Adds(hb.Dataset(X, label=Y))] if is_added else []
        found.append(hb.train(PARAMS, train_set, N_ROUNDS, sets, callbacks=calls))
    with_it, without = found
    assert with_it.fingerprint() == without.fingerprint()
    assert list(with_it.eval_history) == ["training", "valid", "late"]
    assert {name: with_it.eval_history[name] for name in without.eval_history} == without.eval_history


def test_scores_start_from_those_of_the_set_and_from_the_model_that_is_trained_on():
    start = hb.train(PARAMS, data(), 3)
    margin = np.linspace(-1.0, 1.0, len(OTHER))
    added = hb.Dataset(OTHER, label=LABEL, init_score=margin)
    train_set = hb.Dataset(X[:200], label=Y[:200], init_score=np.zeros(200))
    booster = hb.train(PARAMS, train_set, N_ROUNDS, callbacks=[Adds(added)])
    scores = margin + booster.predict(OTHER, raw_score=True)
    assert booster.eval_history["late"]["l2"][-1] == pytest.approx(np.mean((scores - LABEL) ** 2), rel=1e-12)
    added = Adds(hb.Dataset(OTHER, label=LABEL), iteration=4)
    booster = hb.train(PARAMS, data(), N_ROUNDS, init_model=start, callbacks=[added])
    expected = np.mean((booster.predict(OTHER) - LABEL) ** 2)
    assert booster.eval_history["late"]["l2"][-1] == pytest.approx(expected, rel=1e-12)


def test_lightgbm_evaluates_it_from_the_same_iteration_on():
    peer = pytest.importorskip("lightgbm")
    seen = {hb: [], peer: []}
    for library, values in seen.items():
        train_set = library.Dataset(X[:200], label=Y[:200])
        first = library.Dataset(X[:100], label=Y[:100], reference=train_set)
        late = Adds(library.Dataset(OTHER, label=LABEL, reference=train_set))
        params = {name: value for name, value in PARAMS.items() if name != "device" or library is hb}

        def keep(env, values=values):
            values.extend((env.iteration, *result[:3]) for result in env.evaluation_result_list)

        library.train(params, train_set, N_ROUNDS, valid_sets=[first], valid_names=["first"], callbacks=[late, keep])
    ours, theirs = ({tuple(row[:3]): row[3] for row in values} for values in seen.values())
    assert list(ours) == list(theirs)
    assert min(iteration for iteration, name, _ in ours if name == "late") == 3
    assert list(ours.values()) == pytest.approx(list(theirs.values()), rel=0.05)


def test_a_set_that_is_added_last_ends_the_training_early():
    train_set = data()
    steady = hb.Dataset(X[:200], label=Y[:200], reference=train_set)
    params, rounds = {**PARAMS, "metric": "l2", "learning_rate": 0.3}, 300
    calls = [Adds(hb.Dataset(OTHER, label=LABEL)), hb.early_stopping(5, verbose=False)]
    booster = hb.train(params, train_set, rounds, {"steady": steady}, callbacks=calls)
    values = booster.eval_history["late"]["l2"]
    assert booster.n_iterations < rounds
    assert booster.best_iteration == 4 + int(np.argmin(values))
    assert len(values) == int(np.argmin(values)) + 6


def test_functions_metric_freq_and_callbacks_of_xgboosts_kind_see_it():
    def n_rows(scores, dataset):
        return "rows", float(len(scores)), False

    def run(params=PARAMS, **more):
        return hb.train(params, data(), N_ROUNDS, callbacks=[Adds(hb.Dataset(OTHER, label=LABEL))], **more)

    assert run(feval=n_rows).eval_history["late"]["rows"] == [len(OTHER)] * 3
    assert len(run({**PARAMS, "metric_freq": 2}).eval_history["late"]["l2"]) == 2

    class FromTheStart(hb.callback.TrainingCallback):
        def before_training(self, model):
            return model.add_valid(hb.DMatrix(OTHER, LABEL), "late")

    booster = hb.train({}, hb.DMatrix(X, Y), 3, callbacks=[FromTheStart()], verbose_eval=False)
    expected = [np.sqrt(np.mean((booster.predict(OTHER, iteration_range=(0, n)) - LABEL) ** 2)) for n in (1, 2, 3)]
    assert booster.eval_history["late"]["rmse"] == pytest.approx(expected, rel=1e-12)


def test_a_training_that_is_kept_and_estimators_have_it():
    added = Adds(hb.Dataset(OTHER, label=LABEL))
    booster = hb.train(PARAMS, data(), N_ROUNDS, callbacks=[added], keep_training_booster=True)
    booster.update()
    ((name, metric, value, _), _) = booster.eval_valid()
    assert (name, metric) == ("late", "l2")
    assert value == pytest.approx(np.mean((booster.predict(OTHER) - LABEL) ** 2), rel=1e-12)
    estimator = hb.HornbeamRegressor(n_estimators=5, verbosity=-1)
    estimator.fit(X, Y, callbacks=[Adds(hb.Dataset(OTHER, label=LABEL))])
    expected = np.mean((estimator.predict(OTHER) - LABEL) ** 2)
    assert estimator.evals_result_["late"]["l2"][-1] == pytest.approx(expected, rel=1e-12)


def test_the_training_set_may_be_added_and_a_set_is_added_once():
    train_set = data()
    booster = hb.train(PARAMS, train_set, N_ROUNDS, callbacks=[Adds(train_set, "own")])
    expected = np.mean((booster.predict(X[:200]) - Y[:200]) ** 2)
    assert booster.eval_history["own"]["l2"][-1] == pytest.approx(expected, rel=1e-12)
    valid = hb.Dataset(OTHER, label=LABEL, reference=train_set)
    booster = hb.train(PARAMS, train_set, N_ROUNDS, {"valid": valid}, callbacks=[Adds(valid, "again")])
    assert list(booster.eval_history) == ["valid"]


def test_a_second_set_of_a_name_is_refused():
    train_set = data()
    valid = hb.Dataset(OTHER, label=LABEL, reference=train_set)
    with pytest.raises(ParameterError, match="there is a validation set 'late' already"):
        hb.train(PARAMS, train_set, N_ROUNDS, {"late": valid}, callbacks=[Adds(hb.Dataset(OTHER, label=LABEL))])
    twice = [Adds(hb.Dataset(OTHER, label=LABEL)), Adds(hb.Dataset(X, label=Y), iteration=4)]
    with pytest.raises(ParameterError, match="there is a validation set 'late' already"):
        hb.train(PARAMS, data(), N_ROUNDS, callbacks=twice)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (OTHER, "must be a hornbeam.Dataset, not ndarray"),
        (hb.Dataset(OTHER[:, :2], label=LABEL), "has 2 features and train_set 4"),
        (hb.Dataset(OTHER), "has none"),
    ],
    ids=["array", "columns", "labels"],
)
def test_what_cannot_be_evaluated_is_refused(wrong, message):
    with pytest.raises(DataError, match=message):
        hb.train(PARAMS, data(), N_ROUNDS, callbacks=[Adds(wrong)])


def test_all_sets_of_folds_and_of_checkpoints_are_known_when_they_begin(tmp_path):
    added = Adds(hb.Dataset(OTHER, label=LABEL), iteration=0)
    with pytest.raises(ParameterError, match="add_valid in a callback of cv"):
        hb.cv(PARAMS, data(), 3, nfold=2, callbacks=[added])
    with pytest.raises(ParameterError, match="beside checkpoint="):
        hb.train(PARAMS, data(), 3, callbacks=[added], checkpoint=tmp_path / "state")


def test_a_training_set_that_is_added_is_not_watched_by_early_stopping():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 2))
    train_set = hb.Dataset(table, label=table[:, 0])
    valid_set = hb.Dataset(table, label=table[:, 0], reference=train_set)
    calls = [0]

    def add(env):
        if env.iteration == 1:
            env.model.add_valid(train_set, "own")

    def steps(predictions, data):
        calls[0] += 1
        return "steps", (1.0 if data is train_set else -1.0) * calls[0], False

    stopping = hb.early_stopping(3, verbose=False)
    params = {"metric": "None", "verbosity": -1, "device": "reference"}
    model = hb.train(params, train_set, 8, {"v": valid_set}, feval=steps, callbacks=[add, stopping])
    assert model.n_iterations == 8


def test_workers_say_that_a_set_cannot_be_added():
    from hornbeam.distributed import Part, PartDataset, run_workers
    from hornbeam.distributed import train as train_on_worker

    table = np.random.default_rng(0).normal(size=(200, 2))

    def add(env):
        env.model.add_valid(hb.Dataset(table, label=table[:, 0]), "late")

    def work(collective):
        rows = slice(100 * collective.rank, 100 * collective.rank + 100)
        part = Part.make(collective.rank, table[rows], label=table[rows, 0])
        params = {"verbosity": -1, "device": "reference"}
        return train_on_worker(params, PartDataset(collective, [part]), 2, callbacks=[add])

    with pytest.raises(hb.ParameterError, match="add_valid in a training on workers"):
        run_workers(2, work)
