"""`process_type="update"`: a model's trees with leaf values of new data, beside XGBoost."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 5))
Y = X[:, 0] + X[:, 1] ** 2 + 5
TARGETS = {
    "reg:squarederror": Y,
    "binary:logistic": (Y > 6).astype(float),
    "multi:softprob": np.digitize(Y, [5.0, 6.5]),
    "count:poisson": np.round(Y - Y.min()),
}
UPDATE = {"process_type": "update", "updater": "refresh"}
SMALL = {"max_depth": 3, "eta": 0.3}


def matrices(library, y):
    return library.DMatrix(X[:300], y[:300]), library.DMatrix(X[300:], y[300:])


@pytest.mark.parametrize("objective", TARGETS)
def test_leaf_values_are_those_of_xgboost(objective, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    y = TARGETS[objective]
    params = {**SMALL, "objective": objective, **({"num_class": 3} if "multi" in objective else {})}
    path = str(tmp_path / "model.json")
    xgboost.train(params, matrices(xgboost, y)[0], 8).save_model(path)
    found = []
    for library in (xgboost, hb):
        old, new = matrices(library, y)
        evaluations: dict = {}
        updated = library.train(
            {**params, **UPDATE, "lambda": 2.0, "min_child_weight": 5.0}, new, 6, evals=[(new, "new"), (old, "old")],
            evals_result=evaluations, verbose_eval=False, xgb_model=library.Booster(model_file=path),
        )  # fmt: skip
        assert updated.num_boosted_rounds() == 6
        found.append((updated.predict(new, output_margin=True), evaluations))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5, atol=1e-5)
    assert {name: list(one) for name, one in found[1][1].items()} == {n: list(one) for n, one in found[0][1].items()}
    for name in ("new", "old") if objective != "count:poisson" else ():  # which differ by a constant
        for metric, values in found[0][1][name].items():
            np.testing.assert_allclose(found[1][1][name][metric], values, rtol=1e-4)


def test_margins_and_weights_count_as_in_xgboost(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    path, found = str(tmp_path / "model.json"), []
    xgboost.train(SMALL, matrices(xgboost, Y)[0], 6).save_model(path)
    for library in (xgboost, hb):
        new = library.DMatrix(X[300:], Y[300:], weight=1 + np.abs(X[300:, 2]), base_margin=3 * X[300:, 0])
        updated = library.train({**SMALL, **UPDATE}, new, 6, xgb_model=library.Booster(model_file=path))
        found.append((updated.predict(new), updated.predict(library.DMatrix(X[:300]))))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_the_splits_stay_and_the_model_too():
    old, new = matrices(hb, Y)
    model = hb.train(SMALL, old, 5)
    before = model.fingerprint()
    updated = hb.train({**SMALL, **UPDATE}, new, 5, xgb_model=model, verbose_eval=False)
    assert model.fingerprint() == before != updated.fingerprint()
    for one, other in zip(model.trees, updated.trees, strict=True):
        np.testing.assert_array_equal(one.threshold, other.threshold)
        np.testing.assert_array_equal(one.feature, other.feature)
    same = hb.train({**SMALL, **UPDATE}, old, 5, xgb_model=model, verbose_eval=False)
    np.testing.assert_allclose(same.predict(old), model.predict(old), rtol=1e-3)


def test_the_model_is_the_same_on_every_device(device):
    old, new = matrices(hb, Y)
    params = {**SMALL, "device": device}
    model = hb.train(params, old, 4)
    updated = hb.train({**params, **UPDATE}, new, 4, xgb_model=model, verbose_eval=False)
    expected = hb.train({**SMALL, "device": "reference"}, old, 4)
    expected = hb.train({**SMALL, **UPDATE, "device": "reference"}, new, 4, xgb_model=expected, verbose_eval=False)
    assert updated.fingerprint() == expected.fingerprint()


def test_callbacks_follow_it():
    old, new = matrices(hb, Y)
    model = hb.train(SMALL, old, 30)
    seen = []
    updated = hb.train(
        {**SMALL, **UPDATE}, new, 30, evals=[(old, "old")], xgb_model=model, verbose_eval=False,
        early_stopping_rounds=2, callbacks=[lambda env: seen.append(env.model.num_boosted_rounds())],
    )  # fmt: skip
    assert seen == list(range(1, len(seen) + 1))
    assert updated.num_boosted_rounds() == len(seen)


@pytest.mark.parametrize(
    ("params", "rounds", "with_model", "message"),
    [
        ({}, 3, False, "pass it, xgb_model="),
        ({}, 9, True, "9 rounds of process_type='update', but the model has 5"),
        ({}, 0, True, "num_boost_round"),
        ({}, "three", True, "num_boost_round"),
        ({"updater": "prune"}, 3, True, "updater='prune'"),
        ({"refresh_leaf": 0}, 3, True, "leave process_type out"),
        ({"objective": "binary:logistic"}, 3, True, "objective"),
    ],
)
def test_what_cannot_be_updated_is_an_error(params, rounds, with_model, message):
    old, new = matrices(hb, TARGETS["binary:logistic"])
    model = hb.train(SMALL, old, 5) if with_model else None
    with pytest.raises(hb.ParameterError, match=message):
        hb.train({**SMALL, **UPDATE, **params}, new, rounds, xgb_model=model, verbose_eval=False)


def test_checkpoints_and_estimators_have_none():
    old, new = matrices(hb, Y)
    model = hb.train(SMALL, old, 2)
    with pytest.raises(hb.ParameterError, match="checkpoint"):
        hb.train({**SMALL, **UPDATE}, new, 2, xgb_model=model, checkpoint="state.bin")
    with pytest.raises(hb.ParameterError, match=r"train\(params, data, n, xgb_model=model\)"):
        hb.XGBRegressor(process_type="update").fit(X, Y)
