"""How trees add up: gradient boosting, DART and random forests.

    gbdt   every tree is fitted to the gradients at the scores so far, and added times the learning rate
    dart   before each tree some of those before it are dropped: the gradients are those at the scores without them;
           then they come back with less weight, and the new tree too gets less
    rf     every tree is fitted to the gradients at the constant start, and the prediction is the start plus the mean of
           the trees

`train` calls a mode before and after the trees of an iteration and where scores change; see `Boosting`.

DART takes values out of scores and puts them back, thousands of times. So that not a bit is lost on the way, its leaf
values and start scores are multiples of one power of two, fine enough (2**-40 of the largest step that a leaf could
take at the start) and coarse enough for float64 to add them without rounding. Then the order of additions cannot be
seen: scores in training are those of prediction, and going on from a saved model gives the model of one go.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.prediction import add_trees
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.fixed_point import NARROW_GRADIENT_BITS, WIDE_BITS, exponent_above
from hornbeam.core.log import warn
from hornbeam.core.random_choices import Purpose, random_key, uniform
from hornbeam.data.columns import Column, DeviceColumn, StartScores
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics.base import Metric
from hornbeam.params.params import Params
from hornbeam.params.random_parts import check_row_sampling, draws_for_trees
from hornbeam.training.evaluated_sets import EvaluatedSet
from hornbeam.training.state import TrainingState
from hornbeam.trees.forest import Forest, average_scores, fitting
from hornbeam.trees.grown_tree import GrownTree
from hornbeam.trees.records import BinnedTree, ForestMean
from hornbeam.trees.tree import Tree
from hornbeam.trees.tree_in_bins import in_bins

GRID_BITS = 40
"""Bits of the largest step of a leaf at the start. Scores may grow to 2**13 times as much before a bit is lost."""


def check_boosting(params: Params) -> None:
    """Refuse what contradicts itself before training."""
    check_row_sampling(params)
    if params.boosting == "rf" and not draws_for_trees(params):
        raise ParameterError(
            "boosting='rf' with all rows, all features and all thresholds: every tree would be the same; set "
            "bagging_freq=1 and bagging_fraction below 1, feature_fraction below 1, or extra_trees"
        )
    if params.num_parallel_tree > 1 and not draws_for_trees(params):
        warn(
            f"num_parallel_tree={params.num_parallel_tree} with all rows, all features and all thresholds: the trees "
            "of an iteration are the same; set bagging_freq=1 and bagging_fraction below 1, or feature_fraction below "
            "1",
            params.verbosity,
        )


def make_boosting(state: TrainingState) -> Boosting:
    """Return the mode that the parameters ask for."""
    return {"gbdt": Boosting, "dart": Dart, "rf": RandomForest}[state.params.boosting](state)


class Boosting:
    """Gradient boosting; the other modes differ from it in what they override."""

    adds_steps = True
    """Whether trees are added to the training scores as they are grown: with Newton steps, times the learning rate."""

    def __init__(self, state: TrainingState) -> None:
        self.state: TrainingState = weakref.proxy(state)  # else data on a device would wait for garbage collection

    def start_scores(self, dataset: Dataset) -> NDArray[np.float64]:
        """Return the scores before any tree, float64 (n_outputs, n_rows), to which the trees will be added.

        Where they are the same for all rows, they are one number in memory, and not to be written to.
        """
        return self._scores_from(self.state.booster.init_scores, dataset)

    def _scores_from(self, constants: NDArray[np.float64], dataset: Dataset) -> NDArray[np.float64]:
        """Return constants and initial scores of the data, which stand in their place on a DMatrix."""
        scores = np.broadcast_to(constants[:, None], (len(constants), dataset.n_rows))
        if dataset.init_score is None:
            return scores
        self._check_outputs(dataset.init_score)
        return np.array(dataset.init_score) if self.state.train_set.is_xgboosts else scores + dataset.init_score

    def start_on_device(self, dataset: Dataset) -> StartScores | None:
        """Return the same where the initial scores are on the device that trains; None: `start_scores` has to."""
        column = dataset.column("init_score", self.state.engine.device_name)
        if not isinstance(column, DeviceColumn):
            return None
        self._check_outputs(column)
        constants = self.state.booster.init_scores
        return StartScores(np.zeros_like(constants) if self.state.train_set.is_xgboosts else constants, column)

    def _check_outputs(self, init_score: Column) -> None:
        n_outputs = self.state.objective.n_outputs
        if len(init_score) != n_outputs:
            raise DataError(
                f"init_score has {len(init_score)} outputs, but objective {self.state.objective.name!r} has "
                f"{n_outputs}; pass one score a row and output"
            )

    def begin(self, iteration: int, learning_rate: float) -> float:
        """Prepare the gradients of an iteration; returns the factor on its trees."""
        self.state.compute_gradients(iteration)
        return learning_rate

    def add(self, output: int, grown: GrownTree, some_rows: bool) -> None:
        """Add a finished tree to the training scores, whose leaf numbers the engine knows."""
        if some_rows:
            self.state.engine.find_other_leaves(grown.binned)
        if self.state.fitting is None or grown.linear is None:
            self.state.engine.add_leaf_values(output, grown.value_for_engine)
        else:
            self.state.fitting.add_to_training(self.state.engine, output, grown)

    def end(self, trees: list[GrownTree]) -> None:
        """Finish an iteration: its trees are in all scores."""

    def scores(self, entry: EvaluatedSet) -> NDArray[np.float64]:
        """Return the raw scores of a data set as prediction would give them, float64 (n_outputs, n_rows)."""
        engine = self.state.engine
        return engine.scores() if entry.valid < 0 else engine.valid_scores(entry.valid)

    def evaluate(self, entry: EvaluatedSet, metric: Metric) -> list[tuple[str, float]] | None:
        """Evaluate a metric where the scores are; None: the host has to, with `scores`."""
        judged = self.state.objective.of_predictions
        return self.state.engine.evaluate(metric, judged, entry.dataset, entry.valid, self.forest_mean())

    def forest_mean(self) -> ForestMean | None:
        """Say how scores are made of the engine's; None: they are the same."""
        return None


