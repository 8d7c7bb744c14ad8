"""How CuPy's stream and the engine's are ordered around functions, with streams that note what is asked of them."""

from __future__ import annotations

import importlib
import sys
import threading
import types
from contextlib import nullcontext

import pytest

import hornbeam.backends.gpu.runtime as package
from hornbeam.core.errors import DeviceMemoryError

NAME = "hornbeam.backends.gpu.runtime.cuda"


class OutOfMemoryError(Exception):
    pass


class Stream:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def record(self, event):
        event.of = self.name
        return event

    def wait_event(self, event):
        self.log.append(f"{self.name} waits for {event.of}")


class Device(nullcontext):
    id = 3


@pytest.fixture
def world(monkeypatch):
    """The bridge of a device, and what its streams are told."""
    log = []
    current = [Stream("CuPy", log)]
    memory = types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(
        get_current_stream=lambda: current[0],
        Event=lambda disable_timing: types.SimpleNamespace(),
        memory=memory,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    monkeypatch.delattr(package, "cuda", raising=False)
    cuda = importlib.import_module(NAME)
    yield cuda.CupyBridge(Device(), Stream("engine", log), threading.RLock(), "some GPU"), log, current
    del sys.modules[NAME], package.cuda  # of this world; the real one, if any, comes back by itself


def test_functions_come_after_launches_and_before_later_ones(world):
    bridge, log, _ = world
    assert bridge.device == "cuda:3"
    with bridge.scope():
        log.append("function")
    assert log == ["CuPy waits for engine", "function", "engine waits for CuPy"]


def test_the_engine_waits_for_the_stream_that_the_function_left_current(world):
    bridge, log, current = world
    with bridge.scope():
        current[0] = Stream("another", log)
    assert log[-1] == "engine waits for another"


def test_streams_are_in_order_after_an_error_too(world):
    bridge, log, _ = world
    with pytest.raises(ZeroDivisionError), bridge.scope():
        raise ZeroDivisionError
    assert log[-1] == "engine waits for CuPy"
    with pytest.raises(DeviceMemoryError, match="some GPU has no memory for the arrays of a function"), bridge.scope():
        raise OutOfMemoryError("4 GB")
    assert log[-1] == "engine waits for CuPy"
