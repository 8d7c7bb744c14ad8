"""NumPy arrays of objects: strings where a feature is named categorical, numbers elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb

PARAMS = {"verbosity": -1, "min_data_in_leaf": 5, "cat_smooth": 1.0, "min_data_per_group": 5}


def made(n_rows=300):
    """Strings with None, a number with None, integers; and a target that depends on all of them."""
    rng = np.random.default_rng(0)
    name, number, code = rng.integers(0, 6, n_rows), rng.normal(size=n_rows), rng.integers(0, 9, n_rows)
    table = np.empty((n_rows, 3), object)
    table[:, 0] = [f"level {i}" if i else None for i in name]
    table[:, 1] = [None if value > 2.0 else value for value in number]
    table[:, 2] = code.tolist()
    return table, np.sin(name * 3.0) + number + np.cos(code * 5.0)


def frame_of(table):
    return pd.DataFrame(
        {"Column_0": table[:, 0], "Column_1": table[:, 1].astype(float), "Column_2": table[:, 2].astype(int)}
    )


@pytest.mark.parametrize("named", [[0], [0, 2]], ids=str)
def test_model_and_predictions_are_those_of_a_frame(named):
    table, y = made()
    params = {**PARAMS, "categorical_feature": named}
    boosters = [hb.train(params, hb.Dataset(data, label=y), 4) for data in (table, frame_of(table))]
    assert boosters[0].fingerprint() == boosters[1].fingerprint()
    assert boosters[0].feature_importance()[0] > 0
    assert boosters[0].predict(table).tolist() == boosters[0].predict(frame_of(table)).tolist()


def test_validation_and_cross_validation_take_them():
    table, y = made()
    train = hb.Dataset(table, label=y, categorical_features=[0])
    valid = hb.Dataset(table[:50], label=y[:50], reference=train)
    evaluated = hb.train(PARAMS, train, 3, valid_sets={"valid": valid})
    assert evaluated.eval_history
    assert hb.cv(PARAMS, hb.Dataset(table, label=y, categorical_features=[0]), 2, nfold=2, stratified=False)


def test_array_of_strings_alone():
    table, y = made()
    strings = table[:, :1].astype(str)
    assert strings.dtype.kind == "U"
    booster = hb.train(PARAMS, hb.Dataset(strings, label=y, categorical_features=[0]), 3)
    assert len(set(booster.predict(strings).tolist())) > 2


def test_large_integers_are_levels_of_their_own():
    table = np.array([[2**53 + i % 2] for i in range(200)], object)
    booster = hb.train(PARAMS, hb.Dataset(table, label=np.arange(200) % 2.0, categorical_features=[0]), 2)
    assert len(set(booster.predict(table).tolist())) == 2


def test_estimators_take_strings_of_named_features():
    table, y = made()
    model = hb.HornbeamRegressor(n_estimators=3, categorical_features=[0], **PARAMS).fit(table, y)
    assert model.predict(table).tolist() == model.booster_.predict(table).tolist()
    with pytest.raises(ValueError, match="could not convert"):
        hb.HornbeamRegressor(n_estimators=3).fit(table, y)


def test_strings_that_are_not_named_are_refused():
    table, y = made()
    for named in ("auto", [2]):
        with pytest.raises(hb.DataError, match=r"'0'; name these in categorical_features"):
            hb.Dataset(table, label=y, categorical_features=named).construct()
    booster = hb.train(PARAMS, hb.Dataset(table[:, 1:].astype(float), label=y), 1)
    with pytest.raises(hb.DataError, match=r"not numbers: '0' \(strings\)"):
        booster.predict(table[:, :2])


def test_other_objects_are_refused():
    table, y = made()
    table[3, 1] = {"a": 1}
    with pytest.raises(hb.DataError, match="column 1 cannot be read as numbers"):
        hb.Dataset(table, label=y, categorical_features=[0])
    table[3, 1], table[4, 0] = 0.0, 7
    with pytest.raises(hb.DataError, match="mixes integers and strings"):
        hb.Dataset(table, label=y, categorical_features=[0]).construct()
    table[4, 0] = {"a": 1}
    with pytest.raises(hb.DataError, match="no level"):
        hb.Dataset(table, label=y, categorical_features=[0]).construct()
