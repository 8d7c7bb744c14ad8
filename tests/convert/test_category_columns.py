"""Columns of a category type in LightGBM's text: lists of integers, and ordered categories, which are numbers there."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hornbeam as hb

lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
N = 600
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "number": pd.Categorical(RNG.choice([10, 20, 5], N)),
        "word": pd.Categorical(RNG.choice(list("cab"), N), categories=list("cab")),
        "flag": pd.Categorical(RNG.choice([True, False], N)),
        "whole": RNG.integers(0, 5, N),
    }
)
FRAME.loc[:30, "number"] = np.nan
Y = FRAME.x + FRAME.number.astype(float).fillna(7.0) / 5 + FRAME.word.cat.codes + 2.0 * FRAME.flag.cat.codes
PARAMS = {"num_leaves": 15, "verbosity": -1}


def trained(frame=FRAME, **choices):
    return hb.train(PARAMS, hb.Dataset(frame, Y, **choices), 5)


@pytest.mark.parametrize("named", ["auto", ["number", "word", "flag", "whole"]])
def test_lightgbm_predicts_alike_from_integers_of_a_category_type(named, tmp_path):
    booster = trained(categorical_feature=named)
    booster.save(tmp_path / "model.txt", format="lightgbm")
    texts = [booster.model_to_string(), (tmp_path / "model.txt").read_text()]
    for theirs in (lightgbm.Booster(model_str=text) for text in texts):
        assert theirs.pandas_categorical == [[5, 10, 20], ["a", "b", "c"], [False, True]]
        np.testing.assert_allclose(theirs.predict(FRAME), booster.predict(FRAME), rtol=1e-12)
    assert booster.dump_model()["pandas_categorical"] == theirs.pandas_categorical
    again = hb.load(tmp_path / "model.txt")
    np.testing.assert_allclose(again.predict(FRAME), booster.predict(FRAME), rtol=1e-12)
    theirs = lightgbm.Booster(model_str=again.model_to_string())
    np.testing.assert_allclose(theirs.predict(FRAME), booster.predict(FRAME), rtol=1e-12)


def test_lists_are_those_that_lightgbm_writes():
    theirs = lightgbm.train(PARAMS, lightgbm.Dataset(FRAME.drop(columns="word"), Y), 1)
    assert trained(FRAME.drop(columns="word")).dump_model()["pandas_categorical"] == theirs.pandas_categorical


def test_which_columns_were_categories_is_kept_by_files_for_both_copies_and_what_trains_on():
    booster = trained()
    text = booster.model_to_string()
    more = hb.train(PARAMS, hb.Dataset(FRAME, Y), 2, init_model=booster)
    for again in (hb.Booster(model_str=text), booster[:], copy.deepcopy(booster)):
        assert again.model_to_string() == text
        assert again.fingerprint() == booster.fingerprint()
    np.testing.assert_allclose(
        lightgbm.Booster(model_str=more.model_to_string()).predict(FRAME), more.predict(FRAME), rtol=1e-12
    )


def test_integers_of_an_array_are_passed_as_integers():
    array = FRAME[["x", "whole"]].to_numpy(float)
    booster = trained(array, categorical_feature=[1])
    theirs = lightgbm.Booster(model_str=booster.model_to_string())
    assert theirs.pandas_categorical is None
    np.testing.assert_allclose(theirs.predict(array), booster.predict(array), rtol=1e-12)


ORDERED = FRAME.assign(word=FRAME.word.cat.as_ordered())


def codes(column):
    return column.cat.codes.astype(float).replace(-1.0, np.nan)


@pytest.mark.parametrize("names", [["word", "x"], ["number", "flag", "word", "x"], ["x", "flag", "word"]])
def test_a_file_of_lightgbm_with_ordered_categories_predicts_from_their_codes(names, caplog):
    frame = ORDERED[names]
    theirs = lightgbm.train(PARAMS, lightgbm.Dataset(frame, Y), 5)
    booster = hb.Booster(model_str=theirs.model_to_string())
    assert "X['word'].cat.codes" in caplog.text
    np.testing.assert_allclose(booster.predict(frame.assign(word=codes(frame.word))), theirs.predict(frame), rtol=1e-12)
    with pytest.raises(hb.DataError, match=r"'word'.*\.cat\.codes"):
        booster.predict(frame)


def test_where_lists_cannot_be_told_apart_codes_are_levels(caplog):
    frame = ORDERED[["word"]].assign(small=FRAME.whole % 3, last=pd.Categorical(RNG.choice(list("uvw"), N)))
    theirs = lightgbm.train(PARAMS, lightgbm.Dataset(frame, Y + codes(frame["last"])), 5)
    booster = hb.Booster(model_str=theirs.model_to_string())
    assert "does not say which lists" in caplog.text
    coded = frame.assign(word=codes(frame.word), last=codes(frame["last"]))
    np.testing.assert_allclose(booster.predict(coded), theirs.predict(frame), rtol=1e-12)
    with pytest.raises(hb.DataError):
        booster.predict(coded.assign(last=frame["last"]))
    frame = ORDERED[["number", "word"]].assign(small=FRAME.whole % 3)
    text = lightgbm.train(PARAMS, lightgbm.Dataset(frame, Y), 5).model_to_string()
    with pytest.raises(hb.ModelFormatError, match=r"does not say whether list 0.*\.cat\.codes"):
        hb.Booster(model_str=text)
