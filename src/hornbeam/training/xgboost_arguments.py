"""Arguments of XGBoost's `train` and `cv` that become callbacks and parameters here.

early_stopping_rounds, maximize     a callback that looks at the last metric on the last set, as XGBoost does
evals_result                        `record_evaluation`
verbose_eval, show_stdv             `log_evaluation`; on a DMatrix `EvaluationMonitor`, in `train` unless it is False
obj, fobj                           the parameter objective

Where a DMatrix is trained on, what could mean two things has XGBoost's meaning: arguments by place come in its order
(`ORDER`), and the parameters of `as_xgboosts` mean what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.core.errors import ParameterError
from hornbeam.core.numerics import log
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics.ranked_lists import WHOLE_LIST
from hornbeam.objectives import ALL_OBJECTIVES
from hornbeam.params.objective_names import SPELLINGS, FunctionBeside
from hornbeam.params.params import BY_NAME, Params, whole_number
from hornbeam.params.peer_parameters import OBJECTIVE_NAMES, VARIANTS
from hornbeam.params.xgboost_metrics import xgboosts_name
from hornbeam.training.callbacks import CallbackEnv, EarlyStopping, LogEvaluation, RecordEvaluation, deviation


def evaluation_of(metric: str, value: float) -> tuple[str, float]:
    """Return an evaluation as XGBoost gives it: by its name, and of squared errors the root, which it has alone."""
    return ("rmse", math.sqrt(value)) if metric == "l2" else (xgboosts_name(metric), value)


def set_name(name: str) -> str:
    """Return what XGBoost's estimators call a set of `eval_set`: "validation_0"; names of the user's own stay."""
    number = name.removeprefix("valid_")
    return f"validation_{number}" if number != name and number.isdecimal() else name


IN_FOLDS = {"valid": "test"}
"""What XGBoost calls the sets of `cv`."""

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

ROUNDS = 10
"""Iterations of `train` and `cv` where nothing says how many."""

MOST_LEVELS = 16
"""Levels of a tree that has more leaves than a tree may have."""

FIRST = 3
"""Arguments that come in one order in both libraries."""


class LastMetricStopping(EarlyStopping):
    """Ends training when the last metric on the last set has not got better for some rounds, the training set or not.

    maximize  whether higher values are better; None: what the metric says
    """

    watches_training = True

    def __init__(self, stopping_rounds: int, maximize: bool | None = None, verbose: bool = True) -> None:
        super().__init__(whole_number(stopping_rounds, "early_stopping_rounds", 1), verbose=verbose)
        self.maximize = maximize

    def __call__(self, env: CallbackEnv) -> None:
        """Look at one evaluation alone."""
        every = env.evaluation_result_list
        last = every[-1:]
        if self.maximize is not None:
            last = [result._replace(higher_is_better=self.maximize) for result in last]
        env.evaluation_result_list = last
        try:
            super().__call__(env)
        finally:
            env.evaluation_result_list = every


Log = dict[str, dict[str, list[Any]]]
"""Evaluations by set and metric, one value an iteration, in `cv` a pair: what XGBoost's callbacks are given."""


class EvaluationMonitor(LogEvaluation):
    """Prints the evaluations as XGBoost does, every `period` iterations and after the last: "[3]  eval-rmse:0.50000".

    In `cv` these are means over the folds, with their standard deviations if `show_stdv` is true. Of several workers
    the first one prints.
    """

    EvalsLog = Log

    def __init__(self, rank: int = 0, period: int = 1, show_stdv: bool = False) -> None:
        super().__init__(period, show_stdv)
        self.rank, self._latest = rank, ""

    def __call__(self, env: CallbackEnv) -> None:
        """Print a line, if it is time."""
        if self.period <= 0 or not env.evaluation_result_list:
            return
        epoch = env.iteration - env.begin_iteration
        texts = [f"[{epoch}]"]
        for result in env.evaluation_result_list:
            stdv = deviation(result)
            metric, value = evaluation_of(result.metric, result.value)
            name = result.dataset if stdv is None else IN_FOLDS.get(result.dataset, result.dataset)
            spread = "" if stdv is None or not self.show_stdv else f"+{stdv:.5f}"
            texts.append(f"{set_name(name)}-{metric}:{value:.5f}{spread}")
        self._latest = "\t".join(texts)
        if epoch % self.period == 0:
            self.close()

    def close(self) -> None:
        """Print the last line, if it is not printed."""
        if self._latest:
            print(self._latest, flush=True)  # noqa: T201
        self._latest = ""


