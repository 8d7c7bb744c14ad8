"""A level of missing values, which models of XGBoost have: read alike from every kind of table, and kept in files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import hornbeam as hb
from hornbeam.convert.missing_levels import spell_out_missing
from hornbeam.convert.outgoing import Outgoing
from hornbeam.core.errors import ModelFormatError
from hornbeam.data.levels import Levels
from hornbeam.testing.edge_rows import edge_rows


def naive(model: object, rows: np.ndarray) -> np.ndarray:
    """Return raw scores, node by node; levels are integers."""
    place = {level: code for code, level in enumerate(model.levels[0].values)}
    scores = []
    for row in rows.tolist():
        score = model.init_scores[0]
        code = place[None] if row[0] != row[0] else place.get(row[0], -1)
        for tree in model.trees:
            node = 0 if tree.n_splits else ~0
            while node >= 0:
                value = np.array([code if tree.feature[node] == 0 else row[1]], float)
                node = int((tree.left if tree.goes_left(node, value)[0] else tree.right)[node])
            score += float(tree.leaf_value[~node])
        scores.append(score)
    return np.array(scores)


def test_every_table_reads_missing_values_as_their_level(models):
    model = models["missing_level"]()
    rows = edge_rows(model, n_random=100)
    rows = rows[~(rows[:, 0] < 0)]  # which not every table below can tell from a missing value
    booster, expected = hb.Booster(model), naive(model, rows)
    integers = [None if value != value else int(value) for value in rows[:, 0].tolist()]
    columns = {"column0": integers, "column1": rows[:, 1].tolist()}
    tables = {
        "numpy": rows,
        "pandas": pd.DataFrame(rows, columns=model.feature_names),
        "pandas integers": pd.DataFrame({"column0": pd.array(integers, "Int64"), "column1": rows[:, 1]}),
        "pandas categories": pd.DataFrame({"column0": pd.Categorical(integers), "column1": rows[:, 1]}),
        "polars": pl.DataFrame(columns),
        "arrow": pa.table(columns),
        "sparse": scipy.sparse.csr_matrix(rows),
    }
    for name, table in tables.items():
        assert np.array_equal(booster.predict(table), expected), name


def test_negative_levels_are_unseen_not_missing(models):
    model = models["missing_level"]()
    rows = np.array([[-1.0, 0.5], [1e6, 0.5], [np.nan, 0.5]])
    scores = hb.Booster(model).predict(rows)
    assert scores[0] == scores[1] == naive(model, rows[1:2])[0]
    assert scores[2] == naive(model, rows[2:])[0]


def test_model_file_keeps_the_level(models):
    booster = hb.Booster(models["missing_level"]())
    document = json.loads(booster.to_bytes())
    assert document["levels"][0] == [2, 0, None, 9]
    assert hb.Booster.from_bytes(booster.to_bytes()).fingerprint() == booster.fingerprint()
    del document["fingerprint"]
    document["levels"][0] = [2, None, None, 9]
    with pytest.raises(ModelFormatError, match=r"levels\[0\]: a level occurs twice"):
        hb.Booster.from_bytes(json.dumps(document).encode())


def test_strings_may_have_the_level_too(models):
    model = replace(models["missing_level"](), levels=[Levels(("b", "a", None, "c")), None])
    booster = hb.Booster(model)
    words = pd.DataFrame({"column0": ["b", "a", None, "c", "unseen"], "column1": 0.5})
    numbers = np.array([[2, 0.5], [0, 0.5], [np.nan, 0.5], [9, 0.5], [77, 0.5]])
    assert np.array_equal(booster.predict(words), hb.Booster(models["missing_level"]()).predict(numbers))


def test_spelled_out_trees_predict_the_same(models):
    model = models["missing_level"]()
    columns = Outgoing(model).columns

    def fail(problem: str) -> None:
        raise AssertionError(problem)

    rows = edge_rows(model)
    codes = np.array([{0.0: 1.0, 2.0: 0.0, 9.0: 3.0}.get(value, -1.0) for value in rows[:, 0].tolist()])
    for tree in model.trees:
        made = spell_out_missing(tree, columns, fail)
        assert all(own is None or 2 not in own for own in made.left_codes or ())
        for code, value, row in zip(codes, rows[:, 0], rows, strict=True):
            assert walk(tree, 2.0 if np.isnan(value) else code, row) == walk(made, code, row, value)


def walk(tree: object, code: float, row: np.ndarray, number: float | None = None) -> float:
    """Return the value of a row's leaf; splits of feature 0 without a set compare `number`."""
    node = 0 if tree.n_splits else ~0
    while node >= 0:
        has_set = tree.left_codes is not None and tree.left_codes[node] is not None
        value = (code if has_set else number) if tree.feature[node] == 0 else row[1]
        node = int((tree.left if tree.goes_left(node, np.array([value]))[0] else tree.right)[node])
    return float(tree.leaf_value[~node])
