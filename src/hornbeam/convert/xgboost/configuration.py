"""What `Booster.save_config` returns: XGBoost's document of parameters, as far as a model of Hornbeam has them.

Values are texts, as in XGBoost. The entry "hornbeam" is what the model itself keeps, by Hornbeam's names; it says which
model a configuration belongs to.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.outgoing import Outgoing
from hornbeam.convert.xgboost.objectives import write_objective
from hornbeam.convert.xgboost.writing import VERSION
from hornbeam.core.errors import ConversionError, ParameterError
from hornbeam.model.booster import Booster
from hornbeam.params.params import Params
from hornbeam.params.xgboost_metrics import xgboosts_name

TREE_PARAMS = {
    "learning_rate": ("eta", "learning_rate"),
    "lambda_l1": ("alpha", "reg_alpha"),
    "lambda_l2": ("lambda", "reg_lambda"),
    "min_gain_to_split": ("gamma", "min_split_loss"),
    "min_sum_hessian_in_leaf": ("min_child_weight",),
    "max_delta_step": ("max_delta_step",),
    "max_bin": ("max_bin",),
    "grow_policy": ("grow_policy",),
    "feature_fraction": ("colsample_bytree",),
    "feature_fraction_bylevel": ("colsample_bylevel",),
    "feature_fraction_bynode": ("colsample_bynode",),
}
"""XGBoost's names of parameters of trees, two where it writes them twice."""


def save_config(booster: Booster) -> str:
    """Return the configuration of a model, JSON."""
    own = {name: value for name, value in booster.kept_params.items() if name not in ("objective", "num_class")}
    params = Params.from_dict({**own, "verbosity": -1})
    objective, n_classes = _objective(booster)
    seed = str(params.seed)
    document = {
        "hornbeam": _own(booster),
        "learner": {
            "generic_param": {
                "device": "cpu", "nthread": str(booster.num_threads), "n_jobs": str(booster.num_threads),
                "random_state": seed, "seed": seed,
            },
            "gradient_booster": {
                "gbtree_model_param": {
                    "num_parallel_tree": str(params.num_parallel_tree), "num_trees": str(len(booster.trees)),
                },
                "gbtree_train_param": {"process_type": "default", "tree_method": params.tree_method},
                "name": "dart" if params.boosting == "dart" else "gbtree",
                "tree_train_param": _tree_params(params),
            },
            "learner_model_param": {
                "base_score": _base_score(booster), "boost_from_average": "1", "num_class": str(n_classes),
                "num_feature": str(booster.n_features), "num_target": "1" if n_classes else str(booster.n_outputs),
            },
            "learner_train_param": {
                "booster": "dart" if params.boosting == "dart" else "gbtree",
                "disable_default_eval_metric": "0",
                "multi_strategy": params.multi_strategy,
                "objective": objective["name"],
            },
            "metrics": [{"name": name} for name in _metrics(booster)],
            "objective": objective,
        },
        "version": VERSION,
    }  # fmt: skip
    return json.dumps(document)


def load_config(booster: Booster, config: str) -> None:
    """Take the number of threads of a configuration, which must be that of this model."""
    try:
        document = json.loads(config)
        n_threads = int(document["learner"]["generic_param"]["nthread"])
    except (ValueError, TypeError, LookupError) as error:
        raise ParameterError(f"load_config: this is no text that save_config returned ({error!r})") from None
    if document.get("hornbeam") != json.loads(json.dumps(_own(booster))):
        raise ParameterError("load_config: this is the configuration of another model; load that one by load_model")
    booster.set_param("nthread", n_threads)


def _own(booster: Booster) -> dict[str, Any]:
    params = {name: list(value) if isinstance(value, tuple) else value for name, value in booster.kept_params.items()}
    return {"objective": booster.objective.to_dict(), "params": params}


def _objective(booster: Booster) -> tuple[dict[str, Any], int]:
    """Return XGBoost's name and parameters of an objective, or our name, and the number of classes, 0: it has none."""
    try:
        out = Outgoing(booster.to_model(), is_lightgbms=True, is_like_predict=True)
        written = write_objective(out, Exactness("XGBoost's format", True))
    except ConversionError:
        return {"name": booster.objective.name}, 0
    return written.document, written.num_class


def _base_score(booster: Booster) -> str:
    """Return what training starts from, as XGBoost writes it: predictions, and of classes raw scores."""
    scores = booster.init_scores.reshape(1, -1)
    starts = scores if booster.n_outputs > 1 else booster.objective.transform(scores.T.copy())
    return f"[{','.join(f'{start:.9g}' for start in np.ravel(starts).tolist())}]"


def _metrics(booster: Booster) -> list[str]:
    given = booster.metric
    names = [given] if isinstance(given, str) else list(given or ())
    return ["rmse" if name == "l2" else xgboosts_name(name) for name in names or [booster.objective.default_metric]]


def _tree_params(params: Params) -> dict[str, str]:
    found = {name: _text(getattr(params, own)) for own, names in TREE_PARAMS.items() for name in names}
    is_bounded = params.num_leaves < 2**params.max_depth if 0 < params.max_depth < 31 else True
    return {
        **found,
        "max_depth": str(max(params.max_depth, 0)),
        "max_leaves": str(params.num_leaves) if is_bounded else "0",
        "subsample": _text(params.bagging_fraction if params.bagging_freq else 1.0),
    }


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(0 if value is None else value)
