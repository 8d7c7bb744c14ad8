"""Trees as the texts that XGBoost's `get_dump` returns.

A value goes to the child `yes` when it is below the condition: the smallest number that does not go left here. Numbers
of nodes go from the root down, level by level. Levels of a categorical split are named by their numbers; those in
braces go to `yes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from hornbeam.convert.outgoing import Outgoing
from hornbeam.core.errors import ParameterError
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree


def dump(model: ModelData, with_stats: bool, dump_format: str) -> list[str]:
    """Return one text a tree, "text", "json" or "dot"."""
    if dump_format not in WRITERS:
        raise ParameterError(f"dump_format={dump_format!r}: must be one of {', '.join(map(repr, WRITERS))}")
    out, write = Outgoing(model, is_like_predict=True), WRITERS[dump_format]
    return [write(_nested(tree, out, with_stats)) for tree in out.trees]


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


def _test(node: dict[str, Any]) -> str:
    """Return what a node asks."""
    condition = node["split_condition"]
    if isinstance(condition, list):
        return f"{node['split']}:{{{','.join(map(str, condition))}}}"
    return f"{node['split']}<{condition:.9g}"


def _stats(node: dict[str, Any]) -> list[str]:
    """Return the figures of a node, where it has some."""
    return [f"{name}={node[name]:.9g}" for name in ("gain", "cover") if name in node]


def _lines(node: dict[str, Any], depth: int = 0) -> list[str]:
    indent = "\t" * depth
    if "leaf" in node:
        leaf = f"{node['nodeid']}:leaf={node['leaf']:.9g}"
        return [f"{indent}{','.join([leaf, *_stats(node)])}\n"]
    ways = [f"{way}={node[way]}" for way in ("yes", "no", "missing")]
    line = f"{indent}{node['nodeid']}:[{_test(node)}] {','.join([*ways, *_stats(node)])}\n"
    return [line, *(text for child in node["children"] for text in _lines(child, depth + 1))]


def _dot_lines(node: dict[str, Any]) -> list[str]:
    """Return a node, its edges and its children in Graphviz's language; the edge of missing values is blue."""
    number = node["nodeid"]
    first = f"leaf={node['leaf']:.9g}" if "leaf" in node else _test(node)
    label = "\n".join([first, *_stats(node)]).replace("\\", "\\\\").replace('"', '\\"')
    lines = ["", f'    {number} [ label="{label}" ]']
    for way in ("yes", "no") if "leaf" not in node else ():
        text, color = (f"{way}, missing", "#0000FF") if node[way] == node["missing"] else (way, "#FF0000")
        lines.append(f'    {number} -> {node[way]} [label="{text}" color="{color}"]')
    return [*lines, *(line for child in node.get("children", ()) for line in _dot_lines(child))]


def _dot(tree: dict[str, Any]) -> str:
    return "\n".join(["digraph {", "    graph [ rankdir=TB ]", *_dot_lines(tree), "}"])


WRITERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "text": lambda tree: "".join(_lines(tree)),
    "json": json.dumps,
    "dot": _dot,
}
"""What makes the text of a tree, by the format."""
