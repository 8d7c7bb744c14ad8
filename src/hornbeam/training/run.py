"""What an iteration of a training does.

scores -> gradients                                                         per iteration
choose rows (row_sampling.py)                                               per parallel tree
gradients -> quantize -> grow a tree (trees/grower.py) -> scores            per parallel tree and output
scores of the validation sets -> metrics                                    per iteration
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from hornbeam.backends.evaluation import arithmetic_on
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.dataset.dataset import Dataset
from hornbeam.training.boosting import make_boosting
from hornbeam.training.checkpoints import describe_evaluation, enter_history
from hornbeam.training.evaluated_sets import TRAINING, EvaluatedSet
from hornbeam.training.evaluations import Evaluation
from hornbeam.training.function_calls import MetricFunction, check_names, evaluate_metric
from hornbeam.training.start_scores import start_scores
from hornbeam.training.state import TrainingState
from hornbeam.training.xgboost_arguments import metric_name
from hornbeam.trees.grown_tree import GrownTree
from hornbeam.trees.output_grower import SharedStructure


class TrainingRun:
    """A training under way: its state, and the boosting mode that moves it.

    valid_sets  data sets to evaluate, by name; the state has checked them
    """

    def __init__(self, state: TrainingState, valid_sets: Mapping[str, Dataset]) -> None:
        self.state = state
        try:
            self.boosting = make_boosting(state)
            state.engine.set_scores(start_scores(state, self.boosting, state.train_set))
            for name, dataset in valid_sets.items():
                self.add_valid_set(name, dataset)
        except BaseException:
            state.engine.close()
            raise

    def add_valid_set(self, name: str, dataset: Dataset) -> EvaluatedSet:
        """Enter a data set to evaluate."""
        state, valid = self.state, -1
        if state.check_evaluated(name, dataset):
            valid = state.engine.add_valid(dataset.binned, start_scores(state, self.boosting, dataset))
        entry = EvaluatedSet(name, dataset, valid, dataset is state.train_set)
        state.evaluated.append(entry)
        return entry

    def add_new_set(self, name: str, dataset: Any) -> EvaluatedSet:
        """Enter a data set in the middle of a training; one that is there already is not entered again."""
        if not isinstance(dataset, Dataset):
            raise DataError(f"a validation set must be a hornbeam.Dataset, not {type(dataset).__name__}")
        every = self.state.evaluated
        is_training = dataset is self.state.train_set
        there = [one for one in every if (one.is_training if is_training else one.dataset is dataset)]
        if there:
            return there[0]
        if any(one.name == name for one in every):
            raise ParameterError(f"there is a validation set {name!r} already; give every set a name of its own")
        return self.add_valid_set(name, dataset)

    def boost_once(self, learning_rate: float) -> list[GrownTree]:
        """Grow the trees of an iteration and update all scores."""
        state, n_parallel = self.state, self.state.params.num_parallel_tree
        rate = self.boosting.begin(state.n_iterations, learning_rate) / n_parallel
        trees: list[GrownTree] = []
        for turn in range(n_parallel):
            trees += self._grow_side(state.n_iterations * n_parallel + turn, rate, learning_rate)
        self.boosting.end(trees)
        state.n_iterations += 1
        return trees

    def _grow_side(self, number: int, rate: float, learning_rate: float) -> list[GrownTree]:
        """Grow one tree for each output at the gradients there are, and add it to all scores.

        number  key of random choices: the iteration, or the turn among all of them where trees are grown side by side
        """
        state = self.state
        some_rows = state.sampler.choose(state.engine, number, learning_rate)
        shared = self._grow_shared(number, rate)
        at_once = () if some_rows or shared is not None else self._grow_at_once(rate)
        trees = []
        for output in range(state.objective.n_outputs):
            grown = at_once[output] if at_once else None
            if shared is not None:
                assert state.output_grower is not None
                grown = state.output_grower.tree(shared, output, rate, state.renewal(output))
                self.boosting.add(output, grown, some_rows)
            if grown is None:
                if state.plan.by_tree < 1.0:
                    state.engine.choose_features(state.plan.tree_features(number, output))
                quantization = state.engine.quantize(output, state.params.precision == "high")
                grown = state.grower.grow(quantization, rate, number, output, state.renewal(output))
                if state.fitting is not None:
                    state.fitting.fit(state.engine, grown, state.n_iterations)
                self.boosting.add(output, grown, some_rows)
            for entry in state.evaluated:
                if entry.valid >= 0:
                    self._add_to_valid(entry, output, grown)
            trees.append(grown)
        return trees

    def _grow_shared(self, number: int, rate: float) -> SharedStructure | None:
        """Grow a tree that all outputs share; None: every output has trees of its own."""
        state = self.state
        if state.output_grower is None:
            return None
        if state.plan.by_tree < 1.0:
            state.engine.choose_features(state.plan.tree_features(number, 0))
        is_renewed = any(state.renewal(output) is not None for output in range(state.objective.n_outputs))
        return state.output_grower.grow(
            state.params.precision == "high", None if is_renewed else rate, state.grower.while_waiting
        )

    def _add_to_valid(self, entry: EvaluatedSet, output: int, grown: GrownTree) -> None:
        """Add a tree to the scores of a validation set."""
        state = self.state
        if state.fitting is None or grown.linear is None:
            state.engine.add_tree(entry.valid, output, grown.binned)
        else:
            state.fitting.add_to_valid(state.engine, output, grown, entry.dataset, entry.valid)

    def _grow_at_once(self, rate: float) -> Sequence[GrownTree | None]:
        """Grow trees of all rows and features for all outputs at once, where the engine can: grower.grow_outputs."""
        state = self.state
        if not self.boosting.adds_steps or state.plan.by_tree < 1.0 or state.params.precision == "high":
            return ()
        if state.fitting is not None:
            return ()
        return () if state.objective.renewal_percentile is not None else state.grower.grow_outputs(rate)

    def evaluate(self, functions: list[MetricFunction]) -> list[Evaluation]:
        """Evaluate every metric on every set, and enter the values into the history."""
        results = [result for entry in self.state.evaluated for result in self.evaluate_set(entry, functions)]
        enter_history(self.state.booster, results)
        return results

    def evaluate_now(self, is_training: bool, functions: list[MetricFunction]) -> list[Evaluation]:
        """Evaluate the training set, whether or not it is among those to evaluate, or all others."""
        state = self.state
        sets = [entry for entry in state.evaluated if entry.is_training == is_training]
        if is_training and not sets:
            if state.check_evaluated(TRAINING, state.train_set):
                raise ParameterError(
                    "eval_train with boosting='rf' needs the training set in valid_sets; pass it there"
                )
            sets = [EvaluatedSet(TRAINING, state.train_set, -1, True)]
        return [result for entry in sets for result in self.evaluate_set(entry, functions)]

    def evaluate_set(self, entry: EvaluatedSet, functions: list[MetricFunction]) -> list[Evaluation]:
        """Evaluate every metric on one set."""
        state, dataset, results = self.state, entry.dataset, []
        scores = cache(partial(self.boosting.scores, entry))
        arithmetic = arithmetic_on(state.engine.host_device, state.n_threads)
        for metric in state.metrics:
            values = self.boosting.evaluate(entry, metric)
            if values is None:
                values = metric.evaluate(dataset, scores(), state.objective.of_predictions, arithmetic)
            results += [
                Evaluation(entry.name, metric_name(name, metric, state.train_set), value, metric.higher_is_better)
                for name, value in values
            ]
        for function in functions:
            given = state.engine, state.objective, dataset, entry.valid, self.boosting.forest_mean(), scores
            results += [Evaluation(entry.name, *found) for found in evaluate_metric(function, *given)]
        if functions:
            check_names([result.metric for result in results])
        return results

    def describe_evaluation(self, functions: list[MetricFunction]) -> dict[str, Any]:
        """Return what makes the evaluations comparable from iteration to iteration, for checkpoints."""
        state = self.state
        names = [f"{metric.name}{getattr(metric, 'at', '')}" for metric in state.metrics]
        names += [getattr(function, "__name__", type(function).__name__) for function in functions]
        return describe_evaluation(state.params, names, {entry.name: entry.dataset for entry in state.evaluated})
