"""Rows as a model sees them: numbers, with codes of levels in the place of levels, and NaN for what is missing.

Whatever holds a table, this form can be looked at and changed column by column: partial dependence, permutations and
drawings of trees work on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.hashing import hash_rows
from hornbeam.data.fields import Fields
from hornbeam.data.sources.reader import TableReader
from hornbeam.model.booster import Booster

FloatArray = NDArray[np.float64]


class SeeingModel:
    """A model that reads tables into the form of this module, and predicts for rows of that form."""

    def __init__(self, booster: Booster) -> None:
        self.booster = booster
        params = {name: value for name, value in booster.kept_params.items() if name != "zero_as_missing"}
        bare = replace(booster.to_model(), levels=None, column_names=None, params=params)
        self._bare = Booster(bare)
        self._bare.num_threads = booster.num_threads

    def open(self, data: Any) -> TableReader:
        """Return a reader of a table, or of a Dataset's; its columns must be those of the model."""
        return self.booster.checked_table(data.data if isinstance(data, Fields) else data)

    def read(self, data: Any) -> FloatArray:
        """Return all rows of a table, float64 (n_rows, n_features)."""
        reader = self.open(data)
        return reader.read(0, reader.n_rows)

    def raw_scores(self, values: FloatArray) -> FloatArray:
        """Return raw scores, float64 (n_outputs, n_rows).

        values  float64 (n_rows, n_features)  in
        """
        return np.atleast_2d(self._bare.predict(values, raw_score=True).T)

    def predictions(self, values: FloatArray) -> FloatArray:
        """Return predictions, float64 (n_outputs, n_rows)."""
        return self._bare.objective.transform(self.raw_scores(values))

    def leaves(self, values: FloatArray) -> NDArray[np.int32]:
        """Return the leaf of each row in every tree of the model, int32 (n_rows, n_trees)."""
        found: NDArray[np.int32] = self._bare.predict(values, pred_leaf=True, num_iteration=0)
        return found

    def value_text(self, feature: int, value: float, digits: int = 4) -> str:
        """Return how a value of a feature is written: the name of a level, a number, or "missing"."""
        if np.isnan(value):
            return "missing"
        own = None if self.booster.levels is None else self.booster.levels[feature]
        if own is not None and own.is_coded:
            return str(own.values[int(value)])
        return number_text(value, digits)

    def is_categorical(self, feature: int) -> bool:
        """Say whether a feature is read as codes of levels."""
        own = None if self.booster.levels is None else self.booster.levels[feature]
        return own is not None and own.is_coded


def number_text(value: float, digits: int = 4) -> str:
    """Return a number with so many digits that count, without an exponent where it is not needed."""
    if not np.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if abs(value) >= 10**digits and abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def choose_rows(n_rows: int, limit: int) -> NDArray[np.int64]:
    """Return the numbers of at most `limit` rows, ascending, int64; the same ones whenever it is asked."""
    if n_rows <= limit:
        return np.arange(n_rows)
    keys = hash_rows(np.arange(n_rows, dtype=np.uint64))
    return np.sort(np.argpartition(keys, limit)[:limit]).astype(np.int64)
