"""Arrays on a real CUDA device: CuPy's, PyTorch's and bare `__cuda_array_interface__`. Skipped without CuPy."""

from __future__ import annotations

import gc

import numpy as np
import pytest

pytest.importorskip("cupy")

import cupy

from hornbeam.backends.gpu.data import binning as gpu
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.backends.prediction import predict_leaf, predict_raw
from hornbeam.core.errors import DataError, DeviceError
from hornbeam.data.binning import BinParams
from hornbeam.data.device_arrays import device_of
from hornbeam.data.sources.opening import open_table
from hornbeam.dataset.dataset import Dataset
from hornbeam.objectives.device_functions import on_device
from hornbeam.testing.checks import assert_same_bits, usable_devices
from hornbeam.testing.column_checks import was_copied
from hornbeam.testing.function_checks import function_checks, stream_checks
from hornbeam.testing.trees import random_tree
from hornbeam.training.training import train
from hornbeam.trees.forest import Forest

pytestmark = pytest.mark.skipif("cuda:0" not in usable_devices(), reason="no usable CUDA device")

PARAMS = {"num_leaves": 31, "verbosity": -1}
KINDS = ({}, {"raw_score": True}, {"pred_leaf": True}, {"start_iteration": 1, "num_iteration": 2})


class Bare:
    """Nothing but the interface, as Numba's device arrays have it."""

    def __init__(self, array) -> None:
        self._array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def make_data(dtype=np.float32, n_rows: int = 20_000, n_features: int = 37) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)) * 4
    X[:, 2] = np.round(X[:, 2])
    X[:, 3] = 1.0
    if np.dtype(dtype).kind == "f":
        X[rng.random(X.shape) < 0.1] = np.nan
        X[:5, 4] = [np.inf, -np.inf, -0.0, 1e-40, 0.0]
    y = (rng.standard_normal(n_rows) + np.nan_to_num(X[:, 2]) > 0).astype(float)
    return np.ascontiguousarray(X.astype(dtype)), y


def views(X: np.ndarray) -> dict[str, object]:
    """The same values on the device, laid out in several ways."""
    wide = cupy.zeros((2 * len(X), 2 * X.shape[1]), X.dtype)
    wide[::2, ::2] = cupy.asarray(X)
    turned = cupy.asarray(np.ascontiguousarray(X[::-1, ::-1]))
    return {
        "C": cupy.asarray(X),
        "F": cupy.asfortranarray(cupy.asarray(X)),
        "every other": wide[::2, ::2],
        "backwards": turned[::-1, ::-1],
        "bare": Bare(cupy.asarray(X)),
    }


def booster_of(X, y, objective: str = "binary", **params):
    if objective == "multiclass":
        params["num_class"], y = 3, np.arange(len(X), dtype=float) % 3
    return train({**PARAMS, "objective": objective, "device": "cpu", **params}, Dataset(X, label=y), 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.float16])
@pytest.mark.parametrize("max_bin", [63, 255, 1000])
def test_bins_equal_those_of_the_cpu(dtype, max_bin):
    X, _ = make_data(dtype)
    expected = Dataset(X, max_bin=max_bin).binned
    for layout, data in views(X).items():
        found = gpu.bin_on_device("cuda:0", open_table(data), BinParams(max_bin=max_bin), 2)
        for a, b in zip(found.mapper.upper_bounds, expected.mapper.upper_bounds, strict=True):
            assert_same_bits(a, b, f"bounds, {layout}")
        assert (found.mapper.has_missing == expected.mapper.has_missing).all()
        assert_same_bits(found.bins, expected.bins, f"bins, {layout}")


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_model_and_predictions_equal_those_of_host_data(objective, dtype):
    X, y = make_data(dtype)
    params = {**PARAMS, "objective": objective}
    if objective == "multiclass":
        params["num_class"], y = 3, np.arange(len(X), dtype=float) % 3
    weight = np.linspace(0.5, 2.0, len(X))
    found = {}
    for device, wrap in (("cpu", np.asarray), ("cuda", cupy.asarray), ("cuda", np.asarray), ("cpu", cupy.asarray)):
        dataset = Dataset(wrap(X), label=wrap(y), weight=wrap(weight))
        valid = Dataset(wrap(X[:999]), label=wrap(y[:999]), reference=dataset)
        booster = train({**params, "device": device}, dataset, 5, {"valid": valid})
        found[device, wrap] = booster.fingerprint(), booster.eval_history
        if (device, wrap) == ("cuda", cupy.asarray):
            assert dataset.binned._bins is None and valid.binned._bins is None, "bins went through the host"
    first = found["cpu", np.asarray]
    assert all(result == first for result in found.values())
    for layout, data in views(X).items():
        for kind in KINDS:
            result, expected = booster.predict(data, **kind), booster.predict(X, **kind)
            assert isinstance(result, cupy.ndarray), layout
            assert_same_bits(cupy.asnumpy(result), expected, f"{layout}, {kind}")


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_random_forests_of_host_data(n_outputs):
    X, _ = make_data(np.float64)
    rng = np.random.default_rng(1)
    forest = Forest([random_tree(rng, n, 37) for n in (1, 2, 40, 255, 4000) for _ in range(n_outputs)], n_outputs)
    for data in (X, open_table(X.astype(np.float32)), open_table(np.asfortranarray(X))):
        assert_same_bits(predict_raw(forest, data, device="cuda"), predict_raw(forest, data, n_threads=2), "raw")
        assert_same_bits(predict_leaf(forest, data, device="cuda"), predict_leaf(forest, data, n_threads=2), "leaf")


