"""What a Booster tells of itself by the methods that users of LightGBM and XGBoost know."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.model.formats import model_of
from hornbeam.model.rooms import room
from hornbeam.params.params import whole_number
from hornbeam.trees.forest import average_scores
from hornbeam.trees.linear_leaves import ends_of
from hornbeam.trees.tree import refuse_linear

if TYPE_CHECKING:
    from typing_extensions import Self

    from hornbeam.model.file import ModelData
    from hornbeam.trees.tree import Tree


class DescribedModel:
    """Numbers, names and trees of a model; `Booster` is one."""

    def current_iteration(self) -> int:
        """Return the number of iterations, as LightGBM's Booster does."""
        return self.n_iterations

    def num_boosted_rounds(self) -> int:
        """Return the number of iterations, as XGBoost's Booster does."""
        return self.n_iterations

    def num_trees(self) -> int:
        """Return the number of trees."""
        return len(self.trees)

    def num_feature(self) -> int:
        """Return the number of features."""
        return self.n_features

    def num_features(self) -> int:
        """Return the number of features, as XGBoost's Booster does."""
        return self.n_features

    def num_model_per_iteration(self) -> int:
        """Return the number of trees of an iteration: one an output, or so many side by side."""
        return self.trees_per_iteration

    @property
    def pandas_categorical(self) -> list[list[Any]] | None:
        """The levels of each categorical feature, in order, as LightGBM has those of pandas columns; None: none."""
        if self.levels is None:
            return None
        return [sorted(level for level in one.values if level is not None) for one in self.levels if one is not None]

    def feature_name(self) -> list[str]:
        """Return the names of the features."""
        return list(self.feature_names)

    def lower_bound(self) -> float:
        """Return a raw score that no row is below: the start and the smallest leaf of every tree, of any output."""
        return self._bound(np.min)

    def upper_bound(self) -> float:
        """Return a raw score that no row is above: the start and the largest leaf of every tree, of any output."""
        return self._bound(np.max)

    def _bound(self, extreme: Callable[..., Any]) -> float:
        free = [tree for tree in self.trees if tree.linear is not None and not tree.linear.is_bounded]
        refuse_linear(free, "lower_bound and upper_bound", "linear functions without bounds have none")
        scores = np.zeros((self.n_outputs, 1)) if self.averages_trees else self.init_scores[:, None].copy()
        for number, tree in enumerate(self.trees):  # in the order of prediction, which rounds alike
            scores[number % self.n_outputs] += extreme(ends_of(tree.linear, tree.leaf_value))
        if self.averages_trees:
            average_scores(scores, self.init_scores, self.n_iterations)
        return float(extreme(scores))

    def text_for_lightgbm(self) -> bytes:
        """Return the bytes of a file that LightGBM reads, too, and that holds the model as it is besides."""
        return room("convert.lightgbm.carrying").write(self.to_model())  # type: ignore[no-any-return]

    def model_from_string(self, model_str: str) -> Self:
        """Become the model of a text that `model_to_string` returned, of any format that is read; returns self."""
        return self._become(model_of(model_str.encode()))

    def _become(self, model: ModelData) -> Self:
        self.free_dataset()
        self.take(model)
        return self

    def dump_model(
        self,
        num_iteration: Any = None,
        start_iteration: Any = 0,
        importance_type: Any = "split",
        object_hook: Callable[[dict[str, Any]], Any] | None = None,
        *,
        fmap: str | os.PathLike[str] = "",
        with_stats: bool = False,
        dump_format: str = "text",
    ) -> Any:
        """Return the model as a dictionary with the keys of LightGBM's.

        With a path in the place of num_iteration, write the texts of `get_dump` to that file, as XGBoost does:
        `dump_model(fout, fmap, with_stats, dump_format)`.

        Leaf values of the first iteration have the start in them, so that trees add up to raw scores. A model does not
        keep the ranges of its features: `feature_infos` has infinities for numbers.

        Parameters
        ----------
        num_iteration, start_iteration
            As for `predict`.
        importance_type
            "split", "gain" or "cover": what `feature_importances` has.
        object_hook
            What becomes of every dictionary, from the leaves up, as for `json.loads`.
        """
        if isinstance(num_iteration, (str, os.PathLike)):
            stats = importance_type if isinstance(importance_type, bool) else with_stats
            fmap = fmap or (start_iteration if isinstance(start_iteration, (str, os.PathLike)) else "")
            self.dump_model_file(num_iteration, stats, dump_format, os.fspath(fmap))
            return None
        start, number = self.chosen_iterations(start_iteration, num_iteration)
        last = self.n_iterations if number is None or number <= 0 else min(start + number, self.n_iterations)
        importances = self.feature_importance(importance_type, num_iteration)
        return room("convert.lightgbm.dump").dump(self[:].to_model(), start, last, importances, object_hook)

    def trees_to_dataframe(self, fmap: str = "") -> Any:
        """Return a pandas table with a row for each split and leaf, and the columns of LightGBM's.

        It has the trees of `dump_model`: up to the best iteration.

        Where a DMatrix was trained on it has XGBoost's columns, and `fmap` is a file that has other names of features.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ParameterError(
                "trees_to_dataframe makes a table of pandas: pip install 'hornbeam[pandas]', or use dump_model()"
            ) from None
        if not self.trees:
            raise ParameterError("the model has no trees: it is not trained, or its training found nothing to learn")
        if self.is_xgboosts:
            texts = self.get_dump(fmap, with_stats=True, dump_format="json")
            return pd.DataFrame(room("convert.xgboost.table").table_of(texts))
        rows = room("convert.lightgbm.dump").table_of(self.dump_model())
        return pd.DataFrame(rows, columns=list(rows[0]))

    def split_values(self, feature: int | str) -> NDArray[np.float64]:
        """Return the finite thresholds of all splits of a feature of numbers, float64 (n,), by its name or position."""
        if isinstance(feature, str) and feature not in self.feature_names:
            raise ParameterError(f"feature {feature!r} is not in the model; features are {self.feature_names[:5]}")
        number = self.feature_names.index(feature) if isinstance(feature, str) else feature
        place = whole_number(number, "feature", 0, self.n_features - 1)
        parts = [np.empty(0)]
        for tree in self.trees:
            chosen = tree.feature == place
            if tree.left_codes is not None and any(tree.left_codes[i] is not None for i in np.flatnonzero(chosen)):
                raise ParameterError(
                    f"feature {self.feature_names[place]!r} is categorical: its splits are sets of levels, without "
                    "values; plot_tree and dump_model show them"
                )
            parts.append(tree.threshold[chosen])
        values = np.concatenate(parts)
        return values[np.isfinite(values)]

    def get_split_value_histogram(
        self,
        feature: int | str,
        bins: int | str | None = None,
        xgboost_style: bool | None = None,
        as_pandas: bool = True,
    ) -> Any:
        """Return how often a feature is split at which values, as LightGBM does, or XGBoost.

        Parameters
        ----------
        feature
            Name or position of a feature of numbers.
        bins
            As for `numpy.histogram`; None: one a distinct value. With `xgboost_style` at most so many.
        xgboost_style
            Return the upper ends of the bins that are not empty beside their counts, in a table of pandas where it is
            installed; else counts and edges, as `numpy.histogram` does. None: where a DMatrix was trained on.
        as_pandas
            Whether that is a table of pandas.
        """
        xgboost_style = self.is_xgboosts if xgboost_style is None else xgboost_style
        values = self.split_values(feature)
        wanted: Any = bins
        if bins is None or (isinstance(bins, int) and xgboost_style):
            distinct = len(np.unique(values))
            wanted = max(distinct if bins is None else min(distinct, bins), 1)
        counts, edges = np.histogram(values, bins=wanted)
        if not xgboost_style:
            return counts, edges
        pairs = np.column_stack((edges[1:], counts))
        pairs = pairs[pairs[:, 1] > 0]
        if not as_pandas:
            return pairs
        try:
            import pandas as pd
        except ImportError:
            return pairs
        return pd.DataFrame(pairs, columns=["SplitValue", "Count"])

    if TYPE_CHECKING:  # what Booster has
        levels: list[Any] | None
        trees: list[Tree]
        feature_names: list[str]
        n_outputs: int
        init_scores: NDArray[np.float64]
        feature_importance: Callable[..., Any]
        free_dataset: Callable[[], Any]
        dump_model_file: Callable[..., None]
        get_dump: Callable[..., list[str]]
        is_xgboosts: bool
        take: Callable[[ModelData], None]
        to_model: Callable[[], ModelData]

        @property
        def n_iterations(self) -> int:
            """Number of iterations."""

        @property
        def trees_per_iteration(self) -> int:
            """Trees of an iteration."""

        @property
        def n_features(self) -> int:
            """Number of features."""

        @property
        def averages_trees(self) -> bool:
            """Whether predictions are means over the trees."""

        def chosen_iterations(self, start: int, number: int | None) -> tuple[int, int | None]:
            """Return iterations as `Forest.tree_range` takes them."""

        def __getitem__(self, which: slice) -> Any:
            """Return some iterations."""
