"""Optuna: pruned trials, and the tuner that goes step by step."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.companions.optuna import HornbeamTuner, HornbeamTunerCV, PruningCallback
from hornbeam.companions.optuna.steps import STEPS, TRIALS
from hornbeam.companions.packages import MissingPackageError
from hornbeam.testing.data import make_higgs_like

optuna = pytest.importorskip("optuna", reason="optuna is not installed")
X, Y = make_higgs_like(300, 6)
XV, YV = make_higgs_like(200, 6, seed=1)
FAST = {"objective": "binary", "metric": ["auc", "binary_logloss"], "num_leaves": 7, "verbosity": -1}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def train(callbacks=(), params=FAST, valid=True, **arguments):
    data = hb.Dataset(X, label=Y)
    sets = {"v": hb.Dataset(XV, label=YV, reference=data)} if valid else None
    return hb.train(params, data, 6, sets, callbacks=list(callbacks), **arguments)


class PruneAt(optuna.pruners.BasePruner):
    """Prunes at one step."""

    def __init__(self, step):
        self.step = step

    def prune(self, study, trial):
        return trial.last_step == self.step


def study_of(objective, direction="maximize", pruner=None):
    study = optuna.create_study(direction=direction, pruner=pruner or PruneAt(3))
    study.optimize(objective, n_trials=1)
    return study


# --- pruning ----------------------------------------------------------------------------------------------------------


def test_values_of_train_are_reported_and_the_trial_is_pruned():
    (trial,) = study_of(lambda trial: train([PruningCallback(trial, "auc", valid_name="v")]) and 0.0).trials
    assert trial.state == optuna.trial.TrialState.PRUNED
    assert list(trial.intermediate_values.values()) == train().eval_history["v"]["auc"][:4]


def test_a_trial_that_is_not_pruned_has_the_model_of_a_plain_training():
    found = []

    def objective(trial):
        found.append(train([PruningCallback(trial, "logloss", report_interval=2), hb.early_stopping(50)]))
        return 0.0

    (trial,) = study_of(objective, "minimize", PruneAt(99)).trials
    assert found[0].fingerprint() == train([hb.early_stopping(50)]).fingerprint()
    values = found[0].eval_history["v"]["binary_logloss"]  # logloss is another name of it
    assert trial.intermediate_values == {1: values[1], 3: values[3], 5: values[5]}


def test_means_over_the_folds_are_reported_in_cv():
    def objective(trial):
        hb.cv(
            FAST, hb.Dataset(X, label=Y), 6, nfold=3, eval_train_metric=True, callbacks=[PruningCallback(trial, "auc")]
        )

    (trial,) = study_of(objective).trials
    history = hb.cv(FAST, hb.Dataset(X, label=Y), 6, nfold=3)
    assert list(trial.intermediate_values.values()) == history["valid auc-mean"][:4]


def test_estimators_can_be_pruned():
    model = hb.HornbeamClassifier(n_estimators=6, num_leaves=7, verbosity=-1, metric="auc")

    def objective(trial):
        model.fit(X, Y, eval_set=[(XV, YV)], callbacks=[PruningCallback(trial, "auc", valid_name="valid_0")])

    (trial,) = study_of(objective).trials
    assert trial.state == optuna.trial.TrialState.PRUNED
    assert len(trial.intermediate_values) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda trial: train([PruningCallback(trial, "l7")]),
            "'l7' is not evaluated on 'v', but 'auc', 'binary_logloss'",
        ),
        (lambda trial: train([PruningCallback(trial, "auc")], valid=False), "needs a validation set"),
        (
            lambda trial: train([PruningCallback(trial, "auc", valid_name="w")]),
            "'w' is no validation set; there is 'v'",
        ),
        (lambda trial: train([PruningCallback(trial, "auc")], {**FAST, "metric": "none"}), "needs a metric"),
        (lambda trial: train([PruningCallback(trial, "binary_logloss")]), "direction is maximize"),
        (lambda trial: PruningCallback(trial, ["auc"]), "must be the name of a metric"),
        (lambda trial: PruningCallback(trial, "auc", report_interval=0), "report_interval"),
        (lambda trial: PruningCallback("trial", "auc"), "trial is a str"),
    ],
)
def test_bad_input_of_the_pruner_is_refused(make, message):
    with pytest.raises(hb.ParameterError, match=message):
        study_of(make)


def test_a_pruner_without_a_validation_set_is_refused_before_training():
    seen = []

    def objective(trial):
        hb.HornbeamClassifier(verbosity=-1).fit(X, Y, callbacks=[PruningCallback(trial, "auc"), seen.append])

    with pytest.raises(hb.ParameterError, match="validation set"):
        study_of(objective)
    assert seen == []


def test_several_objectives_are_refused():
    study = optuna.create_study(directions=["maximize", "minimize"])
    with pytest.raises(hb.ParameterError, match="several objectives"):
        PruningCallback(study.ask(), "auc")


def test_without_optuna_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hornbeam\[companions\]'"):
        PruningCallback(None, "auc")


# --- tuner ------------------------------------------------------------------------------------------------------------

FEW = {"feature_fraction": 7, "num_leaves": 3, "bagging": 3, "feature_fraction_again": 2, "regularisation": 3,
       "min_data_in_leaf": 5}  # fmt: skip


def tuner(params=FAST, **arguments):
    data = hb.Dataset(X, label=Y)
    arguments = {"steps": FEW, "valid_sets": {"v": hb.Dataset(XV, label=YV, reference=data)}, **arguments}
    return HornbeamTuner(params, data, 5, **arguments)


def test_the_best_trial_is_the_result_and_can_be_trained_again():
    found = tuner()
    found.run()
    assert found.best_score == max(trial.value for trial in found.study.trials) == found.study.best_value
    data = hb.Dataset(X, label=Y)
    again = hb.train(found.best_params, data, 5, {"v": hb.Dataset(XV, label=YV, reference=data)})
    assert again.fingerprint() == found.get_best_booster().fingerprint()
    assert again.best_score["v"]["auc"] == found.best_score
    assert [trial.user_attrs["step"] for trial in found.study.trials[:8]] == ["given"] + ["feature_fraction"] * 6 + [
        "num_leaves"
    ]


def test_every_step_starts_from_the_best_so_far():
    found = tuner(callbacks=[hb.early_stopping(2, verbose=False)])
    found.run()
    best, tuned, of_step, step = -np.inf, {}, {}, "given"
    for trial in found.study.trials:
        if trial.user_attrs["step"] != step:
            step, of_step = trial.user_attrs["step"], dict(tuned)
        assert {**of_step, **trial.params} == trial.user_attrs["tuned"]
        if trial.value > best:
            best, tuned = trial.value, trial.user_attrs["tuned"]
    assert found.best_params == {**{k: v for k, v in FAST.items() if k not in tuned}, **tuned}


def test_the_same_seed_gives_the_same_trials_and_another_seed_others():
    runs = [tuner(seed=seed, steps={"num_leaves": 4, "regularisation": 4}) for seed in (3, 3, 4)]
    for one in runs:
        one.run()
    first, second, third = ([(trial.params, trial.value) for trial in one.study.trials] for one in runs)
    assert first == second != third
    assert runs[0].get_best_booster().fingerprint() == runs[1].get_best_booster().fingerprint()


def test_cross_validation_steers_the_other_tuner():
    arguments = {"nfold": 3, "steps": {"feature_fraction": 3, "min_data_in_leaf": 2}}
    found = HornbeamTunerCV(FAST, hb.Dataset(X, label=Y), 4, **arguments)
    found.run()
    history = hb.cv(found.best_params, hb.Dataset(X, label=Y), 4, nfold=3, return_cvbooster=True)
    assert history["valid auc-mean"][-1] == found.best_score
    assert [b.fingerprint() for b in history["cvbooster"].boosters] == [
        b.fingerprint() for b in found.get_best_booster().boosters
    ]


def test_aliases_of_tuned_parameters_are_replaced():
    params = {"objective": "binary", "min_child_samples": 150, "colsample_bytree": 0.5, "verbosity": -1}
    found = tuner(params, steps={"min_data_in_leaf": 5})
    found.run()
    assert "min_child_samples" not in found.best_params
    assert found.best_params["colsample_bytree"] == 0.5
    assert found.best_score == min(trial.value for trial in found.study.trials)  # logloss is minimised


def test_a_metric_function_steers_in_its_direction():
    def negative(predictions, dataset):
        return "negative", float(-predictions.mean()), True

    found = tuner({**FAST, "metric": "none"}, feval=negative, steps={"num_leaves": 3})
    found.run()
    assert found.best_score == found.study.best_value == max(trial.value for trial in found.study.trials)


def test_a_time_budget_ends_the_trials():
    found = tuner(time_budget=1e-9)
    found.run()
    assert [trial.user_attrs["step"] for trial in found.study.trials] == ["given"]


def test_bagging_is_left_out_where_rows_are_sampled_otherwise():
    assert "bagging" not in tuner({**FAST, "data_sample_strategy": "goss"}, steps=None)._steps
    assert list(tuner(steps=None)._steps) == list(TRIALS) == list(STEPS)


def test_an_error_in_a_trial_is_raised_and_the_trial_has_failed():
    def fail(env):
        if calls.append(env.iteration) or len(calls) > 5:
            raise RuntimeError("stop here")

    calls: list[int] = []
    found = tuner(callbacks=[fail])
    with pytest.raises(RuntimeError, match="stop here"):
        found.run()
    assert [trial.state.name for trial in found.study.trials] == ["COMPLETE", "FAIL"]


def test_an_interrupted_tuner_keeps_the_best_so_far():
    def interrupt(env):
        if calls.append(env.iteration) or len(calls) > 7:
            raise KeyboardInterrupt

    calls: list[int] = []
    found = tuner(callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        found.run()
    assert found.best_score == found.study.trials[0].value
    assert found.best_params == FAST


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tuner(valid_sets=None).run(), "needs a validation set"),
        (lambda: tuner({**FAST, "metric": "none"}).run(), "needs a metric"),
        (lambda: tuner(steps={"bagging": 0}), "bagging"),
        (lambda: tuner(steps={"leaves": 3}), "steps are feature_fraction, num_leaves"),
        (lambda: tuner(time_budget=0), "time_budget"),
        (lambda: tuner(callbacks=hb.early_stopping(2)), "pass a list"),
        (lambda: tuner({"num_leafs": 3}), "num_leafs"),
        (lambda: tuner(hb.Params()), "pass a dict"),
        (lambda: tuner().best_params, "call run"),
        (lambda: tuner(study=optuna.create_study(direction="minimize")).run(), "must maximize 'auc'"),
    ],
)
def test_bad_input_of_the_tuner_is_refused(make, message):
    with pytest.raises(hb.ParameterError, match=message):
        make()


def test_a_study_that_has_trials_is_refused():
    study = optuna.create_study(direction="maximize")
    first = tuner(study=study, steps={"feature_fraction": 2})
    first.run()
    assert len(first.study.trials) == 3
    with pytest.raises(hb.ParameterError, match="has trials already"):
        tuner(study=study).run()
