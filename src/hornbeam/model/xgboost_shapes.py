"""Predictions in the shapes that XGBoost gives them: `predict(..., pred_contribs=True, strict_shape=True)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hornbeam.core.errors import ParameterError

P = ParamSpec("P")
R = TypeVar("R")


def takes_xgboosts_shapes(function: Callable[P, R]) -> Callable[P, R]:
    """Make `predict` take three arguments of XGBoost's.

    pred_contribs  `pred_contrib` in XGBoost's shape: (n_rows, n_features + 1), with several outputs (n_rows, n_outputs,
                   n_features + 1); a dense array for sparse data too
    strict_shape   as many dimensions whatever the model is: values (n_rows, n_outputs), contributions (n_rows,
                   n_outputs, n_features + 1), interactions likewise, leaves (n_rows,
                   n_iterations, n_outputs, n_parallel_trees)
    training       whether XGBoost drops trees, of DART alone: an error there, and nothing for other models
    """

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        contribs, strict = bool(keywords.pop("pred_contribs", False)), bool(keywords.pop("strict_shape", False))
        booster: Any = arguments[0]
        if keywords.pop("training", False) and booster.params.get("boosting") == "dart":
            raise ParameterError("training=True drops trees of DART at random; leave it out, all trees predict")
        if not contribs and not strict:
            return function(*arguments, **keywords)
        if contribs and keywords.get("pred_contrib"):
            raise ParameterError("pred_contribs= and pred_contrib= are two names of one argument; give one of them")
        if contribs:
            keywords["pred_contrib"] = True
        return _shaped(booster, function(*arguments, **keywords), keywords, strict)  # type: ignore[no-any-return]

    return call


def _shaped(booster: Any, result: Any, asked: dict[str, Any], strict: bool) -> Any:
    """Return a prediction in XGBoost's shape.

    asked  what was predicted, by the arguments of `predict`
    """
    if isinstance(result, list):  # sparse matrices, one an output
        result = np.stack([one.toarray() for one in result], axis=1)
    elif hasattr(result, "toarray"):
        result = result.toarray()
    n_rows, n_outputs, n_parts = len(result), booster.n_outputs, booster.n_features + 1
    if asked.get("pred_leaf"):
        n_parallel = booster.trees_per_iteration // n_outputs
        return result.reshape(n_rows, -1, n_parallel, n_outputs).swapaxes(2, 3) if strict else result
    if asked.get("pred_interactions"):
        parts: tuple[int, ...] = (n_parts, n_parts)
    elif asked.get("pred_contrib"):
        parts = (n_parts,)
    else:
        return result.reshape(n_rows, -1) if strict else result
    return result.reshape(n_rows, n_outputs, *parts) if strict or n_outputs > 1 else result.reshape(n_rows, *parts)
