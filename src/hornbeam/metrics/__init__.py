"""Metrics: what a model is judged by. One file a family; see `base.Metric` for the contract."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from hornbeam.errors import ParameterError
from hornbeam.metrics.base import Metric
from hornbeam.metrics.classes import BinaryError, BinaryLogLoss, MultiError, MultiLogLoss
from hornbeam.metrics.ranking import AreaUnderCurve, AveragePrecision
from hornbeam.metrics.regression import MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError, RSquared

if TYPE_CHECKING:
    from hornbeam.objectives import Objective
    from hornbeam.params import Params

__all__ = ["ALIASES", "METRICS", "Metric", "get_metric", "get_metrics"]

METRICS: dict[str, type[Metric]] = {
    kind.name: kind
    for kind in (
        MeanAbsoluteError,
        MeanSquaredError,
        RootMeanSquaredError,
        RSquared,
        BinaryLogLoss,
        BinaryError,
        AreaUnderCurve,
        AveragePrecision,
        MultiLogLoss,
        MultiError,
    )
}
"""Every metric by its canonical name."""

ALIASES: dict[str, str] = {
    # LightGBM
    "mean_absolute_error": "l1",
    "mae": "l1",
    "regression_l1": "l1",
    "mean_squared_error": "l2",
    "mse": "l2",
    "regression_l2": "l2",
    "regression": "l2",
    "root_mean_squared_error": "rmse",
    "l2_root": "rmse",
    "binary": "binary_logloss",
    "multiclass": "multi_logloss",
    "softmax": "multi_logloss",
    # XGBoost
    "logloss": "binary_logloss",
    "error": "binary_error",
    "aucpr": "average_precision",
    "mlogloss": "multi_logloss",
    "merror": "multi_error",
    # scikit-learn
    "r2_score": "r2",
    "squared_error": "l2",
    "absolute_error": "l1",
    "roc_auc": "auc",
}
"""Other names of the metrics, by whose users type them."""

NO_METRIC = ("none", "None", "null", "na", "custom")
"""Names that mean: no metric (as LightGBM)."""


def get_metric(name: str) -> Metric:
    """Build one metric from its name or an alias."""
    canonical = ALIASES.get(name, name)
    if canonical not in METRICS:
        near = difflib.get_close_matches(name, [*METRICS, *ALIASES], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"metric={name!r} is not known; use one of {', '.join(METRICS)}, or 'none'{hint}")
    return METRICS[canonical]()


def get_metrics(params: Params, objective: Objective) -> list[Metric]:
    """Build the metrics that the parameters name, each once, in their order; None means the objective's own metric.

    Raises ParameterError for an unknown name and for a metric that does not fit the number of outputs.
    """
    given = objective.default_metric if params.metric is None else params.metric
    names = (given,) if isinstance(given, str) else tuple(given)
    if any(name in NO_METRIC for name in names):
        if len(names) > 1:
            raise ParameterError(f"metric={list(names)!r} asks for a metric and for none; leave one of them out")
        return []
    metrics = {metric.name: metric for metric in map(get_metric, names)}
    for metric in metrics.values():
        if metric.for_classes != (objective.n_outputs > 1):
            fitting = [name for name, kind in METRICS.items() if kind.for_classes == (objective.n_outputs > 1)]
            raise ParameterError(
                f"metric={metric.name!r} does not fit objective {objective.name!r} with {objective.n_outputs} "
                f"output(s) a row; use one of {', '.join(fitting)}"
            )
    return list(metrics.values())
