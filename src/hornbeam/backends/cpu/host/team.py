"""Threads that go through one kernel together, and meet in it: docs/dev/threads.md.

A kernel that is run by every thread of a team, each with its number, does its share and calls `meet` where it needs
what the others have done:

    @kernel
    def example_kernel(t, crew, array, number):
        call_helpers(t, crew, (array, number))
        ...
        if not meet(crew):
            return
        ...

    with team(8) as eight:
        eight.run(example_kernel, array, number)

The caller's thread is thread 0; the others, its *helpers*, are called by the kernel itself. After a job they stay for a
while, looking for the next one in `mail`; only those that have left are woken by Python.

    ABSENT -- claimed --> CLAIMED -- called --> CALLED -- done --> CLAIMED -- set free --> WAITING -- leaves --> ABSENT
                                                                              ^ may be claimed at once
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.atomics import (
    A_MICROSECOND,
    A_MILLISECOND,
    ROOM,
    add,
    call_job,
    change,
    let_others_run,
    own_job,
    pause,
    read,
    sleep,
    swap,
)
from hornbeam.backends.cpu.host.interrupts import uninterrupted
from hornbeam.backends.cpu.host.kernels import Kernel, inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.threads import Workers, attention
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.cpus import available_cpus

LINE = 16
"""Words of a line: two lines of most caches, since they are fetched in pairs."""

ARRIVED, ROUND, CLOSED, FUNCTION, DATA, SIZE = 0, LINE, LINE + 1, 2 * LINE, 2 * LINE + 1, 2 * LINE + 2
"""Words of the mail: how many have arrived where the team meets, how often it has met, whether somebody will not come
any more; the job: the address of a function, and of what it takes besides the number of the thread; and the size of the
team."""

HELPERS, MOST_THREADS = 2, 512
"""The line of helper 1 comes after this one; the largest team."""

ABSENT, WAITING, CLAIMED, CALLED = range(4)

# Waiting, in looks at the mail; compiled into the loops that wait. docs/dev/threads.md has the measurements.
PATIENCE = 1_000
"""Looks before a waiting thread lets others run: 30 to 100 microseconds."""

STAY, WAKING = 4_000, 75
"""Looks after that before a helper leaves: what Python does between two jobs takes less than a millisecond; and, times
the square of the team's size, about as long as it takes to wake a whole team: 0.1 milliseconds for two, 5 for 16."""

SLEEPY = 50_000
"""Looks after which a waiting thread sleeps for a millisecond between two: its kernel is being compiled."""

NAPPING, NAP, QUICK_LOOKS = 4, 50, 10
"""Largest team whose threads take naps, of so many microseconds, where those of larger ones yield their CPU; and how
many more looks they take before, which are quicker then."""


class Crew(NamedTuple):
    """A team as its kernels take it: the number of threads, the mail, and room for their arguments."""

    size: int
    mail: NDArray[np.int64]
    room: NDArray[np.int64]


@inner_kernel
def _wait(looks, size, patience):
    """Let some time pass after so many looks, in a team of some size; its patience ends with naps if that is small."""
    pause()
    if size <= NAPPING:
        if looks > patience:
            sleep(np.uint32(NAP * A_MICROSECOND))
    elif looks > SLEEPY:
        sleep(np.uint32(A_MILLISECOND))
    elif looks > PATIENCE:
        let_others_run()


@inner_kernel
def meet(crew):
    """Wait until all threads of the team are here; what any has written before, all see after.

    Returns False if one of them has failed, and all should give up.
    """
    mail, looks = crew.mail, 0
    if crew.size == 1:
        return True
    turn = read(mail, ROUND)
    if add(mail, ARRIVED, 1) == crew.size - 1:
        swap(mail, ARRIVED, 0)
        add(mail, ROUND, 1)
    while read(mail, ROUND) == turn:
        if read(mail, CLOSED) != 0:
            return False
        looks += 1
        _wait(looks, crew.size, PATIENCE * QUICK_LOOKS)
    return True


@inner_kernel
def _publish(crew, function, data):
    """Call the helpers."""
    swap(crew.mail, FUNCTION, function)
    swap(crew.mail, DATA, data)
    for t in range(1, crew.size):
        swap(crew.mail, (HELPERS + t) * LINE, CALLED)


@inner_kernel
def share_of(n, t, size):
    """Return which of n things are those of the thread, or the piece, t of `size`: first, and past the last."""
    return n * t // size, n * (t + 1) // size


@inlined
def call_helpers(t, crew, arguments):
    """Let the other threads run the kernel in which this stands, too.

    t, crew, arguments  what the kernel takes: the number of this thread, its Crew, and all else in a tuple
    """
    if t == 0 and crew.size > 1:
        function, data = own_job(crew, arguments)
        _publish(crew, function, data)


@kernel
def _join(mail, n_threads, failed):
    """Wait until the helpers have done their job; False if any thread failed."""
    if failed:
        swap(mail, CLOSED, 1)
    for t in range(1, n_threads):
        looks = 0
        while read(mail, (HELPERS + t) * LINE) == CALLED:
            looks += 1
            _wait(looks, n_threads, PATIENCE * QUICK_LOOKS)
    return read(mail, CLOSED) == 0


