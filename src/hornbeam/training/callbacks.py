"""Callbacks: what happens before and after each iteration of a training.

A callback is called with a `CallbackEnv` after every iteration, or before it if it has an attribute
`before_iteration` that is true; those with a lower attribute `order` come first. Functions written for LightGBM work.

One that looks back at earlier evaluations should have an attribute `replayed` that is true: when a training goes on
from a checkpoint, it is called again for every iteration that is done already, with its evaluations.

One that has a method `check(validation_sets, has_metrics)` is asked before training whether it can work. Those of this
module are objects, not closures, so that they can be pickled.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from hornbeam.core.errors import ParameterError
from hornbeam.core.log import logger, warn
from hornbeam.params.params import BY_NAME, Params, whole_number
from hornbeam.training.evaluations import Evaluation, MeanEvaluation, as_evaluation

if TYPE_CHECKING:
    from hornbeam.model.booster import Booster


RESETTABLE = (
    "learning_rate",
    "bagging_fraction",
    "pos_bagging_fraction",
    "neg_bagging_fraction",
    "feature_fraction",
    "lambda_l1",
    "lambda_l2",
    "min_gain_to_split",
    "min_sum_hessian_in_leaf",
    "max_delta_step",
    "max_depth",
    "num_leaves",
    "min_data_in_leaf",
)
"""Parameters that may change from iteration to iteration; the others shape what is made once for a training."""


def beyond_engine(params: Params, changes: Mapping[str, Any]) -> str | None:
    """Say what changes in the middle of a training ask for that its engine has no room for; None: nothing.

    params   those that the training began with
    changes  values of RESETTABLE by name
    """
    if changes.get("num_leaves", 0) > params.num_leaves:
        return f"num_leaves={changes['num_leaves']}, and the training began with {params.num_leaves}: it can be fewer"
    if changes.get("min_data_in_leaf", 0) > 1 >= params.min_data_in_leaf:
        return (
            f"min_data_in_leaf={changes['min_data_in_leaf']}, and the training began with {params.min_data_in_leaf}, "
            "by which rows are not counted: begin with 2 or more"
        )
    return None


@dataclass(slots=True)
class CallbackEnv:
    """What a callback sees and may change.

    A callback is a function of a CallbackEnv. It is called after every iteration, or before it if it has an attribute
    `before_iteration = True`.

    Attributes
    ----------
    model
        The Booster so far, a CVBooster in `cv`.
    iteration
        Number of the iteration, from 0; it goes on from those of an `init_model`.
    begin_iteration, end_iteration
        First number of this call of `train` (of the first call, when it goes on from a checkpoint), and one past the
        last.
    learning_rate
        Learning rate of this iteration; may be set before it.
    evaluation_result_list
        Evaluations after this iteration, MeanEvaluation in `cv`; empty before it, and where `metric_freq` skips it.
    training_names
        Names under which the training set itself is evaluated.
    params
        Every parameter of the training, by canonical name.
    changes
        Values of other parameters for this iteration (those in RESETTABLE); may be set before it.
    """

    model: Booster
    iteration: int
    begin_iteration: int
    end_iteration: int
    learning_rate: float
    evaluation_result_list: list[Evaluation] = field(default_factory=list)
    training_names: frozenset[str] = frozenset()
    params: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)

    def begin(self, iteration: int, learning_rate: float) -> None:
        """Forget what belongs to the iteration before."""
        self.iteration, self.learning_rate = iteration, learning_rate
        self.evaluation_result_list, self.changes = [], {}


class LoopEnv(CallbackEnv):
    """What a training hands to callbacks: the trees of its model are made when one looks at it, and from then on.

    complete_model  enters the trees grown so far into the model; None: they are there
    """

    complete_model: Callable[[], None] | None = None

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute; the model is completed first."""
        if name == "model" and self.complete_model is not None:
            self.complete_model()
        return super().__getattribute__(name)


Callback = Callable[[CallbackEnv], None]
Schedule = Sequence[float] | Callable[[int], float]


class EarlyStopException(Exception):  # noqa: N818  (LightGBM's name)
    """Raised by a callback to end training.

    Parameters
    ----------
    best_iteration
        Counts from 0, like CallbackEnv.iteration.
    best_score
        Evaluations at that iteration: those of CallbackEnv, or tuples (data set, metric, value, higher_is_better).
    """

    def __init__(self, best_iteration: int, best_score: Iterable[Any] = ()) -> None:
        self.best_iteration = best_iteration
        self.best_score = [as_evaluation(result) for result in best_score]
        super().__init__(best_iteration, self.best_score)  # what pickle makes it from


