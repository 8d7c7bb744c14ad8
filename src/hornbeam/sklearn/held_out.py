"""Parameters of scikit-learn's HistGradientBoosting that are about the fit, not about the model.

    early_stopping, n_iter_no_change, validation_fraction, scoring, tol     rows held out; when training ends by them
    warm_start                                                              whether `fit` goes on from the model
    quantile                                                                what is called alpha here

They come as further keywords of the constructor. `early_stopping` is scikit-learn's where it is True, False or "auto",
or where one of the others is given beside it; a number is LightGBM's, rounds on the sets of `eval_set`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.model.booster import Booster
from hornbeam.params.params import Params, whole_number
from hornbeam.sklearn.arguments import seed_of
from hornbeam.sklearn.named_parameters import OF_FIT
from hornbeam.sklearn.stage_scores import ScoredRows, first_score, training_scores
from hornbeam.sklearn.target_columns import has_columns
from hornbeam.training.callbacks import CallbackEnv, EarlyStopException

MANY_ROWS = 10_000
"""Rows beyond which early_stopping="auto" holds rows out, as in scikit-learn."""

_ALONE = ("validation_fraction", "scoring", "tol")
_PLAIN = (*_ALONE, "warm_start", "callbacks", "missing")


def without_fit_parameters(others: Mapping[str, Any]) -> dict[str, Any]:
    """Return further keywords of the constructor without those that are about the fit."""
    left = {name: value for name, value in others.items() if name not in _PLAIN}
    if _mode(others) is not None:
        left = {name: value for name, value in left.items() if name not in ("early_stopping", "n_iter_no_change")}
    if callable(left.get("eval_metric")) or isinstance(left.get("eval_metric"), (list, tuple)):
        left["eval_metric"] = [metric for metric in _listed(left["eval_metric"]) if not callable(metric)] or None
    quantile = left.pop("quantile", None)
    return left if quantile is None else {**left, "alpha": quantile}


def _listed(value: Any) -> list[Any]:
    """Return what is one thing or a list of them as a list; None: none."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def joined_functions(others: Mapping[str, Any], metrics: Any, callbacks: Any) -> tuple[Any, Any]:
    """Return metrics and callbacks of `fit` with those of the constructor, as XGBoost's estimators take them there."""
    functions = [metric for metric in _listed(others.get("eval_metric")) if callable(metric)]
    before = _listed(others.get("callbacks"))
    if functions:
        metrics = [*_listed(metrics), *functions]
    return metrics, [*before, *_listed(callbacks)] if before else callbacks


def _mode(others: Mapping[str, Any]) -> bool | str | None:
    """Return early_stopping in scikit-learn's sense: True, False or "auto"; None: it is not meant so."""
    given = others.get("early_stopping")
    if isinstance(given, (bool, np.bool_)):
        return bool(given)
    if given == "auto":
        return "auto"
    is_asked = any(name in others for name in _ALONE)
    return "auto" if given is None and is_asked else None


def wants_warm_start(others: Mapping[str, Any]) -> bool:
    """Say whether `fit` goes on from the model that there is."""
    given = others.get("warm_start", OF_FIT["warm_start"])
    if not isinstance(given, (bool, np.bool_)):
        raise ParameterError(f"warm_start={given!r}: must be True or False")
    return bool(given)


def rounds_to_go(params: Params, booster: Booster) -> Params:
    """Return the parameters with the iterations that are left of those asked for, after those of a model."""
    left = params.num_iterations - booster.n_iterations
    if left < 0:
        raise ParameterError(
            f"warm_start: the model has {booster.n_iterations} iterations, and n_estimators (max_iter) is "
            f"{params.num_iterations}; raise it, or set warm_start=False"
        )
    return params.replace(num_iterations=left)


@dataclass
class FitData:
    """What `fit` was given, as far as rows may be taken out of it."""

    X: Any
    y: Any
    sample_weight: Any
    init_score: Any
    pairs: list[tuple[Any, Any]]
    eval_sample_weight: Sequence[Any] | None
    eval_init_score: Sequence[Any] | None


def hold_out(estimator: Any, data: FitData) -> tuple[FitData, ScoreStopping | None]:
    """Return the data with rows held out, and the callback that ends training by them; None: training runs to its end.

    The validation set is the last pair of the user's own where there is one, `X_val` for instance; else it is
    `validation_fraction` of the rows, stratified for a classifier, or with None all of the training rows.
    """
    others = estimator._other_params
    mode = _mode(others)
    if mode is None:
        return data, None
    if mode is False:
        return data, None
    fraction = others.get("validation_fraction", OF_FIT["validation_fraction"])
    if not data.pairs and mode == "auto" and _count_rows(data.X) <= MANY_ROWS:
        return data, None
    rounds = whole_number(others.get("n_iter_no_change", 10), "n_iter_no_change", 1)
    tol = others.get("tol", OF_FIT["tol"])
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.number)) or not tol >= 0:
        raise ParameterError(f"tol={tol!r}: must be a number of at least 0")
    if not data.pairs and fraction is not None:
        data = _split(estimator, data, fraction)
    elif not data.pairs:
        data.pairs = [(data.X, data.y)]
    scorer = _scorer(estimator, others.get("scoring", OF_FIT["scoring"]))
    return data, ScoreStopping(rounds, float(tol), estimator, scorer, data.pairs[-1], len(data.pairs) - 1)


