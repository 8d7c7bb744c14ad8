"""Dataset and TableReader: what may come in, what is refused, and that equal values give equal bins."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.levels import Levels
from hornbeam.data.sources.opening import open_table
from hornbeam.dataset.dataset import Dataset
from hornbeam.params.params import Params

NAN = np.nan


def small_integers(n_rows: int = 500, n_features: int = 5) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, (n_rows, n_features)).astype(np.float64)


def fingerprint(dataset: Dataset) -> tuple:
    data = dataset.binned
    return (
        [bounds.tobytes() for bounds in data.mapper.upper_bounds],
        data.mapper.has_missing.tolist(),
        data.bins.tobytes(),
    )


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "longdouble", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">f8", ">i4"]
)
def test_equal_values_give_equal_bins_for_any_dtype(dtype):
    table = small_integers()
    assert fingerprint(Dataset(table.astype(dtype))) == fingerprint(Dataset(table))


def test_booleans_are_zero_and_one():
    table = small_integers() > 50
    assert fingerprint(Dataset(table)) == fingerprint(Dataset(table.astype(float)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_equal_values_give_equal_bins_for_any_layout(dtype):
    table = small_integers().astype(dtype)
    expected = fingerprint(Dataset(table))
    wide = np.zeros((1000, 20), dtype)
    wide[::2, 3::3][:, :5] = table
    packed = np.zeros(len(table), [("pad", "u1"), ("x", dtype, (5,))])
    packed["x"] = table
    read_only = table.copy()
    read_only.flags.writeable = False
    for layout in (
        np.asfortranarray(table),
        wide[::2, 3::3][:, :5],
        table[::-1][::-1],
        table[::-1].copy()[::-1],
        table[:, ::-1].copy()[:, ::-1],
        packed["x"],  # not aligned
        read_only,
        table.view(np.memmap),
    ):
        assert fingerprint(Dataset(layout)) == expected
    assert fingerprint(Dataset(table.tolist())) == expected
    assert fingerprint(Dataset(tuple(map(tuple, table.tolist())))) == expected


def test_float64_values_that_float32_cannot_tell_apart_stay_apart():
    table = 1.0 + np.arange(40.0)[:, None] * 1e-12
    assert Dataset(table, min_data_in_bin=1).binned.n_value_bins.tolist() == [40]


def test_data_is_neither_copied_nor_changed():
    table = np.random.default_rng(0).standard_normal((100, 3))
    before = table.copy()
    dataset = Dataset(table).construct()
    assert dataset.data is table
    assert (table == before).all()


def frames():
    columns = {
        "f32": np.array([0.5, NAN, 2.5, -1.0], np.float32),
        "i8": np.array([1, 2, 3, 1], np.int8),
        "flag": np.array([True, False, True, True]),
    }
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    yield pandas.DataFrame(columns, index=[3, 3, 1, 0])
    yield polars.DataFrame(columns)
    yield pyarrow.table(columns)
    yield pyarrow.table(columns).to_batches()[0]


def test_frames_give_the_bins_and_names_of_their_columns():
    expected = np.array([[0.5, 1, 1], [NAN, 2, 0], [2.5, 3, 1], [-1, 1, 1]])
    for frame in frames():
        dataset = Dataset(frame, min_data_in_bin=1)
        assert dataset.feature_names == ["f32", "i8", "flag"]
        assert np.array_equal(dataset.reader.read(0, 4), expected, equal_nan=True)
        assert np.array_equal(dataset.reader.read(1, 3), expected[1:3], equal_nan=True)
        assert fingerprint(dataset) == fingerprint(Dataset(expected, min_data_in_bin=1))


def test_nulls_are_missing_values_in_every_frame():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    columns = {"a": [1.5, None, 3.0], "b": [1, 2, None], "c": [True, None, False]}
    expected = np.array([[1.5, 1, 1], [NAN, 2, NAN], [3, NAN, 0]])
    nullable = {"a": "Float64", "b": "Int64", "c": "boolean"}
    arrow = {"a": "float[pyarrow]", "b": "int8[pyarrow]", "c": "bool[pyarrow]"}
    for frame in (
        polars.DataFrame(columns),
        pyarrow.table(columns),
        pandas.DataFrame({name: pandas.array(values, nullable[name]) for name, values in columns.items()}),
        pandas.DataFrame({name: pandas.array(values, arrow[name]) for name, values in columns.items()}),
    ):
        assert np.array_equal(open_table(frame).read(0, 3), expected, equal_nan=True)


def test_columns_that_hold_nothing_are_missing_values_whatever_their_type():
    """One record with gaps is what a server predicts for; a frame of it has no type for the gaps."""
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    records = [{"number": 0.5, "gap": None}, {"number": 1.5, "gap": None}]
    for frame in (
        pandas.DataFrame(records),
        pandas.DataFrame(records).assign(gap=pandas.NA),
        pandas.DataFrame(records).assign(gap=pandas.array([None, None], "string")),
        pandas.DataFrame(records).assign(gap=pandas.Categorical([None, None])),
        polars.DataFrame(records),
        polars.DataFrame(records, schema_overrides={"gap": polars.String}),
        pyarrow.Table.from_pylist(records),
    ):
        reader = open_table(frame).with_levels(None)
        assert np.array_equal(reader.read(0, 2), [[0.5, NAN], [1.5, NAN]], equal_nan=True)
        assert np.array_equal(reader.sample(None, 0, 2), [[0.5, NAN], [1.5, NAN]], equal_nan=True)
        coded = open_table(frame).with_levels([None, Levels(("a",))])
        assert np.array_equal(coded.read(1, 2), [[1.5, NAN]], equal_nan=True)


def test_frames_of_several_chunks_and_of_sampled_rows_equal_arrays():
    polars = pytest.importorskip("polars")
    table = np.random.default_rng(0).standard_normal((3000, 3)).astype(np.float32)
    parts = [polars.DataFrame(table[start : start + 1000], schema=["a", "b", "c"]) for start in (0, 1000, 2000)]
    frame = polars.concat(parts, rechunk=False)
    for candidate in (frame, frame.to_arrow(), frame.to_pandas()):
        left = Dataset(candidate, bin_construct_sample_cnt=700)
        assert left.reader.block_dtype == np.float32
        assert fingerprint(left) == fingerprint(Dataset(table, bin_construct_sample_cnt=700))


def test_some_rows_of_a_table_have_its_levels_and_its_names_or_none():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"flag": [True, False, True, True], "id": [2**60, 2**60 + 1, 2**60, 2**60 + 1]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        part = Dataset(frame, categorical_features=["flag", "id"], min_data_in_bin=1).subset([1, 2, 3])
        assert part.feature_names == ["flag", "id"] and part.has_names
        assert repr([own.values for own in part.levels]) == repr([(True, False), (2**60 + 1, 2**60)])
    assert not Dataset(np.zeros((4, 2))).subset([1, 2]).has_names


def test_columns_that_are_not_numbers_are_named():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    odd = [
        polars.Series([1], dtype=polars.Int128),
        polars.Series([None], dtype=polars.Int128),
        polars.Series([Decimal("1.5")]),
        polars.Series([[1.0]]),
        polars.Series([{"a": 1.0}]),
    ]
    for frame in (
        pandas.DataFrame({"good": [1.0], "city": [date(2020, 1, 1)]}),
        pandas.DataFrame({"good": [1.0], "city": np.array([(1, 2)], "i,i").astype(object)}),
        pandas.DataFrame({"good": [1.0], "city": [1j]}),
        polars.DataFrame({"good": [1.0], "city": [b"x"]}),
        *(polars.DataFrame({"good": [1.0], "city": city}) for city in odd),
        *(polars.DataFrame({"good": [1.0], "city": city}).to_arrow() for city in odd[2:]),
    ):
        with pytest.raises(DataError, match="'city'"):
            Dataset(frame)
    for frame in (pandas.DataFrame({"good": [1.0], "city": ["x"]}), polars.DataFrame({"good": [1.0], "city": ["x"]})):
        with pytest.raises(DataError, match="'city'"):
            Dataset(frame, categorical_features=[])


def test_unusable_tables_are_refused_with_a_remedy():
    masked = np.ma.masked_invalid(np.array([[1.0, NAN]]))
    for table, message in [
        (np.empty((0, 3)), "data is empty: 0 rows"),
        (np.empty((3, 0)), "0 columns"),
        ([], "empty"),
        ([[]], "empty"),
        (np.ones(3), r"reshape\(-1, 1\)"),
        (np.ones((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.ones((2, 2), complex), "complex128"),
        (np.zeros((2, 2), "m8[M]"), "timedelta64"),
        ([[1, 2], [3]], "same length"),
        ([[1, None]], "object"),
        (None, "None"),
        ("data.csv", "no file 'data.csv'"),
        ({"a": [1]}, "a dict"),
        (5, "2 dimensions"),
        (masked, "filled"),
    ]:
        with pytest.raises(DataError, match=message):
            Dataset(table)


def test_reader_fills_a_given_block():
    table = small_integers()
    out = np.empty((10, 5))
    assert open_table(table).read(20, 30, out) is out
    assert (out == table[20:30]).all()


# --- labels, weights and the rest -----------------------------------------------------------------------------------


def test_labels_and_weights_become_float64_copies():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = np.ones((3, 1))
    label = np.array([1.0, 0.0, 1.0])
    for given in (
        label,
        label.astype(np.int8),
        label.astype(bool),
        label.tolist(),
        label[:, None],
        np.repeat(label, 2)[::2],
        pandas.Series(label, index=[5, 5, 5]),
        pandas.Series([1, 0, 1], dtype="Int64"),
        polars.Series(label),
    ):
        dataset = Dataset(table, given, weight=given)
        for array in (dataset.label, dataset.weight):
            assert array.dtype == np.float64
            assert array.flags.c_contiguous
            assert array.tolist() == [1, 0, 1]
            assert not np.shares_memory(array, label)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": [1, 2]}, "label has 2 values and data 3 rows"),
        ({"label": [1, NAN, 2]}, r"label\[1\] is nan"),
        ({"label": [1, 2, np.inf]}, r"label\[2\] is inf"),
        ({"label": [1, 2, -2e38]}, r"label\[2\] is -2e\+38"),
        ({"label": ["a", "b", "c"]}, "label has dtype"),
        ({"label": [1, None, 2]}, "label has dtype object"),
        ({"label": [1j, 1, 2]}, "label has dtype complex"),
        ({"label": np.ones((3, 2, 2))}, r"label .*shape \(3, 2, 2\)"),
        ({"label": np.ones((2, 2))}, "label has 2 "),
        ({"label": 1.0}, "label must have one dimension"),
        ({"weight": [1, 2]}, "weight has 2 values"),
        ({"weight": [1, NAN, 2]}, r"weight\[1\] is nan"),
        ({"weight": [1, 1, -1]}, r"weight\[2\] is -1"),
        ({"weight": [0, 0, 0]}, "weight is zero"),
        ({"group": [1, 1]}, "add up to 2"),
        ({"group": [1.5, 1.5]}, "no size of a query"),
        ({"group": [3, 0]}, "an empty query"),
        ({"init_score": np.ones(4)}, r"init_score has shape \(4,\)"),
        ({"init_score": np.ones((2, 2))}, "init_score has shape"),
        ({"init_score": np.empty(0)}, "init_score has shape"),
        ({"init_score": [1, NAN, 2]}, "init_score.*nan"),
        ({"feature_names": ["a"]}, "1 names and data 2 features"),
        ({"feature_names": ["a", "a"]}, "'a' occurs more than once"),
        ({"feature_names": ["a", ""]}, r"feature_names\[1\]"),
        ({"feature_names": ["a", 1]}, r"feature_names\[1\]"),
        ({"feature_names": "ab"}, "feature_names='ab'"),
        ({"categorical_features": [2]}, "0 to 1"),
        ({"categorical_features": "a"}, "categorical_features='a'"),
        ({"reference": np.ones((3, 2))}, "reference must be a Dataset"),
    ],
)
def test_unusable_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(DataError, match=message):
        Dataset(np.ones((3, 2)), **arguments)


@pytest.mark.parametrize("arguments", [{"max_bin": 1}, {"max_bin": 65_536}, {"min_data_in_bin": 0}, {"use_missing": 2}])
def test_data_parameters_are_checked(arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        Dataset(np.ones((3, 2)), **arguments)


def test_init_score_is_stored_output_by_output():
    table = np.ones((3, 1))
    scores = np.arange(6.0).reshape(2, 3)
    for given in (scores, scores.T, scores.ravel()):
        assert (Dataset(table, init_score=given).init_score == scores).all()
    assert Dataset(table, init_score=[1, 2, 3]).init_score.tolist() == [[1, 2, 3]]


def test_names_default_to_column_numbers():
    assert Dataset(np.ones((3, 2))).feature_names == ["Column_0", "Column_1"]
    assert Dataset(np.ones((3, 2)), feature_names=["x", "y"]).feature_names == ["x", "y"]


def test_empty_categorical_features_and_groups_are_accepted():
    assert Dataset(np.ones((3, 2)), categorical_features=[], group=[1, 2]).group.tolist() == [1, 2]


# --- data parameters and references ---------------------------------------------------------------------------------


def test_data_parameters_come_from_the_dataset_then_from_training():
    table = np.random.default_rng(0).standard_normal((1000, 1))
    training = Params.from_dict({"max_bin": 31})
    assert Dataset(table).binned.n_value_bins.tolist() == [255]
    assert Dataset(table).construct(training).binned.n_value_bins.tolist() == [31]
    own = Dataset(table, max_bin=15).construct(Params.from_dict({"min_data_in_bin": 100}))
    assert own.bin_params.max_bin == 15
    assert own.bin_params.min_data_in_bin == 100
    assert own.binned.n_value_bins.tolist() == [10]


def test_data_parameters_that_disagree_are_refused_naming_both():
    table = np.random.default_rng(0).standard_normal((1000, 1))
    training = Params.from_dict({"max_bin": 31})
    with pytest.raises(DataError, match=r"max_bin=31 .* max_bin=15"):
        Dataset(table, max_bin=15).construct(training)
    with pytest.raises(DataError, match=r"max_bin=31 .*already binned.* max_bin=255"):
        Dataset(table).construct().construct(training)
    with pytest.raises(DataError, match=r"max_bin=31 .* max_bin=255"):
        Dataset(table, reference=Dataset(table).construct()).construct(training)
    Dataset(table, max_bin=31).construct(training).construct(training).construct()


def test_bins_are_made_once():
    dataset = Dataset(np.random.default_rng(0).standard_normal((100, 2)))
    assert not dataset.is_binned
    bins = dataset.binned
    assert dataset.is_binned
    assert dataset.construct().binned is bins


def test_reference_gives_its_bins():
    rng = np.random.default_rng(0)
    train = Dataset(rng.standard_normal((1000, 3)))
    table = np.vstack([10 * rng.standard_normal((50, 3)), [[NAN, np.inf, -np.inf]]])
    valid = Dataset(table, reference=train)
    assert valid.mapper is train.mapper
    assert valid.binned.bins[:, 1].tolist() == train.mapper.codes(1, table[:, 1]).tolist()
    assert valid.binned.bins[-1, :3].tolist() == [255, 254, 0]
    assert not valid.binned.has_missing.any()


def test_reference_of_other_columns_is_refused():
    train = Dataset(np.ones((3, 2)), feature_names=["a", "b"])
    with pytest.raises(DataError, match="3 features and the reference Dataset 2"):
        Dataset(np.ones((3, 3)), reference=train)
    with pytest.raises(DataError, match="feature 0 is 'b' and 'a' in the reference"):
        Dataset(np.ones((3, 2)), feature_names=["b", "a"], reference=train)
    with pytest.raises(DataError, match="max_bin=63 together with reference"):
        Dataset(np.ones((3, 2)), max_bin=63, reference=train)
    assert Dataset(np.ones((3, 2)), reference=train).feature_names == ["a", "b"]


# --- memory ---------------------------------------------------------------------------------------------------------

MEMORY_SCRIPT = """
import os, resource, sys
import numpy as np
from hornbeam.dataset.dataset import Dataset
forms = sys.argv[1:]
while os.fork():  # each form of the table has a process of its own, that has imported everything already
    forms.pop(0)
    if os.wait()[1] or not forms:
        sys.exit()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
