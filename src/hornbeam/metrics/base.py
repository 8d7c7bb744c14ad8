"""What a metric is, and the means that most of them are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.fixed_point import exact_sum
from hornbeam.data.columns import DeviceColumn, host_of
from hornbeam.objectives.base import FloatArray, Objective, first_wrong_label

if TYPE_CHECKING:
    from hornbeam.dataset.dataset import Dataset
    from hornbeam.params.params import Params

OUTSIDE: dict[str, tuple[str, Callable[[FloatArray], NDArray[np.bool_]]]] = {
    "positive": ("<= 0", lambda label: label <= 0.0),
    "nonnegative": ("< 0", lambda label: label < 0.0),
    "unit": ("outside [0, 1]", lambda label: (label < 0.0) | (label > 1.0)),
}
"""By domain of the labels: what lies outside, in words and as a test of float64 (n_rows,)."""


class Metric(ABC):
    """A figure of merit on one data set, equal bit for bit whatever the order of the rows and the number of threads.

    Attributes
    ----------
    name
        Canonical name, which is LightGBM's.
    higher_is_better
        Whether early stopping looks for a maximum.
    for_classes
        Whether the metric takes one score a class (multi_logloss, multi_error) or a single score a row.
    labels
        Labels that the metric has a meaning for: "real", "positive", "nonnegative" or "unit" (0 to 1).
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = False
    for_classes: ClassVar[bool] = False
    labels: ClassVar[str] = "real"

    @classmethod
    def from_params(cls, params: Params) -> Metric:
        """Build the metric; those with constants take them from the training parameters."""
        return cls()

    @abstractmethod
    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        n_threads: int = 1,
    ) -> float:
        """Evaluate the metric.

        label       float64 (n_rows,)            in
        raw_scores  float64 (n_outputs, n_rows)  in   C order
        weight      float64 (n_rows,)            in   or None
        objective   its `transform` turns raw scores into predictions
        n_threads   threads to use; cannot be seen in the result
        """

    def evaluate(
        self, dataset: Dataset, raw_scores: FloatArray, objective: Objective, n_threads: int = 1
    ) -> list[tuple[str, float]]:
        """Return names and values on a data set: one pair, except for metrics of several ranks.

        raw_scores  float64 (n_outputs, n_rows)  in   C order
        """
        assert dataset.label is not None
        return [(self.name, self(dataset.label, raw_scores, dataset.weight, objective, n_threads))]

    def check(self, dataset: Dataset, where: str) -> None:
        """Raise DataError unless the metric can be evaluated on a data set, which messages call `where`."""
        label = dataset.given("label")
        if label is None:
            raise DataError(f"{where} has no labels to evaluate {self.name} on; pass label=")
        if self.labels != "real" and not (isinstance(label, DeviceColumn) and label.facts.lie_in(self.labels)):
            (text, is_wrong), on_host = OUTSIDE[self.labels], host_of(label)
            found = first_wrong_label(on_host, is_wrong(on_host))
            if found is not None:
                raise DataError(
                    f"metric {self.name!r} takes no label {text}, but in {where} {found}; name another metric, or mend "
                    "the labels"
                )

    def __repr__(self) -> str:
        return f"<metric {self.name}>"


class MeanLoss(Metric):
    """The (weighted) mean of a loss of each row.

    `losses` and `definition` are the NumPy definition; a call uses the twins of backends/cpu/losses/evaluation.py.
    """

    uses_raw_scores: ClassVar[bool] = False
    """Whether the loss looks at raw scores instead of predictions."""

    @property
    def constants(self) -> tuple[float, float] | None:
        """The constants a and b that the kernel takes first; None: it takes none."""
        return None

    @abstractmethod
    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Return the loss of each row, float64 (n_rows,).

        label        float64 (n_rows,)            in
        predictions  float64 (n_outputs, n_rows)  in   raw scores if `uses_raw_scores`
        """

    def definition(
        self, label: FloatArray, raw_scores: FloatArray, weight: FloatArray | None, objective: Objective
    ) -> float:
        """Evaluate the metric with NumPy alone: sum(loss * weight) / sum(weight), in exact sums.

        Arguments as in a call. The result is NaN where a loss is NaN or infinite.
        """
        if self.for_classes:
            check_classes(label, len(raw_scores))
        predictions = raw_scores if self.uses_raw_scores else objective.transform(raw_scores)
        losses = self.losses(label, predictions)
        if weight is not None:
            losses = losses * weight
        if not np.isfinite(losses).all():
            return float("nan")
        return self.finish(exact_sum(losses) / (len(label) if weight is None else exact_sum(weight)))

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        n_threads: int = 1,
    ) -> float:
        """Evaluate the metric with compiled kernels; arguments as in `Metric.__call__`."""
        from hornbeam.backends.cpu.losses.evaluation import mean_loss
        from hornbeam.backends.cpu.losses.gradients import transform_scores

        if self.for_classes:
            check_classes(label, len(raw_scores))
        predictions = raw_scores if self.uses_raw_scores else transform_scores(objective, raw_scores, n_threads)
        return self.finish(mean_loss(self.name, label, predictions, weight, n_threads, self.constants))

    def finish(self, mean: float) -> float:
        """Turn the mean loss into the metric; the identity except for rmse."""
        return mean


def check_classes(label: FloatArray, n_outputs: int) -> None:
    """Raise DataError unless every label is one of n_outputs classes; kernels index by the label unchecked.

    label  float64 (n_rows,)  in
    """
    low, high = float(label.min()), float(label.max())
    if not (low >= 0.0 and high < n_outputs):
        raise DataError(
            f"metrics of {n_outputs} classes take labels 0 to {n_outputs - 1}, but the labels go from {low} to {high}; "
            "recode the classes or raise num_class"
        )


def is_positive(label: FloatArray) -> NDArray[np.bool_]:
    """Say which rows are of the positive class, for metrics of two classes: label > 0 (as LightGBM)."""
    return label > 0.0
