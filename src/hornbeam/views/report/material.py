"""What a report is made of: the model, data with labels, samples of rows, and what explains them.

Everything is computed when a section first asks for it, once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, HornbeamError, ParameterError
from hornbeam.core.lazy import lazy
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import Metric
from hornbeam.metrics.base import MeanLoss
from hornbeam.model.booster import Booster
from hornbeam.params.params import whole_number
from hornbeam.views.plots.contributions import contributions, interactions
from hornbeam.views.plots.importances import importance
from hornbeam.views.plots.learning import History, history_of
from hornbeam.views.plots.models import Judged, dataset_of, judge, task_of
from hornbeam.views.plots.seen import SeeingModel, choose_rows
from hornbeam.views.report.intervals import chosen_metrics, row_losses

FloatArray = NDArray[np.float64]

TABLE_VALUES = 20_000_000
"""Values of a sample of rows in memory at most."""
TABLE_ROWS = 20_000
"""Rows that columns are described by."""
INTERACTION_ROWS, INTERACTION_FEATURES = 200, 60
"""Rows that pairs of features are explained in, and most features of a model for that: pairs take n_features times
as long as single features."""
WORST = 8
"""Rows with the largest errors that are shown."""


@dataclass
class Choices:
    """What the user asked for; see `hornbeam.views.report.write_report`."""

    evals_result: History | None = None
    slices: Sequence[str] | Mapping[str, Any] | None = None
    metrics: Sequence[str] | None = None
    class_names: Sequence[Any] | None = None
    title: str | None = None
    notes: Mapping[str, Any] | None = None
    costs: tuple[float, float] = (1.0, 1.0)
    sample_rows: int = 1000
    bootstrap: int = 200

    def __post_init__(self) -> None:
        whole_number(self.sample_rows, "sample_rows", 1)
        whole_number(self.bootstrap, "bootstrap", 0)
        costs: Any = self.costs
        if not (isinstance(costs, tuple) and len(costs) == 2 and all(0.0 <= float(cost) < np.inf for cost in costs)):
            raise ParameterError(f"costs={costs!r}: pass two numbers, of a false positive and of a false negative")
        if self.evals_result is not None:
            if not isinstance(self.evals_result, Mapping):
                raise ParameterError("evals_result must be a dict of lists by data set and metric")
            history_of(self.evals_result)
        if self.notes is not None and not isinstance(self.notes, Mapping):
            raise ParameterError(f"notes must be a dict of texts, not {type(self.notes).__name__}")
        if isinstance(self.slices, str):
            raise ParameterError(f"slices={self.slices!r}: pass a list of feature names, or a dict of values by name")


@dataclass
class Material:
    """The model, its data, and what is computed from both; None where there are no data.

    seconds   time of every part of the report
    left_out  parts that could not be made, and why
    """

    booster: Booster
    valid: Dataset | None
    train: Dataset | None
    choices: Choices
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    begin: float = field(default_factory=time.perf_counter)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add the time of a block to the timings of the report."""
        begin = time.perf_counter()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - begin

    @lazy
    def seeing(self) -> SeeingModel:
        """The model for rows as it sees them."""
        return SeeingModel(self.booster)

    @property
    def task(self) -> str:
        """What kind of predictions the model makes."""
        return task_of(self.booster)

    @property
    def history(self) -> tuple[History, int] | None:
        """Evaluations during training, and the best iteration; None: there are none."""
        if self.choices.evals_result is not None:
            return self.choices.evals_result, self.booster.n_best
        return (self.booster.eval_history, self.booster.n_best) if self.booster.eval_history else None

    @lazy
    def judged(self) -> Judged | None:
        """Predictions beside the labels of the validation data."""
        if self.valid is None:
            return None
        with self.timed("prediction"):
            return judge(self.booster, self.valid, class_names=self.choices.class_names)

    @lazy
    def metrics(self) -> list[Metric]:
        """The metrics of the report."""
        if self.judged is None or self.valid is None:
            return []
        return chosen_metrics(self.judged, self.valid, self.choices.metrics)

    @lazy
    def losses(self) -> tuple[str, FloatArray] | None:
        """Name and values of the loss of every row, float64 (n_rows,); None: the first metric has none."""
        for metric in self.metrics:
            if isinstance(metric, MeanLoss) and self.judged is not None and metric.name not in _STEPS:
                return metric.name, row_losses(self.judged, metric)
        return None

    def columns_of(self, dataset: Dataset) -> FloatArray:
        """Return a sample of rows to describe columns by, float64 (n, n_features)."""
        limit = min(TABLE_ROWS, max(TABLE_VALUES // self.booster.n_features, 100))
        reader = self.seeing.open(dataset)
        return self.seeing.read(reader.take(choose_rows(reader.n_rows, limit)))

    @lazy
    def sample(self) -> NDArray[np.int64]:
        """Numbers of the rows that are explained, ascending."""
        if self.valid is None:
            return np.empty(0, np.int64)
        limit = min(self.choices.sample_rows, max(TABLE_VALUES // self.booster.n_features, 50))
        return choose_rows(self.valid.n_rows, limit)

    def table(self, rows: NDArray[np.int64]) -> Any:
        """Return some rows of the validation data, as a table that `predict` takes."""
        assert self.valid is not None
        return self.seeing.open(self.valid).take(rows)

    @lazy
    def sample_values(self) -> FloatArray:
        """The sampled rows, float64 (n, n_features)."""
        return self.seeing.read(self.table(self.sample))

    def explained(self, rows: NDArray[np.int64]) -> FloatArray | None:
        """Return contributions of features in some rows, float64 (n_outputs, n, n_features + 1); None: not offered."""
        if self.valid is None:
            return None
        try:
            with self.timed("contributions"):
                return contributions(self.booster, self.table(rows))
        except HornbeamError as error:
            self.left_out["contributions"] = str(error)
            return None

    @lazy
    def sample_contributions(self) -> FloatArray | None:
        """Contributions in the sampled rows."""
        return self.explained(self.sample)

    @lazy
    def pair_contributions(self) -> FloatArray | None:
        """Mean size of what pairs of features add, float64 (n_features, n_features); None: not offered."""
        if self.valid is None or self.booster.n_features > INTERACTION_FEATURES:
            return None
        try:
            with self.timed("interactions"):
                found = interactions(self.booster, self.table(self.sample[:INTERACTION_ROWS]))
        except HornbeamError as error:
            self.left_out["pairs"] = str(error)
            return None
        sizes: FloatArray = np.abs(found[:, :, :-1, :-1]).mean(axis=1).sum(axis=0)
        return sizes + sizes.T  # a pair has half of what it adds in either place

    @lazy
    def shown_output(self) -> int:
        """The output whose contributions are drawn: of several classes the most frequent one."""
        if self.judged is None or self.booster.n_outputs == 1:
            return 0
        return int(np.argmax(np.bincount(self.judged.label.astype(np.int64), minlength=self.booster.n_outputs)))

    @lazy
    def order(self) -> NDArray[np.intp]:
        """Features from the most important down: by contributions, else by gain."""
        if self.sample_contributions is not None:
            size = np.abs(self.sample_contributions[:, :, :-1]).mean(axis=1).sum(axis=0)
        else:
            size = importance(self.booster, "gain")
        return np.argsort(-size, kind="stable")

    @lazy
    def worst(self) -> NDArray[np.int64]:
        """Numbers of the rows with the largest loss, the largest first."""
        if self.losses is None:
            return np.empty(0, np.int64)
        _, losses = self.losses
        weighed = losses if self.valid is None or self.valid.weight is None else losses * (self.valid.weight > 0)
        return np.argsort(-weighed, kind="stable")[:WORST].astype(np.int64)


_STEPS = ("binary_error", "multi_error")
"""Losses that are 0 or 1: they put rows in no order."""


def gather(booster: Booster, valid: Any, train: Any, choices: Choices) -> Material:
    """Check the data, which messages then call by their argument."""
    material = Material(booster, None, None, choices)
    if valid is not None:
        material.valid = _checked(material, valid, "valid")
        if material.valid.label is None:
            raise DataError("valid has no labels; pass a Dataset with label=, or a pair (table, labels)")
        booster.objective.check_labels(material.valid.label)
        if material.task == "ranking" and material.valid.query_boundaries is None:
            raise DataError("valid has no queries, which a ranking is judged by; pass a Dataset with group= or qid=")
    if train is not None:
        material.train = _checked(material, train, "train")
    return material


def _checked(material: Material, data: Any, name: str) -> Dataset:
    try:
        dataset = dataset_of(data, name=name)
        material.seeing.open(dataset)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return dataset
