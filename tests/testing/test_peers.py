"""The peers' equivalent parameters are accepted by the peers and give comparable models."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import ParameterError
from hornbeam.metrics import get_metric
from hornbeam.metrics.base import MeanLoss
from hornbeam.objectives import ALL_OBJECTIVES, OBJECTIVES, RANKING, CustomObjective
from hornbeam.objectives.percentiles import weighted_percentile
from hornbeam.testing.data import make_higgs_like, make_multiclass, make_ranking
from hornbeam.testing.labels import labels_for, params_for
from hornbeam.testing.peer_names import LIGHTGBM_LACKS
from hornbeam.testing.peers import derivative_factors, has_objective, peer_params

COMPARABLE = {"num_iterations": 20, "num_leaves": 15, "min_data_in_leaf": 1, "verbosity": -1}
N_ROWS = 3_000


def binary_data():
    return *make_higgs_like(N_ROWS, 8, seed=0), make_higgs_like(N_ROWS, 8, seed=1)


def accuracy(label, probability):
    return float(np.mean((probability > 0.5) == (label > 0)))


def test_peers_learn_the_same_problem_about_as_well():
    X, y, (X_test, y_test) = binary_data()
    ours = {**COMPARABLE, "objective": "binary"}
    scores = {}
    peers = {"lightgbm": train_lightgbm, "xgboost": train_xgboost, "catboost": train_catboost, "sklearn": train_sklearn}
    for peer, train in peers.items():
        try:
            predict = train(peer_params(ours, peer), X, y)
        except ImportError:
            continue
        scores[peer] = accuracy(y_test, predict(X_test))
    if len(scores) < 2:
        pytest.skip("needs two of lightgbm, xgboost, catboost and scikit-learn")
    assert min(scores.values()) > 0.6
    assert max(scores.values()) - min(scores.values()) < 0.03


def train_lightgbm(params, X, y):
    import lightgbm

    return lightgbm.train(params, lightgbm.Dataset(X, y, params=params), num_boost_round=20).predict


def train_xgboost(params, X, y):
    import xgboost

    booster = xgboost.train(params, xgboost.QuantileDMatrix(X, y, max_bin=params["max_bin"]), num_boost_round=20)
    return booster.inplace_predict


def train_catboost(params, X, y):
    import catboost

    model = catboost.CatBoost(params).fit(catboost.Pool(X, y))
    return lambda X: model.predict(X, prediction_type="Probability")[:, 1]


def train_sklearn(params, X, y):
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(**params).fit(X, y)
    return lambda X: model.predict_proba(X)[:, 1]


def test_lightgbm_knows_every_name():
    lightgbm = pytest.importorskip("lightgbm")
    known = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    theirs = peer_params({**COMPARABLE, "device": "opencl:1", "metric": ["l1", "l2"]}, "lightgbm")
    assert set(theirs) <= set(known) | {"feature_pre_filter", "gpu_device_id"}
    assert theirs["device_type"] == "gpu"
    assert theirs["gpu_device_id"] == 1
    assert theirs["metric"] == ["l1", "l2"]


def test_xgboost_uses_every_name(capfd):
    xgboost = pytest.importorskip("xgboost")
    X, y = make_multiclass(500, 3, 8)
    ours = {**COMPARABLE, "objective": "multiclass", "num_class": 3, "verbosity": 1, "metric": "multi_logloss"}
    params = peer_params({**ours, "boost_from_average": False}, "xgboost")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        booster = xgboost.train({**params, "validate_parameters": True}, xgboost.DMatrix(X, y), 2)
    captured = capfd.readouterr()  # where older versions say it
    assert "not used" not in captured.out + captured.err + "".join(str(warning.message) for warning in caught)
    assert booster.inplace_predict(X).shape == (500, 3)


def test_sklearn_accepts_every_name():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y, _ = binary_data()
    regressor = ensemble.HistGradientBoostingRegressor(**peer_params({"num_iterations": 2}, "sklearn")).fit(X, y)
    assert regressor.n_iter_ == 2
    X, y = make_multiclass(500, 3, 8)
    params = peer_params({"objective": "multiclass", "num_class": 3, "num_iterations": 2, "max_depth": 3}, "sklearn")
    assert ensemble.HistGradientBoostingClassifier(**params).fit(X, y).n_iter_ == 2


def test_defaults_that_differ_are_spelled_out():
    xgboost = peer_params({"min_data_in_leaf": 1}, "xgboost")
    assert (xgboost["reg_lambda"], xgboost["max_bin"], xgboost["max_depth"]) == (0.0, 255, 0)
    assert xgboost["grow_policy"] == "lossguide"
    assert peer_params({}, "sklearn")["early_stopping"] is False


def test_metrics_are_translated():
    ours = {"metric": ["mae", "roc_auc"], "min_data_in_leaf": 1}
    assert peer_params(ours, "lightgbm")["metric"] == ["l1", "auc"]
    assert peer_params(ours, "xgboost")["eval_metric"] == ["mae", "auc"]
    assert peer_params({"metric": "none"}, "lightgbm")["metric"] == "none"
    assert peer_params({"metric": "none"}, "xgboost")["disable_default_eval_metric"] is True
    assert "metric" not in peer_params({}, "lightgbm")
    with pytest.raises(ParameterError, match=r"metric=.*sklearn"):
        peer_params(ours, "sklearn")


def test_row_minimum_becomes_a_hessian_minimum_where_hessians_count_rows():
    assert peer_params({"min_data_in_leaf": 20}, "xgboost")["min_child_weight"] == 20.0
    with pytest.raises(ParameterError, match="min_data_in_leaf=20"):
        peer_params({"objective": "binary"}, "xgboost")


@pytest.mark.parametrize(
    ("peer", "params"),
    [
        ("lightgbm", {"grow_policy": "depthwise"}),
        ("lightgbm", {"device": "reference"}),
        ("xgboost", {"use_missing": False}),
        ("xgboost", {"device": "opencl"}),
        ("xgboost", {"metric": "r2"}),
        ("xgboost", {"early_stopping_round": 5}),
        ("catboost", {"lambda_l1": 1.0}),
        ("catboost", {"min_sum_hessian_in_leaf": 1.0, "objective": "binary"}),
        ("catboost", {"max_depth": 17}),
        ("catboost", {"metric": "auc"}),
        ("catboost", {"device": "opencl"}),
        ("sklearn", {"lambda_l1": 1.0}),
        ("sklearn", {"min_sum_hessian_in_leaf": 1.0}),
        ("sklearn", {"max_bin": 256}),
        ("sklearn", {"grow_policy": "depthwise"}),
        ("sklearn", {"num_threads": 2}),
        ("sklearn", {"device": "cuda"}),
        ("lightgbm", {"objective": max}),
        ("xgboost", {"objective": max}),
        ("sklearn", {"objective": max}),
        *((peer, {"forcedsplits_filename": {"feature": 0, "threshold": 0.5}}) for peer in ("lightgbm", "xgboost")),
        *((peer, {"forcedbins_filename": [[0, [0.5]]]}) for peer in ("lightgbm", "catboost", "sklearn")),
    ],
)
def test_what_a_peer_cannot_do_raises(peer, params):
    with pytest.raises(ParameterError, match=rf"{next(iter(params))}=.*has no equivalent in {peer}"):
        peer_params(params, peer)


def test_unknown_peer_raises():
    with pytest.raises(ParameterError, match=r"peer='ngboost'.*'catboost'"):
        peer_params({}, "ngboost")


@pytest.mark.parametrize("objective", [name for name in ALL_OBJECTIVES if has_objective("catboost", name)])
def test_catboost_accepts_every_name(objective):
    catboost = pytest.importorskip("catboost")
    X, y = make_higgs_like(300, 8)
    queries = np.arange(300) // 30 if objective in RANKING else None
    more = {} if objective in RANKING else params_for(objective)
    y = y if objective in RANKING else labels_for(objective, X[:, 0] + 3.0 * y)
    params = peer_params({**COMPARABLE, **more, "objective": objective, "num_iterations": 2}, "catboost")
    model = catboost.CatBoost(params).fit(catboost.Pool(X, y, group_id=queries))
    assert model.tree_count_ == 2


def test_catboost_takes_one_newton_step_without_chance():
    theirs = peer_params({"objective": "binary", "lambda_l2": 2.0}, "catboost")
    assert (theirs["leaf_estimation_method"], theirs["leaf_estimation_iterations"]) == ("Newton", 1)
    assert (theirs["bootstrap_type"], theirs["random_strength"], theirs["boosting_type"]) == ("No", 0.0, "Plain")
    assert (theirs["grow_policy"], theirs["max_leaves"], theirs["depth"]) == ("Lossguide", 31, 16)
    assert (theirs["border_count"], theirs["l2_leaf_reg"]) == (254, 2.0)
    assert peer_params({"min_sum_hessian_in_leaf": 30.5}, "catboost")["min_data_in_leaf"] == 31


def test_ranking_is_translated():
    params = {"objective": "lambdarank", "lambdarank_truncation_level": 7, "eval_at": [3, 9], "min_data_in_leaf": 1}
    theirs = peer_params({**params, "metric": "ndcg", "label_gain": [0, 1, 3]}, "lightgbm")
    assert theirs["eval_at"] == [3, 9] and theirs["label_gain"] == [0.0, 1.0, 3.0]
    assert "label_gain" not in peer_params(params, "lightgbm")
    theirs = peer_params({**params, "metric": ["ndcg", "map@2"]}, "xgboost")
    assert theirs["objective"] == "rank:ndcg" and theirs["lambdarank_num_pair_per_sample"] == 7
    assert theirs["eval_metric"] == ["ndcg@3", "ndcg@9", "map@2"]
    for objective, peer in (("pairwise", "lightgbm"), ("rank_xendcg", "xgboost"), ("lambdarank", "sklearn")):
        with pytest.raises(ParameterError, match="objective"):
            peer_params({"objective": objective, "min_data_in_leaf": 1}, peer)


def root_weights(objective, more, data):
    """Sums of hessians over all rows before the first tree, ours and XGBoost's."""
    xgboost = pytest.importorskip("xgboost")
    X, y, sizes = data
    params = {"objective": objective, **more, "num_leaves": 2, "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1}
    ours = hb.train(params, hb.Dataset(X, y, group=sizes), 1).trees[0]
    qid = None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    theirs = xgboost.train(peer_params(params, "xgboost"), xgboost.DMatrix(X, y, qid=qid), 1)
    return ours.split_weight[0], float(theirs.get_dump(with_stats=True)[0].split("cover=")[1].split()[0])


@pytest.mark.parametrize("objective", ["lambdarank", "pairwise", "multiclass", "binary", "poisson"])
def test_hessians_of_xgboost_are_multiples_of_ours(objective):
    more = {"num_class": 5, "boost_from_average": False} if objective == "multiclass" else {}
    ours, theirs = root_weights(objective, more, few_levels(objective))
    factor = derivative_factors({"objective": objective, **more}, "xgboost")[1]
    assert theirs == pytest.approx(factor * ours, rel=1e-3)


MEDIANS = {"regression_l1", "quantile", "mape"}
"""Leaves are medians and the like; each library has its own rule between two neighbours."""


def approximates_medians(library):
    """Say whether a library's leaves are near medians and not medians: XGBoost's, from 3.4 on."""
    return library.__name__ == "xgboost" and tuple(map(int, library.__version__.split(".")[:2])) >= (3, 4)


@pytest.mark.parametrize("objective", list(OBJECTIVES))
@pytest.mark.parametrize("peer", ["lightgbm", "xgboost", "catboost"])
def test_two_leaves_of_a_peer_are_ours(peer, objective):
    """One feature with two values, so that there is nothing to choose: only the steps are compared."""
    library = pytest.importorskip(peer)
    if not has_objective(peer, objective):
        pytest.skip(f"{peer} has no such objective")
    if objective in MEDIANS and approximates_medians(library):
        pytest.skip(f"{peer} {library.__version__} approximates medians by smooth losses")
    X = np.repeat([[0.0], [1.0]], 200, axis=0)
    y = labels_for(objective, 4.0 * X[:, 0] - 1.0 + np.random.default_rng(0).normal(size=400))
    if objective == "fair":
        y /= 10.0  # farther than fair_c from the score our hessians are larger
    params = {**COMPARABLE, **params_for(objective), "lambda_l2": 5.0, "boost_from_average": False, "num_threads": 1}
    params |= {"num_leaves": 2, "num_iterations": 1, "learning_rate": 0.5, "precision": "high"}
    ours = hb.train(params, hb.Dataset(X, y)).predict(X[[0, -1]], raw_score=True)
    their_params = peer_params(params, peer)
    if peer == "lightgbm":
        theirs = library.train(their_params, library.Dataset(X, y, params=their_params), 1)
        theirs = theirs.predict(X[[0, -1]], raw_score=True)
    elif peer == "xgboost":
        theirs = library.train(their_params, library.DMatrix(X, y), 1)
        theirs = theirs.predict(library.DMatrix(X[[0, -1]]), output_margin=True)
    else:
        theirs = library.CatBoost(their_params).fit(X, y).predict(X[[0, -1]], prediction_type="RawFormulaVal")
    np.testing.assert_allclose(theirs, ours, rtol=2e-6, atol=0.02 if objective in MEDIANS else 1e-9)


def test_medians_of_catboosts_mape_are_weighted_by_residuals():
    """Hence its leaves are not ours, unless it starts from zero."""
    catboost = pytest.importorskip("catboost")
    X = np.repeat([[0.0], [1.0]], 200, axis=0)
    y = 4.0 * X[:, 0] + 3.0 + 3.0 * np.random.default_rng(0).normal(size=400)
    params = {**COMPARABLE, "objective": "mape", "num_leaves": 2, "num_iterations": 1, "learning_rate": 1.0}
    model = catboost.CatBoost(peer_params(params, "catboost")).fit(X, y)
    theirs = model.predict(X[[0, -1]], prediction_type="RawFormulaVal")
    start = model.get_scale_and_bias()[1]
    for rows, found in zip((X[:, 0] == 0.0, X[:, 0] == 1.0), theirs, strict=True):
        residuals = y[rows] - start
        of_residuals, of_labels = (
            start + weighted_percentile(residuals, 1.0 / np.maximum(1.0, np.abs(size)), 0.5)
            for size in (residuals, y[rows])
        )
        assert found == pytest.approx(of_residuals, abs=0.05)
        assert abs(found - of_labels) > 0.2


def few_levels(objective):
    """Features of nine levels: every library finds the same bins, so that trees can be compared number by number."""
    if objective in ("lambdarank", "pairwise"):
        X, y, sizes = make_ranking(40, seed=4)
        return np.clip(np.round(2.0 * X), -4.0, 4.0), y, sizes
    X, y = make_multiclass(800, 5, 6)
    y = y if objective == "multiclass" else (y > 2.0).astype(float)
    return np.clip(np.round(2.0 * X), -4.0, 4.0), y, None


@pytest.mark.parametrize("objective", ["lambdarank", "pairwise", "multiclass"])
@pytest.mark.parametrize(
    "more", [{}, {"lambda_l1": 0.5}, {"min_gain_to_split": 5.0}, {"max_delta_step": 0.3, "lambdarank_norm": False}]
)
def test_xgboost_takes_our_steps_unless_the_numbers_stay_the_same(objective, more):
    xgboost = pytest.importorskip("xgboost")
    X, y, sizes = few_levels(objective)
    if objective == "multiclass":
        more = {name: value for name, value in more.items() if not name.startswith("lambdarank")} | {"num_class": 5}
    if objective == "pairwise" and "max_delta_step" in more:  # else all leaves are cut off, and gains tie
        more = {**more, "max_delta_step": 2.0}
    params = {**COMPARABLE, "objective": objective, "num_leaves": 8, "learning_rate": 0.9, "num_threads": 1, **more}
    params |= {"lambda_l2": 1.0, "min_sum_hessian_in_leaf": 1.0, "precision": "high", "num_iterations": 3}
    booster = hb.train(params, hb.Dataset(X, y, group=sizes))
    ours = booster.predict(X, raw_score=True)
    qid = None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)

    def difference(same_numbers):
        theirs = peer_params(params, "xgboost", same_numbers)
        model = xgboost.train(theirs, xgboost.QuantileDMatrix(X, y, qid=qid, max_bin=theirs["max_bin"]), 3)
        apart = model.predict(xgboost.DMatrix(X), output_margin=True) - ours
        return float(np.abs(apart - apart.mean(axis=0)).max())  # where the scores start is each library's own

    assert difference(same_numbers=False) < 1e-5 * np.abs(ours).max()
    assert difference(same_numbers=True) > 1e-2


