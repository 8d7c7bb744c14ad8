"""Ctrl-C at every line of what begins, calls and waits for threads: nothing is lost, and the next job is whole."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from hornbeam.backends.cpu.host import interrupts, team, threads
from hornbeam.backends.cpu.host.interrupts import uninterrupted
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.team import call_helpers, meet
from hornbeam.backends.cpu.host.threads import beside, run_threads

FILES = {Path(module.__file__).resolve().as_posix() for module in (interrupts, team, threads)}


@kernel
def write_down(t, crew, notes):
    """Meet, then write down how many are there."""
    call_helpers(t, crew, (notes,))
    if not meet(crew):
        return
    notes[t, 0] += crew.size


def meet_as(size: int) -> list[int]:
    """Let a team meet, and return what its threads have written down."""
    notes = np.zeros((size, 16), np.int64)
    with team.team(size) as some:
        some.run(write_down, notes)
    return notes[:, 0].tolist()


def interrupt_at(line: int, job: Callable[[], Any]) -> bool:
    """Do a job with a signal of Ctrl-C before the so-manieth line of FILES; False: it has no more lines."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        job()
    finally:
        sys.settrace(None)
    return seen >= line


def do_something_beside() -> None:
    """Let another thread do something, which must be done when this ends."""
    done: list[int] = []
    begun = False
    try:
        with beside(lambda: done.append(1)):
            begun = True
    finally:
        assert done or not begun


@pytest.mark.skipif(sys.gettrace() is not None, reason="lines are traced by something else")
@pytest.mark.parametrize("job", [lambda: meet_as(3), do_something_beside], ids=["team", "beside"])
def test_ctrl_c_at_every_line_leaves_whole_teams_and_handlers(job):
    before = signal.getsignal(signal.SIGINT)
    meet_as(3)
    line, n_raised = 1, 0
    while True:
        try:
            if not interrupt_at(line, job):
                break
        except KeyboardInterrupt:
            n_raised += 1
        assert signal.getsignal(signal.SIGINT) is before
        assert not team._alone.locked()
        assert meet_as(3) == [3, 3, 3], f"after an interrupt at line {line}"
        line += 1
    assert n_raised == line - 1 > 30  # none was swallowed


@pytest.mark.skipif(sys.gettrace() is not None, reason="lines are traced by something else")
def test_ctrl_c_at_every_line_of_run_threads_waits_for_those_that_were_begun():
    line, n_raised, before = 1, 0, signal.getsignal(signal.SIGINT)
    while True:
        begun, ended = [], []

        def task(t: int, begun: list[int] = begun, ended: list[int] = ended) -> None:
            begun.append(t)
            ended.append(t)

        try:
            if not interrupt_at(line, lambda task=task: run_threads(task, 3)):
                break
        except KeyboardInterrupt:
            n_raised += 1
        assert sorted(begun) == sorted(ended)
        assert sorted(set(begun) - {0}) in ([], [1, 2])
        assert signal.getsignal(signal.SIGINT) is before
        line += 1
    assert n_raised == line - 1 > 20


def test_signals_wait_until_the_end_and_are_heard_where_they_may_be():
    came = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with uninterrupted() as signals:
            signal.raise_signal(signal.SIGINT)
            assert came == []
            with signals.heard():
                assert came == [signal.SIGINT]
                signal.raise_signal(signal.SIGINT)
                assert len(came) == 2
            signal.raise_signal(signal.SIGINT)
            assert len(came) == 2
        assert len(came) == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_of_the_block_is_not_lost_when_a_signal_came():
    def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ValueError("of the block")

    with pytest.raises(KeyboardInterrupt) as raised, uninterrupted():
        fail()
    assert isinstance(raised.value.__context__, ValueError)


def test_other_threads_leave_handlers_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def look() -> None:
        with uninterrupted() as signals, signals.heard():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]
