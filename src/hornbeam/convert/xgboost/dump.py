"""Trees as the texts that XGBoost's `get_dump` returns.

A value goes to the child `yes` when it is below the condition: the smallest number that does not go left here. Numbers
of nodes go from the root down, level by level. Levels of a categorical split are named by their numbers; those in
braces go to `yes`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hornbeam.convert.outgoing import Outgoing
from hornbeam.core.errors import ParameterError
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree


def dump(model: ModelData, with_stats: bool, dump_format: str) -> list[str]:
    """Return one text a tree, "text" or "json"."""
    if dump_format not in ("text", "json"):
        raise ParameterError(
            f"dump_format={dump_format!r}: must be 'text' or 'json'; hornbeam.create_tree_digraph makes pictures"
        )
    out = Outgoing(model, is_like_predict=True)
    trees = [_nested(tree, out, with_stats) for tree in out.trees]
    return [json.dumps(tree) if dump_format == "json" else "".join(_lines(tree, with_stats)) for tree in trees]


def _nested(tree: Tree, out: Outgoing, with_stats: bool) -> dict[str, Any]:
    """Return a tree as nested dictionaries with the keys of XGBoost's JSON."""
    order = tree.by_level()
    number = {node: place for place, node in enumerate(order)}

    def made(node: int, depth: int) -> dict[str, Any]:
        if node < 0:
            stats = {"cover": float(tree.leaf_weight[~node])} if with_stats else {}
            return {"nodeid": number[node], "leaf": float(tree.leaf_value[~node]), **stats}
        left, right = int(tree.left[node]), int(tree.right[node])
        codes = None if tree.left_codes is None else tree.left_codes[node]
        if codes is None:
            condition: Any = float(np.nextafter(tree.threshold[node], np.inf))
            missing_left = bool(tree.missing_left[node])
        else:
            condition, missing_left = out.columns[int(tree.feature[node])].members(codes)
        stats = {"gain": float(tree.gain[node]), "cover": float(tree.split_weight[node])} if with_stats else {}
        return {
            "nodeid": number[node],
            "depth": depth,
            "split": out.names[int(tree.feature[node])],
            "split_condition": condition,
            "yes": number[left],
            "no": number[right],
            "missing": number[left if missing_left else right],
            **stats,
            "children": [made(left, depth + 1), made(right, depth + 1)],
        }

    return made(order[0], 0)


def _lines(node: dict[str, Any], with_stats: bool, depth: int = 0) -> list[str]:
    indent = "\t" * depth
    if "leaf" in node:
        stats = f",cover={node['cover']:.9g}" if with_stats else ""
        return [f"{indent}{node['nodeid']}:leaf={node['leaf']:.9g}{stats}\n"]
    condition = node["split_condition"]
    if isinstance(condition, list):
        test = f"{node['split']}:{{{','.join(map(str, condition))}}}"
    else:
        test = f"{node['split']}<{condition:.9g}"
    stats = f",gain={node['gain']:.9g},cover={node['cover']:.9g}" if with_stats else ""
    ways = f"yes={node['yes']},no={node['no']},missing={node['missing']}"
    line = f"{indent}{node['nodeid']}:[{test}] {ways}{stats}\n"
    return [line, *(text for child in node["children"] for text in _lines(child, with_stats, depth + 1))]
