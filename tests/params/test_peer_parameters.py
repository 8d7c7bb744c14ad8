"""Dicts of parameters as users of LightGBM and XGBoost have them."""

import logging

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.params.params import BY_NAME
from hornbeam.params.peer_parameters import PEER_PARAMETERS

RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(300, 4))
Y = (X[:, 0] + 0.5 * RANDOM.normal(size=300) > 0).astype(float)
PLAIN = {"objective": "binary", "num_leaves": 5, "verbosity": -1}


def train(params, rounds=3, **arguments):
    return hb.train({**PLAIN, **params}, hb.Dataset(X, label=Y), rounds, **arguments)


def test_a_name_of_a_peer_is_not_one_of_ours():
    assert not set(PEER_PARAMETERS) & set(BY_NAME)


@pytest.mark.parametrize(
    "params",
    [
        {"force_col_wise": True, "deterministic": True, "feature_pre_filter": False, "tree_learner": "data"},
        {"use_quantized_grad": True, "num_grad_quant_bins": 4, "gpu_use_dp": "true", "linear_tree": "False"},
        {"tree_method": "hist", "silent": 1, "use_label_encoder": False, "missing": np.nan},
        {"process_type": "default", "sampling_method": "uniform", "base_score": None, "disable_default_eval_metric": 0},
        {"linear_lambda": 0.0, "machines": "", "time_out": 120, "predict_raw_score": False},
        {"max_depth": None, "metric": None, "eval_metric": "auc", "monotone_constraints": None, "nthread": None},
    ],
)
def test_what_changes_nothing_is_taken(params):
    assert train(params).fingerprint() == train({}).fingerprint()


@pytest.mark.parametrize("kind", ["Classifier", "Regressor", "Ranker"])
@pytest.mark.parametrize(("library", "prefix"), [("xgboost", "XGB"), ("lightgbm", "LGBM")])
def test_what_an_estimator_of_a_peer_has_when_nothing_is_set_changes_nothing(library, prefix, kind):
    theirs = getattr(pytest.importorskip(library), prefix + kind)().get_params()
    queries = {"group": [100, 200]} if kind == "Ranker" else {}
    make = getattr(hb, "Hornbeam" + kind)
    taken, plain = (make(**{**given, "n_estimators": 3}).fit(X, Y, **queries) for given in (theirs, {}))
    assert taken.booster_.fingerprint() == plain.booster_.fingerprint()
    np.testing.assert_array_equal(taken.feature_importances_, plain.feature_importances_)


def test_verbosity_of_none_is_that_of_the_library(caplog):
    def squares(y_true, y_pred):
        return y_pred - y_true, np.ones_like(y_pred)

    hb.HornbeamClassifier(objective=squares, n_estimators=2, verbosity=None).fit(X, Y).predict_proba(X)
    assert any("returning raw scores" in text for text in caplog.messages)


def test_what_is_taken_without_effect_is_named(caplog):
    with caplog.at_level(logging.INFO, logger="hornbeam"):
        train({"tree_method": "hist", "force_row_wise": True, "verbosity": 1})
        hb.HornbeamClassifier(n_estimators=2, silent=True).fit(X, Y)
    named = [text for text in caplog.messages if "without effect" in text]
    assert len(named) == 2
    assert "force_row_wise" in named[0]
    assert "silent" in named[1]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"tree_method": "gpu_exact"}, ["tree_method='gpu_exact'", "'exact'"]),
        ({"tree_method": "gpu_hist", "device": "cpu"}, ["device='cpu'", "tree_method='hist'"]),
        ({"tree_method": "approx", "sketch_eps": 2.0}, ["sketch_eps=2.0", "max_bin"]),
        ({"tree_method": "approx", "sketch_eps": 0.1, "max_bin": 63}, ["sketch_eps=0.1", "max_bin=10"]),
        ({"process_type": "update"}, ["xgb_model=booster"]),
        ({"missing": -999.0}, ["NaN"]),
        ({"snapshot_freq": 10}, ["checkpoint"]),
        ({"predict_raw_score": True}, ["raw_score=True"]),
        ({"is_training_metric": True}, ["valid_sets"]),
        ({"sampling_method": "gradient_based"}, ["goss"]),
        ({"data": "train.txt"}, ["Dataset"]),
        ({"booster": "gblinear"}, ["linear", "gbtree"]),
        ({"max_leaves": 0}, ["2 to the power of max_depth"]),
        ({"objective": "binary", "metric": ["auc", "error@30%"]}, ["error@30%", "error@0.3"]),
        ({"objective": "binary", "metric": "binary_error@1.5"}, ["binary_error@1.5", "from 0 to 1"]),
        ({"metric": "tweedie-nloglik@2"}, ["tweedie-nloglik@2", "from 1 to 2"]),
        ({"metric": "pre@0"}, ["pre@0", "pre@10-"]),
    ],
)
def test_what_would_change_something_says_what_to_type(params, words):
    with pytest.raises(hb.ParameterError) as raised:
        train(params)
    for word in words:
        assert word in str(raised.value)


