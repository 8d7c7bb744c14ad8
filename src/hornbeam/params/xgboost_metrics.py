"""What XGBoost calls metrics."""

from __future__ import annotations

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
