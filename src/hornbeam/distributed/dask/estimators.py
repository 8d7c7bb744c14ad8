"""Estimators whose data are Dask collections; the fitted ones predict tables in memory too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.distributed.dask.dataset import DaskDataset, partitions_of, wait_for
from hornbeam.distributed.dask.packages import require_dask
from hornbeam.distributed.dask.prediction import predict_parts
from hornbeam.distributed.dask.training import train
from hornbeam.params.peer_arguments import FIT, takes_peer_arguments
from hornbeam.sklearn.arguments import UserFunction, one_each, split_metrics
from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor
from hornbeam.sklearn.fit_tasks import takes_verbose
from hornbeam.sklearn.held_out import joined_functions
from hornbeam.sklearn.ranker import HornbeamRanker
from hornbeam.sklearn.target_columns import has_columns
from hornbeam.sklearn.xgboost_estimators import (
    XGBClassifier,
    XGBRanker,
    XGBRegressor,
    XGBRFClassifier,
    XGBRFRegressor,
)

SelfEstimator = TypeVar("SelfEstimator", bound="DaskEstimator")


class Method:
    """A method of a fitted estimator, to be called on partitions."""

    def __init__(self, estimator: HornbeamModel, name: str, choices: dict[str, Any]) -> None:
        self.estimator, self.name, self.choices = estimator, name, choices

    def __call__(self, part: Any) -> NDArray[Any]:
        """Return what the method says of a table."""
        return np.asarray(getattr(self.estimator, self.name)(part, **self.choices))


class DaskEstimator(HornbeamModel):
    """What the estimators share.

    Attributes
    ----------
    client
        `distributed.Client` to train and predict with; None: the one that was made last.
    """

    client: Any = None

    def _client(self) -> Any:
        require_dask()
        from distributed import default_client

        return default_client() if self.client is None else self.client

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "client"}

    @takes_verbose
    @takes_peer_arguments(FIT)
    def fit(  # type: ignore[override]
        self: SelfEstimator,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        init_score: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_init_score: Sequence[Any] | None = None,
        eval_metric: str | UserFunction | Sequence[str | UserFunction] | None = None,
        feature_name: Sequence[str] | str = "auto",
        categorical_feature: Sequence[Any] | str = "auto",
        callbacks: Sequence[Any] | None = None,
        init_model: Any = None,
        *,
        feature_weights: Any = None,
        retries: int = 0,
        **queries: Any,
    ) -> SelfEstimator:
        """Train the model on the workers that hold the data.

        Parameters
        ----------
        X, y, sample_weight, init_score
            Dask collections with the same partitions, or lists of delayed objects, as for `hornbeam.dask.Dataset`.
        eval_set, eval_names, eval_sample_weight, eval_init_score
            Pairs (X, y) of such, to evaluate after every iteration; names, weights and scores, one a pair.
        eval_metric, feature_name, categorical_feature, feature_weights, callbacks, init_model
            As for the estimators of one machine.
        retries
            See `hornbeam.dask.train`.
        queries
            Ranker alone: `group` or `qid`, and `eval_group` or `eval_qid` with one entry a pair of `eval_set`.
        """
        if self.class_weight is not None:
            raise ParameterError("class_weight is not available on a cluster; pass sample_weight=")
        marker = self._other_params.get("missing")
        if marker is not None and not np.isnan(marker):
            raise ParameterError(f"missing={marker} is not available on a cluster; put NaN into the partitions")
        client, pairs = self._client(), list(eval_set or [])
        weights = one_each(eval_sample_weight, "eval_sample_weight", len(pairs))
        scores = one_each(eval_init_score, "eval_init_score", len(pairs))
        metrics, calls = joined_functions(self._other_params, eval_metric, callbacks)
        named_metrics, functions = split_metrics(metrics)
        options: dict[str, Any] = {"feature_names": feature_name, "categorical_features": categorical_feature}
        kept = {name: queries.pop(name) for name in ("group", "qid") if name in queries}
        of_sets = {name: queries.pop(f"eval_{name}") for name in ("group", "qid") if f"eval_{name}" in queries}
        if queries:
            raise TypeError(f"fit() got an unexpected keyword argument {next(iter(queries))!r}")
        label = self._learn_partitions(client, y)
        params = self._with_metrics(self._train_params(), named_metrics)
        train_set = self._make_partitions(
            client, X, label, weight=sample_weight, init_score=init_score, feature_weights=feature_weights, **kept,
            **options,
        )  # fmt: skip
        names = self._names_of_sets(eval_names, [False] * len(pairs))
        valid: dict[str, DaskDataset] = {}
        for i, (table, target) in enumerate(pairs):
            own = {name: every[i] for name, every in of_sets.items()}
            if table is X and target is y and weights[i] is None and scores[i] is None:
                valid[names[i]] = train_set
                continue
            coded = self._code_partitions(target)
            more = {"weight": weights[i], "init_score": scores[i], "reference": train_set, **own, **options}
            valid[names[i]] = self._make_partitions(client, table, coded, **more)
        start = getattr(init_model, "booster_", init_model)
        self.booster_ = train(
            client, params, train_set, None, valid, callbacks=calls, feval=functions, init_model=start, retries=retries
        )  # fmt: skip
        self.n_features_in_ = self.booster_.n_features
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(list(map(str, X.columns)), object)
        return self

    def _make_partitions(self, client: Any, table: Any, label: Any, **others: Any) -> DaskDataset:
        """Return the data of a training."""
        return DaskDataset(client, table, label, **others)

    def _learn_partitions(self, client: Any, y: Any) -> Any:
        """Return the labels of the training set; a classifier learns its classes."""
        return y

    def _code_partitions(self, y: Any) -> Any:
        """Return the labels of a validation set."""
        return y

    def _apply(self, name: str, X: Any, choices: dict[str, Any]) -> Any:
        """Call a method of the estimators of one machine, at once or lazily."""
        if not hasattr(X, "to_delayed"):
            return getattr(super(), name)(X, **choices)
        return predict_parts(self._client(), Method(self, name, choices), self._fitted.n_features, X)

    def predict(self, X: Any, **choices: Any) -> Any:
        """Predict a table, or lazily a Dask collection; keywords are those of `Booster.predict`."""
        return self._apply("predict", X, choices)


class DaskHornbeamRegressor(DaskEstimator, HornbeamRegressor):
    """Regression on a Dask cluster."""


class DaskHornbeamRanker(DaskEstimator, HornbeamRanker):  # type: ignore[misc]  # fit takes other data
    """Ranking on a Dask cluster; the rows of a query lie in one partition."""


class DaskHornbeamClassifier(DaskEstimator, HornbeamClassifier):
    """Classification on a Dask cluster."""

    def predict_proba(self, X: Any, **choices: Any) -> Any:
        """Predict the probability of every class, of a table, or lazily of a Dask collection."""
        return self._apply("predict_proba", X, choices)

    def _learn_partitions(self, client: Any, y: Any) -> Any:
        if has_columns(y):
            raise DataError(
                "y has several columns, which the classifier of a cluster does not take; train(client, params, "
                "Dataset(client, X, Y)) with objective='binary' does"
            )
        from dask import delayed

        parts = partitions_of(y, "y")
        if not isinstance(parts, list):
            raise DataError("y must be a Dask collection, or a list of delayed objects")
        futures = client.compute([delayed(_classes_of)(part) for part in parts])
        found = client.gather(wait_for(client, list(futures)))
        there = [classes for classes in found if len(classes)]
        if not there:
            raise DataError("y has no rows")
        self.classes_ = np.unique(np.concatenate(there))
        self.n_classes_ = len(self.classes_)
        return self._code_partitions(y)

    def _code_partitions(self, y: Any) -> Any:
        from dask import delayed

        parts = partitions_of(y, "y")
        return [delayed(_codes_of)(part, self.classes_) for part in parts or []]


class DaskXGBoostModel(DaskEstimator):
    """What makes an estimator one of XGBoost's on Dask."""

    def _make_partitions(self, client: Any, table: Any, label: Any, **others: Any) -> DaskDataset:
        data = super()._make_partitions(client, table, label, **others)
        data.is_xgboosts = data.is_estimators = True
        return data


