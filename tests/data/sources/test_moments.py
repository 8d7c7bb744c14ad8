"""Dates and times are seconds, the same ones whatever holds them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from fractions import Fraction

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.data.sources.moments import seconds
from hornbeam.data.sources.opening import open_table

pd, pl, pa = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")

TEXTS = [
    "2020-02-29T12:34:56.123457",
    "1969-12-31T23:59:59.999999",
    "1970-01-01T00:00:00",
    "NaT",
    "1815-06-18T11:35:00",
]
MOMENTS = np.array(TEXTS, "M8[us]")


def naive(text: str) -> float:
    """Return seconds since 1970 by the calendar of Python and exact fractions."""
    passed = datetime.fromisoformat(text) - datetime(1970, 1, 1)
    micro = (passed.days * 86400 + passed.seconds) * 10**6 + passed.microseconds
    whole, rest = divmod(micro, 10**6)
    return float(whole) + float(Fraction(rest, 10**6))


EXPECTED = np.array([np.nan if text == "NaT" else naive(text) for text in TEXTS])


def read(table: object) -> np.ndarray:
    reader = open_table(table)
    return reader.read(0, reader.n_rows)[:, 0]


def same(left: np.ndarray, right: np.ndarray) -> bool:
    return np.array_equal(left, right, equal_nan=True)


@pytest.mark.parametrize("unit", ["us", "ns", "ps"])
def test_datetimes_are_seconds_in_every_unit(unit):
    moments = MOMENTS if unit != "ps" else MOMENTS[1:4]  # picoseconds reach a hundred days
    expected = EXPECTED if unit != "ps" else EXPECTED[1:4]
    assert same(seconds(moments.astype(f"M8[{unit}]")), expected)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25s"])
def test_coarse_units_are_exact(unit):
    moments = np.array(["2020-02-27", "1969-12-18", "NaT"], "M8[D]").astype(f"M8[{unit}]")
    expected = [np.nan if np.isnat(m) else float((m.astype("M8[s]") - np.datetime64(0, "s")).item().total_seconds())
                for m in moments]  # fmt: skip
    assert same(seconds(moments), np.array(expected))


def test_datetimes_are_the_same_numbers_in_every_library():
    values = [None if np.isnat(moment) else moment.item() for moment in MOMENTS]
    series = pd.Series(MOMENTS)
    polars = pl.Series("t", values, dtype=pl.Datetime("us"))
    tables = [
        MOMENTS[:, None],
        series.to_frame("t"),
        series.astype("datetime64[ns]").to_frame("t"),
        series.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo").to_frame("t"),
        series.astype(pd.ArrowDtype(pa.timestamp("us"))).to_frame("t"),
        polars.to_frame(),
        polars.cast(pl.Datetime("ns")).to_frame(),
        polars.dt.replace_time_zone("UTC").dt.convert_time_zone("America/Lima").to_frame(),
        pa.table({"t": pa.array(values, pa.timestamp("us"))}),
        pa.table({"t": pa.chunked_array([pa.array(values[:2], pa.timestamp("ns", "UTC")),
                                         pa.array(values[2:], pa.timestamp("ns", "UTC"))])}),
    ]  # fmt: skip
    for table in tables:
        assert same(read(table), EXPECTED), type(table)


def test_a_date_is_the_datetime_of_its_midnight():
    days = [date(2020, 2, 29), None, date(1969, 7, 20)]
    expected = np.array([18321 * 86400.0, np.nan, -165 * 86400.0])
    tables = [
        np.array(days, "M8[D]")[:, None],
        pd.DataFrame({"d": pd.to_datetime(pd.Series(days))}),
        pd.DataFrame({"d": pd.Series(days, dtype=pd.ArrowDtype(pa.date32()))}),
        pl.DataFrame({"d": days}),
        pa.table({"d": pa.array(days, pa.date32())}),
        pa.table({"d": pa.array(days, pa.date64())}),
    ]
    for table in tables:
        assert same(read(table), expected), type(table)


def test_durations_and_times_of_day_are_seconds():
    spans = [timedelta(days=1, microseconds=1), None, timedelta(seconds=-1.5)]
    expected = np.array([86400.0 + 1e-6, np.nan, -1.5])
    for table in (
        np.array(spans, "m8[us]")[:, None],
        pd.DataFrame({"d": pd.Series(spans, dtype="m8[us]")}),
        pl.DataFrame({"d": spans}),
        pl.DataFrame({"d": spans}).to_arrow(),
    ):
        assert same(read(table), expected), type(table)
    clock = [time(0, 0, 1), None, time(23, 59, 59, 500000)]
    for table in (
        pl.DataFrame({"d": clock}),
        pa.table({"d": pa.array(clock, pa.time64("us"))}),
        pa.table({"d": pa.array([time(0, 0, 1), None, time(23, 59, 59, 500000)], pa.time32("ms"))}),
    ):
        assert same(read(table), np.array([1.0, np.nan, 86399.5])), type(table)


def test_models_of_dates_are_the_same_from_every_library():
    rng = np.random.default_rng(0)
    moments = np.datetime64("2020-01-01", "us") + rng.integers(0, 10**13, 300).astype("m8[us]")
    label = (moments.astype("M8[M]").astype(int) % 12 < 6).astype(float)
    frame = pd.DataFrame({"Column_0": moments})
    tables = [moments[:, None], frame, pl.from_pandas(frame), pl.from_pandas(frame).to_arrow()]
    params = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 7}
    models = [hb.train(params, hb.Dataset(table, label=label), 3) for table in tables]
    assert len({model.fingerprint() for model in models}) == 1
    predicted = [model.predict(table) for model, table in zip(models, tables, strict=True)]
    assert all((one == predicted[0]).all() for one in predicted)
    assert (models[0].predict(frame.head(5)) == predicted[0][:5]).all()


def test_what_is_no_number_of_seconds_is_refused_with_a_remedy():
    with pytest.raises(hb.DataError, match="days"):
        open_table(np.zeros((2, 1), "m8[M]"))
    with pytest.raises(hb.DataError, match="datetime64"):
        open_table(np.array([[datetime(2020, 1, 1, tzinfo=timezone.utc)]], object))
    with pytest.raises(hb.DataError, match=r"pandas\.to_datetime"):
        open_table(pd.DataFrame({"d": [date(2020, 1, 1)]}))
