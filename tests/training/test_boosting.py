"""Modes of boosting: what contradicts itself raises before training; quality is LightGBM's."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.params.params import Params
from hornbeam.testing.peers import peer_params

RF = {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}


def table(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + (X[:, 3] > 0.5) + rng.normal(scale=0.3, size=n_rows)
    return X, y


def data(n_rows=200, **more):
    X, y = table(n_rows)
    return hb.Dataset(X, label=y, **more)


@pytest.mark.parametrize(
    "params", [{"boosting": "rf"}, {"boosting": "rf", "bagging_fraction": 0.5}, {"boosting": "rf", "bagging_freq": 1}]
)
@pytest.mark.parametrize("call", [hb.train, hb.cv], ids=["train", "cv"])
def test_forest_of_equal_trees_is_refused(params, call):
    with pytest.raises(ParameterError, match="bagging_freq=1"):
        call({**params, "verbosity": -1}, data(), 1)


GOSS_FOREST = {"boosting": "rf", "data_sample_strategy": "goss"}


@pytest.mark.parametrize(
    "params",
    [
        GOSS_FOREST,
        {"boosting": "rf", "extra_trees": True},
        {"boosting": "rf", "feature_fraction_bylevel": 0.5},
        {"boosting": "rf", "feature_fraction_bynode": 0.5},
    ],
    ids=lambda params: list(params)[1],
)
def test_trees_of_a_forest_differ(params):
    trees = hb.train({**params, "num_leaves": 15, "verbosity": -1}, data(), 12).trees
    assert len({(tree.threshold.tobytes(), tree.leaf_value.tobytes()) for tree in trees}) == 12


def test_learning_rate_does_not_change_a_forest_of_goss():
    X, _ = table(200)
    found = [
        hb.train({**GOSS_FOREST, "learning_rate": rate, "verbosity": -1}, data(), 5).predict(X).tobytes()
        for rate in (0.1, 0.3, 1.0)
    ]
    assert found[0] == found[1] == found[2]


def test_forest_refuses_init_score():
    with pytest.raises(DataError, match="init_score"):
        hb.train({**RF, "verbosity": -1}, data(init_score=np.zeros(200)), 1)
    with pytest.raises(DataError, match="init_score"):
        hb.train({**RF, "verbosity": -1}, data(), 1, data(init_score=np.zeros(200)))


@pytest.mark.parametrize("early", [{"early_stopping_round": 3}, {}], ids=["parameter", "callback"])
@pytest.mark.parametrize("call", [hb.train, hb.cv], ids=["train", "cv"])
def test_dart_does_without_early_stopping_and_says_so(early, call, caplog):
    params = {"boosting": "dart", "verbosity": 0, "learning_rate": 0.9, "metric": "l2", **early}
    more = {"valid_sets": data()} if call is hb.train else {}
    found = call(params, data(), 12, callbacks=[] if early else [hb.early_stopping(1)], **more)
    assert "early stopping is off with boosting='dart'" in caplog.text
    assert (found.n_iterations if call is hb.train else len(found["valid l2-mean"])) == 12


def test_forest_stops_early_at_the_best_mean():
    X, y = table(200, seed=3)
    booster = hb.train({**RF, "verbosity": -1, "early_stopping_round": 5}, data(), 60, hb.Dataset(X, label=y))
    errors = booster.eval_history["valid_0"]["l2"]
    assert booster.best_iteration == int(np.argmin(errors)) + 1 < 60
    assert np.mean((booster.predict(X) - y) ** 2) == pytest.approx(min(errors))


@pytest.mark.parametrize(("first", "second"), [("rf", "gbdt"), ("gbdt", "rf"), ("rf", "dart")])
def test_forests_and_sums_do_not_continue_each_other(first, second):
    common = {"bagging_fraction": 0.5, "bagging_freq": 1, "verbosity": -1}
    start = hb.train({"boosting": first, **common}, data(), 2)
    with pytest.raises(ParameterError, match="a forest is a mean of trees"):
        hb.train({"boosting": second, **common}, data(), 2, init_model=start)


@pytest.mark.parametrize(("first", "second"), [("dart", "gbdt"), ("gbdt", "dart")])
def test_boosted_models_continue_each_other(first, second):
    common = {"verbosity": -1, "drop_rate": 0.5, "skip_drop": 0.0}
    start = hb.train({"boosting": first, **common}, data(), 4)
    train_set, seen = data(), []
    rest = hb.train(
        {"boosting": second, **common}, train_set, 4, train_set, init_model=start,
        feval=lambda p, d: seen.append(p.copy()) or ("none", 0.0, True),
    )  # fmt: skip
    weakened = [new.shrinkage < old.shrinkage for new, old in zip(rest.trees, start.trees, strict=False)]
    assert any(weakened) == (second == "dart")
    assert rest.predict(train_set.data).tobytes() == seen[-1].tobytes()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"drop_rate": 0.2}, "drop_rate has no effect without boosting='dart'"),
        ({**RF, "learning_rate": 0.3}, "learning_rate has no effect with boosting='rf'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("call", [hb.train, hb.cv], ids=["train", "cv"])
def test_parameters_without_effect_warn_once(params, message, call, caplog):
    with caplog.at_level(logging.WARNING, logger="hornbeam"):
        call({**params, "verbosity": 0}, data(), 2)
    assert len([record for record in caplog.records if message in record.getMessage()]) == 1


def test_boosting_goss_is_a_way_to_sample():
    params = Params.from_dict({"boosting": "goss"})
    assert (params.boosting, params.data_sample_strategy) == ("gbdt", "goss")
    models = [
        hb.train({**given, "learning_rate": 1.0, "verbosity": -1}, data(), 3)
        for given in ({"boosting": "goss"}, {"data_sample_strategy": "goss"})
    ]
    assert models[0].fingerprint() == models[1].fingerprint()


def test_dart_iteration_without_a_split_leaves_the_others_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(60, 1)).astype(float)
    params = {"boosting": "dart", "skip_drop": 0.0, "drop_rate": 1.0, "min_gain_to_split": 0.5, "verbosity": -1}
    train_set = hb.Dataset(X, label=X[:, 0])
    seen = []
    booster = hb.train(
        params, train_set, 80, train_set, feval=lambda p, d: seen.append(p.copy()) or ("none", 0.0, True)
    )  # fmt: skip
    assert booster.predict(X).tobytes() == seen[-1].tobytes()


def test_estimators_take_boosting_type():
    pytest.importorskip("sklearn")
    X, y = table(300)
    for extra in ({"boosting_type": "dart"}, {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}):
        model = hb.HornbeamRegressor(n_estimators=5, verbosity=-1, **extra).fit(X, y)
        assert model.booster_.params["boosting"] == extra["boosting_type"]
        labels = y > 0
        classes = hb.HornbeamClassifier(n_estimators=5, verbosity=-1, **extra).fit(X, labels)
        assert classes.score(X, labels) > 0.7


QUALITY = {
    "bagging": {"bagging_fraction": 0.5, "bagging_freq": 1},
    "goss": {"data_sample_strategy": "goss"},
    "dart": {"boosting": "dart"},
    "dart, as in XGBoost": {"boosting": "dart", "xgboost_dart_mode": True},
    "rf": {**RF, "num_leaves": 63},
}


@pytest.mark.parametrize("what", QUALITY)
def test_error_is_near_that_of_lightgbm(what):
    """What DART drops makes a difference of some per cent in so few rounds, so the mean over some seeds is compared."""
    lightgbm = pytest.importorskip("lightgbm")
    X, y = table(2000)
    X_test, y_test = table(2000, seed=1)
    found, expected = [], []
    for seed in range(6 if "dart" in what else 1):
        ours = {"num_leaves": 15, "verbosity": -1, "device": "cpu", "drop_seed": seed, **QUALITY[what]}
        theirs = {**peer_params(ours, "lightgbm"), "force_col_wise": True}
        del theirs["seed"]  # LightGBM would draw all other seeds from it
        booster = lightgbm.train(theirs, lightgbm.Dataset(X, y, params=theirs), 50)
        found.append(np.mean((hb.train(ours, hb.Dataset(X, label=y), 50).predict(X_test) - y_test) ** 2))
        expected.append(np.mean((booster.predict(X_test) - y_test) ** 2))
    assert np.mean(found) < (1.12 if "dart" in what else 1.06) * np.mean(expected)
