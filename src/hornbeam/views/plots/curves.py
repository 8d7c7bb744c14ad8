"""Curves that judge predictions, as arrays: ROC, precision and recall, calibration, confusion. NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Thresholds:
    """What is called positive at every threshold, `score >= threshold`, from the highest threshold down.

    threshold  float64 (n,)  inf, then the distinct scores, falling
    tp, fp     float64 (n,)  weight of the positives and negatives at or above it
    """

    threshold: FloatArray
    tp: FloatArray
    fp: FloatArray

    @property
    def recall(self) -> FloatArray:
        """Share of the positives that are called so: the true positive rate; 1 where there is none."""
        return self.tp / self.tp[-1] if self.tp[-1] > 0 else np.ones_like(self.tp)

    @property
    def fall_out(self) -> FloatArray:
        """Share of the negatives that are called positive: the false positive rate; 1 where there is none."""
        return self.fp / self.fp[-1] if self.fp[-1] > 0 else np.ones_like(self.fp)

    @property
    def precision(self) -> FloatArray:
        """Share of what is called positive that is so; 1 where nothing is called so."""
        called = self.tp + self.fp
        return np.divide(self.tp, called, out=np.ones_like(called), where=called > 0)

    @property
    def auc(self) -> float:
        """Area under the ROC curve."""
        return float(np.sum(np.diff(self.fall_out) * (self.recall[1:] + self.recall[:-1])) / 2.0)

    @property
    def average_precision(self) -> float:
        """Mean of the precision over the recall, by steps."""
        return float(np.sum(np.diff(self.recall) * self.precision[1:]))


def thresholds(positive: NDArray[np.bool_], score: FloatArray, weight: FloatArray | None = None) -> Thresholds:
    """Count positives and negatives at every distinct score.

    positive  bool (n_rows,)     in
    score     float64 (n_rows,)  in
    weight    float64 (n_rows,)  in   or None
    """
    order = np.argsort(-score, kind="stable")
    ranked, is_positive = score[order], positive[order]
    each = np.ones(len(score)) if weight is None else weight[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # of the rows of one score
    tp, fp = np.cumsum(each * is_positive)[last], np.cumsum(each * ~is_positive)[last]
    return Thresholds(np.append(np.inf, ranked[last]), np.append(0.0, tp), np.append(0.0, fp))


@dataclass(frozen=True)
class Calibration:
    """Predicted and seen share of positives in groups of rows of like predictions, each float64 (n_groups,).

    low, high  bounds of the Wilson interval of 95 %
    """

    predicted: FloatArray
    seen: FloatArray
    weight: FloatArray
    low: FloatArray
    high: FloatArray


def calibration(
    label: FloatArray, probability: FloatArray, weight: FloatArray | None = None, n_groups: int = 10
) -> Calibration:
    """Compare probabilities with labels in groups of about as many rows; equal predictions stay together.

    label, probability, weight  float64 (n_rows,)  in
    """
    edges = np.unique(np.quantile(probability, np.linspace(0.0, 1.0, n_groups + 1)))
    group = np.clip(np.searchsorted(edges, probability, "left") - 1, 0, max(len(edges) - 2, 0))
    each = np.ones(len(label)) if weight is None else weight
    size = np.bincount(group, each).astype(np.float64)
    kept = size > 0
    total, count = size[kept], np.bincount(group)[kept].astype(np.float64)
    predicted = np.bincount(group, each * probability)[kept] / total
    seen = np.bincount(group, each * label)[kept] / total
    z2 = 1.96**2
    middle = (seen + z2 / (2.0 * count)) / (1.0 + z2 / count)
    half = np.sqrt(seen * (1.0 - seen) * z2 / count + (z2 / (2.0 * count)) ** 2) / (1.0 + z2 / count)
    return Calibration(predicted, seen, total, middle - half, middle + half)


def confusion(
    label: NDArray[np.int64], predicted: NDArray[np.int64], n_classes: int, weight: FloatArray | None = None
) -> FloatArray:
    """Return the weight of the rows by class and predicted class, float64 (n_classes, n_classes).

    label, predicted  int64 (n_rows,)  in   0 to n_classes - 1
    """
    places = label * n_classes + predicted
    return np.bincount(places, weight, minlength=n_classes**2).astype(np.float64).reshape(n_classes, n_classes)


def thinned(x: FloatArray, y: FloatArray, limit: int = 200) -> NDArray[np.intp]:
    """Return which points of a curve to draw: at most `limit`, evenly along it, with both ends.

    x, y  float64 (n,)  in
    """
    if len(x) <= limit:
        return np.arange(len(x))

    def steps(values: FloatArray) -> FloatArray:
        span = float(np.ptp(values)) or 1.0
        return np.abs(np.diff(values)) / span

    along = np.append(0.0, np.cumsum(steps(x) + steps(y)))
    wanted = np.linspace(0.0, along[-1], limit)
    return np.unique(np.append(np.searchsorted(along, wanted * (1.0 - 1e-12)), len(x) - 1))
