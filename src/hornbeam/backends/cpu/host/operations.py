"""Operations: kernels that other kernels call by their address, so that each is compiled by itself.

A kernel that calls others is compiled with them, once for each kind of data that any of them takes. What differs by the
kind of data is therefore an operation: its caller knows two words of it, and what it works on is said in memory.

    @kernel
    def example(t, room, calls, array):
        if introduced(t, room, (calls, array)):
            return
        call = calls[t]
        ...                                     # the work: takes from call, leaves results there

    operation = Operation(example)
    caller_kernel(..., operation.on(calls, array))

    @kernel
    def caller_kernel(..., example):
        ...
        run(example, t)

`on` runs the kernel once, as thread -1: it leaves its address and its arguments in `room`. A room is what callers take.
"""

from __future__ import annotations

from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.atomics import ROOM, call_job, own_operation
from hornbeam.backends.cpu.host.kernels import Kernel, inlined, inner_kernel

FUNCTION, DATA = 0, 1
"""Words of a room: the addresses of a function, and of what it takes besides the number of a thread."""

NO_OPERATION = np.zeros(0, np.int64)
"""In the place of an operation that is not there."""


@inlined
def introduced(t, room, arguments):
    """Say whether the kernel in which this stands was called to be introduced: then there is no more to do.

    t, room, arguments  what the kernel takes: the number of a thread, its room, and all else in a tuple
    """
    if t < 0:
        own_operation(room, arguments)
    return t < 0


@inner_kernel
def run(operation, t):
    """Run an operation as thread t; operation: int64 (ROOM,), a room."""
    if call_job(operation[FUNCTION], operation[DATA], t) != 0:
        raise MemoryError


def same(arguments: Any, others: Any) -> bool:
    """Say whether arguments are the same arrays and numbers as others."""
    if arguments is others:
        return True
    if isinstance(arguments, tuple):
        is_alike = type(arguments) is type(others) and len(arguments) == len(others)
        return is_alike and (all(map(is_, arguments, others)) or all(map(same, arguments, others)))
    return not isinstance(arguments, np.ndarray) and type(arguments) is type(others) and bool(arguments == others)


class Operation:
    """A kernel, and the arguments that it was last introduced with; they are kept alive here.

    room  int64 (ROOM,): what callers take
    """

    def __init__(self, kernel: Kernel, room: NDArray[np.int64] | None = None) -> None:
        self._kernel = kernel
        self.room = np.zeros(ROOM, np.int64) if room is None else room
        self._arguments: tuple[Any, ...] | None = None

    def on(self, *arguments: Any) -> NDArray[np.int64]:
        """Return the room of the operation on these arguments."""
        if self._arguments is None or not same(arguments, self._arguments):
            self._arguments = None
            self._kernel(-1, self.room, *arguments)
            self._arguments = arguments
        return self.room
