"""Arrays on a CUDA device, with a stand-in for CuPy (pretend_cupy.py); the real thing is in test_cuda_arrays.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyopencl")

from hornbeam.backends import engines
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.predict import rows_first
from hornbeam.core.errors import DataError, DeviceError
from hornbeam.data.device_arrays import check_device, device_of
from hornbeam.data.sources import device as table_module
from hornbeam.data.sources.opening import open_table
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.objectives import CustomObjective
from hornbeam.sklearn.arguments import adapt_objective
from hornbeam.testing.checks import assert_same_bits, usable_devices
from hornbeam.training.training import train

_place = importlib.util.spec_from_file_location("pretend_cupy", Path(__file__).with_name("pretend_cupy.py"))
pretend_cupy = importlib.util.module_from_spec(_place)
_place.loader.exec_module(pretend_cupy)
Array = pretend_cupy.Array

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")

PARAMS = {"objective": "binary", "num_leaves": 7, "verbosity": -1}


@pytest.fixture
def cupy(monkeypatch):
    return pretend_cupy.install(monkeypatch)


def make_data(dtype=np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 6)) * 4
    X[:, 2] = np.round(X[:, 2])
    if np.dtype(dtype).kind == "f":
        X[rng.random(X.shape) < 0.1] = np.nan
    y = (rng.standard_normal(700) + np.nan_to_num(X[:, 2]) > 0).astype(float)
    return np.ascontiguousarray(X.astype(dtype)), y


def test_host_arrays_are_on_no_device():
    for data in (np.zeros(3), [1.0], (1, 2), None, "text", 3, object()):
        assert device_of(data) is None


def test_device_arrays_are_told_by_dlpack(cupy):
    assert device_of(Array(np.zeros(3))) == "cuda:0"
    assert device_of(Array(np.zeros(3), 2)) == "cuda:2"


def test_device_arrays_need_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"data is in the memory of a CUDA device.*pip install"):
        open_table(Array(np.zeros((3, 2))))
    with pytest.raises(DeviceError, match="label is in the memory"):
        Dataset(np.zeros((3, 2)), label=Array(np.zeros(3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
def test_reader_copies_blocks_to_the_host(cupy, dtype, order):
    X = np.asarray(make_data(dtype)[0], order=order)
    found, expected = open_table(Array(X)), open_table(X)
    assert found.device == "cuda:0" and expected.device is None
    assert (found.n_rows, found.n_features, found.block_dtype) == (700, 6, expected.block_dtype)
    assert_same_bits(found.read(5, 50), expected.read(5, 50), "read")
    assert found.block(5, 50).flags.carray
    assert_same_bits(found.block(5, 50), expected.block(5, 50), "block")
    rows = np.array([0, 3, 699])
    for chosen in (rows, None):
        assert_same_bits(found.sample(chosen, 1, 4), np.asarray(expected.sample(chosen, 1, 4)), "sample")


def test_wrong_device_arrays_are_named(cupy):
    with pytest.raises(DataError, match="2 dimensions"):
        open_table(Array(np.zeros(3)))
    with pytest.raises(DataError, match="is empty"):
        open_table(Array(np.zeros((0, 3))))
    with pytest.raises(DataError, match="complex"):
        open_table(Array(np.zeros((2, 3), complex)))
    with pytest.raises(DataError, match=r"label\[1\] is nan"):
        Dataset(Array(np.zeros((2, 3))), label=Array(np.array([0.0, np.nan])))


def test_labels_weights_and_scores_may_be_on_a_device(cupy):
    X, y = make_data()
    dataset = Dataset(
        X, label=Array(y), weight=Array(y + 1), init_score=Array(y - 1), group=Array(np.array([300, 400]))
    )
    assert_same_bits(dataset.label, y, "label")
    assert_same_bits(dataset.weight, y + 1, "weight")
    assert_same_bits(dataset.init_score, (y - 1)[None], "init_score")
    assert dataset.group.tolist() == [300, 400]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("device", ["auto", "cpu", "cuda"])
def test_model_is_that_of_host_data(cupy, dtype, device, monkeypatch):
    monkeypatch.setattr(table_module, "DEVICE_BLOCK_CELLS", 600)
    if device == "cuda":
        engine = lambda binned, params, _: GpuEngine(cupy.runtime, binned, params.min_data_in_leaf)  # noqa: E731
        monkeypatch.setattr("hornbeam.training.training.make_engine", engine)
    X, y = make_data(dtype)
    found, expected = [], []
    for wrap, into, where in ((Array, found, device), (np.asarray, expected, "cpu")):
        dataset = Dataset(wrap(X), label=wrap(y))
        valid = Dataset(wrap(X[:100]), label=wrap(y[:100]), reference=dataset)
        if where == "cpu":
            monkeypatch.setattr("hornbeam.training.training.make_engine", engines.make_engine)
        booster = train({**PARAMS, "device": where}, dataset, 4, {"valid": valid})
        into += [booster.fingerprint(), booster.eval_history]
        if where != "cpu":
            assert dataset.binned.on_device is not None
        if where == "cuda":
            assert dataset.binned._bins is None and valid.binned._bins is None
        if where == "cpu":
            assert dataset.binned.on_device is None
    assert found == expected


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("device", [None, "cuda", "cuda:0", "cpu", "reference", "auto"])
def test_predictions_come_back_where_the_input_was(cupy, objective, dtype, order, device, monkeypatch):
    monkeypatch.setattr(table_module, "DEVICE_BLOCK_CELLS", 600)
    X, y = make_data(dtype)
    params = {**PARAMS, "objective": objective, "device": "cpu"}
    if objective == "multiclass":
        params["num_class"], y = 3, np.arange(700.0) % 3
    booster = Booster.from_bytes(train(params, Dataset(X, label=y), 3).to_bytes())
    on_device = Array(np.array(X, order=order))
    for kind in ({}, {"raw_score": True}, {"pred_leaf": True}, {"start_iteration": 1}, {"start_iteration": 3}):
        result = booster.predict(on_device, device=device, **kind)
        expected = booster.predict(X, **kind)
        assert isinstance(result, Array) and result.host.flags.c_contiguous
        assert result.dtype == expected.dtype
        assert_same_bits(result.get(), expected, str(kind))


@pytest.mark.parametrize("objective", ["poisson", "multiclassova", "focal", "regression"])
def test_links_on_the_device_are_those_of_the_host(cupy, objective):
    X, y = make_data()
    params = {**PARAMS, "objective": objective, "device": "cpu"}
    params |= {"multiclassova": {"num_class": 2, "sigmoid": 0.7}, "regression": {"reg_sqrt": True}}.get(objective, {})
    booster = train(params, Dataset(X, label=y), 3)
    assert_same_bits(booster.predict(Array(X)).get(), booster.predict(X), objective)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_contributions_come_back_where_the_input_was(cupy, device):
    X, y = make_data(np.float32)
    booster = train({**PARAMS, "device": "cpu"}, Dataset(X, label=y), 3)
    for kind in ({"pred_contrib": True}, {"pred_interactions": True}):
        result = booster.predict(Array(X), device=device, **kind)
        assert isinstance(result, Array)
        assert_same_bits(result.get(), booster.predict(X, **kind), str(kind))
    found = booster.explain(Array(X[:20]), Array(X[20:30]), device=device)
    assert_same_bits(found.values, booster.explain(X[:20], X[20:30]).values, "background")
    assert_same_bits(found.data, X[:20], "data")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("encoded", [False, True])
def test_only_categorical_columns_travel_in_prediction(cupy, dtype, encoded, monkeypatch):
    monkeypatch.setattr(table_module, "DEVICE_BLOCK_CELLS", 600)
    X, y = make_data(dtype)
    X[:, 2] = np.arange(700) % 30 - 1
    more = {"target_encoding_levels": 5 if encoded else -1, "min_data_per_group": 5}
    data = Dataset(X[:600], label=y[:600], categorical_features=[2])
    booster = train({**PARAMS, **more, "device": "cpu"}, data, 4)
    Array.copies.clear()
    for kind in ({}, {"raw_score": True}, {"pred_leaf": True}):
        result = booster.predict(Array(X), **kind)
        assert isinstance(result, Array)
        assert set(Array.copies) == {X[:, 2].nbytes}  # the levels of the rows, not the table
        assert_same_bits(result.host, booster.predict(X, **kind), str(kind))


@pytest.mark.parametrize("weighted", [False, True])
def test_objective_functions_may_return_arrays_on_the_device(cupy, weighted):
    X, y = make_data()
    weight = np.linspace(0.5, 2.0, len(y)) if weighted else None
    found = []
    for wrap in (Array, np.asarray):

        def function(label, scores, *, wrap=wrap):
            assert isinstance(scores, np.ndarray)
            return wrap(scores - label), wrap(np.ones(len(label), np.float32))

        objective = adapt_objective(function) if weighted else lambda s, d, f=function: f(d.label, s)
        found.append(train({**PARAMS, "objective": objective}, Dataset(X, label=y, weight=weight), 3).fingerprint())
    assert found[0] == found[1]
    with pytest.raises(DataError, match=r"gradient of shape \(3,\)"):
        CustomObjective(lambda s, d: (Array(np.ones(3)), s)).evaluate(np.zeros((1, 700)), None)


def test_arrays_on_another_device_are_refused(cupy):
    X, y = make_data()
    booster = train({**PARAMS, "device": "cpu"}, Dataset(X, label=y), 1)
    with pytest.raises(DeviceError, match=r"cuda:1, but device='cuda'.*ask for device='cuda:1'"):
        booster.predict(Array(X, 1), device="cuda")
    with pytest.raises(DeviceError, match="device='opencl:0'"):
        booster.predict(Array(X), device="opencl:0")
    for device in ("cuda:1", "opencl"):
        with pytest.raises(DeviceError, match=f"data is in the memory of cuda:0, but device='{device}'"):
            train({**PARAMS, "device": device}, Dataset(Array(X), label=y), 1)
    for device in ("auto", "cpu", "reference", "cuda", "cuda:0"):
        check_device("cuda:0", device)


@pytest.mark.parametrize("name", ["label", "weight", "init_score"])
def test_columns_on_another_device_are_refused(cupy, name):
    X, y = make_data()
    columns = {"label": y, "weight": y + 1.0, "init_score": y - 1.0}
    for number, device in ((1, "cuda"), (0, "cuda:1"), (0, "opencl")):
        data = Dataset(X, **{**columns, name: Array(columns[name], number)})
        with pytest.raises(DeviceError, match=f"{name} is in the memory of cuda:{number}, but device='{device}'"):
            train({**PARAMS, "device": device}, data, 1)
    data = Dataset(X, **{**columns, name: Array(columns[name], 1)})
    expected = train({**PARAMS, "device": "cpu"}, Dataset(X, **columns), 1).fingerprint()
    assert train({**PARAMS, "device": "cpu"}, data, 1).fingerprint() == expected


@pytest.mark.parametrize(("kind", "called"), [(10, "ROCm"), (8, "Metal"), (99, "kind 99")])
def test_arrays_of_other_devices_are_named(kind, called):
    class Foreign(Array):
        def __dlpack_device__(self):
            return kind, 3

    wrong = Foreign(np.zeros((4, 1)))
    with pytest.raises(
        DataError, match=f"data .Foreign. is in the memory of device 3 of {called}.*copy it to the host"
    ):
        Dataset(wrong)
    with pytest.raises(DataError, match=r"label .Foreign. is in"):
        Dataset(np.zeros((4, 1)), label=wrong)
    with pytest.raises(DataError, match=r"data .Foreign. is in"):
        train({**PARAMS, "device": "cpu"}, Dataset(np.zeros((4, 1)), label=[0.0, 1, 0, 1]), 1).predict(wrong)


def test_arrays_without_memory_are_named():
    class Meta(Array):
        def __dlpack_device__(self):
            raise ValueError("Unknown device type meta for Dlpack")

    for made in (lambda: Dataset(Meta(np.zeros((4, 1)))), lambda: Dataset(np.zeros((4, 1)), label=Meta(np.zeros(4)))):
        with pytest.raises(DataError, match=r"(data|label) .Meta. does not say where it lies .Unknown device"):
            made()


def test_validation_set_is_binned_where_the_parameters_say(cupy):
    X, y = make_data()
    for given in ({}, {"reference": True}):
        data = Dataset(X, label=y)
        valid = Dataset(Array(X), label=y, reference=data if given else None)
        train({**PARAMS, "device": "cpu"}, data, 1, {"valid": valid})
        assert valid.binned.on_device is None


def test_rows_come_first(cupy):
    assert rows_first(Array(np.zeros((1, 5)))).shape == (5,)
    assert rows_first(Array(np.zeros((3, 5)))).shape == (5, 3)