class RandomForest(Boosting):
    """Trees side by side; the engine's training scores stay at the start, those of other sets are sums of trees."""

    adds_steps = False

    def __init__(self, state: TrainingState) -> None:
        super().__init__(state)
        if state.train_set.given("init_score") is not None:
            raise DataError("boosting='rf' averages trees and has no place for init_score; leave it out")
        self._has_gradients = False

    def start_scores(self, dataset: Dataset) -> NDArray[np.float64]:
        """Return zeros: scores are sums of trees."""
        if dataset.given("init_score") is not None:
            raise DataError("boosting='rf' averages trees and has no place for init_score; leave it out")
        return np.zeros((self.state.objective.n_outputs, dataset.n_rows))

    def begin(self, iteration: int, learning_rate: float) -> float:
        """Compute the gradients once: they are those at the start."""
        if not self._has_gradients:
            state = self.state
            state.engine.set_scores(super().start_scores(state.train_set))
            state.compute_gradients(0)  # as in one go, when it is continued
            self._has_gradients = True
        return 1.0

    def add(self, output: int, grown: GrownTree, some_rows: bool) -> None:
        """Leave the training scores at the start."""

    def scores(self, entry: EvaluatedSet) -> NDArray[np.float64]:
        """Return the start plus the mean of the trees."""
        sums = self.state.engine.valid_scores(entry.valid).copy()
        average_scores(sums, self.state.booster.init_scores, self.state.n_iterations)
        return sums

    def forest_mean(self) -> ForestMean:
        """Return the start plus the mean of the trees."""
        return ForestMean(self.state.booster.init_scores, self.state.n_iterations)


