"""A parameter that has no effect in the chosen mode warns, once, however training is asked for."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.params.params import PARAMETERS, Params
from hornbeam.testing.capabilities import covered
from hornbeam.training.idle_parameters import IDLE

QUIET = {"verbosity": 0, "device": "cpu", "num_threads": 1, "num_leaves": 3, "min_data_in_leaf": 5}
DART = {"boosting": "dart", "skip_drop": 1.0}
RANKING = {"objective": "pairwise"}

WARNS = {
    "fair_c": {"fair_c": 2.0},
    "huber_slope": {"huber_slope": 2.0},
    "alpha": {"alpha": 0.5, "metric": "quantile"},  # raises otherwise
    "poisson_max_delta_step": {"poisson_max_delta_step": 0.5},
    "multiclass_hessian_factor": {"multiclass_hessian_factor": 2.0},
    "tweedie_variance_power": {"tweedie_variance_power": 1.2},
    "reg_sqrt": {"reg_sqrt": True, "objective": "binary"},
    "focal_gamma": {"focal_gamma": 1.0},
    "focal_alpha": {"focal_alpha": 0.5},
    "sigmoid": {"sigmoid": 2.0},
    "scale_pos_weight": {"scale_pos_weight": 2.0},
    "is_unbalance": {"is_unbalance": True},
    "lambdarank_truncation_level": {"lambdarank_truncation_level": 10},
    "lambdarank_norm": {"lambdarank_norm": False},
    "lambdarank_position_bias_regularization": {"lambdarank_position_bias_regularization": 0.5},
    "aft_loss_distribution": {"aft_loss_distribution": "logistic"},
    "aft_loss_distribution_scale": {"aft_loss_distribution_scale": 2.0},
    "predict_classes": {"predict_classes": True},
    "predict_scores": {"predict_scores": True},
    "lambdarank_sampled_pairs": {"lambdarank_sampled_pairs": 2},
    "lambdarank_unbiased": {"lambdarank_unbiased": True},
    "lambdarank_bias_norm": {"lambdarank_bias_norm": 0.5, **RANKING},
    "objective_seed": {"objective_seed": 7, **RANKING},
    "label_gain": {"label_gain": [0.0, 1.0], **RANKING},
    "boost_from_average": {"boost_from_average": False, **RANKING},
    "base_score": {"base_score": 0.3},
    "learning_rate": {"learning_rate": 0.3, "boosting": "rf", "feature_fraction": 0.5},
    "drop_rate": {"drop_rate": 0.3, **DART},
    "max_drop": {"max_drop": 3, **DART},
    "skip_drop": {"skip_drop": 0.2, "boosting": "dart", "drop_rate": 0.0},
    "uniform_drop": {"uniform_drop": True, **DART},
    "one_drop": {"one_drop": True},
    "xgboost_dart_mode": {"xgboost_dart_mode": True},
    "xgboost_dart_forest": {"xgboost_dart_forest": True, "boosting": "dart"},
    "drop_seed": {"drop_seed": 9, **DART},
    "bagging_fraction": {"bagging_fraction": 0.5},
    "pos_bagging_fraction": {"pos_bagging_fraction": 0.5, "objective": "binary"},
    "neg_bagging_fraction": {"neg_bagging_fraction": 0.5, "objective": "binary"},
    "bagging_freq": {"bagging_freq": 2},
    "bagging_by_query": {"bagging_by_query": True, **RANKING},
    "bagging_seed": {"bagging_seed": 9},
    "top_rate": {"top_rate": 0.5},
    "other_rate": {"other_rate": 0.5},
    "feature_fraction_seed": {"feature_fraction_seed": 9},
    "feature_weights": {"feature_weights": [1.0, 2.0, 0.5]},
    "linear_lambda": {"linear_lambda": 0.1},
    "extra_seed": {"extra_seed": 9},
    "monotone_constraints_method": {"monotone_constraints_method": "intermediate"},
    "monotone_penalty": {"monotone_penalty": 1.0, "monotone_constraints": [0, 0, 0]},
    "cegb_tradeoff": {"cegb_tradeoff": 0.5},
    "cegb_penalty_split": {"cegb_penalty_split": 0.5, "cegb_tradeoff": 0.0},
    "cegb_penalty_feature_coupled": {"cegb_penalty_feature_coupled": [1.0, 2.0, 3.0], "cegb_tradeoff": 0.0},
    "cegb_penalty_feature_lazy": {"cegb_penalty_feature_lazy": [1.0, 2.0, 3.0], "cegb_tradeoff": 0.0},
    "max_cat_to_onehot": {"max_cat_to_onehot": 8},
    "max_cat_threshold": {"max_cat_threshold": 8},
    "cat_smooth": {"cat_smooth": 2.0},
    "cat_l2": {"cat_l2": 2.0, "categorical_feature": [2], "target_encoding_levels": 0},
    "min_data_per_group": {"min_data_per_group": 5},
    "target_encoding_levels": {"target_encoding_levels": 5},
    "target_encoding_smooth": {"target_encoding_smooth": 5.0, "categorical_feature": [2]},
    "max_bin": {"max_bin": 20, "tree_method": "exact"},
    "max_bin_by_feature": {"max_bin_by_feature": [20, 20, 20], "tree_method": "exact"},
    "min_data_in_bin": {"min_data_in_bin": 9, "tree_method": "approx"},
    "bin_construct_sample_cnt": {"bin_construct_sample_cnt": 20, "tree_method": "exact"},
    "zero_as_missing": {"zero_as_missing": True, "use_missing": False},
    "first_metric_only": {"first_metric_only": True},
    "early_stopping_min_delta": {"early_stopping_min_delta": 0.1},
    "eval_at": {"eval_at": [3]},
    "multi_error_top_k": {"multi_error_top_k": 2},
    "auc_mu_weights": {"auc_mu_weights": [0.0, 1.0, 1.0, 0.0]},
    "top_k": {"top_k": 3},
    "metric_freq": {"metric_freq": 2},
    "device_memory_limit": {"device_memory_limit": 100.0},
}
"""For each parameter of the table a training in which it has no effect."""

ALWAYS = {
    "num_iterations", "categorical_feature", "metric", "early_stopping_round", "device", "num_threads", "verbosity",
    "tree_learner",    "histogram_pool_size", "is_enable_sparse", "sparse_threshold", "enable_bundle",
}  # fmt: skip
"""Parameters that are not saved with a model, and that every mode looks at (or raises, without anything to stop by)."""


def data(params) -> hb.Dataset:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 3))
    table[:, 2] = rng.integers(0, 6, size=60)
    group = [6] * 10 if "objective" in params and params["objective"] == "pairwise" else None
    start = np.zeros(60) if "base_score" in params else None
    return hb.Dataset(table, label=(table[:, 0] > 0).astype(float), group=group, init_score=start)


def warnings_of(caplog, call) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="hornbeam"):
        call()
    return [record.getMessage() for record in caplog.records if "has no effect" in record.getMessage()]


@pytest.mark.parametrize("name", IDLE)
def test_parameter_without_effect_warns_once(name, caplog):
    params = WARNS[name]
    if name == "alpha":  # it may be meant for a metric alone; without one it is an error
        assert Params.from_dict(params).is_used("alpha")
        with pytest.raises(hb.ParameterError, match="does not use it"):
            Params.from_dict({"alpha": 0.5})
        return
    found = warnings_of(caplog, lambda: hb.train({**QUIET, **params}, data(params), 1))
    assert len([text for text in found if text.startswith(f"{name} has no effect")]) == 1, found


def test_every_parameter_has_an_effect_that_is_shown_or_warns_or_is_always_looked_at():
    shown = {name for name, cases in covered().items() if cases}
    assert {row.name for row in PARAMETERS} == shown | set(IDLE) | ALWAYS
    assert not ALWAYS & (shown | set(IDLE))
    assert set(WARNS) == set(IDLE)


@pytest.mark.parametrize("name", ["fair_c", "drop_rate", "cat_smooth", "metric_freq"])
def test_folds_estimators_and_ready_parameters_warn_as_often_as_train(name, caplog):
    params = {**QUIET, **WARNS[name]}
    ready = Params(**params)
    calls = {
        "dict": lambda: hb.train(params, data(params), 1),
        "Params": lambda: hb.train(ready, data(params), 1),
        "cv": lambda: hb.cv(params, data(params), 1, nfold=3),
        "estimator": lambda: hb.HornbeamRegressor(n_estimators=1, **params).fit(data({}).data, data({}).label),
    }
    if name == "metric_freq":  # folds are evaluated
        del calls["cv"]
    for call in calls.values():
        assert len([text for text in warnings_of(caplog, call) if text.startswith(name)]) == 1


def test_defaults_are_never_named(caplog):
    given = {row.name: row.default for row in PARAMETERS if row.name not in ("alpha", "num_iterations", *QUIET)}
    assert warnings_of(caplog, lambda: hb.train({**given, **QUIET}, data({}), 1)) == []


def test_what_has_an_effect_is_not_named(caplog):
    params = {**QUIET, "extra_trees": True, "extra_seed": 9, "feature_fraction": 0.5, "feature_fraction_seed": 9}
    params |= {"feature_weights": [1.0, 2.0, 0.5]}
    params |= {"bagging_fraction": 0.5, "bagging_freq": 1, "bagging_seed": 9, "cat_smooth": 2.0, "metric_freq": 2}
    params |= {"categorical_feature": [2], "monotone_constraints": [1, 0, 0], "monotone_penalty": 1.0}
    params |= {"early_stopping_round": 2, "first_metric_only": True, "boosting": "gbdt"}
    assert warnings_of(caplog, lambda: hb.train(params, data({}), 2, data({}))) == []
    ranking = {**QUIET, **RANKING, "eval_at": [2], "label_gain": [0.0, 1.0]}
    assert warnings_of(caplog, lambda: hb.train(ranking, data(RANKING), 1, data(RANKING))) == []


def test_two_strategies_are_refused():
    params = {**QUIET, "boosting": "goss", "data_sample_strategy": "bagging"}
    with pytest.raises(hb.ParameterError, match="two ways to choose rows"):
        hb.train(params, data({}), 1)
    with pytest.raises(hb.ParameterError, match="two ways to choose rows"):
        hb.HornbeamRegressor(**params).fit(data({}).data, data({}).label)


def test_base_score_beside_initial_scores_is_told_with_an_objective_function_too(caplog):
    table = np.random.default_rng(0).normal(size=(60, 2))
    data = hb.Dataset(table, label=table[:, 0], init_score=np.zeros(60))
    hb.train({"objective": lambda scores, own: (scores - own.label, np.ones(60)), "base_score": 0.2}, data, 1)
    assert any("base_score" in text and "beside init_score" in text for text in caplog.messages)


@pytest.mark.parametrize(
    "given",
    [
        {"booster": "dart"}, {"tree_method": "exact"}, {"tree_method": "approx"}, {"objective": "rank:ndcg"},
        {"objective": "count:poisson", "tree_method": "exact", "booster": "dart"},
    ],
)  # fmt: skip
def test_parameters_that_nobody_gave_are_not_named(given, caplog):
    """XGBoost's defaults on a DMatrix; what is given is named as ever."""
    table = np.random.default_rng(0).normal(size=(200, 3))
    data = hb.DMatrix(table, np.abs(table[:, 0]).round(), qid=np.arange(200) // 20)
    hb.train(given, data, 2)
    assert "no effect" not in caplog.text
    hb.train({**given, "skip_drop": 0.3, "min_data_in_bin": 5}, data, 2)
    expected = {"skip_drop"} | ({"min_data_in_bin"} if "tree_method" in given else set())
    assert all(f"{name} has no effect" in caplog.text for name in expected)
