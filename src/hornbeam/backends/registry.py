"""Which devices there are, and the engine that runs on one.

An explicit device that is not there raises; "auto" may choose, because the choice cannot be seen in the result.
Drivers are asked when a device is, never at import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hornbeam.backends.costs import TrainingWork, Work
from hornbeam.backends.gpu.runtime.forks import check_drivers, why_no_driver
from hornbeam.core.errors import DeviceError
from hornbeam.core.log import inform

if TYPE_CHECKING:
    from hornbeam.backends.demand import Demand
    from hornbeam.backends.gpu.runtime.runtime import Runtime
    from hornbeam.data.binning import BinnedData
    from hornbeam.data.table import TableReader
    from hornbeam.params.params import Params
    from hornbeam.trees.engine import Engine

CELLS_TO_BIN_ON_A_GPU = 1 << 20
"""Values from which on a table in host memory is binned by the GPU that trains: fewer take the CPU milliseconds."""

MOST_UNITS = 1000
"""No GPU has more compute units than this: where even such a one is not worth its start, none is looked for."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device: how to name it, whether it can be used, and what it is or why it cannot.

    compute_units  of a GPU, by which "auto" chooses; 0: it is none
    """

    name: str
    usable: bool
    description: str
    compute_units: int = 0


def devices() -> list[DeviceInfo]:
    """List what this machine offers, and why something is not offered."""
    from hornbeam.backends.cpu.host.threads import available_cpus

    return [
        DeviceInfo("cpu", True, f"{available_cpus()} thread(s), Numba kernels"),
        DeviceInfo("reference", True, "NumPy, slow: the definition that the others are tested against"),
        *_cuda_devices(),
        *_opencl_devices(),
    ]


def _cuda_devices() -> list[DeviceInfo]:
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


def _opencl_devices() -> list[DeviceInfo]:
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


def choose_device(device: str, work: Work | None = None) -> str:
    """Turn the parameter `device` into the name of a usable device.

    work  what is to be done, by which "auto" chooses; None: it takes the CPU
    """
    if device == "auto":
        return "cpu" if work is None else fastest_device(work)
    if device in ("cpu", "reference"):
        return device
    kind, _, number = device.partition(":")
    offered = devices()
    if device == "gpu":
        for kind in ("cuda", "opencl"):
            for info in offered:
                if info.usable and info.name.startswith(kind):
                    return info.name
        reasons = "; ".join(f"{info.name}: {info.description}" for info in offered if not info.usable)
        raise DeviceError(f"device='gpu' is not available here ({reasons}); use 'cpu' or 'auto': the model is the same")
    wanted = f"{kind}:{number or 0}"
    for info in offered:
        if info.name == wanted and info.usable:
            return info.name
    same_kind = [info for info in offered if info.name.split(":")[0] == kind]
    reason = next((info.description for info in same_kind if info.name in (wanted, kind)), "there is no such number")
    usable = ", ".join(repr(info.name) for info in offered if info.usable)
    raise DeviceError(f"device={device!r} is not available here ({reason}); usable: {usable}, or 'auto'")


def fastest_device(work: Work) -> str:
    """Return the CPU or the GPU that is expected to be done first; drivers are asked only where one could be."""
    best, seconds = "cpu", work.cpu_seconds()
    if seconds <= work.gpu_seconds(MOST_UNITS):
        return best
    for info in (*_cuda_devices(), *_opencl_devices()):
        if info.usable and info.compute_units > 0 and work.gpu_seconds(info.compute_units) < seconds:
            best, seconds = info.name, work.gpu_seconds(info.compute_units)
    return best


def device_to_bin_on(table: TableReader, params: Params | None, reference: BinnedData | None) -> str | None:
    """Return the device that the data are on, or if they are many and in host memory, the GPU that will train.

    reference  the data whose bins are taken, or None; None is returned where the CPU shall bin
    """
    if params is not None and params.device in ("cpu", "reference"):
        return None
    if table.device is not None:
        return table.device
    if params is None or table.levels is not None or table.sparse is not None:
        return None
    if table.n_rows * table.n_features < CELLS_TO_BIN_ON_A_GPU:
        return None
    if reference is not None and reference.on_device is None:
        return None  # its bins are bundled, say
    device = choose_device(params.device, TrainingWork.of(table.n_rows, table.n_features, params))
    return None if device == "cpu" else device


def open_runtime(device: str) -> Runtime:
    """Open a GPU by its full name, "cuda:0" or "opencl:0"."""
    check_drivers()
    kind, _, number = device.partition(":")
    if kind == "cuda":
        from hornbeam.backends.gpu.runtime import cuda

        return cuda.open_device(int(number))
    from hornbeam.backends.gpu.runtime import opencl

    return opencl.open_device(int(number))


def make_engine(binned: BinnedData, params: Params, demand: Demand | None = None) -> Engine:
    """Make an engine for a binned training set on the device that the parameters ask for.

    demand  what the training will keep besides; None: only what every training does
    """
    work = TrainingWork.of(binned.n_rows, binned.n_used, params, binned.on_device is not None)
    device = choose_device(params.device, work)
    if params.device in ("auto", "gpu") and device != "cpu" and binned.on_device is not None:
        device = binned.on_device.device
    if device == "reference":
        from hornbeam.backends.reference.engine import ReferenceEngine

        return ReferenceEngine(binned)
    if device != "cpu":
        from hornbeam.backends.demand import PLAIN_DEMAND
        from hornbeam.backends.gpu.engine import GpuEngine

        try:
            runtime, min_data, limit = open_runtime(device), params.min_data_in_leaf, params.device_memory_limit
            return GpuEngine(runtime, binned, min_data, demand or PLAIN_DEMAND, limit)
        except DeviceError as error:
            if params.device != "auto":
                raise
            inform(f"training on the CPU: {error}", params.verbosity)
    if binned.stored is not None:
        from hornbeam.backends.cpu.stored_engine import StoredEngine

        return StoredEngine(binned, params.num_threads)
    from hornbeam.backends.cpu.engine import CpuEngine

    return CpuEngine(binned, params.num_threads)
