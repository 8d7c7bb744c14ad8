"""Permutation importance: how much worse a metric becomes when the values of one feature change rows.

The shuffled values of feature f in repeat r stand in the order of random bits that (seed, r, f) give each row, so the
result is the same on every device and for any number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.evaluation import arithmetic_on
from hornbeam.backends.prediction import predict_raw
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.random_choices import Purpose, derived_key, random_bits, random_key
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import NO_METRIC, fit_to_outputs, get_metric
from hornbeam.metrics.base import Metric
from hornbeam.metrics.targets import TargetsMetric
from hornbeam.model.booster import Booster
from hornbeam.params.params import BY_NAME, Params, whole_number
from hornbeam.trees.forest import Forest, Reader, average_scores, fitting

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """What shuffling each feature does to a metric; positive where the feature helps.

    baseline       the metric on the data as they are
    importances    float64 (n_features, repeats): how much worse it is, in units of the metric
    feature_names  one a feature
    metric         name of the metric
    """

    baseline: float
    importances: FloatArray
    feature_names: list[str]
    metric: str

    @property
    def mean(self) -> FloatArray:
        """Mean over the repeats, float64 (n_features,)."""
        return np.asarray(self.importances.mean(axis=1))

    @property
    def std(self) -> FloatArray:
        """Standard deviation over the repeats, float64 (n_features,); 0 for a single repeat."""
        n_repeats = self.importances.shape[1]
        return np.asarray(self.importances.std(axis=1, ddof=1)) if n_repeats > 1 else np.zeros(len(self.importances))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the interval that holds the mean with this confidence, float64 (n_features,) each.

        By Student's distribution over the repeats; it takes two repeats at least, and SciPy.
        """
        n_repeats = self.importances.shape[1]
        if not 0.0 < level < 1.0:
            raise ParameterError(f"level={level!r}: must be between 0 and 1, as in 0.95")
        if n_repeats < 2:
            raise ParameterError("an interval takes two repeats at least; call permutation_importance with repeats=5")
        from scipy.stats import t

        half = float(t.ppf(0.5 + level / 2.0, n_repeats - 1)) * self.std / math.sqrt(n_repeats)
        return self.mean - half, self.mean + half


def permutation_importance(
    model: Any,
    data: Any,
    label: Any = None,
    *,
    metric: str | None = None,
    repeats: int = 5,
    seed: int = 0,
    weight: Any = None,
    group: Any = None,
    num_iteration: int | None = None,
    num_threads: int | None = None,
    device: str = "cpu",
) -> PermutationImportance:
    """Shuffle one feature after the other, and see how much worse a metric becomes.

    Parameters
    ----------
    model
        Booster, or a fitted estimator; the labels of a classifier are its own texts, or those of its Booster: 0, 1, ...
    data, label
        A Dataset with labels; or a table as for `predict`, and its labels.
    metric
        Name of a metric, such as "auc" or "rmse"; None: that of the objective. A metric of several ranks is that of the
        first one.
    repeats
        How often each feature is shuffled.
    seed
        Other seeds shuffle in other ways.
    weight, group
        As for Dataset, beside a table.
    num_iteration, num_threads, device
        As for `predict`.

    Features that no tree looks at have importance 0 and are not shuffled.
    """
    booster = getattr(model, "booster_", model)
    if not isinstance(booster, Booster):
        raise ParameterError(f"model is a {type(model).__name__}; pass a Booster or a fitted estimator")
    n_repeats, own_seed = whole_number(repeats, "repeats", 1), whole_number(seed, "seed", 0)
    if label is not None and np.asarray(label).dtype.kind in "OSU" and hasattr(model, "classes_"):
        label = model._code_target(model._check_target(label))
    fields = _with_label(data, label, weight, group)
    figure = _metric_of(booster, metric)
    figure.check(fields, "data")
    reader = booster.checked_table(fields.data)
    n_threads = resolve_threads(BY_NAME["num_threads"].check(num_threads or 0) or booster.num_threads)
    iterations = booster.chosen_iterations(0, num_iteration)
    scoring = _Scoring(booster, iterations, fields, figure, n_threads, BY_NAME["device"].check(device))
    forest, own = fitting(booster.forest, reader)
    with default_mode():
        baseline = scoring.score(forest, own)
        found = np.zeros((booster.n_features, n_repeats))
        sign = 1.0 if figure.higher_is_better else -1.0
        for column, feature in _used_columns(booster.forest, forest):
            values = np.concatenate([own.read(*part)[:, column] for part in _parts(own.n_rows)])
            for repeat in range(n_repeats):
                order = _order(own_seed, repeat, feature, own.n_rows)
                shuffled = scoring.score(forest, _WithColumn(own, column, values[order]))
                found[feature, repeat] = sign * (baseline - shuffled)
    return PermutationImportance(baseline, found, list(booster.feature_names), figure.name)


