"""What a model file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hornbeam.data.levels import Levels
from hornbeam.trees.tree import Tree

FORMAT_NAME = "hornbeam-model"
"""Value of the key "format": what tells a model file from any other JSON file."""

FORMAT_VERSION = 3
"""Raised when a file of the new kind could be misread by an older Hornbeam."""

LINEAR_VERSION = 2
"""Version of files of models with linear leaves without bounds."""

PLAIN_VERSION = 1
"""Version of files of models without linear leaves, which every Hornbeam reads."""


@dataclass(eq=False)
class ModelData:
    """A model, free of devices and of training data.

    Attributes
    ----------
    feature_names
        Names of the columns, in the order of `Tree.feature`.
    n_outputs
        Raw scores a row; tree i adds to output i % n_outputs, and belongs to iteration i // trees_per_iteration.
    objective
        `Objective.to_dict()`.
    params
        `Params.model_dict()`.
    init_scores
        Score of every output before the first tree.
    best_iteration
        Iterations that early stopping found best; 0 if it did not run.
    trees
        In boosting order.
    levels
        Levels of each categorical feature, None for the others; None: no feature is categorical.
    column_names
        Names that the columns of the training table had, where the features were given others; None: the same.
    stops_at_best
        Whether predictions use the iterations up to the best one, or all, as those of a DMatrix do in XGBoost.
    attributes
        Texts that XGBoost keeps beside a model; Hornbeam's files do not have them.
    category_columns
        Features that were columns of a category type in the training table, whose codes LightGBM looks at; what is not
        known is not among them, as in Hornbeam's files, which do not have them.
    """

    feature_names: list[str]
    n_outputs: int
    objective: dict[str, Any]
    params: dict[str, Any]
    init_scores: list[float]
    best_iteration: int = 0
    trees: list[Tree] = field(default_factory=list)
    levels: list[Levels | None] | None = None
    column_names: list[str] | None = None
    stops_at_best: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)
    category_columns: frozenset[int] = frozenset()

    @property
    def version(self) -> int:
        """Format version: the oldest that has all that the model has."""
        return max((version_of(tree) for tree in self.trees), default=PLAIN_VERSION)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    @property
    def n_iterations(self) -> int:
        """Number of boosting iterations."""
        return len(self.trees) // self.trees_per_iteration

    @property
    def trees_per_iteration(self) -> int:
        """Trees of an iteration: one an output, or so many side by side."""
        return self.n_outputs * int(self.params.get("num_parallel_tree", 1))


def version_of(tree: Tree) -> int:
    """Return the oldest format version that has all that a tree has."""
    if tree.linear is None:
        return PLAIN_VERSION
    return FORMAT_VERSION if tree.linear.is_bounded else LINEAR_VERSION
