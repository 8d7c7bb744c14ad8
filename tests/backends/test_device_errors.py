"""Devices that fail, at any moment: a clear error of ours, nothing held, and the same model from the next training."""

from __future__ import annotations

import gc
import logging
import types

import pytest

pytest.importorskip("pyopencl")

import pyopencl as cl

import hornbeam as hb
from hornbeam.backends import costs
from hornbeam.backends.gpu.runtime import devices as gpus
from hornbeam.backends.gpu.runtime import opencl
from hornbeam.core.errors import DeviceError, DeviceMemoryError
from hornbeam.data.cuda_errors import cupy_errors, device_error
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
    status, text, kind = (
        (2, "cudaErrorMemoryAllocation: out of memory", DeviceMemoryError)
        if operation in ("pinned", "malloc", "graph", "launch")
        else (98, "cudaErrorInvalidDeviceFunction: invalid device function", DeviceError)
    )
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
        gpus.open_runtime("cuda:0").allocate(2 << 30)
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
    monkeypatch.setattr(gpus, "opencl_devices", list)  # no other GPU
    expected = train_on("cpu")
    cuda.fail(operation, cuda.runtime_error(46, "cudaErrorDevicesUnavailable: all devices are busy"))
    with caplog.at_level(logging.INFO, "hornbeam"):
        assert train_on("auto", verbosity=1) == expected
    said = [record.message for record in caplog.records if "training on the CPU" in record.message]
    assert len(said) == 1
    assert "all devices are busy" in said[0]


def test_memory_that_runs_out_in_a_later_iteration_leaves_the_device_usable(cuda):
    def fail(env):
        if env.iteration == 2:
            cuda.fail("graph", cuda.runtime_error(2, "cudaErrorMemoryAllocation: out of memory"))

    with pytest.raises(DeviceMemoryError, match="out of memory"):
        hb.train({**PARAMS, "device": "cuda"}, hb.Dataset(X, label=Y), 6, callbacks=[fail])
    cuda.failing.clear()
    gc.collect()
    assert cuda.used_bytes == 0
    assert train_on("cuda") == train_on("cpu")


def test_a_kernel_that_does_not_compile_shows_the_log_and_can_be_tried_again(cuda):
    cuda.fail("compile", cuda.compile_error('leaves.cl(7): error: identifier "x" is undefined'))
    with pytest.raises(DeviceError, match=r'does not compile for Stand-in.*(?s:.)*identifier "x" is undefined'):
        train_on("cuda")
    cuda.failing.clear()
    assert train_on("cuda") == train_on("cpu")


def test_cupy_without_a_driver_is_listed_and_refused(cuda):
    cuda.fail("count", cuda.runtime_error(35, "cudaErrorInsufficientDriver: driver version is insufficient"))
    (found,) = (info for info in hb.devices() if info.name.startswith("cuda"))
    assert not found.usable
    assert "cudaErrorInsufficientDriver" in found.description
    with pytest.raises(DeviceError, match=r"device='cuda' is not available here .*cudaErrorInsufficientDriver"):
        train_on("cuda")
    assert train_on("auto") == train_on("cpu")


def test_a_number_beyond_the_cuda_devices_is_refused(cuda):
    with pytest.raises(DeviceError, match=r"device='cuda:3' is not available here .*no such number.*'cuda:0'"):
        train_on("cuda:3")


def test_no_opencl_platform_is_listed_and_refused(monkeypatch):
    def nothing():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", nothing)
    (found,) = (info for info in hb.devices() if info.name.startswith("opencl"))
    assert not found.usable
    assert "PLATFORM_NOT_FOUND" in found.description
    with pytest.raises(DeviceError, match=r"device='opencl' is not available here .*no OpenCL platform"):
        train_on("opencl")


def test_a_device_without_64_bit_floats_is_refused_before_training(monkeypatch):
    device = opencl.list_devices()[0]
    weak = types.SimpleNamespace(
        name="Weak", platform=device.platform, extensions="cl_khr_byte_addressable_store", available=True,
        compiler_available=True, type=cl.device_type.GPU, max_compute_units=8,
    )  # fmt: skip
    monkeypatch.setattr(opencl, "list_devices", lambda: [weak])
    with pytest.raises(DeviceError, match=r"Weak .* has no 64-bit floating point \(cl_khr_fp64\)"):
        train_on("opencl")
    assert train_on("auto") == train_on("cpu")


def test_sums_in_halves_give_the_same_model(monkeypatch):
    """A device without 64-bit atomics: percentiles of leaves, an order metric, more leaves than local memory has."""
    runtime = opencl.OpenCLRuntime(opencl.list_devices()[0])
    runtime._options = [option for option in runtime._options if option != "-DATOMIC64"]
    monkeypatch.setattr(opencl, "open_device", lambda number: runtime)
    X, y = make_higgs_like(8000, 6, seed=4)
    params = {"objective": "quantile", "alpha": 0.3, "num_leaves": 1100, "min_data_in_leaf": 1, "metric": "auc,l1"}
    found = []
    for device in ("opencl", "cpu"):
        train = hb.Dataset(X, label=y)
        booster = hb.train({**params, "device": device, "verbosity": -1}, train, 1, {"training": train})
        found.append((booster.fingerprint(), booster.eval_history))
    assert found[0] == found[1]
    assert booster.trees[0].n_splits > 1024
