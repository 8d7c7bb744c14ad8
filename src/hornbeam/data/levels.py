"""Levels of categorical features: what a table holds becomes codes, by value, whatever holds it.

A categorical feature has *levels*: strings, integers or booleans. A model keeps its levels as a list, and the code of a
level is its place there:

    levels    "red"  "blue"  "green"          None, NaN, any other value
    code      0      1       2                missing (NaN)

Training orders levels by their number of rows, most first, and equals by value, so the codes depend on the data alone:
pandas, polars, Arrow and NumPy give the same ones. Rare levels are left out (`choose_levels`), which makes them what
levels unseen in training are: missing. Negative integers are missing too.

A model that comes from another library may tell missing values from unseen levels. Its levels have None in one place,
and missing values have the code of that place; unseen levels and negative integers have none, as ever.

Of numbers that are no integers, in a column that is named as categorical, training takes the whole part, as LightGBM
does, and says so. The levels remember it (`Levels.is_cut`), and cut what is predicted, too. Other models take such
numbers as unseen levels.

Features of very many levels are read as numbers instead of codes (target_encoding.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import MAX_LEVELS
from hornbeam.core.errors import DataError
from hornbeam.core.lazy import lazy
from hornbeam.core.log import warn

if TYPE_CHECKING:
    import narwhals as nw

Level = str | int | bool | None

Others = Literal["refused", "missing", "cut", "cut or missing"]
"""What becomes of numbers that are no integers: an error, unseen levels, or their whole part. Infinities, which have
none, are an error where others are cut, or unseen levels."""

MISSING, NEGATIVE = -1, -2
"""Codes of a column's missing values, and of its negative integers, which most levels read as missing."""

COVERAGE = 99
"""Per cent of the rows that levels beyond the first max_bin - 1 must still cover to be kept."""

MIN_LEVELS = 2
"""So many levels are kept however rare they are."""

LARGEST_INTEGER = 2**63 - 1

_KINDS = {str: "strings", int: "integers", bool: "booleans"}


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as places in a list of its distinct values.

    values   distinct values, all str, all int or all bool, in no particular order; may hold values of no row
    codes    int32 (n_rows,), MISSING or NEGATIVE where there is no value
    is_cut   whether the column holds numbers that are no integers, of which these are the whole parts
    """

    values: list[Any]
    codes: NDArray[np.int32]
    is_cut: bool = field(default=False, kw_only=True)

    @property
    def kind(self) -> type | None:
        """The type of the values; None if there is none."""
        return type(self.values[0]) if self.values else None

    def counts(self) -> NDArray[np.int64]:
        """Return how many rows have each value, int64 (n_values,)."""
        return np.bincount(np.maximum(self.codes, MISSING) + 1, minlength=len(self.values) + 1)[1:].astype(np.int64)

    def row_codes(self) -> NDArray[np.int32]:
        """Return the code of every row, int32 (n_rows,)."""
        return self.codes


class CountedColumn(CodedColumn):
    """A column of which the numbers of rows are known, and not the rows."""

    def __init__(self, values: list[Any], counts: NDArray[np.int64], is_cut: bool = False) -> None:
        super().__init__(values, np.empty(0, np.int32), is_cut=is_cut)
        object.__setattr__(self, "_counts", counts)

    def counts(self) -> NDArray[np.int64]:
        """Return how many rows have each value, int64 (n_values,)."""
        found: NDArray[np.int64] = self._counts  # type: ignore[attr-defined]
        return found


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of one feature of a model, in the order of their codes; None stands for missing values.

    is_cut  whether numbers are cut to their whole parts before they are looked for, as in the training data
    """

    values: tuple[Level, ...]
    is_cut: bool = field(default=False, kw_only=True)

    def __len__(self) -> int:
        return len(self.values)

    @lazy
    def code_of(self) -> dict[Level, int]:
        """The code of each level."""
        return {value: code for code, value in enumerate(self.values)}

    @property
    def is_coded(self) -> bool:
        """Whether the feature is read as codes, which are bins, and not as numbers."""
        return True

    @property
    def example(self) -> Level:
        """One of the levels; None if there is none but that of missing values."""
        return next((value for value in self.values if value is not None), None)

    def encode(self, column: CodedColumn, name: str) -> NDArray[Any]:
        """Return the code of every row, int32 (n_rows,); -1 for unknown levels, and for missing ones without a code."""
        codes: NDArray[np.int32] = self.codes_of_values(column, name)[column.codes]
        return codes

    def agrees(self, other: Levels) -> bool:
        """Say whether both read every table of integers, or of strings, alike."""
        return other.is_coded and self.values == other.values

    def codes_of_values(self, column: CodedColumn, name: str) -> NDArray[np.int32]:
        """Return the code of each of a column's distinct values, int32 (n_values + 2,); -1: none.

        The last two are those of NEGATIVE and of MISSING.
        """
        one = self.example
        if one is not None and column.kind is not None and isinstance(one, str) != (column.kind is str):
            raise DataError(
                f"categorical feature {name!r} holds {_KINDS[column.kind]}, but its levels in training are "
                f"{_KINDS[type(one)]}, such as {one!r}; pass the values as in training"
            )
        table = np.full(len(column.values) + 2, -1, np.int32)
        code_of = self.code_of
        table[MISSING] = code_of.get(None, -1)
        for place, value in enumerate(column.values):
            table[place] = code_of.get(value, -1)
        return table


