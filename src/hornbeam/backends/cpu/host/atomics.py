"""What Numba has no words for: atomic words, rest, vectors, and jobs that call the kernel they come from.

Kernels call these names; instructions.py has what the compiler makes of them. Everything else about teams is written in
Numba, in team.py. docs/dev/threads.md says what it is all for.
"""

from __future__ import annotations

import sys
from typing import Any

from hornbeam.backends.cpu.host.kernels import instruction

ROOM = 1024
"""Words for a kernel's arguments."""

A_MICROSECOND, A_MILLISECOND = (0, 1) if sys.platform == "win32" else (1, 1000)
"""What to hand to sleep; Windows gives up the CPU for 0."""

_WHERE = "this runs in compiled kernels alone"


@instruction
def read(words: Any, place: int) -> Any:
    """Return a word; words: int64 (n,)."""
    raise NotImplementedError(_WHERE)


@instruction
def add(words: Any, place: int, value: int) -> Any:
    """Add to a word and return what it was."""
    raise NotImplementedError(_WHERE)


@instruction
def swap(words: Any, place: int, value: int) -> Any:
    """Write a word and return what it was."""
    raise NotImplementedError(_WHERE)


@instruction
def change(words: Any, place: int, old: int, new: int) -> Any:
    """Write a word if it is `old`, and say whether it was."""
    raise NotImplementedError(_WHERE)


@instruction
def words_at(address: int, n: int) -> Any:
    """Return n words of memory, int64 (n,), which somebody else keeps."""
    raise NotImplementedError(_WHERE)


@instruction
def pause() -> None:
    """Rest for some cycles."""
    raise NotImplementedError(_WHERE)


@instruction
def fetch_ahead(table: Any, row: Any) -> None:
    """Let the machine fetch the first cache line of a row, uint64, of a table, (n_rows, n), that is read soon."""


@instruction
def add_four(sums: Any, to: Any, values: Any, of: Any) -> None:
    """Add values[of : of + 4] to sums[to : to + 4] in one go; int32 (n,) each, places uint64."""
    raise NotImplementedError(_WHERE)


@instruction
def add_eight(sums: Any, to: Any, values: Any, of: Any) -> None:
    """Add eight numbers in one go: see add_four."""
    raise NotImplementedError(_WHERE)


@instruction
def add_sixteen(sums: Any, to: Any, values: Any, of: Any) -> None:
    """Add sixteen numbers in one go: see add_four."""
    raise NotImplementedError(_WHERE)


@instruction
def let_others_run() -> Any:
    """Give up the CPU for now."""
    raise NotImplementedError(_WHERE)


@instruction
def sleep(time: Any) -> Any:
    """Rest for so many times A_MICROSECOND, uint32."""
    raise NotImplementedError(_WHERE)


@instruction
def own_job(crew: Any, arguments: Any) -> Any:
    """Return the addresses of a function(data, t) that calls the kernel in which this stands for thread t, and of data.

    crew, arguments  what the kernel takes after t: a team.Crew, whose room the data go to, and a tuple of all else
    """
    raise NotImplementedError(_WHERE)


@instruction
def own_operation(room: Any, arguments: Any) -> None:
    """Write the addresses of a function(data, t) that calls the kernel in which this stands, and of data, into a room.

    room, arguments  what the kernel takes after t: int64 (ROOM,), where the data go to, and a tuple of all else
    """
    raise NotImplementedError(_WHERE)


@instruction
def call_job(function: int, data: int, t: int) -> Any:
    """Do the share of thread t of a job; returns 0, or 1 if that failed."""
    raise NotImplementedError(_WHERE)
