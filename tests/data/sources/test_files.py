"""Files give the model of the table that they hold, and what is wrong with them is said in a line."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.data.sources.delimited import are_numbers
from hornbeam.data.sources.files import format_of_name
from hornbeam.data.sources.opening import open_table

pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")

PARAMS = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 5, "min_data_in_leaf": 5}


def make_frame(n_rows: int = 90):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.standard_normal(n_rows), "b.c": rng.integers(0, 5, n_rows)})
    frame["d"] = pd.Categorical(rng.choice(["u", "v", None], n_rows))
    frame["y"] = (frame["a"] + (frame["d"] == "u") > 0.3).astype(int)
    return frame


FRAME = make_frame()


def fingerprint(data, **given) -> str:
    return hb.train(PARAMS, hb.Dataset(data, **given), 3).fingerprint()


EXPECTED = fingerprint(FRAME.drop(columns="y"), label=FRAME["y"])


def write_stream(frame, path) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.arrow": lambda frame, path: frame.to_feather(path, compression="uncompressed"),
    "t.arrows": write_stream,
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "semicolons.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "bom.csv": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-8-sig"),
    "windows.csv": lambda frame, path: frame.to_csv(path, index=False, lineterminator="\r\n"),
    "parquet.dat": lambda frame, path: frame.to_parquet(path),
    "csv.txt": lambda frame, path: frame.to_csv(path, index=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_model_of_the_frame(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](FRAME, path)
    assert fingerprint(path, label="y") == EXPECTED
    assert fingerprint(str(path), params={"label_column": "name:y"}) == EXPECTED
    with path.open("rb") as file:
        assert fingerprint(file, label="y") == EXPECTED


def test_several_files_are_one_table_in_the_order_of_their_names(tmp_path, caplog):
    folder = tmp_path / "parts" / "day=1"
    folder.mkdir(parents=True)
    for number in range(3):
        part = FRAME.iloc[number * 30 : number * 30 + 30].reset_index(drop=True)
        part.to_parquet(folder / f"part-{number}.parquet")
        part[["y", "d", "b.c", "a"] if number else list(part.columns)].to_csv(tmp_path / f"p{number}.csv", index=False)
    (folder / "_SUCCESS").touch()
    names = [str(tmp_path / f"p{number}.csv") for number in range(3)]
    with caplog.at_level("INFO", logger="hornbeam"):
        assert fingerprint(tmp_path / "parts", label="y") == EXPECTED
    assert "names of folders (day)" in caplog.text
    for data in (folder, folder / "part-*.parquet", str(tmp_path / "**" / "*.parquet"), tmp_path / "p?.csv", names):
        assert fingerprint(data, label="y") == EXPECTED


def test_numbers_of_csv_files_are_those_of_python(tmp_path):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    bits = bits[np.isfinite(bits)]
    texts = [f"{value:.{digits}e}" for value, digits in zip(bits, rng.integers(3, 22, len(bits)), strict=True)]
    (tmp_path / "t.csv").write_text("x,i\n" + "\n".join(f"{text},{place}" for place, text in enumerate(texts)))
    reader = open_table(str(tmp_path / "t.csv"))
    with (tmp_path / "t.csv").open(newline="") as file:
        expected = np.array([[float(field) for field in row] for row in list(csv.reader(file))[1:]])
    assert (reader.read(0, reader.n_rows) == expected).all()


def test_types_of_csv_columns_come_from_all_lines(tmp_path):
    n_rows = 200_000  # more than a block of pyarrow
    lines = [f"{row % 7},{row % 2},," for row in range(n_rows)]
    lines[-1] = "0.5,1,2,x"
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,d\n" + "\n".join(lines) + "\n")
    assert path.stat().st_size > 1 << 20
    reader = open_table(path)
    assert reader.level_columns == [3]
    last = reader.with_levels([None, None, None, hb.Dataset(path, max_bin=8, min_data_in_bin=1).levels[3]])
    assert last.read(n_rows - 1, n_rows).tolist() == [[0.5, 1.0, 2.0, 0.0]]
    assert np.isnan(last.read(0, 1)[0, 2:]).all()


def test_what_pandas_takes_for_missing_is_missing(tmp_path):
    texts = ["NA", "NaN", "null", "None", "", "<NA>", "1.5"]
    path = tmp_path / "t.csv"
    path.write_text("x,s\n" + "\n".join(f"{text},{'q' if text == '1.5' else text}" for text in texts))
    frame = pd.read_csv(path)
    assert np.isnan(open_table(frame[["x"]]).read(0, 7)).sum() == 6
    reader = open_table(path)
    assert reader.coded(1).values == ["q"] and (reader.coded(1).codes >= 0).tolist() == [False] * 6 + [True]
    values = reader.with_levels(hb.Dataset(path, min_data_in_bin=1).levels).read(0, 7)
    assert np.array_equal(values[:, 0], frame["x"].to_numpy(), equal_nan=True)


@pytest.mark.parametrize(
    ("fields", "numbers"),
    [(["1", "2.5"], True), (["1", ""], True), (["a", "1"], False), (["", ""], False), (["-1e5", "inf"], True)],
)
def test_a_line_of_numbers_alone_holds_no_names(fields, numbers):
    assert are_numbers(fields) is numbers


def test_files_without_names_have_columns_by_position(tmp_path):
    values = np.random.default_rng(1).standard_normal((80, 3))
    label = (values[:, 0] > 0).astype(int)
    bare, whole = tmp_path / "bare.csv", tmp_path / "whole.csv"
    pd.DataFrame(values).to_csv(bare, index=False, header=False)
    pd.DataFrame(np.column_stack([label, values])).to_csv(whole, index=False, header=False)
    assert fingerprint(bare, label=label) == fingerprint(values, label=label)
    named = [f"Column_{place}" for place in (1, 2, 3)]
    data = hb.Dataset(whole, params={"label_column": 0})
    booster = hb.train(PARAMS, data, 3)
    assert booster.fingerprint() == fingerprint(values, label=label, feature_names=named)
    expected = booster.predict(values)
    assert (booster.predict(whole) == expected).all()
    assert (booster.predict(bare) == expected).all()  # as many columns as the model has, and no names
    forced = hb.Dataset(whole, params={"header": True})
    assert forced.n_rows == 79 and np.array_equal(forced.label, label[1:])  # LightGBM's parameter, and its label
    (tmp_path / "x.csv").write_text("x,y\n1,2\n")
    with pytest.raises(hb.DataError, match="'Column_0'"):
        hb.Dataset(tmp_path / "x.csv", [0, 1], params={"header": False}, categorical_features=[])


def test_a_column_more_than_an_unnamed_model_has_is_not_taken_for_a_feature(tmp_path):
    values = np.random.default_rng(1).standard_normal((80, 3))
    label = (values[:, 0] > 0).astype(int)
    first, last = tmp_path / "first.csv", tmp_path / "last.csv"
    pd.DataFrame(np.column_stack([label, values])).to_csv(first, index=False, header=False)
    pd.DataFrame(np.column_stack([values, label])).to_csv(last, index=False, header=False)
    data = hb.Dataset(values, label=label)
    booster = hb.train(PARAMS, data, 3)
    expected = booster.predict(values)
    for path in (first, last):
        with pytest.raises(hb.DataError, match="name the label: predict"):
            booster.predict(path)
    assert (booster.predict(hb.Dataset(first)) == expected).all()
    assert (booster.predict(hb.Dataset(last, label="Column_3")) == expected).all()
    named = hb.train(PARAMS, hb.Dataset(values, label=label, feature_names=["a", "b", "c"]), 3)
    assert (named.predict(hb.Dataset(first)) == expected).all()
    for fields in ({}, {"label": "Column_0"}, {"params": {"label_column": 0}}):
        valid = hb.Dataset(first, reference=data, **fields)
        assert np.array_equal(valid.label, label)
        assert np.array_equal(valid.binned.block(0, 80), data.binned.block(0, 80))


def test_what_columns_of_a_file_are_holds_for_validation_files_too(tmp_path):
    for name, rows in (("train.csv", slice(0, 40)), ("valid.csv", slice(40, None))):
        FRAME[rows].to_csv(tmp_path / name, index=False)
    data = hb.Dataset(tmp_path / "train.csv", params={"header": True, "label_column": "name:y"})
    for valid in (data.create_valid(tmp_path / "valid.csv"), hb.Dataset(tmp_path / "valid.csv", reference=data)):
        assert np.array_equal(valid.label, FRAME["y"][40:].astype(float))
        assert "y" not in valid.feature_names


def test_the_index_of_pandas_is_no_feature(tmp_path, caplog):
    shuffled = FRAME.sample(frac=1.0, random_state=0)
    expected = fingerprint(shuffled.drop(columns="y"), label=shuffled["y"])
    for name in ("t.parquet", "t.feather"):
        path = tmp_path / name
        shuffled.to_parquet(path) if name.endswith("t") else feather.write_feather(
            pa.Table.from_pandas(shuffled, preserve_index=True), str(path)
        )
        with caplog.at_level("INFO", logger="hornbeam"):
            assert fingerprint(path, label="y") == expected
        assert "__index_level_0__" in caplog.text
        caplog.clear()


LINES = ["1 0:0.5 2:1.25\n", "0 1:-2 2:0 # a comment\n", "1 2:3e-5\n"] * 10


def test_libsvm_files_are_sparse_tables_with_labels(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    pytest.importorskip("sklearn")
    path = tmp_path / "t.svm"
    path.write_text("".join(LINES))
    table = np.array([[0.5, 0, 1.25], [0, -2, 0], [0, 0, 3e-5]] * 10)
    expected = fingerprint(sparse.csr_array(table), label=[1, 0, 1] * 10)
    assert fingerprint(path) == expected
    path.rename(tmp_path / "t.txt")
    data = hb.Dataset(tmp_path / "t.txt")
    assert data.reader.sparse is not None and data.label.tolist() == [1, 0, 1] * 10
    (tmp_path / "a.svm").write_text("".join(LINES[:15]))
    (tmp_path / "b.svm").write_text("".join(LINES[15:]))
    assert fingerprint(tmp_path / "?.svm") == expected
    booster = hb.train(PARAMS, data, 3)
    (tmp_path / "narrow.svm").write_text("0 0:0.5\n0 1:-2\n")
    assert (booster.predict(tmp_path / "narrow.svm") == booster.predict(np.array([[0.5, 0, 0], [0, -2, 0.0]]))).all()
    (tmp_path / "wide.svm").write_text("0 7:0.5\n")
    with pytest.raises(hb.DataError, match="has a feature 7"):
        booster.predict(tmp_path / "wide.svm")


def test_queries_of_libsvm_files(tmp_path):
    pytest.importorskip("sklearn")
    path = tmp_path / "t.svm"
    path.write_text("# ranked\n" + "".join(f"{row % 3} qid:{row // 4} 0:{row * 0.37 % 1}\n" for row in range(40)))
    data = hb.Dataset(path)
    assert data.group.tolist() == [4] * 10
    ranker = hb.HornbeamRanker(n_estimators=2, device="reference", verbosity=-1, min_child_samples=2).fit(path, None)
    expected = hb.train({**PARAMS, "objective": "lambdarank", "min_data_in_leaf": 2, "num_leaves": 31}, data, 2)
    assert ranker.booster_.fingerprint() == expected.fingerprint()


BAD = {
    "empty.csv": (b"", "'.*empty.csv' cannot be read as CSV"),
    "empty.parquet": (b"", "cannot be read as Parquet"),
    "empty": (b"", "is empty"),
    "cut.parquet": (b"PAR1 and nothing else", "cannot be read as Parquet"),
    "no.arrow": (b"ARROW1 and nothing else", "cannot be read as Arrow"),
    "ragged.csv": (b"a,b\n1,2\n3\n", "cannot be read as CSV .*Expected 2 columns"),
    "twice.csv": (b"a,a\n1,2\n", "two columns called 'a'"),
    "names_alone.csv": (b"a,b\n", "empty: 0 rows"),
    "bytes.csv": (b"a,b\n1,\xff\xfe\n", "'b' .Binary"),
    "bad.svm": (b"1 0:x\n", "cannot be read as LibSVM"),
    "binary.xlsx": (b"PK\x03\x04\0\0\0", "no table that is known"),
    "cut.csv.gz": (gzip.compress(b"a,b\n" + b"1,2\n" * 9999)[:40], "cannot be read as CSV"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_tables_are_refused_in_a_line(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(hb.DataError, match=message) as refused:
        hb.Dataset(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_paths_that_name_no_file_are_refused_with_a_remedy(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("z\n1\n")
    (tmp_path / "c.csv").write_text("x\nred\n")
    FRAME.to_parquet(tmp_path / "a.parquet")
    for data, message in [
        (tmp_path / "none.csv", "no file"),
        (tmp_path / "none-*.csv", "pattern that no file has"),
        (tmp_path / "folder", "folder without files"),
        ("https://example.org/a.csv", "download"),
        ("s3://bucket/a.parquet", "scan_parquet"),
        (tmp_path / "a.*", "several formats"),
        ([tmp_path / "a.csv", tmp_path / "b.csv"], "other columns"),
        ([tmp_path / "a.csv", tmp_path / "c.csv"], "other types"),
        (io.StringIO("x\n1\n"), "bytes"),
    ]:
        with pytest.raises(hb.DataError, match=message):
            hb.Dataset(data)


@pytest.mark.parametrize("end", ["", ".gz", ".bz2"])
def test_without_pyarrow_files_of_numbers_are_read_alike(end, tmp_path, monkeypatch):
    rows = np.arange(len(FRAME))
    numbers = FRAME[["a", "b.c"]].assign(y=rows % 2, n=rows / 7, is_high=FRAME["a"] > 0, gaps=FRAME["a"] ** 3)
    numbers.loc[::7, "gaps"] = np.nan
    bare = numbers.drop(columns="is_high")
    (tmp_path / "bare.tsv").write_text(bare.to_csv(sep="\t", header=False, index=False))
    numbers.to_csv(tmp_path / f"named.csv{end}", index=False)
    given = [(tmp_path / f"named.csv{end}", {"label": "y"}), (tmp_path / "bare.tsv", {"label": "Column_2"})]
    expected = [fingerprint(path, **more) for path, more in given]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert [fingerprint(path, **more) for path, more in given] == expected
    model = hb.train(PARAMS, hb.Dataset(given[0][0], label="y"), 2)
    assert np.array_equal(model.predict(given[0][0]), model.predict(numbers.drop(columns="y")))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    FRAME[:5].to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "torn.csv").write_text("x,y\n1,2\n1,2,3,4\n")
    (tmp_path / "a.csv.zst").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for data in ("a.parquet", "a.csv.zst"):
        with pytest.raises(hb.DataError, match=r"hornbeam\[files\]"):
            hb.Dataset(tmp_path / data)
    with pytest.raises(hb.DataError, match=r"2 files.*hornbeam\[files\]"):
        hb.Dataset([tmp_path / "a.csv", tmp_path / "a.csv"])
    with pytest.raises(hb.DataError, match=r"hornbeam\[files\]"):
        hb.Dataset(hb.Stream(tmp_path / "a.csv", label="x"))
    with pytest.raises(hb.DataError, match="cannot be read as CSV"):
        hb.Dataset(tmp_path / "torn.csv")


def test_without_pyarrow_what_is_no_number_is_an_error(tmp_path):
    """In a process in which pandas has not met pyarrow."""
    (tmp_path / "texts.csv").write_text("x,y\n1,b\n2,NA\n")
    (tmp_path / "days.csv").write_text("x\n2020-01-01\n")
    code = "import sys; sys.modules['pyarrow'] = None; import hornbeam as hb\n"
    code += "for name in sys.argv[1:]:\n  try: hb.Dataset(name)\n  except hb.DataError as error: print(error)"
    paths = [str(tmp_path / name) for name in ("texts.csv", "days.csv")]
    done = subprocess.run([sys.executable, "-c", code, *paths], check=True, capture_output=True, text=True).stdout
    for line, column in zip(done.splitlines(), ("'y'", "'x'"), strict=True):
        assert column in line and "hornbeam[files]" in line


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.CSV", "csv"), ("x/a.tsv.gz", "csv"), ("a.pq", "parquet"), ("a.feather", "arrow"), ("a.gz", None), ("a", None)],
)
def test_ends_of_names_say_the_format(name, kind):
    assert format_of_name(name) == kind
