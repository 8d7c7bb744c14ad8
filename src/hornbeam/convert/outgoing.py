"""What all writers need of a model: the trees that predict, where they start, and what each column holds.

A file of another library holds the iterations that `predict` uses: those after the best one are left out, since other
formats do not know which is the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.zeros import spell_out_zeros
from hornbeam.core.errors import ConversionError
from hornbeam.core.lazy import lazy
from hornbeam.core.log import inform
from hornbeam.data.column_names import are_made_up
from hornbeam.data.levels import Levels
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file import ModelData
from hornbeam.objectives import Objective, objective_from_dict
from hornbeam.trees.tree import Tree

LARGEST_EXACT = 2**53
"""Integers up to this are float64 numbers."""

REMEDY_ENCODED = (
    "formats 'c' and 'python' hold it; or train with target_encoding_levels=-1, which splits the levels as sets"
)


@dataclass(frozen=True)
class Column:
    """A feature of a model.

    name     of the feature
    levels   as in ModelData; None for a feature of numbers
    numbers  int64 (n_levels,): the number that stands for each level in formats that hold numbers: an integer level is
             its own, a string has its place among them, missing values have -1. Empty for a feature of numbers
    is_listed  whether levels are places in a list that the file has, integers too: LightGBM's `pandas_categorical`
    """

    name: str
    levels: Levels | None
    numbers: NDArray[np.int64]
    is_listed: bool = False

    @property
    def has_strings(self) -> bool:
        """Whether the levels are strings."""
        return self.levels is not None and isinstance(self.levels.example, str)

    @property
    def is_encoded(self) -> bool:
        """Whether levels are read as numbers (target encoding)."""
        return isinstance(self.levels, EncodedLevels)

    @property
    def is_set(self) -> bool:
        """Whether splits of the feature have sets of levels."""
        return self.levels is not None and not self.is_encoded

    @property
    def missing_code(self) -> int | None:
        """The code of missing values; None: they have none."""
        return None if self.levels is None else self.levels.code_of.get(None)

    @property
    def words(self) -> list[Any]:
        """The levels, in the order of their numbers; of a column that is not listed none."""
        if not self.is_listed or self.levels is None:
            return []
        pairs = zip(self.numbers.tolist(), self.levels.values, strict=True)
        return [word for _, word in sorted((number, word) for number, word in pairs if word is not None)]

    def members(self, codes: NDArray[np.int32]) -> tuple[list[int], bool]:
        """Return the numbers of some levels, ascending, and whether missing values are among them."""
        numbers = np.sort(self.numbers[codes])
        return numbers[numbers >= 0].tolist(), bool(len(numbers) and numbers[0] < 0)


def _column(name: str, levels: Levels | None) -> Column:
    """Return a column whose strings are numbered in their order."""
    values = () if levels is None else levels.values
    place_of = {word: place for place, word in enumerate(value for value in values if isinstance(value, str))}
    numbers = [-1 if value is None else place_of[value] if isinstance(value, str) else int(value) for value in values]
    return Column(name, levels, np.array(numbers, np.int64))


def _lightgbms_column(name: str, levels: Levels | None, is_category: bool) -> Column:
    """Return a column as LightGBM numbers it: strings and categories in ascending order, as pandas numbers them.

    is_category  whether it was a column of a category type, of which LightGBM sees the codes
    """
    column = _column(name, levels)
    if levels is None or not (column.has_strings or is_category):
        return column
    words: list[Any] = sorted(value for value in levels.values if value is not None)
    place_of = {word: place for place, word in enumerate(words)}
    numbers = [-1 if value is None else place_of[value] for value in levels.values]
    return Column(name, levels, np.array(numbers, np.int64), is_listed=True)


def _check_text(column: Column) -> None:
    """Raise ConversionError for halves of characters, which Python's strings may hold and no file can."""
    texts = [column.name, *(column.levels.values if column.levels is not None and column.has_strings else ())]
    for text in texts:
        try:
            str(text).encode()
        except UnicodeEncodeError:
            raise ConversionError(
                f"feature {column.name!a} has the name or the level {text!a}, which is no Unicode text; rename it"
            ) from None


