"""What to learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hornbeam.params.objective_names import SPELLINGS
from hornbeam.params.rows.row import parameter


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # Params has these
class ObjectiveRows:
    """Rows of the group Objective."""

    objective: str | Callable[..., Any] = parameter(
        "objective",
        "regression",
        "Objective",
        "What to learn. Numbers: `regression` (squared error), `regression_l1` (absolute error), `huber`, `fair`, "
        "`pseudohuber`, `quantile`, `mape`, `logcosh`, `expectile`, `squared_log_error` (labels from 0 on). Counts and "
        "amounts, predicted as exp(score): `poisson`, `gamma`, `tweedie`. Classes: `binary` (log loss, labels 0 and "
        "1), `cross_entropy` (labels from 0 to 1), `cross_entropy_lambda` (the same, predicted as log(1 + exp(score)); "
        "weights are exponents), `focal`, `hinge` (predicts 0 or 1), `multiclass` (softmax, labels 0 to `num_class` - "
        "1), `multiclassova` (each class against the others). "
        "Ranking (a Dataset with `group` or `qid`, labels 0, 1, ... by relevance): `lambdarank`, `rank_xendcg`, "
        "`pairwise`, `rank_map` (labels 0 and 1). Times that may be censored: `survival:aft` (bounds of the times in "
        "the Dataset, or labels that are observed times), `survival:cox` (labels are times, negative where censored); "
        "both predict exp(score). Or a function `(scores, dataset) -> (gradient, hessian)`, marked by "
        "`hornbeam.on_device` if it "
        "shall work on arrays of a GPU; a saved model that was trained with a function says `custom`.",
        aliases=("objective_type", "app", "application", "loss"),
        choices=SPELLINGS,
    )
    num_class: int = parameter(
        "int",
        1,
        "Objective",
        "Number of classes of `multiclass` and `multiclassova` (2 or more), or of outputs of an objective function; 1 "
        "otherwise.",
        aliases=("num_classes", "n_classes"),
        low=1,
    )
    boost_from_average: bool = parameter(
        "bool", True, "Objective", "Start from the best constant (mean, log-odds, class priors) instead of zero."
    )
    base_score: float | tuple[float, ...] | None = parameter(
        "start",
        None,
        "Objective",
        "The prediction that training starts from, instead of the best constant: a mean, a probability (`binary`, "
        "`cross_entropy`), a count. `multiclass`, `hinge` and ranking take it as the raw score of every row. A list "
        "has a number for each output.",
    )
    predict_classes: bool = parameter(
        "bool",
        False,
        "Objective",
        "`multiclass`: `predict` returns the class of the highest score instead of probabilities. XGBoost's objective "
        "`multi:softmax` is `multiclass` with it. Metrics, and functions, see probabilities as ever.",
    )
    predict_scores: bool = parameter(
        "bool",
        False,
        "Objective",
        "`binary`: `predict` returns raw scores instead of probabilities. XGBoost's objective `binary:logitraw` is "
        "`binary` with it. Metrics, and functions, see probabilities as ever.",
    )
    sigmoid: float = parameter(
        "float",
        1.0,
        "Objective",
        "Slope of the sigmoid of `binary`, `multiclassova`, `lambdarank`, `pairwise` and `rank_map`.",
        low=1e-30,
        high=1e30,
    )
    lambdarank_truncation_level: int = parameter(
        "int",
        30,
        "Objective",
        "`lambdarank`, `pairwise` and `rank_map`: pairs have at least one document among this many first ranks.",
        aliases=("lambdarank_num_pair_per_sample",),
        low=1,
        high=2**31 - 1,
    )
    lambdarank_norm: bool = parameter(
        "bool",
        True,
        "Objective",
        "`lambdarank`, `pairwise` and `rank_map`: weigh pairs by the distance of their scores, and queries alike.",
        aliases=("lambdarank_normalization",),
    )
    lambdarank_sampled_pairs: int = parameter(
        "int",
        0,
        "Objective",
        "`lambdarank`, `pairwise` and `rank_map`: pairs that are drawn for each document, with documents of its query "
        "that have other labels, anew in every iteration; 0: all pairs of `lambdarank_truncation_level`. XGBoost's "
        '`lambdarank_pair_method="mean"` with `lambdarank_num_pair_per_sample`, or 1, is turned into it.',
        low=0,
        high=2**20,
    )
    lambdarank_unbiased: bool = parameter(
        "bool",
        False,
        "Objective",
        "`lambdarank`, `pairwise` and `rank_map` of clicks: learn how much they owe to the places at which documents "
        "were shown, which are those of the rows in their query (XGBoost, Unbiased LambdaMART).",
    )
    lambdarank_bias_norm: float = parameter(
        "float",
        1.0,
        "Objective",
        "`lambdarank_unbiased`: biases are raised to the power of 1 / (1 + this).",
        low=0.0,
    )
    lambdarank_position_bias_regularization: float = parameter(
        "float",
        0.0,
        "Objective",
        "`lambdarank`, `pairwise` and `rank_map` of a Dataset with `position`: L2 penalty on the biases of positions.",
        low=0.0,
    )
    label_gain: tuple[float, ...] | None = parameter(
        "gains",
        None,
        "Objective",
        "Ranking: gain of a document by its label, a list; None: 2^label - 1 for labels 0 to 30.",
    )
    objective_seed: int = parameter(
        "int",
        5,
        "Objective",
        "Key of the random numbers of `rank_xendcg`, together with `seed`.",
        low=0,
        high=2**63 - 1,
    )
    alpha: float | tuple[float, ...] = parameter(
        "alpha",
        0.9,
        "Objective",
        "Where `huber` turns from squares to absolute values; the quantile of `quantile` and the level of `expectile` "
        "(below 1); a list of quantiles makes one model of all of them, an output and a tree an iteration each. An "
        "error where neither objective nor metric looks at it: XGBoost's `alpha` is `lambda_l1` here.",
        aliases=("quantile_alpha", "expectile_alpha"),
        low=0.0,
        low_open=True,
    )
    fair_c: float = parameter(
        "float", 1.0, "Objective", "Where `fair` turns from squares to absolute values.", low=0.0, low_open=True
    )
    huber_slope: float = parameter(
        "float", 1.0, "Objective", "Where `pseudohuber` turns from squares to absolute values.", low=0.0, low_open=True
    )
    poisson_max_delta_step: float = parameter(
        "float",
        0.7,
        "Objective",
        "Hessians of `poisson` are multiplied by exp of this, which keeps its steps small.",
        low=0.0,
        low_open=True,
        high=100.0,
    )
    multiclass_hessian_factor: float = parameter(
        "float",
        0.0,
        "Objective",
        "What the hessians of `multiclass` are multiplied by; 0: K / (K - 1) for K classes, as in LightGBM. XGBoost "
        "has 2, and so have trainings on a `DMatrix`.",
        low=0.0,
        high=100.0,
    )
    tweedie_variance_power: float = parameter(
        "float",
        1.5,
        "Objective",
        "The variance of `tweedie` is the mean to this power: 1 is Poisson, near 2 is gamma.",
        low=1.0,
        high=2.0,
        high_open=True,
    )
    aft_loss_distribution: str = parameter(
        "choice",
        "normal",
        "Objective",
        "Distribution of the logarithm of times in `survival:aft`: `normal`, `logistic` or `extreme`.",
        choices={name: name for name in ("normal", "logistic", "extreme")},
    )
    aft_loss_distribution_scale: float = parameter(
        "float", 1.0, "Objective", "Scale of that distribution.", low=1e-6, high=1e6
    )
    reg_sqrt: bool = parameter(
        "bool", False, "Objective", "`regression` fits sign(label) * sqrt(|label|) and predicts the square."
    )
    scale_pos_weight: float = parameter(
        "float",
        1.0,
        "Objective",
        "Factor on the weights of positive rows, in `binary` and `multiclassova`.",
        low=0.0,
        low_open=True,
    )
    is_unbalance: bool = parameter(
        "bool",
        False,
        "Objective",
        "Weigh the rarer class up to the rows of the other one, in `binary` and `multiclassova`; not together with "
        "`scale_pos_weight`.",
        aliases=("unbalance", "unbalanced_sets"),
    )
    focal_gamma: float = parameter(
        "float",
        2.0,
        "Objective",
        "The larger, the less `focal` counts rows that are classified well; 0: they count like others.",
        low=0.0,
    )
    focal_alpha: float = parameter(
        "float",
        0.25,
        "Objective",
        "Weight of label 1 in `focal`; label 0 has 1 - this.",
        low=0.0,
        low_open=True,
        high=1.0,
        high_open=True,
    )
