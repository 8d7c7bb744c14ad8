"""Estimators by the names and arguments that scripts of LightGBM and XGBoost have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import hornbeam as hb
from hornbeam.core.errors import DataError

SMALL = {"n_estimators": 5, "num_leaves": 7, "verbosity": -1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 4)), 1)
    X[rng.random(X.shape) < 0.2] = -999.0
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("peer", ["LGBM", "XGB"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor", "Ranker"])
def test_estimators_have_the_names_of_peers(peer, kind):
    assert getattr(hb, f"{peer}{kind}") is getattr(hb, f"Hornbeam{kind}")


def test_names_of_peers_can_be_imported():
    from hornbeam import LGBMRegressor, XGBClassifier

    assert (LGBMRegressor, XGBClassifier) == (hb.HornbeamRegressor, hb.HornbeamClassifier)


TABLES = {
    "array": np.asarray,
    "integers": lambda X: np.round(X).astype(np.int64),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcd")),
    "polars": lambda X: pl.DataFrame(X, schema=list("abcd")),
    "sparse": scipy.sparse.csr_array,
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_marker_of_missing_values_is_nan(data, kind):
    X, y = data
    table = TABLES[kind](X)
    plain = TABLES[kind](np.round(X)) if kind == "integers" else X
    clean = np.where(plain == -999.0, np.nan, plain)
    clean = pd.DataFrame(clean, columns=list("abcd")) if kind in ("pandas", "polars") else clean
    made = hb.XGBClassifier(missing=-999.0, **SMALL).fit(table, y, eval_set=[(table, y)], verbose=False)
    expected = hb.HornbeamClassifier(**SMALL).fit(clean, y)
    assert made.booster_.fingerprint() == expected.booster_.fingerprint()
    assert np.array_equal(made.predict_proba(table), expected.predict_proba(clean))
    assert made.get_params()["missing"] == -999.0
    names = {"feature_names": list("abcd")} if kind in ("pandas", "polars") else {}
    by_matrix = hb.train({"objective": "binary", "num_leaves": 7, "verbosity": -1},
                         hb.DMatrix(table, y, missing=-999.0, **names), 5)  # fmt: skip
    assert by_matrix.fingerprint() == expected.booster_.fingerprint()


def test_data_with_a_marker_are_not_changed(data):
    X, y = data
    sparse, dense = scipy.sparse.csr_array(X), X.copy()
    for table in (sparse, dense):
        hb.XGBRegressor(missing=-999.0, **SMALL).fit(table, y)
    assert np.array_equal(dense, X)
    assert np.array_equal(sparse.toarray(), X)


def test_what_a_sparse_table_does_not_store_is_no_marker(data):
    X, y = data
    with pytest.raises(DataError, match="zero_as_missing=True"):
        hb.XGBClassifier(missing=0, **SMALL).fit(scipy.sparse.csr_array(X), y)


def test_a_base_score_is_where_an_estimator_starts(data):
    X, y = data
    model = hb.XGBRegressor(base_score=0.25, **{**SMALL, "n_estimators": 1, "learning_rate": 1e-9}).fit(X, y)
    assert model.predict(X) == pytest.approx(0.25, abs=1e-6)
    classifier = hb.XGBClassifier(base_score=0.5, **SMALL).fit(X, y)
    plain = hb.HornbeamClassifier(boost_from_average=False, **SMALL).fit(X, y)
    assert np.array_equal(classifier.predict_proba(X), plain.predict_proba(X))
