"""Which devices there are, and which of them a work is done on.

An explicit device that is not there raises; "auto" may choose, because the choice cannot be seen in the result.
Drivers are asked when a device is, never at import.
"""

from __future__ import annotations

from hornbeam.backends.costs import Work
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.device_info import DeviceInfo
from hornbeam.core.errors import DeviceError

MOST_UNITS = 1000
"""No GPU has more compute units than this: where even such a one is not worth its start, none is looked for."""


def devices() -> list[DeviceInfo]:
    """List what this machine offers, and why something is not offered.

    Examples
    --------
    >>> [device.name for device in hb.devices()][:2]
    ['cpu', 'reference']
    """
    from hornbeam.backends.cpu.host.library import describe

    return [
        DeviceInfo("cpu", True, f"{resolve_threads(0)} thread(s), {describe()}"),
        DeviceInfo("reference", True, "NumPy, slow: the definition that the others are tested against"),
        *_gpus(),
    ]


def build_info() -> dict[str, bool]:
    """Return what XGBoost's function of this name tells, as far as it is so here: which devices can be used."""
    usable = {device.name.partition(":")[0] for device in devices() if device.usable}
    return {"DEBUG": False, "USE_CUDA": "cuda" in usable, "USE_OPENCL": "opencl" in usable, "USE_OPENMP": True}


KINDS = ("cuda", "opencl")
"""Programming interfaces of GPUs, the faster one first."""


def _gpus(*kinds: str) -> list[DeviceInfo]:
    """List what GPUs there are, or why there are none; of all kinds if none is named."""
    from hornbeam.backends.gpu.runtime.devices import cuda_devices, opencl_devices

    listing = {"cuda": cuda_devices, "opencl": opencl_devices}
    return [info for kind in kinds or KINDS for info in listing[kind]()]


def choose_device(device: str, work: Work | None = None) -> str:
    """Turn the parameter `device` into the name of a usable device.

    work  what is to be done, by which "auto" chooses; None: it takes the CPU
    """
    if device == "auto":
        return "cpu" if work is None else fastest_device(work)
    if device in ("cpu", "reference"):
        return device
    kind, _, number = device.partition(":")
    wanted = f"{kind}:{number or 0}"
    if kind == "cuda":
        from hornbeam.backends.gpu.runtime.waking import wake_cuda

        wake_cuda(int(number or 0))
    for asked in KINDS if device == "gpu" else (kind,):  # a driver that is not needed takes time to load
        for info in _gpus(asked):
            if info.usable and (device == "gpu" or info.name == wanted):
                return info.name
    offered = devices()
    if device == "gpu":
        reasons = "; ".join(f"{info.name}: {info.description}" for info in offered if not info.usable)
        raise DeviceError(f"device='gpu' is not available here ({reasons}); use 'cpu' or 'auto': the model is the same")
    same_kind = [info for info in offered if info.name.split(":")[0] == kind]
    reason = next((info.description for info in same_kind if info.name in (wanted, kind)), "there is no such number")
    usable = ", ".join(repr(info.name) for info in offered if info.usable)
    raise DeviceError(f"device={device!r} is not available here ({reason}); usable: {usable}, or 'auto'")


def gpus_of_kind(device: str) -> dict[str, str]:
    """Return the usable GPUs of the kind of a device, CUDA or OpenCL, by what names them on all machines.

    OpenCL devices that are no GPUs are left out.
    """
    from hornbeam.backends.gpu.runtime.devices import identity

    kind = device.partition(":")[0]
    return {identity(info.name): info.name for info in _gpus(kind) if info.usable and info.compute_units > 0}


def fastest_device(work: Work) -> str:
    """Return the CPU or the GPU that is expected to be done first; drivers are asked only where one could be."""
    best, seconds = "cpu", work.cpu_seconds()
    if seconds <= work.gpu_seconds(MOST_UNITS):
        return best
    for info in _gpus():
        if info.usable and info.compute_units > 0 and work.gpu_seconds(info.compute_units) < seconds:
            best, seconds = info.name, work.gpu_seconds(info.compute_units)
    return best
