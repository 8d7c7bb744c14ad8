"""Models that cut the numbers of a categorical feature to whole ones: LightGBM's format holds them, no other does."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

N_ROWS = 300
PARAMS = {"num_leaves": 6, "device": "reference", "verbosity": -1, "min_data_per_group": 5, "max_cat_to_onehot": 1}


def make_rows():
    rng = np.random.default_rng(2)
    level = rng.integers(0, 8, N_ROWS)
    numbers = np.where(np.arange(N_ROWS) % 23 == 0, np.nan, level + 0.9 * rng.random(N_ROWS))
    numbers[5:8] = [-0.5, -1.5, -3.0]
    return np.column_stack([rng.normal(size=N_ROWS), numbers]), (level % 3 == 1) * 2.0 + rng.normal(size=N_ROWS)


X, Y = make_rows()
WHOLE = np.column_stack([X[:, 0], np.trunc(X[:, 1])])


@pytest.fixture(scope="module")
def booster():
    return hb.train(PARAMS, hb.Dataset(X, label=Y, categorical_features=[1]), 5)


def test_lightgbm_predicts_what_hornbeam_does(booster, tmp_path):
    peer = pytest.importorskip("lightgbm")
    booster.save(tmp_path / "model.txt", format="lightgbm")
    theirs = peer.Booster(model_file=tmp_path / "model.txt")
    for rows in (X, WHOLE):
        assert np.array_equal(theirs.predict(rows, raw_score=True), booster.predict(rows, raw_score=True))


def test_the_model_file_keeps_that_numbers_are_cut(booster, tmp_path):
    booster.save(tmp_path / "model.json")
    again = hb.load(tmp_path / "model.json")
    assert again.fingerprint() == booster.fingerprint()
    assert np.array_equal(again.predict(X), booster.predict(WHOLE))


@pytest.mark.parametrize("format", ["xgboost-json", "xgboost-ubj", "onnx", "treelite", "c", "python"])
@pytest.mark.parametrize("approximate", [False, True])
def test_formats_that_do_not_cut_refuse_the_model(format, approximate, booster, tmp_path):
    with pytest.raises(hb.ConversionError, match=r"'Column_1' was cut to whole numbers.*'hornbeam' and 'lightgbm'"):
        booster.save(tmp_path / "model", format=format, approximate=approximate)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["xgboost-json", "c"])
def test_the_model_of_whole_numbers_is_written(format, tmp_path):
    whole = hb.train(PARAMS, hb.Dataset(WHOLE, label=Y, categorical_features=[1]), 5)
    whole.save(tmp_path / "model", format=format)
    assert (tmp_path / "model").stat().st_size > 0
