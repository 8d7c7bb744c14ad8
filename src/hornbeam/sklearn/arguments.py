"""What users pass to the estimators, brought to the form that `train` wants.

Above all objectives and metrics: scikit-learn users write functions of (y_true, y_pred), `train` calls functions of
(scores, dataset).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.device_arrays import host_array
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import NO_METRIC
from hornbeam.objectives import get_objective
from hornbeam.objectives.device_functions import DeviceData, is_on_device, on_device
from hornbeam.params.params import Params
from hornbeam.training.function_calls import MetricFunction

FloatArray = NDArray[np.float64]
UserFunction = Callable[..., Any]
"""function(y_true, y_pred), function(y_true, y_pred, weight) or function(y_true, y_pred, weight, group).

weight is None where there are no weights, and group, the sizes of the queries, where there are no queries. Arguments
with a default keep it, but for `sample_weight` and `weight`, which get the weights by name where there are some. NumPy
arrays, or arrays of the device that trains if the function is marked by `hornbeam.on_device`."""


BY_NAME = {"weight": "weight", "weights": "weight", "sample_weight": "weight", "group": "group"}
"""Fields of the data by what a function of the user's own calls them that need not be given them."""


@dataclass(frozen=True)
class TakenFields:
    """What a function of the user's own takes of the data after (y_true, y_pred).

    n_places  arguments by place that must be given: weight, then group, as in LightGBM
    names     fields that may be given, by what the function calls them; other arguments with a default keep it
    """

    n_places: int
    names: Mapping[str, str]

    @classmethod
    def of(cls, function: UserFunction, what: str) -> TakenFields:
        """Read the signature of a function, which messages call `what`."""
        parameters = list(inspect.signature(function).parameters.values())
        by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        needed = [p for p in by_place if p.default is p.empty]
        takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        if len(needed) > 4 or (len(by_place) < 2 and not takes_any):
            raise ParameterError(
                f"{what} takes {len(by_place)} arguments; it must take (y_true, y_pred), (y_true, y_pred, weight) or "
                "(y_true, y_pred, weight, group)"
            )
        by_name = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        free = [p.name for p in by_name if p not in needed and p not in by_place[:2]]
        return cls(max(len(needed) - 2, 0), {name: BY_NAME[name] for name in free if name in BY_NAME})

    @property
    def has_weight(self) -> bool:
        """Whether the function is given weights, and so applies them itself."""
        return self.n_places > 0 or "weight" in self.names.values()

    def call(self, function: UserFunction, label: Any, predictions: Any, data: Any) -> Any:
        """Call the function; what it may leave out is given where it is there."""
        found = {own: getattr(data, field) for own, field in self.names.items()}
        named = {own: value for own, value in found.items() if value is not None}
        places = [getattr(data, field) for field in ("weight", "group")[: self.n_places]]
        return function(label, predictions, *places, **named)


def adapt_objective(function: UserFunction) -> Callable[[FloatArray, Dataset], tuple[Any, Any]]:
    """Make the user's function an objective as `train` calls it, marked by `on_device` if the function is."""
    fields = TakenFields.of(function, "the objective function")

    def objective(scores: Any, data: Any) -> Any:
        weight = data.weight
        shape = scores.shape  # the function may do with them what it likes
        result = fields.call(function, data.label, scores, data)
        if fields.has_weight or weight is None or not isinstance(result, (tuple, list)) or len(result) != 2:
            return result
        to_array = data.array if isinstance(data, DeviceData) else host_array
        both = [to_array(values, f"the {what}") for what, values in zip(("gradient", "hessian"), result, strict=True)]
        if any(array.shape != shape for array in both):
            return both  # they are refused as they are
        return tuple(array * (weight if len(shape) == 1 else weight[:, None]) for array in both)

    return on_device(objective) if is_on_device(function) else objective


def adapt_metric(function: UserFunction, by_name: bool = False) -> MetricFunction:
    """Make the user's function a metric as `train` calls it, marked by `on_device` if the function is.

    by_name  whether the function takes weights by the name `sample_weight`, as those of scikit-learn do
    """
    of_peer = TakenFields(0, {"sample_weight": "weight"})
    fields = of_peer if by_name else TakenFields.of(function, "the metric function")

    def metric(predictions: Any, data: Any) -> Any:
        found = fields.call(function, data.label, predictions, data)
        if isinstance(found, (tuple, list)):
            return found
        return getattr(function, "__name__", type(function).__name__), found, False  # as XGBoost has it: a loss

    return on_device(metric) if is_on_device(function) else metric


