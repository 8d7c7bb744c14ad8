"""What XGBoost's users write: places of arguments, meanings by DMatrix, callbacks, where training starts and ends."""

import pickle
from typing import get_origin

import numpy as np
import pytest
from sklearn.datasets import make_regression

import hornbeam as xgb

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def dtrain():
    return xgb.DMatrix(X, label=Y)


def squares(scores, dtrain):
    return scores - dtrain.get_label(), np.ones(len(scores))


def test_arguments_by_place_come_in_xgboosts_order_where_a_dmatrix_is_trained_on(dtrain):
    result = {}
    xgb.train({"metric": "rmse"}, dtrain, 3, [(dtrain, "train")], squares, None, None, result)
    assert list(result) == ["train"]
    table = xgb.cv({"objective": "binary:logistic"}, dtrain, 2, 4, True, None, "auc", as_pandas=False)
    assert list(table) == ["train-auc-mean", "train-auc-std", "test-auc-mean", "test-auc-std"]
    with pytest.raises(TypeError, match="two values for 'evals'"):
        xgb.train({}, dtrain, 2, [], evals=[])


def test_parameters_may_be_a_list_of_pairs_with_several_metrics(dtrain):
    result = {}
    pairs = [("objective", "binary:logistic"), ("eval_metric", "auc"), ("eval_metric", "error")]
    xgb.train(pairs, dtrain, 2, evals=[(dtrain, "train")], evals_result=result)
    assert list(result["train"]) == ["auc", "error"]


DEFAULTS = {
    "learning_rate": 0.3, "max_depth": 6, "num_leaves": 64, "grow_policy": "depthwise", "lambda_l2": 1.0,
    "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0, "max_bin": 256,
    "min_data_in_bin": 1,
}  # fmt: skip
"""XGBoost's, by our names."""


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({}, {}),
        ({"eta": 0.1, "max_depth": 9}, {"learning_rate": 0.1, "max_depth": 9, "num_leaves": 512}),
        ({"max_depth": "3"}, {"max_depth": 3, "num_leaves": 8}),
        ({"max_leaves": 9, "grow_policy": "lossguide"}, {"num_leaves": 9, "grow_policy": "leafwise"}),
        ({"max_depth": 0, "max_leaves": 0, "reg_lambda": 3}, {"max_depth": -1, "num_leaves": 65_535, "lambda_l2": 3.0}),
        ({"min_child_weight": 5, "max_bin": 20}, {"min_sum_hessian_in_leaf": 5.0, "max_bin": 20}),
    ],
)
def test_what_is_not_given_has_xgboosts_defaults_for_a_dmatrix(dtrain, given, ours):
    expected = xgb.train({**DEFAULTS, **ours}, xgb.Dataset(X, Y), 3).fingerprint()
    assert xgb.train(given, dtrain, 3).fingerprint() == expected
    live = xgb.Booster(given, [dtrain])
    for _ in range(3):
        live.update(dtrain, 0)
    assert live.fingerprint() == expected


def test_a_quantile_matrix_keeps_its_bins():
    data = xgb.QuantileDMatrix(X, Y, max_bin=9)
    assert xgb.train({}, data, 2).params["max_bin"] == 9
    assert max(data.feature_num_bin(place) for place in range(data.num_col())) <= 10


def test_defaults_fit_as_well_as_xgboosts(dtrain):
    """RMSE of ten rounds: within three percent on the training rows, where equal defaults should be near each other."""
    peer = pytest.importorskip("xgboost")
    table, score = make_regression(2000, 8, noise=5.0, random_state=0)
    errors = []
    for library in (xgb, peer):
        data = library.DMatrix(table, score)
        errors.append(np.sqrt(np.mean((library.train({"verbosity": 0}, data, 10).predict(data) - score) ** 2)))
    assert errors[0] == pytest.approx(errors[1], rel=0.03)


