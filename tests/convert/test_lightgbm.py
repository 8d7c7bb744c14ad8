"""LightGBM's text: the same bits both ways, at the edges of every split."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.convert.lightgbm import writing
from hornbeam.core.errors import ConversionError
from hornbeam.data.sources.reader import ZERO

lgb = pytest.importorskip("lightgbm")

APPROXIMATE = ("labels", "forest_start", "forest_classes")


def read_back(booster: object, tmp_path: object) -> hb.Booster:
    path = tmp_path / "model.txt"
    booster.save_model(path)
    return hb.load(path)


def their_table(model: object, rows: np.ndarray, table_of: object) -> object:
    """Return rows as LightGBM takes them: pandas categories where levels are strings."""
    table = table_of(model, rows)
    for i, own in enumerate(model.levels or []):
        if own is not None and isinstance(own.example, str):
            table.isetitem(i, table.iloc[:, i].astype("category"))
    return table


def as_lightgbm_reads(rows: np.ndarray) -> np.ndarray:
    """Return rows with zeros for what LightGBM reads as zero, before it looks at any split."""
    return np.where(np.abs(rows) <= ZERO, 0.0, rows)


def test_lightgbm_scores_have_the_same_bits(any_model, rows_of, table_of, expected):
    name, model = any_model
    if name == "encoded":
        with pytest.raises(ConversionError, match="'column0' is target encoded; formats 'c' and 'python' hold it"):
            writing.write(model, True)
        return
    if name == "step":
        with pytest.raises(ConversionError, match="predictions of objective 'hinge', 1 where the score is above 0"):
            writing.write(model, True)
        return
    if name == "columns":
        with pytest.raises(ConversionError, match="several outputs of objective 'poisson'"):
            writing.write(model, True)
        return
    text = writing.write(model, approximate=name in APPROXIMATE).decode()
    theirs = lgb.Booster(model_str=text)
    rows = as_lightgbm_reads(rows_of(model))
    raw, predictions = expected(model, table_of(model, rows))
    table = their_table(model, rows, table_of)
    if not name.startswith("forest"):  # of which LightGBM's raw scores are sums
        assert np.array_equal(theirs.predict(table, raw_score=True).reshape(raw.shape), raw)
    if name == "forest":
        assert np.array_equal(theirs.predict(table).reshape(raw.shape), predictions)
    assert np.allclose(theirs.predict(table).reshape(raw.shape), predictions, rtol=1e-13)
    assert theirs.feature_name() == model.feature_names


def test_what_is_written_reads_back_to_the_same_scores(any_model, rows_of, table_of, expected):
    name, model = any_model
    if name in ("encoded", "columns", "step"):
        return
    text = writing.write(model, approximate=name in APPROXIMATE)
    again = hb.Booster.from_bytes(text)
    table = table_of(model, rows_of(model))
    raw, predictions = expected(model, table)
    if name not in APPROXIMATE:
        assert np.array_equal(again.predict(table, raw_score=True).reshape(raw.shape), raw)
        assert np.array_equal(again.predict(table).reshape(raw.shape), predictions)
    if name != "labels":  # which come back as classes
        assert writing.write(again.to_model(), False) == text
    assert again.objective.name == ("multiclassova" if name == "labels" else model.objective["name"])
