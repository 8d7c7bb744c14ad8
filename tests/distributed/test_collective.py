"""Collectives of threads: what operations return, and how they fail."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hornbeam.core.errors import CollectiveError, DataError
from hornbeam.distributed import run_workers
from hornbeam.distributed.selection import from_order_bits, order_bits, select


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_worker_gets_the_message_that_each_has_for_it(size):
    received = run_workers(size, lambda c: c.exchange([f"{c.rank}>{i}".encode() for i in range(size)], "letters"))
    for rank, messages in enumerate(received):
        assert messages == [f"{sender}>{rank}".encode() for sender in range(size)]


@pytest.mark.parametrize("n_values", [1, 7, 5000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums_are_those_of_all_workers(n_values, dtype):
    rng = np.random.default_rng(n_values)
    given = rng.integers(-(2**20), 2**20, (3, n_values)).astype(dtype)

    def work(collective):
        values = given[collective.rank].copy()
        collective.all_reduce(values, "sums")
        return values

    for found in run_workers(3, work):
        assert found.dtype == dtype
        assert np.array_equal(found, given.sum(axis=0))


def test_each_worker_gets_the_sums_of_its_section():
    given = np.random.default_rng(0).integers(0, 99, (3, 2, 10, 3))
    sections = [slice(0, 4), slice(4, 4), slice(4, 10)]
    found = run_workers(3, lambda c: c.reduce_scatter(given[c.rank], sections, "sums"))
    for part, section in zip(found, sections, strict=True):
        assert np.array_equal(part, given.sum(axis=0)[:, section])


def test_sums_and_the_largest_floats_come_in_one_operation():
    sums, floats = [[1, -(2**62), 3], [4, 2**61, -6]], [[[0.0, 5e-324], [1.5, 2.0]], [[1e300, 0.0], [1.5, 3.0]]]

    def work(collective):
        found = collective.sums_and_largest(sums[collective.rank], floats[collective.rank], "figures")
        return found, collective.traffic.operations

    expected = [5, -(2**62) + 2**61, -3], [[1e300, 5e-324], [1.5, 3.0]]
    assert run_workers(2, work) == [(expected, 1)] * 2


def test_everyone_gets_what_one_worker_says():
    assert run_workers(3, lambda c: c.broadcast(b"from %d" % c.rank, 1, "word")) == [b"from 1"] * 3


def test_traffic_counts_operations_and_bytes_that_leave_a_worker():
    def work(collective):
        collective.all_gather(b"12345", "five bytes")
        return collective.traffic

    for traffic in run_workers(3, work):
        assert (traffic.operations, traffic.bytes_sent) == (1, 10)


def test_the_error_of_a_worker_is_raised_and_the_others_stop_at_once():
    seen = []

    def work(collective):
        if collective.rank == 1:
            raise DataError("no such column")
        try:
            collective.all_gather(b"", "greeting")
        except CollectiveError as error:
            seen.append(str(error))
            raise

    begun = time.monotonic()
    with pytest.raises(DataError, match="no such column"):
        run_workers(3, work, timeout=60)
    assert time.monotonic() - begun < 30
    assert len(seen) == 2
    for text in seen:
        assert "'greeting'" in text and "worker 1 failed: DataError: no such column" in text


def test_a_wait_has_a_limit_and_names_worker_and_operation():
    with pytest.raises(CollectiveError, match=r"worker 0 waited 0\.2 s in 'roll call' for worker 1, which"):
        run_workers(2, lambda c: c.all_gather(b"", "roll call") if c.rank == 0 else None, timeout=0.2)


def test_workers_that_lost_step_get_an_error_and_not_each_others_numbers():
    with pytest.raises(CollectiveError, match="at something else"):
        run_workers(2, lambda c: c.all_gather(b"", "sums" if c.rank else "bounds"))


def test_order_bits_have_the_order_of_the_values():
    values = np.array([-np.inf, -1e300, -1.5, -1e-320, -0.0, 0.0, 1e-320, 1.0, 1e300, np.inf])
    bits = order_bits(values)
    assert np.all(np.diff(bits.astype(object)) >= 0)
    assert bits[4] == bits[5]
    assert np.array_equal(from_order_bits(bits), values)


@pytest.mark.parametrize("weighted", [False, True])
def test_selected_values_are_those_of_a_sort(weighted):
    rng = np.random.default_rng(5)
    values, group = np.round(rng.normal(size=400), 1), rng.integers(0, 4, 400)
    weight = rng.integers(0, 5, 400) if weighted else np.ones(400, np.int64)
    least = np.array([0.0, 10.0, 25.5, 1e9])

    def work(collective, strictly):
        mine = slice(collective.rank, None, 3)
        given = weight[mine] if weighted else None
        return select(collective, values[mine], given, group[mine], least, strictly)

    for strictly in (False, True):
        expected = []
        for number in range(3):
            order = np.argsort(values[group == number], kind="stable")
            running = np.cumsum(weight[group == number][order])
            place = np.searchsorted(running, least[number], "right" if strictly else "left")
            expected.append(values[group == number][order][place])
        for found in run_workers(3, lambda c, strictly=strictly: work(c, strictly)):
            assert found[:3].tolist() == expected
            assert not strictly or found[3] == values[group == 3].max()
