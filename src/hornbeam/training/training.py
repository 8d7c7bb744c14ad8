"""`train`: one training, from parameters and data to a Booster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from hornbeam.backends.engines import EngineMaker, make_engine
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import speaking, warn
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.file_columns import take_file_columns
from hornbeam.model.booster import Booster
from hornbeam.params.params import Params, whole_number
from hornbeam.params.peer_arguments import TRAIN, takes_peer_arguments
from hornbeam.training.boosting import check_boosting
from hornbeam.training.callbacks import Callback, EarlyStopException, finish, prepare
from hornbeam.training.checkpoints import Checkpoints
from hornbeam.training.evaluated_sets import ValidSets, data_sets_of, named_sets
from hornbeam.training.function_calls import MetricFunction, metric_functions
from hornbeam.training.idle_parameters import warn_of_idle
from hornbeam.training.init_model import model_to_train_on
from hornbeam.training.leaf_updates import asks_for_update, update_leaves
from hornbeam.training.live import keep
from hornbeam.training.loop import CheckpointHook, Hook, Loop, Member
from hornbeam.training.peer_callbacks import adapted
from hornbeam.training.run import TrainingRun
from hornbeam.training.state import TrainingState
from hornbeam.training.watchers import watched
from hornbeam.training.xgboost_arguments import takes_xgboost_arguments, with_stopping


@takes_xgboost_arguments
@takes_peer_arguments(TRAIN)
def train(
    params: Mapping[str, Any] | Params | None,
    train_set: Dataset,
    num_boost_round: int | None = None,
    valid_sets: ValidSets = None,
    valid_names: Sequence[str] | str | None = None,
    feval: MetricFunction | Sequence[MetricFunction] | None = None,
    init_model: Booster | str | os.PathLike[str] | None = None,
    keep_training_booster: bool = False,
    callbacks: Sequence[Callback] | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_freq: int = 10,
) -> Booster:
    """Train a model.

    The names that LightGBM and XGBoost have for the arguments work too.

    Parameters
    ----------
    params
        Parameters by name or alias; docs/parameters.md lists them.
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
        Further metrics: `function(predictions, dataset) -> (name, value, higher_is_better)`, or a list of such.
        Predictions are raw scores if the objective is a function. They are NumPy arrays, or arrays of the device if
        the function is marked by `on_device`.
    init_model
        Booster or model file to train on: the result has its trees and the new ones, as if trained in one go. After
        early stopping that is the trees up to the best iteration, those that it predicts with.
    callbacks
        Functions of a `CallbackEnv` that are called after every iteration: `early_stopping`, `log_evaluation`,
        `record_evaluation`, `reset_parameter`, `progress`, or functions of your own.
    checkpoint
        File for the state of the training. If it exists, training goes on from there and ends with the model of one
        go; `num_boost_round` counts from the first start. A file of another training (other parameters or data) and a
        damaged file are errors. The file stays when training is over.
    checkpoint_freq
        Iterations from one writing of the file to the next; it is written at the end too, and after Ctrl-C.
    keep_training_booster
        Whether the Booster keeps data and engine, so that `Booster.update` trains on.

    Returns
    -------
    Booster
        The model. Ctrl-C ends training and returns the iterations finished so far, with `interrupted` set; before the
        first iteration is finished it raises KeyboardInterrupt.

    Examples
    --------
    >>> train_set = hb.Dataset(X, label=y)
    >>> valid_set = hb.Dataset(X_valid, label=y_valid, reference=train_set)
    >>> params = {"objective": "binary", "metric": "auc", "num_leaves": 15}
    >>> booster = hb.train(params, train_set, 20, {"valid": valid_set}, callbacks=[hb.early_stopping(5)])
    >>> list(booster.eval_history["valid"])
    ['auc']
    """
    if asks_for_update(params):
        if checkpoint is not None or keep_training_booster:
            raise ParameterError("process_type='update' grows nothing: leave checkpoint and keep_training_booster out")
        return update_leaves(
            params,
            train_set,
            num_boost_round,
            valid_sets,
            valid_names,
            feval,
            init_model,
            callbacks,
        )
    return train_with(
        make_engine, params, train_set, num_boost_round, valid_sets, valid_names, feval, init_model,
        callbacks=callbacks, checkpoint=checkpoint, checkpoint_freq=checkpoint_freq,
        keep_training_booster=keep_training_booster,
    )  # fmt: skip


def train_with(
    engine_maker: EngineMaker,
    params: Mapping[str, Any] | Params | None,
    train_set: Dataset,
    num_boost_round: int | None = None,
    valid_sets: ValidSets = None,
    valid_names: Sequence[str] | str | None = None,
    feval: MetricFunction | Sequence[MetricFunction] | None = None,
    init_model: Booster | str | os.PathLike[str] | None = None,
    *,
    callbacks: Sequence[Callback] | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoints | None = None,
    checkpoint_freq: int = 10,
    keep_training_booster: bool = False,
) -> Booster:
    """Train on the engine that `engine_maker` makes; see `train`."""
    params = take_file_columns(params, [train_set, *data_sets_of(valid_sets)])
    params = params if isinstance(params, Params) else Params.from_dict(params)
    if not isinstance(train_set, Dataset):
        raise DataError(
            f"train_set must be a hornbeam.Dataset, not {type(train_set).__name__}; wrap it: Dataset(X, label=y)"
        )
    n_rounds = number_of_rounds(params, num_boost_round, 0, train_set.is_xgboosts)
    start = model_to_train_on(init_model)
    check_boosting(params)
    named = named_sets(valid_sets, valid_names, train_set)
    functions = metric_functions(feval)
    with ExitStack() as stack:
        stack.enter_context(speaking(params.verbosity))
        stack.enter_context(default_mode())
        checkpoints = None
        if checkpoint is not None:
            made = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint, checkpoint_freq)
            checkpoints = stack.enter_context(closing(made))
        state = TrainingState(params, train_set, start, checkpoints, named, engine_maker)
        engine = stack.enter_context(ExitStack())
        engine.callback(state.engine.close)
        run = TrainingRun(state, named)
        warn_of_idle(state, bool(functions))
        state.inform_of_encoding()
        _boost(run, n_rounds, functions, callbacks, keep_training_booster)
        booster = state.booster
        if keep_training_booster:
            engine.pop_all()
            keep(booster, run)
    return booster


def _boost(
    run: TrainingRun,
    n_rounds: int,
    functions: list[MetricFunction],
    callbacks: Sequence[Callback] | None,
    goes_on: bool,
) -> None:
    """Run the iterations of one training, which may go on later."""
    state, booster = run.state, run.state.booster
    others = [entry.name for entry in state.evaluated if not entry.is_learned]
    only_training = bool(state.evaluated) and not others
    params, callbacks = with_stopping(state.params, state.train_set, callbacks)
    has_metrics, is_xgboosts = bool(state.metrics or functions), state.train_set.is_xgboosts
    prepared = prepare(adapted(callbacks), params, others, has_metrics, only_training, is_xgboosts)
    saves_best = any(getattr(callback, "save_best", False) for callback in prepared)
    if saves_best and goes_on:
        raise ParameterError(
            "save_best=True drops trees, on which keep_training_booster=True would train; leave one out"
        )
    booster.params["num_iterations"] = n_rounds
    hooks: list[Hook] = [CheckpointHook(), ModelHook()]
    with watched(state.params, n_rounds) as watches:
        called: list[Callback] = [*watches, *prepared]  # first, so that they see what ends the training
        Loop([Member(run)], booster, n_rounds, called, functions, lambda found: found[0], hooks).run()
        if booster.best_score == {}:
            booster.best_score = {
                name: {metric: values[-1] for metric, values in metrics.items()}
                for name, metrics in booster.eval_history.items()
            }
        if saves_best and booster.n_best > 0:
            del booster.trees[booster.n_best * booster.trees_per_iteration :]
        for watch in watches:
            watch.finished(booster)


class ModelHook:
    """Enters into the Booster how its training ended."""

    def after_iteration(self, loop: Loop) -> None:
        """Leave the model as it is."""

    def stopped(self, loop: Loop, stop: EarlyStopException) -> None:
        """Enter what early stopping found best."""
        booster = loop.members[0].state.booster
        booster.n_best = min(stop.best_iteration + 1, booster.n_iterations)
        if booster.is_xgboosts and stop.best_score:
            booster.best_score = stop.best_score[-1].value
            return
        for result in stop.best_score:
            booster.best_score.setdefault(result.dataset, {})[result.metric] = result.value

    def interrupted(self, loop: Loop) -> bool:
        """Keep the iterations finished so far, if there is one."""
        state = loop.members[0].state
        if state.booster.n_iterations == loop.env.begin_iteration:
            return False
        state.booster.interrupted = True
        try:
            finish(loop.after)
        except EarlyStopException as stop:
            self.stopped(loop, stop)
        text = f"interrupted: returning the {state.booster.n_iterations} iterations finished so far"
        warn(text, state.params.verbosity)
        return True

    def ended(self, loop: Loop) -> None:
        """Leave the model as it is."""


def number_of_rounds(params: Params, num_boost_round: int | None, low: int, is_xgboosts: bool) -> int:
    """Return the number of iterations, from the argument or the parameters.

    Where both say one, LightGBM takes the parameter, and XGBoost, whom a DMatrix speaks for, the argument.
    """
    if num_boost_round is None:
        return whole_number(params.num_iterations, "num_iterations", low)
    n_rounds = whole_number(num_boost_round, "num_boost_round", low)
    if "num_iterations" not in params.given or params.num_iterations == n_rounds:
        return n_rounds
    taken = n_rounds if is_xgboosts else whole_number(params.num_iterations, "num_iterations", low)
    peer = "XGBoost does with a DMatrix" if is_xgboosts else "LightGBM does"
    warn(
        f"num_boost_round={n_rounds}, but the parameters say num_iterations={params.num_iterations}: {taken} are "
        f"trained, as {peer}",
        params.verbosity,
    )
    return taken
