"""What the peers call our parameters, so that tests and benchmarks compare like with like.

A peer's defaults differ from ours (XGBoost has `lambda = 1`), so the mapping is always complete: it starts from all our
parameters, not only from those that were given. What a peer cannot do raises.

Equal numbers are not always equal parameters. Gradients or hessians of a peer are a multiple of ours and LightGBM's for
some objectives (`derivative_factors`), so that its steps would be longer or shorter; the learning rate and whatever is
compared with gradients, hessians, gains or leaf values are translated by these factors.

Some things no parameter can bring into line, and a comparison must allow for: each library finds its bins its own way;
LightGBM counts the bin of the missing values in `max_bin`; and CatBoost grows no deeper than 16 levels, scores its
splits on a CPU without the hessians, starts most objectives from zero, sends missing values to the left always, and
turns categories of more than two levels into numbers by a permutation of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from hornbeam.core.errors import ParameterError
from hornbeam.metrics import ALIASES, NO_METRIC
from hornbeam.objectives import ALL_OBJECTIVES, RANKING
from hornbeam.params.params import BY_NAME, PARAMETERS, Params
from hornbeam.testing.peer_names import (
    CATEGORICAL,
    HORNBEAM_ALONE,
    PEER_OBJECTIVES,
    SAMPLING,
    TARGET_ENCODING,
    XGBOOST_METRICS,
)

Peer = Literal["lightgbm", "xgboost", "catboost", "sklearn"]

_PRICES = ("cegb_penalty_split", "cegb_penalty_feature_coupled", "cegb_penalty_feature_lazy")
_CHOSEN_PAIRS = ("lambdarank_sampled_pairs", "lambdarank_unbiased")
_DROPS_OF_XGBOOST = ("one_drop", "xgboost_dart_forest")

_OWN_PARAMETERS = {
    "xgboost": ("fair_c", "huber_slope", "reg_sqrt", "is_unbalance", "linear_tree", "feature_weights", *_PRICES),
    "lightgbm": (
        "tree_method",
        "multi_strategy",
        "huber_slope",
        "base_score",
        "feature_weights",
        *_CHOSEN_PAIRS,
        *_DROPS_OF_XGBOOST,
    ),
    "catboost": (
        "base_score",
        "feature_weights",
        "fair_c",
        "huber_slope",
        "reg_sqrt",
        "is_unbalance",
        "tree_method",
        "linear_tree",
        "multi_strategy",
        *_PRICES,
        *_CHOSEN_PAIRS,
    ),
    "sklearn": (
        *_PRICES,
        "base_score",
        "feature_weights",
        "fair_c",
        "huber_slope",
        "reg_sqrt",
        "is_unbalance",
        "scale_pos_weight",
        "tweedie_variance_power",
        "tree_method",
        "linear_tree",
        "multi_strategy",
    ),
}
"""Parameters, most of them of objectives, that a peer has not got."""

_FORCED = ("forcedsplits_filename", "forcedbins_filename")

_CATBOOST_DEPTH = 16
"""It grows no deeper."""
_CATBOOST_LEAVES = {
    "regression_l1": "Exact",
    "quantile": "Exact",
    "mape": "Exact",  # medians and quantiles of the residuals, as our renewed leaves; but see below
    "logcosh": "Exact",  # the minimum of the loss, as ours; its default too
    "huber": "Gradient",  # hessians of 1, as ours; its own are zero for rows far away, and Newton steps explode
}
"""How leaf values are found where a Newton step with its hessians is not what we do.

