"""A table of parameters, each with the values worth combining: for tests that draw many combinations.

A feature joins by a row (or by values in a row there is) in `TABLE`; `settle` makes a draw a valid combination, where
parameters exclude each other. Data come from `testing.golden`, small, with missing values, ties and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hornbeam.dataset import Dataset
from hornbeam.testing.golden import golden_score, golden_table, uniform

N_FEATURES = 5
SIGNS = (1, -1, 0, 0, 1)
GROUPS = "[[0, 1, 2], [2, 3], [4, 0]]"

TABLE: dict[str, tuple[Any, ...]] = {
    # the first value is the simplest: what a failing combination is shrunk to
    "objective": ("regression", "binary", "multiclass", "poisson", "huber", "regression_l1"),
    "num_leaves": (4, 12, 2),
    "max_depth": (-1, 3),
    "grow_policy": ("leafwise", "depthwise"),
    "min_data_in_leaf": (20, 2, 5),
    "min_sum_hessian_in_leaf": (1e-3, 2.0),
    "lambda_l1": (0.0, 0.7),
    "lambda_l2": (0.0, 2.0),
    "min_gain_to_split": (0.0, 0.2),
    "max_delta_step": (0.0, 0.5),
    "max_bin": (255, 7),
    "use_missing": (True, False),
    "precision": ("auto", "high"),
    "feature_fraction": (1.0, 0.6),
    "feature_fraction_bylevel": (1.0, 0.7),
    "feature_fraction_bynode": (1.0, 0.5),
    "extra_trees": (False, True),
    "path_smooth": (0.0, 4.0),
    "monotone_constraints": (None, SIGNS),
    "monotone_constraints_method": ("basic", "intermediate"),
    "monotone_penalty": (0.0, 1.4),
    "interaction_constraints": (None, GROUPS),
    "feature_contri": (None, (1.0, 0.5, 1.0, 0.0, 2.0)),
    "bagging_fraction": (1.0, 0.7),
    "bagging_freq": (0, 1),
    "data_sample_strategy": ("bagging", "goss"),
    "boosting": ("gbdt", "dart", "rf"),
    "drop_rate": (0.1, 0.7),
    "boost_from_average": (True, False),
    "learning_rate": (0.1, 1.0),
    "seed": (0, 77),
}
"""Values by parameter; the rest of a draw keeps its defaults."""

DATA: dict[str, tuple[Any, ...]] = {
    "n_rows": (60, 200),
    "missing": (False, True),
    "weighted": (False, True),
    "zeros": (0.0, 0.9),
}
"""What the data may be like, see make_dataset."""


def settle(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid combination as near as possible to a draw."""
    chosen = dict(params)
    if chosen.get("objective") == "multiclass":
        chosen["num_class"] = 3
    if chosen.get("objective") == "regression_l1":  # leaf values are renewed, so constraints cannot hold
        chosen.pop("monotone_constraints", None)
    if chosen.get("boosting") == "rf":  # every tree has its own rows
        chosen.update(bagging_fraction=0.7, bagging_freq=1)
        chosen.pop("data_sample_strategy", None)
    if chosen.get("data_sample_strategy") == "goss":  # chooses rows by itself
        chosen.pop("bagging_fraction", None)
        chosen.pop("bagging_freq", None)
    return chosen


def make_dataset(
    objective: str, n_rows: int = 200, missing: bool = False, weighted: bool = False, zeros: float = 0.0
) -> Dataset:
    """Make a small training set whose labels suit the objective."""
    table = golden_table(n_rows, N_FEATURES, missing, zeros)
    score = golden_score(table)
    labels: dict[str, Callable[[], Any]] = {
        "binary": lambda: score > 1.0,
        "multiclass": lambda: np.clip(np.floor(score / 3.0) + 1.0, 0.0, 2.0),
        "poisson": lambda: np.floor(np.abs(score)),
    }
    label = np.asarray(labels.get(objective, lambda: score)(), np.float64)
    return Dataset(table, label=label, weight=0.5 + uniform(n_rows, 4000) if weighted else None)
