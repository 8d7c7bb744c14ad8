"""Devices that fail, at any moment: a clear error of ours, nothing held, and the same model from the next training."""

from __future__ import annotations

import gc
import logging

import pytest

pytest.importorskip("pyopencl")

import pyopencl as cl

import hornbeam as hb
from hornbeam.backends import costs, registry
from hornbeam.cuda_errors import cupy_errors, device_error
from hornbeam.errors import DeviceError, DeviceMemoryError
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.data import make_higgs_like

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")

PARAMS = {"objective": "binary", "num_leaves": 7, "min_data_in_leaf": 5, "verbosity": -1}
X, Y = make_higgs_like(500, 7, seed=1)


def train_on(device: str, n_rounds: int = 4, **params) -> str:
    return hb.train({**PARAMS, **params, "device": device}, hb.Dataset(X, label=Y), n_rounds).fingerprint()


@pytest.mark.parametrize(
    ("operation", "skip"),
    [
        ("count", 1),
        ("stream", 0),
        ("pinned", 1),
        ("malloc", 0),
        ("malloc", 12),
        ("upload", 3),
        ("get_function", 2),
        ("launch", 0),
        ("launch", 40),
        ("begin_capture", 0),
        ("end_capture", 1),
        ("graph", 2),
        ("record", 1),
        ("event", 2),
        ("synchronize", 1),
    ],
)
def test_failing_cuda_is_our_error_and_the_next_training_is_right(cuda, operation, skip):
    for status, text, kind in (
        (2, "cudaErrorMemoryAllocation: out of memory", DeviceMemoryError),
        (98, "cudaErrorInvalidDeviceFunction: invalid device function", DeviceError),
    ):
        cuda.fail(operation, cuda.runtime_error(status, text), skip)
        with pytest.raises(kind, match=f"{text}.*device='cpu'"):
            train_on("cuda")
        cuda.failing.clear()
        gc.collect()
        assert cuda.used_bytes == 0
    assert train_on("cuda") == train_on("cpu")
    gc.collect()
    assert cuda.used_bytes == 0


def test_a_lost_device_is_told_from_one_that_can_be_used_again(cuda):
    cuda.fail("launch", cuda.runtime_error(700, "cudaErrorIllegalAddress: an illegal memory access"), 30)
    cuda.fail("synchronize", cuda.runtime_error(700, "cudaErrorIllegalAddress: once more"), 3)
    with pytest.raises(DeviceError, match=r"an illegal memory access.*start the process anew"):
        train_on("cuda")


def test_memory_that_runs_out_is_an_error_with_the_size(stand_in):
    driver = stand_in()
    with pytest.raises(DeviceMemoryError, match=r"giving 2,048\.0 MB .*max_bin"):
        registry.open_runtime("cuda:0").allocate(2 << 30)
    assert driver.used_bytes == 0


@pytest.mark.parametrize("skip", [0, 15, 30])
@pytest.mark.parametrize("operation", ["enqueue_nd_range_kernel", "enqueue_copy"])
def test_failing_opencl_is_our_error_and_the_next_training_is_right(monkeypatch, operation, skip):
    done, call = [], getattr(cl, operation)

    def failing(*given, **named):
        done.append(None)
        if len(done) > skip:
            raise cl.MemoryError("clEnqueue: MEM_OBJECT_ALLOCATION_FAILURE")
        return call(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(cl, operation, failing)
        with pytest.raises(DeviceMemoryError, match=r"MEM_OBJECT_ALLOCATION_FAILURE.*device='cpu'"):
            train_on("opencl")
    assert train_on("opencl") == train_on("cpu")


def test_errors_of_others_stay_what_they_are():
    assert device_error(ValueError("mine"), "cuda:0", "predicting") is None
    with pytest.raises(ValueError, match="mine"), cupy_errors("cuda:0", "predicting"):
        raise ValueError("mine")


def test_memory_for_predictions_is_asked_for_with_our_error(cuda):
    error = cuda.out_of_memory("Out of memory allocating 8 bytes")
    expected = pytest.raises(DeviceMemoryError, match=r"cuda:1 ran out of memory while predicting .*allocating 8 bytes")
    with expected, cupy_errors("cuda:1", "predicting"):
        raise error


@pytest.mark.parametrize("operation", ["stream", "malloc", "get_function"])
def test_auto_trains_on_the_cpu_when_the_gpu_fails(cuda, monkeypatch, caplog, operation):
    monkeypatch.setattr(costs, "CPU_UPDATES", 1.0)  # a very slow CPU
    expected = train_on("cpu")
    cuda.fail(operation, cuda.runtime_error(46, "cudaErrorDevicesUnavailable: all devices are busy"))
    with caplog.at_level(logging.INFO, "hornbeam"):
        assert train_on("auto", verbosity=1) == expected
    said = [record.message for record in caplog.records if "training on the CPU" in record.message]
    assert len(said) == 1
    assert "all devices are busy" in said[0]
