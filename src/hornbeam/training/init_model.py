"""A model to train on (`init_model`): what it must share with the data and the parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.column_names import same_columns
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster, load
from hornbeam.objectives import CustomObjective, Objective
from hornbeam.params.constraints import resolve_per_feature
from hornbeam.params.params import BY_NAME, Params


def model_to_train_on(init_model: Booster | str | os.PathLike[str] | None) -> Booster | None:
    """Return what is trained on: the iterations that `predict` uses, without those after the best one."""
    start = load(init_model) if isinstance(init_model, (str, os.PathLike, bytearray)) else init_model
    if isinstance(start, Booster) and start.n_used < start.n_iterations:
        return start[: start.n_used]
    return start


def check_start(start: Booster, train_set: Dataset, params: Params, objective: Objective) -> None:
    """Check that a model to train on fits the data and the objective.

    An objective function goes on from the scores of any model of as many outputs; the model is then one of a function,
    and predicts raw scores, as `Booster.update(fobj=)` makes it.
    """
    if not isinstance(start, Booster):
        raise ParameterError(f"init_model must be a Booster or a path, not {type(start).__name__}")
    if start.n_features != train_set.n_features:
        raise DataError(
            f"init_model has {start.n_features} features and train_set {train_set.n_features}; pass the "
            "columns that the model was trained on"
        )
    if not same_columns(start.feature_names, train_set.feature_names):
        raise DataError(
            f"init_model was trained on features {start.feature_names[:3]}..., train_set has "
            f"{train_set.feature_names[:3]}...; pass the same columns in the same order"
        )
    if start.averages_trees != (params.boosting == "rf"):
        raise ParameterError(
            f"init_model was trained with boosting={start.params.get('boosting', 'gbdt')!r}, now it is "
            f"{params.boosting!r}: a forest is a mean of trees and the others are sums; pass the same"
        )
    goes_on = isinstance(objective, CustomObjective) and start.n_outputs == objective.n_outputs
    if start.objective.to_dict() != objective.to_dict() and not goes_on:
        raise ParameterError(
            f"init_model was trained with objective {start.objective.to_dict()}, now it is "
            f"{objective.to_dict()}; pass the same objective and num_class"
        )
    if start.trees and start.trees_per_iteration != objective.n_outputs * params.num_parallel_tree:
        raise ParameterError(
            f"init_model was trained with num_parallel_tree={start.trees_per_iteration // start.n_outputs}, now it is "
            f"{params.num_parallel_tree}: iterations would have other numbers of trees; pass the same"
        )
    check_constraints(start, params, train_set.feature_names)


def check_constraints(start: Booster, params: Params, feature_names: Sequence[str]) -> None:
    """Check that the trees of a model to train on keep the monotone constraints: they stay as they are.

    feature_names  of the data to train on
    """
    before, now = (
        resolve_per_feature(given, 0.0, names, "monotone_constraints")
        for given, names in (
            (start.params.get("monotone_constraints"), start.feature_names),
            (params.monotone_constraints, feature_names),
        )
    )
    used = {int(feature) for tree in start.trees for feature in tree.feature}
    wrong = [start.feature_names[f] for f in np.flatnonzero((now != 0.0) & (now != before)).tolist() if f in used]
    if wrong:
        raise ParameterError(
            f"monotone_constraints: init_model has splits of {wrong[0]!r} that were found without this constraint, and "
            "they stay; train a new model, or leave the constraint out"
        )


def check_classes(known: NDArray[Any] | None, found: NDArray[Any] | None) -> None:
    """Check that a classifier to train on has learned the classes of the target: its trees know their numbers alone.

    known  the classes of init_model, sorted; None: it has no names for them
    found  those of the target
    """
    if known is not None and found is not None and known.tolist() != found.tolist():
        raise DataError(
            f"init_model was trained on {_describe(known)}, y has {_describe(found)}; pass a target of the same classes"
        )


def _describe(classes: NDArray[Any]) -> str:
    shown = classes[:5].tolist()
    return f"classes {shown}" if len(classes) <= len(shown) else f"{len(classes)} classes {shown}..."


def check_reading(start: Booster, train_set: Dataset, params: Params) -> None:
    """Check that a model to train on reads levels and zeros as the bins of this training do.

    params  with those that the bins came from
    """
    name = "target_encoding_smooth"
    if train_set.encoded_features:
        before, now = start.params.get(name, BY_NAME[name].default), getattr(train_set.bin_params, name)
        if before != now:
            raise ParameterError(
                f"init_model was trained with {name}={before}, now it is {now}; its encoding is kept: pass the same"
            )
    missing = bool(start.params.get("zero_as_missing", False))
    if missing != params.zero_as_missing:
        raise ParameterError(
            f"init_model was trained with zero_as_missing={missing}, now it is {params.zero_as_missing}; its "
            "trees would read the data otherwise than they learned: pass the same"
        )
