"""Arguments and attributes by the names that users of LightGBM and XGBoost know.

    takes_peer_arguments   makes a function take other names of its arguments, and say what to do instead of others
    PeerAttributes         makes a class say what to use instead of an attribute that it has not

The tables of both are here, one a function or class. As with the parameters of peer_parameters.py, what changes nothing
here is taken, and what would is an error that says what to type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from hornbeam.core.errors import ParameterError
from hornbeam.core.log import warn
from hornbeam.params.peer_parameters import PeerParameter

Table = Mapping[str, str | PeerParameter]
P = ParamSpec("P")
R = TypeVar("R")

_ANY = PeerParameter(None)
_ON_DATASET = PeerParameter(("auto",), "pass it to Dataset")

DATASET: Table = {
    "feature_name": "feature_names",
    "categorical_feature": "categorical_features",
    "base_margin": "init_score",
    **dict.fromkeys(("free_raw_data", "silent", "nthread", "enable_categorical"), _ANY),
    "missing": PeerParameter((float("nan"),), "NaN is missing; replace other markers by NaN in the data"),
    "feature_types": PeerParameter((), "name categorical columns in categorical_features="),
}
CREATE_VALID: Table = {}
TRAIN: Table = {
    "dtrain": "train_set",
    "evals": "valid_sets",
    "xgb_model": "init_model",
    "custom_metric": "feval",
    "learning_rates": PeerParameter((), "pass callbacks=[hornbeam.reset_parameter(learning_rate=rates)]"),
    "categorical_feature": _ON_DATASET,
    "feature_name": _ON_DATASET,
}
CV: Table = {name: row for name, row in TRAIN.items() if name != "evals"}
PREDICT: Table = {
    "output_margin": "raw_score",
    "approx_contribs": PeerParameter((False,), "contributions are exact all the same", is_taken=True),
    "n_jobs": "num_threads",
    **dict.fromkeys(("verbose", "verbosity"), PeerParameter((-1, 0, 1, 2), "predict prints nothing; leave it out")),
}
FIT: Table = {
    "base_margin": "init_score",
    "base_margin_eval_set": "eval_init_score",
    "sample_weight_eval_set": "eval_sample_weight",
    "xgb_model": "init_model",
    "X_val": "eval_X",
    "y_val": "eval_y",
    "sample_weight_val": "eval_sample_weight",
    "early_stopping_rounds": PeerParameter(
        (), "set it in the constructor, or pass callbacks=[hornbeam.early_stopping(rounds)]"
    ),
}
PLOT_TREE: Table = {
    **dict.fromkeys(("num_trees", "tree_idx"), "tree_index"),
    "fmap": PeerParameter(("",), "a model knows the names of its features; leave it out"),
    "with_stats": PeerParameter((False,), "pass show_info=['split_gain', 'internal_weight', 'leaf_weight']"),
    **dict.fromkeys(
        ("yes_color", "no_color", "condition_node_params", "leaf_node_params"),
        PeerParameter((), "the graph is one of the package graphviz; set its attributes"),
    ),
}
BOOSTER: Table = {"cache": "train_set", "model": "params"}
SAVE: Table = {"importance_type": _ANY}
REFIT: Table = {
    "dataset_params": _ANY,
    "validate_features": _ANY,
    "free_raw_data": _ANY,
    "feature_name": PeerParameter(("auto",), "a model knows the names of its features; leave it out"),
    "reference": PeerParameter((), "the bins of a model are in its trees; leave it out"),
}

BOOSTER_ATTRIBUTES = {
    "create_tree_digraph": "hornbeam.create_tree_digraph(booster)",
    "num_class": "n_outputs",
    "best_ntree_limit": "best_iteration",
    "set_network": "hornbeam.dask or hornbeam.mpi, whose workers find each other (docs/distributed.md)",
    "get_categories": "levels",
}
CV_BOOSTER_ATTRIBUTES = {
    **BOOSTER_ATTRIBUTES,
    **dict.fromkeys(("load_model", "model_from_string"), "CVBooster(model_file=path) or CVBooster(model_str=text)"),
}
DATASET_ATTRIBUTES = {
    "get_quantile_cut": "mapper.upper_bounds[feature], once it is binned; a DMatrix has it",
}
ESTIMATOR_ATTRIBUTES = {
    "coef_": "feature_importances_; there is no linear booster",
}
MODULE_ATTRIBUTES = {
    "DeviceQuantileDMatrix": "QuantileDMatrix",
    **dict.fromkeys(
        ("HornbeamRFClassifier", "HornbeamRFRegressor"),
        "an estimator with boosting_type='rf', subsample=0.8 and subsample_freq=1, or XGBRFClassifier, XGBRFRegressor",
    ),
}


def takes_peer_arguments(table: Table) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function take keywords by the names in a table: a name of ours, or what to do instead."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> R:
            found = [name for name in keywords if name in table]
            for name in found:
                value, row = keywords.pop(name), table[name]
                if isinstance(row, str):
                    if row in keywords:
                        raise ParameterError(f"{name}= and {row}= are two names of one argument; give one of them")
                    keywords[row] = value
                elif row.is_taken and not row.is_idle(value):
                    warn(f"{name}={value!r}: {row.instead}")
                elif value is not None and not row.is_idle(value):
                    raise ParameterError(f"{name}= is not taken by {_plain_name(function)}; {row.instead}")
            return function(*arguments, **keywords)

        return call

    return decorate


def _plain_name(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__")


class PeerAttributes:
    """A class whose objects say what to use instead of attributes that objects of the peers have."""

    _instead: Mapping[str, str] = {}

    if not TYPE_CHECKING:  # a checker of types shall find names that are not there

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, as for every name that is not there."""
            if hasattr(type(self), name):  # a property that raised one itself: let it say why
                return object.__getattribute__(self, name)
            hint = type(self)._instead.get(name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}; use {hint}" if hint else text)
