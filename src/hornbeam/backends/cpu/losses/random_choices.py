"""Numba twin of hornbeam/core/random_choices.py."""

from __future__ import annotations

import numpy as np

from hornbeam.backends.cpu.host.kernels import inlined
from hornbeam.core.hashing import HASH_KEY

_KEY = np.uint64(HASH_KEY)


@inlined
def hash_row(row):
    """Twin of hashing.hash_rows for one uint64."""
    z = (row + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + _KEY
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def random_bits(key, index):
    """Twin of sampling.random_bits for one uint64; the key is uint64 too."""
    return hash_row(hash_row(index) ^ key)


@inlined
def uniform(key, index):
    """Twin of sampling.uniform for one uint64."""
    return np.float64(random_bits(key, index) >> np.uint64(11)) * 2.0**-53