def count_levels(column: CodedColumn) -> int:
    """Return the number of different values that rows have."""
    return int(np.count_nonzero(column.counts()))


def levels_by_rows(column: CodedColumn) -> tuple[list[int], NDArray[np.int64]]:
    """Return the places of the values that rows have, most frequent first, equals by value, and their numbers of rows.

    Returns places, and int64 (n,).
    """
    counts = column.counts()
    present = np.flatnonzero(counts).tolist()
    order = sorted(present, key=lambda place: (-counts[place], column.values[place]))
    return order, counts[order]


def choose_levels(column: CodedColumn, max_bin: int, min_data_in_bin: int) -> Levels:
    """Choose the levels of a feature that get a code.

    Levels come most frequent first, equals by value. The first max_bin - 1 are kept, and as many more as it takes to
    cover 99 % of the rows that are not missing; but none of fewer than min_data_in_bin rows, the first two excepted,
    and at most MAX_LEVELS.
    """
    order, sizes = levels_by_rows(column)
    covered = np.cumsum(sizes) - sizes  # by the levels before
    total = int(sizes.sum())
    wanted = (np.arange(len(order)) < max(max_bin - 1, MIN_LEVELS)) | (100 * covered < COVERAGE * total)
    wanted &= (sizes >= min_data_in_bin) | (np.arange(len(order)) < MIN_LEVELS)
    n_kept = min(int(np.count_nonzero(wanted)), MAX_LEVELS)  # wanted is a run of True, then False
    return Levels(tuple(column.values[place] for place in order[:n_kept]), is_cut=column.is_cut)


def extended_levels(
    model: list[Levels | None] | None, data: list[Levels | None] | None, names: Sequence[str]
) -> list[Levels | None] | None:
    """Return the levels of a model that is trained on with data: its own, then those that only the data have.

    A feature must be categorical in both or in neither.
    """
    if model is None and data is None:
        return None
    pairs = zip(model or [None] * len(names), data or [None] * len(names), names, strict=True)
    merged: list[Levels | None] = []
    for old, new, name in pairs:
        if (old is None) != (new is None):
            raise DataError(
                f"feature {name!r} is {'not ' * (old is None)}categorical in init_model and "
                f"{'not ' * (new is None)}so in train_set; make it the same in both (categorical_features)"
            )
        if old is None or new is None:
            merged.append(None)
            continue
        is_cut = old.is_cut or new.is_cut
        if not (old.is_coded and new.is_coded):
            if not old.agrees(new):
                raise DataError(
                    f"categorical feature {name!r} is binned with another target encoding than that of init_model, "
                    "which has to be kept; pass a Dataset that is not binned yet"
                )
            merged.append(replace(old, is_cut=is_cut))
            continue
        kinds = {isinstance(own.example, str) for own in (old, new) if own.example is not None}
        if len(kinds) > 1:
            raise DataError(
                f"categorical feature {name!r} has levels such as {old.example!r} in init_model and "
                f"{new.example!r} in train_set; pass the values as the model was trained on them"
            )
        more = tuple(value for value in new.values if value not in old.code_of)
        merged.append(Levels(old.values + more, is_cut=is_cut) if more or is_cut != old.is_cut else old)
    return merged


