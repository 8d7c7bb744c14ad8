"""What a script written for LightGBM relies on: columns of categories, and what a Dataset says of itself."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix

import hornbeam as hb

lightgbm = pytest.importorskip("lightgbm")

RANDOM = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "size": pd.Categorical(RANDOM.choice(["l", "m", "s"], 300), categories=["s", "m", "l"], ordered=True),
        "city": pd.Categorical(RANDOM.choice(["u", "v"], 300)),
        "x": RANDOM.normal(size=300),
    }
)
Y = FRAME.x + FRAME["size"].cat.codes
SMALL = {"num_leaves": 5, "device": "reference", "verbosity": 0}


def test_ordered_categories_are_named_once_where_lightgbm_takes_them_for_numbers(caplog):
    data = hb.Dataset(FRAME, Y)
    hb.train(SMALL, data, 1)
    hb.train(SMALL, data, 1, [hb.Dataset(FRAME, Y, reference=data)])
    assert caplog.text.count("ordered categories") == 1 and "X['size'].cat.codes" in caplog.text
    caplog.clear()
    hb.cv(SMALL, hb.Dataset(FRAME, Y), 1, nfold=2, stratified=False)
    assert caplog.text.count("ordered categories") == 1
    caplog.clear()
    hb.LGBMRegressor(n_estimators=1, device="reference", verbosity=0).fit(FRAME, Y)
    assert caplog.text.count("ordered categories") == 1


def test_ordered_categories_are_not_named_where_levels_are_meant(caplog):
    for fit in (
        lambda: hb.train(SMALL, hb.Dataset(FRAME, Y, categorical_feature=["size", "city"]), 1),
        lambda: hb.train({**SMALL, "categorical_feature": ["size", "city"]}, hb.Dataset(FRAME, Y), 1),
        lambda: hb.train(SMALL, hb.Dataset(FRAME, Y, categorical_features="from_dtype").subset(range(200)), 1),
        lambda: hb.train(SMALL, hb.DMatrix(FRAME, Y, enable_categorical=True), 1),
        lambda: hb.HornbeamRegressor(
            n_estimators=1, device="reference", verbosity=0, categorical_features="from_dtype"
        ).fit(FRAME, Y),
        lambda: hb.XGBRegressor(n_estimators=1, device="reference", verbosity=0, enable_categorical=True).fit(FRAME, Y),
        lambda: hb.train({**SMALL, "verbosity": -1}, hb.Dataset(FRAME, Y), 1),
        lambda: hb.train(SMALL, hb.Dataset(FRAME[["city", "x"]], Y), 1),
    ):
        fit()
        assert "ordered" not in caplog.text


@pytest.mark.parametrize("frame", [FRAME[["city", "x"]], FRAME[["x"]], FRAME[["x"]].to_numpy()])
def test_a_dataset_knows_its_categories_and_the_rows_of_a_subset(frame):
    found = []
    for library in (hb, lightgbm):
        data = library.Dataset(frame, Y, free_raw_data=False)
        before = data.pandas_categorical
        data.construct()
        subset = data.subset([1, 5, 7])
        found.append((before, data.pandas_categorical, data.used_indices, subset.used_indices))
    assert found[0] == found[1]


def test_a_dataset_shows_the_parameters_that_it_and_its_training_were_given():
    shown = []
    for library, own in ((hb, {"device": "reference"}), (lightgbm, {})):
        data = library.Dataset(FRAME[["x"]], Y, params={"max_bin": 30, "verbosity": -1})
        before = dict(data.params)
        library.train({"verbosity": -1, "num_leaves": 5, **own}, data, 2)
        shown.append((before, data.params["max_bin"], data.params["num_leaves"], data.params["verbosity"]))
    assert shown[0] == shown[1]
    function = hb.Dataset(FRAME[["x"]], Y)
    hb.train({**SMALL, "objective": lambda s, d: (s - d.label, s * 0 + 1)}, function, 1)
    assert pickle.loads(pickle.dumps(function)).params["num_leaves"] == 5


@pytest.mark.parametrize("columns", [["z", "b", "c"], ["b", "a", "c"], ["a", "b"], ["a", "b", "c", "d"]])
def test_other_columns_than_those_of_an_estimator_are_an_error_of_both_kinds(columns):
    X = RANDOM.normal(size=(300, 3))
    model = hb.LGBMRegressor(n_estimators=1, verbose=-1, device="reference").fit(
        pd.DataFrame(X, columns=list("abc")), Y
    )
    other = pd.DataFrame(RANDOM.normal(size=(5, len(columns))), columns=columns)
    for kind in (hb.basic.LightGBMError, ValueError):
        with pytest.raises(kind, match="feature"):
            model.predict(other, validate_features=True)


def test_columns_beyond_those_of_the_model_can_be_passed_over():
    X = RANDOM.normal(size=(300, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    for library, own in ((hb, {"device": "reference"}), (lightgbm, {})):
        booster = library.train({"verbosity": -1, "num_leaves": 5, **own}, library.Dataset(frame[list("abc")], Y), 2)
        expected = booster.predict(frame[list("abc")])
        for table in (X, frame, csr_matrix(X), pa.table(frame)):
            given = {"predict_disable_shape_check": True}
            np.testing.assert_array_equal(booster.predict(table, **given), expected)
            with pytest.raises(library.basic.LightGBMError):
                booster.predict(table)


def test_parameters_of_growth_have_no_effect_in_a_refit(caplog):
    X = RANDOM.normal(size=(300, 3))
    booster = hb.train({**SMALL, "lambda_l2": 2.0}, hb.Dataset(X, Y), 3)
    plain = booster.refit(X, Y + X[:, 0], decay_rate=0.5)
    with caplog.at_level("INFO", "hornbeam"):
        same = booster.refit(X, Y + X[:, 0], 0.5, learning_rate=0.3, num_threads=1, force_col_wise=True, lambda_l2=2.0)
    assert same.fingerprint() == plain.fingerprint()
    assert "without effect in a refit: learning_rate, num_threads" in caplog.text and "force_col_wise" in caplog.text
    with pytest.raises(hb.ParameterError, match=r"lambda_l2=1\.0.*lambda_l2=2\.0"):
        booster.refit(X, Y, reg_lambda=1.0)
    with pytest.raises(hb.ParameterError, match="unknown parameter"):
        booster.refit(X, Y, no_such=1.0)
    theirs = lightgbm.train({"verbosity": -1, "num_leaves": 5}, lightgbm.Dataset(X, Y), 3)
    pair = [theirs.refit(X, Y + X[:, 0], 0.5, **more).predict(X) for more in ({}, {"learning_rate": 0.3})]
    np.testing.assert_array_equal(*pair)
