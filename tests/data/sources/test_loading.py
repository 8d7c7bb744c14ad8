"""Whatever a table is read from gives the model of the table itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hornbeam as hb

pd, pl, pa = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")

PARAMS = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 5, "min_data_in_leaf": 5}


def make_frame(n_rows: int = 120) -> Any:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n_rows),
            "count": rng.integers(0, 9, n_rows),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n_rows),
            "flag": rng.random(n_rows) < 0.5,
            "day": np.datetime64("2024-01-01", "us") + rng.integers(0, 300, n_rows).astype("m8[D]"),
        }
    )
    frame.loc[::7, "x"] = np.nan
    frame["y"] = (frame["x"].fillna(0) + (frame["city"] == "Oslo") + frame["flag"] > 0.6).astype(int)
    frame["w"] = rng.integers(1, 4, n_rows).astype(float)
    return frame


FRAME = make_frame()
FEATURES = FRAME.drop(columns=["y", "w"])
PLAIN = hb.train(PARAMS, hb.Dataset(FEATURES, label=FRAME["y"]), 3)
WEIGHTED = hb.train(PARAMS, hb.Dataset(FEATURES, label=FRAME["y"], weight=FRAME["w"]), 3)


def as_dask(frame: Any) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)


class Stream:
    """Something that has nothing but an Arrow stream."""

    def __init__(self, frame: Any) -> None:
        self._table = pa.Table.from_pandas(frame, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


SOURCES: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow dataset": lambda frame: dataset.dataset(pa.Table.from_pandas(frame, preserve_index=False)),
    "pyarrow scanner": lambda frame: dataset.dataset(pa.Table.from_pandas(frame, preserve_index=False)).scanner(),
    "batch reader": lambda frame: pa.Table.from_pandas(frame, preserve_index=False).to_reader(max_chunksize=50),
    "arrow stream": Stream,
    "dask": as_dask,
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_model_of_the_frame(source):
    make = SOURCES[source]
    assert (
        hb.train(PARAMS, hb.Dataset(make(FRAME.drop(columns="w")), label="y"), 3).fingerprint() == PLAIN.fingerprint()
    )
    data = hb.Dataset(make(FRAME), label="y", weight="w")
    assert hb.train(PARAMS, data, 3).fingerprint() == WEIGHTED.fingerprint()
    assert data.feature_names == list(FEATURES.columns)
    assert (WEIGHTED.predict(make(FEATURES)) == WEIGHTED.predict(FEATURES)).all()


@pytest.mark.parametrize("source", [name for name in SOURCES if name not in ("pandas", "polars", "pyarrow")])
def test_columns_of_what_is_read_are_chosen_by_name(source, caplog):
    shuffled = FRAME[["w", "day", "y", "x", "flag", "city", "count"]]
    with caplog.at_level("INFO", logger="hornbeam"):
        assert (PLAIN.predict(SOURCES[source](shuffled)) == PLAIN.predict(FEATURES)).all()
    assert "'w', 'y'" in caplog.text
    with pytest.raises(hb.DataError, match="no column 'city'"):
        PLAIN.predict(SOURCES[source](FRAME.drop(columns="city")))


def test_columns_of_frames_stay_as_they_are_held():
    with pytest.raises(hb.DataError, match="7 features"):
        PLAIN.predict(FRAME)


def test_a_validation_set_takes_the_columns_of_its_reference():
    train = hb.Dataset(FRAME, label="y", weight="w")
    valid = hb.Dataset(SOURCES["polars lazy"](FRAME[["w", "y", *reversed(FEATURES.columns)]]), "y", train)
    booster = hb.train({**PARAMS, "metric": "auc"}, train, 2, {"valid": valid})
    plain = hb.train({**PARAMS, "metric": "auc"}, train, 2, {"valid": hb.Dataset(FEATURES, FRAME["y"], train)})
    assert booster.eval_history == plain.eval_history


def test_a_stream_is_read_once():
    reader = SOURCES["batch reader"](FRAME)
    hb.Dataset(reader, label="y")
    with pytest.raises(hb.DataError, match="read once"):
        hb.Dataset(reader, label="y")


def test_dask_is_computed_with_a_notice(caplog):
    array = pytest.importorskip("dask.array")
    values = np.random.default_rng(0).standard_normal((60, 3))
    label = (values[:, 0] > 0).astype(float)
    with caplog.at_level("INFO", logger="hornbeam"):
        data = hb.Dataset(array.from_array(values, chunks=(20, 3)), label=array.from_array(label, chunks=20))
    assert "computed" in caplog.text
    expected = hb.train(PARAMS, hb.Dataset(values, label=label), 2)
    assert hb.train(PARAMS, data, 2).fingerprint() == expected.fingerprint()


class Tensor:
    """An array that speaks DLPack alone, and like PyTorch's must be detached first."""

    def __init__(self, array: np.ndarray, needs_gradient: bool = True) -> None:
        self.array, self.needs_gradient = array, needs_gradient

    def detach(self) -> Tensor:
        return Tensor(self.array, needs_gradient=False)

    def __dlpack__(self, **options: Any) -> Any:
        if self.needs_gradient:
            raise BufferError("requires grad")
        if self.array.dtype == object:
            raise BufferError("bfloat16 is not a type of NumPy")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_tensors_are_the_arrays_of_their_memory(dtype):
    values = (np.random.default_rng(0).standard_normal((80, 3)) * 4).astype(dtype)
    label = (values[:, 0] > 0).astype(np.float64)
    expected = hb.train(PARAMS, hb.Dataset(values, label=label), 2)
    data = hb.Dataset(Tensor(values), label=Tensor(label), weight=Tensor(np.ones(80)))
    assert np.shares_memory(data.data, values)
    assert hb.train(PARAMS, data.set_weight(None), 2).fingerprint() == expected.fingerprint()
    assert (expected.predict(Tensor(values)) == expected.predict(values)).all()


