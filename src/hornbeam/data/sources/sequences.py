"""Tables in parts: objects that hand out ranges of rows, and lists of arrays, one below the other."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.data.sources.wanted_columns import Loaded, Wanted


class Sequence(abc.ABC):
    """A table that is read in batches, as LightGBM's Sequence: HDF5 files and the like.

    A class of the user's own that has `__getitem__` and `__len__`. `Dataset` takes an object, or a list of them.

    Attributes
    ----------
    batch_size
        Rows that are asked for at a time.
    """

    batch_size = 4096

    @abc.abstractmethod
    def __getitem__(self, idx: int | slice | list[int]) -> Any:
        """Return a row, (n_features,), or for a slice or a list several, (n, n_features)."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""


def load_parts(data: Any, name: str, wanted: Wanted) -> Loaded | None:
    """Read sequences to their end, or put arrays of two dimensions below each other."""
    parts = list(data) if isinstance(data, (list, tuple)) else [data]
    if parts and all(_is_sequence(part) for part in parts):
        return Loaded(_stacked([block for part in parts for block in _batches(part, name)], name))
    if not isinstance(data, (list, tuple)) or not parts:
        return None
    if all(isinstance(part, np.ndarray) and part.ndim == 2 for part in parts):
        return Loaded(_stacked(parts, name))
    return None


def _is_sequence(data: Any) -> bool:
    """Say whether an object is a Sequence: ours, or one that was written for LightGBM."""
    kind = type(data)
    return isinstance(data, Sequence) or any(base.__qualname__ == "Sequence" and base.__module__ == "lightgbm.basic"
                                             for base in kind.__mro__)  # fmt: skip


def _batches(part: Any, name: str) -> list[Any]:
    size = part.batch_size
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        size = Sequence.batch_size
    blocks = [np.asarray(part[start : min(start + size, len(part))]) for start in range(0, len(part), int(size))]
    wrong = [block for block in blocks if block.ndim != 2]
    if wrong:
        raise DataError(
            f"{name} is a Sequence that returned {wrong[0].ndim} dimension(s) for a slice; return (n_rows, n_features)"
        )
    return blocks


def _stacked(blocks: list[Any], name: str) -> Any:
    widths = sorted({block.shape[1] for block in blocks})
    if len(widths) > 1:
        raise DataError(f"{name} has parts of {widths[0]} and of {widths[1]} columns; all must have the same")
    if not blocks:
        raise DataError(f"{name} has no rows; a Sequence of at least one is needed")
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
