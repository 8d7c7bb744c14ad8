"""The table of nodes that XGBoost's `trees_to_dataframe` returns, from the trees that `get_dump` writes as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

COLUMNS = ("Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing", "Gain", "Cover", "Category")


def table_of(trees: Sequence[str]) -> dict[str, list[Any]]:
    """Return columns by name, a value for each split and leaf, by the numbers of trees and nodes.

    trees  texts of JSON, with their statistics
    """
    rows = [
        _row(number, node)
        for number, text in enumerate(trees)
        for node in sorted(_nodes(json.loads(text)), key=lambda node: int(node["nodeid"]))
    ]
    return {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("children", ()):
        yield from _nodes(child)


def _row(tree: int, node: dict[str, Any]) -> tuple[Any, ...]:
    """Return what the columns hold of a node; the gain of a leaf is its value, as in XGBoost."""
    name = f"{tree}-{node['nodeid']}"
    if "leaf" in node:
        nothing = math.nan
        return tree, node["nodeid"], name, "Leaf", nothing, None, None, None, node["leaf"], node["cover"], nothing
    ways = tuple(f"{tree}-{node[way]}" for way in ("yes", "no", "missing"))
    condition = node["split_condition"]
    split, category = (math.nan, condition) if isinstance(condition, list) else (condition, math.nan)
    return tree, node["nodeid"], name, node["split"], split, *ways, node["gain"], node["cover"], category