def as_xgboosts(params: Any, train_set: Any) -> Any:
    """Return a dict of parameters in which those that mean something else in LightGBM mean what XGBoost says.

    alpha       the L1 penalty on leaf values, `lambda_l1`
    subsample   rows are drawn anew for every tree, unless `subsample_freq` says otherwise
    num_target  the number of columns of the labels, which must be that many
    num_class   above 1 without an objective: that of classes, "multi:softmax"
    monotone_constraints  a list of the first features'; the others have none

    What is not given has XGBoost's default, not LightGBM's (`DEFAULTS`), and trees have as many leaves as their depth
    allows.

    A list of pairs is a dict, too, with the metrics of all pairs "eval_metric".
    """
    if not has_xgboosts_ways(train_set) or not isinstance(params, (Mapping, list, tuple)):
        return params
    made = _dict_of(params)
    if made.get("num_target") == train_set.n_targets:
        del made["num_target"]
    if _whole(made.get("num_class")) > 1 and all(made.get(name) is None for name in OBJECTIVE_NAMES):
        made["objective"] = "multi:softmax"
    signs = made.get("monotone_constraints")
    if isinstance(signs, (list, tuple)) and len(signs) < train_set.n_features:
        made["monotone_constraints"] = [*signs, *[0] * (train_set.n_features - len(signs))]
    of_data = train_set.get_params()  # a QuantileDMatrix may have its own max_bin
    return {name: value for name, value in as_xgboost_means(made).items() if name in made or name not in of_data}


