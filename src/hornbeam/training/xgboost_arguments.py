"""Arguments of XGBoost's `train` and `cv` that become callbacks and parameters here.

early_stopping_rounds, maximize     a callback that looks at the last metric on the last set, as XGBoost does
evals_result                        `record_evaluation`
verbose_eval, show_stdv             `log_evaluation`
obj, fobj                           the parameter objective

Where a DMatrix is trained on, what could mean two things has XGBoost's meaning: arguments by place come in its order
(`ORDER`), and the parameters of `as_xgboosts` mean what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from hornbeam.core.errors import ParameterError
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.dmatrix import DMatrix
from hornbeam.params.params import Params, whole_number
from hornbeam.training.callbacks import CallbackEnv, EarlyStopping, LogEvaluation, RecordEvaluation

METRIC_NAMES = {
    "binary_logloss": "logloss", "binary_error": "error", "multi_logloss": "mlogloss", "multi_error": "merror",
    "average_precision": "aucpr", "l1": "mae", "poisson": "poisson-nloglik", "gamma": "gamma-nloglik",
    "gamma_deviance": "gamma-deviance", "tweedie": "tweedie-nloglik",
    "pseudohuber": "mphe",
}  # fmt: skip
"""What XGBoost calls metrics, which evaluations of a training on a DMatrix bear; others have one name in both."""


def xgboosts_name(metric: str) -> str:
    """Return what XGBoost calls a metric; what comes after @ stays: error@0.3."""
    name, at_sign, rest = metric.partition("@")
    return METRIC_NAMES.get(name, name) + at_sign + rest


def evaluation_of(metric: str, value: float) -> tuple[str, float]:
    """Return an evaluation as XGBoost gives it: by its name, and of squared errors the root, which it has alone."""
    return ("rmse", math.sqrt(value)) if metric == "l2" else (xgboosts_name(metric), value)


def set_name(name: str) -> str:
    """Return what XGBoost's estimators call a set of `eval_set`: "validation_0"; names of the user's own stay."""
    number = name.removeprefix("valid_")
    return f"validation_{number}" if number != name and number.isdecimal() else name


P = ParamSpec("P")
R = TypeVar("R")

NAMES = ("early_stopping_rounds", "maximize", "evals_result", "verbose_eval", "show_stdv", "obj", "fobj")

ORDER = {
    "train": (
        "params", "dtrain", "num_boost_round", "evals", "obj", "maximize", "early_stopping_rounds", "evals_result",
        "verbose_eval", "xgb_model", "callbacks", "custom_metric",
    ),
    "cv": (
        "params", "dtrain", "num_boost_round", "nfold", "stratified", "folds", "metrics", "obj", "maximize",
        "early_stopping_rounds", "fpreproc", "as_pandas", "verbose_eval", "show_stdv", "seed", "callbacks", "shuffle",
    ),
}  # fmt: skip
"""XGBoost's order of the arguments of `train` and `cv`."""

FIRST = 3
"""Arguments that come in one order in both libraries."""


class LastMetricStopping(EarlyStopping):
    """Ends training when the last metric on the last validation set has not got better for some rounds.

    maximize  whether higher values are better; None: what the metric says
    """

    def __init__(self, stopping_rounds: int, maximize: bool | None = None, verbose: bool = True) -> None:
        super().__init__(whole_number(stopping_rounds, "early_stopping_rounds", 1), verbose=verbose)
        self.maximize = maximize

    def __call__(self, env: CallbackEnv) -> None:
        """Look at one evaluation alone."""
        every = env.evaluation_result_list
        others = [result for result in every if result.dataset not in env.training_names]
        last = others[-1:]
        if self.maximize is not None:
            last = [result._replace(higher_is_better=self.maximize) for result in last]
        env.evaluation_result_list = last
        try:
            super().__call__(env)
        finally:
            env.evaluation_result_list = every


def as_xgboosts(params: Any, train_set: Any) -> Any:
    """Return a dict of parameters in which those that mean something else in LightGBM mean what XGBoost says.

    alpha       the L1 penalty on leaf values, `lambda_l1`
    subsample   rows are drawn anew for every tree, unless `subsample_freq` says otherwise
    num_target  the number of columns of the labels, which must be that many

    A list of pairs is a dict, too, with the metrics of all pairs "eval_metric".
    """
    if not isinstance(train_set, DMatrix) or not isinstance(params, (Mapping, list, tuple)):
        return params
    made = _dict_of(params)
    if made.get("alpha") is not None and "lambda_l1" not in made and "reg_alpha" not in made:
        made["lambda_l1"] = made.pop("alpha")
    is_part = isinstance(made.get("subsample"), (int, float)) and made["subsample"] < 1
    if is_part and not any(name in made for name in ("subsample_freq", "bagging_freq")):
        made["subsample_freq"] = 1
    if made.get("num_target") == train_set.n_targets:
        del made["num_target"]
    return made