class EarlyStopping:
    """Ends training when no metric on any validation set has got better for some rounds.

    watches_training  whether the training set counts as one
    """

    watches_training = False
    before_iteration = False
    order = 30
    replayed = True

    def __init__(
        self,
        stopping_rounds: int,
        first_metric_only: bool = False,
        verbose: bool = True,
        min_delta: float | Sequence[float] = 0.0,
    ) -> None:
        deltas = min_delta if isinstance(min_delta, Sequence) else [min_delta]
        if any(not delta >= 0.0 for delta in deltas):
            raise ParameterError(f"min_delta={min_delta!r}: must be >= 0")
        self.stopping_rounds = whole_number(stopping_rounds, "stopping_rounds", low=-sys.maxsize)
        self.enabled = self.stopping_rounds > 0
        self.first_metric_only = first_metric_only
        self.verbose = verbose
        self.min_delta = min_delta
        self._best: dict[tuple[str, str], tuple[float, int, list[Evaluation]]] = {}
        self._evaluated = False

    def __call__(self, env: CallbackEnv) -> None:
        """Look at the evaluations and raise EarlyStopException when it is time."""
        if env.iteration == env.begin_iteration:
            self._best, self._evaluated = {}, False
        left_out = frozenset() if self.watches_training else env.training_names
        results = [result for result in env.evaluation_result_list if result.dataset not in left_out]
        if env.evaluation_result_list and not results:
            raise ParameterError(
                "early stopping needs a validation set: pass one in valid_sets besides the training set"
            )
        if results:
            self._evaluated = True
            self._update(env, results)
        if env.iteration == env.end_iteration - 1:
            self.finish()
            if not self._evaluated:  # no error: the model would be lost
                logger.warning("early stopping saw no evaluation in any round: the metric functions returned none")

    def check(self, validation_sets: Sequence[str], has_metrics: bool) -> None:
        """Refuse before training what could never stop; `train` calls this.

        validation_sets  names of the sets that may stop it
        has_metrics      whether there is any metric or metric function
        """
        if not validation_sets:
            raise ParameterError(
                "early stopping needs a validation set: pass one in valid_sets besides the training set"
            )
        if not has_metrics:
            raise ParameterError(
                "early stopping needs a metric, and there is none: name one in the parameter metric (an objective "
                "function has none of its own), or pass feval="
            )

    def finish(self) -> None:
        """Name the best iteration when training ends by itself or by Ctrl-C; `train` calls this at the end.

        It is that of the first metric on the first set (as in LightGBM): nothing else has stopped training.
        """
        if self._best:
            self._stop("no early stopping", *next(iter(self._best.values()))[1:])

    def _stop(self, how: str, best_iteration: int, results: list[Evaluation]) -> NoReturn:
        if self.verbose:  # said by who asked for it, so that it is heard whatever `verbosity` says
            logger.info(f"{how}, best iteration: {_line(best_iteration, results)}")
        raise EarlyStopException(best_iteration, results)

    def _update(self, env: CallbackEnv, results: list[Evaluation]) -> None:
        first, is_last = results[0].metric, env.iteration == env.end_iteration - 1
        metrics = list(dict.fromkeys(result.metric for result in results))
        if isinstance(self.min_delta, Sequence) and len(self.min_delta) != len(metrics):
            raise ParameterError(
                f"min_delta has {len(self.min_delta)} values for {len(metrics)} metrics; give one each"
            )
        for result in results:
            if self.first_metric_only and result.metric != first:
                continue
            delta = (
                self.min_delta[metrics.index(result.metric)] if isinstance(self.min_delta, Sequence) else self.min_delta
            )
            key = (result.dataset, result.metric)
            if key not in self._best or _is_better(result, self._best[key][0], delta):
                self._best[key] = (result.value, env.iteration, env.evaluation_result_list)
            elif not is_last and env.iteration - self._best[key][1] >= self.stopping_rounds:
                self._stop("early stopping", *self._best[key][1:])


def _is_better(result: Evaluation, best: float, delta: float) -> bool:
    """Say whether a value is better than the best so far by more than delta; any number is better than NaN."""
    if math.isnan(best):
        return not math.isnan(result.value)
    sign = 1.0 if result.higher_is_better else -1.0
    return sign * result.value > sign * best + delta


