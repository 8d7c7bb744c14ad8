"""The machine that measures: processors, GPU, memory, bandwidth, versions."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import hornbeam as hb
from hornbeam.core.cpus import available_cpus
from reproduction.learners import gpu

PACKAGES = (
    "hornbeam", "numpy", "numba", "cupy-cuda13x", "cupy-cuda12x", "pyopencl", "pocl-binary-distribution", "lightgbm",
    "xgboost", "xgboost-cpu", "scikit-learn", "scipy", "pyarrow",
)  # fmt: skip

CORES_A_UNIT = {7: 64, 8: 128, 9: 128, 10: 128, 12: 128}
"""Single-precision cores of a multiprocessor by NVIDIA's compute capability; 8.0 has 64."""

COPIED = 1 << 28
"""Bytes that are copied to measure bandwidth."""


def facts() -> dict[str, Any]:
    """Return what the table of hardware shows, and the versions."""
    return {"cpu": cpu_facts(), "gpu": gpu_facts(), "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}", "versions": versions(), "environment": environment(),
            "day": time.strftime("%Y-%m-%d"), "summary": "read"}  # fmt: skip


def environment() -> dict[str, str]:
    """Return variables that change what threads do."""
    return {
        name: value for name, value in os.environ.items() if name.startswith(("OMP_", "GOMP_", "KMP_", "NUMBA_NUM"))
    }


def versions() -> dict[str, str]:
    """Return the versions of what is installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    found["hornbeam"] = hb.__version__
    return found


def cpu_facts() -> dict[str, Any]:
    """Return name, cores, memory and measured bandwidth of the processors."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        name = models[0] if models else name
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        memory = 0
    return {"name": name, "cores": available_cpus(), "memory_bytes": memory, "bandwidth": copy_bandwidth()}


def copy_bandwidth() -> float:
    """Return the bytes a second that all threads together read and write while they copy."""
    n_threads = available_cpus()
    source, target = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    cuts = np.linspace(0, COPIED, n_threads + 1).astype(int)
    best = np.inf
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            parts = itertools.pairwise(cuts)
            list(pool.map(lambda part: np.copyto(target[slice(*part)], source[slice(*part)]), parts))
            best = min(best, time.perf_counter() - start)
    return 2 * COPIED / best


def gpu_facts() -> dict[str, Any] | None:
    """Return name, memory, peak bandwidth and peak FLOPS of the GPU, as far as its driver tells; None: no GPU."""
    name = gpu()
    if name is None:
        return None
    described = next(one.description for one in hb.devices() if one.name == name)
    found: dict[str, Any] = {"device": name, "name": described, "memory_bytes": 0, "bandwidth": 0.0, "flops": 0.0}
    if not name.startswith("cuda"):
        return found
    try:
        found |= cuda_facts()
    except Exception as error:  # what a driver does not tell is no reason to measure nothing
        found["untold"] = str(error)
    return found


def cuda_facts() -> dict[str, Any]:
    """Return what CUDA's driver tells of its first device."""
    import cupy

    device = cupy.cuda.Device(0)
    attributes = device.attributes
    major, minor = divmod(int(device.compute_capability), 10)
    cores = 64 if (major, minor) == (8, 0) else CORES_A_UNIT.get(major, 128)
    units, clock = attributes.get("MultiProcessorCount", 0), attributes.get("ClockRate", 0)
    memory_clock, bus_bits = attributes.get("MemoryClockRate", 0), attributes.get("GlobalMemoryBusWidth", 0)
    return {
        "name": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "memory_bytes": int(device.mem_info[1]),
        "flops": 2.0 * units * cores * clock * 1e3,
        "bandwidth": 2.0 * memory_clock * 1e3 * bus_bits / 8,
    }
