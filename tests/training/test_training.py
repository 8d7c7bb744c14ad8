"""train: rounds, validation sets, continued training, interruption, and training that ends by itself."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.testing.data import make_higgs_like

X, Y = make_higgs_like(600, 6)
XV, YV = make_higgs_like(300, 6, seed=1)
BINARY = {"objective": "binary", "num_leaves": 7, "verbosity": -1}


def train_set(**options) -> hb.Dataset:
    return hb.Dataset(X, label=Y, **options)


def valid_set(**options) -> hb.Dataset:
    return hb.Dataset(XV, label=YV, **options)


def step_data(n_rows: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Data that one tree with learning rate 1 fits exactly."""
    table = np.repeat([[0.0], [1.0]], n_rows // 2, axis=0)
    return table, table[:, 0] * 4.0


# --- rounds ---------------------------------------------------------------------------------------------------------


def test_number_of_rounds_comes_from_the_argument_then_the_parameters():
    assert hb.train({**BINARY, "n_estimators": 3}, train_set()).n_iterations == 3
    assert hb.train({**BINARY, "num_iterations": 3}, train_set(), 3).n_iterations == 3


def test_two_numbers_of_rounds_are_taken_as_the_peer_takes_them(caplog):
    """LightGBM takes that of the parameters, XGBoost, whose a DMatrix is, the argument."""
    params = {**BINARY, "num_iterations": 3, "verbosity": 0}
    for data, expected in ((train_set(), 3), (hb.DMatrix(X, Y), 2)):
        caplog.clear()
        assert hb.train(params, data, 2).n_iterations == expected
        assert f"{expected} are trained" in caplog.text
    assert {len(values) for values in hb.cv(params, train_set(), 2, nfold=2).values()} == {3}
    assert len(hb.cv(params, hb.DMatrix(X, Y), 2, nfold=2)) == 2


def test_zero_rounds_make_the_best_constant():
    model = hb.train(BINARY, train_set(), 0)
    assert model.num_trees() == 0
    assert model.predict(X) == pytest.approx(float(Y.mean()))


@pytest.mark.parametrize("rounds", [-1, 2.5, True, "3"])
def test_impossible_number_of_rounds_is_refused(rounds):
    with pytest.raises(hb.ParameterError, match="num_boost_round"):
        hb.train(BINARY, train_set(), rounds)


def test_training_lowers_the_loss_every_round():
    data = train_set()
    history = hb.train(BINARY, data, 20, {"training": data}).eval_history["training"]["binary_logloss"]
    assert all(after < before for before, after in itertools.pairwise(history))


def test_learning_rate_scales_the_first_tree_alone():
    one, tenth = (hb.train({**BINARY, "learning_rate": rate}, train_set(), 1).trees[0] for rate in (1.0, 0.5))
    assert one.threshold.tolist() == tenth.threshold.tolist()
    assert (one.leaf_value * 0.5).tolist() == tenth.leaf_value.tolist()


def test_training_ends_when_nothing_is_left_to_gain():
    table, label = step_data()
    model = hb.train({"learning_rate": 1.0, "verbosity": -1}, hb.Dataset(table, label=label), 50)
    assert model.n_iterations == 1
    assert model.predict(table).tolist() == label.tolist()


def test_training_that_ends_after_one_iteration_keeps_evaluations_and_early_stopping():
    table, label = step_data()
    recorded: dict = {}
    model = hb.train(
        {"learning_rate": 1.0, "verbosity": -1},
        hb.Dataset(table, label=label),
        50,
        {"valid": hb.Dataset(table, label=label)},
        callbacks=[hb.record_evaluation(recorded), hb.early_stopping(5)],
    )
    assert model.n_iterations == 1
    assert model.eval_history == {"valid": {"l2": [0.0]}}
    assert recorded == model.eval_history
    assert model.best_iteration == 1


@pytest.mark.parametrize("metric_freq", [1, 10])
def test_model_without_a_split_is_evaluated_once(metric_freq):
    table, label = step_data()
    recorded: dict = {}
    model = hb.train(
        {"min_data_in_leaf": 80, "verbosity": -1, "metric_freq": metric_freq},
        hb.Dataset(table, label=label),
        50,
        {"valid": hb.Dataset(table, label=label)},
        callbacks=[hb.record_evaluation(recorded), hb.early_stopping(5)],
    )
    assert (model.n_iterations, model.best_iteration) == (0, 0)
    assert recorded == model.eval_history == {"valid": {"l2": [pytest.approx(np.var(label))]}}
    assert model.best_score == {"valid": {"l2": recorded["valid"]["l2"][0]}}


def test_best_score_without_early_stopping_is_that_of_the_last_iteration():
    data = train_set()
    model = hb.train({**BINARY, "metric": ["auc", "l2"]}, data, 4, {"v": valid_set(), "training": data})
    assert model.best_score == {
        name: {metric: values[-1] for metric, values in metrics.items()} for name, metrics in model.eval_history.items()
    }
    assert set(model.best_score) == {"v", "training"}
    assert hb.train(BINARY, train_set(), 2).best_score == {}


def test_training_that_ends_by_itself_calls_every_callback_once_an_iteration():
    table, label = step_data()
    label = label + np.arange(100) % 2  # cannot be fitted, so it takes some rounds to converge
    seen = []
    model = hb.train(
        {"learning_rate": 0.999, "verbosity": -1},
        hb.Dataset(table, label=label),
        50,
        callbacks=[lambda env: seen.append(env.iteration)],
    )
    assert 1 < model.n_iterations < 50
    assert seen == list(range(model.n_iterations))


def test_labels_that_are_all_equal_make_a_constant():
    model = hb.train({"verbosity": -1}, hb.Dataset(X, label=np.full(len(X), 3.0)), 5)
    assert model.predict(X).tolist() == [3.0] * len(X)


# --- data -----------------------------------------------------------------------------------------------------------


def test_weights_are_honoured():
    weight = np.where(Y > 0, 5.0, 1.0)
    assert hb.train(BINARY, train_set(weight=weight), 10).predict(X).mean() > Y.mean() + 0.1


def test_init_score_is_where_training_starts():
    start = hb.train(BINARY, train_set(), 5).predict(X, raw_score=True)
    rest = hb.train(BINARY, train_set(init_score=start), 5)
    assert rest.init_scores.tolist() == [0.0]
    data = train_set(init_score=start)
    history = hb.train(BINARY, data, 3, {"training": data}).eval_history["training"]["binary_logloss"]
    plain = hb.train(BINARY, (data2 := train_set()), 8, {"training": data2}).eval_history["training"]["binary_logloss"]
    assert history == pytest.approx(plain[5:], rel=1e-6)


def test_one_dataset_serves_any_number_of_trainings():
    data = train_set()
    first = hb.train(BINARY, data, 3).fingerprint()
    hb.train({**BINARY, "learning_rate": 0.5}, data, 3)
    assert hb.train(BINARY, data, 3).fingerprint() == first


def test_names_of_a_frame_reach_the_model():
    names = ["a", "b", "c", "d", "e", "f"]
    model = hb.train(BINARY, hb.Dataset(pd.DataFrame(X, columns=names), label=Y), 2)
    assert model.feature_names == names


# --- validation sets ------------------------------------------------------------------------------------------------


def test_validation_sets_may_be_given_in_any_form():
    for given, names, expected in (
        ({"a": valid_set()}, None, ["a"]),
        ([valid_set(), valid_set()], None, ["valid_0", "valid_1"]),
        ([valid_set(), valid_set()], ["x", "y"], ["x", "y"]),
        (valid_set(), None, ["valid_0"]),
        (valid_set(), "mine", ["mine"]),
    ):
        model = hb.train(BINARY, train_set(), 2, given, valid_names=names)
        assert list(model.eval_history) == expected
    data = train_set()
    assert list(hb.train(BINARY, data, 2, [data, valid_set()]).eval_history) == ["training", "valid_1"]


def test_validation_set_leaves_the_model_alone():
    alone = hb.train(BINARY, train_set(), 4).fingerprint()
    assert hb.train(BINARY, train_set(), 4, valid_set()).fingerprint() == alone
    assert hb.train({**BINARY, "metric": ["auc", "binary_error"]}, train_set(), 4, valid_set()).fingerprint() == alone


def test_evaluations_are_those_of_the_predictions():
    model = hb.train({**BINARY, "metric": "l2"}, train_set(), 5, {"v": valid_set()})
    for n, value in enumerate(model.eval_history["v"]["l2"], 1):
        assert value == pytest.approx(float(np.mean((model.predict(XV, num_iteration=n) - YV) ** 2)), rel=1e-12)


def test_metric_freq_skips_rounds_but_not_the_last():
    model = hb.train({**BINARY, "metric_freq": 3}, train_set(), 8, {"v": valid_set()})
    every = hb.train(BINARY, train_set(), 8, {"v": valid_set()}).eval_history["v"]["binary_logloss"]
    assert model.eval_history["v"]["binary_logloss"] == [every[2], every[5], every[7]]


def test_no_metric_evaluates_nothing():
    assert hb.train({**BINARY, "metric": "none"}, train_set(), 2, valid_set()).eval_history == {}


def test_metric_functions_see_predictions_and_data():
    def mean(predictions, dataset):
        assert predictions.shape == dataset.label.shape
        return "mean", predictions.mean(), False

    def two(predictions, dataset):
        return [("one", 1.0, True), ("two", 2, True)]

    model = hb.train(BINARY, train_set(), 3, {"v": valid_set()}, feval=[mean, two])
    history = model.eval_history["v"]
    assert list(history) == ["binary_logloss", "mean", "one", "two"]
    assert history["mean"][-1] == pytest.approx(float(model.predict(XV).mean()))
    assert history["two"] == [2.0] * 3


def test_metric_function_of_several_outputs_sees_one_column_a_class():
    shapes = []

    def metric(predictions, dataset):
        shapes.append(predictions.shape)
        return "zero", 0.0, True

    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_leaves": 4}
    label = np.arange(600) % 3
    hb.train(params, hb.Dataset(X, label=label), 2, hb.Dataset(XV, label=label[:300]), feval=metric)
    assert shapes == [(300, 3)] * 2


@pytest.mark.parametrize("result", [1.0, ("name",), (1, 2, 3), [("a", 1.0, True, 2)], None])
def test_metric_function_that_returns_nonsense_is_refused(result):
    with pytest.raises(hb.ParameterError, match="feval returned"):
        hb.train(BINARY, train_set(), 2, valid_set(), feval=lambda predictions, dataset: result)


# --- continued training ---------------------------------------------------------------------------------------------


def test_init_model_is_not_changed(tmp_path):
    start = hb.train(BINARY, train_set(), 3)
    before = start.fingerprint()
    more = hb.train(BINARY, train_set(), 2, init_model=start)
    assert start.fingerprint() == before
    assert more.n_iterations == 5
    assert more.trees[:3] == start.trees


def test_init_model_may_come_with_another_learning_rate_and_more_data():
    start = hb.train(BINARY, train_set(), 3)
    more = hb.train({**BINARY, "learning_rate": 0.5}, valid_set(), 2, init_model=start)
    assert [tree.shrinkage for tree in more.trees] == [0.1, 0.1, 0.1, 0.5, 0.5]
    assert more.init_scores.tolist() == start.init_scores.tolist()


@pytest.mark.parametrize("by", ["booster", "file"])
def test_model_that_was_stopped_early_is_trained_on_from_its_best_iteration(by, tmp_path):
    params = {**BINARY, "learning_rate": 1.0}
    start = hb.train({**params, "early_stopping_round": 3}, train_set(), 50, {"v": valid_set()})
    assert 0 < start.best_iteration < start.n_iterations
    start.save(tmp_path / "model")
    given = start if by == "booster" else tmp_path / "model"
    more = hb.train(params, train_set(), 2, init_model=given)
    assert more.fingerprint() == hb.train(params, train_set(), start.best_iteration + 2).fingerprint()
    folds = hb.cv(params, train_set(), 2, nfold=2, init_model=given, return_cvbooster=True)["cvbooster"].boosters
    assert [fold.n_iterations for fold in folds] == [start.best_iteration + 2] * 2


def test_init_model_that_may_break_a_monotone_constraint_is_refused():
    start = hb.train(BINARY, train_set(), 3)
    used = int(start.trees[0].feature[0])
    signs = np.eye(X.shape[1], dtype=int)[used]
    with pytest.raises(hb.ParameterError, match=f"init_model has splits of 'Column_{used}'"):
        hb.train({**BINARY, "monotone_constraints": signs.tolist()}, train_set(), 2, init_model=start)
    kept = {**BINARY, "monotone_constraints": {f"Column_{used}": 1}}
    same = {**BINARY, "monotone_constraints": signs.tolist()}
    half = hb.train(kept, train_set(), 2)
    assert hb.train(same, train_set(), 2, init_model=half).n_iterations == 4
    with pytest.raises(hb.ParameterError, match="monotone_constraints"):
        hb.train({**BINARY, "monotone_constraints": (-signs).tolist()}, train_set(), 2, init_model=half)
    assert hb.train(BINARY, train_set(), 2, init_model=half).n_iterations == 4


def test_early_stopping_counts_the_iterations_of_the_start():
    start = hb.train(BINARY, train_set(), 3)
    params = {**BINARY, "learning_rate": 1.0, "early_stopping_round": 2}
    more = hb.train(params, train_set(), 50, {"v": valid_set()}, init_model=start)
    losses = more.eval_history["v"]["binary_logloss"]
    assert more.best_iteration == 3 + int(np.argmin(losses)) + 1
    assert more.n_iterations == 3 + len(losses)


@pytest.mark.parametrize(
    ("params", "data", "error", "message"),
    [
        ({"verbosity": -1}, train_set(), hb.ParameterError, "objective"),
        ({**BINARY, "sigmoid": 2.0}, train_set(), hb.ParameterError, "objective"),
        (BINARY, hb.Dataset(X[:, :3], label=Y), hb.DataError, "6 features"),
    ],
)
def test_init_model_that_does_not_fit_is_refused(params, data, error, message):
    start = hb.train(BINARY, train_set(), 2)
    with pytest.raises(error, match=message):
        hb.train(params, data, 2, init_model=start)


def test_init_model_with_other_feature_names_is_refused():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    start = hb.train(BINARY, hb.Dataset(frame, label=Y), 2)
    with pytest.raises(hb.DataError, match="'a'"):
        hb.train(BINARY, hb.Dataset(frame[list("fedcba")], label=Y), 2, init_model=start)


def test_init_model_and_data_of_which_one_has_no_names_go_by_position():
    frame = hb.Dataset(pd.DataFrame(X, columns=list("abcdef")), label=Y)
    by_name, by_place = (hb.train(BINARY, data, 2) for data in (frame, train_set()))
    expected = hb.train(BINARY, frame, 2, init_model=by_name).predict(X)
    for data, start, names in ((train_set(), by_name, "Column_0"), (frame, by_place, "a")):
        more = hb.train(BINARY, data, 2, init_model=start)
        assert more.feature_name()[0] == names
        assert np.array_equal(more.predict(X), expected)
    monotone = {**BINARY, "monotone_constraints": {"a": 1}}
    started = hb.train({**BINARY, "monotone_constraints": [1] + [0] * 5}, train_set(), 2)
    assert hb.train(monotone, frame, 2, init_model=started).n_iterations == 4


# --- interruption ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 5])
def test_interruption_returns_the_iterations_finished_so_far(k):
    def interrupt(env):
        if env.iteration == k - 1:
            raise KeyboardInterrupt

    model = hb.train(BINARY, train_set(), 9, callbacks=[interrupt])
    assert model.interrupted
    assert model.n_iterations == k
    whole = hb.train(BINARY, train_set(), k)
    assert model.fingerprint() == whole.fingerprint()
    assert not whole.interrupted


def test_interruption_before_an_iteration_keeps_those_before_it():
    def interrupt(env):
        if env.iteration == 2:
            raise KeyboardInterrupt

    interrupt.before_iteration = True
    assert hb.train(BINARY, train_set(), 9, callbacks=[interrupt]).n_iterations == 2


def test_interruption_before_the_first_iteration_goes_on():
    def interrupt(env):
        raise KeyboardInterrupt

    interrupt.before_iteration = True
    with pytest.raises(KeyboardInterrupt):
        hb.train(BINARY, train_set(), 9, callbacks=[interrupt])
    start = hb.train(BINARY, train_set(), 2)
    with pytest.raises(KeyboardInterrupt):  # no new iteration is finished
        hb.train(BINARY, train_set(), 9, callbacks=[interrupt], init_model=start)


def test_interruption_inside_a_multiclass_iteration_leaves_no_half_iteration():
    calls = []

    def objective(scores, dataset):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return scores - np.eye(3)[np.arange(len(X)) % 3], np.ones_like(scores)

    params = {"objective": objective, "num_class": 3, "verbosity": -1}
    model = hb.train(params, train_set(), 9)
    assert (model.n_iterations, model.num_trees(), model.interrupted) == (3, 9, True)


def test_other_errors_go_on_and_close_the_callbacks():
    closed = []

    class Failing:
        def __call__(self, env):
            raise RuntimeError("stop here")

        def close(self):
            closed.append(True)

    with pytest.raises(RuntimeError, match="stop here"):
        hb.train(BINARY, train_set(), 3, callbacks=[Failing()])
    assert closed == [True]


def test_an_objective_function_goes_on_from_any_model():
    def logistic(scores, data):
        chance = 1.0 / (1.0 + np.exp(-scores))
        return chance - data.label, chance * (1.0 - chance)

    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    train_set = hb.Dataset(X, label=(X[:, 0] > 0).astype(float))
    first = hb.train({"objective": "binary", "verbosity": -1}, train_set, 3)
    second = hb.train({"objective": logistic, "verbosity": -1}, train_set, 2, init_model=first)
    assert second.n_iterations == 5
    assert np.array_equal(second.predict(X, num_iteration=3), first.predict(X, raw_score=True))
    live = hb.train({"objective": "binary", "verbosity": -1}, train_set, 3, keep_training_booster=True)
    for _ in range(2):
        live.update(fobj=logistic)
    assert np.array_equal(second.predict(X), live.predict(X))
    with pytest.raises(hb.ParameterError, match="same objective"):
        hb.train({"objective": "regression", "verbosity": -1}, train_set, 2, init_model=first)


def test_too_few_rows_for_a_leaf_are_named(caplog):
    hb.train({**BINARY, "verbosity": 0}, hb.Dataset(X[:30], label=Y[:30]), 3)
    assert "30 rows are too few for min_data_in_leaf=20, lower it" in caplog.text
    caplog.clear()
    table, label = step_data()
    hb.train({"verbosity": 1, "min_data_in_leaf": 20}, hb.Dataset(np.zeros_like(table), label=label), 3)
    assert "too few" not in caplog.text
