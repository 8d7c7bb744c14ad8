"""Metrics: what a model is judged by. One file a family; see `base.Metric` for the contract."""

from __future__ import annotations

import difflib
import math

from hornbeam.core.errors import ParameterError
from hornbeam.metrics.amounts import GammaDeviance, GammaLoss, PoissonLoss, TweedieDeviance, TweedieLoss
from hornbeam.metrics.auc_mu import AucMu
from hornbeam.metrics.base import Metric
from hornbeam.metrics.class_order import AreaUnderCurve, AveragePrecision, OrderOfClasses
from hornbeam.metrics.classes import (
    BinaryError,
    BinaryLogLoss,
    CrossEntropy,
    CrossEntropyLambda,
    FocalLoss,
    KullbackLeibler,
    MultiError,
    MultiLogLoss,
)
from hornbeam.metrics.one_against_rest import OneAgainstRest
from hornbeam.metrics.ranked_lists import MeanAveragePrecision, NormalizedGain, Precision, QueryMetric, ReciprocalRank
from hornbeam.metrics.regression import (
    ExpectileLoss,
    FairLoss,
    HuberLoss,
    LogCoshLoss,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    PseudoHuberLoss,
    QuantileLoss,
    QuantileLosses,
    RootMeanSquaredError,
    RootMeanSquaredLogError,
    RSquared,
)
from hornbeam.metrics.survival import AftLikelihood, Concordance, CoxLikelihood, IntervalAccuracy
from hornbeam.metrics.targets import TargetsMetric
from hornbeam.objectives import Objective
from hornbeam.params.params import Params

__all__ = ["ALIASES", "METRICS", "Metric", "fit_to_outputs", "get_metric", "get_metrics"]

