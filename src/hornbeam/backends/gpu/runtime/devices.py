"""Which GPUs there are, through CUDA and OpenCL, and how one is opened. Drivers are asked when a device is."""

from __future__ import annotations

import socket

from hornbeam.backends.gpu.runtime.forks import check_drivers, why_no_driver
from hornbeam.backends.gpu.runtime.runtime import Runtime
from hornbeam.core.device_info import DeviceInfo


def cuda_devices() -> list[DeviceInfo]:
    """List CUDA devices, or one entry that says why there are none."""
    try:
        from hornbeam.backends.gpu.runtime import cuda
    except ImportError as error:
        advice = "pip install hornbeam[cuda], or hornbeam[cuda12] where the driver has CUDA 12"
        return [DeviceInfo("cuda", False, f"CuPy cannot be imported ({error}); {advice}")]
    reason = why_no_driver()
    if reason is not None:
        return [DeviceInfo("cuda", False, reason)]
    try:
        n_devices = cuda.count_devices()
        found = [
            DeviceInfo(f"cuda:{number}", True, cuda.describe(number), cuda.compute_units(number))
            for number in range(n_devices)
        ]
    except Exception as error:  # CuPy's errors derive from nothing in particular
        older = "; hornbeam[cuda12] is for drivers of CUDA 12" if "InsufficientDriver" in str(error) else ""
        return [DeviceInfo("cuda", False, f"no CUDA device or driver ({error}){older}")]
    return found or [DeviceInfo("cuda", False, "no CUDA device")]


def opencl_devices() -> list[DeviceInfo]:
    """List OpenCL devices, GPUs first, or one entry that says why there are none."""
    try:
        from hornbeam.backends.gpu.runtime import opencl
    except ImportError as error:
        return [DeviceInfo("opencl", False, f"PyOpenCL cannot be imported ({error}); pip install hornbeam[opencl]")]
    reason = why_no_driver()
    if reason is not None:
        return [DeviceInfo("opencl", False, reason)]
    try:
        found = opencl.list_devices()
    except Exception as error:  # the loader raises when there is no platform
        return [DeviceInfo("opencl", False, f"no OpenCL platform ({error}); install the driver of the device, or PoCL")]
    listed = []
    for number, device in enumerate(found):
        reason = opencl.why_not(device)
        described = reason or opencl.describe(device)
        listed.append(DeviceInfo(f"opencl:{number}", reason is None, described, opencl.compute_units(device)))
    return listed or [DeviceInfo("opencl", False, "no OpenCL device")]


def open_runtime(device: str) -> Runtime:
    """Open a GPU by its full name, "cuda:0" or "opencl:0"."""
    check_drivers()
    kind, _, number = device.partition(":")
    if kind == "cuda":
        from hornbeam.backends.gpu.runtime import cuda

        return cuda.open_device(int(number))
    from hornbeam.backends.gpu.runtime import opencl

    return opencl.open_device(int(number))


def identity(device: str) -> str:
    """Return what names a GPU, given as "cuda:0" or "opencl:0", on all machines."""
    kind, _, number = device.partition(":")
    if kind == "cuda":
        from hornbeam.backends.gpu.runtime import cuda

        return cuda.identity(int(number))
    return f"{socket.gethostname()} {device}"
