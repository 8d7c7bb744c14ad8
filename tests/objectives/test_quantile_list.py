"""A list of quantiles: one model whose outputs are those of a model for each."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

ALPHAS = [0.1, 0.5, 0.9]
PARAMS = {"objective": "quantile", "num_leaves": 7, "max_bin": 31, "verbosity": -1, "num_threads": 1}


def make_rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    return X, X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + (0.3 + 0.3 * (X[:, 3] > 0.0)) * rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def rows():
    return make_rows(600, 0)


@pytest.fixture(scope="module")
def model(rows):
    return hb.train({**PARAMS, "alpha": ALPHAS}, hb.Dataset(*rows), 5)


def pinball(label, predicted, alpha):
    """The loss of each row."""
    apart = label - predicted
    return np.maximum(alpha * apart, (alpha - 1.0) * apart)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_outputs_are_those_of_a_model_for_each(rows, weighted):
    X, y = rows
    weight = 0.5 + np.random.default_rng(1).random(len(y)) if weighted else None
    several = hb.train({**PARAMS, "quantile_alpha": ALPHAS}, hb.Dataset(X, y, weight=weight), 4).predict(X)
    assert several.shape == (len(y), 3)
    for output, alpha in enumerate(ALPHAS):
        alone = hb.train({**PARAMS, "alpha": alpha}, hb.Dataset(X, y, weight=weight), 4)
        assert (several[:, output] == alone.predict(X)).all()


def test_a_list_of_one_is_a_number(rows):
    one, same = (hb.train({**PARAMS, "alpha": alpha}, hb.Dataset(*rows), 2) for alpha in ([0.3], 0.3))
    assert one.fingerprint() == same.fingerprint()


def test_model_comes_back_from_a_file_and_goes_on(rows, model, tmp_path):
    path = tmp_path / "model.json"
    model[:3].save(path)
    again = hb.load(path)
    assert (again.predict(rows[0]) == model.predict(rows[0], num_iteration=3)).all()
    params = {**PARAMS, "alpha": ALPHAS}
    assert hb.train(params, hb.Dataset(*rows), 2, init_model=again).fingerprint() == model.fingerprint()


def test_refitting_on_the_same_rows_gives_the_same_model(rows, model):
    again = model.refit(*rows, decay_rate=0.0)
    assert np.allclose(again.predict(rows[0]), model.predict(rows[0]), rtol=1e-9, atol=1e-9)


def test_metric_is_the_mean_over_the_quantiles(rows):
    X, y = rows
    valid = hb.Dataset(*make_rows(300, 2))
    model = hb.train({**PARAMS, "alpha": ALPHAS}, hb.Dataset(X, y), 3, {"valid": valid})
    predicted = model.predict(valid.data)
    expected = np.mean([pinball(valid.label, predicted[:, k], alpha).mean() for k, alpha in enumerate(ALPHAS)])
    assert model.eval_history["valid"]["quantile"][-1] == pytest.approx(expected, rel=1e-12)


def test_other_libraries_read_the_model(rows, model, tmp_path):
    xgb = pytest.importorskip("xgboost")
    model.save(tmp_path / "model.json", format="xgboost-json", approximate=True)
    theirs = xgb.Booster(model_file=tmp_path / "model.json").predict(xgb.DMatrix(rows[0].astype(np.float32)))
    assert np.allclose(theirs, model.predict(rows[0].astype(np.float32)), rtol=1e-5, atol=1e-5)
    again = hb.load(tmp_path / "model.json")
    assert list(again.params["alpha"]) == ALPHAS and again.objective.n_outputs == 3
    model.save(tmp_path / "model.txt", format="lightgbm", approximate=True)
    assert np.allclose(hb.load(tmp_path / "model.txt").predict(rows[0]), model.predict(rows[0]), rtol=1e-12)


def test_quantiles_are_as_good_as_xgboosts():
    xgb = pytest.importorskip("xgboost")
    (X, y), (X_valid, y_valid) = make_rows(3000, 3), make_rows(3000, 4)
    shared = {"quantile_alpha": ALPHAS, "learning_rate": 0.1, "max_depth": 4, "max_bin": 63, "nthread": 1}
    theirs = xgb.train(
        {**shared, "objective": "reg:quantileerror", "verbosity": 0, "min_child_weight": 20}, xgb.DMatrix(X, y), 60
    ).predict(xgb.DMatrix(X_valid))
    further = {"objective": "quantile", "num_leaves": 16, "grow_policy": "depthwise", "lambda_l2": 1.0}
    ours = hb.train({**shared, **further, "verbosity": -1}, hb.Dataset(X, y), 60).predict(X_valid)
    losses = [
        np.mean([pinball(y_valid, predicted[:, k], alpha).mean() for k, alpha in enumerate(ALPHAS)])
        for predicted in (ours, theirs)
    ]
    assert losses[0] <= losses[1] * 1.003


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": [0.1, 1.5]}, "a list of different quantiles between 0 and 1"),
        ({"alpha": [0.1, 0.1]}, "a list of different quantiles"),
        ({"alpha": []}, "a list of different quantiles"),
        ({"alpha": [0.1, "x"]}, "must be a number"),
        ({"alpha": [0.1, 0.9], "objective": "huber"}, "is for objective='quantile', not 'huber'"),
        ({"alpha": [0.1, 0.9], "metric": "l1"}, "metric='l1' does not fit .* use one of quantile"),
    ],
)
def test_lists_that_are_no_quantiles_are_errors(rows, params, message):
    with pytest.raises(hb.ParameterError, match=message):
        hb.train({**PARAMS, **params}, hb.Dataset(*rows), 1)
