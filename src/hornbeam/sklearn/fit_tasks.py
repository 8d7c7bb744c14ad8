"""Callbacks of scikit-learn (1.9 and later): progress bars, score monitors and the like, set by `set_callbacks`.

To them a fit is a task that has one subtask an iteration. They are told when a task begins and ends, may look at an
estimator as fitted so far, and may ask to stop. scikit-learn before 1.9 has no callbacks: `set_callbacks` is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from hornbeam.training.callbacks import CallbackEnv, EarlyStopException, LogEvaluation, log_evaluation

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    CallbackSupportMixin, with_callbacks = object, lambda method: method

Method = TypeVar("Method", bound=Callable[..., Any])


def is_fit_task(method: Method) -> Method:
    """Let callbacks of scikit-learn put away what they have set up for a fit, however it ends."""
    wrapped: Method = with_callbacks(method)
    return wrapped


def takes_verbose(method: Method) -> Method:
    """Let a method `fit` take XGBoost's `verbose`: the evaluations are logged every so many iterations."""

    @wraps(method)
    def fit(self: TakesFitCallbacks, *arguments: Any, verbose: bool | int | None = None, **keywords: Any) -> Any:
        log = self._log_of(verbose)
        if log is not None:
            keywords["callbacks"] = [*(keywords.get("callbacks") or []), log]
        return method(self, *arguments, **keywords)

    return fit  # type: ignore[return-value]


class TakesFitCallbacks(CallbackSupportMixin):
    """What makes an estimator take callbacks of scikit-learn, where it has them, and `verbose`."""

    def _log_of(self, verbose: bool | int | None) -> LogEvaluation | None:
        """Return the callback that logs evaluations every `verbose` iterations; None: nothing is logged."""
        return log_evaluation(1 if verbose is True else verbose) if verbose else None


class FitTask:
    """A fit, as callbacks of scikit-learn see it; its methods do nothing where there are none.

    Parameters
    ----------
    estimator
        The estimator, its parameters checked and its target learned.
    n_rounds
        Iterations, at most.
    X, y, sample_weight
        What the user gave to `fit`.
    """

    def __init__(self, estimator: Any, n_rounds: int, X: Any, y: Any, sample_weight: Any) -> None:
        self._iteration: Any = None
        self._context: Any = None
        if hasattr(estimator, "_init_callback_context"):
            metadata = None if sample_weight is None else {"sample_weight": sample_weight}
            self._given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
            # made without callbacks too: it joins the fit to the task of a meta-estimator
            self._context = estimator._init_callback_context(max_subtasks=n_rounds)
            self._context.call_on_fit_task_begin(**self._given)
            self._is_watched = hasattr(estimator, "_skl_callbacks")

    def joined_to(self, callbacks: Any) -> Any:
        """Return the callbacks of `fit` and those that tell of the iterations; wrong ones are left to `train`."""
        is_list = callbacks is None or (isinstance(callbacks, Iterable) and not callable(callbacks))
        if self._context is None or not self._is_watched or not is_list:
            return callbacks
        return [IterationBegin(self), IterationEnd(self), *(callbacks or [])]

    def begin_iteration(self) -> None:
        """Tell that an iteration begins."""
        self._iteration = self._context.subcontext(task_name="iteration")
        self._iteration.call_on_fit_task_begin(**self._given)

    def end_iteration(self, env: CallbackEnv) -> None:
        """Tell that the iteration is done; the model so far is copied if a callback wants to see it."""
        context, self._iteration = self._iteration, None
        attributes = {"reconstruction_attributes": lambda: {"booster_": env.model[:]}}
        if context.call_on_fit_task_end(**self._given, **attributes):
            raise EarlyStopException(env.iteration, env.evaluation_result_list)

    def close(self) -> None:
        """End an iteration that came to nothing: no split gained anything, or there was an error."""
        if self._iteration is not None:
            context, self._iteration = self._iteration, None
            context.call_on_fit_task_end(estimator=self._given["estimator"])

    def end(self) -> None:
        """Tell that the estimator is fitted."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._given, reconstruction_attributes=dict)


class IterationBegin:
    """Tells callbacks of scikit-learn that an iteration begins."""

    before_iteration = True
    order = -1

    def __init__(self, task: FitTask) -> None:
        self.task = task

    def __call__(self, env: CallbackEnv) -> None:
        """Begin the task of the iteration."""
        self.task.begin_iteration()


class IterationEnd:
    """Tells them that it is done: after the evaluations are recorded (20), and before early stopping (30)."""

    order = 25

    def __init__(self, task: FitTask) -> None:
        self.task = task

    def __call__(self, env: CallbackEnv) -> None:
        """End the task of the iteration; EarlyStopException if a callback asks to stop."""
        self.task.end_iteration(env)

    def close(self) -> None:
        """End what is left; `train` calls this however training ends."""
        self.task.close()