def test_early_stopping_watches_the_last_set_though_it_is_the_training_set(dtrain):
    held_out = xgb.DMatrix(X[:100], label=1.0 - Y[:100])
    params, seen = {"objective": "binary:logistic", "eta": 0.9}, {}
    made = xgb.train(params, dtrain, 60, evals=[(held_out, "a"), (dtrain, "b")], early_stopping_rounds=5,
                     evals_result=seen, verbose_eval=False)  # fmt: skip
    assert made.best_score == min(seen["b"]["logloss"])
    alone = xgb.train(params, dtrain, 60, evals=[(dtrain, "b")], early_stopping_rounds=5, verbose_eval=False)
    assert alone.best_score == made.best_score
    stop = xgb.callback.EarlyStopping(rounds=5, data_name="b", metric_name="logloss")
    called = xgb.train(params, dtrain, 60, evals=[(dtrain, "b")], callbacks=[stop], verbose_eval=False)
    assert called.best_score == made.best_score


def test_alpha_of_a_dmatrix_is_the_l1_penalty(dtrain):
    made = xgb.train({"objective": "binary:logistic", "alpha": 0.5}, dtrain, 3)
    same = xgb.train({**DEFAULTS, "objective": "binary", "lambda_l1": 0.5}, xgb.Dataset(X, Y), 3)
    assert made.fingerprint() == same.fingerprint()
    with pytest.raises(xgb.ParameterError, match="reg_alpha"):
        xgb.train({"objective": "binary", "alpha": 0.5}, xgb.Dataset(X, Y), 3)


def test_subsample_of_a_dmatrix_draws_rows_for_every_tree(dtrain):
    made = xgb.train({"subsample": 0.5}, dtrain, 3)
    same = xgb.train({**DEFAULTS, "subsample": 0.5, "subsample_freq": 1}, xgb.Dataset(X, Y), 3)
    assert made.fingerprint() == same.fingerprint()


def test_num_target_must_be_the_number_of_columns():
    dtrain = xgb.DMatrix(X, label=np.column_stack((X[:, 0], X[:, 1])))
    assert xgb.train({"num_target": 2}, dtrain, 2).n_outputs == 2
    with pytest.raises(xgb.ParameterError, match="num_target=3"):
        xgb.train({"num_target": 3}, dtrain, 2)


def test_without_the_default_metric_functions_alone_are_evaluated(dtrain):
    def mine(scores, data):
        return "mine", 1.0

    result = {}
    given = {"evals": [(dtrain, "t")], "custom_metric": mine, "evals_result": result}
    params = {"objective": "binary:logistic", "disable_default_eval_metric": 1}
    xgb.train(params, dtrain, 2, **given)
    assert list(result["t"]) == ["mine"]
    xgb.train(
        {"objective": "binary:logistic", "disable_default_eval_metric": 1, "eval_metric": "auc"}, dtrain, 2, **given
    )
    assert list(result["t"]) == ["auc", "mine"]


def test_dart_is_told_how_to_drop_by_xgboosts_names(dtrain):
    given = {"booster": "dart", "rate_drop": 0.5, "sample_type": "uniform", "normalize_type": "tree"}
    ours = {"boosting": "dart", "drop_rate": 0.5, "uniform_drop": True, "xgboost_dart_mode": True, "max_drop": -1}
    ours = {**DEFAULTS, **ours, "skip_drop": 0.0}
    expected = xgb.train(ours, xgb.Dataset(X, Y), 5).fingerprint()
    assert xgb.train(given, dtrain, 5).fingerprint() == expected
    assert xgb.train({"booster": "dart", "rate_drop": 0.5}, dtrain, 5).fingerprint() == expected
    forest = xgb.train({**given, "normalize_type": "forest", "one_drop": 1}, dtrain, 5)
    expected = xgb.train({**ours, "xgboost_dart_forest": True, "one_drop": True}, xgb.Dataset(X, Y), 5)
    assert forest.fingerprint() == expected.fingerprint()
    with pytest.raises(xgb.ParameterError, match="'tree' or 'forest'"):
        xgb.train({**given, "normalize_type": "leaf"}, dtrain, 5)


