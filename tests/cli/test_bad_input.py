"""Bad input is one line on standard error that says how to go on, exit code 2, and nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import hornbeam as hb

MANY = ("-l", "y", "--ignore", "id,w", "num_iterations=3", "objective=binary")

X = np.random.default_rng(0).normal(size=(60, 2))

CASES = {
    "no such data": (("train", "none.csv", "-l", "y"), "no file 'none.csv'"),
    "no data": (("train",), "which data"),
    "no label": (("train", "train.csv"), "--label COLUMN"),
    "wrong label": (("train", "train.csv", "-l", "z"), "columns are 'id', 'age'"),
    "label by a position that is none": (("train", "train.csv", "-l", "99"), "numbered 0 to 5"),
    "unknown parameter": (("train", "train.csv", *MANY, "num_leavs=3"), "did you mean 'num_leaves'"),
    "wrong value": (("train", "train.csv", *MANY, "num_leaves=many"), "must be an integer"),
    "no pair": (("train", "train.csv", *MANY, "num_leaves"), "KEY=VALUE"),
    "unwritable folder": (("train", "train.csv", *MANY, "-o", "none/m.json"), "cannot write 'none/m.json'"),
    "a file as a folder": (("train", "train.csv", *MANY, "-o", "train.csv/m.json"), "cannot write"),
    "a folder as a file": (("train", "train.csv", *MANY, "-o", "."), "it is a folder"),
    "two sets of one name": (("train", "train.csv", *MANY, "-v", "valid.csv", "-v", "./valid.csv"), "NAME=FILE"),
    "model and JSON on one stream": (("train", "train.csv", *MANY, "-o", "-", "--json"), "name a file"),
    "no such model": (("predict", "none.json", "test.csv"), "none.json"),
    "a model that is none": (("predict", "test.csv", "test.csv"), "not a model"),
    "damaged model": (("inspect", "damaged.json"), "damaged.json"),
    "damaged model of LightGBM": (("convert", "cut.txt", "-o", "c.json"), "cut.txt"),
    "damaged model of XGBoost": (("predict", "cut_xgboost.json", "test.csv"), "cut_xgboost.json"),
    "model of an unknown version": (("inspect", "future.json"), "version"),
    "foreign model of an unknown version": (("inspect", "future.txt"), "'v9' is not known"),
    "foreign model with what is not here": (("convert", "unknown.txt", "-o", "c.json"), "mystery"),
    "columns missing": (("predict", "m.json", "narrow.csv"), "no column 'income', 'city'"),
    "columns of a validation set missing": (("train", "train.csv", *MANY, "-v", "narrow.csv"), "no column"),
    "labels that are missing": (("train", "unlabelled.csv", "-l", "y"), "label"),
    "report on labels that are missing": (("report", "m.json", "no_labels.csv", "-l", "y"), "label"),
    "report without data": (("report", "m.json"), "--alone"),
    "report with data and without": (("report", "m.json", "test.csv", "-l", "y", "--alone"), "--alone"),
    "report on data without labels": (("report", "m.json", "test.csv"), "--label COLUMN"),
    "report on other columns": (("report", "m.json", "narrow.csv", "-l", "y"), "no column"),
    "report by a slice that is none": (("report", "m.json", "test.csv", "-l", "y", "--slice", "town"), "town"),
    "unwritable report": (("report", "m.json", "test.csv", "-l", "y", "-o", "none/r.html"), "cannot write"),
    "unwritable contributions": (("explain", "m.json", "test.csv", "-o", "none/c.csv"), "cannot write"),
    "contributions of other columns": (("explain", "m.json", "narrow.csv"), "no column"),
    "unwritable conversion": (("convert", "m.json", "-o", "none/m.txt"), "cannot write"),
    "what a format cannot say": (("convert", "root.json", "--to", "xgboost-json", "-o", "x.json"), "reg_sqrt"),
    "unwritable predictions": (("predict", "m.json", "test.csv", "-o", "none/p.csv"), "cannot write"),
    "unknown format": (("predict", "m.json", "test.csv", "-o", "p.xlsx"), "csv"),
    "no such column to keep": (("predict", "m.json", "test.csv", "--keep", "name"), "--keep name"),
    "damaged data": (("predict", "m.json", "damaged.parquet"), "cannot be read as Parquet"),
    "ragged data": (("train", "ragged.csv", "-l", "y"), "Expected 2 columns"),
    "unknown metric": (("evaluate", "m.json", "test.csv", "-l", "y", "-m", "acu"), "did you mean 'auc'"),
    "evaluation without label": (("evaluate", "m.json", "test.csv"), "--label COLUMN"),
    "no such tree": (("inspect", "m.json", "--tree", "99"), "6 trees"),
    "no such device": (("predict", "m.json", "test.csv", "--device", "abacus"), "'auto', 'cpu'"),
    "verify auto": (("verify", "--device", "auto"), "name a device"),
    "verify nothing": (("verify", "--device", "cpu", "--only", "no such case"), "no golden case"),
    "unknown command": (("fit",), "No such command 'fit'"),
    "unknown option": (("train", "--labl", "y"), "--label"),
    "missing argument": (("predict", "m.json"), "DATA"),
    "config that is none": (("train", "--config", "none.toml"), "none.toml"),
    "convert to an unknown end": (("convert", "m.json", "-o", "m.xyz"), "--to"),
    "difference on standard input": (("diff", "m.json", "other.json", "-"), "pass a file"),
    "empty standard input": (("predict", "m.json", "-"), "empty"),
}


@pytest.fixture(autouse=True, scope="module")
def bad_files(source: Path) -> None:
    """Files that are damaged, or not what they should be, beside the good ones."""
    params = {"num_leaves": 3, "device": "reference", "verbosity": -1}
    booster = hb.train(params, hb.Dataset(X, label=X[:, 0]), 1)
    hb.train({**params, "reg_sqrt": True}, hb.Dataset(X, label=X[:, 0]), 1).save(source / "root.json")
    booster.save(source / "fine.txt", format="lightgbm")
    booster.save(source / "fine_xgboost.json", format="xgboost-json", approximate=True)
    text, model = (source / "fine.txt").read_text(), (source / "m.json").read_text()
    xgboost = (source / "fine_xgboost.json").read_text()
    for name, content in {
        "cut.txt": text[: text.index("leaf_value")],
        "future.txt": text.replace("version=v4", "version=v9"),
        "unknown.txt": re.sub(r"objective=\w+", "objective=mystery", text),
        "cut_xgboost.json": xgboost[:-300],
        "future.json": re.sub(r'"version":1\b', '"version":99', model),
        "damaged.json": model[:500],
        "unlabelled.csv": "a,y\n1,0\n2,\n3,1\n",
        "no_labels.csv": "age,income,city,y\n20,3.5,Rome,\n30,2.5,Oslo,1\n",
        "narrow.csv": "age,y\n20,1\n30,0\n",
        "ragged.csv": "a,y\n1,0\n2\n",
    }.items():
        (source / name).write_text(content)
    (source / "damaged.parquet").write_bytes((source / "train.parquet").read_bytes()[:500])


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_a_line_and_nothing_is_written(run, case):
    words, message = CASES[case]
    before = sorted(Path().rglob("*"))
    result = run(*words, code=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("hornbeam: ")
    assert "Traceback" not in result.output and result.stdout == ""
    assert sorted(Path().rglob("*")) == before


def test_without_typer_the_extra_is_named(monkeypatch, capsys):
    import sys

    from hornbeam.__main__ import main

    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "hornbeam[cli]" in capsys.readouterr().err
