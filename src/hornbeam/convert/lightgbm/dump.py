"""Model -> the dictionary that LightGBM's `dump_model` returns, and the table of its nodes.

Nothing is refused here: the dictionary is there to be looked at. A categorical split names the numbers of its levels,
"0||2", which are places in `pandas_categorical` where levels are strings or the column was of a category type; target
encoded features have thresholds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.lightgbm.objectives import write_objective
from hornbeam.convert.outgoing import Column, Outgoing, lone_leaf
from hornbeam.core.errors import ConversionError
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree

ROOT_DEPTH = 1
"""Depth of the root in the table of nodes."""


def dump(
    model: ModelData, first: int, last: int, importances: Any, object_hook: Callable[[dict[str, Any]], Any] | None
) -> dict[str, Any]:
    """Return a model as LightGBM's `dump_model` does.

    Parameters
    ----------
    model
        The model; its best iteration does not matter here.
    first, last
        Iterations from and up to which trees are in the dictionary.
    importances
        (n_features,) numbers: what is said of the features; zeros are left out.
    object_hook
        What becomes of every dictionary of a tree, as for `json.loads`; None: it stays.
    """
    out = Outgoing(model, is_lightgbms=True, is_like_predict=True)
    hook = object_hook or (lambda made: made)
    n_trees = len(out.trees)
    size = model.trees_per_iteration
    trees = list(enumerate(out.trees))[first * size : last * size]
    if n_trees == 0:
        trees = [(i, lone_leaf(0.0)) for i in range(out.n_outputs)]
    made = {
        "name": "tree",
        "version": "v4",
        "num_class": out.n_outputs,
        "num_tree_per_iteration": size,
        "label_index": 0,
        "max_feature_idx": len(out.columns) - 1,
        **_objective(out),
        "average_output": out.averages,
        "feature_names": out.names,
        "monotone_constraints": _signs(out),
        "feature_infos": {column.name: _info(column) for column in out.columns},
        "tree_info": [_tree(number, tree, _start(out, number), out, hook) for number, tree in trees],
        "feature_importances": {
            name: value for name, value in zip(out.names, np.asarray(importances).tolist(), strict=True) if value > 0
        },
        "pandas_categorical": [column.words for column in out.columns if column.is_listed],
    }
    return hook(made)


def _objective(out: Outgoing) -> dict[str, str]:
    """Return the objective in LightGBM's words; empty where it has none for it."""
    try:
        text = write_objective(out.objective, Exactness("LightGBM's format", False))
    except ConversionError:
        text = out.objective.name
    return {} if text is None else {"objective": re.sub(r"\.0\b", "", text)}  # LightGBM writes 1.0 as 1


def _signs(out: Outgoing) -> list[int]:
    signs = out.params.get("monotone_constraints")
    if not isinstance(signs, (list, tuple)) or not all(isinstance(sign, (int, float)) for sign in signs):
        return []
    return [int(sign) for sign in signs]


def _info(column: Column) -> dict[str, Any]:
    """Return what is known of the values of a feature: the levels; a model does not keep ranges of numbers."""
    if column.is_set and len(column.numbers):
        numbers = np.sort(column.numbers[column.numbers >= 0]).tolist()
        return {"min_value": min(numbers, default=0), "max_value": max(numbers, default=0), "values": numbers}
    return {"min_value": None, "max_value": None, "values": []}


def _start(out: Outgoing, number: int) -> float:
    """Return what is added to the values of a tree: LightGBM has the start in the first ones, of a forest in all."""
    has_start = out.averages or number < out.n_outputs
    return float(out.init_scores[number % out.n_outputs]) if has_start else 0.0


