"""Which devices there are, and the engine that runs on one.

An explicit device that is not there raises; "auto" may choose, because the choice cannot be seen in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hornbeam.errors import DeviceError

if TYPE_CHECKING:
    from hornbeam.backends.protocol import Engine
    from hornbeam.binning import BinnedData
    from hornbeam.params import Params


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device: how to name it, whether it can be used, and what it is or why it cannot."""

    name: str
    usable: bool
    description: str


def devices() -> list[DeviceInfo]:
    """List what this machine offers, and why something is not offered."""
    from hornbeam.backends.cpu.threads import available_cpus

    not_yet = "this version of Hornbeam trains on the CPU; GPU backends are still to come"
    return [
        DeviceInfo("cpu", True, f"{available_cpus()} thread(s), Numba kernels"),
        DeviceInfo("reference", True, "NumPy, slow: the definition that the others are tested against"),
        DeviceInfo("cuda", False, not_yet),
        DeviceInfo("opencl", False, not_yet),
    ]


def choose_device(device: str) -> str:
    """Turn the parameter `device` into the name of a usable device."""
    if device == "auto":
        return "cpu"
    offered = devices()
    wanted = device.split(":")[0]
    for info in offered:
        if info.name == wanted and info.usable:
            return info.name
    reason = next((info.description for info in offered if info.name == wanted), "unknown")
    usable = ", ".join(repr(info.name) for info in offered if info.usable)
    raise DeviceError(f"device={device!r} is not available here ({reason}); usable: {usable}, or 'auto'")


def make_engine(binned: BinnedData, params: Params) -> Engine:
    """Make an engine for a binned training set on the device that the parameters ask for."""
    device = choose_device(params.device)
    if device == "reference":
        from hornbeam.backends.reference.engine import ReferenceEngine

        return ReferenceEngine(binned)
    from hornbeam.backends.cpu.engine import CpuEngine

    return CpuEngine(binned, params.num_threads)
