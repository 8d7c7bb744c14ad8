"""A tree as text, and as nodes for JSON."""

from __future__ import annotations

from typing import Any

MOST_LEVELS = 6
"""Levels of a categorical split that are written out."""


def condition(booster: Any, tree: Any, split: int) -> str:
    """Return what goes left at a split, as text."""
    feature = int(tree.feature[split])
    name = booster.feature_names[feature]
    codes = None if tree.left_codes is None else tree.left_codes[split]
    if codes is not None:
        levels = booster.levels[feature].values
        shown = ", ".join(str(levels[code]) for code in codes[:MOST_LEVELS])
        return f"{name} in {{{shown}{', ...' if len(codes) > MOST_LEVELS else ''}}}"
    return f"{name} <= {float(tree.threshold[split])!r}{' or missing' if tree.missing_left[split] else ''}"


def tree_lines(booster: Any, number: int) -> list[str]:
    """Return a tree as lines, a node each, children below their parent."""
    tree = booster.trees[number]
    lines: list[str] = []

    def add(node: int, indent: str, mark: str, below: str) -> None:
        if node < 0:
            rows = int(tree.leaf_count[~node])
            linear = None if tree.linear is None else tree.linear.formula(~node, booster.feature_names)
            value = repr(float(tree.leaf_value[~node])) + ("" if linear is None else f", or {linear}")
            lines.append(f"{indent}{mark}leaf {~node}: {value}  ({rows} rows)")
            return
        rows, gain = int(tree.split_count[node]), float(tree.gain[node])
        lines.append(f"{indent}{mark}{condition(booster, tree, node)}  (gain {gain:.6g}, {rows} rows)")
        add(int(tree.left[node]), indent + below, "├─ yes: ", "│  ")
        add(int(tree.right[node]), indent + below, "└─ no:  ", "   ")

    add(0 if tree.n_splits else -1, "", "", "")
    return lines


def tree_nodes(booster: Any, number: int) -> dict[str, Any]:
    """Return a tree as nested dictionaries."""
    tree = booster.trees[number]

    def node(place: int) -> dict[str, Any]:
        if place < 0:
            linear = None if tree.linear is None else tree.linear.formula(~place, booster.feature_names)
            more = {} if linear is None else {"linear": linear}
            return {"leaf": ~place, "value": tree.leaf_value[~place], **more, "rows": tree.leaf_count[~place]}
        return {
            "condition": condition(booster, tree, place),
            "feature": booster.feature_names[int(tree.feature[place])],
            "gain": tree.gain[place],
            "rows": tree.split_count[place],
            "yes": node(int(tree.left[place])),
            "no": node(int(tree.right[place])),
        }

    return node(0 if tree.n_splits else -1)
