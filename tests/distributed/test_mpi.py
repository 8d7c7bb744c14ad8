"""Real processes of mpiexec, where mpi4py and an MPI library are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

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
