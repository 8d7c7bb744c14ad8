"""Waking a CUDA device beside the import of CuPy: only where it helps, and never with an error of its own."""

from __future__ import annotations

import sys
import types

import pytest

from hornbeam.backends.gpu.runtime import forks, waking


class Driver:
    """A driver with some devices that writes down what it is asked for."""

    def __init__(self, n_devices: int) -> None:
        self.n_devices, self.calls = n_devices, []

    def cuInit(self, flags):
        self.calls.append("init")
        return 0

    def cuDeviceGet(self, device, number):
        self.calls.append(("get", number))
        device._obj.value = 70 + number
        return 0 if number < self.n_devices else 101

    def cuDevicePrimaryCtxRetain(self, context, device):
        self.calls.append(("retain", device.value))
        return 0


@pytest.fixture
def driver(monkeypatch):
    found = Driver(2)
    monkeypatch.setattr(waking.ctypes, "CDLL", lambda name: found)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(waking.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(forks, "_lost", False)
    monkeypatch.setattr(forks, "_asked", False)
    return found


def test_the_context_of_the_device_that_was_asked_for_is_made(driver):
    waking.wake_cuda(1).join()
    assert driver.calls == ["init", ("get", 1), ("retain", 71)]
    assert forks._asked  # a child forked now has no GPU


def test_a_device_that_is_not_there_is_left_to_cupy_to_tell(driver):
    waking.wake_cuda(2).join()
    assert driver.calls == ["init", ("get", 2)]


def test_nothing_is_begun_where_cupy_is_imported_already(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    assert waking.wake_cuda(0) is None
    assert driver.calls == []


def test_nothing_is_begun_without_cupy(driver, monkeypatch):
    monkeypatch.setattr(waking.importlib.util, "find_spec", lambda name: None)
    assert waking.wake_cuda(0) is None
    assert driver.calls == []


def test_nothing_is_begun_in_a_forked_child(driver, monkeypatch):
    monkeypatch.setattr(forks, "_lost", True)
    assert waking.wake_cuda(0) is None
    assert driver.calls == []


@pytest.mark.parametrize("driver_found", [OSError("no such file"), types.SimpleNamespace()], ids=["none", "unknown"])
def test_a_machine_without_a_driver_is_left_to_cupy_to_tell(driver, monkeypatch, driver_found):
    def load(name):
        if isinstance(driver_found, OSError):
            raise driver_found
        return driver_found

    monkeypatch.setattr(waking.ctypes, "CDLL", load)
    waking.wake_cuda(0).join()  # an error of the thread would be a warning, which is an error in the tests
