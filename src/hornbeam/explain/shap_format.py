"""A model as `shap.TreeExplainer` reads it: a dictionary of trees, each a dictionary of arrays.

Nodes of a tree are its splits, in their order, and behind them its leaves. SHAP compares numbers with thresholds, and
missing values take a way of their own; it has no sets of categories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.explain.covers import known_cover
from hornbeam.model.booster import Booster
from hornbeam.trees.tree import Tree


def to_shap(booster: Booster, iterations: tuple[int, int | None], cover: str = "auto") -> dict[str, Any]:
    """Return the model as a dictionary; iterations are (start_iteration, num_iteration) of `Forest.tree_range`."""
    _check_expressible(booster)
    first, last = booster.forest.tree_range(*iterations)
    cover = known_cover(booster.trees[first:last], cover)
    n_outputs = booster.n_outputs
    divisor = float(max(1, (last - first) // n_outputs)) if booster.averages_trees else 1.0
    trees = [_nodes(booster.trees[i], i % n_outputs, n_outputs, divisor, cover) for i in range(first, last)]
    if not trees:
        raise ParameterError("the model has no trees to explain; choose other iterations, or train one")
    return {
        "trees": trees,
        "base_offset": booster.init_scores.copy(),
        "input_dtype": np.float64,
        "internal_dtype": np.float64,
        "objective": {"binary": "binary_crossentropy", "regression": "squared_error"}.get(booster.objective.name),
        "tree_output": {"sigmoid": "log_odds", "identity": "raw_value"}.get(booster.objective.link, "raw_value"),
    }


def _check_expressible(booster: Booster) -> None:
    if booster.levels is not None and any(levels is not None for levels in booster.levels):
        names = [name for name, levels in zip(booster.feature_names, booster.levels, strict=True) if levels is not None]
        raise ParameterError(
            f"the model has categorical features ({', '.join(names[:5])}), which shap.TreeExplainer cannot read from a "
            "dictionary of trees; booster.explain(X) returns a shap.Explanation of any model"
        )
    if booster.params.get("zero_as_missing") and booster.params.get("use_missing", True):
        raise ParameterError(
            "the model was trained with zero_as_missing=True, which shap.TreeExplainer does not know; "
            "booster.explain(X) returns a shap.Explanation of any model"
        )


def _nodes(tree: Tree, output: int, n_outputs: int, divisor: float, cover: str) -> dict[str, NDArray[Any]]:
    """Return the nodes of one tree; arrays of (n_splits + n_leaves,), values with a column an output."""
    n_splits = tree.n_splits
    no_child = np.full(tree.n_leaves, -1, np.int32)

    def places(children: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(children >= 0, children, n_splits + ~children).astype(np.int32)

    left, right = places(tree.left), places(tree.right)
    of_leaves = (tree.leaf_count if cover == "count" else tree.leaf_weight).astype(np.float64)
    weight = np.concatenate((np.zeros(n_splits), of_leaves))
    for split in range(n_splits - 1, -1, -1):  # children have higher numbers than their parent
        weight[split] = weight[left[split]] + weight[right[split]]
    values = np.zeros((n_splits + tree.n_leaves, n_outputs))
    values[n_splits:, output] = tree.leaf_value / divisor
    return {
        "children_left": np.concatenate((left, no_child)),
        "children_right": np.concatenate((right, no_child)),
        "children_default": np.concatenate((np.where(tree.missing_left, left, right), no_child)).astype(np.int32),
        "features": np.concatenate((tree.feature, no_child)).astype(np.int32),
        "thresholds": np.concatenate((tree.threshold, np.zeros(tree.n_leaves))),
        "values": values,
        "node_sample_weight": weight,
    }
