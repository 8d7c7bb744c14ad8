"""Predictions without what training started from, where the peers' are."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hornbeam.dataset.dmatrix import DMatrix

P = ParamSpec("P")
R = TypeVar("R")


def leaves_start_out(function: Callable[P, R]) -> Callable[P, R]:
    """Make `predict` leave the start out where it is asked for later iterations, or is given another start.

    start_iteration  above 0, as in LightGBM, whose start is in the first tree; `iteration_range` adds it, as in XGBoost
    base_margin      in the place of the start, as in XGBoost, also where a DMatrix brings it

    A forest, whose prediction is a mean, keeps it.
    """

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        booster, *rest = arguments
        data: Any = rest[0] if rest else keywords.get("data")
        start = rest[1] if len(rest) > 1 else keywords.get("start_iteration", 0)
        margin = keywords.get("base_margin")
        if margin is None and isinstance(data, DMatrix):
            margin = data.get_init_score()
        if margin is not None or (isinstance(start, Integral) and int(start) > 0):
            return function(without_start(booster), *rest, **keywords)  # type: ignore[arg-type]
        return function(*arguments, **keywords)

    return call


def without_start(booster: Any) -> Any:
    """Return a Booster of the same trees that starts from 0."""
    if booster.averages_trees or not np.any(booster.init_scores):
        return booster
    made = copy(booster)
    made.init_scores, made._forest = np.zeros(booster.n_outputs), booster.forest
    return made
