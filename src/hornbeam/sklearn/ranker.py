"""`HornbeamRanker`: learning to rank with scikit-learn's conventions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from narwhals import from_native
from narwhals.dependencies import is_into_dataframe
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.device_arrays import host_array
from hornbeam.data.sources.files import holds_files
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics.ranked_lists import WHOLE_LIST, NormalizedGain
from hornbeam.model.booster import Booster
from hornbeam.objectives import RANKING
from hornbeam.params.peer_arguments import FIT, PREDICT, takes_peer_arguments
from hornbeam.sklearn.arguments import UserFunction, adapt_objective, eval_pairs, named_categories, one_each
from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.fit_tasks import takes_verbose
from hornbeam.sklearn.held_out import FitData
from hornbeam.training.callbacks import Callback

__all__ = ["HornbeamRanker"]

QUERY_COLUMN = "qid"
"""A column of this name in a frame holds the query ids, where neither group nor qid is given (as XGBRanker)."""


class HornbeamRanker(HornbeamModel):
    """Gradient boosted trees for ranking; parameters and attributes are those of `HornbeamModel`.

    The objective is "lambdarank" unless another ranking objective is given. The rows of a query lie together. Queries
    are given by `group` (sizes) or `qid` (an id a row), or by a column "qid" of X, if X is a frame: that column is no
    feature, and `predict` leaves it out too. With the column, grid search and cross-validation (by a splitter that
    keeps queries whole, such as GroupKFold) need no more than X and y.
    """

    _beside_functions = "ndcg"

    @takes_verbose
    @takes_peer_arguments(FIT)
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        init_score: Any = None,
        group: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | tuple[Any, Any] | None = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_init_score: Sequence[Any] | None = None,
        eval_group: Sequence[Any] | None = None,
        eval_metric: str | UserFunction | Sequence[str | UserFunction] | None = None,
        eval_at: int | Sequence[int] | str | None = None,
        feature_name: Sequence[str] | str = "auto",
        categorical_feature: Sequence[Any] | str = "auto",
        callbacks: Sequence[Callback] | None = None,
        init_model: HornbeamModel | Booster | str | os.PathLike[str] | None = None,
        qid: Any = None,
        eval_qid: Sequence[Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_freq: int = 10,
        *,
        eval_X: Any = None,
        eval_y: Any = None,
        feature_weights: Any = None,
    ) -> HornbeamRanker:
        """Train the model.

        Parameters
        ----------
        X, y, init_score, eval_set, eval_X, eval_y, eval_names, eval_sample_weight, eval_init_score, eval_metric,
        callbacks, feature_name, categorical_feature, feature_weights
            As in `HornbeamRegressor.fit`; labels are 0, 1, ... by relevance.
        init_model, checkpoint, checkpoint_freq
            As there.
        sample_weight
            One weight a row, or one a query.
        group, qid
            Sizes of the queries, or the query id of every row.
        eval_group, eval_qid
            The same for each pair of `eval_set`.
        eval_at
            Ranks at which `ndcg` and `map` are evaluated; None: the parameter `eval_at`, 1 to 5 by default.
        """
        X, queries = _split_queries(X, group, qid, "X")
        pairs = eval_pairs(eval_set, eval_X, eval_y)
        groups = one_each(eval_group, "eval_group", len(pairs))
        ids = one_each(eval_qid, "eval_qid", len(pairs))
        eval_queries, tables = [], []
        for number, pair in enumerate(pairs):
            table, own = _split_queries(pair[0], groups[number], ids[number], f"eval_set[{number}]")
            tables.append((table, pair[1]))
            eval_queries.append(own)
        changes = named_categories(categorical_feature)
        if eval_at is not None:
            changes["eval_at"] = eval_at
        data = FitData(X, y, sample_weight, init_score, tables, eval_sample_weight, eval_init_score)
        return self._fit(
            data, eval_names, eval_metric, callbacks, init_model, (checkpoint, checkpoint_freq), queries, eval_queries,
            feature_name=feature_name, feature_weights=feature_weights, **changes,
        )  # fmt: skip

    @takes_peer_arguments(PREDICT)
    def predict(self, X: Any, *places: Any, **choices: Any) -> NDArray[Any]:
        """Return the raw score of every row: the higher, the better within its query.

        Keywords `pred_leaf`, `start_iteration` and `num_iteration` are those of `Booster.predict`.
        """
        return super().predict(_without_query_column(X)[0], *places, **choices)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, group: Any = None, qid: Any = None, at: int | None = None
    ) -> float:
        """Return the mean NDCG of the queries at rank `at`; None: of the whole lists."""
        table, queries = _split_queries(X, group, qid, "X")
        scores = host_array(super().predict(table, raw_score=True), "scores").astype(np.float64)
        label = host_array(self._code_target(self._check_target(y)), "y").astype(np.float64)
        dataset = Dataset(scores[:, None], label, weight=sample_weight, **queries)
        metric = NormalizedGain((WHOLE_LIST if at is None else at,), self.booster_.params.get("label_gain"))
        metric.check(dataset, "X")
        assert dataset.query_boundaries is not None
        return metric.at_ranks(label, scores, dataset.weight, dataset.query_boundaries)[0]

    def _features(self, X: Any) -> tuple[Any, dict[str, Any]]:
        table, qid = _without_query_column(X)
        return super()._features(table)[0], {} if qid is None else {"qid": qid}

    def _with_objective(self, values: dict[str, Any]) -> dict[str, Any]:
        objective = values.get("objective", "lambdarank")
        if not callable(objective) and objective not in RANKING:
            raise ParameterError(
                f"objective={objective!r}: HornbeamRanker takes {', '.join(RANKING)}, or a function; for others use "
                "HornbeamRegressor"
            )
        return {**values, "objective": adapt_objective(objective) if callable(objective) else objective}


def _without_query_column(X: Any) -> tuple[Any, Any]:
    """Return a frame without its column of query ids, and that column; else X itself, and None."""
    if not is_into_dataframe(X):
        return X, None
    frame = from_native(X, eager_only=True)
    if QUERY_COLUMN not in frame.columns:
        return X, None
    return frame.drop(QUERY_COLUMN).to_native(), frame[QUERY_COLUMN].to_numpy()


def _split_queries(X: Any, group: Any, qid: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """Return the features, and the queries as arguments of Dataset."""
    if group is None and qid is None:
        X, qid = _without_query_column(X)
        if qid is None and not holds_files(X):  # LibSVM files may have queries
            raise DataError(
                f"{where}: ranking needs to know which rows belong to one query; pass group= (sizes) or qid= (one id a "
                "row), eval_group= or eval_qid= for validation sets, or a frame with a column 'qid'"
            )
    return X, {"group": group, "qid": qid}
