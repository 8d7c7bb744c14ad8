"""What callbacks are given: the values of metrics on data sets."""

from __future__ import annotations

from abc import ABC
from typing import Any, NamedTuple

from hornbeam.core.errors import ParameterError

LIGHTGBMS_NAMES = ("dataset_name", "metric_name", "metric_value", "maximize", "metric_std_dev")
"""What LightGBM calls the fields of an evaluation."""


def _field_of(evaluation: tuple[Any, ...], name: str) -> Any:
    """Return a field by LightGBM's name of it."""
    if name not in LIGHTGBMS_NAMES[: len(evaluation)]:
        raise AttributeError(f"an evaluation has no {name!r}")
    return evaluation[LIGHTGBMS_NAMES.index(name)]


class Evaluation(NamedTuple):
    """One metric on one data set after one iteration; the fields have LightGBM's names, too."""

    dataset: str
    metric: str
    value: float
    higher_is_better: bool

    def __getattr__(self, name: str) -> Any:
        return _field_of(self, name)


class MeanEvaluation(NamedTuple):
    """The same in `cv`: the mean over the folds, with the standard deviation as a fifth field (as in LightGBM)."""

    dataset: str
    metric: str
    value: float
    higher_is_better: bool
    stdv: float

    def __getattr__(self, name: str) -> Any:
        return _field_of(self, name)


class EvalResult(ABC):  # noqa: B024 -- it has registered classes
    """What LightGBM calls the class of evaluations: both kinds are of it, and it makes them by its names of fields."""

    def __new__(
        cls,
        dataset_name: str,
        metric_name: str,
        metric_value: float,
        maximize: bool,
        metric_std_dev: float | None = None,
    ) -> Any:
        """Return an evaluation; one of `cv` where there is a standard deviation."""
        fields = dataset_name, metric_name, metric_value, maximize
        return Evaluation(*fields) if metric_std_dev is None else MeanEvaluation(*fields, metric_std_dev)


EvalResult.register(Evaluation)
EvalResult.register(MeanEvaluation)


def as_evaluation(result: Any) -> Evaluation:
    """Return an evaluation; tuples are taken too, as LightGBM's callbacks give them. Deviations are left out."""
    if isinstance(result, Evaluation):
        return result
    if not isinstance(result, tuple) or len(result) not in (4, 5) or not all(isinstance(t, str) for t in result[:2]):
        raise ParameterError(
            f"EarlyStopException: best_score has {result!r}; entries are (data set, metric, value, higher_is_better)"
        )
    return Evaluation(result[0], result[1], float(result[2]), bool(result[3]))
