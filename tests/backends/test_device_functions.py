"""Objectives and metrics on arrays of the device (hb.on_device), with a stand-in for CuPy (pretend_cupy.py).

The checks themselves are those of `hornbeam.testing.verify`, which runs them on a real CUDA device.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import hornbeam as hb
from hornbeam.testing.checks import assert_same_bits, usable_devices
from hornbeam.testing.function_checks import function_checks
from hornbeam.testing.golden_case import uniform

_place = importlib.util.spec_from_file_location("pretend_cupy", Path(__file__).with_name("pretend_cupy.py"))
pretend_cupy = importlib.util.module_from_spec(_place)
_place.loader.exec_module(pretend_cupy)

pytestmark = [
    pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device"),
    pytest.mark.skipif("cuda:0" in usable_devices(), reason="CuPy itself is here: see verify, and test_cuda_arrays.py"),
]

SLOW = ("bagging, 3 outputs", "DART, 3 outputs", "forest, 3 outputs", "poisson, random", "regression, random")
"""Checks that find nothing that others do not; they are for a real device."""

COPIES = "functions on the device: nothing goes through the host"
"""A check with more rows: a tree's nodes, which are copied, must be fewer bytes than scores."""

CHECKS = {name: check for name, check in function_checks("cuda", 300) if not any(slow in name for slow in SLOW)}
CHECKS[COPIES] = dict(function_checks("cuda", 600))[COPIES]


@pytest.fixture
def cupy(monkeypatch):
    return pretend_cupy.install_device(monkeypatch)


@pytest.mark.parametrize("name", CHECKS)
def test_functions_on_the_device_give_the_models_of_the_host(name, cupy):
    assert CHECKS[name]() == ""


def make_dataset():
    X = np.column_stack([uniform(300, column) for column in range(4)])
    return hb.Dataset(X, label=X[:, 0] * 3.0 + X[:, 1], weight=1.0 + np.arange(300) % 2)


def squared(scores, data):
    return scores - data.label, scores * 0.0 + 1.0


PARAMS = {"num_leaves": 5, "verbosity": -1, "device": "cuda"}


def test_arrays_of_the_host_are_brought_to_the_device(cupy):
    def halves(scores, data):
        gradient, hessian = squared(scores, data)
        return gradient, hessian.get().tolist()

    found = hb.train({**PARAMS, "objective": hb.on_device(halves)}, make_dataset(), 3)
    assert found.fingerprint() == hb.train({**PARAMS, "objective": squared}, make_dataset(), 3).fingerprint()


def test_arrays_of_another_device_are_refused(cupy):
    def elsewhere(scores, data):
        return scores, pretend_cupy.Array(np.ones(300), 1)

    with pytest.raises(hb.DeviceError, match=r"the hessian of the custom objective is in the memory of cuda:1.*cuda:0"):
        hb.train({**PARAMS, "objective": hb.on_device(elsewhere)}, make_dataset(), 1)


def test_every_column_is_on_the_device_and_goes_there_once(cupy):
    seen = []

    @hb.on_device
    def looking(scores, data):
        seen.append([getattr(data, name) for name in ("label", "weight", "init_score", "group", "query_boundaries")])
        assert data.xp is cupy
        return squared(scores, data)

    X = np.column_stack([uniform(300, column) for column in range(4)])
    dataset = hb.Dataset(X, label=X[:, 0], weight=X[:, 1] + 1.0, init_score=X[:, 2], group=[100, 200])
    hb.train({**PARAMS, "objective": looking}, dataset, 3)
    assert len(seen) == 3
    for columns in seen:
        for name, found in zip(("label", "weight", "init_score", "group", "query_boundaries"), columns, strict=True):
            expected = getattr(dataset, name)
            assert_same_bits(found.get(), expected, name)
        assert all(one is other for one, other in zip(columns, seen[0], strict=True))


def test_a_checkpoint_goes_on(cupy, tmp_path):
    def stop(env):
        if env.iteration == 2:
            raise RuntimeError("power cut")

    objective = hb.on_device(lambda scores, data: squared(scores, data))
    given = {"params": {**PARAMS, "objective": objective}, "num_boost_round": 4}
    with pytest.raises(RuntimeError, match="power cut"):
        hb.train(train_set=make_dataset(), callbacks=[stop], checkpoint=tmp_path / "run", checkpoint_freq=1, **given)
    booster = hb.train(train_set=make_dataset(), checkpoint=tmp_path / "run", **given)
    assert booster.fingerprint() == hb.train(train_set=make_dataset(), **given).fingerprint()


def test_bad_metrics_are_named_and_errors_of_functions_go_through(cupy):
    dataset = make_dataset()
    for result, error, match in (
        (("a",), hb.ParameterError, "feval returned"),
        (ZeroDivisionError("own"), ZeroDivisionError, "own"),
    ):

        @hb.on_device
        def metric(predictions, data, result=result):
            if isinstance(result, Exception):
                raise result
            return result

        with pytest.raises(error, match=match):
            hb.train(PARAMS, dataset, 1, {"training": dataset}, feval=metric)
    assert cupy.runtime.arrays.depth == 0
