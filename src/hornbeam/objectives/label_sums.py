"""What objectives start from: sums over labels and weights, wherever these are.

All are exact sums (fixed_point.exact_sum), so that they do not depend on the order of the rows.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import exact_sum
from hornbeam.core.lazy import lazy

FloatArray = NDArray[np.float64]


class LabelSums(Protocol):
    """Means of the labels of a data set; backends/gpu/data/columns.py has them of labels on a device."""

    def mean(self) -> float:
        """Return the (weighted) mean label."""

    def mean_of_class(self, number: int) -> float:
        """Return the (weighted) mean of what is 1 where the label is this class, and 0 elsewhere."""

    def share_of_class(self, number: int) -> float:
        """Return the rows of a class, or their weights, by those of all rows."""


class HostSums:
    """The sums of labels in host memory: the definition.

    label   float64 (n_rows,)  in
    weight  float64 (n_rows,)  in  or None: all ones
    """

    def __init__(self, label: FloatArray, weight: FloatArray | None) -> None:
        self._label, self._weight = label, weight

    def column(self, number: int) -> HostSums:
        """Return the sums of one column of labels that are float64 (n_rows, n_columns)."""
        return HostSums(np.ascontiguousarray(self._label[:, number]), self._weight)

    @lazy
    def _total(self) -> float:
        return float(len(self._label)) if self._weight is None else exact_sum(self._weight)

    @lazy
    def _counts(self) -> NDArray[np.int64]:
        """Rows of each class that there is."""
        return np.bincount(self._label.astype(np.int64))

    def mean(self) -> float:
        """Return sum(label * weight) / sum(weight)."""
        return weighted_mean(self._label, self._weight)

    def mean_of_class(self, number: int) -> float:
        """Return sum((label == number) * weight) / sum(weight)."""
        values = (self._label == number).astype(np.float64)
        return exact_sum(values if self._weight is None else values * self._weight) / self._total

    def share_of_class(self, number: int) -> float:
        """Return sum(weight[label == number]) / sum(weight)."""
        if self._weight is None:
            return (int(self._counts[number]) if number < len(self._counts) else 0) / self._total
        return exact_sum(self._weight[self._label == number]) / self._total


def weighted_mean(values: FloatArray, weight: FloatArray | None) -> float:
    """Return sum(values * weight) / sum(weight) in exact sums, whatever the order of the rows.

    values  float64 (n_rows,)  in
    weight  float64 (n_rows,)  in  or None: all ones
    """
    if weight is None:
        return exact_sum(values) / len(values)
    return exact_sum(values * weight) / exact_sum(weight)
