"""Threads of the CPU backend: how many, and how work is handed to them.

Kernels are compiled without the interpreter lock, so plain Python threads run them side by side. Workers are started
at first use, are shared by all trainings of the process, and are forgotten in a forked child, where the parent's
threads do not exist. A queue and a lock a task hand work over in about 20 microseconds, half of what
concurrent.futures takes, and a round of a small tree is not much longer than that. With more threads it takes longer,
since each needs the interpreter to wake: what is short, or done often, is done by a team (team.py).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import numpy as np


class _Job:
    """One call of a task on a worker."""

    def __init__(self, task: Callable[[int], None], number: int) -> None:
        self.task = task
        self.number = number
        self.error: BaseException | None = None
        self.running = threading.Lock()
        self.running.acquire()

    def run(self) -> None:
        try:
            self.task(self.number)
        except BaseException as error:
            self.error = error
        finally:
            self.running.release()

    def wait(self) -> None:
        with self.running:
            pass


def _work(queue: SimpleQueue[_Job]) -> None:
    while True:
        queue.get().run()


class Workers:
    """Threads that wait for jobs, each with a queue of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._queues: list[SimpleQueue[_Job]] = []
        self._starting = threading.Lock()

    def _start(self, n_workers: int) -> None:
        with self._starting:
            while len(self._queues) < n_workers:
                queue: SimpleQueue[_Job] = SimpleQueue()
                name = f"{self.name}-{len(self._queues)}"
                threading.Thread(target=_work, args=(queue,), name=name, daemon=True).start()
                self._queues.append(queue)

    def begin(self, task: Callable[[int], None], number: int) -> _Job:
        """Let worker `number`, from 1 on, do task(number)."""
        if len(self._queues) < number:
            self._start(number)
        job = _Job(task, number)
        self._queues[number - 1].put(job)
        return job


_workers = Workers("hornbeam")

attention = np.zeros(8, np.int64)
"""Its first entry is set when CPUs are wanted by others than a team; a cache line."""


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
    if not (quota.isdigit() and period.isdigit()) or 0 in (int(quota), int(period)):  # "max", or -1: no limit
        return 1 << 30
    return max(1, math.ceil(int(quota) / int(period)))


def resolve_threads(num_threads: int) -> int:
    """Turn the parameter `num_threads` (0: all that are available) into a number of threads.

    `OMP_NUM_THREADS` lowers what is available: joblib sets it in its workers, so that they share the CPUs.
    """
    if num_threads > 0:
        return num_threads
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(available_cpus(), int(limit)) if limit.isdigit() and int(limit) > 0 else available_cpus()


def run_threads(task: Callable[[int], None], n_threads: int) -> None:
    """Run task(0), ..., task(n_threads - 1) side by side, the first on the calling thread; return when all are done.

    An error of any of them is raised here, after the others have ended.
    """
    if n_threads == 1:
        task(0)
        return
    attention[0] = 1
    jobs = [_workers.begin(task, number) for number in range(1, n_threads)]
    try:
        task(0)
    finally:
        for job in jobs:
            job.wait()
    for job in jobs:
        if job.error is not None:
            raise job.error


@contextmanager
def beside(task: Callable[[], None] | None) -> Iterator[None]:
    """Do something on another thread meanwhile; an error of it is raised afterwards. None: there is nothing to do."""
    if task is None:
        yield
        return
    job = _workers.begin(lambda _: task(), 1)
    try:
        yield
    finally:
        job.wait()
    if job.error is not None:
        raise job.error


def run_ranges(task: Callable[[int, int], None], n_items: int, n_threads: int, smallest: int = 1) -> None:
    """Split range(n_items) evenly over the threads and run task(start, stop) on each part.

    Parts are not smaller than `smallest` items, so that little work stays on the calling thread.
    """
    n_parts = max(1, min(n_threads, n_items // max(smallest, 1)))
    bounds = [n_items * part // n_parts for part in range(n_parts + 1)]
    run_threads(lambda part: task(bounds[part], bounds[part + 1]), n_parts)