class Dart(Boosting):
    """Boosting with dropped trees; see the head of this file for how scores stay exact.

    Any tree of the model may be dropped, those of an init_model too, so that going on gives the model of one go.
    """

    adds_steps = False

    def __init__(self, state: TrainingState) -> None:
        super().__init__(state)
        if any(tree.linear is not None for tree in state.booster.trees):
            raise ParameterError(
                "boosting='dart' on an init_model with linear leaves: trees that are dropped and come back must have "
                "constants in their leaves; use boosting='gbdt'"
            )
        self._dropped: list[int] = []
        self._learning_rate = state.params.learning_rate
        self._binned: dict[int, BinnedTree] = {}  # trees by number; those of an init_model where they have bins
        self._unit = self._find_unit()
        state.booster.init_scores = self._rounded(state.booster.init_scores)
        trees = {i: tree.with_leaf_values(self._rounded(tree.leaf_value)) for i, tree in enumerate(state.booster.trees)}
        state.booster.replace_trees(trees)  # those of DART on the same data are rounded already
        if not any(isinstance(levels, EncodedLevels) for levels in state.train_set.levels or ()):
            binned = {i: in_bins(tree, state.train_set.binned) for i, tree in enumerate(state.booster.trees)}
            self._binned.update({i: tree for i, tree in binned.items() if tree is not None})

    def _find_unit(self) -> float:
        """Return the power of two whose multiples leaf values are: from the gradients at the start.

        That is the start of these data, also where a model is trained on whose start is rounded already: going on
        must find the same unit.
        """
        state = self.state
        start = self._scores_from(state.first_scores(), state.train_set)
        state.engine.set_scores(start)
        state.compute_gradients(0)
        largest = 0.0
        if state.objective.renewal_percentile is not None and state.train_set.label is not None:
            label = state.train_set.label if state.train_set.n_targets == 1 else state.train_set.label.T
            largest = float(np.max(np.abs(label - start)))  # a leaf's value may be any residual
        for output in range(state.objective.n_outputs):
            how = state.engine.quantize(output, False)
            root = state.engine.begin_tree(state.grower.n_slots)
            step = how.gradient_unit * 2.0 ** (WIDE_BITS if how.wide else NARROW_GRADIENT_BITS)
            if root.hessian > 0:
                largest = max(largest, step * root.n_rows / (root.hessian * how.hessian_unit))
        return 2.0 ** (exponent_above(largest) - GRID_BITS) if largest > 0.0 else 2.0**-GRID_BITS

    def _rounded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.rint(values / self._unit) * self._unit)

    def start_on_device(self, dataset: Dataset) -> None:
        """Leave it to the host, where scores are rounded."""

    def start_scores(self, dataset: Dataset) -> NDArray[np.float64]:
        """Return the rounded scores."""
        return self._rounded(super().start_scores(dataset))

    def begin(self, iteration: int, learning_rate: float) -> float:
        """Drop trees and compute the gradients without them."""
        state, params = self.state, self.state.params
        state.finish_trees()
        self._learning_rate = learning_rate
        self._dropped = self.choose(iteration)
        for number in self._tree_numbers():
            self._add_to_training(number, -state.booster.trees[number].leaf_value)
        state.compute_gradients(iteration)
        n_dropped = len(self._dropped)
        if params.xgboost_dart_mode:
            others = 1 if params.xgboost_dart_forest else n_dropped
            return learning_rate / (learning_rate + others) if n_dropped else learning_rate
        return learning_rate / (1.0 + n_dropped)

    def choose(self, iteration: int) -> list[int]:
        """Choose the iterations to drop, with LightGBM's chances."""
        state, params = self.state, self.state.params
        n_before = state.booster.n_iterations
        chance = uniform(random_key(params.seed, Purpose.DROP, iteration, params.drop_seed), np.arange(n_before + 2))
        if n_before == 0 or chance[0] < params.skip_drop:
            return []
        rate, weights = params.drop_rate, [1.0] * n_before
        if params.uniform_drop:
            if params.max_drop > 0:
                rate = min(rate, params.max_drop / n_before)
        else:
            weights = [tree.shrinkage for tree in state.booster.trees[:: state.booster.n_outputs]]
            total = sum(weights)
            if params.max_drop > 0:
                rate = min(rate, params.max_drop * (n_before / total) / total)
            weights = [weight * (n_before / total) for weight in weights]
        dropped = [i for i, weight in enumerate(weights) if chance[i + 1] < rate * weight]
        if params.one_drop and not dropped:
            reach, passed = chance[n_before + 1] * sum(weights), list(accumulate(weights))
            return [next((i for i, so_far in enumerate(passed) if reach < so_far), n_before - 1)]
        return dropped[: params.max_drop] if params.max_drop > 0 else dropped

    def _tree_numbers(self) -> list[int]:
        n_outputs = self.state.booster.n_outputs
        return [i * n_outputs + output for i in self._dropped for output in range(n_outputs)]

    def add(self, output: int, grown: GrownTree, some_rows: bool) -> None:
        """Round the values of a new tree, and add it; a lone leaf would stand in for dropped trees, which come back."""
        stands_in = bool(self._dropped) and grown.n_splits == 0
        grown.leaf_value = np.zeros(1) if stands_in else self._rounded(grown.leaf_value)
        super().add(output, grown, some_rows)
        self._binned[self.state.n_iterations * self.state.booster.n_outputs + output] = grown.binned

    def end(self, trees: list[GrownTree]) -> None:
        """Bring the dropped trees back, with less weight if the new trees take any."""
        state, k = self.state, len(self._dropped)
        others = 1 if state.params.xgboost_dart_mode and state.params.xgboost_dart_forest else k
        factor = others / (others + (self._learning_rate if state.params.xgboost_dart_mode else 1.0))
        if not any(grown.n_splits for grown in trees):
            factor = 1.0  # nothing was learned that could stand in for them
        weakened: dict[int, Tree] = {}
        for number in self._tree_numbers():
            tree = state.booster.trees[number]
            values = self._rounded(tree.leaf_value * factor)
            self._add_to_training(number, values)
            for entry in state.evaluated:
                if entry.valid >= 0:
                    self._add_to_valid(entry, number, values - tree.leaf_value)
            weakened[number] = replace(
                tree, leaf_value=values, split_value=tree.split_value * factor, shrinkage=tree.shrinkage * factor
            )
        state.booster.replace_trees(weakened)

    def _add_to_training(self, number: int, values: NDArray[np.float64]) -> None:
        """Add a tree of the model to the training scores, with other leaf values."""
        state, output = self.state, number % self.state.booster.n_outputs
        if number in self._binned:
            state.engine.add_tree(-1, output, replace(self._binned[number], leaf_value=values))
            return
        scores = np.array(state.engine.scores())
        self._add_tree(state.booster.trees[number], values, state.train_set, scores[output])
        state.engine.set_scores(scores)

    def _add_to_valid(self, entry: EvaluatedSet, number: int, values: NDArray[np.float64]) -> None:
        """Add a tree of the model to the scores of a validation set, with other leaf values."""
        state, output = self.state, number % self.state.booster.n_outputs
        if number in self._binned:
            state.engine.add_tree(entry.valid, output, replace(self._binned[number], leaf_value=values))
            return
        scores = np.array(state.engine.valid_scores(entry.valid))
        self._add_tree(state.booster.trees[number], values, entry.dataset, scores[output])
        state.engine.set_scores(scores, entry.valid)

    def _add_tree(self, tree: Tree, values: NDArray[np.float64], dataset: Dataset, scores: NDArray[np.float64]) -> None:
        """Add a tree that is known by thresholds alone, on the host."""
        for rows, piece in dataset.pieces():
            forest, reader = fitting(Forest([tree.with_leaf_values(values)]), piece)
            add_trees(forest, reader, 0, 1, scores[None, rows], self.state.n_threads, self.state.engine.host_device)
