"""A training that a Booster holds: `Booster(params, train_set)`, moved by `Booster.update`.

It is the training of `train`, with its state (state.py), its iterations (run.py) and its rules of what an iteration
keeps (`loop.Member`). What a training cannot do in the middle, another parameter that shapes the engine, other data, an
iteration less, is a training that begins anew on the model there is: it gives the model of one go by the same promise
that `init_model` keeps.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import speaking, warn
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.file_columns import take_file_columns
from hornbeam.model.booster import Booster
from hornbeam.objectives import CustomObjective, get_objective
from hornbeam.params.objective_names import FunctionBeside
from hornbeam.params.params import Params, canonical_names
from hornbeam.training.boosting import check_boosting
from hornbeam.training.callbacks import RESETTABLE, CallbackEnv, beyond_engine
from hornbeam.training.evaluated_sets import TRAINING, EvaluatedSet
from hornbeam.training.evaluations import Evaluation
from hornbeam.training.finished_models import params_of
from hornbeam.training.function_calls import metric_functions
from hornbeam.training.idle_parameters import Situation, warn_of_situation
from hornbeam.training.loop import Member
from hornbeam.training.run import TrainingRun
from hornbeam.training.state import TrainingState
from hornbeam.training.xgboost_arguments import as_xgboosts, start_beside

if TYPE_CHECKING:
    from collections.abc import Iterator


def begin(booster: Booster, params: Any, train_set: Any) -> None:
    """Make a Booster an empty model that trains on.

    params     parameters, as for `train`
    train_set  Dataset, or a list whose first entry it is (XGBoost's cache)
    """
    if isinstance(train_set, (list, tuple)) and train_set:
        train_set = train_set[0]
    params = take_file_columns(params, [train_set])
    checked = params if isinstance(params, Params) else Params.from_dict(as_xgboosts(params, train_set))
    if checked.early_stopping_round > 0:
        warn(
            "early_stopping_round has no effect here: the loop that calls update decides when to end", checked.verbosity
        )
    training = LiveTraining(checked, train_set)
    training.attach(booster, training.start(None))
    warn_of_situation(Situation(training.run.state, evaluates=True))


def keep(booster: Booster, run: TrainingRun) -> None:
    """Let a Booster that `train` has made train on."""
    training = LiveTraining(run.state.params, run.state.train_set)
    training.valid_sets = {entry.name: entry.dataset for entry in run.state.evaluated if not entry.is_training}
    names = [entry.name for entry in run.state.evaluated if entry.is_training]
    training.training_name = names[0] if names else TRAINING
    training.attach(booster, run)
    training.is_stale = run.state.n_iterations != booster.n_iterations  # an iteration that learned nothing is not kept


def go_on(booster: Booster, train_set: Any) -> None:
    """Let a model that has no training train on, with the parameters that it was trained with.

    Those of a model that was read are the ones that it keeps; XGBoost's own files keep none, and have its defaults.
    """
    params = params_of(booster, booster.to_come)
    booster.to_come = {}
    LiveTraining(params, train_set).take_over(booster)


class LiveTraining:
    """A training under way, and the Booster that it belongs to.

    Parameters
    ----------
    params, train_set
        As for `train`.

    Attributes
    ----------
    valid_sets
        Datasets that are evaluated, by name; the training set is not among them.
    training_name
        What evaluations call the training set.
    is_stale
        Whether the model is no longer that of the scores: the training begins anew on it before it goes on.
    """

    _booster: Any  # weakref.ref of the Booster, which holds this object
    _run: TrainingRun
    _member: Member

    def __init__(self, params: Params, train_set: Any) -> None:
        if not isinstance(train_set, Dataset):
            raise DataError(
                f"train_set must be a hornbeam.Dataset, not {type(train_set).__name__}; wrap it: Dataset(X, label=y)"
            )
        check_boosting(params)
        self.params, self.train_set = params, train_set
        self.valid_sets: dict[str, Dataset] = {}
        self.training_name = TRAINING
        self.is_stale = False
        self._changes: dict[str, Any] = {}
        self._close: Any = lambda: None

    @contextmanager
    def _setting(self) -> Iterator[None]:
        """Compute and speak as a training does."""
        with speaking(self.params.verbosity), default_mode():
            yield

    def start(self, start: Booster | None) -> TrainingRun:
        """Make a run: of an empty model, or on one there is."""
        with self._setting():
            state = TrainingState(self.params, self.train_set, start, None, self.valid_sets)
            return TrainingRun(state, self.valid_sets)

    def attach(self, booster: Booster, run: TrainingRun) -> None:
        """Make a run move a Booster: its trees go there from now on."""
        self._close()
        made = run.state.booster
        if made is not booster:
            booster.take(made.to_model())
            booster.params = made.params
            booster.metric = made.metric
            made.hand_ways_to(booster)
        self._booster = weakref.ref(booster)
        run.state.booster = weakref.proxy(booster)  # a strong one were a circle: data would wait for the collector
        self._run, self._member, self.is_stale = run, Member(run, is_eager=True), False
        finalizer = weakref.finalize(self, run.state.engine.close)
        finalizer.atexit = False
        self._close = finalizer
        booster._training = self

    def take_over(self, booster: Booster) -> None:
        """Make a model that has no training train on."""
        self._booster = weakref.ref(booster)
        self._restart(booster)

    def close(self) -> None:
        """Free what the engine holds."""
        self._close()

    @property
    def booster(self) -> Booster:
        """The Booster that this training belongs to."""
        return self._booster()  # type: ignore[no-any-return]

    @property
    def run(self) -> TrainingRun:
        """The run, which begins anew where the model was changed beside it."""
        if self.is_stale:
            self._restart(self.booster)
        return self._run

    def _restart(self, model: Booster) -> None:
        """Begin anew on a model; without trees it is the empty one, which has a start of its own."""
        kept = self.booster.n_best, self.booster.best_score, self.booster.eval_history, self.booster._attributes
        whole = Booster(replace(model.to_model(), best_iteration=0)) if model.trees else None
        self.attach(self.booster, self.start(whole))
        self.booster.n_best, self.booster.best_score, self.booster.eval_history, self.booster._attributes = kept

    def update(self, train_set: Any, function: Any) -> bool:
        """Run an iteration; returns whether the training has ended: no tree was added."""
        if train_set is not None and train_set is not self.train_set:
            self._train_on(train_set)
        if function is not None:
            self._use_function(function)
        run = self.run
        objective = run.state.objective
        if isinstance(objective, CustomObjective) and objective.function is None:
            raise ParameterError(
                "objective='custom' (or 'none') has no gradients of its own; pass update(fobj=function)"
            )
        first = run.state.n_iterations
        rate = self._changes.get("learning_rate", run.state.params.learning_rate)
        others = {name: value for name, value in self._changes.items() if name != "learning_rate"}
        env = CallbackEnv(self.booster, first, first, first + 1, rate, changes=others)
        with speaking(self.params.verbosity):
            self._member.boost(env)
        return self._member.has_ended

    def rollback(self) -> None:
        """Take the last iteration back."""
        if self.params.boosting == "dart":
            raise ParameterError(
                "rollback_one_iter is not available with boosting='dart': an iteration changes earlier trees, whose "
                "values are not kept; train anew with one iteration less"
            )
        booster = self.booster
        if booster.n_iterations == 0:
            return
        self._restart(booster[:-1])
        booster.n_best = 0

    def add_valid(self, data: Any, name: str) -> EvaluatedSet:
        """Add a data set to evaluate; one that is there already is not added again."""
        with self._setting():
            entry = self.run.add_new_set(name, data)
        if not entry.is_training:
            self.valid_sets[entry.name] = data
        return entry

    def evaluate(self, data: Any, name: str, feval: Any) -> list[Evaluation]:
        """Evaluate a data set by the metrics of the parameters and functions of the user's own."""
        entry, functions = self.add_valid(data, name), metric_functions(feval)
        with self._setting():
            results = self.run.evaluate_set(entry, functions)
        return [result._replace(dataset=name) for result in results]

    def evaluate_valid(self, feval: Any) -> list[Evaluation]:
        """Evaluate every validation set."""
        return [result for name, data in self.valid_sets.items() for result in self.evaluate(data, name, feval)]

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Take other values of parameters; what a schedule may change changes at once, the rest begins anew."""
        changed = canonical_names(params)
        self.params = self.params.replace(**changed)
        check_boosting(self.params)
        in_place = all(name in RESETTABLE for name in changed) and not beyond_engine(self._run.state.params, changed)
        if in_place and not self._member.has_ended:
            self._changes.update(changed)
        else:
            self.is_stale, self._changes = True, {}

    def _train_on(self, train_set: Any) -> None:
        """Train on with other data."""
        if not isinstance(train_set, Dataset):
            raise DataError(f"train_set must be a hornbeam.Dataset, not {type(train_set).__name__}")
        with ExitStack() as stack:
            stack.callback(setattr, self, "train_set", self.train_set)
            sets, self.valid_sets = self.valid_sets, {}  # they have the bins of the other training set
            self.train_set = train_set
            try:
                self._restart(self.booster)
            except BaseException:
                self.valid_sets = sets
                raise
            stack.pop_all()

    def _use_function(self, function: Any) -> None:
        """Take gradients from a function from now on."""
        objective = self.run.state.objective
        if isinstance(objective, CustomObjective):
            objective.function = function
            return
        self.params = self.params.replace(**self._beside(function))
        custom = get_objective(self.params, objective.n_targets)
        self._restart(Booster(replace(self.booster.to_model(), objective=custom.to_dict())))

    def _beside(self, function: Any) -> dict[str, Any]:
        """Return the parameters by which a function has the gradients, as XGBoost does with data of its kind."""
        if not self.train_set.is_xgboosts:
            return {"objective": function}
        named, base = self.params.objective_name, self.params.base_score
        is_variant = self.params.predict_classes or self.params.predict_scores
        start = {} if self.booster.trees else start_beside("" if is_variant else named, base)
        return {**start, "objective": FunctionBeside(function, named)}
