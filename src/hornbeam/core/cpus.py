"""How many CPUs a process may use, and how many threads a training takes of them."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path


def available_cpus() -> int:
    """Count the CPUs this process may use: affinity mask and cgroup quota respected."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, min(affinity, _quota()))


@cache
def _quota() -> int:
    """Return the CPU quota of this process's cgroup, which is read once: that takes as long as predicting a row."""
    return _cgroup_cpus()


def _cgroup_cpus(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the CPU quota of the process's cgroup (version 2, then 1), rounded up; a huge number without one."""
    try:
        quota, period = (root / "cpu.max").read_text().split()[:2]
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return 1 << 30
    if not (quota.isdigit() and period.isdigit()) or 0 in (int(quota), int(period)):  # "max", or -1: no limit
        return 1 << 30
    return max(1, math.ceil(int(quota) / int(period)))


MOST_THREADS = 64
"""Threads that are started where more are asked for than four times the CPUs; the model is the same."""


def resolve_threads(num_threads: int) -> int:
    """Turn the parameter `num_threads` (0: all that are available) into a number of threads.

    More than four times the CPUs, and than `MOST_THREADS`, are not started: they would only wait for each other.
    `OMP_NUM_THREADS` lowers what is available: joblib sets it in its workers, so that they share the CPUs.
    """
    if 0 < num_threads <= MOST_THREADS:
        return num_threads
    if num_threads > 0:
        return min(num_threads, max(MOST_THREADS, 4 * available_cpus()))
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(available_cpus(), int(limit)) if limit.isdigit() and int(limit) > 0 else available_cpus()