Those of mape are medians weighted by 1 / max(1, |residual|) there; ours and LightGBM's by 1 / max(1, |label|).
"""
_CATBOOST_AVERAGES = ("regression", "binary", "cross_entropy", "regression_l1", "quantile", "mape")
"""Objectives that start from the average there; the others start from zero."""


def has_objective(peer: Peer, objective: str) -> bool:
    """Whether a peer has one of our objectives, by our canonical name."""
    return objective in PEER_OBJECTIVES[peer]


def derivative_factors(params: Mapping[str, Any], peer: Peer) -> tuple[float, float]:
    """Return how many times ours the gradients and the hessians of a peer are (test_peers.py measures it).

    CatBoost's multiclass and focal have hessians that are no multiple of ours; they count as ours.
    """
    return _factors(Params.from_dict(params), peer)


def _factors(ours: Params, peer: Peer) -> tuple[float, float]:
    if peer == "xgboost" and ours.objective in ("lambdarank", "pairwise", "rank_map"):
        return 1.0, 2.0
    if peer == "xgboost" and ours.objective == "multiclass":
        return 1.0, 2.0 * (ours.num_class - 1) / ours.num_class
    if peer == "catboost" and ours.objective == "poisson":  # it does not hold its steps back
        return 1.0, math.exp(-ours.poisson_max_delta_step)
    if peer == "catboost" and ours.objective == "expectile":
        return 2.0, 2.0
    return 1.0, 1.0


def peer_params(params: Mapping[str, Any], peer: Peer, same_numbers: bool = False) -> dict[str, Any]:
    """Translate our parameters into a peer's.

    Parameters
    ----------
    params
        Our parameters, by name or alias; those not given take our defaults. What is left open (None) counts as its
        plain number, whatever our objective would choose: where that is another one (`gamma`; rare classes), say
        which number both shall take.
    peer
        `"lightgbm"`: the result is `params` of `lightgbm.train` (and of its Dataset).
        `"xgboost"`: `params` of `xgboost.train`; its `max_bin` is also that of a QuantileDMatrix.
        `"catboost"`: `params` of `catboost.CatBoost`.
        `"sklearn"`: keyword arguments of `HistGradientBoostingClassifier`, or `...Regressor` for regression.
        The number of rounds is an argument of `train` for the first two, and is left out for them.
    same_numbers
        Leave the numbers as they are where a peer's gradients or hessians are a multiple of ours. The parameters then
        look alike, and the steps are not (see the head of this module). By default the steps are alike.

    Raises
    ------
    ParameterError
        When the peer has no equivalent of what is asked.
    """
    translate: dict[str, Callable[[Params], dict[str, Any]]]
    translate = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost, "sklearn": _sklearn}
    if peer not in translate:
        raise ParameterError(f"peer={peer!r}: must be one of {', '.join(map(repr, translate))}")
    ours = Params.from_dict(params)
    if callable(ours.objective) or ours.objective == "custom":
        raise _no_equivalent(ours, "objective", peer, "write the peer's own function")
    if ours.objective not in PEER_OBJECTIVES[peer]:
        raise _no_equivalent(ours, "objective", peer, "use one of " + ", ".join(PEER_OBJECTIVES[peer]))
    if isinstance(ours.alpha, tuple) and peer != "xgboost":
        raise _no_equivalent(ours, "alpha", peer, "give one number")
    # forced splits and bins are files there
    _must_be_default(ours, peer, "num_parallel_tree", *_FORCED, *_OWN_PARAMETERS.get(peer, ()))
    theirs = translate[peer](ours)
    if not same_numbers:
        _take_equal_steps(theirs, *_factors(ours, peer))
    return theirs


def _take_equal_steps(theirs: dict[str, Any], gradient: float, hessian: float) -> None:
    """Change a peer's parameters so that gradients and hessians that are multiples of ours lead to our steps.

    With a and f for the factors: -a g / (f h + f lambda) is a / f of our leaf, hence f / a times the learning rate, and
    the gain (a g) ** 2 / (f h + f lambda) is a * a / f of ours.
    """
    scales = {
        "learning_rate": hessian / gradient,
        "reg_lambda": hessian,
        "l2_leaf_reg": hessian,
        "min_child_weight": hessian,
        "reg_alpha": gradient,
        "gamma": gradient * gradient / hessian,
        "max_delta_step": gradient / hessian,
    }
    for name, scale in scales.items():
        if name in theirs and scale != 1.0:
            theirs[name] *= scale


def _no_equivalent(ours: Params, name: str, peer: str, remedy: str = "") -> ParameterError:
    remedy = remedy or f"leave it at {BY_NAME[name].default!r}"
    return ParameterError(f"{name}={getattr(ours, name)!r} has no equivalent in {peer}; {remedy}")


def _must_be_default(ours: Params, peer: str, *names: str) -> None:
    for name in names:
        if getattr(ours, name) not in (BY_NAME[name].default, BY_NAME[name].plain):
            raise _no_equivalent(ours, name, peer)


def _metric_names(ours: Params) -> list[str] | None:
    """Return the canonical names of the metrics; [] for none, None for the objective's own."""
    if ours.metric is None:
        return None
    names = [ours.metric] if isinstance(ours.metric, str) else ours.metric
    return [ALIASES.get(name, name) for name in names if name not in NO_METRIC]


