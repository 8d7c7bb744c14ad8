"""Parameters of LightGBM and XGBoost that Hornbeam does not have: which values change nothing, and what to do instead.

A user's dict of parameters comes over as it is. Where a value asks for what Hornbeam does anyway, or for nothing, it is
taken, and training names it in a line of information; any other value is an error that says what to type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.core.errors import ParameterError
from hornbeam.params.constraints import REST


@dataclass(frozen=True, slots=True)
class PeerParameter:
    """One parameter that Hornbeam does not have.

    idle     values that change nothing here; None: whatever the value
    instead  what to do where another value is given
    is_taken whether another value is taken, with a warning that says `instead`; else it is an error
    """

    idle: tuple[Any, ...] | None
    instead: str = ""
    is_taken: bool = False

    def is_idle(self, value: Any) -> bool:
        """Say whether a value changes nothing; numbers, texts and booleans of one meaning are the same."""
        if self.idle is None or value is None:
            return True
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if isinstance(value, (float, np.floating)) and math.isnan(value):
            return any(isinstance(one, float) and math.isnan(one) for one in self.idle)
        return isinstance(value, (str, int, float, np.generic, tuple)) and value in self.idle


OBJECTIVE_NAMES = ("objective", "objective_type", "app", "application", "loss")
"""The objective, by all of its names."""

METRIC_PARAMETERS = ("metric", "metrics", "metric_types", "eval_metric")
"""The metrics, by all of their names."""

LABELS = 32
"""Labels that have a gain by ndcg_exp_gain=False: 0 to 31, as XGBoost's may have."""

_ANY = PeerParameter(None)
_NO_FILES = "train takes a Dataset, which reads files: Dataset('train.csv', label='y'); or use the command line"
_MACHINES = "workers are those of a cluster, by hornbeam.dask or hornbeam.mpi (docs/distributed.md); leave it out"

