"""Threads that go through one kernel together, and meet in it.

A kernel that is run by every thread of a team, each with its number, does its share and calls `meet` where it needs
what the others have done:

    @njit(nogil=True, cache=True, error_model="numpy")
    def kernel(t, crew, array, number):
        call_helpers(t, crew, (array, number))
        ...
        if not meet(crew):
            return
        ...

    with team(8) as crew:
        crew.run(kernel, array, number)

Neither to begin nor to meet takes the interpreter: the caller's arguments are read once, and the kernel itself calls
the other threads, the *helpers*. That takes a microsecond or so, where handing work to Python's threads takes 20 for
two of them and 300 for sixteen (threads.py). After a job helpers stay for a while, looking for the next one; only who
has left is woken by Python. What they look at is `mail`, with a line of the cache for each:

    ABSENT -- claimed --> CLAIMED -- called --> CALLED -- done --> CLAIMED -- set free --> WAITING -- leaves --> ABSENT
                                                                              ^ may be claimed at once

Those who wait look again and again, and let other threads run every now and then; those of small teams take naps
instead (NAPPING). If a thread of the team had no chance to run at all, the others would wait for ever: so there is one
team at a time in a process.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding
import llvmlite.ir as ir
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from hornbeam.backends.cpu.host.threads import Workers, attention
from hornbeam.core.cpus import available_cpus

LINE = 16
"""Words of a line: two lines of most caches, since they are fetched in pairs."""

ARRIVED, ROUND, CLOSED, FUNCTION, DATA, SIZE = 0, LINE, LINE + 1, 2 * LINE, 2 * LINE + 1, 2 * LINE + 2
"""Places in the mail: how many have arrived where the team meets, how often it has met, whether somebody will not come
any more; the job: the address of a function, and of what it takes besides the number of the thread; and the size of the
team."""

ROOM = 1024
"""Words for a kernel's arguments."""

HELPERS, MOST_THREADS = 2, 512
"""The line of helper 1 comes after this one; the largest team."""

ABSENT, WAITING, CLAIMED, CALLED = range(4)

PATIENCE = 1_000
"""Looks before a waiting thread lets others run: 30 to 100 microseconds."""

STAY, WAKING = 4_000, 75
"""Looks after that before a helper leaves: what Python does between two jobs takes less than a millisecond; and, times
the square of the team's size, about as long as it takes to wake a whole team: 0.1 milliseconds for two, 5 for 16."""

SLEEPY = 50_000
"""Looks after which a waiting thread sleeps for a millisecond between two: its kernel is being compiled."""

NAPPING, NAP, QUICK_LOOKS = 4, 50, 10
"""Largest team whose threads take naps, of so many microseconds, where those of larger ones yield their CPU; and how
many more looks they take before, which are quicker then. On a busy machine who yields is put far behind by newer
kernels of Linux: two threads beside two busy processes took 6.9 seconds where naps take 0.7. But sixteen virtual CPUs
that take naps while one is late are slow to come back: 14 milliseconds became 89."""

PAUSES = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "amd64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.isb", (15,)),
    "arm64": ("llvm.aarch64.isb", (15,)),
}
"""What a thread does between two looks, by machine: an intrinsic of LLVM and its arguments."""

inner_kernel = njit(
    nogil=True, cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)  # fmt: skip
"""Decorates what is called by compiled code alone: what would let Python call it takes time to compile."""

_windows = sys.platform == "win32"
_library = ctypes.WinDLL("kernel32") if _windows else ctypes.CDLL(None)  # type: ignore[attr-defined,unused-ignore]
_functions = {
    "hornbeam_let_others_run": _library.SwitchToThread if _windows else _library.sched_yield,
    "hornbeam_sleep": _library.Sleep if _windows else _library.usleep,
}
for _name, _function in _functions.items():
    llvmlite.binding.add_symbol(_name, ctypes.cast(_function, ctypes.c_void_p).value)