def prepare(
    callbacks: Sequence[Callback] | None,
    params: Params,
    validation_sets: Sequence[str],
    has_metrics: bool,
    only_training: bool = False,
    is_xgboosts: bool = False,
) -> list[Callback]:
    """Return the callbacks of a training in their order, early stopping by the parameters included, and check them.

    validation_sets, has_metrics  see EarlyStopping.check
    only_training                 the training set is evaluated, and no other: early stopping is left out, as by
                                  LightGBM (the last fit of a GridSearchCV may have nothing else)
    is_xgboosts                   whether a DMatrix is trained on: XGBoost's DART stops early, LightGBM's does not
    """
    if callable(callbacks):
        raise ParameterError("callbacks is one function; pass a list, also of one")
    if callbacks is not None and not isinstance(callbacks, Iterable):
        raise ParameterError(f"callbacks must be a list of functions, not {type(callbacks).__name__}")
    every = [callback for callback in callbacks or [] if getattr(callback, "enabled", True)]
    _check_callable(every)
    if params.early_stopping_round > 0:
        every.append(
            EarlyStopping(
                params.early_stopping_round, params.first_metric_only, params.verbosity >= 1,
                params.early_stopping_min_delta,
            )
        )  # fmt: skip
    blind = [callback for callback in every if isinstance(callback, EarlyStopping) and not callback.watches_training]
    if only_training and blind:
        warn(
            "early stopping is off: the training set alone is evaluated, and on it there is no best iteration",
            params.verbosity,
        )
        every = [callback for callback in every if callback not in blind]
    for callback in every:
        if hasattr(callback, "check"):
            watched = only_training and getattr(callback, "watches_training", False)
            callback.check(["training"] if watched else validation_sets, has_metrics)
    if params.boosting == "dart" and not is_xgboosts and any(isinstance(callback, EarlyStopping) for callback in every):
        warn(
            "early stopping is off with boosting='dart': later rounds change earlier trees, so the best iteration "
            "could not be brought back; set num_iterations",
            params.verbosity,
        )
        every = [callback for callback in every if not isinstance(callback, EarlyStopping)]
    return sorted(every, key=lambda callback: getattr(callback, "order", 0))


def _check_callable(callbacks: Sequence[Any]) -> None:
    """Refuse what is no function: callbacks of XGBoost are objects with methods of their own."""
    for place, callback in enumerate(callbacks):
        if not callable(callback):
            kind = type(callback)
            raise ParameterError(
                f"callbacks[{place}] is a {kind.__module__}.{kind.__qualname__}, no function of a CallbackEnv; use "
                "hornbeam.early_stopping, log_evaluation, record_evaluation or reset_parameter, or write a function; "
                "callbacks of scikit-learn are set by set_callbacks() of the estimator"
            )


def finish(callbacks: Sequence[Callback]) -> None:
    """Tell the callbacks that have a method `finish` that no iteration follows; EarlyStopException names the best."""
    for callback in callbacks:
        if hasattr(callback, "finish"):
            callback.finish()


def close(callbacks: Sequence[Callback]) -> None:
    """Tell the callbacks that have a method `close` that training is over."""
    for callback in callbacks:
        if hasattr(callback, "close"):
            callback.close()


def early_stopping(
    stopping_rounds: int,
    first_metric_only: bool = False,
    verbose: bool = True,
    min_delta: float | Sequence[float] = 0.0,
) -> EarlyStopping:
    """End training when a metric on a validation set has not got better for `stopping_rounds` rounds.

    It watches every pair of a validation set and a metric, and the first to run out of rounds ends training, as in
    LightGBM. If none does before the last round, the best iteration is that of the first metric on the first set. The
    training set, if it is among the validation sets, is not watched.

    Parameters
    ----------
    stopping_rounds
        Rounds without improvement; 0 or less: the callback does nothing.
    first_metric_only
        Look at the first metric alone.
    verbose
        Log the best iteration, whatever the parameter `verbosity` says.
    min_delta
        Improvement that counts: one number, or one a metric.
    """
    return EarlyStopping(stopping_rounds, first_metric_only, verbose, min_delta)


def deviation(result: Evaluation | MeanEvaluation) -> float | None:
    """Return the standard deviation over the folds in `cv`, None in `train`."""
    return result.stdv if isinstance(result, MeanEvaluation) else None


class LogEvaluation:
    """Logs the evaluations every `period` iterations."""

    before_iteration = False
    order = 10

    def __init__(self, period: int, show_stdv: bool) -> None:
        self.period = int(period) if isinstance(period, bool) else whole_number(period, "period", low=-sys.maxsize)
        self.show_stdv = show_stdv

    def __call__(self, env: CallbackEnv) -> None:
        """Log the evaluations, if it is time."""
        if self.period <= 0 or not env.evaluation_result_list or (env.iteration + 1) % self.period != 0:
            return
        logger.info(_line(env.iteration, env.evaluation_result_list, self.show_stdv))


