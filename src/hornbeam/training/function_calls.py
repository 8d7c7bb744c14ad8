"""Calls of the user's functions in a training: what they are given, on host or device, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.dataset.dataset import Dataset
from hornbeam.objectives import CustomObjective, Objective
from hornbeam.objectives.device_functions import DeviceData, is_on_device
from hornbeam.trees.engine import Engine
from hornbeam.trees.records import ForestMean

MetricFunction = Callable[[NDArray[np.float64], Dataset], Any]
"""function(predictions, dataset) -> (name, value, higher_is_better), or a list of such; see `on_device` too."""


def metric_functions(feval: MetricFunction | Sequence[MetricFunction] | None) -> list[MetricFunction]:
    """Return the argument `feval` as a list of functions."""
    if callable(feval):
        return [feval]
    several: Any = [] if feval is None else feval
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise ParameterError(f"feval must be a function or a list of functions, not {type(feval).__name__}")
    functions = list(several)
    for function in functions:
        if not callable(function):
            raise ParameterError(f"feval has a {type(function).__name__}, no function of predictions and dataset")
    return functions


def compute_gradients(engine: Engine, objective: CustomObjective, train_set: Dataset) -> None:
    """Call an objective function at the engine's scores, and give the engine its gradients."""
    exchange = engine.arrays
    if exchange is None or not is_on_device(objective.function):
        engine.set_gradients(*objective.evaluate(engine.scores(), train_set))
        return
    with exchange.scope():
        data = DeviceData(train_set, exchange)
        exchange.set_gradients(*objective.call(exchange.scores(), data, exchange))


def evaluate_metric(
    function: MetricFunction,
    engine: Engine,
    objective: Objective,
    dataset: Dataset,
    valid: int,
    forest: ForestMean | None,
    host_scores: Callable[[], NDArray[np.float64]],
) -> list[tuple[str, float, bool]]:
    """Call a metric function on the predictions of a validation set, or of the training set: `valid` is -1.

    forest       how scores are made of the engine's sums of trees; None: they are the scores
    host_scores  returns the raw scores in host memory, float64 (n_outputs, n_rows)

    Returns names, values, and whether higher ones are better.
    """
    exchange, marked = engine.arrays, is_on_device(function)
    given: Any
    if exchange is not None and marked:
        predictions = exchange.predictions(objective, dataset, valid, forest)
        with exchange.scope():  # values on the device come to the host in the function's own stream
            return _checked(function(predictions, DeviceData(dataset, exchange, valid)))  # type: ignore[arg-type]
    given = DeviceData(dataset, valid=valid) if marked else dataset
    return call_metric(function, objective.predictions(host_scores()), given)


def call_metric(function: MetricFunction, made: NDArray[np.float64], given: Any) -> list[tuple[str, float, bool]]:
    """Call a metric function on predictions in host memory, float64 (n_outputs, n_rows); returns as above."""
    return _checked(function(made[0].copy() if len(made) == 1 else made.T.copy(), given))


def _checked(found: Any) -> list[tuple[str, float, bool]]:
    """Return the results of a metric function, which may be one or a list of them."""
    many = found if isinstance(found, list) else [found]
    for one in many:
        if not (isinstance(one, tuple) and len(one) in (2, 3) and isinstance(one[0], str)):
            raise ParameterError(
                f"feval returned {one!r}; return (name, value, higher_is_better), or a list of such tuples"
            )
    triples = [one if len(one) == 3 else (*one, _rises(one[0])) for one in many]
    return [(name, _number(value, name), bool(higher)) for name, value, higher in triples]


def _rises(name: str) -> bool:
    """Say whether a metric is better when it rises, which a pair of name and value does not tell: XGBoost's rule."""
    return name.startswith(("auc", "map", "ndcg", "pre")) and name != "mape"


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"feval returned {_short(value)} as {name!r}; return one number: (name, value, higher_is_better)"
        ) from None


def _short(value: object) -> str:
    """Describe a value of the user's in few characters; Python itself refuses to write out huge integers."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def check_names(names: list[str]) -> None:
    """Raise ParameterError where two evaluations of one data set bear one name: their histories would be mixed."""
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ParameterError(
            f"two metrics are called {twice!r}; let the function in feval return another name, or leave out one of them"
        )