PEER_PARAMETERS: dict[str, PeerParameter] = {
    # LightGBM: how, not what, it computes
    **dict.fromkeys(("force_col_wise", "force_row_wise", "deterministic", "two_round", "feature_pre_filter"), _ANY),
    **dict.fromkeys(("is_pre_partition", "pre_partition", "gpu_use_dp", "data_random_seed", "data_seed"), _ANY),
    **dict.fromkeys(("use_quantized_grad", "num_grad_quant_bins", "quant_train_renew_leaf"), _ANY),
    **dict.fromkeys(("stochastic_rounding", "saved_feature_importance_type"), _ANY),
    **dict.fromkeys(("num_machines", "num_machine", "num_gpu"), PeerParameter((1,), _MACHINES)),
    **dict.fromkeys(
        ("machines", "workers", "nodes", "machine_list_filename", "machine_list_file", "machine_list", "mlist"),
        PeerParameter(("",), _MACHINES),
    ),
    **dict.fromkeys(("local_listen_port", "local_port", "port", "time_out"), _ANY),
    **dict.fromkeys(("two_round_loading", "use_two_round_loading", "precise_float_parser"), _ANY),
    **dict.fromkeys(("pred_early_stop_freq", "pred_early_stop_margin"), _ANY),  # predict takes them
    "gpu_device_id_list": PeerParameter(("",), "name the device: device='cuda:1'; hornbeam.devices() lists them"),
    **dict.fromkeys(
        ("gpu_platform_id", "gpu_device_id"),
        PeerParameter((-1, 0), "name the device: device='opencl:1'; hornbeam.devices() lists them"),
    ),
    # LightGBM: what is not here
    "refit_decay_rate": PeerParameter((0.9,), "pass it to the refit itself: booster.refit(X, y, decay_rate=...)"),
    **dict.fromkeys(
        ("snapshot_freq", "save_period"),
        PeerParameter((-1, 0), "pass checkpoint='run.ckpt' and checkpoint_freq to train"),
    ),
    **dict.fromkeys(("pred_early_stop", "predict_disable_shape_check"), PeerParameter((False,), "pass it to predict")),
    "start_iteration_predict": PeerParameter((0,), "pass start_iteration= to predict"),
    "num_iteration_predict": PeerParameter((-1,), "pass num_iteration= to predict"),
    **dict.fromkeys(
        ("predict_raw_score", "is_predict_raw_score", "predict_rawscore", "raw_score"),
        PeerParameter((False,), "pass raw_score=True to predict"),
    ),
    **dict.fromkeys(
        ("predict_leaf_index", "is_predict_leaf_index", "leaf_index"),
        PeerParameter((False,), "pass pred_leaf=True to predict"),
    ),
    **dict.fromkeys(
        ("predict_contrib", "is_predict_contrib", "contrib"),
        PeerParameter((False,), "pass pred_contrib=True to predict"),
    ),
    **dict.fromkeys(
        ("save_binary", "is_save_binary", "is_save_binary_file"),
        PeerParameter((False,), "Dataset.save_binary(path) writes it"),
    ),
    **dict.fromkeys(("data", "train", "valid", "test", "config", "input_model"), PeerParameter((), _NO_FILES)),
    **dict.fromkeys(("header", "has_header"), _ANY),  # the Dataset has read its file, and takes it itself
    **dict.fromkeys(
        ("label_column", "label", "weight_column", "group_column", "ignore_column"), PeerParameter(("",), _NO_FILES)
    ),
    **dict.fromkeys(("max_conflict_rate", "max_cat_group", "verbose_eval"), _ANY),  # of former versions, or arguments
    "importance_type": _ANY,  # of estimators, whose get_params may be handed to train
    "class_weight": PeerParameter((), "weigh the rows, Dataset(X, y, weight=w), or use HornbeamClassifier"),
    "max_position": PeerParameter((), "set lambdarank_truncation_level"),
    **dict.fromkeys(
        ("is_training_metric", "train_metric", "is_provide_training_metric", "training_metric"),
        PeerParameter((False,), "pass the training set in valid_sets too"),
    ),
    "output_model": PeerParameter((), "save the model by booster.save(path)"),
    "task": PeerParameter(("train", "training"), "call train, Booster.predict or Booster.refit"),
    # XGBoost: how, not what, it computes
    **dict.fromkeys(("silent", "use_label_encoder", "validate_parameters", "predictor", "refresh_leaf"), _ANY),
    **dict.fromkeys(("single_precision_histogram", "max_cached_hist_node", "sketch_eps", "enable_categorical"), _ANY),
    "seed_per_iteration": _ANY,
    # XGBoost: what is not here, or goes by other ways
    "gpu_id": PeerParameter((-1,), "name the device: device='cuda:0'; hornbeam.devices() lists them"),
    "missing": PeerParameter((math.nan,), "NaN is missing; replace other markers by NaN in the data"),
    "debug_synchronize": _ANY,
    "process_type": PeerParameter(("default",), "call train(params, data, n, xgb_model=model), or booster.refit(X, y)"),
    "updater": PeerParameter(
        ("grow_quantile_histmaker", "grow_histmaker", "grow_gpu_hist"),
        "leave it out; to update the leaves of a model call booster.refit(X, y)",
    ),
    "num_target": PeerParameter((1,), "it is the number of columns of the labels; leave it out"),
    "sampling_method": PeerParameter(("uniform",), "for sampling by gradient set data_sample_strategy='goss'"),
    "disable_default_eval_metric": PeerParameter((False, 0), "it is True or False"),
    "sample_type": PeerParameter((), "it is 'uniform' or 'weighted'"),
    "normalize_type": PeerParameter((), "it is 'tree' or 'forest'"),
    "lambdarank_pair_method": PeerParameter(("topk",), "it is 'topk' or 'mean'"),
    "lambdarank_score_normalization": PeerParameter(
        (True, 1), "lambdarank_norm=False leaves out the normalization by scores, and that of queries"
    ),
    "feature_selector": PeerParameter((), "there is no linear booster; use trees"),
    "feature_types": PeerParameter((), "pass a list, one type a feature, or name columns in categorical_feature"),
}
"""By the names that users type; a name that Hornbeam has, or has as an alias, is not among them."""


VARIANTS = {"multi:softmax": ("multiclass", "predict_classes"), "binary:logitraw": ("binary", "predict_scores")}
"""Objectives of XGBoost's that are ours but for what they predict."""


