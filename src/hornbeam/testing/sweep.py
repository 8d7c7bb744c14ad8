"""A table of parameters, each with the values worth combining: for tests that draw many combinations.

A feature joins by a row (or by values in a row there is) in `TABLE`; `settle` makes a draw a valid combination, where
parameters exclude each other. Data come from `testing.golden`, small, with missing values, ties and weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.dataset.dataset import Dataset
from hornbeam.objectives import ALL_OBJECTIVES, RANKING, get_objective
from hornbeam.params.objective_names import RENEWED
from hornbeam.params.params import Params
from hornbeam.testing.golden_case import GoldenCase
from hornbeam.testing.labels import params_for

N_FEATURES = 5
SIGNS = (1, -1, 0, 0, 1)
GROUPS = "[[0, 1, 2], [2, 3], [4, 0]]"
LEVELS = {2: 9, 3: 40}
FORCED = {
    "feature": 4,
    "threshold": 3.0,
    "left": {"feature": 0, "threshold": 0.0, "right": {"feature": 1, "threshold": 4.0}},
    "right": {"feature": 1, "threshold": 2.0},
}

TABLE: dict[str, tuple[Any, ...]] = {
    # the first value is the simplest: what a failing combination is shrunk to
    "objective": ("regression", *(name for name in ALL_OBJECTIVES if name != "regression")),
    "num_leaves": (4, 12, 2),
    "max_depth": (-1, 3),
    "grow_policy": ("leafwise", "depthwise"),
    "multi_strategy": ("one_output_per_tree", "multi_output_tree"),
    "min_data_in_leaf": (20, 2, 5),
    "min_sum_hessian_in_leaf": (1e-3, 2.0),
    "lambda_l1": (0.0, 0.7),
    "lambda_l2": (0.0, 2.0),
    "min_gain_to_split": (0.0, 0.2),
    "max_delta_step": (0.0, 0.5),
    "max_bin": (255, 7),
    "tree_method": ("hist", "exact", "approx"),
    "use_missing": (True, False),
    "precision": ("auto", "high"),
    "feature_fraction": (1.0, 0.6),
    "feature_fraction_bylevel": (1.0, 0.7),
    "feature_fraction_bynode": (1.0, 0.5),
    "feature_weights": (None, (1.0, 0.0, 5.0, 0.2, 1.0)),
    "extra_trees": (False, True),
    "path_smooth": (0.0, 4.0),
    "linear_tree": (False, True),
    "linear_lambda": (0.0, 0.1),
    "monotone_constraints": (None, SIGNS),
    "monotone_constraints_method": ("basic", "intermediate", "advanced"),
    "monotone_penalty": (0.0, 1.4),
    "interaction_constraints": (None, GROUPS),
    "feature_contri": (None, (1.0, 0.5, 1.0, 0.0, 2.0)),
    "cegb_penalty_split": (0.0, 0.02),
    "cegb_penalty_feature_coupled": (None, (3.0, 0.0, 0.5, 9.0, 1.0)),
    "cegb_penalty_feature_lazy": (None, (0.02, 0.0, 0.1, 0.0, 0.01)),
    "forcedsplits_filename": (None, json.dumps(FORCED)),
    "bagging_fraction": (1.0, 0.7),
    "bagging_freq": (0, 1),
    "pos_bagging_fraction": (1.0, 0.6),
    "bagging_by_query": (False, True),
    "data_sample_strategy": ("bagging", "goss"),
    "boosting": ("gbdt", "dart", "rf"),
    "drop_rate": (0.1, 0.7),
    "uniform_drop": (False, True),
    "one_drop": (False, True),
    "xgboost_dart_mode": (False, True),
    "xgboost_dart_forest": (False, True),
    "cat_smooth": (10.0, 1.0),
    "cat_l2": (10.0, 0.0),
    "max_cat_to_onehot": (4, 20),
    "min_data_per_group": (100, 5),
    "boost_from_average": (True, False),
    "learning_rate": (0.1, 1.0),
    "seed": (0, 77),
}
"""Values by parameter; the rest of a draw keeps its defaults."""

DATA: dict[str, tuple[Any, ...]] = {
    "n_rows": (60, 200),
    "missing": (False, True),
    "weighted": (False, True),
    "zeros": (0.0, 0.6),
    "init_score": (False, True),
    "targets": (1, 3),
    "categories": (False, True),
    "sparse": (False, True),
}
"""What the data may be like, see make_dataset."""


NOT_SHARED = (
    "feature_fraction_bylevel", "feature_fraction_bynode", "extra_trees", "path_smooth", "monotone_constraints",
    "interaction_constraints", "feature_contri", "cegb_penalty_split", "cegb_penalty_feature_coupled",
    "cegb_penalty_feature_lazy", "forcedsplits_filename", "tree_method", "linear_tree",
)  # fmt: skip
"""What trees that all outputs share do not go with; categorical features neither."""


def settle(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid combination as near as possible to a draw."""
    chosen = dict(params)
    objective = str(chosen.get("objective", "regression"))
    chosen.update(params_for(objective))
    if objective != "binary" or chosen.get("pos_bagging_fraction") == 1.0:
        chosen.pop("pos_bagging_fraction", None)
    if objective not in RANKING:
        chosen.pop("bagging_by_query", None)
    if objective in RENEWED:  # leaf values are renewed, so constraints cannot hold
        chosen.pop("monotone_constraints", None)
    if chosen.get("boosting") == "rf":  # every tree has its own rows
        chosen.update(bagging_fraction=0.7, bagging_freq=1)
        chosen.pop("data_sample_strategy", None)
    if chosen.get("data_sample_strategy") == "goss" or "pos_bagging_fraction" in chosen:  # these choose by themselves
        chosen.pop("bagging_fraction", None)
    if chosen.get("data_sample_strategy") == "goss":
        for name in ("bagging_freq", "pos_bagging_fraction", "bagging_by_query"):
            chosen.pop(name, None)
    if chosen.get("tree_method", "hist") != "hist" and chosen.get("monotone_constraints_method") == "advanced":
        chosen.pop("monotone_constraints_method")  # its bounds are those of bins
    if chosen.get("tree_method") == "approx":  # its bounds are others in every tree
        chosen.pop("forcedsplits_filename", None)
    if chosen.get("multi_strategy") == "multi_output_tree":
        for name in NOT_SHARED:
            chosen.pop(name, None)
    if chosen.get("linear_tree") and (
        objective in (*RENEWED, "logcosh")
        or chosen.get("boosting") == "dart"
        or chosen.get("monotone_constraints") is not None
    ):
        chosen.pop("linear_tree")
    return chosen


def make_dataset(
    params: Mapping[str, Any], n_rows: int = 200, categories: bool = False, sparse: bool = False, **described: Any
) -> Dataset:
    """Make a small training set that suits settled parameters; `described` are fields of GoldenCase."""
    needed = params_for(params.get("objective", "regression"))
    categories = categories and params.get("multi_strategy") != "multi_output_tree"
    if get_objective(Params.from_dict(needed)).formula is None or "pos_bagging_fraction" in params:
        described = {**described, "targets": 1}  # it takes one label a row
    if params.get("boosting") == "rf" or "num_class" in needed:  # forests take no initial scores, cases one a row
        described = {**described, "init_score": False}
    case = GoldenCase(
        needed,
        n_rows,
        N_FEATURES,
        levels=LEVELS if categories else {},
        group=(7, 1, 20) if needed["objective"] in RANKING else (),
        **described,
    )
    return case.dataset(_compressed if sparse else np.asarray)


def _compressed(table: NDArray[np.float64]) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_matrix(table)