order, dtype = forms[0].split()
Dataset(np.random.default_rng(0).standard_normal((300, 4)).astype(dtype)).construct()
n_rows = 1_000_000 if dtype == "int8" else 500_000  # the sample that bins are found from takes as much for any number
table = np.zeros((n_rows, 28), dtype, order)
for column in range(28):
    table[:, column] = np.random.default_rng(column).integers(0, 120, n_rows)
before = peak()
dataset = Dataset(table).construct()
print(forms[0], (peak() - before - dataset.binned.bins.nbytes) / table.nbytes, sep=":", flush=True)
"""


FORMS = ["C float32", "F float32", "C int8", "C float64"]
"""Orders and types of tables."""


@pytest.fixture(scope="module")
def extra_tables():
    """By form, how much memory a Dataset takes on top of the table and its bins, in tables."""
    pytest.importorskip("resource")
    run = subprocess.run([sys.executable, "-c", MEMORY_SCRIPT, *FORMS], capture_output=True, text=True, check=True)
    return {form: float(extra) for form, _, extra in (line.partition(":") for line in run.stdout.splitlines())}


@pytest.mark.parametrize(("order", "dtype"), [form.split() for form in FORMS])
def test_peak_memory_is_far_below_a_float64_copy(extra_tables, order, dtype):
    # The table itself was there before; the bar is 2.2 tables + bins in all, that is 1.2 on top.
    assert extra_tables[f"{order} {dtype}"] < 1.2


def test_labels_that_numpy_has_no_type_for_are_refused():
    polars = pytest.importorskip("polars")
    labels = polars.Series([1, 2, 3], dtype=polars.Int128)
    with pytest.raises(DataError, match="label"):
        Dataset(np.zeros((3, 1)), label=labels)


def test_categorical_features_by_argument_and_parameter_must_agree():
    table = np.arange(12.0).reshape(6, 2)
    with pytest.raises(DataError, match=r"categorical_features=\[0\], but params has categorical_feature=\[1\]"):
        Dataset(table, label=np.arange(6), categorical_features=[0], params={"categorical_feature": [1]})
    same = Dataset(table, label=np.arange(6), categorical_features=[0], params={"categorical_feature": [0]})
    assert same.construct().categorical_features == [0]


def test_features_with_other_names_than_their_columns_are_found_by_either():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((60, 3))
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    train = Dataset(frame, label=X[:, 0], feature_names=["x", "y", "z"])
    valid = Dataset(frame, label=X[:, 0], reference=train)
    model = hb.train({"verbosity": -1, "device": "reference"}, train, 2, {"valid": valid})
    assert (model.feature_names, model.column_names) == (["x", "y", "z"], ["a", "b", "c"])
    for one in (model, hb.Booster.from_bytes(model.to_bytes()), model[:], hb.merge([model, model])):
        expected = one.predict(X)
        for names in (["a", "b", "c"], ["x", "y", "z"]):
            assert (one.predict(frame.set_axis(names, axis=1)) == expected).all()
        with pytest.raises(hb.DataError, match="same order"):
            one.predict(frame[["b", "a", "c"]])


def test_columns_of_a_category_type_are_categorical_though_others_are_named(caplog):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.integers(0, 5, 200), "c": rng.integers(0, 4, 200)})
    typed, label = frame.assign(b=frame["b"].astype("category")), rng.normal(size=200)
    data = hb.Dataset(typed, label=label, categorical_feature=["c"])
    assert data.categorical_features == [1, 2]
    assert caplog.text.count("does not name 'b'") == 1
    both = hb.Dataset(typed, label=label, categorical_feature=["b", "c"])
    params = {"verbosity": -1, "min_data_per_group": 5}
    assert hb.train(params, data, 3).fingerprint() == hb.train(params, both, 3).fingerprint()
    by_params = hb.train({**params, "categorical_feature": ["c"]}, hb.Dataset(typed, label=label), 3)
    assert by_params.fingerprint() == hb.train(params, both, 3).fingerprint()
    strings = frame.assign(b=frame["b"].map("level {}".format))
    with pytest.raises(DataError, match="not among the categorical features: 'b'"):
        hb.Dataset(strings, label=label, categorical_feature=["c"])


def test_what_a_dataset_and_an_error_show():
    frame = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60.0)})
    data = hb.Dataset(frame, label=np.arange(60.0))
    assert repr(data) == "<hornbeam.Dataset: 60 rows, 2 features>"
    model = hb.train({"verbosity": -1}, data, 1)
    with pytest.raises(DataError, match=r"3 features, but the model was trained on 2 \('z' was not there\)"):
        model.predict(frame.assign(z=1.0))
