"""Text files as LightGBM has them: the label in the first column, and files beside them that say more of the rows."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

pytest.importorskip("pyarrow")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(300, 4))
Y = (X[:, 0] + RANDOM.normal(size=300) > 0.0).astype(float)
WEIGHT = RANDOM.random(300) + 0.5
INIT = RANDOM.normal(size=300)
SIZES = [100, 50, 150]
NAMES = [f"Column_{place}" for place in range(1, 5)]
PARAMS = {"objective": "binary", "num_leaves": 5, "verbosity": -1}


def write(path, lines):
    np.savetxt(path, lines, fmt="%.17g", delimiter="\t")
    return str(path)


@pytest.fixture
def rows(tmp_path):
    """Path of a file without names, whose first column is the label."""
    return write(tmp_path / "rows.train", np.column_stack([Y, X]))


def fingerprint(data, params=PARAMS):
    return hb.train(params, data, 3).fingerprint()


def test_the_first_column_of_a_file_without_names_is_the_label(rows, tmp_path, caplog):
    expected = fingerprint(hb.Dataset(X, label=Y, feature_names=NAMES))
    with caplog.at_level("INFO", logger="hornbeam"):
        assert fingerprint(hb.Dataset(rows)) == expected
    assert "the first one is" in caplog.text
    valid = hb.Dataset(rows, reference=hb.Dataset(rows))
    assert valid.num_feature() == 4
    assert np.array_equal(valid.label, Y)
    bare = write(tmp_path / "bare.csv", X)
    assert hb.Dataset(bare, label=Y).num_feature() == 4  # labels are given


def test_a_file_with_names_has_no_label_unless_one_is_named(rows, tmp_path):
    path = tmp_path / "named.csv"
    path.write_text("y,a\n0,1.5\n1,2.5\n")
    assert hb.Dataset(str(path)).feature_names == ["y", "a"]
    assert hb.Dataset(str(path), label="y").feature_names == ["a"]


def test_files_beside_a_file_say_more_of_its_rows(rows):
    write(f"{rows}.weight", WEIGHT)
    write(f"{rows}.init", INIT)
    data = hb.Dataset(rows)
    expected = hb.Dataset(X, label=Y, weight=WEIGHT, init_score=INIT, feature_names=NAMES)
    assert fingerprint(data) == fingerprint(expected)
    given = hb.Dataset(rows, weight=np.ones(300))  # what is passed counts
    assert fingerprint(given) == fingerprint(
        hb.Dataset(X, label=Y, weight=np.ones(300), init_score=INIT, feature_names=NAMES)
    )


@pytest.mark.parametrize("end", ["query", "group"])
def test_queries_and_positions_lie_beside_a_file(rows, end):
    write(f"{rows}.{end}", SIZES)
    positions = np.arange(300) % 7
    write(f"{rows}.position", positions)
    how = {**PARAMS, "objective": "lambdarank"}
    expected = hb.Dataset(X, label=Y, group=SIZES, position=positions, feature_names=NAMES)
    assert fingerprint(hb.Dataset(rows), how) == fingerprint(expected, how)
    ids = np.repeat([5, 6], 150)
    own = hb.Dataset(X, label=Y, qid=ids, position=positions, feature_names=NAMES)
    assert fingerprint(hb.Dataset(rows, qid=ids), how) == fingerprint(own, how)


def test_files_beside_several_files_are_joined_as_these(tmp_path):
    for name, part in (("a", slice(0, 100)), ("b", slice(100, 300))):
        path = write(tmp_path / f"{name}.csv", np.column_stack([Y, X])[part])
        write(f"{path}.weight", WEIGHT[part])
    paths = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    data = hb.Dataset(paths, params={"label_column": 0})
    assert fingerprint(data) == fingerprint(hb.Dataset(X, label=Y, weight=WEIGHT, feature_names=NAMES))
    (tmp_path / "b.csv.weight").unlink()
    with pytest.raises(hb.DataError, match="one has weight beside it"):
        hb.Dataset(paths, params={"label_column": 0})


@pytest.mark.parametrize(
    ("end", "text", "message"),
    [
        ("weight", "1\nx\n", "cannot be read as weight"),
        ("weight", "1 2\n1 2\n", "one number a line"),
        ("query", "10.5\n", "whole numbers"),
        ("weight", "1\n2\n", "weight"),
        ("query", "10\n", "group"),
    ],
)
def test_wrong_files_beside_a_file_are_named(rows, tmp_path, end, text, message):
    (tmp_path / f"rows.train.{end}").write_text(text)
    with pytest.raises(hb.DataError, match=message):
        hb.Dataset(rows)


def test_lightgbm_reads_the_same_of_them(rows):
    lightgbm = pytest.importorskip("lightgbm")
    write(f"{rows}.weight", WEIGHT)
    write(f"{rows}.init", INIT)
    theirs, ours = lightgbm.Dataset(rows, params={"verbosity": -1}).construct(), hb.Dataset(rows)
    assert theirs.num_feature() == ours.num_feature()
    np.testing.assert_allclose(theirs.get_label(), ours.get_label())
    np.testing.assert_allclose(theirs.get_weight(), ours.get_weight(), rtol=1e-6)
    np.testing.assert_allclose(theirs.get_init_score(), ours.get_init_score(), rtol=1e-6)
