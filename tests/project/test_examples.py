"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_demo_trains_saves_and_loads(tmp_path):
    command = [sys.executable, EXAMPLES / "demo.py", "--rows", "3000", "--rounds", "3", "--out", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "model.json").exists()
    for line in ("device", "training", "held out     AUC", "fingerprint", "the loaded model predicts the same"):
        assert line in run.stdout
