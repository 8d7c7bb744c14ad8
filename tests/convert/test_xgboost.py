"""XGBoost's JSON and UBJ: the same leaves both ways, at the edges of every split, and the same float32 scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.convert.xgboost import writing
from hornbeam.core.errors import ConversionError
from hornbeam.data.levels import Levels
from hornbeam.model.file import ModelData

xgb = pytest.importorskip("xgboost")

NAMES = tuple(map(int, xgb.__version__.split(".")[:2])) >= (3, 1)
"""Whether XGBoost's files have the names of categories."""

WRITERS = {"json": writing.write_json, "ubj": writing.write_ubj}

REFUSED = {
    "encoded": "'column0' is target encoded; formats 'c' and 'python' hold it",
    "square": "reg_sqrt: predictions are squares of scores",
    "softplus": r"predictions of objective 'cross_entropy_lambda', log\(1 \+ exp\(score\)\)",
}
APPROXIMATE = {
    "numbers": "thresholds of feature 'column0' and 2 more that float32 numbers do not tell apart",
    "slope": "sigmoid=0.7: XGBoost's has slope 1",
    "one_vs_all": "the objective 'multiclassova', which XGBoost does not have",
    "forest": "the mean of the trees of a random forest",
    "forest_start": "the mean of the trees of a random forest",
    "forest_classes": "the mean of the trees of a random forest",
}


def in_float32(booster: hb.Booster, table: object) -> np.ndarray:
    """Return what a library gets that adds the trees in float32 in their order."""
    leaves = booster.predict(table, pred_leaf=True)
    scores = np.tile(booster.init_scores.astype(np.float32), (len(leaves), 1))
    for number, tree in enumerate(booster.trees):
        scores[:, number % booster.n_outputs] += tree.leaf_value.astype(np.float32)[leaves[:, number]]
    return scores


def their_data(model: object, rows: np.ndarray, table_of: object) -> object:
    """Return rows as XGBoost takes them: pandas categories where levels are strings."""
    table = table_of(model, rows)
    types = ["c" if own is not None else "float" for own in model.levels or [None] * len(model.feature_names)]
    if table is rows:
        return xgb.DMatrix(rows, feature_names=model.feature_names, feature_types=types, enable_categorical=True)
    for i, own in enumerate(model.levels):
        if own is not None and isinstance(own.example, str):
            table.isetitem(i, table.iloc[:, i].astype("category"))
    return xgb.DMatrix(table, feature_types=types, enable_categorical=True)


def with_ascii_levels(model: ModelData) -> ModelData:
    return replace(model, levels=[None, Levels(("red", "blue", "b", "", "x\ny", "zebra")), model.levels[2]])


@pytest.mark.parametrize("kind", WRITERS)
def test_xgboost_scores_are_the_sums_in_float32(kind, any_model, rows_of, table_of, expected):
    name, model = any_model
    if name == "strings":
        if not NAMES:
            pytest.skip("files have names of categories since XGBoost 3.1")
        model = with_ascii_levels(model)
    write = WRITERS[kind]
    if name in REFUSED:
        with pytest.raises(ConversionError, match=REFUSED[name]):
            write(model, True)
        return
    if name in APPROXIMATE:
        with pytest.raises(ConversionError, match=APPROXIMATE[name]):
            write(model, False)
    content = write(model, name in APPROXIMATE)
    theirs = xgb.Booster(model_file=bytearray(content))
    rows = rows_of(model, np.float32, False)
    if name == "strings":  # XGBoost refuses names that it has not seen
        rows[:, 1] = np.where(rows[:, 1] >= len(model.levels[1]), np.nan, rows[:, 1])
    table = table_of(model, rows)
    raw, predictions = expected(model, table)
    data = their_data(model, rows, table_of)
    scores = theirs.predict(data, output_margin=True).reshape(raw.shape)
    again = hb.Booster.from_bytes(content)
    assert np.array_equal(scores, in_float32(again, table))
    if name not in APPROXIMATE:
        largest = np.abs(raw).max()
        assert np.allclose(scores, raw, rtol=0, atol=1e-6 * largest)
        theirs_made = theirs.predict(data).reshape(raw.shape)
        assert np.allclose(theirs_made, predictions, rtol=1e-5, atol=1e-6 * largest)
        ours, theirs_again = hb.Booster(model), again
        used = model.best_iteration or None
        n_trees = len(again.trees)
        same = ours.predict(table, pred_leaf=True, num_iteration=used)[:, :n_trees]
        if len(model.trees) and name != "missing_level" and name != "zeros":
            assert same_partition(same, theirs_again.predict(table, pred_leaf=True))


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    """Say whether rows share a leaf in one model where they do in the other, tree by tree."""
    for one, other in zip(a.T, b.T, strict=True):
        pairs = set(zip(one.tolist(), other.tolist(), strict=True))
        if not len(pairs) == len(set(one.tolist())) == len(set(other.tolist())):
            return False
    return True


@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_read_is_written_to_the_same_file(kind, any_model):
    name, model = any_model
    if name in REFUSED:
        return
    content = WRITERS[kind](model, True)
    assert WRITERS[kind](hb.Booster.from_bytes(content).to_model(), name == "one_vs_all") == content


@pytest.mark.skipif(not NAMES, reason="files have names of categories since XGBoost 3.1")
def test_xgboost_matches_names_in_any_order(models):
    model = with_ascii_levels(models["strings"]())
    theirs = xgb.Booster(model_file=bytearray(writing.write_ubj(model, False)))
    frame = pd.DataFrame({"column0": 1.0, "column1": ["zebra", "b", "", "red", "x\ny", "blue"], "column2": 3})
    raw = hb.Booster(model).predict(frame)
    for kind in ("category", pd.CategoricalDtype(["x\ny", "red", "zebra", "b", "blue", ""])):
        data = xgb.DMatrix(frame.astype({"column1": kind}), feature_types=["float", "c", "c"], enable_categorical=True)
        assert np.allclose(theirs.predict(data), raw, rtol=1e-6)


def test_names_that_are_not_ascii_become_codes(models, caplog):
    model = models["strings"]()
    with pytest.raises(ConversionError, match=r"'column1' has levels that are not ASCII.* 'red' = 0, 'blue' = 1"):
        writing.write_json(model, False)
    theirs = xgb.Booster(model_file=bytearray(writing.write_json(model, True)))
    assert "the file takes their codes, places in booster.levels[1].values" in caplog.text
    codes = np.array([[1.0, code, 3.0] for code in range(6)])
    frame = pd.DataFrame({"column0": 1.0, "column1": model.levels[1].values, "column2": 3})
    data = xgb.DMatrix(codes, feature_names=model.feature_names, feature_types=["float", "c", "c"])
    assert np.allclose(theirs.predict(data), hb.Booster(model).predict(frame), rtol=1e-6)


def test_json_and_ubj_are_the_same_model(any_model):
    name, model = any_model
    if name in REFUSED:
        return
    prints = {hb.Booster.from_bytes(write(model, True)).fingerprint() for write in WRITERS.values()}
    assert len(prints) == 1
