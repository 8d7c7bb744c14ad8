"""Children that were forked after a driver was asked: an error that says so, never a call that does not return."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

import hornbeam as hb
from hornbeam.backends import binning as binning_choice
from hornbeam.backends.gpu.runtime import devices as gpus
from hornbeam.testing.data import make_higgs_like

pytestmark = [
    pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

X, Y = make_higgs_like(300, 6, seed=3)
PARAMS = {"objective": "binary", "num_leaves": 5, "min_data_in_leaf": 5, "verbosity": -1}


def train(device: str, data: hb.Dataset | None = None) -> hb.Booster:
    return hb.train({**PARAMS, "device": device}, data or hb.Dataset(X, label=Y), 2)


def outcome(work: Callable[[], Any]) -> str:
    try:
        return str(work())
    except hb.DeviceError as error:
        return f"{type(error).__name__}: {error}"


def work_in_child(gpu: str, booster: hb.Booster, binned: hb.Dataset) -> list[str]:
    return [
        outcome(lambda: train(gpu).fingerprint()),
        outcome(lambda: train("gpu").fingerprint()),
        outcome(lambda: booster.predict(X, device=gpu)),
        outcome(lambda: binned.binned.bins),
        outcome(lambda: gpus.open_runtime(gpu)),
        outcome(lambda: [info.description for info in hb.devices() if info.name == gpu.split(":")[0]]),
        outcome(lambda: train("auto").fingerprint()),
        outcome(lambda: booster.predict(X, device="auto").sum()),
    ]


def test_a_forked_child_has_no_gpu_and_says_so(gpu, monkeypatch):
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 1)
    binned = hb.Dataset(X, label=Y)
    booster = train(gpu, binned)
    assert binned.binned.on_device is not None
    context, answers = multiprocessing.get_context("fork"), multiprocessing.get_context("fork").SimpleQueue()
    child = context.Process(target=lambda: answers.put(work_in_child(gpu, booster, binned)))  # nothing is pickled
    child.start()
    child.join(timeout=60)
    try:
        assert child.exitcode == 0
    finally:
        child.kill()
    *refused, trained, predicted = answers.get()
    assert all("forked" in answer and "spawn" in answer for answer in refused)
    assert trained == booster.fingerprint()
    assert predicted == str(booster.predict(X).sum())
    assert train(gpu).fingerprint() == booster.fingerprint()
