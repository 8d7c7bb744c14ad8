"""What a script written for LightGBM relies on: columns of categories, and what a Dataset says of itself."""

import numpy as np
import pandas as pd
import pytest

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
