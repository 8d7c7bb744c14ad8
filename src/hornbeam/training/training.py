"""`train`: the boosting loop.

scores -> gradients -> choose rows (row_sampling.py)                        per iteration
gradients -> quantize -> grow a tree (grower.py) -> scores                  per output
scores of the validation sets -> metrics -> callbacks                       per iteration
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

from hornbeam.backends.demand import Demand
from hornbeam.backends.registry import make_engine
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.log import inform, speaking, warn
from hornbeam.data.columns import check_domain, column_on
from hornbeam.data.levels import extended_levels, level_codes
from hornbeam.data.target_encoding import describe_encoding
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import Metric, get_metrics
from hornbeam.model.booster import Booster
from hornbeam.model.file import ModelData
from hornbeam.objectives import CustomObjective, Objective, get_objective
from hornbeam.objectives.device_functions import is_on_device
from hornbeam.params.params import Params, whole_number
from hornbeam.params.peer_arguments import TRAIN, takes_peer_arguments
from hornbeam.training.boosting import check_boosting, make_boosting
from hornbeam.training.callbacks import Callback, CallbackEnv, EarlyStopException, Evaluation, close, finish, prepare
from hornbeam.training.checkpoints import Checkpoints, Stopped, describe_evaluation, describe_run, enter_history
from hornbeam.training.convergence import has_converged
from hornbeam.training.evaluated_sets import EvaluatedSet, ValidSets, check_valid, named_sets
from hornbeam.training.function_calls import MetricFunction, check_names, compute_gradients, evaluate_metric
from hornbeam.training.idle_parameters import warn_of_idle
from hornbeam.training.init_model import check_reading, check_start, model_to_train_on
from hornbeam.training.row_sampling import RowSampler, samples_rows
from hornbeam.training.start_scores import first_scores, label_sums, start_scores
from hornbeam.trees.contexts import ContextPlan
from hornbeam.trees.engine import Engine
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.grower import Renewal, TreeGrower
from hornbeam.trees.grown_tree import GrownTree
from hornbeam.trees.histogram_pool import DEFAULT_BYTES, STORED_BYTES, count_slots
from hornbeam.trees.splitting import SplitRules


@takes_peer_arguments(TRAIN)
def train(
    params: Mapping[str, Any] | Params | None,
    train_set: Dataset,
    num_boost_round: int | None = None,
    valid_sets: ValidSets = None,
    valid_names: Sequence[str] | str | None = None,
    feval: MetricFunction | Sequence[MetricFunction] | None = None,
    init_model: Booster | str | os.PathLike[str] | None = None,
    *,
    callbacks: Sequence[Callback] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_freq: int = 10,
) -> Booster:
    """Train a model.

    Names that LightGBM and XGBoost have for the arguments are understood too, see peer_arguments.py.

    Parameters
    ----------
    params
        Parameters by name or alias, see docs/parameters.md.
    train_set
        Training data.
    num_boost_round
        Number of iterations; None: `num_iterations` of the parameters (100).
    valid_sets
        Data to evaluate after each iteration: dict of names and Datasets, list of Datasets or of pairs (Dataset, name),
        or one Dataset. They should be made with `reference=train_set`; one that is not binned yet takes the training
        set's bins by itself.
    valid_names
        Names for a list of Datasets; None: valid_0, valid_1, ...
    feval
        Further metrics: function(predictions, dataset) -> (name, value, higher_is_better), or a list of such.
        Predictions are raw scores with a custom objective. NumPy arrays, or arrays of the device: see `on_device`.
    init_model
        Booster or model file to train on: the result has its trees and the new ones, as if trained in one go. After
        early stopping that is the trees up to the best iteration, those that it predicts with.
    callbacks
        See hornbeam.training.callbacks.
    checkpoint
        File to keep the state of the training in. If it exists, training goes on from there and ends with the model of
        one go; `num_boost_round` counts from the first begin. One of another training (other parameters or data) and a
        damaged one are errors. It stays when training is over.
    checkpoint_freq
        Iterations from one writing of the file to the next; it is written at the end too, and after Ctrl-C.

    Returns
    -------
    Booster
        After Ctrl-C too, with the iterations finished so far and `interrupted` set; before the first is finished the
        KeyboardInterrupt goes on.
    """
    params = params if isinstance(params, Params) else Params.from_dict(params)
    if not isinstance(train_set, Dataset):
        raise DataError(
            f"train_set must be a hornbeam.Dataset, not {type(train_set).__name__}; wrap it: Dataset(X, label=y)"
        )
    n_rounds = number_of_rounds(params, num_boost_round, 0)
    start = model_to_train_on(init_model)
    check_boosting(params)
    checkpoints = None if checkpoint is None else Checkpoints(checkpoint, checkpoint_freq)
    named = named_sets(valid_sets, valid_names, train_set)
    with speaking(params.verbosity):
        run = TrainingRun(params, train_set, start, checkpoints, named)
        try:
            run.add_valid_sets(named, None)
            warn_of_idle(run, bool(feval))
            run.inform_of_encoding()
            run.boost(n_rounds, feval, callbacks)
        finally:
            run.engine.close()
    return run.booster


def number_of_rounds(params: Params, num_boost_round: int | None, low: int) -> int:
    """Return the number of iterations, from the argument or the parameters; where both say one, they must agree."""
    if num_boost_round is None:
        return whole_number(params.num_iterations, "num_iterations", low)
    n_rounds = whole_number(num_boost_round, "num_boost_round", low)
    if "num_iterations" in params.given and params.num_iterations != n_rounds:
        raise ParameterError(
            f"num_boost_round={n_rounds}, but the parameters say num_iterations={params.num_iterations}; give one of "
            "them (LightGBM would take the parameter, XGBoost the argument)"
        )
    return n_rounds


class TrainingRun:
    """One call of `train`: the engine, the growing Booster, and what is evaluated.

    Parameters
    ----------
    params, train_set, start, checkpoints
        See `train`.
    valid_sets
        Sets that `add_valid_sets` will be given: they are checked, and what they take is counted, before the engine
        takes any memory.
    """

    train_set: Dataset
    plan: ContextPlan
    _label: Any  # columns.Column or None, like the following two
    _weight: Any
    _renewal_weight: Any

    def __init__(
        self,
        params: Params,
        train_set: Dataset,
        start: Booster | None,
        checkpoints: Checkpoints | None = None,
        valid_sets: Mapping[str, Dataset] | None = None,
    ) -> None:
        self.params = params
        self.checkpoints = checkpoints
        self.train_set: Dataset = train_set
        self.objective: Objective = get_objective(params)
        check_domain(self.objective, train_set.given("label"))
        self.objective = self.objective.bind(train_set)
        params = self.params = self._settled(params)
        self.metrics: list[Metric] = get_metrics(params, self.objective)
        if start is not None:
            check_start(start, train_set, params, self.objective)
        train_set.construct(params, None if start is None else start.levels)
        self._check_encoding()
        params = self.params = params.replace(**vars(train_set.bin_params))  # the model keeps what the bins came from
        if start is not None:
            check_reading(start, train_set, params)
        if checkpoints is not None:
            start = checkpoints.start_from(describe_run(params, self.objective.to_dict(), train_set, start), start)
        named, used = train_set.feature_names, train_set.binned.used
        n_numeric, categorical = train_set.binned.n_numeric, train_set.categorical_features
        self.plan: ContextPlan = ContextPlan(params, named, used, n_numeric, categorical)  # bad constraints raise here
        self.sampler = RowSampler(params, train_set)
        self._prepare_labels()
        in_use = not isinstance(self.objective, CustomObjective) or is_on_device(self.objective.function)
        given = (self._label, self._weight) if in_use else ()
        self._checked: list[Dataset] = []
        scored = [dataset for name, dataset in (valid_sets or {}).items() if self._check_evaluated(name, dataset)]
        demand = Demand.of(
            params, train_set.binned, self.objective, self._renewal_weight, *given, *self.sampler.given,
            valid_sets=[dataset.binned for dataset in scored], plan=self.plan,
        )  # fmt: skip
        self.engine: Engine = make_engine(train_set.binned, params, demand)
        try:
            where = self.engine.device_name
            self._label, self._weight = column_on(self._label, where), column_on(self._weight, where)
            self._renewal_weight = column_on(self._renewal_weight, where)
            self._begin(start)
        except BaseException:
            self.engine.close()
            raise

    def _settled(self, params: Params) -> Params:
        """Return the parameters with values for those that the user leaves open and the objective chooses by data."""
        sums = label_sums(self.train_set)
        chosen = {} if sums is None else self.objective.open_values(sums)
        settled = params.settle(chosen)
        if settled is not params:
            values = ", ".join(f"{name}={value:g}" for name, value in chosen.items() if getattr(params, name) is None)
            inform(f"objective {self.objective.name!r} on these labels: {values}", params.verbosity)
        return settled

    def _begin(self, start: Booster | None) -> None:
        """Make what grows: the Booster, the grower, the scores."""
        params, train_set = self.params, self.train_set
        self.booster = self._new_booster(start)
        self.n_iterations = self.booster.n_iterations
        """Iterations finished so far, whether or not their trees are in the Booster already."""
        self.evaluated: list[EvaluatedSet] = []
        binned = train_set.binned
        limit = DEFAULT_BYTES if binned.stored is None else STORED_BYTES
        n_slots = count_slots(params.num_leaves, self.engine.slot_bytes, params.histogram_pool_size, limit)
        self._unfinished: list[GrownTree] = []
        self.grower = TreeGrower(
            self.engine, binned, SplitRules.from_params(params), GrowthLimits.of(params), n_slots, self.plan
        )
        self.grower.level_codes = level_codes(self.booster.levels, train_set.levels)
        self.boosting = make_boosting(self)
        self.engine.set_scores(start_scores(self, train_set))
        self.changes: dict[str, Any] = {}  # parameters that differ from self.params at present

    def _prepare_labels(self) -> None:
        """Bring labels and weights into the form that gradients and the renewal of leaves take.

        Those on a device stay there, unless they have to be computed anew.
        """
        objective, renewed = self.objective, self.objective.renewal_percentile is not None
        self._label = self.train_set.given("label")
        self._weight = self.train_set.given("weight")
        self._renewal_weight = self._weight if renewed else None
        if self._label is not None and (objective.prepares or (renewed and objective.renewal_weights_by_label)):
            self._label, self._weight = objective.prepare(self.train_set.label, self.train_set.weight)  # type: ignore[arg-type]
            if renewed:
                self._renewal_weight = objective.renewal_weights(self._label, self._weight)

    def _renewal(self, output: int) -> Renewal | None:
        """Return what makes the leaf values of one output, where the objective has them renewed."""
        percentile, label, logcosh = self.objective.renewal_percentile, self._label, self.objective.renews_to_logcosh
        if percentile is None or label is None:
            return None
        return lambda n_leaves: self.engine.renew_leaves(
            output, percentile, label, self._renewal_weight, n_leaves, logcosh
        )

    def _check_encoding(self) -> None:
        """Check that categorical features are replaced by mean labels only where labels have a mean."""
        params, encoded = self.params, self.train_set.encoded_features
        if params.num_class > 1 and encoded:
            names = ", ".join(repr(self.train_set.feature_names[feature]) for feature in encoded[:5])
            raise DataError(
                f"train_set is binned with the mean labels of categorical features ({names}), and classes have no "
                "mean; leave the binning to train, or make the Dataset with target_encoding_levels=-1"
            )

    def inform_of_encoding(self) -> None:
        """Say which categorical features became numbers, for LightGBM would keep them."""
        data, params = self.train_set, self.params
        text = describe_encoding(data.levels, data.feature_names, params.target_encoding_levels)
        if text is not None:
            inform(text, params.verbosity)

    def _new_booster(self, start: Booster | None) -> Booster:
        """Make the Booster that will grow: empty, or a copy of the model to train on."""
        levels = self.train_set.levels
        if start is not None:
            levels = extended_levels(start.levels, levels, self.train_set.feature_names)
            init_scores, trees = start.init_scores.tolist(), list(start.trees)
        else:
            init_scores = first_scores(self.objective, self.train_set, self.engine.device_name).tolist()
            trees = []
        booster = Booster(
            ModelData(
                feature_names=self.train_set.feature_names,
                n_outputs=self.objective.n_outputs,
                objective=self.objective.to_dict(),
                params=self.params.model_dict(),
                init_scores=init_scores,
                trees=trees,
                levels=levels,
            )
        )
        booster.num_threads = self.params.num_threads
        return booster

    def add_valid_sets(self, valid_sets: ValidSets, names: Sequence[str] | str | None) -> None:
        """Enter the data sets to evaluate."""
        for name, dataset in named_sets(valid_sets, names, self.train_set).items():
            is_scored = self._check_evaluated(name, dataset)
            valid = self.engine.add_valid(dataset.binned, start_scores(self, dataset)) if is_scored else -1
            self.evaluated.append(EvaluatedSet(name, dataset, valid, dataset is self.train_set))

    def _check_evaluated(self, name: str, dataset: Dataset) -> bool:
        """Check and bin a data set to evaluate, once; returns whether the engine will keep scores for it."""
        is_training = dataset is self.train_set
        if not any(dataset is other for other in self._checked):
            if not is_training:
                check_valid(name, dataset, self.train_set, self.params, self.objective)
            for metric in self.metrics:
                metric.check(dataset, f"valid_sets[{name!r}]")
            self._checked.append(dataset)
        return not is_training or self.params.boosting == "rf"  # a forest's training scores stay at the start

    def boost(
        self,
        n_rounds: int,
        feval: MetricFunction | Sequence[MetricFunction] | None,
        callbacks: Sequence[Callback] | None,
    ) -> None:
        """Run the iterations."""
        functions = [feval] if callable(feval) else list(feval or [])
        others = [entry.name for entry in self.evaluated if not entry.is_training]
        only_training = bool(self.evaluated) and not others
        all_callbacks = prepare(callbacks, self.params, others, bool(self.metrics or functions), only_training)
        before = [callback for callback in all_callbacks if getattr(callback, "before_iteration", False)]
        after = [callback for callback in all_callbacks if not getattr(callback, "before_iteration", False)]
        begin = first = self.booster.n_iterations
        checkpoints = self.checkpoints
        if checkpoints is not None:
            begin = checkpoints.begin(n_rounds, self.describe_evaluation(functions), self.booster)
        training = frozenset(entry.name for entry in self.evaluated if entry.is_training)
        env = CallbackEnv(
            self.booster, begin, begin, begin + n_rounds, self.params.learning_rate, training_names=training,
            params=self.params.to_dict(),
        )  # fmt: skip
        self.grower.while_waiting = None if before else self.finish_trees
        calling: Callback | None = None
        try:
            if checkpoints is not None:
                if first > begin:
                    inform(f"going on after {first - begin} iterations of the checkpoint", self.params.verbosity)
                checkpoints.replay(env, after, self.booster)
            for iteration in range(first, begin + n_rounds):
                env.begin(iteration, self.params.learning_rate)
                for calling in before:
                    calling(env)
                calling = None
                self.change(env.changes)
                trees = self.boost_once(env.learning_rate)
                if has_converged(self.params, self.changes, trees):
                    self.finish_trees()
                    inform(
                        f"training ends after {iteration} iterations: no split gains anything any more",
                        self.params.verbosity,
                    )
                    if not self.booster.eval_history:
                        env.evaluation_result_list = self.evaluate(functions)
                        for calling in after if env.evaluation_result_list else []:
                            calling(env)
                        calling = None
                    finish(after)
                    break
                self.finish_trees()  # those of the iteration before, where no device gave time for them
                self._unfinished += trees
                if after:
                    self.finish_trees()
                last = iteration == begin + n_rounds - 1
                if last or (iteration + 1) % self.params.metric_freq == 0:
                    env.evaluation_result_list = self.evaluate(functions)
                    if checkpoints is not None:
                        checkpoints.evaluated(iteration, env.evaluation_result_list)
                for calling in after:
                    calling(env)
                calling = None
                if checkpoints is not None:
                    self._checkpoint(checkpoints)
            if checkpoints is not None:
                self.finish_trees()
                checkpoints.write(self.booster)
        except EarlyStopException as stop:
            if checkpoints is not None:
                if calling is not None and not getattr(calling, "replayed", False):
                    checkpoints.stopped = Stopped(stop.best_iteration, stop.best_score)
                self.finish_trees()
                checkpoints.done(self.booster, self.booster.n_iterations, self.params.boosting == "dart")
                checkpoints.write(self.booster)
            self._enter_best(stop)
        except KeyboardInterrupt:
            self.finish_trees()
            if self.booster.n_iterations == begin:
                raise
            self.booster.interrupted = True
            if checkpoints is not None:
                checkpoints.write(self.booster)
            try:
                finish(after)
            except EarlyStopException as stop:
                self._enter_best(stop)
            warn(
                f"interrupted: returning the {self.booster.n_iterations} iterations finished so far",
                self.params.verbosity,
            )
        finally:
            self.grower.while_waiting = None
            self.finish_trees()
            close(all_callbacks)
        if not self.booster.best_score:
            self.booster.best_score = {
                name: {metric: values[-1] for metric, values in metrics.items()}
                for name, metrics in self.booster.eval_history.items()
            }

    def _enter_best(self, stop: EarlyStopException) -> None:
        """Enter what early stopping found best into the Booster."""
        self.booster.best_iteration = min(stop.best_iteration + 1, self.booster.n_iterations)
        for result in stop.best_score:
            self.booster.best_score.setdefault(result.dataset, {})[result.metric] = result.value

    def describe_evaluation(self, functions: list[MetricFunction]) -> dict[str, Any]:
        """Return what makes the evaluations comparable from iteration to iteration, for checkpoints."""
        names = [f"{metric.name}{getattr(metric, 'at', '')}" for metric in self.metrics]
        names += [getattr(function, "__name__", type(function).__name__) for function in functions]
        return describe_evaluation(self.params, names, {entry.name: entry.dataset for entry in self.evaluated})

    def _checkpoint(self, checkpoints: Checkpoints) -> None:
        """Note that an iteration is done, with everything that belongs to it, and write a checkpoint if one is due."""
        changes_trees = self.params.boosting == "dart"
        if changes_trees:
            self.finish_trees()
        n_iterations = (len(self.booster.trees) + len(self._unfinished)) // self.booster.n_outputs
        if checkpoints.done(self.booster, n_iterations, changes_trees):
            self.finish_trees()
            checkpoints.write(self.booster)

    def finish_trees(self) -> None:
        """Enter the trees grown so far into the Booster; their arrays are made now, at the latest."""
        trees, self._unfinished = self._unfinished, []
        self.booster.trees.extend(grown.tree for grown in trees)

    def change(self, changes: dict[str, Any]) -> None:
        """Grow the trees to come by other values of some parameters (those in callbacks.RESETTABLE); {}: as before."""
        if changes == self.changes:
            return
        params = self.params.replace(**changes)
        if samples_rows(params) and not samples_rows(self.params):
            raise ParameterError(
                "bagging_fraction can change in a training that has bagging: set bagging_freq to 1 or more, and "
                "bagging_fraction below 1 in the parameters"
            )
        self.changes = dict(changes)
        self.sampler = RowSampler(params, self.train_set)
        if not samples_rows(params):
            self.engine.choose_rows(None)
        self.plan.by_tree = params.feature_fraction
        if params.feature_fraction == 1.0:
            self.engine.choose_features(None)
        self.grower.rules = SplitRules.from_params(params)
        self.grower.limits = GrowthLimits.of(params)

    def boost_once(self, learning_rate: float) -> list[GrownTree]:
        """Grow one tree for each output and update all scores."""
        rate = self.boosting.begin(self.n_iterations, learning_rate)
        some_rows = self.sampler.choose(self.engine, self.n_iterations, learning_rate)
        trees = []
        for output in range(self.objective.n_outputs):
            if self.plan.by_tree < 1.0:
                self.engine.choose_features(self.plan.tree_features(self.n_iterations, output))
            quantization = self.engine.quantize(output, self.params.precision == "high")
            grown = self.grower.grow(quantization, rate, self.n_iterations, output, self._renewal(output))
            self.boosting.add(output, grown, some_rows)
            for entry in self.evaluated:
                if entry.valid >= 0:
                    self.engine.add_tree(entry.valid, output, grown.binned)
            trees.append(grown)
        self.boosting.end(trees)
        self.n_iterations += 1
        return trees

    def compute_gradients(self, iteration: int) -> None:
        """Compute gradients and hessians at the engine's scores."""
        self.objective.begin_iteration(iteration)
        if isinstance(self.objective, CustomObjective):
            compute_gradients(self.engine, self.objective, self.train_set)
        else:
            assert self._label is not None
            self.engine.compute_gradients(self.objective, self._label, self._weight)

    @cached_property
    def n_threads(self) -> int:
        """Threads of what runs on the host, whatever the device."""
        from hornbeam.backends.cpu.host.threads import resolve_threads

        return resolve_threads(self.params.num_threads)

    def evaluate(self, functions: list[MetricFunction]) -> list[Evaluation]:
        """Evaluate every metric on every set, and enter the values into the history."""
        n_threads, results = self.n_threads, []
        for entry in self.evaluated:
            dataset, valid = entry.dataset, entry.valid
            scores = cache(partial(self.boosting.scores, entry))
            for metric in self.metrics:
                values = self.boosting.evaluate(entry, metric)
                if values is None:
                    values = metric.evaluate(dataset, scores(), self.objective, n_threads)
                results += [Evaluation(entry.name, *pair, metric.higher_is_better) for pair in values]
            for function in functions:
                given = self.engine, self.objective, dataset, valid, self.boosting.forest_mean(), scores
                results += [Evaluation(entry.name, *found) for found in evaluate_metric(function, *given)]
            if functions:
                check_names([result.metric for result in results if result.dataset == entry.name])
        enter_history(self.booster, results)
        return results
