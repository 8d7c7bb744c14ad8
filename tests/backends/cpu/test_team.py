"""Teams of threads: nobody goes on before all are there, one team at a time, and a failure ends the waiting."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from hornbeam.backends.cpu.host import team as module
from hornbeam.backends.cpu.host.atomics import A_MILLISECOND, sleep
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.team import call_helpers, meet, run_parts, team
from hornbeam.backends.cpu.host.threads import beside, run_threads
from hornbeam.backends.cpu.tuning import Tuning


@kernel
def pass_on(t, crew, notes, n_rounds):
    """Write the round's number, meet, and count what is not there of the others."""
    call_helpers(t, crew, (notes, n_rounds))
    missed = 0
    for turn in range(1, n_rounds + 1):
        notes[t, 0] = turn
        if not meet(crew):
            return
        for other in range(crew.size):
            missed += notes[other, 0] != turn
        if not meet(crew):
            return
    notes[t, 1] = missed


@kernel
def fail(t, crew, failing, gave_up):
    """Raise an error in one thread while the others wait for it."""
    call_helpers(t, crew, (failing, gave_up))
    if t == failing:
        raise MemoryError("no memory")
    gave_up[t] = not meet(crew)


@kernel
def count(t, crew, done, pair):
    call_helpers(t, crew, (done, pair))
    for part in range(t, len(done), crew.size):
        done[part] += pair[0][part] + pair[1]


def missed_by(n_threads: int, n_rounds: int = 300) -> list[int]:
    """Let a team meet, and return how often a thread has missed what another had written."""
    with team(n_threads) as crew:
        notes = np.full((crew.size, 8), -1, np.int64)
        crew.run(pass_on, notes, n_rounds)
    return notes[:, 1].tolist()


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_all_see_what_all_have_written(n_threads):
    assert missed_by(n_threads) == [0] * n_threads


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_thread_that_fails_is_not_waited_for(failing):
    gave_up = np.zeros(3, np.bool_)
    with pytest.raises(MemoryError, match="no memory"), team(3) as crew:
        crew.run(fail, failing, gave_up)
    assert gave_up.tolist() == [t != failing for t in range(3)]
    assert missed_by(3) == [0] * 3  # the next team is whole


def test_an_interrupt_before_the_job_leaves_a_team_that_works():
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt), team(3):
            raise KeyboardInterrupt
        assert missed_by(3, 5) == [0] * 3


@pytest.mark.parametrize("n_woken", [0, 1])
def test_an_interrupt_while_helpers_are_woken_leaves_a_team_that_works(monkeypatch, n_woken):
    run_threads(lambda t: None, 2)  # helpers leave
    while module._mail[(module.HELPERS + 1) * module.LINE :].any():
        pass
    begin, begun = module._helpers.begin, []

    def interrupted(task, number):
        if len(begun) == n_woken:
            raise KeyboardInterrupt
        begun.append(begin(task, number))

    with monkeypatch.context() as patch:
        patch.setattr(module._helpers, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt), team(4):
            pass
    assert len(begun) == n_woken
    assert missed_by(4, 5) == [0] * 4


def test_several_jobs_and_teams_of_many_sizes():
    rng = np.random.default_rng(3)
    for size in rng.integers(1, 6, 60).tolist():
        with team(size) as crew:
            for _ in range(int(rng.integers(0, 4))):
                notes = np.full((crew.size, 8), -1, np.int64)
                crew.run(pass_on, notes, 2)
                assert notes[:, 1].tolist() == [0] * size


def test_a_second_team_is_of_one_thread():
    with team(2) as crew:
        assert crew.size == 2
        sizes = []

        def another() -> None:
            with team(2) as other:
                sizes.append(other.size)
                notes = np.full((1, 8), -1, np.int64)
                other.run(pass_on, notes, 3)
                sizes.append(int(notes[0, 1]))

        thread = threading.Thread(target=another)
        thread.start()
        thread.join(60)
        assert sizes == [1, 0]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_part_is_done_once(n_threads):
    done = np.zeros(23, np.int64)
    run_parts(count, n_threads, done, (np.arange(23), 7))
    assert done.tolist() == list(range(7, 30))


def test_something_else_is_done_meanwhile():
    seen = []
    with beside(lambda: seen.append("else")), team(2) as crew:
        seen.append(crew.size)
    with beside(None):
        seen.append("alone")
    assert sorted(map(str, seen)) == ["2", "alone", "else"]
    with pytest.raises(ValueError, match="of the other"), beside(lambda: int("of the other")):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_team_of_its_own():
    with team(3):  # the lock is taken, and helpers are claimed
        pid = os.fork()
        if pid == 0:
            os._exit(0 if missed_by(3, 5) == [0] * 3 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert missed_by(3, 5) == [0] * 3


@pytest.mark.parametrize(("n_cpus", "n_threads", "size"), [(1, 4, 1), (2, 2, 2), (7, 9, 7), (8, 4, 4), (16, 16, 15)])
def test_a_team_is_no_larger_than_there_are_cpus(monkeypatch, n_cpus, n_threads, size):
    monkeypatch.setattr(module, "available_cpus", lambda: n_cpus)
    assert module.largest_team(n_threads, Tuning()) == size


@kernel
def come_late(t, crew, met):
    """Let the last thread sleep so long that the others fall asleep too."""
    call_helpers(t, crew, (met,))
    if t == crew.size - 1:
        sleep(np.uint32(200 * A_MILLISECOND))
    met[t] = meet(crew)


def test_who_waits_for_long_falls_asleep_and_comes_back():
    met = np.zeros(3, np.bool_)
    with team(3) as crew:
        crew.run(come_late, met)
    assert met.all()
