"""What one training has: parameters, data, objective, engine, grower, and the model that grows.

Made in one go, so that everything wrong with parameters and data is said before the engine takes memory; run.py has
what an iteration does with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.columns import first_scores, label_sums
from hornbeam.backends.demand import Demand
from hornbeam.backends.engines import EngineMaker, make_engine
from hornbeam.backends.gradients import compute_gradients as compute_on_host
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.lazy import lazy
from hornbeam.core.log import inform
from hornbeam.data.columns import column_on
from hornbeam.data.levels import extended_levels, level_codes
from hornbeam.data.target_encoding import describe_encoding
from hornbeam.dataset.agreement import with_feature_weights
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import Metric, get_metrics
from hornbeam.model.booster import Booster
from hornbeam.model.file import ModelData
from hornbeam.objectives import AftObjective, CustomObjective, LambdarankObjective, Objective, get_objective
from hornbeam.objectives.chosen_pairs import ChosenPairs
from hornbeam.objectives.device_functions import is_on_device
from hornbeam.objectives.position_bias import PositionBias
from hornbeam.objectives.targets import of_output
from hornbeam.params.given import GivenParams
from hornbeam.params.objective_names import FunctionBeside
from hornbeam.params.params import Params
from hornbeam.params.random_parts import samples_rows
from hornbeam.training.callbacks import beyond_engine
from hornbeam.training.checkpoints import Checkpoints, describe_run
from hornbeam.training.evaluated_sets import EvaluatedSet, check_valid
from hornbeam.training.function_calls import compute_gradients
from hornbeam.training.init_model import check_reading, check_start
from hornbeam.training.linear_leaves import LeafFitting, check_values
from hornbeam.training.row_sampling import RowSampler
from hornbeam.training.xgboost_arguments import ranks_of, with_default_metric
from hornbeam.trees.contexts.forced_splits import forced_splits
from hornbeam.trees.contexts.tree_contexts import ContextPlan
from hornbeam.trees.engine import Engine
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.grower import TreeGrower
from hornbeam.trees.grown_tree import GrownTree, trees_of
from hornbeam.trees.histogram_pool import DEFAULT_BYTES, STORED_BYTES, count_slots
from hornbeam.trees.output_grower import OutputGrower
from hornbeam.trees.records import LeafRenewal
from hornbeam.trees.splitting import SplitRules

MADE_TOGETHER = 4096
"""Nodes of trees whose arrays are made together: their records take half a megabyte."""


class TrainingState:
    """One training: the engine, the growing Booster, and what is evaluated.

    Parameters
    ----------
    params, train_set, start, checkpoints
        See `train`.
    valid_sets
        Sets that will be evaluated: they are checked, and what they take is counted, before the engine takes any
        memory.
    engine_maker
        What makes the engine: one of all rows, or one that trains with other workers.

    Attributes
    ----------
    n_iterations
        Iterations finished so far, whether or not their trees are in the Booster already.
    evaluated
        The data sets that are evaluated.
    changes
        Parameters that differ from `params` at present, by a schedule.
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
        engine_maker: EngineMaker = make_engine,
    ) -> None:
        self.params = params
        self._engine_maker = engine_maker
        self.checkpoints = checkpoints
        self.train_set: Dataset = train_set
        self.evaluated: list[EvaluatedSet] = []
        self.changes: dict[str, Any] = {}
        self._unfinished: list[GrownTree] = []
        self._n_unfinished = self._n_fetched = 0  # nodes of these; how many of them need nothing of the engine
        self._checked: list[Dataset] = []
        self.objective: Objective = get_objective(params, train_set.n_targets)
        self.objective.check_data(train_set)
        self.objective = self.objective.bind(train_set)
        goes_on = start is not None or checkpoints is not None
        check_positions(self.objective, train_set, params, goes_on)
        if goes_on and params.cegb_penalty_feature_lazy is not None:
            raise ParameterError(
                "a model does not hold which rows its splits have seen, so that a training with "
                "cegb_penalty_feature_lazy cannot go on from init_model, a checkpoint or a rollback; train in one go"
            )
        params = self.params = self._settled(params)
        params = self.params = with_default_metric(params, train_set)
        self.metrics: list[Metric] = get_metrics(params, self.objective.of_predictions, ranks_of(params, train_set))
        if start is not None:
            check_start(start, train_set, params, self.objective)
        self._given = params.given
        train_set.begin_training(params, None if start is None else start.levels)
        self._check_encoding()
        params = self.params = params.replace(**vars(train_set.bin_params))  # the model keeps what the bins came from
        params = self.params = with_feature_weights(params, train_set)
        if start is not None:
            check_reading(start, train_set, params)
        if checkpoints is not None:
            start = checkpoints.start_from(describe_run(params, self.objective.to_dict(), train_set, start), start)
        binned = train_set.binned
        self.plan: ContextPlan = ContextPlan(  # bad constraints raise here
            params, train_set.feature_names, binned.used, binned.n_numeric, train_set.categorical_features,
            forced_splits(params, train_set.feature_names, binned, train_set.categorical_features),
        )  # fmt: skip
        check_shared_trees(params, self.objective.n_outputs, train_set, self.plan)
        self.sampler = RowSampler(params, train_set)
        self.fitting = LeafFitting(params, train_set, self.n_threads) if params.linear_tree else None
        self._prepare_labels()
        self.engine: Engine = self._make_engine(valid_sets or {})
        try:
            where = self.engine.device_name
            self._label, self._weight = column_on(self._label, where), column_on(self._weight, where)
            self._renewal_weight = column_on(self._renewal_weight, where)
            self.booster = self._new_booster(start)
            said = {name: value for name, value in self.given_params.items() if not callable(value)}  # pickle takes it
            train_set.given_params = {**train_set.given_params, **said}
            self.n_iterations = self.booster.n_iterations
            if self.plan.costs is not None:
                self.plan.costs.pay_for(self.booster.trees)
            limit = DEFAULT_BYTES if binned.stored is None else STORED_BYTES
            rules, limits = SplitRules.from_params(params), GrowthLimits.of(params, train_set.n_rows)
            n_slots = count_slots(limits.n_leaves, self.engine.slot_bytes, params.histogram_pool_size, limit)
            self.grower = TreeGrower(self.engine, binned, rules, limits, n_slots, self.plan)
            self.output_grower = self._make_output_grower()
            self.grower.level_codes = level_codes(self.booster.levels, train_set.levels)
        except BaseException:
            self.engine.close()
            raise

    def _settled(self, params: Params) -> Params:
        """Return the parameters with values for those that the user leaves open and the objective chooses by data."""
        label, weight = self.train_set.given("label"), self.train_set.given("weight")
        chosen = {} if label is None else self.objective.open_values(label_sums(label, weight))
        settled = params.settle(chosen)
        if settled is not params:
            values = ", ".join(f"{name}={value:g}" for name, value in chosen.items() if getattr(params, name) is None)
            inform(f"objective {self.objective.name!r} on these labels: {values}", params.verbosity)
        return settled

    def _make_engine(self, valid_sets: Mapping[str, Dataset]) -> Engine:
        """Make the engine, when all that it will keep is known."""
        in_use = not isinstance(self.objective, CustomObjective) or is_on_device(self.objective.function)
        given = (self._label, self._weight) if in_use else ()
        scored = [dataset for name, dataset in valid_sets.items() if self.check_evaluated(name, dataset)]
        demand = Demand.of(
            self.params, self.train_set.binned, self.objective, self._renewal_weight, *given, *self.sampler.given,
            valid_sets=[dataset.binned for dataset in scored], plan=self.plan,
        )  # fmt: skip
        return self._engine_maker(self.train_set.binned, self.params, demand)

    def _make_output_grower(self) -> OutputGrower | None:
        """Return what grows trees that all outputs share; None: every output has trees of its own."""
        params, n_outputs = self.params, self.objective.n_outputs
        if params.multi_strategy != "multi_output_tree" or n_outputs == 1:
            return None
        n_bytes = self.engine.slot_bytes * (n_outputs + 1)
        grower = self.grower
        n_slots = count_slots(grower.limits.n_leaves, n_bytes, params.histogram_pool_size, DEFAULT_BYTES)
        return OutputGrower(self.engine, grower.binned, grower.rules, grower.limits, n_slots)

    def _prepare_labels(self) -> None:
        """Bring labels and weights into the form that gradients and the renewal of leaves take.

        Those on a device stay there, unless they have to be computed anew.
        """
        objective, renewed = self.objective, self.objective.renewal_percentile is not None
        self._label = self.train_set.given("label")
        self._weight = self.train_set.given("weight")
        self._renewal_weight = self._weight if renewed else None
        has_labels = self._label is not None or isinstance(objective, AftObjective)
        if has_labels and (objective.prepares or (renewed and objective.renewal_weights_by_label)):
            self._label, self._weight = objective.prepare(self.train_set.label, self.train_set.weight)  # type: ignore[arg-type]
            if renewed:
                self._renewal_weight = objective.renewal_weights(self._label, self._weight)

    def renewal(self, output: int) -> LeafRenewal | None:
        """Return what makes the leaf values of one output, where the objective has them renewed."""
        percentile, logcosh = self.objective.percentile_of(output), self.objective.renews_to_logcosh
        label, weight = (of_output(values, output) for values in (self._label, self._renewal_weight))
        if percentile is None or label is None:
            return None
        return LeafRenewal(output, percentile, label, weight, logcosh)

    def _check_encoding(self) -> None:
        """Check that categorical features are replaced by mean labels only where labels have a mean."""
        params, encoded = self.params, self.train_set.encoded_features
        if (params.num_class > 1 or self.train_set.n_targets > 1) and encoded:
            names = ", ".join(repr(self.train_set.feature_names[feature]) for feature in encoded[:5])
            raise DataError(
                f"train_set is binned with the mean labels of categorical features ({names}), and classes have no "
                "mean, nor have labels of several columns; leave the binning to train, or make the Dataset with "
                "target_encoding_levels=-1"
            )

    def inform_of_encoding(self) -> None:
        """Say which categorical features became numbers, for LightGBM would keep them."""
        data, params = self.train_set, self.params
        text = describe_encoding(data.levels, data.feature_names, params.target_encoding_levels)
        if text is not None:
            inform(text, params.verbosity)

    @property
    def given_params(self) -> dict[str, Any]:
        """The parameters that the training was given, and its objective, by canonical name."""
        given = {name: getattr(self.params, name) for name in ("objective", *sorted(self._given))}
        if isinstance(self.params.objective, FunctionBeside):
            given["objective"] = self.params.objective.named
        return given

    def _new_booster(self, start: Booster | None) -> Booster:
        """Make the Booster that will grow: empty, or a copy of the model to train on."""
        levels, category_columns = self.train_set.levels, self.train_set.category_columns
        if start is not None:
            category_columns |= start.category_columns
            levels = extended_levels(start.levels, levels, self.train_set.feature_names)
            init_scores, trees = start.init_scores.tolist(), list(start.trees)
        else:
            init_scores = self.first_scores().tolist()
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
                column_names=self.train_set.column_names,
                category_columns=category_columns,
            )
        )
        booster.num_threads, booster.metric = self.params.num_threads, self.params.metric
        booster.trained_with = self.params
        booster.params = GivenParams(booster.kept_params, self.given_params)
        booster.is_xgboosts = self.train_set.is_xgboosts
        booster.types = getattr(self.train_set, "feature_types", None)
        booster.stops_at_best = not self.train_set.is_xgboosts or self.train_set.is_estimators
        if start is not None and not booster.stops_at_best:
            booster.n_best = start.n_best
            booster.take_attributes(start.attributes())
        return booster

    def first_scores(self) -> NDArray[np.float64]:
        """Return the constants that training starts from, float64 (n_outputs,)."""
        data = self.train_set
        return first_scores(self.objective, data, self.engine.device_name, self.params.base_score, data.is_xgboosts)

    def check_evaluated(self, name: str, dataset: Dataset) -> bool:
        """Check and bin a data set to evaluate, once; returns whether the engine will keep scores for it."""
        is_training = dataset is self.train_set
        if not any(dataset is other for other in self._checked):
            if not is_training:
                check_valid(name, dataset, self.train_set, self.params, self.objective)
                if self.fitting is not None:
                    check_values(dataset, f"valid_sets[{name!r}]")
            for metric in self.metrics:
                metric.check(dataset, f"valid_sets[{name!r}]")
            self._checked.append(dataset)
        return not is_training or self.params.boosting == "rf"  # a forest's training scores stay at the start

    def compute_gradients(self, iteration: int) -> None:
        """Compute gradients and hessians at the engine's scores."""
        self.objective.begin_iteration(iteration)
        if isinstance(self.objective, CustomObjective):
            compute_gradients(self.engine, self.objective, self.train_set)
        elif isinstance(self.objective, LambdarankObjective) and self.objective.pairs is not None:
            self._compute_chosen(self.objective, self.objective.pairs)
        elif isinstance(self.objective, LambdarankObjective) and self.objective.positions is not None:
            self._compute_unbiased(self.objective, self.objective.positions)
        else:
            assert self._label is not None
            self.engine.compute_gradients(self.objective, self._label, self._weight)

    def _compute_chosen(self, objective: LambdarankObjective, pairs: ChosenPairs) -> None:
        """Compute gradients of chosen pairs on the host, and move the biases of places."""
        found, weight = pairs.gradients(self.engine.scores()[0], objective.key), self.train_set.weight
        gradient, hessian = (values[None] if weight is None else (values * weight)[None] for values in found)
        self.engine.set_gradients(gradient, hessian)

    def _compute_unbiased(self, objective: LambdarankObjective, positions: PositionBias) -> None:
        """Compute gradients at scores with the biases of positions, on the host, and move the biases."""
        label, weight = self.train_set.label, self.train_set.weight
        assert label is not None
        scores = np.ascontiguousarray(positions.adjusted(self.engine.scores()))
        if self.engine.host_device == "reference":
            gradient, hessian = objective.gradients(scores, label, weight)
        else:
            gradient, hessian = compute_on_host(objective, scores, label, weight, self.n_threads)
        self.engine.set_gradients(gradient, hessian)
        positions.step(gradient[0], hessian[0])

    @lazy
    def n_threads(self) -> int:
        """Threads of what runs on the host, whatever the device."""
        return resolve_threads(self.params.num_threads)

    def finish_trees(self) -> None:
        """Enter the trees grown so far into the Booster; their arrays are made now, at the latest."""
        trees, self._unfinished, self._n_unfinished, self._n_fetched = self._unfinished, [], 0, 0
        with default_mode():
            for _, alike in groupby(trees, lambda grown: id(grown.setting.rules)):
                self.booster.trees.extend(trees_of(list(alike)))

    def finish_some_trees(self) -> None:
        """Do that if it is worth while: many small trees are made together. What a device keeps is fetched at once."""
        if self._n_unfinished >= MADE_TOGETHER:
            self.finish_trees()
        elif self.engine.has_own_memory:
            with default_mode():
                for grown in self._unfinished[self._n_fetched :]:
                    grown.fetch()
            self._n_fetched = len(self._unfinished)

    def keep(self, trees: list[GrownTree]) -> None:
        """Keep the trees of an iteration, whose arrays are made later: see `finish_trees`."""
        self._unfinished += trees
        self._n_unfinished += sum(len(tree.nodes) for tree in trees)

    @property
    def n_kept(self) -> int:
        """Iterations whose trees are kept, finished or not."""
        return (len(self.booster.trees) + len(self._unfinished)) // self.booster.trees_per_iteration

    def change(self, changes: dict[str, Any]) -> None:
        """Grow the trees to come by other values of some parameters (those in callbacks.RESETTABLE); {}: as before."""
        if changes == self.changes:
            return
        wrong = beyond_engine(self.params, changes)
        if wrong is not None:
            raise ParameterError(f"a training cannot change to {wrong}")
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
        self.grower.limits = GrowthLimits.of(params, self.train_set.n_rows)
        if self.output_grower is not None:
            self.output_grower.rules, self.output_grower.limits = self.grower.rules, self.grower.limits


