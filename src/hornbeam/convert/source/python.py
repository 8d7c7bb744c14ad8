"""Model -> a module of Python that needs nothing but Python: a function of if and else for each tree.

A split is `x <= threshold`, which sends NaN right, or `not x > threshold`, which sends it left; a set is `x in {...}`.
Beyond NESTED splits in one another the rest is a function of its own: Python takes at most 100.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.outgoing import Outgoing
from hornbeam.convert.source.layout import lines_of
from hornbeam.data.sources.reader import ZERO
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree

NESTED = 12
"""Splits in one another within one function."""

SHORT_SET = 8
"""Members of a set that stands in the line of its split."""

LINKS = {
    "identity": "identity", "square": "square", "exp": "exponential", "sigmoid": "sigmoid", "softmax": "softmax",
    "softplus": "softplus", "step": "step",
}  # fmt: skip
"""The function of links.py of each link."""

FIRST_LINE = "import math"
"""Where the part of links.py begins that goes into a module."""

PREDICT = '''
def prepare(row):
    """Return what the trees compare, from the values of a row; None and NaN are missing."""
    if len(row) != len(FEATURES):
        raise ValueError(f"a row has {len(row)} values, the model has {len(FEATURES)} features")
    return [_prepared(feature, value) for feature, value in enumerate(row)]


def _prepared(feature, value):
    is_missing = value is None or value != value
    if feature in WITH_SETS:  # a level as it is
        return None if is_missing else value
    if feature in ENCODED:  # the number of a level
        numbers, of_missing, of_others = ENCODED[feature]
        if is_missing or (not isinstance(value, str) and value < 0):
            return of_missing
        return numbers.get(value, of_others)
    if is_missing or (ZEROS_ARE_MISSING and abs(value) <= LARGEST_ZERO):
        return math.nan
    return float(value)


def predict_raw(row):
    """Return the raw scores of a row, one an output."""
    x = prepare(row)
    scores = [0.0] * N_OUTPUTS if AVERAGES_TREES else list(INIT_SCORES)
    for number, tree in enumerate(TREES):
        scores[number % N_OUTPUTS] += tree(x)
    if AVERAGES_TREES:
        n_iterations = max(len(TREES) // N_OUTPUTS, 1)
        scores = [score / n_iterations + start for score, start in zip(scores, INIT_SCORES)]
    return scores


def predict(row):
    """Return the prediction for a row: a number, or a list of them where the model has several outputs."""
    predictions = LINK(predict_raw(row), SLOPE)
    return predictions[0] if N_OUTPUTS == 1 else predictions
'''


def write(model: ModelData, approximate: bool) -> bytes:
    """Return the bytes of a module, or raise ConversionError."""
    exactness = Exactness("Python", approximate)
    out = Outgoing(model)
    with_sets = [feature for feature, column in enumerate(out.columns) if column.is_set]
    links = resources.files("hornbeam.convert.source").joinpath("links.py").read_text(encoding="utf-8")
    lines = [
        f'"""A model of Hornbeam: {out.objective.name}, {len(out.trees)} trees, {len(out.columns)} features.',
        "",
        "    predict(row)        what Booster.predict returns",
        "    predict_raw(row)    the raw scores",
        "",
        "A row is a list of values in the order of FEATURES, levels of categories as they are in the training data.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        links[links.index(FIRST_LINE) :],
        "",
        *_list("FEATURES", "[]", map(ascii, out.names)),
        f"N_OUTPUTS = {out.n_outputs}",
        f"INIT_SCORES = {out.init_scores.tolist()}",
        f"AVERAGES_TREES = {out.averages}",
        f"ZEROS_ARE_MISSING = {out.zeros_are_missing}",
        f"LARGEST_ZERO = {ZERO!r}",
        f"LINK = {LINKS[out.objective.link]}",
        f"SLOPE = {out.slope!r}",
        *_list("WITH_SETS", "[]", with_sets),
        *_encodings(out),
        PREDICT,
    ]
    for number, tree in enumerate(out.trees):
        lines += _tree(tree, f"tree_{number}", out)
    lines += ["", "", *_list("TREES", "[]", (f"tree_{number}" for number in range(len(out.trees))))]
    exactness.report()
    return ("\n".join(lines) + "\n").encode("ascii")


def _list(name: str, brackets: str, words: Iterable[object]) -> list[str]:
    words = list(words)
    if not words:
        return [f"{name} = {brackets}"]
    return [f"{name} = {brackets[0]}", *lines_of(words, "    "), brackets[1]]


def _encodings(out: Outgoing) -> list[str]:
    """Return the lines of ENCODED: by feature, the number of each level, of what is missing, and of all others."""
    lines = ["ENCODED = {"]
    for feature, column in enumerate(out.columns):
        if isinstance(column.levels, EncodedLevels):
            pairs = zip(column.levels.values, column.levels.numbers.tolist(), strict=True)
            lines.append(f"    {feature}: ({{")
            lines += lines_of((f"{level!a}: {number!r}" for level, number in pairs), "        ")
            lines.append(f"    }}, {column.levels.missing!r}, {column.levels.other!r}),")
    return [*lines, "}"]


def _tree(tree: Tree, name: str, out: Outgoing) -> list[str]:
    """Return the lines of the functions of a tree."""
    lines: list[str] = []
    waiting = [(name, 0 if tree.n_splits else ~0)]
    while waiting:
        function, first = waiting.pop()
        sets: list[str] = []
        body: list[str] = []
        # what is to be written next, and how deep it stands: a node, or the words "else:"
        due: list[tuple[int | None, int]] = [(first, 1)]
        while due:
            node, depth = due.pop()
            indent = "    " * depth
            if node is None:
                body.append(f"{indent}else:")
            elif node < 0:
                body.append(f"{indent}return {float(tree.leaf_value[~node])!r}")
            elif depth > NESTED:
                body.append(f"{indent}return {name}_split_{node}(x)")
                waiting.append((f"{name}_split_{node}", node))
            else:
                body.append(f"{indent}if {_condition(tree, node, name, sets, out)}:  # {_name(tree, node, out)}")
                due += [(int(tree.right[node]), depth + 1), (None, depth), (int(tree.left[node]), depth + 1)]
        lines += ["", "", *sets, *([""] * 2 * bool(sets)), f"def {function}(x):", *body]
    return lines


def _condition(tree: Tree, split: int, name: str, sets: list[str], out: Outgoing) -> str:
    """Return the condition under which a row goes left; a long set gets a name and lines in `sets`."""
    feature = int(tree.feature[split])
    codes: NDArray[np.int32] | None = None if tree.left_codes is None else tree.left_codes[split]
    if codes is None:
        threshold = repr(float(tree.threshold[split])).replace("inf", "math.inf")
        return f"not x[{feature}] > {threshold}" if tree.missing_left[split] else f"x[{feature}] <= {threshold}"
    levels = out.columns[feature].levels
    assert levels is not None
    words = [ascii(levels.values[code]) for code in codes.tolist()]
    if len(words) <= SHORT_SET:
        return f"x[{feature}] in {{{', '.join(words)}}}"
    constant = f"{name}_set_{split}".upper()
    sets += [f"{constant} = {{", *lines_of(words, "    "), "}"]
    return f"x[{feature}] in {constant}"


def _name(tree: Tree, split: int, out: Outgoing) -> str:
    """Return the name of a feature for a comment."""
    name = out.columns[int(tree.feature[split])].name
    return ascii(name[:60])[1:-1]