def _tree(number: int, tree: Tree, start: float, out: Outgoing, hook: Callable[[dict[str, Any]], Any]) -> Any:
    linear = _linear(tree, start)
    made: dict[int, Any] = {
        ~leaf: hook({
            "leaf_index": leaf,
            "leaf_value": float(tree.leaf_value[leaf]) + start,
            "leaf_weight": float(tree.leaf_weight[leaf]),
            "leaf_count": int(tree.leaf_count[leaf]),
            **linear[leaf],
        })
        for leaf in range(tree.n_leaves)
    }  # fmt: skip
    n_sets = 0
    for split in reversed(range(tree.n_splits)):  # children have higher numbers than their parent
        codes = None if tree.left_codes is None else tree.left_codes[split]
        if codes is None:
            threshold: Any = float(tree.threshold[split])
            default_left = bool(tree.missing_left[split])
            missing = "Zero" if out.zeros_are_missing else "NaN"
        else:
            members, default_left = out.columns[int(tree.feature[split])].members(codes)
            threshold, missing = "||".join(map(str, members)), "NaN"
            n_sets += 1
        made[split] = hook({
            "split_index": split,
            "split_feature": int(tree.feature[split]),
            "split_gain": float(tree.gain[split]),
            "threshold": threshold,
            "decision_type": "<=" if codes is None else "==",
            "default_left": default_left,
            "missing_type": missing,
            "internal_value": float(tree.split_value[split]) + start,
            "internal_weight": float(tree.split_weight[split]),
            "internal_count": int(tree.split_count[split]),
            "left_child": made.pop(int(tree.left[split])),
            "right_child": made.pop(int(tree.right[split])),
        })  # fmt: skip
    root = made.pop(0 if tree.n_splits else ~0)
    return hook({
        "tree_index": number,
        "num_leaves": tree.n_leaves,
        "num_cat": n_sets,
        "shrinkage": float(tree.shrinkage),
        "tree_structure": root,
    })  # fmt: skip


def _linear(tree: Tree, start: float) -> list[dict[str, Any]]:
    """Return what is said of linear leaves besides, one entry a leaf."""
    if tree.linear is None:
        return [{}] * tree.n_leaves
    linear = tree.linear.plus(start)
    said = [
        {"leaf_const": const, "leaf_features": features, "leaf_coeff": coeff}
        for const, features, coeff in zip(linear.const.tolist(), *linear.lists(), strict=True)
    ]
    if linear.is_bounded:
        for own, low, high in zip(said, linear.low.tolist(), linear.high.tolist(), strict=True):
            own.update(leaf_low=low, leaf_high=high)
    return said


def table_of(dumped: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row a node, parents before children, left before right: the rows of `trees_to_dataframe`."""
    names, rows = dumped["feature_names"], []
    for tree in dumped["tree_info"]:
        waiting: list[tuple[Any, str | None, int]] = [(tree["tree_structure"], None, ROOT_DEPTH)]
        while waiting:
            node, parent, depth = waiting.pop()
            rows.append(_row(node, parent, depth, tree["tree_index"], names))
            if "split_index" in node:
                mine = _name(node, tree["tree_index"])
                waiting += [(node["right_child"], mine, depth + 1), (node["left_child"], mine, depth + 1)]
    return rows


def _name(node: dict[str, Any], tree: int) -> str:
    return f"{tree}-S{node['split_index']}" if "split_index" in node else f"{tree}-L{node['leaf_index']}"


def _row(node: dict[str, Any], parent: str | None, depth: int, tree: int, names: list[str]) -> dict[str, Any]:
    is_split = "split_index" in node
    kind = "internal" if is_split else "leaf"
    return {
        "tree_index": tree,
        "node_depth": depth,
        "node_index": _name(node, tree),
        "left_child": _name(node["left_child"], tree) if is_split else None,
        "right_child": _name(node["right_child"], tree) if is_split else None,
        "parent_index": parent,
        "split_feature": names[node["split_feature"]] if is_split else None,
        "split_gain": node.get("split_gain", np.nan),
        "threshold": node.get("threshold", np.nan),
        "decision_type": node.get("decision_type"),
        "missing_direction": ("left" if node["default_left"] else "right") if is_split else None,
        "missing_type": node.get("missing_type"),
        "value": node[f"{kind}_value"],
        "weight": node[f"{kind}_weight"],
        "count": node[f"{kind}_count"],
    }
