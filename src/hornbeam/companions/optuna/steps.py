"""The steps of the tuner: which parameters are tuned together, and which values are tried.

The order and the ranges are those of Optuna's LightGBMTuner: parameters that matter most for what comes after them
come first, and each step keeps the best values of the steps before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hornbeam.core.errors import ParameterError
from hornbeam.params.params import Params, whole_number

Values = dict[str, Any]


class Step(NamedTuple):
    """Parameters that are tuned together.

    grid     parameters so far -> the values to try, one after the other; None: Optuna's sampler chooses
    suggest  (trial, parameters so far) -> values of a trial
    """

    grid: Callable[[Params], list[Values]] | None
    suggest: Callable[[Any, Params], Values]


def _feature_fractions(params: Params) -> list[Values]:
    return [{"feature_fraction": tenths / 10} for tenths in range(4, 11)]


def _feature_fractions_nearby(params: Params) -> list[Values]:
    """Return six values from 0.08 below the best to 0.08 above."""
    best = params.feature_fraction
    values = [round(best + 0.016 * (2 * place - 5), 3) for place in range(6)]
    return [{"feature_fraction": value} for value in values if 0.4 <= value <= 1.0]


def _suggest_feature_fraction(trial: Any, params: Params) -> Values:
    return {"feature_fraction": trial.suggest_float("feature_fraction", 0.4, 1.0)}


def _suggest_num_leaves(trial: Any, params: Params) -> Values:
    most = 256 if params.max_depth <= 0 else min(256, 2**params.max_depth)
    return {"num_leaves": trial.suggest_int("num_leaves", 2, most)}


def _suggest_bagging(trial: Any, params: Params) -> Values:
    return {
        "bagging_fraction": trial.suggest_float("bagging_fraction", 0.4, 1.0),
        "bagging_freq": trial.suggest_int("bagging_freq", 1, 7),
    }


def _suggest_regularisation(trial: Any, params: Params) -> Values:
    return {name: trial.suggest_float(name, 1e-8, 10.0, log=True) for name in ("lambda_l1", "lambda_l2")}


def _leaf_sizes(params: Params) -> list[Values]:
    return [{"min_data_in_leaf": rows} for rows in (5, 10, 25, 50, 100)]


def _suggest_leaf_size(trial: Any, params: Params) -> Values:
    return {"min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, 100)}


STEPS: dict[str, Step] = {
    "feature_fraction": Step(_feature_fractions, _suggest_feature_fraction),
    "num_leaves": Step(None, _suggest_num_leaves),
    "bagging": Step(None, _suggest_bagging),
    "feature_fraction_again": Step(_feature_fractions_nearby, _suggest_feature_fraction),
    "regularisation": Step(None, _suggest_regularisation),
    "min_data_in_leaf": Step(_leaf_sizes, _suggest_leaf_size),
}

TRIALS = {
    "feature_fraction": 7,
    "num_leaves": 20,
    "bagging": 10,
    "feature_fraction_again": 6,
    "regularisation": 20,
    "min_data_in_leaf": 5,
}
"""Trials of each step where the user names no other number."""


def checked_steps(steps: Mapping[str, int] | None, params: Params) -> dict[str, int]:
    """Return the steps to go, with their number of trials; None: all, without bagging where rows are sampled else."""
    if steps is None:
        by_class = min(params.pos_bagging_fraction, params.neg_bagging_fraction) < 1.0
        takes_bagging = params.data_sample_strategy != "goss" and not by_class
        return {name: n_trials for name, n_trials in TRIALS.items() if name != "bagging" or takes_bagging}
    if not isinstance(steps, dict) or not steps or not set(steps) <= set(STEPS):
        raise ParameterError(f"steps={steps!r}: must be a dict of steps and their trials; steps are {', '.join(STEPS)}")
    return {name: whole_number(n_trials, f"steps[{name!r}]", low=1) for name, n_trials in steps.items()}
