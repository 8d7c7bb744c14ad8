"""Contributions and interactions of features: sums over trees, made those of a model's raw scores.

A model starts from `init_scores`, and a random forest averages its trees. The contributions of a row and the expected
value, which comes last, add up to the row's raw score.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends import explanation as backends
from hornbeam.backends.costs import ExplanationWork
from hornbeam.backends.devices import choose_device
from hornbeam.core.errors import DeviceError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import inform
from hornbeam.data.sources.reader import TableReader
from hornbeam.explain.covers import known_cover
from hornbeam.model.booster import Booster

FloatArray = NDArray[np.float64]
Result = TypeVar("Result")

CHUNK_BYTES = 64 << 20
"""Memory of dense contributions on their way into a sparse result."""

PAIR_ROWS = 64
"""Rows whose interactions are finished at a time."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Rows whose raw scores are explained, by some iterations of a model.

    trees       and what they are explained on
    reader      the rows, with the columns of the model
    """

    booster: Booster
    trees: backends.Trees
    reader: TableReader

    @property
    def n_iterations(self) -> int:
        """Number of iterations that are explained."""
        return len(self.trees.chosen) // self.booster.trees_per_iteration

    @property
    def divisor(self) -> float:
        """What sums over trees are divided by."""
        return float(max(1, self.n_iterations)) if self.booster.averages_trees else 1.0

    @property
    def columns(self) -> NDArray[np.int64] | None:
        """The features that columns of results stand for; None: all."""
        return backends.columns_of(self.trees.forest, self.reader)

    def expected(self) -> FloatArray:
        """Return the mean raw score by cover, float64 (n_outputs,)."""
        return self.booster.init_scores + backends.tree_means(self.trees) / self.divisor

    def on_device(self, compute: Callable[[backends.Trees], Result]) -> Result:
        """Return compute(trees) with the device chosen; where "auto" chose one that fails, the CPU does it."""
        trees = self.trees
        with default_mode():
            if trees.device == "auto":
                n_splits = sum(tree.n_splits for tree in trees.forest.trees[trees.first : trees.last])
                work = ExplanationWork(self.reader.n_rows, self.reader.n_features, n_splits, trees.n_threads)
                trees = replace(trees, device=choose_device("auto", work))
                if trees.device != "cpu":
                    try:
                        return compute(trees)
                    except DeviceError as error:
                        inform(f"explaining on the CPU: {error}")
                        trees = replace(trees, device="cpu")
            return compute(trees)

    def values(self, rows: range) -> FloatArray:
        """Return the contributions of some rows, float64 (len(rows), n_outputs, n_columns)."""
        sums = self.on_device(lambda trees: backends.contributions(trees, self.reader, rows))
        if self.divisor != 1.0:
            sums /= self.divisor
        return sums

    def values_against(self, background: TableReader) -> FloatArray:
        """Return the contributions of all rows against background rows, float64 (n_rows, n_outputs, n_columns)."""
        rows = range(self.reader.n_rows)
        sums = self.on_device(lambda trees: backends.background_contributions(trees, self.reader, rows, background))
        sums /= self.divisor * background.n_rows
        return sums

    def all_features(self, values: FloatArray) -> FloatArray:
        """Return (n_rows, n_outputs, n_columns) as (n_rows, n_outputs, n_features), zeros where no tree looks."""
        columns = self.columns
        if columns is None:
            return values
        whole = np.zeros((*values.shape[:2], self.booster.n_features))
        whole[:, :, columns] = values
        return whole


def explained(
    booster: Booster,
    reader: TableReader,
    iterations: tuple[int, int | None],
    n_threads: int,
    device: str,
    cover: str = "auto",
    has_background: bool = False,
) -> Explained:
    """Gather what is explained; iterations are (start_iteration, num_iteration) of `Forest.tree_range`."""
    first, last = booster.forest.tree_range(*iterations)
    cover = known_cover(booster.trees[first:last], cover, is_needed=not has_background)
    return Explained(booster, backends.Trees(booster.forest, first, last, cover, n_threads, device), reader)


def predict_contributions(task: Explained, form: str | None = None) -> Any:
    """Return the contributions of features, and behind them the expected value, of every row.

    form   None: float64 (n_rows, n_outputs * (n_features + 1)). "csr" or "csc": a sparse matrix (n_rows, n_features +
           1) of SciPy, or a list of them with several outputs, as LightGBM returns
    """
    if form is not None:
        return _sparse_contributions(task, form)
    n_rows, n_outputs, n_features = task.reader.n_rows, task.booster.n_outputs, task.booster.n_features
    out = np.empty((n_rows, n_outputs, n_features + 1))
    out[:, :, :n_features] = task.all_features(task.values(range(n_rows)))
    out[:, :, n_features] = task.expected()
    return out.reshape(n_rows, n_outputs * (n_features + 1))


def _sparse_contributions(task: Explained, form: str) -> Any:
    from scipy import sparse

    columns, n_outputs, n_features = task.columns, task.booster.n_outputs, task.booster.n_features
    places = np.append(np.arange(n_features) if columns is None else columns, n_features)
    parts: list[list[Any]] = [[] for _ in range(n_outputs)]
    step = max(1, CHUNK_BYTES // (8 * n_outputs * len(places)))
    for start in range(0, task.reader.n_rows, step):
        rows = range(start, min(start + step, task.reader.n_rows))
        values = task.values(rows)
        for output, expected in enumerate(task.expected()):
            block = np.concatenate((values[:, output], np.full((len(rows), 1), expected)), axis=1)
            row, place = np.nonzero(block)
            found = block[row, place], (row, places[place])
            parts[output].append(sparse.csr_matrix(found, (len(rows), n_features + 1)))
    made = [sparse.vstack(blocks, format=form) for blocks in parts]
    return made[0] if n_outputs == 1 else made


def predict_interactions(task: Explained) -> FloatArray:
    """Return what every two features do together, with the expected value in the last place of rows and columns.

    Half of an interaction stands at (i, j) and half at (j, i); what feature i does alone stands at (i, i), so that row
    i sums up to the feature's contribution: float64 (n_rows, n_features + 1, n_features + 1), with several outputs
    (n_rows, n_outputs, n_features + 1, n_features + 1), as XGBoost has them.
    """
    n_rows, n_outputs, n_features = task.reader.n_rows, task.booster.n_outputs, task.booster.n_features
    values, pairs = task.on_device(lambda trees: backends.interactions(trees, task.reader, range(n_rows)))
    columns = task.columns
    places = np.arange(n_features) if columns is None else columns
    out = np.zeros((n_rows, n_outputs, n_features + 1, n_features + 1))
    for start in range(0, n_rows, PAIR_ROWS):
        rows = slice(start, start + PAIR_ROWS)
        half = (pairs[rows] + pairs[rows].transpose(0, 1, 3, 2)) / (2.0 * task.divisor)
        alone = values[rows] / task.divisor
        for other in range(half.shape[-1]):
            alone -= half[..., other]
        out[rows, :, places[:, None], places] = half
        out[rows, :, places, places] = alone
    out[:, :, n_features, n_features] = task.expected()
    return out[:, 0] if n_outputs == 1 else out


def background_expected(task: Explained, background: TableReader) -> FloatArray:
    """Return the mean raw score of background rows, float64 (n_outputs,), each sum rounded once."""
    from hornbeam.backends.prediction import predict_raw

    trees = task.trees
    iterations = trees.first // task.booster.trees_per_iteration, task.n_iterations
    if task.n_iterations == 0:
        return task.booster.init_scores.copy()
    device = "reference" if trees.device == "reference" else "cpu"  # few rows, and the same bits everywhere
    with default_mode():
        scores = predict_raw(trees.forest, background, None, *iterations, trees.n_threads, device)
    sums = np.array([math.fsum(of_output) for of_output in scores.tolist()])
    return task.booster.init_scores + sums / (task.divisor * background.n_rows)
