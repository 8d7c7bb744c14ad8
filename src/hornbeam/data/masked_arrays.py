"""Masked arrays of NumPy, told apart without importing their package: where nobody has, there is none."""

from __future__ import annotations

import sys
from typing import Any


def is_masked(values: Any) -> bool:
    """Say whether values are a masked array."""
    package = sys.modules.get("numpy.ma")
    return package is not None and isinstance(values, package.MaskedArray)
