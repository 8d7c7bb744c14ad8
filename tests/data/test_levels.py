"""Levels of categorical features: the same codes from every container, and the bins that follow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam import Dataset
from hornbeam.core.dtypes import MAX_LEVELS
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.levels import CodedColumn, Levels, choose_levels, code_numbers, extended_levels
from hornbeam.data.sources.opening import open_table
from hornbeam.params.params import Params

WORDS = ["red", "blue", "green", "", "größe", "z"]


def words(n_rows=300, missing=0.1, seed=0) -> list[str | None]:
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(WORDS), n_rows, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    return [None if rng.random() < missing else WORDS[i] for i in chosen]


def containers(values: list[str | None]) -> dict[str, object]:
    """The same strings in everything that can hold them."""
    enum = pl.Enum([*reversed(WORDS), "never"])
    plain = pa.array(values, pa.string())
    parts = [plain[:40].dictionary_encode(), plain[40:].dictionary_encode()]
    return {
        "pandas strings": pd.DataFrame({"c": values}),
        "pandas objects": pd.DataFrame({"c": pd.Series(values, dtype=object)}),
        "pandas categories": pd.DataFrame({"c": pd.Categorical(values)}),
        "pandas ordered categories": pd.DataFrame(
            {"c": pd.Categorical(values, categories=[*reversed(WORDS), "never"], ordered=True)}
        ),
        "polars strings": pl.DataFrame({"c": values}),
        "polars categories": pl.DataFrame({"c": pl.Series(values).cast(pl.Categorical)}),
        "polars enum": pl.DataFrame({"c": pl.Series(values, dtype=enum)}),
        "arrow strings": pa.table({"c": plain}),
        "arrow dictionary": pa.table({"c": plain.dictionary_encode()}),
        "arrow dictionaries": pa.table({"c": pa.chunked_array(parts)}),
    }


@pytest.mark.parametrize("name", containers(words()))
def test_every_container_gives_the_same_levels_and_bins(name):
    values = words()
    found = Dataset(containers(values)[name])
    counts = {word: values.count(word) for word in WORDS}
    expected = sorted(WORDS, key=lambda word: (-counts[word], word))
    assert list(found.levels[0].values) == expected
    codes = [len(expected) if value is None else expected.index(value) for value in values]
    assert found.binned.bins[:, 0].tolist() == codes
    assert found.categorical_features == [0]
    assert found.binned.has_missing.tolist() == [True]


@pytest.mark.parametrize("name", containers(words()))
def test_levels_are_matched_by_value_in_every_container(name):
    levels = Levels(("blue", "", "red"))
    values = words(seed=1)
    reader = open_table(containers(values)[name]).with_levels([levels])
    expected = [levels.code_of.get(value, np.nan) for value in values]
    assert np.array_equal(reader.read(0, len(values))[:, 0], expected, equal_nan=True)
    assert np.array_equal(reader.sample(np.array([5, 2]), 0, 1)[:, 0], [expected[5], expected[2]], equal_nan=True)


def integers(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng.choice([7, 0, 123456789012, 3, -1, -5], n_rows, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])


def test_every_container_gives_the_same_levels_for_integers():
    values = integers()
    nullable = [None if value < 0 else int(value) for value in values]
    tables = {
        "numpy": values[:, None],
        "floats": np.where(values < 0, np.nan, values)[:, None],
        "list": [[int(value)] for value in values],
        "pandas": pd.DataFrame({"c": values}),
        "pandas nullable": pd.DataFrame({"c": pd.array(nullable, "Int64")}),
        "pandas categories": pd.DataFrame({"c": pd.Categorical(values)}),
        "polars": pl.DataFrame({"c": nullable}),
        "arrow": pa.table({"c": nullable}),
        "arrow dictionary": pa.table({"c": pa.array(nullable).dictionary_encode()}),
    }
    made = {name: Dataset(table, categorical_features=[0]) for name, table in tables.items()}
    first = made["numpy"]
    assert sorted(first.levels[0].values) == [0, 3, 7, 123456789012]
    assert first.binned.has_missing.tolist() == [True]
    for name, other in made.items():
        assert other.levels[0].values == first.levels[0].values, name
        assert other.binned.bins.tobytes() == first.binned.bins.tobytes(), name


def test_booleans_are_levels_when_named():
    flags = np.array([True, False, False, True, False] * 10)
    for table in (flags[:, None], pd.DataFrame({"c": flags}), pl.DataFrame({"c": flags})):
        assert Dataset(table, categorical_features=[0]).levels[0].values == (False, True)
        assert Dataset(table).levels is None
    gaps = pl.DataFrame({"c": [None, *flags.tolist()]})
    assert Dataset(gaps, categorical_features=["c"]).levels[0].values == (False, True)


def test_features_are_named_by_name_position_or_parameter():
    frame = pd.DataFrame({"a": [0, 1, 2, 0] * 5, "b": ["x", "y"] * 10, "c": [1.5, 2.5] * 10})
    assert Dataset(frame).categorical_features == [1]
    assert Dataset(frame, categorical_features=["b", 0]).categorical_features == [0, 1]
    for given_ in (["a", "b"], "name:a,b", "0,1", [0, 1], (1, "a")):
        params = Params.from_dict({"categorical_feature": given_})
        assert Dataset(frame).construct(params).categorical_features == [0, 1]
    assert Dataset(frame, categorical_features=[1]).construct(Params.from_dict({"cat_feature": "b"})).levels is not None


def test_contradictions_are_refused():
    frame = pd.DataFrame({"a": [0, 1, 2, 0] * 5, "b": ["x", "y"] * 10})
    both = Params.from_dict({"categorical_feature": [0, 1]})
    with pytest.raises(DataError, match=r"categorical_feature=\[0, 1\].*categorical_features=\[1\]"):
        Dataset(frame, categorical_features=["b"]).construct(both)
    with pytest.raises(DataError, match="already binned with categorical features"):
        Dataset(frame).construct().construct(both)
    with pytest.raises(DataError, match=r"categorical_features=\[0, 1\], but the reference Dataset has \[1\]"):
        Dataset(frame, categorical_features=[0, 1], reference=Dataset(frame)).construct()
    assert Dataset(frame, categorical_features=["b"], reference=Dataset(frame)).levels is not None
    with pytest.raises(DataError, match=r"not numbers.*'b'"):
        Dataset(frame, categorical_features=["a"])
    with pytest.raises(DataError, match=r"not numbers.*'b'"):
        Dataset(frame).construct(Params.from_dict({"categorical_feature": "a"}))


@pytest.mark.parametrize(
    ("given_", "message"),
    [(["q"], "'q', which is no feature"), ([2], "0 to 1"), ([-1], "0 to 1"), ([True], "True"), ("b", "pass a list")],
)
def test_features_that_do_not_exist_are_refused(given_, message):
    with pytest.raises(DataError, match=message):
        Dataset(pd.DataFrame({"a": [0, 1], "b": ["x", "y"]}), categorical_features=given_)


def test_bad_parameter_is_refused():
    for bad in (1.5, [1.5], {"a": 1}, [None], True, [True, 1]):
        with pytest.raises(ParameterError, match="categorical_feature"):
            Params.from_dict({"categorical_feature": bad})


def test_infinities_are_no_levels():
    with pytest.raises(DataError, match="no integer"):
        Dataset(np.array([[0.0], [np.inf]]), categorical_features=[0]).construct()
    with pytest.raises(DataError, match="no integer"):
        open_table(np.array([[np.inf]])).with_levels([Levels((0, 1))])


def test_levels_of_other_kinds_are_refused():
    with pytest.raises(DataError, match="mixes integers and strings"):
        Dataset(pd.DataFrame({"c": pd.Categorical([1, "a"] * 5)})).construct()
    dates = pd.Categorical(pd.to_datetime(["2020-01-01", "2020-01-02"] * 5))
    with pytest.raises(DataError, match="convert the column to strings"):
        Dataset(pd.DataFrame({"c": dates})).construct()
    with pytest.raises(DataError, match="no integer"):
        Dataset(pd.DataFrame({"c": pd.Categorical([0.5, 1.0] * 5)})).construct()
    with pytest.raises(DataError, match=r"holds integers.*are strings"):
        open_table(np.array([[1]])).with_levels([Levels(("a",))])
    with pytest.raises(DataError, match=r"holds strings.*are integers"):
        open_table(pd.DataFrame({"c": ["a"]})).with_levels([Levels((1,))])
    with pytest.raises(DataError, match="not numbers"):
        open_table(pd.DataFrame({"c": ["a"]})).with_levels(None)


def column_of(counts: list[int]) -> CodedColumn:
    codes = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    return CodedColumn([f"level {i:06}" for i in range(len(counts))], codes)


def test_rare_levels_are_left_out():
    few = choose_levels(column_of([50, 10, 2, 1]), max_bin=255, min_data_in_bin=3)
    assert few.values == ("level 000000", "level 000001")
    assert len(choose_levels(column_of([2, 1, 1]), 255, 3)) == 2  # two are kept however rare
    assert len(choose_levels(column_of([50, 10, 2, 1]), 255, 1)) == 4
    # beyond max_bin - 1 levels, as many as cover 99 % of the rows
    assert len(choose_levels(column_of([100] * 50 + [5] * 10), 11, 3)) == 50  # 98.0, then 98.1, ... are below 99
    many = column_of([1000] * 20 + [3] * 30)
    assert len(choose_levels(many, 11, 3)) == 20
    assert len(choose_levels(many, 255, 3)) == 50


def test_at_most_so_many_levels_have_a_bin():
    assert len(choose_levels(column_of([3] * 70_000), 255, 3)) == MAX_LEVELS


@given(st.lists(st.integers(-3, 60), min_size=1, max_size=60), st.integers(2, 20), st.integers(1, 4))
@settings(max_examples=60)
def test_kept_levels_are_the_most_frequent_ones(values, max_bin, min_data):
    column = code_numbers(np.array(values), "c")
    kept = choose_levels(column, max_bin, min_data)
    known = [value for value in values if value >= 0]
    order = sorted(set(known), key=lambda value: (-known.count(value), value))
    assert list(kept.values) == order[: len(kept)]
    left_out = [known.count(value) for value in order[len(kept) :]]
    covered = sum(known.count(value) for value in kept.values)
    assert not left_out or left_out[0] < min_data or (covered >= 0.99 * len(known) and len(kept) >= max_bin - 1)


@pytest.mark.parametrize("use_missing", [True, False])
def test_missing_levels_have_the_missing_bin(use_missing):
    table = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, np.nan], [1.0, 3.0], [np.nan, 1.0], [-2.0, 5.0]] * 4)
    data = Dataset(table, categorical_features=[0], use_missing=use_missing, min_data_in_bin=1).binned
    assert data.used.tolist() == [1, 0]  # features of numbers come first
    assert data.n_numeric == 1
    assert data.bins[:6, 1].tolist() == [0, 0, 1, 1, 2, 2]
    assert data.has_missing.tolist() == [use_missing, True]


def test_one_level_and_missing_make_a_feature():
    frame = pd.DataFrame({"c": ["a", None] * 10, "d": [None] * 20, "e": ["b"] * 20})
    frame["d"] = frame["d"].astype("category")
    data = Dataset(frame).binned
    assert data.used.tolist() == [0]


def test_validation_sets_take_the_levels_of_their_reference():
    train = Dataset(pd.DataFrame({"c": pd.Categorical(["a", "b", "b", "c"] * 5)}))
    other = pd.DataFrame({"c": pd.Categorical(["c", "new", "a", None], categories=["new", "c", "a"])})
    valid = Dataset(other, reference=train)
    assert valid.binned.bins[:, 0].tolist() == [2, 3, 1, 3]


def test_integers_that_are_not_named_stay_numbers():
    assert Dataset(np.arange(20)[:, None]).levels is None


def test_levels_are_extended_in_order():
    old, new = Levels(("a", "b")), Levels(("c", "a", "d"))
    (merged,) = extended_levels([old], [new], ["x"])
    assert merged.values == ("a", "b", "c", "d")
    assert extended_levels([old], [Levels(("b",))], ["x"])[0] is old
    assert extended_levels(None, None, ["x"]) is None
    with pytest.raises(DataError, match="'x' is categorical in init_model and not so"):
        extended_levels([old], None, ["x"])
    with pytest.raises(DataError, match="such as 'a' in init_model"):
        extended_levels([old], [Levels((1,))], ["x"])
