"""Callbacks by XGBoost's names, `hornbeam.callback`: classes with methods, which are made callbacks of ours.

LightGBM's functions are here too, since its users find them in `lightgbm.callback`.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hornbeam.core.errors import ParameterError
from hornbeam.params.params import whole_number
from hornbeam.training.callbacks import (
    CallbackEnv,
    EarlyStopException,
    ResetParameter,
    deviation,
    early_stopping,
    log_evaluation,
    record_evaluation,
    reset_parameter,
)
from hornbeam.training.xgboost_arguments import (
    IN_FOLDS,
    EvaluationMonitor,
    LastMetricStopping,
    Log,
    evaluation_of,
    set_name,
)

__all__ = [
    "CallbackEnv",
    "EarlyStopException",
    "EarlyStopping",
    "EvaluationMonitor",
    "LearningRateScheduler",
    "TrainingCallback",
    "TrainingCheckPoint",
    "early_stopping",
    "log_evaluation",
    "record_evaluation",
    "reset_parameter",
]


class TrainingCallback:
    """A callback as XGBoost's users write it: a class with some of these methods.

    `evals_log[set][metric]` is a list, one value an evaluated iteration, in `cv` a pair of mean and standard deviation;
    sets and metrics bear XGBoost's names. An epoch is the number of an iteration of this training, from 0.
    """

    EvalsLog = Log

    def before_training(self, model: Any) -> Any:
        """Follow the start; returns the model."""
        return model

    def after_training(self, model: Any) -> Any:
        """Follow the end; returns the model."""
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Log) -> bool:
        """Come before an iteration; True ends the training."""
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Log) -> bool:
        """Follow an iteration; True ends the training."""
        return False


NOTHING_BEST = -1
"""The best iteration where training ends for another reason."""


def _entry(result: Any) -> tuple[str, str, Any]:
    """Return what the log of callbacks has of an evaluation: set, metric, and a value or mean and deviation."""
    metric, value = evaluation_of(result.metric, result.value)
    stdv = deviation(result)
    if stdv is None:
        return set_name(result.dataset), metric, value
    return IN_FOLDS.get(result.dataset, result.dataset), metric, (value, stdv)


class _Watch:
    """What the two halves of a TrainingCallback share."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.log: Log = {}
        self.model: Any = None
        self.has_begun = False

    def call(self, name: str, *arguments: Any) -> Any:
        method = getattr(self.callback, name, None)
        return None if method is None else method(*arguments)


class _Before:
    """Calls `before_training` and `before_iteration`."""

    before_iteration = True
    order = 0

    def __init__(self, watch: _Watch) -> None:
        self.watch = watch

    def __call__(self, env: CallbackEnv) -> None:
        watch = self.watch
        watch.model = env.model
        if not watch.has_begun:
            watch.has_begun, watch.log = True, {}
            watch.call("before_training", env.model)
        if watch.call("before_iteration", env.model, env.iteration - env.begin_iteration, watch.log):
            raise EarlyStopException(NOTHING_BEST)


class _After:
    """Calls `after_iteration` and `after_training`."""

    before_iteration = False
    order = 25  # after evaluations are recorded, before early stopping

    def __init__(self, watch: _Watch) -> None:
        self.watch = watch

    def __call__(self, env: CallbackEnv) -> None:
        for result in env.evaluation_result_list:
            name, metric, score = _entry(result)
            self.watch.log.setdefault(name, {}).setdefault(metric, []).append(score)
        if self.watch.call("after_iteration", env.model, env.iteration - env.begin_iteration, self.watch.log):
            raise EarlyStopException(NOTHING_BEST)

    def close(self) -> None:
        """Tell that training is over."""
        if self.watch.has_begun:
            self.watch.call("after_training", self.watch.model)
            self.watch.has_begun = False


def adapted(callbacks: Any) -> Any:
    """Return callbacks with those of XGBoost's kind made ours; what is no list is left to the check of callbacks."""
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, str):
        return callbacks
    made: list[Any] = []
    for callback in callbacks:
        is_class = not callable(callback) and callable(getattr(callback, "after_iteration", None))
        if isinstance(callback, TrainingCallback) or is_class:
            watch = _Watch(callback)
            made += [_Before(watch), _After(watch)]
        else:
            made.append(callback)
    return made


