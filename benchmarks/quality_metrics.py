"""The metrics of the quality table: one implementation of each for all libraries. See quality.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
    mean_tweedie_deviance,
    roc_auc_score,
)

from hornbeam.data.queries import boundaries_of
from hornbeam.metrics import get_metric
from hornbeam.metrics.base import MeanLoss
from hornbeam.metrics.ranked_lists import NormalizedGain
from hornbeam.objectives import CustomObjective

NDCG = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")
HIGHER_IS_BETTER = {"auc", *NDCG}
METRICS = {
    "binary": ("auc", "logloss"),
    "cross_entropy": ("auc", "logloss"),
    "focal": ("auc", "focal"),
    "multiclass": ("multi_logloss", "error"),
    "multiclassova": ("multi_logloss", "error"),
    "regression": ("rmse",),
    "regression_l1": ("mae",),
    "huber": ("huber",),
    "fair": ("fair",),
    "quantile": ("pinball",),
    "mape": ("mape",),
    "poisson": ("poisson deviance",),
    "gamma": ("gamma deviance",),
    "tweedie": ("tweedie deviance",),
    "logcosh": ("logcosh",),
    "expectile": ("expectile",),
    "lambdarank": NDCG,
    "rank_xendcg": NDCG,
    "pairwise": NDCG,
}
"""Of each objective: its own loss at its default parameters, and what else is usual.

Deviances and `kl` are losses less the loss of perfect predictions, so that percents of them mean something.
"""

LEVEL = 0.9
"""Our default `alpha`: the quantile that is predicted."""
VARIANCE_POWER = 1.5
"""Our default `tweedie_variance_power`."""

OURS = {"huber": "huber", "fair": "fair", "mape": "mape", "logcosh": "logcosh", "expectile": "expectile"} | {
    "focal": "focal",
    "kl": "kullback_leibler",
}
"""Metrics that scikit-learn has not got, by our names: our NumPy definitions."""


def own_metric(name: str, y: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Return one of our metrics of predictions (not of raw scores)."""
    metric = get_metric(name)
    assert isinstance(metric, MeanLoss) and not metric.uses_raw_scores
    no_link = CustomObjective(None, 1)
    return metric(y, np.ascontiguousarray(predicted[np.newaxis]), None, no_link)


def measure(metric: str, y: NDArray[np.float64], predicted: NDArray[np.float64], query: Any = None) -> float:
    """Return a metric.

    y          float64 (n_rows,)                        in
    predicted  float64 (n_rows,) or (n_rows, n_classes)  in  probabilities, means or scores
    query      int64   (n_rows,)                        in  or None; rows of a query are neighbours
    """
    predicted = np.asarray(predicted, np.float64)
    if metric.startswith("ndcg@"):
        sizes = np.unique(query, return_counts=True)[1]
        return NormalizedGain((int(metric[5:]),)).at_ranks(y, predicted, None, boundaries_of(sizes))[0]
    if metric in ("logloss", "multi_logloss"):
        if predicted.ndim == 2:
            predicted = predicted / predicted.sum(axis=1, keepdims=True)  # XGBoost's float32 rows do not add up to 1
        return float(log_loss(y, predicted, labels=np.unique(y)))
    if metric == "error":
        return float(np.mean(np.argmax(predicted, axis=1) != y))
    if metric == "rmse":
        return math.sqrt(float(mean_squared_error(y, predicted)))
    if metric in OURS:
        return own_metric(OURS[metric], y, predicted)
    of_sklearn = {
        "auc": roc_auc_score,
        "mae": mean_absolute_error,
        "pinball": lambda y, p: mean_pinball_loss(y, p, alpha=LEVEL),
        "poisson deviance": mean_poisson_deviance,
        "gamma deviance": mean_gamma_deviance,
        "tweedie deviance": lambda y, p: mean_tweedie_deviance(y, p, power=VARIANCE_POWER),
    }
    return float(of_sklearn[metric](y, predicted))