let_others_run = types.ExternalFunction("hornbeam_let_others_run", types.int32())
sleep = types.ExternalFunction("hornbeam_sleep", types.int32(types.uint32))
A_MILLISECOND, NAP_TIME = (1, 0) if _windows else (1000, NAP)

_INT, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_JOB = ir.FunctionType(_INT, [_BYTES, _INT])
_mail_type = types.Array(types.int64, 1, "C")


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, value=arguments[0])
    return cgutils.get_item_pointer(context, builder, kind, array, [arguments[1]], wraparound=False)


@intrinsic  # type: ignore[untyped-decorator]
def _read(typing_context, mail, place):  # type: ignore[no-untyped-def]
    """Return an entry; what was written before it was, is seen after this."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load_atomic(_pointer(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(_mail_type, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _add(typing_context, mail, place, value):  # type: ignore[no-untyped-def]
    """Add to an entry and return what it was; what was written before is seen by those who read it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("add", _pointer(context, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(_mail_type, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _swap(typing_context, mail, place, value):  # type: ignore[no-untyped-def]
    """Write an entry and return what it was; see _add."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("xchg", _pointer(context, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(_mail_type, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _change(typing_context, mail, place, old, new):  # type: ignore[no-untyped-def]
    """Write an entry if it is `old`, and say whether it was; see _add."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        where = _pointer(context, builder, signature, arguments)
        pair = builder.cmpxchg(where, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(_mail_type, types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _pause(typing_context):  # type: ignore[no-untyped-def]
    """Rest for some cycles."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        if platform.machine().lower() in PAUSES:
            name, given = PAUSES[platform.machine().lower()]
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)] * len(given))
            builder.call(
                cgutils.get_or_insert_function(builder.module, kind, name),
                [ir.Constant(ir.IntType(32), number) for number in given],
            )
        return context.get_dummy_value()

    return types.void(), generate


def _borrowed(builder: Any, kind: Any, value: Any) -> Any:
    """Return an argument whose arrays are not counted as in use: threads would wait for each other's counting."""
    if isinstance(kind, types.Array):
        nobody = ir.Constant(value.type.elements[0], None)
        return builder.insert_value(value, nobody, 0)
    if isinstance(kind, types.BaseTuple):
        for i, item in enumerate(kind):
            value = builder.insert_value(value, _borrowed(builder, item, builder.extract_value(value, i)), i)
    return value


@intrinsic  # type: ignore[untyped-decorator]
def _own_job(typing_context, crew, given):  # type: ignore[no-untyped-def]
    """Return the addresses of a function(data, t) that calls this kernel for thread t, and of its data."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        module, kernel = builder.module, builder.function
        kinds = signature.args[0], *signature.args[1]
        items = [arguments[0], *cgutils.unpack_tuple(builder, arguments[1])]
        record = ir.LiteralStructType([item.type for item in items])  # item by item: of a whole one LLVM is slow
        if context.get_abi_sizeof(record) > 8 * ROOM:
            raise RuntimeError(f"the arguments of a team's kernel take {context.get_abi_sizeof(record)} bytes")
        room = context.make_array(kinds[0][2])(context, builder, builder.extract_value(items[0], 2)).data
        data = builder.bitcast(room, record.as_pointer())
        for i, item in enumerate(items):
            builder.store(item, cgutils.gep_inbounds(builder, data, 0, i))
        function = ir.Function(module, _JOB, module.get_unique_name("hornbeam_job"))
        function.linkage = "internal"
        body = ir.IRBuilder(function.append_basic_block())
        data = body.bitcast(function.args[0], record.as_pointer())
        loaded = [body.load(cgutils.gep_inbounds(body, data, 0, i)) for i in range(len(items))]
        borrowed = [_borrowed(body, kind, item) for kind, item in zip(kinds, loaded, strict=True)]
        status, _ = context.call_conv.call_function(
            body, kernel, types.none, (types.int64, *kinds), [function.args[1], *borrowed]
        )
        body.ret(body.zext(status.is_error, _INT))
        pair = [builder.ptrtoint(function, _INT), builder.ptrtoint(room, _INT)]
        return context.make_tuple(builder, signature.return_type, pair)

    return types.UniTuple(types.int64, 2)(crew, given), generate


@intrinsic  # type: ignore[untyped-decorator]
def _call(typing_context, function, data, t):  # type: ignore[no-untyped-def]
    """Do the share of thread t of a job; returns 0, or 1 if that failed."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        function = builder.inttoptr(arguments[0], _JOB.as_pointer())
        return builder.call(function, [builder.inttoptr(arguments[1], _BYTES), arguments[2]])

    return types.int64(types.int64, types.int64, types.int64), generate


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _wait(looks, size, patience):  # type: ignore[no-untyped-def]
    """Let some time pass after so many looks, in a team of some size; its patience ends with naps if that is small."""
    _pause()
    if size <= NAPPING:
        if looks > patience:
            sleep(np.uint32(NAP_TIME))
    elif looks > SLEEPY:
        sleep(np.uint32(A_MILLISECOND))
    elif looks > PATIENCE:
        let_others_run()


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def meet(crew):  # type: ignore[no-untyped-def]
    """Wait until all threads of the team are here; what any has written before, all see after.

    Returns False if one of them has failed, and all should give up.
    """
    n_threads, mail, _ = crew
    if n_threads == 1:
        return True
    turn = _read(mail, np.int64(ROUND))
    if _add(mail, np.int64(ARRIVED), np.int64(1)) == n_threads - 1:
        _swap(mail, np.int64(ARRIVED), np.int64(0))
        _add(mail, np.int64(ROUND), np.int64(1))
    looks = 0
    while _read(mail, np.int64(ROUND)) == turn:
        if _read(mail, np.int64(CLOSED)) != 0:
            return False
        looks += 1
        _wait(looks, n_threads, PATIENCE * QUICK_LOOKS)
    return True


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _publish(crew, function, data):  # type: ignore[no-untyped-def]
    """Call the helpers."""
    n_threads, mail, _ = crew
    _swap(mail, np.int64(FUNCTION), function)
    _swap(mail, np.int64(DATA), data)
    for t in range(1, n_threads):
        _swap(mail, np.int64((HELPERS + t) * LINE), np.int64(CALLED))


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def call_helpers(t, crew, given):  # type: ignore[no-untyped-def]
    """Let the other threads run the kernel where this stands, too.

    t, crew, given  what the kernel takes: the number of this thread, see Crew, and all else in a tuple
    """
    if t == 0 and crew[0] > 1:
        function, data = _own_job(crew, given)
        _publish(crew, function, data)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _join(mail, n_threads, failed):  # type: ignore[no-untyped-def]
    """Wait until the helpers have done their job; False if any thread failed."""
    if failed:
        _swap(mail, np.int64(CLOSED), np.int64(1))
    for t in range(1, n_threads):
        looks = 0
        while _read(mail, np.int64((HELPERS + t) * LINE)) == CALLED:
            looks += 1
            _wait(looks, n_threads, PATIENCE * QUICK_LOOKS)
    return _read(mail, np.int64(CLOSED)) == 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _serve(mail, attention, t):  # type: ignore[no-untyped-def]
    """Do what helper t is called for, until nobody has claimed it for a while."""
    place, looks = np.int64((HELPERS + t) * LINE), 0
    while True:
        state, size = _read(mail, place), _read(mail, np.int64(SIZE))
        stay = min(PATIENCE + STAY + WAKING * size**2, SLEEPY) * (QUICK_LOOKS if size <= NAPPING else 1)
        if state == CALLED:
            if _call(_read(mail, np.int64(FUNCTION)), _read(mail, np.int64(DATA)), t) != 0:
                _swap(mail, np.int64(CLOSED), np.int64(1))
            _swap(mail, place, np.int64(CLAIMED))
            looks = 0
        elif state == ABSENT or (
            state == WAITING
            and (looks > stay or _read(attention, np.int64(0)) != 0)
            and _change(mail, place, np.int64(WAITING), np.int64(ABSENT))
        ):
            return
        looks += 1
        _wait(looks, size, stay)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _claim(mail, n_threads, absent):  # type: ignore[no-untyped-def]
    """Claim the helpers of a team, and open it; absent, bool (n_threads,), out, tells who must be woken."""
    for place in (ARRIVED, ROUND, CLOSED):
        _swap(mail, np.int64(place), np.int64(0))
    _swap(mail, np.int64(SIZE), np.int64(n_threads))
    for t in range(1, n_threads):
        absent[t] = _swap(mail, np.int64((HELPERS + t) * LINE), np.int64(CLAIMED)) == ABSENT


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _set_free(mail, n_threads, absent):  # type: ignore[no-untyped-def]
    """Let go of the helpers of a team; absent, bool (n_threads,), in, tells who was not woken."""
    for t in range(1, n_threads):
        _change(
            mail,
            np.int64((HELPERS + t) * LINE),
            np.int64(CLAIMED),
            np.int64(ABSENT) if absent[t] else np.int64(WAITING),
        )


TEAM_CPUS = 0
"""Largest team; 0: as many as there are CPUs, since threads that share one wait for each other too long."""

MANY_CPUS = 8
"""Of as many CPUs one is left to everything else: if the system takes one from a team, all of its threads wait."""


def largest_team(n_threads: int) -> int:
    """Return how many of so many threads may be a team. It reads files: ask once a training."""
    n_cpus = available_cpus()
    return min(n_threads, TEAM_CPUS or n_cpus - (n_cpus >= MANY_CPUS), MOST_THREADS)


WAKING_COST, THREAD_WORK = 20_000, 400_000
"""Nanoseconds to wake one more thread, and that a thread should have to do: on a busy machine, waiting costs more."""


def worthwhile(work: float, most: int, cost: float = 0.0) -> int:
    """Return how many threads should share some work, of at most so many.

    work, cost  nanoseconds of one thread, and that each thread costs besides its waking
    """
    return max(1, min(most, int(math.sqrt(work / (WAKING_COST + cost))), int(work / THREAD_WORK)))


_mail = np.zeros((HELPERS + MOST_THREADS) * LINE, np.int64)
_room = np.zeros(ROOM, np.int64)
_helpers = Workers("hornbeam-team")
_alone = threading.Lock()


def _forget() -> None:
    """Begin anew in a forked child, where there are no helpers."""
    global _alone
    _alone = threading.Lock()
    _mail[:] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Crew:
    """A team that is ready for jobs.

    size   number of threads
    given  what kernels take as crew: the size, the mail, and room for their arguments
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.given = size, _mail, _room

    def run(self, kernel: Callable[..., None], *given: Any) -> None:
        """Let all threads run a kernel, which begins with call_helpers."""
        if self.size == 1:
            kernel(0, self.given, *given)
            return
        failed = True
        try:
            kernel(0, self.given, *given)
            failed = False
        finally:
            whole = _join(_mail, self.size, failed)
        if not whole:
            raise MemoryError("a thread of the CPU backend found no memory for its part of the work")


@contextmanager
def team(n_threads: int) -> Iterator[Crew]:
    """Have a team of n_threads threads, this one included; of one where there is another team already.

    n_threads  1 or more, and no more than largest_team says
    """
    if n_threads == 1 or not _alone.acquire(blocking=False):
        yield Crew(1)
        return
    absent = np.zeros(n_threads, np.bool_)
    try:
        attention[0] = 0
        _claim(_mail, n_threads, absent)
        for t in np.flatnonzero(absent).tolist():
            _helpers.begin(_serve_as, t)
            absent[t] = False
        yield Crew(n_threads)
    finally:
        _set_free(_mail, n_threads, absent)
        _alone.release()


def _serve_as(t: int) -> None:
    _serve(_mail, attention, t)


def run_parts(kernel: Callable[..., None], n_parts: int, *given: Any) -> None:
    """Let a team of n_parts threads, or fewer, run a kernel that does the parts t, t + size of the team, ...

    n_parts  see team
    """
    with team(n_parts) as crew:
        crew.run(kernel, *given)
