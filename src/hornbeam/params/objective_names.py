"""Names of objectives: every spelling, and the parameters that each looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SPELLINGS = {
    spelling: name
    for name, spellings in {
        "regression": (
            "regression_l2", "l2", "mean_squared_error", "mse", "l2_root", "root_mean_squared_error", "rmse",
            "reg:squarederror", "reg:linear", "squared_error",
        ),
        "regression_l1": ("l1", "mean_absolute_error", "mae", "reg:absoluteerror", "absolute_error"),
        "huber": (),
        "fair": (),
        "pseudohuber": ("reg:pseudohubererror", "pseudo_huber"),
        "squared_log_error": ("reg:squaredlogerror",),
        "poisson": ("count:poisson",),
        "quantile": ("reg:quantileerror",),
        "mape": ("mean_absolute_percentage_error",),
        "gamma": ("reg:gamma",),
        "tweedie": ("reg:tweedie",),
        "logcosh": ("log_cosh",),
        "expectile": ("reg:expectileerror",),
        "binary": ("binary:logistic", "log_loss"),
        "cross_entropy": ("xentropy", "reg:logistic"),
        "cross_entropy_lambda": ("xentlambda",),
        "focal": ("binary_focal", "focal_loss"),
        "hinge": ("binary:hinge",),
        "multiclass": ("softmax", "multi:softprob"),
        "multiclassova": ("multiclass_ova", "ova", "ovr"),
        "lambdarank": ("rank:ndcg",),
        "rank_xendcg": ("xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart"),
        "pairwise": ("rank:pairwise", "ranknet"),
        "rank_map": ("rank:map",),
        "survival:aft": (),
        "survival:cox": (),
        "custom": ("none", "None", "null", "na"),
    }.items()
    for spelling in (name, *spellings)
}  # fmt: skip
"""Canonical name of every spelling."""

USED_BY: dict[str, frozenset[str]] = {
    "alpha": frozenset(("huber", "quantile", "expectile")),
    "fair_c": frozenset(("fair",)),
    "huber_slope": frozenset(("pseudohuber",)),
    "poisson_max_delta_step": frozenset(("poisson",)),
    "tweedie_variance_power": frozenset(("tweedie", "tweedie_deviance", "tweedie-nloglik")),
    "reg_sqrt": frozenset(("regression",)),
    "focal_gamma": frozenset(("focal",)),
    "focal_alpha": frozenset(("focal",)),
    "sigmoid": frozenset(("binary", "multiclassova", "lambdarank", "pairwise", "rank_map")),
    "multiclass_hessian_factor": frozenset(("multiclass",)),
    "predict_classes": frozenset(("multiclass",)),
    "predict_scores": frozenset(("binary",)),
    "scale_pos_weight": frozenset(("binary", "multiclassova")),
    "is_unbalance": frozenset(("binary", "multiclassova")),
    "lambdarank_truncation_level": frozenset({"lambdarank", "pairwise", "rank_map"}),
    "lambdarank_norm": frozenset({"lambdarank", "pairwise", "rank_map"}),
    "lambdarank_position_bias_regularization": frozenset({"lambdarank", "pairwise", "rank_map"}),
    "lambdarank_sampled_pairs": frozenset({"lambdarank", "pairwise", "rank_map"}),
    "lambdarank_unbiased": frozenset({"lambdarank", "pairwise", "rank_map"}),
    "lambdarank_bias_norm": frozenset({"lambdarank", "pairwise", "rank_map"}),
    "label_gain": frozenset({"lambdarank", "pairwise", "rank_xendcg", "ndcg", "map", "mrr"}),
    "aft_loss_distribution": frozenset({"survival:aft", "aft-nloglik"}),
    "aft_loss_distribution_scale": frozenset({"survival:aft", "aft-nloglik"}),
    "objective_seed": frozenset({"rank_xendcg", "lambdarank", "pairwise", "rank_map"}),
}
"""Parameters that only some objectives and metrics look at, by their canonical names."""


@dataclass(frozen=True)
class FunctionBeside:
    """An objective function beside which an objective is named, as XGBoost's users do.

    The function has the gradients; start, predictions and metric are those of the objective.
    """

    function: Callable[..., Any]
    named: str

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)


RENEWED = ("regression_l1", "quantile", "mape")
"""Objectives whose leaf values are percentiles of residuals (Objective.renewal_percentile)."""
