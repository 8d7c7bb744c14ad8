"""Locks that a forked child finds open.

A child has the locks of its parent as they were, held ones too, and none of the threads that would release them. What
these locks guard is put in its place in one step when it is whole, so a child may begin it anew.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

_every: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A `threading.Lock` for `with`, which is open in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _every.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def open_in_child(self) -> None:
        """Forget who held the lock."""
        self._lock = threading.Lock()


def _open_all() -> None:
    for lock in list(_every):
        lock.open_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
