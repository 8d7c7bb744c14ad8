"""Categorical splits in the prediction on the CPU: sets of codes as bits.

A split of a categorical feature has a column of codes, as splits of numbers have (packed_forest.py), but the code of a
row is the rank of its level among the levels that any split of the column sends left. A node names a set of its column
by number, and a row goes left when its bit is set there:

    bits   column c, set 0 | set 1 | set 2 | ...        a set has set_words[c] words of 64 bits
                     ^ set_start[c]

Levels that no split sends left, and missing ones, share the rank after the last, whose bit is never set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.core.errors import DataError
from hornbeam.trees.tree import Tree

MOST_SETS = 65_535
"""Sets of a column: they are numbered in 16 bits, and the last number marks a leaf."""

MOST_CODES = 65_535
"""Levels of a feature that splits send left: ranks of 16 bits, and one more for all others."""

FEWEST_WORDS = 1024
"""Words of all sets: so many that any code of 16 bits finds one, also at a split of numbers, which takes no set."""


class PackedSets(NamedTuple):
    """Sets of codes as the kernels want them; columns of numbers have no words and an empty table.

    bits         uint64 (n_words,)
    set_start    uint64 (n_columns,)      first word of a column
    set_words    uint64 (n_columns,)      words of a set
    table_start  int64  (n_columns + 1,)  first entry of a column in `table`
    table        uint16 (n_entries,)      rank of each level; of all others, the last entry of a column
    """

    bits: NDArray[np.uint64]
    set_start: NDArray[np.uint64]
    set_words: NDArray[np.uint64]
    table_start: NDArray[np.int64]
    table: NDArray[np.uint16]


def sets_of(trees: Sequence[Tree]) -> list[NDArray[np.int32] | None]:
    """Return the set of every split of all trees, None for one of numbers."""
    sets: list[NDArray[np.int32] | None] = []
    for tree in trees:
        sets += [None] * tree.n_splits if tree.left_codes is None else tree.left_codes
    return sets


def pack_sets(
    feature: NDArray[np.int64],
    sets: list[NDArray[np.int32] | None],
    n_numeric: int,
    most_sets: int = MOST_SETS,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], PackedSets]:
    """Give every categorical split a column and the number of its set there.

    feature    int64 (n_splits,)   in
    sets       one a split, None for one of numbers
    n_numeric  number of columns of numbers, which come first

    Returns column and number, int64 (n_splits,), of the categorical splits; the feature of each new column; the sets.
    """
    column, number = np.zeros(len(sets), np.int64), np.zeros(len(sets), np.int64)
    splits_of: dict[int, list[int]] = {}
    for split, own in enumerate(sets):
        if own is not None:
            splits_of.setdefault(int(feature[split]), []).append(split)
    column_feature: list[int] = []
    bits: list[NDArray[np.uint64]] = []
    set_start, set_words = [0] * n_numeric, [0] * n_numeric
    tables: list[NDArray[np.uint16]] = [np.empty(0, np.uint16)] * n_numeric
    n_words = 0
    for own_feature, splits in sorted(splits_of.items()):
        used = np.unique(np.concatenate([sets[split] for split in splits]))  # type: ignore[arg-type]
        if len(used) > MOST_CODES:
            raise DataError(
                f"splits of feature {own_feature} send {len(used)} levels left, and prediction on the CPU allows "
                f'{MOST_CODES}; predict with device="reference"'
            )
        table = np.full(int(used[-1]) + 2, len(used), np.uint16)
        table[used] = np.arange(len(used))
        words = len(used) // 64 + 1
        found: dict[bytes, int] = {}
        for split in splits:
            own = sets[split]
            assert own is not None
            place = found.setdefault(own.tobytes(), len(found))
            column[split] = n_numeric + len(column_feature) + place // most_sets
            number[split] = place % most_sets
        flat = np.zeros((len(found), words * 64), np.uint8)
        for place, content in enumerate(found):
            flat[place, table[np.frombuffer(content, np.int32)]] = 1
        packed = np.packbits(flat, axis=1, bitorder="little").view(np.uint64)
        for first in range(0, len(found), most_sets):
            part = packed[first : first + most_sets]
            column_feature.append(own_feature)
            set_start.append(n_words)
            set_words.append(words)
            tables.append(table)
            bits.append(part.reshape(-1))
            n_words += part.size
    table_start = np.zeros(len(tables) + 1, np.int64)
    np.cumsum([len(table) for table in tables], out=table_start[1:])
    return (
        column,
        number,
        np.array(column_feature, np.int64),
        PackedSets(
            np.concatenate([*bits, np.zeros(max(0, FEWEST_WORDS - n_words), np.uint64)]),
            np.array(set_start, np.uint64),
            np.array(set_words, np.uint64),
            table_start,
            np.concatenate(tables),
        ),
    )


@kernel
def code_categories(block: Any, column_feature: Any, sets: Any, codes: Any) -> None:
    """Write the ranks of the categorical columns.

    block           float64 (n_block_rows, n_features)   in
    column_feature  int64 (n_columns,)                   in
    sets            PackedSets                           in
    codes           uint16 (>= n_block_rows, n_columns)  out
    """
    table_start, table = sets[3], sets[4]
    for column in range(len(column_feature)):
        own = table[table_start[column] : table_start[column + 1]]
        if len(own) == 0:
            continue
        last = np.int64(len(own) - 1)
        feature = column_feature[column]
        for row in range(len(block)):
            value = block[row, feature]
            place = last
            if value >= 0.0 and value < last:  # not NaN
                whole = np.int64(value)
                place = whole if np.float64(whole) == value else last
            codes[row, column] = own[place]
