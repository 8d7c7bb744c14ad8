"""A hash of numbers: what samples, folds and random choices depend on instead of a random stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HASH_KEY = np.uint64(0x5851F42D4C957F2D)  # any constant; it is part of the contract, since bins depend on it
ALL_BITS = 2**64 - 1


def hash_rows(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of row numbers (splitmix64 of row + key); different rows have different hashes.

    rows  uint64 (n,)  in
    """
    z: NDArray[np.uint64] = (rows + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + HASH_KEY
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def hash_number(number: int) -> int:
    """Return `hash_rows` of one number: quick, where an array would hold one element."""
    z = ((number + 1) * 0x9E3779B97F4A7C15 + int(HASH_KEY)) & ALL_BITS
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & ALL_BITS
    z = (z ^ z >> 27) * 0x94D049BB133111EB & ALL_BITS
    return z ^ z >> 31


def number_of_hash(hashed: int) -> int:
    """Return the number whose `hash_number` is given: every step of the hash can be undone."""
    z = hashed ^ hashed >> 31 ^ hashed >> 62
    z = z * pow(0x94D049BB133111EB, -1, 2**64) & ALL_BITS
    z = z ^ z >> 27 ^ z >> 54
    z = z * pow(0xBF58476D1CE4E5B9, -1, 2**64) & ALL_BITS
    z = z ^ z >> 30 ^ z >> 60
    return ((z - int(HASH_KEY)) * pow(0x9E3779B97F4A7C15, -1, 2**64) - 1) & ALL_BITS