class Outgoing:
    """A model that is written.

    Attributes
    ----------
    trees
        Those of the iterations that `predict` uses.
    n_outputs, init_scores, params
        As in ModelData; init_scores is float64 (n_outputs,).
    objective
        With its link.
    averages
        Whether trees are averaged: a random forest.
    zeros_are_missing
        Whether zeros of features of numbers are missing values.
    columns
        One a feature.

    Formats but LightGBM's have no linear leaves, and do not cut numbers of categorical features: models with such are
    refused there, ConversionError. Where models of a format do not predict classes, or scores, a line says so.
    """

    def __init__(self, model: ModelData, is_lightgbms: bool = False, is_like_predict: bool = False) -> None:
        n_trees = (model.best_iteration or model.n_iterations) * model.trees_per_iteration
        self.trees: list[Tree] = model.trees[:n_trees]
        if not is_lightgbms and any(tree.linear is not None for tree in self.trees):
            raise ConversionError(
                "the model has linear leaves (linear_tree=True), and this format has constants in leaves; formats "
                "'hornbeam' and 'lightgbm' hold it, or train without linear_tree"
            )
        self.n_outputs = model.n_outputs
        self.init_scores: NDArray[np.float64] = np.array(model.init_scores, np.float64)
        self.params: dict[str, Any] = model.params
        self.objective: Objective = objective_from_dict(model.objective)
        if self.objective.predicts_classes and not is_like_predict:
            inform("predict_classes: a model of this format predicts the probabilities of the classes")
        if self.objective.predicts_scores and not is_like_predict:
            inform("predict_scores: a model of this format predicts probabilities")
        self.averages = model.params.get("boosting") == "rf"
        self.zeros_are_missing = bool(model.params.get("zero_as_missing")) and bool(
            model.params.get("use_missing", True)
        )
        levels = model.levels or [None] * model.n_features
        pairs = list(zip(model.feature_names, levels, strict=True))
        if is_lightgbms:
            self.columns = [_lightgbms_column(*pair, i in model.category_columns) for i, pair in enumerate(pairs)]
        else:
            self.columns = [_column(*pair) for pair in pairs]
        for column in self.columns:
            _check_text(column)
            if not is_lightgbms and column.levels is not None and column.levels.is_cut:
                raise ConversionError(
                    f"categorical feature {column.name!r} was cut to whole numbers in training, which this format does "
                    "not do; formats 'hornbeam' and 'lightgbm' hold it, or train on whole numbers"
                )

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [column.name for column in self.columns]

    @property
    def has_made_up_names(self) -> bool:
        """Whether nobody gave the features names."""
        return are_made_up(self.names)

    @property
    def slope(self) -> float:
        """What scores are multiplied by before a sigmoid link; 1.0 for other links."""
        return float(getattr(self.objective, "sigmoid", 1.0)) if self.objective.link == "sigmoid" else 1.0

    @property
    def n_iterations(self) -> int:
        """Number of iterations."""
        return len(self.trees) // self.n_outputs

    @lazy
    def used(self) -> set[int]:
        """Features that a split looks at."""
        return {int(feature) for tree in self.trees for feature in np.unique(tree.feature)}

    def trees_from_zero(self) -> list[Tree]:
        """Return trees that add up to the raw score from 0.0 on, bit for bit: the start is in the first of them.

        (init + v1) + v2 + ... is how Hornbeam adds. A model without trees has one of a single leaf for each output.
        """
        trees = self.trees or [lone_leaf(0.0) for _ in range(self.n_outputs)]
        pairs = zip(trees[: self.n_outputs], self.init_scores.tolist(), strict=True)
        return [*(tree.plus(start) for tree, start in pairs), *trees[self.n_outputs :]]

    def without_zeros(self, exactness: Exactness, trees: Sequence[Tree]) -> list[Tree]:
        """Return the trees for a format that does not read zeros as missing values; see zeros.py."""
        if not self.zeros_are_missing:
            return list(trees)
        is_number = np.array([column.levels is None for column in self.columns], np.bool_)

        def fail(problem: str) -> Any:
            exactness.refuse(
                f"zero_as_missing: spelled out, {problem}", "use format 'c', 'python', 'onnx' or 'lightgbm'"
            )

        return [spell_out_zeros(tree, is_number[tree.feature], fail) for tree in trees]

    def refuse_encodings(self, exactness: Exactness) -> None:
        """Raise ConversionError if a feature that trees look at is target encoded."""
        for feature, column in enumerate(self.columns):
            if column.is_encoded and feature in self.used:
                exactness.refuse(f"feature {column.name!r} is target encoded", REMEDY_ENCODED)

    def codes_for_strings(self, exactness: Exactness, which: str = "strings") -> None:
        """Note that features of strings are written with codes, which the user must make of the strings.

        which  "strings": all of them; "not ASCII": those with a level that is not ASCII
        """
        for feature, column in enumerate(self.columns):
            if column.has_strings and column.is_set and feature in self.used:
                assert column.levels is not None
                words = [str(word) for word in column.levels.values if word is not None]
                if which == "not ASCII" and all(word.isascii() for word in words):
                    continue
                shown = ", ".join(f"{word!r} = {code}" for code, word in enumerate(words[:4]))
                more = f", ... ({len(words)} levels)" if len(words) > 4 else ""
                exactness.approximates(
                    f"feature {column.name!r} has levels that are {which}",
                    f"the file takes their codes, places in booster.levels[{feature}].values: {shown}{more}",
                )

    def refuse_large_numbers(self, exactness: Exactness, largest: int) -> None:
        """Raise ConversionError if the number of a level is larger than the format has."""
        for column in self.columns:
            if column.numbers.max(initial=0) > largest:
                exactness.refuse(
                    f"level {column.numbers.max()} of feature {column.name!r}; categories are integers up to {largest}",
                    "number the levels from 0 on, or use format 'python'",
                )


def lone_leaf(value: float) -> Tree:
    """Return a tree of one leaf."""
    empty = np.empty(0)
    return Tree(
        feature=np.empty(0, np.int32), threshold=empty, missing_left=np.empty(0, np.bool_), left=np.empty(0, np.int32),
        right=np.empty(0, np.int32), gain=empty, split_value=empty, split_weight=empty,
        split_count=np.empty(0, np.int64), leaf_value=np.array([value]), leaf_weight=np.zeros(1),
        leaf_count=np.zeros(1, np.int64), shrinkage=1.0,
    )  # fmt: skip


def swap_children(tree: Tree, split: NDArray[np.bool_]) -> Tree:
    """Return a tree with left and right children of some splits exchanged; what they compare stays."""
    return replace(tree, left=np.where(split, tree.right, tree.left), right=np.where(split, tree.left, tree.right))


def nodes_of(tree: Tree) -> Iterator[int]:
    """Yield the nodes of a tree from the root down, parents first: a split, or ~leaf."""
    waiting = [0 if tree.n_splits else ~0]
    while waiting:
        node = waiting.pop()
        yield node
        if node >= 0:
            waiting += [int(tree.right[node]), int(tree.left[node])]