METRICS: dict[str, type[Metric]] = {
    kind.name: kind
    for kind in (
        MeanAbsoluteError,
        MeanSquaredError,
        RootMeanSquaredError,
        RootMeanSquaredLogError,
        RSquared,
        HuberLoss,
        FairLoss,
        PseudoHuberLoss,
        QuantileLoss,
        ExpectileLoss,
        MeanAbsolutePercentageError,
        LogCoshLoss,
        PoissonLoss,
        GammaLoss,
        GammaDeviance,
        TweedieLoss,
        TweedieDeviance,
        BinaryLogLoss,
        BinaryError,
        CrossEntropy,
        CrossEntropyLambda,
        KullbackLeibler,
        FocalLoss,
        AreaUnderCurve,
        AveragePrecision,
        MultiLogLoss,
        MultiError,
        AucMu,
        NormalizedGain,
        MeanAveragePrecision,
        ReciprocalRank,
        Precision,
        AftLikelihood,
        IntervalAccuracy,
        CoxLikelihood,
        Concordance,
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
    "multiclassova": "multi_logloss",
    "multiclass_ova": "multi_logloss",
    "ova": "multi_logloss",
    "ovr": "multi_logloss",
    "mean_absolute_percentage_error": "mape",
    "xentropy": "cross_entropy",
    "xentlambda": "cross_entropy_lambda",
    "kldiv": "kullback_leibler",
    "log_cosh": "logcosh",
    "lambdarank": "ndcg",
    "rank_xendcg": "ndcg",
    "xendcg": "ndcg",
    "xe_ndcg": "ndcg",
    "xe_ndcg_mart": "ndcg",
    "xendcg_mart": "ndcg",
    "mean_average_precision": "map",
    # XGBoost
    "logloss": "binary_logloss",
    "error": "binary_error",
    "aucpr": "average_precision",
    "mlogloss": "multi_logloss",
    "merror": "multi_error",
    "mphe": "pseudohuber",
    "poisson-nloglik": "poisson",
    "gamma-nloglik": "gamma",
    "gamma-deviance": "gamma_deviance",
    "tweedie-nloglik": "tweedie",
    "c-index": "concordance",
    "concordance_index": "concordance",
    # scikit-learn
    "r2_score": "r2",
    "squared_error": "l2",
    "absolute_error": "l1",
    "mean_gamma_deviance": "gamma_deviance",
    "mean_tweedie_deviance": "tweedie_deviance",
    "mean_pinball_loss": "quantile",
    "roc_auc": "auc",
    "ndcg_score": "ndcg",
}
"""Other names of the metrics, by whose users type them."""

FOR_CLASSES = {"binary_logloss": "multi_logloss", "binary_error": "multi_error"}
"""Metrics of two classes, and the same of any number of them."""

NO_METRIC = ("none", "None", "null", "na", "custom")
"""Names that mean: no metric (as LightGBM)."""


NO_METRICS: dict[str, str] = {
    **dict.fromkeys(("accuracy", "acc"), "use 'binary_error' or 'multi_error', which are 1 - accuracy"),
    **dict.fromkeys(
        ("f1", "f1_score", "precision", "recall", "mcc"), "pass a function: feval= of train, eval_metric= of fit"
    ),
}
"""Metrics that users ask for and that are not here, and what to do instead."""


def get_metric(name: str, params: Params | None = None, ranks: tuple[int, ...] | None = None) -> Metric:
    """Build one metric from its name or an alias; it may name a rank, as in ndcg@10, a threshold or a power: error@0.3.

    params  where the metric's constants come from; None: their defaults
    ranks   of a metric of lists that names none; None: `eval_at`
    """
    base, at_sign, rank = name.partition("@")
    if base in NO_METRICS:
        raise ParameterError(f"metric={name!r} is not available here; {NO_METRICS[base]}")
    kind = METRICS.get(ALIASES.get(base, base))
    minus = name.endswith("-")
    if minus and issubclass(METRICS.get(ALIASES.get(base[:-1], base[:-1]), kind or Metric), QueryMetric):
        base, rank = base.removesuffix("-"), rank.removesuffix("-")
        kind = METRICS[ALIASES.get(base, base)]
    if at_sign and kind is BinaryError:
        return BinaryError(_number(name, rank, "threshold", 0.0, 1.0))
    if at_sign and kind is TweedieLoss:
        return TweedieLoss.at(_number(name, rank, "variance power", 1.0, math.nextafter(2.0, 1.0)))
    if kind is None or (at_sign and not issubclass(kind, QueryMetric)):
        near = difflib.get_close_matches(base, [*METRICS, *ALIASES], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"metric={name!r} is not known; use one of {', '.join(METRICS)}, or 'none'{hint}")
    if not issubclass(kind, QueryMetric):
        return kind() if params is None else kind.from_params(params)
    if at_sign and (not (rank.isascii() and rank.isdigit()) or int(rank) < 1):
        raise ParameterError(
            f"metric={name!r}: the rank after @ must be an integer of at least 1, as in {base}@10 (queries without a "
            f"relevant document count as 1, and as 0 to {base}@10-)"
        )
    eval_at = (1, 2, 3, 4, 5) if params is None else params.eval_at
    at = (int(rank),) if at_sign else kind.default_at or ranks or eval_at
    return kind(at, None if params is None else params.label_gain, minus)


def _number(name: str, text: str, what: str, low: float, high: float) -> float:
    """Return the number after @ in the name of a metric."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise ParameterError(
            f"metric={name!r}: the {what} after @ must be a number from {low:g} to {math.ceil(high)}, as in error@0.3 "
            "and tweedie@1.5"
        )
    return number


def fit_to_outputs(name: str, n_outputs: int) -> str:
    """Return the name of a metric of classes as it is called for one output or for several; others as they are."""
    canonical = ALIASES.get(name, name)
    for of_two, of_several in FOR_CLASSES.items():
        if canonical in (of_two, of_several):
            return of_several if n_outputs > 1 else of_two
    return name


def get_metrics(params: Params, objective: Objective, ranks: tuple[int, ...] | None = None) -> list[Metric]:
    """Build the metrics that the parameters name, each once, in their order; None means the objective's own metric.

    ranks  as in `get_metric`

    Raises ParameterError for an unknown name and for a metric that does not fit the number of outputs.
    """
    given = objective.default_metric if params.metric is None else params.metric
    names = (given,) if isinstance(given, str) else tuple(given)
    if any(name in NO_METRIC for name in names):
        if len(names) > 1:
            raise ParameterError(f"metric={list(names)!r} asks for a metric and for none; leave one of them out")
        return []
    metrics: dict[str, Metric] = {}
    for metric in (get_metric(name, params, ranks) for name in names):
        seen = metrics.setdefault(metric.name, metric)
        if isinstance(seen, QueryMetric) and isinstance(metric, QueryMetric):
            metrics[metric.name] = seen.at_more(metric.at)
    if objective.n_targets > 1:
        return [TargetsMetric(metric) for metric in metrics.values()]
    for name, metric in metrics.items():
        if isinstance(metric, OrderOfClasses) and objective.n_outputs > 1:
            metrics[name] = OneAgainstRest(metric)
        if isinstance(metric, QuantileLoss) and isinstance(params.alpha, tuple):
            metrics[name] = QuantileLosses(params.alpha)
    for metric in metrics.values():
        if metric.for_classes != (objective.n_outputs > 1):
            fitting = [name for name, kind in METRICS.items() if kind.for_classes == (objective.n_outputs > 1)]
            fitting = ["quantile"] if isinstance(params.alpha, tuple) else fitting
            raise ParameterError(
                f"metric={metric.name!r} does not fit objective {objective.name!r} with {objective.n_outputs} "
                f"output(s) a row; use one of {', '.join(fitting)}"
            )
    return list(metrics.values())