class EarlyStopping(LastMetricStopping):
    """Ends training by one metric on one validation set, by default the last metric on the last set.

    Parameters
    ----------
    rounds
        Rounds without improvement.
    metric_name, data_name
        The metric and the set, by XGBoost's names or by ours; None: the last.
    maximize
        Whether higher values are better; None: what the metric says.
    save_best
        Whether the model keeps the iterations up to the best one alone.
    min_delta
        Improvement that counts.

    Attributes
    ----------
    stopping_history, best_scores
        `[set][metric]`: every value that it looked at, and those that were the best so far.
    """

    EvalsLog = Log

    def __init__(
        self,
        rounds: int,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool = False,
        min_delta: float = 0.0,
    ) -> None:
        super().__init__(rounds, maximize, verbose=False)
        if not min_delta >= 0.0:
            raise ParameterError(f"min_delta={min_delta!r}: must be >= 0")
        self.metric_name, self.data_name, self.min_delta, self.save_best = metric_name, data_name, min_delta, save_best
        self.stopping_history: Log = {}
        self.best_scores: Log = {}

    def __call__(self, env: CallbackEnv) -> None:
        """Look at the chosen evaluation."""
        every = env.evaluation_result_list
        names = {one.dataset for one in every}
        wanted = "valid" if self.data_name == "test" and "test" not in names else self.data_name  # XGBoost's name in cv
        chosen = [one for one in every if wanted in (None, one.dataset, set_name(one.dataset))]
        chosen = [one for one in chosen if self.metric_name in (None, one.metric, evaluation_of(one.metric, 0.0)[0])]
        if every and not chosen:
            there = sorted({f"{result.dataset} {result.metric}" for result in every})
            raise ParameterError(
                f"EarlyStopping(metric_name={self.metric_name!r}, data_name={self.data_name!r}): there are "
                f"{', '.join(there)}"
            )
        if env.iteration == env.begin_iteration:
            self.stopping_history, self.best_scores = {}, {}
        for result in chosen[-1:]:
            self._enter(result)
        env.evaluation_result_list = chosen
        try:
            super().__call__(env)
        finally:
            env.evaluation_result_list = every

    def _enter(self, result: Any) -> None:
        """Enter an evaluation into the attributes."""
        name, metric, score = _entry(result)
        self.stopping_history.setdefault(name, {}).setdefault(metric, []).append(score)
        best = self.best_scores.setdefault(name, {}).setdefault(metric, [])
        before = best[-1][0] if best and isinstance(best[-1], tuple) else best[-1] if best else None
        value = score[0] if isinstance(score, tuple) else score
        rises = result.higher_is_better if self.maximize is None else self.maximize
        if before is None or (value - before if rises else before - value) > self.min_delta:
            best.append(score)


class TrainingCheckPoint(TrainingCallback):
    """Writes the model to a file every so many iterations, as XGBoost's callback of this name.

    Files are of Hornbeam's format. To go on from an interrupted training pass `checkpoint=` to `train`, which needs no
    callback.

    Parameters
    ----------
    directory, name
        The files are `directory/name_10.ubj`, where 10 is the number of the iteration, from 0.
    as_pickle
        Pickle the Booster, as `directory/name_10.pkl`.
    interval
        Iterations from one file to the next.
    """

    default_format = "ubj"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        name: str = "model",
        as_pickle: bool = False,
        interval: int = 100,
    ) -> None:
        self.directory, self.name, self.as_pickle = Path(directory), name, as_pickle
        self.interval, self._first = whole_number(interval, "interval", 1), 0

    def before_training(self, model: Any) -> Any:
        """Make the directory, and count on from a model that is trained on."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._first = model.n_iterations
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Log) -> bool:
        """Write the file when it is time."""
        if epoch > 0 and epoch % self.interval == 0:
            path = self.directory / f"{self.name}_{self._first + epoch}"
            if self.as_pickle:
                path.with_name(path.name + ".pkl").write_bytes(pickle.dumps(model))
            else:
                model.save_model(path.with_name(f"{path.name}.{self.default_format}"))
        return False


def LearningRateScheduler(learning_rates: Sequence[float] | Callable[[int], float]) -> ResetParameter:  # noqa: N802
    """Change the learning rate from iteration to iteration: `reset_parameter` by XGBoost's name."""
    return reset_parameter(learning_rate=learning_rates)
