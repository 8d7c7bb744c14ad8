"""Methods of a Dataset as users of LightGBM and XGBoost call them."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import hornbeam as hb

lightgbm = pytest.importorskip("lightgbm")

RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(200, 3))
X[::7, 1] = np.nan
Y = (X[:, 0] > 0).astype(float)
SMALL = {"objective": "binary", "num_leaves": 4, "verbosity": -1, "device": "reference"}


def fingerprint(dataset, params=SMALL):
    return hb.train(params, dataset, 2).fingerprint()


def test_parameters_are_those_that_were_given():
    data = hb.Dataset(X, Y, params={"max_bin": 15, "min_data_in_bin": 1, "verbosity": -1})
    assert data.get_params() == {"max_bin": 15, "min_data_in_bin": 1}
    assert hb.Dataset(X).get_params() == {}


def test_bins_are_counted_as_lightgbm_counts_them():
    table = np.column_stack([RANDOM.permutation(100), [0.0, 2.0] * 50, [0.0, 1.0, np.nan, 2.0] * 25])
    counts = []
    for library in (lightgbm, hb):  # zeros are among the values: LightGBM has a bin for them in any case
        data = library.Dataset(table, feature_name=["a", "b", "c"], params={"min_data_in_bin": 1}).construct()
        counts.append([data.feature_num_bin(place) for place in range(3)])
        assert counts[-1] == [data.feature_num_bin(name) for name in "abc"]
    assert counts[0] == counts[1] == [100, 2, 4]
    for wrong in ("d", 3, -1):
        with pytest.raises(hb.HornbeamError, match="feature"):
            hb.Dataset(table).feature_num_bin(wrong)


def test_names_and_categories_are_set_afterwards():
    data = hb.Dataset(X > 0, Y).set_feature_name(["a", "b", "c"]).set_categorical_feature(["b"])
    made = hb.Dataset(X > 0, Y, feature_names=["a", "b", "c"], categorical_features=["b"])
    assert fingerprint(data) == fingerprint(made)
    assert data.set_feature_name("auto").feature_name == ["a", "b", "c"]
    with pytest.raises(hb.DataError, match="make a new one"):
        data.set_categorical_feature([0])
    assert data.set_categorical_feature([1]).categorical_features == [1]
    frame = hb.Dataset(pd.DataFrame(X, columns=list("xyz")), Y).set_feature_name(["a", "b", "c"])
    assert hb.train(SMALL, frame, 1).predict(pd.DataFrame(X, columns=list("xyz"))).shape == (200,)
    for wrong in (["a"], ["a", "a", "b"], "abc"):
        with pytest.raises(hb.DataError, match="name"):
            data.set_feature_name(wrong)
    with pytest.raises(hb.DataError, match="reference"):
        made.create_valid(X > 0, Y).set_feature_name(["d", "e", "f"])


def test_references_form_a_chain():
    first = hb.Dataset(X, Y)
    second = first.create_valid(X, Y)
    assert second.get_ref_chain() == {first, second} and first.get_ref_chain() == {first}
    assert second.get_ref_chain(1) == {second}


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame, pl.DataFrame])
def test_columns_of_two_datasets_stand_side_by_side(kind):
    def table(columns):
        made = np.nan_to_num(X[:, columns])
        return kind(made) if kind in (np.asarray, sparse.csr_array) else kind({f"f{i}": X[:, i] for i in columns})

    whole = hb.Dataset(table([0, 1, 2]), Y, weight=Y + 1)
    parts = hb.Dataset(table([0]), Y, weight=Y + 1).add_features_from(hb.Dataset(table([1, 2])))
    assert parts.feature_name == whole.feature_name and parts.num_feature() == 3
    assert fingerprint(parts) == fingerprint(whole)


def test_what_cannot_stand_side_by_side():
    data = hb.Dataset(X, Y)
    for other, word in (
        (X, "takes a Dataset"),
        (hb.Dataset(X[:5]), "rows"),
        (hb.Dataset(pd.DataFrame(X, columns=list("abc"))), "array and a frame"),
    ):
        with pytest.raises(hb.DataError, match=word):
            data.add_features_from(other)
    with pytest.raises(hb.DataError, match="two libraries"):
        hb.Dataset(pl.DataFrame({"z": Y})).add_features_from(hb.Dataset(pd.DataFrame(X, columns=list("abc"))))
    frame = pd.DataFrame({"a": X[:, 0]})
    with pytest.raises(hb.DataError, match="sparse matrix and a frame"):
        hb.Dataset(sparse.csr_array(X > 0)).add_features_from(hb.Dataset(frame))


@pytest.mark.parametrize("kind", ["array", "sparse", "frame", "polars"])
def test_a_saved_dataset_trains_the_same_model(tmp_path, kind):
    words = np.array(["red", "blue"])[(X[:, 2] > 0).astype(int)]
    table = {
        "array": X,
        "sparse": sparse.csr_array(X * (X > 0)),
        "frame": pd.DataFrame({"a": X[:, 0], "w": pd.Categorical(words)}),
        "polars": pl.DataFrame({"a": X[:, 0], "w": words}),
    }[kind]
    given = {"weight": Y + 1, "group": [50, 150], "init_score": X[:, 0], "params": {"max_bin": 9}}
    data = hb.Dataset(table, Y, **given)
    assert data.save_binary(tmp_path / "train.bin") is data
    for read in (hb.Dataset(tmp_path / "train.bin"), hb.Dataset(str(tmp_path / "train.bin"))):
        assert read.get_params() == {"max_bin": 9} and read.feature_name == data.feature_name
        assert fingerprint(read) == fingerprint(data)
    valid = hb.Dataset(tmp_path / "train.bin", reference=data, params=None, label=1 - Y)
    np.testing.assert_array_equal(valid.get_label(), 1 - Y)


def test_names_and_categories_are_saved(tmp_path):
    data = hb.Dataset(X > 0, Y, feature_names=list("abc"), categorical_features=["c"])
    data.save_binary(tmp_path / "d")
    read = hb.Dataset(tmp_path / "d")
    assert read.feature_name == list("abc") and read.categorical_features == [2]
    assert fingerprint(read) == fingerprint(data)
    with pytest.raises(hb.DataError, match="cannot be saved"):
        hb.Dataset(np.array([["a", 1.0]] * 50, object), categorical_features=[0]).save_binary(tmp_path / "e")


def test_damaged_files_and_others_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=X)
    np.savez(tmp_path / "old.npz", facts=np.frombuffer(b'{"format": "hornbeam-dataset", "version": 9}', np.uint8))
    np.savez(tmp_path / "bad.npz", facts=np.frombuffer(b"{", np.uint8))
    for name, word in (("other.npz", "files are read"), ("old.npz", "version 9"), ("bad.npz", "damaged")):
        with pytest.raises(hb.DataError, match=word):
            hb.Dataset(tmp_path / name)


def test_xgboosts_methods():
    data = hb.Dataset(X)
    data.set_info(label=Y, weight=Y + 1, base_margin=X[:, 0], group=[50, 150], feature_names=list("abc"))
    made = hb.Dataset(X, Y, None, Y + 1, [50, 150], X[:, 0], list("abc"))  # in LightGBM's order
    assert fingerprint(data) == fingerprint(made)
    assert (data.num_row(), data.num_col()) == (200, 3)
    np.testing.assert_array_equal(data.get_base_margin(), X[:, 0])
    np.testing.assert_array_equal(data.get_float_info("base_margin"), X[:, 0])
    np.testing.assert_array_equal(data.get_float_info("weight"), Y + 1)
    assert data.get_uint_info("group_ptr").tolist() == [0, 50, 200]
    data.set_base_margin(None)
    assert data.get_base_margin() is None
    assert hb.Dataset(X, Y).slice([3, 1]).num_row() == 2
    by_id = hb.Dataset(X)
    by_id.set_info(qid=[0] * 50 + [1] * 150)
    assert by_id.get_group().tolist() == [50, 150]
    data.set_info(label_lower_bound=Y, label_upper_bound=Y + 1)
    np.testing.assert_array_equal(data.get_float_info("label_lower_bound"), Y)
    np.testing.assert_array_equal(data.get_float_info("label_upper_bound"), Y + 1)
    with pytest.raises(hb.DataError, match="label_lower_bound"):
        data.set_info(label_lower_bound=Y[:-1])


def test_a_frame_of_some_rows_is_saved_without_its_index(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40) % 3}).sample(frac=0.9, random_state=0)
    data = hb.Dataset(frame, label=frame["a"].to_numpy())
    data.save_binary(tmp_path / "data.bin")
    read = hb.Dataset(tmp_path / "data.bin")
    assert read.feature_names == ["a", "b"]
    params = {"min_data_in_leaf": 3, "verbosity": -1}
    assert hb.train(params, read, 2).fingerprint() == hb.train(params, data, 2).fingerprint()


def test_frames_of_numbers_are_kept_without_pyarrow(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a b": rng.normal(size=80), "n": rng.integers(0, 9, 80), "flag": rng.random(80) < 0.5})
    data = hb.Dataset(frame, label=frame["a b"] > 0, categorical_features=["n"])
    expected = fingerprint(data)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    data.save_binary(tmp_path / "kept")
    assert fingerprint(hb.Dataset(tmp_path / "kept")) == expected
    with pytest.raises(hb.DataError, match=r"'kind' has other than numbers.*hornbeam\[files\]"):
        hb.Dataset(frame.assign(kind="x"), label=frame["n"]).save_binary(tmp_path / "texts")
    assert not (tmp_path / "texts").exists()