def _dict_of(params: Any) -> dict[Any, Any]:
    """Return parameters that come as a dict or as pairs as a dict of our own."""
    if isinstance(params, Mapping):
        return dict(params)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in params):
        raise ParameterError("params must be a dict of parameter names and values, or a list of such pairs")
    metrics = [value for name, value in params if name == "eval_metric"]
    return {**dict(params), **({"eval_metric": metrics} if len(metrics) > 1 else {})}


def with_default_metric(params: Params, train_set: Dataset) -> Params:
    """Return the parameters with XGBoost's metric of squared errors, rmse, where a DMatrix comes without a metric."""
    if isinstance(train_set, DMatrix) and params.metric is None and params.objective == "regression":
        return params.replace(metric="rmse")
    return params


def metric_name(metric: str, train_set: Dataset) -> str:
    """Return what evaluations call a metric: by XGBoost's name for a DMatrix."""
    return xgboosts_name(metric) if isinstance(train_set, DMatrix) else metric


def as_xgboosts_history(history: dict[str, Any], as_pandas: bool) -> Any:
    """Return what `cv` returns as XGBoost's does: "test-auc-mean", "test-auc-std", a table where pandas is there."""
    made: dict[str, Any] = {}
    for key, values in history.items():
        if " " not in key:
            continue
        name, _, rest = key.partition(" ")
        metric, _, kind = rest.rpartition("-")
        place, of_folds = {"valid": "test"}.get(name, name), {"stdv": "std"}.get(kind, kind)
        made[f"{place}-{xgboosts_name(metric)}-{of_folds}"] = values
    if not as_pandas:
        return made
    try:
        import pandas as pd
    except ImportError:
        return made
    return pd.DataFrame(made)


def takes_xgboost_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Make `train` or `cv` take XGBoost's arguments: parameters first, callbacks by name."""

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        places, named = _in_xgboosts_order(function.__name__, arguments, keywords)
        given: dict[str, Any] = {name: named.pop(name) for name in NAMES if name in named}
        if not any(value is not None for value in given.values()):
            return function(*places, **named)
        objective = given.get("obj") if given.get("obj") is not None else given.get("fobj")
        if objective is not None:
            if not callable(objective):
                raise ParameterError(f"obj={objective!r}: must be a function of scores and dataset")
            params = places.pop(0) if places else named.pop("params", None)
            places.insert(0, _with_objective(params, objective))
        made = _callbacks(given)
        if made:
            named["callbacks"] = [*(named.get("callbacks") or []), *made]
        return function(*places, **named)

    return call


def _in_xgboosts_order(
    name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments by place and by name; where a DMatrix is trained on, places are those of XGBoost's."""
    places, named = list(arguments), dict(keywords)
    data = places[1] if len(places) > 1 else named.get("dtrain", named.get("train_set"))
    if not isinstance(data, DMatrix):
        return places, named
    order = ORDER[name]
    if len(places) > len(order):
        raise TypeError(f"{name} takes {len(order)} arguments by place, {len(places)} are given")
    for argument, value in zip(order[FIRST:], places[FIRST:], strict=False):
        if argument in named:
            raise TypeError(f"{name} got two values for {argument!r}")
        named[argument] = value
    del places[FIRST:]
    if places:
        places[0] = as_xgboosts(places[0], data)
    elif "params" in named:
        named["params"] = as_xgboosts(named["params"], data)
    return places, named


def _with_objective(params: Any, objective: Any) -> Any:
    if isinstance(params, Params):
        return params.replace(objective=objective)
    others = {name: value for name, value in (params or {}).items() if name not in _OBJECTIVE_NAMES}
    return {**others, "objective": objective}


_OBJECTIVE_NAMES = ("objective", "objective_type", "app", "application", "loss")


def _callbacks(given: dict[str, Any]) -> list[Any]:
    made: list[Any] = []
    if given.get("evals_result") is not None:
        made.append(RecordEvaluation(given["evals_result"]))
    period = given.get("verbose_eval")
    if period is not None and period is not False:
        made.append(LogEvaluation(1 if period is True else period, given.get("show_stdv") is not False))
    rounds = given.get("early_stopping_rounds")
    if rounds is not None:
        made.append(LastMetricStopping(rounds, given.get("maximize"), verbose=period is not False))
    elif given.get("maximize") is not None:
        raise ParameterError(
            "maximize= belongs to early_stopping_rounds=; a metric function says (name, value, higher)"
        )
    return made
