"""What users of XGBoost know of its Dask module: `DaskDMatrix`, a `train` that returns a dict, `inplace_predict`.

A training on a `DaskDMatrix` has XGBoost's defaults and ways, as one on a `DMatrix` has; its model is that of a DMatrix
with all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.sources.markers import without_marker
from hornbeam.dataset.dmatrix import categories_of, refuse_argument
from hornbeam.distributed.dask.dataset import DaskDataset, partitions_of
from hornbeam.distributed.dask.prediction import ModelPart, predict, predict_parts
from hornbeam.model.booster import Booster
from hornbeam.params.peer_arguments import TRAIN, takes_peer_arguments
from hornbeam.training.xgboost_arguments import takes_xgboost_arguments

FIELDS = ("group", "qid", "label_lower_bound", "label_upper_bound")


class DaskDMatrix(DaskDataset):
    """A `Dataset` of a cluster with the arguments of XGBoost's.

    Parameters
    ----------
    client, data, label, weight, group, qid, label_lower_bound, label_upper_bound
        As for `hornbeam.dask.Dataset`.
    base_margin
        Its `init_score`.
    missing
        A number that marks missing values, besides NaN; None: NaN alone.
    feature_names, feature_types, feature_weights, max_bin
        As for `hornbeam.DMatrix`.
    ref
        The training data whose bins a validation set takes.
    others
        `enable_categorical` and `silent`: taken, and without effect.
    """

    is_xgboosts = True

    def __init__(
        self,
        client: Any,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
        max_bin: int | None = None,
        ref: DaskDataset | None = None,
        **others: Any,
    ) -> None:
        fields = {name: others.pop(name) for name in FIELDS if name in others}
        for name in others:
            refuse_argument(name)
        if client is None:
            from distributed import default_client

            client = default_client()
        marks = missing is not None and not np.isnan(missing)
        super().__init__(
            client,
            _unmarked(data, missing) if marks else data,
            label,
            weight=weight,
            init_score=base_margin,
            reference=ref,
            feature_names="auto" if feature_names is None else feature_names,
            categorical_features=categories_of(feature_types),
            feature_weights=feature_weights,
            max_bin=max_bin,
            **fields,
        )
        self.table, self.base_margin, self.missing = data, base_margin, missing if marks else None
        columns = getattr(data, "shape", (0, 0))
        self.n_features = int(columns[1]) if len(columns) == 2 else 0
        self.n_targets = int(label.shape[1]) if getattr(label, "ndim", 1) == 2 else 1

    def get_params(self) -> dict[str, Any]:
        """Return the data parameters that were given."""
        return {} if self.options["max_bin"] is None else {"max_bin": self.options["max_bin"]}

    def num_col(self) -> int:
        """Return the number of features."""
        return self.n_features


class DaskQuantileDMatrix(DaskDMatrix):
    """The same by its other name: every Dataset is binned once."""


def _unmarked(data: Any, missing: Any) -> list[Any]:
    """Return the partitions of a collection with NaN in the place of a number that marks missing values."""
    from dask import delayed

    parts = partitions_of(data, "data")
    return [delayed(without_marker)(part, missing) for part in parts] if isinstance(parts, list) else [data]


def takes_dmatrices(train: Callable[..., Booster]) -> Callable[..., Any]:
    """Make `train` of a cluster take what XGBoost's takes where it trains on a DaskDMatrix, and return a dict then.

    The dict has the model, "booster", and the evaluations by set and metric, "history".
    """

    @wraps(train)
    def call(client: Any, params: Any, *places: Any, **named: Any) -> Any:
        train_set = places[0] if places else named.get("dtrain", named.get("train_set"))
        if not isinstance(train_set, DaskDMatrix):
            return train(client, params, *places, **named)
        kept = named.pop("evals_result", None)
        booster = as_in_process(params, *places, **named)
        history = booster.eval_history
        if kept is not None:
            kept.update(history)
        return {"booster": booster, "history": history}

    def in_process(params: Any, train_set: Any, *places: Any, valid_sets: Any = None, **options: Any) -> Booster:
        sets = _sets_and_names(valid_sets)
        return train(train_set.client, params, train_set, *places, **sets, **options)

    in_process.__name__ = "train"  # the order of whose arguments is known
    as_in_process = takes_xgboost_arguments(takes_peer_arguments(TRAIN)(in_process))
    return call


def _sets_and_names(evals: Any) -> dict[str, Any]:
    """Return validation sets, pairs with their names or by name, as `train` takes them; ParameterError for others."""
    if evals is None or isinstance(evals, Mapping):
        return {"valid_sets": evals}
    pairs = list(evals)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ParameterError("evals must be a list of pairs: evals=[(dtrain, 'train')]")
    return {"valid_sets": [one for one, _ in pairs], "valid_names": [name for _, name in pairs]}


def predict_dmatrix(client: Any, model: Any, data: Any, **options: Any) -> Any:
    """Predict a DaskDMatrix, a Dask array or a dataframe, as `predict`; the model may be what `train` returned."""
    booster = model["booster"] if isinstance(model, dict) else model
    if not isinstance(data, DaskDMatrix):
        return predict(client, booster, data, **options)
    if data.base_margin is not None:
        raise ParameterError("predict of a DaskDMatrix with base_margin; add it to predict(output_margin=True)")
    if not hasattr(data.table, "to_delayed"):
        raise DataError("predict of a DaskDMatrix of delayed tables; pass a Dask array or dataframe")
    if data.missing is None:
        return predict(client, booster, data.table, **options)
    return predict_parts(client, UnmarkedPart(booster, options, data.missing), booster.n_features, data.table)


class UnmarkedPart(ModelPart):
    """Predicts the rows of one partition, in which a number marks missing values."""

    def __init__(self, model: Booster, options: dict[str, Any], missing: float) -> None:
        super().__init__(model, options)
        self.missing = missing

    def __call__(self, part: Any) -> NDArray[Any]:
        """Return the predictions of a table."""
        return super().__call__(without_marker(part, self.missing))
