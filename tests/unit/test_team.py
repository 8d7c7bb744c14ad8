"""Teams of threads: nobody goes on before all are there, one team at a time, and a failure ends the waiting."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numba import njit

from hornbeam.backends.cpu.team import meet, run_team


@njit(nogil=True)
def pass_on(number, n_threads, gate, notes, n_rounds):
    """Write the round's number, meet, and count what is not there of the others."""
    missed = 0
    for turn in range(1, n_rounds + 1):
        notes[number, 0] = turn
        if not meet(gate, n_threads):
            return -1
        for other in range(n_threads):
            missed += notes[other, 0] != turn
        if not meet(gate, n_threads):
            return -1
    return missed


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_all_see_what_all_have_written(n_threads):
    notes, missed = np.zeros((n_threads, 8), np.int64), {}

    def task(number, size, gate):
        assert size == n_threads
        missed[number] = pass_on(number, size, gate, notes, 300)

    run_team(task, n_threads)
    assert missed == dict.fromkeys(range(n_threads), 0)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_thread_that_fails_is_not_waited_for(failing):
    notes, missed = np.zeros((3, 8), np.int64), {}

    def task(number, size, gate):
        if number == failing:
            raise KeyboardInterrupt
        missed[number] = pass_on(number, size, gate, notes, 5)

    with pytest.raises(KeyboardInterrupt):
        run_team(task, 3)
    assert missed == dict.fromkeys({0, 1, 2} - {failing}, -1)
    run_team(lambda number, size, gate: missed.update({number: size}), 2)
    assert missed[0] == missed[1] == 2  # the next one is whole


def test_a_second_team_is_of_one_thread():
    sizes, inside, done = [], threading.Event(), threading.Event()

    def first(number, size, gate):
        sizes.append(size)
        if number == 0:
            inside.set()
            assert done.wait(60)

    other = threading.Thread(target=run_team, args=(first, 2))
    other.start()
    assert inside.wait(60)
    run_team(lambda number, size, gate: sizes.append(size), 2)
    done.set()
    other.join()
    assert sorted(sizes) == [1, 2, 2]


def test_something_else_is_done_meanwhile():
    for n_threads in (1, 3):
        seen = []
        run_team(
            lambda number, size, gate, seen=seen: seen.append(number), n_threads, lambda seen=seen: seen.append("else")
        )
        assert sorted(map(str, seen)) == [*map(str, range(n_threads)), "else"]
