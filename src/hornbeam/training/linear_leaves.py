"""Linear leaves in a training: the numbers that they are fitted to, and the scores that they make."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.leaf_fitting import leaves_on
from hornbeam.core.errors import DataError
from hornbeam.data.streams.table import UnheldTable
from hornbeam.dataset.dataset import Dataset
from hornbeam.params.params import Params
from hornbeam.trees.engine import Engine
from hornbeam.trees.grown_tree import GrownTree
from hornbeam.trees.leaf_fitting import FittedRows, columns_of_leaves, fit_leaves


def check_values(dataset: Dataset, name: str) -> None:
    """Refuse a data set whose numbers are not at hand."""
    for reader in _readers(dataset):
        if isinstance(reader, UnheldTable):
            raise DataError(
                f"linear_tree=True needs the numbers of {name}, and {reader.why}; pass a table in memory, or leave "
                "linear_tree out"
            )
        if reader.sparse is not None:
            raise DataError(
                f"linear_tree=True needs {name} as a dense table, and it is sparse; pass data.toarray(), or leave "
                "linear_tree out"
            )


def _readers(dataset: Dataset) -> list[Any]:
    return list(getattr(dataset.reader, "parts", [dataset.reader]))


def values_of(dataset: Dataset) -> NDArray[Any]:
    """Return the numbers of this process's rows, float32 or float64 (n_rows, n_features), C order.

    A view of the table where it is such an array, else a copy; columns of levels hold their codes.
    """
    blocks: list[NDArray[Any]] = [reader.block(0, reader.n_rows) for reader in _readers(dataset)]
    if len(blocks) == 1:
        return blocks[0]
    return np.concatenate(blocks) if blocks else np.empty((0, dataset.n_features))


class LeafFitting:
    """Fits the leaves of a training's trees, and adds their values to scores.

    Numbers of a data set are kept from the first tree that needs them to the end of the training.
    """

    def __init__(self, params: Params, train_set: Dataset, n_threads: int) -> None:
        check_values(train_set, "train_set")
        self._ridge, self._is_forest = params.linear_lambda, params.boosting == "rf"
        self._train_set, self._n_threads = train_set, n_threads
        self._values: dict[int, NDArray[Any]] = {}

    def _values_of(self, dataset: Dataset) -> NDArray[Any]:
        if id(dataset) not in self._values:
            self._values[id(dataset)] = values_of(dataset)
        return self._values[id(dataset)]

    def fit(self, engine: Engine, grown: GrownTree, iteration: int) -> None:
        """Give a tree that was just grown its functions; trees of the first iteration have none, as in LightGBM."""
        if grown.n_splits == 0 or (iteration == 0 and not self._is_forest):
            return
        data, rows = self._train_set, engine.chosen_rows()
        is_number = np.array([levels is None for levels in data.levels or [None] * data.n_features], np.bool_)
        columns = columns_of_leaves(grown.binned, data.binned.used, is_number)
        fitted = FittedRows(*rows, engine.row_leaves(), self._values_of(data))
        arithmetic = leaves_on(engine.host_device, self._n_threads)
        grown.linear = fit_leaves(
            fitted, columns, arithmetic, engine.gather, self._ridge, grown.learning_rate, grown.leaf_value
        )

    def add_to_training(self, engine: Engine, output: int, grown: GrownTree) -> None:
        """Add the values of a tree to the training scores, when all rows know their leaves."""
        self._add(engine, output, grown, self._train_set, engine.row_leaves(), -1)

    def add_to_valid(self, engine: Engine, output: int, grown: GrownTree, dataset: Dataset, valid: int) -> None:
        """Add the values of a tree to the scores of a validation set."""
        self._add(engine, output, grown, dataset, engine.leaves_in(valid, grown.binned), valid)

    def _add(
        self, engine: Engine, output: int, grown: GrownTree, dataset: Dataset, leaf: NDArray[np.uint16], valid: int
    ) -> None:
        assert grown.linear is not None
        arithmetic = leaves_on(engine.host_device, self._n_threads)
        made = arithmetic.outputs(grown.linear, grown.leaf_value, leaf, self._values_of(dataset))
        engine.add_row_values(output, made, valid)
