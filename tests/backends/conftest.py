"""What the tests of backends share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hornbeam.backends.gpu.growth.leaves import DeviceLeaves
from hornbeam.testing.checks import usable_devices

GPUS = [device for device in usable_devices() if device.startswith(("cuda", "opencl"))]


@pytest.fixture(scope="session", params=GPUS)
def gpu(request: pytest.FixtureRequest) -> str:
    """Every GPU in turn, through each of its programming interfaces, and OpenCL devices that are CPUs."""
    return str(request.param)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Function that puts stand_in_cupy.py in CuPy's place and returns its driver, which must not be misused."""
    pytest.importorskip("pyopencl")
    place = importlib.util.spec_from_file_location("stand_in_cupy", Path(__file__).with_name("stand_in_cupy.py"))
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    drivers = []

    def install(**how: int) -> Any:
        drivers.append(module.install(monkeypatch, **how))
        return drivers[-1]

    yield install
    assert [driver.misuse for driver in drivers] == [[]] * len(drivers)


@pytest.fixture
def cuda(stand_in: Callable[..., Any]) -> Any:
    """The driver of a stand-in for CuPy with one device."""
    return stand_in()


@pytest.fixture
def assigned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who told the rows their leaves, tree by tree."""
    calls: list[str] = []
    assign, ahead = DeviceLeaves.assign, DeviceLeaves.finish_ahead
    monkeypatch.setattr(DeviceLeaves, "assign", lambda self, *given: calls.append("host") or assign(self, *given))
    monkeypatch.setattr(
        DeviceLeaves, "finish_ahead", lambda self, *given: calls.append("device") or ahead(self, *given)
    )
    return calls
