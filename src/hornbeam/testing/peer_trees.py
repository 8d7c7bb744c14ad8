"""Trees of LightGBM and XGBoost as Hornbeam's: the same model in both libraries, for comparisons and benchmarks.

Splits of numbers alone. XGBoost sends float32 values below a threshold left, so its thresholds become the next smaller
float32 numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.model.booster import Booster
from hornbeam.model.file.model_data import ModelData
from hornbeam.trees.tree import Tree


def booster_of(trees: Sequence[Tree], n_features: int, init_scores: Sequence[float] = (0.0,)) -> Booster:
    """Return a model of some trees that predicts raw scores."""
    n_outputs = len(init_scores)
    objective = {"name": "custom", "num_class": n_outputs}
    names = [f"f{i}" for i in range(n_features)]
    return Booster(ModelData(names, n_outputs, objective, {}, list(init_scores), trees=list(trees)))


def lightgbm_trees(booster: Any) -> list[Tree]:
    """Copy the trees of LightGBM's Booster."""
    return [_lightgbm_tree(info["tree_structure"], info["shrinkage"]) for info in booster.dump_model()["tree_info"]]


def _lightgbm_tree(structure: dict[str, Any], shrinkage: float) -> Tree:
    splits: dict[int, dict[str, Any]] = {}
    leaves: dict[int, dict[str, Any]] = {}
    open_nodes = [structure]
    while open_nodes:
        node = open_nodes.pop()
        if "split_index" in node:
            splits[node["split_index"]] = node
            open_nodes += [node["left_child"], node["right_child"]]
        else:
            leaves[node.get("leaf_index", 0)] = node

    def child(node: dict[str, Any]) -> int:
        return int(node["split_index"]) if "split_index" in node else ~int(node["leaf_index"])

    nodes = [splits[i] for i in range(len(splits))]
    ends = [leaves[i] for i in range(len(leaves))]
    return Tree(
        feature=np.array([node["split_feature"] for node in nodes], np.int32),
        threshold=np.array([node["threshold"] for node in nodes], np.float64),
        missing_left=np.array([node["default_left"] for node in nodes], np.bool_),
        left=np.array([child(node["left_child"]) for node in nodes], np.int32),
        right=np.array([child(node["right_child"]) for node in nodes], np.int32),
        gain=np.array([node["split_gain"] for node in nodes], np.float64),
        split_value=np.array([node["internal_value"] for node in nodes], np.float64),
        split_weight=np.array([node["internal_weight"] for node in nodes], np.float64),
        split_count=np.array([node["internal_count"] for node in nodes], np.int64),
        leaf_value=np.array([end["leaf_value"] for end in ends], np.float64),
        leaf_weight=np.array([end.get("leaf_weight", 0.0) for end in ends], np.float64),
        leaf_count=np.array([end.get("leaf_count", 0) for end in ends], np.int64),
        shrinkage=shrinkage,
    )


def xgboost_trees(booster: Any) -> list[Tree]:
    """Copy the trees of XGBoost's Booster; numbers of training rows are not known there, and are 0."""
    model = json.loads(bytes(booster.save_raw("json")))
    return [_xgboost_tree(tree) for tree in model["learner"]["gradient_booster"]["model"]["trees"]]


def _xgboost_tree(tree: dict[str, Any]) -> Tree:
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    is_leaf = left < 0
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)  # of splits, and ~ of leaves
    condition = np.array(tree["split_conditions"], np.float32)
    weight = np.array(tree["sum_hessian"], np.float64)
    splits = ~is_leaf
    return Tree(
        feature=np.array(tree["split_indices"], np.int32)[splits],
        threshold=np.nextafter(condition[splits], np.float32(-np.inf)).astype(np.float64),
        missing_left=np.array(tree["default_left"], np.bool_)[splits],
        left=number[left[splits]].astype(np.int32),
        right=number[right[splits]].astype(np.int32),
        gain=np.array(tree["loss_changes"], np.float64)[splits],
        split_value=np.array(tree["base_weights"], np.float64)[splits],
        split_weight=weight[splits],
        split_count=np.zeros(int(splits.sum()), np.int64),
        leaf_value=condition[is_leaf].astype(np.float64),
        leaf_weight=weight[is_leaf],
        leaf_count=np.zeros(int(is_leaf.sum()), np.int64),
        shrinkage=1.0,
    )
