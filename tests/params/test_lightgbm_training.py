"""What a script written for LightGBM relies on: parameters that a training tells, and what callbacks may do."""

import numpy as np
import pytest

import hornbeam as hb

lightgbm = pytest.importorskip("lightgbm")

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(300, 4))
Y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * RANDOM.normal(size=300)
LABEL = (Y > 0).astype(float)
BOTH = (lightgbm, hb)


def plain(library, **params):
    """Return parameters for either library; the device is one that only ours knows."""
    own = {"device": "reference"} if library is hb else {"num_threads": 1}
    return {"num_leaves": 5, "verbosity": -1, **own, **params}


def test_a_booster_shows_the_parameters_that_it_was_given():
    found = []
    for library in BOTH:
        params = {"objective": "binary", "metric": "auc", "learning_rate": 0.2}
        for booster in (
            library.train(plain(library, **params), library.Dataset(X, LABEL), 2),
            library.Booster(plain(library, **params), library.Dataset(X, LABEL)),
        ):
            shown = {name: value for name, value in booster.params.items() if name not in ("device", "num_threads")}
            found.append((shown, [name in booster.params for name in ("metric", "learning_rate", "max_bin")]))
    assert found[:2] == found[2:]


@pytest.mark.parametrize("params", [{}, {"n_estimators": 3}])
def test_callbacks_see_the_number_of_iterations_that_were_asked_for(params):
    found = []
    for library in BOTH:
        seen = []
        library.train(
            plain(library, **params), library.Dataset(X, Y), 2,
            callbacks=[lambda env, seen=seen: seen.append(env.params["num_iterations"])],
        )  # fmt: skip
        found.append(seen)
    assert found[0] == found[1]
    seen = []
    train_set = hb.Dataset(X, Y)
    hb.cv(plain(hb), train_set, 2, nfold=2, callbacks=[lambda env: seen.append(env.params["num_iterations"])])
    assert seen == [2, 2]


@pytest.mark.parametrize("kind", ["LGBMClassifier", "HornbeamClassifier", "LGBMRegressor"])
def test_parameters_of_an_estimator_are_those_of_a_training(kind, caplog):
    given = getattr(hb, kind)(n_estimators=3, num_leaves=5, verbose=-1, device="reference").get_params()
    assert given["verbose"] == -1 and "verbosity" not in given
    booster = hb.train(given, hb.Dataset(X, LABEL, params=given))
    own = hb.train(plain(hb), hb.Dataset(X, LABEL), 3)
    assert booster.fingerprint() == own.fingerprint() and not caplog.text
    assert len(hb.cv(given, hb.Dataset(X, LABEL), nfold=2)["valid l2-mean"]) == 3
    with pytest.raises(hb.ParameterError, match=r"class_weight='balanced'.*weight="):
        hb.train({**given, "class_weight": "balanced"}, hb.Dataset(X, LABEL))
    with caplog.at_level("INFO", "hornbeam"):
        hb.train({**given, "verbose": 1}, hb.Dataset(X, LABEL))
    assert "without effect here: importance_type" in caplog.text


def test_a_parameter_is_once_in_get_params_and_can_be_set_by_each_of_its_names():
    from sklearn.base import clone

    model = clone(hb.LGBMRegressor(max_iter=7, eta=0.3, num_leaves=9))
    assert {"max_iter": 7, "eta": 0.3, "num_leaves": 9}.items() <= model.get_params().items()
    assert not {"n_estimators", "learning_rate"} & set(model.get_params())
    model.set_params(n_estimators=100, learning_rate=0.2)
    assert model.get_params()["n_estimators"] == 100 and model.n_estimators == 100
    assert not {"max_iter", "eta"} & set(model.get_params())
    model.set_params(eta=0.1)
    assert clone(model).get_params()["eta"] == 0.1


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_callbacks_evaluate_the_model_of_the_iteration_at_hand(boosting):
    found = []
    for library in BOTH:
        seen = []

        def call(env, seen=seen):
            now = env.model.eval_valid()
            assert [tuple(one) for one in now] == [tuple(one) for one in env.evaluation_result_list]
            seen.append([(one[0], one[1], one[3]) for one in [*env.model.eval_train(), *now]])

        train_set = library.Dataset(X[:200], LABEL[:200])
        valid_sets = [train_set.create_valid(X[200:], LABEL[200:])]
        params = plain(library, objective="binary", metric=["auc", "binary_logloss"], boosting=boosting)
        library.train(params, train_set, 3, valid_sets, callbacks=[call])
        found.append(seen)
    assert found[0] == found[1] and len(found[0]) == 3
    assert [name for name, _, _ in found[0][0]] == ["training"] * 2 + ["valid_0"] * 2


def test_evaluations_of_callbacks_are_those_of_training_set_folds_and_functions():
    train_set, history, folds = hb.Dataset(X, Y), [], []

    def share(predictions, dataset):
        return "share", float(np.mean(predictions > 0)), True

    def call(env):
        history.append([one.value for one in env.model.eval_train(share)])

    own = hb.train({**plain(hb), "metric": "l2"}, train_set, 3, [train_set], ["all"], feval=share, callbacks=[call])
    assert history == [list(pair) for pair in zip(*own.eval_history["all"].values(), strict=True)]
    hb.cv(plain(hb), hb.Dataset(X, Y), 1, nfold=2, callbacks=[lambda env: folds.extend(env.model.eval_valid())])
    assert [len(one) for one in folds] == [1, 1] and folds[0] != folds[1]
    forest = plain(hb, boosting="rf", bagging_freq=1, bagging_fraction=0.5)
    with pytest.raises(hb.ParameterError, match="training set in valid_sets"):
        hb.train(forest, hb.Dataset(X, Y), 1, callbacks=[lambda env: env.model.eval_train()])


@pytest.mark.parametrize("schedule", [{"num_leaves": [5, 3, 2]}, {"min_data_in_leaf": [20, 60, 120]}])
def test_limits_of_trees_follow_a_schedule(schedule):
    found = []
    for library in BOTH:
        booster = library.train(
            plain(library), library.Dataset(X, Y), 3, callbacks=[library.reset_parameter(**schedule)]
        )
        found.append([tree["num_leaves"] for tree in booster.dump_model()["tree_info"]])
    assert found[0] == found[1] and len(set(found[0])) == 3


def test_a_best_iteration_that_a_callback_sets_is_that_of_the_model():
    def call(env):
        env.model.best_iteration = 2

    found = []
    for library in BOTH:
        booster = library.train(plain(library), library.Dataset(X, Y), 4, callbacks=[call])
        same = np.array_equal(booster.predict(X), booster.predict(X, num_iteration=2))
        found.append((booster.best_iteration, same))
    assert found[0] == found[1] == (2, True)
