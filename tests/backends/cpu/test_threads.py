"""Threads: no more than asked for, and anew in a forked child."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading

import pytest

from hornbeam.backends.cpu.host.threads import run_ranges, run_threads


def test_training_uses_no_more_threads_than_asked_for():
    code = (
        "import collections, threading, numpy as np, hornbeam as hb\n"
        "X = np.random.default_rng(0).normal(size=(60_000, 4))\n"
        "for n in (1, 3):\n"
        "    model = hb.train({'num_threads': n, 'verbosity': -1}, hb.Dataset(X, label=X[:, 0]), 2)\n"
        "    model.predict(X)\n"
        "    of = collections.Counter(thread.name.rsplit('-', 1)[0] for thread in threading.enumerate())\n"
        "    print(of['hornbeam'], of['hornbeam-team'])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    alone, three = (tuple(map(int, line.split())) for line in run.stdout.splitlines())
    assert alone == (0, 0)
    assert 0 < max(three) <= 2  # beside the caller's; those who hand over work and a team are never busy together


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
def test_every_task_runs_once_and_the_first_on_the_calling_thread(n_threads):
    seen = []
    run_threads(lambda number: seen.append((number, threading.get_ident())), n_threads)
    assert sorted(number for number, _ in seen) == list(range(n_threads))
    assert dict(seen)[0] == threading.get_ident()


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_items", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("smallest", [1, 3, 1000])
def test_ranges_cover_every_item_once(n_threads, n_items, smallest):
    seen = []
    run_ranges(lambda start, stop: seen.append((start, stop)), n_items, n_threads, smallest)
    items = sorted(item for start, stop in seen for item in range(start, stop))
    assert items == list(range(n_items))
    assert len(seen) <= max(1, n_items // smallest)
    assert len(seen) <= n_threads


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_error_of_a_task_reaches_the_caller_after_all_are_done(failing):
    done = []

    def task(number):
        if number == failing:
            raise RuntimeError(f"task {number}")
        done.append(number)

    with pytest.raises(RuntimeError, match=f"task {failing}"):
        run_threads(task, 3)
    assert sorted(done) == [number for number in range(3) if number != failing]
    run_threads(done.append, 3)  # and the threads are still there


def test_callers_on_several_threads_share_the_workers():
    totals = []

    def caller():
        seen = []
        for _ in range(200):
            run_threads(seen.append, 3)
        totals.append(len(seen))

    callers = [threading.Thread(target=caller) for _ in range(4)]
    for one in callers:
        one.start()
    for one in callers:
        one.join(60)
    assert totals == [600] * 4


def run_in_child(n_threads: int) -> list[int]:
    seen: list[int] = []
    run_threads(seen.append, n_threads)
    return sorted(seen)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_gets_threads_of_its_own():
    run_threads(lambda number: None, 3)  # the parent's threads, which the child has not got
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(run_in_child, [3, 2, 4]).get(timeout=60) == [[0, 1, 2], [0, 1], [0, 1, 2, 3]]
