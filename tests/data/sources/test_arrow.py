"""Tables of pyarrow that hold numbers alone are read as narwhals reads them."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.data.sources.arrow import ArrowReader
from hornbeam.data.sources.frame import FrameReader
from hornbeam.data.sources.opening import open_table

pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
N = 50


def with_nulls(values):
    return pa.array(values, mask=np.arange(N) % 7 == 0)


TABLES = {
    "narrow": pa.table({"a": RNG.normal(size=N).astype("f4"), "b": with_nulls(RNG.normal(size=N).astype("f4"))}),
    "wide": pa.table({"a": RNG.normal(size=N), "b": with_nulls(RNG.normal(size=N))}),
    "mixed": pa.table({
        "a": RNG.integers(-9, 9, N), "b": with_nulls(RNG.integers(0, 255, N).astype("u1")), "c": RNG.random(N) < 0.5,
        "d": RNG.normal(size=N).astype("f4"),
    }),
}  # fmt: skip
TABLES["chunks"] = pa.concat_tables([TABLES["mixed"][:20], TABLES["mixed"][20:]])


@pytest.fixture(params=list(TABLES))
def readers(request):
    table = TABLES[request.param]
    found, other = open_table(table), FrameReader.open(table, "data")
    assert isinstance(found, ArrowReader)
    return found, other


def test_blocks_samples_and_rows_are_the_same(readers):
    found, other = readers
    assert (found.names, found.block_dtype, found.n_rows) == (other.names, other.block_dtype, other.n_rows)
    rows = np.array([3, 40, 3, 7])
    for make in (
        lambda reader: reader.block(5, 33),
        lambda reader: reader.sample(None, 0, 2),
        lambda reader: reader.sample(rows, 1, 2),
    ):
        np.testing.assert_array_equal(make(found), make(other), strict=True)
    parts = [reader.take(rows) for reader in readers]
    parts = [part if isinstance(part, np.ndarray) else part.block(0, 4) for part in parts]
    np.testing.assert_array_equal(*parts, strict=True)


def test_columns_may_be_named_as_categorical():
    table = TABLES["mixed"]
    label = RNG.normal(size=N)
    params = {"device": "reference", "verbosity": -1, "min_data_in_leaf": 2, "min_data_per_group": 2}
    found = hb.train(params, hb.Dataset(table, label=label, categorical_features=["a"]), 2)
    expected = hb.train(params, hb.Dataset(table.to_pandas(), label=label, categorical_features=["a"]), 2)
    assert found.fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("odd", [["x"] * N, pa.array([None] * N), pa.array([True, None] * 25), RNG.normal(size=N)])
def test_other_tables_are_read_by_narwhals(odd):
    columns = [pa.array(RNG.normal(size=N)), odd if isinstance(odd, pa.Array) else pa.array(odd)]
    table = pa.table(columns, names=["a", "a" if isinstance(odd, np.ndarray) else "b"])
    assert ArrowReader.open(table, "data") is None
    if isinstance(odd, np.ndarray):
        with pytest.raises(hb.DataError, match="two columns called 'a'"):
            hb.Dataset(table)
