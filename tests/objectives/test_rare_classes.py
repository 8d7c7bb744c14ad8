"""Steps on rare classes and events: values of parameters that the user leaves open."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.objectives import get_objective
from hornbeam.objectives.label_sums import HostSums

QUIET = {"verbosity": -1, "num_threads": 1}
RARE = {"min_sum_hessian_in_leaf": 1.0, "lambda_l2": 2.0}


def log_loss(y, p):
    p = np.clip(p, 1e-15, 1.0 - 1e-15)
    return -np.mean(np.where(y > 0.0, np.log(p), np.log1p(-p)))


def rows(seed, n_rows=15_000):
    return np.random.default_rng(seed).standard_normal((n_rows, 4))


def noisy(X, seed):
    chance = 1.0 / (1.0 + np.exp(8.0 - 2.0 * X[:, 0] - X[:, 1]))
    return 1.0 * (np.random.default_rng(seed + 100).random(len(X)) < chance)


@pytest.mark.parametrize("label", [noisy, lambda X, seed: 1.0 * (X[:, 0] > 3.0)], ids=["noisy", "separable"])
def test_a_rare_class_is_predicted_better_than_by_its_share(label):
    X, other = rows(0), rows(1)
    y, unseen = label(X, 0), label(other, 1)
    booster = hb.train({**QUIET, "objective": "binary"}, hb.Dataset(X, label=y))
    assert log_loss(unseen, booster.predict(other)) < log_loss(unseen, np.full(len(other), y.mean()))


@pytest.mark.parametrize("shape", [0.3, 3.0])
def test_gamma_does_not_go_astray_where_means_differ_much(shape):
    X, other = rows(0), rows(1)

    def label(X, seed):
        return np.random.default_rng(seed).gamma(shape, np.exp(2.0 * X[:, 0] + X[:, 1]) / shape) + 1e-12

    def deviance(y, p):
        return np.mean(y / p + np.log(p))

    y, unseen = label(X, 0), label(other, 1)
    booster = hb.train({**QUIET, "objective": "gamma"}, hb.Dataset(X, label=y))
    assert deviance(unseen, booster.predict(other)) < deviance(unseen, np.full(len(other), y.mean()))


@pytest.mark.parametrize(
    ("params", "labels", "chosen"),
    [
        ({"objective": "binary"}, [0.0] * 96 + [1.0] * 4, RARE),
        ({"objective": "binary"}, [1.0] * 96 + [0.0] * 4, RARE),
        ({"objective": "binary"}, [0.0] * 95 + [1.0] * 5, {}),
        ({"objective": "cross_entropy"}, [0.04] * 100, RARE),
        ({"objective": "cross_entropy"}, [0.06] * 100, {}),
        ({"objective": "multiclass", "num_class": 4}, [0.0] * 60 + [1.0] * 36 + [3.0] * 4, RARE),
        ({"objective": "multiclass", "num_class": 4}, [0.0] * 60 + [1.0] * 40, {}),  # absent is not rare
        ({"objective": "multiclassova", "num_class": 3}, [0.0] * 60 + [1.0] * 36 + [2.0] * 4, RARE),
        ({"objective": "poisson"}, [0.0] * 96 + [1.0] * 4, RARE),
        ({"objective": "poisson"}, [0.0] * 96 + [3.0] * 4, {}),
        ({"objective": "gamma"}, [1.0] * 100, {"max_delta_step": 2.0}),
        ({"objective": "tweedie"}, [0.0] * 99 + [1.0], {}),
        ({"objective": "regression"}, [0.0] * 99 + [1.0], {}),
    ],
)
def test_which_values_the_objective_chooses(params, labels, chosen):
    sums = HostSums(np.array(labels), None)
    assert get_objective(hb.Params.from_dict(params)).open_values(sums) == chosen


def test_weights_count_for_the_share_of_a_class():
    label, weight = np.array([0.0] * 96 + [1.0] * 4), np.array([1.0] * 96 + [50.0] * 4)
    objective = get_objective(hb.Params.from_dict({"objective": "binary"}))
    assert objective.open_values(HostSums(label, None)) == RARE
    assert objective.open_values(HostSums(label, weight)) == {}


def test_the_model_keeps_what_was_chosen_and_what_was_given():
    X = rows(0, 2_000)
    data = hb.Dataset(X, label=1.0 * (X[:, 0] > 2.0))
    kept = [
        hb.train({**QUIET, "objective": "binary", **given}, data, 2).kept_params
        for given in ({}, {"reg_lambda": 0.0}, {"reg_lambda": 0.0, "min_child_weight": 1e-3}, {"lambda_l2": 7.0})
    ]
    assert [{name: params[name] for name in RARE if name in params} for params in kept] == [
        RARE,
        {"min_sum_hessian_in_leaf": 1.0},
        {},
        {"min_sum_hessian_in_leaf": 1.0, "lambda_l2": 7.0},
    ]


def test_ordinary_classes_are_trained_with_the_plain_numbers():
    X = rows(0, 2_000)
    data = hb.Dataset(X, label=1.0 * (X[:, 0] > 1.0))
    plain = {"lambda_l2": 0.0, "min_sum_hessian_in_leaf": 1e-3, "max_delta_step": 0.0}
    models = [hb.train({**QUIET, "objective": "binary", **given}, data, 5) for given in ({}, plain)]
    assert models[0].fingerprint() == models[1].fingerprint()


def test_a_negative_limit_of_steps_is_no_limit_and_not_left_open():
    X = rows(0, 2_000)
    data = hb.Dataset(X, label=np.exp(X[:, 0]))
    models = [hb.train({**QUIET, "objective": "gamma", "max_delta_step": limit}, data, 3) for limit in (-1.0, 0.0)]
    assert models[0].fingerprint() == models[1].fingerprint()
    assert "max_delta_step" not in models[0].kept_params


def test_what_is_chosen_is_told(caplog):
    X = rows(0, 2_000)
    with caplog.at_level("INFO", logger="hornbeam"):
        hb.train({"objective": "binary", "lambda_l2": 1.0}, hb.Dataset(X, label=1.0 * (X[:, 0] > 2.0)), 2)
    told = [record.getMessage() for record in caplog.records if "on these labels" in record.getMessage()]
    assert told == ["objective 'binary' on these labels: min_sum_hessian_in_leaf=1"]


def test_estimators_leave_the_same_values_open():
    from hornbeam.sklearn import HornbeamClassifier

    X = rows(0, 2_000)
    y = 1.0 * (X[:, 0] > 2.0)
    booster = hb.train({**QUIET, "objective": "binary"}, hb.Dataset(X, label=y), 5)
    model = HornbeamClassifier(n_estimators=5, n_jobs=1, verbosity=-1).fit(X, y)
    assert model.booster_.fingerprint() == booster.fingerprint()
