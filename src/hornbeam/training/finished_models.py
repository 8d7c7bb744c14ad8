"""Models that hold no training: the parameters that they were trained with, and what they score on data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import get_metrics
from hornbeam.model.booster import Booster
from hornbeam.params.params import Params
from hornbeam.training.evaluations import Evaluation
from hornbeam.training.function_calls import call_metric, metric_functions
from hornbeam.training.xgboost_arguments import (
    DEFAULTS,
    MOST_PAIRS,
    as_xgboost_means,
    metric_name,
    ranks_of,
    with_default_metric,
)


def params_of(booster: Booster, changes: Mapping[str, Any] = MappingProxyType({})) -> Params:
    """Return the parameters that a model was trained with, and changes of them.

    Those of a model that was read are the ones that it keeps; XGBoost's own files keep none, and have its defaults.
    """
    if booster.trained_with is not None:
        params: Params = booster.trained_with.replace(**changes)
        return params
    of_file = dict(booster.kept_params)
    is_bare = booster.is_xgboosts and not set(of_file) & set(DEFAULTS)
    start = {**as_xgboost_means({}), "lambdarank_truncation_level": MOST_PAIRS} if is_bare else {}
    params = Params.from_dict({**start, **of_file, "metric": booster.metric, **changes})
    return with_default_metric(params, booster)


def evaluate_model(booster: Booster, data: Any, name: str, feval: Any) -> list[Evaluation]:
    """Evaluate a model that has no training: by its predictions, on the metrics of its training."""
    if not isinstance(data, Dataset):
        raise DataError(f"data must be a hornbeam.Dataset, not {type(data).__name__}; wrap it: Dataset(X, label=y)")
    objective, params = booster.objective, params_of(booster)
    metrics = get_metrics(params, objective, ranks_of(params, data))
    raw = np.atleast_2d(np.ascontiguousarray(booster.predict(data, raw_score=True).T))
    results = []
    for metric in metrics:
        metric.check(data, name)
        pairs = metric.evaluate(data, raw, objective)
        results += [
            Evaluation(name, metric_name(own, metric, data), value, metric.higher_is_better) for own, value in pairs
        ]
    for function in metric_functions(feval):
        found = call_metric(function, objective.predictions(raw), data)
        results += [Evaluation(name, *one) for one in found]
    return results
