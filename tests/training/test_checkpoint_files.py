"""Checkpoint files and the system: folders that cannot be written, full disks, two trainings at once, crashes."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.training import checkpoints as module

X = np.random.default_rng(0).standard_normal((80, 3))
QUIET = {"verbosity": 0, "num_leaves": 4, "device": "reference"}


def train(path, n_rounds=6, **more):
    return hb.train(QUIET, hb.Dataset(X, label=X[:, 0]), n_rounds, checkpoint=path, checkpoint_freq=1, **more)


def test_a_folder_that_cannot_be_written_is_told_before_training(tmp_path, monkeypatch):
    def refuse(self, *given, **more):
        raise PermissionError(13, "Permission denied", str(self))

    path = tmp_path / "run.ckpt"
    monkeypatch.setattr(Path, "open", refuse)
    called = []
    with pytest.raises(hb.ParameterError, match="no file can be written there"):
        train(path, callbacks=[called.append])
    assert called == []


def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path, monkeypatch, caplog):
    write, calls = module.write_atomically, []

    def full_at_first(path, data):
        calls.append(len(data))
        if len(calls) in (2, 3):
            raise OSError(28, "No space left on device", str(path))
        write(path, data)

    monkeypatch.setattr(module, "write_atomically", full_at_first)
    with caplog.at_level(logging.WARNING, "hornbeam"):
        model = train(tmp_path / "run.ckpt")
    assert model.fingerprint() == hb.train(QUIET, hb.Dataset(X, label=X[:, 0]), 6).fingerprint()
    assert sum("No space left" in record.message for record in caplog.records) == 2
    assert len(calls) == 6
    monkeypatch.undo()
    assert train(tmp_path / "run.ckpt", 8).n_iterations == 8


def test_a_write_that_was_missed_is_tried_again_at_the_next_iteration(tmp_path, monkeypatch):
    write, calls = module.write_atomically, []

    def fail_once(path, data):
        calls.append(1)
        if len(calls) == 1:
            raise OSError(5, "Input/output error", str(path))
        write(path, data)

    monkeypatch.setattr(module, "write_atomically", fail_once)
    seen = []
    hb.train(
        QUIET, hb.Dataset(X, label=X[:, 0]), 5, checkpoint=tmp_path / "run.ckpt", checkpoint_freq=2,
        callbacks=[lambda env: seen.append((tmp_path / "run.ckpt").exists())],
    )  # fmt: skip
    assert seen == [False, False, False, True, True]  # due after 2, missed, written after 3


def test_two_trainings_with_one_file_are_told(tmp_path):
    path = tmp_path / "run.ckpt"
    told = []

    def begin_another(env):
        if env.iteration == 2:
            with pytest.raises(hb.ParameterError, match="another training is writing this file") as error:
                train(path)
            told.append(error)

    train(path, callbacks=[begin_another])
    assert len(told) == 1
    assert train(path, 7).n_iterations == 7  # nobody holds it any more


@pytest.mark.skipif(sys.platform == "win32", reason="the process is killed by a signal")
def test_a_crash_leaves_nothing_in_the_way(tmp_path):
    path = tmp_path / "run.ckpt"
    code = (
        "import os, signal, sys, numpy as np, hornbeam as hb\n"
        "from hornbeam.model.file import writing\n"
        "replace = writing.Path.replace\n"
        "def die(self, target):\n"
        "    if os.path.exists(target):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return replace(self, target)\n"
        "writing.Path.replace = die\n"
        "X = np.random.default_rng(0).standard_normal((80, 3))\n"
        "params = {'verbosity': 0, 'num_leaves': 4, 'device': 'reference'}\n"
        "hb.train(params, hb.Dataset(X, label=X[:, 0]), 6, checkpoint=sys.argv[1], checkpoint_freq=1)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert ran.returncode == -9, ran.stderr
    assert len(list(tmp_path.iterdir())) == 3  # the file, a half-made one, and the lock
    model = train(path)
    assert model.fingerprint() == hb.train(QUIET, hb.Dataset(X, label=X[:, 0]), 6).fingerprint()
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]


def test_a_damaged_checkpoint_is_not_held_afterwards(tmp_path):
    path = tmp_path / "run.ckpt"
    path.write_text("{}")
    for _ in range(2):
        with pytest.raises(hb.ModelFormatError):
            train(path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