def without_peer_parameters(params: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the parameters without those that change nothing here; raise for values that would."""
    kept = {}
    for name, value in params.items():
        if name == "ndcg_exp_gain" and value is not None:
            kept.update(_gains(value, params))
            continue
        if name in OBJECTIVE_NAMES and isinstance(value, str) and value in VARIANTS:
            objective, way = VARIANTS[value]
            kept.update({name: objective, way: True})
            continue
        if name == "lambdarank_pair_method" and value == "mean":
            kept["lambdarank_sampled_pairs"] = params.get("lambdarank_num_pair_per_sample") or 1
            continue
        if name == "lambdarank_num_pair_per_sample" and params.get("lambdarank_pair_method") == "mean":
            continue
        if name == "sketch_eps" and value is not None and params.get("tree_method") == "approx":
            kept.update(_bins_of_sketch(value, params))
            continue
        if name == "tree_method" and value == "gpu_hist":
            kept.update(_hist_on_gpu(params))
            continue
        if name in _MEANINGS and _is_meaning(name, value):
            kept.update(_MEANINGS[name](value, params))
            continue
        row = PEER_PARAMETERS.get(name) if isinstance(name, str) else None
        if row is None:
            kept[name] = value
        elif not row.is_idle(value):
            raise ParameterError(f"{name}={value!r} is not available here; {row.instead}")
    return kept


def _gains(exponential: Any, params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the gains of labels that XGBoost's ndcg_exp_gain stands for: 2**label - 1, ours too, or the label."""
    if not isinstance(exponential, (bool, np.bool_)):
        raise ParameterError(f"ndcg_exp_gain={exponential!r}: must be True or False")
    if exponential:
        return {}
    if params.get("label_gain") is not None:
        raise ParameterError("ndcg_exp_gain=False beside label_gain: both say what labels are worth; give one of them")
    return {"label_gain": [float(label) for label in range(LABELS)]}


def _bins_of_sketch(eps: Any, params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the number of bins that XGBoost's sketch_eps stands for where bins are found before every tree."""
    is_number = isinstance(eps, (int, float, np.integer, np.floating)) and not isinstance(eps, bool)
    if not is_number or not 0.0 < eps < 1.0:
        raise ParameterError(f"sketch_eps={eps!r}: must be a number > 0 and < 1, the inverse of max_bin")
    max_bin = max(2, round(1.0 / float(eps)))
    if any(params.get(name, max_bin) not in (max_bin, None) for name in ("max_bin", "max_bins")):
        raise ParameterError(f"sketch_eps={eps!r} is max_bin={max_bin}, and another max_bin is given; give one of them")
    return {"max_bin": max_bin}


def _hist_on_gpu(params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what XGBoost's tree_method="gpu_hist" stands for."""
    device = params.get("device", params.get("device_type"))
    if device in ("cpu", "reference"):
        raise ParameterError(f"tree_method='gpu_hist' with device={device!r}; set tree_method='hist', or device='cuda'")
    return {"tree_method": "hist", **({"device": "cuda"} if device is None else {})}


def _no_default_metric(disabled: Any, params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the metric that is left where XGBoost's own one is disabled: those that are named, or none."""
    return {} if any(params.get(name) is not None for name in METRIC_PARAMETERS) else {"metric": "none"}


def _categories(types: Any, params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the categorical features that XGBoost's types of features name: places of "c"; {}: there is none."""
    places = [place for place, kind in enumerate(types) if kind == "c"]
    return {"categorical_feature": places} if places else {}


def _with_rest(groups: Any, params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return scikit-learn's groups: features that it does not name are one group more."""
    return {"interaction_constraints": [*groups, REST]}


_MEANINGS: dict[str, Callable[[Any, Mapping[Any, Any]], dict[str, Any]]] = {
    "disable_default_eval_metric": _no_default_metric,
    "sample_type": lambda value, params: {"uniform_drop": value == "uniform"},
    "normalize_type": lambda value, params: {"xgboost_dart_mode": True, "xgboost_dart_forest": value == "forest"},
    "feature_types": _categories,
    "one_drop": lambda value, params: {"one_drop": bool(value)},
    "interaction_cst": _with_rest,
}
"""What some parameters of XGBoost and scikit-learn stand for here."""


def _is_meaning(name: str, value: Any) -> bool:
    """Say whether a value is one that `_MEANINGS` translates; the table of parameters speaks of others."""
    if name == "disable_default_eval_metric":
        return bool(value in (True, 1, "true", "True", "1"))
    if name == "feature_types":
        return isinstance(value, (list, tuple)) and len(value) > 0
    if name == "interaction_cst":
        return isinstance(value, (list, tuple))
    if name == "one_drop":  # XGBoost takes numbers where LightGBM does not
        return value in (0, 1)
    return value in {"sample_type": ("uniform", "weighted"), "normalize_type": ("tree", "forest")}[name]


def idle_names(params: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the names of what is given and changes nothing here, whatever its value."""
    in_use = {"sketch_eps"} if params.get("tree_method") == "approx" else set()
    in_use |= {name for name in _MEANINGS if name in params and _is_meaning(name, params[name])}
    idle = set(PEER_PARAMETERS) - in_use - {"enable_categorical"}  # which all data are
    return tuple(name for name, value in params.items() if name in idle and value is not None)