@pytest.mark.parametrize("kind", ["tree", "forest"])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_weights_of_dropped_trees_are_xgboosts(kind, rate, dtrain):
    """With a rate of 1 all trees are dropped, with 0 and one_drop a single one: chance has no part in it."""
    peer = pytest.importorskip("xgboost")
    params = {"booster": "dart", "rate_drop": rate, "normalize_type": kind, "one_drop": 1, "eta": 0.4, "max_depth": 2}
    n_rounds = 4 if rate else 2
    data = peer.DMatrix(X, Y)
    theirs = peer.train({**params, "base_score": 0.25, "nthread": 1}, data, n_rounds).predict(data)
    ours = xgb.train({**params, "base_score": 0.25, "nthread": 1}, dtrain, n_rounds).predict(dtrain)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_a_dmatrix_is_binned_anew_for_other_bins_and_evaluated_by_any_training(dtrain):
    evals, first = xgb.DMatrix(X[:50], label=Y[:50]), xgb.train({"max_bin": 16}, dtrain, 3)
    xgb.train({"max_bin": 64}, dtrain, 3, evals=[(evals, "e")])
    assert xgb.train({"max_bin": 16}, dtrain, 3, evals=[(evals, "e")]).fingerprint() == first.fingerprint()
    xgb.train({}, xgb.DMatrix(X[100:], label=Y[100:]), 3, evals=[(evals, "e")])
    with pytest.raises(xgb.DataError, match="max_bin"):
        xgb.train({"max_bin": 16}, xgb.QuantileDMatrix(X, label=Y, max_bin=32), 3)


@pytest.mark.parametrize(
    "other", [{"tree_method": "exact"}, {"max_bin": 7}, {"use_missing": False}, {"max_bin_by_feature": [3] * 4}]
)
def test_a_dmatrix_keeps_nothing_of_other_trainings(other, dtrain):
    """Nor of those that evaluated it: what is trained on it is what is trained on new data."""
    expected = xgb.train({}, xgb.DMatrix(X, label=Y), 3).fingerprint()
    xgb.train(other, dtrain, 3)
    assert xgb.train({}, dtrain, 3).fingerprint() == expected
    xgb.train(other, xgb.DMatrix(2 * X[100:], label=Y[100:]), 3, evals=[(dtrain, "e")])
    assert xgb.train({}, dtrain, 3).fingerprint() == expected
    quantiles = xgb.QuantileDMatrix(X, label=Y, max_bin=9)
    own = xgb.train({}, quantiles, 3).fingerprint()
    if "max_bin" not in other:
        xgb.train(other, quantiles, 3)
    assert xgb.train({}, quantiles, 3).fingerprint() == own != expected


def test_best_score_after_early_stopping_is_a_number(dtrain):
    result = {}
    booster = xgb.train(
        {"objective": "binary:logistic", "eval_metric": ["error", "logloss"]}, dtrain, 5,
        evals=[(dtrain, "train"), (xgb.DMatrix(X[:50], label=Y[:50]), "eval")], early_stopping_rounds=2,
        evals_result=result, verbose_eval=False,
    )  # fmt: skip
    assert booster.best_score == result["eval"]["logloss"][booster.best_iteration]
    assert booster.attr("best_iteration") == str(booster.best_iteration)
    assert float(booster.attr("best_score")) == booster.best_score


