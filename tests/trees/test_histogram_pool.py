"""Histogram slots: handed out once, given back, and taken from the least promising first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hornbeam.trees.histogram_pool import DEFAULT_BYTES, SMALLEST_POOL, HistogramPool, count_slots


@given(st.integers(2, 65_535), st.integers(1, 10**9), st.floats(-1.0, 1e6))
def test_number_of_slots_respects_limit_need_and_minimum(n_leaves, bytes_per_slot, limit_mb):
    n_slots = count_slots(n_leaves, bytes_per_slot, limit_mb)
    limit = limit_mb * 2**20 if limit_mb > 0 else DEFAULT_BYTES
    assert SMALLEST_POOL <= n_slots <= max(SMALLEST_POOL, 2 * n_leaves)
    assert n_slots == SMALLEST_POOL or n_slots * bytes_per_slot <= limit


def test_small_trees_get_all_they_can_use():
    assert count_slots(31, 16 * 7000, -1.0) == 62
    assert count_slots(31, 16 * 7000, 1e-9) == SMALLEST_POOL
    assert count_slots(31, 2**20, 10.0) == 10


def test_lowest_slots_come_first():
    pool = HistogramPool(4)
    assert [pool.take(node) for node in (10, 11, 12)] == [0, 1, 2]
    pool.release(11)
    pool.release(10)
    assert [pool.take(13), pool.take(14), pool.take(15)] == [0, 1, 3]


def test_slot_is_handed_down_to_the_child():
    pool = HistogramPool(2)
    pool.take(0)
    assert pool.hand_down(0, 1) == 0
    assert pool.slot_of == {1: 0}


def test_releasing_a_node_without_slot_does_nothing():
    pool = HistogramPool(2)
    pool.release(5)
    assert pool.free == [0, 1]


def test_nodes_below_the_bound_lose_their_slots():
    pool = HistogramPool(4)
    for node in range(4):
        pool.take(node)
    pool.release_below(2.0, np.array([3.0, 1.0, 2.0, -np.inf]))
    assert set(pool.slot_of) == {0, 2}


def test_room_is_made_from_the_lowest_priority_and_never_from_the_kept():
    pool = HistogramPool(4)
    for node in range(4):
        pool.take(node)
    priority = np.array([3.0, 1.0, 2.0, 0.5])
    pool.make_room(1, priority, keep={3})
    assert set(pool.slot_of) == {0, 2, 3}
    pool.make_room(4, priority, keep={3})
    assert set(pool.slot_of) == {3}


def test_room_that_is_there_costs_no_node_its_slot():
    pool = HistogramPool(3)
    pool.take(0)
    pool.make_room(2, np.array([0.0]), keep=set())
    assert set(pool.slot_of) == {0}


def test_taking_from_an_empty_pool_is_an_error():
    pool = HistogramPool(1)
    pool.take(0)
    with pytest.raises(IndexError):
        pool.take(1)


class PoolMachine(RuleBasedStateMachine):
    """Any sequence of operations keeps every slot in exactly one place."""

    def __init__(self):
        super().__init__()
        self.pool = HistogramPool(6)
        self.n_nodes = 0

    def new_node(self) -> int:
        self.n_nodes += 1
        return self.n_nodes - 1

    @precondition(lambda self: self.pool.free)
    @rule()
    def take(self):
        self.pool.take(self.new_node())

    @precondition(lambda self: self.pool.slot_of)
    @rule(data=st.data())
    def hand_down(self, data):
        self.pool.hand_down(data.draw(st.sampled_from(sorted(self.pool.slot_of))), self.new_node())

    @rule(node=st.integers(0, 20))
    def release(self, node):
        self.pool.release(node)

    @rule(n_slots=st.integers(0, 8), data=st.data())
    def make_room(self, n_slots, data):
        keep = set(data.draw(st.lists(st.integers(0, 20))))
        kept = {node for node in self.pool.slot_of if node in keep}
        self.pool.make_room(n_slots, np.arange(self.n_nodes + 1.0) % 5, keep)
        assert kept <= set(self.pool.slot_of)
        assert len(self.pool.free) >= n_slots or set(self.pool.slot_of) == kept

    @invariant()
    def every_slot_is_in_one_place(self):
        assert sorted([*self.pool.free, *self.pool.slot_of.values()]) == list(range(6))


TestPoolMachine = PoolMachine.TestCase
