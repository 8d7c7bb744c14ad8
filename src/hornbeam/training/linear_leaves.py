"""Linear leaves in a training: the numbers that they are fitted to, and the scores that they make."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.leaf_fitting import leaves_on
from hornbeam.core.errors import DataError
from hornbeam.data.sources.reader import zeros_to_nan
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


class Numbers:
    """The numbers of a data set's rows, as functions of some features need them.

    They are kept whole, or, where a table is sparse, by column: a tree takes those of its features.
    """

    def __init__(self, dataset: Dataset) -> None:
        readers = _readers(dataset)
        self._is_sparse = any(reader.sparse is not None for reader in readers)
        self._values = None if self._is_sparse else values_of(dataset)
        self._parts = [(reader, _by_column(reader)) for reader in readers] if self._is_sparse else []

    def of(self, features: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[np.int32] | None]:
        """Return a table that has some features, and which its columns are, ascending; None: it has all of them."""
        if self._values is not None:
            return self._values, None
        used = np.unique(features)
        blocks: list[NDArray[Any]] = []
        for reader, table in self._parts:
            block = table[:, used]
            block = np.ascontiguousarray(block if reader.sparse is None else block.toarray(), reader.block_dtype)
            if reader.zero_as_missing and reader.sparse is not None:
                zeros_to_nan(block)
            blocks.append(block)
        return np.concatenate(blocks), used


def _by_column(reader: Any) -> Any:
    """Return a table of which columns can be taken."""
    return reader.block(0, reader.n_rows) if reader.sparse is None else reader.sparse.matrix.tocsc()


class LeafFitting:
    """Fits the leaves of a training's trees, and adds their values to scores.

    Numbers of a data set are kept from the first tree that needs them to the end of the training.
    """

    def __init__(self, params: Params, train_set: Dataset, n_threads: int) -> None:
        check_values(train_set, "train_set")
        self._ridge, self._is_forest = params.linear_lambda, params.boosting == "rf"
        self._train_set, self._n_threads = train_set, n_threads
        self._numbers: dict[int, Numbers] = {}
        self._arithmetic: LeafArithmetic | None = None
        self._fitted: NDArray[np.float64] | None = None  # values of the last tree, where it was fitted to all rows

    def _numbers_of(self, dataset: Dataset) -> Numbers:
        if id(dataset) not in self._numbers:
            self._numbers[id(dataset)] = Numbers(dataset)
        return self._numbers[id(dataset)]

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
        table, used = self._numbers_of(data).of(columns.columns)
        if used is not None:
            columns = columns._replace(columns=np.searchsorted(used, columns.columns).astype(np.int32))
        rows = FittedRows(*engine.chosen_rows(), engine.row_leaves(), table)
        arithmetic = self._arithmetic_of(engine)
        fitted = fit_leaves(
            rows, columns, arithmetic, engine.gather, self._ridge, grown.learning_rate, grown.leaf_value
        )
        if fitted is not None:
            grown.linear = fitted.linear if used is None else fitted.linear.of_columns(used)
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
        table, used = self._numbers_of(dataset).of(grown.linear.feature)
        linear = grown.linear if used is None else grown.linear.with_columns(used)
        made = self._arithmetic_of(engine).outputs(linear, grown.leaf_value, leaf, table)
        engine.add_row_values(output, made, valid)