def split_metrics(eval_metric: Any, by_name: bool = False) -> tuple[list[str], list[MetricFunction]]:
    """Return names and functions among the metrics asked for in `fit`; by_name: see `adapt_metric`."""
    if eval_metric is None:
        return [], []
    given = [eval_metric] if isinstance(eval_metric, str) or callable(eval_metric) else list(eval_metric)
    names = [name.strip() for metric in given if isinstance(metric, str) for name in metric.split(",")]
    return names, [adapt_metric(metric, by_name) for metric in given if not isinstance(metric, str)]


class NamesEvaluations:
    """How an estimator names what it evaluates: metrics, and validation sets."""

    _beside_functions = "l2"
    """The metric of an objective that is a function, as in LightGBM's estimators."""
    _weighs_by_name = False
    """Whether metric functions take weights by the name `sample_weight`, as XGBoost's estimators hand them over."""

    def _with_metrics(self, params: Params, names: list[str]) -> Params:
        """Put the metrics that are given to `fit` before those of the parameters, or of the objective."""
        is_function = params.metric is None and callable(params.objective)
        if not names and not is_function:
            return params
        if not names or names[0] not in NO_METRIC:
            own = get_objective(params).default_metric if params.metric is None else params.metric
            own = self._beside_functions if is_function else own
            names = names + [name for name in ([own] if isinstance(own, str) else own) if name not in NO_METRIC]
        return params.replace(metric=names)

    def _names_of_sets(self, names: Any, are_training: Sequence[bool]) -> Any:
        """Return the names of validation sets, those that are given; None: LightGBM's, with the training data once."""
        if names is not None:
            return names
        first = are_training.index(True) if True in are_training else -1
        return ["training" if place == first else f"valid_{place}" for place in range(len(are_training))]


ORDER = ("raw_score", "start_iteration", "num_iteration", "pred_leaf", "pred_contrib", "validate_features")
"""Arguments of `predict` of LightGBM's estimators after the table, in their order."""


def in_order(places: tuple[Any, ...], choices: dict[str, Any]) -> dict[str, Any]:
    """Return the choices of a prediction with those that came by place named."""
    if len(places) > len(ORDER):
        raise TypeError(f"predict takes a table and at most {len(ORDER)} choices by place: {', '.join(ORDER)}")
    named = dict(zip(ORDER, places, strict=False))
    twice = [name for name in named if name in choices]
    if twice:
        raise TypeError(f"predict got {twice[0]} by place and by name")
    return {**named, **choices}


def seed_of(random_state: Any) -> Any:
    """Return a seed; a generator is asked for one, anything else is left to the check of parameters."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return random_state


def threads_of(n_jobs: Any) -> Any:
    """Return num_threads for joblib's negative numbers; anything else is left to the check of parameters."""
    if isinstance(n_jobs, (int, np.integer)) and n_jobs < -1:
        from hornbeam.core.cpus import available_cpus

        return max(1, available_cpus() + 1 + int(n_jobs))
    return n_jobs


def eval_pairs(eval_set: Any, eval_X: Any = None, eval_y: Any = None) -> list[tuple[Any, Any]]:
    """Return the validation sets as a list of (X, y), from pairs, or from tables and targets (tuples, or one each)."""
    if eval_X is not None or eval_y is not None:
        if eval_set is not None:
            raise DataError("eval_set beside eval_X and eval_y: both are validation sets; pass one of them")
        tables = eval_X if isinstance(eval_X, tuple) else (eval_X,)
        targets = eval_y if isinstance(eval_y, tuple) else (eval_y,)
        if len(tables) != len(targets) or any(part is None for part in (*tables, *targets)):
            raise DataError(
                "eval_X and eval_y must be a table and its target, or a tuple of tables and one of as many targets"
            )
        return list(zip(tables, targets, strict=True))
    alone = isinstance(eval_set, tuple) and not all(isinstance(part, tuple) for part in eval_set)
    pairs = [eval_set] if alone else list(eval_set or [])
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise DataError("eval_set must be a list of pairs; pass eval_set=[(X, y)]")
    return pairs


def one_each(values: Sequence[Any] | None, name: str, n_sets: int) -> list[Any]:
    """Return one value for each validation set; None for all where nothing was given."""
    if n_sets == 1 and getattr(values, "ndim", 0) == 1 and np.asarray(values).dtype.kind in "fiu":
        values = [values]  # of the only set, as scikit-learn's sample_weight_val
    given = [None] * n_sets if values is None else list(values)
    if len(given) != n_sets:
        raise DataError(f"{name} has {len(given)} entries and eval_set {n_sets}; pass one each, or None in its place")
    return given


def named_categories(categorical_feature: Any) -> dict[str, Any]:
    """Return the parameter that names categorical features, if they are named."""
    if isinstance(categorical_feature, str) and categorical_feature == "auto":
        return {}
    return {"categorical_feature": categorical_feature}
