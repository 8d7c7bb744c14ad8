"""NumPy arrays of objects: columns of strings, which must be categorical features, beside columns of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.levels import CodedColumn, code_values
from hornbeam.data.sources.reader import TableReader

OBJECT_KINDS = "OU"
"""NumPy dtype kinds of such arrays: Python objects, and strings alone."""


class ObjectReader(TableReader):
    """Reads a table of objects: its numbers are copied as float64, its columns of strings are read as levels."""

    def __init__(self, objects: NDArray[Any], name: str) -> None:
        self._objects = objects
        self._numbers, with_strings = read_objects(objects, name)
        super().__init__(objects.shape, np.float64, name, levels=with_strings)

    @classmethod
    def open(cls, data: Any, name: str) -> ObjectReader | None:
        """Read a NumPy array of objects or strings."""
        return cls(data, name) if holds_objects(data) else None

    def _fill_values(self, start: int, stop: int, out: NDArray[Any]) -> None:
        out[...] = self._numbers[start:stop]

    def _sample_values(self, rows: NDArray[np.int64] | None, first: int, last: int) -> NDArray[Any]:
        part = self._numbers[:, first:last]
        return part if rows is None else part[rows]

    def _code_column(self, position: int) -> CodedColumn:
        return code_objects(self._objects[:, position], self.column_name(position))

    def _view(self, start: int, stop: int) -> NDArray[Any]:
        return self._numbers[start:stop]

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows, as an array of objects."""
        return self._objects[rows]


def holds_objects(data: Any) -> bool:
    """Say whether data is a table of objects. Lists are not: NumPy would turn their numbers into strings."""
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in OBJECT_KINDS and data.size > 0


def read_objects(objects: NDArray[Any], name: str) -> tuple[NDArray[np.float64], list[int]]:
    """Return the numbers of a table, float64 (n_rows, n_features) with NaN for None, and the columns of strings.

    Columns of strings are NaN. Numbers that are written as strings are strings.
    """
    numbers = np.full(objects.shape, np.nan)
    with_strings = []
    for position in range(objects.shape[1]):
        column = objects[:, position]
        if objects.dtype.kind == "U" or any(issubclass(kind, str) for kind in set(map(type, column.tolist()))):
            with_strings.append(position)
            continue
        try:
            numbers[:, position] = column.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{name} has dtype object, and column {position} cannot be read as numbers ({error}); columns of such "
                "arrays hold numbers, or strings where they are categorical features; None and NaN are missing (dates: "
                "convert with astype('datetime64[us]') to a table of its own, or pass a frame)"
            ) from None
    return numbers, with_strings


def code_objects(column: NDArray[Any], name: str) -> CodedColumn:
    """Code a column of strings, integers or booleans; None and NaN are missing.

    column  object or str (n_rows,)  in
    """
    place_of: dict[Any, int] = {}
    try:
        codes = [place_of.setdefault(value, len(place_of)) for value in column.tolist()]
    except TypeError as error:
        raise DataError(f"categorical feature {name!r} holds something that is no level ({error})") from None
    return code_values(list(place_of), np.array(codes, np.int64), name)
