"""Threads that go through one kernel together, and meet in it.

A kernel that is called by every thread of a team, each with its number, does its share and calls `meet` where it needs
what the others have done. To meet takes a microsecond or so, where handing work to Python's threads takes 20 for two of
them and 300 for sixteen (threads.py), since each needs the interpreter to wake.

Those who wait look again and again, and let other threads run every now and then. If a thread of the team had no chance
to run at all, the others would wait for ever: so there is one team at a time in a process.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from hornbeam.backends.cpu.threads import run_threads

ARRIVED, ROUND, CLOSED, GATE_SIZE = 0, 16, 17, 32
"""Places of a gate: how many have arrived, in a cache line of its own how often the team has met, and whether somebody
will not come any more."""

PATIENCE = 2_000
"""Looks before a waiting thread lets others run."""

_library = ctypes.WinDLL("kernel32") if sys.platform == "win32" else ctypes.CDLL(None)  # type: ignore[attr-defined,unused-ignore]
_yield = _library.SwitchToThread if sys.platform == "win32" else _library.sched_yield
llvmlite.binding.add_symbol("hornbeam_let_others_run", ctypes.cast(_yield, ctypes.c_void_p).value)
let_others_run = types.ExternalFunction("hornbeam_let_others_run", types.int32())

_alone = threading.Lock()


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, value=arguments[0])
    return cgutils.get_item_pointer(context, builder, kind, array, [arguments[1]], wraparound=False)


@intrinsic  # type: ignore[untyped-decorator]
def _read(typing_context, gate, place):  # type: ignore[no-untyped-def]
    """Return an entry; what was written before it was, is seen after this."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load_atomic(_pointer(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(types.Array(types.int64, 1, "C"), types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _add(typing_context, gate, place, value):  # type: ignore[no-untyped-def]
    """Add to an entry and return what it was; what was written before is seen by those who read it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(types.Array(types.int64, 1, "C"), types.int64, types.int64), generate


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def meet(gate, n_threads):  # type: ignore[no-untyped-def]
    """Wait until all threads of the team are here; what any has written before, all see after.

    gate  int64 (GATE_SIZE,)  in out  all zero at first

    Returns False if one of them has failed, and all should give up.
    """
    if n_threads == 1:
        return True
    turn = _read(gate, np.int64(ROUND))
    if _add(gate, np.int64(ARRIVED), np.int64(1)) == n_threads - 1:
        _add(gate, np.int64(ARRIVED), np.int64(-n_threads))
        _add(gate, np.int64(ROUND), np.int64(1))
    looks = 0
    while _read(gate, np.int64(ROUND)) == turn:
        if _read(gate, np.int64(CLOSED)) != 0:
            return False
        looks += 1
        if looks > PATIENCE:
            let_others_run()
    return True


Task = Callable[[int, int, NDArray[np.int64]], None]
"""What a thread does: with its number, the size of the team, and where it meets."""


def run_team(task: Task, n_threads: int, meanwhile: Callable[[], None] | None = None) -> None:
    """Run a task on n_threads threads, or as a team of one where there is a team already.

    meanwhile  something else to be done, on one thread more

    An error of any of them is raised here, after the others have given up.
    """
    if n_threads > 1 and _alone.acquire(blocking=False):
        try:
            _run(task, n_threads, meanwhile)
        finally:
            _alone.release()
    else:
        _run(task, 1, meanwhile)


def _run(task: Task, n_threads: int, meanwhile: Callable[[], None] | None) -> None:
    gate = np.zeros(GATE_SIZE, np.int64)

    def work(number: int) -> None:
        if number == n_threads:
            assert meanwhile is not None
            meanwhile()
            return
        try:
            task(number, n_threads, gate)
        except BaseException:
            gate[CLOSED] = 1
            raise

    run_threads(work, n_threads + (meanwhile is not None))
