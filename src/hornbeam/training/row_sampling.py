"""Which rows each iteration draws: the parameters of bagging and GOSS, checked, and turned into draws of bagging.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.random_choices import Purpose, chance_limit, random_key
from hornbeam.data.queries import query_of_row
from hornbeam.dataset.dataset import Dataset
from hornbeam.params.params import Params
from hornbeam.params.random_parts import samples_rows
from hornbeam.trees.bagging import Draw, Goss
from hornbeam.trees.engine import Engine


class RowSampler:
    """Chooses the rows of every iteration; what it chooses depends on parameters and iteration alone."""

    def __init__(self, params: Params, train_set: Dataset) -> None:
        self.params = params
        self.train_set = train_set
        self._samples = samples_rows(params)
        self._drawn: int | None = None  # key of the bag that the engine has
        self._query: NDArray[np.uint32] | None = None
        if train_set.n_targets > 1 and min(params.pos_bagging_fraction, params.neg_bagging_fraction) < 1.0:
            raise ParameterError(
                "pos_bagging_fraction and neg_bagging_fraction draw rows by one label each, but label has "
                f"{train_set.n_targets} columns; set bagging_fraction"
            )
        if params.bagging_by_query:
            if train_set.query_boundaries is None:
                raise DataError("bagging_by_query=True needs queries: pass group= or qid= to Dataset")
            self._query = query_of_row(train_set.query_boundaries).astype(np.uint32)

    @property
    def given(self) -> tuple[NDArray[Any] | None, ...]:
        """What rows are chosen by: their labels and queries, where that is so."""
        params = self.params
        by_label = min(params.pos_bagging_fraction, params.neg_bagging_fraction) < 1.0
        return (self.train_set.label if by_label and self._samples else None, self._query)

    def choose(self, engine: Engine, iteration: int, learning_rate: float) -> bool:
        """Choose the rows of an iteration, whose gradients are computed; returns whether some may be left out."""
        params = self.params
        if not self._samples:
            return False
        if params.data_sample_strategy == "goss":
            return engine.choose_rows(self._goss(iteration, learning_rate)) < engine.n_rows
        first = iteration - iteration % params.bagging_freq
        draw = self._draw(random_key(params.seed, Purpose.BAGGING, first, params.bagging_seed))
        if self._drawn != draw.key:
            self._drawn = draw.key
            engine.choose_rows(draw)
        return True

    def _draw(self, key: int) -> Draw:
        params = self.params
        positive, negative = params.pos_bagging_fraction, params.neg_bagging_fraction
        if min(positive, negative) < 1.0:
            return Draw(key, chance_limit(negative), chance_limit(positive), self.train_set.label)
        return Draw(key, chance_limit(params.bagging_fraction), query=self._query)

    def _goss(self, iteration: int, learning_rate: float) -> Goss | None:
        """Return the rule of an iteration; the first 1 / learning_rate of them use all rows, as in LightGBM.

        Not those of a forest, whose gradients stay as they are: trees of all rows would be one and the same.
        """
        params, n_rows = self.params, self.train_set.n_rows
        if params.boosting != "rf" and iteration < int(1.0 / learning_rate):
            return None
        n_top = max(1, int(n_rows * params.top_rate))
        n_rest = n_rows - n_top
        if n_rest == 0:
            return None
        n_other = min(max(1, int(n_rows * params.other_rate)), n_rest)
        key = random_key(params.seed, Purpose.GOSS, iteration, params.bagging_seed)
        return Goss(key, n_top, chance_limit(n_other / n_rest), n_rest / n_other)
