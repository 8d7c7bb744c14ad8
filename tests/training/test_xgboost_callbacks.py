"""Callbacks of scripts written for XGBoost, of `train` and of estimators: what they see, and what is printed."""

import re

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.data import make_targets
from hornbeam.testing.peer_names import AS_A_DATASET

xgboost = pytest.importorskip("xgboost")

X, NUMBER, LABEL, _ = make_targets()
SMALL = {"num_leaves": 5, "verbosity": -1, "device": "reference", **AS_A_DATASET}
BINARY = {**SMALL, "objective": "binary:logistic"}


@pytest.fixture(scope="module")
def data():
    train = hb.DMatrix(X[:300], label=LABEL[:300])
    return train, hb.DMatrix(X[300:], label=LABEL[300:])


def test_arguments_of_train_become_callbacks(data, capsys):
    record, ours = {}, {}
    params = {**BINARY, "eval_metric": ["error", "logloss"], "learning_rate": 0.9}
    model = hb.train(
        params, data[0], 60, evals=[(data[0], "train"), (data[1], "eval")], early_stopping_rounds=4,
        evals_result=record, verbose_eval=5,
    )  # fmt: skip
    assert list(record) == ["train", "eval"] and list(record["eval"]) == ["error", "logloss"]
    losses = record["eval"]["logloss"]
    assert model.best_iteration == int(np.argmin(losses)) and model.n_iterations == model.best_iteration + 5
    printed = capsys.readouterr().out
    assert "[5]\ttrain-error:" in printed and "[4]" not in printed
    plain = hb.train(params, data[0], 60, callbacks=[hb.record_evaluation(ours)], evals=[(data[1], "eval")])
    assert plain.n_iterations == 60 and ours["eval"]["logloss"][: len(losses)] == losses


def test_evaluations_are_printed_as_xgboost_prints_them(data, capsys):
    lines = {}
    for library in (xgboost, hb):
        train, valid = library.DMatrix(X, LABEL), library.DMatrix(X[:50], LABEL[:50])
        params = {"objective": "binary:logistic", "eval_metric": ["error", "auc"], "nthread": 1}
        library.train(params, train, 5, evals=[(train, "train"), (valid, "eval")])
        library.train(params, train, 5, evals=[(valid, "eval")], verbose_eval=3)
        library.train(params, train, 3, evals=[(valid, "eval")], verbose_eval=False)
        library.train(params, train, 3)
        library.cv(params, train, 3, nfold=2, verbose_eval=2)
        library.cv(params, train, 2, nfold=2)
        model = library.XGBClassifier(n_estimators=3, n_jobs=1)
        model.fit(X, LABEL, eval_set=[(X[:50], LABEL[:50])])
        model.fit(X, LABEL, eval_set=[(X[:50], LABEL[:50])], verbose=False)
        lines[library] = re.sub(r"\d\.\d{5}", "#", capsys.readouterr().out)
    assert lines[hb] == lines[xgboost]
    assert lines[hb].count("\n") == 5 + 3 + 2 + 3


class Counter(hb.callback.TrainingCallback):
    def __init__(self, stop_at=None):
        self.seen, self.stop_at = [], stop_at

    def before_training(self, model):
        self.seen.append("begin")
        return model

    def before_iteration(self, model, epoch, evals_log):
        self.seen.append(("before", epoch, model.num_boosted_rounds()))
        return False

    def after_iteration(self, model, epoch, evals_log):
        self.seen.append(("after", epoch, len(evals_log["eval"]["logloss"])))
        return epoch == self.stop_at

    def after_training(self, model):
        self.seen.append("end")
        return model


def test_classes_of_callbacks_see_what_they_see_in_xgboost(data):
    callback = Counter(stop_at=1)
    model = hb.train({**BINARY, "metric": "logloss"}, data[0], 5, evals=[(data[1], "eval")], callbacks=[callback])
    assert callback.seen == ["begin", ("before", 0, 0), ("after", 0, 1), ("before", 1, 1), ("after", 1, 2), "end"]
    assert model.n_iterations == 2

    class Theirs(xgboost.callback.TrainingCallback):
        after_iteration = Counter.after_iteration

        def __init__(self):
            self.seen, self.stop_at = [], None

    theirs = Theirs()
    hb.train({**BINARY, "metric": "logloss"}, data[0], 2, evals=[(data[1], "eval")], callbacks=[theirs])
    assert [kind for kind, *_ in theirs.seen] == ["after", "after"]