def _at_ranks(metric: str, ours: Params) -> list[str]:
    """Return the names of a metric at the ranks of `eval_at`, if it is one of ranked lists that names none."""
    return [f"{metric}@{rank}" for rank in ours.eval_at] if metric in ("ndcg", "map") else [metric]


def _device_number(device: str) -> str:
    return device.partition(":")[2]


def _lightgbm(ours: Params) -> dict[str, Any]:
    if ours.grow_policy != "leafwise":
        raise _no_equivalent(ours, "grow_policy", "lightgbm")
    if ours.device == "reference":
        raise _no_equivalent(ours, "device", "lightgbm", "use 'cpu'")
    # precision has no part here: LightGBM's default is full floats. Its names and values are ours for all the rest.
    # Categorical features are an argument of its Dataset.
    left_out = (
        "categorical_feature",
        "num_iterations",
        "grow_policy",
        "precision",
        "device",
        "sparse_threshold",
        "device_memory_limit",
        "feature_fraction_bylevel",
        "feature_weights",
        "focal_gamma",
        "focal_alpha",
        "num_parallel_tree",
        "tree_method",
        "huber_slope",
        "multi_strategy",
        "aft_loss_distribution",
        "aft_loss_distribution_scale",
        "lambdarank_bias_norm",
        "multiclass_hessian_factor",
        "predict_classes",
        "predict_scores",
        "base_score",
        *_CHOSEN_PAIRS,
        *_DROPS_OF_XGBOOST,
        *_FORCED,
        *TARGET_ENCODING,
    )
    theirs = {
        p.name: getattr(ours, p.name) if p.plain is None else ours.number(p.name)
        for p in PARAMETERS
        if p.name not in left_out
    }
    theirs["eval_at"] = list(ours.eval_at)
    theirs["label_gain"] = list(ours.label_gain or ())
    if ours.label_gain is None:
        del theirs["label_gain"]
    metrics = _metric_names(ours)
    theirs["metric"] = metrics or "none"
    if metrics is None:
        del theirs["metric"]
    kind = ours.device.partition(":")[0]
    theirs["device_type"] = {"auto": "cpu", "opencl": "gpu"}.get(kind, kind)
    if _device_number(ours.device):
        theirs["gpu_device_id"] = int(_device_number(ours.device))
    # a Dataset built under one min_data_in_leaf must serve trainings with a smaller one, as ours does
    theirs["feature_pre_filter"] = False
    return theirs


