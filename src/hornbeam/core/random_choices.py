"""Random choices without a random stream.

Every choice is a hash of what it is about, (seed, purpose, iteration, number of the row, feature, query or node), so it
is the same on every device, for any number of threads and in any order of evaluation, and no choice depends on how many
were made before:

    key  = random_key(seed, Purpose.BAGGING, iteration)     one a purpose and iteration, made on the host
    bits = random_bits(key, row)                            64 bits a row; different rows have different bits
    u    = uniform(key, row)                                the upper 53 of them as a number in [0, 1)

Twins: backends/cpu/losses/random_choices.py (Numba), backends/gpu/kernels/shared/random.h.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.hashing import hash_number, hash_rows, number_of_hash

UNIFORM_BITS = 53
"""Random bits of a number in [0, 1): those that float64 holds."""


class Purpose(IntEnum):
    """What a random number is for; purposes never share numbers."""

    BAGGING = 1
    GOSS = 2
    DROP = 3
    FEATURES_BY_TREE = 4
    FEATURES_BY_NODE = 5
    EXTRA_TREES = 6
    RANKING = 7
    FEATURES_BY_LEVEL = 8
    TARGET_FOLDS = 9
    FOLDS = 10
    PERMUTATION = 11
    PAIRS = 12


def random_key(seed: int, purpose: int, iteration: int, own_seed: int = 0) -> int:
    """Return the key of one purpose in one iteration, 64 bits.

    seed      the parameter `seed`
    own_seed  the purpose's own seed, such as `bagging_seed`; either one changes the key
    """
    key = 0
    for part in (seed, own_seed, purpose, iteration):
        key = hash_number(key ^ part)
    return key


def derived_key(key: int, number: int) -> int:
    """Return random_bits of one number as a key of its own."""
    return hash_number(hash_number(number) ^ key)


def random_bits(key: int, index: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return 64 random bits for each number; different numbers have different bits.

    index  integers (n,)  in  of rows, features, queries, or hashes of paths; >= 0

    Returns uint64 (n,).
    """
    return hash_rows(hash_rows(index.astype(np.uint64)) ^ np.uint64(key))


def key_for(bits: int, index: int) -> int:
    """Return the key under which a number has given bits: what makes a random choice the wanted one."""
    return number_of_hash(bits) ^ hash_number(index)


def uniform(key: int, index: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return a random number in [0, 1) for each number, float64 (n,)."""
    return (random_bits(key, index) >> np.uint64(64 - UNIFORM_BITS)).astype(np.float64) * 2.0**-UNIFORM_BITS


def chance_limit(fraction: float) -> int:
    """Return the limit with which `bits >> 11 < limit` says the same as `uniform < fraction`, in integers.

    fraction  0 to 1
    """
    return int(np.ceil(fraction * 2.0**UNIFORM_BITS))
