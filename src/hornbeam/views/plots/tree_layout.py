"""Where the nodes of a tree stand in a drawing, and what is written in them.

Drawings of all kinds (matplotlib, SVG, Graphviz, the report) take nodes from here. A node has a depth, and a place
across: leaves stand at 0, 1, 2, ... from left to right, a split in the middle of its children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.model.booster import Booster
from hornbeam.params.params import whole_number
from hornbeam.trees.tree import Tree
from hornbeam.views.plots.seen import SeeingModel

SPLIT_INFO = ("split_gain", "internal_value", "internal_count", "internal_weight", "missing")
LEAF_INFO = ("leaf_count", "leaf_weight")
BOTH_INFO = ("data_percentage",)
MAX_CATEGORIES = 10


@dataclass
class Node:
    """A node of a drawing.

    number   of the split or of the leaf
    lines    texts, one below the other
    whole    the first text without anything left out
    parent   place of its parent in the list of nodes, -1 for the root
    is_left  whether it is the left child: what the rule of its parent is true for
    on_path  whether the row that is traced goes through it
    """

    number: int
    is_leaf: bool
    depth: int
    lines: list[str]
    whole: str
    parent: int
    is_left: bool
    across: float = 0.0
    on_path: bool = False
    children: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Labels:
    """What is written in nodes: further facts, digits after the point (None: all), and levels before `...`."""

    show_info: tuple[str, ...] = ()
    precision: int | None = 3
    max_category_values: int = MAX_CATEGORIES

    def __post_init__(self) -> None:
        known = (*SPLIT_INFO, *LEAF_INFO, *BOTH_INFO)
        for name in self.show_info:
            if name not in known:
                raise ParameterError(f"show_info has {name!r}; it may have {', '.join(known)}")
        if self.precision is not None:
            whole_number(self.precision, "precision", 0)
        whole_number(self.max_category_values, "max_category_values", 1)

    def number(self, value: float) -> str:
        """Return a number as text."""
        return repr(float(value)) if self.precision is None else f"{value:.{self.precision}f}"


def chosen_tree(booster: Booster, tree_index: Any) -> Tree:
    """Return a tree by its number."""
    place = whole_number(tree_index, "tree_index", 0)
    if not booster.trees:
        raise ParameterError("the model has no trees to draw: training found no split")
    if place >= len(booster.trees):
        raise ParameterError(f"tree_index={place}: the model has trees 0 to {len(booster.trees) - 1}")
    return booster.trees[place]


def rule_text(booster: Booster, tree: Tree, split: int, labels: Labels) -> tuple[str, str]:
    """Return the rule of a split, what goes left, as written and whole."""
    feature = int(tree.feature[split])
    name = " ".join(booster.feature_names[feature].split())
    codes = None if tree.left_codes is None else tree.left_codes[split]
    if codes is None:
        missing = " or missing" if tree.missing_left[split] else ""
        if np.isposinf(tree.threshold[split]):
            return f"{name} is not missing", f"{name} is not missing"
        whole = f"{name} ≤ {float(tree.threshold[split])!r}{missing}"
        return f"{name} ≤ {labels.number(float(tree.threshold[split]))}", whole
    own = None if booster.levels is None else booster.levels[feature]
    values = [str(code) if own is None else str(own.values[code]) for code in codes.tolist()]
    most = labels.max_category_values
    shown = ", ".join(values[:most]) + (f", … ({len(values)} levels)" if len(values) > most else "")
    return f"{name} in {{{shown}}}", f"{name} in {{{', '.join(values)}}}"


def lay_out(
    model: SeeingModel, tree_index: Any = 0, labels: Labels | None = None, example_case: Any = None
) -> list[Node]:
    """Return the nodes of a tree, the root first and parents before their children.

    example_case  table of one row, whose path is marked; or None
    """
    booster, labels = model.booster, labels or Labels()
    tree = chosen_tree(booster, tree_index)
    leaf = None if example_case is None else _leaf_of(model, example_case, int(tree_index))
    nodes: list[Node] = []
    pending = [(0 if tree.n_splits else -1, -1, 0, False)]
    next_across = 0
    while pending:  # the left child is taken first: leaves come from left to right
        child, parent, depth, is_left = pending.pop()
        place = len(nodes)
        if child >= 0:
            text, whole = rule_text(booster, tree, child, labels)
            nodes.append(Node(child, False, depth, [text, *_split_lines(tree, child, labels)], whole, parent, is_left))
            pending.append((int(tree.right[child]), place, depth + 1, False))
            pending.append((int(tree.left[child]), place, depth + 1, True))
        else:
            text = f"leaf {~child}: {labels.number(float(tree.leaf_value[~child]))}"
            linear = None if tree.linear is None else tree.linear.formula(~child, booster.feature_names, labels.number)
            lines = [text, *([] if linear is None else [linear]), *_leaf_lines(tree, ~child, labels)]
            nodes.append(Node(~child, True, depth, lines, text, parent, is_left, float(next_across)))
            nodes[-1].on_path = ~child == leaf
            next_across += 1
        if parent >= 0:
            nodes[parent].children.append(place)
    for node in reversed(nodes):
        if node.children:
            node.across = sum(nodes[child].across for child in node.children) / len(node.children)
            node.on_path = any(nodes[child].on_path for child in node.children)
    return nodes


def _leaf_of(model: SeeingModel, example_case: Any, tree_index: int) -> int:
    if isinstance(example_case, np.ndarray) and example_case.ndim == 1:
        example_case = example_case.reshape(1, -1)
    values = model.read(example_case)
    if len(values) != 1:
        raise DataError(f"example_case has {len(values)} rows; pass one row, with the columns of the training data")
    return int(model.leaves(values)[0, tree_index])


def _split_lines(tree: Tree, split: int, labels: Labels) -> list[str]:
    facts = {
        "split_gain": f"gain: {labels.number(float(tree.gain[split]))}",
        "internal_value": f"value: {labels.number(float(tree.split_value[split]))}",
        "internal_weight": f"weight: {labels.number(float(tree.split_weight[split]))}",
        "internal_count": f"count: {int(tree.split_count[split])}",
        "missing": f"missing: {'yes' if tree.missing_left[split] else 'no'}",
        "data_percentage": _share(tree, int(tree.split_count[split]), labels),
    }
    return [facts[name] for name in labels.show_info if name in facts]


def _leaf_lines(tree: Tree, leaf: int, labels: Labels) -> list[str]:
    facts = {
        "leaf_weight": f"weight: {labels.number(float(tree.leaf_weight[leaf]))}",
        "leaf_count": f"count: {int(tree.leaf_count[leaf])}",
        "data_percentage": _share(tree, int(tree.leaf_count[leaf]), labels),
    }
    return [facts[name] for name in labels.show_info if name in facts]


def _share(tree: Tree, count: int, labels: Labels) -> str:
    total = int(tree.split_count[0]) if tree.n_splits else int(tree.leaf_count[0])
    digits = Labels((), 2 if labels.precision is None else labels.precision)
    return f"{digits.number(100.0 * count / max(total, 1))}% of data"


def info_of(show_info: Sequence[str] | None) -> tuple[str, ...]:
    """Return the facts to write, as a tuple."""
    if isinstance(show_info, str):
        raise ParameterError(f"show_info={show_info!r}: pass a list of names")
    return tuple(show_info or ())