def _xgboost(ours: Params) -> dict[str, Any]:
    _must_be_default(
        ours,
        "xgboost",
        *SAMPLING,
        "use_missing",
        "zero_as_missing",
        "min_data_in_bin",
        "bin_construct_sample_cnt",
        "sigmoid",
        *HORNBEAM_ALONE,
    )
    kind = ours.device.partition(":")[0]
    if kind not in ("auto", "cpu", "cuda"):
        raise _no_equivalent(ours, "device", "xgboost", "use 'cpu' or 'cuda'")
    # XGBoost knows no row count, but without weights a hessian that is 1 counts rows
    min_child_weight = ours.number("min_sum_hessian_in_leaf")
    if ours.objective in ("regression", "regression_l1", "quantile"):
        min_child_weight = max(min_child_weight, float(ours.min_data_in_leaf))
    elif ours.min_data_in_leaf > 1:
        raise _no_equivalent(ours, "min_data_in_leaf", "xgboost", "set it to 1 and use min_sum_hessian_in_leaf")
    theirs: dict[str, Any] = {
        "objective": PEER_OBJECTIVES["xgboost"][str(ours.objective)],
        "tree_method": ours.tree_method,
        "grow_policy": "lossguide" if ours.grow_policy == "leafwise" else "depthwise",
        "max_leaves": ours.num_leaves,
        "max_depth": max(ours.max_depth, 0),
        "learning_rate": ours.learning_rate,
        "max_bin": ours.max_bin,
        "min_child_weight": min_child_weight,
        "reg_alpha": ours.lambda_l1,
        "reg_lambda": ours.number("lambda_l2"),
        "gamma": ours.min_gain_to_split,
        "max_delta_step": ours.number("max_delta_step"),
        "seed": ours.seed,
        "device": "cpu" if kind == "auto" else ours.device,
        "nthread": ours.num_threads,
        "verbosity": 0 if ours.verbosity < 0 else 1 if ours.verbosity <= 1 else 3,
    }
    if ours.multi_strategy != "one_output_per_tree":
        theirs["multi_strategy"] = ours.multi_strategy
    if ours.objective == "multiclass":
        theirs["num_class"] = ours.num_class
    elif ours.objective == "quantile":
        theirs["quantile_alpha"] = ours.alpha
    elif ours.objective == "tweedie":
        theirs["tweedie_variance_power"] = ours.tweedie_variance_power
    elif ours.objective == "poisson" and ours.number("max_delta_step") == 0.0:
        theirs["max_delta_step"] = ours.poisson_max_delta_step  # XGBoost's poisson has one for both
    elif ours.objective == "binary":
        theirs["scale_pos_weight"] = ours.scale_pos_weight
    if ours.objective in ("lambdarank", "pairwise", "rank_map"):
        n_sampled = ours.lambdarank_sampled_pairs
        theirs["lambdarank_pair_method"] = "mean" if n_sampled else "topk"
        theirs["lambdarank_num_pair_per_sample"] = n_sampled or ours.lambdarank_truncation_level
        theirs["lambdarank_unbiased"], theirs["lambdarank_bias_norm"] = (
            ours.lambdarank_unbiased,
            ours.lambdarank_bias_norm,
        )
        theirs["lambdarank_normalization"] = theirs["lambdarank_score_normalization"] = ours.lambdarank_norm
    if ours.base_score is not None:
        theirs["base_score"] = ours.base_score
    elif not ours.boost_from_average:
        # on the scale of the predictions, so that the raw score is 0
        theirs["base_score"] = {"sigmoid": 0.5, "exp": 1.0}.get(ALL_OBJECTIVES[str(ours.objective)].link, 0.0)
    metrics = _metric_names(ours)
    if metrics == []:
        theirs["disable_default_eval_metric"] = True
    elif metrics is not None:
        metrics = [name for one in metrics for name in _at_ranks(one, ours)]
        if not all(name.partition("@")[0] in XGBOOST_METRICS for name in metrics):
            raise _no_equivalent(ours, "metric", "xgboost", "use some of " + ", ".join(XGBOOST_METRICS))
        theirs["eval_metric"] = [
            XGBOOST_METRICS[name.partition("@")[0]] + "".join(name.partition("@")[1:]) for name in metrics
        ]
    return theirs


