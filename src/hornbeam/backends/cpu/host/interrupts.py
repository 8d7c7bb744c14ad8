"""Signals that wait: Ctrl-C must not land between two steps that belong together.

Python runs the handler of a signal between any two steps of the main thread, and that of Ctrl-C raises
KeyboardInterrupt there. Where helpers have been called, or threads begun, but nobody would wait for them, they would
write to memory that is gone. `uninterrupted` puts handlers off until its block is left:

    with uninterrupted() as signals:
        jobs = begin()
        try:
            with signals.heard():   # raises KeyboardInterrupt here, and nowhere else
                own_part()
        finally:
            wait_for(jobs)

Only handlers that are Python functions are put off; other threads than the main one never run any.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enums, which take 2 microseconds a handler
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
"""Those whose handlers are known to raise: Ctrl-C, and the time limits of test runners and task queues."""


class uninterrupted:  # noqa: N801 - reads as a statement
    """Put off what signals do until the block is left."""

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._came: dict[int, FrameType | None] = {}
        self._armed: list[int] = []

    def __enter__(self) -> uninterrupted:
        if threading.get_ident() != threading.main_thread().ident:
            return self
        for number in SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
        try:
            self._arm()
        except BaseException:
            self._disarm()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disarm()
        self._deliver()

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Let signals do what they do, within a block that may be left at any step."""
        try:
            self._disarm()
            self._deliver()
            yield
        finally:
            self._arm()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came[number] = frame

    def _arm(self) -> None:
        for number in self._handlers:
            if number not in self._armed:
                self._armed.append(number)
                _signal.signal(number, self._note)

    def _disarm(self) -> None:
        """Put the handlers back; one that raises meanwhile does not keep the others from it."""
        while self._armed:
            number = self._armed[-1]
            try:
                _signal.signal(number, self._handlers[number])
                self._armed.remove(number)
            except BaseException:
                self._disarm()
                raise

    def _deliver(self) -> None:
        """Do what the signals would have done that came meanwhile."""
        while self._came:
            number, frame = self._came.popitem()
            self._handlers[number](number, frame)