def as_xgboost_means(params: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return parameters by XGBoost's meaning of `alpha` and `subsample`, and with its defaults."""
    return _with_defaults(as_xgboost_changes(params, shapes_trees=False))


def as_xgboost_changes(params: Mapping[Any, Any], shapes_trees: bool) -> dict[Any, Any]:
    """Return parameters that change a training, by XGBoost's meaning of `alpha` and `subsample`.

    shapes_trees  whether a depth says how many leaves a tree has, unless they are given
    """
    made = dict(params)
    if made.get("alpha") is not None and "lambda_l1" not in made and "reg_alpha" not in made:
        made["lambda_l1"] = made.pop("alpha")
    is_part = isinstance(made.get("subsample"), (int, float)) and made["subsample"] < 1
    if is_part and not any(name in made for name in ("subsample_freq", "bagging_freq")):
        made["subsample_freq"] = 1
    if shapes_trees and "max_depth" in made and not any(made.get(name) for name in ("num_leaves", "max_leaves")):
        made["num_leaves"] = _leaves_of(made["max_depth"])
    return made


def with_stopping(
    params: Params, train_set: Dataset, callbacks: Sequence[Any] | None
) -> tuple[Params, Sequence[Any] | None]:
    """Return parameters and callbacks of a training on a DMatrix: early stopping watches what XGBoost's does.

    With first_metric_only, which is LightGBM's, it is LightGBM's.
    """
    if not train_set.is_xgboosts or params.early_stopping_round <= 0 or params.first_metric_only:
        return params, callbacks
    stopping = LastMetricStopping(params.early_stopping_round, verbose=False)
    stopping.min_delta = params.early_stopping_min_delta
    return params.replace(early_stopping_round=0), [*(callbacks or []), stopping]


DEFAULTS = {
    "learning_rate": 0.3, "max_depth": 6, "grow_policy": "depthwise", "lambda_l2": 1.0, "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 1.0, "max_bin": 256, "min_data_in_bin": 1,
}  # fmt: skip
"""XGBoost's defaults, where they are others than LightGBM's."""

MOST_PAIRS = 32
"""The rank up to which XGBoost's ranking objectives learn."""

POISSON_STEP = 0.7
"""XGBoost's `max_delta_step` for counts, whose steps would explode."""

MULTICLASS_FACTOR = 2.0
"""XGBoost's factor on the hessians of classes."""

DART = {"drop_rate": 0.0, "skip_drop": 0.0, "max_drop": -1, "uniform_drop": True, "xgboost_dart_mode": True}
"""The same for boosting="dart"."""

FILLED_IN = {
    **DEFAULTS, **DART, "lambdarank_truncation_level": MOST_PAIRS, "multiclass_hessian_factor": MULTICLASS_FACTOR,
    "max_delta_step": POISSON_STEP,
}  # fmt: skip
"""All values that parameters may have which nobody has typed."""


def _with_defaults(params: dict[Any, Any]) -> dict[Any, Any]:
    """Return parameters with XGBoost's defaults in the place of those that are not there."""
    given = {BY_NAME[name].name: name for name in params if name in BY_NAME and params[name] is not None}
    is_dart = params.get(given.get("boosting")) == "dart"
    meant = {"uniform_drop": "sample_type", "xgboost_dart_mode": "normalize_type"}
    defaults = {name: value for name, value in DART.items() if meant.get(name) not in params} if is_dart else {}
    if str(params.get(given.get("objective"))).startswith("rank:") and params.get("lambdarank_pair_method") != "mean":
        defaults["lambdarank_truncation_level"] = MOST_PAIRS
    if str(params.get(given.get("objective"))).startswith("multi:"):
        defaults["multiclass_hessian_factor"] = MULTICLASS_FACTOR
    if params.get(given.get("objective")) == "count:poisson":
        defaults["max_delta_step"] = POISSON_STEP
    made = {name: value for name, value in {**DEFAULTS, **defaults}.items() if name not in given}
    if params.get(given.get("num_leaves")) in (None, 0, "0"):
        params.pop(given.get("num_leaves"), None)
        made["num_leaves"] = _leaves_of(params.get(given.get("max_depth"), DEFAULTS["max_depth"]))
    return {**params, **made}


def _leaves_of(max_depth: Any) -> int:
    """Return how many leaves a tree of a depth has at most."""
    depth = _whole(max_depth)
    return 2**depth if 0 < depth < MOST_LEVELS else MAX_LEAVES


def _whole(value: Any) -> int:
    """Return a whole number, which may be a text; 0 for anything else, which is refused later."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def _dict_of(params: Any) -> dict[Any, Any]:
    """Return parameters that come as a dict or as pairs as a dict of our own."""
    if isinstance(params, Mapping):
        return dict(params)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in params):
        raise ParameterError("params must be a dict of parameter names and values, or a list of such pairs")
    metrics = [value for name, value in params if name == "eval_metric"]
    return {**dict(params), **({"eval_metric": metrics} if len(metrics) > 1 else {})}


DEFAULT_METRICS = {"regression": "rmse", "cross_entropy": "rmse", "gamma": "gamma_deviance"}
"""XGBoost's metrics of objectives, where they are others than ours."""

OF_LISTS = {"lambdarank": "ndcg", "pairwise": "ndcg", "rank_map": "map"}
"""The same of ranking objectives, at the rank up to which they learn."""


def with_default_metric(params: Params, trained: Any) -> Params:
    """Return the parameters of a training on a DMatrix with XGBoost's metric of the objective, where none is given.

    trained  the data, or the model that was made
    """
    if not trained.is_xgboosts or params.metric is not None:
        return params
    objective = params.objective_name
    if objective in OF_LISTS:
        at = "" if params.lambdarank_sampled_pairs else f"@{params.lambdarank_truncation_level}"
        return params.replace(metric=OF_LISTS[objective] + at)
    if objective == "custom" and params.num_class == 1:
        objective = "regression"  # XGBoost's where none is named
    return params.replace(metric=DEFAULT_METRICS[objective]) if objective in DEFAULT_METRICS else params


def ranks_of(params: Params, data: Dataset) -> tuple[int, ...]:
    """Return the ranks of metrics of lists that name none: `eval_at`, or, where a DMatrix has none, whole lists."""
    is_default = params.eval_at == BY_NAME["eval_at"].default
    return (WHOLE_LIST,) if data.is_xgboosts and is_default else params.eval_at


def metric_name(name: str, metric: Any, train_set: Dataset) -> str:
    """Return what evaluations call a value of a metric: by XGBoost's name for a DMatrix."""
    if not train_set.is_xgboosts:
        return name
    own = getattr(metric, "metric", metric)  # of one column, where labels have several
    return xgboosts_name(f"{name}@{own.variance_power:g}" if name == "tweedie" else name)


def as_xgboosts_history(history: dict[str, Any], as_pandas: bool) -> Any:
    """Return what `cv` returns as XGBoost's does: "test-auc-mean", "test-auc-std", a table where pandas is there."""
    made: dict[str, Any] = {}
    for key, values in history.items():
        if " " not in key:
            continue
        name, _, rest = key.partition(" ")
        metric, _, kind = rest.rpartition("-")
        place, of_folds = IN_FOLDS.get(name, name), {"stdv": "std"}.get(kind, kind)
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
        data = _trained_on(places, named)
        given: dict[str, Any] = {name: named.pop(name) for name in NAMES if name in named}
        if has_xgboosts_ways(data) and not data.is_estimators and function.__name__ == "train":
            given.setdefault("verbose_eval", True)
        if not any(value is not None for value in given.values()):
            return function(*places, **named)
        objective = given.get("obj") if given.get("obj") is not None else given.get("fobj")
        if objective is not None:
            if not callable(objective):
                raise ParameterError(f"obj={objective!r}: must be a function of scores and dataset")
            params = places.pop(0) if places else named.pop("params", None)
            is_begun = any(named.get(name) is not None for name in ("xgb_model", "init_model"))
            places.insert(0, _with_objective(params, objective, has_xgboosts_ways(data), not is_begun))
        made = _callbacks(given, has_xgboosts_ways(data))
        if made:
            named["callbacks"] = [*(named.get("callbacks") or []), *made]
        return function(*places, **named)

    return call


def has_xgboosts_ways(data: Any) -> bool:
    """Say whether trainings on data have XGBoost's ways; what is no data is refused later."""
    return bool(getattr(data, "is_xgboosts", False))


def _trained_on(places: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the training data among the arguments of `train` or `cv`."""
    return places[1] if len(places) > 1 else named.get("dtrain", named.get("train_set"))


def _in_xgboosts_order(
    name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments by place and by name; where a DMatrix is trained on, places are those of XGBoost's."""
    places, named = list(arguments), dict(keywords)
    data = _trained_on(places, named)
    if not has_xgboosts_ways(data):
        return places, named
    order = ORDER[name]
    if len(places) > len(order):
        raise TypeError(f"{name} takes {len(order)} arguments by place, {len(places)} are given")
    for argument, value in zip(order[FIRST:], places[FIRST:], strict=False):
        if argument in named:
            raise TypeError(f"{name} got two values for {argument!r}")
        named[argument] = value
    del places[FIRST:]
    if len(places) < FIRST and named.get("num_boost_round") is None and not data.is_estimators:
        params = places[0] if places else named.get("params")
        if not _says_rounds(params):
            named["num_boost_round"] = ROUNDS
    if places:
        places[0] = as_xgboosts(places[0], data)
    elif "params" in named:
        named["params"] = as_xgboosts(named["params"], data)
    return places, named


def _says_rounds(params: Any) -> bool:
    """Say whether parameters have the number of iterations, by any of its names."""
    if isinstance(params, Params):
        return "num_iterations" in params.given or params.num_iterations != BY_NAME["num_iterations"].default
    names = _dict_of({} if params is None else params)
    return any(name in BY_NAME and BY_NAME[name].name == "num_iterations" for name in names)


def _with_objective(params: Any, objective: Any, is_xgboosts: bool, starts: bool) -> Any:
    """Return parameters with an objective function, for a DMatrix beside the objective that they name.

    is_xgboosts  whether that is so
    starts       whether a training begins, where XGBoost's does
    """
    if isinstance(params, Params):
        return params.replace(objective=objective)
    given = _dict_of(params or {})
    others = {name: value for name, value in given.items() if name not in OBJECTIVE_NAMES}
    if not is_xgboosts:
        return {**others, "objective": objective}
    spelled = str(next((given[name] for name in OBJECTIVE_NAMES if given.get(name) is not None), None))
    name, way = VARIANTS.get(spelled, (SPELLINGS.get(spelled, ""), None))
    others |= {} if way is None else {way: True}
    if starts:
        others |= start_beside(name if way is None else "", given.get("base_score"))
    return {**others, "objective": FunctionBeside(objective, name) if name in ALL_OBJECTIVES else objective}


def start_beside(named: str, base: Any) -> dict[str, float]:
    """Return `base_score` of an objective function: the score that predicts 0.5, or base, by an objective's link.

    {}: base is one already
    """
    link = getattr(ALL_OBJECTIVES.get(named), "link", "identity")
    if base is not None and not (link in ("sigmoid", "exp") and isinstance(base, (int, float))):
        return {}
    value = np.array([0.5 if base is None else base], np.float64)
    odds = value / (1.0 - value) if link == "sigmoid" else value
    return {"base_score": float(log(odds)[0]) if link in ("sigmoid", "exp") else float(value[0])}


def _callbacks(given: dict[str, Any], is_xgboosts: bool) -> list[Any]:
    made: list[Any] = []
    if given.get("evals_result") is not None:
        made.append(RecordEvaluation(given["evals_result"]))
    period = given.get("verbose_eval")
    if period is not None and period is not False:
        every, show_stdv = 1 if period is True else period, given.get("show_stdv") is not False
        log = EvaluationMonitor(0, every, show_stdv) if is_xgboosts else LogEvaluation(every, show_stdv)
        made.append(log)
    rounds = given.get("early_stopping_rounds")
    if rounds is not None:
        made.append(LastMetricStopping(rounds, given.get("maximize"), verbose=bool(period) and not is_xgboosts))
    elif given.get("maximize") is not None and not is_xgboosts:
        raise ParameterError(
            "maximize= belongs to early_stopping_rounds=; a metric function says (name, value, higher)"
        )
    return made
