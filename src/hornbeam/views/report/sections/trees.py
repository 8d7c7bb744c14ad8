"""Trees: a browser that shows any of them, and the way of a row through it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.trees.tree import Tree
from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.charts import short
from hornbeam.views.report.markup import Content, absent, card, el
from hornbeam.views.report.material import Material

BUDGET = 220_000
"""Characters of all trees in a report; where the model has more, some are left out."""
NODE_SIZE = 46
"""Characters of a split with its leaf, about."""
MAX_LEVELS = 6
MORE_ROWS = 4
"""Rows that can be traced besides the worst ones."""


def chosen_trees(trees: list[Tree], budget: int = BUDGET) -> list[int]:
    """Return the numbers of the trees that are shown: all, or the first ones and then some evenly spaced."""
    sizes = np.array([NODE_SIZE * tree.n_leaves for tree in trees])
    if sizes.sum() <= budget:
        return list(range(len(trees)))
    first = int(np.searchsorted(np.cumsum(sizes), budget / 2.0))
    n_more = int((budget / 2.0) / max(float(sizes[first:].mean()), 1.0))
    more = np.linspace(first, len(trees) - 1, max(n_more, 1)).astype(np.int64)
    return sorted({*range(first), *more.tolist()})


def trees(material: Material) -> list[Content]:
    """Return the browser; its data are in `tree_data`."""
    booster = material.booster
    if not booster.trees:
        return [absent("The model has no trees.")]
    shown = chosen_trees(booster.trees)
    note = "Follow a rule upwards where it is true, downwards where it is not. Leaves add their value to the raw score."
    if max(tree.n_leaves for tree in booster.trees) > 16:
        note += " Of large trees the first splits and the way of the row are open; a click opens and closes a split."
    if len(shown) < len(booster.trees):
        note += f" {len(shown):,} of {len(booster.trees):,} trees are in this file: the first ones and some others."
    if any(tree.linear is not None for tree in booster.trees):
        note += " Leaves are linear functions (linear_tree): shown are the constants of rows with missing numbers."
    if booster.n_outputs > 1:
        note += f" Tree i adds to output i % {booster.n_outputs}."
    controls = el(
        "div",
        el("button", "←", type="button", id="tree-back", class_="quiet", aria_label="previous tree"),
        el("label", "Tree ", el("select", id="tree")),
        el("button", "→", type="button", id="tree-next", class_="quiet", aria_label="next tree"),
        el("label", "Row ", el("select", id="tree-row")),
        class_="controls",
    )
    return [
        card(
            None,
            controls,
            el("p", id="tree-facts", class_="facts"),
            el("div", id="tree-view", class_="scroll tree", tabindex="0"),
            el("noscript", absent("The tree browser needs JavaScript; hornbeam.plot_tree draws trees without.")),
            note=note,
            wide=True,
        )
    ]


def tree_data(material: Material) -> dict[str, Any]:
    """Return what the browser draws: nodes of trees, and leaves of rows."""
    booster = material.booster
    shown = chosen_trees(booster.trees)
    rows: list[dict[str, Any]] = []
    if material.valid is not None and material.judged is not None and booster.trees:
        worst = material.worst[:6]
        some = np.linspace(0, material.valid.n_rows - 1, min(MORE_ROWS, material.valid.n_rows)).astype(np.int64)
        numbers = np.concatenate([worst, np.setdiff1d(some, worst)])
        values = material.seeing.read(material.table(numbers))
        leaves = material.seeing.leaves(values)[:, shown]
        used = np.unique(np.concatenate([booster.trees[i].feature for i in shown])).tolist()
        for place, number in enumerate(numbers.tolist()):
            mark = " (large error)" if place < len(worst) else ""
            texts = {f: short(material.seeing.value_text(f, values[place, f]), 24) for f in used}
            rows.append({"name": f"{number}{mark}", "leaves": leaves[place].tolist(), "values": texts})
    return {
        "features": [short(name, 40) for name in booster.feature_names],
        "numbers": shown,
        "trees": [_tree(material, booster.trees[i]) for i in shown],
        "rows": rows,
    }


def _tree(material: Material, tree: Tree) -> dict[str, Any]:
    rules: list[str] = []
    for split in range(tree.n_splits):
        codes = None if tree.left_codes is None else tree.left_codes[split]
        if codes is None:
            at = float(tree.threshold[split])
            rules.append("is not missing" if np.isposinf(at) else f"≤ {number_text(at)}")
            continue
        feature = int(tree.feature[split])
        texts = [short(material.seeing.value_text(feature, code), 16) for code in codes[:MAX_LEVELS].tolist()]
        rules.append(f"in {', '.join(texts)}{f', … ({len(codes)})' if len(codes) > MAX_LEVELS else ''}")
    counted = bool(tree.leaf_count.any())  # models read from XGBoost know sums of hessians alone
    sizes = (tree.split_count, tree.leaf_count) if counted else (tree.split_weight, tree.leaf_weight)
    return {
        "u": "rows" if counted else "hessian",
        "f": tree.feature.tolist(),
        "r": rules,
        "m": [int(way) for way in tree.missing_left.tolist()],
        "a": tree.left.tolist(),
        "b": tree.right.tolist(),
        "n": [round(size, 2) for size in sizes[0].tolist()],
        "v": [float(f"{value:.4g}") for value in tree.leaf_value.tolist()],
        "c": [round(size, 2) for size in sizes[1].tolist()],
    }
