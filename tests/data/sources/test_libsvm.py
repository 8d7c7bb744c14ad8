"""LibSVM files: what pyarrow reads of them is what scikit-learn reads, and bad lines have numbers."""

import gzip
import io
import sys

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.data.sources import libsvm
from hornbeam.data.sources.files import read_files
from hornbeam.data.sources.wanted_columns import Wanted

datasets = pytest.importorskip("sklearn.datasets")
pytest.importorskip("pyarrow")

VALUES = ["0", "-0", "1", "+1", "0.1", "-2.5e-7", "3E+05", "1e308", "5e-324", ".5", "7.", "nan", "inf", "-inf"]


def make_text(n_rows: int, seed: int, queries: bool) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(n_rows):
        indices = np.flatnonzero(rng.random(40) < rng.random())
        entries = [f"{index}:{rng.choice(VALUES) if rng.random() < 0.3 else repr(rng.normal())}" for index in indices]
        head = [str(rng.choice(["+1", "-1", "0", "2.5"]))] + ([f"qid:{row // 3}"] if queries else [])
        lines.append(str(rng.choice([" ", "  ", "\t"])).join(head + entries))
        if rng.random() < 0.1:
            lines[-1] += str(rng.choice([" # a, comment: 3", " ", "\r"]))
        if rng.random() < 0.05:
            lines.append(str(rng.choice(["", "# whole line", "   "])))
    return "\n".join(lines) + "\n"


def same_bits(a, b) -> bool:
    return np.array_equal(np.asarray(a, np.float64).view(np.int64), np.asarray(b, np.float64).view(np.int64))


@pytest.mark.parametrize("queries", [False, True])
@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
def test_files_are_read_as_scikit_learn_reads_them(queries, block, tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", block)
    text = make_text(200, 7, queries)
    (tmp_path / "t.svm").write_text(text)
    table, label, qid = datasets.load_svmlight_file(str(tmp_path / "t.svm"), zero_based=True, query_id=True)
    loaded = read_files(tmp_path / "t.svm", Wanted())
    assert loaded.table.shape == table.shape
    assert np.array_equal(loaded.table.indptr, table.indptr) and np.array_equal(loaded.table.indices, table.indices)
    assert same_bits(loaded.table.data, table.data) and same_bits(loaded.fields["label"], label)
    assert ("qid" in loaded.fields) == queries
    assert not queries or np.array_equal(loaded.fields["qid"], qid)


@pytest.mark.parametrize("end", ["", ".gz"])
def test_files_are_read_alike_without_pyarrow(end, tmp_path, monkeypatch):
    path = tmp_path / f"t.svm{end}"
    path.write_bytes(gzip.compress(make_text(60, 3, True).encode()) if end else make_text(60, 3, True).encode())
    expected = read_files(path, Wanted())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = read_files(path, Wanted())
    assert found.table.shape == expected.table.shape and (found.table.indices == expected.table.indices).all()
    assert same_bits(found.table.data, expected.table.data)
    assert all(same_bits(found.fields[name], expected.fields[name]) for name in ("label", "qid"))
    path.write_bytes(b"1 0:x\n" if not end else gzip.compress(b"1 0:1\n")[:-4])
    with pytest.raises(hb.DataError, match="cannot be read as LibSVM"):
        read_files(path, Wanted())


@pytest.mark.parametrize("queries", [False, True])
def test_the_fast_parser_is_the_definition(queries):
    plain = "\n".join(line for line in make_text(100, 8, queries).split("\n") if line.strip(" \r"))
    fast, slow = (parse(plain.encode(), queries) for parse in (libsvm._parse_by_arrow, libsvm.read_lines))
    assert fast is not None
    for name in ("label", "sizes", "indices", "values"):
        assert same_bits(getattr(fast, name), getattr(slow, name)), name
    assert (fast.query is None) == (not queries)
    assert not queries or np.array_equal(fast.query, slow.query)


def test_compressed_files_and_open_files_are_read(tmp_path):
    text = make_text(50, 9, False).encode()
    (tmp_path / "t.svm").write_bytes(text)
    (tmp_path / "t.svm.gz").write_bytes(gzip.compress(text))
    expected = read_files(tmp_path / "t.svm", Wanted())
    for source in (tmp_path / "t.svm.gz", io.BytesIO(text)):
        loaded = read_files(source, Wanted())
        assert same_bits(loaded.table.data, expected.table.data)
        assert np.array_equal(loaded.table.indices, expected.table.indices)


BAD = {
    "1 0:x": "the value of index 0, 'x', is no number",
    "1 0:": "the value of index 0, '', is no number",
    "1 0:1_0": "the value of index 0, '1_0', is no number",
    "one 0:1": "the label, 'one', is no number",
    "3:0.5 4:1": "the label, '3:0.5', is no number",
    "1 :5": "the index, '', is no whole number",
    "1 -1:5": "the index, '-1', is no whole number",
    "1 -2:5": "the index, '-2', is no whole number",
    "1 1.5:5": "the index, '1.5', is no whole number",
    "1 3000000000:5": "is too large",
    "1 3,5": "'3,5' is no entry",
    "1,2 3:5": "the label, '1,2', is no number",
    "1 3:5:6": "the value of index 3, '5:6', is no number",
    "1 3 4:5": "'3' is no entry",
    "1 4:1 4:2": "index 4 stands after 4",
    "1 4:1 2:2": "index 2 stands after 4",
    "1 2:1 qid:5": "the index, 'qid', is no whole number",
    "1 qid:4 2:1": "some lines have a qid and others have none",
}


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("block", [16, 1 << 20])
def test_a_bad_line_is_named_by_its_number(line, block, tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", block)
    (tmp_path / "t.svm").write_text(f"# head\n0 1:2\n\n1 0:1 3:4\n{line}\n0 5:1\n")
    with pytest.raises(hb.DataError) as refused:
        hb.Dataset(tmp_path / "t.svm")
    assert "(line 5: " in str(refused.value) and BAD[line] in str(refused.value)


@pytest.mark.parametrize("line", ["1 2:1", "1", "1 qid:x 2:1", "1 qid:-3 2:1", "1 qid:1.5 2:1", "1 qid:nan 2:1"])
def test_a_line_without_a_query_is_named_where_others_have_one(line, tmp_path):
    (tmp_path / "t.svm").write_text(f"0 qid:1 1:2\n1 qid:1 1:3\n{line}\n")
    with pytest.raises(hb.DataError, match=r"\(line 3: (some lines have a qid|the query, '.*', is no)"):
        hb.Dataset(tmp_path / "t.svm")


def test_files_with_and_without_queries_are_not_one_table(tmp_path):
    (tmp_path / "a.svm").write_text("0 qid:1 1:2\n")
    (tmp_path / "b.svm").write_text("0 1:2\n")
    with pytest.raises(hb.DataError, match=r"b\.svm' cannot be read as one table \(some lines have a qid"):
        hb.Dataset(tmp_path / "?.svm")


def test_a_file_without_rows_is_refused(tmp_path):
    (tmp_path / "t.svm").write_text("# nothing but\n\n# comments\n")
    with pytest.raises(hb.DataError, match="it has no rows"):
        hb.Dataset(tmp_path / "t.svm")
