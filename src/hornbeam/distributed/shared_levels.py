"""Levels of categorical features whose rows are spread over workers: those that one worker with all rows would choose.

Every worker tells the others its values, how many rows have each, and where labels are averaged their sums by fold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.lazy import lazy
from hornbeam.data.binning import BinParams
from hornbeam.data.fields import Fields
from hornbeam.data.levels import CountedColumn, Levels, choose_levels, count_levels
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.target_encoding import FOLDS, EncodedLevels, FoldSums, deal_folds, encode_levels, fold_cells
from hornbeam.dataset.own_levels import cut_as, warn_of_cutting
from hornbeam.distributed.collective import Collective

Fitted = list[dict[int, NDArray[np.float64]]]
"""For each part the values of its rows by feature, float64 (n_rows of the part,), see TableReader.with_levels."""


class SharedLevels:
    """Chooses the levels of one data set.

    pieces     tables of this worker's parts, and which rows they are
    fields     of all rows
    has_means  whether labels have a mean
    """

    def __init__(
        self,
        collective: Collective,
        pieces: Sequence[tuple[slice, TableReader]],
        params: BinParams,
        fields: Fields,
        has_means: bool,
    ) -> None:
        self._collective, self._pieces, self._params, self._n_features = collective, pieces, params, fields.n_features
        self._fields = fields if has_means else None

    def choose(
        self, categorical: Mapping[int, str], init_levels: Sequence[Levels | None] | None
    ) -> tuple[list[Levels | None] | None, Fitted]:
        """Return the levels of each feature, None for numbers, and what encoded ones are for the rows of each part.

        categorical  names of the categorical features, by position
        init_levels  of a model to train on, whose encodings are kept

        None instead of the levels: no feature is categorical.
        """
        fitted: Fitted = [{} for _ in self._pieces]
        if not categorical:
            return None, fitted
        levels: dict[int, Levels | None] = {}
        for _, reader in self._pieces:
            reader.other_numbers = "cut"
            reader.prepare_coding(list(categorical))
        for position, name in categorical.items():
            column = self._count(position, name)
            if column.is_cut and self._collective.rank == 0:
                warn_of_cutting(name)
            before = None if init_levels is None else init_levels[position]
            limit = self._params.target_encoding_levels
            is_encoded = self._fields is not None and 0 <= limit < count_levels(column)
            if before is not None:
                is_encoded = isinstance(before, EncodedLevels)
            if not is_encoded:
                made_levels = choose_levels(column, self._params.max_bin, self._params.min_data_in_bin)
                levels[position] = cut_as(made_levels, before, column)
                continue
            levels[position] = cut_as(before, None, column)
            if self._fields is not None:
                made, of_parts = self._encode(position, column, self._fields)
                if before is None or before.agrees(made):
                    levels[position] = cut_as(made, before, column)
                    for own, values in zip(fitted, of_parts, strict=True):
                        own[position] = values
        return [levels.get(position) for position in range(self._n_features)], fitted

    def _count(self, position: int, name: str) -> CountedColumn:
        """Return the values of a column that rows of any worker have, and their numbers of rows."""
        mine: dict[Any, int] = {}
        is_cut = False
        for _, reader in self._pieces:
            column = reader.coded(position)
            is_cut |= column.is_cut
            for value, n_rows in zip(column.values, column.counts().tolist(), strict=True):
                if n_rows > 0:
                    mine[value] = mine.get(value, 0) + n_rows
        whole: dict[Any, int] = {}
        kinds: set[str] = set()
        message = json.dumps({"levels": list(mine.items()), "is_cut": is_cut}).encode()
        for received in self._collective.all_gather(message, f"levels of {name}"):
            of_worker = json.loads(bytes(received))
            is_cut |= of_worker["is_cut"]
            for value, n_rows in of_worker["levels"]:
                whole[value] = whole.get(value, 0) + n_rows
                kinds.add(type(value).__name__)
        if len(kinds) > 1:
            raise DataError(
                f"categorical feature {name!r} has levels of several kinds in its parts ({', '.join(sorted(kinds))}); "
                "make all levels one kind, such as strings"
            )
        return CountedColumn(list(whole), np.array(list(whole.values()), np.int64), is_cut)

    @lazy
    def _fold(self) -> NDArray[np.int8]:
        """The fold of every row."""
        assert self._fields is not None
        return deal_folds(self._fields.n_rows, self._fields.query_boundaries)

    def _encode(
        self, position: int, column: CountedColumn, fields: Fields
    ) -> tuple[EncodedLevels, list[NDArray[np.float64]]]:
        """Return the mean labels of a feature's levels, and the values of the rows of each part."""
        assert fields.label is not None
        place_of = {value: place for place, value in enumerate(column.values)}
        total, cells = np.zeros((2, len(place_of) + 1, FOLDS), np.int64), []
        for rows, reader in self._pieces:
            coded = reader.coded(position)
            places = np.array([*(place_of.get(value, 0) for value in coded.values), len(place_of)], np.int64)
            of_part = fold_cells(coded, self._fold[rows])
            place, fold = places[of_part // FOLDS], of_part % FOLDS
            cells.append(place * FOLDS + fold)
            sums = FoldSums.of_rows(cells[-1], len(place_of), fields.label, fields.weight, rows)
            total += np.stack([sums.sums, sums.weights])
        units = FoldSums.of_rows(np.empty(0, np.int64), 0, fields.label, fields.weight, slice(0, 0)).units
        self._collective.all_reduce(total, "labels of levels")
        made, others = encode_levels(column, FoldSums(total[0], total[1], units), self._params.target_encoding_smooth)
        return made, [others.reshape(-1)[each] for each in cells]