class DaskXGBRegressor(DaskXGBoostModel, XGBRegressor):
    """`DaskHornbeamRegressor` as XGBoost's users know it."""


class DaskXGBRFRegressor(DaskXGBoostModel, XGBRFRegressor):
    """A random forest of XGBoost's kind for numbers, on a Dask cluster."""


class DaskXGBRanker(DaskXGBoostModel, XGBRanker):  # type: ignore[misc]  # fit takes other data
    """`DaskHornbeamRanker` as XGBoost's users know it."""


class DaskXGBClassifier(DaskXGBoostModel, DaskHornbeamClassifier, XGBClassifier):
    """`DaskHornbeamClassifier` as XGBoost's users know it."""


class DaskXGBRFClassifier(DaskXGBoostModel, DaskHornbeamClassifier, XGBRFClassifier):
    """A random forest of XGBoost's kind for classes, on a Dask cluster."""


def _classes_of(part: Any) -> NDArray[Any]:
    """Return the different labels of a partition."""
    return np.unique(np.asarray(part))


def _codes_of(part: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the places of labels among the classes, float64 (n_rows,)."""
    labels = np.asarray(part).ravel()
    places = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    wrong = classes[places] != labels
    if wrong.any():
        shown = labels[int(np.argmax(wrong))].item()
        raise DataError(f"eval_set has the class {shown!r}, which y has not; leave these rows out")
    return places.astype(np.float64)
