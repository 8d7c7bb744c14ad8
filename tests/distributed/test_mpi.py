"""Real processes of mpiexec, where mpi4py and an MPI library are installed.

Processes take long to start: those of one mpiexec do one after the other what most tests look at.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")
from typer.testing import CliRunner

from hornbeam.cli.app import app

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")
SCRIPT = Path(__file__).with_name("mpi_script.py")

TRAIN = ["train", "data.csv", "-l", "y", "-o", "model.json", "-v", "data.csv", "num_iterations=3", "device=reference"]
TRAININGS = {"rows": [*TRAIN, "--ignore", "q"], "queries": [*TRAIN, "--query", "q", "objective=lambdarank"]}
CANNOT = {
    "cache": (["train", "data.csv", "-l", "y", "--cache", "."], "--cache under mpiexec"),
    "input": (["train", "-", "-l", "y"], "- under mpiexec: no process can read the input of all"),
    "label": (["train", "data.csv"], "which column holds the labels"),
    "folds": (["cv", "data.csv", "-l", "y"], "cv under mpiexec: folds are trained in one process"),
}
COMMANDS = {**TRAININGS, **{name: words for name, (words, _) in CANNOT.items()}}


def run(size, *command, folder=None):
    """Run a command in so many processes; one is started without mpiexec."""
    started = [MPIEXEC, "-n", str(size), *command] if size > 1 else command
    return subprocess.run(started, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def write_data(folder):
    rng = np.random.default_rng(3)
    columns = [*rng.normal(size=(3, 400)), rng.choice(["u", "v", "w"], 400), rng.integers(0, 3, 400)]
    lines = [f"{a},{b},{c},{d},{y},{i // 30}" for i, (a, b, c, d, y) in enumerate(zip(*columns, strict=True))]
    (folder / "data.csv").write_text("\n".join(["a,b,c,d,y,q", *lines]) + "\n")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return a function of a number of processes: what each of them found, and the folder of each command's files.

    Three processes run all commands, one process none.
    """
    known = {}

    def found_by(size):
        if size not in known:
            folder = tmp_path_factory.mktemp("mpi")
            commands = COMMANDS if size > 1 else {}
            for number in range(len(commands)):
                (folder / str(number)).mkdir()
                write_data(folder / str(number))
            done = run(size, sys.executable, SCRIPT, folder, *map(json.dumps, commands.values()))
            assert done.returncode == 0, done.stderr
            assert len(list(folder.glob("found-*.json"))) == size
            texts = [(folder / f"found-{rank}.json").read_text() for rank in range(size)]
            folders = {name: folder / str(number) for number, name in enumerate(commands)}
            known[size] = [json.loads(text) for text in texts], folders
        return known[size]

    return found_by


@pytest.mark.parametrize("size", [1, 3])
def test_processes_train_the_model_of_one_and_share_their_errors(found, size):
    for rank, each in enumerate(found(size)[0]):
        assert (each["who"], each["is_same"], each["is_same_again"]) == ([rank, size], True, True)
        assert each["everywhere"].startswith("DataError: objective 'binary' takes labels 0 and 1, but label[0] is")
        if rank == size - 1:
            assert each["alone"].startswith("DataError: label has")
        else:
            assert each["alone"].startswith(
                f"CollectiveError: worker {rank} stopped in 'columns of train_set', because worker"
            )
            assert f"worker {size - 1} failed: DataError: label has" in each["alone"]


def ended(found, name):
    """Return how a command ended in each of three processes, and the folder of its files."""
    ranks, folders = found(3)
    return [each["commands"][list(COMMANDS).index(name)] for each in ranks], folders[name]


@pytest.fixture
def file_of_one(tmp_path, monkeypatch):
    """Return a function that trains in this process, and returns the bytes of the model file."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)

    def train(words):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return Path("model.json").read_bytes()

    return train


@pytest.mark.parametrize("kind", TRAININGS)
def test_command_line_gives_one_file_whatever_the_number_of_processes(found, file_of_one, kind):
    ends, folder = ended(found, kind)
    assert [each["code"] for each in ends] == [0, 0, 0], ends
    assert "".join(each["output"] for each in ends).count("fingerprint") == 1
    assert (folder / "model.json").read_bytes() == file_of_one(TRAININGS[kind])


def test_mpiexec_runs_the_command_as_one_process_does(tmp_path, file_of_one):
    expected = file_of_one(TRAININGS["rows"])
    (tmp_path / "model.json").unlink()
    done = run(2, sys.executable, "-m", "hornbeam", *TRAININGS["rows"], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fingerprint") == 1
    assert (tmp_path / "model.json").read_bytes() == expected


@pytest.mark.parametrize("kind", CANNOT)
def test_what_processes_cannot_do_on_the_command_line_is_an_error(found, kind):
    ends, folder = ended(found, kind)
    for each in ends:
        assert each["code"] == 2
        assert CANNOT[kind][1] in each["errors"]
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv"]


def test_mpiexec_ends_with_an_error_where_the_command_does(tmp_path):
    words, message = CANNOT["input"]
    done = run(2, sys.executable, "-m", "hornbeam", *words, folder=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