def test_tensors_that_cannot_be_read_are_refused_with_a_remedy():
    with pytest.raises(hb.DataError, match=r"tensor\.float\(\)"):
        hb.Dataset(Tensor(np.empty((2, 2), object)))


class NarrowTensor(Tensor):
    """A tensor of a type that NumPy has not, as PyTorch's bfloat16: neither of the two ways can export it."""

    def detach(self) -> Tensor:
        return self

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("no such type")

    def __array__(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_tensors_of_types_that_numpy_has_not_are_refused_with_a_remedy():
    with pytest.raises(hb.DataError, match=r"tensor\.float\(\)"):
        hb.Dataset(NarrowTensor(np.ones((2, 2))))


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    values = torch.randn(60, 3, requires_grad=True)
    label = (values[:, 0] > 0).double()
    expected = hb.train(PARAMS, hb.Dataset(values.detach().numpy(), label=label.numpy()), 2)
    assert hb.train(PARAMS, hb.Dataset(values, label=label), 2).fingerprint() == expected.fingerprint()
    with pytest.raises(hb.DataError, match=r"tensor\.float\(\)"):
        hb.Dataset(values.bfloat16())


def test_labels_must_name_columns_that_are_there():
    for given, message in [
        ({"label": "z"}, "label='z': there is no such column; columns are 'x', 'count'"),
        ({"label": "y", "weight": "z"}, "weight='z'"),
        ({"label": "y", "group": "w"}, "name a column of ids: qid="),
        ({"label": "y", "params": {"label_column": "y"}}, "give one of them"),
        ({"params": {"label_column": 99}}, "numbered 0 to 6"),
    ]:
        with pytest.raises(hb.DataError, match=message):
            hb.Dataset(FRAME, **given)
    with pytest.raises(hb.DataError, match="no names of columns"):
        hb.Dataset(np.ones((3, 2)), label="y")
    with pytest.raises(hb.DataError, match="no features besides"):
        hb.Dataset(FRAME[["y"]], label="y")


def test_columns_by_lightgbms_parameters():
    for params in (
        {"label_column": "name:y", "weight_column": "name:w"},
        {"label": "y", "weight": "w"},
        {"label_column": 5, "weight_column": 5},  # the second position does not count the label
        {"label_column": "5", "weight_column": "5"},
    ):
        data = hb.Dataset(FRAME, params=params)
        assert hb.train(PARAMS, data, 3).fingerprint() == WEIGHTED.fingerprint()
    for ignored in ("name:w,day", ["w", "day"], "5,4", (5, 4)):
        data = hb.Dataset(FRAME, params={"label_column": "y", "ignore_column": ignored})
        assert data.feature_names == ["x", "count", "city", "flag"]


def test_estimators_read_what_datasets_read(tmp_path):
    pytest.importorskip("sklearn")
    kind = hb.HornbeamClassifier(n_estimators=3, device="reference", num_leaves=5, min_child_samples=5, verbosity=-1)
    expected = kind.fit(FEATURES, FRAME["y"]).booster_.fingerprint()
    FRAME.drop(columns="w").to_parquet(tmp_path / "train.parquet")
    for source in (tmp_path / "train.parquet", pl.scan_parquet(tmp_path / "train.parquet")):
        assert kind.fit(source, "y", eval_set=[(source, "y")]).booster_.fingerprint() == expected
        assert (kind.predict(source) == kind.predict(FEATURES)).all()
        assert (kind.predict_proba(source) == kind.predict_proba(FEATURES)).all()
    values = FEATURES[["x", "count"]].to_numpy()
    plain = kind.fit(values, FRAME["y"].to_numpy()).booster_.fingerprint()
    assert kind.fit(Tensor(values), Tensor(FRAME["y"].to_numpy())).booster_.fingerprint() == plain


def test_estimators_of_arrays_read_columns_by_their_places(tmp_path):
    pytest.importorskip("sklearn")
    values = FEATURES[["x", "count"]]
    kind = hb.HornbeamRegressor(n_estimators=3, device="reference", num_leaves=5, verbosity=-1)
    expected = kind.fit(values.to_numpy(), FRAME["y"].to_numpy()).predict(values.to_numpy())
    values.to_parquet(tmp_path / "values.parquet")
    assert (kind.predict(tmp_path / "values.parquet") == expected).all()
