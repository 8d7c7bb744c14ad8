"""Trees side by side (num_parallel_tree): iterations of several trees from the same gradients."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.data import make_higgs_like

PARAMS = {"objective": "binary", "num_parallel_tree": 3, "feature_fraction": 0.5, "learning_rate": 0.3}
PARAMS |= {"num_leaves": 7, "max_bin": 31, "verbosity": -1, "num_threads": 1}


@pytest.fixture(scope="module")
def rows():
    return make_higgs_like(800, 8, seed=0)


@pytest.fixture(scope="module")
def model(rows):
    return hb.train(PARAMS, hb.Dataset(*rows), 4)


def test_an_iteration_has_several_trees(rows, model):
    X = rows[0]
    assert (model.num_trees(), model.n_iterations, model.num_boosted_rounds()) == (12, 4, 4)
    assert model.num_model_per_iteration() == 3 and model.trees_per_iteration == 3
    assert model.predict(X, pred_leaf=True, num_iteration=2).shape == (800, 6)
    two = model.predict(X, num_iteration=2, raw_score=True)
    assert (model[:2].predict(X, raw_score=True) == two).all()
    assert (list(model.staged_predict(X, raw_score=True))[1] == two).all()
    leaves = model.predict(X, pred_leaf=True, num_iteration=2)
    by_hand = np.full(800, model.init_scores[0])
    for number in range(6):
        by_hand = by_hand + model.trees[number].leaf_value[leaves[:, number]]
    assert (by_hand == two).all()
    assert hb.merge([model[:1], model[1:]]).fingerprint() == model.fingerprint()


def test_trees_of_an_iteration_differ_and_share_the_learning_rate(model):
    assert {tree.shrinkage for tree in model.trees} == {0.3 / 3}
    firsts = {tuple(tree.feature.tolist()) for tree in model.trees[:6]}
    assert len(firsts) >= 4


def test_trees_of_an_iteration_see_the_same_gradients(rows):
    """Without draws they are equal, and add up to the tree of one."""
    params = {**PARAMS, "feature_fraction": 1.0}
    several, one = (hb.train({**params, "num_parallel_tree": n}, hb.Dataset(*rows), 2) for n in (4, 1))
    assert all((tree.split_value == several.trees[0].split_value).all() for tree in several.trees[:4])
    assert np.allclose(several.predict(rows[0], raw_score=True), one.predict(rows[0], raw_score=True), rtol=1e-12)


def test_equal_trees_are_a_warning(rows, caplog):
    hb.train({**PARAMS, "feature_fraction": 1.0, "verbosity": 0}, hb.Dataset(*rows), 1)
    assert "the trees of an iteration are the same" in caplog.text


def test_model_comes_back_from_a_file_and_goes_on(rows, model, tmp_path):
    path = tmp_path / "model.json"
    model[:2].save(path)
    assert hb.load(path).n_iterations == 2
    assert hb.train(PARAMS, hb.Dataset(*rows), 2, init_model=path).fingerprint() == model.fingerprint()
    live = hb.Booster(PARAMS, hb.Dataset(*rows))
    for _ in range(5):
        live.update()
    live.rollback_one_iter()
    assert live.fingerprint() == model.fingerprint()
    with pytest.raises(hb.ParameterError, match="num_parallel_tree=3, now it is 2"):
        hb.train({**PARAMS, "num_parallel_tree": 2}, hb.Dataset(*rows), 1, init_model=path)


def test_checkpoint_goes_on_with_the_same_model(rows, model, tmp_path):
    kept = tmp_path / "run.ckpt"
    hb.train(PARAMS, hb.Dataset(*rows), 2, checkpoint=kept, checkpoint_freq=1)
    assert hb.train(PARAMS, hb.Dataset(*rows), 4, checkpoint=kept).fingerprint() == model.fingerprint()


def test_early_stopping_counts_iterations(rows):
    X, y = rows
    train_set, valid = hb.Dataset(X[:500], y[:500]), hb.Dataset(X[500:], y[500:])
    stopped = hb.train(
        {**PARAMS, "learning_rate": 1.0}, train_set, 60, {"valid": valid}, callbacks=[hb.early_stopping(3)]
    )
    values = stopped.eval_history["valid"]["binary_logloss"]
    assert stopped.best_iteration == int(np.argmin(values)) + 1 and stopped.n_iterations == len(values)


def test_refitting_on_the_same_rows_gives_the_same_model(rows, model):
    again = model.refit(*rows, decay_rate=0.0)
    assert np.allclose(again.predict(rows[0]), model.predict(rows[0]), rtol=1e-9)


def test_contributions_add_up(rows, model):
    few = rows[0][:20]
    assert np.allclose(model.predict(few, pred_contrib=True).sum(axis=1), model.predict(few, raw_score=True), rtol=1e-9)


def test_boosted_forest_is_as_good_as_xgboosts():
    """Draws differ, so that the loss may be a little higher or lower."""
    xgb = pytest.importorskip("xgboost")
    X, y = make_higgs_like(3000, 10, seed=1)
    X_valid, y_valid = make_higgs_like(3000, 10, seed=2)
    shared = {
        "objective": "binary:logistic",
        "num_parallel_tree": 4,
        "learning_rate": 0.3,
        "max_depth": 4,
        "nthread": 1,
    }
    shared |= {"subsample": 0.7, "colsample_bynode": 0.8, "max_bin": 63, "min_child_weight": 1.0, "seed": 3}
    theirs = xgb.train({**shared, "verbosity": 0}, xgb.DMatrix(X, y), 25).predict(xgb.DMatrix(X_valid))
    further = {"bagging_freq": 1, "num_leaves": 16, "lambda_l2": 1.0, "min_data_in_leaf": 1, "verbosity": -1}
    ours = hb.train({**shared, **further, "grow_policy": "depthwise"}, hb.Dataset(X, y), 25).predict(X_valid)
    losses = [-np.mean(np.log(np.where(y_valid > 0, p, 1.0 - p))) for p in (ours, np.asarray(theirs, np.float64))]
    assert losses[0] <= losses[1] * 1.01


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"boosting": "dart"}, "use boosting='gbdt'"),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, "raise num_iterations instead"),
        ({"objective": "quantile"}, "percentiles of what the trees before"),
        ({"num_parallel_tree": 0}, "num_parallel_tree=0: must be an integer"),
    ],
)
def test_what_does_not_go_with_trees_side_by_side_is_an_error(rows, params, message):
    with pytest.raises(hb.ParameterError, match=message):
        hb.train({**PARAMS, **params}, hb.Dataset(*rows), 1)
