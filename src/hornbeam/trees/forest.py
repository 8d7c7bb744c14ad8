"""Trees in boosting order, and how the raw scores of rows come about.

A row's raw score for output k is

    init_scores[k] + value of tree k + value of tree n_outputs + k + value of tree 2 n_outputs + k + ...

added in this order in float64; for a random forest it is init_scores[k] + (sum of the trees' values, from 0.0 on) /
number of trees. The order is part of the contract: it is the order in which training adds scores, so a
prediction has the bits that training saw, on every device and for any number of threads.

Input is read block by block, so predicting never holds a float64 copy of the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.lazy import lazy
from hornbeam.core.locks import Lock
from hornbeam.data.sources.reader import TableReader, zeros_to_nan
from hornbeam.data.sources.sparse_table import SparseTable
from hornbeam.trees.tree import Tree

Packed = TypeVar("Packed")


class Reader(Protocol):
    """A table of numbers that can be read in blocks of rows; data/sources/reader.py has one."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start..stop - 1: float64 (stop - start, n_features), C order. Called from several threads."""


class ArrayReader:
    """Reads a two-dimensional NumPy array of any numeric dtype and order."""

    def __init__(self, data: NDArray[Any]) -> None:
        if data.ndim != 2:
            raise DataError(f"data must have two dimensions (rows, features), got an array of shape {data.shape}")
        self.data = data
        self.n_rows, self.n_features = data.shape

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start..stop - 1 as float64 in C order; a view where the array already is that."""
        block = np.ascontiguousarray(self.data[start:stop], np.float64)
        # The kernels are compiled for aligned, writeable arrays; any other would compile them once more.
        return block if block.flags.carray else block.copy()


class SparseColumns:
    """Reads some columns of a sparse table, zeros filled in: those that a forest looks at.

    columns  int64 (n_columns,)  in  ascending
    """

    def __init__(self, table: SparseTable, columns: NDArray[np.int64], zero_as_missing: bool) -> None:
        self._table = table
        self._zero_as_missing = zero_as_missing
        self._position = np.full(table.n_features, -1, np.int64)
        self._position[columns] = np.arange(len(columns))
        self.n_rows, self.n_features = table.n_rows, max(1, len(columns))

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start..stop - 1 as float64 in C order."""
        out = np.empty((stop - start, self.n_features))
        self._table.fill(start, stop, out, self._position)
        if self._zero_as_missing:
            zeros_to_nan(out)
        self._table.write_codes(start, stop, out, self._position)
        return out


class Forest:
    """Trees in boosting order: tree i adds to output i % n_outputs, and belongs to iteration i // trees_per_iteration.

    A forest is never changed. What the kernels need is derived from it at the first prediction and kept, so hold on to
    a Forest between predictions and make a new one when trees are added.
    """

    def __init__(self, trees: Sequence[Tree], n_outputs: int = 1, trees_per_iteration: int | None = None) -> None:
        self.trees_per_iteration = n_outputs if trees_per_iteration is None else trees_per_iteration
        if n_outputs < 1 or self.trees_per_iteration % n_outputs or len(trees) % self.trees_per_iteration:
            raise ValueError(
                f"{len(trees)} trees cannot be shared out among {n_outputs} outputs: "
                f"every boosting iteration has one tree per output, or some side by side: {self.trees_per_iteration}"
            )
        self.trees = tuple(trees)
        self.n_outputs = n_outputs
        self._packed: dict[str, Any] = {}
        self._packing = Lock()

    @property
    def n_iterations(self) -> int:
        """Number of boosting iterations."""
        return len(self.trees) // self.trees_per_iteration

    @lazy
    def n_features_used(self) -> int:
        """One more than the highest column that a tree looks at: the fewest columns that data may have."""
        linear = (tree.linear.feature for tree in self.trees if tree.linear is not None)
        every = (*(tree.feature for tree in self.trees), *linear)
        return 1 + max((int(feature.max(initial=-1)) for feature in every), default=-1)

    @lazy
    def columns(self) -> NDArray[np.int64]:
        """The columns that the trees look at, ascending."""
        linear = (tree.linear.feature for tree in self.trees if tree.linear is not None)
        return np.unique(np.concatenate([np.empty(0, np.int64), *(tree.feature for tree in self.trees), *linear]))

    @lazy
    def is_linear(self) -> bool:
        """Whether a tree has linear leaves."""
        return any(tree.linear is not None for tree in self.trees)

    @lazy
    def narrow(self) -> Forest:
        """The same trees for a table of `columns` alone."""
        columns = self.columns
        trees = [
            replace(
                tree,
                feature=np.searchsorted(columns, tree.feature).astype(np.int32),
                linear=None if tree.linear is None else tree.linear.with_columns(columns),
            )
            for tree in self.trees
        ]
        return Forest(trees, self.n_outputs, self.trees_per_iteration)

    def packed_for(self, device: str, pack: Callable[[], Packed]) -> Packed:
        """Return the forest as the kernels of a device want it, made at the first prediction and kept."""
        with self._packing:
            if device not in self._packed:
                self._packed[device] = pack()
            packed: Packed = self._packed[device]
            return packed

    def __getstate__(self) -> dict[str, Any]:
        return {"trees": self.trees, "n_outputs": self.n_outputs, "trees_per_iteration": self.trees_per_iteration}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def tree_range(self, start_iteration: int = 0, num_iteration: int | None = None) -> tuple[int, int]:
        """Return the first tree and one past the last tree of some boosting iterations.

        `num_iteration` None or <= 0 means all that follow `start_iteration`; a range that goes past the end is cut.
        """
        first = min(max(start_iteration, 0), self.n_iterations)
        last = self.n_iterations
        if num_iteration is not None and num_iteration > 0:
            last = min(first + num_iteration, last)
        return first * self.trees_per_iteration, last * self.trees_per_iteration


def average_scores(sums: Any, init_scores: Any, n_iterations: int) -> None:
    """Turn sums of trees into the start plus the mean of the trees, in place: what a random forest predicts.

    sums         float64 (n_outputs, n_rows)  in, out
    init_scores  float64 (n_outputs,)         in        both of NumPy, or both of CuPy
    """
    if n_iterations > 0:
        sums /= float(n_iterations)
    sums += init_scores[:, None]


def checked_init(forest: Forest, init_scores: NDArray[np.float64] | Sequence[float] | None) -> NDArray[np.float64]:
    """Return the scores before the first tree, float64 (n_outputs,); None: zeros."""
    if init_scores is None:
        return np.zeros(forest.n_outputs)
    init = np.array(init_scores, np.float64)
    if init.shape != (forest.n_outputs,):
        raise ValueError(f"init_scores must have shape ({forest.n_outputs},), got {init.shape}")
    return init


def fitting(forest: Forest, data: Reader | NDArray[Any]) -> tuple[Forest, Reader]:
    """Wrap an array; check that the table has every column that the trees look at.

    A sparse table is read in those columns alone, and the forest that is returned looks at them by their new numbers.
    """
    reader = ArrayReader(data) if isinstance(data, np.ndarray) else data
    if reader.n_features < forest.n_features_used:
        raise DataError(
            f"data has {reader.n_features} columns, but the trees look at column {forest.n_features_used - 1}: "
            "give the columns that the model was trained on, in the same order"
        )
    if isinstance(reader, TableReader) and reader.sparse is not None:
        return forest.narrow, SparseColumns(reader.sparse, forest.columns, reader.zero_as_missing)
    return forest, reader