def level_codes(model: list[Levels | None] | None, data: list[Levels | None] | None) -> dict[int, NDArray[np.int32]]:
    """Return for each categorical feature whose levels are others in the model the code there of every level.

    The model has all levels of the data, see `extended_levels`.
    """
    codes = {}
    for feature, (own, new) in enumerate(zip(model or [], data or [], strict=True)):
        if own is not None and new is not None and own.is_coded and own.values[: len(new)] != new.values:
            codes[feature] = np.array([own.code_of[value] for value in new.values], np.int32)
    return codes


def code_values(values: Sequence[Any], codes: NDArray[Any], name: str) -> CodedColumn:
    """Bring distinct values, and places of the rows in them, into the form of CodedColumn.

    codes  any integer (n_rows,)  in   negative: missing
    """
    table = np.full(len(values) + 1, MISSING, np.int32)
    code_of: dict[Any, int] = {}
    for place, value in enumerate(values):
        level = _level(value, name)
        if type(level) is int and level < 0:
            table[place] = NEGATIVE
        elif level is not None:
            table[place] = code_of.setdefault(level, len(code_of))
    levels = list(code_of)
    kinds = sorted({_KINDS[type(level)] for level in levels})
    if len(kinds) > 1:
        raise DataError(
            f"categorical feature {name!r} mixes {' and '.join(kinds)}; make all levels one kind, such as strings"
        )
    return CodedColumn(levels, table[np.maximum(np.asarray(codes, np.int64), -1)])


