"""Threads of the CPU backend: how many, and how work is handed to them.

Kernels are compiled without the interpreter lock, so plain Python threads run them side by side. Workers are started
at first use, are shared by all trainings of the process, and are forgotten in a forked child, where the parent's
threads do not exist. A queue and a lock a task hand work over in about 20 microseconds, half of what
concurrent.futures takes, and a round of a small tree is not much longer than that. With more threads it takes longer,
since each needs the interpreter to wake: what is short, or done often, is done by a team (team.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np

from hornbeam.backends.cpu.host.interrupts import uninterrupted


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


def run_threads(task: Callable[[int], None], n_threads: int) -> None:
    """Run task(0), ..., task(n_threads - 1) side by side, the first on the calling thread; return when all are done.

    An error of any of them is raised here, after the others have ended.
    """
    if n_threads == 1:
        task(0)
        return
    attention[0] = 1
    with uninterrupted() as signals:
        jobs = [_workers.begin(task, number) for number in range(1, n_threads)]
        try:
            with signals.heard():
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
    with uninterrupted() as signals:
        job = _workers.begin(lambda _: task(), 1)
        try:
            with signals.heard():
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