def check_shared_trees(params: Params, n_outputs: int, train_set: Dataset, plan: ContextPlan) -> None:
    """Refuse what trees that all outputs share cannot have."""
    if params.multi_strategy != "multi_output_tree" or n_outputs == 1:
        return
    binned, wrong = train_set.binned, ""
    if params.tree_method in ("exact", "approx"):
        wrong = f"tree_method={params.tree_method!r}: they take bins that are found before the first tree"
    elif binned.n_numeric < binned.n_used:
        names = [train_set.feature_names[feature] for feature in train_set.categorical_features[:3]]
        wrong = f"categorical features ({', '.join(map(repr, names))}): code them as numbers"
    elif binned.stored is not None:
        wrong = "sparse storage of the bins: set is_enable_sparse=False and enable_bundle=False"
    elif plan.needs_context:
        wrong = (
            "monotone, interaction or forced constraints, feature_contri, prices of splits, path_smooth, extra_trees, "
            "or features by level or node: leave these out"
        )
    if wrong:
        raise ParameterError(
            f"multi_strategy='multi_output_tree' does not go with {wrong}; or use 'one_output_per_tree'"
        )


def check_positions(objective: Objective, train_set: Dataset, params: Params, goes_on: bool) -> None:
    """Refuse positions that nothing looks at, and trainings that would lose what was learned of them.

    goes_on  whether the training starts from a model or may be interrupted
    """
    has_positions = train_set.given("position") is not None
    by_place = isinstance(objective, LambdarankObjective) and objective.choice.bias_norm is not None
    if not has_positions and not by_place:
        return
    given = "position=" if has_positions else "lambdarank_unbiased"
    if has_positions and isinstance(objective, LambdarankObjective) and objective.pairs is not None:
        raise ParameterError(
            "train_set has positions, whose biases are learned by all pairs of the first ranks; leave position= out, "
            "or lambdarank_unbiased and lambdarank_sampled_pairs (lambdarank_pair_method='mean')"
        )
    if not isinstance(objective, LambdarankObjective):
        raise DataError(
            f"train_set has positions, which objective {objective.name!r} does not look at; leave position= out, or "
            "use 'lambdarank', 'pairwise' or 'rank_map'"
        )
    if params.boosting == "dart":
        raise ParameterError(f"boosting='dart' with {given}: biases follow all trees; use boosting='gbdt'")
    if goes_on:
        raise ParameterError(
            f"a model does not hold the biases of positions, so that a training with {given} cannot go on from "
            "init_model, a checkpoint or a rollback; train in one go"
        )
