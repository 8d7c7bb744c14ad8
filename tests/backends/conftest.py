"""What the tests of backends share."""

from __future__ import annotations

import pytest

from hornbeam.backends.gpu.data import layout
from hornbeam.backends.gpu.growth.leaves import DeviceLeaves
from hornbeam.testing.checks import usable_devices

GPUS = [device for device in usable_devices() if device.startswith(("cuda", "opencl"))]


@pytest.fixture(scope="session", params=GPUS)
def gpu(request: pytest.FixtureRequest) -> str:
    """Every GPU in turn, through each of its programming interfaces, and OpenCL devices that are CPUs."""
    return str(request.param)


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


@pytest.fixture
def few_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let GPUs have histograms of 64 bins, as they do where users train."""
    monkeypatch.setattr(layout, "FEW_BINS", (16, 64))


@pytest.fixture
def every_size(few_bins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let GPUs have tiles of every width besides."""
    monkeypatch.setattr(layout, "NARROW_WORDS", (1, 2, 4))