@dataclass(frozen=True)
class _Scoring:
    booster: Booster
    iterations: tuple[int, int | None]
    fields: Dataset
    metric: Metric
    n_threads: int
    device: str

    def score(self, forest: Forest, reader: Reader) -> float:
        """Return the metric of the predictions for a table."""
        booster, device = self.booster, "cpu" if self.device == "auto" else self.device
        init = None if booster.averages_trees else booster.init_scores
        scores = predict_raw(forest, reader, init, *self.iterations, self.n_threads, device)
        if booster.averages_trees:
            first, last = forest.tree_range(*self.iterations)
            average_scores(scores, booster.init_scores, (last - first) // booster.n_outputs)
        arithmetic = arithmetic_on("reference" if device == "reference" else "cpu", self.n_threads)
        return self.metric.evaluate(self.fields, scores, booster.objective, arithmetic)[0][1]


class _WithColumn:
    """A table with other values in one column."""

    def __init__(self, reader: Reader, column: int, values: FloatArray) -> None:
        self._reader, self._column, self._values = reader, column, values
        self.n_rows, self.n_features = reader.n_rows, reader.n_features

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows start..stop - 1."""
        block = self._reader.read(start, stop)
        if block.base is not None:  # a view of the table, which is not ours to change
            block = block.copy()
        block[:, self._column] = self._values[start:stop]
        return block


def _with_label(data: Any, label: Any, weight: Any, group: Any) -> Dataset:
    if isinstance(data, Dataset):
        if any(given is not None for given in (label, weight, group)):
            raise ParameterError("data is a Dataset, which has label, weight and group of its own; leave them out")
        if data.data is None:
            raise DataError("the Dataset keeps no table; pass the table and label= instead")
        return data
    if label is None:
        raise DataError("label is missing: pass the labels of data, or a Dataset with labels")
    return Dataset(data, label=label, weight=weight, group=group)


def _metric_of(booster: Booster, name: str | None) -> Metric:
    given = booster.objective.default_metric if name is None else name
    if given in NO_METRIC:
        raise ParameterError(f"metric={name!r}: name a metric, such as 'auc' or 'rmse'")
    known = {key: value for key, value in booster.kept_params.items() if key in BY_NAME}
    if booster.objective.n_targets > 1:
        return TargetsMetric(get_metric(given, Params.from_dict(known)))
    figure = get_metric(fit_to_outputs(given, booster.n_outputs), Params.from_dict(known))
    if figure.for_classes != (booster.n_outputs > 1):
        raise ParameterError(
            f"metric={figure.name!r} does not fit a model with {booster.n_outputs} output(s) a row; name another"
        )
    return figure


def _used_columns(whole: Forest, fitted: Forest) -> list[tuple[int, int]]:
    """Return (column, feature) for each feature that trees look at; a sparse table is read in those columns alone."""
    return list(zip(fitted.columns.tolist(), whole.columns.tolist(), strict=True))


def _parts(n_rows: int, step: int = 65_536) -> list[tuple[int, int]]:
    return [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _order(seed: int, repeat: int, feature: int, n_rows: int) -> NDArray[np.int64]:
    """Return a random order of the rows, int64 (n_rows,)."""
    key = derived_key(random_key(seed, Purpose.PERMUTATION, repeat), feature)
    return np.argsort(random_bits(key, np.arange(n_rows)), kind="stable")