def scores_so_far(estimator: Any) -> list[float]:
    """Return the validation scores that a warm start goes on from, before `fit`."""
    if not wants_warm_start(estimator._other_params) or not hasattr(estimator, "booster_"):
        return []
    return list(getattr(estimator, "validation_score_", ()))


def scores_of_fit(
    estimator: Any, data: FitData, stopping: ScoreStopping | None, before: list[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return train_score_ and validation_score_, float64 (n_iter_ + 1,); (0,) where no rows are held out.

    before  validation scores of earlier iterations
    """
    if stopping is None:
        return np.empty(0), np.empty(0)
    rows = ScoredRows(data.X, data.y, data.sample_weight, data.init_score)
    given = [
        one[-1] if isinstance(one, (list, tuple)) else one for one in (data.eval_sample_weight, data.eval_init_score)
    ]  # an array alone is that of the only set
    first = before or first_score(estimator, stopping.scorer, ScoredRows(*stopping.pair, *given))
    return training_scores(estimator, stopping.scorer, rows), np.array([*first, *stopping.scores])


def _count_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _split(estimator: Any, data: FitData, fraction: Any) -> FitData:
    is_table = hasattr(data.X, "shape") or isinstance(data.X, (list, tuple))
    if isinstance(data.y, str) or not is_table:
        raise DataError(
            "early_stopping=True holds rows out of a table in memory; pass X_val and y_val beside files, or "
            "early_stopping=False"
        )
    n_rows = _count_rows(data.X)
    seed = seed_of(estimator.random_state)
    classes = np.asarray(data.y) if is_classifier(estimator) and not has_columns(data.y) else None
    try:
        kept, held = train_test_split(
            np.arange(n_rows), test_size=fraction, stratify=classes, random_state=0 if seed is None else seed
        )
    except ValueError as error:
        raise ParameterError(f"validation_fraction={fraction!r} of {n_rows} rows: {error}") from None

    def part(values: Any, rows: Any) -> Any:
        return None if values is None else _safe_indexing(values, np.sort(rows))

    X, y, weight, score = data.X, data.y, data.sample_weight, data.init_score
    return FitData(
        part(X, kept), part(y, kept), part(weight, kept), part(score, kept), [(part(X, held), part(y, held))],
        None if weight is None else [part(weight, held)], None if score is None else [part(score, held)],
    )  # fmt: skip


def _scorer(estimator: Any, scoring: Any) -> Any:
    """Return a function of (estimator, X, y), or None: the loss decides."""
    if isinstance(scoring, str) and scoring == "loss":
        return None
    if scoring is None:
        return lambda fitted, X, y: fitted.score(X, y)
    if callable(scoring):
        return scoring
    try:
        return get_scorer(scoring)
    except ValueError as error:
        raise ParameterError(f"scoring={scoring!r}: {error}") from None


class ScoreStopping:
    """Ends training when none of the last scores is better than the one before them, as scikit-learn does.

    Parameters
    ----------
    rounds
        Number of these scores.
    tol
        What counts as better.
    estimator, scorer
        Who is judged, and by what; scorer None: the first metric, the objective's own if no other is asked for.
    pair
        Rows and targets to judge by.
    place
        Number of the validation set among those that are evaluated.

    Attributes
    ----------
    scores
        One an iteration, higher is better.
    """

    order = 30
    before_iteration = False
    replayed = True

    def __init__(self, rounds: int, tol: float, estimator: Any, scorer: Any, pair: tuple[Any, Any], place: int) -> None:
        self.rounds, self.tol, self.place = rounds, tol, place
        self._estimator, self.scorer, self.pair = estimator, scorer, pair
        self.scores: list[float] = []

    def __call__(self, env: CallbackEnv) -> None:
        """Judge the model so far, and raise EarlyStopException when it is time."""
        if env.iteration == env.begin_iteration:
            self.scores = []
        self.scores.append(self._loss(env) if self.scorer is None else self._score(env))
        recent = self.scores[-self.rounds :]
        if len(self.scores) > self.rounds and not any(
            score > self.scores[-self.rounds - 1] + self.tol for score in recent
        ):
            raise EarlyStopException(env.iteration, env.evaluation_result_list)

    def _loss(self, env: CallbackEnv) -> float:
        names = list(dict.fromkeys(result.dataset for result in env.evaluation_result_list))
        results = [result for result in env.evaluation_result_list if names and result.dataset == names[self.place]]
        if not results:
            raise ParameterError("scoring='loss' needs a metric, and an objective function has none; pass scoring=")
        return results[0].value if results[0].higher_is_better else -results[0].value

    def _score(self, env: CallbackEnv) -> float:
        shell = copy.copy(self._estimator)
        shell.booster_ = env.model
        return float(self.scorer(shell, *self.pair))
