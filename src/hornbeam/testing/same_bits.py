"""Equality to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def assert_same_bits(found: NDArray[Any], expected: NDArray[Any], what: str) -> None:
    """Compare arrays bit for bit, field by field for records."""
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    if expected.dtype.names is not None:
        for name in expected.dtype.names:
            assert_same_bits(np.ascontiguousarray(found[name]), np.ascontiguousarray(expected[name]), f"{what}.{name}")
        return
    if expected.dtype.kind == "f":
        same = found.astype(np.float64).view(np.int64) == expected.astype(np.float64).view(np.int64)
    else:
        same = found == expected
    if not np.all(same):
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        raise AssertionError(f"{what}{list(place)} is {found[place]!r}, expected {expected[place]!r}")