def test_callbacks_by_xgboosts_names(data, capsys):
    callback = hb.callback
    params, sets = {**BINARY, "metric": ["logloss", "auc"]}, [(data[0], "train"), (data[1], "eval")]
    stopping = callback.EarlyStopping(rounds=3, metric_name="logloss", data_name="eval", save_best=True)
    model = hb.train({**params, "eta": 0.9}, data[0], 60, evals=sets, callbacks=[stopping])
    losses = model.eval_history["eval"]["logloss"]
    assert model.best_iteration == int(np.argmin(losses))
    rates = callback.LearningRateScheduler([0.3, 0.2, 0.1])
    expected = hb.train(BINARY, data[0], 3, callbacks=[hb.reset_parameter(learning_rate=[0.3, 0.2, 0.1])])
    assert hb.train(BINARY, data[0], 3, callbacks=[rates]).fingerprint() == expected.fingerprint()
    capsys.readouterr()
    hb.train(params, data[0], 4, evals=sets, callbacks=[callback.EvaluationMonitor(period=2)], verbose_eval=False)
    assert [line[:3] for line in capsys.readouterr().out.splitlines()] == ["[0]", "[2]", "[3]"]
    with pytest.raises(hb.ParameterError, match="there are eval auc"):
        hb.train(params, data[0], 3, evals=sets[1:], callbacks=[callback.EarlyStopping(rounds=2, metric_name="no")])
    with pytest.raises(hb.ParameterError, match="min_delta"):
        callback.EarlyStopping(rounds=2, min_delta=-1.0)


def test_dropping_trees_does_not_go_with_a_training_that_goes_on(data):
    stopping = hb.callback.EarlyStopping(2, save_best=True)
    with pytest.raises(hb.ParameterError, match="keep_training_booster"):
        hb.train(BINARY, data[0], 3, evals=[(data[1], "v")], callbacks=[stopping], keep_training_booster=True)


def test_estimators_as_xgboosts_are_called(caplog):
    callback = Counter()
    callback.after_iteration = lambda model, epoch, log: callback.seen.append(epoch)

    def my_loss(y_true, y_pred):
        return float(np.mean(np.abs(y_true - y_pred)))

    given = {"early_stopping_rounds": 3, "eval_metric": my_loss, "callbacks": [callback]}
    model = hb.HornbeamRegressor(n_estimators=60, **{**SMALL, "learning_rate": 0.9}, **given)
    model.fit(X[:300], NUMBER[:300], eval_set=[(X[300:], NUMBER[300:])], verbose=False)
    assert list(model.evals_result()["validation_0"]) == ["rmse", "my_loss"]
    assert model.best_iteration == model.best_iteration_ - 1 and model.get_booster() is model.booster_
    last = list(model.evals_result_["valid_0"].values())[-1]
    assert model.best_score == last[model.best_iteration]
    assert callback.seen[0] == "begin" and len(callback.seen) > model.n_iter_
    assert model.get_num_boosting_rounds() == model.n_iter_
    plain = hb.HornbeamRegressor(n_estimators=2, **SMALL).fit(X, NUMBER, eval_set=[(X, NUMBER)], verbose=2)
    assert "[2]" in caplog.text and "[1]" not in caplog.text
    for name in ("best_iteration", "best_score"):
        assert not hasattr(plain, name)


def test_callbacks_of_cv_see_means_and_deviations_as_xgboosts():
    """By XGBoost's names of sets and metrics; fpreproc is given matrices, whose empty fields are empty arrays."""
    found = []
    for library in (xgboost, hb):
        logs, folds = [], []

        class Watching(library.callback.TrainingCallback):
            def after_iteration(self, model, epoch, evals_log, logs=logs):
                logs.append(
                    {name: {metric: list(values) for metric, values in one.items()} for name, one in evals_log.items()}
                )
                return False

        def prepared(train, valid, params, folds=folds, library=library):
            empty = [np.size(one) for one in (train.get_weight(), valid.get_base_margin(), train.get_group())]
            folds.append(
                (isinstance(train, library.DMatrix), isinstance(valid, library.DMatrix), empty, train.num_row())
            )
            return train, valid, {**params, "max_depth": 2}

        params = {"objective": "binary:logistic", "eval_metric": ["error", "logloss"], "nthread": 1, "max_depth": 3}
        stopping = library.callback.EarlyStopping(rounds=5, data_name="test")
        data = library.DMatrix(X, LABEL)
        table = library.cv(params, data, 3, nfold=2, fpreproc=prepared, callbacks=[Watching(), stopping])
        for name in ("train", "test"):
            pairs = np.array(logs[-1][name]["logloss"])
            np.testing.assert_allclose(pairs, table[[f"{name}-logloss-mean", f"{name}-logloss-std"]].to_numpy())
        ((metric, values),) = stopping.stopping_history["test"].items()
        assert np.array_equal(values, logs[-1]["test"][metric])
        assert min(value for value, _ in values) == stopping.best_scores["test"][metric][-1][0]
        found.append(
            ([(name, list(one)) for name, one in logs[0].items()], folds, data.slice([0, 1]).get_weight().size)
        )
    assert found[0] == found[1]
