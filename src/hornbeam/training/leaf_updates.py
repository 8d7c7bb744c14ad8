"""XGBoost's `process_type="update"`: the trees of a model, one iteration after the other, with leaf values of new data.

    hb.train({"process_type": "update", "updater": "refresh"}, new_data, n, xgb_model=model)

The first n iterations of the model keep their splits. Their leaf values are those that the new data give, by the
parameters of this call; a leaf of less than `min_sum_hessian_in_leaf` gets 0, as in XGBoost. How many rows a branch has
stays that of the first training. `Booster.refit` is LightGBM's way to do this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.model.refitting import refit
from hornbeam.objectives import get_objective
from hornbeam.params.params import Params, whole_number
from hornbeam.training.callbacks import CallbackEnv, EarlyStopException, close, finish, prepare
from hornbeam.training.checkpoints import enter_history
from hornbeam.training.evaluated_sets import named_sets
from hornbeam.training.finished_models import evaluate_model
from hornbeam.training.function_calls import metric_functions
from hornbeam.training.init_model import check_start, model_to_train_on
from hornbeam.training.peer_callbacks import adapted
from hornbeam.training.xgboost_arguments import with_default_metric, with_stopping

OF_UPDATES = ("process_type", "updater", "refresh_leaf")


def asks_for_update(params: Any) -> TypeGuard[Mapping[str, Any]]:
    """Say whether parameters ask for new leaf values of a model in place of new trees."""
    return isinstance(params, Mapping) and params.get("process_type") == "update"


def update_leaves(
    params: Mapping[str, Any],
    train_set: Dataset,
    n_rounds: int | None,
    valid_sets: Any,
    valid_names: Any,
    feval: Any,
    init_model: Any,
    callbacks: Sequence[Any] | None,
) -> Booster:
    """Return a model of the first iterations of another one, with leaf values of new data; arguments as of `train`."""
    if not isinstance(train_set, Dataset):
        raise DataError(f"train_set must be a hornbeam.Dataset, not {type(train_set).__name__}; wrap it")
    start = model_to_train_on(init_model)
    if start is None:
        raise ParameterError("process_type='update' updates a model: pass it, xgb_model=booster or init_model=booster")
    checked = _checked(params, start, train_set)
    n_rounds = whole_number(checked.num_iterations if n_rounds is None else n_rounds, "num_boost_round", 1)
    if n_rounds > start.n_iterations:
        raise ParameterError(
            f"{n_rounds} rounds of process_type='update', but the model has {start.n_iterations} iterations; update "
            "as many, or fewer"
        )
    check_start(start, train_set, checked, get_objective(checked, train_set.n_targets))
    part = start[:n_rounds]
    data = Dataset(
        part.checked_table(train_set), train_set.label, weight=train_set.weight, group=train_set.group,
        init_score=None if train_set.init_score is None else np.ascontiguousarray(train_set.init_score.T),
    )  # fmt: skip
    with default_mode():
        model = refit(
            part.to_model(), part.forest, data, 0.0, None, resolve_threads(checked.num_threads), update_by=checked
        )
    booster = start.hand_ways_to(Booster(model))
    booster.is_xgboosts = train_set.is_xgboosts
    booster.trained_with = checked
    _evaluate(booster, checked, train_set, named_sets(valid_sets, valid_names, train_set), feval, callbacks)
    return booster


def _checked(params: Mapping[str, Any], start: Booster, train_set: Dataset) -> Params:
    """Return the parameters of an update, with the objective of the model."""
    updater, refreshes = params.get("updater"), params.get("refresh_leaf", True)
    if updater not in (None, "refresh"):
        raise ParameterError(f"updater={updater!r} with process_type='update' is not available here; use 'refresh'")
    if str(refreshes).lower() in ("0", "false"):
        raise ParameterError(f"refresh_leaf={refreshes!r} leaves leaf values as they are; leave process_type out")
    others = {name: value for name, value in params.items() if name not in OF_UPDATES}
    own = {name: value for name, value in start.objective.to_dict().items() if name != "name"}
    if start.objective.name == "custom":
        raise ParameterError("process_type='update' of a model of an objective function: call booster.refit")
    kept = {name: value for name, value in start.kept_params.items() if name in ("objective", "num_class", *own)}
    return with_default_metric(Params.from_dict({**kept, **others}), train_set)


def _evaluate(
    booster: Booster,
    params: Params,
    train_set: Dataset,
    sets: Mapping[str, Dataset],
    feval: Any,
    callbacks: Sequence[Any] | None,
) -> None:
    """Evaluate the model after each of its iterations, as its training would have, and call what follows that."""
    params, callbacks = with_stopping(params, train_set, callbacks)
    others = [name for name, data in sets.items() if data is not train_set]
    has_metrics = bool(params.metric != () or metric_functions(feval))
    called = prepare(adapted(callbacks), params, others, has_metrics, bool(sets) and not others, train_set.is_xgboosts)
    learned = frozenset(name for name, data in sets.items() if data is train_set)
    n_rounds = booster.n_iterations
    env = CallbackEnv(
        booster, 0, 0, n_rounds, params.learning_rate, training_names=learned,
        params={**params.to_dict(), "num_iterations": n_rounds},
    )  # fmt: skip
    before = [callback for callback in called if getattr(callback, "before_iteration", False)]
    if before:
        raise ParameterError(f"process_type='update' grows nothing: {before[0]!r} cannot change an iteration")
    try:
        for iteration in range(n_rounds if sets or called else 0):
            env.begin(iteration, params.learning_rate)
            so_far = booster[: iteration + 1]
            so_far.trained_with, so_far.is_xgboosts = params, booster.is_xgboosts
            env.model = so_far
            env.evaluation_result_list = [
                result for name, data in sets.items() for result in evaluate_model(so_far, data, name, feval)
            ]
            enter_history(booster, env.evaluation_result_list)
            for callback in called:
                callback(env)
        finish(called)
    except EarlyStopException as stop:
        del booster.trees[(env.iteration + 1) * booster.trees_per_iteration :]
        booster.n_best = min(stop.best_iteration + 1, booster.n_iterations)
    finally:
        close(called)
