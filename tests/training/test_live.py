"""Boosters that train on, iteration by iteration."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import hornbeam as hb

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(300, 5))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * RANDOM.normal(size=300) > 0).astype(float)
X_VALID, Y_VALID = X[200:], Y[200:]
PLAIN = {
    "objective": "binary",
    "num_leaves": 5,
    "verbosity": -1,
    "device": "reference",
    "metric": ["auc", "binary_logloss"],
}


def logistic(scores, dataset):
    chance = 1.0 / (1.0 + np.exp(-scores))
    return chance - dataset.get_label(), chance * (1.0 - chance)


def mean_score(predictions, dataset):
    return "mean", float(np.mean(predictions)), False


def data():
    return hb.Dataset(X[:200], label=Y[:200])


def live(params, n, dataset=None):
    booster = hb.Booster(params, dataset or data())
    for _ in range(n):
        assert booster.update() is False
    return booster


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"boosting": "dart", "drop_rate": 0.5},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        {"data_sample_strategy": "goss", "learning_rate": 0.5},
        {"objective": "multiclass", "num_class": 2, "metric": "multi_logloss"},
        {"objective": "regression_l1", "metric": "l1", "feature_fraction": 0.6},
    ],
)
def test_updates_give_the_model_of_train_and_its_evaluations(more):
    params, train_set = {**PLAIN, **more}, data()
    valid = train_set.create_valid(X_VALID, Y_VALID)
    trained = hb.train(params, train_set, 5, {"training": train_set, "valid": valid})
    booster = hb.Booster(params, train_set).add_valid(valid, "valid")
    for iteration in range(5):
        booster.update()
        assert booster.current_iteration() == iteration + 1
        for results in (booster.eval_train(), booster.eval_valid()):
            for name, metric, value, higher in results:
                assert value == trained.eval_history[name][metric][iteration]
                assert higher == (metric == "auc")
    assert booster.fingerprint() == trained.fingerprint()
    np.testing.assert_array_equal(booster.predict(X), trained.predict(X))


def test_a_fresh_booster_predicts_the_start_and_a_copy_does_not_train():
    booster = hb.Booster(PLAIN, data())
    assert booster.num_trees() == 0 and len(set(booster.predict(X))) == 1
    booster.update()
    for other in (pickle.loads(pickle.dumps(booster)), copy.deepcopy(booster), booster[:1]):
        assert other.fingerprint() == booster.fingerprint()
        with pytest.raises(hb.ParameterError, match="keep_training_booster"):
            other.update()
    assert booster.update() is False


def test_an_iteration_is_taken_back_exactly():
    booster = live(PLAIN, 4)
    booster.add_valid(hb.Dataset(X_VALID, label=Y_VALID, reference=booster._training.train_set), "v")
    before = [booster.eval_train(), booster.eval_valid(), booster.fingerprint()]
    booster.update()
    assert booster.rollback_one_iter() is booster
    assert [booster.eval_train(), booster.eval_valid(), booster.fingerprint()] == before
    booster.update()
    assert booster.fingerprint() == hb.train(PLAIN, data(), 5).fingerprint()
    for _ in range(7):
        booster.rollback_one_iter()
    assert booster.current_iteration() == 0
    booster.update()
    assert booster.fingerprint() == hb.train(PLAIN, data(), 1).fingerprint()
    with pytest.raises(hb.ParameterError, match="dart"):
        live({**PLAIN, "boosting": "dart"}, 1).rollback_one_iter()


@pytest.mark.parametrize("start", ["none", "binary", "custom"])
def test_functions_give_gradients(start):
    booster = hb.Booster({**PLAIN, "objective": start}, data())
    if start != "binary":
        with pytest.raises(hb.ParameterError, match=r"update\(fobj=function\)"):
            booster.update()
    booster.update(fobj=logistic)
    booster.update(None, logistic)  # by place, as LightGBM's users do
    booster.update(None, 2, fobj=logistic)  # after the number of the iteration, as XGBoost's do
    expected = hb.train({**PLAIN, "objective": logistic}, data(), 3)
    assert booster.fingerprint() == expected.fingerprint()
    np.testing.assert_array_equal(booster.predict(X), booster.predict(X, raw_score=True))


def test_a_function_takes_over_in_the_middle():
    booster = live(PLAIN, 2)
    raw = booster.predict(X, raw_score=True)
    booster.update(fobj=logistic)
    np.testing.assert_array_equal(booster.predict(X, num_iteration=2), raw)
    assert booster.fingerprint() != hb.train(PLAIN, data(), 3).fingerprint()
    np.testing.assert_allclose(booster.predict(X), hb.train(PLAIN, data(), 3).predict(X, raw_score=True))


def test_gradients_come_as_arrays():
    train_set = data()
    booster = hb.Booster({**PLAIN, "objective": "none"}, [train_set])
    for iteration in range(2):
        booster.boost(train_set, iteration, *logistic(booster.predict(X[:200], raw_score=True), train_set))
    assert booster.fingerprint() == hb.train({**PLAIN, "objective": logistic}, data(), 2).fingerprint()
    with pytest.raises(hb.ParameterError, match="gradients and hessians"):
        booster.boost(train_set, 2)


def test_iterations_may_be_numbered():
    train_set = data()
    booster = hb.Booster(PLAIN, cache=[train_set])
    booster.update(train_set, 0)
    booster.update(train_set, iteration=1)
    assert booster.fingerprint() == hb.train(PLAIN, data(), 2).fingerprint()


def test_parameters_that_follow_a_schedule_give_the_model_of_the_callback():
    rates = [0.3, 0.2, 0.1]
    booster = hb.Booster(PLAIN, data())
    for rate in rates:
        booster.reset_parameter({"learning_rate": rate}).update()
    expected = hb.train(PLAIN, data(), 3, callbacks=[hb.reset_parameter(learning_rate=rates)])
    assert booster.fingerprint() == expected.fingerprint()


def test_other_parameters_go_on_as_from_an_init_model():
    booster = live(PLAIN, 2)
    booster.reset_parameter({"num_leaves": 9})
    booster.update()
    changed = {**PLAIN, "num_leaves": 9}
    assert booster.fingerprint() == hb.train(changed, data(), 1, init_model=hb.train(PLAIN, data(), 2)).fingerprint()
    with pytest.raises(hb.ParameterError, match="no_such"):
        booster.reset_parameter({"no_such": 1})


def test_a_changed_leaf_counts_in_what_follows():
    booster = live(PLAIN, 2)
    assert booster.set_leaf_output(1, 0, 0.5).get_leaf_output(1, 0) == 0.5
    model = hb.Booster(model_str=booster.model_to_string())
    booster.update()
    assert booster.fingerprint() == hb.train(PLAIN, data(), 1, init_model=model).fingerprint()
    for tree, leaf in ((3, 0), (0, 5), (-1, 0)):
        with pytest.raises(hb.ParameterError, match=r"tree_id|leaf_id"):
            booster.get_leaf_output(tree, leaf)
    with pytest.raises(hb.ParameterError, match="no trees"):
        hb.Booster(PLAIN, data()).get_leaf_output(0, 0)


def test_other_data_go_on_as_from_an_init_model():
    booster, other = live(PLAIN, 2), hb.Dataset(X[100:], label=Y[100:])
    booster.update(train_set=other)
    expected = hb.train(PLAIN, hb.Dataset(X[100:], label=Y[100:]), 1, init_model=hb.train(PLAIN, data(), 2))
    assert booster.fingerprint() == expected.fingerprint()
    with pytest.raises(hb.DataError, match=r"hornbeam\.Dataset"):
        booster.update(X)


def test_a_training_that_is_kept_goes_on():
    train_set = data()
    valid = train_set.create_valid(X_VALID, Y_VALID)
    booster = hb.train(PLAIN, train_set, 3, [valid], keep_training_booster=True)
    booster.update()
    whole = hb.train(PLAIN, data(), 4)
    assert booster.fingerprint() == whole.fingerprint()
    names = {name for name, *_ in booster.eval_valid(mean_score)}
    assert names == {"valid_0"} and len(booster.eval_valid(mean_score)) == 3
    assert [name for name, *_ in booster.set_train_data_name("mine").eval_train()] == ["mine", "mine"]
    booster.free_dataset()
    with pytest.raises(hb.ParameterError, match="no training data"):
        booster.update()
    with pytest.raises(hb.ParameterError, match="no training data"):
        whole.eval_train()


def test_a_set_that_is_evaluated_is_added_once():
    train_set = data()
    booster = hb.Booster(PLAIN, train_set)
    booster.update()
    valid = hb.Dataset(X_VALID, label=Y_VALID)
    first = booster.eval(valid, "a")
    assert booster.eval(valid, "b") == [("b", *rest) for _, *rest in first]
    assert booster.eval_valid() == first
    assert booster.eval(train_set, "t")[0][0] == "t"
    with pytest.raises(hb.ParameterError, match="a name of its own"):
        booster.add_valid(hb.Dataset(X, label=Y), "a")
    with pytest.raises(hb.DataError, match=r"hornbeam\.Dataset"):
        booster.add_valid(X, "c")


def test_a_training_that_has_ended_goes_on_with_other_parameters():
    params = {**PLAIN, "min_gain_to_split": 1e9}
    kept = hb.train(params, data(), 3, keep_training_booster=True)
    assert kept.num_trees() == 0 and kept.update() is True
    assert kept.reset_parameter({"min_gain_to_split": 0.0}).update() is False
    assert kept.num_trees() == 1
    np.testing.assert_array_equal(kept.predict(X), hb.train(PLAIN, data(), 1).predict(X))


def test_the_end_of_a_training_is_said():
    booster = hb.Booster(PLAIN, hb.Dataset(np.zeros((50, 2)), label=Y[:50]))
    assert booster.update() is True
    assert booster.num_trees() == 0


def test_data_are_let_go_with_the_booster():
    booster = live(PLAIN, 1)
    seen = weakref.ref(booster._training)
    gc.disable()
    try:
        del booster
        assert seen() is None
    finally:
        gc.enable()


def test_parameters_that_only_a_loop_reads_are_named(caplog):
    hb.Booster({**PLAIN, "verbosity": 0, "early_stopping_round": 5}, data())
    assert "early_stopping_round has no effect here" in caplog.text


def test_what_makes_no_booster_is_refused():
    with pytest.raises(hb.ParameterError, match="params and train_set"):
        hb.Booster(PLAIN, data(), "model.json")
    with pytest.raises(hb.DataError, match="features"):
        hb.Booster(PLAIN).predict(X)  # empty until load_model
    with pytest.raises(hb.DataError, match="wrap it"):
        hb.Booster(PLAIN, X)


def test_a_loop_written_for_lightgbm_sees_the_same_things():
    lightgbm = pytest.importorskip("lightgbm")
    seen = []
    for library in (lightgbm, hb):
        params = {name: value for name, value in PLAIN.items() if name != "device"}
        if library is hb:
            params["device"] = "reference"
        train_set = library.Dataset(X[:200], Y[:200])
        booster = library.Booster(params, train_set)
        booster.add_valid(library.Dataset(X_VALID, Y_VALID, train_set), "valid")
        ended = [booster.update() for _ in range(3)]
        booster.rollback_one_iter()
        results = booster.eval_train() + booster.eval_valid(lambda scores, data: ("mine", 1.0, True))
        facts = [(name, metric, higher) for name, metric, _, higher in results]
        seen.append((ended, booster.current_iteration(), booster.num_trees(), booster.num_model_per_iteration(), facts))
    assert seen[0] == seen[1]


def test_a_kept_training_calls_its_data_as_they_were_called():
    X = np.random.default_rng(0).normal(size=(100, 2))
    data = hb.Dataset(X, label=X[:, 0])
    kept = hb.train({"verbosity": -1}, data, 2, [data], ["mine"], keep_training_booster=True)
    assert kept.eval_train()[0][0] == "mine"
    assert hb.train({"verbosity": -1}, data, 2, keep_training_booster=True).eval_train()[0][0] == "training"


def test_shuffled_iterations_are_the_same_ones_in_another_order():
    params = {**PLAIN, "objective": "multiclass", "num_class": 2, "metric": "none"}
    booster = hb.train(params, data(), 9)
    before = [one.fingerprint() for one in booster]
    expected = booster.predict(X, raw_score=True)
    assert booster.shuffle_models(2, 8) is booster
    after = [one.fingerprint() for one in booster]
    assert after[:2] == before[:2] and after[8:] == before[8:]
    assert after != before and sorted(after) == sorted(before)
    assert np.allclose(booster.predict(X, raw_score=True), expected, rtol=0, atol=1e-12)
    with pytest.raises(hb.ParameterError, match="end_iteration"):
        booster.shuffle_models(0, 10)
    train_set = data()
    valid = train_set.create_valid(X_VALID, Y_VALID)
    stopping = [hb.early_stopping(2, verbose=False)]
    stopped = hb.train({**PLAIN, "learning_rate": 0.9}, train_set, 40, [valid], callbacks=stopping)
    expected = stopped.predict(X)
    assert stopped.n_best < stopped.n_iterations
    assert np.allclose(stopped.shuffle_models().predict(X), expected, rtol=0, atol=1e-12)
    assert stopped.n_best == stopped.n_iterations
    assert booster.free_network() is booster
    with pytest.raises(AttributeError, match="distributed"):
        booster.set_network("127.0.0.1:12400")


def test_a_live_training_goes_on_from_shuffled_iterations():
    booster = live(PLAIN, 4).shuffle_models()
    expected = hb.train(PLAIN, data(), 1, init_model=copy.deepcopy(booster))
    booster.update()
    assert booster.fingerprint() == expected.fingerprint()
