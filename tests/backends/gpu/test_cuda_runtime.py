"""The CUDA runtime over a stand-in for CuPy: recording, threads, and the same models. Needs no CUDA device."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import hornbeam as hb
from hornbeam.backends import binning as binning_choice
from hornbeam.backends.cpu.host.kernels import Kernel
from hornbeam.backends.gpu import engine
from hornbeam.backends.gpu.data.binning import TiledBins
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.backends.gpu.runtime.programs import Programs
from hornbeam.backends.gpu.runtime.runtime import Variant, u32
from hornbeam.core.errors import DeviceMemoryError
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.data import make_higgs_like

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")

PARAMS = {"objective": "binary", "num_leaves": 15, "min_data_in_leaf": 5, "verbosity": -1}


def fill(runtime, buffer, value: float) -> None:
    """Write a number into a buffer of four."""
    start = runtime.allocate(8)
    runtime.upload(start, np.array([value]))
    kernel = runtime.kernel("fill_kernel", Variant("leaves.cl", 256))
    runtime.launch(kernel, 1, start, u32(1), u32(4), buffer)


def read(runtime, buffer) -> list[float]:
    out = np.empty(4)
    runtime.download(buffer, out)
    return out.tolist()


def train_on(device: str, seed: int = 0, **params) -> tuple[str, dict]:
    X, y = make_higgs_like(600, 7, seed=seed)
    train = hb.Dataset(X, label=y)
    valid = hb.Dataset(X[:100], label=y[:100], reference=train)
    booster = hb.train({**PARAMS, **params, "device": device}, train, 4, {"valid": valid})
    return booster.fingerprint(), booster.eval_history


@pytest.mark.parametrize("params", [{}, {"bagging_freq": 1, "bagging_fraction": 0.5}])
def test_model_is_that_of_the_cpu(cuda, params):
    assert train_on("cuda", **params) == train_on("cpu", **params)
    assert cuda.n_graphs > 0


def test_bins_leave_the_device_with_their_dataset(cuda, monkeypatch):
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    train_on("cuda")  # what stays with the runtime is there then
    gc.collect()
    gc.disable()
    try:
        before = cuda.used_bytes
        X, y = make_higgs_like(600, 7, seed=0)
        data = hb.Dataset(X, label=y)
        hb.train({**PARAMS, "device": "cuda"}, data, 3)
        assert cuda.used_bytes == before + data.binned.on_device.n_bytes
        del data
        assert cuda.used_bytes == before  # nothing waits for garbage collection
    finally:
        gc.enable()


def test_what_another_thread_launches_is_not_recorded(cuda):
    runtime = open_runtime("cuda:0")
    mine, other = runtime.allocate(32), runtime.allocate(32)
    fill(runtime, mine, 0.0)
    fill(runtime, other, 0.0)
    kernel = runtime.kernel("fill_kernel", Variant("leaves.cl", 256))
    one, two = runtime.allocate(8), runtime.allocate(8)
    runtime.upload(one, np.array([1.0]))
    runtime.upload(two, np.array([2.0]))
    threads = [
        threading.Thread(target=runtime.launch, args=(kernel, 1, two, u32(1), u32(4), other)),
        threading.Thread(target=runtime.zero, args=(runtime.allocate(32), 32)),
        threading.Thread(target=runtime.synchronize),
        threading.Thread(target=runtime.upload, args=(runtime.allocate(32), np.zeros(4))),
        threading.Thread(target=runtime.download, args=(runtime.allocate(32), np.zeros(4))),
        threading.Thread(target=runtime.repeatable, args=(lambda: runtime.zero(one, 0),)),
    ]

    def launches() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=0.05)  # long enough to do harm, if it could
        runtime.launch(kernel, 1, one, u32(1), u32(4), mine)

    replay = runtime.repeatable(launches)
    for thread in threads:
        thread.join()
    assert read(runtime, mine) == [0.0] * 4  # recorded, and not done
    assert read(runtime, other) == [2.0] * 4
    fill(runtime, other, 3.0)
    replay()
    assert read(runtime, mine) == [1.0] * 4
    assert read(runtime, other) == [3.0] * 4


def test_a_recording_that_fails_leaves_a_stream_that_works(cuda):
    runtime = open_runtime("cuda:0")
    buffer = runtime.allocate(32)

    def launches() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        runtime.repeatable(launches)
    fill(runtime, buffer, 5.0)
    assert read(runtime, buffer) == [5.0] * 4


def test_recordings_are_replayed_on_their_own_device(stand_in):
    driver = stand_in(n_devices=2)
    expected = train_on("cpu")
    assert train_on("cuda:1") == expected  # while device 0 is the current one
    assert driver.n_graphs > 0


def test_threads_that_open_a_device_at_once_share_it(cuda):
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: open_runtime("cuda:0"), range(8)))
    assert all(runtime is found[0] for runtime in found)


@pytest.mark.parametrize("device", ["cuda", "opencl"])
def test_trainings_in_several_threads_give_the_same_models(cuda, device):
    seeds = [0, 1, 2, 3] * 2
    expected = {seed: train_on("cpu", seed) for seed in set(seeds)}
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda seed: train_on(device, seed), seeds))
    assert found == [expected[seed] for seed in seeds]


def test_bins_that_do_not_fit_are_read_from_page_locked_memory(stand_in, monkeypatch):
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    X, y = make_higgs_like(40_000, 28, seed=0)
    params = {**PARAMS, "objective": "binary", "metric": "auc", "verbosity": -1}
    expected = hb.train({**params, "device": "cpu"}, hb.Dataset(X, label=y), 2)
    driver = stand_in(memory_bytes=5_000_000)  # 1.3 MB are bins
    data = hb.Dataset(X, label=y)
    valid = {"valid": hb.Dataset(X, label=y, reference=data)}
    found = hb.train({**params, "device": "cuda"}, data, 2, valid)
    assert data.binned.on_device is None  # where they were made, they have left
    assert found.fingerprint() == expected.fingerprint()
    driver.fail("pinned", driver.runtime_error(2, "cudaErrorMemoryAllocation: out of memory"))
    with pytest.raises(DeviceMemoryError, match="of host memory"):
        hb.train({**params, "device": "cuda"}, data, 1, valid)


def test_bins_leave_the_device_for_a_training_that_does_not_fit_beside_them(cuda, monkeypatch):
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    X, y = make_higgs_like(40_000, 28, seed=0)
    data, params = hb.Dataset(X, label=y), {**PARAMS, "objective": "binary", "verbosity": -1, "device": "cuda"}
    expected = hb.train(params, data, 2)
    assert data.binned.on_device is not None
    limited = hb.train({**params, "device_memory_limit": 4.0}, data, 2)  # 1.2 MB are bins, 3.4 the rest
    assert data.binned.on_device is None
    assert limited.fingerprint() == expected.fingerprint() == hb.train(params, data, 2).fingerprint()


def test_bins_that_do_not_fit_are_refused_with_the_figures(stand_in):
    driver = stand_in(memory_bytes=64 << 20)
    mapper = hb.Dataset(np.random.default_rng(0).random((300, 20))).binned.mapper
    runtime = open_runtime("cuda:0")
    others = runtime.allocate(40 << 20)
    with pytest.raises(DeviceMemoryError, match=r"1,000,000 rows x 20 features take 31 MB.*Stand-in.* has 24 MB free"):
        TiledBins(runtime, "cuda:0", 1_000_000, mapper)
    del others
    assert driver.used_bytes == 0


def test_files_that_were_begun_are_compiled_once_and_errors_reach_whoever_needs_them():
    threads = []

    def build(variant: Variant) -> str:
        threads.append(threading.current_thread().name)
        if variant.source == "broken.cl":
            raise DeviceMemoryError("no room")
        return variant.source

    programs = Programs(build, "a device")
    programs.begin([Variant("leaves.cl", 256), Variant("broken.cl", 256), Variant("leaves.cl", 256)])
    programs.begin([Variant("leaves.cl", 256)])
    assert programs.get(Variant("leaves.cl", 256)) == "leaves.cl"
    assert programs.get(Variant("leaves.cl", 256)) == "leaves.cl"
    with pytest.raises(DeviceMemoryError, match="no room"):
        programs.get(Variant("broken.cl", 256))
    assert programs.get(Variant("split.cl", 256)) == "split.cl"
    in_background = [name.startswith("hornbeam-compile") for name in threads]
    assert (in_background.count(True), in_background.count(False)) == (2, 2)  # the broken one was tried twice


@pytest.mark.parametrize("params", [{"objective": "binary"}, {"objective": "regression"}, {"precision": "high"}])
def test_files_of_the_first_trees_are_begun_before_they_are_needed(cuda, monkeypatch, params):
    begun, needed = set(), set()
    begin, get = Programs.begin, Programs.get
    monkeypatch.setattr(Programs, "begin", lambda self, files: begin(self, begun.update(files := list(files)) or files))
    monkeypatch.setattr(Programs, "get", lambda self, file: needed.add(file) or get(self, file))
    X, y = make_higgs_like(600, 7)
    hb.train({**PARAMS, **params, "device": "cuda"}, hb.Dataset(X, y), 3)
    of_trees = {file for file in needed if file.source not in ("layout.cl", "leaves.cl")}
    assert of_trees and of_trees <= begun


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_without_a_compiled_replay_at_hand_the_model_is_the_same_and_numba_is_not_loaded_for_it(monkeypatch, policy):
    X, y = make_higgs_like(600, 7)
    params = {**PARAMS, "device": "opencl", "grow_policy": policy}
    expected = hb.train(params, hb.Dataset(X, y), 3).fingerprint()
    monkeypatch.setattr(Kernel, "is_at_hand", False)
    monkeypatch.setattr(engine, "replay", None)
    assert hb.train(params, hb.Dataset(X, y), 3).fingerprint() == expected
