"""device="auto", hornbeam.devices(), and devices that are not there: what is chosen, and what is said."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends import costs
from hornbeam.backends.costs import PredictionWork, TrainingWork
from hornbeam.backends.devices import choose_device
from hornbeam.backends.gpu import runtime as runtime_package
from hornbeam.backends.gpu.runtime import devices as gpus
from hornbeam.core.device_info import DeviceInfo
from hornbeam.core.errors import DeviceError

SMALL = TrainingWork(20_000, 20, 100, 31, n_threads=2)
LARGE = TrainingWork(10_000_000, 28, 100, 255, n_threads=16)

CUDA = [DeviceInfo("cuda:0", True, "a GPU", 132)]
NO_CUDA = [DeviceInfo("cuda", False, "CuPy cannot be imported")]
POCL = [DeviceInfo("opencl:0", True, "a CPU")]
RADEON = [DeviceInfo("opencl:0", False, "no fp64", 64), DeviceInfo("opencl:1", True, "a GPU", 64), *POCL]


def offer(monkeypatch, cuda, opencl) -> None:
    monkeypatch.setattr(gpus, "cuda_devices", lambda: cuda)
    monkeypatch.setattr(gpus, "opencl_devices", lambda: opencl)


@pytest.mark.parametrize(
    ("work", "cuda", "opencl", "expected"),
    [
        (SMALL, CUDA, RADEON, "cpu"),
        (LARGE, CUDA, RADEON, "cuda:0"),
        (LARGE, CUDA, POCL, "cuda:0"),
        (LARGE, NO_CUDA, RADEON, "opencl:1"),
        (LARGE, NO_CUDA, POCL, "cpu"),
        (replace(LARGE, n_threads=64), [DeviceInfo("cuda:0", True, "a small GPU", 1)], POCL, "cpu"),
        (LARGE, [*CUDA, DeviceInfo("cuda:1", True, "a larger GPU", 160)], POCL, "cuda:1"),
        (PredictionWork(1_000_000, 28, 500, 2), CUDA, POCL, "cuda:0"),
        (PredictionWork(1_000, 28, 500, 2), CUDA, POCL, "cpu"),
    ],
)
def test_auto_takes_what_is_done_first(monkeypatch, work, cuda, opencl, expected):
    offer(monkeypatch, cuda, opencl)
    assert choose_device("auto", work) == expected


def test_drivers_are_not_asked_for_a_small_fit(monkeypatch):
    monkeypatch.setattr(gpus, "cuda_devices", lambda: pytest.fail("a driver was asked"))
    monkeypatch.setattr(gpus, "opencl_devices", lambda: pytest.fail("a driver was asked"))
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 4)), rng.random(300)
    model = hb.train({"verbosity": -1, "num_leaves": 4}, hb.Dataset(X, label=y), 2)
    model.predict(X, device="auto")
    assert choose_device("auto") == "cpu"


@pytest.mark.parametrize("more", ["n_rows", "n_features", "n_trees", "n_leaves"])
def test_more_work_never_takes_it_from_a_gpu(monkeypatch, more):
    offer(monkeypatch, CUDA, POCL)
    sizes = {"n_rows": 200_000, "n_features": 20, "n_trees": 200, "n_leaves": 31, "n_threads": 4}
    chosen = [choose_device("auto", TrainingWork(**{**sizes, more: sizes[more] * 4**k})) for k in range(8)]
    assert chosen == sorted(chosen, key=lambda name: name != "cpu")
    assert chosen[-1] == "cuda:0" or more == "n_leaves"


def test_threads_make_the_cpu_more_attractive(monkeypatch):
    offer(monkeypatch, CUDA, POCL)
    chosen = [choose_device("auto", TrainingWork(60_000, 28, 60, 31, n_threads)) for n_threads in (1, 4)]
    assert chosen == ["cuda:0", "cpu"]


def test_data_on_the_device_spare_its_start():
    there = TrainingWork(20_000, 28, 100, 31, 2, is_there=True)
    assert there.gpu_seconds(132) < there.cpu_seconds() < there.gpu_seconds(132) + costs.GPU_START


def test_a_gpu_that_cannot_be_opened_leaves_training_and_prediction_to_the_cpu(monkeypatch, caplog):
    offer(monkeypatch, [DeviceInfo("cuda:7", True, "a GPU", 132)], POCL)

    def fail(device):
        raise DeviceError(f"{device} is broken")

    monkeypatch.setattr(gpus, "open_runtime", fail)
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 4)), rng.random(300)
    params = {"num_leaves": 4, "verbosity": 1}
    expected = hb.train({**params, "device": "cpu"}, hb.Dataset(X, label=y), 2)
    monkeypatch.setattr(costs, "CPU_UPDATES", 1.0)
    monkeypatch.setattr(costs, "CPU_PAIRS", 1e-3)
    pytest.importorskip("pyopencl")
    with caplog.at_level(logging.INFO, "hornbeam"):
        model = hb.train(params, hb.Dataset(X, label=y), 2)
    assert model.fingerprint() == expected.fingerprint()
    assert [record.message for record in caplog.records if "broken" in record.message] == [
        "training on the CPU: cuda:7 is broken"
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO, "hornbeam"):
        assert (model.predict(X, device="auto") == expected.predict(X)).all()
    assert [record.message for record in caplog.records] == ["predicting on the CPU: cuda:7 is broken"]


def test_devices_say_what_is_usable_and_why_the_rest_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(sys.modules, "hornbeam.backends.gpu.runtime.cuda", raising=False)
    monkeypatch.delattr("hornbeam.backends.gpu.runtime.cuda", raising=False)
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    monkeypatch.delitem(sys.modules, "hornbeam.backends.gpu.runtime.opencl", raising=False)
    monkeypatch.delattr("hornbeam.backends.gpu.runtime.opencl", raising=False)
    found = {info.name: info for info in hb.devices()}
    assert list(found) == ["cpu", "reference", "cuda", "opencl"]
    assert found["cpu"].usable and "thread" in found["cpu"].description
    assert not found["cuda"].usable and "pip install hornbeam[cuda]" in found["cuda"].description
    assert not found["opencl"].usable and "pip install hornbeam[opencl]" in found["opencl"].description
    for device in ("cuda", "cuda:0", "opencl:0"):
        with pytest.raises(DeviceError, match=rf"device='{device}' is not available here .*pip install.*'cpu'"):
            hb.train({"device": device}, hb.Dataset(np.eye(30), label=np.arange(30.0)), 1)


def test_a_driver_that_is_too_old_for_cupy_is_told_what_fits(monkeypatch):
    def too_old() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(runtime_package, "cuda", SimpleNamespace(count_devices=too_old), raising=False)
    (found,) = gpus.cuda_devices()
    assert not found.usable and "insufficient" in found.description and "hornbeam[cuda12]" in found.description
