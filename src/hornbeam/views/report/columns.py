"""What the columns of data are like, and how far two data sets are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.views.plots.seen import SeeingModel, number_text

FloatArray = NDArray[np.float64]

N_BARS = 16
MAX_LEVELS_SHOWN = 5


@dataclass(frozen=True)
class Column:
    """What a feature is like in a sample of rows.

    bars   float64 (n_bars,)  shares of the rows by value, or of the most frequent levels
    other  the same of a second data set, or None
    drift  population stability index between both; NaN without a second one
    """

    feature: int
    kind: str
    missing: float
    distinct: int
    summary: str
    bars: FloatArray
    other: FloatArray | None
    drift: float


def describe(model: SeeingModel, feature: int, values: FloatArray, other: FloatArray | None) -> Column:
    """Describe a feature.

    values, other  float64 (n,)  in   rows of the data, and of the training data or None
    """
    missing, known = float(np.isnan(values).mean()), values[~np.isnan(values)]
    distinct = len(np.unique(known))
    if model.is_categorical(feature):
        counts = np.bincount(known.astype(np.int64), minlength=1)
        often = [code for code in np.argsort(-counts, kind="stable").tolist() if counts[code] > 0]
        shown = [model.value_text(feature, code) for code in often[:MAX_LEVELS_SHOWN]]
        summary = ", ".join(shown) + (f", … ({len(often)} levels)" if len(often) > len(shown) else "")
        bins = np.arange(min(max(len(counts), 1), N_BARS) + 1, dtype=np.float64) - 0.5
        kind = "categorical"
    else:
        kind = "number" if model.booster.levels is None or model.booster.levels[feature] is None else "encoded levels"
        finite = known[np.isfinite(known)]
        ends = (known.min(), np.median(finite), known.max()) if len(finite) else ()
        summary = "\u00a0·\u00a0".join(number_text(float(value)) for value in ends)  # on one line
        bins = _edges(finite, other)
    return Column(
        feature, kind, missing, distinct, summary, _shares(known, bins),
        None if other is None else _shares(other[~np.isnan(other)], bins),
        float("nan") if other is None else drift(other, values, model.is_categorical(feature)),
    )  # fmt: skip


def _edges(values: FloatArray, other: FloatArray | None) -> FloatArray:
    """Return where the bars of a number begin and end: around each of a few values, else of equal width."""
    several = np.unique(values if other is None else np.append(values, other[np.isfinite(other)]))
    if 1 < len(several) <= N_BARS:
        return np.concatenate(([-np.inf], (several[:-1] + several[1:]) / 2.0, [np.inf]))
    low, high = np.quantile(values, (0.01, 0.99)) if len(values) else (0.0, 1.0)
    return np.linspace(low, high if high > low else low + 1.0, N_BARS + 1)


def _shares(known: FloatArray, bins: FloatArray) -> FloatArray:
    counts, _ = np.histogram(known[np.isfinite(known)], bins)
    return counts / max(len(known), 1)


def drift(before: FloatArray, after: FloatArray, is_categorical: bool) -> float:
    """Return the population stability index: sum of (p - q) * log(p / q) over groups of values; 0: no change.

    before, after  float64 (n,)  in   groups are the tenths of `before`, or levels; what is missing is a group too

    Half a row is added to every group, so that empty ones have a logarithm.
    """
    known, now = before[~np.isnan(before)], after[~np.isnan(after)]
    if is_categorical:
        edges = np.arange(max(known.max(initial=0.0), now.max(initial=0.0)) + 1.0)
    else:
        finite = known[np.isfinite(known)]
        edges = np.unique(np.quantile(finite, np.linspace(0.1, 0.9, 9))) if len(finite) else np.zeros(1)

    def shares(values: FloatArray, n_all: int) -> FloatArray:
        groups = np.searchsorted(edges, values, "left")
        counts = np.append(np.bincount(groups, minlength=len(edges) + 1), n_all - len(values)) + 0.5
        parts: FloatArray = counts / counts.sum()
        return parts

    p, q = shares(known, len(before)), shares(now, len(after))
    return float(np.sum((p - q) * np.log(p / q)))
