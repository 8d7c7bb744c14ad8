"""Levels of the categorical features of a training set: codes, or the mean labels of levels where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.log import warn
from hornbeam.data.binning import BinParams
from hornbeam.data.fields import Fields
from hornbeam.data.levels import CodedColumn, Levels, choose_levels, count_levels
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.target_encoding import EncodedLevels, deal_folds, encode_training


def warn_of_cutting(name: str) -> None:
    """Say that a column of levels holds other numbers."""
    warn(f"categorical feature {name!r} holds numbers that are no integers: they are cut to whole ones")


def warn_of_order(reader: TableReader, names: Sequence[str]) -> None:
    """Say, once for a table, which columns of ordered categories are sets of levels here and numbers in LightGBM."""
    ordered = [names[position] for position in reader.level_columns if reader.holds_order(position)]
    if ordered and reader.says_first("order"):
        warn(
            f"ordered categories are levels without an order here ({', '.join(map(repr, ordered[:5]))}), and numbers "
            f"in LightGBM: pass their codes as numbers, X[{ordered[0]!r}].cat.codes, or "
            "categorical_features='from_dtype' for levels"
        )


LevelsOrNone = TypeVar("LevelsOrNone", bound=Levels | None)


def cut_as(levels: LevelsOrNone, before: Levels | None, column: CodedColumn) -> LevelsOrNone:
    """Return levels that cut numbers where the column was cut, or those of the model to train on do."""
    is_cut = column.is_cut or (before is not None and before.is_cut)
    return replace(levels, is_cut=True) if levels is not None and is_cut else levels


def with_own_levels(
    reader: TableReader,
    fields: Fields,
    categorical: Sequence[int],
    own: BinParams,
    one_class: bool,
    init_levels: Sequence[Levels | None] | None,
) -> TableReader:
    """Return a reader that reads categorical features as codes, or as the mean labels of their levels.

    A model to train on decides which: its encodings are kept, and are those of the training rows only if these have
    the very labels that they were made from.

    fields       labels, weights and queries of the rows
    categorical  positions of the features
    one_class    whether labels are numbers, whose means say something
    init_levels  those of the model to train on; None: there is none
    """
    levels: list[Levels | None] = [None] * reader.n_features
    fitted: dict[int, NDArray[np.float64]] = {}
    has_means = fields.given("label") is not None and fields.n_targets == 1 and one_class
    fold: NDArray[np.int8] | None = None
    reader.other_numbers = "cut"
    reader.prepare_coding(categorical)
    for position in categorical:
        column = reader.coded(position)
        if column.is_cut:
            warn_of_cutting(reader.column_name(position))
        before = None if init_levels is None else init_levels[position]
        is_encoded = has_means and 0 <= own.target_encoding_levels < count_levels(column)
        if before is not None:
            is_encoded = isinstance(before, EncodedLevels)
        if not is_encoded:
            made = choose_levels(column, own.max_bin, own.min_data_in_bin)
            levels[position] = cut_as(made, before, column)
            continue
        if fields.label is not None:
            fold = deal_folds(fields.n_rows, fields.query_boundaries) if fold is None else fold
            made, values = encode_training(column, fields.label, fields.weight, fold, own.target_encoding_smooth)
            if before is None or before.agrees(made):
                levels[position], fitted[position] = cut_as(made, before, column), values
                continue
        levels[position] = cut_as(before, None, column)
    return reader.with_levels(levels, fitted)