def _level(value: Any, name: str) -> Level:
    """Return a value as a level, or a negative integer; None: missing."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        if value != value:
            return None
        if not float(value).is_integer():
            raise _no_integer(value, name)
        value = int(value)
    if isinstance(value, (int, np.integer)):
        number = int(value)
        if number > LARGEST_INTEGER:
            raise DataError(f"categorical feature {name!r} has the level {number}; integers up to 2**63 - 1 can be one")
        return number
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' missing values
        return None
    raise DataError(
        f"categorical feature {name!r} has the level {value!r} ({type(value).__name__}); levels are strings, integers "
        "or booleans: convert the column to strings"
    )


def _no_integer(value: Any, name: str) -> DataError:
    return DataError(
        f"categorical feature {name!r} holds {value}, which is no integer; code its levels as integers or strings, or "
        "leave it out of categorical_features"
    )


def code_numbers(numbers: NDArray[Any], name: str, others: Others = "refused") -> CodedColumn:
    """Code a column of numbers: integers, floats that are integers, or booleans; NaN and negative ones are missing.

    numbers  any real dtype (n_rows,)  in
    others   what becomes of other numbers; those that are missing bring a warning
    """
    if numbers.dtype.kind == "b":
        return CodedColumn([False, True], numbers.astype(np.int32))
    known, is_cut = np.ones(len(numbers), np.bool_), False
    if numbers.dtype.kind == "f":
        known = ~np.isnan(numbers)
        whole = np.where(known, numbers, 0.0)
        wrong = whole != np.floor(whole)
        wrong |= np.isinf(whole)
        if others.startswith("cut") and wrong.any():
            whole = np.trunc(whole)
            wrong, is_cut = np.isinf(whole), True
        if wrong.any():
            first = whole[int(np.argmax(wrong))]
            if not others.endswith("missing"):
                raise _no_integer(first, name)
            warn(f"categorical feature {name!r} holds {first}, which is no integer: it counts as an unseen level")
            known &= ~wrong
            whole = np.where(wrong, 0.0, whole)
        numbers = whole
    without_code = np.where(known & (numbers < 0), NEGATIVE, MISSING).astype(np.int32)
    known &= numbers >= 0
    if not known.any():
        return CodedColumn([], without_code, is_cut=is_cut)
    highest = numbers[known].max()
    if highest > LARGEST_INTEGER or float(highest) >= 2.0**63:
        raise DataError(f"categorical feature {name!r} has the level {highest}; integers up to 2**63 - 1 can be one")
    levels = np.where(known, numbers, 0).astype(np.int64)
    if int(highest) < 4 * len(levels) + (1 << 16):  # counting beats sorting
        seen = np.zeros(int(highest) + 1, np.bool_)
        seen[levels[known]] = True
        values = np.flatnonzero(seen)
        table = np.cumsum(seen) - 1
        codes = table[levels]
    else:
        values, codes = np.unique(levels[known], return_inverse=True)
        everywhere = np.zeros(len(levels), np.int64)
        everywhere[known] = codes
        codes = everywhere
    return CodedColumn(values.tolist(), np.where(known, codes, without_code).astype(np.int32), is_cut=is_cut)


def code_series(column: nw.Series[Any], name: str, others: Others = "refused") -> CodedColumn:
    """Code a column of a pandas, polars or pyarrow table; arguments as of `code_numbers`."""
    import narwhals

    if column.dtype.is_numeric() or column.dtype == narwhals.Boolean:
        if column.null_count() == 0 or column.dtype.is_float():
            return code_numbers(column.to_numpy(), name, others)
        numbers, is_null = _with_nulls(column)
        coded = CodedColumn([False, True], numbers) if column.dtype == narwhals.Boolean else code_numbers(numbers, name)
        return CodedColumn(coded.values, np.where(is_null, MISSING, coded.codes).astype(np.int32))
    native = column.to_native()
    if column.implementation.is_polars():
        return _code_polars(native, name)
    if column.implementation.is_pyarrow():
        return _code_arrow(native, name)
    return _code_pandas(native, name)


def _with_nulls(column: nw.Series[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return integers or booleans with nulls as integers, -1 for null, and where they are null.

    Not as floats, which would round large integers.
    """
    import narwhals

    is_flag = column.dtype == narwhals.Boolean
    filled = column.fill_null(False) if is_flag else column.fill_null(0)
    is_null = column.is_null().to_numpy()
    return np.where(is_null, -1, filled.to_numpy().astype(np.int32 if is_flag else np.int64)), is_null


def _code_pandas(native: Any, name: str) -> CodedColumn:
    if hasattr(native, "cat"):
        return code_values(native.cat.categories.tolist(), native.cat.codes.to_numpy(), name)
    import pandas as pd

    codes, values = pd.factorize(native)
    return code_values(values.tolist(), codes, name)


def _code_polars(native: Any, name: str) -> CodedColumn:
    import polars as pl

    if native.dtype == pl.String:
        native = native.cast(pl.Categorical)
    distinct = native.drop_nulls().unique()
    if len(distinct) == 0:
        return CodedColumn([], np.full(len(native), -1, np.int32))
    # a physical number may be shared by all columns of a process: only those of this column count
    numbers = distinct.to_physical().to_numpy().astype(np.int64)
    table = np.full(int(numbers.max()) + 2, -1, np.int64)
    table[numbers] = np.arange(len(numbers))
    physical = native.to_physical().cast(pl.Int64).fill_null(len(table) - 1).to_numpy()
    return code_values(distinct.cast(pl.String).to_list(), table[physical], name)


def _code_arrow(native: Any, name: str) -> CodedColumn:
    import pyarrow as pa

    whole = pa.chunked_array(native) if not isinstance(native, pa.ChunkedArray) else native
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    parts = whole.unify_dictionaries().chunks
    codes = [np.asarray(part.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64) for part in parts]
    return code_values(parts[0].dictionary.to_pylist(), np.concatenate(codes), name)
