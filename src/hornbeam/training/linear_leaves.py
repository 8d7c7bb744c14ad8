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
from hornbeam.trees.leaf_fitting import FittedRows, LeafArithmetic, columns_of_leaves, fit_leaves


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
        self._arithmetic: LeafArithmetic | None = None
        self._fitted: NDArray[np.float64] | None = None  # values of the last tree, where it was fitted to all rows

    def _values_of(self, dataset: Dataset) -> NDArray[Any]:
        if id(dataset) not in self._values:
            self._values[id(dataset)] = values_of(dataset)
        return self._values[id(dataset)]

    def _arithmetic_of(self, engine: Engine) -> LeafArithmetic:
        if self._arithmetic is None:
            self._arithmetic = leaves_on(engine.host_device, self._n_threads)
        return self._arithmetic

    def fit(self, engine: Engine, grown: GrownTree, iteration: int) -> None:
        """Give a tree that was just grown its functions; trees of the first iteration have none, as in LightGBM."""
        if grown.n_splits == 0 or (iteration == 0 and not self._is_forest):
            return
        data = self._train_set
        is_number = np.array([levels is None for levels in data.levels or [None] * data.n_features], np.bool_)
        columns = columns_of_leaves(grown.binned, data.binned.used, is_number)
        rows = FittedRows(*engine.chosen_rows(), engine.row_leaves(), self._values_of(data))
        arithmetic = self._arithmetic_of(engine)
        fitted = fit_leaves(
            rows, columns, arithmetic, engine.gather, self._ridge, grown.learning_rate, grown.leaf_value
        )
        if fitted is not None:
            grown.linear = fitted.linear
            self._fitted = fitted.values if rows.chosen is None else None

    def add_to_training(self, engine: Engine, output: int, grown: GrownTree) -> None:
        """Add the values of the tree that was just fitted to the training scores, when all rows know their leaves."""
        if self._fitted is None:
            self._add(engine, output, grown, self._train_set, engine.row_leaves(), -1)
        else:
            engine.add_row_values(output, self._fitted, -1)

    def add_to_valid(self, engine: Engine, output: int, grown: GrownTree, dataset: Dataset, valid: int) -> None:
        """Add the values of a tree to the scores of a validation set."""
        self._add(engine, output, grown, dataset, engine.leaves_in(valid, grown.binned), valid)

    def _add(
        self, engine: Engine, output: int, grown: GrownTree, dataset: Dataset, leaf: NDArray[np.uint16], valid: int
    ) -> None:
        assert grown.linear is not None
        made = self._arithmetic_of(engine).outputs(grown.linear, grown.leaf_value, leaf, self._values_of(dataset))
        engine.add_row_values(output, made, valid)