def _line(iteration: int, results: Iterable[Any], show_stdv: bool = True) -> str:
    """Return the evaluations of an iteration as one line, in LightGBM's form."""
    texts = []
    for result in results:
        stdv = deviation(result) if show_stdv else None
        text = f"{result.dataset}'s {result.metric}: {result.value:g}"
        texts.append(text if stdv is None else f"{text} + {stdv:g}")
    return "\t".join([f"[{iteration + 1}]", *texts])


def log_evaluation(period: int = 1, show_stdv: bool = True) -> LogEvaluation:
    """Log the evaluations every `period` iterations; 0 or less, and False: never.

    In `cv` these are means over the folds, with their standard deviations if `show_stdv` is true.
    """
    return LogEvaluation(period, show_stdv)


class RecordEvaluation:
    """Writes the evaluations into a dict."""

    before_iteration = False
    order = 20
    replayed = True

    def __init__(self, eval_result: dict[str, dict[str, list[float]]]) -> None:
        if not isinstance(eval_result, dict):
            raise ParameterError(f"eval_result must be a dict, not {type(eval_result).__name__}")
        self.eval_result = eval_result

    def __call__(self, env: CallbackEnv) -> None:
        """Enter the evaluations of an iteration; those of an earlier training are forgotten."""
        if env.iteration == env.begin_iteration:
            self.eval_result.clear()
        for result in env.evaluation_result_list:
            of_set, stdv = self.eval_result.setdefault(result.dataset, {}), deviation(result)
            values = (
                {result.metric: result.value}
                if stdv is None
                else {f"{result.metric}-mean": result.value, f"{result.metric}-stdv": stdv}
            )
            for name, value in values.items():
                of_set.setdefault(name, []).append(value)


def record_evaluation(eval_result: dict[str, dict[str, list[float]]]) -> RecordEvaluation:
    """Write the evaluations into a dict.

    `eval_result[set][metric]` is a list, one value an evaluated iteration. In `cv` each metric has two lists, as in
    LightGBM: `eval_result["valid"]["l2-mean"]` and `eval_result["valid"]["l2-stdv"]`.

    Examples
    --------
    >>> record = {}
    >>> train_set = hb.Dataset(X, label=y)
    >>> booster = hb.train({}, train_set, 3, [train_set], ["train"], callbacks=[hb.record_evaluation(record)])
    >>> len(record["train"]["l2"])
    3
    """
    return RecordEvaluation(eval_result)


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


class ResetParameter:
    """Changes parameters from iteration to iteration."""

    before_iteration = True
    order = 10

    def __init__(self, schedules: Mapping[str, Schedule]) -> None:
        named = {BY_NAME[name].name if name in BY_NAME else name: schedule for name, schedule in schedules.items()}
        for name, schedule in named.items():
            if not callable(schedule) and not _is_list(schedule):
                raise ParameterError(f"{name}={schedule!r}: pass a list with one value an iteration, or a function")
        wrong = [name for name in named if name not in RESETTABLE]
        if wrong or not named:
            raise ParameterError(
                f"reset_parameter can change {', '.join(RESETTABLE)}, got {', '.join(wrong) or 'nothing'}; for other "
                "changes train on with init_model="
            )
        self.schedules = self.kwargs = named

    def __call__(self, env: CallbackEnv) -> None:
        """Set the values of the iteration that comes."""
        place, n_rounds = env.iteration - env.begin_iteration, env.end_iteration - env.begin_iteration
        for name, schedule in self.schedules.items():
            if not callable(schedule) and len(schedule) != n_rounds:
                raise ParameterError(f"{name} has {len(schedule)} values for {n_rounds} rounds; give one a round")
            try:
                value = BY_NAME[name].check(schedule(place) if callable(schedule) else schedule[place])
            except ParameterError as error:
                raise ParameterError(f"reset_parameter, iteration {env.iteration}: {error}") from None
            if name == "learning_rate":
                env.learning_rate = value
            else:
                env.changes[name] = value


def reset_parameter(**schedules: Schedule) -> ResetParameter:
    """Change parameters from iteration to iteration: the learning rate, or others of `RESETTABLE`.

    Parameters
    ----------
    **schedules
        By name or alias of a parameter: a list with one value an iteration, or a function of the iteration's number
        (from 0).

    Examples
    --------
    >>> schedule = hb.reset_parameter(learning_rate=lambda iteration: 0.1 * 0.99**iteration)
    >>> booster = hb.train({"objective": "binary"}, hb.Dataset(X, label=y), 5, callbacks=[schedule])
    """
    return ResetParameter(schedules)