def test_leaves_of_catboost_may_have_fewer_rows_than_min_data_in_leaf():
    catboost = pytest.importorskip("catboost")
    X, y = quality_rows("regression", 0)
    params = {**COMPARABLE, "objective": "regression", "num_iterations": 1, "min_data_in_leaf": 200, "num_leaves": 31}
    leaf = catboost.CatBoost(peer_params(params, "catboost")).fit(X, y).calc_leaf_indexes(catboost.Pool(X))[:, 0]
    assert np.bincount(leaf).min() < 200
    ours = hb.train(params, hb.Dataset(X, y), 1).trees[0]
    assert ours.leaf_count.min() >= 200


def quality_rows(objective, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2500, 6))
    signal = X[:, 0] * 2.0 + np.abs(X[:, 1]) * X[:, 2] + rng.normal(size=2500) * 0.5 + 1.0
    label = labels_for(objective, signal)
    return X, rng.poisson(np.exp(0.4 * signal)).astype(float) if objective in ("poisson", "tweedie") else label


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name not in LIGHTGBM_LACKS])
def test_quality_is_lightgbms(objective):
    """The objective's own loss on held-out rows, both models judged by our metric."""
    lightgbm = pytest.importorskip("lightgbm")
    params = {**params_for(objective), "num_leaves": 15, "num_iterations": 40, "verbosity": -1}
    X, y = quality_rows(objective, 0)
    X_test, y_test = quality_rows(objective, 1)
    ours = hb.train(params, hb.Dataset(X, label=y))
    their_params = peer_params(params, "lightgbm")
    theirs = lightgbm.train(their_params, lightgbm.Dataset(X, y, params=their_params), num_boost_round=40)
    kind = OBJECTIVES[objective]
    loss = get_metric(kind.default_metric)

    def judge(predictions):
        raw = np.ascontiguousarray(np.atleast_2d(predictions.T))
        if isinstance(loss, MeanLoss):  # of predictions: no link between
            return loss(y_test, raw, None, CustomObjective(None, len(raw)))
        raise AssertionError(kind)

    start = np.broadcast_to(ours.predict(X[:1], num_iteration=1), ours.predict(X_test).shape)
    reached, peers, before = judge(ours.predict(X_test)), judge(theirs.predict(X_test)), judge(np.array(start))
    assert reached < before
    assert reached - peers < 0.03 * max(abs(before - peers), abs(peers)), (reached, peers, before)
