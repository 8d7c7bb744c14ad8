"""What a Booster tells of itself by the methods that users of LightGBM and XGBoost know."""

from __future__ import annotations

from typing import TYPE_CHECKING


class DescribedModel:
    """Numbers and names of a model; `Booster` is one."""

    def current_iteration(self) -> int:
        """Return the number of iterations, as LightGBM's Booster does."""
        return self.n_iterations

    def num_trees(self) -> int:
        """Return the number of trees."""
        return len(self.trees)

    def num_feature(self) -> int:
        """Return the number of features."""
        return self.n_features

    def num_model_per_iteration(self) -> int:
        """Return the number of trees of an iteration, one an output."""
        return self.n_outputs

    def feature_name(self) -> list[str]:
        """Return the names of the features."""
        return list(self.feature_names)

    if TYPE_CHECKING:  # what Booster has
        from hornbeam.trees.tree import Tree

        trees: list[Tree]
        feature_names: list[str]
        n_outputs: int

        @property
        def n_iterations(self) -> int:
            """Number of iterations."""

        @property
        def n_features(self) -> int:
            """Number of features."""
