"""train, predict, evaluate and cv do what Python does."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb

COLUMNS = ("-l", "y", "--ignore", "id,w")
SMALL = ("objective=binary", "num_iterations=5", "num_leaves=7")
PARAMS = {"objective": "binary", "num_iterations": 5, "num_leaves": 7, "verbosity": -1}


def features(frame):
    return frame.drop(columns=["id", "w", "y"])


def expected_model(**given):
    frame = pd.read_csv("train.csv")
    return hb.train(PARAMS, hb.Dataset(features(frame), label=frame["y"], **given))


def test_train_gives_the_model_of_python_on_the_same_file(run):
    expected = expected_model().fingerprint()
    for data in ("train.csv", "train.parquet"):
        shown = json.loads(run("train", data, *COLUMNS, "-o", "new.json", *SMALL, "--json").stdout)
        assert shown["fingerprint"] == expected == hb.load("new.json").fingerprint()
    labels = {"label_column": "y", "ignore_column": "id,w"}
    assert hb.train(PARAMS, hb.Dataset("train.csv", params=labels)).fingerprint() == expected
    text = run("train", "train.csv", *COLUMNS, "-o", "new.json", *SMALL).stdout
    assert expected in text and "300" in text


def test_stream_gives_the_model_of_the_file_in_memory(run):
    expected = expected_model().fingerprint()
    for data in ("train.csv", "train.parquet"):
        words = ("train", data, *COLUMNS, "-o", "new.json", "-v", "valid.csv", "--cache", "scratch", "--json", *SMALL)
        assert json.loads(run(*words).stdout)["fingerprint"] == expected
    named = ("train", "train.csv", "-l", "5", "--ignore", "0,4", "--header", "-o", "new.json", "--cache", "scratch")
    assert json.loads(run(*named, "--json", *SMALL).stdout)["fingerprint"] == expected
    assert "read only once" in run("train", "-", *COLUMNS, "--cache", "scratch", code=2).output
    assert list(Path("scratch").iterdir()) == []


def test_columns_may_be_named_by_position(run):
    expected = expected_model(weight=pd.read_csv("train.csv")["w"]).fingerprint()
    words = ("-l", "5", "--weight", "4", "--ignore", "0", "-o", "new.json", *SMALL)  # without the label w is 4, too
    run("train", "train.csv", *words)
    assert hb.load("new.json").fingerprint() == expected


def test_data_and_models_go_through_standard_streams(run):
    content = Path("train.csv").read_bytes()
    written = run("train", "-", *COLUMNS, "-o", "-", "-q", *SMALL, stdin=content).stdout_bytes
    assert hb.Booster.from_bytes(written).fingerprint() == expected_model().fingerprint()
    parquet = Path("train.parquet").read_bytes()
    run("train", "-", *COLUMNS, "-o", "new.json", *SMALL, stdin=parquet)
    assert hb.load("new.json").fingerprint() == expected_model().fingerprint()
    out = run("predict", "m.json", "-", "-q", stdin=Path("test.csv").read_bytes()).stdout
    frame = pd.read_csv("test.csv")
    name, *numbers = out.split()
    assert name == "prediction"
    assert [float(text) for text in numbers] == hb.load("m.json").predict(features(frame)).tolist()


def test_validation_sets_and_early_stopping(run):
    words = ("train", "train.csv", *COLUMNS, "-o", "new.json", "-v", "valid.csv", "-v", "late=test.csv", "--json")
    shown = json.loads(run(*words, *SMALL, "early_stopping_round=2", "metric=auc").stdout)
    assert list(shown["eval_history"]) == ["valid", "late"]
    frame, valid = pd.read_csv("train.csv"), pd.read_csv("valid.csv")
    train = hb.Dataset(features(frame), label=frame["y"])
    params = {**PARAMS, "early_stopping_round": 2, "metric": "auc"}
    sets = {"valid": hb.Dataset(features(valid), valid["y"], train)}
    late = pd.read_csv("test.csv")
    sets["late"] = hb.Dataset(features(late), late["y"], train)
    booster = hb.train(params, train, valid_sets=sets)
    assert booster.eval_history == shown["eval_history"]
    assert booster.fingerprint() == shown["fingerprint"]


def test_training_goes_on_from_a_model(run):
    run("train", "train.csv", *COLUMNS, "-o", "more.json", "--init-model", "m.json", *SMALL)
    frame = pd.read_csv("train.csv")
    expected = hb.train(PARAMS, hb.Dataset(features(frame), label=frame["y"]), init_model="m.json")
    assert hb.load("more.json").fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "out.arrow", "out.svm"])
def test_predictions_are_written_exactly_in_every_format(run, name):
    booster, frame = hb.load("m.json"), pd.read_csv("test.csv")
    expected = booster.predict(features(frame))
    run("predict", "m.json", "test.csv", "-o", name)
    if name == "out.svm":
        assert [float(line.split()[0]) for line in Path(name).read_text().splitlines()] == expected.tolist()
        return
    from hornbeam.data.sources.loading import load_table

    assert load_table(name)["prediction"].to_pylist() == expected.tolist()


def test_predictions_of_every_kind(run):
    booster, frame = hb.load("m.json"), pd.read_csv("test.csv")
    rows = json.loads(run("predict", "m.json", "test.csv", "--raw", "--keep", "id,age", "--json").stdout)
    assert [row["score"] for row in rows] == booster.predict(features(frame), raw_score=True).tolist()
    assert [row["id"] for row in rows] == frame["id"].tolist()
    assert [row["age"] for row in rows] == frame["age"].tolist()
    shown = run("predict", "m.json", "test.csv", "--leaf", "--iterations", "2", "-o", "leaves.csv", "--json").stdout
    assert json.loads(shown)["columns"] == ["leaf_0", "leaf_1"] and json.loads(shown)["rows"] == 80
    leaves = pd.read_csv("leaves.csv")
    assert (leaves.to_numpy() == booster.predict(features(frame), pred_leaf=True, num_iteration=2)).all()
    assert list(leaves.columns) == ["leaf_0", "leaf_1"]


def test_several_classes_and_queries(run):
    frame = pd.read_csv("train.csv")
    frame["y"] = frame["id"] % 3
    frame["q"] = frame["id"] // 10
    frame.to_csv("classes.csv", index=False)
    run("train", "classes.csv", "-l", "y", "--ignore", "q", "-o", "c.json", "objective=multiclass", "num_class=3",
        "num_iterations=2")  # fmt: skip
    rows = json.loads(run("predict", "c.json", "classes.csv", "--json", "-q").stdout)
    assert list(rows[0]) == ["prediction_0", "prediction_1", "prediction_2"]
    assert "multi_logloss" in run("evaluate", "c.json", "classes.csv", "-l", "y", "-q").stdout
    run("train", "classes.csv", "-l", "y", "--query", "q", "-o", "r.json", "objective=lambdarank", "num_iterations=2")
    words = ("evaluate", "r.json", "classes.csv", "-l", "y", "--query", "q", "-m", "ndcg@3", "--json")
    shown = json.loads(run(*words).stdout)
    assert 0.0 < shown["metrics"]["ndcg@3"] <= 1.0


def test_evaluation_gives_the_values_of_training(run):
    words = ("train", "train.csv", *COLUMNS, "-o", "new.json", "-v", "valid.csv", "metric=auc,binary_logloss", "--json")
    history = json.loads(run(*words, *SMALL).stdout)["eval_history"]["valid"]
    shown = json.loads(run("evaluate", "new.json", "valid.csv", "-l", "y", "-m", "auc,binary_logloss", "--json").stdout)
    assert shown["metrics"] == {name: values[-1] for name, values in history.items()}
    weighted = json.loads(run("evaluate", "new.json", "valid.csv", "-l", "y", "--weight", "w", "--json").stdout)
    assert weighted["metrics"] != shown["metrics"]


def test_cv_gives_the_history_of_python(run):
    shown = json.loads(run("cv", "train.csv", *COLUMNS, "-k", "3", "--json", *SMALL).stdout)
    frame = pd.read_csv("train.csv")
    expected = hb.cv(PARAMS, hb.Dataset(features(frame), label=frame["y"]), nfold=3)
    assert shown["history"] == expected
    assert "valid binary_logloss" in run("cv", "train.csv", *COLUMNS, "-k", "3", *SMALL).stdout


def test_libsvm_files_need_no_label(run):
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    table = rng.random((60, 4)) * (rng.random((60, 4)) < 0.4)
    entries = [[f"{place}:{value!r}" for place, value in enumerate(row) if value] for row in table.tolist()]
    lines = [" ".join([str(row % 2), *own]) for row, own in enumerate(entries)]
    Path("t.svm").write_text("\n".join(lines) + "\n")
    run("train", "t.svm", "-o", "s.json", *SMALL)
    from scipy.sparse import csr_matrix

    expected = hb.train(PARAMS, hb.Dataset(csr_matrix(table), label=np.arange(60) % 2))
    assert hb.load("s.json").fingerprint() == expected.fingerprint()
    rows = json.loads(run("predict", "s.json", "t.svm", "--json").stdout)
    assert [row["prediction"] for row in rows] == expected.predict(table).tolist()


def test_files_without_names_and_compressed_ones(run):
    frame = pd.read_csv("train.csv")[["y", "age", "income"]]
    with gzip.open("bare.csv.gz", "wt") as file:
        frame.to_csv(file, index=False, header=False)
    run("train", "bare.csv.gz", "-l", "0", "-o", "b.json", *SMALL)
    assert hb.load("b.json").feature_names == ["Column_1", "Column_2"]
    run("predict", "b.json", "bare.csv.gz", "-o", "p.csv")
    numbers = [float(text) for text in Path("p.csv").read_text().split()[1:]]
    assert numbers == hb.load("b.json").predict(frame[["age", "income"]].to_numpy()).tolist()
    run("train", "bare.csv.gz", "-l", "0", "--header", "-o", "b.json", *SMALL, code=2)
