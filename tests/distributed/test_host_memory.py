"""Workers of one host share memory: what operations return, how they fail, and what is left behind."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hornbeam.core.errors import CollectiveError, DataError
from hornbeam.distributed import Part, PartDataset, run_workers, train
from hornbeam.distributed.collective import Collective, lost
from hornbeam.distributed.host_memory import MOST_IDLE, SMALL_BYTES, SWITCH, HostCollective, join_hosts, this_host

pytestmark = pytest.mark.skipif(this_host() == "", reason="processes cannot share memory here")

HOSTS = ["aa", "aaa", "aab", "abab", "ab-a", "aabbb"]
"""The host of each worker, "-": it is switched off there."""


def on_hosts(hosts, work, timeout=60.0):
    """Run workers whose group is joined by host."""

    def joined(collective):
        name = hosts[collective.rank]
        group = join_hosts(collective, "" if name == "-" else name)
        try:
            return work(group)
        except BaseException as error:
            group.abort(f"{type(error).__name__}: {error}")
            raise
        finally:
            group.close()

    return run_workers(len(hosts), joined, timeout)


def descriptors():
    """Return the segments and sockets that this process has."""
    gc.collect()
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing
            found.append(str(path.readlink()))
    return sorted(each for each in found if each.startswith(("/memfd:hornbeam", "socket:")))


@pytest.mark.parametrize("hosts", HOSTS)
def test_messages_of_any_sizes_come_where_they_should(hosts):
    size = len(hosts)

    def message(number, sender, receiver):
        rng = np.random.default_rng([number, sender, receiver])
        largest = [10, SMALL_BYTES + 2, 40 * SMALL_BYTES][number % 3] if number < 30 else 100 * SMALL_BYTES
        return b"" if rng.random() < 0.3 else rng.bytes(rng.integers(1, largest))

    def work(group):
        assert isinstance(group, HostCollective)
        for number in range(40):
            sent = [message(number, group.rank, receiver) for receiver in range(size)]
            received = group.exchange(sent, f"letters {number}")
            assert [bytes(each) for each in received] == [message(number, i, group.rank) for i in range(size)]
        return True

    assert on_hosts(hosts, work) == [True] * size


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums_are_those_of_all_workers(hosts, dtype):
    size, sizes = len(hosts), [1, 7, 5000, 3, 100_000, 600]
    given = [np.random.default_rng(n).integers(-(2**20), 2**20, (size, n)).astype(dtype) for n in sizes]

    def work(group):
        for every in given:
            values = every[group.rank].copy()
            group.all_reduce(values, "sums")
            assert values.dtype == dtype and np.array_equal(values, every.sum(axis=0))
        return True

    assert all(on_hosts(hosts, work))


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("n_entries", [10, 4000])
def test_each_worker_gets_the_sums_of_its_section(hosts, n_entries):
    size = len(hosts)
    given = np.random.default_rng(n_entries).integers(0, 99, (size, 2, n_entries, 3))
    cuts = [
        0,
        0,
        *sorted(np.random.default_rng(1).integers(0, n_entries, size - 2).tolist()),
        n_entries,
    ]  # one is empty
    sections = [slice(*cuts[i : i + 2]) for i in range(size)]
    found = on_hosts(hosts, lambda group: group.reduce_scatter(given[group.rank], sections, "sums").copy())
    for part, section in zip(found, sections, strict=True):
        assert np.array_equal(part, given.sum(axis=0)[:, section])


def test_messages_that_are_written_into_the_room_lie_where_others_read_them():
    n = 5 * SMALL_BYTES

    def work(group):
        room = group.room(2 * n)
        for receiver in range(2):
            np.frombuffer(room, np.uint8)[receiver * n : (receiver + 1) * n] = 10 * group.rank + receiver
        received = group.exchange([room[:n], room[n:]], "rooms")
        values = [np.unique(np.frombuffer(each, np.uint8)).tolist() for each in received]
        other = np.frombuffer(received[1 - group.rank], np.uint8)
        group.all_gather(b"", "all have read")
        np.frombuffer(room, np.uint8)[:] = 99  # who does so too early is seen
        group.all_gather(b"", "all have written")
        return values, other[0]

    assert on_hosts("aa", work) == [([[0], [10]], 99), ([[1], [11]], 99)]


def test_a_message_beside_the_room_leaves_the_room_as_it_is():
    def work(group):
        for n in (2 * SMALL_BYTES, 50 * SMALL_BYTES, 3 * SMALL_BYTES):
            room = group.room(n)
            room[:] = bytes([group.rank + 1]) * n
            sent = [room if receiver % 2 else bytes([group.rank + 7]) * (n + 1) for receiver in range(3)]
            for sender, message in enumerate(group.exchange(sent, "both")):
                expected = bytes([sender + 1]) * n if group.rank % 2 else bytes([sender + 7]) * (n + 1)
                assert bytes(message) == expected
        return True

    assert all(on_hosts("aaa", work))


def test_a_large_segment_is_not_kept_for_long():
    def work(group):
        group.all_gather(bytes(1000 * SMALL_BYTES), "large")
        group.all_gather(bytes(1000 * SMALL_BYTES), "large")
        before = [len(each.memory) for each in group._segments]
        for _ in range(2 * MOST_IDLE + 4):
            group.all_gather(bytes(2 * SMALL_BYTES), "small")
        return min(before), max(len(each.memory) for each in group._segments)

    for before, after in on_hosts("aa", work):
        assert before >= 1000 * SMALL_BYTES and after < 10 * SMALL_BYTES


def test_traffic_is_that_of_the_group_without_shared_memory():
    def work(group):
        before = group.traffic.operations, group.traffic.bytes_sent
        group.all_gather(b"12345", "five bytes")
        group.all_reduce(np.zeros(10_000, np.int64), "zeros")
        return group.traffic.operations - before[0], group.traffic.bytes_sent - before[1]

    assert on_hosts("aab", work) == run_workers(3, work)


def test_workers_that_cannot_share_memory_keep_their_group(monkeypatch):
    assert not any(run_workers(3, lambda c: isinstance(join_hosts(c, "abc"[c.rank]), HostCollective)))
    assert all(run_workers(2, lambda c: isinstance(join_hosts(c), HostCollective)))
    monkeypatch.setenv(SWITCH, "0")
    assert not any(run_workers(2, lambda c: isinstance(join_hosts(c), HostCollective)))


def test_workers_of_one_name_that_cannot_meet_keep_their_group(monkeypatch):
    monkeypatch.setattr("hornbeam.distributed.host_memory.CONNECT_SECONDS", 0.2)
    monkeypatch.setattr("hornbeam.distributed.host_memory.Door._let_in", lambda *_: (_ for _ in ()).throw(OSError))
    assert not any(run_workers(3, lambda c: isinstance(join_hosts(c, "a"), HostCollective)))


@pytest.mark.parametrize("hosts", ["aaa", "aab"])
def test_the_error_of_a_worker_is_raised_and_the_others_stop_at_once(hosts):
    seen, joined = [], threading.Barrier(3)

    def work(group):
        joined.wait(30)
        if group.rank == 1:
            raise DataError("no such column")
        try:
            group.all_gather(b"", "greeting")
        except CollectiveError as error:
            seen.append(str(error))
            raise

    begun = time.monotonic()
    with pytest.raises(DataError, match="no such column"):
        on_hosts(hosts, work)
    assert time.monotonic() - begun < 30
    assert len(seen) == 2
    assert all("'greeting'" in text and "worker 1 failed: DataError: no such column" in text for text in seen)


def test_an_error_that_all_find_after_an_operation_is_everybodys():
    def work(group):
        for number in range(20):
            group.all_gather(b"", f"step {number}")
        raise DataError(f"found by {group.rank}")

    def caught(group):
        try:
            work(group)
        except DataError as error:
            group.abort(str(error))
            return str(error)

    for _ in range(5):
        assert on_hosts("aaaa", caught) == [f"found by {rank}" for rank in range(4)]


def test_a_wait_has_a_limit_and_names_worker_and_operation():
    gave_up = threading.Event()

    def work(group):
        if group.rank == 1:
            gave_up.wait(30)
            return
        try:
            group.all_gather(b"", "roll call")
        finally:
            gave_up.set()

    with pytest.raises(CollectiveError, match=r"worker 0 waited 0\.3 s in 'roll call' for worker 1, which"):
        on_hosts("aa", work, timeout=0.3)


@pytest.mark.parametrize("hosts", ["aa", "aab"])
def test_workers_that_lost_step_get_an_error_and_not_each_others_numbers(hosts):
    with pytest.raises(CollectiveError, match="at something else"):
        on_hosts(hosts, lambda group: group.all_gather(b"", "sums" if group.rank else "bounds"))


def test_nothing_is_left_behind():
    before = descriptors()
    on_hosts("aaa", lambda group: group.all_gather(bytes(10 * SMALL_BYTES), "large") and None)
    assert descriptors() == before


@pytest.mark.parametrize("hosts", ["aa", "aab"])
def test_model_is_that_of_one_worker(hosts):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 5))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0.0).astype(float)
    params = {"objective": "binary", "num_leaves": 15, "device": "reference", "verbosity": -1}

    def work(group):
        first, last = (len(X) * (group.rank + i) // group.size for i in (0, 1))
        part = Part.make(group.rank, X[first:last], label=y[first:last])
        return train(params, PartDataset(group, [part]), 3).fingerprint()

    assert set(on_hosts(hosts, work)) == set(run_workers(1, work))


class PipeCollective(Collective):
    """Processes that have a pipe to each other: the plainest transport."""

    def __init__(self, rank, pipes, timeout):
        super().__init__(rank, len(pipes), timeout)
        self._pipes = pipes

    def _exchange(self, messages, tag, what):
        received = [(tag, message) for message in messages]
        others = [rank for rank in range(self.size) if rank != self.rank]
        for rank in others:
            self._pipes[rank].send((tag, bytes(messages[rank])))
        for rank in others:
            if not self._pipes[rank].poll(self.timeout):
                raise lost(self.rank, [rank], what, self.timeout)
            received[rank] = self._pipes[rank].recv()
        return received

    def abort(self, reason):
        pass


def in_process(rank, pipes, victim, results):
    """Add up numbers with the others; the victim kills itself in the middle."""
    group = join_hosts(PipeCollective(rank, pipes, 60.0))
    try:
        for number in range(30):
            if number == 20 and rank == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            values = np.arange(1000 * number + 1) * (rank + 1)
            group.all_reduce(values, f"sums {number}")
            assert np.array_equal(values, np.arange(1000 * number + 1) * 6)
        results.send(type(group).__name__)
    except CollectiveError as error:
        results.send(str(error))


@pytest.mark.parametrize("victim", [-1, 1])
def test_processes_share_memory_and_notice_at_once_that_one_is_killed(processes, victim):
    ends = {(i, j): processes.Pipe() for i in range(3) for j in range(i)}
    pipes = [[None if i == j else ends[max(i, j), min(i, j)][i > j] for j in range(3)] for i in range(3)]
    answers = [processes.Pipe() for _ in range(3)]
    workers = [
        processes.Process(target=in_process, args=(rank, pipes[rank], victim, answers[rank][1])) for rank in range(3)
    ]
    for worker in workers:
        worker.start()
    living = [rank for rank in range(3) if rank != victim]
    begun = time.monotonic()
    assert all(answers[rank][0].poll(50.0) for rank in living)
    found = [answers[rank][0].recv() for rank in living]
    for worker in workers:
        worker.join(20.0)
    if victim < 0:
        assert found == ["HostCollective"] * 3
    else:
        for rank, text in zip(living, found, strict=True):
            assert text.startswith(f"worker {rank} stopped in 'sums 20")
            assert text.endswith("because worker 1 failed: its process has ended")
        assert time.monotonic() - begun < 50.0
    assert [worker.exitcode for worker in workers] == [-signal.SIGKILL if i == victim else 0 for i in range(3)]
