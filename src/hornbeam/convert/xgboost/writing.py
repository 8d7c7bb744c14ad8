"""Model -> XGBoost's document.

XGBoost is float32 throughout: leaf values are rounded to it, and it adds them up in it. Which leaf a row comes to is
exact for every row of float32 numbers; see float32.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.float32 import BEYOND, LARGEST, to_float32
from hornbeam.convert.outgoing import Outgoing
from hornbeam.convert.xgboost.categories import CATEGORICAL, write_names
from hornbeam.convert.xgboost.document import to_json
from hornbeam.convert.xgboost.objectives import write_objective
from hornbeam.convert.xgboost.trees import LARGEST_CATEGORY, write_tree
from hornbeam.convert.xgboost.ubj import encode
from hornbeam.core.log import warn
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree

VERSION = [3, 1, 0]
"""The version whose files have all that is written; older ones read them without the names of categories."""

FORBIDDEN = "[]<"
"""Characters that XGBoost does not take in names of features."""


def write_json(model: ModelData, approximate: bool) -> bytes:
    """Return the bytes of a JSON file, or raise ConversionError."""
    return to_json(make_document(model, approximate))


def write_ubj(model: ModelData, approximate: bool) -> bytes:
    """Return the bytes of a UBJ file, or raise ConversionError."""
    return encode(make_document(model, approximate))


def make_document(model: ModelData, approximate: bool, say: Callable[[str], None] = warn) -> dict[str, Any]:
    """Return the document of a model; keys are in the order in which XGBoost writes them.

    say  what a line on approximations goes to
    """
    exactness = Exactness("XGBoost's format", approximate)
    out = Outgoing(model, is_like_predict=True)
    out.refuse_encodings(exactness)
    out.refuse_large_numbers(exactness, LARGEST_CATEGORY)
    out.codes_for_strings(exactness, "not ASCII")  # XGBoost 3.2 mixes them up, in files of its own too
    objective = write_objective(out, exactness)
    trees = _means(out, exactness) if out.averages else out.trees_from_zero()
    trees = [_scaled(tree, objective.scale) for tree in out.without_zeros(exactness, trees)]
    _check_range(trees, out, exactness)
    has_sets = any(column.is_set for column in out.columns)
    n_iterations = len(trees) // out.n_outputs
    document = {
        "learner": {
            "attributes": dict(model.attributes),
            "feature_names": _names(out, exactness),
            "feature_types": [CATEGORICAL if column.is_set else "float" for column in out.columns] if has_sets else [],
            "gradient_booster": {
                "model": {
                    "cats": write_names(out),
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                    "iteration_indptr": [i * out.n_outputs for i in range(n_iterations + 1)],
                    "tree_info": [i % out.n_outputs for i in range(len(trees))],
                    "trees": [write_tree(tree, i, out.columns) for i, tree in enumerate(trees)],
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": objective.base_score,
                "boost_from_average": "1",
                "num_class": str(objective.num_class),
                "num_feature": str(len(out.columns)),
                "num_target": str(objective.num_target),
            },
            "objective": objective.document,
        },
        "version": VERSION,
    }
    exactness.report(say)
    return document


def _means(out: Outgoing, exactness: Exactness) -> list[Tree]:
    """Return trees whose sum is about the mean of a random forest and its start."""
    if not out.trees:
        return out.trees_from_zero()
    exactness.approximates(
        "the mean of the trees of a random forest",
        f"leaf values are divided by the {out.n_iterations} trees, and scores differ by 1e-7 of them or so",
    )
    divided = [tree.with_leaf_values(tree.leaf_value / out.n_iterations) for tree in out.trees]
    pairs = zip(divided[: out.n_outputs], out.init_scores.tolist(), strict=True)
    return [*(tree.with_leaf_values(tree.leaf_value + start) for tree, start in pairs), *divided[out.n_outputs :]]


def _scaled(tree: Tree, scale: float) -> Tree:
    if scale == 1.0:
        return tree
    return replace(tree, leaf_value=tree.leaf_value * scale, split_value=tree.split_value * scale)


def _check_range(trees: list[Tree], out: Outgoing, exactness: Exactness) -> None:
    """Raise ConversionError for numbers that float32 does not have, and thresholds that it cannot tell apart."""
    for tree in trees:
        if np.abs(tree.leaf_value).max() > LARGEST:
            exactness.refuse(f"a leaf value of {np.abs(tree.leaf_value).max():.3g}", "float32 ends at 3.4e38")
    merged: list[str] = []
    for feature, column in enumerate(out.columns):
        if column.is_set or feature not in out.used:
            continue
        own = [tree.threshold[tree.feature == feature] for tree in trees]
        thresholds = np.unique(np.concatenate(own))
        finite = thresholds[np.isfinite(thresholds)]
        if len(np.unique(to_float32(finite))) < len(finite) or np.abs(finite).max(initial=0.0) >= BEYOND:
            merged.append(column.name)
    if merged:
        exactness.approximates(
            f"thresholds of feature {merged[0]!r}{f' and {len(merged) - 1} more' if len(merged) > 1 else ''} that "
            "float32 numbers do not tell apart",
            "they become one, so values between them come to other leaves; shift or scale such columns to train on",
        )


def _names(out: Outgoing, exactness: Exactness) -> list[str]:
    """Return the names of the features; none where nobody gave them names."""
    if out.has_made_up_names:
        return []
    wrong = [name for name in out.names if any(character in name for character in FORBIDDEN)]
    if not wrong:
        return out.names
    table = str.maketrans(FORBIDDEN, "_" * len(FORBIDDEN))
    names = [name.translate(table) for name in out.names]
    if len(set(names)) < len(names):
        names = [f"f{i}" for i in range(len(names))]
    exactness.approximates(
        f"names of features with one of {' '.join(FORBIDDEN)}, such as {wrong[0]!r}",
        f"they are written as {names[out.names.index(wrong[0])]!r}",
    )
    return names