def test_work_on_another_stream_is_waited_for():
    X, y = make_data()
    booster = booster_of(X, y)
    expected = booster.predict(X)
    with cupy.cuda.Stream(non_blocking=True):
        data = cupy.zeros(X.shape, X.dtype)
        for _ in range(50):  # keeps the stream busy
            data += cupy.asarray(X) * 0
        data[...] = cupy.asarray(X)
        assert_same_bits(cupy.asnumpy(booster.predict(data)), expected, "predictions")


def test_pytorch_tensors_are_taken_and_given_back():
    torch = pytest.importorskip("torch")
    X, y = make_data()
    booster = booster_of(X, y)
    tensor = torch.from_numpy(X).cuda().requires_grad_()
    assert device_of(tensor) == "cuda:0"
    assert device_of(torch.from_numpy(X)) is None
    for kind in KINDS:
        result = booster.predict(tensor, **kind)
        assert isinstance(result, torch.Tensor) and result.is_cuda
        assert_same_bits(result.cpu().numpy(), booster.predict(X, **kind), str(kind))
    dataset = Dataset(tensor, label=torch.from_numpy(y).cuda())
    model = train({**PARAMS, "objective": "binary", "device": "cuda"}, dataset, 4)
    assert model.fingerprint() == booster.fingerprint()
    with pytest.raises(DataError):
        Dataset(torch.zeros((4, 2), device="cuda", dtype=torch.complex64))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.bool_])
def test_labels_are_read_where_they_are(dtype, monkeypatch):
    X, y = make_data()
    label, weight = cupy.asarray(y.astype(dtype)), cupy.linspace(0.5, 2.0, len(y))
    seen = {}
    close = Workspace.close

    def watched(self):
        seen.update({name: self.buffer(name).data.ptr for name in ("label", "weight")})
        close(self)

    monkeypatch.setattr(Workspace, "close", watched)
    data = Dataset(cupy.asarray(X), label=label, weight=weight)
    model = train({**PARAMS, "objective": "binary", "device": "cuda"}, data, 3)
    assert seen["weight"] == weight.data.ptr
    assert (seen["label"] == label.data.ptr) == (np.dtype(dtype).itemsize == 1)  # else a copy in bytes
    assert not was_copied(data, "label") and not was_copied(data, "weight")
    expected = Dataset(X, label=y, weight=cupy.asnumpy(weight))
    assert model.fingerprint() == train({**PARAMS, "objective": "binary", "device": "cpu"}, expected, 3).fingerprint()


def test_arrays_on_another_device_are_refused():
    X, y = make_data()
    booster, data = booster_of(X, y), cupy.asarray(X)
    with pytest.raises(DeviceError, match="data is in the memory of cuda:0"):
        booster.predict(data, device="cuda:7")
    with pytest.raises(DeviceError, match="data is in the memory of cuda:0"):
        train({**PARAMS, "device": "opencl"}, Dataset(data, label=y), 1)


FUNCTION_CHECKS = dict([*function_checks("cuda", 5_000), *stream_checks("cuda", 5_000)])


@pytest.mark.parametrize("name", FUNCTION_CHECKS)
def test_functions_on_the_device_give_the_models_of_the_host(name):
    assert FUNCTION_CHECKS[name]() == ""


def test_functions_may_work_with_pytorch():
    torch = pytest.importorskip("torch")
    X, y = make_data()

    @on_device
    def with_torch(scores, data):
        assert isinstance(scores, cupy.ndarray)
        gradient = torch.from_dlpack(scores) - torch.from_dlpack(data.label)
        return gradient, torch.ones_like(gradient)

    def plain(scores, dataset):
        return scores - dataset.label, np.ones_like(scores)

    found = train({**PARAMS, "objective": with_torch, "device": "cuda"}, Dataset(X, label=y), 4)
    assert (
        found.fingerprint()
        == train({**PARAMS, "objective": plain, "device": "cpu"}, Dataset(X, label=y), 4).fingerprint()
    )


def test_memory_comes_back():
    """Bins and forests go with the objects that hold them; nothing piles up over trainings."""
    from hornbeam.backends.gpu.runtime.cuda import open_device

    X, y = make_data()
    runtime = open_device(0)
    used = []
    for _ in range(3):
        dataset = Dataset(cupy.asarray(X), label=y)
        booster = train({**PARAMS, "objective": "binary", "device": "cuda"}, dataset, 2)
        booster.predict(dataset.data)
        del dataset, booster
        gc.collect()
        used.append(runtime._pool.used_bytes())
    assert used[0] == used[1] == used[2]
