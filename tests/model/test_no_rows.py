"""Predictions for tables without rows: what a filter may leave."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import hornbeam as hb
from hornbeam.testing.data import make_targets

X, _, Y, THREE = make_targets(200)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 0] > 0.3, "x", "y"))
PARAMS = {"verbosity": -1, "num_leaves": 4}
ASKED = [
    {}, {"raw_score": True}, {"pred_leaf": True}, {"pred_contrib": True}, {"pred_interactions": True},
    {"pred_contribs": True, "strict_shape": True}, {"strict_shape": True}, {"num_iteration": 1},
]  # fmt: skip


def check_alike(booster, table, asked):
    """Check that no rows are predicted in the shape and type of some, but for their number."""
    some, none = booster.predict(table, **asked), booster.predict(table[:0], **asked)
    for one, other in zip(*([every] if not isinstance(every, list) else every for every in (some, none)), strict=True):
        assert type(one) is type(other) and one.dtype == other.dtype
        assert other.shape == (0, *one.shape[1:])


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("objective", ["regression", "multiclass"])
def test_arrays_and_sparse_matrices(asked, objective):
    params = {**PARAMS, "objective": objective, "num_class": 3 if objective == "multiclass" else 1}
    booster = hb.train(params, hb.Dataset(X, label=THREE), 2)
    check_alike(booster, X, asked)
    check_alike(booster, sp.csr_matrix(X), asked)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("as_table", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_tables_with_strings(asked, as_table):
    booster = hb.train({**PARAMS, "objective": "binary"}, hb.Dataset(FRAME, label=Y), 2)
    check_alike(booster, as_table(FRAME), asked)


def test_margins_and_columns_are_checked_as_ever():
    booster = hb.train({**PARAMS, "objective": "binary"}, hb.Dataset(FRAME, label=Y), 2)
    assert booster.predict(FRAME[:0], base_margin=np.empty(0)).shape == (0,)
    with pytest.raises(hb.DataError, match="'b'"):
        booster.predict(FRAME[["a", "c", "b", "d", "e"]][:0])
    with pytest.raises(hb.DataError, match="trained on 5"):
        booster.predict(FRAME[["a"]][:0])
    assert booster.predict(FRAME.rename(columns={"b": "z"})[:0], validate_features=False).shape == (0,)
