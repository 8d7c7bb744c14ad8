"""Random numbers without a stream: the same everywhere, different for every purpose, evenly spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from hornbeam.backends.cpu.losses import random_choices as cpu
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.core.random_choices import Purpose, chance_limit, derived_key, random_bits, random_key, uniform
from hornbeam.testing.checks import usable_devices

INDEX = np.concatenate([np.arange(3000), 2**32 + np.arange(50), [2**63 - 1]])


@njit
def _numba_numbers(key, index, bits, unit):
    for i in range(len(index)):
        bits[i] = cpu.random_bits(key, index[i])
        unit[i] = cpu.uniform(key, index[i])


def test_numba_twin_gives_the_same_numbers():
    key = random_key(7, Purpose.BAGGING, 3)
    bits, unit = np.empty(len(INDEX), np.uint64), np.empty(len(INDEX))
    _numba_numbers(np.uint64(key), INDEX.astype(np.uint64), bits, unit)
    assert bits.tolist() == random_bits(key, INDEX).tolist()
    assert unit.tolist() == uniform(key, INDEX).tolist()


def test_keys_derived_from_a_key_are_its_random_bits():
    key = random_key(7, Purpose.FEATURES_BY_LEVEL, 3)
    index = [0, 1, 2**40, 2**64 - 1]
    assert [derived_key(key, number) for number in index] == random_bits(key, np.array(index, np.uint64)).tolist()


@pytest.mark.parametrize("name", [name for name in usable_devices() if ":" in name])
def test_kernel_twin_gives_the_same_numbers(name):
    from hornbeam.backends.gpu.workspace.tree_kernels import plain_variant

    runtime = open_runtime(name)
    n, first, key = 3000, 2**32 - 1000, random_key(0, Purpose.GOSS, 11)
    bits, unit = np.empty(n, np.uint64), np.empty(n)
    held = [runtime.allocate(array.nbytes) for array in (bits, unit)]
    kernel = runtime.kernel("random_kernel", plain_variant(runtime.facts, "random.cl"))
    runtime.launch(kernel, 3, np.uint64(key), np.uint64(first), np.uint32(n), *held)
    for buffer, array in zip(held, (bits, unit), strict=True):
        runtime.download(buffer, array)
        runtime.free(buffer)
    index = first + np.arange(n)
    assert bits.tolist() == random_bits(key, index).tolist()
    assert unit.tolist() == uniform(key, index).tolist()


def test_numbers_are_the_ones_they_have_always_been():
    assert random_key(0, Purpose.BAGGING, 0) == EXPECTED_KEY
    assert random_bits(EXPECTED_KEY, np.arange(2)).tolist() == EXPECTED_BITS


EXPECTED_KEY = 279628087076474026
EXPECTED_BITS = [3572814281572361379, 10909060002494987992]


def test_every_part_of_a_key_changes_it():
    parts = {"seed": 5, "purpose": Purpose.DROP, "iteration": 9, "own_seed": 2}
    keys = {random_key(**parts)} | {random_key(**{**parts, name: value + 1}) for name, value in parts.items()}
    swapped = {random_key(9, Purpose.DROP, 5, 2), random_key(2, Purpose.DROP, 9, 5)}
    assert len(keys | swapped) == 7


def test_numbers_are_evenly_spread_and_independent():
    index = np.arange(100_000)
    a, b = uniform(random_key(0, Purpose.BAGGING, 0), index), uniform(random_key(0, Purpose.BAGGING, 1), index)
    for u in (a, b):
        counts = np.bincount((u * 20).astype(int), minlength=20)
        assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)
    for left, right in ((a, b), (a[1:], a[:-1])):
        assert abs(np.corrcoef(left, right)[0, 1]) < 0.02


@given(st.floats(0.0, 1.0), st.integers(0, 2**63 - 1))
def test_limit_on_integers_is_the_comparison_of_numbers(fraction, seed):
    key = random_key(seed, Purpose.BAGGING, 0)
    index = np.arange(200)
    below = (random_bits(key, index) >> np.uint64(11)) < np.uint64(chance_limit(fraction))
    assert below.tolist() == (uniform(key, index) < fraction).tolist()