def test_callbacks_of_estimators_see_xgboosts_names():
    class Names(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            self.seen = {name: list(metrics) for name, metrics in evals_log.items()}
            return False

    names, stop = Names(), xgb.callback.EarlyStopping(rounds=2, metric_name="logloss", data_name="validation_0")
    model = xgb.HornbeamClassifier(n_estimators=3, callbacks=[names, stop], eval_metric=["auc", "logloss"])
    model.fit(X, Y, eval_set=[(X[:50], Y[:50])])
    assert names.seen == {"validation_0": ["auc", "logloss"]}
    assert model.best_iteration_ > 0


def test_checkpoints_are_files_of_every_so_many_iterations(dtrain, tmp_path):
    kept = xgb.callback.TrainingCheckPoint(tmp_path / "new", interval=2)
    booster = xgb.train({}, dtrain, 5, callbacks=[kept])
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["model_2.ubj", "model_4.ubj"]
    assert xgb.load(tmp_path / "new" / "model_2.ubj").fingerprint() == booster[:3].fingerprint()
    xgb.train({}, dtrain, 3, callbacks=[xgb.callback.TrainingCheckPoint(tmp_path, "m", as_pickle=True, interval=1)])
    assert pickle.loads((tmp_path / "m_1.pkl").read_bytes()).n_iterations == 2


def test_callbacks_can_be_imported_from_their_module():
    from hornbeam.callback import EarlyStopping, TrainingCallback, early_stopping

    assert EarlyStopping is xgb.callback.EarlyStopping
    assert (TrainingCallback, early_stopping) == (xgb.callback.TrainingCallback, xgb.early_stopping)


def test_callbacks_have_the_attributes_that_scripts_of_xgboosts_use(dtrain, tmp_path):
    peer = pytest.importorskip("xgboost")
    for name in ("TrainingCallback", "EvaluationMonitor", "EarlyStopping"):
        assert get_origin(getattr(xgb.callback, name).EvalsLog) is dict
        assert get_origin(getattr(peer.callback, name).EvalsLog) is dict
    kept = xgb.callback.TrainingCheckPoint
    assert kept.default_format == peer.callback.TrainingCheckPoint.default_format

    class Json(kept):
        default_format = "json"

    class Typed(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log: xgb.callback.TrainingCallback.EvalsLog) -> bool:
            return False

    xgb.train({}, dtrain, 3, callbacks=[Json(tmp_path, interval=2), Typed()])
    assert [path.name for path in tmp_path.iterdir()] == ["model_2.json"]


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_the_metric_beside_a_function_of_several_targets_is_xgboosts(strategy):
    peer = pytest.importorskip("xgboost")
    label = np.column_stack([X[:, 0] * X[:, 1], X[:, 2]])
    params = {"max_depth": 3, "base_score": 0.0, "multi_strategy": strategy, "tree_method": "hist"}

    def of_columns(scores, matrix):
        return scores - matrix.get_label().reshape(scores.shape), np.ones_like(scores)

    found = []
    for library in (xgb, peer):
        result, matrix = {}, library.DMatrix(X, label)
        booster = library.train(
            params, matrix, 3, evals=[(matrix, "train")], obj=of_columns, evals_result=result, verbose_eval=False
        )
        assert {name: list(metrics) for name, metrics in result.items()} == {"train": ["rmse"]}
        expected = np.sqrt(np.mean((booster.predict(matrix) - label) ** 2))
        assert result["train"]["rmse"][-1] == pytest.approx(expected, rel=1e-5)
        found.append(result["train"]["rmse"])
    assert found[0] == pytest.approx(found[1], rel=0.05)
    params["eval_metric"], matrix = "mae", xgb.DMatrix(X, label)
    named = xgb.train(params, matrix, 1, evals=[(matrix, "train")], obj=of_columns, verbose_eval=False)
    assert list(named.eval_history["train"]) == ["mae"]


def test_ten_rounds_are_trained_where_nothing_says_how_many(dtrain):
    peer = pytest.importorskip("xgboost")
    assert xgb.train({}, dtrain, verbose_eval=False).num_boosted_rounds() == 10
    assert len(xgb.cv({}, dtrain, as_pandas=False)["test-rmse-mean"]) == 10
    assert peer.train({}, peer.DMatrix(X, Y)).num_boosted_rounds() == 10
    for params in ({"n_estimators": 3}, [("num_round", 3)], xgb.Params(num_iterations=3)):
        assert xgb.train(params, dtrain, verbose_eval=False).num_boosted_rounds() == 3
    assert xgb.train(None, dtrain, 2, verbose_eval=False).num_boosted_rounds() == 2


STARTS = {
    "reg:squarederror": 0.5,
    "reg:absoluteerror": -3.0,
    "binary:logistic": 0.2,
    "reg:logistic": 0.7,
    "count:poisson": 2.0,
    "reg:gamma": 0.5,
    "reg:tweedie": 1.5,
    "multi:softprob": 0.5,
    "rank:ndcg": 0.25,
    "survival:cox": 3.0,
}


@pytest.mark.parametrize("objective", STARTS)
def test_training_starts_from_the_base_score_as_xgboosts_does(objective):
    peer = pytest.importorskip("xgboost")
    params = {"objective": objective, "base_score": STARTS[objective], "eta": 1e-7, "min_child_weight": 1.0}
    params |= {"num_class": 3} if objective.startswith("multi") else {}
    label, group = Y + 1.0 if objective in ("reg:gamma", "survival:cox") else Y, [100, 200]
    found = []
    for library in (xgb, peer):
        data = library.DMatrix(X, label, **({"group": group} if objective.startswith("rank") else {}))
        found.append(library.train({**params, "verbosity": 0}, data, 1).predict(data, output_margin=True))
    assert found[0] == pytest.approx(np.asarray(found[1], np.float64).reshape(found[0].shape), abs=1e-5)


def test_a_base_score_that_no_score_predicts_is_an_error(dtrain):
    for objective, start in (("binary", 1.0), ("cross_entropy", -0.1), ("poisson", 0.0)):
        with pytest.raises(xgb.ParameterError, match=f"base_score={start}: must be"):
            xgb.train({"objective": objective, "base_score": start}, dtrain, 1)


@pytest.mark.parametrize("objective", ["multi:softprob", "reg:squarederror", "binary:logistic"])
def test_every_output_has_a_base_score_of_its_own(objective):
    starts = [0.2, 0.5, 0.7]
    label = np.random.default_rng(3).integers(0, 2, size=(len(X), 3)).astype(np.float64)
    params = {"objective": objective, "eta": 1e-7, "num_class": 3} if objective.startswith("multi") else {}
    params = params or {"objective": objective, "eta": 1e-7}
    data = xgb.DMatrix(X, label[:, 0] if "num_class" in params else label)
    made = xgb.train({**params, "base_score": np.array(starts)}, data, 1, verbose_eval=False)
    expected = made.objective.transform(np.tile(starts, (1, 1)).T)[:, 0] if "num_class" in params else starts
    assert made.predict(data) == pytest.approx(np.tile(expected, (len(X), 1)), abs=1e-5)
    same = xgb.train({**params, "base_score": [0.3] * 3}, data, 2, verbose_eval=False)
    plain = xgb.train({**params, "base_score": 0.3}, data, 2, verbose_eval=False)
    assert np.array_equal(same.predict(data, output_margin=True), plain.predict(data, output_margin=True))
    with pytest.raises(xgb.ParameterError, match="base_score has 2 numbers, and the model 3 outputs"):
        xgb.train({**params, "base_score": [0.3, 0.4]}, data, 1)
    with pytest.raises(xgb.ParameterError, match="base_score"):
        xgb.train({**params, "base_score": []}, data, 1)


@pytest.mark.parametrize("given", [{}, {"base_score": 0.3}, {"objective": "reg:squarederror"}])
def test_base_margins_are_the_start_in_the_place_of_the_base_score(given, caplog):
    """Of rows that have them; others start from the base score, or the best constant, in evaluations too."""
    peer, found = pytest.importorskip("xgboost"), []
    margin = X[:, 1] + 1.0
    for library in (peer, xgb):
        bare, history = library.DMatrix(X, Y), {}
        params = {"objective": "binary:logistic", "max_depth": 2, "tree_method": "exact", "nthread": 1, **given}
        data = library.DMatrix(X, Y, base_margin=margin)
        sets = [(data, "same"), (bare, "bare")]
        model = library.train(params, data, 3, evals=sets, evals_result=history, verbose_eval=False)
        again = library.train(params, bare, 2, xgb_model=model, verbose_eval=False)
        estimator = library.XGBRegressor(**params, n_estimators=3).fit(X, Y, base_margin=margin)
        found.append([
            model.predict(bare), model.predict(data), model.predict(library.DMatrix(X, base_margin=-margin)),
            again.predict(bare), estimator.predict(X), estimator.predict(X, base_margin=margin),
            *[values[-1] for one in history.values() for values in one.values()],
        ])  # fmt: skip
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert "no effect" not in caplog.text


def test_squared_errors_of_estimators_are_roots_by_xgboosts_names():
    class Log(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            self.seen = evals_log
            return False

    log = Log()
    stop = xgb.callback.EarlyStopping(rounds=2, metric_name="rmse")
    model = xgb.HornbeamRegressor(n_estimators=3, callbacks=[log, stop]).fit(X, X[:, 0], eval_set=[(X[:50], X[:50, 0])])
    roots = np.sqrt(model.evals_result_["valid_0"]["l2"]).tolist()
    assert model.evals_result() == log.seen == {"validation_0": {"rmse": roots}}
    assert model.best_score == roots[model.best_iteration]


def test_the_first_metric_alone_decides_where_that_is_asked_for(dtrain):
    params = {"objective": "binary:logistic", "eta": 0.9, "eval_metric": ["error", "logloss"]}
    held_out = xgb.DMatrix(X[:100], label=1.0 - Y[:100])
    for more, metric in (({}, "logloss"), ({"first_metric_only": True}, "error")):
        model = xgb.train({**params, "early_stopping_rounds": 4, **more}, dtrain, 60, evals=[(held_out, "a")])
        values = model.eval_history["a"][metric]
        assert model.best_iteration == int(np.argmin(values))


def test_cv_ends_its_lists_where_patience_came_to_its_end():
    """With all rounds done they are whole, as XGBoost's."""
    peer = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(120, 3))
    label = (table[:, 0] > 0).astype(float)
    params = {"max_depth": 2, "eta": 1.0, "objective": "binary:logistic", "eval_metric": "error"}
    for rounds, all_there in ((10, True), (2, False)):
        ours, theirs = (
            len(one.cv(params, one.DMatrix(table, label=label), 8, nfold=3, early_stopping_rounds=rounds))
            for one in (xgb, peer)
        )
        assert (ours == 8) == (theirs == 8) == all_there


def test_small_ways_of_xgboost():
    peer = pytest.importorskip("xgboost")
    rng = np.random.default_rng(1)
    table, targets = rng.normal(size=(90, 3)), np.abs(rng.normal(size=(90, 2)))
    for one in (xgb, peer):
        data = one.DMatrix(table, label=targets, feature_weights=np.ones((3, 1)))
        evaluated = {}
        model = one.train(
            {"objective": "reg:tweedie", "debug_synchronize": True}, data, 2, evals=[(data, "t")],
            evals_result=evaluated, verbose_eval=False,
        )  # fmt: skip
        assert list(evaluated["t"]) == ["tweedie-nloglik@1.5"]
        assert data.feature_types is model.feature_types is None
        assert data.get_float_info("label_lower_bound").shape == (0,)
        with one.config_context(verbosity=0):
            assert one.config.get_config()["verbosity"] == 0


def test_what_the_library_can_do_is_asked_by_xgboosts_name():
    usable = {device.name.partition(":")[0] for device in xgb.devices() if device.usable}
    assert xgb.build_info()["USE_CUDA"] == ("cuda" in usable)
    assert xgb.build_info()["USE_OPENCL"] == ("opencl" in usable)
