"""multi_strategy="multi_output_tree": one structure for all outputs, and the quality that XGBoost's trees have."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

PARAMS = {"num_leaves": 7, "max_bin": 31, "verbosity": -1, "num_threads": 1, "learning_rate": 0.3}
SHARED = {**PARAMS, "multi_strategy": "multi_output_tree"}
CLASSES = {"objective": "multiclass", "num_class": 3}


def make_rows(n_rows=600, seed=0, n_features=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    Y = np.stack([2 * X[:, 0] + X[:, 1], np.abs(X[:, 2]) + X[:, 0], X[:, 3] * X[:, 4]], axis=1)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, Y + 0.1 * rng.normal(size=Y.shape)


@pytest.fixture(scope="module")
def rows():
    return make_rows()


def labels_of(Y, params):
    if params.get("objective") == "multiclass":
        return np.argmax(Y, axis=1)
    return Y > 0 if params.get("objective") == "binary" else Y[:, 0] if "alpha" in params else Y


SITUATIONS = {
    "classes": CLASSES,
    "columns": {},
    "labels": {"objective": "binary", "is_unbalance": True},
    "quantiles": {"objective": "quantile", "alpha": [0.1, 0.5, 0.9]},
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_trees_of_an_iteration_have_one_structure(rows, name):
    X, Y = rows
    params = SITUATIONS[name]
    model = hb.train({**SHARED, **params}, hb.Dataset(X, labels_of(Y, params)), 4)
    for first in range(0, len(model.trees), 3):
        trees = model.trees[first : first + 3]
        for field in ("feature", "threshold", "missing_left", "left", "right", "gain", "leaf_count"):
            assert all((getattr(tree, field) == getattr(trees[0], field)).all() for tree in trees), field
        assert trees[0].n_leaves > 2
        assert (trees[0].leaf_value != trees[1].leaf_value).any()
    own = hb.train({**PARAMS, **params}, hb.Dataset(X, labels_of(Y, params)), 4)
    assert any(
        (a.n_splits, a.feature.tolist()) != (b.n_splits, b.feature.tolist())
        for a, b in zip(own.trees, model.trees, strict=True)
    )


def test_leaf_values_are_newton_steps_of_each_output(rows):
    X, Y = rows
    model = hb.train({**SHARED, "lambda_l2": 2.0, "boost_from_average": False}, hb.Dataset(X, Y), 1)
    leaf = model.predict(X, pred_leaf=True).reshape(len(X), -1)
    assert (leaf == leaf[:, :1]).all()
    for column in range(3):
        for number in range(model.trees[column].n_leaves):
            inside = leaf[:, 0] == number
            expected = 0.3 * Y[inside, column].sum() / (inside.sum() + 2.0)
            assert model.trees[column].leaf_value[number] == pytest.approx(expected, rel=1e-9)


def test_first_split_has_the_highest_sum_of_gains(rows):
    X, Y = np.nan_to_num(rows[0]), rows[1]
    model = hb.train(
        {**SHARED, "num_leaves": 2, "boost_from_average": False, "min_data_in_leaf": 20}, hb.Dataset(X, Y), 1
    )
    tree = model.trees[0]

    def gain(feature, threshold):
        left = X[:, feature] <= threshold
        if min(left.sum(), (~left).sum()) < 20:
            return -np.inf
        return sum(
            y[left].sum() ** 2 / left.sum() + y[~left].sum() ** 2 / (~left).sum() - y.sum() ** 2 / len(y) for y in Y.T
        )

    found = gain(tree.feature[0], tree.threshold[0])
    assert tree.gain[0] == pytest.approx(found, rel=1e-3)
    others = [gain(f, t) for f in range(X.shape[1]) for t in np.quantile(X[:, f], np.linspace(0.02, 0.98, 60))]
    assert found >= max(others) * (1 - 0.02)  # they are no thresholds of the bins


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_device_and_any_threads_make_the_model_of_the_reference(rows, name, device):
    X, Y = rows
    params = {**SHARED, **SITUATIONS[name]}
    label = labels_of(Y, params)
    weight = 1.0 + np.arange(len(X)) % 3
    models = []
    for where in ({"device": "reference"}, {"device": device}, {"device": device, "num_threads": 2}):
        data = hb.Dataset(X, label, weight=weight)
        valid = hb.Dataset(X[:50], label[:50], reference=data)
        models.append(hb.train({**params, **where}, data, 3, {"valid": valid}))
    assert len({model.fingerprint() for model in models}) == 1
    assert models[0].eval_history == models[1].eval_history


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("weight", [1.0, 1e-37, 1e37])
@pytest.mark.parametrize("sizes", [(1.0, 1.0, 1.0), (1e-9, 1.0, 1e9), (0.0, 1.0, 0.0)])
@pytest.mark.parametrize(
    "rules", [{"lambda_l2": 0.0, "min_sum_hessian_in_leaf": 0.0}, {"lambda_l1": 2.0}, {"max_delta_step": 0.3}]
)
def test_outputs_of_any_size_and_equal_gains_are_split_as_by_the_reference(rows, sizes, rules, weight, device):
    """Columns that divide the rows alike have equal gains: the lower one is split, whatever was looked at first."""
    X, Y = rows
    X = np.column_stack([-X, X, np.isnan(X[:, 0]), X[:, 1] > 0.4])
    given = {**SHARED, **rules, "min_data_in_leaf": 1}
    data = {"label": Y * sizes, "weight": np.full(len(X), weight)}
    found, defined = (
        hb.train({**given, "device": on}, hb.Dataset(X, **data), 2).fingerprint() for on in (device, "reference")
    )
    assert found == defined


@pytest.mark.parametrize(
    "changes",
    [
        {"bagging_freq": 1, "bagging_fraction": 0.6},
        {"data_sample_strategy": "goss", "learning_rate": 0.6},
        {"feature_fraction": 0.5},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        {"boosting": "dart", "drop_rate": 0.5},
        {"num_parallel_tree": 2, "bagging_freq": 1, "bagging_fraction": 0.6},
        {"grow_policy": "depthwise", "max_depth": 3},
        {"histogram_pool_size": 0.03, "num_leaves": 20},
        {"min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 3.0},
        {"zero_as_missing": True},
        {"max_bin": 300, "min_data_in_bin": 1},
    ],
    ids=str,
)
def test_goes_with(rows, changes):
    X, Y = rows
    fingerprints = {
        hb.train(
            {**SHARED, **CLASSES, **changes, "device": where}, hb.Dataset(X, np.argmax(Y, axis=1)), 4
        ).fingerprint()
        for where in ("reference", "cpu")
    }
    assert len(fingerprints) == 1


def test_one_output_is_as_ever(rows):
    X, Y = rows
    models = [hb.train(params, hb.Dataset(X, Y[:, 0]), 3) for params in (PARAMS, SHARED)]
    assert (models[0].predict(X) == models[1].predict(X)).all()


def test_model_comes_back_goes_on_and_explains_itself(rows, tmp_path):
    X, Y = rows
    whole = hb.train({**SHARED, **CLASSES}, hb.Dataset(X, np.argmax(Y, axis=1)), 4)
    whole[:2].save(tmp_path / "model.json")
    again = hb.load(tmp_path / "model.json")
    data = hb.Dataset(X, np.argmax(Y, axis=1))
    assert hb.train({**SHARED, **CLASSES}, data, 2, init_model=again).fingerprint() == whole.fingerprint()
    parts = whole.predict(X[:20], pred_contrib=True).reshape(20, 3, -1)
    assert np.allclose(parts.sum(axis=2), whole.predict(X[:20], raw_score=True), atol=1e-9)


def test_functions_of_the_user(rows):
    X, Y = rows

    def squares(scores, data):
        return scores - data.get_label(), np.ones_like(scores)

    own = hb.train({**SHARED, "objective": squares}, hb.Dataset(X, Y), 3)
    named = hb.train({**SHARED, "boost_from_average": False}, hb.Dataset(X, Y), 3)
    assert (own.predict(X) == named.predict(X)).all()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"monotone_constraints": [1, 0, 0, 0, 0, 0]}, "constraints"),
        ({"interaction_constraints": [[0, 1], [2, 3]]}, "constraints"),
        ({"forcedsplits_filename": {"feature": 0, "threshold": 0.0}}, "forced"),
        ({"extra_trees": True}, "extra_trees"),
        ({"path_smooth": 2.0}, "path_smooth"),
        ({"feature_fraction_bynode": 0.5}, "by level or node"),
        ({"feature_fraction_bylevel": 0.5}, "by level or node"),
        ({"cegb_penalty_split": 0.1}, "prices of splits"),
        ({"feature_contri": [0.5] * 6}, "feature_contri"),
        ({"tree_method": "exact"}, "tree_method='exact'"),
        ({"tree_method": "approx"}, "tree_method='approx'"),
        ({"categorical_feature": [5], "target_encoding_levels": -1}, "categorical features"),
    ],
    ids=str,
)
def test_what_they_do_not_go_with_is_said_before_training(rows, changes, match):
    X, Y = rows[0].copy(), rows[1]
    X[:, 5] = np.nan_to_num(np.abs(X[:, 5])).astype(int)
    with pytest.raises(hb.ParameterError, match=f"multi_output_tree.*{match}"):
        hb.train({**SHARED, **changes}, hb.Dataset(X, Y), 1)


def test_sparse_storage_and_workers_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    X = sparse.random(6000, 600, 0.01, "csr", random_state=0)
    Y = rng.normal(size=(6000, 2))
    with pytest.raises(hb.ParameterError, match="is_enable_sparse=False"):
        hb.train(SHARED, hb.Dataset(X, Y), 1)
    dense = hb.train({**SHARED, "is_enable_sparse": False, "enable_bundle": False}, hb.Dataset(X, Y), 1)
    assert dense.n_iterations == 1


def test_unknown_strategies_are_refused(rows):
    with pytest.raises(hb.ParameterError, match="multi_strategy"):
        hb.train({**PARAMS, "multi_strategy": "all"}, hb.Dataset(*rows), 1)


@pytest.mark.parametrize("kind", ["columns", "classes", "labels"])
def test_quality_is_that_of_xgboost(kind):
    xgb = pytest.importorskip("xgboost")
    X, Y = make_rows(9000, seed=3)
    X, Y, X_test, Y_test = X[:5000], Y[:5000], X[5000:], Y[5000:]
    label = {
        "columns": lambda Y: Y,
        "classes": lambda Y: np.argmax(Y, axis=1),
        "labels": lambda Y: (Y > 0).astype(int),
    }[kind]
    theirs = {"columns": {"objective": "reg:squarederror"}, "classes": {"objective": "multi:softprob", "num_class": 3},
              "labels": {"objective": "binary:logistic"}}[kind]  # fmt: skip
    shared = {**theirs, "multi_strategy": "multi_output_tree", "max_depth": 4, "eta": 0.2, "lambda": 1.0,
              "min_child_weight": 1.0, "max_bin": 256}  # fmt: skip
    booster = xgb.train({**shared, "tree_method": "hist", "nthread": 1}, xgb.DMatrix(X, label(Y)), 40)
    own = {**shared, "grow_policy": "depthwise", "num_leaves": 16, "min_data_in_leaf": 1, "verbosity": -1}
    model = hb.train(own, hb.Dataset(X, label(Y)), 40)

    def loss(predicted):
        truth = label(Y_test)
        if kind == "columns":
            return np.sqrt(np.mean((predicted - truth) ** 2))
        if kind == "classes":
            return -np.log(predicted[np.arange(len(truth)), truth]).mean()
        return -np.mean(truth * np.log(predicted) + (1 - truth) * np.log(1 - predicted))

    found, expected = loss(model.predict(X_test)), loss(booster.predict(xgb.DMatrix(X_test)))
    assert found < expected * 1.003, (found, expected)
