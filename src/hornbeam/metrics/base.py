"""What a metric is, and the means that most of them are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.columns import DeviceColumn, host_of
from hornbeam.data.fields import Fields
from hornbeam.metrics.arithmetic import NUMPY, Arithmetic
from hornbeam.objectives.base import FloatArray, Objective, first_wrong_label
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
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Evaluate the metric.

        label       float64 (n_rows,)            in
        raw_scores  float64 (n_outputs, n_rows)  in   C order
        weight      float64 (n_rows,)            in   or None
        objective   its `transform` turns raw scores into predictions
        arithmetic  NumPy or kernels; cannot be seen in the result
        """

    def evaluate(
        self, dataset: Fields, raw_scores: FloatArray, objective: Objective, arithmetic: Arithmetic = NUMPY
    ) -> list[tuple[str, float]]:
        """Return names and values on a data set: one pair, except for metrics of several ranks.

        raw_scores  float64 (n_outputs, n_rows)  in   C order
        """
        assert dataset.label is not None
        return [(self.name, self(dataset.label, raw_scores, dataset.weight, objective, arithmetic))]

    def check(self, dataset: Fields, where: str) -> None:
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
    """The (weighted) mean of a loss of each row."""

    uses_raw_scores: ClassVar[bool] = False
    """Whether the loss looks at raw scores instead of predictions."""
    weight_in_loss: ClassVar[bool] = False
    """Whether the weight of a row is part of its loss, and does not multiply it."""
    has_kernel: bool = True
    """Whether kernels know the loss; where they do not, NumPy runs."""

    @property
    def constants(self) -> tuple[float, float] | None:
        """The constants a and b that the kernel takes first; None: it takes none."""
        return None

    def with_weights(self, label: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Return what `losses` takes as labels, and the weights that multiply its result.

        label   float64 (n_rows,)  in   or as `targets` returns it
        weight  float64 (n_rows,)  in   or None

        Weights that are part of a loss come behind the labels, float64 (2, n_rows).
        """
        if not self.weight_in_loss:
            return label, weight
        return np.array([label, np.ones(len(label)) if weight is None else weight]), None

    def targets(self, dataset: Fields) -> FloatArray:
        """Return what `losses` takes as labels: those of a data set, float64 (n_rows,)."""
        assert dataset.label is not None
        return dataset.label

    def evaluate(
        self, dataset: Fields, raw_scores: FloatArray, objective: Objective, arithmetic: Arithmetic = NUMPY
    ) -> list[tuple[str, float]]:
        """Return name and value; arguments as in `Metric.evaluate`."""
        return [(self.name, self(self.targets(dataset), raw_scores, dataset.weight, objective, arithmetic))]

    @abstractmethod
    def losses(self, label: FloatArray, predictions: FloatArray) -> FloatArray:
        """Return the loss of each row, float64 (n_rows,).

        label        float64 (n_rows,)            in
        predictions  float64 (n_outputs, n_rows)  in   raw scores if `uses_raw_scores`
        """

    def __call__(
        self,
        label: FloatArray,
        raw_scores: FloatArray,
        weight: FloatArray | None,
        objective: Objective,
        arithmetic: Arithmetic = NUMPY,
    ) -> float:
        """Return the mean loss, finished; NaN where a loss is NaN or infinite. Arguments as in `Metric.__call__`."""
        if self.for_classes:
            check_classes(label, len(raw_scores))
        predictions = raw_scores if self.uses_raw_scores else arithmetic.transform(objective, raw_scores)
        of_losses = arithmetic if self.has_kernel else NUMPY
        label, weight = self.with_weights(label, weight)
        return self.finish(of_losses.mean_loss(self, label, predictions, weight))

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
