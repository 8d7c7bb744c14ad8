"""Threads of the CPU backend: how many, and how work is handed to them.

Kernels are compiled without the interpreter lock, so plain Python threads run them side by side. The pool is made at
first use, is shared by all trainings of the process, and is made anew in a forked child, where the parent's threads do
not exist.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def available_cpus() -> int:
    """Count the CPUs this process may use: affinity mask and cgroup quota respected."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, min(affinity, _cgroup_cpus()))


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
    if quota == "max" or int(quota) <= 0:
        return 1 << 30
    return max(1, math.ceil(int(quota) / int(period)))


def resolve_threads(num_threads: int) -> int:
    """Turn the parameter `num_threads` (0: all that are available) into a number of threads."""
    return num_threads if num_threads > 0 else available_cpus()


def _executor(n_threads: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < n_threads - 1:
        _pool = ThreadPoolExecutor(n_threads - 1, thread_name_prefix="hornbeam")
        _pool_size = n_threads - 1
    return _pool


def run_threads(task: Callable[[int], None], n_threads: int) -> None:
    """Run task(0), ..., task(n_threads - 1) side by side, the first on the calling thread; return when all are done."""
    if n_threads == 1:
        task(0)
        return
    executor = _executor(n_threads)
    futures = [executor.submit(task, thread) for thread in range(1, n_threads)]
    try:
        task(0)
    finally:
        for future in futures:
            future.result()


def run_ranges(task: Callable[[int, int], None], n_items: int, n_threads: int, smallest: int = 1) -> None:
    """Split range(n_items) evenly over the threads and run task(start, stop) on each part.

    Parts are not smaller than `smallest` items, so that little work stays on the calling thread.
    """
    n_parts = max(1, min(n_threads, n_items // max(smallest, 1)))
    bounds = [n_items * part // n_parts for part in range(n_parts + 1)]
    run_threads(lambda part: task(bounds[part], bounds[part + 1]), n_parts)
