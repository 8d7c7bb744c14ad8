"""Model -> LightGBM's text.

Everything that predicts is said exactly: thresholds and leaf values have 17 digits, missing values a direction, zeros
may be missing, and sets hold integers. Levels that are strings, and those of columns of a category type, go into
`pandas_categorical`: such columns are passed to LightGBM as pandas categories, others of integers as integers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.lightgbm.objectives import write_objective, write_params
from hornbeam.convert.lightgbm.reading import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_TYPE, MISSING_ZERO
from hornbeam.convert.lightgbm.text import END_OF_TREES
from hornbeam.convert.missing_levels import without_missing_levels
from hornbeam.convert.outgoing import Column, Outgoing
from hornbeam.core.log import warn
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree, code_bits

LARGEST_CATEGORY = 2**24
"""Categories beyond are refused: the bits of one set would take megabytes."""

LARGEST_COUNT = 2**31 - 1
LARGEST_GAIN = 3e38
"""Counts are 32-bit integers and gains float32 in LightGBM."""

FORBIDDEN = re.compile(r'[\s",:\[\]{}]')
"""Characters that LightGBM does not take in names of features."""


def write(model: ModelData, approximate: bool, say: Callable[[str], None] = warn) -> bytes:
    """Return the bytes of a LightGBM model file, or raise ConversionError.

    say  what a line on approximations goes to
    """
    exactness = Exactness("LightGBM's format", approximate)
    out = Outgoing(model, is_lightgbms=True)
    _check_linear(out, exactness)
    out.refuse_encodings(exactness)
    out.refuse_large_numbers(exactness, LARGEST_CATEGORY)
    trees = _forest(out, exactness) if out.averages else out.trees_from_zero()
    trees = [_without_missing_levels(tree, out, exactness) for tree in trees]
    objective = write_objective(out.objective, exactness)
    names = _names(out, exactness)
    texts = [f"Tree={i}\n{_tree_text(tree, out, exactness)}\n\n" for i, tree in enumerate(trees)]
    header = [
        "tree",
        "version=v4",
        f"num_class={out.n_outputs}",
        f"num_tree_per_iteration={out.n_outputs}",
        "label_index=0",
        f"max_feature_idx={len(names) - 1}",
        *([] if objective is None else [f"objective={objective}"]),
        *(["average_output"] if out.averages else []),
        f"feature_names={' '.join(names)}",
        f"feature_infos={' '.join(_info(column, i in out.used) for i, column in enumerate(out.columns))}",
        f"tree_sizes={' '.join(str(len(text.encode())) for text in texts)}",
    ]
    lists = [column.words for column in out.columns if column.is_listed]
    sets = [str(feature) for feature, column in enumerate(out.columns) if column.is_set]
    footer = [
        END_OF_TREES,
        "",
        "feature_importances:",
        *_importances(trees, names),
        "",
        "parameters:",
        *write_params(out.params, objective),
        *([f"[categorical_feature: {','.join(sets)}]"] if sets else []),
        "",
        "end of parameters",
        "",
        f"pandas_categorical:{json.dumps(lists or None)}",
        "",
    ]
    exactness.report(say)
    return ("\n".join([*header, "", ""]) + "".join(texts) + "\n".join(footer)).encode()


def _forest(out: Outgoing, exactness: Exactness) -> list[Tree]:
    """Return the trees of a random forest, whose mean is the score: there is no place for a start beside it."""
    if not out.trees:
        return out.trees_from_zero()
    if not out.init_scores.any():
        return out.trees
    exactness.approximates(
        "the start of a random forest (init_scores) beside the mean of its trees",
        "it is added to every leaf; scores differ in their last bits, about 1e-16 of them a tree",
    )
    starts = [out.init_scores[i % out.n_outputs] for i in range(len(out.trees))]
    return [tree.plus(start) for tree, start in zip(out.trees, starts, strict=True)]


def _without_missing_levels(tree: Tree, out: Outgoing, exactness: Exactness) -> Tree:
    """Return the tree with missing values of categorical features in splits of their own, where they have a level."""
    made = without_missing_levels(tree, out, exactness)
    if made is not tree:
        for column in out.columns:
            if column.is_listed and column.missing_code is not None:
                exactness.approximates(
                    f"feature {column.name!r} tells missing values from unseen levels, and pandas' categories do not",
                    "unseen levels go the way of missing values",
                )
    return made


def _names(out: Outgoing, exactness: Exactness) -> list[str]:
    wrong = [name for name in out.names if FORBIDDEN.search(name)]
    if not wrong:
        return out.names
    names = [FORBIDDEN.sub("_", name) for name in out.names]
    if len(set(names)) < len(names):
        names = [f"Column_{i}" for i in range(len(names))]
    exactness.approximates(
        f'names of features with blanks or one of ",:[]{{}}, such as {wrong[0]!r}',
        f"they are written as {names[out.names.index(wrong[0])]!r}",
    )
    return names


def _info(column: Column, is_used: bool) -> str:
    """Return what training saw of a feature: the categories, or a range, which a model does not know."""
    if column.is_set and len(column.numbers):
        return ":".join(str(number) for number in np.sort(column.numbers[column.numbers >= 0]).tolist()) or "none"
    return "[-inf:inf]" if is_used else "none"


def _tree_text(tree: Tree, out: Outgoing, exactness: Exactness) -> str:
    kind = MISSING_ZERO if out.zeros_are_missing else MISSING_NAN
    decision = (kind << MISSING_TYPE) + np.where(tree.missing_left, DEFAULT_LEFT, 0)
    threshold = [_exact(value) for value in tree.threshold.tolist()]
    bounds, words = [0], []
    for split, codes in enumerate(tree.left_codes or ()):
        if codes is None:
            continue
        column = out.columns[int(tree.feature[split])]
        members, _ = column.members(codes)
        decision[split] = CATEGORICAL
        threshold[split] = str(len(bounds) - 1)
        words += code_bits(np.array(members, np.int64), members[-1] // 32 + 1).tolist()
        bounds.append(len(words))
    sets = [f"cat_boundaries={_join(bounds)}", f"cat_threshold={_join(words)}"] if len(bounds) > 1 else []
    is_lone = tree.n_splits == 0
    lines = [
        f"num_leaves={tree.n_leaves}",
        f"num_cat={len(bounds) - 1}",
        f"split_feature={_join(tree.feature.tolist())}",
        f"split_gain={_short(np.minimum(tree.gain, LARGEST_GAIN))}",
        f"threshold={' '.join(threshold)}",
        f"decision_type={_join(decision.tolist())}",
        f"left_child={_join(tree.left.tolist())}",
        f"right_child={_join(tree.right.tolist())}",
        f"leaf_value={' '.join(_exact(value) for value in tree.leaf_value.tolist())}",
        f"leaf_weight={'' if is_lone else ' '.join(_exact(value) for value in tree.leaf_weight.tolist())}",
        f"leaf_count={_counts(tree.leaf_count, exactness)}",
        f"internal_value={_short(tree.split_value)}",
        f"internal_weight={_short(tree.split_weight)}",
        f"internal_count={_counts(tree.split_count, exactness)}",
        *sets,
        *_linear_lines(tree),
        f"shrinkage={tree.shrinkage!r}",
        "",
    ]
    return "\n".join(lines)


def _check_linear(out: Outgoing, exactness: Exactness) -> None:
    """Refuse linear leaves where zeros are missing, which LightGBM would multiply, and say that it has no bounds."""
    if out.zeros_are_missing and any(tree.linear is not None for tree in out.trees):
        exactness.refuse(
            "linear leaves with zero_as_missing", "LightGBM has no such models; format 'hornbeam' holds it"
        )
    if any(tree.linear is not None and tree.linear.is_bounded for tree in out.trees):
        exactness.approximates(
            "linear leaves whose values have bounds",
            "the functions are written without, and predictions differ for rows where one goes beyond its bounds",
        )


def _linear_lines(tree: Tree) -> list[str]:
    """Return the lines of linear leaves; a blank more parts the leaves, as in LightGBM's own files."""
    if tree.linear is None:
        return ["is_linear=0"]
    features, coeff = tree.linear.lists()
    return [
        "is_linear=1",
        f"leaf_const={' '.join(map(_exact, tree.linear.const.tolist()))}",
        f"num_features={_join([len(own) for own in features])}",
        f"leaf_features={' '.join(_join(own) + ' ' if own else '' for own in features)} ",
        f"leaf_coeff={' '.join(_join([_exact(one) for one in own]) + ' ' if own else '' for own in coeff)} ",
    ]


def _counts(counts: NDArray[np.int64], exactness: Exactness) -> str:
    if counts.max(initial=0) > LARGEST_COUNT:
        exactness.approximates(f"counts of more than {LARGEST_COUNT} rows", f"{LARGEST_COUNT} is written for them")
    return _join(np.minimum(counts, LARGEST_COUNT).tolist())


def _importances(trees: Sequence[Tree], names: list[str]) -> list[str]:
    """Return the lines that say how many splits each feature has, most first."""
    counts = np.zeros(len(names), np.int64)
    for tree in trees:
        np.add.at(counts, tree.feature[tree.gain > 0.0], 1)
    order = np.argsort(-counts, kind="stable")
    return [f"{names[i]}={counts[i]}" for i in order.tolist() if counts[i] > 0]


def _exact(value: float) -> str:
    return repr(value)


def _short(values: NDArray[np.float64]) -> str:
    return " ".join(f"{value:.9g}" for value in values.tolist())


def _join(numbers: Sequence[Any]) -> str:
    return " ".join(map(str, numbers))