def test_a_misspelled_name_is_an_error_even_if_its_value_is_none():
    with pytest.raises(hb.ParameterError, match="did you mean 'num_leaves'"):
        train({"num_leavs": None})


def test_texts_of_booleans_and_sets_of_metrics_are_understood():
    assert train({"boost_from_average": "false"}).fingerprint() == train({"boost_from_average": False}).fingerprint()
    assert train({"boost_from_average": "True"}).fingerprint() == train({}).fingerprint()
    assert hb.Params.from_dict({"metric": {"l2", "auc"}}).metric == ("auc", "l2")


def test_gpu_is_the_first_usable_one():
    found = [info.name for kind in ("cuda", "opencl") for info in hb.devices() if info.name.startswith(f"{kind}:")]
    usable = [name for name in found if {info.name: info.usable for info in hb.devices()}[name]]
    if not usable:
        with pytest.raises(hb.DeviceError, match="device='gpu' is not available"):
            train({"device": "gpu"})
        pytest.skip("no GPU and no PoCL")
    assert train({"device": "gpu"}).fingerprint() == train({"device": usable[0]}).fingerprint()


SCHEDULES = {
    "bagging_fraction": [0.7, 0.7, 0.4, 0.4, 1.0, 0.5],
    "feature_fraction": [0.5, 1.0, 1.0, 0.5, 0.5, 0.75],
    "lambda_l2": [0.0, 1.0, 50.0, 50.0, 1.0, 0.0],
    "max_depth": [1, -1, 2, 3, 1, 2],
}


def test_schedules_give_the_model_of_the_reference_on_every_device(device):
    base = {"bagging_fraction": 0.9, "bagging_freq": 2, "min_data_in_leaf": 5}
    schedules = hb.reset_parameter(**SCHEDULES)
    found = train({**base, "device": device}, 6, callbacks=[schedules])
    assert found.fingerprint() == train({**base, "device": "reference"}, 6, callbacks=[schedules]).fingerprint()
    shallow = [tree.n_leaves <= 2**depth for tree, depth in zip(found.trees, SCHEDULES["max_depth"], strict=True)]
    assert shallow == [True, False, True, True, True, True]


def test_a_schedule_of_the_parameter_itself_changes_nothing():
    base = {"bagging_fraction": 0.5, "bagging_freq": 2, "feature_fraction": 0.5, "lambda_l2": 3.0}
    same = hb.reset_parameter(**{name: lambda i, v=value: v for name, value in base.items() if name != "bagging_freq"})
    assert train(base, 6, callbacks=[same]).fingerprint() == train(base, 6).fingerprint()


def test_a_schedule_goes_on_after_a_checkpoint(tmp_path):
    base, schedules = {"bagging_fraction": 0.9, "bagging_freq": 2}, hb.reset_parameter(**SCHEDULES)

    def crash(env):
        if env.iteration == 3:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(base, 6, callbacks=[schedules, crash], checkpoint=tmp_path / "run", checkpoint_freq=1)
    found = train(base, 6, callbacks=[schedules], checkpoint=tmp_path / "run", checkpoint_freq=1)
    assert found.fingerprint() == train(base, 6, callbacks=[schedules]).fingerprint()


def test_bagging_that_was_not_asked_for_cannot_be_scheduled():
    with pytest.raises(hb.ParameterError, match="set bagging_freq"):
        train({"bagging_freq": 1}, 2, callbacks=[hb.reset_parameter(bagging_fraction=[0.5, 0.5])])


def test_callbacks_written_for_lightgbm_find_what_they_look_for():
    seen = []

    def callback(env):
        assert env.params["learning_rate"] == 0.1
        for result in env.evaluation_result_list:
            name, metric, value, higher = result[:4]
            seen.append((name, metric, value == result[2], higher, env.model.current_iteration()))

    train({"metric": "auc"}, valid_sets=[hb.Dataset(X, label=Y)], callbacks=[callback])
    assert seen == [("valid_0", "auc", True, True, number) for number in (1, 2, 3)]


def test_early_stopping_says_its_best_iteration_unless_told_not_to(caplog):
    with caplog.at_level(logging.INFO, logger="hornbeam"):
        for verbose in (True, False):
            stop = hb.early_stopping(2, verbose=verbose)
            train({"verbosity": 1}, valid_sets=[hb.Dataset(X, label=Y)], callbacks=[stop])
    assert len([text for text in caplog.messages if "best iteration" in text]) == 1


def test_cv_logs_means_with_their_deviations(caplog):
    with caplog.at_level(logging.INFO, logger="hornbeam"):
        for show in (True, False):
            hb.cv(PLAIN, hb.Dataset(X, label=Y), 1, nfold=3, callbacks=[hb.log_evaluation(1, show_stdv=show)])
    lines = [text for text in caplog.messages if "binary_logloss" in text]
    assert [" + " in line for line in lines] == [True, False]
