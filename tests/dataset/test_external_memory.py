"""Data beyond memory as XGBoost's users have them: batches of a DataIter, and predictions of streams."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError

rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 5))
Y = X[:, 0] + X[:, 1] * X[:, 2]
WEIGHT = rng.random(1000) + 0.5


class Batches(hb.DataIter):
    """Hands out some rows at a time, and counts how many tables there are at once."""

    def __init__(self, cache_prefix=None, table=X, **fields):
        self.table, self.fields, self.place, self.n_reset = table, fields, 0, 0
        super().__init__(cache_prefix=cache_prefix)

    def next(self, input_data):
        rows = slice(self.place, self.place + 300)
        if self.place >= len(self.table):
            return False
        input_data(data=self.table[rows], **{name: values[rows] for name, values in self.fields.items()})
        self.place += 300
        return True

    def reset(self):
        self.place = 0
        self.n_reset += 1


@pytest.mark.parametrize("has_file", [True, False])
def test_model_is_that_of_rows_in_memory(tmp_path, has_file):
    source = Batches(str(tmp_path / "cache") if has_file else None, label=Y, weight=WEIGHT)
    data = hb.ExtMemQuantileDMatrix(source, missing=np.nan, enable_categorical=False, max_bin=64)
    plain = hb.QuantileDMatrix(X, Y, weight=WEIGHT, max_bin=64)
    params = {"max_depth": 4, "verbosity": 0}
    model, expected = (hb.train(params, one, 4, verbose_eval=False) for one in (data, plain))
    assert model.fingerprint() == expected.fingerprint()
    assert (data.binned.mapped is not None) == has_file
    assert source.n_reset == 2  # read in order, twice
    assert np.array_equal(model.predict(data), expected.predict(X))
    assert np.array_equal(model.predict(data, pred_contribs=True), expected.predict(X, pred_contribs=True))
    assert model.predict(data, pred_leaf=True).shape == (1000, 4)


def test_markers_margins_and_validation_sets():
    marked = np.where(rng.random(X.shape) < 0.1, -999.0, X)
    margin = rng.normal(size=1000)
    data = hb.ExtMemQuantileDMatrix(Batches(table=marked, label=Y, base_margin=margin), missing=-999.0)
    valid = hb.ExtMemQuantileDMatrix(Batches(table=marked, label=Y, base_margin=margin), missing=-999.0, ref=data)
    plain = hb.QuantileDMatrix(marked, Y, base_margin=margin, missing=-999.0)
    found = {}
    params = {"verbosity": 0}
    model = hb.train(params, data, 3, evals=[(valid, "eval")], evals_result=found, verbose_eval=False)
    assert model.fingerprint() == hb.train(params, plain, 3, verbose_eval=False).fingerprint()
    predicted = model.predict(data)
    assert predicted == pytest.approx(model.predict(plain))
    assert found["eval"]["rmse"][-1] == pytest.approx(np.sqrt(np.mean((predicted - Y) ** 2)))


def test_a_stream_is_predicted_batch_by_batch(tmp_path):
    booster = hb.train({"verbosity": -1}, hb.Dataset(X, label=Y), 3)
    cut = hb.Stream(lambda: ({"data": X[i : i + 300], "label": Y[i : i + 300]} for i in range(0, 1000, 300)))
    assert np.array_equal(booster.predict(cut), booster.predict(X))
    assert np.array_equal(booster.predict(hb.Dataset(cut), raw_score=True), booster.predict(X))
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names = [f"Column_{i}" for i in range(5)]
    table = pa.table({"y": Y, **{name: X[:, i] for i, name in enumerate(names)}})
    parquet.write_table(table, tmp_path / "rows.parquet")
    stream = hb.Stream(tmp_path / "rows.parquet", label="y", chunk_rows=128)
    assert np.array_equal(booster.predict(data=stream), booster.predict(X))


def test_what_is_no_data_iter_is_an_error():
    with pytest.raises(DataError, match="takes a DataIter, not ndarray; or use QuantileDMatrix"):
        hb.ExtMemQuantileDMatrix(X)
    with pytest.raises(TypeError, match="unexpected argument 'nothing'"):
        hb.ExtMemQuantileDMatrix(Batches(label=Y), nothing=1)
    booster = hb.train({"verbosity": -1}, hb.Dataset(X, label=Y), 1)
    with pytest.raises(DataError, match="Stream has no rows"):
        booster.predict(hb.Stream(lambda: iter([X[:0]])))
