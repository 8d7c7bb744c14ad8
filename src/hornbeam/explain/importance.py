"""How much each feature was used: by splits, gains and covers of the trees, and by contributions to predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.explain.contributions import CHUNK_BYTES, Explained, explained
from hornbeam.explain.permutation import permutation_importance
from hornbeam.model.booster import Booster
from hornbeam.params.params import BY_NAME

OF_TREES = ("split", "gain", "cover")
"""Importances that the trees tell."""

BY_XGBOOSTS_NAME = {"weight": "split", "total_gain": "gain", "total_cover": "cover"}
"""What XGBoost calls them; its "gain" and "cover" are means, which `Booster.get_score` returns."""

OF_DATA = ("shap", "permutation")
"""Importances that take data."""


def importance_of(
    booster: Booster, importance_type: str, iteration: int | None, data: Any, choices: Mapping[str, Any]
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return one importance of every feature; arguments as for `Booster.feature_importance`."""
    importance_type = BY_XGBOOSTS_NAME.get(importance_type, importance_type)
    if importance_type not in OF_TREES + OF_DATA:
        raise ParameterError(
            f"importance_type={importance_type!r}: must be 'split' (XGBoost: weight), 'gain' (total_gain), 'cover' "
            "(total_cover), or, with data=, 'shap' or 'permutation'"
        )
    if importance_type in OF_TREES:
        if data is not None or choices:
            given = ", ".join(f"{name}=" for name in ("data" if data is not None else None, *choices) if name)
            raise ParameterError(f"importance_type={importance_type!r} comes from the trees alone; leave out {given}")
        return importance_of_trees(booster, importance_type, iteration)
    if data is None:
        raise DataError(f"importance_type={importance_type!r} takes data: pass data=, a table as for predict")
    if importance_type == "permutation":
        return permutation_importance(booster, data, num_iteration=iteration, **choices).mean
    unknown = [name for name in choices if name not in ("cover", "num_threads", "device")]
    if unknown:
        raise ParameterError(f"importance_type='shap' takes cover=, num_threads= and device=, not {unknown[0]}=")
    reader = booster.checked_table(data)
    n_threads = resolve_threads(BY_NAME["num_threads"].check(choices.get("num_threads") or 0) or booster.num_threads)
    device = BY_NAME["device"].check(choices.get("device") or reader.device or "cpu")
    iterations = booster.chosen_iterations(0, iteration)
    return shap_importance(explained(booster, reader, iterations, n_threads, device, choices.get("cover", "auto")))


def importance_of_trees(
    booster: Booster, importance_type: str, iteration: int | None
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return what the trees tell, (n_features,): the number of splits, int64, or the sum of gains or covers."""
    n_iterations = iteration if iteration is not None and iteration > 0 else booster.n_used
    trees = booster.trees[: n_iterations * booster.trees_per_iteration]
    splits = np.zeros(booster.n_features, np.int64)
    sums = np.zeros(booster.n_features)
    for tree in trees:
        np.add.at(splits, tree.feature, 1)
        if importance_type != "split":
            np.add.at(sums, tree.feature, tree.gain if importance_type == "gain" else tree.split_weight)
    return splits if importance_type == "split" else sums


def shap_importance(task: Explained) -> NDArray[np.float64]:
    """Return the mean size of each feature's contributions, outputs added, float64 (n_features,)."""
    n_rows, columns = task.reader.n_rows, task.columns
    n_columns = task.booster.n_features if columns is None else len(columns)
    step = max(1, CHUNK_BYTES // (8 * task.booster.n_outputs * n_columns))
    sums = np.zeros((task.booster.n_outputs, n_columns))
    for start in range(0, n_rows, step):
        sums += np.abs(task.values(range(start, min(start + step, n_rows)))).sum(axis=0)
    found = np.zeros(task.booster.n_features)
    found[slice(None) if columns is None else columns] = sums.sum(axis=0) / n_rows
    return found
