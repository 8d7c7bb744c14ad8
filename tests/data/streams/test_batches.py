"""Sources of streams give the same model as the table that they hold; what cannot be a stream says what to do."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError
from hornbeam.data.bin_bounds import sample_rows
from hornbeam.data.streams.first_reading import Sample
from hornbeam.testing.golden_case import golden_score, golden_table, uniform

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")

PARAMS = {"objective": "binary", "num_leaves": 7, "verbosity": -1, "device": "reference"}


@pytest.fixture(scope="module")
def frame():
    """Return numbers with missing values, whole numbers, strings, labels, weights and ids of queries."""
    table = golden_table(800, 4, missing=True)
    colour = np.array(["red", "green", "blue", None], object)[np.floor(4.0 * uniform(800, 9)).astype(int)]
    label = (golden_score(table) > 1.0).astype(float)
    columns = {f"x{place}": table[:, place] for place in range(4)}
    whole = np.floor(9.0 * uniform(800, 3)).astype(int)
    return pd.DataFrame(
        {**columns, "n": whole, "colour": colour, "y": label, "w": 0.5 + uniform(800, 1), "q": np.arange(800) // 30}
    )


@pytest.fixture(scope="module")
def expected(frame):
    """Return the fingerprint of the model of the frame in memory."""
    data = hb.Dataset(frame.drop(columns="q"), label="y", weight="w")
    return hb.train(PARAMS, data, 3).fingerprint()


def fingerprint(source, **options):
    stream = hb.Stream(source, label="y", weight="w", chunk_rows=170, **options)
    return hb.train(PARAMS, hb.Dataset(stream), 3).fingerprint()


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder, table = (
        tmp_path_factory.mktemp("files"),
        pa.Table.from_pandas(frame.drop(columns="q"), preserve_index=False),
    )
    for number, first in enumerate(range(0, 800, 300)):
        part = table.slice(first, 300)
        parquet.write_table(part, folder / f"part-{number}.parquet", row_group_size=90)
        with pa.ipc.new_file(folder / f"part-{number}.arrow", table.schema) as writer:
            writer.write_table(part, max_chunksize=200)
    with pa.ipc.new_stream(folder / "all.arrows", table.schema) as writer:
        writer.write_table(table, max_chunksize=250)
    frame.drop(columns="q").to_csv(folder / "all.csv", index=False)
    return folder


@pytest.mark.parametrize("name", ["part-*.parquet", "part-*.arrow", "all.arrows", "all.csv"])
def test_files_give_the_model_of_the_frame(files, expected, name):
    assert fingerprint(str(files / name)) == expected


def test_lists_and_datasets_of_files_give_the_model_of_the_frame(files, expected):
    from pyarrow import dataset

    assert fingerprint([files / f"part-{number}.parquet" for number in range(3)]) == expected
    assert fingerprint(dataset.dataset(sorted(map(str, files.glob("*.parquet"))))) == expected


def test_tables_in_memory_give_the_model_of_the_frame(frame, expected):
    pl = pytest.importorskip("polars")
    plain = frame.drop(columns="q")

    class Arrow:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.Table.from_pandas(plain, preserve_index=False).__arrow_c_stream__()

    for source in (plain, pl.from_pandas(plain), pa.Table.from_pandas(plain, preserve_index=False), Arrow()):
        assert fingerprint(source) == expected
    assert fingerprint([plain[:100], plain[100:]]) == expected
    assert fingerprint(lambda: (pl.from_pandas(plain[first : first + 90]) for first in range(0, 800, 90))) == expected


def test_arrays_that_are_mapped_from_a_file_are_streams(tmp_path):
    table = golden_table(500, 5).astype(np.float32)
    np.save(tmp_path / "table.npy", table)
    label = golden_score(table.astype(np.float64))
    data = hb.Dataset(hb.Stream(np.load(tmp_path / "table.npy", mmap_mode="r"), chunk_rows=70), label=label)
    whole = hb.Dataset(table, label=label)
    assert np.array_equal(data.binned.bins, whole.binned.bins)
    assert all(map(np.array_equal, data.mapper.upper_bounds, whole.mapper.upper_bounds))


def test_queries_may_be_cut_by_batches(frame):
    table = frame.drop(columns=["w", "colour"])
    params = {**PARAMS, "objective": "lambdarank"}
    whole = hb.train(params, hb.Dataset(table, label="y", qid="q"), 2).fingerprint()
    for name in ("qid", "group"):
        data = hb.Dataset(hb.Stream(table, label="y", **{name: "q"}, chunk_rows=70))
        assert data.group.tolist() == [30] * 26 + [20]
        assert hb.train(params, data, 2).fingerprint() == whole
    data = hb.Dataset(hb.Stream(table, chunk_rows=70), label="y", qid="q")
    assert hb.train(params, data, 2).fingerprint() == whole


def test_numbers_of_a_csv_file_may_get_fractions_further_down(tmp_path):
    lines = [f"{number % 7},{number % 2}" for number in range(300_000)] + ["2.5,1", "NA,0"]
    (tmp_path / "late.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    data = hb.Dataset(hb.Stream(tmp_path / "late.csv", label="y"))
    whole = hb.Dataset(tmp_path / "late.csv", label="y")
    assert np.array_equal(data.binned.bins, whole.binned.bins)
    assert np.array_equal(data.label, whole.label)


def test_columns_of_a_validation_set_are_chosen_by_name(frame, files):
    train_set = hb.Dataset(hb.Stream(files / "part-0.parquet", label="y", weight="w"))
    odd = frame[["q", "y", "colour", "n", "x3", "x2", "x1", "x0"]]
    table = pa.Table.from_pandas(odd, preserve_index=False)
    parquet.write_table(table, files / "odd.parquet")
    valid = hb.Dataset(hb.Stream(files / "odd.parquet", label="y"), reference=train_set)
    (files / "odd.parquet").unlink()
    assert valid.feature_names == ["x0", "x1", "x2", "x3", "n", "colour"]


def test_numbers_of_several_types_are_one_column(frame):
    whole = frame[["x0", "n", "y"]]
    parts = [whole[:200].astype({"x0": "float32"}), whole[200:500].astype({"n": "float64"}), whole[500:]]
    expected = pd.concat([part.astype("float64") for part in parts])
    data = hb.Dataset(hb.Stream(parts, label="y"))
    assert np.array_equal(data.binned.bins, hb.Dataset(expected, label="y").binned.bins)


@pytest.mark.parametrize("count", [1, 50, 700, 5000])
def test_sample_is_that_of_the_whole_table(count):
    sample = Sample(count)
    for first in range(0, 3000, 130):
        n_rows = min(130, 3000 - first)
        chosen = sample.choose(first, n_rows)
        sample.add(first, chosen, (chosen + first)[:, None].astype(float))
    sample.close()
    assert np.array_equal(sample.rows, sample_rows(3000, count))
    assert np.array_equal(sample.values[:, 0], sample.rows)
    assert np.array_equal(sample.smaller(20).rows, sample_rows(3000, min(20, count)))


# --- what cannot be a stream ------------------------------------------------------------------------------------------


def test_what_can_be_read_once_is_refused(frame, files):
    table = pa.Table.from_pandas(frame)
    for source in ((part for part in [frame]), iter([frame]), table.to_reader(), (files / "all.csv").open("rb")):
        with pytest.raises(DataError, match="can be read only once, and it is read twice: pass a function"):
            hb.Stream(source, label="y")


def test_function_that_gives_an_iterator_again_is_refused(frame):
    batches = iter([frame[:400], frame[400:]])
    data = hb.Dataset(hb.Stream(lambda: batches, label="y"))
    with pytest.raises(DataError, match="gave 0 rows after 800 when it was read again"):
        data.construct()


def test_function_that_shuffles_is_refused(frame):
    rng = np.random.default_rng(0)
    data = hb.Dataset(hb.Stream(lambda: [frame.iloc[rng.permutation(800)]], label="y"))
    with pytest.raises(DataError, match="gave other values when it was read again"):
        data.construct()


def wrong(parts, message, **options):
    with pytest.raises(DataError, match=message):
        hb.Dataset(hb.Stream(lambda: parts, **options)).construct()


def test_batches_that_differ_are_refused(frame):
    good, rest = frame[:400], frame[400:]
    wrong([good, rest.rename(columns={"x1": "z"})], r"batch 1 .*called 'z' where that of the first .* 'x1'", label="y")
    wrong([good, rest.drop(columns="n")], r"batch 1 of the stream \(from row 400 on\): 7 columns, and 8", label="y")
    wrong([good, rest.drop(columns="y")], r"batch 1 .*label='y': there is no such column", label="y")
    wrong([good, rest.assign(x2="a")], r"batch 1 .*column 'x2' holds .* and numbers in the first batch", label="y")
    wrong([good, rest.assign(colour=pd.Categorical([3] * 400))], "levels of several kinds in its batches", label="y")
    wrong([good[["x1", "y"]].to_numpy(), rest[["x1", "y", "n"]].to_numpy()], r"batch 1 .*3 columns, and 2")
    wrong([(good[["x1"]], good["y"]), rest[["x1"]]], "batch 1 .*label is not in all batches")
    wrong([(good[["x1"]], good["y"][:5])], r"batch 0 .*label has shape \(5,\) for 400 rows")
    wrong([{"data": good[["x1"]], "labels": 1}], "batch has the entry 'labels'; entries are data, label")
    wrong([{"label": good["y"]}], "one of them must be 'data'")
    wrong([(good, good["y"], 1)], "tuple of 3")


def test_labels_that_are_missing_name_their_row(frame):
    table = frame[["x0", "y"]].copy()
    table.loc[555, "y"] = np.nan
    wrong([table[:400], table[400:]], r"label\[555\]", label="y")


def test_kinds_that_are_no_streams_are_refused(frame, tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    wrong([sparse.csr_array(np.eye(5))], "batch 0 .*sparse table; streams are dense")
    with pytest.raises(DataError, match="cannot be read from int"):
        hb.Stream(3)
    pl = pytest.importorskip("polars")
    with pytest.raises(DataError, match="LazyFrame is lazy"):
        hb.Stream(pl.from_pandas(frame).lazy())
    (tmp_path / "a.svm").write_text("1 1:2\n")
    with pytest.raises(DataError, match="LibSVM files are sparse"):
        hb.Stream(tmp_path / "a.svm")
    with pytest.raises(DataError, match="there is no file"):
        hb.Stream(tmp_path / "nowhere.parquet")
    wrong(7, "returned int, which is no batches")


def test_streams_without_rows_are_refused(frame):
    wrong([], "the stream is empty")
    wrong([frame[:0]], "the stream is empty")


def test_damaged_files_are_named(files, tmp_path):
    (tmp_path / "cut.parquet").write_bytes((files / "part-0.parquet").read_bytes()[:-100])
    with pytest.raises(DataError, match=r"cut.parquet' cannot be read as Parquet"):
        hb.Dataset(hb.Stream(tmp_path / "cut.parquet", label="y"))


def test_arguments_are_checked(frame, tmp_path):
    with pytest.raises(DataError, match="label of a Stream is the name of a column, not Series"):
        hb.Stream(frame, label=frame["y"])
    with pytest.raises(DataError, match="both name the column of query ids"):
        hb.Stream(frame, group="q", qid="q")
    with pytest.raises(DataError, match="label= is given to the Stream and to the Dataset"):
        hb.Dataset(hb.Stream(frame, label="y"), label="y")
    with pytest.raises(DataError, match="cache='x' is the folder for bins of a stream; data are ndarray"):
        hb.Dataset(np.eye(4), cache="x")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file, and must be a folder"):
        hb.Dataset(hb.Stream(frame, label="y"), cache=tmp_path / "file")
    with pytest.raises(DataError, match="no file can be written in"):
        hb.Dataset(hb.Stream(frame, label="y"), cache=tmp_path / "file" / "below").construct()
    with pytest.raises(hb.HornbeamError, match="chunk_rows"):
        hb.Stream(frame, chunk_rows=0)


def test_single_rows_of_a_stream_are_refused(frame):
    data = hb.Dataset(hb.Stream(frame[["x0", "n", "y"]], label="y"))
    for ask in (lambda: data.subset([1, 2]), lambda: hb.cv(PARAMS, data, 2, nfold=2)):
        with pytest.raises(DataError, match="the rows of a stream are read in order, and are not held"):
            ask()
