"""Explanations on any device: Shapley values of a forest's raw scores, the same bits everywhere.

trees/shapley/plan.py and trees/shapley/background_game.py say what is computed. The results are sums over trees; who
knows where the scores start, and whether trees are averaged, finishes them (explain/contributions.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends import devices
from hornbeam.backends.prediction import check_predicts, is_gpu
from hornbeam.data.sources.reader import TableReader
from hornbeam.trees.forest import Forest, Reader, fitting
from hornbeam.trees.shapley.plan import ShapleyPlan

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trees:
    """The trees that are explained, on what, and by what.

    first, last   the first one, and one past the last one
    cover         what children have shares of, see shapley_plan.COVERS
    """

    forest: Forest
    first: int
    last: int
    cover: str = "count"
    n_threads: int = 1
    device: str = "cpu"

    @property
    def chosen(self) -> range:
        """The numbers of the trees."""
        return range(self.first, self.last)


def columns_of(forest: Forest, reader: Reader) -> NDArray[np.int64] | None:
    """Return the features that the columns of explanations stand for; None: all of them, in order.

    A sparse table is read, and explained, in the columns alone that the trees look at.
    """
    if isinstance(reader, TableReader) and reader.sparse is not None:
        columns = forest.columns
        return columns if len(columns) else np.zeros(1, np.int64)
    return None


def contributions(trees: Trees, reader: Reader, rows: range) -> FloatArray:
    """Return the path-dependent Shapley values of some rows, float64 (len(rows), n_outputs, n_columns)."""
    check_predicts(trees.device)
    forest, own = fitting(trees.forest, reader)
    out = np.zeros((len(rows), forest.n_outputs, own.n_features))
    _add_path_dependent(trees, forest, own, rows, out, None)
    return out


def interactions(trees: Trees, reader: Reader, rows: range) -> tuple[FloatArray, FloatArray]:
    """Return the path-dependent Shapley values of some rows, and the interactions of every two columns.

    The second array, float64 (len(rows), n_outputs, n_columns, n_columns), has the part of (i, j) that splits of i
    below splits of j bring; what i and j do together is (i, j) + (j, i).
    """
    check_predicts(trees.device)
    forest, own = fitting(trees.forest, reader)
    out = np.zeros((len(rows), forest.n_outputs, own.n_features))
    pairs_out = np.zeros((*out.shape, own.n_features))
    _add_path_dependent(trees, forest, own, rows, out, pairs_out)
    return out, pairs_out


def background_contributions(trees: Trees, reader: Reader, rows: range, background: Reader) -> FloatArray:
    """Return the Shapley values of some rows against background rows, float64 (len(rows), n_outputs, n_columns).

    They are sums over the background rows, which are all held at once as float64.
    """
    check_predicts(trees.device)
    forest, own = fitting(trees.forest, reader)
    table = _background_table(trees.forest, columns_of(trees.forest, reader), background)
    out = np.zeros((len(rows), forest.n_outputs, own.n_features))
    if is_gpu(trees.device):
        from hornbeam.backends.gpu.explanation import games as gpu

        gpu.add_background(forest, own, rows, table, trees.chosen, out, _gpu_name(trees, reader))
    elif trees.device == "cpu":
        from hornbeam.backends.cpu.explanation.background import add_background, games_of

        add_background(games_of(forest), own, rows, table, trees.chosen, out, trees.n_threads)
    else:
        from hornbeam.backends.reference import explain as reference

        block = own.read(rows.start, rows.stop)
        reference.add_background(forest.trees, trees.chosen, forest.n_outputs, block, table, out)
    return out


def tree_means(trees: Trees) -> FloatArray:
    """Return the sums over the trees of their mean values by cover, float64 (n_outputs,)."""
    plan, means = plan_of(trees.forest, trees.cover), np.zeros(trees.forest.n_outputs)
    for number in trees.chosen:
        means[number % trees.forest.n_outputs] += plan.trees[number].mean
    return means


def plan_of(forest: Forest, cover: str) -> ShapleyPlan:
    """Return the plan of a forest; it is kept as long as the Forest lives."""
    return forest.packed_for(f"plan by {cover}", lambda: ShapleyPlan.of_trees(forest.trees, cover))


def _gpu_name(trees: Trees, reader: Reader) -> str:
    """Return the name of the GPU that is meant; one that holds the rows is there, and need not be looked for."""
    is_there = isinstance(reader, TableReader) and reader.device == trees.device
    return trees.device if is_there else devices.choose_device(trees.device)


def _background_table(forest: Forest, columns: NDArray[np.int64] | None, background: Reader) -> FloatArray:
    """Return the background rows in the columns that the explained rows are read in; any kind goes with any other."""
    if columns is None:
        return background.read(0, background.n_rows)
    if columns_of(forest, background) is None:
        return np.ascontiguousarray(background.read(0, background.n_rows)[:, columns])
    own = fitting(forest, background)[1]
    return own.read(0, own.n_rows)


def _add_path_dependent(
    trees: Trees, forest: Forest, reader: Reader, rows: range, out: FloatArray, pairs_out: FloatArray | None
) -> None:
    plan, chosen = plan_of(forest, trees.cover), trees.chosen
    if is_gpu(trees.device):
        from hornbeam.backends.gpu.explanation import walks as gpu

        held = gpu.explainer_on(_gpu_name(trees, reader), forest, plan, trees.cover)
        gpu.add_contributions(held, reader, rows, chosen, out, pairs_out)
    elif trees.device == "cpu":
        from hornbeam.backends.cpu.explanation.contributions import add_contributions, explainer_of

        own = explainer_of(forest, plan, trees.cover)
        add_contributions(own, reader, rows, chosen, out, pairs_out, trees.n_threads)
    else:
        from hornbeam.backends.reference import explain as reference

        block = reader.read(rows.start, rows.stop)
        if pairs_out is None:
            reference.add_contributions(forest.trees, plan, chosen, forest.n_outputs, block, out)
        else:
            reference.add_interactions(forest.trees, plan, chosen, forest.n_outputs, block, out, pairs_out)