@kernel
def _serve(mail, attention, t):
    """Do what helper t is called for, until nobody has claimed it for a while."""
    place, looks = (HELPERS + t) * LINE, 0
    while True:
        state, size = read(mail, place), read(mail, SIZE)
        stay = min(PATIENCE + STAY + WAKING * size**2, SLEEPY) * (QUICK_LOOKS if size <= NAPPING else 1)
        if state == CALLED:
            if call_job(read(mail, FUNCTION), read(mail, DATA), t) != 0:
                swap(mail, CLOSED, 1)
            swap(mail, place, CLAIMED)
            looks = 0
        elif state == ABSENT or (
            state == WAITING and (looks > stay or read(attention, 0) != 0) and change(mail, place, WAITING, ABSENT)
        ):
            return
        looks += 1
        _wait(looks, size, stay)


@kernel
def _claim(mail, n_threads, absent):
    """Claim the helpers of a team, and open it; absent, bool (n_threads,), out, tells who must be woken."""
    for place in (ARRIVED, ROUND, CLOSED):
        swap(mail, place, 0)
    swap(mail, SIZE, n_threads)
    for t in range(1, n_threads):
        absent[t] = swap(mail, (HELPERS + t) * LINE, CLAIMED) == ABSENT


@kernel
def _set_free(mail, n_threads, absent):
    """Let go of the helpers of a team; absent, bool (n_threads,), in, tells who was not woken."""
    for t in range(1, n_threads):
        change(mail, (HELPERS + t) * LINE, CLAIMED, ABSENT if absent[t] else WAITING)


def largest_team(n_threads: int, tuning: Tuning) -> int:
    """Return how many of so many threads may be a team. It reads files: ask once a training."""
    n_cpus = available_cpus()
    return min(n_threads, tuning.team_cpus or n_cpus - (n_cpus >= tuning.spare_cpu_from), MOST_THREADS)


def worthwhile(work: float, most: int, tuning: Tuning, cost: float = 0.0) -> int:
    """Return how many threads should share some work, of at most so many.

    work, cost  nanoseconds of one thread, and that each thread costs besides its waking
    """
    by_waking = math.sqrt(work / (tuning.waking_ns + cost))
    return max(1, min(most, int(by_waking), int(work / tuning.thread_work_ns)))


_mail = np.zeros((HELPERS + MOST_THREADS) * LINE, np.int64)
_room = np.zeros(ROOM, np.int64)
_helpers = Workers("hornbeam-team")
_alone = threading.Lock()
ALONE = Crew(1, _mail, _room)
"""A thread without helpers."""


def _forget() -> None:
    """Begin anew in a forked child, where there are no helpers."""
    global _alone
    _alone = threading.Lock()
    _mail[:] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Team:
    """A team that is ready for jobs; size: number of threads; signals: those that wait until it is set free."""

    def __init__(self, size: int, signals: uninterrupted | None = None) -> None:
        self.size = size
        self._signals = signals

    @property
    def crew(self) -> Crew:
        """The team as kernels take it."""
        return ALONE if self.size == 1 else Crew(self.size, _mail, _room)

    def interruptible(self) -> AbstractContextManager[Any]:
        """Signals are heard inside: what is done there may take seconds, as compiling does."""
        return nullcontext() if self._signals is None else self._signals.heard()

    def run(self, kernel: Kernel, *arguments: Any) -> None:
        """Let all threads run a kernel, which begins with call_helpers."""
        if self.size == 1:
            kernel(0, ALONE, *arguments)
            return
        failed = True
        if not kernel.is_ready:
            with self.interruptible():
                kernel.compile_for(0, self.crew, *arguments)
        try:
            kernel(0, self.crew, *arguments)
            failed = False
        finally:
            whole = _join(_mail, self.size, failed)
        if not whole:
            raise MemoryError("a thread of the CPU backend found no memory for its part of the work")


@contextmanager
def team(n_threads: int) -> Iterator[Team]:
    """Have a team of n_threads threads, this one included; of one where there is another team already.

    n_threads  1 or more, and no more than largest_team says
    """
    if n_threads == 1:
        yield Team(1)
        return
    with uninterrupted() as signals:
        if not _alone.acquire(blocking=False):
            with signals.heard():
                yield Team(1)
            return
        absent = np.zeros(n_threads, np.bool_)
        try:
            attention[0] = 0
            _claim(_mail, n_threads, absent)
            for t in np.flatnonzero(absent).tolist():
                _helpers.begin(_serve_as, t)
                absent[t] = False
            yield Team(n_threads, signals)
        finally:
            _set_free(_mail, n_threads, absent)
            _alone.release()


def _serve_as(t: int) -> None:
    _serve(_mail, attention, t)


def run_parts(kernel: Kernel, n_parts: int, *arguments: Any) -> None:
    """Let a team of n_parts threads, or fewer, run a kernel that does the parts t, t + size of the team, ...

    n_parts  see team
    """
    if n_parts == 1:
        kernel(0, ALONE, *arguments)
        return
    with team(n_parts) as some:
        some.run(kernel, *arguments)
