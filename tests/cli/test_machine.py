"""devices, verify and warmup; help, version, completion; how commands end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hornbeam as hb
from hornbeam.cli.app import GROUPS
from hornbeam.cli.commands import warmup
from hornbeam.testing import verify

COMMANDS = [module.__name__.rpartition(".")[2] for modules in GROUPS.values() for module in modules]
CASE = "binary, missing"


def test_devices_are_those_of_python(run):
    shown = json.loads(run("devices", "--json").stdout)
    assert [(row["name"], row["usable"]) for row in shown] == [(info.name, info.usable) for info in hb.devices()]
    assert run("devices").stdout.splitlines()[1].startswith("cpu\tyes\t")


def test_a_machine_that_gives_the_golden_models_passes(run):
    shown = json.loads(run("verify", "--device", "cpu", "--only", CASE, "--json").stdout)
    assert shown["passed"] and shown["cases"] >= 1
    assert "golden models are the same on cpu" in run("verify", "--device", "cpu", "--only", CASE).stdout


def test_a_machine_that_gives_other_models_ends_with_code_1(run, monkeypatch):
    monkeypatch.setattr(verify, "expected_fingerprints", lambda: dict.fromkeys(verify.CASES, "0" * 64))
    assert CASE in run("verify", "--device", "cpu", "--only", CASE, code=1).stdout
    shown = json.loads(run("verify", "--device", "cpu", "--only", CASE, "--json", code=1).stdout)
    assert not shown["passed"] and "expected 000" in shown["results"][0]["difference"]


def test_warmup_trains_small_models(run, monkeypatch):
    monkeypatch.setattr(warmup, "KINDS", ())
    seen = []
    monkeypatch.setattr(warmup, "train_small_models", seen.append)
    assert json.loads(run("warmup", "--json").stdout)["device"] == "cpu"
    assert seen == ["cpu"] or hasattr(hb, "warmup")


def test_small_models_of_a_kind_are_trained_and_used(monkeypatch):
    warmup.train_small_models("cpu", warmup.KINDS[1:2])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_sentence_and_examples(run, command):
    text = run(command, "--help").stdout
    assert "Examples:" in text and f"$ hornbeam {command}" in text
    assert run(command, "-h").stdout == text


def test_help_lists_every_command(run):
    text = run("--help").stdout
    assert all(command in text for command in COMMANDS)
    assert run("--version").stdout == f"hornbeam {hb.__version__}\n"


def completed(words: str) -> str:
    shell = {"_HORNBEAM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-m", "hornbeam"]
    return subprocess.run(command, env={**os.environ, **shell}, capture_output=True, text=True, check=False).stdout


def test_words_are_completed():
    assert completed("hornbeam tr").split() == ["train"]


def test_a_module_is_the_command():
    command = [sys.executable, "-m", "hornbeam", "train"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1


def test_ctrl_c_writes_nothing_and_ends_with_130(run):
    command = [sys.executable, "-m", "hornbeam", "train", "train.csv", "-l", "y", "-o", "long.json",
               "num_iterations=1000000", "--log-every", "1", "-v", "valid.csv"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("[hornbeam] [5]"):
            break
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait() == 130
    assert "nothing was written" in rest.splitlines()[-1]
    assert not Path("long.json").exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes of a POSIX shell")
def test_a_reader_that_goes_away_is_no_failure(run):
    script = f"set -o pipefail; {sys.executable} -m hornbeam devices --json | true"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and ended.stderr == ""


def test_import_brings_in_no_command():
    code = "import sys, hornbeam; assert not {'typer', 'hornbeam.cli'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_imports_nothing_that_trains():
    code = (
        "import sys\nfrom hornbeam.cli.app import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'numba', 'pyarrow', 'pandas', 'sklearn', 'polars', 'narwhals'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