def _catboost(ours: Params) -> dict[str, Any]:
    _must_be_default(
        ours,
        "catboost",
        *SAMPLING,
        "use_missing",
        "zero_as_missing",
        "min_data_in_bin",
        "bin_construct_sample_cnt",
        "sigmoid",
        "lambda_l1",
        "min_gain_to_split",
        "max_delta_step",
        *HORNBEAM_ALONE,
    )
    kind = ours.device.partition(":")[0]
    if kind not in ("auto", "cpu", "cuda"):
        raise _no_equivalent(ours, "device", "catboost", "use 'cpu' or 'cuda'")
    if _metric_names(ours):
        raise _no_equivalent(ours, "metric", "catboost", "measure its predictions instead")
    # CatBoost splits no leaf of fewer rows than this, but its leaves may have fewer: only 1 means the same everywhere
    min_data_in_leaf = max(ours.min_data_in_leaf, 1)
    if ours.objective == "regression":  # hessians are 1, so that their sum counts rows
        min_data_in_leaf = max(min_data_in_leaf, math.ceil(ours.number("min_sum_hessian_in_leaf")))
    else:
        _must_be_default(ours, "catboost", "min_sum_hessian_in_leaf")
    if ours.max_depth > _CATBOOST_DEPTH:
        raise _no_equivalent(ours, "max_depth", "catboost", f"use {_CATBOOST_DEPTH} or less")
    loss = PEER_OBJECTIVES["catboost"][str(ours.objective)]
    if ours.objective == "quantile":
        loss += f":alpha={ours.alpha}"
    elif ours.objective == "huber":
        loss += f":delta={ours.alpha}"
    elif ours.objective == "expectile":
        loss += f":alpha={ours.alpha}"
    elif ours.objective == "tweedie":
        loss += f":variance_power={ours.tweedie_variance_power}"
    elif ours.objective == "focal":
        loss += f":focal_alpha={ours.focal_alpha};focal_gamma={ours.focal_gamma}"
    elif ours.objective == "lambdarank":
        loss += f":metric=NDCG;sigma=1;norm={str(ours.lambdarank_norm).lower()}"
    theirs: dict[str, Any] = {
        "loss_function": loss,
        "iterations": ours.num_iterations,
        "learning_rate": ours.learning_rate,
        "grow_policy": "Lossguide" if ours.grow_policy == "leafwise" else "Depthwise",
        "depth": _CATBOOST_DEPTH if ours.max_depth < 0 else ours.max_depth,
        "border_count": ours.max_bin - 1,
        "min_data_in_leaf": min_data_in_leaf,
        "l2_leaf_reg": ours.number("lambda_l2"),
        # one Newton step a tree, and no chance: what a tree is everywhere else
        "leaf_estimation_iterations": 1,
        "leaf_estimation_method": _CATBOOST_LEAVES.get(str(ours.objective), "Newton"),
        "score_function": "NewtonL2" if kind == "cuda" else "L2",
        "boosting_type": "Plain",
        "bootstrap_type": "No",
        "random_strength": 0.0,
        "random_seed": ours.seed,
        "thread_count": ours.num_threads or -1,
        "task_type": "GPU" if kind == "cuda" else "CPU",
        "logging_level": "Silent" if ours.verbosity <= 1 else "Verbose",
        "allow_writing_files": False,
    }
    if ours.grow_policy == "leafwise":
        theirs["max_leaves"] = ours.num_leaves
    if ours.objective in _CATBOOST_AVERAGES:
        theirs["boost_from_average"] = ours.boost_from_average
    if ours.objective == "binary" and ours.scale_pos_weight != 1.0:
        theirs["scale_pos_weight"] = ours.scale_pos_weight
    if _device_number(ours.device):
        theirs["devices"] = _device_number(ours.device)
    return theirs


def _sklearn(ours: Params) -> dict[str, Any]:
    _must_be_default(
        ours,
        "sklearn",
        *SAMPLING,
        "use_missing",
        "zero_as_missing",
        "min_data_in_bin",
        "bin_construct_sample_cnt",
        "boost_from_average",
        "sigmoid",
        "grow_policy",
        "min_sum_hessian_in_leaf",  # scikit-learn's own is fixed, at our default
        "lambda_l1",
        "min_gain_to_split",
        "max_delta_step",
        "early_stopping_round",
        "early_stopping_min_delta",
        "first_metric_only",
        "metric_freq",
        "histogram_pool_size",
        "device_memory_limit",
        *CATEGORICAL,
    )
    if ours.objective in RANKING:
        raise _no_equivalent(ours, "objective", "sklearn", "it has no ranking")
    if ours.device not in ("auto", "cpu"):
        raise _no_equivalent(ours, "device", "sklearn", "use 'cpu'")
    if ours.num_threads != 0:
        raise _no_equivalent(
            ours, "num_threads", "sklearn", "leave it at 0 and set OMP_NUM_THREADS or use threadpoolctl"
        )
    if _metric_names(ours):
        raise _no_equivalent(ours, "metric", "sklearn", "measure its predictions instead")
    if ours.max_bin > 255:
        raise _no_equivalent(ours, "max_bin", "sklearn", "use 255 or less")
    return {
        "loss": PEER_OBJECTIVES["sklearn"][str(ours.objective)],
        **({"quantile": ours.alpha} if ours.objective == "quantile" else {}),
        "max_iter": ours.num_iterations,
        "learning_rate": ours.learning_rate,
        "max_leaf_nodes": ours.num_leaves,
        "max_depth": None if ours.max_depth < 0 else ours.max_depth,
        "min_samples_leaf": max(ours.min_data_in_leaf, 1),
        "l2_regularization": ours.number("lambda_l2"),
        "max_bins": ours.max_bin,
        "early_stopping": False,
        "random_state": ours.seed,
        "verbose": int(ours.verbosity > 1),
    }
