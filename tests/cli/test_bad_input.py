"""Bad input is one line on standard error that says how to go on, exit code 2, and nothing is written."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

MANY = ("-l", "y", "--ignore", "id,w", "num_iterations=3", "objective=binary")

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
    "columns missing": (("predict", "m.json", "narrow.csv"), "no column 'income', 'city'"),
    "columns of a validation set missing": (("train", "train.csv", *MANY, "-v", "narrow.csv"), "no column"),
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


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_a_line_and_nothing_is_written(run, case):
    words, message = CASES[case]
    Path("damaged.json").write_bytes(Path("m.json").read_bytes()[:500])
    Path("damaged.parquet").write_bytes(Path("train.parquet").read_bytes()[:500])
    Path("narrow.csv").write_text("age,y\n20,1\n30,0\n")
    Path("ragged.csv").write_text("a,y\n1,0\n2\n")
    before = sorted(Path().rglob("*"))
    result = run(*words, code=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("hornbeam: ")
    assert "Traceback" not in result.output and result.stdout == ""
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("package", ["report", "convert"])
def test_packages_that_are_not_there_are_named(run, package, monkeypatch):
    monkeypatch.setattr("hornbeam.cli.packages.find_spec", lambda name: None)
    words = {"report": ("report", "m.json", "test.csv", "-l", "y"), "convert": ("convert", "m.json", "-o", "m.txt")}
    assert f"hornbeam.{package}" in run(*words[package], code=2).stderr


def test_without_typer_the_extra_is_named(monkeypatch, capsys):
    import sys

    from hornbeam.__main__ import main

    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "hornbeam[cli]" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("hornbeam.explain") is not None, reason="there are contributions")
def test_explain_says_that_there_are_no_contributions(run):
    assert "contributions" in run("explain", "m.json", "test.csv", "-q", code=2).stderr
