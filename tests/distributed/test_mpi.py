"""Real processes of mpiexec, where mpi4py and an MPI library are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py")
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")
SCRIPT = Path(__file__).with_name("mpi_script.py")


@pytest.mark.parametrize("size", [1, 3])
def test_processes_train_the_model_of_one_and_share_their_errors(size):
    command = [sys.executable, SCRIPT] if size == 1 else [MPIEXEC, "-n", str(size), sys.executable, SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert len(lines) == size
    for rank, line in enumerate(lines):
        who, same, everywhere, alone, again = line.split("|")
        assert (who, same, again) == (f"{rank} of {size}", "same: True", "again: True")
        assert everywhere.startswith("DataError: objective 'binary' takes labels 0 and 1, but label[0] is")
        if rank == size - 1:
            assert alone.startswith("DataError: label has")
        else:
            assert alone.startswith(f"CollectiveError: worker {rank} stopped in 'columns of train_set', because worker")
            assert f"worker {size - 1} failed: DataError: label has" in alone


def command_line(folder, size, *words):
    """Run a command of `hornbeam` in so many processes; returns what subprocess.run does."""
    command = [sys.executable, "-m", "hornbeam", *words]
    return subprocess.run(
        [MPIEXEC, "-n", str(size), *command] if size > 1 else command,
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    columns = [*rng.normal(size=(3, 400)), rng.choice(["u", "v", "w"], 400), rng.integers(0, 3, 400)]
    lines = [f"{a},{b},{c},{d},{y},{i // 30}" for i, (a, b, c, d, y) in enumerate(zip(*columns, strict=True))]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,c,d,y,q", *lines]) + "\n")
    return tmp_path


@pytest.mark.parametrize("more", [["--ignore", "q"], ["--query", "q", "objective=lambdarank"]], ids=["rows", "queries"])
def test_command_line_gives_one_file_whatever_the_number_of_processes(folder, more):
    files = []
    for size in (1, 3):
        words = ["-l", "y", "-o", f"{size}.json", "-v", "data.csv", "num_iterations=3", "device=reference", *more]
        done = command_line(folder, size, "train", "data.csv", *words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("fingerprint") == 1
        files.append((folder / f"{size}.json").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "data.csv", "-l", "y", "--cache", "."], "--cache under mpiexec"),
        (["train", "-", "-l", "y"], "- under mpiexec: no process can read the input of all"),
        (["train", "data.csv"], "which column holds the labels"),
        (["cv", "data.csv", "-l", "y"], "cv under mpiexec: folds are trained in one process"),
    ],
)
def test_what_processes_cannot_do_on_the_command_line_is_an_error(folder, words, message):
    done = command_line(folder, 2, *words)
    assert done.returncode != 0
    assert message in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv"]
