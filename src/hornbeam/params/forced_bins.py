"""Bounds of bins that users set (`forcedbins_filename`), from LightGBM's JSON files."""

from __future__ import annotations

import json
import math
import os
from functools import cache
from pathlib import Path
from typing import Any

ALLOWED = (
    'a JSON file with [{"feature": 0, "bin_upper_bound": [0.3, 0.5]}, ...], or pairs of the number of a feature and '
    "its bounds"
)


def parse_forced_bins(value: Any) -> str | None:
    """Return the bounds of features as JSON, `[[0, [0.3, 0.5]]]`, ascending; ValueError says what is allowed.

    The file is read at once: the parameter holds what is in it, so that a model knows what its bins came from.
    """
    if value is None or value in ("", (), []):
        return None
    if isinstance(value, (str, os.PathLike)):
        try:
            is_text = isinstance(value, str) and value.lstrip().startswith("[")
            value = json.loads(value if is_text else Path(value).read_text())  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            raise ValueError(f"{ALLOWED}; it cannot be read ({error})") from None
    if not isinstance(value, (list, tuple)):
        raise ValueError(ALLOWED)
    found: dict[int, set[float]] = {}
    for entry in value:
        if isinstance(entry, dict):
            entry = entry.get("feature"), entry.get("bin_upper_bound")
        if not isinstance(entry, (list, tuple)) or len(entry) != 2 or not isinstance(entry[1], (list, tuple)):
            raise ValueError(ALLOWED)
        feature, bounds = entry
        if isinstance(feature, bool) or not isinstance(feature, int) or feature < 0:
            raise ValueError(ALLOWED)
        if not all(
            isinstance(one, (int, float)) and not isinstance(one, bool) and math.isfinite(one) for one in bounds
        ):
            raise ValueError(f"{ALLOWED}; bounds are finite numbers")
        found.setdefault(feature, set()).update(float(one) + 0.0 for one in bounds)
    return json.dumps([[feature, sorted(bounds)] for feature, bounds in sorted(found.items())]) if found else None


@cache
def forced_bounds(value: str | None) -> dict[int, tuple[float, ...]]:
    """Return the bounds by feature, from what `parse_forced_bins` returns."""
    return {feature: tuple(bounds) for feature, bounds in json.loads(value or "[]")}
